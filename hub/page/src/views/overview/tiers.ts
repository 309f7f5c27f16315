//! Shows how full the tiers are, with one strip for each tier and direction, and one tick for each
//! link. A wide spread means that parallel links are used unevenly.

import { FULL, NO_DATA } from "../../contract/frame";
import { clear, createSurface, putRows, type Surface, triangle } from "../../draw/canvas";
import { blend, metricName, pixelOf, scaleOf } from "../../draw/scale";
import { font, theme, zoom } from "../../draw/theme";
import type { App, Change } from "../../model/app";
import { valueCells, valueHeads } from "../../model/metric";
import { BLOCKED, UTILIZATION } from "../../model/state";
import type { Topology } from "../../model/topology";
import { count, percent } from "../../model/units";
import { choice } from "../../parts/choice";
import { saveButtons } from "../../parts/save";
import { panel } from "../panel";

const ROW = 30;
/** Width of a tick. */
const TICK = 2;
/** Width of the names and of the numbers, in a wide and in a narrow picture. */
const LEFT = [150, 100];
const RIGHT = [172, 62];
const NARROW = 480;

/** Shares with a vertical line. */
const AXIS = [0, 0.25, 0.5, 0.75, 1];

/** The values of the links of a strip. */
interface Sum {
  mean: number;
  /** Number of known values. */
  known: number;
  most: number;
}

interface Strip {
  name: string;
  links: number;
  /** Ports that send in this direction. */
  ports: number[];
}

export class Tiers {
  readonly element: HTMLElement;
  private readonly surface: Surface & { close(): void };
  private readonly strips: Strip[];
  /** The values that the picture shows. */
  private values: Uint16Array | null = null;
  private readonly metric: { element: HTMLElement; update: () => void };

  constructor(
    private readonly app: App,
    topology: Topology,
  ) {
    this.metric = choice(
      "Metric of the tiers",
      [
        [UTILIZATION, "Utilization"],
        [BLOCKED, "Blocked share"],
      ] as const,
      () => this.shownMetric,
      (value) => app.go({ metric: value }),
    );
    const save = saveButtons({
      title: "Tiers",
      rows: () => this.saved(topology),
      layers: () => [this.surface.canvas],
      unit: () => "share",
    });
    const frame = panel("Tiers", "tiers", this.metric.element, save);
    frame.note.textContent =
      "one tick a link, the fullest with an outline; the triangle is the mean";
    this.strips = stripsOf(topology);
    frame.body.style.minHeight = `${(this.strips.length * ROW + 22) * zoom()}px`;
    this.element = frame.element;
    this.surface = createSurface(frame.body, "Distribution of the links of each tier", () =>
      this.draw(),
    );
  }

  private get shownMetric(): typeof UTILIZATION | typeof BLOCKED {
    return this.app.state.metric === BLOCKED ? BLOCKED : UTILIZATION;
  }

  update(changes: ReadonlySet<Change>): void {
    if (changes.has("state")) this.metric.update();
    const values = this.app.values(this.shownMetric);
    const isSame = values === this.values;
    this.values = values;
    if (changes.has("state")) this.draw();
    else if (!isSame) this.drawValues();
  }

  close(): void {
    this.surface.close();
  }

  private draw(): void {
    if (this.surface.width === 0) return;
    const context = clear(this.surface);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = font(13);
    context.fillStyle = theme().ink;
    this.strips.forEach(({ name }, index) => {
      context.fillText(name, 0, index * ROW + 15);
    });
    this.axis(context);
    this.drawValues();
  }

  /** Returns each link of each strip. */
  private *saved(topology: Topology) {
    const metric = this.app.metric(this.shownMetric);
    yield ["Tier", "Port", ...valueHeads(metric, metricName(metric.name))];
    for (const { name, ports } of this.strips)
      for (const port of ports)
        yield [name, topology.nameOf(port), ...valueCells(metric, this.values?.[port] ?? NO_DATA)];
  }

  private get isNarrow(): boolean {
    return this.surface.width < NARROW;
  }

  private get left(): number {
    return LEFT[Number(this.isNarrow)];
  }

  private get width(): number {
    return this.surface.width - this.left - RIGHT[Number(this.isNarrow)];
  }

  /** Draws what a slot changes: the strips, and the numbers on the right. */
  private drawValues(): void {
    const { values } = this;
    const { context } = this.surface;
    if (this.surface.width === 0) return;
    const sums = this.strips.map((strip, index) => this.strip(strip, values, index * ROW + 4));
    const right = this.left + this.width + 10;
    context.clearRect(right - 4, 0, this.surface.width - right + 4, this.strips.length * ROW);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = font(12);
    for (const [index, sum] of sums.entries()) this.numbers(sum, index * ROW + 4, right);
    context.fillStyle = theme().line;
    for (const share of AXIS) context.fillRect(this.axisAt(share), 0, 1, this.strips.length * ROW);
    this.surface.canvas.setAttribute("aria-label", this.summary(sums));
  }

