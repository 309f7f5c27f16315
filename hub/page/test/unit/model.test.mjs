import assert from "node:assert/strict";
import { test } from "node:test";
import { Fabric } from "../../dev/fabric.mjs";
import { load } from "../load.mjs";

const { Topology } = await load("src/model/topology.ts");
const { History } = await load("src/model/history.ts");
const {
  INCREASE,
  LINK_DOWN,
  NO_ANSWER,
  NO_COUNTER,
  NO_DATA,
  NOT_ASSIGNED,
  cellOf,
  codeIn,
  knownShare,
  stateOf,
} = await load("src/contract/frame.ts");
const { inkOn } = await load("src/draw/scale.ts");
const { arrange } = await load("src/views/map/blocks.ts");
const { numbersFit } = await load("src/views/map/cells.ts");
const { placed } = await load("src/views/heatmap/axes.ts");
const { ColumnSource } = await load("src/views/heatmap/source.ts");
const { combineCodes, hottestOf, pixelCell, largestFirst, ranksOf } = await load(
  "src/views/heatmap/rows.ts",
);
const { answersText, rootTexts, totalsOf } = await load("src/model/totals.ts");
const { hasAlert, isCurrent, longestUsual, newestSlot, samplerState, samplersText, stateText } =
  await load("src/model/samplers.ts");
const { isPartial, jobRates, largestSender, ownCause } = await load("src/model/job.ts");
const { isOver, jobsText, regionText, rootText, waitText } = await load("src/model/regions.ts");
const { squareOf } = await load("src/model/matrix.ts");
const { sceneOf } = await load("src/views/map/units.ts");
const { isDown } = await load("src/views/map/paint.ts");
const { layoutOf } = await load("src/views/map/layout.ts");
const { cellText, valueCells, valueHeads } = await load("src/model/metric.ts");
const { countsText } = await load("src/model/alerts.ts");
const { managersText } = await load("src/model/managers.ts");
const { eventText, folded, kindsOf, readable, samplerText, timesText } =
  await load("src/model/events.ts");
const { rangeOf, usualRange } = await load("src/views/heatmap/range.ts");
const { courseRows, csv, fileName, timeCells } = await load("src/model/csv.ts");
const { binEnds, inOneOrder, largest, partialSpans } = await load("src/model/group.ts");

const topologyOf = (options) => new Topology({ generation: 1, ...new Fabric(options) });

test("each_link_is_counted_once_with_its_upper_end_first", () => {
  const topology = topologyOf({});
  assert.equal(topology.links.length, topology.ports.length / 2);
  for (const { a, b } of topology.links) assert.ok(topology.tierOf(a) >= topology.tierOf(b));
});

test("short_name_is_that_of_one_port", () => {
  const names = ["n1 hca0", "n2 hca0", "n2 hca1", "n3 hca0", "n3 hca0", "leaf"];
  const ports = names.map((node, device) => ({
    ...{ guid: `0x${device}`, port: device + 1, node, device, peer: null },
    kind: node === "leaf" ? "switch" : "hca",
  }));
  const devices = ports.map(({ guid, node, kind }) => ({ guid, node, kind, tier: 0 }));
  const topology = new Topology({ generation: 1, devices, ports });
  assert.deepEqual(
    ports.map((_, port) => topology.shortName(port)),
    ["n1", "n2 hca0", "n2 hca1", "n3 hca0 / 4", "n3 hca0 / 5", "leaf / 6"],
  );
});

test("large_fabric_is_drawn_as_groups_that_hold_every_switch_once", () => {
  const topology = topologyOf({ leaves: 420, hosts: 2, spines: 24, cables: 1 });
  const scene = sceneOf(topology, "");
  assert.equal(scene.grouped, true);
  const members = scene.units.flatMap(({ switches }) => switches);
  assert.equal(members.length, 444);
  assert.equal(new Set(members).size, 444);
  assert.equal(
    scene.bundles.reduce((sum, { links }) => sum + links.length, 0),
    420 * 24,
  );
  const group = scene.units.find(({ switches }) => switches.length > 1);
  const opened = sceneOf(topology, group.id);
  for (const device of group.switches) assert.ok(opened.unitOf[device] >= 0);
});

test("hosts_and_boxes_do_not_overlap_in_several_lines_of_switches", () => {
  const topology = topologyOf({ leaves: 48, hosts: 18, spines: 12 });
  const { boxes, cells } = layoutOf(topology, sceneOf(topology, ""), 1200, 600);
  assert.ok(new Set(boxes.map(({ y }) => y)).size > 2);
  assert.ok(cells.length > 800);
  const apart = (one, two) =>
    one.x + one.width <= two.x ||
    two.x + two.width <= one.x ||
    one.y + one.height <= two.y ||
    two.y + two.height <= one.y;
  for (const cell of cells) for (const box of boxes) assert.ok(apart(cell, box));
});

test("layout_places_every_box_inside_the_picture", () => {
  const topology = topologyOf({});
  const layout = layoutOf(topology, sceneOf(topology, ""), 1200, 600);
  assert.equal(layout.boxes.length, 22);
  for (const { x, y, width, height } of [...layout.boxes, ...layout.cells]) {
    assert.ok(x >= 0 && x + width <= 1200 && y >= 0 && y + height <= layout.height);
  }
});

