//! The links with the largest utilization, with both directions.

import { FULL, NO_DATA } from "../../contract/frame";
import { blockedScale, utilizationScale } from "../../draw/scale";
import type { App, Change } from "../../model/app";
import { BLOCKED, UTILIZATION } from "../../model/state";
import type { Link, Topology } from "../../model/topology";
import { percent } from "../../model/units";
import { fillTo, h, patch, setText } from "../../parts/dom";
import { BLOCKED_LEGEND, legend, UTILIZATION_LEGEND } from "../../parts/meter";
import { panel } from "../panel";
import { rowsThatFit } from "./room";

const MAX = 8;
const MAX_LOW = 6;

interface Row {
  link: Link;
  /** Codes of the first end and of the second end. */
  utilization: [number, number];
  blocked: [number, number];
}

export class Fullest {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "fullest-list" });
  private readonly empty = h("p", { class: "empty" });
  /** The values that the list shows. Other changes leave it as it is. */
  private values: Record<"utilization" | "blocked", Uint16Array | null> = {
    utilization: null,
    blocked: null,
  };
  private most = 0;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    const frame = panel("Fullest links", "fullest");
    setText(frame.note, "what each end sends; below it its blocked share");
    const scales = legend([UTILIZATION_LEGEND, BLOCKED_LEGEND], []);
    frame.body.append(this.list, this.empty, scales);
    this.element = frame.element;
  }

  update(changes: ReadonlySet<Change>): void {
    const utilization = this.app.values(UTILIZATION);
    const blocked = this.app.values(BLOCKED);
    const most = rowsThatFit(MAX, MAX_LOW);
    const isState = changes.has("state");
    const { values } = this;
    const isSame = utilization === values.utilization && blocked === values.blocked;
    if (isSame && !isState && most === this.most) return;
    this.values = { utilization, blocked };
    this.most = most;
    const rows =
      utilization === null ? [] : fullestLinks(this.topology, utilization, blocked, most);
    setText(this.empty, rows.length === 0 ? "No values for this time." : "");
    patch(
      this.list,
      rows,
      ({ link }) => `${link.a}`,
      ({ link }) => this.create(link),
      (element, row) => this.fill(element, row, isState),
    );
  }

  private create(link: Link): HTMLElement {
    const end = (port: number, side: string) =>
      h("a", { class: `end ${side}` }, this.topology.shortName(port));
    const half = (side: string) =>
      h(
        "span",
        { class: `half ${side}` },
        h("i", { class: "half-use" }),
        h("i", { class: "half-wait" }),
      );
    return h(
      "div",
      { class: "pair" },
      end(link.a, "first"),
      h("span", { class: "number" }),
      half("first"),
      half("second"),
      h("span", { class: "number second" }),
      end(link.b, "second"),
    );
  }

  private fill(element: HTMLElement, row: Row, isState: boolean): void {
    const children = element.children;
    const ends = [row.link.a, row.link.b];
    [0, 1].forEach((side) => {
      const anchor = children[side === 0 ? 0 : 5] as HTMLAnchorElement;
      // The URL contains the shown time.
      if (isState || !anchor.hasAttribute("href"))
        anchor.href = this.app.href({ view: "port", item: this.topology.keyOf(ends[side]) });
      const code = row.utilization[side];
      const share = code <= FULL ? code / FULL : null;
      setText(children[side === 0 ? 1 : 4], percent(share));
      const half = children[side === 0 ? 2 : 3] as HTMLElement;
      const [use, wait] = half.children as unknown as [HTMLElement, HTMLElement];
      fillTo(use, share ?? 0, utilizationScale.color(share ?? 0));
      const waits = row.blocked[side] <= FULL ? row.blocked[side] / FULL : 0;
      fillTo(wait, waits, blockedScale.color(0.35 + 0.5 * waits));
      half.title = `${this.topology.nameOf(ends[side])} sends: utilization ${percent(share)}, blocked ${percent(row.blocked[side] <= FULL ? waits : null)}`;
    });
  }
}

/** Returns the links with the largest utilization, largest first. */
export function fullestLinks(
  topology: Topology,
  utilization: Uint16Array,
  blocked: Uint16Array | null,
  most: number,
): Row[] {
  const best: { size: number; link: Link }[] = [];
  const value = (code: number) => (code <= FULL ? code : -1);
  for (const link of topology.links) {
    const size = Math.max(value(utilization[link.a]), value(utilization[link.b]));
    if (size < 0 || (best.length === most && size <= best[most - 1].size)) continue;
    const place = best.findIndex((other) => other.size < size);
    best.splice(place < 0 ? best.length : place, 0, { size, link });
    if (best.length > most) best.pop();
  }
  return best.map(({ link }) => ({
    link,
    utilization: [utilization[link.a], utilization[link.b]],
    blocked: [blocked?.[link.a] ?? NO_DATA, blocked?.[link.b] ?? NO_DATA],
  }));
}
