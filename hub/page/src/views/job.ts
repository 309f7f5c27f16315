//! One job: where and when its nodes waited, and which links and jobs contributed to it.

import type {
  JobDetail,
  JobLink,
  JobNeighbour,
  JobNode,
  JobPhase,
  JobTree,
  TreeRows,
} from "../contract/types";
import { zoom } from "../draw/theme";
import type { App } from "../model/app";
import { partialSpans } from "../model/group";
import { isPartial, jobRates, jobSeconds, largestSender, ownCause } from "../model/job";
import { Poll } from "../model/poll";
import { causeText } from "../model/regions";
import { moved, shiftText } from "../model/shift";
import { portKey, type Topology } from "../model/topology";
import { clock, count, dateTime, duration, grouped, percent, scaled } from "../model/units";
import { Chart, type Curve } from "../parts/chart";
import { h, setText } from "../parts/dom";
import { ShiftControl } from "../parts/shift";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import {
  blockedColumn,
  hostColumn,
  portColumn,
  rateColumn,
  shareColumn,
  trafficColumns,
} from "./columns";
import { JobGantt } from "./gantt";
import { MatrixPart } from "./matrix";
import { figure, panel } from "./panel";

export function makeJob(app: App, _topology: Topology): View {
  return new JobView(app);
}

class JobView implements View {
  readonly element: HTMLElement;
  private readonly poll: Poll<JobDetail>;
  private readonly causes: Poll<TreeRows>;
  private readonly title = h("h1", {});
  private readonly text = h("p", { class: "job-text", role: "status" });
  private readonly figures = h("div", { class: "figures job-figures" });
  private readonly links = h("span", { class: "toolbar-links" });
  private readonly chart: Chart;
  private readonly shift: ShiftControl;
  private readonly trees: Table<JobTree>;
  private readonly neighbours: Table<JobNeighbour>;
  private readonly uplinks: Table<JobLink>;
  private readonly phases: Table<JobPhase>;
  private readonly phasePanel = panel("Phases of the application", "job-part job-phases");
  private readonly nodes: Table<JobNode>;
  private readonly matrix: MatrixPart;
  private readonly notes: HTMLElement[];
  private readonly jobs: JobGantt;
  private errors: JobDetail["node_errors"] = {};
  private shown: JobDetail | null = null;
  private shownCauses: TreeRows | null = null;

  constructor(private readonly app: App) {
    const id = app.state.item;
    this.poll = new Poll(
      app,
      `job/${encodeURIComponent(id)}`,
      () => (app.state.range === null ? {} : app.spanParams),
      () => app.notify("values"),
      5000,
    );
    setText(this.title, `Job ${id}`);
    this.chart = new Chart({
      title: "Data rate that all nodes send, mean of 10 s",
      unit: "b/s",
      height: 188 * zoom(),
      select: (from, to) => app.go({ range: { from, to }, at: null }, true),
    });
    // The trees of the whole fabric have the jobs whose traffic they are.
    this.causes = new Poll(
      app,
      "trees",
      () => (this.poll.answer === null ? null : this.causeSpan(this.poll.answer)),
      () => app.notify("values"),
      5000,
    );
    this.trees = table(
      "Congestion trees",
      treeColumns(app, (tree) => this.cause(tree)),
      "",
      "blocked",
    );
    this.neighbours = table("Neighbours", neighbourColumns(app), "", "up");
    this.uplinks = table("Links between switches", linkColumns(app), "", "up");
    this.phases = table("Phases of the application", phaseColumns(), "", "sent");
    this.phasePanel.body.append(this.phases.element);
    this.nodes = table(
      "Nodes",
      nodeColumns(app, ({ host }) => this.errors[host.toLowerCase()] ?? null),
      "No node of the job has records.",
      "blocked",
    );
    const chart = h(
      "section",
      { class: "panel job-chart", "aria-label": "Data rate" },
      this.chart.element,
    );
    this.shift = new ShiftControl(app);
    this.matrix = new MatrixPart(app);
    this.jobs = new JobGantt(app);
    const parts = (
      [
        ["Held up by", this.trees],
        ["Neighbours on the same links", this.neighbours],
        ["Links between switches", this.uplinks],
        ["Nodes", this.nodes],
      ] as const
    ).map(([title, { element }]) => {
      const frame = panel(title, "job-part");
      frame.body.append(element);
      return frame;
    });
    this.notes = parts.map(({ note }) => note);
    this.element = h(
      "div",
      { class: "job-page" },
      h(
        "div",
        { class: "toolbar" },
        this.title,
        h("span", { class: "space" }),
        this.shift.element,
        this.links,
      ),
      this.text,
      this.figures,
      h(
        "div",
        { class: "job-tables" },
        chart,
        ...parts.slice(0, -1).map(({ element }) => element),
        this.jobs.element,
        ...this.matrix.elements,
        this.phasePanel.element,
        parts[parts.length - 1].element,
      ),
    );
  }

