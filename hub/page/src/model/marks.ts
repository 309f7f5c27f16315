//! Marks: what applications, users and jobs did when.

import type { MarkRow } from "../contract/types";
import { dayTime, duration } from "./units";

/** Max number of jobs among the marks of a picture, the largest ones. */
export const JOBS = 12;

/** Returns whether a mark has no length. */
export function isMoment({ start_ns, end_ns }: MarkRow): boolean {
  return start_ns === end_ns;
}

/** Returns a mark as one line: its text, its user, its begin and its length. */
export function markText(mark: MarkRow): string {
  const { name, by, start_ns, end_ns } = mark;
  const who = by === null ? "" : ` (${by})`;
  const from = dayTime(start_ns / 1e6);
  if (isMoment(mark)) return `${name}${who}, ${from}`;
  const length = end_ns === null ? "no end yet" : duration((end_ns - start_ns) / 1e9);
  return `${name}${who}, from ${from}, ${length}`;
}
