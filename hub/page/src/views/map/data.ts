//! The values that the pictures of a map show.

import type { Scale } from "../../draw/scale";
import type { Topology } from "../../model/topology";
import type { Curve, Layout } from "./shapes";
import type { Scene } from "./units";

/** Everything that the pictures need for one drawing. */
export interface MapData {
  metric: string;
  values: Uint16Array | null;
  states: Uint16Array | null;
  scale: Scale;
  waiting: Map<number, number>;
  roots: Set<number>;
  found: Set<number>;
  /** Ports on the path of two hosts. */
  path: ReadonlySet<number>;
}

/**
 * Returns whether two pictures are equal. Answers of the hub arrive between slots and rarely change
 * the picture.
 */
export function isSamePicture(a: MapData | null, b: MapData | null): boolean {
  if (a === null || b === null) return a === b;
  const isSame = (x: Iterable<number>, y: Iterable<number>) => [...x].join() === [...y].join();
  return (
    a.values === b.values &&
    a.states === b.states &&
    a.scale === b.scale &&
    isSame(a.roots, b.roots) &&
    isSame(a.found, b.found) &&
    isSame(a.path, b.path) &&
    isSame(a.waiting.keys(), b.waiting.keys())
  );
}

/** What the map marks. */
export interface Marks {
  /** Device under the pointer, or the selected one; -1 if there is none. */
  device: number;
  /** Bundle under the pointer. */
  curve: Curve | null;
  /** Ports that wait in a congestion tree, each with its share of the waiting time. */
  waiting: Map<number, number>;
  /** Roots of congestion trees. */
  roots: Set<number>;
  /** Devices of a job, of a group or of a search. */
  found: Set<number>;
  /** Ports on the path of two hosts. */
  path: ReadonlySet<number>;
}

export interface Painting {
  context: CanvasRenderingContext2D;
  topology: Topology;
  scene: Scene;
  layout: Layout;
  values: Uint16Array;
  /** Codes of the utilization, which show the ports that do not answer whatever the metric is. */
  states: Uint16Array;
  scale: Scale;
  marks: Marks;
  /** Device pixels for each unit of the layout. Labels need a min zoom. */
  zoom: number;
  /** Size of a pixel of the screen in units of the layout. */
  pixel: number;
}
