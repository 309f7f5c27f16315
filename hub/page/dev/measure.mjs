// Measures the hub and its page, and prints the table of docs/inside/performance.md:
//
//     node dev/measure.mjs [--hub ../../target/release/ibnet-hub] [--cables 1] [frames pixel clients cpu alerts memory]
//
// Times of the page are CPU times of its main thread, from a trace of Chromium with software
// rendering. Times of the hub are its user and system time. Each part has a limit of time.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { WebSocket } from "ws";
import { frames, quantile, trace } from "./frames.mjs";
import { PORTS, slotLines, startLines } from "./records.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    hub: { type: "string", default: `${root}../../target/release/ibnet-hub` },
    net: { type: "string", default: `${root}../../examples/stria.p` },
    seconds: { type: "string", default: "30" },
    // Cables between two switches of the generated fabric: 2 are 7,608 links, 1 is 5,016 links.
    cables: { type: "string", default: "2" },
  },
});
const seconds = Number(values.seconds);
const PARTS = { frames: pageFrames, pixel: slotToPixel, clients, cpu, alerts, memory };
/** Longest time of a part in seconds, beyond the time of its measurements. */
const LIMIT = 120;
const chosen = positionals.length > 0 ? positionals : Object.keys(PARTS);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const children = new Set();
process.on("exit", killAll);

function killAll() {
  for (const child of children) child.kill("SIGKILL");
  children.clear();
}

/** Writes a row. `goal` is a text; empty if the quantity has no goal. */
function row(quantity, goal, value, how) {
  console.log(`| ${quantity} | ${goal} | ${value} | ${how} |`);
}

/** Starts a program and returns it with the first line of its output: its address. */
async function start(program, args, stdin = "ignore") {
  const child = spawn(program, args, { stdio: [stdin, "pipe", "ignore"] });
  children.add(child);
  const failed = Promise.race([once(child, "error"), once(child, "exit")]).then(([reason]) => {
    throw new Error(`cannot start ${program}: it ended (found ${reason}); build it with make`);
  });
  failed.catch(() => {});
  const [line] = await Promise.race([once(child.stdout, "data"), failed]);
  child.stdout.resume();
  // A program that ends early ends its part by the limit of time, not by a broken pipe.
  child.stdin?.on("error", () => {});
  return { child, url: String(line).trim().split("\n")[0] };
}

async function stop({ child }) {
  child.kill("SIGTERM");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  children.delete(child);
}

/** Starts a hub that reads records from a pipe, without jobs of a cluster. */
const startHub = () => start(values.hub, ["--listen", "127.0.0.1:0", "--input", "-"], "pipe");

/** Returns the user and system time of a process in seconds. */
const cpuSeconds = ({ child }) => cpuOf(`/proc/${child.pid}`);

/** Returns the user and system time of the thread that looks for alerts, in seconds. */
async function alertSeconds({ child }) {
  for (const thread of await readdir(`/proc/${child.pid}/task`)) {
    const folder = `/proc/${child.pid}/task/${thread}`;
    if ((await readFile(`${folder}/comm`, "utf8")).trim() === "alerts") return cpuOf(folder);
  }
  throw new Error("the hub has no thread alerts");
}

/** Linux counts 100 ticks a second. */
async function cpuOf(folder) {
  const stat = await readFile(`${folder}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function residentMb({ child }) {
  const status = await readFile(`/proc/${child.pid}/status`, "utf8");
  return (Number(/VmRSS:\s*(\d+)/.exec(status)[1]) * 1024) / 1e6;
}

const json = async ({ url }, path) => (await fetch(`${url}/api/v1/${path}`)).json();

async function openBrowser() {
  const browser = await chromium.launch({
    executablePath: process.env.IBNET_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  return { browser, page };
}

const ms = (all, share) => `${quantile(all, share).toFixed(1)} ms`;

/** Frames of each view with more than 5,000 links, from the generated fabric. */
async function pageFrames() {
  const size = ["--leaves", "108", "--hosts", "23", "--spines", "24", "--cables", values.cables];
  const fake = await start(process.execPath, [`${root}dev/fake-hub.mjs`, "--port", "0", ...size]);
  const { ports } = await json(fake, "topology");
  const links = ports.filter(({ peer }, index) => peer !== null && peer > index).length;
  const { browser, page } = await openBrowser();
  for (const [name, view] of [
    ["overview", "overview"],
    ["map, rows", "map?as=rows"],
    ["map, matrix", "map?as=matrix"],
    ["heat map", "heatmap"],
    ["links", "links"],
  ]) {
    await page.goto(`${fake.url}/#/${view}`);
    await sleep(5000);
    const found = frames(await trace(browser, page, () => sleep(1000 * seconds)));
    const all = found.map(({ time }) => time);
    const longest = longestOfSeconds(found);
    row(
      `a frame of the view ${name}, ${links} links, 95th percentile`,
      "8 ms",
      ms(all, 0.95),
      `${all.length} frames, median ${ms(all, 0.5)}; 95th percentile of the longest frame of each second ${ms(longest, 0.95)}`,
    );
  }
  await browser.close();
  await stop(fake);
}

