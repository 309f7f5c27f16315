//! Positions of boxes, ports and hosts. One unit is a pixel at zoom 1.

import type { Topology } from "../../model/topology";
import { isFlat, ringLayout } from "./ring";
import { type Box, type Layout, PIN } from "./shapes";
import type { Scene } from "./units";

const MARGIN = 14;
const TITLE = 22;
const BOX = 38;
/** Height of boxes that are so narrow that their names are upright, and their width. */
const TALL_BOX = 58;
const NARROW = 34;
const MAX_BOXES = 34;
/** Largest distance between two tiers. A larger picture has larger hosts instead. */
const LARGEST_GAP = 280;
const LARGEST_CELL = 30;
const HOST_CELLS = 3000;
/**
 * Distance that curves keep from a row of switches before they bend, as a share of the distance
 * between rows.
 */
const BEND = 0.42;
/** Height of a curve between two boxes of one row. */
const ARC = 40;

/** Returns whether a picture of the whole fabric has space for its hosts. */
export function showsHosts(topology: Topology): boolean {
  const hosts = topology.devices.reduce((sum, { kind }) => sum + Number(kind !== "switch"), 0);
  return hosts <= HOST_CELLS;
}

/** Arranges a scene in a rectangle. */
export function layoutOf(topology: Topology, scene: Scene, width: number, height: number): Layout {
  if (isFlat(scene)) return ringLayout(scene, width, height);
  const tiers = [...new Set(scene.units.map(({ tier }) => tier))].sort((x, y) => y - x);
  const hosts = hostsOf(topology, scene);
  const hostRows = Math.max(0, ...[...hosts.values()].map((ports) => ports.length));
  const rows = tiers.map((tier) =>
    scene.units.flatMap((unit, index) => (unit.tier === tier ? [index] : [])),
  );
  const lines = rows.map((row) => linesOf(row, width));
  const longest = Math.max(...lines.flat().map((line) => line.length));
  const tall = (width - 2 * MARGIN) / longest < NARROW ? TALL_BOX : BOX;
  const hasHosts = (line: number[]) => line.some((unit) => hosts.has(unit));
  const hostLines = lines.flat().filter(hasHosts).length;
  const least = hostRows > 0 ? Math.max(50, Math.min(0.34 * height, 150) / hostLines) : 16;
  // Hosts of the last line are below all boxes, and those of other lines between the boxes.
  const after = (line: number[], band: number) => tall + 12 + (hasHosts(line) ? band : 0);
  const above = lines.flatMap((of) => of.slice(0, -1));
  const extra = above.reduce((sum, line) => sum + after(line, least), 0);
  const gaps = Math.max(1, tiers.length - 1);
  const wanted = (height - 2 * MARGIN - tiers.length * (tall + TITLE) - extra - least) / gaps;
  const gap = Math.max(60, Math.min(LARGEST_GAP, wanted));
  const spare = Math.max(0, gaps * (wanted - gap));
  const band = hostRows > 0 ? least + spare / hostLines : least;

  const layout: Layout = {
    width,
    height,
    boxes: [],
    cells: [],
    pins: [],
    strips: [],
    curves: [],
    titles: [],
    // Curves of a second line of boxes cross the first line.
    boxesOnTop: lines.some((tier) => tier.length > 1),
  };
  let y = MARGIN;
  lines.forEach((tier, index) => {
    layout.titles.push({ text: topology.tierName(tiers[index]), y });
    y += TITLE;
    tier.forEach((line, place) => {
      placeLine(layout, line, y, width, tier[0].length, tall);
      y += place === tier.length - 1 ? tall : after(line, band);
    });
    y += gap;
  });
  if (hostRows > 0) {
    for (const box of layout.boxes) placeHosts(layout, box, hosts.get(box.unit) ?? [], band);
  }
  const all = [...layout.cells, ...layout.boxes];
  const bottom = Math.max(...all.map((each) => each.y + each.height)) + MARGIN;
  layout.height = Math.max(height, bottom);
  for (const each of [...all, ...layout.titles]) each.y += (layout.height - bottom) / 2;
  placePins(topology, scene, layout);
  placeCurves(scene, layout);
  return layout;
}

/** Splits the units of a tier into lines of boxes. */
function linesOf(units: number[], width: number): number[][] {
  const most = perLine(units.length, width);
  // All lines have the same number of boxes, so none is narrower than necessary.
  const count = Math.ceil(units.length / Math.ceil(units.length / most));
  return Array.from({ length: Math.ceil(units.length / count) }, (_, line) =>
    units.slice(line * count, (line + 1) * count),
  );
}