test("boxes_of_a_narrow_picture_are_high_enough_for_upright_names", () => {
  const topology = topologyOf({});
  const heights = (width) => {
    const { boxes, cells, height } = layoutOf(topology, sceneOf(topology, ""), width, 480);
    for (const each of [...boxes, ...cells]) assert.ok(each.y + each.height <= height);
    return new Set(boxes.map((box) => box.height));
  };
  const [[wide], [narrow]] = [heights(1200), heights(350)];
  assert.ok(narrow > 1.4 * wide, `${narrow} and ${wide}`);
});

test("samplers_on_time_with_few_answers_are_not_called_well", () => {
  const row = (ok) => ({
    connected: true,
    wrong_clock: false,
    last_slot: 9,
    ports: 100,
    ok,
    late: 0,
    down: 0,
  });
  assert.equal(samplersText([row(100), row(99)], 9), "2 samplers, all on time");
  assert.equal(samplersText([row(100), row(0)], 9), "2 samplers, all on time, 1 with few answers");
  assert.equal(
    samplersText([row(100), row(0), { ...row(0), connected: false }], 9),
    "1 of 3 samplers late, lost or with a wrong clock, 1 with few answers",
  );
  assert.equal(samplersText([], 0), "");
});

test("sweeps_are_drawn_against_the_usual_time_of_the_slowest_sampler", () => {
  const rows = [[5, 900, 6], [9, 8, 8], []].map((durations) => ({ durations }));
  assert.equal(longestUsual(rows), 8);
  assert.equal(longestUsual([]), 0);
});

test("sampler_has_an_alert_with_its_title_until_it_is_over", () => {
  const row = { sampler: "n1", title: "n1 mlx5_0/1 secondary" };
  const has = (sampler, state, name = "A") => hasAlert([{ alert: "A", sampler, state }], row, name);
  assert.ok(has(row.title, "firing") && has(row.title, "pending"));
  assert.ok(!has(row.title, "resolved") && !has("n1 mlx5_0/1", "firing"));
  assert.ok(!has(row.title, "firing", "B"));
});

const read = (cell) => [codeIn(cell), Math.round(100 * knownShare(cell))];

test("row_is_a_lower_bound_if_a_port_lacks_a_value", () => {
  const codes = Uint16Array.of(0, 32000, 64000, NO_DATA, NO_ANSWER, LINK_DOWN, NOT_ASSIGNED);
  assert.deepEqual(read(combineCodes([0, 1, 2], codes, "max")), [64000, 100]);
  assert.deepEqual(read(combineCodes([0, 1, 2, 3], codes, "max")), [64000, 75]);
  assert.deepEqual(read(combineCodes([0, 1, 2, 3], codes, "mean")), [32000, 75]);
  assert.deepEqual(read(combineCodes([1, 4], codes, "p95")), [32000, 50]);
  // A link that is down carries nothing, and a port without a sampler is no part of the row.
  assert.deepEqual(read(combineCodes([1, 5, 6], codes, "max")), [32000, 100]);
  assert.deepEqual(read(combineCodes([3, 4], codes, "max")), [NO_ANSWER, 100]);
  assert.deepEqual(read(combineCodes([3], codes, "mean")), [NO_DATA, 100]);
});

test("port_without_the_counter_is_no_part_of_a_row", () => {
  const codes = Uint16Array.of(32000, NO_COUNTER, LINK_DOWN, NO_DATA);
  assert.deepEqual(read(combineCodes([0, 1], codes, "max")), [32000, 100]);
  assert.deepEqual(read(combineCodes([1, 1], codes, "max")), [NO_COUNTER, 100]);
  assert.deepEqual(read(combineCodes([1, 2], codes, "max")), [LINK_DOWN, 100]);
  assert.deepEqual(read(combineCodes([2, 1], codes, "max")), [LINK_DOWN, 100]);
  assert.deepEqual(read(combineCodes([3, 1], codes, "max")), [NO_COUNTER, 100]);
  const of = (...cells) => pixelCell(Uint32Array.from(cells), [0, 1], 0, 2);
  assert.deepEqual([of(NO_COUNTER, NO_ANSWER), of(NO_COUNTER, 5)], [NO_ANSWER, 5]);
  assert.equal(stateOf(NO_COUNTER), "no counter");
});

test("port_without_the_counter_answers", () => {
  const topology = topologyOf({});
  const codes = new Uint16Array(topology.ports.length).fill(NO_COUNTER);
  const totals = totalsOf(topology, codes, codes);
  assert.deepEqual([totals.answered, totals.without, totals.blocked], [codes.length, 0, 0]);
});

test("increase_at_an_unknown_time_is_not_zero", () => {
  const codes = Uint16Array.of(0, 640, INCREASE, NO_ANSWER);
  assert.equal(combineCodes([0, 2], codes, "max"), INCREASE);
  assert.deepEqual(read(combineCodes([1, 2], codes, "max")), [640, 50]);
  assert.equal(combineCodes([2, 3], codes, "max"), INCREASE);
});

