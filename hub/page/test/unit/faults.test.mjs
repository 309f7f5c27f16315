import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { faultsAt, faultsOf } = await load("src/views/faults.ts");
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
    fault("unreachable", "0x3", 0, null, { link: null }),
  ];
  assert.deepEqual(
    faultsOf(rows).map(({ what, guid, port }) => [what, guid, port]),
    [
      ["unreachable", "0x3", 0],
      ["link_down", "0x2", 7],
      ["link_down", "0x2", 8],
      ["symbol_error_counter", "0x2", 7],
      ["symbol_error_counter", "0x1", 1],
    ],
  );
});

test("state_of_a_link_is_that_of_the_newest_value", () => {
  const rows = ["was_down", "link_down", "flapping"].map((what) => fault(what, "0x1", 1, null));
  const at = (code) => faultsAt(rows, code).map(({ what }) => what);
  assert.deepEqual(at(LINK_DOWN), ["link_down", "link_down", "flapping"]);
  assert.deepEqual(at(0), ["was_down", "was_down", "flapping"]);
  assert.deepEqual(at(NO_ANSWER), ["was_down", "link_down", "flapping"]);
});
