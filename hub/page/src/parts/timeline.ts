//! The strip of time at the bottom: the max over all ports for each slot that is kept, with marks.

import { nanoseconds } from "../contract/api";
import { FULL } from "../contract/frame";
import type { MarkRow, MarkRows, Timeline, TimelineMark } from "../contract/types";
import { markColor } from "../draw/band";
import { clear, createSurface, noData, putRows, type Surface } from "../draw/canvas";
import { blockedScale, pixelOf, utilizationScale } from "../draw/scale";
import { font, theme, zoom } from "../draw/theme";
import { timeTicks } from "../draw/ticks";
import type { App, Change } from "../model/app";
import { type Cell, courseRows } from "../model/csv";
import { endsOf, JOBS, markText } from "../model/marks";
import { Poll } from "../model/poll";
import { BLOCKED, UTILIZATION } from "../model/state";
import { clock, dateTime, duration, percent, upper } from "../model/units";
import { h } from "./dom";
import { apart, listenForPinch } from "./pinch";
import { saveButtons } from "./save";
import { hideTip, showTip, type TipLine } from "./tooltip";

/** Names of the rows, and their width, in a strip that is wide or narrow. */
const WIDE = { least: 500, names: ["Utilization, max. %", "Blocked, max. %"], width: 118 };
const NARROW = { names: ["Utilization", "Blocked"], width: 70 };
const RIGHT = 14;
const MARKS = { top: 2, height: 10 };
/** Least distances between two marks. */
const LINE_STEP = 4;
const TRIANGLE_STEP = 10;
const STRIPS = { top: 15, height: 12, gap: 2 };
const AXIS = STRIPS.top + 2 * STRIPS.height + STRIPS.gap;
/** Time that the strip shows at first and at least, in milliseconds. */
const USUAL = 900_000;
const SHORTEST = 60_000;
/** Additional time shown before an older selection, as a share of its age. */
const MARGIN = 0.1;
const ZOOM = 1.4;
/** Least distance of a time of the axis from the shown one. */
const LABEL = 60;
/** Pointer movement in pixels from which a click becomes a selection. */
const DRAG = 4;

/** Changes that affect the strip. */
const SHOWN: readonly Change[] = ["slot", "state", "topology", "health", "theme"];

type StripMark = Pick<TimelineMark, "ts" | "text" | "severe"> & { row?: MarkRow };

export class TimelineStrip {
  readonly element: HTMLElement;
  /** The buttons are not within the element, because a slider has no other controls in it. */
  readonly save: HTMLElement;
  private readonly surface: Surface;
  private readonly poll: Poll<Timeline>;
  /** What users, applications and jobs did. */
  private readonly marks: Poll<MarkRows>;
  private drag: { start: number; now: number } | null = null;
  /** Time that the strip shows, in milliseconds. */
  private length = USUAL;
  private extra: { t: number; utilization: number | null; blocked: number | null }[] = [];

  constructor(private readonly app: App) {
    this.element = h("div", {
      class: "timeline",
      tabindex: 0,
      role: "slider",
      "aria-label": "Time that is shown",
      "aria-describedby": "strip-help",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": 100,
    });
    this.surface = createSurface(this.element, "Maximum of all ports for each sweep", () =>
      this.draw(),
    );
    this.surface.canvas.removeAttribute("role");
    this.surface.canvas.setAttribute("aria-hidden", "true");
    this.save = saveButtons({
      title: "Timeline",
      rows: () => this.saved(),
      layers: () => [this.surface.canvas],
      unit: () => "share",
      span: () => this.bounds(),
    });
    this.poll = new Poll<Timeline>(
      app,
      "timeline",
      () => {
        const bounds = this.bounds();
        return bounds === null ? null : { from: nanoseconds(bounds.from) };
      },
      () => {
        this.extra = [];
        this.draw();
      },
      15_000,
      true,
    );
    this.marks = new Poll<MarkRows>(
      app,
      "marks",
      () => {
        const bounds = this.bounds();
        if (bounds === null) return null;
        return { from: nanoseconds(bounds.from), to: nanoseconds(bounds.to), jobs: JOBS };
      },
      () => this.draw(),
      15_000,
    );
    this.listen();
  }

