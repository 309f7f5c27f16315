// Serves the page and the interface of the hub with generated values. It needs no hub and no
// fabric:
//
//     npm run build && npm run fake -- --port 8099 [--leaves 700 --hosts 24 --spines 24]
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WebSocketServer } from "ws";
import { Fabric, INTERVAL } from "./fabric.mjs";
import { policy } from "./policy.mjs";

const options = Object.fromEntries(
  ["port", "leaves", "hosts", "spines", "cables"].map((name) => [name, { type: "string" }]),
);
const { values } = parseArgs({ options: { ...options, calm: { type: "boolean" } } });
const number = (name) => (values[name] === undefined ? undefined : Number(values[name]));
const fabric = new Fabric({
  leaves: number("leaves"),
  hosts: number("hosts"),
  spines: number("spines"),
  cables: number("cables"),
});
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const types = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};

const lastSlot = () => Math.floor(Date.now() / 1000) - 1;
const metrics = ["xmit_utilization", "rcv_utilization", "xmit_blocked"].map((name) => ({
  name,
  unit: "share",
  scale: 1,
}));

function codes(slot, metric) {
  const array = new Uint16Array(fabric.ports.length);
  for (let port = 0; port < array.length; port++) array[port] = fabric.code(port, slot, metric);
  return array;
}

function frame(slot, wanted) {
  const ports = fabric.ports.length;
  const message = new ArrayBuffer(32 + 2 * ports * wanted.length);
  const view = new DataView(message);
  view.setUint32(0, 0x31424249, true);
  view.setUint32(4, 1, true);
  view.setBigUint64(8, BigInt(slot), true);
  view.setBigUint64(16, BigInt(slot + 1) * BigInt(INTERVAL), true);
  view.setUint32(24, ports, true);
  view.setUint16(28, wanted.length, true);
  for (const [index, metric] of wanted.entries()) {
    new Uint16Array(message, 32 + 2 * ports * index, ports).set(codes(slot, metric));
  }
  return message;
}

function heat(query) {
  const step = Number(query.get("step") ?? INTERVAL);
  const from = Math.floor(Number(query.get("from")) / INTERVAL) * INTERVAL;
  const columns = Math.max(0, Math.round((Number(query.get("to")) - from) / step));
  const ports = fabric.ports.length;
  const message = new ArrayBuffer(32 + 2 * ports * columns);
  const view = new DataView(message);
  view.setUint32(0, 0x31484249, true);
  view.setUint32(4, 1, true);
  view.setBigUint64(8, BigInt(from), true);
  view.setBigUint64(16, BigInt(step), true);
  view.setUint32(24, ports, true);
  view.setUint32(28, columns, true);
  const slots = Math.max(1, Math.round(step / INTERVAL));
  for (let column = 0; column < columns; column++) {
    const into = new Uint16Array(message, 32 + 2 * ports * column, ports);
    // The values of a slot describe the interval before it.
    const first = Math.round(from / INTERVAL) + column * slots + 1;
    if (first > lastSlot() || first < fabric.start) into.fill(65535);
    else
      for (let s = 0; s < Math.min(slots, 8); s++) {
        const some = codes(
          first + Math.floor((s * slots) / Math.min(slots, 8)),
          query.get("metric"),
        );
        for (let port = 0; port < ports; port++)
          if (s === 0 || (some[port] <= 64000 && (into[port] > 64000 || some[port] > into[port])))
            into[port] = some[port];
      }
  }
  return message;
}

const range = (query) => ({
  from_ns: Number(query.get("from") ?? (lastSlot() - 59) * INTERVAL),
  to_ns: Number(query.get("to") ?? (lastSlot() + 1) * INTERVAL),
});
const rows = (query, list) => ({ ...range(query), rows: list });
const slotOf = (query) => Math.round(range(query).to_ns / INTERVAL) - 1;