test("increase_is_drawn_if_the_other_rows_of_a_pixel_are_0", () => {
  const of = (...codes) => read(pixelCell(Uint32Array.from(codes), [0, 1, 2], 0, codes.length));
  assert.deepEqual(of(0, INCREASE), [INCREASE, 100]);
  assert.deepEqual(of(INCREASE, 0), [INCREASE, 100]);
  assert.deepEqual(of(INCREASE, 5, 10), [10, 0]);
  assert.deepEqual(of(5, 10, INCREASE), [10, 0]);
  // A fault of a quarter of the rows is not hidden by the values of the others.
  assert.deepEqual(of(NO_ANSWER, 0, NO_DATA), [NO_ANSWER, 100]);
  assert.deepEqual(of(5, 7, LINK_DOWN), [LINK_DOWN, 100]);
  const many = Uint32Array.of(1, 2, 3, 4, NO_ANSWER);
  assert.equal(pixelCell(many, [...many.keys()], 0, 5), 4);
  assert.deepEqual(of(NO_DATA, NO_ANSWER), [NO_ANSWER, 100]);
  assert.deepEqual(of(5, cellOf(7, 0.5)), [7, 50]);
});

test("cell_of_some_ports_is_a_sentence", () => {
  const metric = { name: "errors", unit: "/s", scale: 64000 };
  const text = (known, ports, aggregate) => cellText(metric, cellOf(3, known), ports, aggregate);
  assert.equal(text(0.75, 4, "mean"), "mean 3\u00a0/s of the known ports (75.0\u00a0%)");
  assert.equal(text(0.75, 4, "p95"), "95th percentile 3\u00a0/s of the known ports (75.0\u00a0%)");
  assert.match(text(0, 1, "max"), /^at least 3\u00a0\/s: .*increased at an unknown time/);
  assert.equal(text(1, 4, "mean"), "3\u00a0/s");
});

test("largest_rows_of_a_time_range_come_first", () => {
  // The first row was the largest one, but not in the last column.
  const columns = [
    Uint32Array.of(60000, 10, NO_DATA),
    Uint32Array.of(0, 20, NO_DATA),
    null,
    Uint32Array.of(0, 30000, NO_DATA),
  ];
  assert.deepEqual([...largestFirst(ranksOf(3, columns, "max"))], [0, 1, 2]);
  assert.deepEqual([...largestFirst(ranksOf(3, [columns[3]], "max"))], [1, 0, 2]);
  const means = ranksOf(2, [Uint32Array.of(50, 40), Uint32Array.of(0, 40)], "mean");
  assert.deepEqual([...largestFirst(means)], [1, 0]);
  assert.deepEqual([...hottestOf(ranksOf(3, columns, "max"))], [0]);
  assert.deepEqual([...hottestOf(Float64Array.of(3, 1, 4, -1))], [2, 0]);
  assert.deepEqual([...hottestOf(Float64Array.of(0, -1, 0))], []);
});

test("numbers_are_only_in_cells_that_hold_two_of_them_and_have_contrast", () => {
  const sizes = [
    [172, 31],
    [60, 30],
    [60, 20],
    [40, 60],
    [30, 90],
  ];
  assert.deepEqual(
    sizes.map(([width, height]) => numbersFit({ width, height })),
    [true, true, false, false, false],
  );
  const inks = [
    [0x44, 0x01, 0x54],
    [0x21, 0x91, 0x8c],
    [0xfd, 0xe7, 0x25],
    [0xbd, 0x22, 0x86],
  ].map(inkOn);
  assert.deepEqual(inks, ["#fff", "#000", "#000", "#fff"]);
});

test("a_matrix_of_one_block_fills_its_frame", () => {
  for (const rows of [4, 60, 300]) {
    const block = { rows: Array(rows).fill(0), columns: Array(16).fill(0), tiers: [0, 1] };
    const { corners, width } = arrange({ blocks: [block], cells: [] }, 1000, 500, () => "");
    assert.equal(corners[0].x + 16 * width, 1000 - 12);
  }
});

test("hottest_rows_get_their_labels_before_the_groups", () => {
  const at = (middle) => ({ from: middle, to: middle });
  const group = { from: 0, to: 100 };
  // The second row is too near to the first one. The group moves beside it.
  assert.deepEqual(placed([at(50), at(60), at(90), group]), [50, null, 90, 36]);
  assert.deepEqual(placed([at(50), { ...group, from: 45, to: 55 }]), [50, null]);
  // Low groups beside it keep their names as far as there is space.
  const low = [0, 1, 2, 3].map((place) => ({ from: 55 + 12 * place, to: 67 + 12 * place }));
  assert.deepEqual(placed([at(50), ...low]), [50, 64, 78, null, 97]);
});

