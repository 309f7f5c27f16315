//! The map: the fabric as rows of switches, or as a matrix.

import { nanoseconds } from "../../contract/api";
import { NO_DATA } from "../../contract/frame";
import type { TreeRows } from "../../contract/types";
import { scaleOf } from "../../draw/scale";
import type { App, Change } from "../../model/app";
import { valueCells, valueHeads } from "../../model/metric";
import { Poll } from "../../model/poll";
import { BLOCKED, UTILIZATION } from "../../model/state";
import { hostName, type Topology } from "../../model/topology";
import { count, grouped } from "../../model/units";
import { choice } from "../../parts/choice";
import { h, setText } from "../../parts/dom";
import {
  BLOCKED_LEGEND,
  type LegendMark,
  legend,
  STATES,
  UTILIZATION_LEGEND,
} from "../../parts/meter";
import { saveButtons } from "../../parts/save";
import type { View } from "../../parts/view";
import { CablingNote } from "../cabling";
import { Selection } from "../selection";
import { MAX_COLOURED, MAX_STRONG } from "./curves";
import type { MapData } from "./data";
import { showsHosts } from "./layout";
import { Matrix } from "./matrix";
import { PathPart } from "./path";
import { Rowmap } from "./rowmap";
import { MAX_SWITCHES } from "./units";

/** Number of switches above which a fabric opens as a matrix. */
const MATRIX_FROM = 200;

export function makeMap(app: App, topology: Topology): View {
  return new MapView(app, topology);
}

/** Seconds before a moment that its trees cover. Older trees would hide the current ones. */
const TREE_SECONDS = 10;
/** Number of ports above which only the trees shared by all clients are requested. */
const MAX_PORTS = 5000;

function recent(app: App): { from?: string; to?: string } {
  const span = app.span;
  if (span === null || (app.topology?.ports.length ?? 0) > MAX_PORTS) return app.spanParams;
  const from = app.state.range === null ? span.to - 1000 * TREE_SECONDS : span.from;
  return { from: nanoseconds(from), to: nanoseconds(span.to) };
}

/** The marks of congestion trees: a matrix frames the roots. */
const TREE_MARKS: Record<"rows" | "matrix", LegendMark[]> = {
  rows: [
    ["root", "root of a congestion tree"],
    ["waits", "waits for it"],
  ],
  matrix: [["root frame", "root of a congestion tree"]],
};

