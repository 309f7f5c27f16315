//! A table of links or ports with live values: its filter, the number of its rows, and their order.

import type { App } from "../model/app";
import { count, grouped } from "../model/units";
import { h, setText } from "../parts/dom";
import { makeFilter } from "../parts/filter";
import { portMatches } from "../parts/search";
import type { Table } from "../parts/table";

export class LiveTable<Row> {
  readonly filter;
  private readonly found = h("span", { role: "status" });
  /** Why the order is not that of the values. A screen reader does not announce it. */
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

  /** Shows new values. Rows are sorted when there are values, but while live not under a hand. */
  update(hasValues: boolean, isChanged = true): void {
    this.filter.update();
    const slot = this.app.shown ?? 0;
    const text = this.app.option("q").trim().toLowerCase();
    const held = this.app.isLive ? this.table.held : "";
    setText(this.order, held === "" ? "" : `, order kept while ${held}`);
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
    } else if (held === "" && slot !== this.sortedAt) {
      this.sortedAt = slot;
      this.table.sortSoon();
    } else if (isChanged) this.table.refresh();
  }
}
