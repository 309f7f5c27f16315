//! Searches by node name, GUID, LID or job ID.

import { phone } from "../draw/theme";
import type { App } from "../model/app";
import { hostName } from "../model/topology";
import { compareNames } from "../model/units";
import { h, setText } from "./dom";

const MAX = 12;

interface Hit {
  title: string;
  detail: string;
  href: string;
  rank: number;
}

export class Search {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly list: HTMLElement;
  private hits: Hit[] = [];
  private active = 0;

  constructor(private readonly app: App) {
    this.input = h("input", {
      type: "search",
      id: "search",
      placeholder: phone().matches ? "Search" : "Search node, GUID, LID, job",
      "aria-label": "Search node name, GUID, LID or job ID",
      autocomplete: "off",
      spellcheck: "false",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "search-hits",
      "aria-autocomplete": "list",
    });
    this.list = h("div", {
      class: "hits",
      id: "search-hits",
      role: "listbox",
      "aria-label": "Results",
      hidden: true,
    });
    this.element = h(
      "div",
      { class: "search" },
      this.input,
      h("kbd", { "aria-hidden": "true" }, "/"),
      this.list,
    );
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("focus", () => this.find());
    this.input.addEventListener("blur", () => setTimeout(() => this.show(false), 150));
    this.input.addEventListener("keydown", (event) => this.key(event));
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  private find(): void {
    this.hits = searchHits(this.app, this.input.value.trim());
    this.active = 0;
    this.list.replaceChildren(
      ...this.hits.map((hit, index) =>
        h(
          "a",
          {
            class: "hit",
            role: "option",
            id: `hit-${index}`,
            href: hit.href,
            tabindex: -1,
            on: { click: () => this.show(false) },
          },
          h("b", {}, hit.title),
          h("span", {}, hit.detail),
        ),
      ),
    );
    if (this.hits.length === 0 && this.input.value.trim() !== "") {
      this.list.replaceChildren(h("p", { class: "no-hit" }, "Nothing found."));
    }
    this.show(this.input.value.trim() !== "");
    this.mark();
  }

  private mark(): void {
    [...this.list.querySelectorAll(".hit")].forEach((item, index) => {
      item.setAttribute("aria-selected", String(index === this.active));
    });
    this.input.setAttribute(
      "aria-activedescendant",
      this.hits.length > 0 ? `hit-${this.active}` : "",
    );
  }

  private show(visible: boolean): void {
    this.list.hidden = !visible;
    this.input.setAttribute("aria-expanded", String(visible));
  }

  private key(event: KeyboardEvent): void {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined && this.hits.length > 0) {
      this.active = (this.active + move + this.hits.length) % this.hits.length;
      this.mark();
      event.preventDefault();
    } else if (event.key === "Enter" && this.hits.length > 0) {
      location.hash = this.hits[this.active].href;
      this.show(false);
      this.input.blur();
    } else if (event.key === "Escape") {
      setText(this.input, "");
      this.input.value = "";
      this.show(false);
      this.input.blur();
    }
    event.stopPropagation();
  }
}

/** Returns the devices and the job that match a text. Better matches come first. */
export function searchHits(app: App, text: string): Hit[] {
  const topology = app.topology;
  if (topology === null || text === "") return [];
  const wanted = text.toLowerCase();
  const hits: Hit[] = [];
  topology.devices.forEach((device, index) => {
    const name = device.node.toLowerCase();
    const rank = name.startsWith(wanted)
      ? 0
      : device.lid !== undefined && device.lid !== null && String(device.lid) === wanted
        ? 1
        : device.guid.includes(wanted)
          ? 2
          : name.includes(wanted)
            ? 3
            : -1;
    if (rank < 0) return;
    const ports = topology.portsOf[index];
    const single = device.kind !== "switch" && ports.length === 1;
    const href = single
      ? app.href({ view: "port", item: topology.keyOf(ports[0]) })
      : app.deviceHref(device);
    const lid = device.lid === undefined || device.lid === null ? "" : `, LID ${device.lid}`;
    hits.push({ title: device.node, detail: `${device.kind}${lid}, ${device.guid}`, href, rank });
  });
  hits.sort((x, y) => x.rank - y.rank || compareNames(x.title, y.title));
  const found = hits.slice(0, MAX);
  if (/^\d+(_\d+)?$/.test(text)) {
    const href = app.href({ view: "job", item: text });
    found.push({ title: `Job ${text}`, detail: "open the job with this ID", href, rank: 4 });
  }
  return found;
}

/** Returns whether a port matches a filter: node, host, GUID or peer. */
export function portMatches(app: App, port: number, filter: string): boolean {
  const row = app.topology!.ports[port];
  return (
    row.node.toLowerCase().includes(filter) ||
    row.guid.includes(filter) ||
    (row.peer_node?.toLowerCase().includes(filter) ?? false) ||
    hostName(row.node).toLowerCase() === filter
  );
}
