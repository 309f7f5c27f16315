import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { faultsAt, faultsOf, faultTexts, sinceText } = await load("src/views/faults.ts");
const { LINK_DOWN, NO_ANSWER } = await load("src/contract/frame.ts");

const fault = (what, guid, port, peer, more = {}) => ({
  ...{ what, guid, port, link: "4xEDR", increase: null, rate: null, devices_behind: 0 },
  peer: peer === null ? null : { guid: peer[0], port: peer[1] },
  ...more,
});

test("both_ends_of_a_cable_are_one_fault_and_counters_are_not", () => {
  const rows = [
    fault("symbol_error_counter", "0x1", 1, ["0x2", 7], { increase: 3, rate: 0.1 }),
    fault("symbol_error_counter", "0x2", 7, ["0x1", 1], { increase: 5, rate: 0.2 }),
    fault("flapping", "0x1", 1, ["0x2", 7]),
    fault("link_down", "0x2", 7, ["0x1", 1]),
    fault("link_down", "0x2", 8, null),
    fault("was_down", "0x4", 1, null),
    fault("unreachable", "0x6", 0, null, { link: null, node: "n10" }),
    fault("unreachable", "0x3", 0, null, { link: null, node: "n9" }),
  ];
  assert.deepEqual(
    faultsOf(rows).map(({ what, guid, port }) => [what, guid, port]),
    [
      ["unreachable", "0x3", 0],
      ["unreachable", "0x6", 0],
      ["link_down", "0x2", 7],
      ["link_down", "0x2", 8],
      ["was_down", "0x4", 1],
      ["symbol_error_counter", "0x2", 7],
      ["symbol_error_counter", "0x1", 1],
    ],
  );
  // Their sum is the number of faults.
  assert.deepEqual(faultTexts(faultsOf(rows)), [
    "2 devices do not answer",
    "2 links are down, unstable or degraded",
    "1 link was down",
    "2 error counters grew",
  ]);
});

test("fault_that_is_older_than_the_range_began_when_its_alert_did", () => {
  const row = { since_ns: 60e9, began_in_range: false };
  const dead = fault("unreachable", "0x3", 1, null, row);
  const alert = { alert: "InfinibandHcaDead", state: "firing", guid: "0x3", port: null };
  const at = (fault, more) => sinceText(fault, [{ ...alert, since_ns: 1e9, ...more }]).slice(0, 7);
  assert.match(sinceText(dead, [{ ...alert, since_ns: 1e9 }]), /^since 1970-01-01 /);
  for (const more of [
    { guid: "0x4" },
    { state: "resolved" },
    { since_ns: 61e9 },
    { alert: "InfinibandSymbolErrors" },
    { port: 2 },
  ])
    assert.equal(at(dead, more), "began e", JSON.stringify(more));
  // The alert of a cable is that of one of its ends.
  const down = fault("link_down", "0x3", 1, ["0x5", 7], row);
  assert.equal(at(down, { alert: "InfinibandLinkDown", guid: "0x5", port: 7 }), "since 1");
  assert.match(sinceText({ ...dead, began_in_range: true }), /^since 1970/);
  // Its time is that of the event by which it is up.
  const up = fault("was_down", "0x3", 1, null, { since_ns: 60e9, began_in_range: true });
  assert.match(sinceText(up), /^up again at 1970/);
});

test("state_of_a_link_is_that_of_the_newest_value", () => {
  const rows = ["was_down", "link_down", "flapping"].map((what) => fault(what, "0x1", 1, null));
  const at = (code) => faultsAt(rows, code).map(({ what }) => what);
  assert.deepEqual(at(LINK_DOWN), ["link_down", "link_down", "flapping"]);
  assert.deepEqual(at(0), ["was_down", "was_down", "flapping"]);
  assert.deepEqual(at(NO_ANSWER), ["was_down", "link_down", "flapping"]);
});
