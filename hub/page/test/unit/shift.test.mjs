import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { changeText, durationOf, lackText, moved, points, signed } =
  await load("src/model/shift.ts");
const { cellOf, codeIn, knownShare, LINK_DOWN, NO_ANSWER, NO_DATA } =
  await load("src/contract/frame.ts");
const { changeOf, differenceOf, farthestCell } = await load("src/views/heatmap/change.ts");
const { changeRange } = await load("src/views/heatmap/range.ts");

const HOUR = 3_600_000;
const FULL = 64_000;

test("durations_have_a_number_and_a_unit", () => {
  assert.deepEqual(["90s", "90min", "36h", "1 d", "2W"].map(durationOf), [
    90_000,
    1.5 * HOUR,
    36 * HOUR,
    24 * HOUR,
    336 * HOUR,
  ]);
  for (const text of [
    "",
    "0h",
    "h",
    "1.5h",
    "-1h",
    "1y",
    "367d",
    "yesterday",
    "constructor",
    "1toString",
  ])
    assert.equal(durationOf(text), 0, text);
});

test("earlier_value_of_a_slot_has_the_time_of_the_shown_one", () => {
  // Readings are some milliseconds after the begin of a slot, and never the same.
  const start = 1_795_000_000_000;
  const now = { t: [start + 3.2, start + 1001.9, start + 2000], v: [10, 20, 30] };
  const earlier = [
    start - HOUR + 4.7,
    start - HOUR + 1000.4,
    start - HOUR + 1999.9999,
    start - HOUR + 3001,
  ];
  const { t, v } = moved(now, { t: earlier, v: [1, null, 3, 4] }, HOUR, 1000);
  assert.deepEqual(t, [...now.t, start + 3001]);
  assert.deepEqual(v, [1, null, 3, 4]);
});

test("change_is_a_difference_and_a_ratio_or_nothing", () => {
  const plain = (value) => `${value} x`;
  assert.equal(changeText(5, 4, plain), "now +1 x, × 1.25");
  assert.equal(changeText(1, 4, plain), "now −3 x, × 0.25");
  assert.equal(changeText(3, 0, plain), "now +3 x");
  for (const [now, before] of [
    [null, 4],
    [4, null],
    [undefined, 1],
  ])
    assert.equal(changeText(now, before, plain), "");
  assert.equal(signed(-0.125, points), "−12.5\u00a0points");
});

test("what_the_hub_does_not_keep_is_named", () => {
  const latest = Date.parse("2026-11-28T12:00:00Z");
  const span = { from: latest - 60_000, to: latest };
  const kept = (hours) => ({
    from_ns: (latest - 0.1 * HOUR) * 1e6,
    minutes_from_ns: (latest - hours * HOUR) * 1e6,
  });
  const text = (hours) => lackText(kept(hours), span, 24 * HOUR, latest);
  assert.equal(text(25), "");
  assert.equal(text(2), "before: the hub holds only 120 minutes");
  assert.match(text(24 + 0.5 / 60), /^no values to compare with before \d/);
  // The minute of the first slot begins before it.
  const at = (second) => new Date(2026, 10, 28, 18, 12, second).getTime();
  const first = { archive_from_ns: null, from_ns: at(26) * 1e6, minutes_from_ns: at(0) * 1e6 };
  const end = at(600);
  assert.match(lackText(first, { from: at(60), to: end }, 120_000, end), /18:14:26$/);
  assert.equal(
    lackText({ ...kept(2), archive_from_ns: 1 }, span, 24 * HOUR, latest),
    "",
    "the archive has it",
  );
});

test("difference_of_cells_is_that_of_their_shares", () => {
  const metric = { name: "xmit_gbps", unit: "Gb/s", scale: 1000 };
  let seed = 7;
  const random = (most) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * most);
  };
  const states = [NO_DATA, NO_ANSWER, LINK_DOWN];
  const code = () => (random(5) === 0 ? states[random(3)] : random(FULL + 1));
  const now = Uint16Array.from({ length: 2000 }, code);
  const before = Uint16Array.from({ length: 2000 }, code);
  let compared = 0;
  changeOf(now, before).forEach((cell, row) => {
    const [x, y] = [now[row], before[row]];
    if (x > FULL || y > FULL) {
      assert.equal(cell, NO_DATA, `${x} and ${y}`);
      return;
    }
    compared++;
    const expected = (1000 * x) / FULL - (1000 * y) / FULL;
    // A code has steps of 1/32000.
    const error = Math.abs(differenceOf(metric, codeIn(cell)) - expected);
    assert.ok(error <= 1000 / 32_000 + 1e-9, `${x} and ${y}: ${error}`);
  });
  assert.ok(compared > 1000);
  const partly = changeOf(Uint32Array.of(cellOf(10, 0.5)), Uint16Array.of(10));
  assert.ok(Math.abs(knownShare(partly[0]) - 0.5) < 0.001);
});

test("pixel_of_several_rows_has_the_largest_difference", () => {
  const cells = changeOf(Uint16Array.of(100, 9000, 0), Uint16Array.of(NO_DATA, 8000, 5000));
  const of = (...rows) => farthestCell(cells, rows, 0, rows.length);
  assert.equal(of(0), NO_DATA);
  assert.equal(of(0, 1, 2), cells[2]);
  assert.equal(of(0, 1), cells[1]);
});

test("range_of_differences_has_no_change_in_its_middle", () => {
  const metric = { name: "xmit_utilization", unit: "share", scale: 1 };
  const cells = changeOf(Uint16Array.of(0, 6400, 100), Uint16Array.of(12_800, 0, 100));
  const range = changeRange(metric, "shown", [cells, null]);
  const shares = [...cells].map((cell) => Math.round(100 * range.share(codeIn(cell))));
  assert.deepEqual(shares, [0, 75, 50]);
  assert.deepEqual(
    range.ticks.map(({ text }) => text),
    ["less now, −20.0\u00a0points", "0", "+20.0\u00a0points, more now"],
  );
  assert.equal(Math.round(100 * changeRange(metric, "full", [cells]).share(codeIn(cells[0]))), 40);
});