function timeline(query) {
  const answer = {
    step_ns: INTERVAL,
    t: [],
    utilization_max: [],
    blocked_max: [],
    answered: [],
    marks: [],
  };
  const first = Math.max(fabric.start, Math.round(Number(query.get("from") ?? 0) / INTERVAL));
  for (let slot = first; slot <= lastSlot(); slot++) {
    const gap = slot % 311 < 4;
    answer.t.push(slot * INTERVAL);
    const background = 0.45 + 0.3 * Math.abs(Math.sin(slot / 40));
    answer.utilization_max.push(gap ? null : fabric.incast(slot) ? 0.99 : background);
    answer.blocked_max.push(gap ? null : fabric.incast(slot) ? 0.72 : 0.01);
    answer.answered.push(gap ? null : 0.97);
    if (slot % 47 === 0)
      answer.marks.push({
        ts: slot * INTERVAL,
        kind: "link",
        text: "leaf02 / 30: link down",
        guid: null,
        port: null,
        severe: true,
      });
    if (slot % 120 === 0)
      answer.marks.push({
        ts: slot * INTERVAL,
        kind: "event",
        text: "job 4711 starts",
        guid: null,
        port: null,
        severe: false,
      });
  }
  return answer;
}

/** What users and jobs did. One name is hostile. */
function marks(query) {
  const { to_ns } = range(query);
  const from_ns = Number(query.get("from") ?? 0);
  const mark = (kind, name, from, to, more) => ({
    name,
    nodes: null,
    start_ns: (fabric.start + from) * INTERVAL,
    end_ns: (fabric.start + to) * INTERVAL,
    value: null,
    kind,
    id: null,
    by: null,
    job: null,
    ...more,
  });
  const last = lastSlot() - fabric.start;
  return [
    mark("job", "job 4711 gromacs", last - 250, last - 60, { job: "4711" }),
    mark("phase", "checkpoint", last - 200, last - 180, {}),
    mark("mark", "deploy 1.2 <b>", last - 120, last - 120, { id: 1, by: "ada" }),
    mark("mark", "test of the new routing", last - 100, last - 75, { id: 2, by: "ada" }),
  ].filter(({ start_ns, end_ns }) => start_ns < to_ns && end_ns >= from_ns);
}

const kinds = { links: ["link_down", "link_up"], devices: ["unreachable"], sm: ["sm_change"] };

function events() {
  const list = [];
  const flap = fabric.ports[fabric.flapping];
  for (let slot = lastSlot(); slot >= fabric.start; slot--) {
    const event = (name, port, detail) =>
      list.push({
        ts: slot * INTERVAL + 3e8,
        slot,
        sampler: "node00001",
        event: name,
        guid: port?.guid ?? null,
        port: port?.port ?? null,
        node: port?.node ?? null,
        detail,
      });
    if (slot % 47 === 0) event("link_down", flap, "down");
    if (slot % 47 === 6) event("link_up", flap, "active");
    if (slot === fabric.start + 300)
      event(
        "unreachable",
        { ...fabric.devices[[...fabric.dead][0]], port: null },
        "the device answered nothing in a whole slot",
      );
    if (slot % 400 === 5) event("slot_missed", null, "1");
  }
  return list;
}

function samplers() {
  const count = Math.floor(fabric.ports.length / 8);
  return Array.from({ length: 8 }, (_, index) => ({
    sampler: `node${String(index * 24 + 1).padStart(5, "0")}`,
    role: "primary",
    connected: index !== 6,
    wrong_clock: index === 7,
    clock_distance_ns: index === 7 ? 1.2e12 : 0,
    input: "tcp://node:9800",
    version: "0.3.0",
    interval_ns: INTERVAL,
    last_slot: lastSlot() - (index === 6 ? 95 : 0),
    last_ts: Date.now() * 1e6,
    ports: count,
    ok: count - (index === 3 ? 25 : 0) - (index % 2),
    late: 0,
    timeout: index % 2,
    unreachable: index === 3 ? 25 : 0,
    skipped: 0,
    down: 0,
    errors: 0,
    duration_ns: 3.1e6 + index * 2e5,
    rtt_p50_ns: 14000,
    rtt_p99_ns: 61000,
    slots_missed: index === 6 ? 1 : 0,
    lines_lost: index === 5 ? 1210 : 0,
    answered: Array.from({ length: 60 }, () => 1),
    durations: Array.from({ length: 60 }, (_, i) => 3e6 + 1e5 * Math.sin(i)),
  }));
}

