//! The map as rows of tiers, with zoom and pan.

import { NO_ANSWER, NO_DATA } from "../../contract/frame";
import { clear, createSurface, type Surface } from "../../draw/canvas";
import { font, theme } from "../../draw/theme";
import type { App } from "../../model/app";
import { cellText, codeText } from "../../model/metric";
import type { Topology } from "../../model/topology";
import { count, percent } from "../../model/units";
import { distance, listenForPinch } from "../../parts/pinch";
import { hideTip, showTip, type TipLine } from "../../parts/tooltip";
import { combineCodes } from "../heatmap/rows";
import { Links, paintBackground } from "./curves";
import { isSamePicture, type MapData, type Marks, type Painting } from "./data";
import { layoutOf } from "./layout";
import { fullestPort, isSilent, paintBoxes, paintMap } from "./paint";
import type { Curve, Layout } from "./shapes";
import { type Scene, sceneOf } from "./units";

const LARGEST_ZOOM = 12;
/** Distance in pixels at which the pointer hits a link. */
const NEAR = 6;
/** Number of straight pieces that approximate a curve in the hit test. */
const PIECES = 12;

type Hit =
  | { kind: "cell"; port: number }
  | { kind: "pin"; port: number }
  | { kind: "box"; unit: number }
  | { kind: "curve"; curve: Curve };

