//! Saves a table as CSV, and a picture as CSV and PNG: the buttons, and the frame of the picture.

import { drawElement } from "../draw/element";
import { paintSwatch } from "../draw/swatch";
import { font, theme, zoom } from "../draw/theme";
import type { App } from "../model/app";
import { type Cell, csv, fileName } from "../model/csv";
import { dateTime, zone } from "../model/units";
import { h } from "./dom";
import { icon } from "./icons";
import { type LegendMark, type LegendScale, legendIn } from "./meter";

/** A line of a chart in its legend. */
interface LegendLine {
  color: string;
  text: string;
  dashed: boolean;
}

interface Span {
  from: number;
  to: number;
}

/** What can be saved. The functions are called at the click, so the file has what is shown then. */
export interface Savable {
  title: string;
  /** The rows with their heads. */
  rows: () => Iterable<readonly Cell[]>;
  /** The canvases of the picture, the lowest first, or its element. A table has none. */
  layers?: () => readonly (HTMLElement | SVGElement)[];
  /** The curves of the picture. Other pictures have the legend of their view. */
  lines?: () => readonly LegendLine[];
  unit?: () => string;
  /** What the page says about the picture. */
  note?: () => string;
  /** Time of the values in milliseconds, if it is not that of the page. */
  span?: () => Span | null;
  /** What is missing, because the hub sent only a part. It is in the name of the file. */
  cut?: () => string;
}

let page: App | null = null;

/** Sets the page whose fabric, view and time are in the files. */
export function savesFrom(app: App): void {
  page = app;
}

/** Returns the shown time of the page: the selected range, or the end of a slot. */
function shownSpan(): Span | null {
  const slot = page?.shown ?? null;
  if (page === null || slot === null) return null;
  return page.state.range ?? { from: page.timeOf(slot), to: page.timeOf(slot) };
}

/** Creates the buttons. A table has one with an icon, for which the end of its head has room. */
export function saveButtons(what: Savable): HTMLElement {
  const make = (kind: string, save: () => void, content: Node | string) => {
    const name = `Save ${what.title} as ${kind}`;
    return h(
      "button",
      {
        type: "button",
        class: "save-button",
        "aria-label": name,
        title: name,
        on: { click: save },
      },
      content,
    );
  };
  const { layers } = what;
  return layers === undefined
    ? make("CSV", () => saveRows(what), icon("save"))
    : h(
        "span",
        { class: "save" },
        make("CSV", () => saveRows(what), "CSV"),
        make("PNG", () => savePicture(what, layers()), "PNG"),
      );
}

function saveRows(what: Savable): void {
  download(nameOf(what, "csv"), new Blob(csv(what.rows()), { type: "text/csv;charset=utf-8" }));
}

function savePicture(what: Savable, layers: readonly (HTMLElement | SVGElement)[]): void {
  const shown = layers.filter((layer) => layer.clientWidth > 0);
  if (shown.length === 0) return;
  pictureOf(what, shown).toBlob((blob) => {
    if (blob !== null) download(nameOf(what, "png"), blob);
  });
}

function nameOf({ title, span, cut }: Savable, ending: string): string {
  const { view = "", item = "" } = page?.state ?? {};
  const parts = [page?.health?.fabric ?? "", view, item, title, cut?.() ?? ""];
  return fileName(parts, (span ?? shownSpan)(), ending);
}

