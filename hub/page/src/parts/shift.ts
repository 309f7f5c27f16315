//! Chooses the earlier time with which a view compares.

import type { App } from "../model/app";
import { durationOf, lackText } from "../model/shift";
import { h, setText } from "./dom";

const CHOICES = [
  ["", "No comparison"],
  ["1h", "1 hour before"],
  ["1d", "Yesterday"],
  ["7d", "Last week"],
] as const;
const OWN = "own";

export class ShiftControl {
  readonly element: HTMLElement;
  private readonly note = h("span", { class: "muted", role: "status" });
  private readonly list: HTMLSelectElement;
  private readonly own: HTMLInputElement;

  constructor(private readonly app: App) {
    const { shift } = app.state;
    const isKnown = CHOICES.some(([value]) => value === shift);
    const options = [...CHOICES, [OWN, "Another time…"] as const];
    this.list = h(
      "select",
      { "aria-label": "Compare with", on: { change: () => this.choose() } },
      ...options.map(([value, text]) => h("option", { value }, text)),
    );
    this.list.value = isKnown ? shift : OWN;
    this.own = h("input", {
      class: "field short",
      placeholder: "36h",
      "aria-label": "How much earlier, such as 90min, 36h or 3d",
      on: { change: () => this.enter() },
    });
    this.own.value = isKnown ? "" : shift;
    this.own.hidden = isKnown;
    this.element = h("span", { class: "shift" }, this.list, this.own, this.note);
  }

  private choose(): void {
    this.own.hidden = this.list.value !== OWN;
    if (this.own.hidden) this.app.go({ shift: this.list.value });
    else this.own.focus();
  }

  private enter(): void {
    const text = this.own.value.trim().toLowerCase();
    if (durationOf(text) > 0) this.app.go({ shift: text });
    else setText(this.note, "give a duration such as 90min, 36h or 3d, up to 366d");
  }

  /** States what is missing of the time before. */
  update(lack: string): void {
    if (this.app.shift > 0) setText(this.note, lack);
  }
}

/** Returns what the hub does not keep of the time before; empty if it has all of it. */
export function lackOf(app: App, span: { from: number; to: number } | null): string {
  if (app.shift === 0 || span === null || app.latest === null) return "";
  return lackText(app.health?.kept, span, app.shift, app.timeOf(app.latest));
}
