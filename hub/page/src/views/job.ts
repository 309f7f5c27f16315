//! One job: what its nodes sent and received, where they waited, and the links that they used.

import type { JobListRow, Rows } from "../contract/types";
import { blockedScale, utilizationScale } from "../draw/scale";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import type { Topology } from "../model/topology";
import { count, dateTime, duration, percent, scaled } from "../model/units";
import { h, setText } from "../parts/dom";
import { barOf } from "../parts/meter";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { panel } from "./panel";

interface Uplink {
  port: string;
  to: string;
  up_gbps: number;
  down_gbps: number;
  used: number | null;
  blocked: number | null;
  job_up_gbps: number;
  job_down_gbps: number;
}

interface JobDetail extends JobListRow {
  uplinks?: Uplink[];
}

type NodeRow = JobListRow["nodes"][number];

export function makeJob(app: App, _topology: Topology): View {
  const id = app.state.item;
  const poll = new Poll<Rows<JobDetail>>(
    app,
    "jobs",
    () => ({ job: id }),
    () => app.notify("values"),
    5000,
  );
  const text = h("p", { class: "tree-text", role: "status" });
  const figures = h("div", { class: "figures job-figures" });
  const nodes = new Table<NodeRow>({
    label: "Nodes",
    columns: nodeColumns(app),
    key: ({ host }) => host,
    sort: "blocked",
    descending: true,
    empty: "No node of the job has records.",
  });
  const uplinks = new Table<Uplink>({
    label: "Links of the job",
    columns: uplinkColumns(),
    key: ({ port }) => port,
    sort: "job",
    descending: true,
    empty: "No link between switches.",
  });
  const nodePanel = panel("Nodes", "job-nodes");
  nodePanel.body.append(nodes.element);
  const linkPanel = panel("Links between switches", "job-links");
  linkPanel.body.append(uplinks.element);
  linkPanel.note.textContent = "with the traffic of all jobs";
  const links = h("span", { class: "toolbar-links" });
  let shown: unknown = null;

  function show(row: JobDetail): void {
    const end = row.end_ns ?? Date.now() * 1e6;
    const length = row.start_ns === null ? null : (end - row.start_ns) / 1e9;
    setText(
      text,
      [
        row.name,
        row.user === null || row.user === undefined ? "" : `user ${row.user}`,
        row.partition,
        row.start_ns === null ? "" : `started ${dateTime(row.start_ns / 1e6)}`,
        row.end_ns === null ? "running" : `ended ${dateTime(row.end_ns / 1e6)}`,
      ]
        .filter((part) => part !== "" && part !== null && part !== undefined)
        .join(", "),
    );
    const figure = (title: string, value: string, note: string) =>
      h("div", { class: "figure" }, h("span", {}, title), h("b", {}, value), h("small", {}, note));
    figures.replaceChildren(
      figure(
        "Nodes",
        String(row.nodes.length),
        row.missing.length > 0
          ? `${count(row.missing.length, "node")} without records`
          : "all with records",
      ),
      figure("Duration", duration(length), ""),
      figure(
        "Sent",
        scaled(row.injected_bytes, "B"),
        length === null ? "" : `mean ${scaled((8 * row.injected_bytes) / length, "b/s")}`,
      ),
      figure("Received", scaled(row.ejected_bytes, "B"), ""),
      figure("Blocked", duration(row.blocked_seconds), "sum of all ports"),
    );
    nodes.setRows(row.nodes);
    uplinks.setRows(row.uplinks ?? []);
    const actions = [
      h(
        "a",
        { class: "action", href: app.href({ view: "map", options: { job: id } }) },
        "Show on the map",
      ),
    ];
    if (row.start_ns !== null) {
      const range = { from: row.start_ns / 1e6, to: end / 1e6 };
      actions.push(
        h(
          "a",
          {
            class: "action",
            href: app.href({ view: "heatmap", range, at: null, options: { by: "host" } }),
          },
          "Heat map of its time",
        ),
      );
    }
    links.replaceChildren(...actions);
  }

  return {
    element: h(
      "div",
      { class: "job-page" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, `Job ${id}`),
        h("span", { class: "space" }),
        links,
      ),
      text,
      figures,
      h("div", { class: "job-tables" }, nodePanel.element, linkPanel.element),
    ),
    update() {
      poll.refresh();
      const row = poll.answer?.rows[0];
      if (row !== undefined && row !== shown) {
        shown = row;
        show(row);
      } else if (row === undefined)
        setText(
          text,
          poll.error ||
            (poll.answer === null ? "Waiting for the hub…" : "The hub does not have this job."),
        );
    },
    close() {
      poll.close();
      nodes.close();
      uplinks.close();
    },
  };
}

function nodeColumns(app: App): Column<NodeRow>[] {
  return [
    {
      id: "host",
      title: "Node",
      width: "minmax(90px, 1fr)",
      value: ({ host }) => host,
      draw: (cell, { host }) =>
        linkCell(cell, host, app.href({ view: "ports", options: { q: host } })),
    },
    {
      id: "sent",
      title: "Sent",
      end: true,
      width: "90px",
      value: (row) => row.injected_bytes,
      text: (row) => scaled(row.injected_bytes, "B"),
    },
    {
      id: "received",
      title: "Received",
      end: true,
      width: "90px",
      value: (row) => row.ejected_bytes,
      text: (row) => scaled(row.ejected_bytes, "B"),
    },
    {
      id: "blocked",
      title: "Blocked",
      end: true,
      width: "90px",
      value: (row) => row.blocked_seconds,
      text: (row) => duration(row.blocked_seconds),
    },
  ];
}

function uplinkColumns(): Column<Uplink>[] {
  const share = (
    id: string,
    title: string,
    value: (row: Uplink) => number | null,
    isBlocked: boolean,
  ): Column<Uplink> => ({
    id,
    title,
    end: true,
    width: "minmax(100px, 1fr)",
    value,
    draw: (cell, row) => {
      cell.classList.add("cell-bar");
      barOf(cell, value(row), percent(value(row)), isBlocked ? blockedScale : utilizationScale);
    },
  });
  return [
    { id: "port", title: "Port", width: "minmax(90px, 1fr)", value: ({ port }) => port },
    { id: "to", title: "To", width: "minmax(90px, 1fr)", value: ({ to }) => to },
    share("used", "Used", ({ used }) => used, false),
    share("blocked", "Blocked", ({ blocked }) => blocked, true),
    {
      id: "job",
      title: "By the job",
      hint: "Estimated data rate of the job, up",
      end: true,
      width: "100px",
      value: (row) => row.job_up_gbps,
      text: (row) => scaled(row.job_up_gbps * 1e9, "b/s"),
    },
  ];
}