  update(changes: ReadonlySet<Change>): void {
    if (this.app.topology === null) return;
    this.poll.refresh();
    this.marks.refresh();
    if (changes.has("slot") || changes.has("frame")) this.append();
    if (!SHOWN.some((change) => changes.has(change))) return;
    this.draw();
    this.describe();
  }

  /** Adds the newest slot without a request. */
  private append(): void {
    const slot = this.app.latest;
    if (slot === null) return;
    const t = this.app.timeOf(slot);
    if (this.extra.at(-1)?.t === t) this.extra.pop();
    const most = (metric: string) => maximum(this.app.history(metric)?.get(slot)?.values);
    this.extra.push({ t, utilization: most(UTILIZATION), blocked: most(BLOCKED) });
  }

  private saved(): Cell[][] {
    const { answer } = this.poll;
    const step = (answer?.step_ns ?? 0) / 1e6;
    const kept = (answer?.t ?? []).map((t, at) => ({
      t: t / 1e6 + step - this.app.interval,
      utilization: answer?.utilization_max[at] ?? null,
      blocked: answer?.blocked_max[at] ?? null,
    }));
    const last = kept.at(-1)?.t ?? 0;
    const all = [...kept, ...this.extra.filter(({ t }) => t > last)];
    const t = all.map((each) => each.t);
    const course = (label: string, v: (number | null)[]) => ({ label, t, v });
    return courseRows(
      [
        course(
          "Largest utilization",
          all.map(({ utilization }) => utilization),
        ),
        course(
          "Largest blocked share",
          all.map(({ blocked }) => blocked),
        ),
      ],
      "share",
    );
  }

  private describe(): void {
    const { range, at } = this.app.state;
    const text =
      range !== null
        ? `${clock(range.from)} to ${clock(range.to)}`
        : at !== null
          ? `paused at ${clock(at)}`
          : "live";
    this.element.setAttribute("aria-valuetext", text);
    const bounds = this.bounds();
    const shown = range?.to ?? at;
    if (bounds !== null && shown !== null) {
      const share = (shown - bounds.from) / (bounds.to - bounds.from);
      this.element.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    } else this.element.setAttribute("aria-valuenow", "100");
  }

  /**
   * Returns the time range of the strip, which ends with the newest slot and includes what the
   * page shows.
   */
  private bounds(): { from: number; to: number } | null {
    const latest = this.app.latest;
    if (latest === null) return null;
    const { range, at } = this.app.state;
    const to = this.app.timeOf(latest);
    const shown = range?.from ?? at ?? to;
    const wanted = Math.min(to - this.length, shown - MARGIN * (to - shown));
    return { from: Math.min(to - SHORTEST, Math.max(this.oldest, wanted)), to };
  }

  /** Returns the start of what the hub keeps. */
  private get oldest(): number {
    const kept = this.app.health?.kept;
    return (kept?.minutes_from_ns ?? kept?.from_ns ?? 0) / 1e6;
  }

  private get names() {
    return this.surface.width < WIDE.least ? NARROW : WIDE;
  }

  private get left(): number {
    return this.names.width;
  }

  private x(time: number, bounds: { from: number; to: number }): number {
    const width = this.surface.width - this.left - RIGHT;
    return this.left + (width * (time - bounds.from)) / (bounds.to - bounds.from);
  }

  private time(x: number): number | null {
    const bounds = this.bounds();
    if (bounds === null) return null;
    const share = (x - this.left) / (this.surface.width - this.left - RIGHT);
    return bounds.from + Math.max(0, Math.min(1, share)) * (bounds.to - bounds.from);
  }

  // --- drawing

