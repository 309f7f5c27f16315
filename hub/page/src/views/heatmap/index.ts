//! The heat map: rows over time. New slots enter at the right.

import { nanoseconds } from "../../contract/api";
import { type Cells, codeIn, hasValue } from "../../contract/frame";
import type { MarkRow, MarkRows, Metric } from "../../contract/types";
import { BAND, drawBand } from "../../draw/band";
import { clear, createSurface, noData, type Surface } from "../../draw/canvas";
import { metricName, scaleOf } from "../../draw/scale";
import { font, theme } from "../../draw/theme";
import type { App } from "../../model/app";
import { type Cell, timeCells, timeHeads } from "../../model/csv";
import { endsOf, JOBS, markText } from "../../model/marks";
import { baseUnit, cellText, valueCells, valueHeads } from "../../model/metric";
import { Poll } from "../../model/poll";
import { shiftText, signed } from "../../model/shift";
import type { Topology } from "../../model/topology";
import { clock, count, dateTime, duration } from "../../model/units";
import { choice } from "../../parts/choice";
import { h, setText } from "../../parts/dom";
import { legend, STATES } from "../../parts/meter";
import { apart, type Fingers, listenForPinch } from "../../parts/pinch";
import { saveButtons } from "../../parts/save";
import { lackOf, ShiftControl } from "../../parts/shift";
import { hideTip, showTip, type TipLine } from "../../parts/tooltip";
import type { View } from "../../parts/view";
import { Selection } from "../selection";
import { drawDense, drawRowNames, drawTimes, namesWidth, type Plot } from "./axes";
import { changeOf, differenceOf, differenceText, distance } from "./change";
import { type Bins, HeatPicture } from "./picture";
import { changeRange, RANGES, type Range, type RangeKind, rangeOf, usualRange } from "./range";
import {
  AGGREGATES,
  type Aggregate,
  type HeatRow,
  hottestOf,
  largestFirst,
  ROW_KINDS,
  type RowKind,
  ranksOf,
  rowsOf,
  rowsOfHosts,
} from "./rows";
import { Side } from "./side";
import { type Window, windowOf } from "./source";

const RIGHT = 16;
const TOP = 4;
const AXIS = 24;
/** Time between two requests for the marks of applications, in milliseconds. */
const MARKS_PERIOD = 10_000;
const LARGEST_ROW = 30;
/** Min height of a row with a label. */
const LABEL_ROW = 11;
/** Lengths of time to choose from, in minutes. */
const MINUTES = [
  ["2", "2 min"],
  ["5", "5 min"],
  ["15", "15 min"],
  ["60", "1 h"],
  ["360", "6 h"],
  ["1440", "24 h"],
] as const;
/** Time for which rows keep their order while new slots arrive, in milliseconds. */
const SORTED = 5000;
/** Min time that the picture shows, in milliseconds. */
const SHORTEST = 30_000;

/** What the picture shows of two times. */
const TIMES = [
  ["now", "Now"],
  ["before", "Before"],
  ["change", "Difference"],
] as const;

export function makeHeatmap(app: App, topology: Topology): View {
  return new Heatmap(app, topology);
}

