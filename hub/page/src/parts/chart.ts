//! A chart of values over time. Several charts share their time axis and their cursor.

import uPlot from "uplot";
import type { MarkRow } from "../contract/types";
import { BAND, drawBand } from "../draw/band";
import { noData } from "../draw/canvas";
import { LINES } from "../draw/lines";
import { font, theme, zoom } from "../draw/theme";
import { timeTicks } from "../draw/ticks";
import { courseRows } from "../model/csv";
import type { Span } from "../model/group";
import { markText } from "../model/marks";
import { axisTexts } from "../model/metric";
import { significantRatio } from "../model/ratio";
import { changeText, points } from "../model/shift";
import { clock, dayTime, percent, scaled } from "../model/units";
import { h, patch, setStyle, setText } from "./dom";
import { saveButtons } from "./save";

export interface Curve {
  label: string;
  /** Ends of the intervals, in milliseconds since 1970, ascending. */
  t: number[];
  /** Null is a gap. */
  v: (number | null)[];
  dashed?: boolean;
  /** The sum of curves that have none of their own. */
  isRest?: boolean;
  /** Of earlier values: the curve of now, and how much earlier they are in milliseconds. */
  earlier?: { of: number; shift: number };
}

interface Options {
  title: string;
  /** `share`, or a unit that takes decimal prefixes. */
  unit: string;
  height: number;
  /**
   * Stacks the curves: each is an area above those after it in the list. All of them have the
   * same times.
   */
  stacked?: boolean;
  /**
   * Logarithmic, or around the values, instead of from zero. Such values are read seldom, so each of
   * them has a mark.
   */
  scale?: "log" | "near";
  /** Called when the user selects a time range. */
  select: (from: number, to: number) => void;
}

/** Max number of marks of a chart that can have the focus. */
const MAX_FLAGS = 30;

const SYNC = uPlot.sync("time");

export class Chart {
  readonly element: HTMLElement;
  private readonly body = h("div", { class: "chart-body" });
  private readonly note = h("span", { class: "chart-note" });
  /** One element for each mark, which shows its text under the pointer or with the focus. */
  private readonly flags = h("div", { class: "mark-flags" });
  private plot: uPlot | null = null;
  private shape = "";
  /** The values of the curves before stacking. */
  private own: (number | null | undefined)[][] = [];
  /** Intervals in which a curve of a sum has no value. */
  private partial: Span[] = [];
  private marks: readonly MarkRow[] = [];
  /** What is shown, for the file that a user saves. */
  private shown = { curves: [] as Curve[], from: 0, to: 0, unit: "" };
  private readonly observer: ResizeObserver;
  private readonly options: Options;

