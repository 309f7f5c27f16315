//! The heights of the rows of a table: equal, but on a phone a row has the lines that its sentence
//! needs.

/** Sentences of rows: the text, the height of a line, and the lines of a row with a short text. */
export interface Sentences<Row> {
  text: (row: Row) => string;
  line: number;
  lines: number;
}

/** Height of a line of text, as a multiple of its font size, as in the style sheet. */
const TEXT_LINE = 1.25;
/** Space above and below the lines of a row, and its border, in pixels. */
const EDGES = 7;

export class RowHeights<Row> {
  /** Lines of the sentence of each row, and the tops of the rows; empty if all rows are equal. */
  private spans: number[] = [];
  private tops: number[] = [];
  /** Number of lines of texts that were measured. */
  private readonly known = new Map<string, number>();
  private font = "";
  private width = 0;

  /** `usual` is the height of a row without a sentence of several lines. */
  constructor(
    readonly usual: number,
    private readonly sentences: Sentences<Row> | null,
  ) {}

  /** Measures the sentences of rows in a column with this head, in the font of the body. */
  measure(rows: readonly Row[], head: Element, body: Element): void {
    if (this.sentences === null) return;
    const { text, line, lines } = this.sentences;
    const { width } = head.getBoundingClientRect();
    const { fontSize, fontFamily } = getComputedStyle(body);
    const font = `${fontSize} ${fontFamily}`;
    if (width !== this.width || font !== this.font) this.known.clear();
    [this.width, this.font] = [width, font];
    pen.font = font;
    const track = (this.usual - EDGES) / lines;
    const high = TEXT_LINE * Number.parseFloat(fontSize);
    this.spans = rows.map((row) => {
      const sentence = text(row);
      let span = this.known.get(sentence);
      if (span === undefined) {
        span = Math.ceil((linesOf(sentence, width - 1) * high) / track);
        this.known.set(sentence, span);
      }
      return span;
    });
    this.tops = [0];
    for (const [index, span] of this.spans.entries())
      this.tops.push(this.tops[index] + this.usual + (span - 1) * line);
  }

  /** Returns the distance of a row from the top of the first one. */
  top(index: number): number {
    return this.tops[index] ?? index * this.usual;
  }

  /** Returns the index of the row at a distance from the top of the first one. */
  at(y: number): number {
    if (this.tops.length === 0) return Math.floor(y / this.usual);
    let [from, to] = [0, this.tops.length - 1];
    while (from < to) {
      const middle = (from + to + 1) >> 1;
      if (this.tops[middle] <= y) from = middle;
      else to = middle - 1;
    }
    return from;
  }

  /** Returns the height of the whole rows in this room, or the room if it has none. */
  whole(room: number): number {
    return this.top(this.at(room)) || room;
  }

  /** Returns the style of a row with its own height. */
  style(index: number): Record<string, string> {
    if (this.spans.length === 0) return {};
    const height = this.top(index + 1) - this.top(index);
    return { "--row": `${height}px`, "--span": String(this.spans[index]) };
  }
}

const pen = document.createElement("canvas").getContext("2d")!;

/** Returns the number of lines of a text in the font of the pen, broken between words. */
function linesOf(text: string, width: number): number {
  if (width <= 0) return 1;
  const widthOf = (part: string) => pen.measureText(part).width;
  const space = widthOf(" ");
  let [lines, x] = [1, 0];
  for (const word of text.split(/\s+/)) {
    const size = widthOf(word);
    if (x > 0 && x + size > width) [lines, x] = [lines + 1, 0];
    // A longer word is broken.
    lines += Math.floor(size / width);
    x += (size % width) + space;
  }
  return lines;
}
