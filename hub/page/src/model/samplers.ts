//! Derives the condition of samplers.

import type { AlertRow, SamplerRow } from "../contract/types";
import { count, duration } from "./units";

/** Returns the share of a sampler's ports that answered in its last slot. */
export function answeredShare(row: SamplerRow): number | null {
  return row.ports === 0 ? null : (row.ok + row.late + row.down) / row.ports;
}

/**
 * Returns the newest slot in an answer. A slow answer is older than the newest slot of the page, so
 * comparing with the latter would make every sampler look late.
 */
export function newestSlot(rows: readonly SamplerRow[]): number {
  return Math.max(...rows.map((row) => (row.wrong_clock ? 0 : (row.last_slot ?? 0))));
}

/** Returns the state of a sampler in one word. `newest` is the newest slot of all samplers. */
export function samplerState(row: SamplerRow, newest: number): "ok" | "late" | "clock" | "lost" {
  if (!row.connected) return "lost";
  if (row.wrong_clock) return "clock";
  return row.last_slot === null || newest - row.last_slot > 3 ? "late" : "ok";
}

/** Returns whether the values of the last sweep are those of now. */
export function isCurrent(row: SamplerRow, newest: number): boolean {
  return ["ok", "clock"].includes(samplerState(row, newest));
}

/** Share of the ports below which a sampler that is on time is not well. */
const FEW = 0.5;

/**
 * Describes how many samplers are late, lost, or have a wrong clock, and how many others get answers
 * of less than half of their ports.
 */
export function samplersText(rows: readonly SamplerRow[], newest: number): string {
  if (rows.length === 0) return "";
  const well = rows.filter((row) => samplerState(row, newest) === "ok");
  const few = well.filter((row) => (answeredShare(row) ?? 1) < FEW).length;
  const wrong = rows.length - well.length;
  const samplers = count(rows.length, "sampler");
  const text =
    wrong === 0
      ? `${samplers}, all on time`
      : `${wrong} of ${samplers} late, lost or with a wrong clock`;
  return few === 0 ? text : `${text}, ${few} with few answers`;
}

/** Describes a state in a few words. */
export function stateText(row: SamplerRow, newest: number): string {
  const state = samplerState(row, newest);
  if (state !== "clock")
    return { ok: "on time", late: "no new sweep", lost: "disconnected" }[state];
  const distance = row.clock_distance_ns;
  if (distance === null) return "wrong clock";
  return `clock ${distance > 0 ? "+" : "−"}${duration(Math.abs(distance) / 1e9)}`;
}

/** Returns the median duration of the sweeps of the slowest sampler, in nanoseconds. */
export function longestUsual(rows: readonly SamplerRow[]): number {
  const median = (values: readonly number[]) =>
    [...values].sort((x, y) => x - y)[values.length >> 1] ?? 0;
  return Math.max(0, ...rows.map(({ durations }) => median(durations)));
}

/** Alerts about missed slots and about records that outputs dropped. */
export const MISSED = "IbnetSlotsMissed";
export const DROPPED = "IbnetRecordsDropped";

/** Returns whether the condition of an alert about a sampler is true now, as the hub decides. */
export function hasAlert(alerts: readonly AlertRow[], row: SamplerRow, name: string): boolean {
  return alerts.some(
    ({ alert, sampler, state }) => alert === name && sampler === row.title && state !== "resolved",
  );
}
