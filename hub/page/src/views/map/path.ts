//! The path of two hosts on the map: its controls, and its links as a table.

import type { Path, PathLink } from "../../contract/types";
import type { App } from "../../model/app";
import { Poll } from "../../model/poll";
import { hostName, type Topology } from "../../model/topology";
import { compareNames, count, grouped, percent } from "../../model/units";
import { h, setText } from "../../parts/dom";
import { type Column, Table } from "../../parts/table";
import { portColumn, shareColumn } from "../columns";
import { panel } from "../panel";

const PERIOD = 2000;
/** Max number of names that a field suggests. */
const SUGGESTED = 20;

/** A link of the path there, or of the way back. */
interface Hop {
  order: number;
  isBack: boolean;
  link: PathLink;
}

/** The URL options `a` and `b`, the hosts of a path. The option `path` shows the controls. */
export class PathPart {
  readonly elements: HTMLElement[];
  readonly element: HTMLElement;
  /** Ports on both ways, by their indices. */
  ports: ReadonlySet<number> = new Set();
  private readonly button: HTMLButtonElement;
  private readonly fields: HTMLInputElement[];
  private readonly box: HTMLElement;
  private readonly names = h("datalist", { id: "path-hosts" });
  private readonly poll: Poll<Path>;
  private readonly table: Table<Hop>;
  private readonly note: HTMLElement;
  private readonly text = h("p", { class: "path-text", role: "status" });
  private readonly hosts: string[];
  private shown: Path | null = null;

  constructor(
    private readonly app: App,
    private readonly topology: Topology,
  ) {
    const hosts = topology.devices.filter(({ kind }) => kind !== "switch");
    this.hosts = [...new Set(hosts.map(({ node }) => hostName(node)))].sort(compareNames);
    this.poll = new Poll(
      app,
      "path",
      () =>
        this.isComplete ? { sender: this.of("a"), receiver: this.of("b"), ...this.span } : null,
      () => app.notify("values"),
      PERIOD,
    );
    this.button = h(
      "button",
      {
        type: "button",
        class: "action",
        id: "path-button",
        on: { click: () => this.toggle() },
      },
      "Path of two hosts",
    );
    this.fields = (["a", "b"] as const).map((name) => this.field(name));
    this.box = h("span", { class: "path-fields", hidden: true }, ...this.fields, this.names);
    this.elements = [this.button, this.box];
    this.table = new Table({
      label: "Links of the path",
      columns: columns(app),
      key: ({ order }) => String(order),
      open: ({ link }) =>
        app.go({ view: "port", item: `${link.from.guid}/${link.from.port}`, options: {} }, true),
      sort: "order",
      descending: false,
      empty: "No link.",
      height: 28,
    });
    const { element, body, note } = panel("Path", "path-panel");
    this.element = element;
    this.note = note;
    body.append(this.text, this.table.element);
  }

  /** Whether a click on a host selects it. */
  get isOpen(): boolean {
    return this.app.option("path") !== "" || this.of("a") !== "" || this.of("b") !== "";
  }

  /** Names of the selected hosts in lower case. */
  get chosen(): string[] {
    return [this.of("a"), this.of("b")]
      .filter((name) => name !== "")
      .map((name) => name.toLowerCase());
  }

  /** Whether both hosts are selected. */
  get isComplete(): boolean {
    return this.of("a") !== "" && this.of("b") !== "";
  }

  /** Selects the host of a port if hosts are selected. Returns whether it did. */
  pick(port: number): boolean {
    const { kind, node } = this.topology.ports[port];
    if (!this.isOpen || kind === "switch") return false;
    this.choose(this.of("a") === "" || this.isComplete ? "a" : "b", hostName(node));
    return true;
  }

  update(): void {
    this.poll.refresh();
    const { isOpen } = this;
    this.box.hidden = !isOpen;
    this.button.setAttribute("aria-pressed", String(isOpen));
    this.button.classList.toggle("on", isOpen);
    for (const [index, field] of this.fields.entries())
      if (document.activeElement !== field) field.value = this.of(index === 0 ? "a" : "b");
    this.element.hidden = !isOpen;
    const { answer, error } = this.poll;
    if (!this.isComplete) {
      this.ports = new Set();
      this.table.element.hidden = true;
      setText(this.note, "");
      setText(
        this.text,
        this.of("a") === ""
          ? "Choose the sending host on the map, or type its name."
          : "Choose the receiving host on the map, or type its name.",
      );
      return;
    }
    if (error !== "") setText(this.text, `${error}.`);
    if (answer === null || error !== "") {
      this.ports = new Set();
      this.table.element.hidden = true;
      if (error === "") setText(this.text, "Waiting for the hub…");
      return;
    }
    if (answer !== this.shown) this.show(answer);
  }

  close(): void {
    this.poll.close();
    this.table.close();
  }

