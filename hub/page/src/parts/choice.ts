//! A group of buttons, at most one of which is on.

import { h } from "./dom";

export function choice<Value extends string>(
  label: string,
  values: readonly (readonly [Value, string])[],
  get: () => Value | null,
  set: (value: Value) => void,
): { element: HTMLElement; update: () => void } {
  const buttons = values.map(([value, text]) => {
    const element = h("button", { type: "button", on: { click: () => set(value) } }, text);
    element.dataset.value = value;
    return element;
  });
  const element = h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  const update = () => {
    for (const each of buttons)
      each.setAttribute("aria-pressed", String(each.dataset.value === get()));
  };
  update();
  return { element, update };
}
