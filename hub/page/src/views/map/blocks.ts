//! Divides the matrix into blocks, with lower switches as rows and the upper switches to which they
//! are cabled as columns. A fabric of two tiers is one block. In a larger fat tree each pod is a
//! block, and so is each set of spine switches with the same core switches, because one matrix of
//! all switches would be almost empty.

import type { Cable, Topology } from "../../model/topology";
import { commonName } from "./names";

/** Lower and upper switches that are connected by their cables. */
export interface Block {
  rows: number[];
  columns: number[];
  /** Tiers of the rows and of the columns. */
  tiers: readonly [number, number];
}

/** A cable and its position in its block. */
export interface Cell {
  block: number;
  row: number;
  column: number;
  cable: Cable;
}

export interface Grid {
  blocks: Block[];
  cells: Cell[];
}

/** Size of a cell, in units. */
export interface Size {
  width: number;
  height: number;
}

/** Positions of all blocks. One unit is a pixel on a laptop screen. */
export interface Arrangement extends Size {
  /** Left upper corner of the first cell of each block. */
  corners: { x: number; y: number }[];
  /** Titles of the tiers, and their heights. */
  titles: { text: string; y: number }[];
  /** Height of the column names above the first row, which do not scroll. */
  head: number;
  /** Width of the row names. */
  names: number;
  /** Height of all blocks. */
  total: number;
}

/** Returns the blocks of a fabric, and the cables between switches as their cells. */
export function gridOf(topology: Topology): Grid {
  const cables = topology.cables.filter(
    ({ upper, lower }) => topology.isSwitch(upper) && topology.isSwitch(lower),
  );
  const rootOf = connected(topology, cables);
  const found = new Map<string, { rows: Set<number>; columns: Set<number>; cables: Cable[] }>();
  for (const cable of cables) {
    const key = rootOf(cable);
    let block = found.get(key);
    if (block === undefined) {
      block = { rows: new Set(), columns: new Set(), cables: [] };
      found.set(key, block);
    }
    block.rows.add(cable.lower);
    block.columns.add(cable.upper);
    block.cables.push(cable);
  }
  const tier = (device: number) => topology.devices[device].tier;
  const sorted = (devices: Set<number>) => [...devices].sort((x, y) => tier(x) - tier(y) || x - y);
  const all = [...found.values()].map(({ rows, columns, cables }) => ({
    rows: sorted(rows),
    columns: sorted(columns),
    cables,
  }));
  all.sort(
    (x, y) =>
      tier(x.rows[0]) - tier(y.rows[0]) ||
      tier(x.columns[0]) - tier(y.columns[0]) ||
      x.rows[0] - y.rows[0],
  );
  const cells = all.flatMap(({ rows, columns, cables }, block) => {
    const rowOf = new Map(rows.map((device, index) => [device, index]));
    const columnOf = new Map(columns.map((device, index) => [device, index]));
    return cables.map((cable) => ({
      block,
      row: rowOf.get(cable.lower)!,
      column: columnOf.get(cable.upper)!,
      cable,
    }));
  });
  const blocks = all.map(({ rows, columns }) => ({
    rows,
    columns,
    tiers: [tier(rows[0]), tier(columns[0])] as const,
  }));
  return { blocks, cells };
}

/**
 * Returns a function from a cable to the name of its block. Cables between the same tiers that
 * share a switch are in one block. Switches without tiers, as in a torus, form one block.
 */
function connected(topology: Topology, cables: readonly Cable[]): (cable: Cable) => string {
  const parent = new Map<string, string>();
  const find = (name: string): string => {
    let root = name;
    while (true) {
      const above = parent.get(root);
      if (above === undefined || above === root) break;
      root = above;
    }
    parent.set(name, root);
    return root;
  };
  const ends = ({ lower, upper }: Cable) => {
    const tiers = `${topology.devices[lower].tier} ${topology.devices[upper].tier}`;
    return [`${tiers} row ${lower}`, `${tiers} column ${upper}`];
  };
  const isFlat = cables.some(
    ({ upper, lower }) => topology.devices[upper].tier === topology.devices[lower].tier,
  );
  if (isFlat) return () => "";
  for (const cable of cables) {
    const [row, column] = ends(cable);
    parent.set(find(row), find(column));
  }
  return (cable) => find(ends(cable)[0]);
}