  private of(name: "a" | "b"): string {
    return this.app.option(name);
  }

  private get span() {
    return this.app.spanParams;
  }

  private field(name: "a" | "b"): HTMLInputElement {
    const label = name === "a" ? "Sending host" : "Receiving host";
    const field = h("input", {
      class: "field",
      type: "search",
      list: "path-hosts",
      placeholder: label,
      "aria-label": label,
      autocomplete: "off",
      on: { input: () => this.suggest(field.value), change: () => this.choose(name, field.value) },
    });
    return field;
  }

  private suggest(text: string): void {
    const wanted = text.trim().toLowerCase();
    const found = this.hosts.filter((host) => host.toLowerCase().includes(wanted));
    const options = found.slice(0, SUGGESTED).map((value) => h("option", { value }));
    this.names.replaceChildren(...options);
  }

  private choose(name: "a" | "b", host: string): void {
    const options = { ...this.app.state.options, path: "1", [name]: host.trim() };
    // A third click begins another pair.
    if (name === "a" && this.isComplete && host !== this.of("a")) options.b = "";
    this.app.go({ options });
  }

  private toggle(): void {
    const options = { ...this.app.state.options, path: this.isOpen ? "" : "1", a: "", b: "" };
    this.app.go({ options });
  }

  private show(answer: Path): void {
    this.shown = answer;
    const hops = [
      ...answer.rows.map((link) => ({ link, isBack: false })),
      ...answer.back.map((link) => ({ link, isBack: true })),
    ].map((hop, order) => ({ ...hop, order }));
    const ends = hops.flatMap(({ link }) => [link.from, link.to]);
    this.ports = new Set(ends.map(({ guid, port }) => this.topology.indexOf(guid, port)));
    this.table.element.hidden = hops.length === 0;
    this.table.setRows(hops);
    setText(this.text, summary(answer));
    setText(this.note, tablesText(answer));
  }
}

/** Returns what an operator has to know about a path. */
function summary({ rows, back, reason }: Path): string {
  const links = [...rows, ...back];
  const most = links.reduce<PathLink | null>(
    (worst, link) => ((link.blocked ?? 0) > (worst?.blocked ?? 0) ? link : worst),
    null,
  );
  const faulty = links.filter(({ errors }) => errors > 0).length;
  const parts = [
    rows.length === 0 ? "" : `${count(rows.length, "link")} there, ${grouped(back.length)} back`,
    most === null
      ? ""
      : `most blocked: ${most.from.node} / ${most.from.port}, ${percent(most.blocked)} of the time`,
    faulty === 0 ? "" : `${count(faulty, "link")} with errors`,
  ].filter((part) => part !== "");
  const text = parts.length === 0 ? "" : `${parts.join("; ")}.`;
  return reason === null ? text : `${text} ${reason[0].toUpperCase()}${reason.slice(1)}.`.trim();
}

function tablesText({ tables }: Path): string {
  if (tables === null) return "";
  const parts = [`by the forwarding tables of ${count(tables.switches, "switch", "switches")}`];
  if (tables.partial.length > 0)
    parts.push(`those of ${grouped(tables.partial.length)} were not read to their end yet`);
  if (tables.changing.length > 0) parts.push(`${grouped(tables.changing.length)} are changing`);
  if (tables.left_out.length > 0)
    parts.push(
      `those of ${count(tables.left_out.length, "switch", "switches")} do not fit in 256 MB`,
    );
  return `${parts.join("; ")}. Adaptive routing can choose other ports.`;
}

function hopText({ isBack, link }: Hop): string {
  return `${isBack ? "back" : "there"} ${link.hop}`;
}

function columns(app: App): Column<Hop>[] {
  return [
    {
      id: "order",
      line: 2,
      title: "Link",
      hint: "Number of the link on its way",
      width: "68px",
      value: ({ order }) => order,
      saved: hopText,
      text: hopText,
    },
    { ...portColumn<Hop>(app, "from", "From", ({ link }) => link.from), line: 1 },
    { ...portColumn<Hop>(app, "to", "To", ({ link }) => link.to), line: 1 },
    {
      id: "link",
      title: "Rate",
      width: "64px",
      value: ({ link }) => link.link,
    },
    {
      ...shareColumn<Hop>(
        "use",
        "Used",
        "Mean utilization in this direction",
        ({ link }) => link.xmit_utilization,
        false,
      ),
      line: 2,
    },
    {
      ...shareColumn<Hop>(
        "blocked",
        "Blocked",
        "Share of the time in which the sending port waited",
        ({ link }) => link.blocked,
        true,
      ),
      line: 2,
    },
    {
      id: "errors",
      title: "Errors",
      hint: "Increase of the error counters of both ends",
      end: true,
      width: "60px",
      value: ({ link }) => link.errors,
      text: ({ link }) => (link.errors === 0 ? "–" : grouped(link.errors)),
    },
  ];
}
