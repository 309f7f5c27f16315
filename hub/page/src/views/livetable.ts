//! A table of links or ports with live values: its filter, the number of its rows, and their order.

import type { App } from "../model/app";
import { clock, count, grouped } from "../model/units";
import { h, setText } from "../parts/dom";
import { makeFilter } from "../parts/filter";
import { portMatches } from "../parts/search";
import type { Table } from "../parts/table";

/** Number of slots after which rows are sorted again, so that they stay readable in between. */
const SORT_SLOTS = 5;

export class LiveTable<Row> {
  readonly filter;
  private readonly found = h("span", { role: "status" });
  /** Time of the order. A screen reader does not announce each. */
  private readonly order = h("span", {});
  readonly note = h("span", { class: "muted" }, this.found, this.order);
  private sortedAt: number | null = null;
  private filtered: string | null = null;

  constructor(
    private readonly app: App,
    private readonly table: Table<Row>,
    private readonly rows: readonly Row[],
    private readonly portsOf: (row: Row) => number[],
    private readonly one: string,
  ) {
    const label = `Filter the ${one}s by node name or GUID`;
    this.filter = makeFilter(app, "Node name or GUID", label);
  }

  /** Shows new values. Rows are sorted when there are values, and while live only now and then. */
  update(hasValues: boolean, isChanged = true): void {
    this.filter.update();
    const slot = this.app.shown ?? 0;
    const text = this.app.option("q").trim().toLowerCase();
    if (text !== this.filtered || this.sortedAt === null || !this.app.isLive) {
      this.filtered = text;
      this.sortedAt = hasValues ? slot : null;
      const shown = this.rows.filter(
        (row) => text === "" || this.portsOf(row).some((port) => portMatches(this.app, port, text)),
      );
      this.table.setRows(shown);
      const all = count(this.rows.length, this.one);
      setText(
        this.found,
        shown.length === this.rows.length ? all : `${grouped(shown.length)} of ${all}`,
      );
      this.showOrder();
      return;
    }
    if (isChanged) this.table.refresh();
    if (Math.abs(slot - this.sortedAt) < SORT_SLOTS) return;
    this.sortedAt = slot;
    this.table.sortSoon();
    this.showOrder();
  }

  /** States the time of the order, because the values change until the next one. */
  private showOrder(): void {
    const isKnown = this.app.isLive && this.sortedAt !== null;
    setText(this.order, isKnown ? `, order of ${clock(this.app.timeOf(this.sortedAt!))}` : "");
  }
}