class Heatmap implements View {
  readonly element: HTMLElement;
  private readonly surface: Surface & { close(): void };
  private readonly now: Side;
  private readonly before: Side;
  private readonly changes = new Map<number, { now: Cells; before: Cells; cells: Cells }>();
  private readonly shift: ShiftControl;
  private readonly marks: Poll<MarkRows>;
  private readonly picture = new HeatPicture();
  private readonly controls: { element: HTMLElement; update: () => void }[];
  private readonly legend = h("div", {});
  private readonly note = h("span", { class: "muted" });
  private readonly metrics: HTMLSelectElement;
  private readonly times: HTMLSelectElement;
  /** A metric in the URL that the hub does not have. */
  private unknown = "";
  private rows: HeatRow[] = [];
  private rowKey = "";
  /** Width of the names of the rows and of their groups, in units. */
  private names = 0;
  private readonly selection: Selection;
  private order: Uint32Array = new Uint32Array();
  private orderKey = "";
  /** The rows with the largest values, the hottest first. */
  private hottest: Uint32Array = new Uint32Array();
  private rankKey = "";
  private range: Range = { share: () => 0, ticks: [], key: "" };
  private legendKey = "";
  /** Whether the picture is still that of the last setting, because no new column has arrived. */
  private isOld = false;
  /** Whether the difference is chosen, and the values of before have not come yet. */
  private isAlone = false;
  /** Whether there is a picture of which most columns are known. */
  private isPicture = false;
  private window: Window | null = null;
  /** First visible row, and height of a row in pixels; 0 fits all rows. */
  private top = 0;
  private size = 0;
  private pointer: { x: number; y: number } | null = null;
  private drag: { x: number; y: number; top: number; from: number; moved: boolean } | null = null;
  /** Time range under moving fingers, in milliseconds. The URL gets it when they leave. */
  private moved: { from: number; to: number } | null = null;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    const loaded = () => app.notify("values");
    this.now = new Side(app, loaded, 0);
    this.before = new Side(app, loaded, app.shift);
    this.shift = new ShiftControl(app);
    this.marks = new Poll(
      app,
      "marks",
      () => this.shownTime(),
      () => app.notify("values"),
      MARKS_PERIOD,
    );
    this.selection = new Selection(app);
    this.metrics = h("select", {
      "aria-label": "Metric",
      on: { change: () => app.go({ metric: this.metrics.value }) },
    });
    this.controls = [
      choice(
        "Rows",
        ROW_KINDS.map(
          (kind) =>
            [
              kind,
              `${kind.charAt(0).toUpperCase()}${kind.slice(1)}${kind === "switch" ? "es" : "s"}`,
            ] as const,
        ),
        () => this.kind,
        (value) => this.set("by", value, "port"),
      ),
      choice(
        "Combination of values",
        AGGREGATES.map((name) => [name, name] as const),
        () => this.aggregate,
        (value) => this.set("agg", value, "max"),
      ),
      choice(
        "Order",
        [["value", "Largest first"]] as const,
        () => (this.byValue ? "value" : null),
        () => this.set("order", this.byValue ? "" : "value", ""),
      ),
    ];
    const times = choice(
      "Time",
      TIMES,
      () => this.chosen,
      (value) => this.set("time", value, "change"),
    );
    if (app.shift > 0) this.controls.push(times);
    const range = choice(
      "Range of the colours",
      [
        ["shown", "Shown values"],
        ["full", "Full scale"],
      ] as const,
      () => this.rangeKind,
      (value) => this.set("range", value, this.usual),
    );
    this.times = h(
      "select",
      { "aria-label": "Time", on: { change: () => this.set("min", this.times.value, "5") } },
      ...MINUTES.map(([minutes, text]) => h("option", { value: minutes }, text)),
    );
    const frame = h("div", {
      class: "picture",
      tabindex: 0,
      role: "group",
      "aria-label": "Heat map. Up and down scroll, plus and minus zoom.",
    });
    this.element = h(
      "div",
      { class: "fill heatmap" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Heat map"),
        this.metrics,
        this.times,
        ...this.controls.map(({ element }) => element),
        ...this.selection.elements,
        this.shift.element,
        saveButtons({
          title: "Heat map",
          rows: () => this.saved(),
          layers: () => [this.surface.canvas],
          unit: () =>
            `${baseUnit(app.metric(app.state.metric)).unit}, ${this.aggregate} by ${this.kind}`,
          span: () => this.shownRange,
        }),
      ),
      frame,
      h("div", { class: "foot" }, this.legend, range.element, this.note),
    );
    this.controls.push(range);
    this.surface = createSurface(frame, "Heat map", () => {
      // A new size has cleared the canvas.
      this.isOld = this.isPicture = false;
      this.draw();
    });
    this.listen(frame);
  }

  private get kind(): RowKind {
    const kind = this.app.option("by") as RowKind;
    return ROW_KINDS.includes(kind) ? kind : "port";
  }

  private get aggregate(): Aggregate {
    const name = this.app.option("agg") as Aggregate;
    return AGGREGATES.includes(name) ? name : "max";
  }

  private get minutes(): string {
    const text = this.app.option("min");
    return MINUTES.some(([minutes]) => minutes === text) ? text : "5";
  }

  private get rangeKind(): RangeKind {
    const kind = this.app.option("range") as RangeKind;
    return RANGES.includes(kind) ? kind : this.usual;
  }

  private get usual(): RangeKind {
    return this.time === "change" ? "shown" : usualRange(this.app.metric(this.app.state.metric));
  }

  /** Returns what the picture shows: one of two times, or their difference. */
  private get time(): (typeof TIMES)[number][0] {
    return this.isAlone ? "now" : this.chosen;
  }

  private get chosen(): (typeof TIMES)[number][0] {
    if (this.app.shift === 0) return "now";
    return TIMES.find(([name]) => name === this.app.option("time"))?.[0] ?? "change";
  }

  /** Returns the times that the picture shows. */
  private get sides(): Side[] {
    return { now: [this.now], before: [this.before], change: [this.now, this.before] }[this.time];
  }

  /** Returns how much earlier the picture is than its columns, in milliseconds. */
  private get earlier(): number {
    return this.time === "before" ? this.app.shift : 0;
  }

  private get byValue(): boolean {
    return this.app.option("order") === "value";
  }

  private set(name: string, value: string, standard: string): void {
    this.top = 0;
    this.app.setOption(name, value === standard ? "" : value);
  }

  get zoomed(): { top: number; size: number } {
    return { top: this.top, size: this.size };
  }

  set zoomed({ top, size }: { top: number; size: number }) {
    [this.top, this.size] = [top, size];
    this.draw();
  }

  update(): void {
    for (const { update } of this.controls) update();
    this.showMetrics();
    this.selection.update();
    this.findRows();
    const range = this.moved ?? this.app.state.range;
    const slot = this.app.shown;
    if (slot === null) return;
    const to = range?.to ?? this.app.timeOf(slot);
    const from = range?.from ?? Math.max(to - 60_000 * Number(this.minutes), this.oldest(to));
    const window = windowOf(
      this.app,
      this.topology.ports.length,
      this.app.state.metric,
      this.aggregate,
      from,
      to,
    );
    // The tip and the range of the colours have both times.
    this.now.want(window);
    if (this.app.shift > 0) this.before.want(window);
    for (const column of this.changes.keys())
      if (column < window.first) this.changes.delete(column);
    this.shift.update(lackOf(this.app, { from, to }));
    // The first picture does not wait for the other time.
    const isFirst = this.isAlone || !this.isPicture;
    const isLate = this.chosen === "change" && this.before.source.isWaiting(window);
    this.isAlone = isFirst && isLate && !this.now.source.isWaiting(window);
    // A picture stays until the hub has answered.
    const isWaiting = this.sides.some(({ source }) => source.isWaiting(window));
    this.isOld = this.isPicture && isWaiting;
    this.isPicture ||= !isWaiting;
    if (this.isOld) {
      hideTip();
      return;
    }
    this.window = window;
    this.marks.refresh();
    const all = (of: (column: number) => Cells | null) =>
      Array.from({ length: window.columns }, (_, at) => of(window.first + at));
    const columns = all((column) => this.values(column));
    this.arrange(window, columns);
    const metric = this.app.metric(window.metric);
    const isBoth = this.app.shift > 0 && this.time !== "change";
    const both = isBoth
      ? [this.now, this.before].flatMap((side) => all((at) => this.of(side, at)))
      : columns;
    this.range =
      this.time === "change"
        ? changeRange(metric, this.rangeKind, columns)
        : rangeOf(metric, this.rangeKind, both, this.fastest());
    this.showLegend(metric);
    this.draw();
  }

  private shownTime(): { from: string; to: string; jobs: number } | null {
    if (this.window === null) return null;
    const { from, to } = this.shownRange;
    return {
      from: nanoseconds(from - this.earlier),
      to: nanoseconds(to - this.earlier),
      jobs: JOBS,
    };
  }

  /** Returns the rate of the fastest link in the picture in Gb/s, or 0 if none is known. */
  private fastest(): number {
    const { ports } = this.topology;
    const rates = this.rows.flatMap((row) => row.ports.map((port) => ports[port].gbps ?? 0));
    return rates.reduce((most, rate) => Math.max(most, rate), 0);
  }

  private showLegend({ name }: Metric): void {
    const isChange = this.time === "change";
    const key = `${name} ${this.range.key} ${this.range.ticks.at(-1)?.text}`;
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(
      legend(
        [
          [
            `${metricName(name)}${isChange ? `, compared with ${shiftText(this.app.shift)}` : ""}`,
            this.range.scale ?? scaleOf(name),
            this.range.ticks,
          ],
        ],
        [
          ...(isChange ? [["no-data", "no data at one of both times"] as const] : STATES),
          ["at-least", "some values are missing"],
          ...(name === "errors" && !isChange
            ? [["increase", "errors at an unknown time"] as const]
            : []),
        ],
      ),
    );
  }

  close(): void {
    this.surface.close();
    this.now.source.close();
    this.before.source.close();
    this.marks.close();
    this.selection.close();
    hideTip();
  }

  private showMetrics(): void {
    const names = this.app.metrics.map(({ name }) => name);
    if (this.metrics.options.length < names.length) {
      this.metrics.replaceChildren(
        ...names.map((name) => h("option", { value: name }, metricName(name))),
      );
      this.unknown = "";
    }
    const { metric } = this.app.state;
    if (!names.includes(metric) && metric !== this.unknown) {
      // Shows the unknown name from the URL, because the control would otherwise be empty.
      this.unknown = metric;
      this.metrics.append(h("option", { value: metric, disabled: true }, `${metric}: not known`));
    }
    this.metrics.value = this.app.state.metric;
    this.times.value = this.minutes;
    // A selected range determines its own length.
    this.times.disabled = this.app.state.range !== null;
  }

  /** Computes the rows again if a setting changed. */
  private findRows(): void {
    const { hosts, key: selected } = this.selection;
    const rowKey = `${this.kind} ${selected}`;
    if (rowKey !== this.rowKey) {
      this.rowKey = rowKey;
      const all = rowsOf(this.topology, this.kind);
      this.rows = hosts.size > 0 ? rowsOfHosts(this.topology, all, hosts) : all;
      this.names = namesWidth(this.surface.context, this.rows);
      this.size = 0;
      this.top = 0;
      this.orderKey = "";
    }
  }

  /**
   * Ranks the rows by their values in the shown time, and sorts them. While that time moves, both
   * stay for some seconds.
   */
  private arrange(window: Window, all: readonly (Cells | null)[]): void {
    const { metric, aggregate, first, columns, step } = window;
    const time = Math.floor((first * step) / SORTED);
    const answers = this.now.source.answers + this.before.source.answers;
    const shown = `${metric} ${aggregate} ${columns} ${step} ${time} ${answers}`;
    const rankKey = `${this.rowKey} ${this.time} ${shown}`;
    const orderKey = this.byValue ? rankKey : `${this.rowKey} ${this.time}`;
    if (rankKey === this.rankKey && orderKey === this.orderKey) return;
    const rank = this.time === "change" ? distance : undefined;
    const ranks = ranksOf(this.rows.length, all, this.aggregate, rank);
    this.hottest = hottestOf(ranks);
    this.rankKey = rankKey;
    if (orderKey === this.orderKey) return;
    this.orderKey = orderKey;
    this.order = this.byValue ? largestFirst(ranks) : Uint32Array.from(ranks.keys());
  }

  /** Returns the values of a column at one time, by row; null while they are loading. */
  private of(side: Side, column: number): Cells | null {
    const isPorts = this.kind === "port" && this.rows.length === this.topology.ports.length;
    return side.values(this.window!, column, this.rows, isPorts, this.rowKey);
  }

  /** Returns the values or the differences that a column shows. */
  private values(column: number): Cells | null {
    return this.time === "change"
      ? this.changed(column)
      : this.of(this.time === "before" ? this.before : this.now, column);
  }

  private changed(column: number): Cells | null {
    const [now, before] = [this.of(this.now, column), this.of(this.before, column)];
    if (now === null || before === null) return null;
    const known = this.changes.get(column);
    if (known?.now === now && known.before === before) return known.cells;
    const cells = changeOf(now, before);
    this.changes.set(column, { now, before, cells });
    return cells;
  }

  /**
   * Returns the start of what the hub keeps, so that the picture does not begin with an empty part.
   */
  private oldest(to: number): number {
    const kept = this.app.health?.kept;
    const first = kept?.archive_from_ns ?? kept?.minutes_from_ns ?? kept?.from_ns ?? 0;
    return Math.min(first / 1e6, to - SHORTEST);
  }

  // --- drawing

  private get left(): number {
    return Math.min(this.names, 210, 0.28 * this.surface.width);
  }

  private get plot(): Plot {
    return {
      x: this.left,
      y: this.above,
      width: this.surface.width - this.left - RIGHT,
      height: this.height,
    };
  }

  private get height(): number {
    return this.surface.height - this.above - AXIS;
  }

  /** Height above the rows, in units. */
  private get above(): number {
    return TOP + ((this.marks.answer?.rows.length ?? 0) > 0 ? BAND : 0);
  }

  /** Height of a row if all rows fit, in pixels. With the largest rows first, each has its name. */
  private get fit(): number {
    const fit = Math.min(this.height / Math.max(1, this.rows.length), LARGEST_ROW);
    return this.byValue ? Math.max(fit, LABEL_ROW) : fit;
  }

  /** Height of a row in pixels. */
  private get row(): number {
    return Math.max(this.fit, this.size);
  }

  private draw(): void {
    const window = this.window;
    if (window === null || this.surface.width === 0 || this.rows.length === 0 || this.isOld) return;
    const context = clear(this.surface);
    const { x, y, width, height } = this.plot;
    const row = this.row;
    const visible = height / row;
    this.top = Math.max(0, Math.min(this.top, this.rows.length - visible));
    // A row of pixels shows the max of its rows, so that no row is lost.
    const perBin = Math.max(1, Math.ceil(1 / row));
    const first = Math.floor(this.top / perBin) * perBin;
    const bins: Bins = {
      first,
      rows: perBin,
      count: Math.ceil(Math.min(visible + perBin, this.rows.length - first) / perBin),
    };
    this.picture.update(
      window,
      bins,
      this.range,
      this.order,
      `${this.orderKey} ${window.aggregate}`,
      (column) => this.values(column),
    );
    context.save();
    context.beginPath();
    context.rect(x, y, width, Math.min(height, this.rows.length * row));
    context.clip();
    context.fillStyle = noData(context);
    context.fillRect(x, y, width, height);
    this.picture.paint(
      context,
      window,
      x,
      y - (this.top - first) * row,
      width,
      bins.count * perBin * row,
    );
    context.restore();
    const shown = { rows: this.rows, order: this.order, top: this.top, height: row };
    if (row >= LABEL_ROW) drawRowNames(context, this.plot, shown);
    else drawDense(context, this.plot, shown, this.hottest);
    const bottom = y + Math.min(height, this.rows.length * row);
    const first_ms = window.first * window.step - this.earlier;
    drawTimes(context, this.plot, bottom, { ...window, first: first_ms / window.step });
    const place = (time: number) =>
      x + (width * (time - first_ms)) / (window.columns * window.step);
    const area = { left: x, right: x + width, bottom: y, foot: bottom };
    drawBand(context, this.marks.answer?.rows ?? [], area, place);
    this.writeLoading(context, window);
    this.cross(context);
    this.describe(window);
  }

  /** Says that the columns at the left are still loading. */
  private writeLoading(context: CanvasRenderingContext2D, window: Window): void {
    const { x, y, width, height } = this.plot;
    let columns = 0;
    while (columns < window.columns && this.values(window.first + columns) === null) columns++;
    if (columns === 0) return;
    context.font = font(13);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = theme().muted;
    const room = (width * columns) / window.columns;
    context.fillText("Loading…", x + room / 2, y + height / 2, room);
  }

  private cross(context: CanvasRenderingContext2D): void {
    if (this.pointer === null || this.drag?.moved) return;
    const { x, y, width, height } = this.plot;
    context.fillStyle = theme().ink;
    context.globalAlpha = 0.35;
    context.fillRect(x, Math.round(this.pointer.y), width, 1);
    context.fillRect(
      Math.round(this.pointer.x),
      y,
      1,
      Math.min(height, this.rows.length * this.row),
    );
    context.globalAlpha = 1;
  }

  private describe(window: Window): void {
    const names = { port: "port", link: "link", switch: "switch", host: "host" };
    const kind = names[this.kind];
    const rows = count(this.rows.length, kind, kind === "switch" ? "switches" : `${kind}s`);
    const { sides } = this;
    const failed = sides.map(({ source }) => source.error).find((error) => error !== "") ?? "";
    const perLine = Math.max(1, Math.ceil(1 / this.row));
    const merged =
      perLine === 1
        ? ""
        : `, ${perLine} to a line: a fault of a quarter of them, or the largest value`;
    const isScrolled = this.row * this.rows.length > this.height + 1;
    const length = window.step < 60_000 ? `${window.step / 1000} s` : duration(window.step / 1000);
    const alone = `. Loading the values of ${shiftText(this.app.shift)}: the picture has those of now`;
    const shown = `${rows}${merged}, ${length} a column${this.isAlone ? alone : ""}`;
    const hasMetric = this.app.metrics.some(({ name }) => name === window.metric);
    const error = hasMetric ? failed : `The hub has no metric ${window.metric}`;
    const hint = `${isScrolled ? "Dragging scrolls, " : ""}${zoomText()}.`;
    const hasMarks = (this.marks.answer?.rows.length ?? 0) > 0;
    const lines = hasMarks
      ? ` Thin lines are jobs and marks: ${isTouch() ? "a tap" : "the pointer"} names them.`
      : "";
    this.note.classList.toggle("alert-text", error !== "");
    setText(this.note, error === "" ? `${shown}. ${hint}${lines}` : `${error}.`);
    this.surface.canvas.setAttribute(
      "aria-label",
      `Heat map of ${metricName(window.metric)}: ${rows}. The views Links and Ports have the same values as tables.`,
    );
  }

  /** Returns all rows, also those that the picture has scrolled away: one line for each cell. */
  private *saved() {
    const { window } = this;
    if (window === null) return;
    const metric = this.app.metric(window.metric);
    const times = { now: "", before: shiftText(this.app.shift), change: this.changeTitle };
    const parts = [metricName(window.metric), window.aggregate, times[this.time]];
    yield ["Row", ...timeHeads("End"), ...valueHeads(metric, parts.filter(Boolean).join(", "))];
    for (let at = 0; at < window.columns; at++) {
      const cells = this.values(window.first + at);
      const end = timeCells(1e6 * ((window.first + at + 1) * window.step - this.earlier));
      for (const index of this.order)
        yield [
          this.rows[index].label,
          ...end,
          ...(cells === null ? [null, "loading"] : this.savedCells(metric, cells[index])),
        ];
    }
  }

  private get changeTitle(): string {
    return `change to ${shiftText(this.app.shift)}`;
  }

  /** Returns a value or a difference in the base unit, and the state of a cell that is not exact. */
  private savedCells(metric: Metric, cell: number): Cell[] {
    const cells = valueCells(metric, cell);
    if (this.time !== "change" || cells[0] === null) return cells;
    const [, state] = cells;
    return [
      differenceOf(metric, codeIn(cell)) * baseUnit(metric).factor,
      state === null ? null : "of values that are at least",
    ];
  }

  // --- pointer and keys

  private hit(x: number, y: number): { row: HeatRow; index: number; column: number } | null {
    const plot = this.plot;
    const window = this.window;
    if (window === null || this.isOld || x < 0 || y < plot.y || x > plot.x + plot.width)
      return null;
    const place = Math.floor(this.top + (y - plot.y) / this.row);
    if (place >= this.rows.length || y > plot.y + plot.height) return null;
    const column = window.first + Math.floor((window.columns * (x - plot.x)) / plot.width);
    return {
      row: this.rows[this.order[place]],
      index: this.order[place],
      column: Math.min(column, window.first + window.columns - 1),
    };
  }

  private listen(frame: HTMLElement): void {
    let held = { row: 0, from: 0, to: 0 };
    listenForPinch(
      frame,
      () => {
        this.drag = null;
        this.pointer = null;
        hideTip();
        held = { row: this.row, ...this.shownRange };
      },
      (first, now) => this.pinch(held, first, now),
      () => this.settle(),
    );
    frame.addEventListener("pointermove", (event) => this.move(event));
    frame.addEventListener("pointerleave", () => {
      this.pointer = null;
      hideTip();
      this.draw();
    });
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      const [x, y] = this.surface.at(event);
      this.drag = { x, y, top: this.top, from: this.shownRange.from, moved: false };
    });
    frame.addEventListener("pointerup", (event) => {
      const moved = this.drag?.moved ?? true;
      this.drag = null;
      if (!moved) this.open(...this.surface.at(event));
      else this.settle();
    });
    frame.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        if (event.shiftKey) this.scroll(event.deltaY / this.row);
        else this.zoom(event.deltaY < 0 ? 1.25 : 0.8, this.surface.at(event)[1]);
      },
      { passive: false },
    );
    frame.addEventListener("keydown", (event) => this.key(event));
  }

  private move(event: PointerEvent): void {
    if (this.drag !== null) {
      const [x, y] = this.surface.at(event);
      const by = { x: x - this.drag.x, y: y - this.drag.y };
      if (Math.hypot(by.x, by.y) > 3) this.drag.moved = true;
      if (this.drag.moved) this.top = this.drag.top - by.y / this.row;
      // The live picture ends with the newest slot.
      if (this.drag.moved && this.app.state.range !== null) {
        const { from, to } = this.shownRange;
        this.show(this.drag.from - (by.x * (to - from)) / this.plot.width, to - from);
      }
    }
    const inside = this.surface.at(event)[0] >= this.plot.x;
    this.pointer = inside ? { x: this.surface.at(event)[0], y: this.surface.at(event)[1] } : null;
    this.draw();
    const hit = this.hit(...this.surface.at(event));
    if (hit === null || !inside) hideTip();
    else showTip(event.clientX, event.clientY, this.tip(hit));
  }

  private tip({ row, index, column }: { row: HeatRow; index: number; column: number }): TipLine[] {
    const window = this.window!;
    const metric = this.app.metric(window.metric);
    const textOf = (side: Side) => {
      const cell = this.of(side, column)?.[index];
      return cell === undefined
        ? "loading…"
        : cellText(metric, cell, row.ports.length, window.aggregate);
    };
    const end = (column + 1) * window.step;
    const span =
      window.step > this.app.interval
        ? `${dateTime(end - window.step)} to ${clock(end)}`
        : dateTime(end);
    // A line is met if the pointer is near it.
    const near = (4 * window.step * window.columns) / this.plot.width;
    const shown = end - this.earlier;
    const isIn = (mark: MarkRow) =>
      endsOf(mark).some((time) => Math.abs(time - shown + window.step / 2) <= near) ||
      (mark.kind !== "job" &&
        mark.start_ns / 1e6 < shown &&
        (mark.end_ns ?? Number.POSITIVE_INFINITY) / 1e6 > shown - window.step);
    const marks = (this.marks.answer?.rows ?? [])
      .filter(isIn)
      .map((mark) => (mark.kind === "phase" ? mark.name : markText(mark)));
    const lines: TipLine[] = [
      row.label,
      [metricName(window.metric), textOf(this.now)],
      [window.step > this.app.interval ? "Sweeps" : "Sweep ends", span],
    ];
    const { shift } = this.app;
    if (shift > 0) {
      const change = codeIn(this.changed(column)?.[index] ?? -1);
      lines.push([shiftText(shift), textOf(this.before)], ["At", dateTime(end - shift)]);
      if (hasValue(change) && change >= 0) {
        const difference = differenceOf(metric, change);
        lines.push(["Change", signed(difference, (size) => differenceText(metric, size))]);
      }
    }
    if (marks.length > 0) lines.push(["Marks", [...new Set(marks)].join(", ")]);
    return lines;
  }

  private open(x: number, y: number): void {
    const hit = this.hit(x, y);
    if (hit === null) return;
    const at =
      x >= this.plot.x && !this.app.isLive && this.app.state.range === null
        ? (hit.column + 1) * this.window!.step - this.earlier
        : this.app.state.at;
    const single = hit.row.ports.length <= 2;
    if (single)
      this.app.go(
        { view: "port", item: this.topology.keyOf(hit.row.ports[0]), options: {}, at },
        true,
      );
    else this.app.go({ view: "ports", item: "", options: { q: hit.row.label }, at }, true);
  }

  private zoom(factor: number, y: number): void {
    const plot = this.plot;
    const before = this.row;
    const { fit } = this;
    const size = Math.max(fit, Math.min(LARGEST_ROW, before * factor));
    const row = this.top + (y - plot.y) / before;
    this.size = size <= fit * 1.001 ? 0 : size;
    this.top = row - (y - plot.y) / this.row;
    this.draw();
  }

  /** Zooms the time or the rows, by how two fingers lay at first. */
  private pinch(held: { row: number; from: number; to: number }, first: Fingers, now: Fingers) {
    const middle = ([one, two]: Fingers, axis: 0 | 1) =>
      (this.surface.at(one)[axis] + this.surface.at(two)[axis]) / 2;
    const isTime = apart(first, "offsetX") >= apart(first, "offsetY");
    const axis = isTime ? "offsetX" : "offsetY";
    const factor = apart(now, axis) / apart(first, axis);
    if (!isTime) {
      this.zoom((held.row * factor) / this.row, middle(now, 1));
      return;
    }
    const { x, width } = this.plot;
    const share = (fingers: Fingers) => (middle(fingers, 0) - x) / width;
    const length = (held.to - held.from) / factor;
    this.show(held.from + share(first) * (held.to - held.from) - share(now) * length, length);
  }

  /** Shows a time range within what the hub keeps, in milliseconds. */
  private show(from: number, length: number): void {
    const { latest, interval } = this.app;
    if (latest === null) return;
    const end = this.app.timeOf(latest);
    const oldest = this.oldest(end);
    const most = Math.max(SHORTEST, Math.min(length, end - oldest));
    const start = interval * Math.round(Math.max(oldest, Math.min(from, end - most)) / interval);
    this.moved = { from: start, to: start + interval * Math.round(most / interval) };
    this.app.notify("values");
  }

  /** Keeps the time range that the fingers left. */
  private settle(): void {
    if (this.moved !== null) this.app.go({ range: this.moved, at: null }, true);
    this.moved = null;
  }

  /** Returns the time range of the picture in milliseconds. */
  private get shownRange(): { from: number; to: number } {
    const { first, columns, step } = this.window ?? { first: 0, columns: 1, step: SHORTEST };
    return { from: first * step, to: (first + columns) * step };
  }

  private scroll(rows: number): void {
    this.top += rows;
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const page = this.plot.height / this.row;
    const middle = this.plot.y + this.plot.height / 2;
    if (event.key === "ArrowDown") this.scroll(1);
    else if (event.key === "ArrowUp") this.scroll(-1);
    else if (event.key === "PageDown") this.scroll(page);
    else if (event.key === "PageUp") this.scroll(-page);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25, middle);
    else if (event.key === "-") this.zoom(0.8, middle);
    else if (event.key === "0") this.zoom(0, middle);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function isTouch(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}

/** Returns how the picture is zoomed and opened on this device. */
function zoomText(): string {
  return isTouch()
    ? "Two fingers zoom, a tap opens"
    : "The wheel or two fingers zoom, a click opens";
}
