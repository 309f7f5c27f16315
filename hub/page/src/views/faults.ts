//! Describes faults in words.

import { hasValue, LINK_DOWN } from "../contract/frame";
import type { ErrorRow } from "../contract/types";
import type { App } from "../model/app";
import { portKey } from "../model/topology";
import { clock, count, grouped, significant } from "../model/units";

const NAMES: Record<string, string> = {
  unreachable: "no answer",
  wrong_device: "another device answers",
  was_unreachable: "did not answer for a time",
  link_down: "link down",
  flapping: "link goes up and down",
  degraded: "link is slower than before",
  ends_differ: "the ends report different rates or MTUs",
  was_down: "link was down once",
};

/** Faults that need a person, most severe first. Counters come after them. */
const SEVERE = ["unreachable", "wrong_device", "link_down", "flapping", "degraded", "ends_differ"];

/** Returns whether a fault needs a person now. */
export function isSevere(row: ErrorRow): boolean {
  return SEVERE.includes(row.what);
}

/** Returns the faults of a port with the state of its link in a value that is newer than they are. */
export function faultsAt(rows: readonly ErrorRow[], code: number): ErrorRow[] {
  const before = code === LINK_DOWN ? "was_down" : hasValue(code) ? "link_down" : "";
  const now = before === "was_down" ? "link_down" : "was_down";
  return rows.map((row) => (row.what === before ? { ...row, what: now } : row));
}

/** Returns a fault as text. */
export function faultText(row: ErrorRow): string {
  const name = NAMES[row.what];
  if (name !== undefined) {
    return row.devices_behind > 0
      ? `${name}; ${count(row.devices_behind, "device")} behind it`
      : name;
  }
  const increase = row.increase === null ? "" : ` +${grouped(row.increase)}`;
  return `${row.is_lower_bound ? "at least" : ""}${increase} ${row.what.replaceAll("_", " ")}`.trim();
}

/** Returns the rate of a fault as text, or an empty text. */
export function rateText(row: ErrorRow): string {
  return row.rate === null || row.rate === 0 ? "" : `${significant(row.rate * 60)} / min`;
}

/** Returns when a fault began, or before which time if it is older than the time range. */
export function sinceText(row: ErrorRow): string {
  return `${row.began_in_range === true ? "since" : "before"} ${clock(row.since_ns / 1e6)}`;
}

/** Orders faults: devices that do not answer first, then links, then counters by their rate. */
export function bySeverity(x: ErrorRow, y: ErrorRow): number {
  const rank = (row: ErrorRow) => {
    const index = SEVERE.indexOf(row.what);
    return index < 0 ? SEVERE.length + (row.rate === null ? 1 : 0) : index;
  };
  return rank(x) - rank(y) || y.devices_behind - x.devices_behind || (y.rate ?? 0) - (x.rate ?? 0);
}

/**
 * Returns the faults, most severe first. Both ends of a cable report a link fault, so the second
 * report counts as the same fault.
 */
export function faultsOf(rows: ErrorRow[]): ErrorRow[] {
  const reported = new Set<string>();
  return [...rows].sort(bySeverity).filter((row) => {
    if (row.increase !== null || row.link === null || row.peer === null) return true;
    const { guid, port } = row.peer;
    if (reported.has(portKey(guid, port))) return false;
    reported.add(portKey(row.guid, row.port));
    return true;
  });
}

/**
 * Returns the URL of a faulty port. A faulty device opens its only port, its page, or the list of its ports.
 */
export function faultHref(app: App, row: { guid: string; port: number }): string {
  const topology = app.topology;
  if (topology !== null && topology.indexOf(row.guid, row.port) < 0) {
    const device = topology.deviceOf(row.guid);
    const ports = device < 0 ? [] : topology.portsOf[device];
    if (ports.length === 1) return app.href({ view: "port", item: topology.keyOf(ports[0]) });
    const kind = topology.devices[device]?.kind ?? null;
    return app.deviceHref({ guid: row.guid, kind });
  }
  return app.href({ view: "port", item: portKey(row.guid, row.port) });
}
