//! Provides the columns of the heat map from slots in the browser and matrices of the hub.

import type { Cells } from "../../contract/frame";
import type { App } from "../../model/app";

/** Max number of columns in a picture. */
const MAX_COLUMNS = 900;
/** Max number of values in one answer. */
const LARGEST_ANSWER = 16_000_000;

/** Number of columns at the end of a window that can still change. */
const RECENT = 3;
/** Min time between two requests for new columns, in milliseconds. */
const PERIOD = 3000;

export interface Window {
  metric: string;
  aggregate: string;
  /** Number of the first column. Column `n` ends at `(n + 1) * step`. */
  first: number;
  columns: number;
  /** Length of a column in milliseconds. */
  step: number;
}

/** Returns the columns of a time range. Each begins at a multiple of the column length. */
export function windowOf(
  app: App,
  ports: number,
  metric: string,
  aggregate: string,
  from: number,
  to: number,
): Window {
  const most = Math.max(20, Math.min(MAX_COLUMNS, Math.floor(LARGEST_ANSWER / Math.max(1, ports))));
  const slots = Math.max(1, Math.round((to - from) / app.interval));
  const step = Math.ceil(slots / most) * app.interval;
  const first = Math.floor(Math.round(from) / step);
  const last = Math.ceil(Math.round(to) / step);
  return { metric, aggregate, first, columns: last - first, step };
}

/** Columns by number. Missing columns are requested once. */
export class ColumnSource {
  private readonly columns = new Map<number, Cells>();
  private key = "";
  private abort: AbortController | null = null;
  /** Columns that were requested from the hub. */
  private asked = { from: 0, to: 0 };
  /** Earliest time of the next request. */
  private next = 0;
  error = "";
  private loading = false;
  /** Number of answers from the hub. */
  answers = 0;

  constructor(
    private readonly app: App,
    private readonly loaded: () => void,
    /** How much earlier the values are than the columns, in milliseconds. */
    private readonly shift = 0,
  ) {}

  /** Returns a column, or undefined if it is missing. */
  get(number: number, window: Window): Cells | undefined {
    if (window.step === this.app.interval) {
      // The values of a slot describe the interval before it.
      const slot = number + 1 - this.shift / this.app.interval;
      const column = this.app.history(window.metric)?.get(slot);
      if (column !== undefined) return column.values;
    }
    return this.columns.get(number);
  }

  /** Returns whether a column is missing because the hub has not answered yet. */
  isLoading(number: number): boolean {
    return this.error === "" && !this.isAsked(number);
  }

  /** Returns whether most columns of a window are missing because the hub has not answered yet. */
  isWaiting(window: Window): boolean {
    let missing = 0;
    for (let number = window.first; number < window.first + window.columns; number++)
      if (this.get(number, window) === undefined && this.isLoading(number)) missing++;
    return missing > window.columns / 2;
  }

  /** Requests the columns of a window that are missing. */
  want(window: Window): void {
    const key = `${window.metric} ${window.aggregate} ${window.step}`;
    if (key !== this.key) {
      this.key = key;
      this.columns.clear();
      this.asked = { from: 0, to: 0 };
      this.next = 0;
      this.abort?.abort();
    }
    const end = window.first + window.columns;
    let first = window.first;
    while (first < end && (this.isAsked(first) || this.get(first, window) !== undefined)) first++;
    const isOfSlots = window.step === this.app.interval && this.shift === 0;
    const isStreamed = isOfSlots && this.app.isStreamed(window.metric);
    // New slots arrive as frames, so requests for them would be wasted.
    const isRecent = end - first <= RECENT;
    const now = performance.now();
    if (first === end || this.loading || now < this.next || (isRecent && isStreamed)) return;
    this.next = now + (isRecent ? PERIOD : 0);
    void this.load(window, first, end);
  }

  /**
   * Returns whether the hub has answered a request for a column. If so, it has no more than what
   * it sent.
   */
  private isAsked(number: number): boolean {
    return number >= this.asked.from && number < this.asked.to;
  }

  private async load(window: Window, first: number, end: number): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    this.loading = true;
    const done = this.isWaiting(window) ? this.app.wait(`heat ${this.shift}`) : null;
    try {
      const { metric, aggregate, step } = window;
      const heat = await this.app.matrix(
        metric,
        first * step - this.shift,
        end * step - this.shift,
        step,
        aggregate,
        abort.signal,
      );
      this.answers++;
      const start = Math.round((heat.from + this.shift) / heat.step);
      const ports = this.app.topology?.ports.length;
      if (heat.rows === ports) {
        for (const [index, values] of heat.columns.entries())
          this.columns.set(start + index, values);
      }
      // The last columns of an answer follow those that count as asked.
      const isNext = first <= this.asked.to + RECENT && first >= this.asked.from;
      this.asked = { from: isNext ? this.asked.from : first, to: end - RECENT };
      for (const number of this.columns.keys())
        if (number < window.first) this.columns.delete(number);
      this.error = "";
    } catch (error) {
      if (error instanceof DOMException) return;
      this.error = error instanceof Error ? error.message : String(error);
      this.next = performance.now() + PERIOD;
    } finally {
      this.loading = false;
      done?.();
      this.loaded();
    }
  }

  close(): void {
    this.abort?.abort();
  }
}
