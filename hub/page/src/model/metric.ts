//! Values of metrics as text.

import { hasValue, shareOf, stateOf } from "../contract/frame";
import type { Metric } from "../contract/types";
import { duration, percent, scaled } from "./units";

/** Returns the value of a code with its unit, or its state. */
export function codeText(metric: Metric, code: number): string {
  return hasValue(code) ? valueText(metric, (shareOf(code) ?? 0) * metric.scale) : stateOf(code);
}

/** Returns a value with its unit. */
export function valueText({ unit }: Metric, value: number): string {
  if (unit === "share") return percent(value);
  if (unit === "Gb/s") return scaled(1e9 * value, "b/s");
  if (unit === "ns") return duration(value / 1e9);
  return scaled(value, unit.startsWith("/") ? unit : ` ${unit}`).replace(/\s+/g, "\u00a0");
}
