//! A table that sorts, and that stays fast with 40,000 rows: only visible rows are elements.

import { zoom } from "../draw/theme";
import { h, setStyle, setText } from "./dom";

export interface Column<Row> {
  id: string;
  title: string;
  /** Explains the column. */
  hint?: string;
  /** Width as a track of a CSS grid. */
  width: string;
  end?: boolean;
  /** Value for sorting. Null sorts last. */
  value: (row: Row) => number | string | null;
  /** Text of a cell; `draw` replaces it. */
  text?: (row: Row) => string;
  /** Draws a cell. The element is reused for other rows. */
  draw?: (cell: HTMLElement, row: Row) => void;
}

interface Options<Row> {
  label: string;
  columns: Column<Row>[];
  key: (row: Row) => string;
  /** Opens a row: click, or Enter. */
  open?: (row: Row) => void;
  sort: string;
  descending: boolean;
  sorted?: (id: string, descending: boolean) => void;
  empty: string;
  height?: number;
}

interface Line {
  element: HTMLElement;
  cells: HTMLElement[];
}

/** Space between two columns, in pixels. */
const GAP = 14;

/** Returns a track for the size of the text: on a wall screen, text and columns are larger. */
function scaledTrack(track: string): string {
  return track.replaceAll(/(\d+)px/g, (_, width) => `${Math.round(Number(width) * zoom())}px`);
}

/** Returns the smallest width of a track such as `90px` or `minmax(90px, 1fr)`, in pixels. */
function leastWidth(track: string): number {
  return Number(/(\d+)px/.exec(track)?.[1] ?? 0);
}

/** Rows above and below the visible ones that are elements too. */
const MARGIN = 6;

export class Table<Row> {
  readonly element: HTMLElement;
  private rows: Row[] = [];
  private readonly body: HTMLElement;
  private readonly inner: HTMLElement;
  private readonly note: HTMLElement;
  private readonly heads = new Map<string, HTMLElement>();
  private readonly lines: Line[] = [];
  private readonly height: number;
  private sort: string;
  private descending: boolean;
  private active = -1;
  private readonly observer: ResizeObserver;

