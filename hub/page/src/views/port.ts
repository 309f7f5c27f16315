//! One port: both ends of its link, charts, counters, identity and events.

import { nanoseconds } from "../contract/api";
import type {
  CounterValue,
  ErrorRow,
  ErrorRows,
  MarkRows,
  PortDetail,
  Series,
  SeriesAnswer,
} from "../contract/types";
import { blockedScale, utilizationScale } from "../draw/scale";
import { zoom } from "../draw/theme";
import type { App, Change } from "../model/app";
import { type FoldedEvent, folded } from "../model/events";
import { JOBS } from "../model/marks";
import { Poll } from "../model/poll";
import { moved, shiftText } from "../model/shift";
import { BLOCKED, UTILIZATION } from "../model/state";
import type { Topology } from "../model/topology";
import { clock, count, dateTime, duration, grouped, scaled } from "../model/units";
import { Chart, type Curve } from "../parts/chart";
import { choice } from "../parts/choice";
import { h, patch, setText } from "../parts/dom";
import { bar } from "../parts/meter";
import { lackOf, ShiftControl } from "../parts/shift";
import { Table } from "../parts/table";
import type { View } from "../parts/view";
import { eventColumns } from "./events";
import { bySeverity, faultText, isSevere, rateText, sinceText } from "./faults";
import { panel } from "./panel";
import { PhysicalSection } from "./physical";

const MINUTES = 5;
/** Time between two requests for the marks of applications, in milliseconds. */
const MARKS_PERIOD = 10_000;
const SHARES = [UTILIZATION, BLOCKED];
/** Counters in the chart if the URL names none. */
const STANDARD = "port_xmit_data_bytes";

export function makePort(app: App, topology: Topology): View {
  return new PortView(app, topology);
}

/** Formats the number of data VLs with their names. */
function lanes(vls: number): string {
  return vls === 1 ? "1 (VL0)" : `${vls} (VL0 to VL${vls - 1})`;
}

/** Returns the rows of PortInfo except the LID, which the table already has. */
function portInfoFacts(info: PortDetail["port_info"]): [string, string][] {
  const { port_state, link_width_active, link_speed_active, source, changed, changed_ns } = info;
  const { mtu, vls } = info;
  const when = changed_ns === null ? "" : `, ${dateTime(changed_ns / 1e6)}`;
  return [
    ["Port state", port_state ?? "unknown"],
    ["Active width", link_width_active ?? "unknown"],
    ["Active speed", link_speed_active ?? "unknown"],
    ["Width and speed from", source === "file" ? "the net file" : "the device itself"],
    ["MTU", mtu === null ? "unknown" : `${mtu} bytes`],
    ["Data VLs", vls === null ? "unknown" : lanes(vls)],
    ...limitFacts(info.limits),
    ["Last link event", changed === null ? "none kept" : `${changed.replaceAll("_", " ")}${when}`],
  ];
}

/** Largest HOQLife that limits the time of a packet. */
const LAST_HOQ_LIFE = 19;

/** Returns the rows of what PortInfo reports besides the link. */
function limitFacts(limits: PortDetail["port_info"]["limits"]): [string, string][] {
  if (limits === null) return [["Limits of the port", "not read"]];
  const { mtu_cap, vl_cap, vl_high_limit, vl_stall_count, hoq_life } = limits;
  const { mkey_violations, pkey_violations, qkey_violations } = limits;
  const or = <Value>(value: Value | null, text: (value: Value) => string) =>
    value === null ? "not read" : text(value);
  const violations = [
    ["M_Key", mkey_violations],
    ["P_Key", pkey_violations],
    ["Q_Key", qkey_violations],
  ].flatMap(([name, number]) => (number ? [`${grouped(number)} ${name}`] : []));
  return [
    ["MTU of the port (MTUCap)", or(mtu_cap, (mtu) => `${mtu} bytes`)],
    ["VLs of the port (VLCap)", or(vl_cap, lanes)],
    ["VLHighLimit", or(vl_high_limit, highLimitText)],
    [
      "VLStallCount",
      or(vl_stall_count, (packets) =>
        packets === 0 ? "0, never stalls" : count(packets, "packet"),
      ),
    ],
    [
      "HOQLife",
      or(hoq_life, (n) =>
        n > LAST_HOQ_LIFE ? `${n}, no limit` : `${n}, ${duration(4.096e-6 * 2 ** n)}`,
      ),
    ],
    ["Wrong keys", violations.join(", ") || "none counted"],
  ];
}

