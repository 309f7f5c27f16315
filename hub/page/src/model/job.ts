//! What the page derives from a job.

import type { JobRow, Rows } from "../contract/types";

/** Returns how long a job ran or runs, in seconds. */
export function jobSeconds({ start_ns, end_ns }: JobRow, now: number): number {
  return Math.max(0, (end_ns === null ? now : end_ns / 1e6) - start_ns / 1e6) / 1000;
}

/** Returns the share of the time in which the nodes were blocked: the mean of all nodes. */
export function jobBlocked(row: JobRow): number | null {
  const { blocked_seconds, traffic_from_ns, traffic_to_ns, node_count } = row;
  if (blocked_seconds === null || traffic_from_ns === null || traffic_to_ns === null) return null;
  const seconds = ((traffic_to_ns - traffic_from_ns) / 1e9) * node_count;
  return seconds > 0 ? blocked_seconds / seconds : null;
}

/** Returns the names of the nodes of the job in an answer, in lower case. */
export function hostsOfJob(answer: Rows<JobRow> | null): Set<string> {
  const row = answer?.rows[0];
  const names = [...(row?.hosts ?? []).map(({ host }) => host), ...(row?.missing ?? [])];
  return new Set(names.map((name) => name.toLowerCase()));
}
