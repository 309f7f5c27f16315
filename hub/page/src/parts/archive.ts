//! The dialog that leads from a view to the same view of the archive: a link, and a command.

import type { App } from "../model/app";
import { archiveCommand, shownRange } from "../model/archive";
import { formatState } from "../model/state";
import { h, setText } from "./dom";
import { icon } from "./icons";

export class ArchiveDialog {
  /** The button that opens the dialog. The shell moves it into the shown view. */
  readonly button: HTMLElement;
  readonly element: HTMLDialogElement;
  private readonly link = h("a", { class: "action", on: { click: () => this.element.close() } });
  private readonly none = h("p", { class: "muted" });
  private readonly command = h("code", { class: "command", tabindex: 0 });
  private readonly note = h("p", { class: "muted" });
  private readonly copied = h("span", { class: "muted", role: "status" });

  constructor(app: App) {
    this.button = h(
      "button",
      {
        type: "button",
        class: "tool archive-button",
        title: "The same view from the archive",
        "aria-label": "The same view from the archive",
        on: { click: () => this.open(app) },
      },
      icon("archive"),
    );
    this.element = h(
      "dialog",
      { class: "help archive", "aria-labelledby": "archive-title" },
      h("h2", { id: "archive-title" }, "The same view from the archive"),
      this.link,
      this.none,
      this.command,
      this.note,
      h(
        "div",
        { class: "archive-foot" },
        h(
          "button",
          { type: "button", class: "action", on: { click: () => void this.copy() } },
          "Copy the command",
        ),
        h(
          "button",
          { type: "button", class: "action", on: { click: () => this.element.close() } },
          "Close",
        ),
        this.copied,
      ),
    );
  }

  private open(app: App): void {
    const { span, state, topology, health } = app;
    if (span === null || topology === null) return;
    const { item } = state;
    const keys = state.view === "port" ? [item, ...(state.options.with ?? "").split(",")] : [];
    const ports = keys.map((key) => topology.indexOfKey(key)).filter((port) => port >= 0);
    const device = state.view === "switch" ? topology.deviceOf(item) : -1;
    const { text, note } = archiveCommand(state, {
      folder: health?.archive?.folder ?? null,
      span,
      interval: app.interval,
      nodes:
        device < 0
          ? ports.map((port) => topology.ports[port].node)
          : [topology.devices[device].node],
      links: topology.links.length,
    });
    const archived = health?.archive != null || health?.kept.archive_from_ns != null;
    this.link.hidden = !archived;
    this.link.href = formatState({ ...state, at: null, range: shownRange(state, span) });
    setText(this.link, "Open this time on the page");
    setText(
      this.none,
      archived
        ? "The hub reads it from its archive when it is no longer in memory. As a command:"
        : "This hub has no archive. If the records are packed elsewhere, a command has the same:",
    );
    setText(this.command, text);
    setText(this.note, note);
    setText(this.copied, "");
    this.element.showModal();
  }

  /** Copies the command, or selects it where the browser gives no access to the clipboard. */
  private async copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.command.textContent ?? "");
      setText(this.copied, "Copied.");
    } catch {
      getSelection()?.selectAllChildren(this.command);
      setText(this.copied, "Selected; copy it with Ctrl+C.");
    }
  }
}
