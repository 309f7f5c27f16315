//! The frame of the web page: top bar, navigation, content, timeline.

import {
  applyTheme,
  darkPreference,
  phone,
  setThemeChoice,
  type ThemeChoice,
  themeChoice,
} from "../draw/theme";
import type { App, Change } from "../model/app";
import type { Column } from "../model/history";
import { PACES } from "../model/pace";
import { UTILIZATION, unknownView, VIEWS, type ViewName } from "../model/state";
import { answersText, totalsOf } from "../model/totals";
import { dateTime, duration, grouped, timeTexts, upper, zone } from "../model/units";
import { ArchiveDialog } from "./archive";
import { Bell } from "./bell";
import { choice } from "./choice";
import { h, setAttribute, setText } from "./dom";
import { icon } from "./icons";
import { BLOCKED_LEGEND, legend, UTILIZATION_LEGEND } from "./meter";
import { savesFrom } from "./save";
import { Search } from "./search";
import { TimelineStrip } from "./timeline";
import { hideTip } from "./tooltip";
import type { View } from "./view";

/** Returns the title of a view. */
const titleOf = (view: string) => (view === "heatmap" ? "Heat map" : upper(view));

/** Navigation entry to which a view belongs. */
const PARENTS: Partial<Record<ViewName, ViewName>> = {
  port: "ports",
  switch: "ports",
  tree: "overview",
  job: "jobs",
};
/** Time ranges that one click selects, in minutes. */
const RANGES = [
  ["10", "10 min"],
  ["60", "1 h"],
  ["1440", "24 h"],
] as const;
const MINUTE = 60_000;
/** The display rate of a page that is not live. */
const PAUSED = "paused";

const KEYS = [
  ["1 to 9", "open a view"],
  ["/", "search a node, a GUID, a LID or a job"],
  ["Space", "pause, or play the past"],
  ["← →", "one sweep back or forward, with Shift ten sweeps"],
  ["L or Esc", "return to live"],
  ["↑ ↓ Enter", "in a table: choose a row, and open it"],
  ["+ − 0", "in a picture: zoom, and show all"],
  ["?", "show this list"],
] as const;
const POINTER =
  "Choose a time in the strip to show it, or drag over a range to select it. The wheel or two fingers zoom.";

/** What the strip of time has besides its two rows: a sign, its class, and its meaning. */
const SIGNS = [
  ["▼", "alert-text", "severe event"],
  ["|", "muted", "other events"],
  ["|", "sign-mark", "start or end of a mark: a job, a phase, or what a user posted"],
  ["●", "sign-time", "shown time of a paused page"],
  ["▭", "sign-time", "selected range"],
] as const;