test("heat_map_waits_while_most_of_its_columns_are_missing", async () => {
  const window = { metric: "m", aggregate: "max", first: 0, columns: 10, step: 1000 };
  const slots = new Map([9, 10].map((slot) => [slot, { values: new Uint16Array(1) }]));
  const heat = { rows: 1, from: 0, step: 1000, columns: Array(5).fill(new Uint16Array(1)) };
  const app = {
    interval: 1000,
    history: () => slots,
    isStreamed: () => true,
    wait: () => () => {},
    topology: { ports: [{}] },
    matrix: async () => heat,
  };
  let done = () => {};
  const loaded = new Promise((resolve) => {
    done = resolve;
  });
  const source = new ColumnSource(app, done);
  assert.ok(source.isWaiting(window), "two of ten columns are no picture");
  source.want(window);
  await loaded;
  assert.ok(!source.isWaiting(window), "the hub has no more than it sent");
});

test("totals_are_lower_bounds_without_the_values_of_all_host_ports", () => {
  const topology = topologyOf({});
  const hosts = topology.ports.flatMap((port, index) =>
    topology.isSwitch(port.device) ? [] : [index],
  );
  const codes = new Uint16Array(topology.ports.length).fill(32000);
  const whole = totalsOf(topology, codes, null);
  assert.deepEqual([whole.answered, whole.without], [codes.length, 0]);
  assert.equal(whole.knownHosts, 1);
  assert.ok(whole.injected > 0);
  codes[hosts[0]] = NO_DATA;
  codes[hosts[1]] = NO_ANSWER;
  codes[hosts[2]] = LINK_DOWN;
  const part = totalsOf(topology, codes, null);
  assert.deepEqual([part.answered, part.without, part.down], [codes.length - 2, 1, 1]);
  assert.deepEqual(answersText(part, false), ["of 1\u202f024 (1 down)", "1 silent", "1 no data"]);
  assert.equal(answersText(whole, true, " ports answer")[0], "of 1\u202f024 ports answer");
  assert.deepEqual(answersText(whole, true), ["of 1\u202f024", "sweep not complete"]);
  assert.equal(part.knownHosts, (hosts.length - 2) / hosts.length);
});

test("sampler_is_late_against_the_others_in_the_same_answer", () => {
  const row = (last_slot, more = {}) => ({
    connected: true,
    wrong_clock: false,
    last_slot,
    ...more,
  });
  const clock = row(106, { wrong_clock: true, clock_distance_ns: 5e9 });
  const rows = [row(100), row(97), row(96), clock, row(10, { connected: false })];
  const newest = newestSlot(rows);
  assert.deepEqual(
    rows.map((each) => samplerState(each, newest)),
    ["ok", "ok", "late", "clock", "lost"],
  );
  // What the last sweep found is not shown as that of now.
  assert.deepEqual(
    rows.map((each) => isCurrent(each, newest)),
    [true, true, false, true, false],
  );
  assert.equal(stateText(clock, newest), "clock +5.00\u00a0s");
  assert.equal(stateText({ ...clock, clock_distance_ns: -9e9 }, newest), "clock −9.00\u00a0s");
});

test("roots_without_a_clear_cause_are_no_congestion", () => {
  const roots = [{ why: "full" }, { why: "unclear" }, { why: "unclear" }, { why: "slow_host" }];
  assert.deepEqual(rootTexts(roots), [
    "congestion at 2 ports",
    "2 more ports wait without a clear cause",
  ]);
  assert.deepEqual(rootTexts(roots.slice(1, 2)), ["1 port waits without a clear cause"]);
  assert.deepEqual(rootTexts([]), []);
});

test("root_for_which_none_waits_is_the_port_that_waits", () => {
  const texts = (host_ports, switch_ports) =>
    [false, true].map((isOver) => waitText({ host_ports, switch_ports }, isOver));
  assert.deepEqual(texts(0, 0), ["only this port waits", "only this port waited"]);
  assert.deepEqual(texts(0, 1), ["1 port waits", "1 port waited"]);
  assert.deepEqual(texts(32, 8), ["40 ports wait (32 of hosts)", "40 ports waited (32 of hosts)"]);
});

test("congestion_that_is_over_is_told_in_the_past", () => {
  const at = (seconds) => new Date(2026, 0, 1, 0, 0, seconds).getTime();
  const region = { since_ns: at(10) * 1e6, until_ns: at(31) * 1e6, held_up_seconds: 700 };
  const ports = { host_ports: 2, switch_ports: 0, confidence: "high" };
  const row = { ...ports, why: "full", regions: [region] };
  const texts = (why) => [at(31), at(32)].map((end) => rootText({ ...row, why }, end));
  const [now, before] = texts("full").map((text) => text.replaceAll("\u00a0", " "));
  assert.equal(
    now,
    "the link is full since 00:00:10, for 21.0 s; 2 ports wait (2 of hosts); 11 min 40 s lost",
  );
  assert.equal(
    before,
    "the link was full for 21.0 s until 00:00:31; 2 ports waited (2 of hosts); 11 min 40 s lost",
  );
  for (const [why, first, second] of [
    ["slow_host", /^the host receives /, /^the host received /],
    ["unreachable", /^a device does not answer since/, /^a device did not answer for/],
    ["unclear", /^no clear cause since/, /^no clear cause for/],
  ]) {
    const [present, past] = texts(why);
    assert.match(present, first);
    assert.match(past, second);
  }
  assert.deepEqual([isOver(row, at(31)), isOver(row, at(32))], [false, true]);
  assert.match(rootText({ ...row, confidence: "low" }, at(31)), /full \(low confidence\) since/);
});

