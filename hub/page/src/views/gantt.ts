//! The jobs at the leaf switches of a job over time, one bar for each.

import type { JobDetail } from "../contract/types";
import { utilizationScale } from "../draw/scale";
import { timeTicks } from "../draw/ticks";
import type { App } from "../model/app";
import { type Cell, head, timeCells, timeHeads } from "../model/csv";
import { clock, count, dateTime, dayTime, duration, grouped, scaled } from "../model/units";
import { h, setStyle, setText } from "../parts/dom";
import { legend } from "../parts/meter";
import { saveButtons } from "../parts/save";
import { hideTip, showTip } from "../parts/tooltip";
import { panel } from "./panel";

/** Max number of other jobs. */
const MAX = 24;
/** Max number of ticks of the time axis, and the share of its width at each end without any. */
const TICKS = 5;
const EDGE = 0.05;

interface Bar {
  job: string;
  name: string;
  from: number;
  to: number;
  runs: boolean;
  /** Traffic on the links of the job in Gb/s; null for the job itself. */
  gbps: number | null;
  /** Number of its nodes at these leaf switches, and of all its nodes. */
  here: number;
  nodes: number;
}

/** The legend of the bars: their colour is their part of the largest traffic. */
function legendOf(most: number): HTMLElement {
  const ticks = [0, 1].map((share) => ({ share, text: scaled(share * most * 1e9, "b/s") }));
  return legend([["other jobs", utilizationScale, ticks]], [["own", "this job"]]);
}

export class JobGantt {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly note: HTMLElement;
  /** What is shown, for the file that a user saves. */
  private shown: { bars: Bar[]; span: Span | null } = { bars: [], span: null };

  constructor(private readonly app: App) {
    const save = saveButtons({
      title: "Jobs over time",
      rows: () => savedBars(this.shown.bars),
      layers: () => [...this.body.querySelectorAll<HTMLElement>(".gantt")],
      span: () => this.shown.span,
      note: () => this.note.textContent ?? "",
    });
    const { element, body, note } = panel("Jobs over time", "job-part job-gantt", save);
    this.element = element;
    this.body = body;
    this.note = note;
  }

  show(row: JobDetail): void {
    const now = this.app.shown === null ? Date.now() : this.app.timeOf(this.app.shown);
    const from = row.start_ns / 1e6;
    const to = Math.max(row.end_ns === null ? now : row.end_ns / 1e6, from + 1000);
    const others = row.neighbours.slice(0, MAX).map(
      (other): Bar => ({
        job: other.job,
        name: [other.name, other.user].filter((part) => part !== null).join(", "),
        from: other.start_ns / 1e6,
        to: other.end_ns === null ? now : other.end_ns / 1e6,
        runs: other.end_ns === null,
        gbps: other.up_gbps + other.down_gbps,
        here: other.nodes,
        nodes: other.node_count,
      }),
    );
    const own: Bar = {
      job: row.job,
      name: row.name ?? "",
      from,
      to,
      runs: row.end_ns === null,
      gbps: null,
      here: row.node_count,
      nodes: row.node_count,
    };
    const most = Math.max(1e-9, ...others.map(({ gbps }) => gbps ?? 0));
    // The first lines are seen without scrolling.
    others.sort((x, y) => (y.gbps ?? 0) - (x.gbps ?? 0));
    setText(
      this.note,
      others.length === 0
        ? "no other job was at its leaf switches"
        : `${count(others.length, "other job")} by traffic on these links from ${clock(row.links_from_ns / 1e6)} to ${clock(row.links_to_ns / 1e6)}`,
    );
    // A bar begins before the job if the other one ran before, so the axis has some room.
    const room = (to - from) * 0.08;
    const span = { from: from - room, to: to + (row.end_ns === null ? 0 : room) };
    const bars = [own, ...others];
    this.shown = { bars, span };
    this.body.replaceChildren(
      ...(others.length === 0 ? [] : [legendOf(most)]),
      h(
        "div",
        { class: "gantt", role: "list" },
        ...bars.map((bar) => this.line(bar, span, { from, to }, most)),
        axis(span),
      ),
    );
  }

