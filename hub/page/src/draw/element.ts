//! Draws an element of the page on a canvas, so that a picture without a canvas can be saved too:
//! boxes with one border, lines of text, and the rectangles, paths and texts of SVG.

import { paintSwatch } from "./swatch";

/** A picture, with its device pixels for each pixel of the page. */
interface Drawn {
  canvas: HTMLCanvasElement;
  ratio: number;
}

/** Class of an element while it is drawn. The style sheet shows all of it, also what scrolls. */
const SAVING = "saving";

/** Max length of a side in device pixels. Browsers have no larger canvases. */
const LONGEST = 16_000;

export function drawElement(root: HTMLElement | SVGElement): Drawn {
  const { scrollTop } = root;
  root.classList.add(SAVING);
  const { left, top, width, height } = root.getBoundingClientRect();
  const ratio = Math.min(window.devicePixelRatio || 1, LONGEST / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, -left * ratio, -top * ratio);
  paint(pen, root);
  root.classList.remove(SAVING);
  root.scrollTop = scrollTop;
  return { canvas, ratio };
}

function paint(pen: CanvasRenderingContext2D, element: Element): void {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return;
  pen.save();
  pen.globalAlpha *= Number(style.opacity);
  if (element instanceof SVGGraphicsElement) paintShape(pen, element, style);
  else if (element instanceof HTMLElement) paintBox(pen, element, style);
  for (const child of element.children) paint(pen, child);
  pen.restore();
}

function fontOf({ fontWeight, fontSize, fontFamily }: CSSStyleDeclaration): string {
  return `${fontWeight} ${fontSize} ${fontFamily}`;
}

function paintShape(
  pen: CanvasRenderingContext2D,
  element: SVGGraphicsElement,
  style: CSSStyleDeclaration,
): void {
  const place = element.getScreenCTM();
  if (place === null) return;
  pen.save();
  pen.transform(place.a, place.b, place.c, place.d, place.e, place.f);
  pen.fillStyle = style.fill;
  pen.strokeStyle = style.stroke;
  pen.lineWidth = Number.parseFloat(style.strokeWidth);
  pen.miterLimit = 4;
  const dashes = style.strokeDasharray.split(",").map(Number.parseFloat);
  pen.setLineDash(dashes.every(Number.isFinite) ? dashes : []);
  const number = (name: string) => Number(element.getAttribute(name));
  const [x, y] = [number("x"), number("y")];
  if (element instanceof SVGTextElement) {
    const text = element.textContent ?? "";
    pen.font = fontOf(style);
    pen.textAlign = style.textAnchor === "end" ? "right" : "left";
    if (style.stroke !== "none") pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  } else if (element instanceof SVGGeometryElement) {
    const path = new Path2D(element.getAttribute("d") ?? "");
    if (element instanceof SVGRectElement)
      path.roundRect(x, y, number("width"), number("height"), number("rx"));
    if (style.fill !== "none") pen.fill(path);
    if (style.stroke !== "none") pen.stroke(path);
  }
  pen.restore();
}

/** Draws a box and its text, and clips what is in it as the page does. */
function paintBox(
  pen: CanvasRenderingContext2D,
  element: HTMLElement,
  style: CSSStyleDeclaration,
): void {
  const box = element.getBoundingClientRect();
  const { left, top, width, height } = box;
  const radius = Number.parseFloat(style.borderRadius);
  const path = new Path2D();
  path.roundRect(left, top, width, height, radius);
  pen.fillStyle = style.backgroundColor;
  pen.fill(path);
  if (element.classList.contains("swatch"))
    for (const name of element.classList) paintSwatch(pen, name, left, top, width, height);
  const inset = / (\S+)px inset$/.exec(style.boxShadow);
  const line = inset === null ? Number.parseFloat(style.borderTopWidth) : Number(inset[1]);
  if (line > 0) {
    pen.strokeStyle =
      inset === null
        ? style.borderTopColor
        : style.boxShadow.slice(0, style.boxShadow.indexOf(")") + 1);
    pen.lineWidth = line;
    pen.setLineDash(style.borderTopStyle === "dashed" ? [3 * line, 3 * line] : []);
    pen.beginPath();
    pen.roundRect(left + line / 2, top + line / 2, width - line, height - line, radius);
    pen.stroke();
  }
  if (style.overflowX !== "visible") pen.clip(path);
  for (const child of element.childNodes)
    if (child instanceof Text) paintText(pen, child, box.right, style);
}

/** Draws a line of text. A text that is cut ends at `end`, with an ellipsis as on the page. */
function paintText(
  pen: CanvasRenderingContext2D,
  node: Text,
  end: number,
  style: CSSStyleDeclaration,
): void {
  const range = document.createRange();
  range.selectNodeContents(node);
  const { left, right, top, height } = range.getBoundingClientRect();
  pen.font = fontOf(style);
  pen.fillStyle = style.color;
  const { fontBoundingBoxAscent, fontBoundingBoxDescent } = pen.measureText("");
  let text = node.data;
  if (style.textOverflow === "ellipsis" && right > end + 1)
    while (text !== "" && left + pen.measureText(`${text}…`).width > end) text = text.slice(0, -1);
  const shown = text === node.data ? text : `${text}…`;
  pen.fillText(shown, left, top + (height + fontBoundingBoxAscent - fontBoundingBoxDescent) / 2);
}
