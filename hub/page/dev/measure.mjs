// Measures the hub and its page, and prints the table of docs/performance.md:
//
//     node dev/measure.mjs --hub ../../target/release/ibnet-hub [frames pixel clients cpu memory]
//
// Times of the page are CPU times of its main thread, from a trace of Chromium with software
// rendering. Times of the hub are its user and system time.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { WebSocket } from "ws";
import { frames, quantile, trace } from "./frames.mjs";
import { slotLines, startLines } from "./records.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    hub: { type: "string", default: `${root}../../target/release/ibnet-hub` },
    net: { type: "string", default: `${root}../../examples/stria.p` },
    seconds: { type: "string", default: "30" },
  },
});
const seconds = Number(values.seconds);
const PARTS = { frames: pageFrames, pixel: slotToPixel, clients, cpu, memory };
const chosen = positionals.length > 0 ? positionals : Object.keys(PARTS);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

function row(quantity, value, how) {
  console.log(`| ${quantity} | ${value} | ${how} |`);
}

/** Starts a program and returns it with the first line of its output: its address. */
async function start(program, args, stdin = "ignore") {
  const child = spawn(program, args, { stdio: [stdin, "pipe", "ignore"] });
  children.add(child);
  const [line] = await once(child.stdout, "data");
  child.stdout.resume();
  return { child, url: String(line).trim().split("\n")[0] };
}

async function stop({ child }) {
  child.kill("SIGTERM");
  await once(child, "exit");
  children.delete(child);
}

