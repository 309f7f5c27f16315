//! Creates elements without a framework. Text is always set as text, never as HTML, because a name
//! from the fabric can contain any character.

type Child = Node | string | number | null | undefined | false;

interface Properties {
  class?: string;
  /**
   * Style properties, set through the object model because the content security policy forbids
   * style attributes.
   */
  style?: Record<string, string>;
  on?: { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };
  [attribute: string]: unknown;
}

/** Creates an element with attributes and children. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") listen(element, value as NonNullable<Properties["on"]>);
    else if (name === "style") setStyle(element, value as Record<string, string>);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

/** Creates an SVG element. */
export function s<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  add(element, children);
  return element;
}

function add(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

function listen(element: Element, listeners: object): void {
  for (const [name, listener] of Object.entries(listeners)) {
    element.addEventListener(name, listener as EventListener);
  }
}

export function setStyle(element: HTMLElement | SVGElement, style: Record<string, string>): void {
  for (const name in style) {
    const value = style[name];
    if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
  }
}

/**
 * Sets the text of an element if it differs, because writing equal text would lose a selection. The
 * text node stays, since a new node makes the browser compare the style of all neighbours.
 */
export function setText(element: Element, text: string): void {
  const node = element.firstChild;
  if (node instanceof Text && node.nextSibling === null) {
    if (node.data !== text) node.data = text;
  } else if (element.textContent !== text) element.textContent = text;
}

/** Sets an attribute if it differs. A write costs the browser more than a comparison. */
export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Colours a share of an element. A background needs no layout, unlike a change of the width. */
export function fillTo(element: HTMLElement, share: number, color: string): void {
  element.style.backgroundImage = `linear-gradient(${color}, ${color})`;
  element.style.backgroundSize = `${100 * Math.min(1, share)}% 100%`;
}

/** Selects what the keyboard reaches. */
const FOCUSABLE = "a[href], button, [tabindex]";

/**
 * Makes the children of an element match a list. Items that stay keep their elements, so hover,
 * focus and scroll position survive an update. If the item with the focus disappears, the item in
 * its place gets the focus, or the element if the list is empty.
 */
export function patch<Item>(
  parent: Element,
  items: readonly Item[],
  key: (item: Item) => string,
  create: (item: Item) => HTMLElement | SVGElement,
  update: (element: HTMLElement, item: Item) => void,
): void {
  const old = new Map<string, Element>();
  for (const child of parent.children) {
    const name = (child as HTMLElement).dataset.key;
    if (name !== undefined) old.set(name, child);
  }
  const focused = document.activeElement as HTMLElement;
  const index = [...parent.children].findIndex((child) => child.contains(focused));
  let place: Element | null = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = old.get(name) as HTMLElement | undefined;
    if (element === undefined) {
      element = create(item) as HTMLElement;
      element.dataset.key = name;
    }
    old.delete(name);
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const element of old.values()) element.remove();
  while (place !== null) {
    const next: Element | null = place.nextElementSibling;
    if ((place as HTMLElement).dataset.key === undefined) place.remove();
    place = next;
  }
  // An element that moves loses the focus too.
  if (index < 0 || document.activeElement === focused) return;
  const child = parent.children[Math.min(index, parent.children.length - 1)];
  const next = child?.matches(FOCUSABLE) ? child : child?.querySelector(FOCUSABLE);
  if (!focused.isConnected && !next) parent.setAttribute("tabindex", "-1");
  const target = focused.isConnected ? focused : (next ?? parent);
  (target as HTMLElement).focus({ preventScroll: true });
}