function alerts() {
  const dead = fabric.devices[[...fabric.dead][0]];
  const alert = (alert, severity, state, subject, summary) => ({
    id: `${alert}/${subject.guid ?? subject.sampler}`,
    alert,
    severity,
    state,
    guid: null,
    port: null,
    sampler: null,
    node: null,
    ...subject,
    summary,
    region: null,
    mark: null,
    runbook: `https://wiki.example/runbook.md#${alert.toLowerCase()}`,
    since_ns: (lastSlot() - 300) * INTERVAL,
    resolved_ns: state === "resolved" ? (lastSlot() - 60) * INTERVAL : null,
  });
  const host = { guid: dead.guid, node: dead.node };
  const rows = [
    alert("InfinibandHcaDead", "warning", "firing", host, `HCA ${dead.node} does not answer`),
    alert(
      "IbnetSamplerDown",
      "critical",
      "resolved",
      { sampler: "node00145 mlx5_0/1" },
      "Sampler node00145 mlx5_0/1 sends no records",
    ),
  ];
  for (const { root, regions } of fabric.trees(lastSlot())) {
    const summary = `${root.node} port ${root.port} is the root of congestion`;
    const row = alert("InfinibandCongestionRoot", "warning", "pending", root, summary);
    rows.push({ ...row, region: regions[0].region });
  }
  const receiver = { sent: 12, failed: 0, dropped: 0, error: null };
  return {
    looked_ns: lastSlot() * INTERVAL,
    error: null,
    left_out: 0,
    firing: 1,
    markable: true,
    rows,
    receivers: [{ receiver: "alertmanager http://localhost:9093", ...receiver }],
  };
}

function jobs() {
  return [4711, 4712, 4709].map((job, index) => ({
    job: String(job),
    user: ["user01", "user02", null][index],
    name: ["gromacs", "train-llm", "<img src=x onerror=alert(1)>"][index],
    state: index === 2 ? "completed" : "running",
    nodes: `node[${24 * index + 1}-${24 * index + 24}]`,
    node_count: 24,
    start_ns: (fabric.start + 100 * index) * 1e9,
    end_ns: index === 2 ? (fabric.start + 700) * 1e9 : null,
    end_is_lower_bound: index === 2,
    traffic_from_ns: (fabric.start + 100 * index) * 1e9,
    traffic_to_ns: (fabric.start + 700) * 1e9,
    injected_bytes: 2.1e12 / (index + 1),
    ejected_bytes: 2e12 / (index + 1),
    covered_seconds: 700 - 100 * index,
    blocked_seconds: 1468 * (2 - index),
    blocked_covered_seconds: 600 - 100 * index,
    blocked: 0.1 * (2 - index),
    blocked_ns_per_byte: 0.07,
    imbalance: { max_to_mean: 1.4, variation: 0.2, gini: 0.1 },
  }));
}

/** The traffic between the first nodes of a job, which are on two leaf switches. */
function matrixOf({ hosts, links_from_ns, links_to_ns }) {
  const ends = hosts
    .slice(0, 8)
    .map(({ host }, index) => ({ host, leaf: `leaf0${1 + (index >> 2)}` }));
  const cells = ends.flatMap((from, row) =>
    ends.flatMap((to, column) => {
      if (from === to) return [];
      const estimate = 4e9 * noiseOf(8 * row + column);
      return {
        from: from.host,
        to: to.host,
        from_leaf: from.leaf,
        to_leaf: to.leaf,
        from_is_node: true,
        to_is_node: true,
        least_bytes: 0.6 * estimate,
        estimate_bytes: estimate,
        most_bytes: 2 * estimate,
      };
    }),
  );
  cells.sort((x, y) => y.estimate_bytes - x.estimate_bytes);
  const worth = "Port counters have no destinations: a generated estimate.";
  const matrix = { cells, interval_ns: 1e9, unexplained: 0, contradicted_seconds: 0, worth };
  return { from_ns: links_from_ns, to_ns: links_to_ns, ends: "hosts", matrix, reason: null };
}

