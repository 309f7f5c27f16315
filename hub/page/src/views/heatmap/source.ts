//! The columns of the heat map: slots that the page has, and matrices from the hub.

import type { App } from "../../model/app";

/** Columns that a picture has at most. */
const MOST_COLUMNS = 900;
/** Values that one answer has at most. */
const LARGEST_ANSWER = 16_000_000;

export interface Window {
  metric: string;
  aggregate: string;
  /** Number of the first column. Column `n` ends at `(n + 1) * step`. */
  first: number;
  columns: number;
  /** Length of a column in milliseconds. */
  step: number;
}

/** Returns the columns for a time range. They begin at multiples of their length. */
export function windowOf(
  app: App,
  ports: number,
  metric: string,
  aggregate: string,
  from: number,
  to: number,
): Window {
  const most = Math.max(
    20,
    Math.min(MOST_COLUMNS, Math.floor(LARGEST_ANSWER / Math.max(1, ports))),
  );
  const slots = Math.max(1, Math.round((to - from) / app.interval));
  const step = Math.ceil(slots / most) * app.interval;
  const first = Math.floor(Math.round(from) / step);
  const last = Math.ceil(Math.round(to) / step);
  return { metric, aggregate, first, columns: last - first, step };
}

/** Columns by their number. Columns that are missing are requested once. */
export class ColumnSource {
  private readonly columns = new Map<number, Uint16Array>();
  private key = "";
  private abort: AbortController | null = null;
  private requested = Number.NEGATIVE_INFINITY;
  error = "";
  loading = false;

  constructor(
    private readonly app: App,
    private readonly loaded: () => void,
  ) {}

  /** Returns a column, or undefined if it is not here. */
  get(number: number, window: Window): Uint16Array | undefined {
    if (window.step === this.app.interval) {
      const column = this.app.history(window.metric)?.get(number);
      if (column !== undefined) return column.values;
    }
    return this.columns.get(number);
  }

  /** Requests the columns of a window that are missing. */
  want(window: Window): void {
    const key = `${window.metric} ${window.aggregate} ${window.step}`;
    if (key !== this.key) {
      this.key = key;
      this.columns.clear();
      this.requested = Number.NEGATIVE_INFINITY;
      this.abort?.abort();
    }
    const end = window.first + window.columns;
    let first = window.first;
    while (first < end && this.get(first, window) !== undefined) first++;
    if (
      this.loading ||
      first >= end - 2 ||
      (first <= this.requested &&
        first >= window.first &&
        this.requested - first < end - first &&
        this.requested >= end - 2)
    )
      return;
    void this.load(window, first, end);
  }

  private async load(window: Window, first: number, end: number): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    this.loading = true;
    try {
      const { metric, aggregate, step } = window;
      const heat = await this.app.matrix(
        metric,
        first * step,
        end * step,
        step,
        aggregate,
        abort.signal,
      );
      const start = Math.round(heat.from / heat.step);
      const ports = this.app.topology?.ports.length;
      if (heat.rows === ports) {
        for (const [index, values] of heat.columns.entries())
          this.columns.set(start + index, values);
      }
      for (const number of this.columns.keys())
        if (number < window.first) this.columns.delete(number);
      this.requested = end;
      this.error = "";
    } catch (error) {
      if (error instanceof DOMException) return;
      this.error = error instanceof Error ? error.message : String(error);
      this.requested = end;
    } finally {
      this.loading = false;
      this.loaded();
    }
  }

  close(): void {
    this.abort?.abort();
  }
}
