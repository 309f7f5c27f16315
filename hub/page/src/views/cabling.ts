//! The cables that differ from the plan, as a line above a view.

import type { CableEnd, CableFinding, Cabling } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { portKey } from "../model/topology";
import { count, grouped } from "../model/units";
import { h } from "../parts/dom";

const PERIOD = 30_000;
/** Max number of differences that are listed. */
const LISTED = 6;

export class CablingNote {
  readonly element = h("details", { class: "cabling", hidden: true });
  private readonly poll: Poll<Cabling>;
  private shown: Cabling | null = null;
  private rows: CableFinding[] = [];

  /** `guid` is the only device whose cables are listed; empty for all. */
  constructor(
    private readonly app: App,
    private readonly guid = "",
  ) {
    const changed = () => app.notify("values");
    this.poll = new Poll(app, "cabling", () => ({}), changed, PERIOD);
  }

  update(): void {
    this.poll.refresh();
    const { answer } = this.poll;
    if (answer === null || answer === this.shown) return;
    this.shown = answer;
    const isOwn = (row: CableFinding) =>
      this.guid === "" || endsOf(row).some(({ guid }) => guid === this.guid);
    this.rows = answer.rows.filter(isOwn);
    this.element.hidden = this.rows.length === 0;
    const more = this.rows.length - LISTED;
    this.element.replaceChildren(
      h(
        "summary",
        { class: "alert-text" },
        this.rows.length === 1
          ? "1 cable differs from the plan"
          : `${count(this.rows.length, "cable")} differ from the plan`,
      ),
      h(
        "ul",
        {},
        ...this.rows.slice(0, LISTED).map((row) => h("li", {}, ...this.sentence(row))),
        more > 0
          ? h("li", {}, `and ${grouped(more)} more: ibnet-gen cabling lists all steps`)
          : null,
      ),
    );
  }

  close(): void {
    this.poll.close();
  }

  /** Returns the kinds of the differences at a port, empty if its cable is as planned. */
  at(guid: string, port: number): string {
    const is = (end: CableEnd) => end.guid === guid && end.port === port;
    const rows = this.rows.filter((row) => endsOf(row).some(is));
    return [...new Set(rows.map(({ kind }) => `cable ${kindText(kind)}`))].join("; ");
  }

  private sentence({ kind, planned, found, label, values }: CableFinding): (Node | string)[] {
    const parts: (Node | string)[] = [h("b", {}, kindText(kind)), ": "];
    if (found !== null) parts.push(...this.cable(found));
    if (found !== null && planned !== null && values === null) parts.push("; planned: ");
    if (planned !== null && (found === null || values === null)) parts.push(...this.cable(planned));
    if (values !== null) parts.push(`; planned ${values[0]}, found ${values[1]}`);
    if (label !== null) parts.push(` (label ${label})`);
    return parts;
  }

  private cable(ends: CableEnd[]): (Node | string)[] {
    const [one, other] = ends.map(({ guid, name, port }) => {
      const text = `${name} / ${port}`;
      if (guid === null) return text;
      return h(
        "a",
        { class: "name", href: this.app.href({ view: "port", item: portKey(guid, port) }) },
        text,
      );
    });
    return [one, " – ", other];
  }
}

function endsOf({ planned, found }: CableFinding): CableEnd[] {
  return [...(planned ?? []), ...(found ?? [])];
}

function kindText(kind: CableFinding["kind"]): string {
  return kind.replaceAll("_", " ");
}
