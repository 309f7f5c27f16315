import assert from "node:assert/strict";
import { test } from "node:test";
import { Fabric } from "../../dev/fabric.mjs";
import { load } from "../load.mjs";

const { Topology } = await load("src/model/topology.ts");
const { History } = await load("src/model/history.ts");
const { combineCodes } = await load("src/views/heatmap/rows.ts");
const { sceneOf } = await load("src/views/map/units.ts");
const { layoutOf } = await load("src/views/map/layout.ts");
const { seriesCsv } = await load("src/model/csv.ts");

const topologyOf = (options) => new Topology({ generation: 1, ...new Fabric(options) });

test("each_link_is_counted_once_with_its_upper_end_first", () => {
  const topology = topologyOf({});
  assert.equal(topology.links.length, topology.ports.length / 2);
  for (const { a, b } of topology.links) assert.ok(topology.tierOf(a) >= topology.tierOf(b));
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

test("layout_places_every_box_inside_the_picture", () => {
  const topology = topologyOf({});
  const layout = layoutOf(topology, sceneOf(topology, ""), 1200, 600);
  assert.equal(layout.boxes.length, 22);
  for (const { x, y, width, height } of [...layout.boxes, ...layout.cells]) {
    assert.ok(x >= 0 && x + width <= 1200 && y >= 0 && y + height <= layout.height);
  }
});

test("combined_rows_ignore_states_and_never_become_zero", () => {
  const codes = Uint16Array.of(0, 32000, 64000, 65535, 65534);
  assert.equal(combineCodes([0, 1, 2, 3], codes, "max"), 64000);
  assert.equal(combineCodes([0, 1, 2, 3], codes, "mean"), 32000);
  assert.equal(combineCodes([1, 3], codes, "p95"), 32000);
  assert.equal(combineCodes([3, 4], codes, "max"), 65534);
  assert.equal(combineCodes([3], codes, "mean"), 65535);
});

test("history_drops_the_oldest_slot_and_keeps_gaps", () => {
  const history = new History(20_000_000);
  for (let slot = 0; slot < 100; slot += 2) history.set(slot, slot, Uint16Array.of(slot));
  assert.equal(history.size, 30);
  assert.equal(history.has(98), true);
  assert.equal(history.has(2), false);
  assert.deepEqual([...history.trace(0, 98, 3, 65535)], [96, 65535, 98]);
});

test("csv_has_empty_cells_for_gaps_and_escapes_formulas", () => {
  const text = seriesCsv([
    { port: "=1+1", metric: 'a"b', t: [1, 2], v: [0.5, null] },
    { port: "0x1/1", metric: "m", t: [2], v: [3] },
  ]);
  assert.equal(text, `time_ns,"'=1+1 a""b",0x1/1 m\n1,0.5,\n2,,3\n`);
});
