//! Describes regions of congestion in words: a region is a congestion tree for as long as it lasts.

import type { RegionRow, TreeRow } from "../contract/types";
import { clock, count, dateTime, duration } from "./units";

/** Max number of jobs that a text names. */
const JOBS = 3;

/** Returns the jobs that cause a region, or those that suffer it. */
export function jobsOf({ jobs }: RegionRow, causes: boolean): string[] {
  return jobs.filter((job) => job.causes === causes).map(({ job }) => job);
}

/** Returns which jobs cause and suffer a region, or an empty text. */
export function jobsText(row: RegionRow): string {
  const list = (verb: string, jobs: string[]) => {
    const more = jobs.length > JOBS ? ` and ${jobs.length - JOBS} more` : "";
    const names = `${jobs.slice(0, JOBS).join(", ")}${more}`;
    return jobs.length === 0 ? "" : `${verb} ${jobs.length === 1 ? "job" : "jobs"} ${names}`;
  };
  const texts = [list("caused by", jobsOf(row, true)), list("suffered by", jobsOf(row, false))];
  return texts.filter((text) => text !== "").join(", ");
}

/** Returns when a region was, how many ports waited, and for how long. */
export function regionText(row: RegionRow): string {
  const [since, until] = [row.since_ns / 1e6, row.until_ns / 1e6];
  return (
    `${dateTime(since)} to ${clock(until)} (${duration((until - since) / 1e3)}); ` +
    `${count(row.host_ports, "host port")} and ${count(row.switch_ports, "switch port")} waited, ` +
    `${duration(row.held_up_seconds)} in all`
  );
}

/** Returns which ports wait for a root. A root for which none waits is one that waits itself. */
export function waitText(
  { host_ports, switch_ports }: Pick<TreeRow, "host_ports" | "switch_ports">,
  isOver: boolean,
): string {
  const ports = host_ports + switch_ports;
  const verb = isOver ? "waited" : ports > 1 ? "wait" : "waits";
  const hosts = host_ports > 0 ? ` (${host_ports} of hosts)` : "";
  return `${ports === 0 ? "only this port" : count(ports, "port")} ${verb}${hosts}`;
}