  update(): void {
    this.poll.refresh();
    this.causes.refresh();
    const { answer, error } = this.poll;
    this.element.classList.toggle("failed", answer === null && error !== "");
    if (answer === null) this.showProblem();
    else if (answer !== this.shown || this.causes.answer !== this.shownCauses) {
      this.shown = answer;
      this.shownCauses = this.causes.answer;
      this.show(answer);
    }
    if (answer !== null) this.drawChart(answer);
    this.matrix.update();
  }

  close(): void {
    this.poll.close();
    this.causes.close();
    this.chart.close();
    this.matrix.close();
    for (const each of [this.trees, this.neighbours, this.uplinks, this.phases, this.nodes])
      each.close();
  }

  /** Returns the time of the links of a job as parameters; none for the last minute. */
  private causeSpan({ end_ns, links_from_ns, links_to_ns }: JobDetail) {
    if (end_ns === null && this.app.isLive) return {};
    return { from: String(links_from_ns), to: String(links_to_ns) };
  }

  /** Returns why the ports of the job waited. */
  private cause(tree: JobTree): string {
    return ownCause(tree, this.app.state.item, this.shownCauses?.rows ?? []) || causeText(tree.why);
  }

  private showProblem(): void {
    const { error, isMissing } = this.poll;
    if (error === "") {
      setText(this.text, "Waiting for the hub…");
      return;
    }
    setText(this.text, isMissing ? `The hub has no job ${this.app.state.item}.` : `${error}.`);
    if (this.links.childElementCount === 0)
      this.links.append(
        h("a", { class: "action", href: this.app.href({ view: "jobs" }) }, "All jobs"),
      );
  }

  private show(row: JobDetail): void {
    setText(this.title, `Job ${row.job}${row.name === null ? "" : `, ${row.name}`}`);
    setText(
      this.text,
      verdict(row, (tree) => this.cause(tree)),
    );
    this.showFigures(row);
    const hasRange = row.links_from_ns < row.links_to_ns;
    const none = (text: string) => (hasRange ? text : "The records of its time are gone.");
    this.trees.setEmpty(none("Nothing: no node of the job waited in a congestion tree."));
    this.neighbours.setEmpty(none("No other job used these links."));
    this.uplinks.setEmpty(none("The traffic of the job stayed on its leaf switches."));
    this.trees.setRows(row.trees);
    this.neighbours.setRows(row.neighbours.filter((other) => ranWithin(other, row)));
    this.jobs.show(row);
    this.uplinks.setRows(row.uplinks);
    this.errors = row.node_errors;
    this.nodes.setRows(row.hosts);
    this.phasePanel.element.hidden = row.phases.length === 0 && row.marks_error === null;
    this.phases.setEmpty(row.marks_error === null ? "" : `${row.marks_error}.`);
    this.phases.setRows(row.phases);
    const span = hasRange
      ? `${clock(row.links_from_ns / 1e6)} to ${clock(row.links_to_ns / 1e6)}`
      : "the records of its time are gone";
    setText(this.phasePanel.note, span);
    const parts = `${span}; parts of jobs are estimates`;
    const texts = [span, parts, parts, row.traffic_from_ns === null ? "" : trafficSpan(row)];
    this.notes.forEach((note, index) => {
      setText(note, texts[index]);
    });
    this.showLinks(row);
  }

