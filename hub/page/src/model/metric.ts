//! Formats values of metrics.

import { codeIn, hasValue, knownShare, shareOf, stateOf } from "../contract/frame";
import type { Metric } from "../contract/types";
import { duration, percent, scaled } from "./units";

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

/** Returns a value with its unit. */
export function valueText({ unit }: Metric, value: number): string {
  if (unit === "share") return percent(value);
  if (unit === "Gb/s") return scaled(1e9 * value, "b/s");
  if (unit === "ns") return duration(value / 1e9);
  return scaled(value, unit.replace(/^1\//, "/"));
}
