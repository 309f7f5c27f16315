// Measures the page in Chromium with software rendering:
//
//     node dev/measure.mjs --url http://127.0.0.1:8099 overview map heatmap
//
// For each view it prints the time of script and drawing commands for each slot (updates), the same
// while the pointer moves and the wheel turns, and the intervals between frames.
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string", default: "http://127.0.0.1:8099" },
    seconds: { type: "string", default: "15" },
  },
});
const seconds = Number(values.seconds);

function quantile(times, share) {
  const sorted = [...times].sort((x, y) => x - y);
  return sorted.length === 0
    ? Number.NaN
    : sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

const show = (times) =>
  `p50 ${quantile(times, 0.5).toFixed(1)}, p95 ${quantile(times, 0.95).toFixed(1)} ms (${times.length})`;

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
// The CPU time of the page's thread does not depend on what else runs on the machine.
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });

async function cpu() {
  const { metrics } = await session.send("Performance.getMetrics");
  return Object.fromEntries(metrics.map(({ name, value }) => [name, 1000 * value]));
}

const requests = [];
page.on("response", async (response) => {
  const size = await response
    .request()
    .sizes()
    .catch(() => null);
  requests.push({ url: response.url(), octets: size?.responseBodySize ?? 0 });
});
await page.goto(values.url);
await page.waitForTimeout(3000);
const paint = await page.evaluate(() =>
  performance.getEntriesByType("paint").map(({ name, startTime }) => [name, startTime]),
);
for (const [name, time] of paint) console.log(`${name}: ${time.toFixed(0)} ms`);
const own = requests.filter(({ url }) => !url.includes("/api/"));
console.log(
  `page: ${own.reduce((sum, { octets }) => sum + octets, 0)} octets in ${own.length} files`,
);

for (const view of positionals) {
  await page.goto(`${values.url}/#/${view}`);
  await page.waitForTimeout(4000);
  await page.evaluate(() => {
    window.ibnet.updateTimes.length = 0;
  });
  const first = await cpu();
  await page.waitForTimeout(1000 * seconds);
  const last = await cpu();
  const updates = await page.evaluate(() => [...window.ibnet.updateTimes]);
  console.log(`${view}: updates ${show(updates)}`);
  const mean = (name) => ((last[name] - first[name]) / seconds).toFixed(1);
  console.log(
    `${view}: CPU ms a second: script ${mean("ScriptDuration")}, style ${mean("RecalcStyleDuration")}, layout ${mean("LayoutDuration")}, all tasks ${mean("TaskDuration")}`,
  );
  const picture = await page.$(".picture");
  if (picture === null) continue;
  // Handlers run in the tasks of pointer events: their durations are measured around the handlers.
  await page.evaluate(() => {
    window.handled = [];
    const target = document.querySelector(".picture");
    let start = 0;
    for (const type of ["pointermove", "wheel"]) {
      document.addEventListener(
        type,
        () => {
          start = performance.now();
        },
        { capture: true, passive: true },
      );
      document.addEventListener(
        type,
        (event) => {
          if (target.contains(event.target)) window.handled.push(performance.now() - start);
        },
        { passive: true },
      );
    }
  });
  const box = await picture.boundingBox();
  for (let step = 0; step < 60; step++) {
    await page.mouse.move(
      box.x + box.width * (0.2 + 0.01 * step),
      box.y + box.height * (0.3 + 0.3 * Math.sin(step / 9)),
    );
    if (step % 3 === 0) await page.mouse.wheel(0, step < 30 ? -100 : 100);
  }
  console.log(`${view}: pointer and wheel ${show(await page.evaluate(() => window.handled))}`);
}
await browser.close();