  private showFigures(row: JobDetail): void {
    const seconds = jobSeconds(row, Date.now());
    const measured = ((row.traffic_to_ns ?? 0) - (row.traffic_from_ns ?? 0)) / 1e9;
    const sum = (bytes: number | null) =>
      `${bytes !== null && isPartial(row) ? "≥ " : ""}${scaled(bytes, "B")}`;
    const rate = (bytes: number | null) =>
      bytes === null || measured <= 0 ? "" : `mean ${scaled((8 * bytes) / measured, "b/s")}`;
    const known = (covered: number | null) =>
      covered === null || covered >= 0.999 * measured
        ? ""
        : `, ${percent(covered / measured)} of this time known`;
    const uneven = row.imbalance.max_to_mean;
    const most = largestSender(row);
    const sender = (host: string) => {
      const href = this.app.href({ view: "ports", item: "", options: { q: host } });
      return h("a", { href }, host);
    };
    this.figures.replaceChildren(
      figure(
        "Nodes",
        grouped(row.node_count),
        row.missing.length > 0
          ? `${grouped(row.missing.length)} without records`
          : "all with records",
      ),
      figure(
        row.end_ns === null ? "Runs for" : "Ran for",
        `${row.end_is_lower_bound ? "≥ " : ""}${duration(Math.round(seconds))}`,
        `${sinceText(row.start_ns / 1e6)}${gapText(row)}`,
      ),
      figure(
        "Sent",
        sum(row.injected_bytes),
        rate(row.injected_bytes) + known(row.covered_seconds),
      ),
      figure(
        "Received",
        sum(row.ejected_bytes),
        rate(row.ejected_bytes) + known(row.covered_seconds),
      ),
      figure(
        "Blocked",
        percent(row.blocked),
        row.blocked_seconds === null
          ? ""
          : `${duration(row.blocked_seconds)}, all nodes${known(row.blocked_covered_seconds)}`,
      ),
      figure(
        "Largest sender",
        most === null ? "–" : sender(most.host),
        most === null || uneven === null
          ? ""
          : `${percent(most.share)} of the data, ${uneven.toFixed(2)}\u00a0×\u00a0the\u00a0mean`,
      ),
    );
  }

  private showLinks(row: JobDetail): void {
    const range = {
      from: row.start_ns / 1e6,
      to: row.end_ns === null ? (this.app.span?.to ?? Date.now()) : row.end_ns / 1e6,
    };
    const past = row.end_ns === null ? {} : { range, at: null };
    const link = (text: string, href: string) => h("a", { class: "action", href }, text);
    this.links.replaceChildren(
      link("Nodes on the map", this.app.href({ view: "map", item: "", options: { job: row.job } })),
      link(
        "Heat map of its nodes",
        this.app.href({
          view: "heatmap",
          item: "",
          ...past,
          options: { by: "host", job: row.job },
        }),
      ),
    );
  }

  private drawChart(row: JobDetail): void {
    const { t, v } = jobRates(row);
    if (row.bins_from_ns === null) return;
    const bins = row.bins_from_ns / 1e6;
    // The first and the last bin are of the run only.
    const from = Math.max(bins, (row.traffic_from_ns ?? row.start_ns) / 1e6);
    const last = Math.max(t.at(-1) ?? from, from + 1000);
    const to = row.end_ns === null ? Math.max(from + 60_000, last) : last;
    const curves: Curve[] = [{ label: "Sent", t: [from, ...t], v: [v[0] ?? null, ...v] }];
    const { shift } = this.app;
    if (shift > 0) {
      // Earlier values are those of the same run.
      const earlier = moved({ t, v }, { t, v }, shift, row.bin_ns / 1e6);
      curves.push({ label: `Sent, ${shiftText(shift)}`, ...earlier, earlier: { of: 0, shift } });
    }
    const isNew = last - shift <= from;
    this.shift.update(
      isNew ? `before: the job has data of ${duration((last - from) / 1e3)} only` : "",
    );
    this.chart.show(
      curves,
      from,
      to,
      undefined,
      partialSpans([row.injected_covered], bins, row.bin_ns / 1e6),
      row.marks,
    );
  }
}

function table<Row>(
  label: string,
  columns: Column<Row>[],
  empty: string,
  sort: string,
): Table<Row> {
  const key = (row: Row) => String(columns[0].value(row));
  return new Table({ label, columns, key, sort, descending: true, empty, height: 28 });
}