  private draw(): void {
    const bounds = this.bounds();
    if (this.surface.width === 0 || bounds === null) return;
    const context = clear(this.surface);
    const colors = theme();
    context.font = font(11);
    context.fillStyle = colors.muted;
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.names.names.forEach((name, row) => {
      const y = STRIPS.top + STRIPS.height / 2 + row * (STRIPS.height + STRIPS.gap);
      context.fillText(name, this.left - 7, y);
    });
    this.strips(context, bounds);
    this.axis(context, bounds);
    this.drawMarks(context, bounds);
    this.selection(context, bounds);
  }

  /** Draws into pixels, because a strip has up to 1800 columns and each slot moves all of them. */
  private strips(context: CanvasRenderingContext2D, bounds: { from: number; to: number }): void {
    const colors = theme();
    const { ratio } = this.surface;
    const lower = STRIPS.top + STRIPS.height + STRIPS.gap;
    const left = Math.round(this.left * ratio);
    const width = Math.round((this.surface.width - RIGHT) * ratio) - left;
    const height = Math.round(STRIPS.height * ratio);
    if (width <= 0) return;
    const use = new Int32Array(width).fill(pixelOf(colors.raised));
    const wait = use.slice();
    const gaps: { top: number; from: number; to: number }[] = [];
    const answer = this.poll.answer;
    const interval = this.app.interval;
    const column = (t: number, step: number, u: number | null, b: number | null) => {
      if (t <= bounds.from) return;
      const from = Math.max(0, Math.round(this.x(t - step, bounds) * ratio) - left);
      const to = Math.max(from + 1, Math.round(this.x(t, bounds) * ratio) - left);
      if (u !== null) use.fill(pixelOf(utilizationScale.color(u)), from, to);
      else gaps.push({ top: STRIPS.top, from, to });
      if (b !== null) wait.fill(pixelOf(blockedScale.color(b)), from, to);
      else gaps.push({ top: lower, from, to });
    };
    let last = 0;
    answer?.t.forEach((t, index) => {
      last = (t + answer.step_ns) / 1e6 - interval;
      column(last, answer.step_ns / 1e6, answer.utilization_max[index], answer.blocked_max[index]);
    });
    for (const { t, utilization, blocked } of this.extra) {
      if (t > last) column(t, interval, utilization, blocked);
    }
    putRows(context, use, left, Math.round(STRIPS.top * ratio), height);
    putRows(context, wait, left, Math.round(lower * ratio), height);
    context.fillStyle = noData(context, colors.raised);
    for (const { top, from, to } of gaps) {
      context.fillRect((left + from) / ratio, top, (to - from) / ratio, STRIPS.height);
    }
  }

  private axis(context: CanvasRenderingContext2D, bounds: { from: number; to: number }): void {
    const colors = theme();
    context.font = font(11);
    context.textBaseline = "top";
    context.textAlign = "center";
    const { at } = this.app.state;
    const shown = at === null ? -LABEL : this.x(at, bounds);
    const most = Math.max(2, Math.floor((this.surface.width - this.left) / 90));
    for (const { time, label } of timeTicks(bounds.from, bounds.to, most)) {
      const x = this.x(time, bounds);
      context.fillStyle = colors.line;
      context.fillRect(Math.round(x), AXIS, 1, 4);
      if (x < this.left + 24 || x > this.surface.width - 30) continue;
      if (Math.abs(x - shown) < LABEL) continue;
      context.fillStyle = colors.muted;
      context.fillText(label, x, AXIS + 5);
    }
  }

  /** Returns the events, and both ends of what users, applications and jobs did. */
  private get all(): StripMark[] {
    const marks = (this.marks.answer?.rows ?? []).flatMap((row) =>
      endsOf(row).map((time) => ({ ts: 1e6 * time, text: markText(row), severe: false, row })),
    );
    return [...(this.poll.answer?.marks ?? []), ...marks];
  }

