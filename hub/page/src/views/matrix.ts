//! The traffic between the nodes of a job: a picture of all pairs, and a table of the largest ones.

import type { JobMatrix, MatrixCell } from "../contract/types";
import { utilizationScale } from "../draw/scale";
import type { App } from "../model/app";
import { type Cell, head } from "../model/csv";
import { pairKey, squareOf } from "../model/matrix";
import { Poll } from "../model/poll";
import { clock, scaled } from "../model/units";
import { h, setText } from "../parts/dom";
import { legend } from "../parts/meter";
import { saveButtons } from "../parts/save";
import { type Column, Table } from "../parts/table";
import { octetsColumn } from "./columns";
import { panel } from "./panel";

/** Usual height of the picture, and min height of the rows of a leaf switch with its name. */
const SIDE = 230;
const NAMED = 10;
/** Max number of rows with numbers in the cells. */
const NUMBERED = 20;
const WAITING = "Waiting for the hub: the estimate of all pairs can take it a minute.";
/** The estimate takes the hub longer than other answers. */
const PERIOD = 60_000;

export class MatrixPart {
  readonly elements: HTMLElement[];
  private readonly poll: Poll<JobMatrix>;
  private readonly table: Table<MatrixCell>;
  private readonly picture = panel(
    "Traffic between nodes",
    "job-part job-matrix",
    saveButtons({
      title: "Traffic between nodes",
      rows: () => savedCells(this.shown?.matrix?.cells ?? []),
      layers: () => [...this.picture.body.querySelectorAll<HTMLElement>(".matrix")],
      unit: () => "B",
      span: () => this.shown && { from: this.shown.from_ns / 1e6, to: this.shown.to_ns / 1e6 },
      note: () => this.picture.note.textContent ?? "",
    }),
  );
  private readonly pairs = panel("Largest pairs", "job-part");
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
      key: ({ from, to }) => pairKey(from, to),
      sort: "estimate",
      descending: true,
      empty: "",
      height: 28,
    });
    this.pairs.body.append(this.table.element);
    this.elements = [this.picture.element, this.pairs.element];
    this.showCells([], WAITING);
  }

  update(): void {
    this.poll.refresh();
    const { answer, error } = this.poll;
    if (answer === null && error !== "") this.showCells([], `${error}.`);
    else if (answer !== null && answer !== this.shown) this.show(answer);
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }

  private showCells(cells: MatrixCell[], empty: string): void {
    this.table.setEmpty(empty);
    this.table.setRows(cells);
    this.picture.element.hidden = cells.length === 0;
  }

  private show(answer: JobMatrix): void {
    this.shown = answer;
    const { matrix, ends, reason } = answer;
    const cells = matrix?.cells ?? [];
    this.showCells(
      cells,
      reason === null ? "The nodes exchanged no data." : `There is no estimate: ${reason}.`,
    );
    const span = `${clock(answer.from_ns / 1e6)} to ${clock(answer.to_ns / 1e6)}`;
    const note = `estimate, ${span}${ends === "hosts" ? "" : `, ${ends}`}`;
    setText(this.picture.note, note);
    setText(this.pairs.note, matrix === null ? "" : note);
    this.picture.body.replaceChildren(
      ...squareElements(cells),
      h("p", { class: "matrix-worth muted" }, matrix?.worth),
    );
  }
}

/** Draws all pairs, and the legend of the colours. */
function squareElements(all: MatrixCell[]): HTMLElement[] {
  const { ends, cells, most } = squareOf(all);
  const grid = h("div", { class: "matrix", style: { "--ends": String(ends.length) } });
  ends.forEach((from, row) => {
    const rows = ends.filter(({ leaf }) => leaf === from.leaf).length;
    const isFirst = ends[row - 1]?.leaf !== from.leaf;
    if (isFirst && (rows * SIDE) / ends.length >= NAMED)
      grid.append(
        h("span", { style: { "grid-row": `${row + 1} / span ${rows}` } }, from.leaf || from.name),
      );
    ends.forEach((to, column) => {
      if (from === to) return;
      const cell = cells.get(pairKey(from.name, to.name));
      const octets = (value = 0) => scaled(value, "B");
      const share = (cell?.estimate_bytes ?? 0) / most;
      grid.append(
        h(
          "i",
          {
            title: `${from.name} to ${to.name}: ${octets(cell?.estimate_bytes)} (${octets(cell?.least_bytes)} to ${octets(cell?.most_bytes)})`,
            style: {
              "grid-area": `${row + 1} / ${column + 2}`,
              background: utilizationScale.color(share),
              color: utilizationScale.ink(share),
            },
          },
          // The style sheet shows it in cells that are large enough.
          ends.length <= NUMBERED ? h("b", {}, scaled(cell?.estimate_bytes ?? 0, "B", most)) : "",
        ),
      );
    });
  });
  const ticks = [scaled(0, "B"), `${scaled(most, "B")} or more`].map((text, share) => ({
    share,
    text,
  }));
  return [grid, legend([["Row sent to column", utilizationScale, ticks]], [])];
}

/** Returns the cells in the order of the picture. Missing are pairs without possible traffic. */
function* savedCells(all: readonly MatrixCell[]): Iterable<Cell[]> {
  const octets = ["At least", "Estimate", "At most"].map((title) => head(title, "B"));
  yield ["From", "From leaf switch", "To", "To leaf switch", ...octets];
  const { ends, cells } = squareOf(all);
  const pairs = ends.flatMap((from) => ends.map((to) => pairKey(from.name, to.name)));
  for (const cell of pairs.flatMap((pair) => cells.get(pair) ?? [])) {
    const { from, from_leaf, to, to_leaf, least_bytes, estimate_bytes, most_bytes } = cell;
    yield [from, from_leaf, to, to_leaf, least_bytes, estimate_bytes, most_bytes];
  }
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
