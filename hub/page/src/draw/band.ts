//! The marks of applications, as a band of named spans above a picture.

import type { MarkRow } from "../contract/types";
import { LINES } from "./lines";
import { font, theme } from "./theme";

/** Height of the band with the space below it, in units. */
export const BAND = 16;
const GAP = 3;
/** Min width of a span with a label, and the space before the label. */
const LABELED = 18;
const INDENT = 5;

/**
 * Draws the marks between `left` and `right`, above `bottom`. `place` returns the position of a
 * time in milliseconds since 1970. `unit` is the length of a unit in pixels of the context.
 */
export function drawBand(
  context: CanvasRenderingContext2D,
  marks: readonly MarkRow[],
  { left, right, bottom }: { left: number; right: number; bottom: number },
  place: (time: number) => number,
  unit = 1,
): void {
  const colors = theme();
  const height = (BAND - GAP) * unit;
  const y = bottom - BAND * unit;
  const spans = marks
    .map(({ name, start_ns, end_ns }) => ({
      name,
      from: Math.max(left, place(start_ns / 1e6)),
      to: Math.min(right, end_ns === null ? right : place(end_ns / 1e6)),
    }))
    .filter(({ from, to }) => to > left && from < right);
  context.save();
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = font(10.5 * unit);
  spans.forEach(({ name, from, to }, index) => {
    const color = LINES[hash(name) % LINES.length][colors.name];
    const width = Math.max(unit, to - from);
    context.fillStyle = colors.surface;
    context.fillRect(from, y, width, height);
    context.fillStyle = color;
    context.globalAlpha = 0.3;
    context.fillRect(from, y, width, height);
    context.globalAlpha = 1;
    context.fillRect(from, y, Math.min(width, 2 * unit), height);
    // A later mark covers the rest of this one.
    const end = Math.min(to, spans[index + 1]?.from ?? to);
    if (end - from < LABELED * unit) return;
    context.save();
    context.beginPath();
    context.rect(from, y, end - from - unit, height);
    context.clip();
    context.fillStyle = colors.ink;
    context.fillText(name, from + INDENT * unit, y + height / 2);
    context.restore();
  });
  context.restore();
}

/** Returns a number of a name, so that a phase has the same colour in all pictures. */
function hash(name: string): number {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + letter.codePointAt(0)!) % 65_521;
  return sum;
}
