//! The list of marks.

import { nanoseconds } from "../contract/api";
import type { MarkRow, MarkRows } from "../contract/types";
import type { App } from "../model/app";
import { lengthText, startText } from "../model/marks";
import { Poll } from "../model/poll";
import { type Column, Table } from "../parts/table";

/** Max number of jobs in the list, the largest ones. */
const JOBS = 200;

const COLUMNS: Column<MarkRow>[] = [
  {
    id: "start",
    line: 1,
    title: "Start",
    width: "160px",
    value: ({ start_ns }) => start_ns,
    unit: "time",
    text: startText,
  },
  {
    id: "length",
    title: "Length",
    width: "110px",
    value: ({ start_ns, end_ns }) => (end_ns === null ? null : end_ns - start_ns),
    saved: ({ start_ns, end_ns }) => (end_ns === null ? null : (end_ns - start_ns) / 1e9),
    unit: "s",
    text: lengthText,
  },
  {
    id: "name",
    line: 1,
    title: "Mark",
    width: "minmax(160px, 2fr)",
    value: ({ name }) => name,
  },
  {
    id: "kind",
    line: 2,
    title: "Kind",
    width: "70px",
    value: ({ kind }) => (kind === "mark" ? "user" : kind),
  },
  { id: "by", line: 2, title: "User", width: "minmax(70px, 0.6fr)", value: ({ by }) => by },
  { id: "job", title: "Job", width: "minmax(70px, 0.6fr)", value: ({ job }) => job },
  { id: "nodes", title: "Nodes", width: "minmax(90px, 1fr)", value: (row) => row.nodes ?? "all" },
];

export class MarkList {
  readonly table: Table<MarkRow>;
  private readonly poll: Poll<MarkRows>;

  constructor(app: App) {
    this.poll = new Poll(
      app,
      "marks",
      () => {
        const { range, at } = app.state;
        // A mark of the shown slot belongs to the list, and one of now is newer than all records.
        const to = range?.to ?? (at === null ? Date.now() + 60_000 : at + app.interval);
        return { jobs: JOBS, to: nanoseconds(to), ...(range && { from: nanoseconds(range.from) }) };
      },
      () => {
        this.table.setEmpty(`${this.poll.answer?.reason ?? "no marks in this time"}.`);
        this.table.setRows(this.poll.answer?.rows ?? []);
        app.notify("values");
      },
      5000,
    );
    this.table = new Table({
      label: "Marks",
      columns: COLUMNS,
      key: ({ kind, id, start_ns, name }) => `${kind} ${id} ${start_ns} ${name}`,
      open: ({ start_ns }) =>
        app.go({ at: Math.ceil(start_ns / 1e6 / app.interval) * app.interval, range: null }),
      sort: "start",
      descending: true,
      empty: "",
    });
  }

  get count(): number {
    return this.poll.answer?.rows.length ?? 0;
  }

  update(isOpen: boolean): void {
    this.poll.refresh();
    this.table.element.hidden = !isOpen;
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }
}
