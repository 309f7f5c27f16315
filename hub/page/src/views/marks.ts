//! The list of marks, with a form that posts and removes those of users.

import { ApiError, nanoseconds, postJson } from "../contract/api";
import type { MarkRow, MarkRows } from "../contract/types";
import type { App } from "../model/app";
import { isMoment } from "../model/marks";
import { Poll } from "../model/poll";
import { dayTime, duration } from "../model/units";
import { h, setText } from "../parts/dom";
import { type Column, linkCell, Table } from "../parts/table";
import { tokenField } from "../parts/token";

/** Max number of jobs in the list, the largest ones. */
const JOBS = 200;

export class MarkList {
  readonly element: HTMLElement;
  private readonly poll: Poll<MarkRows>;
  private readonly table: Table<MarkRow>;
  private readonly text = h("input", {
    class: "field",
    placeholder: "What happened",
    "aria-label": "Text of the mark",
  });
  private readonly token = tokenField();
  private readonly note = h("span", { class: "muted", role: "status" });
  private readonly form: HTMLElement;
  private shown: MarkRows | null = null;

  constructor(private readonly app: App) {
    this.poll = new Poll(
      app,
      "marks",
      () => {
        const { range, at } = app.state;
        // A mark of now is newer than the newest record.
        const to = range?.to ?? at ?? Date.now() + 60_000;
        return { jobs: JOBS, to: nanoseconds(to), ...(range && { from: nanoseconds(range.from) }) };
      },
      () => app.notify("values"),
      5000,
    );
    this.table = new Table({
      label: "Marks",
      columns: this.columns(),
      key: (row) => `${row.kind} ${row.id} ${row.start_ns} ${row.name}`,
      sort: "start",
      descending: true,
      empty: "No marks in this time.",
    });
    const button = (text: string, click: () => void) =>
      h("button", { type: "button", class: "action", on: { click } }, text);
    this.form = h(
      "div",
      { class: "toolbar marking" },
      this.text,
      this.token.element,
      button("Post mark", () => void this.post()),
      this.note,
    );
    this.element = h("div", { class: "fill" }, this.form, this.table.element);
  }

  get count(): number {
    return this.poll.answer?.rows.length ?? 0;
  }

  update(isOpen: boolean): void {
    this.poll.refresh();
    this.element.hidden = !isOpen;
    const { answer } = this.poll;
    if (answer === null || answer === this.shown || !isOpen) return;
    this.shown = answer;
    this.form.hidden = !answer.postable;
    if (answer.reason !== undefined) this.table.setEmpty(`${answer.reason}.`);
    this.table.setRows(answer.rows);
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }

  /** Posts a mark of the selected or the paused time, or of now. */
  private post(): Promise<void> {
    const { range, at } = this.app.state;
    const time = (time: number) => Number(nanoseconds(time));
    const when =
      range !== null
        ? { start_ns: time(range.from), end_ns: time(range.to) }
        : at !== null
          ? { start_ns: time(at) }
          : {};
    return this.send("marks", { name: this.text.value.trim(), ...when }, "The mark is posted.");
  }

  private async send(path: string, body: object, done: string): Promise<void> {
    try {
      await postJson(path, this.token.take(), body);
      setText(this.note, done);
      this.poll.expire();
      this.app.notify("values");
    } catch (error) {
      setText(this.note, error instanceof ApiError ? error.message : String(error));
    }
  }

  private columns(): Column<MarkRow>[] {
    const { app } = this;
    return [
      {
        id: "start",
        line: 1,
        title: "Start",
        width: "160px",
        value: ({ start_ns }) => start_ns,
        text: ({ start_ns }) => dayTime(start_ns / 1e6),
      },
      {
        id: "length",
        title: "Length",
        end: true,
        width: "90px",
        value: ({ start_ns, end_ns }) => (end_ns === null ? null : end_ns - start_ns),
        text: (row) =>
          row.end_ns === null || isMoment(row) ? "–" : duration((row.end_ns - row.start_ns) / 1e9),
      },
      {
        id: "name",
        line: 1,
        title: "Mark",
        width: "minmax(160px, 2fr)",
        value: ({ name }) => name,
        draw: (cell, { name, job }) => {
          if (job === null) cell.replaceChildren(name);
          else {
            if (cell.firstElementChild === null) cell.replaceChildren();
            linkCell(cell, name, app.href({ view: "job", item: job, options: {} }));
          }
        },
      },
      { id: "kind", line: 2, title: "Kind", width: "60px", value: ({ kind }) => kind },
      { id: "by", line: 2, title: "User", width: "minmax(70px, 0.6fr)", value: ({ by }) => by },
      {
        id: "nodes",
        title: "Nodes",
        width: "minmax(90px, 1fr)",
        value: ({ nodes }) => nodes,
        text: ({ nodes }) => nodes ?? "all",
      },
      {
        id: "remove",
        title: "",
        width: "80px",
        value: () => null,
        draw: (cell, { id }) => {
          const click = () => void this.send("marks/remove", { id }, "The mark is removed.");
          const button = h("button", { type: "button", class: "action", on: { click } }, "Remove");
          cell.replaceChildren(...(id === null ? [] : [button]));
        },
        isFixed: true,
      },
    ];
  }
}
