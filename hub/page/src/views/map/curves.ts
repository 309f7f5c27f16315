//! Draws the links of a map. If there are many links, only the fullest ones and those of the
//! selection are coloured by value. The others form a background on a canvas of its own that rarely
//! changes, because drawing thousands of curves takes longer than everything else.

import { FULL, hasValue, LINK_DOWN, NO_ANSWER, NO_DATA, worse } from "../../contract/frame";
import { theme } from "../../draw/theme";
import type { Topology } from "../../model/topology";
import type { Painting } from "./data";
import type { Curve, Layout } from "./shapes";

/** Width of a link in pixels at 0 % and at 100 %. */
const THIN = 1;
const THICK = 4.2;
/** Number of colours. Links of similar values share a colour and are drawn as one path. */
const STEPS = 24;
/** Up to this number, all lines are coloured by value. */
export const MAX_COLOURED = 120;
/** If there are more lines, this many of them are coloured by value. */
export const MAX_STRONG = 40;
/** Opacity of links without a colour, and the number of links above which it falls. */
const FAINT = 0.3;
const QUIET = 200;
/** Share from which a bright line has a dark edge in the light theme. */
const EDGED = 0.65;

/** The links of a layout as arrays, because they are read in each slot. */
export class Links {
  /** Ports of all curves, one curve after the other: both ends of each link. */
  private readonly ports: Int32Array;
  /** Index of the first port of each curve, and a last entry with the end. */
  private readonly starts: Int32Array;
  private readonly betweenSwitches: Uint8Array;
  private readonly codes: Uint16Array;
  private readonly ranks: Uint16Array;

  constructor(
    readonly curves: readonly Curve[],
    topology: Topology,
  ) {
    const ports: number[] = [];
    this.starts = new Int32Array(curves.length + 1);
    this.betweenSwitches = new Uint8Array(curves.length);
    curves.forEach(({ bundle }, index) => {
      for (const { a, b } of bundle.links) ports.push(a, b);
      this.starts[index + 1] = ports.length;
      this.betweenSwitches[index] = Number(
        topology.isSwitch(topology.ports[bundle.links[0].a].device),
      );
    });
    this.ports = Int32Array.from(ports);
    this.codes = new Uint16Array(curves.length);
    this.ranks = new Uint16Array(curves.length);
  }

  /** Computes the max code of each curve, or the state of its worst link. */
  read(values: Uint16Array): Uint16Array {
    const { ports, starts } = this;
    const codes = this.codes;
    for (let index = 0; index < codes.length; index++) {
      let best = -1;
      let state = NO_DATA;
      for (let place = starts[index]; place < starts[index + 1]; place++) {
        const code = values[ports[place]];
        if (code > FULL) {
          state = worse(code, state);
        } else if (code > best) best = code;
      }
      codes[index] = best >= 0 ? best : state;
    }
    return codes;
  }

  /** Returns the curves with a link that is down. */
  down(states: Uint16Array): Curve[] {
    const { ports, starts } = this;
    return this.curves.filter((_, index) => {
      if (this.betweenSwitches[index] === 0) return false;
      for (let place = starts[index]; place < starts[index + 1]; place += 2) {
        const a = states[ports[place]];
        const b = states[ports[place + 1]];
        if ((a === LINK_DOWN || b === LINK_DOWN) && a !== NO_ANSWER && b !== NO_ANSWER) return true;
      }
      return false;
    });
  }

  /** Returns the code from which links are coloured. */
  level(codes: Uint16Array): number {
    if (this.curves.length <= MAX_COLOURED) return 0;
    const ranks = this.ranks;
    for (let index = 0; index < ranks.length; index++)
      ranks[index] = codes[index] <= FULL ? codes[index] : 0;
    ranks.sort();
    return Math.max(1, ranks[ranks.length - MAX_STRONG]);
  }
}

/** Draws the background, with all links of a large picture. */
export function paintBackground(
  context: CanvasRenderingContext2D,
  layout: Layout,
  pixel: number,
  alpha: number,
): void {
  if (layout.curves.length <= MAX_COLOURED) return;
  const quiet = Math.min(1, QUIET / layout.curves.length);
  stroke(context, layout.curves, theme().faint, pixel, pixel, FAINT * quiet * alpha);
}

