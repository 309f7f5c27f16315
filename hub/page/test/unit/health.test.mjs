import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { isFault, verdictName, verdictSentence, verdictSince, verdictText } =
  await load("src/views/verdict.ts");

const GOOD = {
  verdict: "good",
  why: [],
  link_down: "reason 33 (the other end was disabled), intended: yes, blamed: unknown",
  seen_minutes: 125,
  window_minutes: 125,
  serial: "SN7",
  vendor: "V",
  part: "P",
  silent: [],
};

const SILENT = { guid: "0x1", port: 2, node: "n1", read_ns: null };

test("good_link_has_no_reason_and_a_judged_one_names_what_to_replace", () => {
  assert.equal(verdictText(GOOD), "");
  assert.equal(verdictSentence(GOOD), "Physical layer: good. Serial number SN7, V P.");
  const why = ["2 unintended link downs in 24 h"];
  const reason = "reason 2 (high bit error ratio), intended: no, blamed: this end";
  const bad = { ...GOOD, verdict: "replace", why, link_down: reason, serial: "" };
  assert.equal(
    verdictSentence(bad),
    `Physical layer: replace: ${why[0]}; last link down: ${reason}.`,
  );
  assert.deepEqual([GOOD, bad, { ...GOOD, verdict: "watch" }].map(isFault), [false, true, false]);
});

test("verdict_states_how_much_was_seen", () => {
  const seen = (row) => verdictText({ ...GOOD, seen_minutes: 48, ...row });
  assert.equal(seen({}), "good so far: 48 of 125 minutes seen");
  assert.equal(seen({ verdict: "watch", link_down: null }), "48 of 125 minutes seen");
  assert.match(seen({ silent: [SILENT] }), /, never read; this end: 48 of 125 minutes seen$/);
  assert.match(
    verdictSentence({ ...GOOD, seen_minutes: 48 }),
    /^Physical layer: good so far: 48 of 125 minutes seen\. Serial/,
  );
});

test("good_link_with_an_end_that_does_not_answer_is_unknown_and_a_bad_one_stays_bad", () => {
  const end = (port, read_ns) => ({ guid: "0x1", port, node: "n1", read_ns });
  const since = new Date(2023, 4, 6, 7, 8).getTime();
  const silent = [end(1, 1e6 * since), end(2, null)];
  const row = { ...GOOD, silent };
  assert.deepEqual(
    [verdictText(row), verdictName(row), verdictName(GOOD)],
    [
      "no answer of n1 / 1, last read 2023-05-06 07:08; no answer of n1 / 2, never read",
      "unknown",
      "good",
    ],
  );
  assert.match(verdictSentence(row), /^Physical layer: unknown: no answer of n1/);
  const both = { ...GOOD, since_ns: 7, silent: [end(1, 5), end(3, 4)] };
  const same = verdictText({ ...GOOD, silent: [end(1, 5), end(3, 5)] });
  assert.match(same, /^no answer of n1 \/ 1, n1 \/ 3, last read/);
  assert.deepEqual([both, row, { ...both, verdict: "watch" }].map(verdictSince), [4, 0, 7]);
  assert.equal(verdictName({ ...row, verdict: "replace" }), "replace");
});
