//! Shows the roots of congestion trees: which ports wait, for which port, and why.

import type { TreeRow, TreeRows } from "../../contract/types";
import { blockedScale, utilizationScale } from "../../draw/scale";
import type { App } from "../../model/app";
import type { Poll } from "../../model/poll";
import { isOver, jobsText, rootText } from "../../model/regions";
import { UTILIZATION } from "../../model/state";
import { hostName, portKey, type Topology } from "../../model/topology";
import { compareNames, count, percent, upper } from "../../model/units";
import { h, patch, setAttribute, setText } from "../../parts/dom";
import { barOf, drawSpark, spark } from "../../parts/meter";
import { panel } from "../panel";
import { rowsThatFit } from "./room";
import { whenText } from "./verdict";

const MAX = 6;
const MAX_LOW = 3;
const SPARK_SLOTS = 60;

/** Number of cards with the chain of waiting ports. With more cards, there is no space for it. */
const CHAINS = 2;

export class Congestion {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "cards" });
  private readonly note: HTMLElement;
  private cards = 0;
  /** The newest answer. The chains change only with it. */
  private answer: TreeRows | null = null;
  private readonly empty = h("p", { class: "empty" });

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    const frame = panel("Congestion", "congestion");
    frame.body.append(this.list, this.empty);
    this.element = frame.element;
    this.note = frame.note;
  }

  update(poll: Poll<TreeRows>): void {
    const isNew = poll.answer !== this.answer;
    this.answer = poll.answer;
    const { end } = this;
    // Those that go on come first.
    const over = (row: TreeRow) => Number(isOver(row, end));
    const rows = [...(poll.answer?.rows ?? [])].sort((x, y) => over(x) - over(y));
    const most = rowsThatFit(MAX, MAX_LOW);
    const when = whenText(this.app, (poll.answer?.to_ns ?? 0) / 1e6);
    const roots =
      rows.length > most ? `${most} of ${rows.length} roots` : count(rows.length, "root");
    const unclear = rows.filter(({ why }) => why === "unclear").length;
    const causes = unclear > 0 ? `, ${unclear} without a clear cause` : "";
    setText(
      this.note,
      poll.answer === null ? "" : rows.length === 0 ? when : `${roots} ${when}${causes}`,
    );
    const text =
      poll.answer === null
        ? poll.error || "Waiting for the hub…"
        : "No port waits for another port.";
    setText(this.empty, rows.length === 0 ? text : "");
    this.cards = rows.length;
    patch(
      this.list,
      rows.slice(0, most),
      (row) => portKey(row.root.guid, row.root.port),
      (row) => this.card(row),
      (element, row) => this.fill(element, row, isNew),
    );
  }

  /** Shows the waiting ports by their distance from the root. */
  private chain(element: HTMLElement, row: TreeRow): void {
    const depths = new Map<number, Map<string, number>>();
    for (const victim of row.victims) {
      const nodes = depths.get(victim.depth) ?? new Map<string, number>();
      const host = this.topology.indexOf(victim.guid, victim.port);
      const name = victim.is_host ? hostName(victim.node) : victim.node;
      if (host >= 0) nodes.set(name, (nodes.get(name) ?? 0) + 1);
      depths.set(victim.depth, nodes);
    }
    const levels = [...depths].sort(([x], [y]) => x - y).slice(0, 3);
    element.hidden = this.cards > CHAINS || levels.length === 0;
    patch(
      element,
      levels,
      ([depth]) => String(depth),
      () => h("span", { class: "step" }, h("b", {}), h("span", {})),
      (step, [, nodes]) => {
        const names = [...nodes.keys()].sort(compareNames);
        setText(
          step.children[0],
          `← ${count(
            [...nodes.values()].reduce((sum, each) => sum + each, 0),
            "port",
          )}`,
        );
        setText(
          step.children[1],
          names.length > 4
            ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`
            : names.join(", "),
        );
      },
    );
  }

  private card(row: TreeRow): HTMLElement {
    const key = portKey(row.root.guid, row.root.port);
    return h(
      "a",
      { class: "card" },
      h(
        "span",
        { class: "card-title" },
        h("b", {}, `${row.root.node} / ${row.root.port}`),
        h("span", { class: "arrow" }, row.to === null ? "" : ` → ${row.to.node} / ${row.to.port}`),
      ),
      spark(`Utilization of ${key} in the last minute`),
      h("span", { class: "card-bar" }),
      h("span", { class: "card-text" }),
      h("span", { class: "card-text" }),
      h("span", { class: "chain" }),
    );
  }

  /** Roots of congestion that ended before this time were over when the hub answered. */
  private get end(): number {
    return (this.answer?.to_ns ?? 0) / 1e6 - 3 * this.app.interval;
  }

  private fill(element: HTMLElement, row: TreeRow, isNew: boolean): void {
    const [, sparkline, meter, text, jobs, steps] = element.children;
    const item = portKey(row.root.guid, row.root.port);
    setAttribute(element, "href", this.app.href({ view: "tree", item }));
    const slow = row.why === "slow_host";
    const share = slow ? row.blocked : row.xmit_utilization;
    const then = isOver(row, this.end) ? " then" : "";
    const name = `${percent(share)} ${slow ? "blocked" : "used"}${then}`;
    barOf(meter as HTMLElement, share, name, slow ? blockedScale : utilizationScale);
    (meter as HTMLElement).title =
      `${slow ? "Blocked share" : "Utilization"} of ${row.root.node} / ${row.root.port}, mean of the time in which ports waited for it`;
    setText(text, rootText(row, this.end));
    const [region] = row.regions;
    setText(jobs, region === undefined ? "" : upper(jobsText(region)));
    if (isNew) this.chain(steps as HTMLElement, row);
    const port = this.topology.indexOf(row.root.guid, row.root.port);
    if (port >= 0)
      drawSpark(
        sparkline as HTMLCanvasElement,
        this.app.trace(UTILIZATION, port, SPARK_SLOTS),
        utilizationScale,
      );
  }
}
