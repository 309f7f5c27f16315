//! A sortable table that stays fast with 40,000 rows, because only visible rows have elements.

import { phone, zoom } from "../draw/theme";
import { type Cell, head, timeCells, timeHeads } from "../model/csv";
import { compareNames } from "../model/units";
import { h, setAttribute, setStyle, setText } from "./dom";
import { RowHeights } from "./rowheights";
import { saveButtons } from "./save";
import { type Drawing, type Place, TablePicture } from "./tablepicture";

export interface Column<Row> {
  id: string;
  title: string;
  /** Explains the column. */
  hint?: string;
  /** Width of the column, as a track of a CSS grid. */
  width: string;
  end?: boolean;
  /** Value for sorting. Null sorts last. */
  value: (row: Row) => number | string | null;
  /** Text of a cell; `draw` replaces it. */
  text?: (row: Row) => string;
  /** Draws a cell. The element is reused for other rows. */
  draw?: (cell: HTMLElement, row: Row) => void;
  /** A bar before the text, or a sparkline instead of it. */
  picture?: (row: Row) => Drawing;
  /** Whether the cells change only with their row and with the URL of the page. */
  isFixed?: boolean;
  /** What a saved table has instead of `value`; a column with null is left out. */
  saved?: ((row: Row) => number | string | null) | null;
  /** Title in a saved table, if the shown one has another unit. */
  savedTitle?: string;
  /** Unit of a number in a saved table; `time` is nanoseconds since 1970, of which 0 is unknown. */
  unit?: string;
  /** Why a number is missing, or of what it is a part. A saved table has a column for it. */
  state?: (row: Row) => string;
  /** Line of a row on a phone. A table with such columns shows only these on a phone. */
  line?: 1 | 2 | 3;
  /** Whether the cell has the lines that its text needs on a phone, and no other cell beside it. */
  isSentence?: boolean;
}

interface Options<Row> {
  label: string;
  columns: Column<Row>[];
  key: (row: Row) => string;
  /** Opens a row, on a click or Enter. */
  open?: (row: Row) => void;
  /** Selects or deselects a row, on the space key. */
  choose?: (row: Row) => void;
  sort: string;
  descending: boolean;
  sorted?: (id: string, descending: boolean) => void;
  empty: string;
  height?: number;
}

interface Line<Row> {
  element: HTMLElement;
  cells: HTMLElement[];
  /** The row that this element shows. */
  row: Row | null;
  /** Whether all cells must be written, because the URL of the page has changed. */
  isStale: boolean;
  /** Whether the tab key reaches the links in this row, which only the active row allows. */
  isReached: boolean;
}

/** Space between two columns, in pixels. */
const GAP = 14;

/** Scales a track with the text, because text and columns are larger on a wall screen. */
function scaledTrack(track: string): string {
  return track.replaceAll(/(\d+)px/g, (_, width) => `${Math.round(Number(width) * zoom())}px`);
}

/** Columns of each line on a phone, if the table does not choose them. */
const FIRST_LINE = 2;
const SECOND_LINE = 2;

/** Returns the columns of each line of a phone. */
function linesOf<Row>(columns: Column<Row>[]): Column<Row>[][] {
  const of = (line: number) => columns.filter((column) => column.line === line);
  const chosen = [1, 2, 3].map(of).filter((line) => line.length > 0);
  if (chosen.length > 0) return chosen;
  const end = FIRST_LINE + SECOND_LINE;
  return [columns.slice(0, FIRST_LINE), columns.slice(FIRST_LINE, end)];
}

/** Height of a line on a phone, in units. */
const LINE = 26;

/**
 * Share of the window from which the least width of a table leaves little for its sentences, so that
 * its cells have two lines.
 */
const SPARE = 0.5;

/** Number of tracks of a row on a phone. */
const TRACKS = 12;

/** Returns the min width of a track such as `90px` or `minmax(90px, 1fr)`, in pixels. */
function leastWidth(track: string): number {
  return Number(/(\d+)px/.exec(track)?.[1] ?? 0);
}

/**
 * Returns the share of each column in its line on a phone, by the least widths of the columns. Lines
 * with the same number of columns have their edges in common.
 */