/** Draws the coloured links: one path for each colour, the fullest links on top. */
export function paintCurves(painting: Painting, links: Links): void {
  const { context, values, states, scale, marks, pixel } = painting;
  const { curves } = links;
  const colors = theme();
  const codes = links.read(values);
  const from = links.level(codes);
  const levels: Curve[][] = Array.from({ length: STEPS + 1 }, () => []);
  const silent: Curve[] = [];
  const strong: number[] = [];
  let left = curves.length <= MAX_COLOURED ? curves.length : MAX_STRONG;
  for (let index = 0; index < curves.length; index++) {
    const curve = curves[index];
    const code = codes[index];
    if (curve === marks.curve || touches(painting, curve)) strong.push(index);
    if (!hasValue(code)) silent.push(curve);
    else if (code >= from && left > 0) {
      left--;
      levels[Math.round((code / FULL) * STEPS)].push(curve);
    }
  }
  const dim = strong.length > 0 ? 0.35 : 1;
  const few = curves.length < 300 ? 1 : 0.55;
  context.lineCap = "round";
  context.setLineDash([2, 4]);
  stroke(context, silent, colors.faint, pixel, pixel, 0.5 * dim);
  context.setLineDash([]);
  levels.forEach((each, level) => {
    const share = level / STEPS;
    const alpha = Math.min(1, (0.3 + 1.1 * share) * (share < 0.5 ? few : 1));
    const width = THIN + (THICK - THIN) * share ** 1.6;
    // The colours are those of the legend, so an edge separates them from a similar ground.
    if (share >= EDGED && colors.name === "light")
      stroke(context, each, colors.muted, width + 2, pixel, dim);
    if (share < 1 - EDGED && colors.name === "dark")
      stroke(context, each, colors.faint, width + 1, pixel, alpha * dim);
    stroke(context, each, scale.color(share), width, pixel, Math.max(alpha, 0.55) * dim);
  });
  paintTrees(painting, links);
  context.setLineDash([7, 5]);
  stroke(context, links.down(states), colors.alert, 2, pixel, 1);
  context.setLineDash([]);
  for (const index of strong) {
    const code = codes[index];
    const share = hasValue(code) ? code / FULL : 0;
    const width = (THICK - THIN) * share;
    const color = hasValue(code) ? scale.color(share) : colors.faint;
    stroke(context, [curves[index]], colors.ink, 2.4 + width, pixel, 0.9);
    stroke(context, [curves[index]], color, 1 + width, pixel, 1);
  }
}

/** Draws a light core into links that wait, in the direction of the root. */
function paintTrees({ context, marks, pixel }: Painting, links: Links): void {
  if (marks.waiting.size === 0) return;
  const waiting = links.curves.filter(({ bundle }) =>
    bundle.links.some(({ a, b }) => marks.waiting.has(a) || marks.waiting.has(b)),
  );
  context.setLineDash([2, 6]);
  stroke(context, waiting, theme().ink, pixel, pixel, 0.95);
  context.setLineDash([]);
}

/** Returns whether a curve belongs to the selected device, or to the path of two hosts. */
function touches({ marks, scene }: Painting, { bundle }: Curve): boolean {
  const { path } = marks;
  if (path.size > 0 && bundle.links.some(({ a, b }) => path.has(a) && path.has(b))) return true;
  const unit = marks.device < 0 ? -1 : scene.unitOf[marks.device];
  return unit >= 0 && (bundle.upper === unit || bundle.lower === unit);
}

/**
 * Draws curves of a given width. Without a GPU, a browser needs ten times longer for a wide curve
 * than for one of a pixel, so a wide curve is drawn as several one-pixel curves side by side.
 */
function stroke(
  context: CanvasRenderingContext2D,
  curves: readonly Curve[],
  color: string,
  width: number,
  pixel: number,
  alpha: number,
): void {
  if (curves.length === 0) return;
  const lines = Math.max(1, Math.round(width / pixel));
  context.strokeStyle = color;
  context.lineWidth = Math.min(width, pixel);
  context.globalAlpha = alpha;
  context.beginPath();
  for (let line = 0; line < lines; line++) {
    const shift = (line - (lines - 1) / 2) * pixel;
    for (const { x1, y1, bendX1, bendY1, bendX2, bendY2, x2, y2 } of curves) {
      context.moveTo(x1 + shift, y1);
      context.bezierCurveTo(bendX1 + shift, bendY1, bendX2 + shift, bendY2, x2 + shift, y2);
    }
  }
  context.stroke();
  context.globalAlpha = 1;
}
