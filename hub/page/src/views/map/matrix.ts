//! The map as a matrix: rows are lower switches, columns are upper switches, a cell is the fullest
//! cable between them. Uneven routing shows as stripes.

import { FULL, hasValue, stateOf } from "../../contract/frame";
import { clear, createSurface, hatch, type Surface } from "../../draw/canvas";
import { font, theme } from "../../draw/theme";
import type { App } from "../../model/app";
import type { Cable, Topology } from "../../model/topology";
import { percent } from "../../model/units";
import { hideTip, showTip } from "../../parts/tooltip";
import { BROKEN, type Cell, CellLooks, CellPicture, ROOT, SILENT } from "./cells";
import { isSamePicture, type MapData } from "./data";
import { isSilent } from "./paint";

const TOP = 74;
const LARGEST_CELL = 30;
const MARGIN = 12;
/** Rows of at least this height have names. */
const NAMED = 10;

interface Grid {
  rows: number[];
  columns: number[];
  cells: Cell[];
}

export class Matrix {
  private readonly surface: Surface & { close(): void };
  private readonly grid: Grid;
  private readonly lookup = new Map<number, Cable>();
  private data: MapData | null = null;
  private top = 0;
  /** What the picture shows, besides the colours of the cells. */
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
    this.looks = new CellLooks(this.grid.cells);
    for (const { row, column, cable } of this.grid.cells)
      this.lookup.set(row * this.grid.columns.length + column, cable);
    this.surface = createSurface(frame, "Matrix of the links between switches", () => {
      this.shown = "";
      this.draw();
    });
    this.surface.canvas.hidden = true;
    this.listen(frame);
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

  private get left(): number {
    return this.cell.height >= NAMED ? 120 : 60;
  }

  private get cell(): { width: number; height: number } {
    const { rows, columns } = this.grid;
    const width = (this.surface.width - 120 - MARGIN) / Math.max(1, columns.length);
    const height = (this.surface.height - TOP - MARGIN) / Math.max(1, rows.length);
    return {
      width: Math.max(2, Math.min(width, 5 * LARGEST_CELL)),
      height: Math.max(3, Math.min(height, LARGEST_CELL)),
    };
  }

  private draw(): void {
    const { data, surface, grid } = this;
    if (data === null || surface.width === 0) return;
    const { width, height } = this.cell;
    const most = Math.max(0, grid.rows.length * height - (surface.height - TOP - MARGIN));
    this.top = Math.max(0, Math.min(this.top, most));
    const { context } = surface;
    if (data.values === null || data.states === null) {
      this.shown = "";
      clear(surface);
      context.font = font(13);
      context.fillStyle = theme().muted;
      context.fillText("No values for this time.", 20, 30);
      return;
    }
    this.looks.read(data.values, data.states, data.roots);
    const silent = grid.rows.filter((device) => isSilent(this.topology, device, data.states!));
    const { ratio } = surface;
    const place = [width, height, this.top, ratio, surface.width, surface.height];
    const shown = [...place, theme().name, data.metric, "silent", ...silent].join();
    const isSame = shown === this.shown;
    this.shown = shown;
    const left = Math.round(this.left * ratio);
    const top = Math.round(TOP * ratio);
    if (!isSame) {
      clear(surface);
      this.cells.reset(surface.canvas.width - left, surface.canvas.height - top);
      this.rowNames(context, data.states, height);
      this.columnNames(context, width);
    }
    const ground = theme().line;
    this.cells.draw(grid.cells, this.looks, data, ground, this.cell, this.top, ratio);
    this.cells.paint(context, left, top);
    this.marks(context, width, height);
  }

