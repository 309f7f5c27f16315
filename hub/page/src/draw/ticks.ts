//! Labels of time axes at round times of the day.

import { clock } from "../model/units";

const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
];

export interface TimeTick {
  /** Milliseconds since 1970. */
  time: number;
  label: string;
}

/** Returns round times between two times, about `most` at most. */
export function timeTicks(from: number, to: number, most: number): TimeTick[] {
  const least = (to - from) / 1000 / most;
  const step = 1000 * (STEPS.find((seconds) => seconds >= least) ?? 86400);
  const offset = -60_000 * new Date(from).getTimezoneOffset();
  const ticks: TimeTick[] = [];
  for (let time = Math.ceil((from + offset) / step) * step - offset; time <= to; time += step) {
    const text = clock(time);
    ticks.push({ time, label: step % 60_000 === 0 ? text.slice(0, 5) : text });
  }
  return ticks;
}
