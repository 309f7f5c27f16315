//! Rows of the heat map: ports, links, switches or hosts, and how their values are combined.

import {
  type Cells,
  cellOf,
  codeIn,
  FULL,
  hasValue,
  INCREASE,
  knownShare,
  LINK_DOWN,
  NO_ANSWER,
  NO_COUNTER,
  NO_DATA,
  NOT_ASSIGNED,
  worse,
} from "../../contract/frame";
import { hostName, type Topology } from "../../model/topology";
import { compareNames } from "../../model/units";

export const ROW_KINDS = ["port", "link", "switch", "host"] as const;
export type RowKind = (typeof ROW_KINDS)[number];
export const AGGREGATES = ["max", "mean", "p95"] as const;
export type Aggregate = (typeof AGGREGATES)[number];

export interface HeatRow {
  label: string;
  /** Name of the group of neighbouring rows, such as the switch of a port. */
  group: string;
  ports: number[];
}

/** Part of the largest value that makes a row hot, and max number of hot rows. */
const HOT = 0.75;
const MOST_HOT = 200;

/** Returns the rows of a fabric in topology order. */
export function rowsOf(topology: Topology, kind: RowKind): HeatRow[] {
  switch (kind) {
    case "port":
      return portRows(topology);
    case "link":
      return topology.links.map(({ a, b }) => ({
        label: `${topology.shortName(a)} – ${topology.shortName(b)}`,
        group: topology.ports[a].node,
        ports: [a, b],
      }));
    case "switch":
      return deviceRows(topology);
    case "host":
      return hostRows(topology);
  }
}

function portRows(topology: Topology): HeatRow[] {
  return topology.ports.map((row, port) => ({
    label: `${topology.shortName(port)} → ${topology.shortPeer(port)}`,
    group: row.group ?? row.node,
    ports: [port],
  }));
}

function deviceRows(topology: Topology): HeatRow[] {
  return topology.devices.flatMap((device, index) =>
    device.kind === "switch"
      ? [
          {
            label: device.node,
            group: topology.tierName(device.tier),
            ports: topology.portsOf[index],
          },
        ]
      : [],
  );
}

function hostRows(topology: Topology): HeatRow[] {
  const hosts = new Map<string, HeatRow>();
  topology.ports.forEach((row, port) => {
    if (row.kind === "switch") return;
    const label = hostName(row.node);
    let host = hosts.get(label);
    if (host === undefined) {
      host = { label, group: row.peer_node ?? "", ports: [] };
      hosts.set(label, host);
    }
    host.ports.push(port);
  });
  return [...hosts.values()].sort(
    (x, y) => compareNames(x.group, y.group) || compareNames(x.label, y.label),
  );
}

/** Returns the rows with a port of some hosts, or with the other end of such a port. */
export function rowsOfHosts(
  topology: Topology,
  rows: readonly HeatRow[],
  hosts: ReadonlySet<string>,
): HeatRow[] {
  const isOwn = (port: number | null) =>
    port !== null && hosts.has(hostName(topology.ports[port].node).toLowerCase());
  return rows.filter(({ ports }) =>
    ports.some((port) => isOwn(port) || isOwn(topology.ports[port].peer)),
  );
}

/** Combines the values of the ports of each row into cells. */
export function combine(rows: readonly HeatRow[], codes: Cells, aggregate: Aggregate): Uint32Array {
  return Uint32Array.from(rows, ({ ports }) =>
    ports.length === 1 ? codes[ports[0]] : combineCodes(ports, codes, aggregate),
  );
}

/**
 * Combines some codes into a cell. Without any value it returns the worst state. A link that is
 * down carries no traffic, so its value is not missing; a port without a sampler or without the
 * counter does not count in the row.
 */
export function combineCodes(ports: readonly number[], codes: Cells, aggregate: Aggregate): number {
  let state = NO_DATA;
  let members = 0;
  let known = 0;
  let most = -1;
  let sum = 0;
  let count = 0;
  for (const port of ports) {
    const code = codeIn(codes[port]);
    if (code <= FULL) {
      most = Math.max(most, code);
      sum += code;
      count++;
    } else state = worse(code, state);
    if (code === NOT_ASSIGNED || code === NO_COUNTER) continue;
    members++;
    if (code === LINK_DOWN || (code <= FULL && knownShare(codes[port]) === 1)) known++;
  }
  // An increase at an unknown time is not shown as 0.
  if (count === 0 || (state === INCREASE && most === 0)) return state;
  const value =
    aggregate === "max"
      ? most
      : aggregate === "mean"
        ? Math.round(sum / count)
        : percentile(ports.map((port) => codeIn(codes[port])).filter(hasValue));
  return cellOf(value, known / members);
}

/** Part of the rows of a pixel that must be without an answer or down, so that it shows this. */
const FAULTY = 0.25;

/**
 * Returns the cell of a pixel that shows the rows `order[from]` to `order[to - 1]`: a fault that
 * many of them have, or their max. An increase at an unknown time makes it a lower bound, and
 * replaces 0.
 */
export function pixelCell(
  cells: Cells,
  order: ArrayLike<number>,
  from: number,
  to: number,
): number {
  let best = NO_DATA;
  let hasIncrease = false;
  let fault = NO_DATA;
  let faults = 0;
  for (let row = from; row < to; row++) {
    const cell = cells[order[row]];
    const code = codeIn(cell);
    const most = codeIn(best);
    if (code === NO_ANSWER || code === LINK_DOWN) {
      fault = worse(code, fault);
      faults++;
    }
    hasIncrease ||= code === INCREASE;
    if (code > FULL) {
      if (most > FULL) best = worse(code, most);
    } else if (most > FULL || code > most) best = cell;
  }
  if (faults > 0 && faults >= FAULTY * (to - from)) return fault;
  if (!hasIncrease || best === INCREASE) return best;
  return codeIn(best) === 0 ? INCREASE : cellOf(codeIn(best), 0);
}

/** Returns the smallest value that at least 95 % of the values do not exceed. */
function percentile(values: number[]): number {
  return values.sort((x, y) => x - y)[Math.ceil(0.95 * values.length) - 1];
}

/**
 * Returns the largest value of each row in some columns, or its mean if the values are means; -1
 * without any.
 */
export function ranksOf(
  rows: number,
  columns: readonly (Cells | null)[],
  aggregate: Aggregate,
  rank: (code: number) => number = (code) => code,
): Float64Array {
  const ranks = new Float64Array(rows).fill(-1);
  const counts = new Uint32Array(rows);
  for (const cells of columns) {
    for (let row = 0; cells !== null && row < rows; row++) {
      const code = codeIn(cells[row]);
      if (code > FULL) continue;
      if (aggregate !== "mean") ranks[row] = Math.max(ranks[row], rank(code));
      else ranks[row] += (rank(code) - ranks[row]) / ++counts[row];
    }
  }
  return ranks;
}

/** Returns the indices of the rows, the largest first. */
export function largestFirst(ranks: Float64Array): Uint32Array {
  return Uint32Array.from(ranks.keys()).sort((x, y) => ranks[y] - ranks[x]);
}

/** Returns the rows whose value is near to the largest one, the hottest first. */
export function hottestOf(ranks: Float64Array): Uint32Array {
  const first = largestFirst(ranks).subarray(0, MOST_HOT);
  return first.filter((row) => ranks[row] > 0 && ranks[row] >= HOT * ranks[first[0]]);
}
