//! What the page derives from a job.

import type { JobDetail, JobRow, Rows } from "../contract/types";

/** Returns how long a job ran or runs, in seconds. */
export function jobSeconds({ start_ns, end_ns }: JobRow, now: number): number {
  return Math.max(0, (end_ns === null ? now : end_ns / 1e6) - start_ns / 1e6) / 1000;
}

/**
 * Returns the data rate of a job in b/s at the ends of its bins, in milliseconds since 1970. The job can
 * begin and end within a bin: the rate is then the mean of this part.
 */
export function jobRates(
  row: Pick<
    JobDetail,
    "bins_from_ns" | "bin_ns" | "injected_gbps" | "traffic_from_ns" | "traffic_to_ns"
  >,
): { t: number[]; v: (number | null)[] } {
  const { bins_from_ns, bin_ns, injected_gbps, traffic_from_ns, traffic_to_ns } = row;
  if (bins_from_ns === null) return { t: [], v: [] };
  const parts = injected_gbps.map((rate, index) => {
    const end = bins_from_ns + (index + 1) * bin_ns;
    const to = Math.min(end, Math.max(traffic_to_ns ?? end, end - bin_ns));
    const length = to - Math.max(traffic_from_ns ?? 0, end - bin_ns);
    const hasTime = rate !== null && length > 0;
    return { t: (length > 0 ? to : end) / 1e6, v: hasTime ? (1e9 * rate * bin_ns) / length : null };
  });
  return { t: parts.map(({ t }) => t), v: parts.map(({ v }) => v) };
}

/** Returns the names of the nodes of the job in an answer, in lower case. */
export function hostsOfJob(answer: Rows<JobRow> | null): Set<string> {
  const row = answer?.rows[0];
  const names = [...(row?.hosts ?? []).map(({ host }) => host), ...(row?.missing ?? [])];
  return new Set(names.map((name) => name.toLowerCase()));
}
