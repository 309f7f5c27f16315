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

/** Returns round times between two times, about `most` at most, but two if there are two. */
export function timeTicks(from: number, to: number, most: number): TimeTick[] {
  const least = (to - from) / 1000 / most;
  let at = STEPS.findIndex((seconds) => seconds >= least);
  if (at < 0) at = STEPS.length - 1;
  for (; at > 0; at--) {
    const ticks = ticksOf(from, to, 1000 * STEPS[at]);
    if (ticks.length > 1) return ticks;
  }
  return ticksOf(from, to, 1000 * STEPS[0]);
}

function ticksOf(from: number, to: number, step: number): TimeTick[] {
  const offset = -60_000 * new Date(from).getTimezoneOffset();
  const ticks: TimeTick[] = [];
  for (let time = Math.ceil((from + offset) / step) * step - offset; time <= to; time += step) {
    const text = clock(time);
    ticks.push({ time, label: step % 60_000 === 0 ? text.slice(0, 5) : text });
  }
  return ticks;
}