function jobDetail(row) {
  const first = 24 * jobs().findIndex(({ job }) => job === row.job);
  const name = (index) => fabric.name(index);
  const uplinks = fabric.ports.flatMap((port, index) => {
    if (port.node !== "leaf01" || !port.peer_node?.startsWith("core")) return [];
    const up = 40 * noiseOf(index);
    const rate = { up_gbps: up, down_gbps: up / 2, job_up_gbps: 0.8 * up, job_down_gbps: 0.3 * up };
    const used = { used: up / 100, blocked: 0.3 * noiseOf(index + 1) };
    return [{ from: name(index), to: name(port.peer), ...rate, ...used }];
  });
  const [root] = uplinks;
  return {
    ...row,
    hosts: Array.from({ length: 23 }, (_, index) => ({
      host: `node${String(first + index + 1).padStart(5, "0")}`,
      ports: 1,
      injected_bytes: 9e10 * noiseOf(index),
      ejected_bytes: 8e10,
      covered_seconds: 3600,
      blocked_seconds: 6 * noiseOf(index + 3),
      blocked_covered_seconds: 3600,
    })),
    missing: [`node${String(first + 24).padStart(5, "0")}`],
    injected_gbps: Array.from({ length: 60 }, (_, index) => 300 + 200 * Math.sin(index / 7)),
    injected_covered: Array.from({ length: 60 }, (_, index) => (index < 50 ? 1 : 0.75)),
    bins_from_ns: row.start_ns,
    bin_ns: 1e10,
    links_from_ns: row.traffic_to_ns - 6e10,
    links_to_ns: row.traffic_to_ns,
    uplinks,
    marks: [],
    marks_error: null,
    phases: [],
    node_errors: {},
    neighbours: jobs()
      .filter(({ job }) => job !== row.job)
      .map(({ job, name, user, state, start_ns, end_ns }, index) => ({
        start_ns,
        end_ns,
        job,
        name,
        user,
        state,
        node_count: 24,
        leaves: 1,
        ports: 24,
        nodes: 12,
        up_gbps: 30 / (index + 1),
        down_gbps: 12,
      })),
    trees: [
      {
        root: root.from,
        to: root.to,
        why: "full",
        seconds: 42,
        job_ports: 17,
        host_ports: 31,
        job_blocked_seconds: 120,
      },
    ],
  };
}
/** Groups of hosts. The second name is hostile. */
function groups() {
  const nodes = (first, count) =>
    Array.from({ length: count }, (_, index) => `node${String(first + index).padStart(5, "0")}`);
  return [
    { group: "storage", hosts: "node[00001-00004],gone", nodes: nodes(1, 4), unknown: ["gone"] },
    { group: "<img", hosts: "node00009", nodes: nodes(9, 1), unknown: [] },
  ];
}

function groupDetail(row, query) {
  const second = (name, other) => Math.round(Number(query.get(name) ?? other * 1e9) / 1e9);
  const start = second("from", lastSlot() - 300);
  const bins = second("to", lastSlot()) - start;
  const course = (most, shift) =>
    Array.from({ length: bins }, (_, bin) =>
      (start + bin) % 100 === 50 ? null : most * noiseOf(shift + Math.floor((start + bin) / 20)),
    );
  const sum = (rates) => (rates.reduce((all, rate) => all + (rate ?? 0), 0) * 1e9) / 8;
  const rate = (port, gbps) => ({
    port,
    gbps,
    covered: gbps.map((value) => Number(value !== null)),
  });
  const into = row.nodes.map((node, index) =>
    rate(`leaf01 port ${index + 1} to ${node}`, course(80 / (index + 1), index)),
  );
  const out = into.map(({ port }, index) => rate(port, course(20, index + 7)));
  const targets = row.nodes.map((host, index) => ({
    host,
    ports: 1,
    in_bytes: sum(into[index].gbps),
    out_bytes: sum(out[index].gbps),
    in_peak_gbps: Math.max(...into[index].gbps),
    out_peak_gbps: Math.max(...out[index].gbps),
  }));
  // The host that receives most comes first, as in the hub.
  targets.sort((a, b) => b.in_bytes - a.in_bytes);
  const all = (name) => targets.reduce((total, target) => total + target[name], 0);
  const senders = Array.from({ length: 9 }, (_, index) => ({
    job: index < 2 ? String(4711 + index) : null,
    host: index < 2 ? null : `node${String(40 + index).padStart(5, "0")}`,
    sent_bytes: 2e12 / (index + 1),
    least_bytes: 1e9,
    estimate_bytes: all("in_bytes") / 2 ** (index + 1),
    most_bytes: all("in_bytes") / (index + 1),
    correlation: index === 8 ? null : 0.9 - 0.1 * index,
    estimate_gbps: course(60 / 2 ** index, index),
  }));
  const uneven = { max_to_mean: 1.92, variation: 0.6, gini: 0.31 };
  return {
    ...row,
    from_ns: start * 1e9,
    to_ns: (start + bins) * 1e9,
    sender_count: senders.length,
    in_bytes: all("in_bytes"),
    out_bytes: all("out_bytes"),
    in_imbalance: uneven,
    out_imbalance: { ...uneven, max_to_mean: 1.1 },
    targets,
    missing: row.unknown,
    senders,
    start_ns: start * 1e9,
    bin_ns: 1e9,
    into,
    out,
    in_max_to_mean: course(2, 1).map((value) => value && 1 + value),
  };
}

