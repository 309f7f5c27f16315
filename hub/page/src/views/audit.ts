//! The newest entries of the audit log, for admins.

import type { Audit, AuditEntry } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { dayTime } from "../model/units";
import { setText } from "../parts/dom";
import { type Column, Table } from "../parts/table";
import { panel } from "./panel";

export class AuditList {
  readonly element: HTMLElement;
  private readonly frame = panel("Audit log", "audit");
  private readonly table: Table<AuditEntry>;
  private readonly poll: Poll<Audit>;
  private shown: Audit | null = null;

  constructor(app: App) {
    this.poll = new Poll(
      app,
      "audit",
      () => (app.who?.role === "admin" ? {} : null),
      () => app.notify("values"),
      10_000,
    );
    this.table = new Table<AuditEntry>({
      label: "Audit log",
      columns: columns(),
      key: ({ at_ns, what, who, address, about }) => [at_ns, what, who, address, about].join(" "),
      sort: "at",
      descending: true,
      empty: "Nobody has logged in or seen, silenced or posted anything.",
    });
    this.frame.body.append(this.table.element);
    this.element = this.frame.element;
    this.element.hidden = true;
  }

  update(): void {
    this.poll.refresh();
    const { answer, error } = this.poll;
    // Other roles get no answer, and without a file there is only a reason.
    this.element.hidden = answer === null ? error === "" : answer.reason !== null;
    setText(this.frame.note, error || "the newest entries");
    if (answer === null || answer === this.shown) return;
    this.shown = answer;
    this.table.setRows(answer.rows);
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }
}

function columns(): Column<AuditEntry>[] {
  return [
    {
      id: "at",
      line: 1,
      title: "Time",
      width: "126px",
      value: ({ at_ns }) => at_ns,
      unit: "time",
      text: ({ at_ns }) => dayTime(at_ns / 1e6),
    },
    {
      id: "what",
      line: 1,
      title: "What",
      width: "92px",
      value: ({ what }) => what,
      draw: (cell, { what }) => {
        setText(cell, what.replaceAll("_", " "));
        cell.classList.toggle("alert-text", what === "login_failed");
      },
    },
    { id: "who", line: 1, title: "Who", width: "minmax(90px, 0.6fr)", value: ({ who }) => who },
    { id: "role", title: "Role", width: "72px", value: ({ role }) => role },
    {
      id: "address",
      title: "Address",
      hint: "Address of the client, or of its proxy",
      width: "minmax(90px, 0.6fr)",
      value: ({ address }) => address,
    },
    {
      id: "about",
      line: 2,
      title: "Alert or mark",
      width: "minmax(250px, 2fr)",
      value: ({ about }) => about ?? "",
    },
    {
      id: "why",
      line: 3,
      isSentence: true,
      title: "Reason",
      width: "minmax(140px, 1.5fr)",
      value: ({ why }) => why ?? "",
    },
  ];
}
