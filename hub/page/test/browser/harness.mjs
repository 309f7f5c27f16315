// Starts a hub and Chromium for the browser tests.
//
// `IBNET_HUB` names the program ibnet-hub, and `IBNET_RECORDS` a folder with the records of each
// sampler and the configuration of the hub (`hub/tests/page.rs` writes it). Without them the tests
// use the generated fabric of `dev/`. With `IBNET_PROXY` the tests use the page in `dist/` and only
// the interface of the hub. `IBNET_OUT` is the folder for pictures.
//
// A test sends the records slot by slot. So the hub and the page have the same slot until the test
// sends the next one, and no result depends on the speed of the machine.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../..", import.meta.url));
const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Milliseconds after which a test that hangs fails. It is no limit of speed. */
const HANGS = 600_000;
/** Milliseconds between two signs of life of the samplers. The hub calls them silent after 3000. */
const ALIVE_EVERY = 500;

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
  "health",
  "jobs",
  "groups",
  "events",
  "samplers",
  "alerts",
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

/** Opens a server at a free port. Returns the port. `handle` gets each connection. */
async function serve(handle) {
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    handle(socket);
  });
  server.unref();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server.address().port;
}

/** Sends the records of samplers to a hub, slot by slot. */
class Feed {
  /** Slots in order: the lines of each sampler, and its `sweep` record. */
  slots = [];
  /** Names of the samplers. */
  samplers = [];
  /** Number of the slots that were sent. */
  sent = 0;
  starts = "";
  history = "";
  lost = new Set();
  sockets = new Set();

  static async open(folder) {
    const feed = new Feed();
    const slots = new Map();
    const files = (await readdir(folder)).filter((name) => name.endsWith(".jsonl")).sort();
    for (const file of files) {
      const sampler = file.slice(0, -".jsonl".length);
      feed.samplers.push(sampler);
      const lines = (await readFile(`${folder}/${file}`, "utf8")).split("\n");
      for (const line of lines.filter((line) => line !== "")) {
        if (line.startsWith('{"type":"start"')) {
          feed.starts += `${line}\n`;
          continue;
        }
        const slot = Number(/"slot":(\d+)/.exec(line)[1]);
        if (!slots.has(slot)) slots.set(slot, new Map());
        const parts = slots.get(slot);
        if (!parts.has(sampler)) parts.set(sampler, { rest: "", sweep: "" });
        const part = parts.get(sampler);
        if (line.startsWith('{"type":"sweep"')) part.sweep = `${line}\n`;
        else part.rest += `${line}\n`;
      }
    }
    feed.slots = [...slots].sort(([x], [y]) => x - y).map(([slot, parts]) => ({ slot, parts }));
    feed.port = await serve((socket) => {
      feed.sockets.add(socket);
      socket.on("close", () => feed.sockets.delete(socket));
      socket.write(feed.starts + feed.history);
    });
    setInterval(() => feed.live(), ALIVE_EVERY).unref();
    return feed;
  }

  /** Returns the number of the newest slot that was sent. */
  get last() {
    return this.slots[this.sent - 1].slot;
  }

  /** Returns the records of one type for samplers that are not lost. */
  lines(slot, part) {
    const parts = [...slot.parts].filter(([sampler]) => !this.lost.has(sampler));
    return parts.map(([, lines]) => lines[part]).join("");
  }

  /** Sends slots. The `sweep` records come last, so a frame of the slot has all its values. */
  send(count) {
    const slots = this.slots.slice(this.sent, this.sent + count);
    if (slots.length < count) throw new Error("the recording has no more slots");
    const text = slots.map((slot) => this.lines(slot, "rest") + this.lines(slot, "sweep")).join("");
    this.sent += count;
    this.history += text;
    for (const socket of this.sockets) socket.write(text);
  }

  /** Sends copies of the last `sweep` records. The hub knows by them that the samplers live. */
  live() {
    if (this.sent === 0) return;
    const text = this.lines(this.slots[this.sent - 1], "sweep");
    for (const socket of this.sockets) socket.write(text);
  }
}

/** A hub that can stop and start again at the same address. */
export class TestHub {
  /** Starts the hub. It has the first `slots` of the records. */
  async start(slots) {
    if (!isSimulated) return this.startFake();
    if (this.feed === undefined) {
      const folder = process.env.IBNET_RECORDS;
      this.feed = await Feed.open(folder);
      this.feed.send(slots);
      this.folder = await mkdtemp(`${tmpdir()}/ibnet-hub-`);
      const inputs = `inputs = ["tcp://127.0.0.1:${this.feed.port}"]\n`;
      await writeFile(
        `${this.folder}/hub.toml`,
        inputs + (await readFile(`${folder}/hub.toml`, "utf8")),
      );
      // The address stays the same when the hub starts again.
      this.port = await serve((client) => {
        const hub = connect(this.hubPort, "127.0.0.1");
        hub.on("error", () => client.destroy());
        hub.on("close", () => client.destroy());
        client.on("close", () => hub.destroy());
        client.pipe(hub).pipe(client);
      });
      if (process.env.IBNET_PROXY !== undefined) await this.startProxy();
    }
    const args = ["--config", `${this.folder}/hub.toml`, "--listen", "127.0.0.1:0"];
    this.process = run(process.env.IBNET_HUB, args, { stdio: ["ignore", "pipe", "inherit"] });
    this.watch();
    this.hubPort = await new Promise((resolve, reject) => {
      let text = "";
      this.process.stdout.on("data", (data) => {
        text += data;
        const port = /:(\d+)\n/.exec(text);
        if (port !== null) resolve(Number(port[1]));
      });
      this.process.once("exit", () => reject(new Error("the hub has ended")));
    });
    await this.until(() => this.isComplete());
  }

