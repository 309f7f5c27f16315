//! All samplers: how complete, how fast and how late their slots are, and what was lost.

import { codeOf } from "../contract/frame";
import type { Packing, SamplerRow, SamplerRows } from "../contract/types";
import { plainPainter } from "../draw/scale";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import {
  answeredShare,
  DROPPED,
  hasAlert,
  isCurrent,
  longestUsual,
  MISSED,
  newestSlot,
  samplerState,
  samplersText,
  stateText,
} from "../model/samplers";
import type { Topology } from "../model/topology";
import { count, duration, grouped, percent, scaled } from "../model/units";
import { h, setText } from "../parts/dom";
import { barText } from "../parts/meter";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";

export function makeSamplers(app: App, _topology: Topology): View {
  const number = (
    id: string,
    title: string,
    hint: string,
    value: (row: SamplerRow) => number | null,
    text: (row: SamplerRow) => string,
    alert: (row: SamplerRow) => boolean = () => false,
    unit = "",
  ): Column<SamplerRow> => ({
    id,
    title,
    hint,
    end: true,
    width: "minmax(58px, 0.7fr)",
    value,
    unit,
    saved: unit === "s" ? (row) => seconds(value(row)) : undefined,
    draw: (cell, row) => {
      setText(cell, text(row));
      cell.classList.toggle("alert-text", alert(row));
    },
  });
  const hasAlertOf = (name: string) => (row: SamplerRow) =>
    hasAlert(app.alerts.answer?.rows ?? [], row, name);
  let newest = 0;
  /** The duration of a sweep with the full height. */
  let highest = 1;
  const age = (row: SamplerRow) =>
    row.last_slot === null ? null : ((newest - row.last_slot) * app.interval) / 1000;
  /** A value of the last sweep. It is not shown when no other sweep has followed. */
  const last = (value: (row: SamplerRow) => number | null) => (row: SamplerRow) =>
    isCurrent(row, newest) ? value(row) : null;
  const answered = last(answeredShare);
  const silent = last((row) => row.timeout + row.unreachable);
  const sweep = last((row) => row.duration_ns);
  const roundTrip = last((row) => row.rtt_p99_ns);
  const columns: Column<SamplerRow>[] = [
    {
      id: "sampler",
      line: 1,
      title: "Sampler",
      width: "minmax(90px, 1fr)",
      value: (row) => row.sampler,
      saved: ({ sampler, role }) => (role === "secondary" ? `${sampler} (secondary)` : sampler),
      draw: (cell, row) => {
        const text = row.role === "secondary" ? `${row.sampler} (secondary)` : row.sampler;
        const page = row.part_page;
        if (page === null) setText(cell, text);
        else {
          if (cell.firstElementChild === null) cell.replaceChildren();
          const title = `Samplers on the page of this part: ${page}`;
          linkCell(cell, text, page + app.href({}), title);
        }
      },
    },
    {
      id: "state",
      line: 1,
      title: "State",
      width: "112px",
      value: (row) => samplerState(row, newest),
      saved: (row) => stateText(row, newest),
      draw: (cell, row) => {
        setText(cell, stateText(row, newest));
        cell.classList.toggle("alert-text", samplerState(row, newest) !== "ok");
      },
    },
    {
      id: "answered",
      line: 2,
      title: "Answered",
      hint: "Share of the ports that answered in the last sweep",
      end: true,
      width: "minmax(104px, 1.2fr)",
      value: answered,
      unit: "share",
      picture: (row) => ({ codes: codeOf(answered(row)), scale: plainPainter }),
      draw: (cell, row) => barText(cell, percent(answered(row))),
    },
    number(
      "ports",
      "Ports",
      "Assigned ports",
      (row) => row.ports,
      (row) => grouped(row.ports),
    ),
    {
      ...number(
        "silent",
        "No answer",
        "Ports without an answer in the last sweep: timeouts, and ports of unreachable devices",
        silent,
        (row) => (silent(row) === null ? "–" : grouped(silent(row)!)),
        (row) => (silent(row) ?? 0) > 0,
      ),
      width: "86px",
    },
    {
      ...number(
        "duration",
        "Sweep time",
        "Duration of the last sweep",
        sweep,
        (row) => duration(seconds(sweep(row))),
        undefined,
        "s",
      ),
      width: "84px",
      line: 2,
    },
    {
      id: "durations",
      title: "60 sweeps",
      hint: "Durations of the last 60 sweeps; the full height is twice the usual time of the slowest sampler, or more",
      width: "minmax(106px, 0.9fr)",
      value: sweep,
      picture: (row) => {
        const values = isCurrent(row, newest) ? row.durations : [];
        const codes = Uint16Array.from(values, (value) => codeOf(Math.min(1, value / highest)));
        return { codes, scale: plainPainter };
      },
    },
    number(
      "rtt",
      "RTT p99",
      "99th percentile of the round-trip times of the last sweep",
      roundTrip,
      (row) => duration(seconds(roundTrip(row))),
      undefined,
      "s",
    ),
    {
      ...number("age", "Lag", "Age of the last sweep against the newest one", age, (row) =>
        duration(age(row)),
      ),
      saved: age,
      unit: "s",
      width: "minmax(70px, 0.7fr)",
    },
    number(
      "missed",
      "Missed",
      "Sweeps that could not start, since the start of the hub; red while an alert is about them",
      (row) => row.slots_missed,
      (row) => grouped(row.slots_missed),
      hasAlertOf(MISSED),
    ),
    number(
      "lost",
      "Lost",
      "Records that outputs dropped, since the start of the hub; red while an alert is about them",
      (row) => row.lines_lost,
      (row) => grouped(row.lines_lost),
      hasAlertOf(DROPPED),
    ),
    {
      id: "input",
      title: "Input",
      width: "minmax(80px, 1.6fr)",
      value: (row) => row.input,
      text: (row) => row.input,
    },
  ];
  const table = new Table<SamplerRow>({
    label: "Samplers",
    columns,
    key: (row) => `${row.sampler} ${row.role}`,
    sort: "sampler",
    descending: false,
    empty: "Waiting for the hub…",
  });
  const note = h("span", { class: "muted", role: "status" });
  const kept = h("p", { class: "muted" });
  const archive = h("p", { class: "muted" });
  const poll = new Poll<SamplerRows>(
    app,
    "samplers",
    () => ({}),
    () => app.notify("values"),
  );
  return {
    element: h(
      "div",
      { class: "fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Samplers"), note),
      table.element,
      kept,
      archive,
    ),
    update() {
      poll.refresh();
      const rows = poll.answer?.rows ?? [];
      newest = newestSlot(rows);
      highest = Math.max(1, 2 * longestUsual(rows));
      if (poll.answer !== null) table.setEmpty("No sampler has sent records.");
      table.setRows(rows);
      setText(note, poll.error || samplersText(rows, newest));
      const { health } = app;
      if (health !== null && health.kept.from_ns !== null && health.kept.to_ns !== null) {
        const seconds = (health.kept.to_ns - health.kept.from_ns) / 1e9;
        setText(
          kept,
          `The hub keeps ${duration(seconds)} of ${count(health.kept.ports, "port")} in ${scaled(health.kept.octets, "B")} of memory. Version ${health.version}. Missed sweeps and lost records are those since its start, without the time in which a sampler sent nothing.`,
        );
      }
      if (health?.archive) {
        setText(archive, archiveText(health.archive, health.now_ns));
        archive.classList.toggle("alert-text", health.archive.error !== null);
      }
    },
    close() {
      table.close();
      poll.close();
    },
  };
}

function seconds(ns: number | null): number | null {
  return ns === null ? null : ns / 1e9;
}

/** Describes the packing into the archive. */
function archiveText(archive: Packing, now: number): string {
  const { packed_ns, spool_octets, spool_max_octets, free_octets, lines_lost, error } = archive;
  const packed =
    packed_ns === null
      ? "Nothing is packed into the archive yet"
      : `The archive has all records up to ${duration((now - packed_ns) / 1e9)} ago`;
  const lost = lines_lost === 0 ? "" : ` ${count(lines_lost, "line")} did not reach it.`;
  const fault = error === null ? "" : ` Fault: ${error}.`;
  const free = free_octets === null ? "" : ` The disk has ${scaled(free_octets, "B")} free.`;
  return `${packed}; ${scaled(spool_octets, "B")} of at most ${scaled(spool_max_octets, "B")} wait.${free}${lost}${fault}`;
}
