//! Draws a map: links, boxes, ports, hosts, and the trees over them.

import { FULL, hasValue, LINK_DOWN, NO_ANSWER } from "../../contract/frame";
import { hatch } from "../../draw/canvas";
import type { Scale } from "../../draw/scale";
import { font, theme } from "../../draw/theme";
import type { Link, Topology } from "../../model/topology";
import type { Box, Curve, Layout } from "./shapes";
import type { Scene } from "./units";

/** What the map marks. */
export interface Marks {
  /** Device under the pointer, or the selected one; -1 if there is none. */
  device: number;
  /** Bundle under the pointer. */
  curve: Curve | null;
  /** Ports that wait in a congestion tree, with their share of the waiting time. */
  waiting: Map<number, number>;
  /** Roots of congestion trees. */
  roots: Set<number>;
  /** Devices of a job or of a search. */
  found: Set<number>;
}

export interface Painting {
  context: CanvasRenderingContext2D;
  topology: Topology;
  scene: Scene;
  layout: Layout;
  values: Uint16Array;
  /** Utilization: it tells which ports do not answer, whatever the metric is. */
  states: Uint16Array;
  scale: Scale;
  marks: Marks;
  /** Device pixels for each unit of the layout: labels need room. */
  zoom: number;
}

/** Width of a link in pixels at 0 % and at 100 %. */
const THIN = 0.7;
const THICK = 4.2;
const STEPS = 24;
/** Links of a large picture that are drawn strongly, and the opacity of the others. */
const MOST_STRONG = 200;
const FAINT = 0.13;

/** Returns the largest code of both directions of some links, or the state of the worst one. */
export function worst(links: readonly Link[], values: Uint16Array): number {
  let best = -1;
  let state = 0;
  for (const { a, b } of links) {
    for (const code of [values[a], values[b]]) {
      if (code > FULL) state = state === 0 ? code : Math.min(state, code);
      else if (code > best) best = code;
    }
  }
  return best >= 0 ? best : state;
}

/** Returns the fullest direction of some links: the port that sends. */
export function fullestPort(links: readonly Link[], values: Uint16Array): number {
  let best = links[0].a;
  let most = -1;
  for (const { a, b } of links) {
    for (const port of [a, b]) {
      if (values[port] <= FULL && values[port] > most) {
        most = values[port];
        best = port;
      }
    }
  }
  return best;
}

export function paintMap(painting: Painting): void {
  paintCurves(painting);
  paintTitles(painting);
  paintBoxes(painting);
  paintPins(painting);
  paintCells(painting);
}

function paintTitles({ context, layout }: Painting): void {
  context.font = font(12, 600);
  const colors = theme();
  context.textBaseline = "top";
  context.textAlign = "left";
  for (const { text, y } of layout.titles) {
    context.fillStyle = colors.surface;
    context.fillRect(12, y - 4, context.measureText(text).width + 8, 19);
    context.fillStyle = colors.muted;
    context.fillText(text, 14, y);
  }
}

function trace(context: CanvasRenderingContext2D, curve: Curve): void {
  const { x1, y1, bendX1, bendY1, bendX2, bendY2, x2, y2 } = curve;
  context.moveTo(x1, y1);
  context.bezierCurveTo(bendX1, bendY1, bendX2, bendY2, x2, y2);
}

/** Returns whether a curve belongs to the selected device. */
function touches(painting: Painting, curve: Curve): boolean {
  const unit = painting.marks.device < 0 ? -1 : painting.scene.unitOf[painting.marks.device];
  return unit >= 0 && (curve.bundle.upper === unit || curve.bundle.lower === unit);
}

