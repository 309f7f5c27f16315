//! The list of events, with filters.

import { nanoseconds } from "../contract/api";
import type { EventRows } from "../contract/types";
import type { App } from "../model/app";
import {
  eventText,
  type FoldedEvent,
  folded,
  kindsOf,
  readable,
  samplerText,
  timesText,
} from "../model/events";
import { Poll } from "../model/poll";
import { portKey, type Topology } from "../model/topology";
import { count, dayTime, grouped } from "../model/units";
import { choice } from "../parts/choice";
import { h, setText } from "../parts/dom";
import { makeFilter } from "../parts/filter";
import { type Column, Table } from "../parts/table";
import type { View } from "../parts/view";
import { Managers } from "./managers";
import { MarkList } from "./marks";
import { drawSubject, subjectText } from "./subject";

/** The event kinds of the hub that the view offers, and marks. */
const KINDS: readonly (readonly [string, string])[] = [
  ["", "All kinds"],
  ["links", "Links"],
  ["devices", "Devices"],
  ["counters", "Counter resets"],
  ["samplers", "Samplers"],
  ["sm", "Subnet manager"],
  ["marks", "Marks"],
];

/** Time after the begin of congestion at which its tree is shown, in milliseconds. */
const AFTER = 30_000;

/** Max number of events that the view requests, and the time between two requests in milliseconds. */
const MAX = 2000;
const PERIOD = 2000;

/** Returns how many events are shown. */
function foundText(rows: number, all: number): string {
  const text = count(rows, "event");
  return all < MAX ? text : `${text} of the newest ${grouped(MAX)}; select a time for older ones`;
}

/** Returns the columns of a table of events. */
export function eventColumns(app: App): Column<FoldedEvent>[] {
  return [
    {
      id: "ts",
      line: 1,
      title: "Time",
      width: "minmax(84px, 0.6fr)",
      value: (row) => row.ts,
      unit: "time",
      text: (row) => dayTime(row.ts / 1e6),
    },
    {
      id: "event",
      line: 1,
      title: "Event",
      width: "minmax(164px, 0.9fr)",
      value: (row) => row.event,
      saved: (row) => [eventText(row), timesText(row)].filter((text) => text !== "").join(", "),
      draw: (cell, row) => {
        setText(cell, eventText(row));
        cell.title = timesText(row);
        cell.classList.toggle("alert-text", row.severe === true);
      },
    },
    {
      id: "subject",
      line: 2,
      title: "Subject",
      width: "minmax(120px, 1fr)",
      value: (row) => row.node ?? row.sampler,
      saved: (row) => row.region ?? subjectText(row, samplerText(row)),
      draw: (cell, row) => {
        const isRegion = row.event.startsWith("congestion_");
        const shown = row.ts / 1e6 + (row.event === "congestion_began" ? AFTER : 0);
        const region = isRegion ? { at: shown } : null;
        drawSubject(app, cell, row, samplerText(row), region);
      },
    },
    {
      id: "detail",
      line: 3,
      isSentence: true,
      title: "Detail",
      width: "minmax(160px, 2fr)",
      value: (row) => readable(row.detail, app.topology),
      saved: (row) => row.detail,
    },
    {
      id: "sampler",
      title: "Sampler",
      width: "minmax(80px, 0.7fr)",
      value: (row) => row.sampler,
      text: (row) => (row.samplers > 1 ? count(row.samplers, "sampler") : row.sampler),
    },
  ];
}

export function makeEvents(app: App, topology: Topology): View {
  const range = () => {
    const { range: selected, at } = app.state;
    if (selected !== null)
      return { from: nanoseconds(selected.from), to: nanoseconds(selected.to) };
    return at === null ? {} : { to: nanoseconds(at) };
  };
  const kind = () => KINDS.find(([name]) => name === app.option("kind"))?.[0] ?? "";
  const kinds = choice("Kind of event", KINDS, kind, (value) => app.setOption("kind", value));
  const isAll = () => app.option("all") !== "";
  const extent = choice(
    "Importance",
    [
      ["", "Without routine"],
      ["all", "With routine"],
    ] as const,
    () => (isAll() ? "all" : ""),
    (value) => app.setOption("all", value),
  );
  const poll = new Poll<EventRows>(
    app,
    "events",
    () => ({ ...range(), limit: MAX }),
    () => app.notify("values"),
    PERIOD,
    true,
  );
  const filter = makeFilter(app, "Any text", "Filter the events by text");
  const managers = new Managers(app);
  const marks = new MarkList(app);
  const note = h("span", { class: "muted", role: "status" });
  const table = new Table<FoldedEvent>({
    label: "Events",
    columns: eventColumns(app),
    key: (row) =>
      `${row.ts} ${row.event} ${row.guid === null ? samplerText(row) : portKey(row.guid, row.port ?? 0)}`,
    open: (row) =>
      app.go({ at: Math.ceil(row.ts / 1e6 / app.interval) * app.interval, range: null }),
    sort: "ts",
    descending: true,
    empty: "No event matches.",
  });
  // Marks are no events, so they are apart.
  const markButton = kinds.element.lastElementChild!;
  const markChoice = h("div", { class: "choice" }, markButton);
  let shown: EventRows | null = null;
  let settings = "";

  /** Shows the events that match, and the number of those of each kind. */
  function show({ rows, kinds: known }: EventRows): void {
    const text = app.option("q").trim().toLowerCase();
    const found = folded(
      rows.filter(
        ({ event, node, guid, sampler, detail }) =>
          (isAll() || !kindsOf(known, event).includes("routine")) &&
          (text === "" ||
            `${event} ${node} ${guid} ${sampler} ${detail}`.toLowerCase().includes(text)),
      ),
      (guid) => topology.switchOf(guid),
    );
    const counts = new Map([["", found.length]]);
    const selected = found.filter(({ event }) => {
      const of = kindsOf(known, event);
      for (const each of of) counts.set(each, (counts.get(each) ?? 0) + 1);
      return kind() === "" || of.includes(kind());
    });
    for (const [index, [name, title]] of KINDS.entries())
      if (name !== "marks")
        setText(kinds.element.children[index], `${title} ${grouped(counts.get(name) ?? 0)}`);
    table.cut = rows.length < MAX ? "" : `newest ${MAX}`;
    table.setRows(selected);
    if (kind() !== "marks")
      setText(note, poll.error !== "" ? poll.error : foundText(selected.length, rows.length));
  }
  return {
    isPrompt: true,
    element: h(
      "div",
      { class: "fill" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Events"),
        extent.element,
        kinds.element,
        markChoice,
        filter.element,
        note,
        h("span", { class: "muted" }, "Choose a row to show that time."),
      ),
      managers.element,
      marks.table.element,
      table.element,
    ),
    update() {
      poll.refresh();
      managers.update(kind() === "sm");
      marks.update(kind() === "marks");
      table.element.hidden = kind() === "marks";
      if (kind() === "marks") setText(note, count(marks.count, "mark"));
      setText(markButton, `Marks ${grouped(marks.count)}`);
      kinds.update();
      extent.update();
      filter.update();
      if (poll.error !== "") setText(note, poll.error);
      const key = ["q", "kind", "all"].map((name) => app.option(name)).join();
      if (poll.answer === null || (poll.answer === shown && key === settings)) return;
      shown = poll.answer;
      settings = key;
      show(poll.answer);
    },
    close() {
      table.close();
      poll.close();
      managers.close();
      marks.close();
    },
  };
}
