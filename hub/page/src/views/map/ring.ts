//! Places boxes on a ring, for fabrics without tiers: tori, and the groups of a Dragonfly+.

import type { Box, Layout } from "./shapes";
import type { Scene } from "./units";

const MARGIN = 20;
const BOX = { width: 92, height: 38 };
/** How far links bend to the middle of the ring; 0 is straight. */
const BEND = 0.55;
/** Min number of boxes. A ring of fewer boxes is no better than rows. */
const MIN = 4;

/** Returns whether all links of a scene connect boxes of the same tier. */
export function isFlat(scene: Scene): boolean {
  const { units, bundles } = scene;
  return (
    units.length >= MIN &&
    bundles.length > 0 &&
    bundles.every(({ upper, lower }) => units[upper].tier === units[lower].tier)
  );
}

/** Places the boxes of a scene on an ellipse, in their order. */
export function ringLayout(scene: Scene, width: number, height: number): Layout {
  const count = scene.units.length;
  const middle = { x: width / 2, y: height / 2 };
  const radius = { x: middle.x - MARGIN - BOX.width / 2, y: middle.y - MARGIN - BOX.height / 2 };
  const room = (2 * Math.PI * Math.min(radius.x, radius.y * 1.6)) / count;
  const size = Math.max(6, Math.min(1, room / BOX.width) * BOX.width);
  const boxes = scene.units.map((_, unit): Box => {
    const angle = (2 * Math.PI * unit) / count - Math.PI / 2;
    const x = middle.x + radius.x * Math.cos(angle) - size / 2;
    const y = middle.y + radius.y * Math.sin(angle) - BOX.height / 2;
    return { unit, x, y, width: size, height: BOX.height };
  });
  const curves = scene.bundles.map((bundle) => {
    const end = (box: Box) => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });
    const one = end(boxes[bundle.upper]);
    const two = end(boxes[bundle.lower]);
    return {
      bundle,
      x1: one.x,
      y1: one.y,
      bendX1: one.x + BEND * (middle.x - one.x),
      bendY1: one.y + BEND * (middle.y - one.y),
      bendX2: two.x + BEND * (middle.x - two.x),
      bendY2: two.y + BEND * (middle.y - two.y),
      x2: two.x,
      y2: two.y,
    };
  });
  return {
    width,
    height,
    boxes,
    cells: [],
    pins: [],
    strips: [],
    boxesOnTop: true,
    curves,
    titles: [],
  };
}