  async startFake() {
    this.port ??= await freePort();
    const args = [`${root}dev/fake-hub.mjs`, "--port", String(this.port)];
    this.process = run(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    this.watch();
    await this.until(async () => (await this.json("health")).last_slot > 0);
  }

  watch() {
    this.exit = new Promise((resolve) => {
      this.process.once("exit", resolve);
    });
  }

  async startProxy() {
    const own = this.port;
    this.port = await freePort();
    const args = ["--port", String(this.port), "--hub", `127.0.0.1:${own}`];
    this.proxy = run(process.execPath, [`${root}dev/proxy.mjs`, ...args], { stdio: "ignore" });
  }

  /** Sends slots, and waits until the hub has them. The generated fabric sends them by itself. */
  async send(count) {
    if (!isSimulated) {
      const { last_slot } = await this.json("health");
      return this.until(async () => (await this.json("health")).last_slot >= last_slot + count);
    }
    this.feed.send(count);
    await this.until(() => this.isComplete());
  }

  /** Sends slots until `count` of them were sent. */
  async sendUntil(count) {
    if (count > this.feed.sent) await this.send(count - this.feed.sent);
  }

  /**
   * Returns whether the hub has all slots that were sent, and a topology that does not change until
   * the next slot: it has the names, the links and the samplers of the last records.
   */
  async isComplete() {
    if ((await this.json("health")).last_slot !== this.feed.last) return false;
    const { parts } = this.feed.slots[this.feed.sent - 1];
    const { ports } = await this.json("topology");
    const known = new Map(ports.map((port) => [`${port.guid}/${port.port}`, port]));
    const lines = [...parts].filter(([sampler]) => !this.feed.lost.has(sampler));
    return lines.every(([sampler, { rest }]) =>
      rest
        .split("\n")
        .filter((line) => line.startsWith('{"type":"port"'))
        .map((line) => JSON.parse(line))
        .every((record) => {
          const port = known.get(`${record.guid}/${record.port}`);
          const isOwn = record.role === "secondary" || port?.sampler === sampler;
          return isOwn && port?.node === record.node && port.link === record.link;
        }),
    );
  }

  /** Stops the hub, and the proxy too if there is one. */
  async end() {
    await this.stop();
    this.proxy?.kill();
    if (this.folder !== undefined) await rm(this.folder, { recursive: true });
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
  async until(condition) {
    const end = Date.now() + HANGS;
    for (;;) {
      try {
        if (await condition()) return;
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      if (Date.now() > end) throw new Error(`nothing happened in ${HANGS} ms: ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Returns the records of CSV. */
export function recordsOf(text) {
  const records = [[]];
  for (const [, quoted, plain, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g,
  )) {
    records.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end !== ",") records.push([]);
  }
  return records.slice(0, -1);
}

export async function openBrowser() {
  await mkdir(pictures, { recursive: true });
  return chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
}

/**
 * Starts a hub with the first `slots` of the records and a browser before the tests of a file, and
 * ends them after the tests.
 */
export function withHub(slots) {
  const shared = { hub: new TestHub() };
  if (skip) {
    console.log(skip);
    return shared;
  }
  before(async () => {
    await shared.hub.start(slots);
    shared.browser = await openBrowser();
    shared.topology = await shared.hub.json("topology");
    shared.interval = (await shared.hub.json("health")).interval_ns;
  });
  after(async () => {
    await shared.browser?.close();
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
  page.setDefaultTimeout(HANGS);
  watchRequests(page);
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
  // The records are old. The page would report that the hub has no new slot.
  if (isSimulated) {
    await page.addInitScript((now) => {
      Date.now = () => now;
    }, hub.feed.last * 1000);
  }
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(
        `content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`,
      );
    });
  });
  return { page, faults };
}

/** Opens a view and waits until it shows the newest slot of the hub and all answers. */
export async function show(page, hub, view) {
  const { last_slot } = await hub.json("health");
  await page.goto(`${hub.url}/#/${view}`);
  await page.waitForFunction(
    (slot) =>
      document.documentElement.dataset.slot >= slot && document.querySelector("main h1") !== null,
    last_slot,
  );
  await settled(page);
}

/** Requests of each page that have no answer yet. */
const open = new WeakMap();

function watchRequests(page) {
  const requests = new Map();
  open.set(page, requests);
  page.on("request", (request) => {
    const entry = {};
    entry.done = new Promise((resolve) => {
      entry.resolve = resolve;
    });
    requests.set(request, entry);
  });
  const end = (request) => {
    requests.get(request)?.resolve();
    requests.delete(request);
  };
  page.on("requestfinished", end);
  page.on("requestfailed", end);
}

/**
 * Waits until the page has drawn the answers to its requests, and to the requests that followed from
 * them. A live page repeats its requests, so it does not wait until there are none.
 */
export async function settled(page) {
  for (let round = 0; round < 3; round++) {
    // A change is drawn with the next frame, and some parts of the page with the third one.
    await page.evaluate(async () => {
      for (let frame = 0; frame < 4; frame++) await new Promise(requestAnimationFrame);
    });
    await Promise.all([...open.get(page).values()].map(({ done }) => done));
  }
}

/** Goes one slot back, and waits until the page shows it. */
export async function stepBack(page) {
  const before = await shownSlot(page);
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(
    (slot) => Number(document.documentElement.dataset.shown) < slot,
    before,
  );
  await settled(page);
}

/** Returns the slot that the page shows. */
export async function shownSlot(page) {
  return Number(await page.evaluate(() => document.documentElement.dataset.shown));
}