test("region_names_the_jobs_that_cause_and_suffer_it", () => {
  const jobs = (names, causes) => names.map((job) => ({ job, causes }));
  const row = { jobs: [...jobs(["7"], true), ...jobs(["8", "9", "10", "11", "12"], false)] };
  assert.equal(jobsText(row), "caused by job 7, suffered by jobs 8, 9, 10 and 2 more");
  assert.equal(jobsText({ jobs: jobs(["8"], false) }), "suffered by job 8");
  assert.equal(jobsText({ jobs: [] }), "");
  const times = { since_ns: 40e9, until_ns: 130e9, held_up_seconds: 75 };
  const text = regionText({ ...times, host_ports: 1, switch_ports: 2 });
  assert.match(
    text,
    /\(1\u00a0min 30\u00a0s\); 1 host port and 2 switch ports waited, 1\u00a0min 15\u00a0s in all$/,
  );
});

test("rates_of_a_job_are_the_means_that_the_hub_returns", () => {
  const row = {
    bins_from_ns: 10e9,
    bin_ns: 10e9,
    // The first record is 1 s before the end of its bin.
    traffic_from_ns: 29e9,
    traffic_to_ns: 42e9,
    injected_gbps: [null, 100, 100, 100, null],
  };
  const t = [20e3, 30e3, 40e3, 42e3, 60e3];
  assert.deepEqual(jobRates(row), { t, v: [null, 100e9, 100e9, 100e9, null] });
  assert.deepEqual(jobRates({ ...row, bins_from_ns: null, injected_gbps: [] }), { t: [], v: [] });
});

test("last_complete_slot_is_counted_while_a_slot_is_not_complete", () => {
  const history = new History(10);
  const [first, second] = [Uint16Array.of(1), Uint16Array.of(2)];
  history.set(10, 10, first);
  history.set(11, 11, second, true);
  assert.equal(history.whole(11, 3).values, first);
  history.set(11, 11, second);
  assert.equal(history.whole(11, 3).values, second);
  for (let slot = 12; slot < 16; slot++) history.set(slot, slot, second, true);
  assert.equal(history.whole(15, 3), undefined);
});

test("slot_of_a_matrix_can_be_incomplete_near_the_newest_one", () => {
  const history = new History(10);
  const values = Uint16Array.of(1);
  history.set(99, 99, values, false);
  for (let slot = 80; slot <= 100; slot++) history.fill(slot, slot, values, 100);
  assert.equal(history.get(80).partial, false);
  assert.equal(history.get(99).partial, false, "a frame has brought it");
  assert.equal(history.get(100).partial, true);
  assert.equal(history.whole(100, 5).time, 99);
  history.set(100, 100, values);
  assert.equal(history.whole(100, 5).time, 100);
});

test("history_drops_the_oldest_slot_and_keeps_gaps", () => {
  const history = new History(20_000_000);
  for (let slot = 0; slot < 100; slot += 2) history.set(slot, slot, Uint16Array.of(slot));
  assert.equal(history.size, 30);
  assert.equal(history.has(98), true);
  assert.equal(history.has(2), false);
  assert.deepEqual([...history.trace(0, 98, 3, 65535)], [96, 65535, 98]);
});

test("csv_has_empty_cells_for_gaps_and_plain_numbers_in_the_unit_of_the_head", () => {
  const rows = courseRows(
    [
      { label: "a", t: [1000, 2000], v: [0.5, null] },
      { label: "b", t: [2000], v: [3.4e9] },
    ],
    "b/s",
  );
  assert.equal(
    csv(rows).join(""),
    "Time (UTC),Time (ns),a (b/s),b (b/s)\r\n" +
      "1970-01-01T00:00:01.000Z,1000000000,0.5,\r\n" +
      "1970-01-01T00:00:02.000Z,2000000000,,3400000000\r\n",
  );
});

test("csv_quotes_text_and_escapes_formulas_but_not_negative_numbers", () => {
  const row = ['a"b', "x,y", "two\nlines", "=1+1", "-1", -1, "@x", "a\r", null, Number.NaN, "é–"];
  assert.deepEqual(csv([row]), [`"a""b","x,y","two\nlines",'=1+1,'-1,-1,'@x,"a\r",,,é–\r\n`]);
});

test("time_of_a_slot_is_exact_in_both_columns", () => {
  const ns = 1_795_000_067_000_000_000;
  assert.deepEqual(timeCells(ns), ["2026-11-18T11:07:47.000Z", ns]);
  assert.equal(csv([timeCells(ns)])[0].split(",")[1], "1795000067000000000\r\n");
  assert.deepEqual(timeCells(null), [null, null]);
});

test("file_name_states_view_object_and_time_and_no_path", () => {
  const name = fileName(["f", "port", "0x1/2", "../a: b", ""], { from: 0, to: 61_000 }, "csv");
  assert.equal(name, "f_port_0x1-2_a-b_19700101T000000Z-19700101T000101Z.csv");
  assert.equal(fileName(["x"], { from: 0, to: 0 }, "png"), "x_19700101T000000Z.png");
  assert.equal(fileName(["x"], null, "png"), "x.png");
});

