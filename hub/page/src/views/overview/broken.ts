//! Lists what is broken: devices, links, counters. The most severe fault comes first.

import type { ErrorRow, ErrorRows } from "../../contract/types";
import type { App, Change } from "../../model/app";
import type { Poll } from "../../model/poll";
import { portKey } from "../../model/topology";
import { count } from "../../model/units";
import { h, patch, setAttribute, setText } from "../../parts/dom";
import { icon } from "../../parts/icons";
import { faultHref, faultsOf, faultText, isSevere, rateText, sinceText } from "../faults";
import { panel } from "../panel";
import { rowsThatFit } from "./room";

const MAX = 9;
const MAX_LOW = 7;

export class Broken {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "faults" });
  private readonly note: HTMLElement;
  private readonly empty = h("p", { class: "empty" });
  private isOpen = false;
  private readonly more = h("button", {
    type: "button",
    class: "save-button",
    on: {
      click: () => {
        this.isOpen = !this.isOpen;
        this.app.notify("state");
      },
    },
  });
  private shown: unknown[] = [];

  constructor(private readonly app: App) {
    const frame = panel("Broken", "broken");
    frame.body.append(this.list, this.empty);
    frame.note.after(this.more);
    this.element = frame.element;
    this.note = frame.note;
  }

  update(poll: Poll<ErrorRows>, changes: ReadonlySet<Change>): void {
    // Only an answer and the selected time change this list; the window determines its length.
    const shown = [poll.answer, poll.error, innerHeight, this.app.alerts.answer];
    if (shown.every((each, at) => each === this.shown[at]) && !changes.has("state")) return;
    this.shown = shown;
    const rows = faultsOf(poll.answer?.rows ?? []);
    const fit = rowsThatFit(MAX, MAX_LOW);
    const most = this.isOpen ? rows.length : fit;
    const part = rows.length > most ? `${most} of ` : "";
    setText(this.note, rows.length === 0 ? "" : `${part}${count(rows.length, "fault")}`);
    setText(this.more, this.isOpen ? "Show fewer" : "Show all");
    this.more.hidden = rows.length <= fit;
    const text = poll.answer === null ? poll.error || "Waiting for the hub…" : "Nothing is broken.";
    setText(this.empty, rows.length === 0 ? text : "");
    patch(
      this.list,
      rows.slice(0, most),
      (row) => `${portKey(row.guid, row.port)} ${row.what}`,
      () =>
        h(
          "a",
          { class: "fault" },
          h("span", { class: "fault-mark" }),
          h("b", {}),
          h("span", { class: "fault-text" }),
          h("span", { class: "fault-since" }),
        ),
      (element, row) => this.fill(element, row),
    );
  }

  private fill(element: HTMLElement, row: ErrorRow): void {
    const [mark, name, text, since] = element.children;
    setAttribute(element, "href", faultHref(this.app, row));
    const severe = isSevere(row);
    element.classList.toggle("severe", severe);
    if (mark.childElementCount === 0)
      mark.append(icon(row.what === "link_down" ? "down" : severe ? "alert" : "samplers"));
    const isDevice = row.link === null && row.increase === null;
    setText(name, isDevice ? row.node : `${row.node} / ${row.port}`);
    const isLink = row.link !== null && row.increase === null && row.peer !== null;
    const to = isLink ? `, to ${row.peer!.node} / ${row.peer!.port}` : "";
    setText(text, `${faultText(row)}${to}`);
    setText(
      since,
      row.increase !== null ? rateText(row) : sinceText(row, this.app.alerts.answer?.rows),
    );
  }
}
