//! A titled part of a view.

import { h } from "../parts/dom";

export interface Panel {
  element: HTMLElement;
  body: HTMLElement;
  /** Text behind the title. */
  note: HTMLElement;
}

export function panel(title: string, className = "", ...tools: Node[]): Panel {
  const body = h("div", { class: "panel-body" });
  const note = h("span", { class: "panel-note" });
  const id = `panel-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  const element = h(
    "section",
    { class: `panel ${className}`, "aria-labelledby": id },
    h(
      "header",
      { class: "panel-head" },
      h("h2", { id }, title),
      note,
      h("span", { class: "space" }),
      ...tools,
    ),
    body,
  );
  return { element, body, note };
}

/** A number with its title and a note. */
export function figure(title: string, value: string | Node, note: string): HTMLElement {
  return h(
    "div",
    { class: "figure" },
    h("span", {}, title),
    h("b", {}, value),
    h("small", {}, note),
  );
}

/** A text with a button that removes what it describes. */
export function chip(remove: () => void): HTMLElement {
  return h(
    "span",
    { class: "chip", hidden: true },
    h("span", {}),
    h(
      "button",
      { type: "button", "aria-label": "Remove", title: "Remove", on: { click: remove } },
      "×",
    ),
  );
}
