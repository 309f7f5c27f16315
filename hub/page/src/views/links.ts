//! All links as a table: both directions, the trend, and the errors of the shown minute.

import { NO_DATA } from "../contract/frame";
import type { LinkRows } from "../contract/types";
import { phone } from "../draw/theme";
import type { App, Change } from "../model/app";
import { Poll } from "../model/poll";
import { BLOCKED, UTILIZATION } from "../model/state";
import { type Link, portKey, type Topology } from "../model/topology";
import { grouped } from "../model/units";
import { h } from "../parts/dom";
import { orderOf } from "../parts/filter";
import { BLOCKED_LEGEND, legend, UTILIZATION_LEGEND } from "../parts/meter";
import { ShiftControl } from "../parts/shift";
import { type Column, Table } from "../parts/table";
import type { View } from "../parts/view";
import { CablingNote } from "./cabling";
import { drawPort, meterColumn, trendColumn } from "./columns";
import { LinkChange } from "./linkchange";
import { LiveTable } from "./livetable";

/** Changes that affect the table. */
const SHOWN: readonly Change[] = ["slot", "values", "state"];

export function makeLinks(app: App, topology: Topology): View {
  let utilization: Uint16Array | null = null;
  let blocked: Uint16Array | null = null;
  let errors = new Map<string, number>();
  let answer: unknown = null;

  const use = (port: number) => utilization?.[port] ?? NO_DATA;
  const wait = (port: number) => blocked?.[port] ?? NO_DATA;
  const errorsOf = ({ a, b }: Link) =>
    errors.get(topology.keyOf(a)) ?? errors.get(topology.keyOf(b)) ?? null;
  const end = (
    id: string,
    title: string,
    width: string,
    port: (link: Link) => number,
  ): Column<Link> => ({
    id,
    title,
    width,
    line: 1,
    isFixed: true,
    value: (link) => topology.nameOf(port(link)),
    draw: (cell, link) => drawPort(app, cell, topology.ports[port(link)]),
  });
  const change = new LinkChange(app);
  const shift = new ShiftControl(app);
  const ends: Column<Link>[] = [
    end("a", "Upper end", "minmax(116px, 1.2fr)", ({ a }) => a),
    // A host has a longer name.
    end("b", "Lower end", "minmax(184px, 1.4fr)", ({ b }) => b),
    {
      id: "link",
      title: "Link",
      width: "58px",
      isFixed: true,
      value: ({ a }) => topology.ports[a].link,
      text: ({ a }) => topology.ports[a].link ?? "–",
    },
  ];
  const values: Column<Link>[] = [
    {
      ...meterColumn(
        "down",
        "Use, down",
        "Utilization: the upper end sends",
        ({ a }) => use(a),
        false,
      ),
      line: 2,
    },
    {
      ...meterColumn("up", "Use, up", "Utilization: the lower end sends", ({ b }) => use(b), false),
      line: 2,
    },
    meterColumn(
      "wait-down",
      "Blocked, down",
      "Blocked share of the upper end",
      ({ a }) => wait(a),
      true,
    ),
    meterColumn(
      "wait-up",
      "Blocked, up",
      "Blocked share of the lower end",
      ({ b }) => wait(b),
      true,
    ),
    // The table is in the order of this column, which a phone shows too.
    { ...trendColumn(app, ({ a, b }) => [a, b]), line: 2 },
    {
      id: "errors",
      title: "Errors",
      hint: "Increase of the error counters of both ends in the shown time: live, the last minute",
      end: true,
      width: "54px",
      value: (link) => errorsOf(link),
      text: (link) => (errorsOf(link) === null ? "–" : grouped(errorsOf(link)!)),
    },
  ];
  const table = new Table<Link>({
    label: "Links",
    columns: [...ends, ...(app.shift > 0 ? change.columns : values)],
    key: ({ a }) => topology.keyOf(a),
    open: ({ a }) => app.go({ view: "port", item: topology.keyOf(a), options: {} }, true),
    ...orderOf(app, app.shift > 0 ? "use-change" : "trend"),
    empty: "No link matches.",
  });
  const live = new LiveTable(app, table, topology.links, ({ a, b }) => [a, b], "link");
  const poll = new Poll<LinkRows>(
    app,
    "links",
    () => ({ ...app.spanParams, by: "errors", top: 500 }),
    () => app.notify("values"),
    10_000,
  );
  const cabling = new CablingNote(app);
  const element = h(
    "div",
    { class: "fill" },
    h(
      "div",
      { class: "toolbar" },
      h("h1", {}, "Links"),
      live.filter.element,
      live.note,
      shift.element,
      h("span", { class: "space" }),
      // A phone has no room for the blocked shares.
      legend(phone().matches ? [UTILIZATION_LEGEND] : [UTILIZATION_LEGEND, BLOCKED_LEGEND], []),
    ),
    cabling.element,
    table.element,
  );

  return {
    element,
    update(changes: ReadonlySet<Change>) {
      poll.refresh();
      cabling.update();
      if (app.shift > 0) change.update();
      shift.update(change.isKnown ? change.text : "The earlier values are loading…");
      utilization = app.values(UTILIZATION);
      blocked = app.values(BLOCKED);
      if (poll.answer !== null && poll.answer !== answer) {
        answer = poll.answer;
        errors = new Map(
          poll.answer.rows.map((row) => [portKey(row.from.guid, row.from.port), row.errors]),
        );
      }
      if (changes.has("state")) table.forget();
      live.update(
        app.shift > 0 ? change.isKnown : utilization !== null,
        SHOWN.some((change) => changes.has(change)),
      );
    },
    close() {
      table.close();
      poll.close();
      cabling.close();
    },
  };
}
