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

/** Names of the alerts of faults that last. */
const ALERTS: Record<string, RegExp> = {
  unreachable: /Dead$/,
  link_down: /Down$/,
  degraded: /Degraded$/,
};

/** Returns since when a fault lasts. One that is older than the time range can have an alert that knows it. */
export function sinceText(row: ErrorRow, alerts: readonly AlertRow[] = []): string {
  if (row.began_in_range === true) return `since ${dayTime(row.since_ns / 1e6)}`;
  const ends = [row, ...(row.peer === null ? [] : [row.peer])];
  const alert = alerts.find(
    ({ alert, state, guid, port, since_ns }) =>
      state !== "resolved" &&
      since_ns < row.since_ns &&
      ALERTS[row.what]?.test(alert) &&
      ends.some((end) => guid === end.guid && (port ?? end.port) === end.port),
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
  const number = (is: (row: ErrorRow) => boolean) => faults.filter(is).length;
  const isDevice = ({ what }: ErrorRow) => ["unreachable", "wrong_device"].includes(what);
  const devices = number(isDevice);
  const links = number((row) => isSevere(row) && !isDevice(row));
  const absent = number(({ what }) => what === "was_unreachable");
  const down = number(({ what }) => what === "was_down");
  const counters = number(({ increase }) => increase !== null);
  return [
    ...(devices > 0
      ? [`${count(devices, "device")} ${devices === 1 ? "does" : "do"} not answer`]
      : []),
    ...(links > 0
      ? [`${count(links, "link")} ${links === 1 ? "is" : "are"} down, unstable or degraded`]
      : []),
    ...(absent > 0 ? [`${count(absent, "device")} did not answer for a time`] : []),
    ...(down > 0 ? [`${count(down, "link")} ${down === 1 ? "was" : "were"} down`] : []),
    ...(counters > 0 ? [`${count(counters, "error counter")} grew`] : []),
  ];
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