function spansOf<Row>(lines: readonly Column<Row>[][]): [string, string][] {
  return lines.flatMap((line) => {
    const alike = lines.filter(({ length }) => length === line.length);
    const widths = line.map((_, at) =>
      alike.reduce((sum, other) => sum + leastWidth(other[at].width), 0),
    );
    const total = widths.reduce((sum, width) => sum + width);
    let end = 0;
    let width = 0;
    return line.map(({ id }, at): [string, string] => {
      width += widths[at];
      const start = end;
      end = Math.round((TRACKS * width) / total);
      return [id, `span ${end - start}`];
    });
  });
}

/** Number of rows above and below the visible ones that have elements too. */
const MARGIN = 6;

/** Number of paints over which the rows get new values. */
const PARTS = 3;

/**
 * Delay in milliseconds between drawing the values, sorting the rows, and drawing the rows that are
 * not visible.
 */
const LATER = 60;

export class Table<Row> {
  readonly element: HTMLElement;
  /** What the hub left out of the rows, such as `newest 2000`. It is in the names of files. */
  cut = "";
  private rows: Row[] = [];
  private readonly body: HTMLElement;
  private readonly inner: HTMLElement;
  /** Container of the rows, which moves as a whole when the table scrolls. */
  private readonly block: HTMLElement;
  private readonly note: HTMLElement;
  private readonly heads = new Map<string, HTMLElement>();
  /** Share of each column in its line on a phone. */
  private readonly spans: ReadonlyMap<string, string>;
  private readonly lines: Line<Row>[] = [];
  /** All columns, also those that a phone does not show. */
  private readonly columns: Column<Row>[];
  /** Columns with a picture. */
  private readonly pictured: Column<Row>[];
  private readonly picture: TablePicture | null;
  /**
   * Measured scroll position and height. Reading them after a change makes the browser compute
   * the layout.
   */
  private seen = { top: 0, height: 0 };
  private placed = 0;
  /** First row with an element, and the number of such rows. */
  private first = 0;
  private shown = 0;
  private timer = 0;
  private readonly heights: RowHeights<Row>;
  private sort: string;
  private descending: boolean;
  private active = -1;
  private readonly observer: ResizeObserver;
  /** The column whose texts have lines of their own on a phone. */
  private readonly sentence: Column<Row> | undefined;

  constructor(private readonly options: Options<Row>) {
    this.columns = options.columns;
    const isPhone = phone().matches;
    const lines = linesOf(options.columns);
    if (isPhone) options.columns = lines.flat();
    const sentence = options.columns.find((column) => column.isSentence);
    const least = isPhone
      ? 0
      : options.columns.reduce(
          (sum, { width }) => sum + leastWidth(scaledTrack(width)) + GAP,
          2 * GAP,
        );
    const wraps = sentence !== undefined && least > SPARE * window.innerWidth;
    const height = isPhone ? LINE * lines.length : wraps ? 2 * LINE - 8 : (options.height ?? 32);
    const text = isPhone && sentence !== undefined ? sentence.value : null;
    this.heights = new RowHeights(
      Math.round(height * zoom()),
      text && { text: (row) => String(text(row) ?? ""), line: LINE * zoom(), lines: lines.length },
    );
    this.sentence = sentence;
    this.sort = options.sort;
    this.descending = options.descending;
    const tracks = isPhone
      ? `repeat(${TRACKS}, minmax(0, 1fr))`
      : options.columns.map((column) => scaledTrack(column.width)).join(" ");
    this.spans = new Map(isPhone ? spansOf(lines) : []);
    const head = h(
      "div",
      { class: "table-head", role: "row" },
      ...options.columns.map((c) => this.head(c)),
    );
    this.block = h("div", { class: "table-block" });
    this.inner = h("div", { class: "table-rows" }, this.block);
    this.pictured = options.columns.filter(({ picture }) => picture !== undefined);
    this.picture = this.pictured.length === 0 ? null : new TablePicture();
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
    this.body.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.element = h(
      "div",
      { class: "table" },
      saveButtons({
        title: options.label,
        rows: () => this.saved(),
        cut: () => this.cut,
      }),
      h(
        "div",
        { class: "table-grid", role: "grid", "aria-label": options.label },
        h("div", { role: "rowgroup", class: "table-top" }, head),
        this.body,
        this.note,
      ),
    );
    this.element.classList.toggle("in-lines", isPhone);
    this.element.classList.toggle("wraps", wraps);
    setStyle(this.element, {
      "--least": `${least}px`,
      "--tracks": tracks,
      "--row": `${this.heights.usual}px`,
    });
    this.observer = new ResizeObserver(() => {
      this.seen.height = this.body.clientHeight;
      this.placed = 0;
      this.measure();
      this.scrolled();
    });
    this.observer.observe(this.body);
    // A table that ends before its room keeps its size if the window grows.
    this.observer.observe(document.body);
    this.marks();
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.observer.disconnect();
  }