test("saved_cell_has_the_base_unit_or_the_state", () => {
  const metric = { name: "xmit_gbps", unit: "Gb/s", scale: 1000, live: false };
  assert.deepEqual(valueHeads(metric, "Rate"), ["Rate (b/s)", "Rate (state)"]);
  assert.deepEqual(valueCells(metric, 6400), [100e9, null]);
  assert.deepEqual(valueCells(metric, cellOf(0, 0.5)), [0, "at least"]);
  assert.deepEqual(valueCells(metric, NO_ANSWER), [null, "no answer"]);
});

/** Returns a topology of switches and the links between them, with one host at each leaf switch. */
function fabricOf(switches, links) {
  const devices = [];
  const ports = [];
  const add = (node, kind, tier) =>
    devices.push({ guid: `0x${devices.length}`, node, kind, tier }) - 1;
  const port = (device) => {
    const number = ports.filter((each) => each.device === device).length + 1;
    const { guid, node, kind } = devices[device];
    return ports.push({ guid, port: number, node, kind, device, peer: null }) - 1;
  };
  const join = (x, y) => {
    const a = port(x);
    const b = port(y);
    ports[a].peer = b;
    ports[b].peer = a;
  };
  for (const [node, tier] of switches) add(node, "switch", tier);
  for (const [x, y] of links) join(x, y);
  switches.forEach(([node, tier], index) => {
    if (tier === 1) join(index, add(`host-${node}`, "hca", 0));
  });
  return new Topology({ generation: 1, devices, ports });
}

test("torus_is_drawn_as_a_ring_with_every_link", () => {
  const size = 9;
  const links = [];
  for (let x = 0; x < size; x++) {
    for (let y = 0; y < size; y++) {
      links.push(
        [x * size + y, ((x + 1) % size) * size + y],
        [x * size + y, x * size + ((y + 1) % size)],
      );
    }
  }
  const names = Array.from({ length: size * size }, (_, index) => [`sw${index}`, 1]);
  const topology = fabricOf(names, links);
  const scene = sceneOf(topology, "");
  const layout = layoutOf(topology, scene, 1200, 600);
  assert.equal(layout.boxes.length, size * size);
  assert.equal(
    layout.curves.reduce((sum, { bundle }) => sum + bundle.links.length, 0),
    links.length,
  );
  for (const { x, y, width, height } of layout.boxes) {
    assert.ok(x >= 0 && x + width <= 1200 && y >= 0 && y + height <= 600);
  }
});

test("groups_of_a_dragonfly_plus_are_its_islands", () => {
  const islands = 12;
  const switches = [];
  const links = [];
  for (let island = 0; island < islands; island++) {
    const base = island * 8;
    for (let index = 0; index < 8; index++)
      switches.push([`i${island}s${index}`, index < 4 ? 1 : 2]);
    for (let leaf = 0; leaf < 4; leaf++)
      for (let spine = 4; spine < 8; spine++) links.push([base + spine, base + leaf]);
  }
  for (let x = 0; x < islands; x++)
    for (let y = x + 1; y < islands; y++) links.push([x * 8 + 4, y * 8 + 5]);
  const scene = sceneOf(fabricOf(switches, links), "");
  assert.deepEqual(
    scene.units.map(({ switches: members }) => members.length),
    new Array(islands).fill(8),
  );
  assert.equal(scene.bundles.length, (islands * (islands - 1)) / 2);
});

test("courses_behind_the_largest_ones_are_added_and_gaps_stay_gaps", () => {
  const rates = [
    { port: "a", gbps: [9, null] },
    { port: "b", gbps: [5, null] },
    { port: "c", gbps: [2, null] },
    { port: "d", gbps: [null, null] },
    { port: "e", gbps: [1, null] },
  ];
  assert.deepEqual(largest(rates, 5, "ports"), rates);
  assert.deepEqual(largest(rates, 3, "ports"), [
    rates[0],
    rates[1],
    { port: "3 other ports", gbps: [3, null], isRest: true },
  ]);
  assert.deepEqual(
    binEnds({ start_ns: 2e9, bin_ns: 1e9, in_max_to_mean: [1, null] }),
    [3000, 4000],
  );
});

test("bins_in_which_a_port_lacks_a_part_of_its_rate_are_partial", () => {
  assert.deepEqual(
    partialSpans(
      [
        [null, 0, 1, 0.97],
        [null, 0, 1, 1, 0.5, 0],
      ],
      100e3,
      10e3,
    ),
    [
      { from: 130e3, to: 140e3 },
      { from: 140e3, to: 150e3 },
    ],
  );
  assert.deepEqual(partialSpans([[1], [0]], 0, 1), [{ from: 0, to: 1 }]);
  assert.deepEqual(partialSpans([], 0, 1), []);
});

