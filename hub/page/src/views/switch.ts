//! One switch: its ports as a front panel and as a table, its sensors, and its events.

import { FULL, hasValue, NO_ANSWER, NO_DATA, shareOf, stateOf } from "../contract/frame";
import type {
  ErrorRow,
  ErrorRows,
  EventRows,
  HealthLink,
  HealthLinks,
  PhysicalDetail,
} from "../contract/types";
import { utilizationScale } from "../draw/scale";
import { phone, zoom } from "../draw/theme";
import type { App, Change } from "../model/app";
import { type FoldedEvent, folded } from "../model/events";
import { valueCells, valueHeads } from "../model/metric";
import { Poll } from "../model/poll";
import { BLOCKED, UTILIZATION } from "../model/state";
import type { Topology } from "../model/topology";
import { clock, count, grouped, percent } from "../model/units";
import { h, setText } from "../parts/dom";
import { orderOf } from "../parts/filter";
import { BLOCKED_LEGEND, legend, STATES, UTILIZATION_LEGEND } from "../parts/meter";
import { saveButtons } from "../parts/save";
import { type Column, linkCell, Table } from "../parts/table";
import { hideTip, showTip, type TipLine } from "../parts/tooltip";
import type { View } from "../parts/view";
import { CablingNote } from "./cabling";
import { drawPort, meterColumn, rank } from "./columns";
import { eventColumns } from "./events";
import { bySeverity, faultsAt, faultText, isSevere } from "./faults";
import { panel } from "./panel";
import { physicalReason, switchCard } from "./physical";
import { isFault, named, verdictName, verdictText } from "./verdict";

/** Time between two requests for health, sensors and events, in milliseconds. */
const PERIOD = 5000;
/** Number of ports of a block of the front panel, as between two gaps of a real one. */
const BLOCK = 12;
/** Blocked share from which a port without faults is worse than a full one. */
const LEAST = 0.005;
/** Max number of rows of ports without scrolling, and the height of a row. */
const MAX_ROWS = 40;
const ROW = 28;
/** Max number of events. */
const EVENTS = 100;
/** Number of slots in which the last value of a port is looked for. */
const LAST_SLOTS = 600;

export function makeSwitch(app: App, topology: Topology): View {
  return new SwitchView(app, topology);
}

/** A port of the front panel. */
interface Slot {
  element: HTMLAnchorElement;
  lamp: HTMLElement;
  /** Index in the topology. */
  port: number;
}

