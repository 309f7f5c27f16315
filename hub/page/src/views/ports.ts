//! All ports as a table. Selected ports are compared in one chart.

import { FULL, NO_DATA, stateOf } from "../contract/frame";
import type { App } from "../model/app";
import { BLOCKED, UTILIZATION } from "../model/state";
import type { Topology } from "../model/topology";
import { h, setText } from "../parts/dom";
import { orderOf } from "../parts/filter";
import { BLOCKED_LEGEND, legend, UTILIZATION_LEGEND } from "../parts/meter";
import { type Column, Table } from "../parts/table";
import type { View } from "../parts/view";
import { drawPort, meterColumn, trendColumn } from "./columns";
import { LiveTable } from "./livetable";

const MAX_COMPARED = 6;

export function makePorts(app: App, topology: Topology): View {
  let utilization: Uint16Array | null = null;
  let blocked: Uint16Array | null = null;
  const chosen = new Set<number>();

  const use = (port: number) => utilization?.[port] ?? NO_DATA;
  const wait = (port: number) => blocked?.[port] ?? NO_DATA;
  const received = (port: number) => {
    const { peer } = topology.ports[port];
    return peer === null ? NO_DATA : use(peer);
  };
  const status = (port: number) => (use(port) <= FULL ? "ok" : stateOf(use(port)));
  const compare = h("button", {
    type: "button",
    class: "action",
    hidden: true,
    on: { click: () => openCompared() },
  });
  const columns: Column<number>[] = [
    {
      id: "choose",
      title: "Compare",
      hint: "Choose ports to compare, also with the space key on a row",
      width: "70px",
      value: (port) => (chosen.has(port) ? 0 : 1),
      saved: null,
      draw: (cell, port) => {
        let box = cell.firstElementChild as HTMLInputElement | null;
        if (box === null) {
          const input = h("input", {
            type: "checkbox",
            tabindex: -1,
            on: {
              click: (event) => event.stopPropagation(),
              change: () => choose(Number(input.dataset.port), input.checked),
            },
          });
          box = input;
          cell.append(box);
        }
        box.dataset.port = String(port);
        box.checked = chosen.has(port);
        box.setAttribute("aria-label", `Compare ${topology.nameOf(port)}`);
      },
    },
    {
      id: "port",
      line: 1,
      title: "Port",
      width: "minmax(120px, 1.2fr)",
      value: (port) =>
        `${topology.ports[port].node} ${String(topology.ports[port].port).padStart(4, "0")}`,
      saved: (port) => topology.nameOf(port),
      draw: (cell, port) => drawPort(app, cell, topology.ports[port]),
    },
    {
      id: "peer",
      title: "Other end",
      width: "minmax(110px, 1.1fr)",
      value: (port) => topology.peerNameOf(port) || null,
      draw: (cell, port) => {
        const { peer } = topology.ports[port];
        if (peer === null) cell.replaceChildren(topology.peerNameOf(port) || "–");
        else drawPort(app, cell, topology.ports[peer]);
      },
    },
    {
      id: "link",
      title: "Link",
      width: "58px",
      value: (port) => topology.ports[port].link,
      text: (port) => topology.ports[port].link ?? "–",
    },
    {
      id: "status",
      line: 1,
      title: "State",
      width: "80px",
      value: status,
      draw: (cell, port) => {
        setText(cell, status(port));
        cell.classList.toggle("alert-text", ["no answer", "link down"].includes(status(port)));
      },
    },
    { ...meterColumn("use", "Sends", "Utilization, sending", use, false), line: 2 },
    meterColumn("received", "Receives", "Utilization of the other end, sending", received, false),
    { ...meterColumn("wait", "Blocked", "Blocked share", wait, true), line: 2 },
    trendColumn(app, (port) => [port]),
    {
      id: "sampler",
      title: "Sampler",
      width: "minmax(82px, 0.6fr)",
      value: (port) => topology.ports[port].sampler,
      text: (port) => topology.ports[port].sampler ?? "none",
    },
  ];
  const table = new Table<number>({
    label: "Ports",
    columns,
    key: (port) => topology.keyOf(port),
    open: (port) => app.go({ view: "port", item: topology.keyOf(port), options: {} }, true),
    choose: (port) => choose(port, !chosen.has(port)),
    ...(app.option("q") === "" ? orderOf(app, "use") : orderOf(app, "port", false)),
    empty: "No port matches.",
  });
  const all = topology.ports.map((_, port) => port);
  const live = new LiveTable(app, table, all, (port) => [port], "port");

  function choose(port: number, on: boolean): void {
    if (on) chosen.add(port);
    else chosen.delete(port);
    compare.hidden = chosen.size < 2;
    compare.disabled = chosen.size > MAX_COMPARED;
    setText(
      compare,
      chosen.size > MAX_COMPARED ? `At most ${MAX_COMPARED} ports` : `Compare ${chosen.size} ports`,
    );
  }

  function openCompared(): void {
    const [first, ...others] = chosen;
    app.go(
      {
        view: "port",
        item: topology.keyOf(first),
        options: { with: others.map((port) => topology.keyOf(port)).join(",") },
      },
      true,
    );
  }

  return {
    element: h(
      "div",
      { class: "fill" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Ports"),
        live.filter.element,
        live.note,
        compare,
        h("span", { class: "space" }),
        legend([UTILIZATION_LEGEND, BLOCKED_LEGEND], []),
      ),
      table.element,
    ),
    update() {
      utilization = app.values(UTILIZATION);
      blocked = app.values(BLOCKED);
      live.update(utilization !== null);
    },
    close() {
      table.close();
    },
  };
}
