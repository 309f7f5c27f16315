//! Which events are shown, and how equal ones are folded into one row.

import type { EventRow, EventRows } from "../contract/types";
import { count } from "./units";

/** An event, with the number of equal ones and of the samplers that report them. */
export interface FoldedEvent extends EventRow {
  count: number;
  samplers: number;
}

/** What the events of the hub have instead of a sampler. */
const HUB = "hub";

/** Returns what an event is about that has no device: the sampler, or the hub. */
export function samplerText({ sampler, node }: EventRow): string {
  return sampler === HUB && node === null ? HUB : `sampler ${node ?? sampler}`;
}

/** Largest time between two equal events of a row, in nanoseconds. */
const NEAR = 60e9;

/** Events of a switch that its hosts share. */
const SHARED = ["unreachable", "reachable"];

/** Returns the GUID of the switch of a host. */
type SwitchOf = (guid: string) => string | undefined;

/**
 * Folds events that follow each other within a minute. Equal are those of a port or a device with
 * the same detail, whichever sampler reports them, those of a sampler or of the hub about the same
 * sampler or with the same detail, and all changes of the window of a sampler.
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
  const last = new Map<string, { row: FoldedEvent; oldest: number; samplers: Set<string> }>();
  const result: FoldedEvent[] = [];
  for (const row of rows) {
    const event = row.event.replace(/^window_.*/, "window_changed");
    const key =
      row.guid === null
        ? `${event} ${row.sampler} ${row.sampler === HUB ? (row.node ?? row.detail) : ""}`
        : `${event} ${row.guid} ${row.port} ${row.detail}`;
    const before = last.get(key);
    if (before !== undefined && before.oldest - row.ts < NEAR) {
      before.oldest = row.ts;
      before.row.count++;
      before.row.event = event;
      before.row.samplers = before.samplers.add(row.sampler).size;
    } else {
      const first = { ...row, count: 1, samplers: 1 };
      result.push(first);
      last.set(key, { row: first, oldest: row.ts, samplers: new Set([row.sampler]) });
    }
  }
  return result;
}

/** Returns the kinds of an event. */
export function kindsOf(kinds: EventRows["kinds"], event: string): string[] {
  const name = event === "window_changed" ? "window_halved" : event;
  return Object.keys(kinds).filter((kind) => kinds[kind].includes(name));
}
