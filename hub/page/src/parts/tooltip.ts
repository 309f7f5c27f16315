//! One tooltip for all canvas pictures.

import { h } from "./dom";

let element: HTMLElement | null = null;

/** A line of a tooltip: a name and a value, or a single text as a title. */
export type TipLine = string | [string, string];

/** Shows lines next to a point of the window. */
export function showTip(x: number, y: number, lines: TipLine[]): void {
  if (element === null) {
    element = h("div", { class: "tip", role: "status" });
    document.body.append(element);
  }
  element.replaceChildren(
    ...lines.map((line) =>
      typeof line === "string"
        ? h("div", { class: "tip-title" }, line)
        : h("div", { class: "tip-line" }, h("span", {}, line[0]), h("b", {}, line[1])),
    ),
  );
  element.hidden = false;
  const { width, height } = element.getBoundingClientRect();
  const left = x + 16 + width > innerWidth ? x - 12 - width : x + 16;
  const top = y + 16 + height > innerHeight ? y - 12 - height : y + 16;
  element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

export function hideTip(): void {
  if (element !== null) element.hidden = true;
}
