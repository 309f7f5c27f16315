//! Which events are shown, and how equal ones are folded into one row.

import type { EventRow, EventRows } from "../contract/types";

/** An event, with the number of equal ones and of the samplers that report them. */
export interface FoldedEvent extends EventRow {
  count: number;
  samplers: number;
}

/** Largest time between two equal events of a row, in nanoseconds. */
const NEAR = 60e9;

/**
 * Folds events that follow each other within a minute. Equal are those of a port or a device with
 * the same detail, whichever sampler reports them, those of a sampler, and all changes of its window.
 * The rows are newest first, and so is the result.
 */
export function folded(rows: readonly EventRow[]): FoldedEvent[] {
  const last = new Map<string, { row: FoldedEvent; oldest: number; samplers: Set<string> }>();
  const result: FoldedEvent[] = [];
  for (const row of rows) {
    const event = row.event.replace(/^window_.*/, "window_changed");
    const key =
      row.guid === null
        ? `${event} ${row.sampler}`
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