export class Rowmap {
  private readonly surface: Surface & { close(): void };
  /** The canvas below, with the links that are not coloured. */
  private readonly background: Surface & { close(): void };
  private backgroundKey = "";
  private links: Links | null = null;
  private data: MapData | null = null;
  private scene: Scene;
  private layout: Layout | null = null;
  private open = "";
  private zoom = 1;
  private left = 0;
  private top = 0;
  private hit: Hit | null = null;
  private drag: { x: number; y: number; left: number; top: number; moved: boolean } | null = null;
  private readonly abort = new AbortController();

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
    private readonly frame: HTMLElement,
    /** Selects the host of a port. Returns false if a click opens the port. */
    private readonly pick: (port: number) => boolean,
  ) {
    this.scene = sceneOf(topology, "");
    this.background = createSurface(frame, "", () => {
      this.backgroundKey = "";
      this.draw();
    });
    this.background.canvas.setAttribute("aria-hidden", "true");
    this.surface = createSurface(frame, "Map of the fabric", () => {
      this.layout = null;
      this.draw();
    });
    this.listen();
  }

  /** Draws values. Null hides the picture. */
  show(data: MapData | null): void {
    const isSame = isSamePicture(data, this.data) && this.app.option("open") === this.open;
    this.data = data;
    if (isSame) return;
    this.surface.canvas.hidden = data === null;
    this.background.canvas.hidden = data === null;
    const open = this.app.option("open");
    if (open !== this.open) {
      this.open = open;
      this.scene = sceneOf(this.topology, open);
      this.layout = null;
      this.fit();
    }
    this.draw();
  }

  /** Returns the number of lines between switches. */
  get lines(): number {
    return this.layout?.curves.length ?? 0;
  }

  close(): void {
    this.surface.close();
    this.background.close();
    this.abort.abort();
    hideTip();
  }

  private fit(): void {
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
  }

  private draw(): void {
    const { data, surface } = this;
    if (data === null || surface.width === 0) return;
    if (this.layout === null) {
      this.layout = layoutOf(this.topology, this.scene, surface.width, surface.height);
      this.links = new Links(this.layout.curves, this.topology);
      this.backgroundKey = "";
    }
    const context = clear(surface);
    if (data.values === null || data.states === null) {
      context.font = font(13);
      context.fillStyle = theme().muted;
      context.fillText("No values for this time.", 20, 30);
      return;
    }
    this.place(surface);
    const painting: Painting = {
      context,
      topology: this.topology,
      scene: this.scene,
      layout: this.layout,
      values: data.values,
      states: data.states,
      scale: data.scale,
      zoom: this.scale,
      pixel: 1 / (this.scale * surface.ratio),
      marks: this.marks(data),
    };
    this.drawBackground(painting);
    paintMap(painting, this.links!);
  }

  /** Draws the background again if it has changed. */
  private drawBackground(painting: Painting): void {
    const { background, scene, topology } = this;
    const { marks, states, layout, pixel } = painting;
    if (background.width === 0) return;
    const dead = scene.units.flatMap(({ switches }, index) =>
      switches.length === 1 && isSilent(topology, switches[0], states) ? [index] : [],
    );
    const parts = [
      this.scale,
      this.left,
      this.top,
      marks.device,
      marks.curve !== null,
      marks.path.size,
    ];
    const key = [...parts, ...dead, "found", ...marks.found].join();
    if (key === this.backgroundKey) return;
    this.backgroundKey = key;
    const context = clear(background);
    this.place(background);
    const isSelected = marks.curve !== null || marks.device >= 0 || marks.path.size > 0;
    paintBackground(context, layout, pixel, isSelected ? 0.35 : 1);
    if (!layout.boxesOnTop) paintBoxes({ ...painting, context });
  }

  /** Sets zoom and position of a surface. */
  private place({ context, ratio }: Surface): void {
    const scale = ratio * this.scale;
    context.setTransform(scale, 0, 0, scale, -this.left * ratio, -this.top * ratio);
  }

  private get scale(): number {
    return Math.min(1, this.surface.height / (this.layout?.height ?? 1)) * this.zoom;
  }

  private marks({ waiting, roots, found, path }: MapData): Marks {
    const hit = this.hit;
    let device = -1;
    if (hit?.kind === "box") device = this.scene.units[hit.unit].switches[0];
    else if (hit?.kind === "cell" || hit?.kind === "pin")
      device = this.topology.ports[hit.port].device;
    return { device, curve: hit?.kind === "curve" ? hit.curve : null, waiting, roots, found, path };
  }

  // --- pointer and keys

  private listen(): void {
    const frame = this.frame;
    const { signal } = this.abort;
    const active = () => this.data !== null;
    let held = 1;
    listenForPinch(
      frame,
      () => {
        this.drag = null;
        held = this.zoom;
        hideTip();
      },
      (first, now) => {
        const [one, two] = now.map((finger) => this.surface.at(finger));
        const factor = (held * distance(now)) / distance(first) / this.zoom;
        if (active()) this.zoomAt((one[0] + two[0]) / 2, (one[1] + two[1]) / 2, factor);
      },
      () => {},
    );
    frame.addEventListener(
      "pointerdown",
      (event) => {
        if (!active() || event.button !== 0) return;
        frame.setPointerCapture(event.pointerId);
        this.drag = {
          x: this.surface.at(event)[0],
          y: this.surface.at(event)[1],
          left: this.left,
          top: this.top,
          moved: false,
        };
      },
      { signal },
    );
    frame.addEventListener("pointermove", (event) => active() && this.move(event), { signal });
    frame.addEventListener(
      "pointerup",
      () => {
        const clicked = this.drag !== null && !this.drag.moved;
        this.drag = null;
        if (active() && clicked) this.click();
      },
      { signal },
    );
    frame.addEventListener(
      "pointerleave",
      () => {
        this.hit = null;
        hideTip();
        this.draw();
      },
      { signal },
    );
    frame.addEventListener(
      "wheel",
      (event) => {
        if (!active()) return;
        event.preventDefault();
        this.zoomAt(...this.surface.at(event), event.deltaY < 0 ? 1.2 : 1 / 1.2);
      },
      { signal, passive: false },
    );
    frame.addEventListener(
      "dblclick",
      () => {
        this.fit();
        this.draw();
      },
      { signal },
    );
    frame.addEventListener("keydown", (event) => active() && this.key(event), { signal });
  }

  private move(event: PointerEvent): void {
    const { drag } = this;
    if (drag !== null) {
      const dx = this.surface.at(event)[0] - drag.x;
      const dy = this.surface.at(event)[1] - drag.y;
      if (Math.hypot(dx, dy) > 4) drag.moved = true;
      if (drag.moved) {
        this.left = drag.left - dx;
        this.top = drag.top - dy;
        hideTip();
        this.draw();
        return;
      }
    }
    const hit = this.find(...this.surface.at(event));
    const changed = JSON.stringify(plain(hit)) !== JSON.stringify(plain(this.hit));
    this.hit = hit;
    if (changed) this.draw();
    if (hit === null) hideTip();
    else showTip(event.clientX, event.clientY, this.tip(hit));
  }

  private zoomAt(x: number, y: number, factor: number): void {
    const zoom = Math.max(1, Math.min(LARGEST_ZOOM, this.zoom * factor));
    const change = zoom / this.zoom;
    this.left = zoom === 1 ? 0 : (this.left + x) * change - x;
    this.top = zoom === 1 ? 0 : (this.top + y) * change - y;
    this.zoom = zoom;
    this.draw();
  }

  private find(px: number, py: number): Hit | null {
    const { layout } = this;
    if (layout === null) return null;
    const x = (px + this.left) / this.scale;
    const y = (py + this.top) / this.scale;
    const inside = (area: { x: number; y: number; width: number; height: number }) =>
      x >= area.x && x <= area.x + area.width && y >= area.y && y <= area.y + area.height;
    const cell = layout.cells.find(inside);
    if (cell !== undefined) return { kind: "cell", port: cell.port };
    const pin = layout.pins.find((each) => inside({ ...each, height: 7 }));
    if (pin !== undefined) return { kind: "pin", port: pin.port };
    const box = layout.boxes.find(inside);
    if (box !== undefined) return { kind: "box", unit: box.unit };
    return this.findCurve(layout, x, y);
  }

  private findCurve(layout: Layout, x: number, y: number): Hit | null {
    let best: Curve | null = null;
    let distance = NEAR / this.scale;
    for (const curve of layout.curves) {
      const apart = distanceTo(curve, x, y, distance);
      if (apart < distance) {
        distance = apart;
        best = curve;
      }
    }
    return best === null ? null : { kind: "curve", curve: best };
  }

  private value(port: number): string {
    return codeText(this.data?.values?.[port] ?? NO_DATA);
  }

  private tip(hit: Hit): TipLine[] {
    const { topology } = this;
    if (hit.kind === "box") return this.boxTip(hit.unit);
    if (hit.kind === "curve") {
      const { links } = hit.curve.bundle;
      const { units } = this.scene;
      const lines: TipLine[] = [
        `${units[hit.curve.bundle.upper].name} – ${units[hit.curve.bundle.lower].name}`,
        ["Cables", String(links.length)],
      ];
      if (this.data?.values) {
        const port = fullestPort(links, this.data.values);
        lines.push(["Fullest", `${topology.nameOf(port)}: ${this.value(port)}`]);
      }
      return lines;
    }
    const { peer } = topology.ports[hit.port];
    const lines: TipLine[] = [
      `${topology.nameOf(hit.port)} → ${topology.peerNameOf(hit.port)}`,
      ["Sends", this.value(hit.port)],
    ];
    if (peer !== null) lines.push(["Receives", this.value(peer)]);
    const share = this.data?.waiting.get(hit.port);
    if (share !== undefined) lines.push(["Waits in a congestion tree", percent(share)]);
    if (this.data?.roots.has(hit.port)) lines.push(["Congestion", "root"]);
    return lines;
  }

  private boxTip(index: number): TipLine[] {
    const unit = this.scene.units[index];
    const states = this.data?.states;
    if (unit.switches.length > 1)
      return [
        unit.name,
        ["Switches", String(unit.switches.length)],
        ["Choose it", "to open the group"],
      ];
    const [device] = unit.switches;
    const ports = this.topology.portsOf[device];
    const silent =
      states !== null && states !== undefined && isSilent(this.topology, device, states);
    const values = this.data?.values ?? new Uint16Array();
    const largest = silent ? NO_ANSWER : combineCodes(ports, values, "max");
    return [
      unit.name,
      ["Ports", count(ports.length, "linked port")],
      ["Largest value", cellText(this.app.metric(""), largest, ports.length, "max")],
    ];
  }

  private click(): void {
    const { hit } = this;
    if (hit === null) return;
    if (hit.kind === "box") {
      const unit = this.scene.units[hit.unit];
      if (unit.switches.length > 1) this.app.setOption("open", unit.id);
      else this.app.go({ view: "switch", item: unit.id, options: {} }, true);
      return;
    }
    if (hit.kind === "curve" && hit.curve.bundle.links.length > 2) {
      const { upper, lower } = hit.curve.bundle;
      const q =
        this.scene.units[lower].switches.length === 1
          ? this.scene.units[lower].name
          : this.scene.units[upper].name;
      this.app.go({ view: "links", item: "", options: { q } }, true);
      return;
    }
    const port =
      hit.kind === "curve"
        ? fullestPort(hit.curve.bundle.links, this.data?.values ?? new Uint16Array())
        : hit.port;
    if (hit.kind === "cell" && this.pick(port)) return;
    this.app.go({ view: "port", item: this.topology.keyOf(port), options: {} }, true);
  }

  private key(event: KeyboardEvent): void {
    const step = 60;
    const middle = [this.surface.width / 2, this.surface.height / 2] as const;
    if (event.key === "+" || event.key === "=") this.zoomAt(...middle, 1.25);
    else if (event.key === "-") this.zoomAt(...middle, 0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "ArrowDown") this.top += step;
    else if (event.key === "ArrowUp") this.top -= step;
    else if (event.key === "ArrowRight" && this.zoom > 1) this.left += step;
    else if (event.key === "ArrowLeft" && this.zoom > 1) this.left -= step;
    else return;
    this.draw();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Returns a hit without its links, for comparison. */
function plain(hit: Hit | null): unknown {
  return hit?.kind === "curve" ? [hit.curve.bundle.upper, hit.curve.bundle.lower] : hit;
}

/** Returns the distance from a point to a curve, or infinity if it is more than `most`. */
function distanceTo(curve: Curve, x: number, y: number, most: number): number {
  const { x1, y1, bendX1, bendY1, bendX2, bendY2, x2, y2 } = curve;
  // A Bezier curve is inside the box of its four points.
  if (x < Math.min(x1, bendX1, bendX2, x2) - most || x > Math.max(x1, bendX1, bendX2, x2) + most) {
    return Number.POSITIVE_INFINITY;
  }
  if (y < Math.min(y1, bendY1, bendY2, y2) - most || y > Math.max(y1, bendY1, bendY2, y2) + most) {
    return Number.POSITIVE_INFINITY;
  }
  let best = Number.POSITIVE_INFINITY;
  let fromX = x1;
  let fromY = y1;
  for (let step = 1; step <= PIECES; step++) {
    const t = step / PIECES;
    const toX = bezier(t, x1, bendX1, bendX2, x2);
    const toY = bezier(t, y1, bendY1, bendY2, y2);
    best = Math.min(best, distanceToPiece(x, y, fromX, fromY, toX, toY));
    fromX = toX;
    fromY = toY;
  }
  return best;
}

function distanceToPiece(
  x: number,
  y: number,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
): number {
  const dx = x2 - x1;
  const dy = y2 - y1;
  const length = dx * dx + dy * dy;
  const along =
    length === 0 ? 0 : Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / length));
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}

function bezier(t: number, a: number, b: number, c: number, d: number): number {
  const s = 1 - t;
  return s * s * s * a + 3 * s * s * t * b + 3 * s * t * t * c + t * t * t * d;
}
