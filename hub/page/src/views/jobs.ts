//! Running and past jobs.

import type { JobListRow, Rows } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import type { Topology } from "../model/topology";
import { count, dateTime, duration, scaled } from "../model/units";
import { h, setText } from "../parts/dom";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";

export function makeJobs(app: App, _topology: Topology): View {
  const length = (row: JobListRow) =>
    row.start_ns === null ? null : ((row.end_ns ?? Date.now() * 1e6) - row.start_ns) / 1e9;
  const columns: Column<JobListRow>[] = [
    {
      id: "job",
      title: "Job",
      width: "minmax(80px, 0.7fr)",
      value: (row) => row.job,
      draw: (cell, row) => {
        if (row.job === null) cell.replaceChildren("no job");
        else linkCell(cell, row.job, app.href({ view: "job", item: row.job }));
      },
    },
    { id: "name", title: "Name", width: "minmax(90px, 1fr)", value: (row) => row.name ?? null },
    { id: "user", title: "User", width: "minmax(70px, 0.7fr)", value: (row) => row.user ?? null },
    {
      id: "state",
      title: "State",
      width: "100px",
      value: (row) =>
        row.state?.toLowerCase() ??
        (row.end_ns === null && row.start_ns !== null ? "running" : "ended"),
    },
    { id: "nodes", title: "Nodes", end: true, width: "60px", value: (row) => row.nodes.length },
    {
      id: "start",
      title: "Start",
      width: "160px",
      value: (row) => row.start_ns,
      text: (row) => (row.start_ns === null ? "–" : dateTime(row.start_ns / 1e6)),
    },
    {
      id: "length",
      title: "Duration",
      end: true,
      width: "100px",
      value: length,
      text: (row) => duration(length(row)),
    },
    {
      id: "sent",
      title: "Sent",
      hint: "Data that all nodes sent",
      end: true,
      width: "90px",
      value: (row) => row.injected_bytes,
      text: (row) => scaled(row.injected_bytes, "B"),
    },
    {
      id: "received",
      title: "Received",
      hint: "Data that all nodes received",
      end: true,
      width: "90px",
      value: (row) => row.ejected_bytes,
      text: (row) => scaled(row.ejected_bytes, "B"),
    },
    {
      id: "blocked",
      title: "Blocked",
      hint: "Time for which the ports of the nodes were blocked, summed",
      end: true,
      width: "100px",
      value: (row) => row.blocked_seconds,
      text: (row) => duration(row.blocked_seconds),
    },
    {
      id: "per-byte",
      title: "Blocked / B",
      hint: "Blocked time for each octet that was sent",
      end: true,
      width: "100px",
      value: (row) => row.blocked_ns_per_byte,
      text: (row) =>
        row.blocked_ns_per_byte === null ? "–" : duration(row.blocked_ns_per_byte / 1e9),
    },
  ];
  const table = new Table<JobListRow>({
    label: "Jobs",
    columns,
    key: (row) => row.job ?? "",
    open: (row) => row.job !== null && app.go({ view: "job", item: row.job, options: {} }, true),
    sort: "start",
    descending: true,
    empty: "The hub has no jobs. Its configuration names the source of jobs.",
  });
  const note = h("span", { class: "muted", role: "status" });
  const poll = new Poll<Rows<JobListRow>>(
    app,
    "jobs",
    () => (app.state.range === null ? {} : app.spanParams),
    () => app.notify("values"),
    5000,
  );
  let shown: unknown = null;
  return {
    element: h(
      "div",
      { class: "fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Jobs"), note),
      table.element,
    ),
    update() {
      poll.refresh();
      if (poll.error !== "") setText(note, poll.error);
      if (poll.answer === null || poll.answer === shown) return;
      shown = poll.answer;
      if (poll.answer.reason !== undefined) table.setEmpty(`${poll.answer.reason}.`);
      table.setRows(poll.answer.rows);
      setText(note, count(poll.answer.rows.length, "job"));
    },
    close() {
      table.close();
      poll.close();
    },
  };
}
