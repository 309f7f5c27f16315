//! Derives what the web page shows about a job.

import type { JobDetail, JobRow, JobRows } from "../contract/types";

/** Returns how long a job has run, in seconds. */
export function jobSeconds({ start_ns, end_ns }: JobRow, now: number): number {
  return Math.max(0, (end_ns === null ? now : end_ns / 1e6) - start_ns / 1e6) / 1000;
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