/** Returns the longest time of each second: most seconds have a short frame too. */
function longestOfSeconds(found) {
  const longest = new Map();
  for (const { time, at } of found) {
    const second = Math.floor(at / 1000);
    longest.set(second, Math.max(time, longest.get(second) ?? 0));
  }
  return [...longest.values()];
}

/** The time from the newest record of a slot to the drawing, and the size of the page. */
async function slotToPixel() {
  const hub = await start(values.hub, ["--simulate", values.net, "--listen", "127.0.0.1:0"]);
  await sleep(3000);
  const { browser, page } = await openBrowser();
  const sizes = [];
  page.on("requestfinished", (request) => {
    if (!request.url().includes("/api/")) sizes.push(request.sizes());
  });
  await page.goto(hub.url);
  await sleep(1000 * seconds);
  const { delays, paint } = await page.evaluate(() => ({
    delays: window.ibnet.delays,
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  }));
  const all = delays.slice(3);
  const octets = (await Promise.all(sizes)).reduce((sum, size) => sum + size.responseBodySize, 0);
  row(
    "newest record of a slot to its drawing, 968 ports at 1 Hz, median",
    "500 ms",
    ms(all, 0.5),
    `${all.length} slots, 95th percentile ${ms(all, 0.95)}`,
  );
  row("first paint", "1000 ms", `${paint.toFixed(0)} ms`, "first-contentful-paint");
  row("page, compressed", "300 kB", `${(octets / 1000).toFixed(0)} kB`, `${sizes.length} files`);
  await browser.close();
  await stop(hub);
}

/** Returns the CPU of a hub while it receives records of 968 ports at 1 Hz, in percent of a core. */
async function cpuOfSmall(hub, started) {
  hub.child.stdin.write(startLines(8));
  await feed(hub, 8, 4);
  await started?.();
  const before = await cpuSeconds(hub);
  const begin = performance.now();
  await feed(hub, 8, seconds);
  const time = (performance.now() - begin) / 1000;
  return `${((100 * ((await cpuSeconds(hub)) - before)) / time).toFixed(1)} % of a core`;
}

/** Slots before those in which the search for alerts is measured: an evaluation reads them too. */
const EARLIER = 150;

/** Slots between the first slots of the past and those that may follow them. */
const OLD = 10;

/** 50 clients of the stream. */
async function clients() {
  const hub = await startHub();
  const metrics = ["xmit_utilization", "rcv_utilization", "xmit_blocked"];
  const counts = new Array(50).fill(0);
  const sockets = [];
  const used = await cpuOfSmall(hub, async () => {
    for (const index of counts.keys()) {
      const socket = new WebSocket(`${hub.url.replace("http", "ws")}/api/v1/live`);
      socket.on("message", (_, isBinary) => {
        if (isBinary) counts[index]++;
      });
      sockets.push(socket);
      await once(socket, "open");
      socket.send(JSON.stringify({ metrics }));
    }
  });
  row(
    "CPU, 968 ports at 1 Hz, 50 clients",
    "",
    used,
    `${seconds} s; each client received ${Math.min(...counts)} frames or more`,
  );
  for (const socket of sockets) socket.close();
  await stop(hub);
}

/** Writes slots of some samplers: at their own speed, or slots of the past at once. */
async function feed(hub, samplers, count, past = false) {
  const now = Math.floor(Date.now() / 1000);
  const first = past ? (hub.next ?? now - count - OLD) : now;
  hub.next = first + count;
  for (let slot = first; slot < first + count; slot++) {
    for (let sampler = 0; sampler < samplers; sampler++) {
      const { sink = hub.child.stdin } = hub;
      if (!sink.write(slotLines(sampler, slot))) await once(sink, "drain");
    }
    if (!past) await sleep(Math.max(0, 1000 * (slot + 1) - Date.now()));
  }
}

