import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { formatState, parseState, initialState } = await load("src/model/state.ts");

test("state_survives_the_url", () => {
  const state = {
    view: "port",
    item: "0x00000000002000f0/12",
    metric: "xmit_blocked",
    at: null,
    range: { from: 1000, to: 5000 },
    shift: "36h",
    options: { q: "a&b=c#?/ü<img>", with: "0x1/1,0x2/2" },
  };
  assert.deepEqual(parseState(formatState(state)), state);
});

test("default_state_has_a_short_url", () => {
  assert.equal(formatState(initialState()), "#/overview");
  assert.deepEqual(parseState(""), initialState());
});

test("damaged_url_opens_a_view", () => {
  for (const text of [
    "#/nothing",
    "#/%E0%A4%A",
    "#?at=yesterday",
    "#/map?from=2&to=1",
    "#/map?from=x",
    "#/map?shift=soon",
  ]) {
    const state = parseState(text);
    assert.equal(state.at, null, text);
    assert.equal(state.range, null, text);
    assert.equal(state.shift, "", text);
  }
});