/** Returns one sentence on whether the network held up the job. */
function verdict(row: JobDetail, cause: (tree: JobTree) => string): string {
  const who = [
    row.user === null ? "" : `User ${row.user}, `,
    row.end_ns === null ? row.state : `${row.state}, ended at ${dateTime(row.end_ns / 1e6)}`,
    ". ",
  ].join("");
  const { blocked } = row;
  if (blocked === null) return `${who}There are no records of its time.`;
  const share = `Its nodes had data to send and no credit in ${percent(blocked)} of the time.`;
  const [tree] = row.trees;
  if (tree === undefined) return `${who}${share}`;
  const root = `${tree.root.node} port ${tree.root.port}`;
  return `${who}${share} From ${clock(row.links_from_ns / 1e6)} to ${clock(row.links_to_ns / 1e6)}, ${count(tree.job_ports, "node port")} waited for ${root}: ${cause(tree)}.`;
}

/** Formats a start time: the time of day, or the date if it was another day. */
function sinceText(start: number): string {
  const isToday = dateTime(start).slice(0, 10) === dateTime(Date.now()).slice(0, 10);
  return `since ${isToday ? clock(start) : dateTime(start).slice(0, 16)}`;
}

/** Returns that the records begin after the job or end before it; else an empty text. */
function gapText({ start_ns, end_ns, traffic_from_ns, traffic_to_ns }: JobDetail): string {
  if (traffic_from_ns === null || traffic_to_ns === null) return ", without records";
  const from = traffic_from_ns - start_ns > 1e9 ? ` from ${clock(traffic_from_ns / 1e6)}` : "";
  const to = (end_ns ?? 0) - traffic_to_ns > 1e9 ? ` to ${clock(traffic_to_ns / 1e6)}` : "";
  return from + to === "" ? "" : `, records only${from}${to}`;
}

function trafficSpan({ traffic_from_ns, traffic_to_ns }: JobDetail): string {
  return `records from ${clock((traffic_from_ns ?? 0) / 1e6)} to ${clock((traffic_to_ns ?? 0) / 1e6)}`;
}

function treeColumns(app: App, cause: (tree: JobTree) => string): Column<JobTree>[] {
  return [
    {
      ...portColumn<JobTree>(app, "root", "Root", ({ root }) => root),
      draw: (cell, { root }) => {
        const item = portKey(root.guid, root.port);
        const href = app.href({ view: "tree", item, options: {} });
        linkCell(cell, `${root.node} / ${root.port}`, href, root.guid);
      },
    },
    portColumn(app, "to", "To", ({ to }) => to),
    { id: "why", title: "Cause", width: "minmax(110px, 1.6fr)", value: cause },
    {
      id: "ports",
      title: "Ports",
      hint: "Ports of the job that waited, of all host ports that waited",
      end: true,
      width: "76px",
      value: (row) => row.job_ports,
      state: (row) => `of ${row.host_ports}`,
      text: (row) => `${grouped(row.job_ports)} of ${grouped(row.host_ports)}`,
    },
    {
      id: "blocked",
      title: "Held up in all",
      hint: "Time for which the ports of the job were blocked, summed",
      end: true,
      width: "124px",
      value: (row) => row.job_blocked_seconds,
      unit: "s",
      text: (row) => duration(row.job_blocked_seconds),
    },
  ];
}

function namesOf({ name, user }: JobNeighbour): string {
  return [name, user].filter((part) => part !== null).join(", ");
}

function phaseText({ name, times }: JobPhase): string {
  return times === 1 ? name : `${name} × ${grouped(times)}`;
}

