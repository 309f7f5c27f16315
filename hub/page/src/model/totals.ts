//! Counts for the overview: the values of all ports in a slot, and the roots of congestion.

import { FULL, LINK_DOWN, NO_ANSWER, NOT_ASSIGNED } from "../contract/frame";
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
  blocked: number;
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
    blocked: 0,
  };
  let hosts = 0;
  let known = 0;
  ports.forEach(({ device, gbps }, port) => {
    const code = utilization[port];
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
        known++;
      }
    }
    if (blocked !== null && blocked[port] <= FULL && blocked[port] > BLOCKED_LIMIT * FULL)
      totals.blocked++;
  });
  if (hosts > 0) totals.knownHosts = known / hosts;
  return totals;
}

/** Returns how many of all ports answer, and what is known about the others. */
export function answersText({ ports, down, without }: Totals, isPartial: boolean): string[] {
  return [
    `of ${grouped(ports)}`,
    ...(down > 0 ? [`${grouped(down)} down`] : []),
    // Ports of samplers that have not ended the slot have no data yet.
    ...(isPartial
      ? ["slot not complete"]
      : without > 0
        ? [`${grouped(without)} without data`]
        : []),
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
  if (unclear > 0) texts.push(`ports wait at ${count(unclear, more)} without a clear cause`);
  return texts;
}
