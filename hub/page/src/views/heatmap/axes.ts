//! Labels of rows and groups, and times below the columns.

import { font, theme } from "../../draw/theme";
import { timeTicks } from "../../draw/ticks";
import type { HeatRow } from "./rows";
import type { Window } from "./source";

/** The rectangle of the values. */
export interface Plot {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The rows that are visible. */
export interface ShownRows {
  rows: readonly HeatRow[];
  /** Indices of the rows in the order of the picture. */
  order: Uint32Array;
  /** First visible row; it can be partly visible. */
  top: number;
  /** Height of a row in pixels. */
  height: number;
}

const LARGEST_TEXT = 12;
/** Min distance between the names of two groups, in pixels. */
const GROUP_DISTANCE = 14;
/** Min distance between the names of groups that are too small for a line, in pixels. */
const AXIS_DISTANCE = 40;
/** Min height of a group with a line and a name, in pixels. */
const MIN_GROUP = 2;

function visible(plot: Plot, { rows, top, height }: ShownRows): { first: number; last: number } {
  return {
    first: Math.floor(top),
    last: Math.min(rows.length, Math.ceil(top + plot.height / height)),
  };
}

/** Draws the name of each row. */
export function drawRowNames(
  context: CanvasRenderingContext2D,
  plot: Plot,
  shown: ShownRows,
): void {
  const { x, y } = plot;
  const { first, last } = visible(plot, shown);
  context.font = font(Math.min(LARGEST_TEXT, shown.height));
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillStyle = theme().muted;
  for (let index = first; index < last; index++) {
    const middle = y + (index - shown.top + 0.5) * shown.height;
    if (middle < y || middle > y + plot.height) continue;
    context.fillText(shown.rows[shown.order[index]].label, x - 8, middle, x - 12);
  }
}

/** Draws a line for each group of rows, and its name if there is space. */
export function drawGroups(context: CanvasRenderingContext2D, plot: Plot, shown: ShownRows): void {
  const { x, y } = plot;
  const colors = theme();
  const { first, last } = visible(plot, shown);
  const groupAt = (index: number) => shown.rows[shown.order[index]].group;
  context.font = font(LARGEST_TEXT);
  context.textBaseline = "middle";
  context.textAlign = "right";
  let start = first;
  let previous = Number.NEGATIVE_INFINITY;
  for (let index = first; index <= last; index++) {
    if (index < last && groupAt(index) === groupAt(start)) continue;
    const from = y + Math.max(0, start - shown.top) * shown.height;
    const to = Math.min(y + plot.height, y + (index - shown.top) * shown.height);
    start = index;
    if (to - from < MIN_GROUP) {
      // Groups that are too small for a line get a name only here and there, like an axis.
      if (from - previous < AXIS_DISTANCE || from + GROUP_DISTANCE > y + plot.height) continue;
      previous = Math.max(from, y + LARGEST_TEXT / 2);
      context.fillStyle = colors.line;
      context.fillRect(x - 6, from, 4, 1);
      context.fillStyle = colors.muted;
      context.fillText(groupAt(index - 1), x - 10, previous, x - 14);
      continue;
    }
    context.fillStyle = colors.line;
    context.fillRect(x - 4, from, 2, to - from - 1);
    const middle = Math.max(y + LARGEST_TEXT / 2, (from + to) / 2);
    if (middle - previous >= GROUP_DISTANCE) {
      context.fillStyle = colors.muted;
      context.fillText(groupAt(index - 1), x - 10, middle, x - 14);
      previous = middle;
    }
  }
}

/** Draws the time axis. */
export function drawTimes(
  context: CanvasRenderingContext2D,
  { x, width }: Plot,
  bottom: number,
  window: Window,
): void {
  const colors = theme();
  const from = window.first * window.step;
  const to = from + window.columns * window.step;
  context.font = font(LARGEST_TEXT);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const { time, label } of timeTicks(from, to, Math.max(2, width / 110))) {
    const at = x + (width * (time - from)) / (to - from);
    context.fillStyle = colors.line;
    context.fillRect(Math.round(at), bottom, 1, 5);
    context.fillStyle = colors.muted;
    context.fillText(label, Math.min(at, x + width - 20), bottom + 8);
  }
}
