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
/** Min distance between two names in pixels. */
const NAME_DISTANCE = 14;

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

/** Returns a name, or the first end of a link that has no space for both. */
function fitting(context: CanvasRenderingContext2D, name: string, room: number): string {
  return context.measureText(name).width > room ? name.split(/ [→–] /)[0] : name;
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
    const { label } = shown.rows[shown.order[index]];
    context.fillText(fitting(context, label, x - 12), x - 8, middle, x - 12);
  }
}

/** A name that can be anywhere in a span of the axis. */
interface Label {
  text: string;
  from: number;
  to: number;
}

/**
 * Returns the positions of labels: the first ones get the middle of their span, and each later one
 * the free position that is nearest to it. A label without space gets null.
 */
export function placed(labels: readonly Label[]): (number | null)[] {
  const taken: number[] = [];
  return labels.map(({ from, to }) => {
    const middle = (from + to) / 2;
    const free = [middle, ...taken.flatMap((at) => [at - NAME_DISTANCE, at + NAME_DISTANCE])]
      .filter((at) => at >= from && at <= to)
      .filter((at) => taken.every((other) => Math.abs(other - at) >= NAME_DISTANCE - 0.01))
      .sort((x, y) => Math.abs(x - middle) - Math.abs(y - middle));
    taken.push(...free.slice(0, 1));
    return free[0] ?? null;
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
  hottest: Uint32Array,
): void {
  const { x, y } = plot;
  const { line, ink, muted } = theme();
  const { first, last } = visible(plot, shown);
  const top = (row: number) => y + (row - shown.top) * shown.height;
  const [least, most] = [y + LARGEST_TEXT / 2, y + plot.height - LARGEST_TEXT / 2];
  const labels: Label[] = [];
  const add = (text: string, ...ends: number[]) => {
    const [from, to] = ends.map((at) => Math.max(least, Math.min(at, most)));
    labels.push({ text, from, to });
  };
  const hot = hottest.filter((row) => row >= first && row < last);
  for (const row of hot) add(shown.rows[row].label, top(row + 0.5), top(row + 0.5));
  context.fillStyle = line;
  for (let start = first, row = first + 1; row <= last; row++) {
    const { group } = shown.rows[start];
    if (row < last && shown.rows[row].group === group) continue;
    const [from, to] = [Math.max(y, top(start)), Math.min(y + plot.height, top(row))];
    context.fillRect(x - 4, from, 2, to - from - Math.min(1, shown.height / 2));
    add(group, from, to);
    start = row;
  }
  context.font = font(LARGEST_TEXT);
  context.textBaseline = "middle";
  context.textAlign = "right";
  placed(labels).forEach((at, index) => {
    if (at === null) return;
    const isHot = index < hot.length;
    context.fillStyle = isHot ? ink : muted;
    context.fillText(fitting(context, labels[index].text, x - 14), x - 10, at, x - 14);
    if (isHot) context.fillRect(x - 8, top(hot[index] + 0.5) - 0.5, 8, 1);
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
