//! The pixels of the heat map. A new slot draws one column, and the others stay.

import {
  type Cells,
  codeIn,
  knownShare,
  LINK_DOWN,
  NO_ANSWER,
  NO_DATA,
} from "../../contract/frame";
import { dots } from "../../draw/canvas";
import { pixelOf, pixelsOf, scaleOf } from "../../draw/scale";
import { theme } from "../../draw/theme";
import type { Range } from "./range";
import { largestCell } from "./rows";
import type { Window } from "./source";

/** How rows of the heat map map to rows of pixels. */
export interface Bins {
  /** Index of the first row of the heat map, a whole number. */
  first: number;
  count: number;
  /** Number of heat map rows in each row of pixels, at least 1. */
  rows: number;
}

/** Returns a canvas that is never shown. */
function hidden(): CanvasRenderingContext2D {
  return document.createElement("canvas").getContext("2d", { willReadFrequently: false })!;
}

/**
 * An image with one pixel for each column and row of pixels. Columns form a ring, so nothing moves.
 */
export class HeatPicture {
  private readonly context = hidden();
  /** The same image, but opaque only where a value is not exact. */
  private readonly mask = hidden();
  /** The dots over values that are not exact, at the size of the picture on the screen. */
  private readonly layer = hidden();
  private readonly drawn = new Map<number, Cells | null>();
  /** Columns with values that are not exact. */
  private readonly inexact = new Set<number>();
  private table = new Int32Array(0);
  private loading = 0;
  private alert = 0;
  private hatchLight = 0;
  private hatchDark = 0;
  private pick = largestCell;
  private key = "";

  /**
   * Draws the columns that have changed. `values` returns the combined values of a column, by row,
   * or null while they are loading.
   */
  update(
    window: Window,
    bins: Bins,
    range: Range,
    order: Uint32Array,
    version: string,
    values: (column: number) => Cells | null,
  ): void {
    const key = `${window.metric} ${window.step} ${window.columns} ${bins.first} ${bins.count} ${bins.rows} ${range.key} ${version}`;
    if (key !== this.key) {
      this.key = key;
      this.drawn.clear();
      this.inexact.clear();
      for (const { canvas } of [this.context, this.mask]) {
        canvas.width = window.columns;
        canvas.height = Math.max(1, bins.count);
      }
      this.table = pixelsOf(range.scale ?? scaleOf(window.metric), range.share);
      this.pick = range.pick ?? largestCell;
      this.loading = pixelOf(theme().surface);
      this.alert = pixelOf(theme().alert);
      this.hatchLight = pixelOf(theme().muted);
      this.hatchDark = pixelOf(theme().line);
    }
    const end = window.first + window.columns;
    for (const column of this.drawn.keys())
      if (column < window.first && this.drawn.delete(column)) this.inexact.delete(column);
    const isWhole = this.drawn.size === 0;
    const width = isWhole ? window.columns : 1;
    const one = this.context.createImageData(width, Math.max(1, bins.count));
    const marks = this.context.createImageData(one);
    for (let column = window.first; column < end; column++) {
      const codes = values(column);
      if (this.drawn.has(column) && this.drawn.get(column) === codes) continue;
      this.drawn.set(column, codes);
      const x = column % window.columns;
      this.column(codes, order, bins, one, marks, isWhole ? x : 0, column);
      if (!isWhole) this.put(one, marks, x);
    }
    if (isWhole) this.put(one, marks, 0);
  }

  private put(image: ImageData, marks: ImageData, x: number): void {
    this.context.putImageData(image, x, 0);
    this.mask.putImageData(marks, x, 0);
  }

  private column(
    codes: Cells | null,
    order: Uint32Array,
    bins: Bins,
    image: ImageData,
    marks: ImageData,
    x: number,
    column: number,
  ): void {
    const pixels = new Int32Array(image.data.buffer);
    const masked = new Int32Array(marks.data.buffer);
    const { width } = image;
    this.inexact.delete(column);
    for (let bin = 0; bin < bins.count; bin++) {
      const start = bins.first + bin * bins.rows;
      const end = Math.min(start + bins.rows, order.length);
      const cell = codes === null ? NO_DATA : this.pick(codes, order, start, end);
      const best = codeIn(cell);
      const isExact = knownShare(cell) === 1;
      masked[bin * width + x] = isExact ? 0 : -1;
      if (!isExact) this.inexact.add(column);
      pixels[bin * width + x] =
        codes === null ? this.loading : this.pixel(best, (column + bin) % 3 === 0);
    }
  }

  /** Returns the pixel of a code. Lines cross the cells without an answer and those of a cut link. */
  private pixel(code: number, isLine: boolean): number {
    if (code === NO_ANSWER) return isLine ? this.hatchLight : this.hatchDark;
    return code === LINK_DOWN && isLine ? this.alert : this.table[code];
  }

  /** Copies the image to a rectangle, oldest column first. */
  paint(
    context: CanvasRenderingContext2D,
    window: Window,
    x: number,
    y: number,
    width: number,
    height: number,
  ): void {
    const split = window.first % window.columns;
    const cell = width / window.columns;
    const left = window.columns - split;
    const draw = (
      to: CanvasRenderingContext2D,
      { canvas }: CanvasRenderingContext2D,
      x: number,
      y: number,
    ) => {
      to.imageSmoothingEnabled = false;
      to.drawImage(canvas, split, 0, left, canvas.height, x, y, left * cell, height);
      if (split > 0)
        to.drawImage(canvas, 0, 0, split, canvas.height, x + left * cell, y, split * cell, height);
    };
    draw(context, this.context, x, y);
    if (this.inexact.size === 0) return;
    // Zoomed rows can be higher than the screen, so the layer has the size of the screen.
    const { canvas } = this.layer;
    [canvas.width, canvas.height] = [x + width, context.canvas.clientHeight];
    draw(this.layer, this.mask, x, y);
    this.layer.globalCompositeOperation = "source-in";
    this.layer.fillStyle = dots(this.layer);
    this.layer.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(canvas, 0, 0);
  }
}
