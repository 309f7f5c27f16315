//! Marks: what applications, users and jobs did when.

import type { MarkRow } from "../contract/types";
import { dayTime, duration } from "./units";

/** Max number of jobs among the marks of a picture, the largest ones. */
export const JOBS = 12;

/** Returns the times at which a mark begins and ends, in milliseconds since 1970. */
export function endsOf({ start_ns, end_ns }: MarkRow): number[] {
  const ends = end_ns === null || end_ns === start_ns ? [start_ns] : [start_ns, end_ns];
  return ends.map((ns) => ns / 1e6);
}

export const startText = ({ start_ns }: MarkRow) => dayTime(start_ns / 1e6);

/** Returns the length of a mark; a moment has none. */
export function lengthText({ start_ns, end_ns }: MarkRow): string {
  if (end_ns === null) return "no end yet";
  return end_ns === start_ns ? "a moment" : duration((end_ns - start_ns) / 1e9);
}

/** Returns a mark as one line. */
export function markText(mark: MarkRow): string {
  const who = mark.by === null ? "" : ` (${mark.by})`;
  return `${mark.name}${who}, ${startText(mark)}, ${lengthText(mark)}`;
}