const noiseOf = (x) => Math.abs(Math.sin(x * 12.9898) * 43758.5453) % 1;

function portDetail(index) {
  const row = fabric.ports[index];
  const slot = lastSlot();
  const used = fabric.code(index, slot, "xmit_utilization");
  return {
    ...row,
    lid: fabric.devices[row.device].lid,
    link_source: "live",
    status: used > 64000 ? "unreachable" : "ok",
    ts: Date.now() * 1e6,
    slot,
    identity: "ok",
    rtt_ns: 41200,
    peer: row.peer === null ? null : fabric.name(row.peer),
    counters: {
      port_xmit_data_bytes: "9007199254740993123",
      port_rcv_data_bytes: 8123456789012,
      port_xmit_pkts: 91234567,
      port_rcv_pkts: 81234567,
      port_xmit_wait_ticks: 123456,
      symbol_error_counter: 0,
      link_downed_counter: 2,
      port_xmit_discards: 1800,
      port_rcv_errors: 0,
      port_vl_xmit_wait_ticks: [1, 2, 3, 4, 0, 0, 0, 0],
    },
    rates: {
      xmit_gbps: (used / 64000) * 100,
      rcv_gbps: 12.5,
      xmit_utilization: used / 64000,
      rcv_utilization: 0.125,
      xmit_blocked: 0.01,
    },
    saturated: ["symbol_error_counter"],
    port_info: {
      port_state: "active",
      link_width_active: "4x",
      link_speed_active: "EDR",
      mtu: 4096,
      vls: 4,
      limits: {
        mtu_cap: 4096,
        vl_cap: 8,
        vl_high_limit: 0,
        vl_stall_count: 7,
        hoq_life: 18,
        mkey_violations: 0,
        pkey_violations: 0,
        qkey_violations: 0,
      },
      source: "live",
      lid: fabric.devices[row.device].lid,
      changed: "link_up",
      changed_ns: fabric.start * 1e9,
    },
    events: events()
      .filter((each) => each.guid === row.guid && (each.port === null || each.port === row.port))
      .slice(0, 20),
  };
}

/** Ports whose bit errors the generated fabric has: those with a cable. */
const isLinked = (index) => fabric.ports[index].peer !== null;
/** Some links are ageing, by the port with the lower index. */
const isAgeing = (index) => Math.min(index, fabric.ports[index].peer ?? index) % 13 === 3;
const serialOf = (index) =>
  `MT2401VS${String(Math.min(index, fabric.ports[index].peer)).padStart(5, "0")}`;
const REASON = "reason 2 (high bit error ratio), intended: no, blamed: this end";

