// Takes the pictures of README and docs/hub.md, from a hub that simulates `examples/stria.p` since six
// minutes or more:
//
//     node dev/pictures.mjs --url http://127.0.0.1:8080 --out ../../examples
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values } = parseArgs({
  options: {
    url: { type: "string", default: "http://127.0.0.1:8080" },
    out: { type: "string", default: "../../examples" },
  },
});
/** Longest time until a view is ready: an incast begins every minute. */
const LONGEST = 90_000;

const { rows } = await (await fetch(`${values.url}/api/v1/jobs`)).json();
const { job } = rows.find(({ name }) => name === "checkpoint");
const browser = await chromium.launch({
  executablePath: process.env.IBNET_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});
const page = await browser.newPage({ colorScheme: "dark" });

/** Waits until a view is ready, and takes its picture. */
async function take(name, view, ready, width = 1280) {
  await page.setViewportSize({ width, height: 800 });
  await page.goto("about:blank");
  await page.goto(`${values.url}/#/${view}`);
  await page.waitForFunction(ready, null, { timeout: LONGEST });
  // Its pictures load after its texts.
  await page.waitForSelector("main[aria-busy='false']");
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${values.out}/hub-${name}.png` });
}

await take("overview", "overview", () => {
  const cause = document.querySelector(".card .card-text")?.textContent ?? "";
  const isWhole = document.querySelector(".fault") && document.querySelector(".sampler[role]");
  return isWhole && cause.startsWith("the link is full since");
});
await take("heatmap", "heatmap", () =>
  /click opens/.test(document.querySelector(".foot")?.textContent ?? ""),
);
await take(
  "job",
  `job/${job}`,
  () => document.querySelectorAll(".job-part .table-row:not([hidden])").length > 5,
  1366,
);
await take("groups", "groups", () => document.querySelector(".group-figures b") !== null);
await browser.close();