export class Shell {
  readonly main = h("main", { id: "main", tabindex: -1 });
  private readonly fabric = h("span", { class: "fabric" });
  private readonly who = h("span", { class: "who", hidden: true });
  private readonly mark = h("a", { class: "mark" });
  private readonly archive: ArchiveDialog;
  private readonly bell: Bell;
  private readonly mode = h("b", {});
  private readonly date = h("span", {});
  private readonly time = h("time", {});
  private readonly zone = h("span", { class: "zone" });
  private readonly status = h(
    "button",
    { class: "live", type: "button" },
    this.mode,
    this.date,
    this.time,
    this.zone,
  );
  private readonly banner = h("div", { class: "banner", role: "alert", hidden: true });
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly play: HTMLButtonElement;
  private readonly timeline: TimelineStrip;
  private readonly search: Search;
  private readonly ranges: ReturnType<typeof choice>;
  private readonly pace = h(
    "select",
    {
      class: "pace",
      "aria-label": "Display rate",
      title: "How often the page shows a new sweep. It keeps all sweeps",
      on: { change: () => this.setPace(this.pace.value) },
    },
    ...PACES.map((seconds) => h("option", { value: seconds }, `Every ${seconds} s`)),
    h("option", { value: PAUSED }, "Paused"),
  );
  /** Colours of the strip, which depend on the theme. */
  private readonly colors = h("div", {});
  private readonly help = h(
    "dialog",
    { class: "help", "aria-labelledby": "help-title", on: { click: () => this.help.close() } },
    h("h2", { id: "help-title" }, "The strip of time"),
    h("p", {}, "Each column is the largest value of all ports at its time."),
    this.colors,
    h(
      "dl",
      { class: "facts" },
      ...SIGNS.flatMap(([sign, name, text]) => [
        h("dt", {}, h("span", { class: name }, sign)),
        h("dd", {}, text),
      ]),
    ),
    h("p", { id: "strip-help" }, POINTER),
    h("h2", { class: "keys" }, "Keys"),
    h(
      "dl",
      { class: "facts keys" },
      ...KEYS.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]),
    ),
    h("button", { type: "button", class: "action" }, "Close"),
  );
  private player = 0;
  /** Port counts of the newest slot, so that each slot is counted only once. */
  private counted: { column?: Column; text: string } = { text: "" };

  constructor(private readonly app: App) {
    savesFrom(app);
    this.search = new Search(app);
    this.archive = new ArchiveDialog(app);
    this.bell = new Bell(app);
    this.timeline = new TimelineStrip(app);
    this.ranges = choice(
      "Time range",
      RANGES,
      () => this.range,
      (minutes) => this.selectLast(Number(minutes) * MINUTE),
    );
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
      this.help,
      this.archive.element,
    );
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => app.notify("state"));
    darkPreference().addEventListener("change", () => this.retheme(themeChoice()));
    // A phone that is turned needs other tables.
    phone().addEventListener("change", () => this.app.notify("theme"));
    setInterval(() => this.showStatus(), 1000);
    app.onLate((changes) => this.update(changes));
  }

  /** Shows a view. */
  show(view: View): void {
    hideTip();
    view.element.querySelector(".toolbar h1")?.after(this.archive.button);
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
      this.who,
      this.status,
      button("Help (?)", "help", () => this.showHelp()),
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
        { class: "nav", title: titleOf(view) },
        icon(view),
        h("span", {}, titleOf(view)),
      );
      this.links.set(view, link);
      nav.append(link);
    }
    return nav;
  }

  private bottom(): HTMLElement {
    // Only a narrow window shows this button.
    const more = button("Controls of the time", "controls", () => {
      const open = footer.classList.toggle("open");
      more.setAttribute("aria-expanded", String(open));
    });
    more.classList.add("more");
    more.setAttribute("aria-expanded", "false");
    const footer = h(
      "footer",
      { class: "bottom" },
      h(
        "div",
        { class: "transport", role: "group", "aria-label": "Time" },
        button("One sweep back (left arrow)", "back", () => this.app.step(-1)),
        this.play,
        button("One sweep forward (right arrow)", "forward", () => this.app.step(1)),
        h("span", { class: "range-name", "aria-hidden": "true" }, "Range"),
        this.ranges.element,
        h("span", { class: "pace-and-save" }, this.pace, this.timeline.save),
        button("What the strip shows", "info", () => this.showHelp()),
      ),
      more,
      this.timeline.element,
    );
    return footer;
  }

  private showHelp(): void {
    this.colors.replaceChildren(
      legend([UTILIZATION_LEGEND, BLOCKED_LEGEND], [["no-data", "no data"]]),
    );
    this.help.showModal();
  }

  private setPace(value: string): void {
    this.stop();
    if (value === PAUSED) this.app.pause();
    else this.app.setPace(1000 * Number(value));
  }

  /** Returns the entry of the selected time range, or null if it has another length. */
  private get range(): (typeof RANGES)[number][0] | null {
    const { range } = this.app.state;
    const length = range === null ? 0 : range.to - range.from;
    return RANGES.find(([minutes]) => Number(minutes) * MINUTE === length)?.[0] ?? null;
  }

  /** Selects the time before the newest slot. */
  private selectLast(length: number): void {
    const { latest } = this.app;
    if (latest === null) return;
    const to = this.app.timeOf(latest);
    this.app.go({ range: { from: to - length, to }, at: null }, true);
  }

  private update(changes: ReadonlySet<Change>): void {
    const { app } = this;
    this.ranges.update();
    setAttribute(this.main, "aria-busy", String(app.isWaiting));
    if (changes.has("state") || changes.has("topology")) this.showView();
    if (changes.has("health") || changes.has("topology")) {
      const fabric = app.health?.fabric || "fabric";
      setText(this.fabric, app.health?.simulated === true ? `${fabric}\n(simulated)` : fabric);
      // Without users, everybody is an admin without a name.
      const { name = null, role = "" } = app.who ?? {};
      setText(this.who, `${name}\n${role}`);
      this.who.title = `User and role: ${name}, ${role}`;
      this.who.hidden = name === null;
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
      if (name === view && link.ariaCurrent !== "page") {
        setAttribute(link, "aria-current", "page");
        // A phone has the views in one row, which scrolls.
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else if (name === view) continue;
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
    const late = app.lateness;
    const [every, ...slower] = this.pace.options;
    setText(every, `Every ${app.interval / 1000} s`);
    for (const option of slower) option.hidden = 1000 * Number(option.value) <= app.interval;
    this.pace.value = app.isLive ? String(app.pace / 1000) : PAUSED;
    this.status.classList.toggle("on", app.isLive && app.connection === "open" && late === null);
    const [mode, from, to]: [string, number | null, number?] =
      range !== null
        ? ["Range", range.from, range.to]
        : at !== null
          ? ["Paused", at]
          : app.connection === "connecting"
            ? ["Connecting", null]
            : [
                late !== null ? `${ageText(late)} old` : "Live",
                app.shown === null ? null : app.timeOf(app.shown),
              ];
    setText(this.mode, mode);
    const [date, time] = from === null ? ["", ""] : timeTexts(from, to);
    setText(this.date, date);
    this.date.className = date === timeTexts(Date.now())[0] ? "today" : "";
    setText(this.time, time);
    setText(this.zone, from === null ? "" : zone(from));
    const none = range === null ? "none, the page shows one time" : "one of another length";
    const chosen = RANGES.find(([minutes]) => minutes === this.range)?.[1] ?? none;
    setAttribute(this.ranges.element, "title", `Time range: ${chosen}`);
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
      const texts = answersText(totals, column.partial, " ports answer");
      const text = `${grouped(totals.answered)} ${texts.join(", ")}`;
      this.counted = { column, text };
    }
    const isFirst = app.connection === "connecting";
    const bad = !isFirst && (app.connection === "lost" || app.lateness !== null);
    this.mark.classList.toggle("bad", bad);
    const text = isFirst
      ? "connecting"
      : bad
        ? "no new data"
        : app.isWaiting
          ? "loading…"
          : this.counted.text;
    if (this.mark.dataset.text !== text) {
      this.mark.dataset.text = text;
      this.mark.replaceChildren(icon(bad ? "alert" : "samplers"), h("span", {}, text));
      this.mark.title = text;
    }
  }

  private showBanner(): void {
    const { app } = this;
    const last = app.latest === null ? null : app.timeOf(app.latest);
    const since = last === null ? "" : ` The last sweep ended at ${dateTime(last)}.`;
    const unknown = unknownView(location.hash);
    let text = "";
    if (app.connection === "lost")
      text = `The connection to the hub is lost.${since} The page connects again by itself.`;
    else if (app.connection === "open" && app.lateness !== null)
      text = `The hub has no new sweep.${since}`;
    else if (app.failure !== "") text = `A request failed: ${app.failure}.`;
    else if (unknown !== null) text = `There is no view “${unknown}”. This is the overview.`;
    setText(this.banner, text);
    this.banner.hidden = text === "";
    document.documentElement.classList.toggle("stale", text !== "" && app.connection !== "open");
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
    if (this.help.open || this.archive.element.open) return;
    const target = event.target as HTMLElement;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) return;
    const digit = Number(event.key);
    if (event.key === "/") this.search.focus();
    else if (event.key === "?") this.showHelp();
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

/** Formats an age: seconds below a minute, else whole minutes. */
function ageText(age: number): string {
  const unit = age < MINUTE ? 1000 : MINUTE;
  return duration((Math.floor(age / unit) * unit) / 1000);
}

function button(label: string, name: string, click: () => void): HTMLButtonElement {
  return h(
    "button",
    { type: "button", class: "tool", title: label, "aria-label": label, on: { click } },
    icon(name),
  );
}
