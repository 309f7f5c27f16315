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
/** Min distance between two names, in pixels, and mean distance between those of hot rows. */
const NAME_DISTANCE = 14;
const HOT_DISTANCE = 50;
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

/** Returns the width that the longest name needs, in pixels. */
export function namesWidth(context: CanvasRenderingContext2D, rows: readonly HeatRow[]): number {
  const longest = rows
    .flatMap(({ label, group }) => [label, group])
    .reduce((x, y) => (y.length > x.length ? y : x), "");
  context.font = font(LARGEST_TEXT);
  return context.measureText(longest).width + 26;
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

/** A label that can be anywhere in a span of the axis, at this distance from others. */
interface Label {
  from: number;
  to: number;
  distance: number;
}

/**
 * Returns the positions of labels: the first ones get the middle of their span, and each later one
 * the free position that is nearest to it. A label without space gets null.
 */
export function placed(labels: readonly Label[]): (number | null)[] {
  const taken: { at: number; distance: number }[] = [];
  return labels.map(({ from, to, distance }) => {
    const middle = (from + to) / 2;
    const apart = (other: { distance: number }) => Math.max(distance, other.distance);
    const places = taken.flatMap((each) => [each.at - apart(each), each.at + apart(each)]);
    const free = [middle, ...places].filter(
      (at) =>
        at >= from &&
        at <= to &&
        taken.every((each) => Math.abs(each.at - at) >= apart(each) - 0.01),
    );
    if (free.length === 0) return null;
    const at = free.reduce((x, y) => (Math.abs(y - middle) < Math.abs(x - middle) ? y : x));
    taken.push({ at, distance });
    return at;
  });
}

/**
 * Draws the names of the hottest rows, then a line for each group of rows, and its name if there is
 * space. The rows are in the order of the topology. `hottest` are some of them, the hottest first.
 */
export function drawDense(
  context: CanvasRenderingContext2D,
  plot: Plot,
  shown: ShownRows,
  hottest: ArrayLike<number>,
): void {
  const { x, y } = plot;
  const colors = theme();
  const { first, last } = visible(plot, shown);
  const groupAt = (index: number) => shown.rows[shown.order[index]].group;
  const inside = (at: number) =>
    Math.max(y + LARGEST_TEXT / 2, Math.min(at, y + plot.height - LARGEST_TEXT / 2));
  const middleOf = (row: number) => y + (row - shown.top + 0.5) * shown.height;
  const rows = Array.from(hottest).filter((row) => row >= first && row < last);
  const spots = rows.map((row) => inside(middleOf(row)));
  const places = placed(spots.map((at) => ({ from: at, to: at, distance: NAME_DISTANCE })));
  const hot = rows
    .filter((_, index) => places[index] !== null)
    .slice(0, Math.max(1, Math.floor(plot.height / HOT_DISTANCE)));
  const labels = hot.map((row) => {
    const at = inside(middleOf(row));
    return { text: shown.rows[row].label, from: at, to: at, distance: NAME_DISTANCE };
  });
  context.fillStyle = colors.line;
  let start = first;
  for (let index = first; index <= last; index++) {
    if (index < last && groupAt(index) === groupAt(start)) continue;
    const from = y + Math.max(0, start - shown.top) * shown.height;
    const to = Math.min(y + plot.height, y + (index - shown.top) * shown.height);
    start = index;
    // Groups that are too small for a line get a name only here and there, like an axis.
    const isSmall = to - from < MIN_GROUP;
    if (!isSmall) context.fillRect(x - 4, from, 2, to - from - 1);
    labels.push({
      text: groupAt(index - 1),
      from: inside(from),
      to: inside(to),
      distance: isSmall ? AXIS_DISTANCE : NAME_DISTANCE,
    });
  }
  context.font = font(LARGEST_TEXT);
  context.textBaseline = "middle";
  context.textAlign = "right";
  placed(labels).forEach((at, index) => {
    const row: number | undefined = hot[index];
    if (at === null) return;
    context.fillStyle = row === undefined ? colors.muted : colors.ink;
    context.fillText(labels[index].text, x - 10, at, x - 14);
    if (row !== undefined) context.fillRect(x - 8, middleOf(row) - 0.5, 8, 1);
  });
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