/** Max and min height of a cell beside others; that of a single block is twice as large. */
const LARGEST_CELL = 30;
const SMALLEST_CELL = 3;
/** Min height of cells with names. */
const NAMED = 10;
/** Min width of columns with level names. */
export const LEVEL = 54;
const MARGIN = 12;
/** Height of the title of a tier, and of the title of a block. */
const TIER_TITLE = 26;
const BLOCK_TITLE = 17;
/** Width of the names of rows, and heights of the names of columns. */
const NAMES = 108;
const SLOPING = 66;
const HEAD = 74;

/** Arranges the blocks in a picture, with the largest cells that need no scrolling. */
export function arrange(
  { blocks }: Grid,
  width: number,
  height: number,
  titleOf: (tiers: readonly [number, number]) => string,
): Arrangement {
  if (blocks.length <= 1) return single(blocks[0], width, height);
  for (let cell = LARGEST_CELL; cell >= SMALLEST_CELL; cell -= 0.5) {
    for (const ratio of [3, 2, 1.5, 1]) {
      const size = { width: cell * ratio, height: cell };
      const found = shelves(blocks, size, width, titleOf);
      if (found !== null && found.total <= height) return found;
    }
  }
  const smallest = { width: SMALLEST_CELL, height: SMALLEST_CELL };
  return shelves(blocks, smallest, width, titleOf) ?? single(blocks[0], width, height);
}

/** One block fills the picture. */
function single(block: Block | undefined, width: number, height: number): Arrangement {
  const columns = Math.max(1, block?.columns.length ?? 0);
  const rows = Math.max(1, block?.rows.length ?? 0);
  const wide = (width - NAMES - MARGIN) / columns;
  const head = wide < LEVEL ? HEAD : BLOCK_TITLE + MARGIN;
  const size = {
    width: Math.max(2, wide),
    height: Math.max(SMALLEST_CELL, Math.min((height - head - MARGIN) / rows, 2 * LARGEST_CELL)),
  };
  const total = head + rows * size.height + MARGIN;
  return { ...size, corners: [{ x: NAMES, y: head }], titles: [], head, names: NAMES, total };
}

/** Puts the blocks side by side, tier by tier. Returns null if a block is too wide. */
function shelves(
  blocks: readonly Block[],
  size: Size,
  width: number,
  titleOf: (tiers: readonly [number, number]) => string,
): Arrangement | null {
  const names = size.height >= NAMED ? NAMES : 0;
  const above = BLOCK_TITLE + (names > 0 && size.width < LEVEL ? SLOPING : names > 0 ? 14 : 0);
  const arrangement: Arrangement = {
    ...size,
    corners: [],
    titles: [],
    head: 0,
    names,
    total: 0,
  };
  let tiers = "";
  let x = MARGIN;
  let y = 0;
  let shelf = 0;
  for (const block of blocks) {
    const wide = names + block.columns.length * size.width;
    if (wide + 2 * MARGIN > width && size.height > SMALLEST_CELL) return null;
    if (tiers !== block.tiers.join()) {
      tiers = block.tiers.join();
      y += shelf;
      arrangement.titles.push({ text: titleOf(block.tiers), y: y + 15 });
      [x, y, shelf] = [MARGIN, y + TIER_TITLE, 0];
    } else if (x + wide + MARGIN > width) [x, y, shelf] = [MARGIN, y + shelf, 0];
    arrangement.corners.push({ x: x + names, y: y + above });
    x += wide + MARGIN;
    shelf = Math.max(shelf, above + block.rows.length * size.height + MARGIN);
  }
  arrangement.total = y + shelf;
  return arrangement;
}

/**
 * Returns a short name of a block: the common beginning of its row names, or the name of its
 * first column.
 */
export function blockName(topology: Topology, { rows, columns }: Block): string {
  const node = (device: number) => topology.devices[device].node;
  const common = commonName(rows.map(node));
  return common ?? (columns.length > 1 ? `${node(columns[0])}…` : node(columns[0]));
}
