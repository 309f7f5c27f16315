//! A canvas that fills its parent and is sharp on every screen. Lengths are in *units*: one unit is
//! a pixel on a laptop screen, and grows with the root font on a wall screen.

import { theme, zoom } from "./theme";

export interface Surface {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  /** Size in units. */
  width: number;
  height: number;
  /** Device pixels for each unit. */
  ratio: number;
  /** Returns the position of a pointer in units. */
  at(event: { offsetX: number; offsetY: number }): [number, number];
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
    at: (event: { offsetX: number; offsetY: number }): [number, number] => [
      event.offsetX / factor,
      event.offsetY / factor,
    ],
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

const patterns = new Map<string, CanvasPattern>();

/** Returns a pattern of square tiles. Its name differs between different pictures. */
function pattern(
  context: CanvasRenderingContext2D,
  name: string,
  side: number,
  paint: (pen: CanvasRenderingContext2D) => void,
): CanvasPattern | string {
  let found = patterns.get(name) ?? null;
  if (found === null) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = side;
    paint(tile.getContext("2d")!);
    found = context.createPattern(tile, "repeat");
    if (found !== null) patterns.set(name, found);
  }
  return found ?? "transparent";
}

/** Returns the pattern of what does not answer: diagonal lines. */
export function noAnswer(context: CanvasRenderingContext2D, color = theme().muted) {
  const { line } = theme();
  return pattern(context, `no answer ${color} ${line}`, 6, (pen) => {
    pen.fillStyle = line;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = color;
    pen.lineWidth = 1.8;
    for (const shift of [-6, 0, 6]) {
      pen.beginPath();
      pen.moveTo(shift - 1, 7);
      pen.lineTo(shift + 7, -1);
      pen.stroke();
    }
  });
}

/** Returns the pattern of what was not measured: single points, which are no lines at any size. */
export function noData(context: CanvasRenderingContext2D, ground = theme().surface) {
  const { faint } = theme();
  return pattern(context, `no data ${faint} ${ground}`, 6, (pen) => {
    pen.fillStyle = ground;
    pen.fillRect(0, 0, 6, 6);
    pen.fillStyle = faint;
    for (const at of [1, 4]) pen.fillRect(at, at, 1, 1);
  });
}

/**
 * Returns a pattern of light and dark dots, which are visible on every colour and mark
 * lower bounds.
 */
export function dots(context: CanvasRenderingContext2D) {
  return pattern(context, "dots", 13, (pen) => {
    for (let y = 0; y < 13; y++) {
      const x = (130 - 5 * y) % 13;
      pen.fillStyle = "#ebebeb";
      pen.fillRect(x, y, 1, 1);
      pen.fillStyle = "#464646";
      pen.fillRect((x + 1) % 13, y, 1, 1);
    }
  });
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
