//! A canvas that fills its parent and is sharp on every screen. Lengths are in *units*: one unit is
//! a pixel on a laptop screen, and grows with the root font on a wall screen.

import { zoom } from "./theme";

export interface Surface {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  /** Size in units. */
  width: number;
  height: number;
  /** Device pixels for each unit. */
  ratio: number;
  /** Returns the position of a pointer in units. */
  at(event: { offsetX: number; offsetY: number }): { x: number; y: number };
}

/** Creates a canvas in `parent` and calls `resized` after each change of size. */
export function createSurface(
  parent: HTMLElement,
  label: string,
  resized: (surface: Surface) => void,
): Surface & { close(): void } {
  const factor = zoom();
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  parent.append(canvas);
  const surface = {
    canvas,
    context: canvas.getContext("2d", { alpha: true })!,
    width: 0,
    height: 0,
    ratio: 1,
    at: (event: { offsetX: number; offsetY: number }) => ({
      x: event.offsetX / factor,
      y: event.offsetY / factor,
    }),
    close: () => observer.disconnect(),
  };
  const observer = new ResizeObserver(() => {
    const box = { width: parent.clientWidth, height: parent.clientHeight };
    const width = box.width / factor;
    const height = box.height / factor;
    const ratio = factor * (window.devicePixelRatio || 1);
    if (width === 0 || height === 0) return;
    if (width === surface.width && height === surface.height && ratio === surface.ratio) return;
    Object.assign(surface, { width, height, ratio });
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${box.width}px`;
    canvas.style.height = `${box.height}px`;
    resized(surface);
  });
  observer.observe(parent);
  return surface;
}

/** Clears a surface and sets its unit. */
export function clear(surface: Surface): CanvasRenderingContext2D {
  const { context, ratio } = surface;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, surface.width, surface.height);
  return context;
}

/** Draws one row of device pixels, repeated over a height. `x` and `y` are in device pixels too. */
export function putRows(
  context: CanvasRenderingContext2D,
  row: Int32Array,
  x: number,
  y: number,
  height: number,
): void {
  const image = context.createImageData(row.length, height);
  const pixels = new Int32Array(image.data.buffer);
  for (let line = 0; line < height; line++) pixels.set(row, line * row.length);
  context.putImageData(image, x, y);
}

const hatches = new Map<string, CanvasPattern>();

/** Returns a pattern of diagonal lines, which marks ports that do not answer. */
export function hatch(
  context: CanvasRenderingContext2D,
  color: string,
  background: string,
): CanvasPattern | string {
  const key = `${color} ${background}`;
  const found = hatches.get(key);
  if (found !== undefined) return found;
  const tile = document.createElement("canvas");
  tile.width = 6;
  tile.height = 6;
  const pen = tile.getContext("2d")!;
  pen.fillStyle = background;
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = color;
  pen.lineWidth = 1.4;
  for (const shift of [-6, 0, 6]) {
    pen.beginPath();
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
    pen.stroke();
  }
  const pattern = context.createPattern(tile, "repeat");
  if (pattern === null) return background;
  hatches.set(key, pattern);
  return pattern;
}

const dotted = new WeakMap<CanvasRenderingContext2D, CanvasPattern | string>();

/**
 * Returns a pattern of light and dark dots, which are visible on every colour and mark
 * lower bounds.
 */
export function dots(context: CanvasRenderingContext2D): CanvasPattern | string {
  let pattern = dotted.get(context);
  if (pattern === undefined) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 13;
    const pen = tile.getContext("2d")!;
    for (let y = 0; y < 13; y++) {
      const x = (130 - 5 * y) % 13;
      pen.fillStyle = "#ebebeb";
      pen.fillRect(x, y, 1, 1);
      pen.fillStyle = "#464646";
      pen.fillRect((x + 1) % 13, y, 1, 1);
    }
    pattern = context.createPattern(tile, "repeat") ?? "transparent";
    dotted.set(context, pattern);
  }
  return pattern;
}

/** Fills a triangle. */
export function triangle(
  context: CanvasRenderingContext2D,
  color: string | CanvasPattern,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
  x3: number,
  y3: number,
): void {
  context.fillStyle = color;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.lineTo(x3, y3);
  context.fill();
}
