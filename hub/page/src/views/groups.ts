//! Groups of hosts, such as storage targets: how much traffic goes into and out of them, how
//! evenly, and who sends it.

import { nanoseconds } from "../contract/api";
import type { GroupDetail, GroupRows, GroupSender, GroupTarget, PortRate } from "../contract/types";
import { LINES } from "../draw/lines";
import { zoom } from "../draw/theme";
import type { App } from "../model/app";
import {
  binEnds,
  type Course,
  inOneOrder,
  largest,
  partialSpans,
  senderName,
} from "../model/group";
import { Poll } from "../model/poll";
import type { Topology } from "../model/topology";
import { clock, count, grouped, percent, scaled } from "../model/units";
import { Chart } from "../parts/chart";
import { choice } from "../parts/choice";
import { h, setText } from "../parts/dom";
import { type Column, linkCell, Table } from "../parts/table";
import type { View } from "../parts/view";
import { hostColumn, octetsColumn, rateColumn, shareColumn } from "./columns";
import { figure, panel } from "./panel";

/** Time shown before a paused slot, in milliseconds. Live, the hub uses the same time. */
const SPAN = 300_000;

const GINI =
  "Gini coefficient: 0 if all hosts have the same amount of data, close to 1 if one has all";

export function makeGroups(app: App, _topology: Topology): View {
  return new GroupsView(app);
}

class GroupsView implements View {
  readonly element: HTMLElement;
  private readonly list: Poll<GroupRows>;
  private poll: Poll<GroupDetail> | null = null;
  private readonly names = h("span", { class: "group-names" });
  private choice: { update: () => void } | null = null;
  private readonly text = h("p", { class: "job-text", role: "status" });
  private readonly figures = h("div", { class: "figures job-figures group-figures" });
  private readonly links = h("span", { class: "toolbar-links" });
  private readonly body = h("div", { class: "job-tables group-parts" });
  private readonly charts: { into: Chart; out: Chart; senders: Chart; uneven: Chart };
  private readonly targets: Table<GroupTarget>;
  private readonly senders: Table<GroupSender>;
  private readonly notes: HTMLElement[];
  private listed: unknown = null;
  private shown: GroupDetail | null = null;
  private name = "";

  constructor(private readonly app: App) {
    this.list = new Poll(
      app,
      "groups",
      () => ({}),
      () => app.notify("values"),
      30_000,
    );
    const chart = (title: string, unit: string, stacked: boolean) =>
      new Chart({
        title,
        unit,
        height: 150 * zoom(),
        stacked,
        select: (from, to) => app.go({ range: { from, to }, at: null }, true),
      });
    this.charts = {
      into: chart("Into the group, by switch port", "b/s", true),
      out: chart("Out of the group, by switch port", "b/s", true),
      senders: chart("Into the group, by sender (estimate)", "b/s", true),
      uneven: chart("Busiest host, received data as a multiple of the mean", "", false),
    };
    this.targets = new Table({
      label: "Hosts of the group",
      columns: targetColumns(app, () => this.shown),
      key: ({ host }) => host,
      sort: "in",
      descending: true,
      empty: "No host of the group has records.",
      height: 28,
    });
    this.senders = new Table({
      label: "Senders",
      columns: senderColumns(app, () => this.shown),
      key: senderName,
      sort: "estimate",
      descending: true,
      empty: "No other host sent data.",
      height: 28,
    });
    const parts = [panel("Hosts", "job-part"), panel("Who fills the group", "job-part")];
    parts[0].body.append(this.targets.element);
    parts[1].body.append(this.senders.element);
    this.notes = parts.map(({ note }) => note);
    this.body.append(
      ...Object.values(this.charts).map(({ element }) =>
        h("section", { class: "panel group-chart" }, element),
      ),
      ...parts.map(({ element }) => element),
    );
    this.element = h(
      "div",
      { class: "job-page" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Groups"),
        this.names,
        h("span", { class: "space" }),
        this.links,
      ),
      this.text,
      this.figures,
      this.body,
    );
    this.body.hidden = true;
  }

  update(): void {
    this.list.refresh();
    this.showNames();
    this.follow();
    this.poll?.refresh();
    this.choice?.update();
    const answer = this.poll?.answer ?? null;
    const error = this.list.error || (this.poll?.error ?? "");
    if (answer !== null && answer !== this.shown) {
      this.shown = answer;
      this.show(answer);
    }
    const isMissing = this.poll?.isMissing === true;
    this.element.classList.toggle("failed", answer === null && error !== "");
    if (isMissing && !this.isKnown) setText(this.text, `There is no group ${this.name}.`);
    else if (error !== "") setText(this.text, `${error}.`);
    else if (this.list.answer?.reason !== undefined)
      setText(this.text, `There are no groups: ${this.list.answer.reason}.`);
    else if (answer === null) setText(this.text, "Waiting for the hub…");
  }