  private strip(strip: Strip, values: Uint16Array | null, top: number): Sum {
    const sum: Sum = { mean: 0, known: 0, most: 0 };
    // Links of equal value share a tick, which is stronger the more links it has.
    const ticks = new Uint16Array(Math.max(1, Math.floor(this.width / TICK)));
    if (values !== null) {
      let total = 0;
      for (const port of strip.ports) {
        if (values[port] > FULL) continue;
        const share = values[port] / FULL;
        ticks[Math.min(ticks.length - 1, Math.floor(share * ticks.length))]++;
        total += share;
        sum.known++;
        sum.most = Math.max(sum.most, share);
      }
      sum.mean = total / Math.max(1, sum.known);
    }
    this.ticks(ticks, strip.ports.length, top);
    return sum;
  }

  /** Draws into pixels, because there are hundreds of ticks and each slot changes all of them. */
  private ticks(ticks: Uint16Array, ports: number, top: number): void {
    const scale = scaleOf(this.shownMetric);
    const { context, ratio } = this.surface;
    const row = new Int32Array(Math.max(1, Math.round(this.width * ratio)));
    const ground = pixelOf(theme().raised);
    row.fill(ground);
    const place = [context, row, Math.round(this.left * ratio)] as const;
    putRows(...place, Math.round(top * ratio), Math.round((ROW - 8) * ratio));
    const weak = Math.max(0.25, Math.min(0.9, 40 / ports));
    ticks.forEach((links, index) => {
      if (links === 0) return;
      const share = index / ticks.length;
      const color = pixelOf(scale.color(0.15 + 0.85 * share));
      const first = Math.round(share * row.length);
      row.fill(blend(ground, color, 1 - (1 - weak) ** links), first, first + TICK * ratio);
    });
    putRows(...place, Math.round((top + 2) * ratio), Math.round((ROW - 12) * ratio));
  }

  /** Draws the mean as a triangle and an outline of the max, and writes both. */
  private numbers({ mean, known, most }: Sum, top: number, right: number): void {
    const { context } = this.surface;
    const colors = theme();
    context.fillStyle = colors.muted;
    if (known === 0) {
      context.fillText("no values", right, top + 11);
      return;
    }
    const text = this.isNarrow ? "" : `mean ${percent(mean)}, max `;
    context.fillText(`${text}${percent(most)}`, right, top + 11);
    // The end of the scale can be pale. The outline is in the strip, which a slot draws again.
    const place = Math.floor(most * Math.floor(this.width / TICK)) * TICK - 0.5;
    const at = Math.max(0.5, Math.min(this.width - TICK - 1.5, place));
    context.strokeStyle = colors.ink;
    context.strokeRect(this.left + at, top + 1.5, TICK + 1, ROW - 11);
    const x = this.left + mean * (this.width - 2) + 1;
    const bottom = top + ROW - 8;
    triangle(context, colors.ink, x - 4.5, bottom, x + 4.5, bottom, x, bottom - 6);
  }

  private axisAt(share: number): number {
    return Math.round(this.left + share * this.width) - (share === 1 ? 1 : 0);
  }

  private axis(context: CanvasRenderingContext2D): void {
    const top = this.strips.length * ROW;
    context.font = font(11);
    context.textAlign = "center";
    for (const share of AXIS) {
      context.fillStyle = theme().line;
      context.fillRect(this.axisAt(share), 0, 1, top + 2);
      context.fillStyle = theme().muted;
      context.fillText(`${100 * share} %`, this.left + share * this.width, top + 11);
    }
  }

  private summary(sums: Sum[]): string {
    if (this.values === null) return "Tiers: no values for this time";
    const lines = this.strips.map(({ name, links }, index) => {
      return `${name}: ${count(links, "link")}, maximum ${percent(sums[index].most)}`;
    });
    return `Tiers. ${lines.join("; ")}`;
  }
}

function stripsOf(topology: Topology): Strip[] {
  const strips = new Map<string, Strip>();
  for (const { a, b } of topology.links) {
    const upper = topology.tierOf(a);
    const lower = topology.tierOf(b);
    for (const [port, from, to] of [
      [b, lower, upper],
      [a, upper, lower],
    ]) {
      const key = `${Math.min(from, to)} ${Math.max(from, to)} ${from > to ? 1 : 0}`;
      let strip = strips.get(key);
      if (strip === undefined) {
        const short = (tier: number) =>
          topology
            .tierName(tier)
            .replace(/ switches|Switches of /, "")
            .toLowerCase();
        const start = short(from);
        const name = `${start.charAt(0).toUpperCase()}${start.slice(1)} → ${short(to)}`;
        strip = { name, links: 0, ports: [] };
        strips.set(key, strip);
      }
      strip.ports.push(port);
      strip.links++;
    }
  }
  return [...strips.entries()].sort(([x], [y]) => x.localeCompare(y)).map(([, strip]) => strip);
}