  /** Shows other rows, with the same columns and order. */
  setRows(rows: Row[]): void {
    this.rows = this.ordered(rows);
    this.body.parentElement!.setAttribute("aria-rowcount", String(rows.length + 1));
    this.measure();
    setText(this.note, rows.length === 0 ? this.options.empty : "");
    this.note.hidden = rows.length > 0;
    this.active = Math.min(this.active, rows.length - 1);
    this.arrange();
    this.drawVisible();
    this.later(() => this.drawHidden());
  }

  private measure(): void {
    if (this.sentence !== undefined)
      this.heights.measure(this.rows, this.heads.get(this.sentence.id)!, this.body);
    const all = this.heights.top(this.rows.length);
    const { element, body } = this;
    this.inner.style.height = `${all}px`;
    // The table ends with a whole row.
    body.style.maxHeight = element.style.maxHeight = "";
    body.classList.remove("has-more");
    if (all === 0) return;
    const around = body.offsetTop + element.offsetHeight - element.clientHeight;
    const room = element.offsetHeight - around;
    const height = Math.min(all, this.heights.whole(room));
    body.style.maxHeight = `${height}px`;
    element.style.maxHeight = `${height + around}px`;
    body.classList.toggle("has-more", all > height);
  }

  /** Why the rows keep their places while their values change; empty if they are not in use. */
  get held(): string {
    if (this.body.matches(":hover")) return "the pointer is on the table";
    if (this.body.contains(document.activeElement)) return "the focus is in the table";
    if (this.active >= 0) return "a row is selected";
    return this.body.scrollTop > 0 ? "the table is scrolled" : "";
  }

  /** Sorts the rows by their new values, and draws both at once: else a row could be seen twice. */
  sortSoon(): void {
    this.later(() => {
      const before = this.rows;
      const rows = this.ordered(before);
      requestAnimationFrame(() => {
        if (this.rows !== before) return;
        this.rows = rows;
        this.measure();
        this.drawVisible();
        this.later(() => this.drawHidden());
      });
    });
  }