  constructor(options: Options) {
    this.options = options;
    this.element = h(
      "figure",
      { class: "chart", role: "group", "aria-label": options.title },
      h(
        "figcaption",
        {},
        options.title,
        this.note,
        saveButtons({
          title: options.title,
          rows: () => courseRows(this.shown.curves, this.shown.unit),
          layers: () => (this.plot === null ? [] : [this.plot.ctx.canvas]),
          lines: () =>
            this.shown.curves.map(({ label, dashed = false, earlier, isRest }, index) => ({
              color: isRest ? theme().faint : lineColor(earlier?.of ?? index),
              text: label,
              dashed,
            })),
          unit: () => this.shown.unit,
          span: () => this.shown,
        }),
      ),
      this.body,
    );
    this.body.append(this.flags);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.body);
  }

  /**
   * Shows curves over a time range, in milliseconds since 1970. Curves can have different times.
   * The intervals in `partial` are dotted, because a part of their sum is missing. The marks of
   * applications are a band above the curves.
   */
  show(
    curves: Curve[],
    from: number,
    to: number,
    unit = this.options.unit,
    partial: Span[] = [],
    marks: readonly MarkRow[] = [],
  ): void {
    const width = this.body.clientWidth;
    if (width === 0) return;
    this.marks = marks;
    this.shown = { curves, from, to, unit };
    const shape = JSON.stringify([
      unit,
      marks.length > 0,
      curves.map(({ label, dashed, earlier }) => [label, dashed, earlier]),
    ]);
    const all = joined(curves);
    this.own = all.slice(1) as (number | null | undefined)[][];
    this.partial = partial;
    setText(this.note, partial.length === 0 ? "" : " – dotted: some ports have no data");
    const data = this.options.stacked ? stacked(all) : all;
    if (shape !== this.shape || this.plot === null) {
      this.shape = shape;
      this.plot?.destroy();
      this.plot = new uPlot(this.setup(curves, width, unit), data, this.body);
    } else this.plot.setData(data, false);
    this.plot.setScale("x", { min: from / 1000, max: to / 1000 });
  }

  close(): void {
    this.observer.disconnect();
    if (this.plot !== null) SYNC.unsub(this.plot);
    this.plot?.destroy();
  }

  private resize(): void {
    const width = this.body.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) {
      this.plot.setSize({ width, height: this.options.height });
    }
  }

  /** Marks intervals with incomplete sums, behind the curves. */
  private drawPartial(plot: uPlot): void {
    const { ctx, bbox } = plot;
    if (this.partial.length === 0) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = noData(ctx);
    for (const { from, to } of this.partial) {
      const [left, right] = [from, to].map((time) => plot.valToPos(time / 1000, "x", true));
      ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
    }
    ctx.restore();
  }

  private drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const { left, top } = bbox;
    const area = { left, right: left + bbox.width, bottom: top, foot: top + bbox.height };
    const place = (time: number) => plot.valToPos(time / 1000, "x", true);
    drawBand(ctx, this.marks, area, place, uPlot.pxRatio * zoom());
    this.placeFlags(plot, left / uPlot.pxRatio, (left + bbox.width) / uPlot.pxRatio);
  }

  private placeFlags(plot: uPlot, left: number, right: number): void {
    const at = (ns: number) => left + plot.valToPos(ns / 1e9, "x");
    const shown = this.marks.filter(
      ({ start_ns }) => at(start_ns) >= left && at(start_ns) <= right,
    );
    patch(
      this.flags,
      shown.slice(-MAX_FLAGS),
      ({ kind, id, start_ns, name }) => `${kind} ${id} ${start_ns} ${name}`,
      () =>
        h("span", {
          class: "mark-flag",
          role: "img",
          tabindex: 0,
        }),
      (flag, mark) => {
        flag.setAttribute("aria-label", markText(mark));
        setStyle(flag, { left: `${at(mark.start_ns)}px` });
        flag.classList.toggle("early", at(mark.start_ns) < (left + right) / 2);
      },
    );
  }

  private setup(curves: Curve[], width: number, unit: string): uPlot.Options {
    const colors = theme();
    const share = unit === "share";
    const { scale } = this.options;
    const shift = curves.find(({ earlier }) => earlier !== undefined)?.earlier?.shift;
    const format = (value: number | null) =>
      share
        ? percent(value)
        : value !== null && scale === "log"
          ? significantRatio(value)
          : value !== null && scale === "near"
            ? `${value.toFixed(1)} ${unit}`
            : scaled(value, unit);
    const hasDashed = curves.some(({ dashed }) => dashed);
    const axis = {
      stroke: colors.muted,
      font: font(11 * zoom()),
      grid: { stroke: colors.line, width: 1 },
      ticks: { stroke: colors.line, width: 1, size: 4 },
    };
    return {
      width,
      height: this.options.height,
      // The label of the last time extends beyond the axis.
      padding: [8 + (this.marks.length > 0 ? BAND * zoom() : 0), 30 * zoom(), 0, 0],
      cursor: {
        sync: { key: SYNC.key, setSeries: false },
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
      },
      legend: { live: true },
      hooks: {
        drawClear: [(plot) => this.drawPartial(plot)],
        draw: [(plot) => this.drawMarks(plot)],
        setSelect: [
          (plot) => {
            if (plot.select.width < 3) return;
            const from = plot.posToVal(plot.select.left, "x");
            const to = plot.posToVal(plot.select.left + plot.select.width, "x");
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            this.options.select(1000 * from, 1000 * to);
          },
        ],
      },
      scales: {
        x: { time: true, auto: false },
        y: {
          distr: scale === "log" ? 3 : 1,
          range: (_plot, least, most) =>
            scale === undefined
              ? [0, share ? shareAbove(most ?? 0) : Math.max(most ?? 0, 1e-9) * 1.08]
              : around(least, most, scale),
        },
      },
      axes: [
        {
          ...axis,
          size: 30 * zoom(),
          splits: (plot, _axis, from, to) => {
            const most = (plot.width - 104 * zoom()) / (76 * zoom());
            return timeTicks(1000 * from, 1000 * to, Math.max(2, most)).map(
              ({ time }) => time / 1000,
            );
          },
          values: (_plot, splits) => {
            const end = splits.every((value) => value % 60 === 0) ? 5 : 8;
            return splits.map((value) => clock(1000 * value).slice(0, end));
          },
        },
        {
          ...axis,
          size: 74 * zoom(),
          splits: scale === "log" ? (_plot, _axis, least, most) => decades(least, most) : undefined,
          // Each split of a logarithmic axis is a decade.
          filter: (_plot, splits) => splits,
          values: (_plot, splits) =>
            scale === undefined
              ? axisTexts({ unit }, splits)
              : splits.map((value) => format(value).replace(/\.0+(?=\D)/, "")),
          space: 28,
        },
      ],
      series: [
        {
          label: "Time",
          value: (_plot, value) =>
            value === null
              ? "–"
              : shift === undefined
                ? clock(1000 * value)
                : `${clock(1000 * value)} and ${dayTime(1000 * value - shift)}`,
        },
        ...curves.map(({ label, dashed, earlier, isRest }, index) => {
          const color = isRest ? colors.faint : lineColor(earlier?.of ?? index);
          return {
            label,
            stroke: color,
            fill: this.options.stacked ? color : undefined,
            paths: this.options.stacked ? uPlot.paths.stepped!({ align: -1 }) : undefined,
            // A dashed line does not hide one that has the same values.
            width: earlier !== undefined ? 1 : hasDashed && !dashed ? 3.2 : 1.6,
            dash: earlier !== undefined ? [2, 3] : dashed ? [5, 4] : undefined,
            spanGaps: false,
            points: { show: scale !== undefined, size: 5 },
            value: (_plot: uPlot, _sum: number | null, _series: number, place: number | null) => {
              const value = place === null ? null : (this.own[index][place] ?? null);
              if (earlier === undefined || place === null) return format(value);
              const now = this.own[earlier.of][place];
              const change = changeText(now, value, share ? points : format);
              return `${format(value)}${change === "" ? "" : ` (${change})`}`;
            },
          };
        }),
      ],
    };
  }
}

