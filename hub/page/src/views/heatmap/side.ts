//! The columns of the heat map at one time: now, or before.

import { type Cells, NO_DATA } from "../../contract/frame";
import type { App } from "../../model/app";
import { type Aggregate, combine, type HeatRow } from "./rows";
import { ColumnSource, type Window } from "./source";

export class Side {
  readonly source: ColumnSource;
  private readonly combined = new Map<number, { codes: Cells; combined: Cells }>();
  private key = "";
  /** The values of columns that the hub does not have. */
  private none: Cells = new Uint16Array();

  constructor(app: App, loaded: () => void, shift: number) {
    this.source = new ColumnSource(app, loaded, shift);
  }

  /** Requests the columns of a window. */
  want(window: Window): void {
    for (const column of this.combined.keys())
      if (column < window.first) this.combined.delete(column);
    this.source.want(window);
  }

  /**
   * Returns the values of a column, by row; null while they are loading. `isPorts` if the
   * rows are the ports; `rowKey` differs between different rows.
   */
  values(
    window: Window,
    column: number,
    rows: readonly HeatRow[],
    isPorts: boolean,
    rowKey: string,
  ): Cells | null {
    const key = `${rowKey} ${window.metric} ${window.aggregate} ${window.step}`;
    if (key !== this.key) {
      this.key = key;
      this.combined.clear();
    }
    const codes = this.source.get(column, window);
    if (codes === undefined) {
      if (this.none.length !== rows.length) this.none = new Uint16Array(rows.length).fill(NO_DATA);
      return this.source.isLoading(column) ? null : this.none;
    }
    const known = this.combined.get(column);
    if (known?.codes === codes) return known.combined;
    const combined = isPorts ? codes : combine(rows, codes, window.aggregate as Aggregate);
    this.combined.set(column, { codes, combined });
    return combined;
  }
}
