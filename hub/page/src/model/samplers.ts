//! Derives the condition of samplers.

import type { SamplerRow } from "../contract/types";
import { count, duration, grouped } from "./units";

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

/** Describes a state in a few words. */
export function stateText(row: SamplerRow, newest: number): string {
  const state = samplerState(row, newest);
  if (state !== "clock") return { ok: "on time", late: "no new slot", lost: "disconnected" }[state];
  const distance = row.clock_distance_ns;
  if (distance === null) return "wrong clock";
  return `clock ${distance > 0 ? "+" : "−"}${duration(Math.abs(distance) / 1e9)}`;
}

/** Describes how many samplers are late, lost, or have a wrong clock, or get no answer. */
export function samplersText(all: number, wrong: number, silent: number): string {
  if (all === 0) return "";
  const samplers = count(all, "sampler");
  const none = silent === 0 ? "" : `, ${grouped(silent)} without any answer`;
  return wrong === 0
    ? `${samplers}, all on time${none}`
    : `${wrong} of ${samplers} late, lost or with a wrong clock${none}`;
}

/** Returns the number of samplers that run, and no port answers them. */
export function silentOf(rows: readonly SamplerRow[], newest: number): number {
  return rows.filter((row) => samplerState(row, newest) === "ok" && answeredShare(row) === 0)
    .length;
}
