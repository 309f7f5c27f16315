//! A text field that filters what a view shows. Its text is in the URL.

import type { App } from "../model/app";
import { h } from "./dom";

export interface Filter {
  element: HTMLInputElement;
  /** Shows the text of the URL, unless the user is typing. */
  update(): void;
}

export function makeFilter(app: App, placeholder: string, label: string): Filter {
  const element = h("input", {
    class: "field",
    type: "search",
    placeholder,
    size: placeholder.length,
    "aria-label": label,
    on: { input: () => app.setOption("q", element.value.trim()) },
  });
  return {
    element,
    update() {
      if (document.activeElement !== element) element.value = app.option("q");
    },
  };
}

/** Returns the order of a table, which is also in the URL. */
export function orderOf(app: App, sort: string, descending = true) {
  const chosen = app.option("sort");
  return {
    sort: chosen || sort,
    descending: chosen === "" ? descending : app.option("order") !== "up",
    sorted: (id: string, down: boolean) =>
      app.go({ options: { ...app.state.options, sort: id, order: down ? "" : "up" } }),
  };
}
