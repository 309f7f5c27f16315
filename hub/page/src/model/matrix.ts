//! Arranges the traffic between the nodes of a job as a square.

import type { MatrixCell } from "../contract/types";
import { compareNames } from "./units";

/** A sender or receiver: a host, a leaf switch, or all hosts that are not nodes of the job. */
export interface End {
  name: string;
  leaf: string;
  isNode: boolean;
}

export interface Square {
  /** Nodes by leaf switch and name, and then the other hosts. */
  ends: End[];
  /** Cells by sender and receiver. Missing are pairs without possible traffic. */
  cells: (MatrixCell | undefined)[][];
  /** Largest estimate of a pair of nodes, or of all pairs if nodes sent nothing to each other. */
  most: number;
}

export function squareOf(cells: readonly MatrixCell[]): Square {
  const known = new Map<string, End>();
  for (const cell of cells) {
    known.set(cell.from, { name: cell.from, leaf: cell.from_leaf, isNode: cell.from_is_node });
    known.set(cell.to, { name: cell.to, leaf: cell.to_leaf, isNode: cell.to_is_node });
  }
  const ends = [...known.values()].sort(
    (a, b) =>
      Number(b.isNode) - Number(a.isNode) ||
      compareNames(a.leaf, b.leaf) ||
      compareNames(a.name, b.name),
  );
  const place = new Map(ends.map(({ name }, index) => [name, index]));
  const square = ends.map(() => new Array<MatrixCell | undefined>(ends.length));
  for (const cell of cells) square[place.get(cell.from)!][place.get(cell.to)!] = cell;
  const largest = (some: readonly MatrixCell[]) =>
    some.reduce((most, { estimate_bytes }) => Math.max(most, estimate_bytes), 0);
  const own = cells.filter(({ from_is_node, to_is_node }) => from_is_node && to_is_node);
  return { ends, cells: square, most: largest(own) || largest(cells) };
}