function download(name: string, blob: Blob): void {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// --- the picture

/** Sizes in units. */
const EDGE = 12;
const LINE = 18;
const SWATCH = 16;
const RAMP = 110;

/** An entry of the legend: a swatch, and texts before and behind it. */
interface Item {
  before: string;
  swatch: number;
  text: string;
  /** Draws the swatch around a line. */
  paint: (pen: CanvasRenderingContext2D, x: number, y: number) => void;
}

/** Adds the title, the fabric, the time, the unit and the legend to what is on the screen. */
function pictureOf(what: Savable, shown: readonly (HTMLElement | SVGElement)[]): HTMLCanvasElement {
  const layers = shown.map((layer) =>
    layer instanceof HTMLCanvasElement
      ? { canvas: layer, ratio: layer.width / layer.clientWidth }
      : drawElement(layer),
  );
  const { width, height } = layers[0].canvas;
  const ratio = layers[0].ratio * zoom();
  const canvas = h("canvas");
  const pen = canvas.getContext("2d")!;
  const colors = theme();
  const texts = [
    [what.title, font(15, 650), colors.ink],
    ...aboutTexts(what).map((text) => [text, font(12), colors.muted]),
  ];
  const widthOf = (text: string, style = font(12)) => {
    pen.font = style;
    return text === "" ? 0 : pen.measureText(text).width + 6;
  };
  const items = (what.lines?.().map(lineItem) ?? legendItems(shown[0])).map((item) => {
    const left = widthOf(item.before);
    return { ...item, left, width: left + item.swatch + 6 + widthOf(item.text) };
  });
  // No text is cut: the picture is as wide as the widest one.
  const widths = [
    ...texts.map(([text, style]) => widthOf(text, style)),
    ...items.map((i) => i.width),
  ];
  const room = Math.max(width / ratio, ...widths);
  const places: { x: number; row: number }[] = [];
  let [x, row] = [0, 0];
  for (const item of items) {
    if (x > 0 && x + item.width > room) [x, row] = [0, row + 1];
    places.push({ x, row });
    x += item.width + 8;
  }
  const head = EDGE + LINE * texts.length + EDGE / 2;
  const foot = height / ratio + head + EDGE / 2;
  // A new size clears what a context has.
  canvas.width = Math.ceil((room + 2 * EDGE) * ratio);
  canvas.height = Math.ceil((foot + LINE * (items.length > 0 ? row + 1 : 0) + EDGE) * ratio);
  pen.fillStyle = colors.surface;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const layer of layers)
    pen.drawImage(layer.canvas, Math.round(EDGE * ratio), Math.round(head * ratio));
  pen.setTransform(ratio, 0, 0, ratio, EDGE * ratio, 0);
  pen.textBaseline = "middle";
  texts.forEach(([text, style, color], at) => {
    pen.font = style;
    pen.fillStyle = color;
    pen.fillText(text, 0, EDGE + LINE * (at + 0.5));
  });
  pen.font = font(12);
  items.forEach(({ before, left, swatch, text, paint }, at) => {
    const { x } = places[at];
    const y = foot + LINE * (places[at].row + 0.5);
    pen.fillStyle = colors.muted;
    pen.fillText(before, x, y);
    pen.fillText(text, x + left + swatch + 6, y);
    paint(pen, x + left, y);
  });
  return canvas;
}

/** Returns the fabric and the item, the time, the unit and the note of a picture. */
function aboutTexts({ span, unit, note, cut }: Savable): string[] {
  const time = (span ?? shownSpan)();
  const ends = time === null ? [] : [...new Set([dateTime(time.from), dateTime(time.to)])];
  const { health = null, state } = page ?? {};
  const fabric = `${health?.fabric ?? "fabric"}${health?.simulated === true ? " (simulated)" : ""}`;
  const of = unit?.() ?? "";
  return [
    [fabric, state?.item, of === "" ? "" : `unit: ${of}`, cut?.()].filter(Boolean).join(" · "),
    time === null ? "" : `${ends.join(" to ")} ${zone(time.to)}`,
    note?.() ?? "",
  ].filter((text) => text !== "");
}

function lineItem({ color, text, dashed }: LegendLine): Item {
  const paint = (pen: CanvasRenderingContext2D, x: number, y: number) => {
    pen.fillStyle = color;
    for (const at of dashed ? [0, 9] : [0]) pen.fillRect(x + at, y - 1.5, dashed ? 6 : SWATCH, 3);
  };
  return { before: "", swatch: SWATCH, text, paint };
}

/** Returns what the legend nearest to a picture shows. */
function legendItems(picture: Element): Item[] {
  let parent = picture.parentElement;
  while (parent !== null && parent.id !== "main" && parent.querySelector(".legend") === null)
    parent = parent.parentElement;
  const found = parent === null ? null : legendIn(parent);
  return found === null ? [] : [...found.scales.map(scaleItem), ...found.marks.map(markItem)];
}

function scaleItem([before, scale, ticks]: LegendScale): Item {
  const paint = (pen: CanvasRenderingContext2D, x: number, y: number) => {
    for (let at = 0; at < RAMP; at++) {
      pen.fillStyle = scale.color(at / (RAMP - 1));
      pen.fillRect(x + at, y - 5, 1.5, 10);
    }
  };
  return { before, swatch: RAMP, text: ticks.map(({ text }) => text).join(" … "), paint };
}

function markItem([name, text]: LegendMark): Item {
  const paint = (pen: CanvasRenderingContext2D, x: number, y: number) =>
    paintSwatch(pen, name, x, y - 6, SWATCH, 12);
  return { before: "", swatch: SWATCH, text, paint };
}
