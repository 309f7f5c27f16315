//! Describes the state of the fabric in one sentence, with its key figures.

import type { ErrorRows, SamplerRows, TreeRow, TreeRows } from "../../contract/types";
import type { App } from "../../model/app";
import type { Poll } from "../../model/poll";
import { newestSlot, samplerState } from "../../model/samplers";
import { BLOCKED, type State, UTILIZATION } from "../../model/state";
import type { Topology } from "../../model/topology";
import { answersText, rootTexts, type Totals, totalsOf } from "../../model/totals";
import { clock, count, grouped, percent, scaled, upper } from "../../model/units";
import { h, setAttribute, setText } from "../../parts/dom";
import { icon } from "../../parts/icons";
import { faultsOf, faultTexts, isSevere } from "../faults";

interface Counted {
  utilization: Uint16Array | null;
  blocked: Uint16Array | null;
  totals: Totals | null;
}

/** Titles of the largest values of the shown slot. */
const TITLES_OF_A_SLOT: ReadonlyMap<string, string> = new Map([
  ["leaf", "Fullest leaf"],
  ["fullest", "Fullest link"],
  ["blocked", "Blocked ports"],
]);

/** Age of an answer of the hub that the page names, in milliseconds. */
const OLD = 10_000;

export class Verdict {
  readonly element: HTMLElement;
  private readonly sentence = h("p", { class: "verdict-text", role: "status" });
  private readonly mark = h("span", { class: "verdict-mark" });
  /** Totals of the last values, which answers to requests do not change. */
  private counted: Counted = { utilization: null, blocked: null, totals: null };
  private readonly figures = new Map<string, HTMLElement>();

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    const figure = (id: string, title: string) => {
      const element = h("a", { class: "figure", id: `figure-${id}` }, h("span", {}, title));
      element.append(h("b", {}), h("small", {}));
      this.figures.set(id, element);
      return element;
    };
    this.element = h(
      "section",
      { class: "verdict", "aria-label": "State of the fabric" },
      h("div", { class: "verdict-line" }, this.mark, this.sentence),
      h(
        "div",
        { class: "figures" },
        figure("answered", "Ports that answer"),
        figure("injected", "Data from hosts"),
        ...[...TITLES_OF_A_SLOT].map(([id, title]) => figure(id, title)),
      ),
    );
  }

  update(trees: Poll<TreeRows>, errors: Poll<ErrorRows>, samplers: Poll<SamplerRows>): void {
    const column = this.app.isLive ? this.app.newestWhole(UTILIZATION) : undefined;
    const utilization = column?.values ?? this.app.values(UTILIZATION);
    const blocked =
      (this.app.isLive ? this.app.newestWhole(BLOCKED)?.values : null) ?? this.app.values(BLOCKED);
    if (utilization !== this.counted.utilization || blocked !== this.counted.blocked) {
      const totals = utilization && totalsOf(this.topology, utilization, blocked);
      this.counted = { utilization, blocked, totals };
    }
    const { totals } = this.counted;
    this.figure(
      "answered",
      totals === null ? "–" : grouped(totals.answered),
      totals === null ? "" : answersText(totals, column?.partial === true).join(", "),
      { view: "ports" },
    );
    const isWhole = totals === null || totals.knownHosts === 1;
    this.figure(
      "injected",
      totals === null ? "–" : `${isWhole ? "" : "≥ "}${scaled(totals.injected * 1e9, "b/s")}`,
      totals === null ? "" : `${percent(totals.injected / totals.capacity)} of their links`,
      { view: "heatmap", options: { by: "host", order: "value" } },
    );
    const leaf = totals?.leaf ?? null;
    const device = leaf === null ? null : this.topology.devices[leaf.device];
    this.figure(
      "leaf",
      percent(leaf?.mean),
      device === null ? "" : `${device.node}, mean of ports`,
      device === null ? { view: "ports" } : { view: "switch", item: device.guid },
    );
    const fullest = totals === null || totals.fullest === null ? null : totals;
    this.figure(
      "fullest",
      percent(fullest?.fullest),
      fullest === null ? "" : this.topology.shortName(fullest.fullestPort),
      this.portAt(fullest?.fullestPort),
    );
    const waits = totals === null || !totals.mostBlocked ? null : totals;
    this.figure(
      "blocked",
      totals === null ? "–" : grouped(totals.blocked),
      waits === null
        ? "> 10 % of the time"
        : `most: ${percent(waits.mostBlocked)} ${this.topology.shortName(waits.mostBlockedPort)}`,
      this.portAt(waits?.mostBlockedPort),
    );
    // The current state of the samplers does not apply to an earlier time.
    const { range, at } = this.app.state;
    const isNow = range === null && at === null;
    const rows = isNow ? (samplers.answer?.rows ?? []) : [];
    const newest = newestSlot(rows);
    const states = rows.map((row) => samplerState(row, newest));
    this.say(trees.answer?.rows ?? null, errors.answer, states, errors.error || trees.error);
  }

  /** Returns the state that shows a port, or all ports if there is none. */
  private portAt(port: number | undefined): Partial<State> {
    if (port === undefined) return { view: "ports" };
    return { view: "port", item: this.topology.keyOf(port) };
  }

  /** Shows a figure. A click on it opens what it is about. */
  private figure(id: string, value: string, note: string, target: Partial<State>): void {
    const figure = this.figures.get(id)!;
    // The sentence is about a minute, these about one slot.
    const title = TITLES_OF_A_SLOT.get(id);
    if (title !== undefined)
      setText(figure.children[0], `${title}${this.app.isLive ? " now" : ""}`);
    setAttribute(figure, "href", this.app.href(target));
    setAttribute(figure, "title", note);
    setText(figure.children[1], value);
    setText(figure.children[2], note);
  }

  private say(
    trees: TreeRow[] | null,
    errors: ErrorRows | null,
    samplers: ReturnType<typeof samplerState>[],
    failure: string,
  ): void {
    if (trees === null || errors === null) {
      this.show(
        "wait",
        failure === ""
          ? "Waiting for the first answer of the hub…"
          : `The hub does not answer: ${failure}.`,
      );
      return;
    }
    const faults = faultsOf(errors.rows);
    const severe = faults.filter(isSevere);
    const parts: string[] = [];
    const clocks = samplers.filter((state) => state === "clock").length;
    const lost = samplers.filter((state) => state === "late" || state === "lost").length;
    if (lost > 0) parts.push(count(lost, "sampler sends no records", "samplers send no records"));
    if (clocks > 0)
      parts.push(count(clocks, "sampler has a wrong clock", "samplers have a wrong clock"));
    parts.push(...faultTexts(faults), ...rootTexts(trees));
    const when = whenText(this.app, errors.to_ns / 1e6);
    if (parts.length === 0)
      this.show("ok", `All is well ${when}: every device answers, no congestion, no faults.`);
    else
      this.show(
        severe.length + lost + clocks > 0 ? "alert" : "note",
        `${upper(parts.join(", "))} ${when}.`,
      );
  }

  private show(state: "ok" | "alert" | "note" | "wait", text: string): void {
    setText(this.sentence, text);
    if (this.element.dataset.state === state) return;
    this.element.dataset.state = state;
    this.mark.replaceChildren(icon(state === "ok" ? "ok" : state === "wait" ? "events" : "alert"));
  }
}

/** Returns of which time an answer of the hub is, which can be older than the values. */
export function whenText(
  { state: { range, at }, span }: Pick<App, "state" | "span">,
  to: number,
): string {
  if (range !== null) return `from ${clock(range.from)} to ${clock(range.to)}`;
  const isNew = at === null && to > (span?.to ?? 0) - OLD;
  return isNew ? "in the last minute" : `in the minute before ${clock(at ?? to)}`;
}