/** Curves of similar values are one path: it is faster, and the fullest links are on top. */
function paintCurves(painting: Painting): void {
  const { context, layout, values, scale, marks } = painting;
  const colors = theme();
  const levels: Curve[][] = Array.from({ length: STEPS + 1 }, () => []);
  const strong: Curve[] = [];
  const down: Curve[] = [];
  const silent: Curve[] = [];
  for (const curve of layout.curves) {
    const code = worst(curve.bundle.links, values);
    if (curve === marks.curve || touches(painting, curve)) strong.push(curve);
    if (curve.bundle.links.some(({ a, b }) => isDown(painting, a, b))) down.push(curve);
    else if (hasValue(code)) levels[Math.round((code / FULL) * STEPS)].push(curve);
    else silent.push(curve);
  }
  const dim = strong.length > 0 ? 0.35 : 1;
  const few = (layout.curves.length < 300 ? 1 : 0.55) * (colors.name === "light" ? 0.6 : 1);
  context.lineCap = "round";
  context.setLineDash([2, 4]);
  stroke(context, silent, colors.faint, 0.8, 0.5 * dim);
  context.setLineDash([]);
  const hot = hotLevel(levels);
  levels.forEach((curves, level) => {
    const share = level / STEPS;
    const isHot = level >= hot;
    const alpha = isHot ? Math.min(1, (0.3 + 1.1 * share) * (share < 0.5 ? few : 1)) : FAINT;
    const width = isHot ? THIN + (THICK - THIN) * share ** 1.6 : THIN;
    stroke(context, curves, scale.color(0.1 + 0.9 * share), width, alpha * dim);
  });
  paintTrees(painting);
  context.setLineDash([7, 5]);
  stroke(context, down, colors.alert, 2, 1);
  context.setLineDash([]);
  for (const curve of strong) {
    const code = worst(curve.bundle.links, values);
    const share = hasValue(code) ? code / FULL : 0;
    stroke(context, [curve], colors.ink, 2.4 + (THICK - THIN) * share, 0.9);
    stroke(
      context,
      [curve],
      hasValue(code) ? scale.color(share) : colors.faint,
      1 + (THICK - THIN) * share,
      1,
    );
  }
}

/**
 * Returns the level from which links are drawn strongly. All are in a picture of few links; in a
 * picture of many links only the fullest ones are.
 */
function hotLevel(levels: Curve[][]): number {
  const total = levels.reduce((sum, curves) => sum + curves.length, 0);
  if (total <= MOST_STRONG) return 0;
  let strong = 0;
  let level = levels.length;
  while (level > 0 && strong + levels[level - 1].length <= MOST_STRONG) {
    level--;
    strong += levels[level].length;
  }
  return level;
}

function isDown({ states, topology }: Painting, a: number, b: number): boolean {
  const down = states[a] === LINK_DOWN || states[b] === LINK_DOWN;
  return (
    down &&
    states[a] !== NO_ANSWER &&
    states[b] !== NO_ANSWER &&
    topology.isSwitch(topology.ports[a].device)
  );
}

function stroke(
  context: CanvasRenderingContext2D,
  curves: Curve[],
  color: string,
  width: number,
  alpha: number,
): void {
  if (curves.length === 0) return;
  context.strokeStyle = color;
  context.lineWidth = width;
  context.globalAlpha = alpha;
  context.beginPath();
  for (const curve of curves) trace(context, curve);
  context.stroke();
  context.globalAlpha = 1;
}

/** Links on the way to a root have a light core: they wait, in the direction of the root. */
function paintTrees({ context, layout, marks }: Painting): void {
  if (marks.waiting.size === 0) return;
  const colors = theme();
  const waiting = layout.curves.filter(({ bundle }) =>
    bundle.links.some(({ a, b }) => marks.waiting.has(a) || marks.waiting.has(b)),
  );
  context.setLineDash([2, 6]);
  stroke(context, waiting, colors.ink, 1.6, 0.95);
  context.setLineDash([]);
}

function paintBoxes(painting: Painting): void {
  const { context, layout, scene, states, topology, marks } = painting;
  const colors = theme();
  const selected = marks.device < 0 ? -1 : scene.unitOf[marks.device];
  for (const box of layout.boxes) {
    const unit = scene.units[box.unit];
    const dead = unit.switches.length === 1 && isSilent(topology, unit.switches[0], states);
    context.fillStyle = dead ? hatch(context, colors.alert, colors.surface) : colors.raised;
    context.strokeStyle = dead ? colors.alert : box.unit === selected ? colors.accent : colors.line;
    context.lineWidth = box.unit === selected || dead ? 2 : 1;
    context.beginPath();
    context.roundRect(box.x, box.y, box.width, box.height, 4);
    context.fill();
    context.stroke();
    if (unit.switches.some((device) => marks.found.has(device))) ring(context, box, colors.accent);
    if (unit.switches.length > 1) paintMembers(painting, box);
    else paintName(painting, box, unit.name, dead);
  }
}

function ring(
  context: CanvasRenderingContext2D,
  box: { x: number; y: number; width: number; height: number },
  color: string,
): void {
  context.strokeStyle = color;
  context.lineWidth = 2.5;
  context.strokeRect(box.x - 3, box.y - 3, box.width + 6, box.height + 6);
}

