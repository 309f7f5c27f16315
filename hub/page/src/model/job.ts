//! Derives what the web page shows about a job.

import type { JobDetail, JobRow, JobRows, JobTree, TreeRow } from "../contract/types";
import { jobsOf } from "./regions";

/** Returns how long a job has run, in seconds. */
export function jobSeconds({ start_ns, end_ns }: JobRow, now: number): number {
  return Math.max(0, (end_ns === null ? now : end_ns / 1e6) - start_ns / 1e6) / 1000;
}

/** Share of the time of a job from which on its sums count as whole. */
const WHOLE = 0.999;

/** Returns whether the sums of a job lack a part of its time, up to now for one that runs. */
export function isPartial({ start_ns, end_ns, traffic_to_ns, covered_seconds }: JobRow): boolean {
  const to = end_ns ?? traffic_to_ns;
  return to !== null && (covered_seconds ?? 0) < (WHOLE * (to - start_ns)) / 1e9;
}

/** Returns which part of the link that held up a job is its own; empty without any. */
export function ownCause(
  { root, why }: Pick<JobTree, "root" | "why">,
  job: string,
  rows: readonly TreeRow[],
): string {
  const same = rows.filter((row) => row.root.guid === root.guid && row.root.port === root.port);
  const jobs = new Set(same.flatMap(({ regions }) => regions.flatMap((row) => jobsOf(row, true))));
  if (why !== "full" || !jobs.delete(job)) return "";
  return jobs.size === 0
    ? "its own traffic fills the link"
    : `its own traffic and that of ${[...jobs].join(", ")} fill the link`;
}

/**
 * Returns the data rate of a job in b/s at the ends of its bins, in milliseconds since 1970. The
 * last bin ends where the traffic ends.
 */
export function jobRates({
  bins_from_ns,
  bin_ns,
  injected_gbps,
  traffic_to_ns,
}: Pick<JobDetail, "bins_from_ns" | "bin_ns" | "injected_gbps" | "traffic_to_ns">): {
  t: number[];
  v: (number | null)[];
} {
  if (bins_from_ns === null) return { t: [], v: [] };
  const last = traffic_to_ns ?? 0;
  const ends = injected_gbps.map((_, index) => {
    const end = bins_from_ns + (index + 1) * bin_ns;
    return (last > end - bin_ns && last < end ? last : end) / 1e6;
  });
  return { t: ends, v: injected_gbps.map((rate) => (rate === null ? null : 1e9 * rate)) };
}

/** Returns the names of the nodes of the job in an answer, in lower case. */
export function hostsOfJob(answer: JobRows | null): Set<string> {
  const row = answer?.rows[0];
  const names = [...(row?.hosts ?? []).map(({ host }) => host), ...(row?.missing ?? [])];
  return new Set(names.map((name) => name.toLowerCase()));
}

/** Returns the node that sent most, with its share of what all nodes sent. */
export function largestSender({
  hosts,
  injected_bytes,
}: Pick<JobDetail, "hosts" | "injected_bytes">): { host: string; share: number } | null {
  if (!injected_bytes || hosts.length === 0) return null;
  const most = hosts.reduce((x, y) => (y.injected_bytes > x.injected_bytes ? y : x));
  return { host: most.host, share: most.injected_bytes / injected_bytes };
}
