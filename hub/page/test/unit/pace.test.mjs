import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { goesOn, PACES } = await load("src/model/pace.ts");

/** Numbers of a simple congruential generator: the same schedules in each run. */
function* randoms(seed) {
  for (let state = seed; ; ) {
    state = (1103515245 * state + 12345) % 2 ** 31;
    yield state / 2 ** 31;
  }
}

/** Returns the slots that a page shows when frames arrive in an order. */
function shownOf(arrivals, interval, pace) {
  let newest = null;
  let shown = null;
  return arrivals.map((slot) => {
    newest = Math.max(newest ?? slot, slot);
    if (newest === slot && goesOn(shown, slot, interval, pace)) shown = slot;
    return { newest, shown };
  });
}

test("page_shows_one_slot_in_each_period_whatever_the_order_of_arrival", () => {
  const random = randoms(7);
  for (let round = 0; round < 400; round++) {
    const next = () => random.next().value;
    const interval = [100, 500, 1000, 3000][Math.floor(4 * next())];
    const pace = 1000 * PACES[1 + Math.floor(3 * next())];
    // Slots are lost, repeated, and come after later ones.
    let slot = Math.floor(1e6 * next());
    const arrivals = Array.from({ length: 120 }, () => {
      slot += next() < 0.1 ? Math.floor(30 * next()) : 1;
      return next() < 0.2 ? slot - Math.floor(5 * next()) : slot;
    });
    const all = shownOf(arrivals, interval, pace);
    const length = Math.max(pace, interval);
    all.forEach(({ newest, shown }, at) => {
      // The shown slot is never a period behind the newest one, and is one that has arrived.
      assert.ok(newest >= shown && (newest - shown) * interval < length, `${newest} ${shown}`);
      assert.ok(arrivals.includes(shown));
      if (at > 0) assert.ok(shown >= all[at - 1].shown);
    });
    const changes = [...new Set(all.map(({ shown }) => shown))];
    const periods = changes.map((slot) => Math.floor((slot * interval) / length));
    assert.equal(new Set(periods).size, changes.length, "one slot in each period");
  }
});

test("without_a_pace_each_slot_is_shown", () => {
  const shown = shownOf([5, 6, 7, 9, 8, 10], 1000, 0).map((each) => each.shown);
  assert.deepEqual(shown, [5, 6, 7, 9, 9, 10]);
});

test("pages_that_open_at_different_times_show_the_same_slots", () => {
  const from = (first) => Array.from({ length: 60 }, (_, index) => first + index);
  for (const first of [101, 103]) {
    const shown = new Set(shownOf(from(first), 1000, 5000).map((each) => each.shown));
    const common = [...shown].filter((slot) => slot > 105 && slot < 130);
    assert.deepEqual(common, [110, 115, 120, 125]);
  }
});