/** CPU of the hub without a client. */
async function cpu() {
  const small = await startHub();
  const used = await cpuOfSmall(small);
  row("CPU, 968 ports at 1 Hz, no client", "3 % of a core", used, `${seconds} s`);
  await stop(small);
  const [samplers, slots] = [336, 10];
  const ports = samplers * PORTS;
  const large = await startHub();
  large.child.stdin.write(startLines(samplers));
  // The first slots also have the cost of a new topology.
  await feed(large, samplers, 2, true);
  await settled(large, 2 * ports);
  const before = await cpuSeconds(large);
  await feed(large, samplers, slots, true);
  await settled(large, (2 + slots) * ports);
  const each = ((await cpuSeconds(large)) - before) / (slots * ports);
  row(
    "CPU, 40,656 ports at 1 Hz, no client",
    "60 % of a core",
    `${(100 * each * ports).toFixed(0)} % of a core`,
    `${(1e6 * each).toFixed(1)} us for each of ${slots * ports} records`,
  );
  await stop(large);
}

/** CPU of the search for alerts, which evaluates the records of 30 s at a time. */
async function alerts() {
  for (const samplers of [8, 33]) {
    const ports = samplers * PORTS;
    // Standard input has the earlier records. It is no live input, so its records alone would not
    // be evaluated while lines arrive.
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const live = `tcp://127.0.0.1:${server.address().port}`;
    const args = ["--listen", "127.0.0.1:0", "--input", "-", "--input", live];
    const connected = once(server, "connection");
    const hub = await start(values.hub, args, "pipe");
    const [socket] = await connected;
    hub.child.stdin.write(startLines(samplers));
    await feed(hub, samplers, EARLIER, true);
    await settled(hub, EARLIER * ports);
    hub.sink = socket;
    socket.on("error", () => {}).write(startLines(samplers));
    await feed(hub, samplers, 30);
    const before = await alertSeconds(hub);
    await feed(hub, samplers, 3 * seconds);
    const used = ((await alertSeconds(hub)) - before) / (3 * seconds);
    row(
      `CPU of the alerts, ${ports} ports at 1 Hz`,
      "3 % of a core",
      `${(100 * used).toFixed(1)} % of a core`,
      `${3 * seconds} s`,
    );
    await stop(hub);
    server.close();
  }
}

/** Waits until the hub has some records. The limit of the part ends the wait. */
async function settled(hub, records) {
  for (;;) {
    const health = await json(hub, "health");
    if (health.records + health.counts.refused + health.counts.copies >= records) return health;
    await sleep(200);
  }
}

/** Memory of 15 minutes. */
async function memory() {
  const hub = await startHub();
  hub.child.stdin.write(startLines(8));
  await feed(hub, 8, 900, true);
  const { kept, records } = await settled(hub, 900 * 8 * PORTS);
  row(
    "memory, 968 ports x 15 min, all counters",
    "150 MB",
    `${(await residentMb(hub)).toFixed(0)} MB resident`,
    `${records} records, ${(kept.octets / 1e6).toFixed(0)} MB: ${(kept.octets / records).toFixed(0)} octets each`,
  );
  await stop(hub);
}

/** Runs a part within its limit of time. Returns whether it ended. */
async function run(part) {
  const limit = LIMIT + seconds * (part === "alerts" ? 20 : part === "frames" ? 6 : 2);
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not ready after ${limit} s`)), 1000 * limit);
  });
  try {
    await Promise.race([PARTS[part](), late]);
    return true;
  } catch (error) {
    row(part, "", "not measured", error.message.replaceAll(/\s+/g, " "));
    return false;
  } finally {
    clearTimeout(timer);
    killAll();
  }
}

const unknown = chosen.filter((part) => PARTS[part] === undefined);
if (unknown.length > 0) {
  console.error(
    `cannot measure: no such part (found ${unknown.join(" ")}); the parts are ${Object.keys(PARTS).join(" ")}`,
  );
  process.exit(2);
}
const load = () => loadavg()[0].toFixed(1);
const before = load();
console.log("| quantity | goal | value | how |\n|---|---|---|---|");
let isWhole = true;
for (const part of chosen) isWhole = (await run(part)) && isWhole;
const machine = `${cpus().length} cores, ${cpus()[0].model.trim()}`;
console.log(
  `\n${new Date().toISOString().slice(0, 10)}, ${machine}, load average ${before} before and ${load()} after the run.`,
);
process.exit(isWhole ? 0 : 1);