test("range_of_a_heat_map_ends_with_the_values_that_are_shown", () => {
  const rate = { name: "rcv_gbps", unit: "Gb/s", scale: 1000 };
  const codes = (...values) => [Uint16Array.from(values)];
  const full = rangeOf(rate, "shown", codes(6400, 100, NO_DATA), 100);
  assert.equal(full.share(6400), 1, "a full EDR link has the last colour");
  assert.equal(full.ticks.at(-1).text, "100\u00a0Gb/s");
  assert.equal(rangeOf(rate, "full", codes(6400), 100).share(6400), 0.1);
  const errors = { name: "errors", unit: "1/s", scale: 6400 };
  const few = rangeOf(errors, "shown", codes(0, 10, 1000), 100);
  assert.equal(few.share(0), 0);
  assert.ok(few.share(10) >= 0.3, "one error differs from none");
  assert.equal(few.share(1000), 1);
  assert.ok(few.share(100) > few.share(10) && few.share(100) < few.share(1000));
  assert.deepEqual(
    few.ticks.map(({ text }) => text.replace("\u00a0", " ")),
    ["0 /s", "1 /s", "10 /s", "100 /s"],
  );
  const time = { name: "rtt_ns", unit: "ns", scale: 10_000_000 };
  const usual = new Array(995).fill(640);
  const tail = rangeOf(time, "shown", codes(...usual, 64000, 64000), 100);
  assert.ok(tail.share(640) > 0.6, "two slow round trips do not hide the others");
  assert.match(tail.ticks.at(-1).text, /^≥ /);
  assert.equal(usualRange({ unit: "share" }), "full");
});

test("largest_sender_of_a_job_has_its_share_and_a_job_without_data_has_none", () => {
  const hosts = [1, 6, 3].map((bytes, index) => ({ host: `n${index}`, injected_bytes: bytes }));
  assert.deepEqual(largestSender({ hosts, injected_bytes: 10 }), { host: "n1", share: 0.6 });
  for (const injected_bytes of [0, null])
    assert.equal(largestSender({ hosts, injected_bytes }), null);
  assert.equal(largestSender({ hosts: [], injected_bytes: 1 }), null);
});

test("details_of_an_event_have_names_of_devices", () => {
  const topology = { devices: [{ node: "n8" }], deviceOf: (guid) => (guid === "0x8" ? 0 : -1) };
  const text = "0x8 at LID 2 is the master in place of 0x7 at LID 1";
  assert.equal(readable(text, topology), text.replace("0x8", "n8"));
  assert.equal(readable(text, null), text);
});

test("alerts_are_counted_by_their_state", () => {
  const row = (state, silent = false) => ({ state, mark: silent ? { silent } : null });
  const rows = [row("firing"), row("firing", true), row("pending"), row("pending")];
  assert.equal(countsText({ rows, firing: 1 }), "1 firing, 1 silenced, 2 pending");
  assert.equal(countsText({ rows: [], firing: 0 }), "0 firing");
});

test("last_master_is_not_the_standby_that_answers", () => {
  const row = (node, state, since_ns) => ({ node, state, since_ns, is_master: false });
  const rows = [row("standby", "standby", 9), row("old", "master", 1), row("last", "master", 5)];
  const text = (rows) => managersText({ rows, master_changes: 1 });
  assert.equal(text(rows), "Subnet manager: no master is known; last was the last one.");
  assert.equal(text(rows.slice(0, 1)), "Subnet manager: no master is known.");
});

test("equal_events_are_folded_and_keep_the_newest_time", () => {
  const event = (seconds, name, sampler, port = null, detail = "") => ({
    ts: seconds * 1e9,
    event: name,
    sampler,
    guid: port === null ? null : "0x1",
    port,
    detail,
  });
  const rows = folded([
    event(300, "window_restored", "a"),
    event(290, "window_halved", "a"),
    event(288, "window_halved", "b"),
    event(280, "sm_change", "a", 0, "1 to 2"),
    event(279, "sm_change", "b", 0, "1 to 2"),
    event(260, "link_down", "a", 1),
    event(190, "link_down", "a", 1),
    event(250, "link_down", "a", 2),
    event(140, "link_down", "a", 1),
    event(100, "link_down", "a", 1),
  ]);
  assert.deepEqual(
    rows.map(({ ts, event, count, samplers }) => [ts / 1e9, event, count, samplers]),
    [
      [300, "window_changed", 2, 1],
      [288, "window_halved", 1, 1],
      // Two samplers report one change.
      [280, "sm_change", 1, 2],
      [260, "link_down", 1, 1],
      [190, "link_down", 2, 1],
      [250, "link_down", 1, 1],
      // Less than a minute after the one before, but more before the row.
      [100, "link_down", 1, 1],
    ],
  );
  assert.equal(eventText(rows[4]), "link down × 2");
  assert.equal(timesText(rows[4]), "2 times in 50\u00a0s");
  assert.deepEqual([eventText(rows[3]), timesText(rows[3])], ["link down", ""]);
  const kinds = { samplers: ["window_halved"], routine: ["window_halved"], links: ["link_down"] };
  assert.deepEqual(kindsOf(kinds, "window_changed"), ["samplers", "routine"]);
  // An event of a newer sampler has no kind, so it is among all events.
  assert.deepEqual(kindsOf(kinds, "event_of_a_newer_sampler"), []);
});

