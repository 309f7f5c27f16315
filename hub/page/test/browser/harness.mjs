// Starts a hub and Chromium for the browser tests.
//
// `IBNET_HUB` names the program ibnet-hub, and `IBNET_NET` a net file for `--simulate`. Without
// them the tests use the generated fabric of `dev/`. With `IBNET_PROXY` the tests use the page in
// `dist/` and only the interface of the hub. `IBNET_OUT` is the folder for pictures.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../..", import.meta.url));
const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export const pictures = process.env.IBNET_OUT ?? `${root}../../out/hub`;
export const isSimulated = process.env.IBNET_HUB !== undefined;
/** Path of Chromium, or undefined if it is not installed. */
export const browserPath = process.env.IBNET_CHROMIUM ?? browsers.find((path) => existsSync(path));
/** Reason to skip the tests, or false. */
export const skip = browserPath === undefined ? "SKIPPED: Chromium is not installed" : false;

/** Programs that run. They end with the tests, also if a signal ends the tests. */
const running = new Set();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));

function run(program, args, options) {
  const child = spawn(program, args, options);
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

/** Views without an item. */
export const VIEWS = [
  "overview",
  "map",
  "map?as=matrix",
  "heatmap",
  "links",
  "ports",
  "jobs",
  "groups",
  "events",
  "samplers",
];

async function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** A hub that can stop and start again at the same address. `config` is its configuration file. */
export class TestHub {
  constructor(config) {
    this.config = config;
  }

  async start() {
    this.port ??= await freePort();
    if (process.env.IBNET_PROXY !== undefined) await this.startProxy();
    const port = this.hubPort ?? this.port;
    const [program, ...args] = isSimulated
      ? [
          process.env.IBNET_HUB,
          ...(this.config === undefined
            ? ["--simulate", process.env.IBNET_NET]
            : ["--config", this.config]),
          "--listen",
          `127.0.0.1:${port}`,
        ]
      : [process.execPath, `${root}dev/fake-hub.mjs`, "--port", String(port)];
    this.process = run(program, args, { stdio: ["ignore", "ignore", "inherit"] });
    this.exit = new Promise((resolve) => {
      this.process.once("exit", resolve);
    });
    await this.until(async () => (await this.json("health")).last_slot > 0);
  }

  async startProxy() {
    if (this.proxy !== undefined) return;
    this.hubPort = await freePort();
    const args = ["--port", String(this.port), "--hub", `127.0.0.1:${this.hubPort}`];
    this.proxy = run(process.execPath, [`${root}dev/proxy.mjs`, ...args], { stdio: "ignore" });
  }

  /** Stops the hub, and the proxy too if there is one. */
  async end() {
    await this.stop();
    this.proxy?.kill();
  }

  async stop() {
    this.process.kill("SIGTERM");
    await this.exit;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async fetch(path) {
    const response = await fetch(`${this.url}/api/v1/${path}`);
    if (!response.ok) throw new Error(`${path}: status ${response.status}`);
    return response;
  }

  async json(path) {
    return (await this.fetch(path)).json();
  }

  /** Returns the value of a port that was read in a slot, from the records; undefined without one. */
  async value(port, metric, slot, interval) {
    const range = `from=${slot * interval}&to=${(slot + 1) * interval}`;
    const { series } = await this.json(`series?port=${port}&metric=${metric}&${range}`);
    const { t, v } = series[0];
    const index = t.findIndex((time) => Math.floor(time / interval) === slot);
    return index < 0 ? undefined : v[index];
  }

  /** Waits until a condition is true. Failures of the condition count as false. */
  async until(condition, seconds = 60) {
    const end = Date.now() + 1000 * seconds;
    for (;;) {
      try {
        if (await condition()) return;
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      if (Date.now() > end) throw new Error(`nothing happened in ${seconds} s: ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

export async function openBrowser() {
  await mkdir(pictures, { recursive: true });
  return chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
}

/** Starts a hub and a browser before the tests of a file, and ends them after the tests. */
export function withHub() {
  const shared = { hub: new TestHub() };
  if (skip) {
    console.log(skip);
    return shared;
  }
  before(async () => {
    await shared.hub.start();
    shared.browser = await openBrowser();
    shared.topology = await shared.hub.json("topology");
    shared.interval = (await shared.hub.json("health")).interval_ns;
  });
  after(async () => {
    await shared.browser.close();
    await shared.hub.end();
  });
  return shared;
}

/** Opens a page that collects its faults: errors, refused content, requests to other origins. */
export async function openPage(context, browser, hub, options = {}) {
  const page = await browser.newPage({
    viewport: { width: 1280, height: 800 },
    colorScheme: "dark",
    ...options,
  });
  context.after(() => page.close());
  page.setDefaultTimeout(90_000);
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error.stack)));
  page.on("console", (message) => {
    const isNetwork = message.text().includes("net::ERR") || message.text().includes("WebSocket");
    if (message.type() === "error" && !isNetwork) faults.push(message.text());
  });
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    const isOwn = protocol === "data:" || protocol === "blob:" || host === new URL(hub.url).host;
    if (!isOwn) faults.push(`request to another origin: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(
        `content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`,
      );
    });
  });
  return { page, faults };
}

/** Opens a view and waits until it shows a slot. */
export async function show(page, hub, view) {
  await page.goto(`${hub.url}/#/${view}`);
  await page.waitForFunction(
    () => document.documentElement.dataset.slot > 0 && document.querySelector("main h1") !== null,
  );
  await page.waitForTimeout(1200);
}

/** Returns the slot that the page shows. */
export async function shownSlot(page) {
  return Number(await page.evaluate(() => document.documentElement.dataset.shown));
}