  private later(work: () => void): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(work, LATER);
  }

  /** Returns all rows in their order, and all columns with values. */
  private *saved(): Iterable<Cell[]> {
    const columns = this.columns.filter((column) => column.saved !== null && hasText(column));
    yield columns.flatMap(({ title, savedTitle = title, unit, state }) => [
      ...(unit === "time" ? timeHeads(title) : [head(savedTitle, unit)]),
      ...(state === undefined ? [] : [head(title, "note")]),
    ]);
    for (const row of this.rows)
      yield columns.flatMap(({ value, saved, unit, state }) => {
        const found = (saved ?? value)(row);
        return [
          ...(unit === "time" ? timeCells(Number(found) || null) : [found]),
          ...(state === undefined ? [] : [state(row)]),
        ];
      });
  }

  /** Sets the text of an empty table. */
  setEmpty(text: string): void {
    this.options.empty = text;
  }

  /** Shows new values of the same rows. */
  refresh(): void {
    this.drawInParts();
  }

  /** Makes the next drawing write all cells, because links contain the shown time. */
  forget(): void {
    for (const line of this.lines) line.isStale = true;
  }

  private ordered(rows: Row[]): Row[] {
    const column = this.columns.find(({ id }) => id === this.sort) ?? this.columns[0];
    const values = rows.map((row) => column.value(row));
    const order = orderOfCodes(values, this.descending) ?? orderOfValues(values, this.descending);
    return Array.from(order, (index) => rows[index]);
  }

  private head(column: Column<Row>): HTMLElement {
    const button = h(
      "button",
      { type: "button", title: column.hint, on: { click: () => this.sortBy(column) } },
      column.title,
    );
    const head = h("div", { role: "columnheader", class: column.end ? "end" : undefined }, button);
    this.spread(head, column);
    this.heads.set(column.id, head);
    return head;
  }

  /** Gives a cell its share of the line on a phone. */
  private spread(cell: HTMLElement, { id }: Column<Row>): void {
    const span = this.spans.get(id);
    if (span !== undefined) setStyle(cell, { "grid-column": span });
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
    const page = Math.max(1, Math.floor(this.seen.height / this.heights.usual) - 1);
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
    } else if (event.key === " " && this.options.choose !== undefined && this.active >= 0) {
      if (event.target !== this.body) return;
      this.options.choose(this.rows[this.active]);
      this.draw();
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key in moves) {
      this.active = Math.max(0, Math.min(this.rows.length - 1, this.active + moves[event.key]));
      const [top, bottom] = [this.active, this.active + 1].map((row) => this.heights.top(row));
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      const visible = this.seen.height;
      if (bottom > this.body.scrollTop + visible) this.body.scrollTop = bottom - visible;
      this.scrolled();
      event.preventDefault();
      event.stopPropagation();
    }
  }

  private scrolled(): void {
    this.seen.top = this.body.scrollTop;
    this.draw();
  }

  /** Draws all rows that have elements. */
  private draw(): void {
    this.arrange();
    this.fillAll(0, this.shown);
  }

  /** Gives each row an element: the visible rows, and some above and below them. */
  private arrange(): void {
    this.first = Math.max(0, this.heights.at(this.seen.top) - MARGIN);
    const visible = Math.ceil(this.seen.height / this.heights.usual) + 2 * MARGIN;
    const count = Math.max(0, Math.min(this.rows.length - this.first, visible));
    while (this.lines.length < count) this.lines.push(this.line());
    this.block.style.transform = `translateY(${this.heights.top(this.first)}px)`;
    this.place();
    this.shown = count;
    this.lines.forEach(({ element }, index) => {
      element.hidden = index >= count;
    });
    if (this.picture !== null) this.picture.canvas.hidden = count === 0;
  }

  /**
   * Draws the visible rows. The others are drawn when the browser is idle, or before they scroll
   * into view.
   */
  private drawVisible(): void {
    const { from, to } = this.visible;
    this.fillAll(from, to);
  }

  /** Draws the visible rows over several paints, because most cells change. */
  private drawInParts(): void {
    const draw = (part: number) => {
      const { from, to } = this.visible;
      const at = (part: number) => from + Math.ceil(((to - from) * part) / PARTS);
      this.fillAll(at(part), at(part + 1));
      if (part + 1 < PARTS) requestAnimationFrame(() => draw(part + 1));
    };
    draw(0);
  }

  private drawHidden(): void {
    requestAnimationFrame(() => {
      const { from, to } = this.visible;
      this.fillAll(0, from);
      this.fillAll(to, this.shown);
    });
  }

  private fillAll(from: number, to: number): void {
    for (let index = from; index < Math.min(to, this.shown); index++) this.fill(index);
  }

  /** Index of the first visible row, and of the row after the last one. */
  private get visible(): { from: number; to: number } {
    const { top, height } = this.seen;
    return {
      from: Math.max(0, this.heights.at(top) - this.first),
      to: Math.min(this.shown, this.heights.at(top + height) + 1 - this.first),
    };
  }

  /** Positions the picture over its columns. */
  private place(): void {
    if (this.picture === null || this.placed === this.lines.length || this.lines.length === 0)
      return;
    this.placed = this.lines.length;
    const { cells } = this.lines[0];
    this.lines[0].element.hidden = false;
    const places: Place[] = [];
    this.options.columns.forEach(({ picture }, index) => {
      const { offsetLeft, offsetWidth } = cells[index];
      if (picture !== undefined) places.push({ left: offsetLeft, width: offsetWidth });
    });
    const pictured = cells[this.options.columns.findIndex(({ picture }) => picture !== undefined)];
    const middle = pictured.offsetTop + pictured.offsetHeight / 2;
    this.picture.place(places, this.heights.usual, this.lines.length, middle);
  }

  private line(): Line<Row> {
    const cells = this.options.columns.map((column) =>
      h("div", {
        role: "gridcell",
        class: column.end ? "end" : column.isSentence ? "sentence" : undefined,
        "aria-label": column.picture !== undefined && !hasText(column) ? column.title : undefined,
      }),
    );
    for (const [index, column] of this.options.columns.entries()) this.spread(cells[index], column);
    const element = h("div", { class: "table-row", role: "row" }, ...cells);
    element.classList.toggle("opens", this.options.open !== undefined);
    const line: Line<Row> = { element, cells, row: null, isStale: true, isReached: false };
    element.addEventListener("click", (event) => {
      if ((event.target as Element).closest("a, button") !== null) return;
      if (line.row !== null) this.options.open?.(line.row);
    });
    this.block.append(element);
    if (this.picture !== null) this.block.append(this.picture.canvas);
    return line;
  }

  private fill(place: number): void {
    const line = this.lines[place];
    const index = this.first + place;
    const row = this.rows[index];
    const { element } = line;
    const isNew = line.row !== row || line.isStale;
    line.row = row;
    line.isStale = false;
    setAttribute(element, "aria-rowindex", String(index + 2));
    if (isNew) setAttribute(element, "data-id", this.options.key(row));
    setStyle(element, this.heights.style(index));
    element.classList.toggle("active", index === this.active);
    this.options.columns.forEach((column, at) => {
      if (column.isFixed === true && !isNew) return;
      const cell = line.cells[at];
      if (column.isSentence === true) cell.title = String(column.value(row) ?? "");
      if (column.draw !== undefined) column.draw(cell, row);
      else if (hasText(column))
        setText(cell, column.text?.(row) ?? String(column.value(row) ?? "–"));
    });
    const isReached = index === this.active;
    if (isReached !== line.isReached) {
      line.isReached = isReached;
      for (const link of element.querySelectorAll("a")) link.tabIndex = isReached ? 0 : -1;
    }
    this.picture?.draw(
      place,
      this.pictured.map((column) => column.picture!(row)),
    );
  }
}

