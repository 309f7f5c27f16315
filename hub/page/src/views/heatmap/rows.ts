//! Rows of the heat map: ports, links, switches or hosts, and how their values are combined.

import { FULL, NO_DATA } from "../../contract/frame";
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

/** Combines the values of the ports of each row. States without a value do not count as values. */
export function combine(
  rows: readonly HeatRow[],
  codes: Uint16Array,
  aggregate: Aggregate,
): Uint16Array {
  const combined = new Uint16Array(rows.length);
  for (let index = 0; index < rows.length; index++) {
    const { ports } = rows[index];
    combined[index] = ports.length === 1 ? codes[ports[0]] : combineCodes(ports, codes, aggregate);
  }
  return combined;
}

/** Combines some codes. Without any value it returns the state with the smallest code. */
export function combineCodes(
  ports: readonly number[],
  codes: Uint16Array,
  aggregate: Aggregate,
): number {
  let most = -1;
  let sum = 0;
  let known = 0;
  let state = NO_DATA;
  for (const port of ports) {
    const code = codes[port];
    if (code > FULL) {
      if (code < state) state = code;
      continue;
    }
    if (code > most) most = code;
    sum += code;
    known++;
  }
  if (known === 0) return state;
  if (aggregate === "max") return most;
  if (aggregate === "mean") return Math.round(sum / known);
  const values = [];
  for (const port of ports) if (codes[port] <= FULL) values.push(codes[port]);
  values.sort((x, y) => x - y);
  return values[Math.min(values.length - 1, Math.ceil(0.95 * values.length) - 1)];
}
