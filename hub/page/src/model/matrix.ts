//! Arranges the traffic between the nodes of a job as a square.

import type { MatrixCell } from "../contract/types";
import { compareNames } from "./units";

/** A sender or receiver: a host, a leaf switch, or all hosts that are not nodes of the job. */
interface End {
  name: string;
  leaf: string;
  isNode: boolean;
}

interface Square {
  /** Nodes by leaf switch and name, and then the other hosts. */
  ends: End[];
  /** Cells by sender and receiver. Missing are pairs without possible traffic. */
  cells: Map<string, MatrixCell>;
  /** Largest estimate of a pair of nodes, or of all pairs if nodes sent nothing to each other. */
  most: number;
}

export const pairKey = (from: string, to: string) => `${from} ${to}`;

export function squareOf(cells: readonly MatrixCell[]): Square {
  const known = new Map<string, End>();
  for (const { from, from_leaf, from_is_node, to, to_leaf, to_is_node } of cells) {
    known.set(from, { name: from, leaf: from_leaf, isNode: from_is_node });
    known.set(to, { name: to, leaf: to_leaf, isNode: to_is_node });
  }
  const ends = [...known.values()].sort(
    (a, b) =>
      Number(b.isNode) - Number(a.isNode) ||
      compareNames(a.leaf, b.leaf) ||
      compareNames(a.name, b.name),
  );
  const own = cells.filter(({ from_is_node, to_is_node }) => from_is_node && to_is_node);
  const largest = (some: readonly MatrixCell[]) =>
    Math.max(0, ...some.map(({ estimate_bytes }) => estimate_bytes));
  return {
    ends,
    cells: new Map(cells.map((cell) => [pairKey(cell.from, cell.to), cell])),
    most: largest(own) || largest(cells),
  };
}
