//! Derives what the web page shows about a group of hosts.

import type { GroupDetail, GroupRows, GroupSender, PortRate } from "../contract/types";

/** A time range in milliseconds since 1970. */
export interface Span {
  from: number;
  to: number;
}

/** Returns the names of the hosts of a group in the topology, in lower case. */
export function hostsOfGroup(answer: GroupRows | null, name: string): Set<string> {
  const row = answer?.rows.find(({ group }) => group === name);
  return new Set((row?.nodes ?? []).map((node) => node.toLowerCase()));
}

/** Returns the display name of a sender. */
export function senderName({ job, host }: GroupSender): string {
  return job === null ? (host ?? "") : `job ${job}`;
}

/** Returns the ends of the bins in milliseconds since 1970. */
export function binEnds({ start_ns, bin_ns, in_max_to_mean }: GroupDetail): number[] {
  return in_max_to_mean.map((_, bin) => (start_ns + (bin + 1) * bin_ns) / 1e6);
}

/**
 * Returns the time spans whose sum is too low, because a part of some port's rate is unknown.
 * A bin in which nothing is known has no sum. `start` and `length` are those of the first bin,
 * in milliseconds.
 */
export function partialSpans(
  covered: readonly (readonly (number | null)[])[],
  start: number,
  length: number,
): Span[] {
  const bins = Math.max(0, ...covered.map((shares) => shares.length));
  const isPartial = (bin: number) =>
    covered.some((shares) => (shares[bin] ?? 0) > 0) &&
    covered.some((shares) => (shares[bin] ?? 1) < 1);
  return Array.from({ length: bins }, (_, bin) => bin)
    .filter(isPartial)
    .map((bin) => ({ from: start + bin * length, to: start + (bin + 1) * length }));
}

/** Data rates of a port or of a sender over time. */
export type Course = Pick<PortRate, "port" | "gbps"> & { isRest?: true };

/**
 * Returns the first `most` curves. If there are more, the last one is the sum of all others, as in
 * the pictures of `ibnet-view`.
 */
export function largest(rates: readonly Course[], most: number, what: string): Course[] {
  if (rates.length <= most) return [...rates];
  const others = rates.slice(most - 1);
  const sum = others
    .map(({ gbps }) => gbps)
    .reduce((x, y) => x.map((value, bin) => plus(value, y[bin])));
  const rest = { port: `${others.length} other ${what}`, gbps: sum, isRest: true } as const;
  return [...rates.slice(0, most - 1), rest];
}

/** Sorts the ports into and out of a group by both, so that a port has one place in both. */
export function inOneOrder<Rate extends Course>(...lists: readonly Rate[][]): Rate[][] {
  const sums = new Map<string, number>();
  for (const { port, gbps } of lists.flat())
    sums.set(
      port,
      gbps.reduce<number>((sum, rate) => sum + (rate ?? 0), sums.get(port) ?? 0),
    );
  return lists.map((rates) => [...rates].sort((x, y) => sums.get(y.port)! - sums.get(x.port)!));
}

function plus(x: number | null, y: number | null): number | null {
  return x === null ? y : y === null ? x : x + y;
}
