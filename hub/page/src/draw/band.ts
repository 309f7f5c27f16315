//! Marks above a picture: a band of named spans, and lines over the picture at their ends.

import type { MarkRow } from "../contract/types";
import { endsOf } from "../model/marks";
import { LINES } from "./lines";
import { font, theme } from "./theme";

/** Height of the band with the space below it, in units. */
export const BAND = 16;
const GAP = 3;
/** Min width of a span with a label, and the space before the label. */
const LABELED = 18;
const INDENT = 5;
/** Min distance of two lines of phases, which can be many. */
const APART = 5;

/**
 * Draws the marks between `left` and `right` above `bottom`, and their lines down to `foot`. `place`
 * returns the position of a time in milliseconds since 1970. `unit` is the length of a unit in
 * pixels of the context.
 */
export function drawBand(
  context: CanvasRenderingContext2D,
  marks: readonly MarkRow[],
  { left, right, bottom, foot }: { left: number; right: number; bottom: number; foot: number },
  place: (time: number) => number,
  unit = 1,
): void {
  const colors = theme();
  const height = (BAND - GAP) * unit;
  const y = bottom - BAND * unit;
  const spans = marks
    .map((mark) => {
      const from = place(mark.start_ns / 1e6);
      const to = mark.end_ns === null ? right : place(mark.end_ns / 1e6);
      const ends = endsOf(mark).map(place);
      return { mark, ends, from: Math.max(left, from), to: Math.min(right, to) };
    })
    .filter(({ from, to }) => to >= left && from <= right);
  context.save();
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = font(10.5 * unit);
  let last = Number.NEGATIVE_INFINITY;
  spans.forEach(({ mark, ends, from, to }, index) => {
    const color = markColor(mark);
    const width = Math.max(unit, to - from);
    // Jobs can be many, so they have lines, and the flags of a chart name them.
    const isJob = mark.kind === "job";
    const isPoint = isJob || mark.start_ns === mark.end_ns;
    context.fillStyle = color;
    ends.forEach((x, end) => {
      if (x < left || x > right || (mark.kind === "phase" && x - last < APART * unit)) return;
      last = x;
      context.globalAlpha = mark.kind === "mark" ? 0.9 : 0.5;
      // The line of an end is broken.
      const step = end === 0 ? foot - bottom : 7 * unit;
      for (let top = bottom; top < foot; top += step)
        context.fillRect(x, top, unit, end === 0 ? step : Math.min(4 * unit, foot - top));
    });
    if (!isPoint) {
      context.globalAlpha = 1;
      context.fillStyle = colors.surface;
      context.fillRect(from, y, width, height);
      context.fillStyle = color;
      context.globalAlpha = 0.3;
      context.fillRect(from, y, width, height);
    }
    context.globalAlpha = 1;
    if (from > left || !isJob)
      context.fillRect(from, y, isPoint ? 2 * unit : Math.min(width, 2 * unit), bottom - y);
    // A later mark covers the rest of this one.
    const next = spans.find(({ mark }, other) => other > index && mark.kind !== "job");
    const end = Math.min(isPoint ? right : to, next?.from ?? right);
    if (isJob || end - from < LABELED * unit) return;
    context.save();
    context.beginPath();
    context.rect(from, y, end - from - unit, height);
    context.clip();
    context.fillStyle = colors.ink;
    context.fillText(mark.name, from + INDENT * unit, y + height / 2);
    context.restore();
  });
  context.restore();
}

/** Returns the colour of a mark, which is the same in all pictures. */
export function markColor({ name }: MarkRow): string {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + letter.codePointAt(0)!) % 65_521;
  return LINES[sum % LINES.length][theme().name];
}
