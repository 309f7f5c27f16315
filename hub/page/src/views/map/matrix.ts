//! The map as a matrix: rows are lower switches, columns are upper switches, and a cell is the
//! fullest cable between them. Uneven routing appears as stripes.

import { FULL, NO_DATA } from "../../contract/frame";
import { clear, createSurface, noAnswer, noData, type Surface, triangle } from "../../draw/canvas";
import { font, theme } from "../../draw/theme";
import type { App } from "../../model/app";
import { codeText } from "../../model/metric";
import type { Cable, Topology } from "../../model/topology";
import { hideTip, showTip } from "../../parts/tooltip";
import { type Arrangement, arrange, blockName, type Grid, gridOf, LEVEL } from "./blocks";
import { BROKEN, CellLooks, CellPicture, NONE, numbersFit, ROOT, SILENT, SPLIT } from "./cells";
import { isSamePicture, type MapData } from "./data";
import { isSilent } from "./paint";

export class Matrix {
  private readonly surface: Surface & { close(): void };
  private readonly grid: Grid;
  /** Names of the blocks. A single block needs none. */
  private readonly names: string[];
  /** The cables of each block, by row and column. */
  private readonly lookup: Map<number, Cable>[];
  private data: MapData | null = null;
  private arrangement: Arrangement;
  private top = 0;
  /** Everything in the picture except the colours of the cells. */
  private shown = "";
  private readonly looks: CellLooks;
  private readonly cells = new CellPicture();
  private readonly abort = new AbortController();

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
    frame: HTMLElement,
  ) {
    this.grid = gridOf(topology);
    const { blocks, cells } = this.grid;
    this.looks = new CellLooks(cells);
    this.names = blocks.length > 1 ? blocks.map((block) => blockName(topology, block)) : [];
    this.lookup = blocks.map(() => new Map());
    for (const { block, row, column, cable } of cells)
      this.lookup[block].set(row * blocks[block].columns.length + column, cable);
    this.arrangement = this.arranged(0, 0);
    this.surface = createSurface(frame, "Matrix of the links between switches", (surface) => {
      this.arrangement = this.arranged(surface.width, surface.height);
      this.shown = "";
      this.draw();
    });
    this.surface.canvas.hidden = true;
    this.listen(frame);
  }

  /** Returns whether the fabric has cables between switches. */
  get isEmpty(): boolean {
    return this.grid.cells.length === 0;
  }

  /** Returns whether the picture is higher than its frame. */
  get scrolls(): boolean {
    return this.arrangement.total > this.surface.height;
  }

  private arranged(width: number, height: number): Arrangement {
    const { topology } = this;
    return arrange(
      this.grid,
      width,
      height,
      ([lower, upper]) =>
        `${topology.tierName(lower)} (rows) and ${topology.tierName(upper).toLowerCase()} (columns)`,
    );
  }

  show(data: MapData | null): void {
    const isSame = isSamePicture(data, this.data);
    this.data = data;
    if (isSame) return;
    this.surface.canvas.hidden = data === null;
    this.draw();
  }

  close(): void {
    this.surface.close();
    this.abort.abort();
  }

  private draw(): void {
    const { data, surface, grid, arrangement } = this;
    if (data === null || surface.width === 0) return;
    const { width, height, head } = arrangement;
    const most = Math.max(0, arrangement.total - surface.height);
    this.top = Math.max(0, Math.min(this.top, most));
    if (this.isEmpty) {
      this.write("This fabric has no links between switches. The picture Rows shows its hosts.");
      return;
    }
    if (data.values === null || data.states === null) {
      this.write("No values for this time.");
      return;
    }
    const { context, ratio } = surface;
    const states = data.states;
    this.looks.read(data.values, states, data.roots);
    const rows = grid.blocks.flatMap(({ rows }) => rows);
    const silent = rows.filter((device) => isSilent(this.topology, device, states));
    const place = [width, height, this.top, ratio, surface.width, surface.height];
    const shown = [...place, data.metric, "silent", ...silent].join();
    const isSame = shown === this.shown;
    this.shown = shown;
    const start = Math.round(head * ratio);
    if (!isSame) {
      clear(surface);
      this.cells.reset(surface.canvas.width, surface.canvas.height - start);
      this.titles(context);
      grid.blocks.forEach((_, block) => {
        this.rowNames(context, states, block);
        this.columnNames(context, block);
      });
    }
    const ground = theme().line;
    this.cells.draw(grid.cells, this.looks, data, ground, arrangement, this.top, ratio);
    grid.blocks.forEach(({ rows, columns }, block) => {
      const { x, y } = arrangement.corners[block];
      const left = Math.round(x * ratio);
      const above = Math.round((y - head - this.top) * ratio);
      const right = Math.ceil((x + columns.length * width) * ratio);
      const below = Math.ceil((y - head - this.top + rows.length * height) * ratio);
      this.cells.paint(context, start, left, above, right - left, below - above);
    });
    this.marks(context);
    if (numbersFit(arrangement)) this.numbers(context, data);
  }

  /** Writes the values of both directions, in whole percent as there is little space. */
  private numbers(context: CanvasRenderingContext2D, { scale }: MapData): void {
    const { width, height, corners, head } = this.arrangement;
    context.font = font(10);
    context.textBaseline = "middle";
    this.grid.cells.forEach(({ block, row, column }, index) => {
      const x = corners[block].x + column * width;
      const y = corners[block].y + row * height - this.top;
      if (y < head || y > this.surface.height) return;
      for (const side of [0, 1]) {
        const code = this.looks.codes[2 * index + side];
        const whole = Math.round((100 * code) / FULL);
        if (code < 0) continue;
        context.textAlign = side === 0 ? "left" : "right";
        context.fillStyle = scale.ink(code / FULL);
        const [at, middle] = side === 0 ? [x + 4, y + 8] : [x + width - 5, y + height - 8];
        context.fillText(`${whole}\u00a0%`, at, middle);
      }
    });
  }

  private write(text: string): void {
    this.shown = "";
    const context = clear(this.surface);
    context.font = font(13);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillStyle = theme().muted;
    context.fillText(text, 20, 30);
  }

  /** Draws everything but colours: cells without an answer, links that are down, and roots. */
  private marks(context: CanvasRenderingContext2D): void {
    const colors = theme();
    const { marks, up, down } = this.looks;
    const { width, height, corners, head } = this.arrangement;
    const gap = height > 8 ? 1 : 0;
    const w = width - gap;
    const hgt = height - gap;
    context.save();
    context.beginPath();
    context.rect(0, head, this.surface.width, this.surface.height - head);
    context.clip();
    context.lineWidth = 2;
    this.grid.cells.forEach(({ block, row, column }, index) => {
      const mark = marks[index];
      const isEmpty = up[index] === NONE && down[index] === NONE;
      const isHalf = up[index] === NONE || down[index] === NONE;
      if (mark === 0 && up[index] !== SILENT && !isHalf) return;
      const x = corners[block].x + column * width;
      const y = corners[block].y + row * height - this.top;
      if (up[index] === SILENT || isEmpty) {
        context.fillStyle = isEmpty ? noData(context) : noAnswer(context);
        context.fillRect(x, y, w, hgt);
      } else if (isHalf && Math.min(w, hgt) >= SPLIT) {
        const corner = up[index] === NONE ? [x, y] : [x + w, y + hgt];
        triangle(context, noData(context), x, y + hgt, x + w, y, corner[0], corner[1]);
      }
      if ((mark & BROKEN) !== 0) {
        context.strokeStyle = colors.alert;
        context.strokeRect(x + 1, y + 1, Math.max(1, w - 2), Math.max(1, hgt - 2));
      }
      if ((mark & ROOT) !== 0) {
        context.strokeStyle = colors.ink;
        context.strokeRect(x, y, w, hgt);
      }
    });
    context.restore();
  }

  /** Draws the titles of the tiers and of the blocks. */
  private titles(context: CanvasRenderingContext2D): void {
    const { arrangement, grid } = this;
    const colors = theme();
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.font = font(12, 600);
    context.fillStyle = colors.muted;
    for (const { text, y } of arrangement.titles) context.fillText(text, 12, y - this.top);
    context.font = font(11);
    context.fillStyle = colors.ink;
    const sloping = arrangement.names > 0 ? (arrangement.width < LEVEL ? 66 : 14) : 0;
    this.names.forEach((name, block) => {
      const { x, y } = arrangement.corners[block];
      const width = arrangement.names + grid.blocks[block].columns.length * arrangement.width;
      context.fillText(name, x - arrangement.names, y - this.top - 5 - sloping, width + 8);
    });
  }

  private rowNames(context: CanvasRenderingContext2D, states: Uint16Array, block: number): void {
    const colors = theme();
    const { height, corners, names, head } = this.arrangement;
    if (names === 0) return;
    const corner = corners[block];
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = font(Math.min(12, Math.max(9, height)));
    const { rows } = this.grid.blocks[block];
    const silent = rows.map((device) => isSilent(this.topology, device, states));
    const taken: number[] = [];
    // Of rows that are too low for all names, those that do not answer have theirs.
    for (const row of [...rows.keys()].sort((a, b) => Number(silent[b]) - Number(silent[a]))) {
      const y = corner.y + (row + 0.5) * height - this.top;
      if (y < head || y > this.surface.height || taken.some((at) => Math.abs(at - y) < 12))
        continue;
      taken.push(y);
      context.fillStyle = silent[row] ? colors.alert : colors.muted;
      context.fillText(this.topology.devices[rows[row]].node, corner.x - 8, y, names - 12);
    }
  }

  private columnNames(context: CanvasRenderingContext2D, block: number): void {
    const colors = theme();
    const { width, corners, names, head } = this.arrangement;
    if (names === 0) return;
    const corner = corners[block];
    context.fillStyle = colors.muted;
    context.font = font(12);
    const step = Math.max(1, Math.ceil(13 / width));
    const y = corner.y - 8 - (head > 0 ? 0 : this.top);
    this.grid.blocks[block].columns.forEach((device, column) => {
      if (column % step !== 0) return;
      const x = corner.x + (column + 0.5) * width;
      context.save();
      context.translate(x, y);
      const { node } = this.topology.devices[device];
      if (width < LEVEL) context.rotate(-Math.PI / 3);
      context.textAlign = width < LEVEL ? "left" : "center";
      context.textBaseline = "middle";
      context.fillText(node, 0, 0, width < LEVEL ? 70 : width - 4);
      context.restore();
    });
  }

  private find(x: number, y: number): Cable | null {
    const { width, height, corners, head } = this.arrangement;
    if (y < head) return null;
    for (const [block, { rows, columns }] of this.grid.blocks.entries()) {
      const column = Math.floor((x - corners[block].x) / width);
      const row = Math.floor((y - corners[block].y + this.top) / height);
      if (column >= 0 && row >= 0 && column < columns.length && row < rows.length)
        return this.lookup[block].get(row * columns.length + column) ?? null;
    }
    return null;
  }

  private listen(frame: HTMLElement): void {
    const { signal } = this.abort;
    const value = (port: number) => codeText(this.data?.values?.[port] ?? NO_DATA);
    frame.addEventListener(
      "pointermove",
      (event) => {
        if (this.data === null) return;
        if (event.pointerType === "touch") this.scroll(-event.movementY);
        const cable = this.find(...this.surface.at(event));
        if (cable === null) {
          hideTip();
          return;
        }
        const { devices } = this.topology;
        showTip(event.clientX, event.clientY, [
          `${devices[cable.lower].node} – ${devices[cable.upper].node}`,
          ...cable.links.slice(0, 8).flatMap(({ a, b }): [string, string][] => [
            [`${this.topology.nameOf(b)} up`, value(b)],
            [`${this.topology.nameOf(a)} down`, value(a)],
          ]),
        ]);
      },
      { signal },
    );
    frame.addEventListener(
      "click",
      (event) => {
        const cable = this.data === null ? null : this.find(...this.surface.at(event));
        if (cable !== null)
          this.app.go(
            { view: "port", item: this.topology.keyOf(cable.links[0].b), options: {} },
            true,
          );
      },
      { signal },
    );
    frame.addEventListener(
      "wheel",
      (event) => {
        if (this.data === null) return;
        event.preventDefault();
        this.scroll(event.deltaY);
      },
      { signal, passive: false },
    );
    frame.addEventListener(
      "keydown",
      (event) => {
        const moves: Record<string, number> = {
          ArrowDown: 40,
          ArrowUp: -40,
          PageDown: 400,
          PageUp: -400,
        };
        if (this.data === null || !(event.key in moves)) return;
        this.scroll(moves[event.key]);
        event.preventDefault();
      },
      { signal },
    );
  }

  private scroll(by: number): void {
    this.top += by;
    this.draw();
  }
}
