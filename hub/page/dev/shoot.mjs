// Takes pictures of views with Chromium:
//
//     node dev/shoot.mjs --url http://127.0.0.1:8099 --out out 'overview' 'map?metric=xmit_blocked'
import { mkdir } from "node:fs/promises";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string", default: "http://127.0.0.1:8099" },
    out: { type: "string", default: "out" },
    size: { type: "string", multiple: true, default: ["1280x800"] },
    theme: { type: "string", multiple: true, default: ["dark"] },
    wait: { type: "string", default: "2500" },
  },
});
await mkdir(values.out, { recursive: true });
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
for (const size of values.size) {
  for (const theme of values.theme) {
    const [width, height] = size.split("x").map(Number);
    const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
    page.on("console", (message) => message.type() === "error" && console.log(`${message.text()}`));
    page.on("pageerror", (error) => console.log(error.stack));
    for (const view of positionals) {
      await page.goto(`${values.url}/#/${view}`);
      await page.waitForTimeout(Number(values.wait));
      const name = view.replaceAll(/[^a-z0-9]+/gi, "-");
      await page.screenshot({ path: `${values.out}/${name}-${size}-${theme}.png` });
    }
    const times = await page.evaluate(() => window.ibnet?.updateTimes ?? []);
    const sorted = [...times].sort((x, y) => x - y);
    if (sorted.length > 0)
      console.log(
        `${size} ${theme}: p95 of ${sorted.length} updates ${sorted[Math.floor(0.95 * sorted.length)].toFixed(1)} ms`,
      );
    await page.close();
  }
}
await browser.close();
