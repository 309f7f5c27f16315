//! Slots kept in the browser: the values of all ports, for the subscribed metrics.

/** Memory for values, in bytes. */
const MEMORY = 96 * 1024 * 1024;
const MAX_SLOTS = 1800;
/** After this many incomplete slots, the last complete one is too old. */
export const MAX_PARTIAL = 5;

export interface Column {
  /** End of the slot, milliseconds since 1970. */
  time: number;
  values: Uint16Array;
  /** Whether a sampler has not ended the slot. */
  partial: boolean;
}

/** Columns of one metric, by slot number. */
export class History {
  private readonly columns = new Map<number, Column>();
  private readonly capacity: number;
  private oldest = Number.POSITIVE_INFINITY;

  constructor(ports: number) {
    this.capacity = Math.max(30, Math.min(MAX_SLOTS, Math.floor(MEMORY / 4 / Math.max(1, ports))));
  }

  get size(): number {
    return this.columns.size;
  }

  /** Adds a slot, or replaces it. The oldest slots are dropped when the memory is full. */
  set(slot: number, time: number, values: Uint16Array, partial = false): void {
    this.columns.set(slot, { time, values, partial });
    this.oldest = Math.min(this.oldest, slot);
    while (this.columns.size > this.capacity) {
      if (slot === this.oldest) break;
      this.columns.delete(this.oldest);
      this.oldest = this.next(this.oldest);
    }
  }

  /**
   * Adds a slot of a matrix, unless a frame has brought it already. A matrix does not show whether
   * a sampler has ended the slot, so the last slots up to `newest` count as partial until their
   * frame arrives.
   */
  fill(slot: number, time: number, values: Uint16Array, newest: number): void {
    if (!this.has(slot)) this.set(slot, time, values, slot > newest - MAX_PARTIAL);
  }

  private next(after: number): number {
    for (let slot = after + 1; ; slot++) if (this.columns.has(slot)) return slot;
  }

  get(slot: number): Column | undefined {
    return this.columns.get(slot);
  }

  has(slot: number): boolean {
    return this.columns.has(slot);
  }

  /** Returns the last complete slot among `count` slots up to `slot`. */
  whole(slot: number, count: number): Column | undefined {
    for (let number = slot; number > slot - count; number--) {
      const column = this.columns.get(number);
      if (column?.partial === false) return column;
    }
    return undefined;
  }

  /** Returns the codes of one port over the last `count` slots up to `slot`; gaps are `missing`. */
  trace(port: number, slot: number, count: number, missing: number): Uint16Array {
    const trace = new Uint16Array(count).fill(missing);
    for (let index = 0; index < count; index++) {
      const column = this.columns.get(slot - count + 1 + index);
      if (column !== undefined) trace[index] = column.values[port];
    }
    return trace;
  }
}
