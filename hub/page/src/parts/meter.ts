//! Small pictures of values within text: bars, sparklines and marks.

import { FULL, hasValue, NO_ANSWER, shareOf } from "../contract/frame";
import { blockedScale, type Painter, pixelOf, type Scale, utilizationScale } from "../draw/scale";
import { theme } from "../draw/theme";
import { codeText } from "../model/metric";
import { fillTo, h, setText } from "./dom";

/** Draws a value as a bar with its number. A state without a value is a text beside an empty bar. */
export function bar(cell: HTMLElement, code: number, scale: Painter): void {
  barOf(cell, shareOf(code), codeText(code), scale);
  cell.firstElementChild?.classList.toggle("no-answer", code === NO_ANSWER);
}

/** Draws a share as a bar with a text. */
export function barOf(cell: HTMLElement, share: number | null, text: string, scale: Painter): void {
  let track = cell.firstElementChild as HTMLElement | null;
  if (track === null) {
    track = h("span", { class: "bar" });
    cell.append(track, h("span", { class: "bar-text" }));
  }
  track.classList.toggle("unknown", share === null);
  if (share === null) track.style.backgroundImage = track.style.backgroundSize = "";
  else fillTo(track, share, scale.color(share));
  setText(cell.lastElementChild!, text);
}

/** Writes the text beside a bar. The picture of the table draws the bar. */
export function barText(cell: HTMLElement, text: string): void {
  let element = cell.firstElementChild;
  if (element === null) {
    cell.classList.add("cell-bar");
    element = h("span", { class: "bar-text" });
    cell.append(element);
  }
  setText(element, text);
}

/** A sparkline with one column a slot. Height and colour show the value, and gaps stay empty. */
export function spark(label: string): HTMLCanvasElement {
  return h("canvas", { class: "spark", role: "img", "aria-label": label, width: 120, height: 24 });
}

/** A size in pixels of the screen. */
interface Size {
  width: number;
  height: number;
}

/**
 * Sizes of sparklines. They are cached, because reading a size after a change makes the browser
 * compute the layout.
 */
let sizes = new WeakMap<HTMLCanvasElement, Size>();
window.addEventListener("resize", () => {
  sizes = new WeakMap();
});

function sizeOf(canvas: HTMLCanvasElement, ratio: number): Size {
  const known = sizes.get(canvas);
  if (known !== undefined) return known;
  const { clientWidth, clientHeight } = canvas;
  const size = {
    width: Math.round((clientWidth || 120) * ratio),
    height: Math.round((clientHeight || 24) * ratio),
  };
  canvas.width = size.width;
  canvas.height = size.height;
  if (clientWidth > 0) sizes.set(canvas, size);
  return size;
}

export function drawSpark(canvas: HTMLCanvasElement, codes: Uint16Array, scale: Painter): void {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = sizeOf(canvas, ratio);
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const pixels = new Int32Array(image.data.buffer);
  paintSpark(pixels, { x: 0, width, height, stride: width }, codes, scale, ratio);
  context.putImageData(image, 0, 0);
}

/**
 * An area of pixels: its first column, its size, and the number of pixels from one line to
 * the next.
 */
interface Area extends Size {
  x: number;
  stride: number;
}

/** Draws a sparkline into transparent pixels. The base line has points where there is no value. */
export function paintSpark(
  pixels: Int32Array,
  { x, width, height, stride }: Area,
  codes: Uint16Array,
  scale: Painter,
  ratio: number,
): void {
  const base = (height - 1) * stride + x;
  const dot = Math.round(ratio);
  const column = width / codes.length;
  for (let index = 0; index < codes.length; index++) {
    const first = Math.round(index * column);
    const end = Math.min(width, Math.max(first + 1, Math.round((index + 1) * column)));
    if (!hasValue(codes[index])) {
      for (let at = first; at < end; at++)
        if (at % (4 * dot) < dot) pixels[base + at] = pixelOf(theme().muted);
      continue;
    }
    const share = codes[index] / FULL;
    const size = Math.round(Math.max(ratio, share * (height - 1)));
    const color = pixelOf(scale.color(0.12 + 0.88 * share));
    for (let y = height - size; y < height; y++)
      pixels.fill(color, y * stride + x + first, y * stride + x + end);
  }
}

/** A text below a scale, at a share of its width. */
export interface Tick {
  share: number;
  text: string;
}

/** A scale of a legend: its name, its colours and its ticks. */
export type LegendScale = readonly [string, Scale, readonly Tick[]];

const PERCENT: Tick[] = [0, 1].map((share) => ({ share, text: `${100 * share} %` }));
export const UTILIZATION_LEGEND: LegendScale = ["Utilization", utilizationScale, PERCENT];
export const BLOCKED_LEGEND: LegendScale = ["Blocked share", blockedScale, PERCENT];

/** A mark of a legend: the class of its swatch, and its text. */
export type LegendMark = readonly [string, string];

export const STATES: LegendMark[] = [
  ["no-answer", "no answer"],
  ["down", "link down"],
  ["no-data", "no data"],
];

interface Legend {
  scales: readonly LegendScale[];
  marks: readonly LegendMark[];
}

/** What each legend shows, for pictures that are saved. */
const legends = new WeakMap<Element, Legend>();

/** Returns what the legends in an element show; null without any. */
export function legendIn(element: Element): Legend | null {
  const found = [...element.querySelectorAll(".legend")].flatMap((each) => legends.get(each) ?? []);
  return found.length === 0
    ? null
    : { scales: found.flatMap(({ scales }) => scales), marks: found.flatMap(({ marks }) => marks) };
}

/** The legend of scales, with the marks of states without a value. */
export function legend(
  scales: readonly LegendScale[],
  marks: readonly LegendMark[] = STATES,
): HTMLElement {
  const element = h(
    "div",
    { class: "legend" },
    ...scales.map(([name, scale, ticks]) => {
      const [first, ...others] = ticks;
      const last = others.pop();
      const ramp = h("span", { class: "legend-ramp", style: { background: scale.gradient() } });
      for (const { share, text } of others)
        ramp.append(h("span", { class: "legend-tick", style: { left: `${100 * share}%` } }, text));
      return h(
        "span",
        { class: others.length > 0 ? "legend-scale wide" : "legend-scale" },
        h("span", {}, name),
        h("span", { class: "legend-number" }, first.text),
        ramp,
        h("span", { class: "legend-number" }, last?.text),
      );
    }),
    ...marks.map(([name, text]) =>
      h("span", { class: "legend-state" }, h("i", { class: `swatch ${name}` }), text),
    ),
  );
  legends.set(element, { scales, marks });
  return element;
}
