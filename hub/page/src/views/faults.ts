//! Describes faults in words.

import { hasValue, LINK_DOWN } from "../contract/frame";
import type { AlertRow, ErrorRow } from "../contract/types";
import type { App } from "../model/app";
import { portKey } from "../model/topology";
import { compareNames, count, dayTime, grouped, significant } from "../model/units";

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

/** Kinds of faults, most severe first, with their text for one and for several. */
const KINDS = [
  ["unreachable wrong_device", "device does not answer", "devices do not answer"],
  [
    "link_down flapping degraded ends_differ",
    "link is down, unstable or degraded",
    "links are down, unstable or degraded",
  ],
  ["was_unreachable", "device did not answer for a time", "devices did not answer for a time"],
  ["was_down", "link was down", "links were down"],
  // Counters.
  ["", "error counter grew", "error counters grew"],
] as const;

/** Faults that need a person, most severe first. */
const SEVERE = `${KINDS[0][0]} ${KINDS[1][0]}`.split(" ");

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

/** Names of the alerts of faults that last. */
const ALERTS: Record<string, RegExp> = {
  unreachable: /Dead$/,
  link_down: /Down$/,
  degraded: /Degraded$/,
};

/**
 * Returns since when a fault lasts, which its alert knows if it is older than the time range, or
 * when it was over.
 */
export function sinceText(row: ErrorRow, alerts: readonly AlertRow[] = []): string {
  if (row.what === "was_down") return `up again at ${dayTime(row.since_ns / 1e6)}`;
  if (row.began_in_range === true) return `since ${dayTime(row.since_ns / 1e6)}`;
  const alert = alerts.find(
    ({ alert, state, guid, port, since_ns }) =>
      state !== "resolved" &&
      since_ns < row.since_ns &&
      ALERTS[row.what]?.test(alert) &&
      [row, row.peer].some((end) => guid === end?.guid && (port ?? end.port) === end.port),
  );
  return alert === undefined ? "began earlier" : `since ${dayTime(alert.since_ns / 1e6)}`;
}

/** Orders faults: devices that do not answer first, then links, then counters by their rate. */
export function bySeverity(x: ErrorRow, y: ErrorRow): number {
  const rank = (row: ErrorRow) => {
    const index = SEVERE.indexOf(row.what);
    return index < 0 ? SEVERE.length + (row.increase === null ? 0 : 1) : index;
  };
  return (
    rank(x) - rank(y) ||
    y.devices_behind - x.devices_behind ||
    (y.rate ?? 0) - (x.rate ?? 0) ||
    compareNames(x.node, y.node)
  );
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

/** Returns how many faults of each kind there are. Their sum is the number of faults. */
export function faultTexts(faults: readonly ErrorRow[]): string[] {
  return KINDS.flatMap(([names, one, many]) => {
    const isOf = (row: ErrorRow) =>
      names.split(" ").includes(row.increase === null ? row.what : "");
    const { length } = faults.filter(isOf);
    return length > 0 ? [count(length, one, many)] : [];
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
