//! Formats values of metrics.

import { codeIn, hasValue, knownShare, shareOf, stateOf } from "../contract/frame";
import type { Metric } from "../contract/types";
import { type Cell, head } from "./csv";
import { duration, percent, scaled, significant, withSameDigits } from "./units";

const AGGREGATES: Record<string, string> = { mean: "mean", p95: "95th percentile" };

/** Returns the value with its unit, or the state, of a cell that summarizes some ports. */
export function cellText(metric: Metric, cell: number, ports: number, aggregate: string): string {
  const code = codeIn(cell);
  if (!hasValue(code)) return stateOf(code);
  const value = valueText(metric, (shareOf(code) ?? 0) * metric.scale);
  const known = knownShare(cell);
  if (known === 1) return value;
  if (ports === 1)
    return `at least ${value}: counters of the sum have no rate, or errors increased at an unknown time`;
  return aggregate === "max"
    ? `at least ${value}, ${percent(known)} of the ports known`
    : `${AGGREGATES[aggregate]} ${value} of the known ports (${percent(known)})`;
}

/** Returns the base unit of a metric, and the factor to it. */
export function baseUnit({ unit }: Metric): { unit: string; factor: number } {
  const prefix = { "Gb/s": 1e9, ns: 1e-9 }[unit];
  return prefix === undefined ? { unit, factor: 1 } : { unit: unit.slice(1), factor: prefix };
}

/** Returns the two heads of a metric in a saved picture: of its values and of their states. */
export function valueHeads(metric: Metric, title: string): string[] {
  return [head(title, baseUnit(metric).unit), head(title, "state")];
}

/** Returns a value in the base unit, and the state of a cell without an exact value. */
export function valueCells(metric: Metric, cell: number): Cell[] {
  const code = codeIn(cell);
  const share = shareOf(code);
  if (share === null) return [null, stateOf(code)];
  const value = share * metric.scale * baseUnit(metric).factor;
  return [value, knownShare(cell) < 1 ? "at least" : null];
}

/** Returns a share in percent, or the state. */
export function codeText(code: number): string {
  return hasValue(code) ? percent(shareOf(code)) : stateOf(code);
}

/** Returns the texts of some values on an axis. */
export function axisTexts(metric: Pick<Metric, "unit">, values: readonly number[]): string[] {
  const like = Math.max(...values.map(Math.abs));
  // A scale can end below one percent.
  const text = (value: number) =>
    metric.unit === "share" ? `${significant(100 * value)}\u00a0%` : valueText(metric, value, like);
  return withSameDigits(values.map(text));
}

/** Returns a value with its unit. Values beside each other are formatted like the largest one. */
export function valueText({ unit }: Pick<Metric, "unit">, value: number, like = value): string {
  if (unit === "share") return percent(value);
  if (unit === "Gb/s") return scaled(1e9 * value, "b/s", 1e9 * like);
  if (unit === "ns") return duration(value / 1e9);
  return scaled(value, unit.replace(/^1\//, "/"), like);
}
