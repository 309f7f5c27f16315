//! Draws the bars and sparklines of a table on one canvas over its rows. Separate elements would
//! cost more than their values, because each bar needs a style and each small canvas a layer of
//! its own.

import { FULL, NO_ANSWER, shareOf } from "../contract/frame";
import { type Painter, pixelOf } from "../draw/scale";
import { theme, zoom } from "../draw/theme";
import { h } from "./dom";
import { paintSpark } from "./meter";

/** Sizes in pixels of a laptop screen. */
const SPARK = 24;
const BAR = 9;
/** Width of the number beside a bar including its margin, as in the style sheet. */
export const NUMBER = 76;
/** Width of a stripe of a bar without a value. */
const STRIPE = 3;

/** What a cell shows: one code as a bar, or several codes as a sparkline. */
export interface Drawing {
  codes: number | Uint16Array;
  scale: Painter;
}

/** Position of a column in pixels of the page. */
export interface Place {
  left: number;
  width: number;
}

export class TablePicture {
  readonly canvas = h("canvas", { class: "table-picture", "aria-hidden": "true" });
  private readonly context = this.canvas.getContext("2d")!;
  /** One row, which is drawn here and then copied. */
  private image = new ImageData(1, 1);
  private pixels = new Int32Array(1);
  private places: readonly Place[] = [];
  private left = 0;
  private ratio = 1;
  private row = 0;
  private middle = 0;

  /**
   * Sets the positions of the columns with drawings, the number and height of the rows, and the
   * middle of the drawings in a row.
   */
  place(places: readonly Place[], row: number, rows: number, middle: number): void {
    this.middle = Math.round(middle * (window.devicePixelRatio || 1));
    this.places = places;
    this.ratio = window.devicePixelRatio || 1;
    this.left = Math.min(...places.map(({ left }) => left));
    const right = Math.max(...places.map(({ left, width }) => left + width));
    const width = Math.max(1, Math.round((right - this.left) * this.ratio));
    this.row = Math.round(row * this.ratio);
    this.canvas.width = width;
    this.canvas.height = Math.max(1, this.row * rows);
    this.canvas.style.left = `${this.left}px`;
    this.canvas.style.width = `${width / this.ratio}px`;
    this.canvas.style.height = `${this.canvas.height / this.ratio}px`;
    this.image = new ImageData(width, Math.min(this.row, this.scaled(SPARK)));
    this.pixels = new Int32Array(this.image.data.buffer);
  }

  /** Draws a row: one drawing for each column. */
  draw(row: number, drawings: readonly Drawing[]): void {
    this.pixels.fill(0);
    drawings.forEach(({ codes, scale }, index) => {
      const { left, width } = this.places[index];
      const x = Math.round((left - this.left) * this.ratio);
      const size = Math.min(Math.round(width * this.ratio), this.image.width - x);
      if (typeof codes === "number") this.bar(x, size - this.scaled(NUMBER), codes, scale);
      else {
        const area = { x, width: size, height: this.image.height, stride: this.image.width };
        paintSpark(this.pixels, area, codes, scale, this.ratio);
      }
    });
    const top = row * this.row + Math.round(this.middle - this.image.height / 2);
    this.context.putImageData(this.image, 0, top);
  }

  private scaled(size: number): number {
    return Math.round(size * zoom() * this.ratio);
  }

  /** Draws a bar that is filled up to a share, or the pattern of no answer or of no data. */
  private bar(x: number, width: number, code: number, scale: Painter): void {
    const { pixels } = this;
    const stride = this.image.width;
    const height = this.scaled(BAR);
    const top = Math.round((this.image.height - height) / 2);
    const share = shareOf(code);
    const colors = theme();
    const ground = pixelOf(colors.raised);
    const isSilent = code === NO_ANSWER;
    const color = pixelOf(
      share !== null ? scale.color(share) : isSilent ? colors.muted : colors.faint,
    );
    const step = this.scaled(STRIPE);
    const filled = Math.round(width * Math.min(1, code / FULL));
    for (let line = 0; line < height; line++) {
      // Rounded corners.
      const cut = line === 0 || line === height - 1 ? 1 : 0;
      const start = (top + line) * stride + x;
      if (share !== null) {
        pixels.fill(ground, start + cut, start + width - cut);
        pixels.fill(color, start + cut, start + Math.max(cut, filled - cut));
      } else {
        for (let at = cut; at < width - cut; at++) {
          const isInk = isSilent
            ? Math.floor((at + line) / step) % 2 === 0
            : at % step === 0 && line % step === 1;
          if (isInk) pixels[start + at] = color;
        }
      }
    }
  }
}