function lineColor(index: number): string {
  return LINES[index % LINES.length][theme().name];
}

/** Returns the end of an axis of shares: the first round share that no value exceeds. */
function shareAbove(most: number): number {
  return [0.05, 0.1, 0.25, 0.5].find((end) => most <= end) ?? 1;
}

/** Returns a range around values: whole decades on a logarithmic axis, else a unit more. */
function around(
  least: number | null,
  most: number | null,
  scale: "log" | "near",
): [number, number] {
  if (scale === "near") return [Math.floor((least ?? 0) - 1), Math.ceil((most ?? 1) + 1)];
  const [below, above] = [least ?? 1e-12, most ?? 1e-9].map(Math.log10);
  const first = Math.floor(below);
  return [10 ** first, 10 ** Math.max(Math.ceil(above), first + 1)];
}

/** Returns powers of ten within a range, about six at most. */
function decades(least: number, most: number): number[] {
  const [first, last] = [least, most].map((value) => Math.round(Math.log10(value)));
  const step = Math.ceil((last - first) / 6);
  const count = Math.floor((last - first) / step) + 1;
  return Array.from({ length: count }, (_, index) => 10 ** (first + index * step));
}

/** Adds to each curve those after it, so that the first curve is the sum of all. */
function stacked([times, ...columns]: uPlot.AlignedData): uPlot.AlignedData {
  const sums: (number | null)[][] = [];
  let below: (number | null)[] = new Array(times.length).fill(null);
  for (const column of columns.reverse()) {
    below = below.map((sum, place) => {
      const value = column[place] ?? null;
      return value === null ? sum : (sum ?? 0) + value;
    });
    sums.unshift(below);
  }
  return [times, ...sums];
}

/**
 * Puts curves on common times. The ports of two curves are read at different times, so a curve is
 * `undefined` at the times of the other one, which is not a gap. Null is a gap.
 */
function joined(curves: Curve[]): uPlot.AlignedData {
  const times = [...new Set(curves.flatMap(({ t }) => t))].sort((x, y) => x - y);
  const place = new Map(times.map((time, index) => [time, index]));
  const columns = curves.map(({ t, v }) => {
    const column: (number | null | undefined)[] = new Array(times.length).fill(undefined);
    t.forEach((time, index) => {
      column[place.get(time)!] = v[index];
    });
    return column;
  });
  return [times.map((time) => time / 1000), ...columns] as uPlot.AlignedData;
}