  close(): void {
    this.list.close();
    this.poll?.close();
    for (const chart of Object.values(this.charts)) chart.close();
    this.targets.close();
    this.senders.close();
  }

  private showNames(): void {
    const answer = this.list.answer;
    if (answer === null || answer === this.listed) return;
    this.listed = answer;
    const names = answer.rows.map(({ group }) => [group, group] as const);
    const made = choice(
      "Group",
      names,
      () => this.name,
      (item) => this.app.go({ item }),
    );
    this.choice = made;
    this.names.replaceChildren(made.element);
  }

  /** Returns whether the hub has the group. A group can be without records at some times. */
  private get isKnown(): boolean {
    return this.list.answer?.rows.some(({ group }) => group === this.name) === true;
  }

  /** Requests the group that the URL names, or the first group without a name. */
  private follow(): void {
    const name = this.app.state.item || this.list.answer?.rows[0]?.group || "";
    if (name === this.name) return;
    this.name = name;
    this.shown = null;
    this.body.hidden = true;
    this.figures.replaceChildren();
    this.poll?.close();
    this.poll = new Poll(
      this.app,
      `group/${encodeURIComponent(name)}`,
      () => this.params(),
      () => this.app.notify("values"),
      5000,
    );
    const link = (text: string, view: "map" | "heatmap", options: Record<string, string>) =>
      h("a", { class: "action", href: this.app.href({ view, options }) }, text);
    this.links.replaceChildren(
      link("Hosts on the map", "map", { group: name }),
      link("Heat map of its hosts", "heatmap", { by: "host", group: name }),
    );
  }

  private params(): { from?: string; to?: string } {
    const { at, range } = this.app.state;
    if (range !== null) return this.app.spanParams;
    return at === null ? {} : { from: nanoseconds(at - SPAN), to: nanoseconds(at) };
  }

  private show(row: GroupDetail): void {
    this.body.hidden = false;
    setText(this.text, verdict(row));
    this.figures.replaceChildren(...figures(row));
    const t = binEnds(row);
    const [from, to] = [row.start_ns / 1e6, t.at(-1) ?? row.start_ns / 1e6];
    const curves = (rates: readonly Course[], what: string) =>
      largest(rates, LINES.length, what).map(({ port, gbps, isRest }) => ({
        label: port,
        isRest,
        t,
        v: gbps.map((rate) => (rate === null ? null : rate * 1e9)),
      }));
    const senders = row.senders
      .filter(({ estimate_bytes }) => estimate_bytes > 0)
      .map((sender) => ({ port: senderName(sender), gbps: sender.estimate_gbps }));
    const ports = (chart: Chart, rates: readonly PortRate[]) =>
      chart.show(
        curves(rates, "ports"),
        from,
        to,
        "b/s",
        partialSpans(
          rates.map(({ covered }) => covered),
          from,
          row.bin_ns / 1e6,
        ),
      );
    const [into, out] = inOneOrder(row.into, row.out);
    ports(this.charts.into, into);
    ports(this.charts.out, out);
    this.charts.senders.show(curves(senders, "senders"), from, to);
    this.charts.uneven.show([{ label: "Busiest / mean", t, v: row.in_max_to_mean }], from, to);
    this.targets.setRows(row.targets);
    this.senders.setRows(row.senders);
    const hidden = row.sender_count - row.senders.length;
    setText(this.notes[0], missingText(row));
    setText(
      this.notes[1],
      hidden > 0 ? `the first ${row.senders.length} of ${grouped(row.sender_count)}` : "",
    );
  }
}

/** Describes in a few sentences how full the group was, how evenly, and who filled it. */
function verdict(row: GroupDetail): string {
  const span = `From ${clock(row.from_ns / 1e6)} to ${clock(row.to_ns / 1e6)}`;
  if (row.targets.length === 0) return `${span}, no host of ${row.group} has records.`;
  const hosts = count(row.targets.length, "host");
  const parts = [
    `${span}, the ${hosts} of ${row.group} received ${scaled(row.in_bytes, "B")} and sent ${scaled(row.out_bytes, "B")}.`,
  ];
  const [first] = row.targets;
  if (row.targets.length > 1 && row.in_bytes > 0)
    parts.push(`${first.host} received ${percent(first.in_bytes / row.in_bytes)} of the data.`);
  const [sender] = row.senders;
  if (sender !== undefined && sender.estimate_bytes > 0) {
    const share = percent(sender.estimate_bytes / row.in_bytes);
    const [least, most] = [sender.least_bytes, sender.most_bytes].map((bytes) =>
      percent(bytes / row.in_bytes),
    );
    parts.push(
      `By an estimate, ${share} of the received data came from ${senderName(sender)} (certain: ${least} to ${most}).`,
    );
  }
  return parts.join(" ");
}

