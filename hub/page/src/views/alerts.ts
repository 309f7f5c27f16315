//! The list of alerts, the condition of their receivers, and the audit log.

import type { AlertRow, Receiver } from "../contract/types";
import { phone } from "../draw/theme";
import { countsText, SEVERITIES } from "../model/alerts";
import type { App } from "../model/app";
import { readable } from "../model/events";
import type { Topology } from "../model/topology";
import { count, dayTime } from "../model/units";
import { h, setText } from "../parts/dom";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { AlertForm, markText } from "./alertform";
import { AuditList } from "./audit";
import { drawSubject, subjectText } from "./subject";

const STATES: readonly AlertRow["state"][] = ["firing", "pending", "resolved"];

/** Sorts firing alerts first, and the worst ones first among them. */
function rank(row: AlertRow): number {
  return STATES.indexOf(row.state) * SEVERITIES.length + SEVERITIES.indexOf(row.severity);
}

function otherwise({ sampler }: AlertRow): string {
  return sampler === null ? "fabric" : `sampler ${sampler}`;
}

/** Lets a name break where a word begins. */
function breakWords(element: Element): void {
  if (element.children.length > 0) return;
  const [first, ...words] = element.textContent!.split(/(?=[A-Z])/);
  element.replaceChildren(first, ...words.flatMap((word) => [h("wbr"), word]));
}

function columns(app: App, topology: Topology): Column<AlertRow>[] {
  const summary = (row: AlertRow) => readable(row.summary, topology);
  // A phone shows the whole name of an alert.
  const isPhone = phone().matches;
  return [
    {
      id: "state",
      line: 1,
      title: "State",
      hint: "A pending alert fires when its condition has been true for long enough",
      width: "72px",
      value: rank,
      saved: (row) => row.state,
      draw: (cell, row) => {
        setText(cell, row.state);
        cell.classList.toggle("alert-text", row.state === "firing" && !row.mark?.silent);
      },
    },
    {
      id: "severity",
      line: 1,
      title: "Severity",
      width: "72px",
      value: (row) => SEVERITIES.indexOf(row.severity),
      saved: (row) => row.severity,
      draw: (cell, row) => {
        setText(cell, row.severity);
        cell.classList.toggle("alert-text", row.severity === "critical");
      },
    },
    {
      id: "runbook",
      line: 2,
      title: "Alert",
      hint: "The runbook explains each alert by its name",
      width: isPhone ? "230px" : "minmax(170px, 1.3fr)",
      value: (row) => row.alert,
      draw: (cell, row) => {
        // A browser opens no file from a page of a server, so only its name is shown.
        if (!/^https?:/.test(row.runbook)) setText(cell, row.alert);
        else {
          if (cell.querySelector("a") === null) cell.replaceChildren();
          linkCell(cell, row.alert, row.runbook, row.runbook);
        }
        breakWords(cell.querySelector("a") ?? cell);
      },
    },
    {
      id: "subject",
      line: 1,
      title: "Subject",
      width: "minmax(140px, 1fr)",
      value: (row) => row.node ?? row.sampler ?? "",
      saved: (row) => row.region ?? subjectText(row, otherwise(row)),
      draw: (cell, row) => {
        const at = row.resolved_ns === null ? null : row.since_ns / 1e6;
        const region = row.region === null ? null : { at };
        drawSubject(app, cell, row, otherwise(row), region);
      },
    },
    {
      id: "summary",
      line: 3,
      isSentence: true,
      title: "Summary",
      width: "minmax(260px, 3fr)",
      value: summary,
      saved: (row) => row.summary,
    },
    {
      id: "since",
      line: 2,
      title: "Since",
      width: isPhone ? "110px" : "minmax(84px, 0.5fr)",
      value: (row) => row.since_ns,
      unit: "time",
      text: (row) => dayTime(row.since_ns / 1e6),
    },
    {
      id: "mark",
      title: "Seen",
      savedTitle: "Seen or silenced",
      hint: "Seen or silenced by whom, until when and why. If the hub has users, choose a row to do so",
      width: "minmax(84px, 0.6fr)",
      value: (row) => row.mark?.by ?? "",
      saved: markText,
      draw: (cell, row) => {
        const text = markText(row);
        setText(cell, text);
        cell.title = text;
      },
    },
  ];
}

function receiverText({ receiver, sent, dropped, error }: Receiver): string {
  const lost = dropped === 0 ? "" : `, ${count(dropped, "change")} lost`;
  const fault = error === null ? "" : `; the last attempt failed: ${error}`;
  return `${receiver}: ${count(sent, "message")} sent${lost}${fault}`;
}

export function makeAlerts(app: App, topology: Topology): View {
  const form = new AlertForm(app);
  const table = new Table<AlertRow>({
    label: "Alerts",
    columns: columns(app, topology),
    key: (row) => row.id,
    open: (row) => app.alerts.answer?.markable === true && form.show(row),
    sort: "state",
    descending: false,
    empty: "Waiting for the hub…",
  });
  const audit = new AuditList(app);
  const note = h("span", { class: "muted", role: "status" });
  const receivers = h("p", { class: "muted" });
  return {
    element: h(
      "div",
      { class: "fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Alerts"), note),
      table.element,
      form.element,
      receivers,
      audit.element,
    ),
    update() {
      audit.update();
      const { answer, error } = app.alerts;
      if (answer === null) return setText(note, error);
      table.setEmpty("No condition is true, and none was in the last 15 minutes.");
      table.cut = answer.left_out === 0 ? "" : `without ${answer.left_out}`;
      // The newest come first among equal ones.
      table.setRows([...answer.rows].sort((x, y) => y.since_ns - x.since_ns));
      const left = answer.left_out === 0 ? "" : `, ${answer.left_out} more not listed`;
      const failed = answer.error === null ? "" : `. They do not change: ${answer.error}`;
      setText(note, error || `${countsText(answer)}${left}${failed}`);
      const texts = answer.receivers.map(receiverText);
      setText(
        receivers,
        texts.join(" · ") || "No receiver is configured: only this page shows alerts.",
      );
      const isFailing = answer.receivers.some((receiver) => receiver.error !== null);
      receivers.className = isFailing ? "alert-text" : "muted";
    },
    close() {
      table.close();
      audit.close();
    },
  };
}