  constructor(private readonly options: Options<Row>) {
    this.height = Math.round((options.height ?? 32) * zoom());
    this.sort = options.sort;
    this.descending = options.descending;
    const tracks = options.columns.map((column) => scaledTrack(column.width)).join(" ");
    const head = h(
      "div",
      { class: "table-head", role: "row" },
      ...options.columns.map((c) => this.head(c)),
    );
    this.inner = h("div", { class: "table-rows" });
    this.note = h("p", { class: "empty" }, "Waiting for the hub…");
    this.body = h(
      "div",
      {
        class: "table-body",
        tabindex: 0,
        role: "rowgroup",
        "aria-label": `Rows: ${options.label}`,
      },
      this.inner,
    );
    this.body.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.element = h(
      "div",
      { class: "table", role: "grid", "aria-label": options.label },
      h("div", { role: "rowgroup", class: "table-top" }, head),
      this.body,
      this.note,
    );
    const least = options.columns.reduce(
      (sum, { width }) => sum + leastWidth(scaledTrack(width)) + GAP,
      GAP,
    );
    setStyle(this.element, {
      "--least": `${least}px`,
      "--tracks": tracks,
      "--row": `${this.height}px`,
    });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.body);
    this.marks();
  }

  close(): void {
    this.observer.disconnect();
  }

  /** Shows other rows. The order of the columns stays. */
  setRows(rows: Row[]): void {
    this.rows = this.ordered(rows);
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.inner.style.height = `${rows.length * this.height}px`;
    setText(this.note, rows.length === 0 ? this.options.empty : "");
    this.note.hidden = rows.length > 0;
    this.active = Math.min(this.active, rows.length - 1);
    this.draw();
  }

  /** Sets the text that an empty table shows. */
  setEmpty(text: string): void {
    this.options.empty = text;
  }

  /** Shows new values of the same rows. */
  refresh(): void {
    this.draw();
  }

  private ordered(rows: Row[]): Row[] {
    const column = this.options.columns.find((c) => c.id === this.sort) ?? this.options.columns[0];
    const sign = this.descending ? -1 : 1;
    return rows
      .map((row) => ({ row, value: column.value(row) }))
      .sort((x, y) => {
        if (x.value === y.value) return 0;
        if (x.value === null) return 1;
        if (y.value === null) return -1;
        if (typeof x.value === "string" && typeof y.value === "string") {
          return sign * x.value.localeCompare(y.value, undefined, { numeric: true });
        }
        return x.value < y.value ? -sign : sign;
      })
      .map(({ row }) => row);
  }

  private head(column: Column<Row>): HTMLElement {
    const button = h(
      "button",
      { type: "button", title: column.hint, on: { click: () => this.sortBy(column) } },
      column.title,
    );
    const head = h("div", { role: "columnheader", class: column.end ? "end" : undefined }, button);
    this.heads.set(column.id, head);
    return head;
  }

  private sortBy(column: Column<Row>): void {
    const numeric = column.end === true;
    this.descending = this.sort === column.id ? !this.descending : numeric;
    this.sort = column.id;
    this.options.sorted?.(this.sort, this.descending);
    this.marks();
    this.setRows(this.rows);
  }

  private marks(): void {
    for (const [id, head] of this.heads) {
      const order = this.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", id === this.sort ? order : "none");
    }
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.height) - 1);
    const moves: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -this.rows.length,
      End: this.rows.length,
    };
    if (event.key === "Enter" && this.active >= 0 && event.target === this.body) {
      this.options.open?.(this.rows[this.active]);
    } else if (event.key in moves) {
      this.active = Math.max(0, Math.min(this.rows.length - 1, this.active + moves[event.key]));
      const top = this.active * this.height;
      const bottom = top + this.height;
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      const visible = this.body.clientHeight;
      if (bottom > this.body.scrollTop + visible) this.body.scrollTop = bottom - visible;
      this.draw();
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.body.scrollTop / this.height) - MARGIN);
    const visible = Math.ceil(this.body.clientHeight / this.height) + 2 * MARGIN;
    const count = Math.max(0, Math.min(this.rows.length - first, visible));
    while (this.lines.length < count) this.lines.push(this.line());
    this.lines.forEach((line, index) => {
      const row = first + index;
      line.element.hidden = index >= count;
      if (index < count) this.fill(line, row);
    });
  }

  private line(): Line {
    const cells = this.options.columns.map((column) =>
      h("div", { role: "gridcell", class: column.end ? "end" : undefined }),
    );
    const element = h("div", { class: "table-row", role: "row" }, ...cells);
    element.addEventListener("click", (event) => {
      if ((event.target as Element).closest("a, button") !== null) return;
      const row = this.rows[Number(element.dataset.row)];
      if (row !== undefined) this.options.open?.(row);
    });
    this.inner.append(element);
    return { element, cells };
  }

  private fill(line: Line, index: number): void {
    const row = this.rows[index];
    line.element.dataset.row = String(index);
    line.element.dataset.id = this.options.key(row);
    line.element.setAttribute("aria-rowindex", String(index + 2));
    line.element.classList.toggle("active", index === this.active);
    line.element.classList.toggle("opens", this.options.open !== undefined);
    line.element.style.transform = `translateY(${index * this.height}px)`;
    this.options.columns.forEach((column, place) => {
      const cell = line.cells[place];
      if (column.draw !== undefined) column.draw(cell, row);
      else setText(cell, column.text?.(row) ?? String(column.value(row) ?? "–"));
    });
  }
}

/** Draws a link into a cell. */
export function linkCell(cell: HTMLElement, text: string, href: string, title = ""): void {
  let anchor = cell.firstElementChild as HTMLAnchorElement | null;
  if (anchor === null) {
    anchor = h("a", { class: "name" });
    cell.append(anchor);
  }
  setText(anchor, text);
  if (anchor.getAttribute("href") !== href) anchor.setAttribute("href", href);
  if (anchor.title !== title) anchor.title = title;
}
