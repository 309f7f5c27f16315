//! The pixels of the heat map. A new slot draws one column; the others stay.

import { FULL, NO_ANSWER, NO_DATA } from "../../contract/frame";
import { pack, pixelTable, scaleOf } from "../../draw/scale";
import type { Window } from "./source";

/** Rows of pixels: each one shows one or more rows of the heat map. */
export interface Bins {
  /** First row of the heat map, a whole number. */
  first: number;
  count: number;
  /** Rows of the heat map for each row of pixels, at least 1. */
  rows: number;
}

/** An image with one pixel a column and bin. Columns are a ring, so nothing moves. */
export class HeatPicture {
  private readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d", { willReadFrequently: false })!;
  private readonly drawn = new Map<number, Uint16Array | null>();
  private table = pixelTable(scaleOf(""), "dark");
  private hatchLight = 0;
  private hatchDark = 0;
  private key = "";

  /** Draws the columns that changed. `values` returns the combined values of a column, by row. */
  update(
    window: Window,
    bins: Bins,
    themeName: "dark" | "light",
    order: Uint32Array,
    version: string,
    values: (column: number) => Uint16Array | null,
  ): void {
    const key = `${window.metric} ${window.step} ${window.columns} ${bins.first} ${bins.count} ${bins.rows} ${themeName} ${version}`;
    if (key !== this.key) {
      this.key = key;
      this.drawn.clear();
      this.canvas.width = window.columns;
      this.canvas.height = Math.max(1, bins.count);
      this.table = pixelTable(scaleOf(window.metric), themeName);
      this.hatchLight = pack(themeName === "dark" ? [0x8a, 0x93, 0xa2] : [0x6b, 0x74, 0x82]);
      this.hatchDark = pack(themeName === "dark" ? [0x2b, 0x30, 0x3a] : [0xdd, 0xe1, 0xe8]);
    }
    const end = window.first + window.columns;
    for (const column of this.drawn.keys()) if (column < window.first) this.drawn.delete(column);
    const whole =
      this.drawn.size === 0
        ? this.context.createImageData(window.columns, this.canvas.height)
        : null;
    const one = whole ?? this.context.createImageData(1, this.canvas.height);
    const pixels = new Int32Array(one.data.buffer);
    for (let column = window.first; column < end; column++) {
      const codes = values(column);
      if (this.drawn.has(column) && this.drawn.get(column) === codes) continue;
      this.drawn.set(column, codes);
      const x = column % window.columns;
      this.column(codes, order, bins, pixels, whole === null ? 0 : x, one.width, column);
      if (whole === null) this.context.putImageData(one, x, 0);
    }
    if (whole !== null) this.context.putImageData(whole, 0, 0);
  }

  private column(
    codes: Uint16Array | null,
    order: Uint32Array,
    bins: Bins,
    pixels: Int32Array,
    x: number,
    width: number,
    column: number,
  ): void {
    for (let bin = 0; bin < bins.count; bin++) {
      let best = NO_DATA;
      if (codes !== null) {
        const start = bins.first + bin * bins.rows;
        const end = Math.min(start + bins.rows, order.length);
        for (let row = start; row < end; row++) {
          const code = codes[order[row]];
          if (best > FULL ? code < best : code <= FULL && code > best) best = code;
        }
      }
      pixels[bin * width + x] =
        best === NO_ANSWER
          ? (column + bin) % 3 === 0
            ? this.hatchLight
            : this.hatchDark
          : this.table.pixel(best);
    }
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
    context.imageSmoothingEnabled = false;
    const left = window.columns - split;
    const rows = this.canvas.height;
    context.drawImage(this.canvas, split, 0, left, rows, x, y, left * cell, height);
    if (split > 0)
      context.drawImage(this.canvas, 0, 0, split, rows, x + left * cell, y, split * cell, height);
  }
}
