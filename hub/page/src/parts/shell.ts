//! The frame of the web page: top bar, navigation, content, timeline.

import {
  applyTheme,
  darkPreference,
  setThemeChoice,
  type ThemeChoice,
  themeChoice,
} from "../draw/theme";
import type { App, Change } from "../model/app";
import type { Column } from "../model/history";
import { UTILIZATION, unknownView, VIEWS, type ViewName } from "../model/state";
import { answersText, totalsOf } from "../model/totals";
import { clock, count, dateTime, zone } from "../model/units";
import { Bell } from "./bell";
import { h, setAttribute, setText } from "./dom";
import { icon } from "./icons";
import { Search } from "./search";
import { TimelineStrip } from "./timeline";
import { hideTip } from "./tooltip";
import type { View } from "./view";

const TITLES: Record<string, string> = {
  overview: "Overview",
  map: "Map",
  heatmap: "Heat map",
  links: "Links",
  ports: "Ports",
  jobs: "Jobs",
  groups: "Groups",
  events: "Events",
  samplers: "Samplers",
  alerts: "Alerts",
};

/** Navigation entry to which a view belongs. */
const PARENTS: Partial<Record<ViewName, ViewName>> = {
  port: "ports",
  tree: "overview",
  job: "jobs",
};
/** Age in intervals from which a slot is late. */
const LATE = 5;

export class Shell {
  readonly main = h("main", { id: "main", tabindex: -1 });
  private readonly fabric = h("span", { class: "fabric" });
  private readonly time = h("time", { class: "clock" });
  private readonly mark = h("a", { class: "mark" });
  private readonly bell: Bell;
  private readonly status = h("button", { class: "live", type: "button" });
  private readonly banner = h("div", { class: "banner", role: "alert", hidden: true });
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly play: HTMLButtonElement;
  private readonly timeline: TimelineStrip;
  private readonly search: Search;
  private player = 0;
  /** Port counts of the newest slot, so that each slot is counted only once. */
  private counted: { column?: Column; text: string } = { text: "" };