function physical(index) {
  const { guid, port, node } = fabric.ports[index];
  const empty = { from_ns: [], to_ns: [], bits: [], raw: [], effective: [], symbol: [] };
  const answer = { guid, port, node, pages: [], planes: [], ratios: [], refusal: null };
  answer.ratios_seconds = 0;
  answer.health = null;
  answer.errors = empty;
  answer.module = { ts: [], temperature_c: [], rx_power_uw: [] };
  // Some ports were never read, and some devices refuse.
  if (!isLinked(index) || index % 17 === 5) return answer;
  if (index % 17 === 6) {
    const detail = "the device refuses register 0x5008";
    return { ...answer, refusal: { ...events()[0], event: "physical_unsupported", detail } };
  }
  const ageing = isAgeing(index);
  const lanes = (of) => Array.from({ length: 8 }, (_, lane) => (lane < 4 ? of(lane) : 0));
  const now = lastSlot();
  for (let minute = 125; minute > 0; minute--) {
    // The counters were cleared once.
    if (minute === 60) continue;
    const bits = 2.55e13;
    const noise = 0.7 + 0.6 * noiseOf(index + minute);
    const raw = Math.round(bits * (ageing ? 4e-6 / (1 + minute / 20) : 3e-10) * noise);
    empty.from_ns.push((now - 60 * minute) * INTERVAL);
    empty.to_ns.push((now - 60 * (minute - 1)) * INTERVAL);
    empty.bits.push(bits);
    empty.raw.push(raw);
    empty.effective.push(ageing ? Math.round(raw / 3e4) : 0);
    empty.symbol.push(ageing && minute % 20 === 0 ? 160 : 0);
    if (minute % 5 === 0) {
      answer.module.ts.push((now - 60 * minute) * INTERVAL);
      answer.module.temperature_c.push(48 + 3 * noiseOf(minute));
      answer.module.rx_power_uw.push(ageing ? 310 : 850);
    }
  }
  const sum = (name) => empty[name].reduce((all, value) => all + value, 0);
  answer.ratios = ["raw", "effective", "symbol"].map((ratio) => ({
    ratio,
    of_device: ratio === "raw" ? (ageing ? 4e-6 : 3e-10) : ageing ? 1e-12 : 1.5e-254,
    measured: interval(sum(ratio), sum("bits")),
  }));
  answer.ratios_seconds = 124 * 60;
  answer.health = healthOf(index);
  const page = (name, age, values, units = {}) =>
    answer.pages.push({
      page: name,
      plane: null,
      sampler: "node00001",
      ts: (now - age) * INTERVAL,
      values,
      units,
    });
  if (index % 17 === 7) {
    // The third plane is slow or down.
    const share = (plane) => (plane !== 3 ? 1 : ageing ? 0 : 0.8);
    const finding = ageing
      ? "plane 3 is down (state 2)"
      : "plane 3 carries 20 % less than the others";
    answer.planes = [1, 2, 3, 4].map((plane) => ({
      plane,
      ts: (now - 30) * INTERVAL,
      state: share(plane) === 0 ? 2 : 3,
      is_up: share(plane) > 0,
      xmit_gbps: 31.4 * share(plane),
      rcv_gbps: 12.7 * share(plane),
      finding: plane === 3 ? finding : null,
    }));
  }
  page("ber", 12, {
    phy_received_bits: "9007199254740993123",
    phy_corrected_bits: 81234,
    phy_raw_errors_lane: lanes((lane) => (ageing && lane === 2 ? 8123456 : 1200 + lane)),
    raw_ber_coef_lane: lanes((lane) => (ageing && lane === 2 ? 4 : 3)),
    raw_ber_magnitude_lane: lanes((lane) => (ageing && lane === 2 ? 6 : 10)),
  });
  page("fec", 42, {
    rs_fec_corrected_blocks: 7123456,
    rs_fec_uncorrectable_blocks: ageing ? 12 : 0,
  });
  page("plr", 42, { plr_rcv_codes: 912345678, plr_rcv_code_err: ageing ? 12 : 0 });
  page("fec_histogram", 42, { hist: [812345678, 71234, 512, 3, ...Array(17).fill(0)] });
  page("link_down", 7200, { raw_ber_alarms: 0, eff_ber_alarms: 0, symbol_ber_alarms: 0 });
  page(
    "module",
    130,
    {
      vendor_name: "Mellanox",
      vendor_pn: "MCP7Y00-N002",
      vendor_sn: serialOf(index),
      vendor_rev: "A1",
      cable_length: 66,
      cable_identifier: 8,
      temperature_c: 49.5,
      temperature_high_c: 75,
      temperature_low_c: 0,
      voltage_v: 3.3012,
      fw_version: 301,
      rx_power_uw: lanes((lane) => (ageing && lane === 2 ? 310 : 850)),
      tx_power_uw: lanes(() => 1020),
      tx_bias_ua: lanes(() => 7200),
    },
    { temperature_c: "C", rx_power_uw: "uW", tx_power_uw: "uW", tx_bias_ua: "uA", voltage_v: "V" },
  );
  if (fabric.devices[fabric.ports[index].device].kind === "switch") {
    page("sensor", 20, { temperature_c: 61, max_temperature_c: 66.5, temperature_high_c: 105 });
    page("fan_limits", 20, { fan_under_limit: ageing ? 4 : 0, fan_over_limit: 0 });
    page("fans", 20, { tacho_active: 255, pwm_active: 1 });
    page("device", 20, { extended_major: 31, extended_minor: 2014, extended_sub_minor: 1068 });
    page("system", 20, { product_name: "QM9700", serial_number: "MT2245T00123" });
  }
  return answer;
}

const interval = (errors, bits) => ({
  errors,
  bits,
  ratio: errors / bits,
  lower: (0.9 * errors) / bits,
  upper: (1.1 * errors + 3) / bits,
});

