//! Counts for the overview: the values of all ports in a slot, and the roots of congestion.

import { FULL, LINK_DOWN, NO_ANSWER, NO_DATA, NOT_ASSIGNED } from "../contract/frame";
import type { TreeRow } from "../contract/types";
import type { Topology } from "./topology";
import { count, grouped } from "./units";

/** A port counts as blocked above this share, which is also the limit of the congestion trees. */
const BLOCKED_LIMIT = 0.1;

/** Values of all ports in a slot. */
export interface Totals {
  ports: number;
  answered: number;
  /** Number of ports about which nothing arrived. */
  without: number;
  down: number;
  /** Data that hosts send, in Gb/s. */
  injected: number;
  /** Share of the host ports whose data rate is known. */
  knownHosts: number;
  fullest: number | null;
  fullestPort: number;
  /** Rate of the host ports whose data rate is known, in Gb/s. */
  capacity: number;
  blocked: number;
  /** Largest blocked share, and its port. */
  mostBlocked: number | null;
  mostBlockedPort: number;
  /** The leaf switch whose ports have the largest mean utilization, in both directions. */
  leaf: { device: number; mean: number } | null;
}

/**
 * Counts the ports. A port without a value does not count as 0; instead, `knownHosts` falls
 * below 1.
 */
export function totalsOf(
  { ports, devices }: Topology,
  utilization: Uint16Array,
  blocked: Uint16Array | null,
): Totals {
  const totals: Totals = {
    ports: 0,
    answered: 0,
    without: 0,
    down: 0,
    injected: 0,
    knownHosts: 1,
    fullest: null,
    fullestPort: 0,
    capacity: 0,
    blocked: 0,
    mostBlocked: null,
    mostBlockedPort: 0,
    leaf: null,
  };
  const leaves = new Map<number, { sum: number; count: number }>();
  let hosts = 0;
  let known = 0;
  ports.forEach(({ device, gbps, peer }, port) => {
    const code = utilization[port];
    if (devices[device].tier === 1) {
      const leaf = leaves.get(device) ?? { sum: 0, count: 0 };
      for (const each of [code, peer === null ? NO_DATA : utilization[peer]]) {
        if (each > FULL) continue;
        leaf.sum += each / FULL;
        leaf.count++;
      }
      leaves.set(device, leaf);
    }
    if (code === NOT_ASSIGNED) return;
    totals.ports++;
    const isHost = devices[device].kind !== "switch";
    if (isHost) hosts++;
    if (code === NO_ANSWER) return;
    if (code > LINK_DOWN) totals.without++;
    else totals.answered++;
    if (code === LINK_DOWN) {
      totals.down++;
      if (isHost) known++;
    }
    if (code <= FULL) {
      const share = code / FULL;
      if (totals.fullest === null || share > totals.fullest) {
        totals.fullest = share;
        totals.fullestPort = port;
      }
      if (isHost && gbps !== null) {
        totals.injected += share * gbps;
        totals.capacity += gbps;
        known++;
      }
    }
    const wait = blocked === null || blocked[port] > FULL ? null : blocked[port] / FULL;
    if (wait === null) return;
    if (wait > BLOCKED_LIMIT) totals.blocked++;
    if (wait > (totals.mostBlocked ?? -1)) {
      totals.mostBlocked = wait;
      totals.mostBlockedPort = port;
    }
  });
  for (const [device, { sum, count }] of leaves) {
    const mean = sum / count;
    if (count > 0 && mean > (totals.leaf?.mean ?? -1)) totals.leaf = { device, mean };
  }
  if (hosts > 0) totals.knownHosts = known / hosts;
  return totals;
}

/**
 * Returns the number of all ports with a `noun`, and what is known about those that do not answer.
 * Ports whose link is down answer.
 */
export function answersText(totals: Totals, isPartial: boolean, noun = ""): string[] {
  const { ports, answered, down, without } = totals;
  const silent = ports - answered - without;
  return [
    `of ${grouped(ports)}${noun}${down > 0 ? ` (${grouped(down)} down)` : ""}`,
    ...(silent > 0 ? [`${grouped(silent)} silent`] : []),
    // Ports of samplers that have not ended the slot have no data yet.
    ...(isPartial ? ["sweep not complete"] : without > 0 ? [`${grouped(without)} no data`] : []),
  ];
}

/**
 * Returns how many ports are roots of congestion. A root without a clear cause, such as one after a
 * gap in the records, does not count as congestion and is named separately.
 */
export function rootTexts(roots: readonly Pick<TreeRow, "why">[]): string[] {
  const unclear = roots.filter(({ why }) => why === "unclear").length;
  const clear = roots.length - unclear;
  const texts = clear > 0 ? [`congestion at ${count(clear, "port")}`] : [];
  const more = clear > 0 ? "more port" : "port";
  if (unclear > 0)
    texts.push(`${count(unclear, more)} ${unclear === 1 ? "waits" : "wait"} without a clear cause`);
  return texts;
}
