//! The values that the pictures of a map show.

import type { Scale } from "../../draw/scale";

/** What both pictures need for one drawing. */
export interface MapData {
  values: Uint16Array | null;
  states: Uint16Array | null;
  scale: Scale;
  waiting: Map<number, number>;
  roots: Set<number>;
  found: Set<number>;
}
