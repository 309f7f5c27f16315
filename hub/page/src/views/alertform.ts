//! The form that marks an alert as seen, or silences it.

import { ApiError } from "../contract/api";
import type { AlertRow } from "../contract/types";
import type { App } from "../model/app";
import { dateTime } from "../model/units";
import { h, setText } from "../parts/dom";

/** Durations of a mark, in hours. */
const HOURS: readonly (readonly [number, string])[] = [
  [1, "1 hour"],
  [8, "8 hours"],
  [24, "1 day"],
  [168, "1 week"],
];

/** Name of the token in the storage of this tab. */
const TOKEN = "ibnet-token";

export class AlertForm {
  private readonly title = h("b", {});
  private readonly note = h("span", { class: "muted", role: "status" });
  private readonly why = h("input", {
    class: "field",
    placeholder: "Reason",
    "aria-label": "Reason",
  });
  private readonly token = h("input", {
    class: "field",
    type: "password",
    placeholder: "Your token",
    "aria-label": "Your token",
    autocomplete: "off",
  });
  private readonly hours = h(
    "select",
    { "aria-label": "Duration" },
    ...HOURS.map(([hours, text]) => h("option", { value: hours }, text)),
  );
  readonly element: HTMLElement;
  private row: AlertRow | null = null;

  constructor(private readonly app: App) {
    this.token.value = sessionStorage.getItem(TOKEN) ?? "";
    const button = (text: string, silent: boolean, ends: boolean) =>
      h(
        "button",
        { type: "button", class: "action", on: { click: () => void this.mark(silent, ends) } },
        text,
      );
    this.element = h(
      "div",
      { class: "toolbar marking", hidden: true },
      this.title,
      this.why,
      this.hours,
      this.token,
      button("Seen", false, false),
      button("Silence", true, false),
      button("Neither", false, true),
      this.note,
    );
  }

  show(row: AlertRow): void {
    this.row = row;
    this.element.hidden = false;
    setText(this.title, row.id);
    setText(this.note, markText(row));
    this.token.hidden = this.isKnown;
    this.why.focus();
  }

  /** Whether the hub knows the user without a token. */
  private get isKnown(): boolean {
    return (this.app.who?.name ?? null) !== null;
  }

  private async mark(silent: boolean, ends: boolean): Promise<void> {
    if (this.row === null) return;
    const { id } = this.row;
    const token = this.isKnown ? "" : this.token.value;
    sessionStorage.setItem(TOKEN, token);
    const why = this.why.value.trim() || (ends ? "removed" : "");
    const until = ends ? 0 : (Date.now() + Number(this.hours.value) * 3600e3) * 1e6;
    try {
      await this.app.alerts.mark(token, id, why, silent, until);
      setText(
        this.note,
        ends ? "Neither seen nor silenced." : `The alert is ${silent ? "silenced" : "seen"}.`,
      );
    } catch (error) {
      setText(this.note, error instanceof ApiError ? error.message : String(error));
    }
  }
}

/** Returns who has seen or silenced an alert, until when and why. */
export function markText({ mark }: AlertRow): string {
  if (mark === null) return "";
  const what = mark.silent ? "silenced" : "seen";
  return `${what} by ${mark.by} until ${dateTime(mark.until_ns / 1e6)}: ${mark.why}`;
}