  constructor(private readonly app: App) {
    this.search = new Search(app);
    this.bell = new Bell(app);
    this.timeline = new TimelineStrip(app);
    this.play = button("Pause (space)", "pause", () => this.togglePlay());
    this.status.addEventListener("click", () => (app.isLive ? app.pause() : this.live()));
    document.body.append(
      h(
        "a",
        { class: "skip", href: "#main", on: { click: (event) => this.skip(event) } },
        "Skip to the content",
      ),
      this.top(),
      this.navigation(),
      h("div", { class: "content" }, this.banner, this.main),
      this.bottom(),
    );
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => app.notify("state"));
    darkPreference().addEventListener("change", () => this.retheme(themeChoice()));
    setInterval(() => this.tick(), 1000);
    app.onLate((changes) => this.update(changes));
  }

  /** Shows a view. */
  show(view: View): void {
    hideTip();
    this.main.replaceChildren(view.element);
    this.main.scrollTop = 0;
  }

  private top(): HTMLElement {
    const logo = h("a", { class: "logo", href: "#/overview", "aria-label": "ibnet, overview" });
    logo.append(icon("map", "logo-mark"), h("b", {}, "ibnet"));
    return h(
      "header",
      { class: "top" },
      logo,
      this.fabric,
      this.search.element,
      h("span", { class: "space" }),
      this.bell.element,
      this.mark,
      this.time,
      this.status,
      this.themeButton(),
    );
  }

  private themeButton(): HTMLButtonElement {
    const next: Record<ThemeChoice, ThemeChoice> = { auto: "dark", dark: "light", light: "auto" };
    const name = () => `Colours: ${themeChoice()}`;
    const element = button(name(), "theme", () => {
      this.retheme(next[themeChoice()]);
      element.title = name();
      element.setAttribute("aria-label", name());
    });
    return element;
  }

  private retheme(choice: ThemeChoice): void {
    setThemeChoice(choice);
    applyTheme();
    this.app.notify("theme");
  }

  private navigation(): HTMLElement {
    const nav = h("nav", { class: "side", "aria-label": "Views" });
    for (const view of VIEWS) {
      const link = h(
        "a",
        { class: "nav", title: TITLES[view] },
        icon(view),
        h("span", {}, TITLES[view]),
      );
      this.links.set(view, link);
      nav.append(link);
    }
    return nav;
  }

  private bottom(): HTMLElement {
    return h(
      "footer",
      { class: "bottom" },
      h(
        "div",
        { class: "transport", role: "group", "aria-label": "Time" },
        button("One slot back (left arrow)", "back", () => this.app.step(-1)),
        this.play,
        button("One slot forward (right arrow)", "forward", () => this.app.step(1)),
      ),
      this.timeline.element,
    );
  }

  private update(changes: ReadonlySet<Change>): void {
    const { app } = this;
    if (changes.has("state") || changes.has("topology")) this.showView();
    if (changes.has("health") || changes.has("topology")) {
      const fabric = app.health?.fabric || "fabric";
      setText(this.fabric, app.health?.simulated === true ? `${fabric} (simulated)` : fabric);
    }
    this.bell.update();
    const { firing } = app.alerts;
    const title = `${app.health?.fabric || "fabric"} - ibnet`;
    document.title = firing === 0 ? title : `(${firing}) ${title}`;
    this.showStatus();
    this.timeline.update(changes);
  }

  /** Marks the entry of the view. Links of the entries keep the shown time. */
  private showView(): void {
    const { app } = this;
    const view = PARENTS[app.state.view] ?? app.state.view;
    for (const [name, link] of this.links) {
      setAttribute(link, "href", app.href({ view: name as ViewName }));
      if (name === view) setAttribute(link, "aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    setAttribute(this.mark, "href", app.href({ view: "samplers" }));
  }

  private showStatus(): void {
    const { app } = this;
    // Numbers of the newest and of the shown slot, for tests and for scripts.
    document.documentElement.dataset.slot = String(app.latest ?? "");
    document.documentElement.dataset.shown = String(app.shown ?? "");
    const { at, range } = app.state;
    this.status.classList.toggle("on", app.isLive && app.connection === "open");
    const text =
      range !== null
        ? `${clock(range.from)} – ${clock(range.to)}`
        : at !== null
          ? `Paused ${clock(at)}`
          : "Live";
    setText(this.status, text);
    setAttribute(this.status, "title", app.isLive ? "Pause (space)" : "Return to live (L)");
    const title = this.running ? "Pause (space)" : "Play (space)";
    if (this.play.title !== title) {
      this.play.replaceChildren(icon(this.running ? "pause" : "play"));
      this.play.title = title;
      this.play.setAttribute("aria-label", title);
    }
    this.showMark();
    this.showBanner();
  }

  private get running(): boolean {
    return this.app.isLive || this.player !== 0;
  }

  /** Shows one mark for all samplers. Its shape and its text show the state. */
  private showMark(): void {
    const { app } = this;
    const column = app.newestWhole(UTILIZATION);
    if (column !== undefined && app.topology !== null && column !== this.counted.column) {
      const totals = totalsOf(app.topology, column.values, null);
      const [all, ...more] = answersText(totals, column.partial);
      const text = [`${count(totals.answered, "port")} ${all} answer`, ...more].join(", ");
      this.counted = { column, text };
    }
    const late =
      app.latest !== null && Date.now() - app.timeOf(app.latest) > LATE * app.interval + 1000;
    const isFirst = app.connection === "connecting" && app.latest === null;
    const bad = !isFirst && (app.connection !== "open" || late);
    this.mark.classList.toggle("bad", bad);
    const text = isFirst ? "connecting" : bad ? "no new data" : this.counted.text;
    if (this.mark.dataset.text !== text) {
      this.mark.dataset.text = text;
      this.mark.replaceChildren(icon(bad ? "alert" : "samplers"), text);
    }
  }

  private showBanner(): void {
    const { app } = this;
    const last = app.latest === null ? null : app.timeOf(app.latest);
    const since = last === null ? "" : ` The last slot ended at ${dateTime(last)}.`;
    const unknown = unknownView(location.hash);
    let text = "";
    if (app.connection === "lost")
      text = `The connection to the hub is lost.${since} The page connects again by itself.`;
    else if (
      last !== null &&
      app.connection === "open" &&
      Date.now() - last > LATE * app.interval + 1000
    ) {
      text = `The hub has no new slot.${since}`;
    } else if (app.failure !== "") text = `A request failed: ${app.failure}.`;
    else if (unknown !== null) text = `There is no view “${unknown}”. This is the overview.`;
    setText(this.banner, text);
    this.banner.hidden = text === "";
    document.documentElement.classList.toggle("stale", text !== "" && app.connection !== "open");
  }

  private tick(): void {
    const now = Date.now();
    setText(this.time, `${dateTime(now)} ${zone(now)}`);
    this.showStatus();
  }

  // --- time and keys

  private live(): void {
    this.stop();
    this.app.resume();
  }

  private togglePlay(): void {
    if (this.app.isLive) this.app.pause();
    else if (this.player !== 0) this.stop();
    else {
      this.player = window.setInterval(() => {
        this.app.step(1);
        if (this.app.isLive) this.stop();
      }, this.app.interval / 2);
    }
    this.showStatus();
  }

  private stop(): void {
    window.clearInterval(this.player);
    this.player = 0;
    this.showStatus();
  }

  private skip(event: Event): void {
    event.preventDefault();
    this.main.focus();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const target = event.target as HTMLElement;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) return;
    const digit = Number(event.key);
    if (event.key === "/") this.search.focus();
    else if (event.key === " " && target.tagName !== "BUTTON" && target.tagName !== "A")
      this.togglePlay();
    else if (event.key === "ArrowLeft") this.app.step(event.shiftKey ? -10 : -1);
    else if (event.key === "ArrowRight") this.app.step(event.shiftKey ? 10 : 1);
    else if (event.key === "l" || event.key === "L" || event.key === "Escape") this.live();
    else if (digit >= 1 && digit <= VIEWS.length)
      location.hash = this.app.href({ view: VIEWS[digit - 1] });
    else return;
    event.preventDefault();
  }
}

function button(label: string, name: string, click: () => void): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "tool", title: label, "aria-label": label, on: { click } },
    icon(name),
  );
}
