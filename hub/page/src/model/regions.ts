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

/** Why ports wait for a root, with a verb for now and for a time before. */
const CAUSES: Record<TreeRow["why"], string> = {
  full: "the link is|was full",
  slow_host: "the host receives|received too slowly",
  unreachable: "a device does|did not answer",
  unclear: "no clear cause",
};

/** Returns why ports wait for a root, or waited. */
export function causeText(why: TreeRow["why"], isOver = false): string {
  return (CAUSES[why] ?? why).replace(/(\w+)\|(\w+)/, isOver ? "$2" : "$1");
}

/** Returns whether the last region of a root ended before a time in milliseconds. */
export function isOver(row: TreeRow, end: number): boolean {
  return (row.regions[0] ?? row).until_ns / 1e6 < end;
}

/** Returns why and since when ports wait for a root, or until when they did. */
export function rootText(row: TreeRow, end: number): string {
  const region = row.regions[0] ?? row;
  const over = isOver(row, end);
  const [since, until] = [region.since_ns / 1e6, region.until_ns / 1e6];
  const length = duration((until - since) / 1e3);
  const when = over
    ? `for ${length} until ${clock(until)}`
    : `since ${clock(since)}, for ${length}`;
  const doubt = row.confidence === "low" ? " (low confidence)" : "";
  const waits = `${waitText(row, over)}; ${duration(region.held_up_seconds)} lost`;
  return `${causeText(row.why, over)}${doubt} ${when}; ${waits}`;
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
