//! Running and past jobs as a table.

import type { JobRow, JobRows } from "../contract/types";
import type { App } from "../model/app";
import { isPartial, jobSeconds } from "../model/job";
import { Poll } from "../model/poll";
import type { Topology } from "../model/topology";
import { clock, count, dayTime, duration, grouped } from "../model/units";
import { choice } from "../parts/choice";
import { h, setText } from "../parts/dom";
import { makeFilter, orderOf } from "../parts/filter";
import { BLOCKED_LEGEND, legend } from "../parts/meter";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { shareColumn, trafficColumns } from "./columns";

const STATES = [
  ["", "All"],
  ["running", "Running"],
  ["ended", "Ended"],
] as const;

export function makeJobs(app: App, _topology: Topology): View {
  const table = new Table<JobRow>({
    label: "Jobs",
    columns: columns(app),
    key: (row) => `${row.job} ${row.start_ns}`,
    open: (row) => app.go({ view: "job", item: row.job, options: {} }, true),
    ...orderOf(app, "blocked"),
    empty: "No job matches.",
  });
  const note = h("span", { class: "muted", role: "status" });
  const filter = makeFilter(
    app,
    "ID, name, user or node",
    "Filter the jobs by ID, name, user or node",
  );
  const state = () => STATES.find(([name]) => name === app.option("state"))?.[0] ?? "";
  const states = choice("State of the jobs", STATES, state, (value) =>
    app.setOption("state", value),
  );
  const poll = new Poll<JobRows>(
    app,
    "jobs",
    () => ({
      ...(app.state.range === null ? {} : app.spanParams),
      q: app.option("q") || null,
      state: state() || null,
      limit: 5000,
    }),
    () => app.notify("values"),
    5000,
  );
  let shown: unknown = null;
  return {
    element: h(
      "div",
      { class: "fill" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Jobs"),
        states.element,
        filter.element,
        note,
        h("span", { class: "space" }),
        legend([BLOCKED_LEGEND], []),
      ),
      table.element,
    ),
    update() {
      poll.refresh();
      states.update();
      filter.update();
      note.classList.toggle("alert-text", poll.error !== "" || Boolean(poll.answer?.error));
      if (poll.error !== "") setText(note, poll.error);
      if (poll.answer === null || poll.answer === shown) return;
      shown = poll.answer;
      const { rows, reason } = poll.answer;
      if (reason !== undefined) table.setEmpty(`There are no jobs: ${reason}.`);
      table.cut = rows.length < poll.answer.known ? `newest ${rows.length}` : "";
      table.setRows(rows);
      setText(note, sourceText(poll.answer));
    },
    close() {
      table.close();
      poll.close();
    },
  };
}

function sourceText({ rows, running, known, source, read_ns, error, reason }: JobRows): string {
  if (reason !== undefined) return "";
  if (error !== null) return `The source of jobs failed: ${error}`;
  const jobs =
    rows.length < known ? `${grouped(rows.length)} of ${count(known, "job")}` : count(known, "job");
  const when = read_ns === null ? "not read yet" : `read at ${clock(read_ns / 1e6)}`;
  return `${jobs}, ${grouped(running)} running; ${source}, ${when}`;
}

/** Returns whether a sum of a job is known and is not of its whole time. */
function isLeast({ value }: Column<JobRow>, row: JobRow): boolean {
  return value(row) !== null && isPartial(row);
}

function columns(app: App): Column<JobRow>[] {
  return [
    {
      id: "job",
      line: 1,
      title: "Job",
      width: "minmax(56px, 0.6fr)",
      value: ({ job }) => Number(job) || job,
      saved: ({ job }) => job,
      draw: (cell, { job }) =>
        linkCell(cell, job, app.href({ view: "job", item: job, options: {} })),
    },
    {
      id: "name",
      line: 1,
      title: "Name",
      width: "minmax(80px, 1fr)",
      value: ({ name }) => name,
      text: ({ name }) => name ?? "–",
    },
    {
      id: "user",
      title: "User",
      width: "minmax(58px, 0.6fr)",
      value: ({ user }) => user,
      text: ({ user }) => user ?? "–",
    },
    {
      id: "state",
      line: 1,
      title: "State",
      width: "84px",
      value: ({ state }) => state,
      draw: (cell, { state, end_ns }) => {
        setText(cell, state);
        cell.classList.toggle("running", end_ns === null);
        cell.classList.toggle("alert-text", ["failed", "node_fail"].includes(state));
      },
    },
    {
      id: "nodes",
      line: 2,
      title: "Nodes",
      end: true,
      width: "50px",
      value: (row) => row.node_count,
      draw: (cell, row) => {
        setText(cell, grouped(row.node_count));
        cell.title = row.nodes;
      },
    },
    {
      id: "start",
      title: "Start",
      end: true,
      width: "126px",
      value: (row) => row.start_ns,
      unit: "time",
      text: (row) => dayTime(row.start_ns / 1e6),
    },
    {
      id: "length",
      line: 2,
      title: "Duration",
      end: true,
      width: "98px",
      value: (row) => jobSeconds(row, Date.now()),
      unit: "s",
      state: (row) => (row.end_is_lower_bound ? "at least" : ""),
      text: (row) =>
        `${row.end_is_lower_bound ? "≥ " : ""}${duration(Math.round(jobSeconds(row, Date.now())))}`,
    },
    ...trafficColumns<JobRow>().map(
      (column): Column<JobRow> => ({
        ...column,
        hint: `${column.hint}; ≥: a part of its time has no records`,
        width: "88px",
        state: (row) => (isLeast(column, row) ? "at least" : ""),
        text: (row) => `${isLeast(column, row) ? "≥ " : ""}${column.text?.(row) ?? ""}`,
      }),
    ),
    {
      ...shareColumn<JobRow>(
        "blocked",
        "Blocked",
        "Share of the time in which the nodes were blocked, mean of all nodes",
        ({ blocked }) => blocked,
        true,
      ),
      line: 2,
    },
    {
      id: "per-byte",
      title: "Blocked per byte",
      hint: "Blocked time for each byte that was sent",
      end: true,
      width: "128px",
      value: (row) => row.blocked_ns_per_byte,
      saved: (row) => (row.blocked_ns_per_byte === null ? null : row.blocked_ns_per_byte / 1e9),
      unit: "s/B",
      text: (row) =>
        row.blocked_ns_per_byte === null ? "–" : duration(row.blocked_ns_per_byte / 1e9),
    },
  ];
}
