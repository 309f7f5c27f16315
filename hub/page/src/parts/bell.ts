//! The bell in the top bar: how many alerts fire. It opens the view of alerts.

import type { App } from "../model/app";
import { count } from "../model/units";
import { h, setAttribute } from "./dom";
import { icon } from "./icons";

export class Bell {
  private readonly number = h("b", {});
  readonly element = h("a", { class: "bell" }, icon("alerts"), this.number);

  constructor(private readonly app: App) {}

  update(): void {
    const { firing, answer } = this.app.alerts;
    const text = firing === 0 ? "" : String(firing);
    if (this.number.textContent !== text) this.number.textContent = text;
    this.element.classList.toggle("bad", firing > 0);
    const label = answer === null ? "Alerts" : `${count(firing, "alert")} firing`;
    setAttribute(this.element, "title", label);
    setAttribute(this.element, "aria-label", label);
    setAttribute(this.element, "href", this.app.href({ view: "alerts" }));
  }
}
