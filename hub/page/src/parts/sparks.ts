//! The sparklines of a column of a table, on one canvas. A canvas in each row would be a layer of its
//! own: the browser needs longer to arrange the layers than to draw the values.

import type { Painter } from "../draw/scale";
import { zoom } from "../draw/theme";
import { h } from "./dom";
import { paintSpark } from "./meter";

/** Height of a sparkline in pixels of a laptop screen. */
const HEIGHT = 24;

/** What a row shows. */
export interface Trace {
  codes: Uint16Array;
  scale: Painter;
}

export class Sparks {
  readonly canvas = h("canvas", { class: "table-sparks", "aria-hidden": "true" });
  private readonly context = this.canvas.getContext("2d")!;
  private image: ImageData | null = null;
  private ratio = 1;
  private row = 0;

  /** Sets the place of the column and the number of rows. */
  place(left: number, width: number, row: number, rows: number): void {
    this.ratio = window.devicePixelRatio || 1;
    this.row = Math.round(row * this.ratio);
    this.canvas.width = Math.max(1, Math.round(width * this.ratio));
    this.canvas.height = Math.max(1, this.row * rows);
    this.canvas.style.left = `${left}px`;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${(this.row * rows) / this.ratio}px`;
    const height = Math.min(this.row, Math.round(HEIGHT * zoom() * this.ratio));
    this.image = this.context.createImageData(this.canvas.width, height);
  }

  /** Draws the sparkline of a row. */
  draw(row: number, { codes, scale }: Trace): void {
    const image = this.image;
    if (image === null) return;
    const pixels = new Int32Array(image.data.buffer).fill(0);
    paintSpark(pixels, image, codes, scale, this.ratio);
    const top = row * this.row + Math.round((this.row - image.height) / 2);
    this.context.putImageData(image, 0, top);
  }
}