  /**
   * Severe marks are red triangles over the grey lines of other events and the coloured ones of
   * users and jobs. Marks that would become one bar are left out of the picture.
   */
  private drawMarks(context: CanvasRenderingContext2D, bounds: { from: number; to: number }): void {
    const colors = theme();
    const bottom = MARKS.top + MARKS.height;
    const apart = (distance: number, isOne: (mark: StripMark) => boolean) => {
      let last = this.left - distance;
      return this.all
        .filter(isOne)
        .map((mark) => ({ x: this.x(mark.ts / 1e6, bounds), row: mark.row }))
        .sort((one, other) => one.x - other.x)
        .filter(({ x }) => {
          if (x < this.left || x - last < distance) return false;
          last = x;
          return true;
        });
    };
    const lines = [
      ...apart(LINE_STEP, ({ severe, row }) => !severe && row === undefined),
      ...apart(LINE_STEP, ({ row }) => row !== undefined),
    ];
    for (const { x, row } of lines) {
      context.fillStyle = row === undefined ? colors.muted : markColor(row);
      // Those of users are over both strips.
      const end = row?.kind === "mark" ? AXIS : bottom;
      context.fillRect(x - 0.75, MARKS.top + 3, 1.5, end - MARKS.top - 3);
    }
    context.fillStyle = colors.alert;
    context.strokeStyle = colors.surface;
    context.lineWidth = 1;
    for (const { x } of apart(TRIANGLE_STEP, ({ severe }) => severe)) {
      context.beginPath();
      context.moveTo(x - 4.5, MARKS.top + 1);
      context.lineTo(x + 4.5, MARKS.top + 1);
      context.lineTo(x, bottom);
      context.closePath();
      context.stroke();
      context.fill();
    }
  }

  private selection(context: CanvasRenderingContext2D, bounds: { from: number; to: number }): void {
    const colors = theme();
    const { range, at } = this.app.state;
    const bottom = AXIS + 4;
    const dragged = this.drag !== null && Math.abs(this.drag.now - this.drag.start) >= DRAG;
    const ends = dragged
      ? [Math.min(this.drag!.start, this.drag!.now), Math.max(this.drag!.start, this.drag!.now)]
      : range !== null
        ? [this.x(range.from, bounds), this.x(range.to, bounds)]
        : null;
    if (ends !== null) {
      const from = Math.max(this.left, ends[0]);
      const to = Math.max(from, ends[1]);
      context.fillStyle = colors.surface;
      context.globalAlpha = 0.55;
      context.fillRect(this.left, STRIPS.top, Math.max(0, from - this.left), AXIS - STRIPS.top);
      context.fillRect(
        to,
        STRIPS.top,
        Math.max(0, this.surface.width - RIGHT - to),
        AXIS - STRIPS.top,
      );
      context.globalAlpha = 1;
      context.strokeStyle = colors.accent;
      context.lineWidth = 2;
      context.strokeRect(from, STRIPS.top - 2, Math.max(2, to - from), AXIS - STRIPS.top + 4);
    } else if (at !== null) {
      const x = this.x(at, bounds);
      context.fillStyle = colors.accent;
      context.fillRect(x - 1, MARKS.top + 4, 2, bottom - MARKS.top - 4);
      context.beginPath();
      context.arc(x, MARKS.top + 4, 4, 0, 2 * Math.PI);
      context.fill();
      this.label(context, clock(at), x);
    }
  }

  /** Writes the shown time, for which the axis leaves space. */
  private label(context: CanvasRenderingContext2D, text: string, x: number): void {
    const width = context.measureText(text).width + 8;
    const left = Math.max(0, Math.min(this.surface.width - width, x - width / 2));
    context.fillStyle = theme().accent;
    context.fillText(text, left + width / 2, AXIS + 5);
  }

  // --- pointer and keys

