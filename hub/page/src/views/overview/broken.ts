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
  private shown: { answer: unknown; error: string; height: number } | null = null;

  constructor(private readonly app: App) {
    const frame = panel("Broken", "broken");
    frame.body.append(this.list, this.empty);
    this.element = frame.element;
    this.note = frame.note;
  }

  update(poll: Poll<ErrorRows>, changes: ReadonlySet<Change>): void {
    // Only an answer and the selected time change this list; the window determines its length.
    const { answer, error } = poll;
    const height = innerHeight;
    const shown = this.shown;
    const isShown = answer === shown?.answer && error === shown.error && height === shown.height;
    if (isShown && !changes.has("state")) return;
    this.shown = { answer, error, height };
    const rows = faultsOf(poll.answer?.rows ?? []);
    const most = rowsThatFit(MAX, MAX_LOW);
    setText(this.note, rows.length > most ? `${most} of ${count(rows.length, "fault")}` : "");
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
    setText(since, row.increase !== null ? rateText(row) : sinceText(row));
  }
}