class MapView implements View {
  readonly element: HTMLElement;
  private readonly rowmap: Rowmap;
  private readonly matrix: Matrix;
  private readonly trees: Poll<TreeRows>;
  private readonly selection: Selection;
  private readonly path: PathPart;
  private readonly cabling: CablingNote;
  private readonly controls: { element: HTMLElement; update: () => void }[];
  private readonly crumbs = h("span", { class: "muted" });
  private readonly filter: HTMLInputElement;
  private readonly legend = h("div", {});
  private readonly note = h("span", { class: "muted" });
  private readonly switches: number;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    this.switches = topology.devices.filter(({ kind }) => kind === "switch").length;
    this.trees = new Poll(
      app,
      "trees",
      () => recent(app),
      () => app.notify("values"),
    );
    this.selection = new Selection(app);
    this.path = new PathPart(app, topology);
    this.cabling = new CablingNote(app);
    this.controls = [
      choice(
        "Metric",
        [
          [UTILIZATION, "Utilization"],
          [BLOCKED, "Blocked share"],
        ] as const,
        () => (app.state.metric === BLOCKED ? BLOCKED : UTILIZATION),
        (metric) => app.go({ metric }),
      ),
      choice(
        "Picture",
        [
          ["rows", "Rows"],
          ["matrix", "Matrix"],
        ] as const,
        () => this.picture,
        (value) => app.setOption("as", value),
      ),
      choice(
        "Congestion trees",
        [
          ["on", "Trees"],
          ["off", "No trees"],
        ] as const,
        () => (app.option("trees") === "off" ? "off" : "on"),
        (value) => app.setOption("trees", value === "on" ? "" : value),
      ),
    ];
    this.filter = h("input", {
      class: "field",
      type: "search",
      placeholder: "Find nodes",
      size: 10,
      "aria-label": "Find nodes by name or GUID",
      on: { input: () => app.setOption("q", this.filter.value.trim()) },
    });
    const frame = h("div", {
      class: "picture map",
      tabindex: 0,
      role: "group",
      "aria-label":
        "Map of the fabric. Arrow keys move, plus and minus zoom, 0 fits. The views Links and Ports have the same values as tables.",
    });
    this.element = h(
      "div",
      { class: "fill" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Map"),
        ...this.controls.map(({ element }) => element),
        this.filter,
        ...this.selection.elements,
        ...this.path.elements,
        this.crumbs,
        saveButtons({
          title: "Map",
          rows: () => this.saved(),
          layers: () => [...frame.querySelectorAll("canvas")],
          unit: () => "share",
        }),
      ),
      this.cabling.element,
      frame,
      this.path.element,
      h("div", { class: "foot" }, this.legend, this.note),
    );
    this.rowmap = new Rowmap(app, topology, frame, (port) => this.path.pick(port));
    this.matrix = new Matrix(app, topology, frame);
  }

  private get picture(): "rows" | "matrix" {
    const as = this.app.option("as");
    if (as === "rows" || as === "matrix") return as;
    return this.switches > MATRIX_FROM && !this.path.isOpen ? "matrix" : "rows";
  }

  update(changes: ReadonlySet<Change>): void {
    const { app } = this;
    if (changes.has("state")) for (const { update } of this.controls) update();
    this.trees.refresh();
    this.selection.update();
    this.path.update();
    this.cabling.update();
    if (document.activeElement !== this.filter) this.filter.value = app.option("q");
    const metric = app.state.metric === BLOCKED ? BLOCKED : UTILIZATION;
    const data = this.data(metric);
    const rows = this.picture === "rows";
    this.rowmap.show(rows ? data : null);
    this.matrix.show(rows ? null : data);
    const marks = [...STATES, ...(app.option("trees") === "off" ? [] : TREE_MARKS[this.picture])];
    const key = `${metric} ${marks.length} ${rows}`;
    if (this.legend.dataset.key !== key) {
      this.legend.dataset.key = key;
      this.legend.replaceChildren(
        legend([metric === BLOCKED ? BLOCKED_LEGEND : UTILIZATION_LEGEND], marks),
      );
    }
    this.showCrumbs(rows);
    const { lines } = this.rowmap;
    const limit =
      lines > MAX_COLOURED
        ? ` Only the ${MAX_STRONG} fullest of ${grouped(lines)} lines are coloured.`
        : "";
    const size = `${count(this.switches, "switch", "switches")}, ${count(this.topology.links.length, "link")}.`;
    const hosts = " The upper left of a host is data from it, the lower right is data to it.";
    const outside = rows ? [] : [...data.roots].filter((port) => this.isAtHost(port));
    const elsewhere =
      outside.length === 0
        ? ""
        : ` Roots of congestion at hosts are in Rows: ${outside
            .slice(0, 3)
            .map((port) => this.topology.nameOf(port))
            .join(", ")}${outside.length > 3 ? ` and ${outside.length - 3} more` : ""}.`;
    const text = rows
      ? `${size}${this.hidesHosts ? "" : hosts}${limit}`
      : `A cell is the fullest cable of two switches: the upper left sends up, the lower right sends down.${this.matrix.scrolls ? " The wheel or a finger scrolls." : ""}${elsewhere}`;
    setText(this.note, text);
  }

  /** Returns whether a port is that of a host, or leads to one, and has no cell in the matrix. */
  private isAtHost(port: number): boolean {
    const { topology } = this;
    if (port < 0) return false;
    const ends = [port, topology.ports[port].peer];
    return ends.some((end) => end !== null && !topology.isSwitch(topology.ports[end].device));
  }

  close(): void {
    this.rowmap.close();
    this.matrix.close();
    this.trees.close();
    this.selection.close();
    this.path.close();
    this.cabling.close();
  }

  private data(metric: string): MapData {
    const waiting = new Map<number, number>();
    const roots = new Set<number>();
    if (this.app.option("trees") !== "off") {
      for (const tree of this.trees.answer?.rows ?? []) {
        roots.add(this.topology.indexOf(tree.root.guid, tree.root.port));
        for (const victim of tree.victims) {
          const share = victim.seconds > 0 ? victim.blocked_seconds / victim.seconds : 0;
          waiting.set(this.topology.indexOf(victim.guid, victim.port), share);
        }
      }
    }
    return {
      metric,
      values: this.app.values(metric),
      states: this.app.values(UTILIZATION),
      scale: scaleOf(metric),
      waiting,
      roots,
      found: this.found(),
      path: this.path.ports,
    };
  }

  /** Returns the devices that match the filter, and those of the job or the group. */
  private found(): Set<number> {
    const found = new Set<number>();
    const filter = this.app.option("q").toLowerCase();
    const hosts = new Set([...this.selection.hosts, ...this.path.chosen]);
    if (filter === "" && hosts.size === 0) return found;
    this.topology.devices.forEach((device, index) => {
      const named =
        filter !== "" &&
        (device.node.toLowerCase().includes(filter) || device.guid.includes(filter));
      const selected = device.kind !== "switch" && hosts.has(hostName(device.node).toLowerCase());
      if (named || selected) found.add(index);
      // A picture without hosts marks their leaf switches instead.
      if (selected && this.hidesHosts) {
        for (const port of this.topology.portsOf[index]) {
          const { peer } = this.topology.ports[port];
          if (peer !== null) found.add(this.topology.ports[peer].device);
        }
      }
    });
    return found;
  }

  private get hidesHosts(): boolean {
    const grouped = this.switches > MAX_SWITCHES && this.app.option("open") === "";
    return grouped || this.picture === "matrix" || !showsHosts(this.topology);
  }

  /** Returns the values of both directions of all links. */
  private *saved() {
    const { app, topology } = this;
    const metric = app.metric(app.state.metric === BLOCKED ? BLOCKED : UTILIZATION);
    const values = app.values(metric.name);
    yield ["Upper end", "Lower end", ...valueHeads(metric, "Down"), ...valueHeads(metric, "Up")];
    for (const { a, b } of topology.links)
      yield [
        ...[a, b].map((port) => topology.nameOf(port)),
        ...[a, b].flatMap((port) => valueCells(metric, values?.[port] ?? NO_DATA)),
      ];
  }

  private showCrumbs(rows: boolean): void {
    const open = this.app.option("open");
    const key = `${rows} ${open}`;
    if (this.crumbs.dataset.key === key) return;
    this.crumbs.dataset.key = key;
    if (!rows || open === "" || this.switches <= MAX_SWITCHES) {
      this.crumbs.replaceChildren(
        rows && this.switches > MAX_SWITCHES ? "Choose a group to open it." : "",
      );
      return;
    }
    const back = h(
      "button",
      { type: "button", class: "action", on: { click: () => this.app.setOption("open", "") } },
      "All groups",
    );
    this.crumbs.replaceChildren(back);
  }
}
