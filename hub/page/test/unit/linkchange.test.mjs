import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

globalThis.window = { addEventListener() {} };
globalThis.document = { createElement: () => ({ getContext() {} }) };
const { LinkChange } = await load("src/views/linkchange.ts");

const MINUTE = 60_000;
const FULL = 64_000;
/** A live page at the second minute, compared with the first one. */
const page = (means) => ({
  span: { from: 2 * MINUTE, to: 2 * MINUTE + 1000 },
  shift: MINUTE,
  isLive: true,
  over: (metric, { to }) => means[metric]?.[to / MINUTE],
});

test("comparison_is_known_when_the_hub_has_answered_for_both_metrics", () => {
  const codes = new Uint16Array(2);
  const both = { 1: codes, 2: codes };
  const isKnown = (means) => {
    const change = new LinkChange(page(means));
    change.update();
    return change.isKnown;
  };
  assert.equal(isKnown({}), false);
  assert.equal(isKnown({ xmit_utilization: both }), false);
  assert.equal(isKnown({ xmit_utilization: both, xmit_blocked: { 2: codes } }), false);
  assert.equal(isKnown({ xmit_utilization: both, xmit_blocked: both }), true);
});

test("links_are_in_the_order_of_the_size_of_their_change_and_files_have_its_sign", () => {
  const now = Uint16Array.from([0, 0, FULL / 4, 0]);
  const before = Uint16Array.from([FULL / 2, 0, 0, 0]);
  const both = { 1: before, 2: now };
  const change = new LinkChange(page({ xmit_utilization: both, xmit_blocked: both }));
  change.update();
  const column = change.columns.find(({ id }) => id === "use-change");
  const links = [
    { a: 0, b: 1 },
    { a: 2, b: 3 },
  ];
  assert.deepEqual(links.map(column.value), [0.5, 0.25]);
  assert.deepEqual(links.map(column.saved), [-0.5, 0.25]);
});
