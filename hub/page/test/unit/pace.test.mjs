import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const { Pace } = await load("src/model/pace.ts");

/** A clock that a test moves. */
class Clock {
  time = 0;
  timers = new Map();
  count = 0;
  now = () => this.time;
  later = (work, delay) => {
    this.timers.set(++this.count, { work, at: this.time + delay });
    return this.count;
  };
  cancel = (timer) => this.timers.delete(timer);

  /** Moves to a time, and calls what is due on the way. */
  moveTo(time) {
    for (;;) {
      const due = [...this.timers].filter(([, { at }]) => at <= time);
      if (due.length === 0) break;
      const [timer, { work, at }] = due.sort(([, x], [, y]) => x.at - y.at)[0];
      this.timers.delete(timer);
      this.time = at;
      work();
    }
    this.time = time;
  }
}

/** Returns the times of arrivals, with pauses and bursts, from a seed. */
function schedule(seed) {
  let state = seed;
  const random = () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
  let time = 0;
  return Array.from({ length: 200 }, () => {
    const wait = random() < 0.1 ? 15_000 : random() < 0.3 ? 0 : 2000;
    time += Math.round(wait * random());
    return time;
  });
}

test("any_schedule_is_shown_at_the_rate_and_the_newest_slot_after_a_period_at_most", () => {
  for (const period of [0, 2000, 5000, 10_000]) {
    for (let seed = 1; seed <= 50; seed++) {
      const clock = new Clock();
      let arrived = null;
      const shown = [];
      const pace = new Pace(() => shown.push({ slot: arrived, time: clock.time }), clock);
      pace.period = period;
      const times = schedule(seed);
      for (const [slot, time] of times.entries()) {
        clock.moveTo(time);
        arrived = slot;
        pace.arrive();
      }
      clock.moveTo(times.at(-1) + period);
      assert.equal(shown.at(-1).slot, times.length - 1);
      if (period === 0) assert.equal(shown.length, times.length);
      for (const [at, { slot, time }] of shown.entries()) {
        if (at > 0) {
          assert.ok(time - shown[at - 1].time >= period, `${period} ${seed}`);
          assert.ok(slot > shown[at - 1].slot);
        }
      }
      // No slot waits for longer than a period, or a newer one is shown instead.
      for (const [slot, time] of times.entries())
        assert.ok(shown.some((each) => each.slot >= slot && each.time <= time + period));
    }
  }
});

test("another_rate_shows_at_once_what_has_arrived_and_is_kept", () => {
  const kept = new Map();
  globalThis.localStorage = {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => kept.set(name, value),
    removeItem: (name) => kept.delete(name),
  };
  const clock = new Clock();
  let shown = 0;
  const pace = new Pace(() => shown++, clock);
  pace.choose("10");
  assert.deepEqual([pace.period, shown], [10_000, 1]);
  pace.arrive();
  clock.moveTo(4000);
  assert.equal(shown, 1);
  pace.choose("2");
  assert.equal(shown, 2);
  // The timer of the former rate is gone.
  clock.moveTo(60_000);
  assert.equal(shown, 2);
  const next = new Pace(() => {}, clock);
  next.restore();
  assert.equal(next.period, 2000);
  kept.set("ibnet-rate", "3");
  next.restore();
  assert.equal(next.period, 0);
});