  /** Draws what is more than a colour: cells without an answer, links that are down, and roots. */
  private marks(context: CanvasRenderingContext2D, width: number, height: number): void {
    const colors = theme();
    const { marks, up } = this.looks;
    const gap = height > 8 ? 1 : 0;
    const w = width - gap;
    const hgt = height - gap;
    context.save();
    context.beginPath();
    context.rect(this.left - 1, TOP, this.surface.width, this.surface.height - TOP);
    context.clip();
    context.lineWidth = 2;
    this.grid.cells.forEach(({ row, column }, index) => {
      const mark = marks[index];
      if (mark === 0 && up[index] !== SILENT) return;
      const x = this.left + column * width;
      const y = TOP + row * height - this.top;
      if (up[index] === SILENT) {
        context.fillStyle = hatch(context, colors.muted, colors.surface);
        context.fillRect(x, y, w, hgt);
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

  private rowNames(context: CanvasRenderingContext2D, states: Uint16Array, height: number): void {
    const colors = theme();
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.font = font(Math.min(12, Math.max(9, height)));
    let free = TOP - 20;
    this.grid.rows.forEach((device, row) => {
      const y = TOP + (row + 0.5) * height - this.top;
      if (y < TOP || y > this.surface.height || y - free < 12) return;
      free = y;
      const silent = isSilent(this.topology, device, states);
      context.fillStyle = silent ? colors.alert : colors.muted;
      context.fillText(this.topology.devices[device].node, this.left - 8, y, this.left - 12);
    });
  }

  private columnNames(context: CanvasRenderingContext2D, width: number): void {
    const colors = theme();
    context.fillStyle = colors.muted;
    context.font = font(12);
    const step = Math.max(1, Math.ceil(13 / width));
    this.grid.columns.forEach((device, column) => {
      if (column % step !== 0) return;
      const x = this.left + (column + 0.5) * width;
      context.save();
      context.translate(x, TOP - 8);
      const { node } = this.topology.devices[device];
      if (width < 54) context.rotate(-Math.PI / 3);
      context.textAlign = width < 54 ? "left" : "center";
      context.textBaseline = "middle";
      context.fillText(node, 0, 0, width < 54 ? 70 : width - 4);
      context.restore();
    });
  }

  private find(x: number, y: number): Cable | null {
    const { width, height } = this.cell;
    const column = Math.floor((x - this.left) / width);
    const row = Math.floor((y - TOP + this.top) / height);
    if (
      x < this.left ||
      y < TOP ||
      column >= this.grid.columns.length ||
      row >= this.grid.rows.length
    )
      return null;
    return this.lookup.get(row * this.grid.columns.length + column) ?? null;
  }

  private listen(frame: HTMLElement): void {
    const { signal } = this.abort;
    const value = (port: number) => {
      const code = this.data?.values?.[port] ?? 65535;
      return hasValue(code) ? percent(code / FULL) : stateOf(code);
    };
    frame.addEventListener(
      "pointermove",
      (event) => {
        if (this.data === null) return;
        const cable = this.find(...this.place(event));
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
        const cable = this.data === null ? null : this.find(...this.place(event));
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

  /** Returns the place of a pointer on the picture. */
  private place(event: MouseEvent): [number, number] {
    const { x, y } = this.surface.at(event);
    return [x, y];
  }

  private scroll(by: number): void {
    this.top += by;
    this.draw();
  }
}

/** Rows are the switches with a link to a higher switch; columns are the higher ends. */
function gridOf(topology: Topology): Grid {
  const cables = topology.cables.filter(
    ({ upper, lower }) => topology.isSwitch(upper) && topology.isSwitch(lower),
  );
  const sorted = (devices: Set<number>) =>
    [...devices].sort((x, y) => topology.devices[x].tier - topology.devices[y].tier || x - y);
  const rows = sorted(new Set(cables.map(({ lower }) => lower)));
  const columns = sorted(new Set(cables.map(({ upper }) => upper)));
  const rowOf = new Map(rows.map((device, index) => [device, index]));
  const columnOf = new Map(columns.map((device, index) => [device, index]));
  return {
    rows,
    columns,
    cells: cables.map((cable) => ({
      row: rowOf.get(cable.lower)!,
      column: columnOf.get(cable.upper)!,
      cable,
    })),
  };
}