  private listen(): void {
    const { element } = this;
    let length = this.length;
    listenForPinch(
      element,
      () => {
        this.drag = null;
        hideTip();
        length = this.length;
      },
      (first, now) => {
        this.length = (length * apart(first, "offsetX")) / apart(now, "offsetX");
        this.draw();
      },
      () => this.zoom(1),
    );
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.surface.at(event)[0] < this.left - 4) return;
      element.setPointerCapture(event.pointerId);
      this.drag = { start: this.surface.at(event)[0], now: this.surface.at(event)[0] };
    });
    element.addEventListener("pointermove", (event) => {
      if (this.drag !== null) {
        this.drag.now = this.surface.at(event)[0];
        this.draw();
      }
      this.tip(event);
    });
    element.addEventListener("pointerup", (event) => this.release(event));
    element.addEventListener("pointerleave", hideTip);
    element.addEventListener("dblclick", () => this.app.resume());
    element.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM);
      },
      { passive: false },
    );
  }

  /** Zooms in or out of the past. */
  private zoom(factor: number): void {
    const bounds = this.bounds();
    if (bounds === null) return;
    const most = Math.max(SHORTEST, bounds.to - this.oldest);
    this.length = Math.max(SHORTEST, Math.min(most, this.length * factor));
    this.poll.expire();
    this.poll.refresh();
    this.draw();
  }

  private release(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (drag === null) return;
    const start = this.time(Math.min(drag.start, drag.now));
    const end = this.time(Math.max(drag.start, drag.now));
    if (start === null || end === null) return;
    const slot = (time: number) => Math.round(time / this.app.interval) * this.app.interval;
    if (Math.abs(drag.now - drag.start) < DRAG) {
      const mark = this.markNear(...this.surface.at(event));
      this.app.go(
        { at: slot(mark === null ? start : mark.ts / 1e6 + this.app.interval), range: null },
        true,
      );
    } else {
      const from = slot(start);
      this.app.go(
        { range: { from, to: Math.max(from + this.app.interval, slot(end)) }, at: null },
        true,
      );
    }
  }

  private markNear(x: number, y: number): StripMark | null {
    const bounds = this.bounds();
    if (bounds === null || y > STRIPS.top) return null;
    let best: StripMark | null = null;
    let distance = 7;
    for (const mark of this.all) {
      const apart = Math.abs(this.x(mark.ts / 1e6, bounds) - x);
      if (apart < distance) {
        distance = apart;
        best = mark;
      }
    }
    return best;
  }

  private tip(event: PointerEvent): void {
    const time = this.time(this.surface.at(event)[0]);
    if (time === null || this.surface.at(event)[0] < this.left) {
      hideTip();
      return;
    }
    const lines: TipLine[] = [dateTime(time)];
    if (this.drag !== null && Math.abs(this.drag.now - this.drag.start) >= DRAG) {
      const ends = [this.time(this.drag.start)!, this.time(this.drag.now)!].sort((a, b) => a - b);
      lines[0] = `${clock(ends[0])} to ${clock(ends[1])}`;
      lines.push(["Selected", duration((ends[1] - ends[0]) / 1000)]);
    } else {
      const mark = this.markNear(...this.surface.at(event));
      if (mark !== null)
        lines.push([
          mark.row ? upper(mark.row.kind) : mark.severe ? "Severe event" : "Event",
          mark.text,
        ]);
      const values = this.valuesAt(time);
      if (values !== null) {
        lines.push(["Largest utilization", percent(values.utilization)]);
        lines.push(["Largest blocked share", percent(values.blocked)]);
      }
    }
    // Above the strip, also if the text of a mark has two lines.
    const { top } = this.element.getBoundingClientRect();
    showTip(event.clientX, top - (46 + 20 * lines.length) * zoom(), lines);
  }

  private valuesAt(time: number): { utilization: number | null; blocked: number | null } | null {
    const extra = this.extra.find(({ t }) => time <= t && time > t - this.app.interval);
    if (extra !== undefined) return extra;
    const answer = this.poll.answer;
    if (answer === null) return null;
    const end = 1e6 * (time + this.app.interval) - answer.step_ns;
    const index = answer.t.findIndex((t) => t >= end);
    if (index < 0) return null;
    return { utilization: answer.utilization_max[index], blocked: answer.blocked_max[index] };
  }
}

function maximum(values: Uint16Array | undefined): number | null {
  if (values === undefined) return null;
  let most = -1;
  for (let port = 0; port < values.length; port++) {
    const code = values[port];
    if (code <= FULL && code > most) most = code;
  }
  return most < 0 ? null : most / FULL;
}