/** The verdict on one end of a link. */
function healthOf(index) {
  const row = fabric.ports[index];
  const ageing = isAgeing(index);
  return {
    ...fabric.name(index),
    rank: 0,
    peer: fabric.name(row.peer),
    link: row.link,
    verdict: !ageing ? "good" : index % 2 === 0 ? "replace" : "watch",
    why: ageing
      ? [
          "errors after FEC at least 2.1e-11, limit 1e-11",
          "lane 2: at least 840 times the bit errors of the others",
        ]
      : [],
    link_down: ageing ? REASON : null,
    since_ns: (lastSlot() - 5000) * INTERVAL,
    seen_minutes: index % 7 === 0 ? 48 : 125,
    window_minutes: 125,
    serial: serialOf(index),
    part: "MCP7Y00-N002",
    vendor: "Mellanox",
    celsius: 49.5,
    raw: interval(ageing ? 1.2e9 : 9e5, 3e15),
    effective: interval(ageing ? 64000 : 0, 3e15),
    symbol: interval(ageing ? 160 : 0, 3e15),
    silent: [index, row.peer]
      .filter((end) => fabric.dead.has(fabric.ports[end].device))
      .map((end) => ({ ...fabric.name(end), read_ns: (lastSlot() - 300) * INTERVAL })),
  };
}

function healthLinks() {
  const isFirst = (index) => isLinked(index) && fabric.ports[index].peer > index;
  const list = fabric.ports.flatMap((_, index) => (isFirst(index) ? [healthOf(index)] : []));
  const order = ["replace", "watch", "good"];
  list.sort((x, y) => order.indexOf(x.verdict) - order.indexOf(y.verdict));
  list.forEach((row, index) => {
    row.rank = index;
  });
  const of = (verdict) => list.filter((row) => row.verdict === verdict).length;
  const counts = { replace: of("replace"), clean: 0, watch: of("watch"), good: of("good") };
  const silent = list.filter((row) => row.verdict === "good" && row.silent.length > 0).length;
  return { known: list.length, counts, silent, rows: list.slice(0, 2000) };
}

function series(query) {
  const span = range(query);
  const from = Math.max(fabric.start, Math.round(span.from_ns / INTERVAL));
  const list = [];
  for (const port of query.getAll("port"))
    for (const metric of query.getAll("metric")) {
      const index = fabric.byKey.get(port);
      const t = [];
      const v = [];
      for (let slot = from; slot < Math.round(span.to_ns / INTERVAL); slot++) {
        t.push(slot * INTERVAL + 3e6);
        const code =
          index === undefined || slot % 311 < 4 ? 65535 : fabric.code(index, slot, metric);
        const size = metric.includes("bytes") ? 12.5e9 : metric.includes("gbps") ? 100 : 1;
        v.push(code > 64000 ? null : (size * code) / 64000);
      }
      list.push({ port, metric, t, v });
    }
  return { series: list };
}

