//! The command that makes from the archive what a view shows.

import { BLOCKED, type State, UTILIZATION, type ViewName } from "./state";

interface Span {
  from: number;
  to: number;
}

/** What a command has besides the state of the page. */
export interface Facts {
  /** Folder of the archive; null if the page does not know it. */
  folder: string | null;
  /** Shown time in milliseconds since 1970. */
  span: Span;
  /** Length of a slot in milliseconds. */
  interval: number;
  /** Nodes of the port or the switch of the view. */
  nodes: readonly string[];
  /** Number of links. */
  links: number;
}

const MINUTE = 60_000;
/** Minutes of a heat map and of the charts of a port. */
const MINUTES = 5;
/** Bit errors need hours. */
const HEALTH = 24 * 60 * MINUTE;
const FOLDER = "FOLDER is the folder of ibnet-view pack, or of the key archive of a hub.";
const JOBS = "JOBS is a job table or output of sacct.";
const HOSTS = "HOSTS are the hosts of the group, such as 'oss*'.";
const TREES = "It has the congestion trees.";

/** Quotes a word for a shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Returns the option for nodes, if a host list can have their names as they are. */
function nodesOption(nodes: readonly string[]): string {
  const names = [...new Set(nodes.map((node) => node.split(" ")[0]))];
  const isPlain = names.length > 0 && names.every((name) => /^\w[\w.-]*$/.test(name));
  return isPlain ? ` --nodes ${names.join(",")}` : "";
}

/** Returns the time range that a view shows, out of the usual one of the page. */
export function shownRange({ view, options, range }: State, span: Span): Span {
  const isLong = ["heatmap", "port", "switch"].includes(view) && range === null;
  const minutes = (view === "heatmap" && Number(options.min)) || MINUTES;
  return isLong ? { from: span.to - MINUTE * minutes, to: span.to } : span;
}

/** Returns the command for a view, and how its result differs or what must be filled in. */
export function archiveCommand(state: State, facts: Facts): { text: string; note: string } {
  const { view, item, metric, options, range } = state;
  const { span, interval } = facts;
  const isLive = range === null;
  const iso = (time: number) => new Date(time).toISOString();
  const within = (from: number, to = span.to) => ` --from ${iso(from)} --to ${iso(to)}`;
  // The counters of a slot are read at its end, and a command selects the time of the reading.
  const read = (from: number) => within(from + interval, span.to + interval);
  const time = within(span.from);
  const course = read(shownRange(state, span).from);
  // Other views show one slot, or the largest values of a range.
  const slot = read(isLive ? span.to - interval : span.from);
  const peak = isLive ? "" : " --stat peak";
  const metrics = (...names: string[]) =>
    ` -m ${names.filter((name) => /^[a-z0-9_]+$/.test(name)).join(",") || UTILIZATION}`;
  const shares = [UTILIZATION, BLOCKED];
  const nodes = nodesOption(facts.nodes);
  const by = ["link", "switch", "host"].find((kind) => kind === options.by) ?? "port";
  const sorted = { errors: "errors", "wait-up": "blocked", "wait-down": "blocked" };
  const order = sorted[options.sort as keyof typeof sorted] ?? "utilization";
  const whole = `It has the ports of ${nodes === "" ? "all nodes" : "the whole node"} and the other ends of their links.`;
  const counters = (options.m || "port_xmit_data_bytes").split(",");
  const job = quoted(item);
  const group = quoted(`${item || "group"}=HOSTS`);
  const none = `The archive has no ${view}; it has the faults behind them.`;
  const isPart = Boolean(options.job || options.group);
  const forms: Record<ViewName, [name: string, options: string, note?: string]> = {
    overview: ["links", `${time} --tree`, TREES],
    tree: ["links", `${time} --tree`, TREES],
    map: ["map", `${slot}${peak}${metric === BLOCKED ? metrics(BLOCKED) : ""} -o map.svg`],
    heatmap: [
      "heatmap",
      `${course}${metrics(metric)} --by ${by}${options.order === "value" ? " --sort value" : ""} -o heatmap.png`,
      isPart ? "It has all hosts; --nodes selects some." : "",
    ],
    links: ["links", `${slot}${peak} --by ${order} --top ${facts.links}`],
    ports: [
      "heatmap",
      `${slot}${metrics(...shares)} --format csv`,
      "It has each sweep of each port.",
    ],
    port: ["heatmap", `${course}${metrics(...shares, ...counters)}${nodes} -o port.png`, whole],
    switch: ["heatmap", `${course}${metrics(...shares)}${nodes} -o switch.png`, whole],
    health: [
      "health",
      isLive ? within(span.to - HEALTH) : time,
      "It judges the records of this time only.",
    ],
    jobs: ["job", `${time} --all --slurm-file JOBS`, JOBS],
    job: ["job", `${isLive ? "" : time} --slurm ${job} --slurm-file JOBS -o job.svg`, JOBS],
    groups: ["job", `${time} --group ${group} -o group.svg`, HOSTS],
    events: ["errors", time, none],
    alerts: ["errors", time, none],
    samplers: ["sweeps", time],
  };
  const [name, rest, note = ""] = forms[view];
  const notes = [note, facts.folder === null ? FOLDER : ""];
  return {
    text: `ibnet-view ${name} ${quoted(facts.folder ?? "FOLDER")}${rest}`,
    note: notes.filter((part) => part !== "").join(" "),
  };
}
