//! The range of the colours: the values in the picture, or the whole scale of the metric.

import { type Cells, codeIn, FULL } from "../../contract/frame";
import type { Metric } from "../../contract/types";
import { changeScale, type Scale } from "../../draw/scale";
import { axisTexts } from "../../model/metric";
import { signed } from "../../model/shift";
import type { Tick } from "../../parts/meter";
import { differenceText, EQUAL, farthestCell } from "./change";

export const RANGES = ["shown", "full"] as const;
export type RangeKind = (typeof RANGES)[number];

export interface Range {
  /** Returns the place of a value on the colour scale, 0 to 1. */
  share: (code: number) => number;
  ticks: Tick[];
  /** Scale of the colours, if it is not that of the metric. */
  scale?: Scale;
  /** Returns the cell of a pixel that shows several rows, if it is not the largest. */
  pick?: typeof farthestCell;
  /** Differs between ranges with different colours. */
  key: string;
}

/** Number of neighbouring codes that the percentile does not distinguish. */
const BIN = 64;
/** Place of the smallest value on a logarithmic scale, so that it differs from 0. */
const LEAST = 0.4;
/** Upper ends of a range, in powers of ten, so that the range rarely changes. */
const ROUND = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** The values of some cells. */
interface Summary {
  least: number;
  most: number;
  bins: Uint32Array;
}

const summaries = new WeakMap<Cells, Summary>();

function summaryOf(cells: Cells): Summary {
  let found = summaries.get(cells);
  if (found === undefined) {
    found = { least: FULL, most: 0, bins: new Uint32Array(FULL / BIN + 1) };
    for (const cell of cells) {
      const code = codeIn(cell);
      if (code > FULL) continue;
      found.bins[Math.floor(code / BIN)]++;
      found.most = Math.max(found.most, code);
      if (code > 0) found.least = Math.min(found.least, code);
    }
    summaries.set(cells, found);
  }
  return found;
}

/** Returns the range that a metric has if the URL names none. A share has its natural end. */
export function usualRange({ unit }: Metric): RangeKind {
  return unit === "share" ? "full" : "shown";
}

/**
 * Returns the range of the cells in the picture: rates up to the fastest link, error rates on a
 * logarithmic scale, round-trip times up to the 99th percentile, and shares up to the largest one.
 */
export function rangeOf(
  metric: Metric,
  kind: RangeKind,
  columns: readonly (Cells | null)[],
  fastest: number,
): Range {
  const { scale, unit } = metric;
  if (kind === "full") return linear(metric, scale, false);
  const all = columns.flatMap((cells) => (cells === null ? [] : [summaryOf(cells)]));
  const most = all.reduce((most, each) => Math.max(most, each.most), 0) * (scale / FULL);
  if (unit === "1/s") {
    const least = all.reduce((least, each) => Math.min(least, each.least), FULL) * (scale / FULL);
    return logarithmic(metric, least, most);
  }
  if (unit === "Gb/s" && fastest > 0) return linear(metric, fastest, most > fastest);
  const end = unit === "share" ? most : (percentile(all) + 1) * BIN * (scale / FULL);
  const upper = Math.min(scale, roundUp(end));
  return linear(metric, upper, most > upper);
}

/** Returns the range of differences, which has the same length on both sides of no change. */
export function changeRange(
  metric: Metric,
  kind: RangeKind,
  columns: readonly (Cells | null)[],
): Range {
  const all = columns.flatMap((cells) => (cells === null ? [] : [summaryOf(cells)]));
  const most = all.reduce((most, { least, most: own }) => {
    return own === 0 ? most : Math.max(most, own - EQUAL, EQUAL - least);
  }, 0);
  const { scale } = metric;
  const isFull = kind === "full" || most === 0;
  const end = isFull ? scale : Math.min(scale, roundUp((most * scale) / EQUAL));
  const text = (value: number) => differenceText(metric, value);
  return {
    share: (code) => 0.5 + (((code - EQUAL) / EQUAL) * scale) / end / 2,
    ticks: [
      { share: 0, text: `less now, ${signed(-end, text)}` },
      { share: 0.5, text: "0" },
      { share: 1, text: `${signed(end, text)}, more now` },
    ],
    scale: changeScale,
    pick: farthestCell,
    key: `change ${end}`,
  };
}

/** Returns the bin that at least 99 % of the values do not exceed. */
function percentile(all: readonly Summary[]): number {
  const bins = new Float64Array(FULL / BIN + 1);
  let total = 0;
  for (const summary of all) {
    for (let bin = 0; bin < bins.length; bin++) {
      bins[bin] += summary.bins[bin];
      total += summary.bins[bin];
    }
  }
  let below = 0;
  return bins.findIndex((count) => {
    below += count;
    return below >= 0.99 * total;
  });
}

/** Returns the next round number. */
function roundUp(value: number): number {
  if (value <= 0) return 1e-3;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * (ROUND.find((each) => each * power >= value * 0.999) ?? 10);
}

function linear(metric: Metric, end: number, exceeds: boolean): Range {
  const factor = metric.scale / FULL / end;
  const texts = axisTexts(metric, [0, end / 2, end]);
  if (exceeds) texts[2] = `≥ ${texts[2]}`;
  return {
    share: (code) => code * factor,
    ticks: texts.map((text, index) => ({ share: index / 2, text })),
    key: `linear ${end}`,
  };
}

/** A scale of whole decades, with 0 below its start. */
function logarithmic(metric: Metric, least: number, most: number): Range {
  const to = most > 0 ? Math.ceil(Math.log10(most)) : 1;
  const from = Math.min(to - 1, most > 0 ? Math.floor(Math.log10(least)) : 0);
  const place = (value: number) => LEAST + ((1 - LEAST) * (Math.log10(value) - from)) / (to - from);
  const decades = Array.from({ length: to - from + 1 }, (_, index) => 10 ** (from + index));
  // Each decade has its own digits.
  const ticks = decades.flatMap((value) =>
    axisTexts(metric, [value]).map((text) => ({ share: place(value), text })),
  );
  return {
    share: (code) => (code === 0 ? 0 : place((code * metric.scale) / FULL)),
    ticks: [...axisTexts(metric, [0]).map((text) => ({ share: 0, text })), ...ticks],
    key: `logarithmic ${from} ${to}`,
  };
}
