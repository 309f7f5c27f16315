//! A verdict on a link in words.

import type { HealthLink } from "../contract/types";
import { dayTime, grouped } from "../model/units";

/** Returns whether a person has to do something about a link. */
export function isFault({ verdict }: HealthLink): boolean {
  return verdict === "replace" || verdict === "clean";
}

/** Returns the verdict in one word. A link is not good if an end of it does not answer now. */
export function verdictName({ verdict, silent }: HealthLink): string {
  return verdict === "good" && silent.length > 0 ? "unknown" : verdict;
}

/** Returns the time since which a link has its verdict, or since which it is unknown; 0 for never. */
export function verdictSince(row: HealthLink): number {
  if (verdictName(row) !== "unknown") return row.since_ns;
  return Math.min(...row.silent.map(({ read_ns }) => read_ns ?? 0));
}

/** Returns the verdict on one end of a link, its rules, and what to replace. */
export function verdictSentence(row: HealthLink): string {
  const { serial, vendor, part } = row;
  const [name, rules] = [verdictName(row), verdictText(row)];
  const text = named(name, rules);
  const cable = serial === "" ? "" : ` Serial number ${serial}, ${vendor} ${part}.`;
  return `Physical layer: ${text}.${cable}`;
}

/** Returns rules behind the name of their verdict, which some texts begin with. */
export function named(name: string, rules: string): string {
  return rules.startsWith(name) ? rules : [name, rules].filter((part) => part !== "").join(": ");
}

/**
 * Returns the ends that do not answer, the rules that apply, why the link went down, and how much of
 * the time was seen of the end of the row, from which all values are.
 */
export function verdictText(row: HealthLink): string {
  const { why, link_down, seen_minutes, window_minutes, verdict } = row;
  const silent = new Map<string, string[]>();
  for (const { node, port, read_ns } of row.silent) {
    const read = read_ns === null ? "never read" : `last read ${dayTime(read_ns / 1e6)}`;
    silent.set(read, [...(silent.get(read) ?? []), `${node} / ${port}`]);
  }
  const unknown = [...silent].map(([read, ends]) => `no answer of ${ends.join(", ")}, ${read}`);
  const of = unknown.length > 0 ? "this end: " : verdict === "good" ? "good so far: " : "";
  const seen =
    seen_minutes < window_minutes ? `${of}${seen_minutes} of ${window_minutes} minutes seen` : "";
  // A reason explains a link that is not good; a good link was only disabled or restarted.
  const down = verdict === "good" || link_down === null ? "" : `last link down: ${link_down}`;
  const rules = why.map((rule) => rule.replace(/\d{5,}/g, (digits) => grouped(Number(digits))));
  return [...unknown, ...rules, down, seen].filter((part) => part !== "").join("; ");
}
