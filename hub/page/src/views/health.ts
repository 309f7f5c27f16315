//! The links with their verdicts, worst first: which cable or module to replace, and why.

import type { HealthLink, HealthLinks } from "../contract/types";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { significantRatio } from "../model/ratio";
import { portKey, type Topology } from "../model/topology";
import { count, dayTime, grouped } from "../model/units";
import { h, setText } from "../parts/dom";
import { makeFilter, orderOf } from "../parts/filter";
import { type Column, Table } from "../parts/table";
import type { View } from "../parts/view";
import { portColumn } from "./columns";
import { isFault, verdictName, verdictSince, verdictText } from "./verdict";

/** Time between two requests in milliseconds. */
const PERIOD = 10_000;
/** Max number of links that the view requests. */
const MAX = 2000;

const VERDICTS = ["replace", "clean", "watch", "unknown", "good"] as const;

function text(
  id: string,
  title: string,
  hint: string,
  width: string,
  value: (row: HealthLink) => string,
  line?: 1 | 2 | 3,
): Column<HealthLink> {
  return {
    id,
    title,
    hint,
    width,
    line,
    value,
    draw: (cell, row) => {
      const found = value(row) || "–";
      setText(cell, found);
      cell.title = found;
    },
  };
}

export function makeHealth(app: App, _topology: Topology): View {
  const columns: Column<HealthLink>[] = [
    {
      id: "verdict",
      line: 1,
      title: "Verdict",
      hint: "Worst first: replace, clean, watch, unknown (an end does not answer), good",
      width: "68px",
      value: (row) => row.rank,
      saved: verdictName,
      draw: (cell, row) => {
        setText(cell, verdictName(row));
        cell.classList.toggle("alert-text", isFault(row));
        cell.classList.toggle("watch-text", verdictName(row) === "watch");
        cell.classList.toggle("muted", verdictName(row) === "good");
      },
    },
    {
      ...portColumn<HealthLink>(app, "port", "Port", (row) => row),
      line: 1,
      width: "minmax(116px, 1.3fr)",
      hint: "The end that receives the bits with errors",
    },
    {
      ...portColumn<HealthLink>(app, "peer", "Other end", ({ peer }) => peer),
      width: "minmax(108px, 1.3fr)",
    },
    {
      ...text(
        "why",
        "Rule",
        "What was measured. Without 125 minutes of readings, a verdict is good or watch",
        "minmax(226px, 3fr)",
        verdictText,
        3,
      ),
      isSentence: true,
    },
    {
      id: "since",
      line: 2,
      title: "Since",
      width: "84px",
      value: verdictSince,
      unit: "time",
      text: (row) => (verdictSince(row) === 0 ? "–" : dayTime(verdictSince(row) / 1e6)),
    },
    {
      id: "raw",
      title: "Pre-FEC BER",
      hint: "Ratio of bit errors that the port received, before error correction",
      end: true,
      width: "90px",
      value: ({ raw }) => raw?.ratio ?? null,
      text: ({ raw }) => (raw === null ? "–" : significantRatio(raw.ratio)),
    },
    text("serial", "Serial number", "Of the cable or the module", "126px", (row) => row.serial, 2),
    text("module", "Module", "Vendor and part number", "minmax(92px, 1.3fr)", (row) =>
      `${row.vendor} ${row.part}`.trim(),
    ),
    {
      id: "celsius",
      title: "°C",
      hint: "Temperature of the module at the port",
      end: true,
      width: "46px",
      value: ({ celsius }) => celsius,
      text: ({ celsius }) => (celsius === null ? "–" : celsius.toFixed(0)),
    },
  ];
  const table = new Table<HealthLink>({
    label: "Condition of the links",
    columns,
    key: ({ guid, port }) => portKey(guid, port),
    open: ({ guid, port }) =>
      app.go({ view: "port", item: portKey(guid, port), options: {} }, true),
    ...orderOf(app, "verdict", false),
    empty: "Waiting for the hub…",
  });
  const filter = makeFilter(app, "Node, serial number or part", "Filter the links");
  const note = h("span", { class: "muted", role: "status" });
  const poll = new Poll<HealthLinks>(
    app,
    "links/health",
    () => ({ top: MAX }),
    () => app.notify("values"),
    PERIOD,
  );
  let shown: unknown = null;
  return {
    element: h(
      "div",
      { class: "fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Health"), filter.element, note),
      table.element,
    ),
    update() {
      poll.refresh();
      filter.update();
      const { answer, error } = poll;
      if (answer === null) return setText(note, error);
      const wanted = app.option("q").trim().toLowerCase();
      const state = `${wanted} ${app.isLive}`;
      if (shown === answer && table.element.dataset.state === state) return;
      shown = answer;
      table.element.dataset.state = state;
      table.setEmpty(
        answer.known === 0
          ? "No bit errors were read. Samplers read them with the table [physical] of their configuration."
          : "No link matches.",
      );
      table.cut = answer.known > answer.rows.length ? `worst ${answer.rows.length}` : "";
      table.setRows(answer.rows.filter((row) => wanted === "" || matches(row, wanted)));
      const now = app.isLive ? "" : "; the newest, not of the selected time";
      setText(note, error || `${summary(answer)}${now}`);
    },
    close() {
      table.close();
      poll.close();
    },
  };
}

function matches(row: HealthLink, wanted: string): boolean {
  const { node, peer, serial, part, vendor } = row;
  const verdict = [verdictName(row), verdictText(row)];
  const texts = [node, peer?.node ?? "", serial, part, vendor, ...verdict];
  return texts.some((each) => each.toLowerCase().includes(wanted));
}

/** Returns the number of links of each verdict. */
function summary({ counts, silent, known, rows }: HealthLinks): string {
  const all = { ...counts, unknown: silent, good: counts.good - silent };
  const parts = VERDICTS.filter((name) => all[name] > 0).map(
    (name) => `${grouped(all[name])} ${name}`,
  );
  const left = known > rows.length ? `; the worst ${grouped(rows.length)} are listed` : "";
  return `${count(known, "link")}: ${parts.join(", ") || "none judged"}${left}`;
}