/** Returns the user and system time of a process in seconds. Linux counts 100 ticks a second. */
async function cpuSeconds({ child }) {
  const stat = await readFile(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function residentMb({ child }) {
  const status = await readFile(`/proc/${child.pid}/status`, "utf8");
  return Number(/VmRSS:\s*(\d+)/.exec(status)[1]) / 1024;
}

const json = async ({ url }, path) => (await fetch(`${url}/api/v1/${path}`)).json();

async function openPage(url, view = "overview") {
  const browser = await chromium.launch({
    executablePath: process.env.IBNET_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  if (url !== undefined) await page.goto(`${url}/#/${view}`);
  return { browser, page };
}

const times = (all) =>
  `${quantile(all, 0.5).toFixed(1)} ms median, ${quantile(all, 0.95).toFixed(1)} ms 95th percentile`;

/** Frames of each view with 5,184 links, from the generated fabric. */
async function pageFrames() {
  const size = ["--leaves", "108", "--hosts", "23", "--spines", "24"];
  const fake = await start(process.execPath, [
    `${root}dev/fake-hub.mjs`,
    "--port",
    "8197",
    ...size,
  ]);
  const { ports } = await json(fake, "topology");
  const links = ports.filter(({ peer }, index) => peer !== null && peer > index).length;
  const { browser, page } = await openPage(fake.url);
  for (const view of ["overview", "map?as=rows", "map?as=matrix", "heatmap", "links"]) {
    await page.goto(`${fake.url}/#/${view}`);
    await sleep(5000);
    const found = frames(await trace(browser, page, () => sleep(1000 * seconds)));
    row(`a frame of ${view}, ${links} links`, times(found), `${found.length} frames, CPU time`);
  }
  await browser.close();
  await stop(fake);
}

/** The time from the newest record of a slot to the drawing, and the size of the page. */
async function slotToPixel() {
  const hub = await start(values.hub, ["--simulate", values.net, "--listen", "127.0.0.1:0"]);
  await sleep(3000);
  const { browser, page } = await openPage();
  let octets = 0;
  page.on("response", async (response) => {
    if (response.url().includes("/api/")) return;
    const sizes = await response.request().sizes();
    octets += sizes.responseBodySize;
  });
  await page.goto(hub.url);
  await sleep(1000 * seconds);
  const { delays, paint } = await page.evaluate(() => ({
    delays: window.ibnet.delays,
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  }));
  row("newest record of a slot to its drawing", times(delays.slice(3)), `${delays.length} slots`);
  row("first paint", `${paint.toFixed(0)} ms`, "first-contentful-paint");
  row("page", `${(octets / 1000).toFixed(0)} kB compressed`, "files of the page");
  await browser.close();
  await stop(hub);
}

/** 50 clients of the stream. */
async function clients() {
  const hub = await start(values.hub, ["--listen", "127.0.0.1:0", "--input", "-"], "pipe");
  await feed(hub, 8, 4);
  const metrics = ["xmit_utilization", "rcv_utilization", "xmit_blocked"];
  const counts = new Array(50).fill(0);
  const sockets = counts.map((_, index) => {
    const socket = new WebSocket(`${hub.url.replace("http", "ws")}/api/v1/live`);
    socket.on("open", () => socket.send(JSON.stringify({ metrics })));
    socket.on("message", (_, isBinary) => {
      if (isBinary) counts[index]++;
    });
    return socket;
  });
  await sleep(1000);
  const before = await cpuSeconds(hub);
  counts.fill(0);
  await feed(hub, 8, seconds);
  const used = (await cpuSeconds(hub)) - before;
  const percent = ((100 * used) / seconds).toFixed(1);
  const least = Math.min(...counts);
  row(
    "CPU, 968 ports at 1 Hz, 50 clients",
    `${percent} % of a core`,
    `each client: ${least} frames or more in ${seconds} s`,
  );
  for (const socket of sockets) socket.close();
  await stop(hub);
}

/** Writes slots of some samplers of 121 ports at their own speed. */
async function feed(hub, samplers, count, fast = false) {
  const first = Math.floor(Date.now() / 1000) - (fast ? count : 0);
  for (let slot = first; slot < first + count; slot++) {
    for (let sampler = 0; sampler < samplers; sampler++) {
      if (!hub.child.stdin.write(slotLines(sampler, slot))) await once(hub.child.stdin, "drain");
    }
    if (!fast) await sleep(Math.max(0, 1000 * (slot + 1) - Date.now()));
  }
}

/** CPU of the hub without a client. */
async function cpu() {
  const small = await start(values.hub, ["--listen", "127.0.0.1:0", "--input", "-"], "pipe");
  small.child.stdin.write(startLines(8));
  await feed(small, 8, 3);
  const before = await cpuSeconds(small);
  await feed(small, 8, seconds);
  const used = (await cpuSeconds(small)) - before;
  row(
    "CPU, 968 ports at 1 Hz, no client",
    `${((100 * used) / seconds).toFixed(1)} % of a core`,
    `${seconds} s at their own speed`,
  );
  await stop(small);
  const large = await start(values.hub, ["--listen", "127.0.0.1:0", "--input", "-"], "pipe");
  large.child.stdin.write(startLines(336));
  await feed(large, 336, 10, true);
  await settled(large, 10 * 336 * 121);
  const each = (await cpuSeconds(large)) / (10 * 336 * 121);
  row(
    "CPU, 40,656 ports at 1 Hz",
    `${(100 * each * 40_656).toFixed(0)} % of a core`,
    `${(1e6 * each).toFixed(1)} us for each of 406,560 records`,
  );
  await stop(large);
}

async function settled(hub, records) {
  for (;;) {
    const health = await json(hub, "health");
    if (health.records + health.counts.refused >= records) return health;
    await sleep(200);
  }
}

/** Memory of 15 minutes. */
async function memory() {
  const hub = await start(values.hub, ["--listen", "127.0.0.1:0", "--input", "-"], "pipe");
  hub.child.stdin.write(startLines(8));
  await feed(hub, 8, 900, true);
  const { kept, records } = await settled(hub, 900 * 968);
  const resident = (await residentMb(hub)).toFixed(0);
  row(
    "memory, 968 ports x 15 min, all counters",
    `${(kept.octets / 1e6).toFixed(0)} MB of records, ${resident} MiB resident`,
    `${records} records`,
  );
  row("memory of a record", `${(kept.octets / records).toFixed(0)} octets`, "the same");
  await stop(hub);
}

console.log("| quantity | value | how |\n|---|---|---|");
for (const part of chosen) await PARTS[part]();