/** Returns whether the cells of a column have text. A sparkline has none. */
function hasText<Row>({ picture, text, draw }: Column<Row>): boolean {
  return picture === undefined || text !== undefined || draw !== undefined;
}

/**
 * With codes below this limit and at most this many rows, a code and its row index fit into one
 * exact number.
 */
const LARGEST_CODE = 2 ** 31;
const MAX_ROWS = 2 ** 21;

/**
 * Returns the order of whole numbers, or null if there are other values. Each number is
 * sorted together with its index, so no comparison function is needed: 40,000 rows are sorted
 * in each slot.
 */
function orderOfCodes(
  values: readonly (number | string | null)[],
  descending: boolean,
): Uint32Array | null {
  if (values.length > MAX_ROWS) return null;
  const keys = new Float64Array(values.length);
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    let key = LARGEST_CODE;
    if (value !== null) {
      if (typeof value === "string" || !Number.isInteger(value)) return null;
      if (value < 0 || value >= LARGEST_CODE) return null;
      key = descending ? LARGEST_CODE - 1 - value : value;
    }
    keys[index] = key * MAX_ROWS + index;
  }
  keys.sort();
  return Uint32Array.from(keys, (key) => key % MAX_ROWS);
}

/** Returns the order of any values. Null is last. An array sorts fast what is in order already. */
function orderOfValues(values: readonly (number | string | null)[], descending: boolean): number[] {
  const sign = descending ? -1 : 1;
  return [...values.keys()].sort((first, second) => {
    const x = values[first];
    const y = values[second];
    if (x === y) return first - second;
    if (x === null) return 1;
    if (y === null) return -1;
    if (typeof x === "string" && typeof y === "string") return sign * compareNames(x, y);
    return x < y ? -sign : sign;
  });
}

/**
 * Draws a link into a cell, and perhaps a second one behind it. The tab key reaches them only while
 * their row is active.
 */
export function linkCell(
  cell: HTMLElement,
  text: string,
  href: string,
  title = "",
  second: { text: string; href: string } | null = null,
): void {
  drawLink(cell, 0, text, href, title);
  if (second !== null) drawLink(cell, 1, second.text, second.href, "");
  else cell.children[1]?.remove();
}

function drawLink(
  cell: HTMLElement,
  place: number,
  text: string,
  href: string,
  title: string,
): void {
  let anchor = (cell.children[place] ?? null) as HTMLAnchorElement | null;
  if (anchor === null) {
    anchor = h("a", { class: "name", tabindex: -1 });
    cell.append(anchor);
  }
  setText(anchor, text);
  if (anchor.getAttribute("href") !== href) anchor.setAttribute("href", href);
  if (anchor.title !== title) anchor.title = title;
}
