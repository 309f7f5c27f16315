import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { test } from "node:test";
import { load } from "../load.mjs";

const src = new URL("../../src/", import.meta.url);

/** Counts the lines and the points that are drawn into a tile. */
function tile(counts) {
  return {
    fillRect: (_x, _y, width, height) => {
      if (width * height === 1) counts.points++;
    },
    beginPath() {},
    moveTo() {},
    lineTo() {},
    stroke: () => counts.lines++,
  };
}

/** Returns what a pattern consists of in a theme with these colours. */
function drawn(paint, color) {
  const counts = { lines: 0, points: 0 };
  globalThis.window = { addEventListener() {} };
  globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => `${name}${color}` });
  globalThis.document = {
    documentElement: { dataset: {} },
    createElement: () => ({ getContext: () => tile(counts) }),
  };
  paint({ createPattern: () => ({}) });
  return counts;
}

test("no_answer_is_lines_and_no_data_is_points_and_legends_name_both", async () => {
  const { noAnswer, noData } = await load("src/draw/canvas.ts");
  const answer = drawn(noAnswer, "a");
  const data = drawn(noData, "b");
  assert.ok(answer.lines > 0 && answer.points === 0, JSON.stringify(answer));
  assert.ok(data.points > 0 && data.lines === 0, JSON.stringify(data));
  const css = await readFile(new URL("style/parts.css", src), "utf8");
  assert.match(css, /\.swatch\.no-answer \{\s+background: repeating-linear-gradient/);
  assert.match(css, /\.swatch\.no-data \{\s+background: radial-gradient/);
  const { STATES } = await load("src/parts/meter.ts");
  const names = STATES.map(([name]) => name);
  assert.ok(names.includes("no-answer") && names.includes("no-data"), names.join());
});

test("all_patterns_are_made_in_one_file", async () => {
  const files = await readdir(src, { recursive: true });
  const found = [];
  for (const file of files.filter((name) => name.endsWith(".ts")))
    if ((await readFile(new URL(file, src), "utf8")).includes("createPattern")) found.push(file);
  assert.deepEqual(found, ["draw/canvas.ts"]);
});