function highLimitText(limit: number): string {
  if (limit === 255) return "255, no limit";
  return limit === 0 ? "0, one packet" : `${limit}, ${scaled(4096 * limit, "B")}`;
}

class PortView implements View {
  readonly element: HTMLElement;
  private readonly key: string;
  private readonly port: number;
  private readonly detail: Poll<PortDetail>;
  private readonly shares: Poll<SeriesAnswer>;
  private readonly counters: Poll<SeriesAnswer>;
  /** The same of the time before, if there is a comparison. */
  private readonly earlier: { shares: Poll<SeriesAnswer>; counters: Poll<SeriesAnswer> };
  private readonly shift: ShiftControl;
  private readonly errors: Poll<ErrorRows>;
  private readonly marks: Poll<MarkRows>;
  private readonly charts: { utilization: Chart; blocked: Chart; counters: Chart };
  private readonly facts = h("dl", { class: "facts" });
  private readonly ends = h("div", { class: "ends" });
  private readonly list = h("div", { class: "counter-list" });
  private readonly counterNote: HTMLElement;
  private readonly events: Table<FoldedEvent>;
  private readonly mode: { element: HTMLElement; update: () => void };
  private readonly physical: PhysicalSection;
  private readonly faults = h("p", { class: "port-faults", role: "status" });
  private readonly problem = h("p", { class: "alert-text" });
  private shownDetail: PortDetail | null = null;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    this.key = app.state.item;
    this.port = topology.indexOfKey(this.key);
    const changed = () => app.notify("values");
    this.detail = new Poll(app, `port/${this.key}`, () => ({}), changed, 1000);
    const series = (params: () => object, shift: number) =>
      new Poll<SeriesAnswer>(
        app,
        "series",
        () => this.range({ port: this.ports(), ...params() }, shift),
        changed,
        app.interval,
      );
    const shares = () => ({ metric: SHARES });
    const counters = () => ({ metric: this.chosen(), as: this.as });
    this.shares = series(shares, 0);
    this.counters = series(counters, 0);
    this.earlier = { shares: series(shares, app.shift), counters: series(counters, app.shift) };
    this.shift = new ShiftControl(app);
    this.errors = new Poll(app, "errors", () => app.spanParams, changed, 3000);
    this.marks = new Poll(
      app,
      "marks",
      () => this.range({ node: this.ports().map((key) => topology.nodeOf(key)), jobs: JOBS }),
      changed,
      MARKS_PERIOD,
    );
    const select = (from: number, to: number) => {
      const round = (time: number) => Math.round(time / app.interval) * app.interval;
      app.go(
        {
          range: { from: round(from), to: Math.max(round(from) + app.interval, round(to)) },
          at: null,
        },
        true,
      );
    };
    this.physical = new PhysicalSection(app, this.key, select);
    this.charts = {
      utilization: new Chart({
        title: "Utilization of each sending end",
        unit: "share",
        height: 170 * zoom(),
        select,
      }),
      blocked: new Chart({
        title: "Blocked share of each sending end",
        unit: "share",
        height: 150 * zoom(),
        select,
      }),
      counters: new Chart({ title: "Counters", unit: "", height: 180 * zoom(), select }),
    };
    this.mode = choice(
      "Counters as",
      [
        ["rate", "Rate"],
        ["total", "Total"],
      ] as const,
      () => this.as,
      (value) => app.setOption("as", value === "rate" ? "" : value),
    );
    this.events = new Table({
      label: "Events of this port",
      columns: eventColumns(app).filter(({ id }) => id !== "subject"),
      key: (row) => `${row.ts} ${row.event}`,
      sort: "ts",
      descending: true,
      empty: "No events.",
    });
    const counterPanel = panel("Counters", "counters");
    counterPanel.body.append(this.list);
    this.counterNote = counterPanel.note;
    const eventPanel = panel("Events", "port-events");
    eventPanel.body.append(this.events.element);
    const identity = panel("Port", "identity");
    identity.body.append(this.facts);
    this.element = h(
      "div",
      { class: "port-page" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, this.title),
        this.problem,
        h("span", { class: "space" }),
        this.shift.element,
        this.mode.element,
      ),
      this.faults,
      this.physical.verdict,
      this.ends,
      h(
        "section",
        { class: "panel charts", "aria-label": "Charts" },
        this.charts.utilization.element,
        this.charts.blocked.element,
        this.charts.counters.element,
      ),
      h("div", { class: "port-side" }, identity.element, counterPanel.element),
      this.physical.element,
      eventPanel.element,
    );
    this.drawEnds();
  }

  private get title(): string {
    return this.port < 0 ? `Port ${this.key}` : this.topology.nameOf(this.port);
  }

  private get as(): "rate" | "total" {
    return this.app.option("as") === "total" ? "total" : "rate";
  }

  private chosen(): string[] {
    const names = this.app
      .option("m")
      .split(",")
      .filter((name) => name !== "");
    return names.length > 0 ? names : [STANDARD];
  }

  /** Returns the keys of the port, of its peer, and of the ports to compare with. */
  private ports(): string[] {
    const others = this.app
      .option("with")
      .split(",")
      .filter((key) => key !== "");
    if (others.length > 0) return [this.key, ...others];
    const peer = this.port < 0 ? null : this.topology.ports[this.port].peer;
    return peer === null ? [this.key] : [this.key, this.topology.keyOf(peer)];
  }

  private get span(): { from: number; to: number } | null {
    const span = this.app.span;
    if (span === null || this.app.state.range !== null) return span;
    return { from: span.to - 60_000 * MINUTES, to: span.to };
  }

  private range<Params extends object>(
    params: Params,
    shift = 0,
  ): (Params & { from: string; to: string }) | null {
    const span = this.span;
    return span === null
      ? null
      : { ...params, from: nanoseconds(span.from - shift), to: nanoseconds(span.to - shift) };
  }

  update(changes: ReadonlySet<Change>): void {
    if (this.element.classList.contains("failed")) return;
    this.detail.refresh();
    if (this.port < 0 && this.detail.answer === null) {
      if (this.detail.error !== "") this.showProblem();
      return;
    }
    this.shares.refresh();
    this.counters.refresh();
    if (this.app.shift > 0) for (const poll of Object.values(this.earlier)) poll.refresh();
    this.shift.update(lackOf(this.app, this.span) || this.lack);
    this.errors.refresh();
    this.marks.refresh();
    this.physical.update();
    this.showFaults();
    this.mode.update();
    this.drawBars();
    this.drawCharts();
    const { answer } = this.detail;
    if (answer !== null) this.drawDetail(answer, changes);
    else if (this.detail.error !== "") setText(this.problem, this.detail.error);
  }

  /** Shows that the hub does not have the port. A new topology creates a new view. */
  private showProblem(): void {
    this.element.classList.add("failed");
    const list = h("a", { class: "action", href: this.app.href({ view: "ports" }) }, "All ports");
    this.problem.replaceChildren("The hub has no such port. ", list);
  }

  close(): void {
    const { detail, shares, counters, errors, marks, earlier } = this;
    for (const poll of [detail, shares, counters, errors, marks, ...Object.values(earlier)])
      poll.close();
    for (const chart of Object.values(this.charts)) chart.close();
    this.physical.close();
    this.events.close();
  }

  /** Shows the faults of both ends of the link and of its devices, or that there are none. */
  private showFaults(): void {
    const { answer } = this.errors;
    if (answer === null || this.port < 0) return;
    const { ports } = this.topology;
    const { peer } = ports[this.port];
    const ends = [this.port, ...(peer === null ? [] : [peer])].map((port) => ports[port]);
    const isOwn = ({ guid, port, link, increase }: ErrorRow) =>
      ends.some((end) => guid === end.guid && (port === end.port || (link ?? increase) === null));
    const rows = answer.rows.filter(isOwn).sort(bySeverity);
    const texts = rows.map((row) => {
      const when = row.increase === null ? sinceText(row) : rateText(row);
      return `${row.node} / ${row.port}: ${faultText(row)}${when === "" ? "" : ` (${when})`}`;
    });
    const time = this.app.state.range === null ? "in this minute" : "in the selected time";
    setText(this.faults, texts.length === 0 ? `The link has no fault ${time}.` : texts.join("; "));
    this.faults.classList.toggle("alert-text", rows.some(isSevere));
  }

  // --- both ends

  private drawEnds(): void {
    if (this.port < 0) return;
    const { peer } = this.topology.ports[this.port];
    const end = (port: number | null, title: string) =>
      h(
        "section",
        { class: "panel end-card" },
        h(
          "header",
          { class: "panel-head" },
          h("h2", {}, title),
          port === null
            ? h(
                "span",
                { class: "panel-note" },
                this.topology.peerNameOf(this.port) || "not known to the hub",
              )
            : h(
                "a",
                {
                  class: "panel-note",
                  href: this.app.href({ view: "port", item: this.topology.keyOf(port) }),
                },
                this.topology.nameOf(port),
              ),
        ),
        h(
          "div",
          { class: "end-line" },
          h("span", {}, "Utilization, sending"),
          h("span", { class: "row-bar" }),
        ),
        h(
          "div",
          { class: "end-line" },
          h("span", {}, "Blocked share"),
          h("span", { class: "row-bar" }),
        ),
      );
    this.ends.replaceChildren(end(this.port, "This end"), end(peer, "Other end"));
  }

  private drawBars(): void {
    if (this.port < 0) return;
    const { peer } = this.topology.ports[this.port];
    [this.port, peer].forEach((port, side) => {
      const bars = this.ends.children[side].querySelectorAll<HTMLElement>(".row-bar");
      const code = (metric: string) =>
        port === null ? 65535 : (this.app.values(metric)?.[port] ?? 65535);
      bar(bars[0], code(UTILIZATION), utilizationScale);
      bar(bars[1], code(BLOCKED), blockedScale);
    });
  }

  // --- charts

  /** Returns the curves, and behind them those of the time before. */
  private curves(
    { answer }: Poll<SeriesAnswer>,
    earlier: Poll<SeriesAnswer>,
    wanted: (metric: string) => boolean,
  ): Curve[] {
    const now = this.curvesOf(answer?.series ?? [], wanted);
    const { shift, interval } = this.app;
    const before = shift === 0 ? [] : this.curvesOf(earlier.answer?.series ?? [], wanted);
    const more = before.flatMap((curve, of): Curve[] =>
      of >= now.length
        ? []
        : [
            {
              ...moved(now[of], curve, shift, interval),
              label: `${curve.label}, ${shiftText(shift)}`,
              earlier: { of, shift },
            },
          ],
    );
    return [...now, ...more];
  }

  /** Says that the time before has no value. */
  private get lack(): string {
    const { error, answer } = this.earlier.shares;
    if (error !== "") return `before: ${error}`;
    const isEmpty = answer?.series.every(({ v }) => v.every((value) => value === null));
    return isEmpty ? "before: no value" : "";
  }

  private curvesOf(series: Series[], wanted: (metric: string) => boolean): Curve[] {
    return series
      .filter(({ metric }) => wanted(metric))
      .map(({ port, metric, t, v, state = [] }) => {
        const index = this.topology.indexOfKey(port);
        const name = index < 0 ? port : this.topology.nameOf(index);
        const share = SHARES.includes(metric);
        const notes = [
          state.includes("at_least") ? ", partly a lower bound" : "",
          state.includes("increase") ? ", increased at an unknown time" : "",
        ].join("");
        return {
          label: share ? name : `${name} ${metric.replaceAll("_", " ")}${notes}`,
          t: t.map((time) => time / 1e6),
          v,
          dashed: port !== this.key && this.app.option("with") === "",
        };
      });
  }

  private drawCharts(): void {
    const span = this.span;
    if (span === null) return;
    const { shares, counters: all, earlier } = this;
    const marks = this.marks.answer?.rows;
    const draw = (chart: Chart, curves: Curve[], unit?: string) =>
      chart.show(curves, span.from, span.to, unit, [], marks);
    const { utilization, blocked, counters } = this.charts;
    draw(
      utilization,
      this.curves(shares, earlier.shares, (metric) => metric === UTILIZATION),
    );
    draw(
      blocked,
      this.curves(shares, earlier.shares, (metric) => metric === BLOCKED),
    );
    draw(
      counters,
      this.curves(all, earlier.counters, () => true),
      this.unit,
    );
  }

  /**
   * Returns the unit of the chosen counters, which includes bytes only if all of them count bytes.
   */
  private get unit(): string {
    const bytes = this.chosen().every((name) => name.endsWith("_bytes"));
    return `${bytes ? "B" : ""}${this.as === "rate" ? "/s" : ""}`;
  }

  // --- identity and counters

  private drawDetail(detail: PortDetail, changes: ReadonlySet<Change>): void {
    if (detail === this.shownDetail && !changes.has("state")) return;
    this.shownDetail = detail;
    const age = (Date.now() - detail.ts / 1e6) / 1000;
    const { sampler, part_page: page } = detail;
    const facts: [string, string | Node][] = [
      ["Status", detail.status],
      [
        "Last answer",
        `${clock(detail.ts / 1e6)}, ${age < 2 ? "now" : `${duration(Math.round(age))} ago`}`,
      ],
      [
        "Link",
        `${detail.link}${detail.gbps === null ? "" : `, ${grouped(detail.gbps)} Gb/s`}${detail.link_source === "file" ? " (from the net file)" : ""}`,
      ],
      ["GUID", detail.guid],
      ["LID", String(detail.lid)],
      ["Device at this LID", detail.identity === "ok" ? "has this GUID" : detail.identity],
      ["Sampler", page === null ? sampler : this.partLink(sampler, page)],
      ["Round-trip time", duration(detail.rtt_ns / 1e9)],
      ...portInfoFacts(detail.port_info),
    ];
    this.facts.replaceChildren(
      ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
    this.drawCounters(detail);
    this.events.setRows(folded(detail.events));
  }

  /** Returns a link to this port on the page of the hub of its part, which has each slot. */
  private partLink(sampler: string, page: string): Node {
    const title = `This port on the page of its part: ${page}`;
    const href = page + this.app.href({ item: this.key });
    return h("a", { class: "name", href, title }, sampler);
  }

  private drawCounters(detail: PortDetail): void {
    const chosen = new Set(this.chosen());
    // Counters that are not 0 come first.
    const isZero = (name: string) => counterText(detail.counters[name]) === "0";
    const names = Object.keys(detail.counters).sort(
      (x, y) => Number(isZero(x)) - Number(isZero(y)),
    );
    setText(this.counterNote, `${count(names.length, "counter")}; choose those of the chart`);
    patch(
      this.list,
      names,
      (name) => name,
      (name) => this.counterRow(name),
      (element, name) => {
        const [label, value] = element.children;
        (label.firstElementChild as HTMLInputElement).checked = chosen.has(name);
        const full = detail.saturated.includes(name);
        setText(value, `${full ? "at least " : ""}${counterText(detail.counters[name])}`);
        (value as HTMLElement).title = full
          ? "The counter is saturated: it stopped at its maximum."
          : exact(name, detail.counters[name]);
        value.classList.toggle("alert-text", full);
      },
    );
  }

  private counterRow(name: string): HTMLElement {
    const input = h("input", {
      type: "checkbox",
      on: { change: () => this.toggle(name, input.checked) },
    });
    return h(
      "div",
      { class: "counter" },
      h("label", {}, input, name.replaceAll("_", " ")),
      h("span", { class: "number" }),
    );
  }

  private toggle(name: string, on: boolean): void {
    const chosen = new Set(this.chosen());
    if (on) chosen.add(name);
    else chosen.delete(name);
    this.app.setOption("m", [...chosen].join(","));
  }
}

function counterText(value: CounterValue): string {
  return Array.isArray(value) ? value.map((each) => grouped(each)).join(", ") : grouped(value);
}

function exact(name: string, value: CounterValue): string {
  if (Array.isArray(value)) return "";
  return name.endsWith("_bytes") ? scaled(Number(value), "B") : "";
}
