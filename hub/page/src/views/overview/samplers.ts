//! The samplers: completeness, sweep duration, age, and lost records.

import type { SamplerRow, SamplerRows } from "../../contract/types";
import type { App } from "../../model/app";
import type { Poll } from "../../model/poll";
import {
  answeredShare,
  DROPPED,
  hasAlert,
  newestSlot,
  samplerState,
  samplersText,
  stateText,
} from "../../model/samplers";
import { compareNames, duration, percent } from "../../model/units";
import { h, patch, setAttribute, setStyle, setText } from "../../parts/dom";
import { panel } from "../panel";
import { rowsThatFit } from "./room";

const MAX = 9;
const MAX_LOW = 6;

const NONE = "No sampler has sent records.";

export class Samplers {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "sampler-list", role: "list" });
  private readonly head = h(
    "div",
    { class: "sampler sampler-head", hidden: true },
    h("span", {}, "Host"),
    h("span", { class: "wide" }, "Ports answered"),
    h("span", { class: "number" }, "Sweep"),
  );
  private readonly empty = h("p", { class: "empty" });
  private readonly note: HTMLElement;

  constructor(private readonly app: App) {
    const frame = panel("Samplers", "samplers");
    this.note = frame.note;
    frame.body.append(this.head, this.list, this.empty);
    this.element = frame.element;
  }

  update(poll: Poll<SamplerRows>): void {
    const all = poll.answer?.rows ?? [];
    const newest = newestSlot(all);
    const order = { lost: 0, clock: 1, late: 2, ok: 3 };
    const rows = [...all].sort(
      (x, y) =>
        order[samplerState(x, newest)] - order[samplerState(y, newest)] ||
        compareNames(x.sampler, y.sampler),
    );
    const text = poll.answer === null ? poll.error || "Waiting for the hub…" : NONE;
    const most = rowsThatFit(MAX, MAX_LOW);
    const listed = rows.length > most ? `, ${most} listed` : "";
    setText(this.note, samplersText(rows, newest) + listed);
    setText(this.empty, rows.length === 0 ? text : "");
    this.head.hidden = rows.length === 0;
    patch(
      this.list,
      rows.slice(0, most),
      (row) => `${row.sampler} ${row.role}`,
      () =>
        h(
          "div",
          { class: "sampler", role: "listitem" },
          h("a", {}),
          h("span", { class: "mini" }, h("i", {})),
          h("span", { class: "number" }),
          h("span", { class: "number" }),
          h("span", { class: "sampler-note" }),
        ),
      (element, row) => this.fill(element, row, newest),
    );
  }

  private fill(element: HTMLElement, row: SamplerRow, newest: number): void {
    const [name, mini, answered, time, note] = element.children;
    const state = samplerState(row, newest);
    element.dataset.state = state;
    setAttribute(name, "href", this.app.href({ view: "samplers" }));
    setText(name, row.sampler);
    // The last slot of a lost sampler does not show its current state.
    const isOk = state === "ok";
    const share = isOk ? answeredShare(row) : null;
    setStyle(mini.firstElementChild as HTMLElement, { width: `${100 * (share ?? 0)}%` });
    setText(answered, percent(share));
    setText(time, isOk && row.duration_ns !== null ? duration(row.duration_ns / 1e9) : "–");
    setAttribute(time, "title", "Duration of the last sweep");
    const isLossy = hasAlert(this.app.alerts.answer?.rows ?? [], row, DROPPED);
    setText(note, isOk ? (isLossy ? "drops records" : "") : stateText(row, newest));
  }
}
