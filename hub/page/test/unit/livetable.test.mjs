import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

/** An element of which only the text is of interest. */
class Element {
  textContent = "";
  firstChild = null;
  setAttribute() {}
  addEventListener() {}
  append() {}
  getContext() {}
}
globalThis.window = new Element();
globalThis.Node = Element;
globalThis.Text = class {};
globalThis.document = { createElement: () => new Element() };
const { LiveTable } = await load("src/views/livetable.ts");

/** Returns a function that shows a slot, and then what the table did and the note about it. */
function shower() {
  const app = { shown: 0, isLive: true, option: () => "", topology: null };
  const done = [];
  const table = { held: "", setRows: () => done.push("all") };
  table.sortSoon = () => done.push("sorted");
  table.refresh = () => done.push("values");
  const live = new LiveTable(app, table, [1, 2], () => [], "port");
  return (shown, held, isLive = true) => {
    Object.assign(app, { shown, isLive });
    table.held = held;
    live.update(true);
    return [done.pop(), live.order.textContent];
  };
}

test("live_rows_are_sorted_in_each_slot_while_they_are_not_in_use", () => {
  const show = shower();
  assert.deepEqual(show(1, ""), ["all", ""]);
  assert.deepEqual(show(2, ""), ["sorted", ""]);
  assert.deepEqual(show(2, ""), ["values", ""]);
  const held = "the pointer is on the table";
  for (const slot of [3, 4, 20])
    assert.deepEqual(show(slot, held), ["values", `, order kept while ${held}`]);
  assert.deepEqual(show(20, ""), ["sorted", ""]);
  // The values of a selected time do not change.
  assert.deepEqual(show(7, held, false), ["all", ""]);
});
