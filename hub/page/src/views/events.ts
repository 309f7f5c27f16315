//! The stream of events, with filters.

import { nanoseconds } from "../contract/api";
import type { EventRow, Rows } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { portKey, type Topology } from "../model/topology";
import { count, dateTime } from "../model/units";
import { h, setText } from "../parts/dom";
import { makeFilter } from "../parts/filter";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { faultHref } from "./faults";
import { Managers } from "./managers";
import { choice } from "./panel";

const KINDS: Record<string, readonly string[]> = {
  all: [],
  links: ["link_down", "link_up", "link_change"],
  devices: [
    "unreachable",
    "reachable",
    "wrong_device",
    "right_device",
    "lid_change",
    "group_unsupported",
    "redirected",
    "key_demanded",
  ],
  counters: ["reset", "implausible"],
  samplers: [
    "send_error",
    "umad_lost",
    "umad_back",
    "window_halved",
    "window_restored",
    "slot_missed",
    "clock_step",
    "reload",
    "sampler_silent",
    "sampler_back",
    "input_lost",
    "input_back",
    "jobs_lost",
    "jobs_back",
    "archive_failed",
    "archive_back",
    "local_change",
    "socket_restored",
    "lines_lost",
  ],
  sm: ["sm", "sm_change", "local_change"],
};
const TITLES: [string, string][] = [
  ["all", "All"],
  ["links", "Links"],
  ["devices", "Devices"],
  ["counters", "Counters"],
  ["samplers", "Samplers"],
  ["sm", "Subnet manager"],
];
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
  const poll = new Poll<Rows<EventRow>>(
    app,
    "events",
    () => ({ ...range(), limit: 2000 }),
    () => app.notify("values"),
  );
  const kind = () => (app.option("kind") in KINDS ? app.option("kind") : "all");
  const kinds = choice("Kind of event", TITLES, kind, (value) =>
    app.setOption("kind", value === "all" ? "" : value),
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
  let shown = "";
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
      const all = poll.answer?.rows ?? [];
      const key = `${text} ${kind()} ${all.length} ${all[0]?.ts} ${all.at(-1)?.ts}`;
      if (key === shown && poll.answer !== null) return;
      shown = key;
      const rows = all.filter(
        (row) =>
          (kind() === "all" || KINDS[kind()].includes(row.event)) &&
          (text === "" ||
            `${row.event} ${row.node} ${row.guid} ${row.sampler} ${row.detail}`
              .toLowerCase()
              .includes(text)),
      );
      table.setRows(rows);
      setText(note, poll.error !== "" ? poll.error : count(rows.length, "event"));
    },
    close() {
      table.close();
      poll.close();
      managers.close();
    },
  };
}
