//! Draws a map: links, boxes, ports, hosts, and the trees over them.

import { FULL, hasValue, LINK_DOWN, NO_ANSWER } from "../../contract/frame";
import { noAnswer, noData, triangle } from "../../draw/canvas";
import { pixelTable, type Scale } from "../../draw/scale";
import { font, theme } from "../../draw/theme";
import type { Link, Topology } from "../../model/topology";
import { type Links, paintCurves } from "./curves";
import type { Painting } from "./data";
import { type Box, PIN, type Pin, type Strip } from "./shapes";
import type { Unit } from "./units";

/** Returns the fullest direction of some links, as the port that sends. */
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

/** Draws everything that has values. */
export function paintMap(painting: Painting, links: Links): void {
  paintCurves(painting, links);
  paintTitles(painting);
  if (painting.layout.boxesOnTop) paintBoxes(painting);
  for (const box of painting.layout.boxes) {
    if (painting.scene.units[box.unit].switches.length > 1) paintMembers(painting, box);
  }
  paintPins(painting);
  paintCells(painting);
}

/** Draws the names of the tiers. They stay at the left edge, and keep their size. */
function paintTitles({ context, layout, zoom, pixel }: Painting): void {
  const colors = theme();
  const ratio = 1 / (pixel * zoom);
  const down = context.getTransform().f / ratio;
  context.save();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = font(12, 600);
  context.textBaseline = "top";
  context.textAlign = "left";
  for (const { text, y } of layout.titles) {
    const top = y * zoom + down;
    context.fillStyle = colors.surface;
    context.fillRect(12, top - 4, context.measureText(text).width + 8, 19);
    context.fillStyle = colors.muted;
    context.fillText(text, 14, top);
  }
  context.restore();
}