test("square_has_nodes_by_leaf_switch_and_then_the_other_hosts", () => {
  const cell = (from, to, estimate_bytes) => ({
    from,
    to,
    from_leaf: from === "n2" ? "leaf1" : from === "n10" ? "leaf2" : "",
    to_leaf: to === "n2" ? "leaf1" : to === "n10" ? "leaf2" : "",
    from_is_node: from !== "other hosts",
    to_is_node: to !== "other hosts",
    least_bytes: 0,
    estimate_bytes,
    most_bytes: 2 * estimate_bytes,
  });
  const cells = [cell("other hosts", "n10", 90), cell("n10", "n2", 7), cell("n2", "n10", 5)];
  const { ends, cells: square, most } = squareOf(cells);
  assert.deepEqual(
    ends.map(({ name }) => name),
    ["n2", "n10", "other hosts"],
  );
  assert.deepEqual([square.get("n10 n2").estimate_bytes, square.get("n2 other")], [7, undefined]);
  assert.equal(most, 7);
  assert.equal(squareOf(cells.slice(0, 1)).most, 90);
});

test("events_of_the_hub_are_about_their_sampler_and_those_of_two_are_not_one", () => {
  const event = (sampler, node, detail = "") => ({
    ...{ ts: 1e9, event: "sampler_silent", sampler, guid: null, port: null },
    ...{ node, detail },
  });
  const rows = [event("hub", "a"), event("hub", "b"), event("hub", "a"), event("b", null)];
  assert.deepEqual(
    folded(rows).map((row) => [samplerText(row), row.count]),
    [
      ["sampler a", 2],
      ["sampler b", 1],
      ["sampler b", 1],
    ],
  );
  const inputs = ["input x", "input y"].map((detail) => event("hub", null, detail));
  assert.deepEqual(folded(inputs).map(samplerText), ["hub", "hub"]);
});

test("hosts_behind_a_dead_switch_are_in_its_row", () => {
  const event = (seconds, name, guid) => ({
    ts: seconds * 1e9,
    event: name,
    sampler: "a",
    guid,
    port: null,
    detail: "",
  });
  const rows = [
    event(110, "unreachable", "host1"),
    event(109, "unreachable", "switch"),
    event(108, "unreachable", "host2"),
    event(107, "unreachable", "other"),
    event(20, "unreachable", "host3"),
  ];
  const found = folded(rows, (guid) => (guid.startsWith("host") ? "switch" : undefined));
  assert.deepEqual(
    found.map(({ guid, detail }) => [guid, detail]),
    [
      ["switch", "and 2 devices behind it"],
      ["other", ""],
      ["host3", ""],
    ],
  );
  assert.equal(folded(rows).length, 5);
});

test("sums_of_a_job_are_lower_bounds_unless_records_cover_its_time", () => {
  const job = { start_ns: 0, end_ns: 100e9, traffic_to_ns: 100e9, covered_seconds: 100 };
  assert.equal(isPartial(job), false);
  assert.equal(isPartial({ ...job, covered_seconds: 40 }), true);
  assert.equal(isPartial({ ...job, traffic_to_ns: 60e9, covered_seconds: 60 }), true);
  // One that runs has sums up to its last record.
  assert.equal(
    isPartial({ ...job, end_ns: null, traffic_to_ns: 60e9, covered_seconds: 60 }),
    false,
  );
});

test("job_that_fills_the_link_waits_for_its_own_traffic", () => {
  const root = { guid: "0x1", port: 7 };
  const rows = (...jobs) => [{ root, regions: [{ jobs }] }];
  const of = (job, causes) => ({ job, causes });
  const cause = (why, rows) => ownCause({ root, why }, "41", rows);
  assert.equal(
    cause("full", rows(of("41", true), of("42", false))),
    "its own traffic fills the link",
  );
  assert.match(cause("full", rows(of("41", true), of("42", true))), /and that of 42 fill/);
  assert.equal(cause("full", rows(of("41", false), of("42", true))), "");
  assert.equal(cause("slow_host", rows(of("41", true))), "");
  assert.equal(cause("full", []), "");
});

test("port_of_a_group_has_one_place_into_and_out_of_it", () => {
  const rate = (port, ...gbps) => ({ port, gbps, covered: [1, 1] });
  const [into, out] = inOneOrder(
    [rate("a", 5, 5), rate("b", 1, null)],
    [rate("a", 0, 0), rate("b", 20, 1)],
  );
  const of = (rates) => rates.map(({ port, gbps }) => [port, gbps]);
  assert.deepEqual(of(into), [
    ["b", [1, null]],
    ["a", [5, 5]],
  ]);
  assert.deepEqual(of(out), [
    ["b", [20, 1]],
    ["a", [0, 0]],
  ]);
});

test("link_is_down_on_the_map_if_one_of_its_ends_reports_it", () => {
  const states = Uint16Array.of(LINK_DOWN, 640, 0);
  assert.deepEqual(
    [isDown(states, 0, 1), isDown(states, 1, 0), isDown(states, 1, 2), isDown(states, 1, null)],
    [true, true, false, false],
  );
});
