//! The traffic between the nodes of a job: a picture of all pairs, and a table of the largest ones.

import type { JobMatrix, MatrixCell } from "../contract/types";
import { clear, createSurface, hatch, type Surface } from "../draw/canvas";
import { utilizationScale } from "../draw/scale";
import { font, theme } from "../draw/theme";
import type { App } from "../model/app";
import { type End, type Square, squareOf } from "../model/matrix";
import { Poll } from "../model/poll";
import { clock, percent, scaled } from "../model/units";
import { h, setText } from "../parts/dom";
import { legend } from "../parts/meter";
import { type Column, Table } from "../parts/table";
import { hideTip, showTip } from "../parts/tooltip";
import { octetsColumn } from "./columns";
import { panel } from "./panel";

/** Min height of a row with a name, in units. */
const NAMED = 11;
/** Share of the width for names, and the space above the square. */
const NAMES = 0.28;
const TOP = 16;
/** The estimate takes the hub longer than other answers. */
const PERIOD = 60_000;

export class MatrixPart {
  readonly elements: HTMLElement[];
  private readonly poll: Poll<JobMatrix>;
  private readonly surface: Surface & { close(): void };
  private readonly table: Table<MatrixCell>;
  private readonly picture = panel("Traffic between nodes", "job-part job-matrix");
  private readonly pairs = panel("Largest pairs", "job-part");
  private readonly legend = h("div", {});
  private readonly worth = h("p", { class: "matrix-worth muted" });
  private square: Square = { ends: [], cells: [], most: 0 };
  private shown: JobMatrix | null = null;

  constructor(app: App) {
    this.poll = new Poll(
      app,
      `job/${encodeURIComponent(app.state.item)}/matrix`,
      () => (app.state.range === null ? {} : app.spanParams),
      () => app.notify("values"),
      PERIOD,
    );
    this.table = new Table<MatrixCell>({
      label: "Largest pairs",
      columns: columns(),
      key: ({ from, to }) => `${from} ${to}`,
      sort: "estimate",
      descending: true,
      empty: "",
      height: 28,
    });
    const frame = h("div", { class: "picture" });
    this.surface = createSurface(frame, "Traffic between nodes", () => this.draw());
    this.picture.body.append(frame, this.legend, this.worth);
    this.pairs.body.append(this.table.element);
    this.elements = [this.picture.element, this.pairs.element];
    this.picture.element.hidden = true;
    frame.addEventListener("pointermove", (event) => this.point(event));
    frame.addEventListener("pointerleave", hideTip);
  }

  update(): void {
    this.poll.refresh();
    const { answer, error } = this.poll;
    if (answer === null && error !== "") {
      this.table.setEmpty(`${error}.`);
      this.table.setRows([]);
    } else if (answer !== null && answer !== this.shown) this.show(answer);
    this.draw();
  }

  close(): void {
    this.poll.close();
    this.surface.close();
    this.table.close();
    hideTip();
  }

  private show(answer: JobMatrix): void {
    this.shown = answer;
    const { matrix, reason } = answer;
    const cells = matrix?.cells ?? [];
    this.square = squareOf(cells);
    this.table.setEmpty(
      reason === null ? "The nodes exchanged no data." : `There is no estimate: ${reason}.`,
    );
    this.table.setRows(cells);
    const span = `${clock(answer.from_ns / 1e6)} to ${clock(answer.to_ns / 1e6)}`;
    const ends = answer.ends === "hosts" ? "" : ", by leaf switch";
    setText(this.picture.note, `estimate, ${span}${ends}`);
    setText(this.pairs.note, matrix === null ? "" : `${span}${ends}`);
    setText(this.worth, matrix === null ? "" : worth(matrix));
    this.picture.element.hidden = cells.length === 0;
    const ticks = [
      { share: 0, text: "0" },
      { share: 1, text: `${scaled(this.square.most, "B")} or more` },
    ];
    this.legend.replaceChildren(legend([["Row sent to column", utilizationScale, ticks]], []));
  }

  /** Returns the left edge, the top and the size of a cell, in units. */
  private get plot(): { x: number; y: number; size: number } {
    const { width, height } = this.surface;
    const x = Math.round(NAMES * width);
    const room = Math.min(width - x, height - TOP);
    return { x, y: TOP, size: room / Math.max(1, this.square.ends.length) };
  }

