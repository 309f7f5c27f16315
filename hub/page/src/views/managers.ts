//! The subnet managers: one line, or a table when their events are selected.

import { nanoseconds } from "../contract/api";
import type { ManagerRow, ManagerRows } from "../contract/types";
import type { App } from "../model/app";
import { managersText, nameOf } from "../model/managers";
import { Poll } from "../model/poll";
import { dateTime, grouped } from "../model/units";
import { h, setText } from "../parts/dom";
import { type Column, linkCell, Table } from "../parts/table";

export class Managers {
  readonly element: HTMLElement;
  private readonly text = h("p", { class: "manager-text", role: "status" });
  private readonly table: Table<ManagerRow>;
  private readonly poll: Poll<ManagerRows>;
  private shown: unknown = null;

  constructor(app: App) {
    this.poll = new Poll(
      app,
      "sm",
      () => {
        const { range, at } = app.state;
        if (range !== null) return { to: nanoseconds(range.to), limit: 0 };
        return at === null ? { limit: 0 } : { to: nanoseconds(at), limit: 0 };
      },
      () => app.notify("values"),
      // As the events, so that the sentence says what the newest event says.
      2000,
      true,
    );
    this.table = new Table<ManagerRow>({
      label: "Subnet managers",
      columns: columns(app),
      key: (row) => `${row.guid} ${row.lid}`,
      sort: "state",
      descending: false,
      empty: "No event names a subnet manager.",
    });
    this.element = h(
      "section",
      { class: "managers", "aria-label": "Subnet managers" },
      this.text,
      this.table.element,
    );
  }

  update(isOpen: boolean): void {
    this.poll.refresh();
    this.table.element.hidden = !isOpen || (this.poll.answer?.rows.length ?? 0) === 0;
    const { answer, error } = this.poll;
    if (answer === null) setText(this.text, error);
    else if (answer !== this.shown) {
      this.shown = answer;
      this.table.setRows(answer.rows);
      setText(this.text, managersText(answer));
      this.text.classList.toggle("alert-text", answer.rows.length > 0 && !answer.rows[0].is_master);
    }
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }
}

function stateText({ is_present, state }: ManagerRow): string {
  return is_present ? (state ?? "unknown") : "does not answer";
}

function columns(app: App): Column<ManagerRow>[] {
  return [
    {
      id: "node",
      title: "Node",
      width: "minmax(120px, 1fr)",
      value: nameOf,
      draw: (cell, row) => {
        if (row.node === null) cell.replaceChildren(nameOf(row));
        else
          linkCell(cell, row.node, app.href({ view: "ports", item: "", options: { q: row.node } }));
      },
    },
    {
      id: "state",
      title: "State",
      width: "130px",
      value: (row) => `${Number(!row.is_master)}${row.state}`,
      saved: stateText,
      draw: (cell, row) => {
        setText(cell, stateText(row));
        cell.classList.toggle("alert-text", !row.is_present);
      },
    },
    {
      id: "guid",
      title: "GUID",
      width: "minmax(150px, 1fr)",
      value: ({ guid }) => guid,
      text: ({ guid }) => guid ?? "–",
    },
    number("lid", "LID", ({ lid }) => lid),
    number("priority", "Priority", ({ priority }) => priority),
    number("act", "ActCount", ({ act_count }) => act_count),
    {
      id: "since",
      title: "Since",
      width: "166px",
      value: ({ since_ns }) => since_ns,
      unit: "time",
      text: ({ since_ns }) => dateTime(since_ns / 1e6),
    },
    {
      id: "sampler",
      title: "Reported by",
      width: "minmax(90px, 0.8fr)",
      value: ({ sampler }) => sampler,
    },
  ];
}

function number(
  id: string,
  title: string,
  value: (row: ManagerRow) => number | null,
): Column<ManagerRow> {
  const text = (row: ManagerRow) => {
    const found = value(row);
    return found === null ? "–" : grouped(found);
  };
  return { id, title, end: true, width: "84px", value, text };
}