  private line(bar: Bar, span: Span, run: Span, most: number): HTMLElement {
    const place = (time: number) =>
      (100 * (Math.min(Math.max(time, span.from), span.to) - span.from)) / (span.to - span.from);
    const [left, right] = [place(bar.from), place(bar.to)];
    const piece = h("i", { class: bar.gbps === null ? "gantt-bar own" : "gantt-bar" });
    setStyle(piece, { left: `${left}%`, width: `max(3px, ${right - left}%)` });
    if (bar.gbps !== null)
      setStyle(piece, { "background-color": utilizationScale.color(bar.gbps / most) });
    piece.classList.toggle("before", bar.from < span.from);
    const shade = h("i", { class: "gantt-run" });
    setStyle(shade, { left: `${place(run.from)}%`, width: `${place(run.to) - place(run.from)}%` });
    const nodes =
      bar.gbps === null
        ? count(bar.nodes, "node")
        : `${grouped(bar.here)} of ${grouped(bar.nodes)} nodes here`;
    const end = bar.runs ? "runs" : `to ${dateTime(bar.to)}`;
    const rate = bar.gbps === null ? "this job" : `${scaled(bar.gbps * 1e9, "b/s")} on these links`;
    const common = duration(
      Math.max(0, Math.round((Math.min(bar.to, run.to) - Math.max(bar.from, run.from)) / 1000)),
    );
    const text = `Job ${bar.job}${bar.name === "" ? "" : `, ${bar.name}`}: from ${dateTime(bar.from)}, ${end}, ${nodes}, ${rate}`;
    return h(
      "div",
      {
        class: "gantt-line",
        role: "listitem",
        "aria-label": text,
        on: {
          pointermove: (event) =>
            showTip(event.clientX, event.clientY, [
              `Job ${bar.job}`,
              ...(bar.name === "" ? [] : [bar.name]),
              ["Started", dateTime(bar.from)],
              ["Ended", bar.runs ? "runs" : dateTime(bar.to)],
              ["Nodes", nodes],
              ...(bar.gbps === null
                ? []
                : [
                    ["Overlap", common] as [string, string],
                    ["Traffic", scaled(bar.gbps * 1e9, "b/s")] as [string, string],
                  ]),
            ]),
          pointerleave: () => hideTip(),
        },
      },
      h(
        "a",
        { class: "name", href: this.app.href({ view: "job", item: bar.job }) },
        `${bar.job}${bar.name === "" ? "" : ` ${bar.name}`}`,
      ),
      h("span", { class: "gantt-track" }, shade, piece),
    );
  }
}

interface Span {
  from: number;
  to: number;
}

function* savedBars(bars: readonly Bar[]): Iterable<Cell[]> {
  yield [
    "Job",
    "Name",
    ...timeHeads("Started"),
    ...timeHeads("Ended"),
    "Nodes here",
    "Nodes",
    head("Traffic on these links", "b/s"),
  ];
  for (const { job, name, from, to, runs, here, nodes, gbps } of bars)
    yield [
      job,
      name,
      ...timeCells(Math.round(1e6 * from)),
      ...timeCells(runs ? null : Math.round(1e6 * to)),
      here,
      nodes,
      gbps === null ? null : 1e9 * gbps,
    ];
}

function axis({ from, to }: Span): HTMLElement {
  const room = EDGE * (to - from);
  const times = timeTicks(from + room, to - room, TICKS).map(({ time }) => {
    const style = { left: `${(100 * (time - from)) / (to - from)}%` };
    return h("span", { style }, dayTime(time).replace(/(:\d\d):00$/, "$1"));
  });
  return h(
    "div",
    { class: "gantt-line gantt-axis", "aria-hidden": "true" },
    h("span", {}),
    h("span", { class: "gantt-times" }, ...times),
  );
}