  private draw(): void {
    const { ends, cells, most } = this.square;
    if (this.surface.width === 0 || ends.length === 0) return;
    const context = clear(this.surface);
    const colors = theme();
    const { x, y, size } = this.plot;
    const gap = size > 6 ? 1 : 0;
    ends.forEach((from, row) => {
      ends.forEach((to, column) => {
        if (row === column && from.isNode) return;
        const bytes = cells[row][column]?.estimate_bytes ?? 0;
        // What other hosts sent to each other is not known.
        context.fillStyle =
          from.isNode || to.isNode
            ? utilizationScale.color(bytes / most)
            : hatch(context, colors.muted, colors.surface);
        context.fillRect(x + column * size, y + row * size, size - gap, size - gap);
      });
    });
    context.fillStyle = colors.muted;
    context.font = font(NAMED);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillText("to: the same order", x, TOP / 2);
    context.textAlign = "right";
    for (const { name, first, count } of labels(ends, size)) {
      context.fillText(name, x - 6, y + (first + count / 2) * size, x - 8);
      context.fillRect(x - 4, y + first * size, 3, count * size - gap);
    }
    const text = `Traffic between ${ends.length} nodes. The table has the same values.`;
    this.surface.canvas.setAttribute("aria-label", text);
  }

  private point(event: PointerEvent): void {
    const { ends, cells } = this.square;
    const { x, y, size } = this.plot;
    const place = this.surface.at(event);
    const from = ends[Math.floor((place.y - y) / size)];
    const to = ends[Math.floor((place.x - x) / size)];
    if (from === undefined || to === undefined || from === to) {
      hideTip();
      return;
    }
    const cell = cells[ends.indexOf(from)][ends.indexOf(to)];
    const octets = (value: number | undefined) => scaled(value ?? 0, "B");
    showTip(event.clientX, event.clientY, [
      `${from.name} to ${to.name}`,
      ["Estimate", octets(cell?.estimate_bytes)],
      ["At least", octets(cell?.least_bytes)],
      ["At most", octets(cell?.most_bytes)],
    ]);
  }
}

/** Returns the names beside the rows: those of the ends, or of leaf switches if rows are small. */
function labels(ends: End[], size: number): { name: string; first: number; count: number }[] {
  const all: { name: string; first: number; count: number }[] = [];
  ends.forEach(({ name, leaf, isNode }, row) => {
    const last = all.at(-1);
    const text = size >= NAMED || !isNode ? name : leaf;
    if (last?.name === text) last.count++;
    else all.push({ name: text, first: row, count: 1 });
  });
  return all.filter(({ count }) => count * size >= NAMED - 1);
}

/** Returns what the estimate is worth. */
function worth({
  interval_ns,
  unexplained,
  contradicted_seconds,
}: NonNullable<JobMatrix["matrix"]>): string {
  const parts = [
    "Port counters have no destinations. An estimate can be wrong by half or more: trust which pairs are large, and the bounds.",
    `Both come from the routes and the counters in intervals of ${interval_ns / 1e9} s, and assume that hosts of different jobs exchange no data.`,
  ];
  if (unexplained !== null)
    parts.push(`${percent(unexplained)} of the traffic between switches is not explained.`);
  if (contradicted_seconds > 0)
    parts.push(
      `In ${contradicted_seconds.toFixed(0)} s of this time, the counters contradict this assumption: do not trust the estimates of this time.`,
    );
  return parts.join(" ");
}

function columns(): Column<MatrixCell>[] {
  const end = (id: "from" | "to", title: string): Column<MatrixCell> => ({
    id,
    title,
    width: "minmax(84px, 1fr)",
    line: 1,
    value: (row) => row[id],
    text: (row) => row[id],
  });
  const octets = (id: string, title: string, hint: string, of: (row: MatrixCell) => number) => ({
    ...octetsColumn(id, title, hint, of),
    line: 2 as const,
  });
  return [
    end("from", "From"),
    end("to", "To"),
    octets("least", "At least", "Lower bound", (row) => row.least_bytes),
    octets("estimate", "Estimate", "Estimated data", (row) => row.estimate_bytes),
    octets("most", "At most", "Upper bound", (row) => row.most_bytes),
  ];
}
