//! How full the tiers are: one strip for each tier and direction, one tick a link. A wide spread
//! shows that parallel links are used unevenly.

import { FULL } from "../../contract/frame";
import { clear, createSurface, type Surface } from "../../draw/canvas";
import { scaleOf } from "../../draw/scale";
import { font, theme, zoom } from "../../draw/theme";
import type { App } from "../../model/app";
import { BLOCKED, UTILIZATION } from "../../model/state";
import type { Topology } from "../../model/topology";
import { count, percent } from "../../model/units";
import { choice, panel } from "../panel";

const ROW = 30;
/** Width of a tick. */
const TICK = 2;
const LEFT = 150;
const RIGHT = 172;

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
    const frame = panel("Tiers", "tiers", this.metric.element);
    frame.note.textContent = "one tick a link; the triangle is the mean";
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

  update(): void {
    this.metric.update();
    this.draw();
  }

  close(): void {
    this.surface.close();
  }

  private draw(): void {
    if (this.surface.width === 0) return;
    const context = clear(this.surface);
    const colors = theme();
    const values = this.app.values(this.shownMetric);
    const width = this.surface.width - LEFT - RIGHT;
    context.textBaseline = "middle";
    this.strips.forEach((strip, index) => {
      const top = index * ROW + 4;
      context.font = font(13);
      context.textAlign = "left";
      context.fillStyle = colors.ink;
      context.fillText(strip.name, 0, top + 11);
      context.fillStyle = colors.raised;
      context.fillRect(LEFT, top, width, ROW - 8);
      if (values !== null) this.strip(context, strip, values, top, width);
    });
    this.axis(context, width);
    this.surface.canvas.setAttribute("aria-label", this.summary(values));
  }

  private strip(
    context: CanvasRenderingContext2D,
    strip: Strip,
    values: Uint16Array,
    top: number,
    width: number,
  ): void {
    const colors = theme();
    const scale = scaleOf(this.shownMetric);
    let sum = 0;
    let known = 0;
    let most = 0;
    // Links of equal value are one tick: the more links, the stronger it is.
    const ticks = new Uint16Array(Math.max(1, Math.floor(width / TICK)));
    for (const port of strip.ports) {
      if (values[port] > FULL) continue;
      const share = values[port] / FULL;
      ticks[Math.min(ticks.length - 1, Math.floor(share * ticks.length))]++;
      sum += share;
      known++;
      most = Math.max(most, share);
    }
    const weak = Math.max(0.25, Math.min(0.9, 40 / strip.ports.length));
    ticks.forEach((links, index) => {
      if (links === 0) return;
      const share = index / ticks.length;
      context.globalAlpha = 1 - (1 - weak) ** links;
      context.fillStyle = scale.color(0.15 + 0.85 * share);
      context.fillRect(LEFT + share * width, top + 2, TICK, ROW - 12);
    });
    context.globalAlpha = 1;
    context.font = font(12);
    context.fillStyle = colors.muted;
    const right = LEFT + width + 10;
    if (known === 0) {
      context.fillText("no values", right, top + 11);
      return;
    }
    const x = LEFT + (sum / known) * (width - 2) + 1;
    context.fillStyle = colors.ink;
    context.beginPath();
    context.moveTo(x - 4.5, top + ROW - 5);
    context.lineTo(x + 4.5, top + ROW - 5);
    context.lineTo(x, top + ROW - 11);
    context.fill();
    context.fillStyle = colors.muted;
    context.fillText(`mean ${percent(sum / known)}, max ${percent(most)}`, right, top + 11);
  }

  private axis(context: CanvasRenderingContext2D, width: number): void {
    const colors = theme();
    const top = this.strips.length * ROW;
    context.font = font(11);
    context.textAlign = "center";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const x = LEFT + share * width;
      context.fillStyle = colors.line;
      context.fillRect(Math.round(x) - (share === 1 ? 1 : 0), 0, 1, top + 2);
      context.fillStyle = colors.muted;
      context.fillText(`${100 * share} %`, x, top + 11);
    }
  }

  private summary(values: Uint16Array | null): string {
    if (values === null) return "Tiers: no values for this time";
    const lines = this.strips.map((strip) => {
      let most = 0;
      for (const port of strip.ports) if (values[port] <= FULL) most = Math.max(most, values[port]);
      return `${strip.name}: ${count(strip.links, "link")}, maximum ${percent(most / FULL)}`;
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
          topology.tierName(tier).replace(" switches", "").toLowerCase();
        const name = `${topology.tierName(from).replace(" switches", "")} → ${short(to)}`;
        strip = { name, links: 0, ports: [] };
        strips.set(key, strip);
      }
      strip.ports.push(port);
      strip.links++;
    }
  }
  return [...strips.entries()].sort(([x], [y]) => x.localeCompare(y)).map(([, strip]) => strip);
}