function answer(path, query) {
  switch (path) {
    case "whoami":
      return { name: "ada", role: "operator" };
    case "alerts":
      return alerts();
    case "health":
      return {
        status: "ok",
        fabric: "stria",
        version: "0.3.0",
        records: 871200,
        samplers: 8,
        last_slot: lastSlot(),
        last_ts: lastSlot() * INTERVAL,
        now_ns: Date.now() * 1e6,
        interval_ns: INTERVAL,
        kept: {
          from_ns: fabric.start * 1e9,
          to_ns: lastSlot() * 1e9,
          octets: 42e6,
          ports: fabric.ports.length,
        },
        archive: {
          packed_ns: (Date.now() - 185e3) * 1e6,
          spool_octets: 8.4e6,
          spool_max_octets: 4e9,
          free_octets: 250e9,
          lines_lost: 0,
          error: null,
        },
        metrics,
        simulated: true,
      };
    case "topology":
      return { generation: 1, devices: fabric.devices, ports: fabric.ports };
    case "trees":
      return rows(query, values.calm ? [] : fabric.trees(slotOf(query)));
    case "errors":
      return rows(query, values.calm ? [] : fabric.errors(slotOf(query)));
    case "events":
      return { ...rows(query, events()), kinds };
    case "samplers":
      return rows(query, samplers());
    case "marks":
      return rows(query, marks(query));
    case "jobs": {
      const list = jobs();
      const wanted = query.get("job");
      const found =
        wanted === null ? list : list.filter(({ job }) => job === wanted).map(jobDetail);
      const source = { source: "squeue", read_ns: Date.now() * 1e6, error: null, settled_ns: null };
      return { ...rows(query, found), running: 2, known: 3, ...source };
    }
    case "groups":
      return rows(query, groups());
    case "timeline":
      return timeline(query);
    case "series":
      return series(query);
    case "sm": {
      const manager = (lid, state, priority) => ({
        guid: fabric.devices[lid].guid,
        lid,
        node: fabric.devices[lid].node,
        state,
        priority,
        act_count: null,
        is_present: true,
        is_master: state === "master",
        since_ns: (fabric.start + 60) * 1e9,
        first_ns: fabric.start * 1e9,
        sampler: "node00001",
      });
      const list = [manager(3, "master", 14), manager(9, "standby", 5)];
      return { ...rows(query, list), master_changes: 1, events: [] };
    }
    case "cabling":
      return {
        planned: 0,
        right: 0,
        beyond: 0,
        not_found: 0,
        remarks: 0,
        rows: [],
        reason: "the configuration of the hub has no planned cabling; set the key cabling",
      };
    case "path":
      return { from_ns: 0, to_ns: 0, rows: [], back: [], reason: "no tables", tables: null };
    case "links/health":
      return healthLinks();
    case "links":
      return rows(
        query,
        fabric.ports.slice(0, 2 * Number(query.get("top") ?? 500)).flatMap((row, index) =>
          row.peer !== null && row.peer > index
            ? [
                {
                  from: fabric.name(index),
                  to: fabric.name(row.peer),
                  link: row.link,
                  xmit_gbps: 12,
                  xmit_utilization: 0.3 * noiseOf(index),
                  xmit_utilization_peak: 0.5,
                  blocked: 0.01,
                  back_utilization: 0.1,
                  back_blocked: 0,
                  errors: index % 97 === 0 ? 3 : 0,
                  ends_disagree: false,
                },
              ]
            : [],
        ),
      );
    default:
      return null;
  }
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  response.setHeader("content-security-policy", policy);
  response.setHeader("x-content-type-options", "nosniff");
  if (url.pathname === "/api/v1/heat") {
    response.setHeader("content-type", "application/octet-stream");
    response.end(Buffer.from(heat(url.searchParams)));
  } else if (url.pathname.startsWith("/api/v1/")) {
    const path = decodeURIComponent(url.pathname.slice(8));
    const key = /^port\/(.*?)(\/physical)?$/.exec(path);
    const index = key === null ? undefined : fabric.byKey.get(key[1]);
    const of = /^job\/(.*?)(\/matrix)?$/.exec(path);
    const job = jobs().find((each) => each.job === of?.[1]);
    const group = groups().find((each) => `group/${each.group}` === path);
    const found =
      job !== undefined
        ? of[2] === undefined
          ? jobDetail(job)
          : matrixOf(jobDetail(job))
        : group !== undefined
          ? groupDetail(group, url.searchParams)
          : answer(path, url.searchParams);
    const detail = key?.[2] === undefined ? portDetail : physical;
    const body = index === undefined ? found : detail(index);
    response.statusCode = body === null ? 404 : 200;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(body ?? { error: `nothing is known of ${path}` }));
  } else {
    const name = url.pathname === "/" ? "index.html" : url.pathname.slice(1).replaceAll("..", "");
    try {
      const body = await readFile(dist + name);
      response.setHeader(
        "content-type",
        types[name.split(".").at(-1)] ?? "application/octet-stream",
      );
      response.end(body);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  }
});

const sockets = new WebSocketServer({ server, path: "/api/v1/live" });
sockets.on("connection", (socket) => {
  socket.on("message", (text) => {
    socket.metrics = JSON.parse(text).metrics;
    socket.send(
      JSON.stringify({
        generation: 1,
        metrics: socket.metrics,
        scales: socket.metrics.map(() => 1),
        interval_ns: INTERVAL,
        last_slot: lastSlot(),
      }),
    );
  });
});

let sent = 0;
setInterval(() => {
  const slot = lastSlot();
  if (slot === sent) return;
  sent = slot;
  const frames = new Map();
  for (const socket of sockets.clients) {
    if (socket.metrics === undefined) continue;
    const key = socket.metrics.join();
    if (!frames.has(key)) frames.set(key, frame(slot, socket.metrics));
    socket.send(frames.get(key));
  }
}, 50);

server.listen(Number(values.port ?? 8099), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