function perLine(count: number, width: number): number {
  return Math.max(1, Math.min(count, Math.max(MAX_BOXES, Math.floor(width / 42))));
}

function placeLine(
  layout: Layout,
  units: number[],
  y: number,
  width: number,
  count: number,
  height: number,
): void {
  const pitch = (width - 2 * MARGIN) / count;
  const size = Math.min(pitch - Math.min(10, 0.18 * pitch), 190);
  const shift = (width - 2 * MARGIN - pitch * units.length) / 2;
  units.forEach((unit, index) => {
    const x = MARGIN + shift + pitch * index + (pitch - size) / 2;
    layout.boxes.push({ unit, x, y, width: size, height });
  });
}

/** Returns the HCA ports below each unit, in the order of the switch ports. */
function hostsOf(topology: Topology, scene: Scene): Map<number, number[]> {
  const hosts = new Map<number, number[]>();
  if (scene.grouped) return hosts;
  let total = 0;
  scene.units.forEach((unit, index) => {
    if (unit.switches.length !== 1) return;
    const ports = topology.portsOf[unit.switches[0]].flatMap((port) => {
      const { peer } = topology.ports[port];
      return peer !== null && topology.ports[peer].kind !== "switch" ? [peer] : [];
    });
    total += ports.length;
    if (ports.length > 0) hosts.set(index, ports);
  });
  return total > HOST_CELLS ? new Map() : hosts;
}

function placeHosts(layout: Layout, box: Box, ports: number[], band: number): void {
  if (ports.length === 0) return;
  const top = box.y + box.height + 16;
  const columns = Math.max(
    1,
    Math.min(
      ports.length,
      Math.max(
        Math.floor(box.width / LARGEST_CELL),
        Math.round(Math.sqrt((ports.length * box.width) / (band - 20))),
      ),
    ),
  );
  const rows = Math.ceil(ports.length / columns);
  const size = Math.min(box.width / columns, (band - 20) / rows, LARGEST_CELL);
  const shift = (box.width - columns * size) / 2;
  ports.forEach((port, index) => {
    layout.cells.push({
      port,
      x: box.x + shift + (index % columns) * size,
      y: top + Math.floor(index / columns) * size,
      width: size - Math.min(2, size / 5),
      height: size - Math.min(2, size / 5),
    });
  });
}

/** Ports to higher units are on the upper edge, and all others on the lower edge. */
function placePins(topology: Topology, scene: Scene, layout: Layout): void {
  for (const box of layout.boxes) {
    const unit = scene.units[box.unit];
    if (unit.switches.length !== 1) continue;
    const [device] = unit.switches;
    const edges: number[][] = [[], []];
    for (const port of topology.portsOf[device]) {
      const { peer } = topology.ports[port];
      if (peer === null || peer === undefined) continue;
      const higher = topology.tierOf(peer) > unit.tier;
      edges[higher ? 0 : 1].push(port);
    }
    edges.forEach((ports, edge) => {
      if (ports.length === 0) return;
      const step = box.width / ports.length;
      const y = edge === 0 ? box.y : box.y + box.height - PIN;
      layout.strips.push({ x: box.x, y, step, ports });
      ports.forEach((port, index) => {
        layout.pins.push({ port, x: box.x + index * step, y, width: step });
      });
    });
  }
}

function placeCurves(scene: Scene, layout: Layout): void {
  const boxOf = new Map(layout.boxes.map((box) => [box.unit, box]));
  const pinOf = new Map(layout.pins.map((pin) => [pin.port, pin]));
  for (const bundle of scene.bundles) {
    const upper = boxOf.get(bundle.upper);
    const lower = boxOf.get(bundle.lower);
    if (upper === undefined || lower === undefined) continue;
    const middle = (ports: number[], box: Box) => {
      const pins = ports.flatMap((port) => pinOf.get(port) ?? []);
      if (pins.length === 0) return box.x + box.width / 2;
      return pins.reduce((sum, pin) => sum + pin.x + pin.width / 2, 0) / pins.length;
    };
    const x1 = middle(
      bundle.links.map(({ a }) => a),
      upper,
    );
    const x2 = middle(
      bundle.links.map(({ b }) => b),
      lower,
    );
    const level = upper.y === lower.y;
    const y1 = upper.y + (level ? 0 : upper.height);
    const bend = level ? -ARC : (lower.y - y1) * BEND;
    layout.curves.push({
      bundle,
      x1,
      y1,
      bendX1: x1,
      bendY1: y1 + bend,
      bendX2: x2,
      bendY2: lower.y - (level ? ARC : bend),
      x2,
      y2: lower.y,
    });
  }
}
