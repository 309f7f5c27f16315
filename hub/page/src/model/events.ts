//! Which events are shown, and how equal ones are folded into one row.

import type { EventRow, EventRows } from "../contract/types";
import type { Topology } from "./topology";
import { count, grouped } from "./units";

/** An event, with how often it happened and the number of samplers that report it. */
export interface FoldedEvent extends EventRow {
  count: number;
  samplers: number;
  /** Time of the oldest one. */
  first: number;
}

/** What the events of the hub have instead of a sampler. */
const HUB = "hub";

/** Returns what an event is about that has no device: the sampler, or the hub. */
export function samplerText({ sampler, node }: EventRow): string {
  return sampler === HUB && node === null ? HUB : `sampler ${node ?? sampler}`;
}

/** Largest time between the equal events of a row, in nanoseconds. */
const NEAR = 60e9;

/** Events of a switch that its hosts share. */
const SHARED = ["unreachable", "reachable"];

/** Returns the GUID of the switch of a host. */
type SwitchOf = (guid: string) => string | undefined;

/**
 * Folds the events of a minute. What several samplers report happened once. Equal are those of a
 * port or a device with the same detail, whichever sampler reports them, those of a sampler or of
 * the hub about the same sampler or with the same detail, and all changes of the window of a
 * sampler.
 * A host that does not answer is in the row of its switch if the switch does not answer either.
 * The rows are newest first, and so is the result.
 */
export function folded(
  rows: readonly EventRow[],
  switchOf: SwitchOf = () => undefined,
): FoldedEvent[] {
  const found = foldedEqual(rows);
  const key = (event: string, guid: string) => `${event} ${guid}`;
  const shared = new Map<string, FoldedEvent[]>();
  for (const row of found) {
    if (row.guid === null || !SHARED.includes(row.event)) continue;
    const name = key(row.event, row.guid);
    shared.set(name, [...(shared.get(name) ?? []), row]);
  }
  const behind = new Map<FoldedEvent, Set<string>>();
  const result = found.filter((row) => {
    const above = row.guid === null ? undefined : switchOf(row.guid);
    const own = above === undefined ? undefined : shared.get(key(row.event, above));
    const near = own?.find(({ ts }) => Math.abs(ts - row.ts) < NEAR);
    if (near === undefined) return true;
    behind.set(near, (behind.get(near) ?? new Set()).add(row.guid!));
    return false;
  });
  for (const [row, hosts] of behind) {
    const text = `and ${count(hosts.size, "device")} behind it`;
    row.detail = row.detail === "" ? text : `${row.detail}, ${text}`;
  }
  return result;
}

function foldedEqual(rows: readonly EventRow[]): FoldedEvent[] {
  const last = new Map<string, { row: FoldedEvent; samplers: Map<string, number> }>();
  const result: FoldedEvent[] = [];
  for (const row of rows) {
    const event = row.event.replace(/^window_.*/, "window_changed");
    const key =
      row.guid === null
        ? `${event} ${row.sampler} ${row.sampler === HUB ? (row.node ?? row.detail) : ""}`
        : `${event} ${row.guid} ${row.port} ${row.detail}`;
    const before = last.get(key);
    if (before !== undefined && before.row.ts - row.ts < NEAR) {
      const times = (before.samplers.get(row.sampler) ?? 0) + 1;
      before.row.samplers = before.samplers.set(row.sampler, times).size;
      before.row.first = row.ts;
      before.row.count = Math.max(before.row.count, times);
      before.row.event = event;
    } else {
      const only = { ...row, count: 1, samplers: 1, first: row.ts };
      result.push(only);
      last.set(key, { row: only, samplers: new Map([[row.sampler, 1]]) });
    }
  }
  return result;
}

/**
 * Returns the details of an event or the summary of an alert with the names of devices in place of
 * their GUIDs.
 */
export function readable(
  text: string,
  topology: Pick<Topology, "deviceOf" | "devices"> | null,
): string {
  const name = (guid: string) => topology?.devices[topology.deviceOf(guid)]?.node ?? guid;
  return text.replace(/\b0x[0-9a-f]+\b/g, name);
}

/** Returns the name of an event, and how often it happened. */
export function eventText({ event, count: times }: FoldedEvent): string {
  return `${event.replaceAll("_", " ")}${times > 1 ? ` × ${grouped(times)}` : ""}`;
}

/** Returns in which time an event happened several times; empty if it happened once. */
export function timesText({ count: times, ts, first }: FoldedEvent): string {
  return times > 1 ? `${grouped(times)} times in ${Math.ceil((ts - first) / 1e9)}\u00a0s` : "";
}

/** Returns the kinds of an event. */
export function kindsOf(kinds: EventRows["kinds"], event: string): string[] {
  const name = event === "window_changed" ? "window_halved" : event;
  return Object.keys(kinds).filter((kind) => kinds[kind].includes(name));
}