class SwitchView implements View {
  readonly element: HTMLElement;
  private readonly guid: string;
  private readonly ports: number[];
  private readonly polls: {
    errors: Poll<ErrorRows>;
    health: Poll<HealthLinks>;
    physical: Poll<PhysicalDetail>;
    events: Poll<EventRows>;
  };
  private readonly slots: Slot[] = [];
  private readonly table: Table<number>;
  private readonly events: Table<FoldedEvent>;
  private readonly text = h("p", { class: "switch-text", role: "status" });
  private readonly worst = h("a", { class: "action", id: "worst-port" });
  private readonly cabling: CablingNote;
  private readonly sensors = panel("Device", "switch-device");
  private shown: (unknown | null)[] = [];
  private errors = new Map<number, ErrorRow[]>();
  private verdicts = new Map<number, HealthLink>();
  private tip: number | null = null;
  private sortedAt: number | null = null;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    this.guid = app.state.item;
    this.cabling = new CablingNote(app, this.guid);
    const device = topology.deviceOf(this.guid);
    this.ports = device < 0 ? [] : topology.portsOf[device].filter((p) => this.numberOf(p) > 0);
    const changed = () => app.notify("values");
    const first = this.ports[0];
    const physical = first === undefined ? "" : `port/${topology.keyOf(first)}/physical`;
    this.polls = {
      errors: new Poll(app, "errors", () => app.spanParams, changed, PERIOD),
      health: new Poll(app, "links/health", () => ({ top: 0 }), changed, 2 * PERIOD),
      physical: new Poll(app, physical, () => (physical === "" ? null : {}), changed, PERIOD),
      events: new Poll(app, "events", () => ({ guid: this.guid, limit: EVENTS }), changed, PERIOD),
    };
    this.table = new Table({
      label: "Ports of the switch",
      columns: this.columns(),
      key: (port) => topology.keyOf(port),
      open: (port) => app.go({ view: "port", item: topology.keyOf(port), options: {} }, true),
      ...orderOf(app, "port", false),
      empty: "No sampler reads a port of this switch.",
      height: ROW,
    });
    const rows = Math.max(2, Math.min(this.ports.length, MAX_ROWS));
    this.table.element.style.height = `${((rows + 1.6) * ROW * zoom() * (phone().matches ? 2.8 : 1)) | 0}px`;
    this.events = new Table({
      label: "Events of this switch",
      columns: eventColumns(app).filter(({ id }) => id !== "sampler"),
      key: (row) => `${row.ts} ${row.event} ${row.port}`,
      sort: "ts",
      descending: true,
      empty: "No events.",
    });
    const name = device < 0 ? this.guid : topology.devices[device].node;
    const isHca = device >= 0 && !topology.isSwitch(device);
    const picture = this.front();
    const front = panel(
      "Front",
      "switch-front",
      saveButtons({
        title: `Front of ${name}`,
        rows: () => this.saved(),
        layers: () => [picture],
        unit: () => "share",
        note: () => front.note.textContent ?? "",
      }),
    );
    front.body.append(
      picture,
      legend(
        [["Utilization, fuller direction", utilizationScale, UTILIZATION_LEGEND[2]]],
        [...STATES, ["faulty", "fault or errors"], ["watch", "link to watch"]],
      ),
    );
    setText(front.note, "a drawing by port number, odd above even: the real front can differ");
    const list = panel("Ports", "switch-ports", legend([BLOCKED_LEGEND], []));
    list.body.append(this.table.element);
    const history = panel("Events", "port-events");
    history.body.append(this.events.element);
    this.element = h(
      "div",
      { class: "switch-page" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, `${isHca ? "HCA" : "Switch"} ${name}`),
        h("span", { class: "space" }),
        this.worst,
        h(
          "a",
          { class: "action", href: app.href({ view: "map", options: { q: this.guid } }) },
          "On the map",
        ),
      ),
      this.text,
      this.cabling.element,
      front.element,
      this.sensors.element,
      history.element,
      list.element,
    );
    this.element.classList.toggle("failed", device < 0);
  }

  update(changes: ReadonlySet<Change>): void {
    if (this.ports.length === 0) {
      setText(this.text, "The hub has no port of this switch.");
      return;
    }
    for (const poll of Object.values(this.polls)) poll.refresh();
    this.cabling.update();
    this.take();
    if (changes.has("state")) this.table.forget();
    const slot = this.app.shown ?? 0;
    if (this.sortedAt === null || !this.app.isLive) this.table.setRows(this.ports);
    else this.table.refresh();
    // The order stays readable in between.
    if (this.sortedAt === null || Math.abs(slot - this.sortedAt) >= 5) {
      this.sortedAt = this.app.values(UTILIZATION) === null ? null : slot;
      this.table.sortSoon();
    }
    for (const each of this.slots) this.light(each);
    this.showText();
    if (this.tip !== null) this.showTip(this.tip);
  }

  close(): void {
    for (const poll of Object.values(this.polls)) poll.close();
    this.cabling.close();
    this.table.close();
    this.events.close();
    hideTip();
  }

  private numberOf(port: number): number {
    return this.topology.ports[port].port;
  }

  private code(metric: string, port: number | null): number {
    return port === null ? NO_DATA : (this.app.values(metric)?.[port] ?? NO_DATA);
  }

  private peer(port: number): number | null {
    return this.topology.ports[port].peer;
  }

  /** Returns the fuller direction of a port, or its state without a value. */
  private use(port: number): number {
    const own = this.code(UTILIZATION, port);
    const received = this.code(UTILIZATION, this.peer(port));
    return hasValue(own) && hasValue(received) ? Math.max(own, received) : own;
  }

  /** Takes the answers that have arrived. */
  private take(): void {
    const { errors, health, physical, events } = this.polls;
    const answers = [errors.answer, health.answer, physical.answer, events.answer];
    const isNew = answers.map((answer, index) => answer !== this.shown[index]);
    this.shown = answers;
    if (isNew[0]) {
      this.errors = new Map();
      for (const row of errors.answer?.rows ?? []) {
        const port = row.guid === this.guid ? this.topology.indexOf(row.guid, row.port) : -1;
        if (port >= 0) this.errors.set(port, [...(this.errors.get(port) ?? []), row]);
      }
      for (const rows of this.errors.values()) rows.sort(bySeverity);
    }
    if (isNew[1]) {
      this.verdicts = new Map();
      // A row is for a link and names the worse end of it, which can be the neighbour.
      for (const row of health.answer?.rows ?? []) {
        const end = [row, row.peer].find((each) => each?.guid === this.guid);
        if (end) this.verdicts.set(this.topology.indexOf(end.guid, end.port), row);
      }
    }
    if (isNew[2] || physical.error !== "") this.showDevice();
    if (isNew[3] && events.answer !== null) this.events.setRows(folded(events.answer.rows));
  }

  private showDevice(): void {
    const { answer, error } = this.polls.physical;
    const device = this.topology.devices[this.topology.deviceOf(this.guid)];
    const own: [string, string][] = [
      ["GUID", this.guid],
      ["LID", String(device.lid ?? "unknown")],
      ["Tier", this.topology.tierName(device.tier)],
    ];
    const facts = h(
      "dl",
      { class: "facts" },
      ...own.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
    const card = answer === null ? null : switchCard(answer);
    const reason =
      answer === null
        ? error || "Waiting for the hub…"
        : answer.pages.length === 0
          ? physicalReason(answer)
          : "not read yet.";
    this.sensors.body.replaceChildren(
      facts,
      card ?? h("p", { class: "empty" }, `Sensors and firmware: ${reason}`),
    );
  }

  // --- the front

  private front(): HTMLElement {
    const byNumber = new Map(this.ports.map((port) => [this.numberOf(port), port]));
    const last = Math.max(0, ...byNumber.keys());
    const blocks: HTMLElement[] = [];
    for (let number = 1; number <= last; number++) {
      if ((number - 1) % BLOCK === 0) blocks.push(h("div", { class: "front-block" }));
      blocks[blocks.length - 1].append(this.slot(number, byNumber.get(number)));
    }
    return h("div", { class: "front", role: "group", "aria-label": "Ports by number" }, ...blocks);
  }

  private slot(number: number, port: number | undefined): HTMLElement {
    const label = h("span", { class: "front-number" }, number);
    const lamp = h("span", { class: "front-lamp swatch" });
    if (port === undefined)
      return h(
        "span",
        { class: "front-port unread", title: `Port ${number}: no sampler reads it` },
        label,
        lamp,
      );
    const show = () => {
      this.tip = port;
      this.showTip(port);
    };
    const hide = () => {
      this.tip = null;
      hideTip();
    };
    const element = h(
      "a",
      {
        class: "front-port",
        href: this.app.href({ view: "port", item: this.topology.keyOf(port) }),
        on: { pointerenter: show, focus: show, pointerleave: hide, blur: hide },
      },
      label,
      lamp,
      h("i", { class: "front-mark" }),
    );
    this.slots.push({ element, lamp, port });
    return element;
  }

  /** Returns what the front shows of each port. */
  private *saved() {
    const metric = this.app.metric(UTILIZATION);
    yield ["Port", "Neighbour", ...valueHeads(metric, "Use"), "Faults"];
    for (const port of this.ports)
      yield [
        this.numberOf(port),
        this.topology.peerNameOf(port),
        ...valueCells(metric, this.use(port)),
        this.faults(port),
      ];
  }

  /** Colours a port of the front by its use and its state. */
  private light({ element, lamp, port }: Slot): void {
    const code = this.use(port);
    const share = shareOf(code);
    const state = share === null ? stateOf(code) : "";
    lamp.style.backgroundColor = share === null ? "" : utilizationScale.color(share);
    for (const [name, text] of [
      ["no-answer", "no answer"],
      ["down", "link down"],
    ] as const)
      lamp.classList.toggle(name, state === text);
    lamp.classList.toggle("no-data", share === null && !["no answer", "link down"].includes(state));
    const faults = this.faults(port);
    element.classList.toggle("faulty", faults !== "");
    element.classList.toggle("watch", this.isWatched(port));
    const use = share === null ? state : percent(share);
    element.setAttribute(
      "aria-label",
      `Port ${this.numberOf(port)}, ${use}${this.isWatched(port) ? ", to watch" : faults && `, ${faults}`}`,
    );
  }

  /** Returns the faults of a port, with the state of its link that the front shows. */
  private rows(port: number): ErrorRow[] {
    const rows = this.errors.get(port) ?? [];
    return this.app.state.range === null ? faultsAt(rows, this.code(UTILIZATION, port)) : rows;
  }

  /** Returns the faults of a port and the verdict on its link in words; empty if it is well. */
  private faults(port: number): string {
    const rows = this.rows(port);
    const verdict = this.verdicts.get(port);
    const texts = rows.map((row) => faultText(row));
    if (verdict !== undefined && isFault(verdict)) texts.push(`${verdict.verdict} the cable`);
    const cable = this.cabling.at(this.guid, this.numberOf(port));
    if (cable !== "") texts.push(cable);
    return texts.join("; ");
  }

  /** Returns whether a port has no fault, but its link is to watch. */
  private isWatched(port: number): boolean {
    return this.verdicts.get(port)?.verdict === "watch" && this.faults(port) === "";
  }

  private showTip(port: number): void {
    const slot = this.slots.find((each) => each.port === port);
    if (slot === undefined) return;
    const { left, bottom } = slot.element.getBoundingClientRect();
    const share = (code: number) => (hasValue(code) ? percent(code / FULL) : stateOf(code));
    const lines: TipLine[] = [
      `Port ${this.numberOf(port)} → ${this.topology.peerNameOf(port) || "unknown"}`,
      ["Link", this.topology.ports[port].link ?? "unknown"],
      ["Sends", share(this.code(UTILIZATION, port))],
      ["Receives", share(this.code(UTILIZATION, this.peer(port)))],
      ["Blocked", share(this.code(BLOCKED, port))],
    ];
    const faults = this.faults(port);
    if (faults !== "") lines.push(["Faults", faults]);
    else if (this.isWatched(port)) lines.push(["Verdict", this.condition(port)]);
    showTip(left, bottom - 12, lines);
  }

  // --- the table

  private columns(): Column<number>[] {
    const { app, topology } = this;
    const received = (port: number) => this.code(UTILIZATION, this.peer(port));
    const sent = (port: number) => this.code(UTILIZATION, port);
    // A port that is not in the answer has no errors, if it was read.
    const errors = (port: number) =>
      this.errors.has(port) || (this.polls.errors.answer !== null && hasValue(sent(port)))
        ? (this.errors.get(port) ?? []).reduce((sum, { increase }) => sum + (increase ?? 0), 0)
        : null;
    return [
      {
        id: "port",
        line: 1,
        title: "Port",
        width: "48px",
        value: (port) => this.numberOf(port),
        draw: (cell, port) =>
          linkCell(
            cell,
            String(this.numberOf(port)),
            app.href({ view: "port", item: topology.keyOf(port) }),
          ),
      },
      {
        id: "peer",
        line: 1,
        title: "Neighbour",
        width: "minmax(110px, 1.4fr)",
        value: (port) => topology.peerNameOf(port) || null,
        draw: (cell, port) => {
          const peer = this.peer(port);
          if (peer === null) cell.replaceChildren(topology.peerNameOf(port) || "–");
          else drawPort(app, cell, topology.ports[peer], topology.shortName(peer));
        },
      },
      {
        id: "link",
        line: 1,
        title: "Link",
        hint: "Width and speed, or the state of a port without data",
        width: "84px",
        value: (port) => stateText(sent(port)) || topology.ports[port].link,
        draw: (cell, port) => {
          const state = stateText(sent(port));
          setText(cell, state || (topology.ports[port].link ?? "–"));
          cell.classList.toggle("alert-text", state !== "");
        },
      },
      { ...meterColumn("use", "Sends", "Utilization, sending", sent, false), line: 2 },
      {
        ...meterColumn("received", "Receives", "Utilization of the other end", received, false),
        line: 2,
      },
      {
        ...meterColumn(
          "wait",
          "Blocked",
          "Blocked share of this end",
          (port: number) => this.code(BLOCKED, port),
          true,
        ),
        line: 2,
      },
      {
        id: "errors",
        title: "Errors",
        hint: "Increase of the error counters in the shown time",
        end: true,
        width: "60px",
        value: errors,
        text: (port) => (errors(port) === null ? "–" : grouped(errors(port)!)),
      },
      {
        id: "faults",
        line: 3,
        title: "Faults and verdict",
        width: "minmax(120px, 2fr)",
        value: (port) => this.faults(port) || this.verdicts.get(port)?.verdict || null,
        saved: (port) => this.condition(port) || null,
        draw: (cell, port) => {
          const verdict = this.verdicts.get(port);
          const text = this.condition(port) || "–";
          setText(cell, text);
          cell.title = text;
          const rows = this.rows(port);
          const isBad = rows.some(isSevere) || (verdict !== undefined && isFault(verdict));
          cell.classList.toggle("alert-text", isBad);
        },
      },
    ];
  }

  /** Returns the faults of a port, or else its verdict with the rule. */
  private condition(port: number): string {
    const verdict = this.verdicts.get(port);
    if (verdict === undefined) return this.faults(port);
    const name = verdictName(verdict);
    const isOther = verdict.verdict !== "good" && verdict.guid !== this.guid;
    const end = isOther ? `${name} at the other end` : name;
    return this.faults(port) || named(end, verdictText(verdict));
  }

  // --- the text at the top

  /** Returns how much a port needs a person: faults first, then waiting, then load. */
  private badness(port: number): number {
    const rows = this.rows(port);
    const verdict = this.verdicts.get(port);
    const share = (code: number) => (rank(code) ?? 0) / FULL;
    return (
      (rows.some(isSevere) ? 8 : 0) +
      (verdict !== undefined && isFault(verdict) ? 4 : 0) +
      (rows.length > 0 ? 2 : 0) +
      share(this.code(BLOCKED, port)) +
      share(this.use(port)) / 100
    );
  }

  /** Returns since when no port of the switch has data. */
  private silence(): string {
    const { app } = this;
    const isKnown = (code: number) => code !== NO_DATA;
    const traces = this.ports.map((port) => app.trace(UTILIZATION, port, LAST_SLOTS).reverse());
    const ages = traces.map((trace) => trace.findIndex(isKnown)).filter((age) => age >= 0);
    if (app.shown === null || app.state.range !== null || ages.length === 0) return "no data";
    return `no data since ${clock(app.timeOf(app.shown - Math.min(...ages)))}`;
  }

  private showText(): void {
    const states = this.ports.map((port) => {
      const code = this.use(port);
      return hasValue(code) ? "" : stateOf(code);
    });
    const of = (state: string) => states.filter((each) => each === state).length;
    const without = of("no data");
    const parts = [
      count(this.ports.length, "port"),
      ...(without < this.ports.length ? [] : [this.silence()]),
      ...[
        ["link down", of("link down")],
        ["no answer", of("no answer")],
        ["without data", without < this.ports.length ? without : 0],
      ].flatMap(([name, number]) => (number === 0 ? [] : [`${number} ${name}`])),
    ];
    const faulty = this.ports.filter((port) => this.faults(port) !== "").length;
    if (this.polls.errors.answer !== null)
      parts.push(faulty === 0 ? "no faults" : `${count(faulty, "port")} with faults or errors`);
    const watched = this.ports.filter((port) => this.isWatched(port)).length;
    if (watched > 0) parts.push(`${watched} to watch`);
    const silent = this.ports.every((port) => this.code(UTILIZATION, port) === NO_ANSWER);
    setText(this.text, silent ? "The switch does not answer." : `${parts.join(", ")}.`);
    this.text.classList.toggle("alert-text", silent);
    const [first, ...others] = this.ports;
    const worst = others.reduce((x, y) => (this.badness(y) > this.badness(x) ? y : x), first);
    const waits = shareOf(this.code(BLOCKED, worst)) ?? 0;
    const why = this.faults(worst) || (waits >= LEAST ? `blocked ${percent(waits)}` : "");
    const full = `Fullest port: ${this.numberOf(worst)}, ${percent(shareOf(this.use(worst)))}`;
    setText(this.worst, why === "" ? full : `Worst port: ${this.numberOf(worst)}, ${why}`);
    const href = this.app.href({ view: "port", item: this.topology.keyOf(worst) });
    if (this.worst.getAttribute("href") !== href) this.worst.setAttribute("href", href);
  }
}

/** Returns the state of a port that needs attention; empty for others. */
function stateText(code: number): string {
  const state = hasValue(code) ? "" : stateOf(code);
  return ["link down", "no answer"].includes(state) ? state : "";
}
