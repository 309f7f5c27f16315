//! Saves a table as CSV, and a picture as CSV and PNG: the buttons, and the frame of the picture.

import { hatch } from "../draw/canvas";
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
  /** The canvases of the picture, the lowest first. A table has none. */
  layers?: () => readonly HTMLCanvasElement[];
  /** The curves of the picture. Other pictures have the legend of their view. */
  lines?: () => readonly LegendLine[];
  unit?: () => string;
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

function savePicture(what: Savable, layers: readonly HTMLCanvasElement[]): void {
  const shown = layers.filter((canvas) => !canvas.hidden && canvas.width > 0);
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

/** Adds the title, the fabric, the time, the unit and the legend to what is on the screen. */
function pictureOf(what: Savable, layers: readonly HTMLCanvasElement[]): HTMLCanvasElement {
  const [{ width, height, clientWidth }] = layers;
  const ratio = (width / (clientWidth || width)) * zoom();
  const canvas = h("canvas");
  const pen = canvas.getContext("2d")!;
  const items = what.lines?.().map(lineItem) ?? legendItems(layers[0]);
  pen.font = font(12);
  const room = Math.max(width / ratio, ...items.map((item) => item.width(pen)));
  const colors = theme();
  const title = wrapped(pen, what.title, font(15, 650), room);
  const about = wrapped(pen, aboutText(what), font(12), room);
  const rows = legendRows(pen, items, room);
  const head = EDGE + LINE * (title.length + about.length) + EDGE / 2;
  const foot = EDGE / 2 + LINE * rows.length + EDGE;
  // The size comes last, because a new size clears what a context has.
  canvas.width = Math.ceil((room + 2 * EDGE) * ratio);
  canvas.height = height + Math.round((head + foot) * ratio);
  pen.fillStyle = colors.surface;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const layer of layers)
    pen.drawImage(layer, Math.round(EDGE * ratio), Math.round(head * ratio));
  pen.setTransform(ratio, 0, 0, ratio, EDGE * ratio, 0);
  pen.textBaseline = "middle";
  let y = EDGE + LINE / 2;
  for (const [texts, style, color] of [
    [title, font(15, 650), colors.ink],
    [about, font(12), colors.muted],
  ] as const) {
    pen.font = style;
    pen.fillStyle = color;
    for (const text of texts) {
      pen.fillText(text, 0, y);
      y += LINE;
    }
  }
  pen.font = font(12);
  y = head + height / ratio + EDGE / 2 + LINE / 2;
  for (const row of rows) {
    let x = 0;
    for (const item of row) {
      pen.textAlign = "left";
      pen.fillStyle = colors.muted;
      item.draw(pen, x, y);
      x += item.width(pen) + SWATCH;
    }
    y += LINE;
  }
  return canvas;
}

/** Returns the fabric, the time and the unit of a picture. */
function aboutText({ span, unit, cut }: Savable): string {
  const time = (span ?? shownSpan)();
  const ends = time === null ? [] : [...new Set([dateTime(time.from), dateTime(time.to)])];
  const { health = null, state } = page ?? {};
  const fabric = `${health?.fabric ?? "fabric"}${health?.simulated === true ? " (simulated)" : ""}`;
  const of = unit?.() ?? "";
  return [
    fabric,
    state?.item ?? "",
    time === null ? "" : `${ends.join(" to ")} ${zone(time.to)}`,
    of === "" ? "" : `unit: ${of}`,
    cut?.() ?? "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** Divides a text into lines that fit, between letters if a word is too long. */
function wrapped(pen: CanvasRenderingContext2D, text: string, style: string, room: number) {
  pen.font = style;
  const lines: string[] = [];
  let line = "";
  for (const part of text.split(/(?<=[ /])/)) {
    for (const piece of pen.measureText(part).width > room ? [...part] : [part]) {
      if (line !== "" && pen.measureText((line + piece).trimEnd()).width > room) {
        lines.push(line.trimEnd());
        line = "";
      }
      line += piece;
    }
  }
  return [...lines, line.trimEnd()];
}

/** An entry of the legend. */
interface Item {
  width: (pen: CanvasRenderingContext2D) => number;
  draw: (pen: CanvasRenderingContext2D, x: number, y: number) => void;
}

function legendRows(pen: CanvasRenderingContext2D, items: readonly Item[], room: number): Item[][] {
  pen.font = font(12);
  const rows: Item[][] = [];
  let used = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const width = item.width(pen) + SWATCH;
    if (used + width - SWATCH > room) {
      rows.push([]);
      used = 0;
    }
    rows[rows.length - 1].push(item);
    used += width;
  }
  return rows;
}

function lineItem({ color, text, dashed }: LegendLine): Item {
  return {
    width: (pen) => SWATCH + 6 + pen.measureText(text).width,
    draw: (pen, x, y) => {
      pen.fillText(text, x + SWATCH + 6, y);
      pen.fillStyle = color;
      if (dashed) for (const at of [0, 9]) pen.fillRect(x + at, y - 1.5, 6, 3);
      else pen.fillRect(x, y - 1.5, SWATCH, 3);
    },
  };
}

function legendItems(canvas: HTMLCanvasElement): Item[] {
  let parent = canvas.parentElement;
  while (parent !== null && parent.id !== "main" && parent.querySelector(".legend") === null)
    parent = parent.parentElement;
  const found = parent === null ? null : legendIn(parent);
  return found === null ? [] : [...found.scales.map(scaleItem), ...found.marks.map(markItem)];
}

/** A ramp with its name before it, and its ticks behind it: `Utilization [ramp] 0 % … 100 %`. */
function scaleItem([name, scale, ticks]: LegendScale): Item {
  const texts = [name, ticks.map(({ text }) => text).join(" … ")] as const;
  return {
    width: (pen) => texts.reduce((sum, text) => sum + pen.measureText(text).width + 6, RAMP),
    draw: (pen, x, y) => {
      const left = x + pen.measureText(texts[0]).width + 6;
      pen.fillText(texts[0], x, y);
      pen.fillText(texts[1], left + RAMP + 6, y);
      for (let at = 0; at < RAMP; at++) {
        pen.fillStyle = scale.color(at / (RAMP - 1));
        pen.fillRect(left + at, y - 5, 1.5, 10);
      }
    },
  };
}

function markItem([name, text]: LegendMark): Item {
  return {
    width: (pen) => SWATCH + 6 + pen.measureText(text).width,
    draw: (pen, x, y) => {
      const { line, muted, surface, alert } = theme();
      pen.fillText(text, x + SWATCH + 6, y);
      const fills: Record<string, string | CanvasPattern> = {
        "no-answer": hatch(pen, muted, line),
        "no-data": hatch(pen, line, surface),
        "at-least": "#2a788e",
        increase: "#d55e00",
        faulty: alert,
      };
      pen.fillStyle = fills[name] ?? "#0c0e12";
      pen.fillRect(x, y - 6, SWATCH, 12);
      pen.fillStyle = name === "down" ? alert : "#ebebeb";
      if (name === "down") for (let at = 2; at < 13; at++) pen.fillRect(x + at, y + 6 - at, 2, 2);
      if (name === "at-least")
        for (let at = 0; at < 12; at++)
          pen.fillRect(x + 2 + 4 * (at % 4), y - 4 + 4 * Math.floor(at / 4), 1.5, 1.5);
    },
  };
}
