//! The shapes of a map. All lengths are in units: one unit is a pixel at zoom 1.

import type { Bundle } from "./units";

export interface Box {
  unit: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A host port below its leaf switch. */
export interface Cell {
  /** Index of the HCA port. */
  port: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A port of a switch on the edge of its box. */
export interface Pin {
  port: number;
  x: number;
  y: number;
  width: number;
}

/** The pins of one edge of a box. */
export interface Strip {
  x: number;
  y: number;
  /** Width of a pin. */
  step: number;
  ports: number[];
}

/** Height of a pin. */
export const PIN = 6;

/** A bundle as a Bezier curve between two boxes, with two end points and two control points. */
export interface Curve {
  bundle: Bundle;
  x1: number;
  y1: number;
  bendX1: number;
  bendY1: number;
  bendX2: number;
  bendY2: number;
  x2: number;
  y2: number;
}

export interface Layout {
  width: number;
  height: number;
  boxes: Box[];
  cells: Cell[];
  pins: Pin[];
  strips: Strip[];
  curves: Curve[];
  /** Title of each row and its position. */
  titles: { text: string; y: number }[];
  /** Whether curves cross boxes, so that the boxes are drawn over them. */
  boxesOnTop: boolean;
}
