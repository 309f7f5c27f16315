//! The pixels of the heat map. A new slot draws one column, and the others stay.

import {
  type Cells,
  codeIn,
  knownShare,
  LINK_DOWN,
  NO_ANSWER,
  NO_DATA,
} from "../../contract/frame";
import { dots, noAnswer } from "../../draw/canvas";
import { pixelOf, pixelsOf, scaleOf } from "../../draw/scale";
import { theme } from "../../draw/theme";
import type { Range } from "./range";
import { pixelCell } from "./rows";
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
  /**
   * The same image, but opaque only where a pattern is: dots where a value is not exact, and that of
   * no answer. `columns` have such cells.
   */
  private readonly masks = [dots, noAnswer].map((fill) => ({
    context: hidden(),
    columns: new Set<number>(),
    fill,
  }));
  /** A pattern where a mask has it, at the size of the picture on the screen. */
  private readonly layer = hidden();
  private readonly drawn = new Map<number, Cells | null>();
  private table = new Int32Array(0);
  private loading = 0;
  private alert = 0;
  private pick = pixelCell;
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
      for (const { columns } of this.masks) columns.clear();
      for (const { canvas } of this.contexts) {
        canvas.width = window.columns;
        canvas.height = Math.max(1, bins.count);
      }
      this.table = pixelsOf(range.scale ?? scaleOf(window.metric), range.share);
      this.pick = range.pick ?? pixelCell;
      this.loading = pixelOf(theme().surface);
      this.alert = pixelOf(theme().alert);
    }
    const end = window.first + window.columns;
    for (const column of this.drawn.keys())
      if (column < window.first && this.drawn.delete(column))
        for (const { columns } of this.masks) columns.delete(column);
    const isWhole = this.drawn.size === 0;
    const width = isWhole ? window.columns : 1;
    const images = this.contexts.map((context) =>
      context.createImageData(width, Math.max(1, bins.count)),
    );
    for (let column = window.first; column < end; column++) {
      const codes = values(column);
      if (this.drawn.has(column) && this.drawn.get(column) === codes) continue;
      this.drawn.set(column, codes);
      const x = column % window.columns;
      this.column(codes, order, bins, images, isWhole ? x : 0, column);
      if (!isWhole) this.put(images, x);
    }
    if (isWhole) this.put(images, 0);
  }

  private get contexts(): CanvasRenderingContext2D[] {
    return [this.context, ...this.masks.map(({ context }) => context)];
  }

  private put(images: readonly ImageData[], x: number): void {
    this.contexts.forEach((context, index) => {
      context.putImageData(images[index], x, 0);
    });
  }

  private column(
    codes: Cells | null,
    order: Uint32Array,
    bins: Bins,
    images: readonly ImageData[],
    x: number,
    column: number,
  ): void {
    const [pixels, ...masked] = images.map(({ data }) => new Int32Array(data.buffer));
    const { width } = images[0];
    for (const { columns } of this.masks) columns.delete(column);
    for (let bin = 0; bin < bins.count; bin++) {
      const start = bins.first + bin * bins.rows;
      const end = Math.min(start + bins.rows, order.length);
      const cell = codes === null ? NO_DATA : this.pick(codes, order, start, end);
      const best = codeIn(cell);
      [knownShare(cell) < 1, best === NO_ANSWER].forEach((has, index) => {
        masked[index][bin * width + x] = has ? -1 : 0;
        if (has) this.masks[index].columns.add(column);
      });
      pixels[bin * width + x] =
        codes === null ? this.loading : this.pixel(best, (column + bin) % 3 === 0);
    }
  }

  /** Returns the pixel of a code. Lines cross the cells of a cut link. */
  private pixel(code: number, isLine: boolean): number {
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
    const { canvas } = this.layer;
    for (const mask of this.masks) {
      if (mask.columns.size === 0) continue;
      // Zoomed rows can be higher than the screen, so the layer has the size of the screen.
      [canvas.width, canvas.height] = [x + width, context.canvas.clientHeight];
      draw(this.layer, mask.context, x, y);
      this.layer.globalCompositeOperation = "source-in";
      this.layer.fillStyle = mask.fill(this.layer);
      this.layer.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(canvas, 0, 0);
    }
  }
}