/** Draws the boxes with their names, which change only with their state or the selection. */
export function paintBoxes(painting: Painting): void {
  const { context, layout, scene, states, topology, marks } = painting;
  const colors = theme();
  const selected = marks.device < 0 ? -1 : scene.unitOf[marks.device];
  for (const box of layout.boxes) {
    const unit = scene.units[box.unit];
    const dead = unit.switches.length === 1 && isSilent(topology, unit.switches[0], states);
    context.fillStyle = dead ? noAnswer(context, colors.alert) : colors.raised;
    context.strokeStyle = dead ? colors.alert : box.unit === selected ? colors.accent : colors.line;
    context.lineWidth = box.unit === selected || dead ? 2 : 1;
    context.beginPath();
    context.roundRect(box.x, box.y, box.width, box.height, 4);
    context.fill();
    context.stroke();
    if (unit.switches.some((device) => marks.found.has(device))) ring(context, box, colors.accent);
    if (unit.switches.length > 1) paintGroupName(painting, box, unit);
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

/** Least widths in pixels of a box with a name in it, and with a name from below to above. */
const LEVEL = 26;
const UPRIGHT = 11;

function paintName({ context, zoom }: Painting, box: Box, name: string, dead: boolean): void {
  const colors = theme();
  const room = box.width - 4;
  if (room * zoom < LEVEL) {
    paintUpright({ context, zoom }, box, name, dead);
    return;
  }
  // A larger picture has more names, but no larger ones.
  const size = Math.min(12, Math.max(8, (room * zoom) / (0.62 * name.length))) / zoom;
  context.font = font(size, 600);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const middle = box.x + box.width / 2;
  const text = dead && room > 90 ? `${name}: no answer` : name;
  if (dead) {
    const width = Math.min(room, context.measureText(text).width + 8 / zoom);
    const height = 18 / zoom;
    context.fillStyle = colors.surface;
    context.fillRect(middle - width / 2, box.y + (box.height - height) / 2, width, height);
  }
  context.fillStyle = dead ? colors.alert : colors.ink;
  context.fillText(text, middle, box.y + box.height / 2, room);
}

/** Writes a name from below to above, which fits into a narrow box. */
function paintUpright(
  { context, zoom }: Pick<Painting, "context" | "zoom">,
  box: Box,
  name: string,
  dead: boolean,
): void {
  if (box.width * zoom < UPRIGHT) return;
  const room = box.height - 2 * PIN - 2;
  context.save();
  context.translate(box.x + box.width / 2, box.y + box.height / 2);
  context.rotate(-Math.PI / 2);
  context.font = font(Math.min(11, box.width * zoom * 0.8) / zoom, 600);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = dead ? theme().alert : theme().ink;
  context.fillText(name, 0, 0, room);
  context.restore();
}

function paintGroupName({ context }: Painting, box: Box, { name, short }: Unit): void {
  context.font = font(Math.min(11, Math.max(9, box.width / (0.58 * name.length))), 600);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = theme().ink;
  const fits = context.measureText(name).width <= box.width - 4;
  context.fillText(fits ? name : short, box.x + box.width / 2, box.y + 8, box.width - 4);
}

/** Draws the switches of a group as small squares in the colour of their fullest port. */
function paintMembers(
  { context, scene, topology, values, states, scale }: Painting,
  box: Box,
): void {
  const colors = theme();
  const { switches } = scene.units[box.unit];
  const top = box.y + 15;
  const columns = Math.min(
    switches.length,
    Math.max(1, Math.floor(box.width / Math.max(4, Math.sqrt((box.width * 20) / switches.length)))),
  );
  const rows = Math.ceil(switches.length / columns);
  const width = (box.width - 6) / columns;
  const height = Math.min(11, 20 / rows);
  switches.forEach((device, index) => {
    let most = -1;
    for (const port of topology.portsOf[device])
      if (values[port] <= FULL && values[port] > most) most = values[port];
    const silent = isSilent(topology, device, states);
    context.fillStyle = silent
      ? noAnswer(context, colors.alert)
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

/** Devices without an answer, cached by the states of a slot. */
const silent = new WeakMap<Uint16Array, Uint8Array>();

/** Returns whether no port of a device answers. */
export function isSilent(topology: Topology, device: number, states: Uint16Array): boolean {
  let known = silent.get(states);
  if (known === undefined) {
    known = Uint8Array.from(topology.portsOf, (ports) =>
      Number(ports.length > 0 && ports.every((port) => states[port] === NO_ANSWER)),
    );
    silent.set(states, known);
  }
  return known[device] === 1;
}

function paintPins(painting: Painting): void {
  const { layout, marks, zoom } = painting;
  const narrow: Strip[] = [];
  for (const strip of layout.strips) {
    if (strip.step * zoom > MIN_PIN) paintWidePins(painting, strip);
    else narrow.push(strip);
  }
  if (narrow.length > 0) paintStrips(painting, narrow);
  if (marks.roots.size === 0) return;
  for (const pin of layout.pins) if (marks.roots.has(pin.port)) paintRoot(painting, pin);
}

/** Min width in pixels of pins with gaps between them. */
const MIN_PIN = 4;

function pinColor(code: number, scale: Scale): string | null {
  const colors = theme();
  if (hasValue(code)) return scale.color(code / FULL);
  if (code === NO_ANSWER) return null;
  return code === LINK_DOWN ? colors.alert : colors.faint;
}

function paintWidePins({ context, values, scale }: Painting, strip: Strip): void {
  const { x, y, step, ports } = strip;
  ports.forEach((port, index) => {
    const color = pinColor(values[port], scale);
    if (color === null) return;
    context.fillStyle = color;
    context.fillRect(x + index * step + 0.5, y, Math.max(0.5, step - 1), PIN);
  });
}

let atlas: CanvasRenderingContext2D | null = null;

/**
 * Draws strips of many ports. One picture has a line for each strip, with a pixel for each port,
 * and is stretched.
 */
function paintStrips({ context, values, scale }: Painting, strips: readonly Strip[]): void {
  const table = pixelTable(scale);
  atlas ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  const { canvas } = atlas;
  const most = Math.max(...strips.map(({ ports }) => ports.length));
  if (canvas.width < most) canvas.width = most;
  if (canvas.height < strips.length) canvas.height = strips.length;
  const image = atlas.createImageData(most, strips.length);
  const pixels = new Int32Array(image.data.buffer);
  strips.forEach(({ ports }, line) => {
    for (let index = 0; index < ports.length; index++) {
      const code = values[ports[index]];
      // The pattern of the box stays visible.
      if (code !== NO_ANSWER) pixels[line * most + index] = table[code];
    }
  });
  atlas.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  strips.forEach(({ x, y, step, ports }, line) => {
    context.drawImage(canvas, 0, line, ports.length, 1, x, y, step * ports.length, PIN);
  });
}

/** Draws a ring around the port of a root. Its label is below or above the own switch. */
function paintRoot({ context, layout }: Painting, pin: Pin): void {
  const colors = theme();
  const x = pin.x + pin.width / 2;
  const isIn = ({ x: left, y, width, height }: Box) =>
    x >= left && x <= left + width && pin.y >= y && pin.y <= y + height;
  const box = layout.boxes.find(isIn);
  const isRight = box !== undefined && x > box.x + box.width / 2;
  const side = isRight || x + 40 > layout.width ? -1 : 1;
  const y = box !== undefined && pin.y > box.y ? pin.y + 13 : pin.y - 7;
  context.strokeStyle = colors.ink;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, pin.y + 3, 8, 0, 2 * Math.PI);
  context.stroke();
  context.font = font(11, 700);
  context.textAlign = side > 0 ? "left" : "right";
  context.textBaseline = "middle";
  context.fillStyle = colors.surface;
  context.fillRect(side > 0 ? x + 9 : x - 39, y - 7, 30, 14);
  context.fillStyle = colors.ink;
  context.fillText("root", x + side * 12, y);
}

/** Returns whether the link of a port is down, as one of its ends reports. */
export function isDown(states: Uint16Array, port: number, peer: number | null): boolean {
  return states[port] === LINK_DOWN || (peer !== null && states[peer] === LINK_DOWN);
}

/** Fills a cell as the legend shows a link that is down. */
function paintDown(
  context: CanvasRenderingContext2D,
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
): void {
  context.fillStyle = "#0c0e12";
  context.fillRect(x, y, width, height);
  context.strokeStyle = theme().alert;
  context.lineWidth = Math.min(2, width / 4);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + width, y + height);
  context.stroke();
}

/** Draws two triangles for each host, as in the matrix: what it sends up is above. */
function paintCells(painting: Painting): void {
  const { context, layout, values, states, scale, marks, topology } = painting;
  const colors = theme();
  const none = noData(context);
  for (const { port, x, y, width, height } of layout.cells) {
    const row = topology.ports[port];
    const into = row.peer === null ? values[port] : values[row.peer];
    if (states[port] === NO_ANSWER) {
      context.fillStyle = noAnswer(context);
      context.fillRect(x, y, width, height);
      continue;
    }
    if (isDown(states, port, row.peer)) {
      paintDown(context, { x, y, width, height });
      continue;
    }
    if (!hasValue(values[port]) && !hasValue(into)) {
      context.fillStyle = none;
      context.fillRect(x, y, width, height);
      continue;
    }
    const color = (code: number) => (hasValue(code) ? scale.color(code / FULL) : none);
    triangle(context, color(into), x, y + height, x + width, y + height, x + width, y);
    triangle(context, color(values[port]), x, y, x + width, y, x, y + height);
    if (marks.found.has(row.device) || marks.device === row.device)
      ring(context, { x: x + 2, y: y + 2, width: width - 4, height: height - 4 }, colors.accent);
  }
}
