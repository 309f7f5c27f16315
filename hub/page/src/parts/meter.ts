//! Small pictures of values inside text: bars, sparklines and marks.

import { FULL, hasValue, shareOf, stateOf } from "../contract/frame";
import type { Painter, Scale } from "../draw/scale";
import { blockedScale, utilizationScale } from "../draw/scale";
import { theme } from "../draw/theme";
import { percent } from "../model/units";
import { h, setText } from "./dom";

/** Draws a value as a bar with its number. A state without a value is a text on a hatched bar. */
export function bar(cell: HTMLElement, code: number, scale: Painter): void {
  const share = shareOf(code);
  barOf(cell, share, share === null ? stateOf(code) : percent(share), scale);
}

/** Draws a share as a bar with a text. */
export function barOf(cell: HTMLElement, share: number | null, text: string, scale: Painter): void {
  let track = cell.firstElementChild as HTMLElement | null;
  if (track === null) {
    track = h("span", { class: "bar" }, h("span", { class: "bar-fill" }));
    cell.append(track, h("span", { class: "bar-text" }));
  }
  const fill = track.firstElementChild as HTMLElement;
  track.classList.toggle("unknown", share === null);
  fill.style.width = `${100 * Math.min(1, share ?? 0)}%`;
  fill.style.backgroundColor = scale.color(share ?? 0);
  setText(cell.lastElementChild!, text);
}

/** A sparkline: one column a slot, the height and the colour are the value, gaps stay empty. */
export function spark(label: string): HTMLCanvasElement {
  return h("canvas", { class: "spark", role: "img", "aria-label": label, width: 120, height: 24 });
}

export function drawSpark(canvas: HTMLCanvasElement, codes: Uint16Array, scale: Painter): void {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round((canvas.clientWidth || 120) * ratio);
  const height = Math.round((canvas.clientHeight || 24) * ratio);
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d")!;
  context.clearRect(0, 0, width, height);
  context.fillStyle = theme().line;
  context.fillRect(0, height - 1, width, 1);
  const column = width / codes.length;
  for (let index = 0; index < codes.length; index++) {
    if (!hasValue(codes[index])) continue;
    const share = codes[index] / FULL;
    const size = Math.max(ratio, share * (height - 1));
    context.fillStyle = scale.color(0.12 + 0.88 * share);
    const x = Math.round(index * column);
    context.fillRect(x, height - size, Math.max(1, Math.round((index + 1) * column) - x), size);
  }
}

/** The legend of a scale, with the marks of states without a value. */
export function legend(metric: "utilization" | "blocked" | "both", states = true): HTMLElement {
  const scales: [string, Scale][] = [];
  if (metric !== "blocked") scales.push(["Utilization", utilizationScale]);
  if (metric !== "utilization") scales.push(["Blocked share", blockedScale]);
  return h(
    "div",
    { class: "legend" },
    ...scales.map(([name, scale]) =>
      h(
        "span",
        { class: "legend-scale" },
        h("span", {}, name),
        h("span", { class: "legend-number" }, "0"),
        h("span", { class: "legend-ramp", style: { background: scale.gradient() } }),
        h("span", { class: "legend-number" }, "100 %"),
      ),
    ),
    ...(states
      ? [
          h("span", { class: "legend-state" }, h("i", { class: "swatch no-answer" }), "no answer"),
          h("span", { class: "legend-state" }, h("i", { class: "swatch down" }), "link down"),
          h("span", { class: "legend-state" }, h("i", { class: "swatch no-data" }), "no data"),
        ]
      : []),
  );
}
