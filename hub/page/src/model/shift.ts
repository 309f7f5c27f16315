//! The earlier time that the page compares with the shown one. Durations are those of UTC, so a day
//! has 24 hours also when daylight saving time begins or ends.

import type { Health } from "../contract/types";
import { count, dayTime, duration, percent, significant } from "./units";

const UNITS: Record<string, number> = { s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5, w: 6048e5 };
const LONGEST = 366 * UNITS.d;

/** Returns the length of a duration such as `36h` in milliseconds; 0 if it is none. */
export function durationOf(text: string): number {
  const [, number, unit] = /^(\d+) ?([a-z]+)$/.exec(text.trim().toLowerCase()) ?? [];
  const length = Number(number) * (UNITS[unit] ?? 0);
  return length > 0 && length <= LONGEST ? length : 0;
}

/** Returns how much earlier the other time is. */
export function shiftText(shift: number): string {
  return `${duration(shift / 1000)} earlier`;
}

/** Values with the times at which their intervals end, in milliseconds since 1970. */
export interface Values {
  t: number[];
  v: (number | null)[];
}

/** Max error of a time that was computed from nanoseconds, in milliseconds. */
const ROUNDING = 0.01;

/**
 * Moves earlier values to the shown time. A value gets the time of the shown value of its slot, so
 * that both have one place on the axis.
 */
export function moved(now: Values, earlier: Values, shift: number, interval: number): Values {
  const slot = (time: number) => Math.floor((time + ROUNDING) / interval);
  const times = new Map(now.t.map((time) => [slot(time), time]));
  const t = earlier.t.map((time) => times.get(slot(time + shift)) ?? time + shift);
  return { t, v: earlier.v };
}

/** Returns the difference and the ratio to an earlier value; empty if one of them is missing. */
export function changeText(
  now: number | null | undefined,
  before: number | null | undefined,
  format: (value: number) => string,
): string {
  if (now === null || before === null || now === undefined || before === undefined) return "";
  return `now ${signed(now - before, format)}${before === 0 ? "" : `, × ${significant(now / before)}`}`;
}

/** Formats a difference with its sign. */
export function signed(difference: number, format: (value: number) => string): string {
  const text = format(Math.abs(difference));
  if (difference === 0) return text;
  return text.startsWith("<") ? text.replace("<", "< ±") : `${difference < 0 ? "−" : "+"}${text}`;
}

/** Formats a difference of shares in percentage points. */
export function points(difference: number): string {
  return percent(difference).replace("%", "points");
}

/** Returns what the hub does not have of the earlier time; empty if it has all of it. */
export function lackText(
  kept: Health["kept"] | undefined,
  { from, to }: { from: number; to: number },
  shift: number,
  latest: number,
): string {
  const { archive_from_ns: archive, minutes_from_ns: minutes, from_ns: slots } = kept ?? {};
  // The first minute of the hub begins before its first slot.
  const isFirst = minutes && slots && slots > minutes && slots - minutes < 6e10;
  const first = (archive ?? (isFirst ? slots : (minutes ?? slots)) ?? 0) / 1e6;
  if (first === 0 || first <= from - shift) return "";
  if (first < to - shift) return `no values to compare with before ${dayTime(first + shift)}`;
  return `before: the hub holds only ${count(Math.floor((latest - first) / 6e4), "minute")}`;
}
