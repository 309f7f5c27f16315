//! Draws the cells of a matrix as pixels. Each slot changes most of them, and drawing them as paths
//! would take longer than everything else.

import { FULL, hasValue, LINK_DOWN, NO_ANSWER } from "../../contract/frame";
import { pixelOf, type Scale } from "../../draw/scale";
import type { Arrangement, Cell, Size } from "./blocks";
import type { MapData } from "./data";

/** Number of colours of a cell. Fewer colours mean that fewer cells change with each slot. */
const COLORS = 64;
/** Colours of cells without a value. */
export const NONE = -1;
export const SILENT = -2;
/** Marks of a cell. */
export const BROKEN = 1;
export const ROOT = 2;
/** Min size in units of a cell with two triangles. */
export const SPLIT = 5;

/** Size in units of the number of a direction, with the space around it. */
const NUMBER: Size = { width: 34, height: 13 };

/** Returns whether the numbers of both directions fit, each into its triangle. */
export function numbersFit({ width, height }: Size): boolean {
  return NUMBER.width / width + NUMBER.height / height <= 1;
}

/** What the cells show, by cell index: the colours of both directions, and a mark. */
export class CellLooks {
  /** The codes of both directions of each cell, up and then down; -1 without a value. */
  readonly codes: Int32Array;
  readonly up: Int8Array;
  readonly down: Int8Array;
  readonly marks: Uint8Array;
  /** Ports of all cells, one cell after the other: the upper and the lower end of each link. */
  private readonly ports: Int32Array;
  /** Index of the first port of each cell, and a last entry with the end. */
  private readonly starts: Int32Array;

  constructor(cells: readonly Cell[]) {
    this.codes = new Int32Array(2 * cells.length);
    this.up = new Int8Array(cells.length);
    this.down = new Int8Array(cells.length);
    this.marks = new Uint8Array(cells.length);
    this.starts = new Int32Array(cells.length + 1);
    const ports: number[] = [];
    cells.forEach(({ cable }, index) => {
      for (const { a, b } of cable.links) ports.push(a, b);
      this.starts[index + 1] = ports.length;
    });
    this.ports = Int32Array.from(ports);
  }

  /** Reads the values of a slot. */
  read(values: Uint16Array, states: Uint16Array, roots: ReadonlySet<number>): void {
    const { up, down, marks } = this;
    const ports = this.ports;
    const starts = this.starts;
    for (let cell = 0; cell < up.length; cell++) {
      let above = -1;
      let below = -1;
      let broken = false;
      let silent = true;
      let root = false;
      for (let place = starts[cell]; place < starts[cell + 1]; place += 2) {
        const a = ports[place];
        const b = ports[place + 1];
        if (hasValue(values[b]) && values[b] > above) above = values[b];
        if (hasValue(values[a]) && values[a] > below) below = values[a];
        if (states[a] === LINK_DOWN && states[b] !== NO_ANSWER) broken = true;
        if (states[a] !== NO_ANSWER && states[b] !== NO_ANSWER) silent = false;
        if (roots.size > 0 && (roots.has(a) || roots.has(b))) root = true;
      }
      up[cell] = silent ? SILENT : step(above);
      down[cell] = silent ? SILENT : step(below);
      this.codes[2 * cell] = silent ? -1 : above;
      this.codes[2 * cell + 1] = silent ? -1 : below;
      marks[cell] = (broken ? BROKEN : 0) + (root ? ROOT : 0);
    }
  }
}

function step(code: number): number {
  return code < 0 ? NONE : Math.round((code / FULL) * COLORS);
}

/** The pixels of all cells. Only cells that have changed are drawn again. */
export class CellPicture {
  private image = new ImageData(1, 1);
  private pixels = new Int32Array(1);
  private up = new Int8Array();
  private down = new Int8Array();

  /** Starts a picture of this size in device pixels. */
  reset(width: number, height: number): void {
    this.image = new ImageData(Math.max(1, width), Math.max(1, height));
    this.pixels = new Int32Array(this.image.data.buffer);
    this.up = new Int8Array();
  }

  /**
   * Draws the cells that have changed. `top` is the height that is scrolled away, in units. The
   * picture begins below the names that do not scroll.
   */
  draw(
    cells: readonly Cell[],
    looks: CellLooks,
    { scale }: MapData,
    ground: string,
    arrangement: Arrangement,
    top: number,
    ratio: number,
  ): void {
    const colors = pixelsOf(scale, ground);
    const isNew = this.up.length !== looks.up.length;
    const { width, height, corners, head } = arrangement;
    const isSplit = height >= SPLIT && width >= SPLIT;
    const gap = height > 8 ? Math.round(ratio) : 0;
    for (let index = 0; index < cells.length; index++) {
      const up = looks.up[index];
      const down = looks.down[index];
      if (!isNew && up === this.up[index] && down === this.down[index]) continue;
      const { block, row, column } = cells[index];
      const corner = corners[block];
      const start = corner.y - head - top;
      const x = Math.round((corner.x + column * width) * ratio);
      const y = Math.round((start + row * height) * ratio);
      const right = Math.round((corner.x + (column + 1) * width) * ratio) - gap;
      const bottom = Math.round((start + (row + 1) * height) * ratio) - gap;
      // The pattern of a silent cell is drawn over the picture.
      const above = up === SILENT ? 0 : colors[up + 1];
      const below = up === SILENT ? 0 : colors[down + 1];
      if (isSplit && above !== below) this.triangles(x, y, right, bottom, above, below);
      else this.rectangle(x, y, right, bottom, up > down ? above : below);
    }
    this.up = looks.up.slice();
    this.down = looks.down.slice();
  }

  /** Copies a rectangle of the picture. `top` is its first row of pixels on the canvas. */
  paint(
    context: CanvasRenderingContext2D,
    top: number,
    x: number,
    y: number,
    width: number,
    height: number,
  ): void {
    const from = Math.max(0, y);
    const lines = Math.min(y + height, this.image.height) - from;
    if (lines > 0) context.putImageData(this.image, 0, top, x, from, width, lines);
  }

  private rectangle(x: number, y: number, right: number, bottom: number, color: number): void {
    const { width, height } = this.image;
    for (let line = Math.max(0, y); line < Math.min(bottom, height); line++)
      this.pixels.fill(color, line * width + x, line * width + Math.min(right, width));
  }

  /** Draws the upper left half in one colour, and the lower right half in another one. */
  private triangles(
    x: number,
    y: number,
    right: number,
    bottom: number,
    above: number,
    below: number,
  ): void {
    const { width, height } = this.image;
    const { pixels } = this;
    const end = Math.min(right, width);
    for (let line = Math.max(0, y); line < Math.min(bottom, height); line++) {
      const share = 1 - (line - y + 0.5) / (bottom - y);
      const middle = Math.min(end, x + Math.round((right - x) * share));
      pixels.fill(above, line * width + x, line * width + middle);
      pixels.fill(below, line * width + middle, line * width + end);
    }
  }
}

/** Returns the pixels of the cell colours, beginning with that of `NONE`. */
function pixelsOf(scale: Scale, ground: string): Int32Array {
  return Int32Array.from({ length: COLORS + 2 }, (_, index) =>
    pixelOf(index === 0 ? ground : scale.color((index - 1) / COLORS)),
  );
}