function neighbourColumns(app: App): Column<JobNeighbour>[] {
  return [
    {
      id: "job",
      title: "Job",
      width: "64px",
      value: ({ job }) => job,
      draw: (cell, { job }) =>
        linkCell(cell, job, app.href({ view: "job", item: job, options: {} })),
    },
    {
      id: "name",
      title: "Name",
      width: "minmax(80px, 1fr)",
      value: ({ name }) => name,
      saved: namesOf,
      text: (row) => namesOf(row) || "–",
    },
    {
      id: "nodes",
      title: "Here",
      hint: "Nodes of the neighbour at the leaf switches of the job",
      end: true,
      width: "76px",
      value: ({ nodes }) => nodes,
      state: ({ node_count }) => `of ${node_count}`,
      text: ({ nodes, node_count }) => `${grouped(nodes)} of ${grouped(node_count)}`,
    },
    {
      id: "leaves",
      title: "Leaves",
      hint: "Leaf switches that both jobs use",
      end: true,
      width: "60px",
      value: ({ leaves }) => leaves,
    },
    rateColumn(
      "up",
      "Up",
      "Estimated data rate of the neighbour from these leaf switches",
      (row) => row.up_gbps,
    ),
    rateColumn(
      "down",
      "Down",
      "Estimated data rate of the neighbour to these leaf switches",
      (row) => row.down_gbps,
    ),
  ];
}

function linkColumns(app: App): Column<JobLink>[] {
  return [
    { ...portColumn<JobLink>(app, "port", "From", ({ from }) => from), width: "minmax(72px, 1fr)" },
    { ...portColumn<JobLink>(app, "to", "To", ({ to }) => to), width: "minmax(64px, 1fr)" },
    shareColumn(
      "used",
      "Used",
      "Mean utilization of the direction with more data",
      ({ used }) => used,
      false,
    ),
    shareColumn(
      "blocked",
      "Blocked",
      "Blocked share of the leaf switch",
      ({ blocked }) => blocked,
      true,
    ),
    rateColumn(
      "up",
      "Job up",
      "Estimated data rate of the job from the leaf switch",
      (row) => row.job_up_gbps,
    ),
    rateColumn(
      "down",
      "Job down",
      "Estimated data rate of the job to the leaf switch",
      (row) => row.job_down_gbps,
    ),
  ];
}

function phaseColumns(): Column<JobPhase>[] {
  const first: Column<JobPhase>[] = [
    {
      id: "name",
      title: "Phase",
      width: "minmax(64px, 1fr)",
      value: ({ name }) => name,
      saved: phaseText,
      text: phaseText,
    },
    {
      id: "seconds",
      title: "Time",
      hint: "Time of the phases with records",
      end: true,
      width: "58px",
      value: ({ covered_seconds }) => covered_seconds,
      unit: "s",
      text: ({ covered_seconds }) => duration(covered_seconds),
    },
  ];
  const value: Column<JobPhase> = {
    id: "value",
    title: "Value",
    hint: "Sum of the numbers of the application",
    end: true,
    width: "58px",
    value: (row) => row.value,
    text: (row) => scaled(row.value, ""),
  };
  const second = [...trafficColumns<JobPhase>(), blockedColumn<JobPhase>(), value];
  return [
    ...first.map((column) => ({ ...column, line: 1 as const })),
    ...second.map((column) => ({ ...column, line: 2 as const })),
  ];
}

function nodeColumns(app: App, errors: (row: JobNode) => number | null): Column<JobNode>[] {
  const waited = ({ ports, blocked_seconds, blocked_covered_seconds }: JobNode) => {
    const known = ports * blocked_covered_seconds;
    return known > 0 ? blocked_seconds / known : null;
  };
  return [
    { ...hostColumn<JobNode>(app, "Node"), line: 1 },
    ...trafficColumns<JobNode>().map((column) => ({ ...column, line: 1 as const })),
    { ...blockedColumn<JobNode>(), line: 2 },
    {
      ...shareColumn(
        "waited",
        "Waited",
        "Share of the time in which its ports waited",
        waited,
        true,
      ),
      line: 2,
    },
    {
      id: "errors",
      line: 2,
      title: "Errors",
      hint: "Increase of the error counters of its links in the time of the other tables",
      end: true,
      width: "64px",
      value: errors,
      text: (row) => (errors(row) === null ? "–" : grouped(errors(row)!)),
    },
  ];
}

/** Returns whether a neighbour ran in the time of the links. */
function ranWithin({ start_ns, end_ns }: JobNeighbour, row: JobDetail): boolean {
  return start_ns < row.links_to_ns && (end_ns ?? Number.POSITIVE_INFINITY) > row.links_from_ns;
}
