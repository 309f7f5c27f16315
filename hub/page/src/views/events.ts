//! The list of events, with filters.

import { nanoseconds } from "../contract/api";
import type { EventRow, EventRows } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { portKey, type Topology } from "../model/topology";
import { count, dateTime, grouped } from "../model/units";
import { h, setText } from "../parts/dom";
import { makeFilter } from "../parts/filter";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { faultHref } from "./faults";
import { Managers } from "./managers";
import { choice } from "./panel";

/** The event kinds of the hub. */
const KINDS: readonly (readonly [string, string])[] = [
  ["", "All"],
  ["links", "Links"],
  ["devices", "Devices"],
  ["counters", "Counters"],
  ["samplers", "Samplers"],
  ["sm", "Subnet manager"],
];

/** Max number of events that the view requests. */
const MAX = 2000;

/** Returns how many events are shown. */
function foundText(rows: number, all: number): string {
  const text = count(rows, "event");
  return all < MAX ? text : `${text} of the newest ${grouped(MAX)}; select a time for older ones`;
}

/** Returns the columns of a table of events. */
export function eventColumns(app: App): Column<EventRow>[] {
  return [
    {
      id: "ts",
      title: "Time",
      width: "160px",
      value: (row) => row.ts,
      text: (row) => dateTime(row.ts / 1e6),
    },
    {
      id: "event",
      title: "Event",
      width: "150px",
      value: (row) => row.event,
      draw: (cell, row) => {
        setText(cell, row.event.replaceAll("_", " "));
        cell.classList.toggle("alert-text", row.severe === true);
      },
    },
    {
      id: "subject",
      title: "Subject",
      width: "minmax(120px, 1fr)",
      value: (row) => row.node ?? row.sampler,
      draw: (cell, row) => {
        if (row.guid === null) cell.replaceChildren(`sampler ${row.sampler}`);
        else {
          if (cell.firstElementChild === null) cell.replaceChildren();
          const name = row.node ?? row.guid;
          linkCell(
            cell,
            row.port === null ? name : `${name} / ${row.port}`,
            faultHref(app, { guid: row.guid, port: row.port ?? 0 }),
            row.guid,
          );
        }
      },
    },
    {
      id: "detail",
      title: "Detail",
      width: "minmax(160px, 2fr)",
      value: (row) => row.detail,
      text: (row) => row.detail,
    },
    {
      id: "sampler",
      title: "Sampler",
      width: "minmax(80px, 0.7fr)",
      value: (row) => row.sampler,
      text: (row) => row.sampler,
    },
  ];
}

export function makeEvents(app: App, _topology: Topology): View {
  const range = () => {
    const { range: selected, at } = app.state;
    if (selected !== null)
      return { from: nanoseconds(selected.from), to: nanoseconds(selected.to) };
    return at === null ? {} : { to: nanoseconds(at) };
  };
  const kind = () => KINDS.find(([name]) => name === app.option("kind"))?.[0] ?? "";
  const kinds = choice("Kind of event", KINDS, kind, (value) => app.setOption("kind", value));
  const poll = new Poll<EventRows>(
    app,
    "events",
    () => ({ ...range(), kind: kind() || null, limit: MAX }),
    () => app.notify("values"),
  );
  const filter = makeFilter(app, "Any text", "Filter the events by text");
  const managers = new Managers(app);
  const note = h("span", { class: "muted", role: "status" });
  const table = new Table<EventRow>({
    label: "Events",
    columns: eventColumns(app),
    key: (row) =>
      `${row.ts} ${row.event} ${row.guid === null ? row.sampler : portKey(row.guid, row.port ?? 0)}`,
    open: (row) =>
      app.go({ at: Math.ceil(row.ts / 1e6 / app.interval) * app.interval, range: null }),
    sort: "ts",
    descending: true,
    empty: "No event matches.",
  });
  let shown: EventRows | null = null;
  let shownText = "";
  return {
    element: h(
      "div",
      { class: "fill" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Events"),
        kinds.element,
        filter.element,
        note,
        h("span", { class: "muted" }, "A click on a row shows that time."),
      ),
      managers.element,
      table.element,
    ),
    update() {
      poll.refresh();
      managers.update(kind() === "sm");
      kinds.update();
      filter.update();
      const text = app.option("q").trim().toLowerCase();
      if (poll.error !== "") setText(note, poll.error);
      if (poll.answer === null || (poll.answer === shown && text === shownText)) return;
      shown = poll.answer;
      shownText = text;
      const rows = shown.rows.filter(
        (row) =>
          text === "" ||
          `${row.event} ${row.node} ${row.guid} ${row.sampler} ${row.detail}`
            .toLowerCase()
            .includes(text),
      );
      table.setRows(rows);
      setText(note, poll.error !== "" ? poll.error : foundText(rows.length, shown.rows.length));
    },
    close() {
      table.close();
      poll.close();
      managers.close();
    },
  };
}