function paintName({ context, zoom }: Painting, box: Box, name: string, dead: boolean): void {
  const colors = theme();
  const room = box.width - 4;
  if (room * zoom < 26) return;
  const size = Math.min(12, Math.max(8, room / (0.62 * name.length)));
  context.font = font(size, 600);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const middle = box.x + box.width / 2;
  const text = dead && room > 90 ? `${name}: no answer` : name;
  if (dead) {
    const width = Math.min(room, context.measureText(text).width + 8);
    context.fillStyle = colors.surface;
    context.fillRect(middle - width / 2, box.y + box.height / 2 - 9, width, 18);
  }
  context.fillStyle = dead ? colors.alert : colors.ink;
  context.fillText(text, middle, box.y + box.height / 2, room);
}

/** The switches of a group as small squares: the colour is the fullest port. */
function paintMembers(
  { context, scene, topology, values, states, scale }: Painting,
  box: Box,
): void {
  const colors = theme();
  const { switches, name } = scene.units[box.unit];
  const top = box.y + 15;
  const columns = Math.min(
    switches.length,
    Math.max(1, Math.floor(box.width / Math.max(4, Math.sqrt((box.width * 20) / switches.length)))),
  );
  const rows = Math.ceil(switches.length / columns);
  const width = (box.width - 6) / columns;
  const height = Math.min(11, 20 / rows);
  context.font = font(Math.min(11, Math.max(7, box.width / (0.58 * name.length))), 600);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = colors.ink;
  const fits = context.measureText(name).width <= box.width - 4;
  const short = name.replaceAll(/[A-Za-z_-]+(?=\d)/g, "");
  context.fillText(fits ? name : short, box.x + box.width / 2, box.y + 8, box.width - 4);
  switches.forEach((device, index) => {
    let most = -1;
    for (const port of topology.portsOf[device])
      if (values[port] <= FULL && values[port] > most) most = values[port];
    const silent = isSilent(topology, device, states);
    context.fillStyle = silent
      ? hatch(context, colors.alert, colors.surface)
      : most < 0
        ? colors.line
        : scale.color(most / FULL);
    context.fillRect(
      box.x + 3 + (index % columns) * width,
      top + Math.floor(index / columns) * height,
      Math.max(1, width - 1),
      Math.max(1, height - 1),
    );
  });
}

/** Returns whether no port of a device answers. */
export function isSilent(topology: Topology, device: number, states: Uint16Array): boolean {
  const ports = topology.portsOf[device];
  return ports.length > 0 && ports.every((port) => states[port] === NO_ANSWER);
}

function paintPins({ context, layout, values, scale, marks, zoom }: Painting): void {
  const colors = theme();
  for (const pin of layout.pins) {
    const code = values[pin.port];
    const gap = pin.width * zoom > 4 ? 1 : 0;
    context.fillStyle = hasValue(code)
      ? scale.color(code / FULL)
      : code === LINK_DOWN
        ? colors.alert
        : colors.faint;
    if (code !== NO_ANSWER)
      context.fillRect(pin.x + gap / 2, pin.y, Math.max(0.5, pin.width - gap), 6);
    if (marks.roots.has(pin.port)) {
      const x = pin.x + pin.width / 2;
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(x, pin.y + 3, 8, 0, 2 * Math.PI);
      context.stroke();
      context.font = font(11, 700);
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillStyle = colors.surface;
      context.fillRect(x + 9, pin.y + 5, 30, 15);
      context.fillStyle = colors.ink;
      context.fillText("root", x + 12, pin.y + 13);
    }
  }
}

/** Two triangles a host: the upper one is data to the host, the lower one is data from it. */
function paintCells(painting: Painting): void {
  const { context, layout, values, states, scale, marks, topology } = painting;
  const colors = theme();
  for (const { port, x, y, width, height } of layout.cells) {
    const row = topology.ports[port];
    const into = row.peer === null ? values[port] : values[row.peer];
    if (states[port] === NO_ANSWER) {
      context.fillStyle = hatch(context, colors.muted, colors.surface);
      context.fillRect(x, y, width, height);
      continue;
    }
    half(context, values[port], scale, x, y + height, x + width, y + height, x + width, y);
    half(context, into, scale, x, y, x + width, y, x, y + height);
    if (marks.found.has(row.device) || marks.device === row.device)
      ring(context, { x: x + 2, y: y + 2, width: width - 4, height: height - 4 }, colors.accent);
  }
}

function half(
  context: CanvasRenderingContext2D,
  code: number,
  scale: Scale,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
  x3: number,
  y3: number,
): void {
  context.fillStyle = hasValue(code) ? scale.color(code / FULL) : theme().line;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.lineTo(x3, y3);
  context.fill();
}
