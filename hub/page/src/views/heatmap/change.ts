//! The difference of two columns, as codes: half of the codes are decreases, half are increases.

import {
  type Cells,
  cellOf,
  codeIn,
  FULL,
  hasValue,
  knownShare,
  NO_DATA,
} from "../../contract/frame";
import type { Metric } from "../../contract/types";
import { valueText } from "../../model/metric";
import { points } from "../../model/shift";

/** Code of no change. */
export const EQUAL = FULL / 2;

/** Returns how much a code is from no change. */
export const distance = (code: number) => Math.abs(code - EQUAL);

/** Returns the cells of the differences. A cell has no data if one of both has none. */
export function changeOf(now: Cells, before: Cells): Uint32Array {
  return Uint32Array.from(now, (cell, row) => {
    const other = before[row] ?? NO_DATA;
    const [x, y] = [codeIn(cell), codeIn(other)];
    if (!hasValue(x) || !hasValue(y)) return NO_DATA;
    const code = Math.max(1, EQUAL + Math.round((x - y) / 2));
    return cellOf(code, Math.min(knownShare(cell), knownShare(other)));
  });
}

/** Returns the difference that a code stands for, in the unit of the metric. */
export function differenceOf(metric: Metric, code: number): number {
  return ((code - EQUAL) / EQUAL) * metric.scale;
}

/** Formats the size of a difference. */
export function differenceText(metric: Metric, size: number): string {
  return metric.unit === "share" ? points(size) : valueText(metric, size);
}

/** Returns the cell with the largest difference among some rows; states count only alone. */
export function farthestCell(
  cells: Cells,
  order: ArrayLike<number>,
  from: number,
  to: number,
): number {
  let best = NO_DATA;
  for (let row = from; row < to; row++) {
    const cell = cells[order[row]];
    const code = codeIn(cell);
    if (!hasValue(code)) continue;
    if (codeIn(best) === NO_DATA || distance(code) > distance(codeIn(best))) best = cell;
  }
  return best;
}