function missingText({ missing }: GroupDetail): string {
  if (missing.length === 0) return "";
  const names = missing.slice(0, 4).join(", ");
  return `without records: ${names}${missing.length > 4 ? ` and ${missing.length - 4} more` : ""}`;
}

function figures(row: GroupDetail): HTMLElement[] {
  const seconds = (row.to_ns - row.from_ns) / 1e9;
  const mean = (bytes: number) => `mean ${scaled((8 * bytes) / seconds, "b/s")}`;
  const busiest = (
    title: string,
    bytes: "in_bytes" | "out_bytes",
    { max_to_mean, gini }: GroupDetail["in_imbalance"],
  ) => {
    const [host] = [...row.targets].sort((x, y) => y[bytes] - x[bytes]);
    if (host === undefined || max_to_mean === null) return figure(title, "–", "");
    const uneven = gini === null ? "" : `; Gini ${gini.toFixed(2)}`;
    const tile = figure(title, host.host, `${max_to_mean.toFixed(2)} × the mean${uneven}`);
    tile.title = GINI;
    return tile;
  };
  return [
    figure(
      "Hosts",
      grouped(row.targets.length),
      row.missing.length > 0
        ? `${grouped(row.missing.length)} without records`
        : "all with records",
    ),
    figure("Received", scaled(row.in_bytes, "B"), mean(row.in_bytes)),
    figure("Sent", scaled(row.out_bytes, "B"), mean(row.out_bytes)),
    busiest("Host that received most", "in_bytes", row.in_imbalance),
    busiest("Host that sent most", "out_bytes", row.out_imbalance),
  ];
}

function targetColumns(app: App, shown: () => GroupDetail | null): Column<GroupTarget>[] {
  const all = () => shown()?.in_bytes ?? 0;
  return [
    hostColumn(app, "Host"),
    octetsColumn("in", "Received", "Data that the host received", (row) => row.in_bytes),
    shareColumn(
      "share",
      "Share",
      "Part of what the whole group received",
      (row) => (all() > 0 ? row.in_bytes / all() : null),
      false,
    ),
    rateColumn(
      "in-peak",
      "Peak in",
      "Largest data rate that the host received",
      (row) => row.in_peak_gbps,
    ),
    octetsColumn("out", "Sent", "Data that the host sent", (row) => row.out_bytes),
    rateColumn(
      "out-peak",
      "Peak out",
      "Largest data rate that the host sent",
      (row) => row.out_peak_gbps,
    ),
  ];
}

function senderColumns(app: App, shown: () => GroupDetail | null): Column<GroupSender>[] {
  const all = () => shown()?.in_bytes ?? 0;
  return [
    {
      id: "sender",
      title: "Sender",
      hint: "A job, or a host without a job",
      width: "minmax(90px, 1fr)",
      value: senderName,
      draw: (cell, row) => {
        const href =
          row.job === null
            ? app.href({ view: "ports", item: "", options: { q: row.host ?? "" } })
            : app.href({ view: "job", item: row.job, options: {} });
        linkCell(cell, senderName(row), href);
      },
    },
    octetsColumn(
      "estimate",
      "Estimate",
      "Estimated data to the group: what the group received, divided by what each sender sent and by its correlation",
      (row) => row.estimate_bytes,
    ),
    shareColumn(
      "share",
      "Share",
      "Estimated part of what the group received",
      (row) => (all() > 0 ? row.estimate_bytes / all() : null),
      false,
    ),
    octetsColumn(
      "least",
      "Least",
      "Lower bound: what the group received and no other host sent",
      (row) => row.least_bytes,
    ),
    octetsColumn(
      "most",
      "Most",
      "Upper bound: what the sender sent, or what the group received",
      (row) => row.most_bytes,
    ),
    {
      id: "correlation",
      title: "Correlation",
      hint: "Of what it sent with what the group received over time: 1 rises and falls with it, 0 has no relation",
      end: true,
      width: "92px",
      value: (row) => row.correlation,
      text: ({ correlation }) => (correlation === null ? "–" : correlation.toFixed(2)),
    },
  ];
}
