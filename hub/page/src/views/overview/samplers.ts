//! The samplers: completeness, duration of a sweep, age, lost records.

import type { Rows, SamplerRow } from "../../contract/types";
import type { App } from "../../model/app";
import type { Poll } from "../../model/poll";
import { compareNames, count, duration, grouped, percent } from "../../model/units";
import { h, patch, setAttribute, setStyle, setText } from "../../parts/dom";
import { panel } from "../panel";
import { rowsThatFit } from "./room";

const MOST = 9;
const MOST_LOW = 6;

/** Returns the share of the ports of a sampler that answered in its last slot. */
export function answeredShare(row: SamplerRow): number | null {
  return row.ports === 0 ? null : (row.ok + row.late + row.down) / row.ports;
}

/** Returns the state of a sampler in one word. */
export function samplerState(app: App, row: SamplerRow): "ok" | "late" | "lost" {
  if (!row.connected) return "lost";
  if (row.last_slot === null || app.latest === null) return "late";
  return app.latest - row.last_slot > 3 ? "late" : "ok";
}

export class Samplers {
  readonly element: HTMLElement;
  private readonly list = h("div", { class: "sampler-list", role: "list" });
  private readonly note: HTMLElement;

  constructor(private readonly app: App) {
    const frame = panel("Samplers", "samplers");
    this.note = frame.note;
    frame.body.append(this.list);
    this.element = frame.element;
  }

  update(poll: Poll<Rows<SamplerRow>>): void {
    const order = { lost: 0, late: 1, ok: 2 };
    const all = poll.answer?.rows ?? [];
    const rows = [...all].sort(
      (x, y) =>
        order[samplerState(this.app, x)] - order[samplerState(this.app, y)] ||
        compareNames(x.sampler, y.sampler),
    );
    const wrong = rows.filter((row) => samplerState(this.app, row) !== "ok").length;
    setText(
      this.note,
      poll.answer === null
        ? poll.error
        : wrong === 0
          ? `${count(rows.length, "sampler")}, all on time`
          : `${wrong} of ${rows.length} late or lost`,
    );
    patch(
      this.list,
      rows.slice(0, rowsThatFit(MOST, MOST_LOW)),
      (row) => `${row.sampler} ${row.role}`,
      () =>
        h(
          "div",
          { class: "sampler", role: "listitem" },
          h("a", {}),
          h("span", { class: "mini" }, h("i", {})),
          h("span", { class: "number" }),
          h("span", { class: "number" }),
          h("span", { class: "sampler-note" }),
        ),
      (element, row) => this.fill(element, row),
    );
  }

  private fill(element: HTMLElement, row: SamplerRow): void {
    const [name, mini, answered, time, note] = element.children;
    const state = samplerState(this.app, row);
    element.dataset.state = state;
    setAttribute(name, "href", this.app.href({ view: "samplers" }));
    setText(name, row.sampler);
    // The last slot of a lost sampler says nothing about now.
    const isOk = state === "ok";
    const share = isOk ? answeredShare(row) : null;
    setStyle(mini.firstElementChild as HTMLElement, { width: `${100 * (share ?? 0)}%` });
    setText(answered, percent(share));
    setText(time, isOk && row.duration_ns !== null ? duration(row.duration_ns / 1e9) : "–");
    setAttribute(time, "title", "Duration of the last sweep");
    const lost = row.lines_lost > 0 ? `${grouped(row.lines_lost)} lost` : "";
    const text = state === "lost" ? "disconnected" : state === "late" ? "no new slot" : lost;
    setText(note, text);
  }
}
