//! Draws one congestion tree, with the root on the left and the ports that wait for it on the
//! right. The width of a branch shows for how long its ports waited.

import type { TreeRow, TreeRows, VictimRow } from "../contract/types";
import { blockedScale } from "../draw/scale";
import { phone, zoom } from "../draw/theme";
import type { App } from "../model/app";
import { type Cell, head } from "../model/csv";
import { Poll } from "../model/poll";
import { causeText, jobsText, regionText, waitText } from "../model/regions";
import { portKey, type Topology } from "../model/topology";
import { count, duration, percent, upper } from "../model/units";
import { h, s, setText } from "../parts/dom";
import { BLOCKED_LEGEND, legend } from "../parts/meter";
import { saveButtons } from "../parts/save";
import type { View } from "../parts/view";

/**
 * Max number of branches of a port, by its distance from the root; further branches are combined
 * into one. The first entry whose picture fits is used.
 */
const BRANCHES = [
  [12, 8, 4],
  [8, 6, 2],
  [8, 3, 0],
  [8, 1, 0],
  [8, 0, 0],
];
const ROW = 32;
const BOX = { width: 206, height: 25 };
const NARROWEST = 240;
const WIDEST_COLUMN = 380;
const MARGIN = 14;
const HEADING = 26;
const WIDEST = 22;
/** Distance between a branch and its children on a phone, where they are below it. */
const INDENT = 26;

const WIDTHS = "The width of a branch is the time that its ports waited.";

/** Max number of regions that are listed. */
const REGIONS = 5;

interface Branch {
  name: string;
  to: string;
  href: string;
  share: number;
  seconds: number;
  children: Branch[];
  /** Key of the port whose further branches are combined in this one; empty for a single port. */
  rest: string;
  /** Waiting time of the branch and of all branches behind it, in seconds. */
  total: number;
  x: number;
  y: number;
}

export function makeTree(app: App, topology: Topology): View {
  const key = app.state.item;
  const poll = new Poll<TreeRows>(
    app,
    "trees",
    () => app.spanParams,
    () => app.notify("values"),
  );
  const title = h("h1", {}, "Congestion tree");
  const text = h("p", { class: "tree-text", role: "status" });
  const regions = h("ul", { class: "tree-text regions", "aria-label": "Regions" });
  const picture = h("div", { class: "tree panel" });
  const links = h("span", { class: "toolbar-links" });
  const open = new Set<string>();
  let drawn: TreeRow | null = null;
  let span: { from: number; to: number } | null = null;

  function redraw(row: TreeRow): void {
    const rows = Math.floor((picture.clientHeight / zoom() - 2 * MARGIN - HEADING - 30) / ROW);
    const choices = BRANCHES.map((most) => branchesOf(app, topology, row, open, most));
    const root = choices.find((choice) => leaves(choice) <= rows) ?? choices[choices.length - 1];
    const opened = (branch: Branch) => {
      open.add(branch.rest);
      redraw(row);
    };
    picture.replaceChildren(draw(root, picture.clientWidth / zoom() - 30, opened));
  }

  function show(row: TreeRow, { from_ns, to_ns }: TreeRows): void {
    drawn = row;
    span = { from: from_ns / 1e6, to: to_ns / 1e6 };
    setText(title, `Congestion at ${row.root.node} / ${row.root.port}`);
    setText(
      text,
      `The cause: ${causeText(row.why)}${row.confidence === null ? "" : `, confidence ${row.confidence}`}. The port ${row.to === null ? "" : `to ${row.to.node} / ${row.to.port} `}used ${percent(row.xmit_utilization)} of the link and was blocked for ${percent(row.blocked)} of the time. ${upper(waitText(row, true))}. Duration: ${duration(row.seconds)}. Lost: ${duration(row.held_up_seconds)} in all.`,
    );
    regions.replaceChildren(
      ...row.regions.slice(0, REGIONS).map((region) => {
        const jobs = jobsText(region);
        return h(
          "li",
          {},
          h("b", {}, `Region ${region.region}`),
          `: ${[regionText(region), jobs].filter((part) => part !== "").join("; ")}`,
        );
      }),
    );
    redraw(row);
    links.replaceChildren(
      h("a", { class: "action", href: app.href({ view: "port", item: key }) }, "Open the port"),
      h(
        "a",
        { class: "action", href: app.href({ view: "map", metric: "xmit_blocked" }) },
        "Show on the map",
      ),
    );
  }

  const save = saveButtons({
    title: "Congestion tree",
    rows: () => savedTree(drawn?.victims ?? []),
    layers: () => [...picture.children] as SVGElement[],
    span: () => span,
    note: () => WIDTHS,
  });
  const element = h(
    "div",
    { class: "tree-page" },
    h("div", { class: "toolbar" }, title, h("span", { class: "space" }), links, save),
    text,
    regions,
    picture,
    h(
      "div",
      { class: "foot" },
      legend([BLOCKED_LEGEND], []),
      h("span", { class: "muted" }, WIDTHS),
    ),
  );
  return {
    element,
    update() {
      poll.refresh();
      element.classList.toggle("failed", drawn === null);
      const row = poll.answer?.rows.find(({ root }) => portKey(root.guid, root.port) === key);
      if (row !== undefined) {
        element.classList.remove("failed");
        if (row !== drawn) show(row, poll.answer!);
      } else if (poll.answer !== null) {
        setText(
          text,
          drawn === null
            ? "This port is not the root of a congestion tree at this time."
            : "The congestion has ended. The picture shows its last state.",
        );
        if (drawn === null && topology.indexOfKey(key) >= 0)
          links.replaceChildren(
            h(
              "a",
              { class: "action", href: app.href({ view: "port", item: key }) },
              "Open the port",
            ),
          );
      } else setText(text, poll.error || "Waiting for the hub…");
    },
    close() {
      poll.close();
    },
  };
}

/** Returns all ports that waited, also those that a branch combines. */
function* savedTree(victims: readonly VictimRow[]): Iterable<Cell[]> {
  yield ["Port", "To", "Waits for", head("Blocked", "s"), head("Time", "s")];
  for (const { node, port, to, waits_for, blocked_seconds, seconds } of victims) {
    const ends = [{ node, port }, to, waits_for];
    const names = ends.map((end) => (end === null ? null : `${end.node} / ${end.port}`));
    yield [...names, blocked_seconds, seconds];
  }
}

/** Builds the branches from the list of waiting ports. */
function branchesOf(
  app: App,
  topology: Topology,
  tree: TreeRow,
  open: ReadonlySet<string>,
  limits: number[],
): Branch {
  const behind = new Map<string, VictimRow[]>();
  for (const victim of tree.victims) {
    const next = portKey(victim.waits_for.guid, victim.waits_for.port);
    const list = behind.get(next);
    if (list === undefined) behind.set(next, [victim]);
    else list.push(victim);
  }
  const seen = new Set<string>();
  const grow = (guid: string, port: number, branch: Branch, depth: number): Branch => {
    const key = portKey(guid, port);
    if (seen.has(key)) return branch;
    seen.add(key);
    const victims = [...(behind.get(key) ?? [])].sort(
      (x, y) => y.blocked_seconds - x.blocked_seconds,
    );
    const children = victims.map((victim) =>
      grow(victim.guid, victim.port, branchOf(app, topology, victim), depth + 1),
    );
    branch.total = branch.seconds + children.reduce((sum, child) => sum + child.total, 0);
    children.sort((x, y) => y.total - x.total);
    const most = open.has(key) ? children.length : limits[Math.min(depth, limits.length - 1)];
    // A combined branch needs as much space as one more branch.
    const shown = children.length <= most + 1 ? children.length : most;
    branch.children = children.slice(0, shown);
    const rest = children.slice(shown);
    if (rest.length > 0) branch.children.push(restOf(rest, key));
    return branch;
  };
  const root: Branch = {
    name: `${tree.root.node} / ${tree.root.port}`,
    to: tree.to === null ? "" : `→ ${tree.to.node} / ${tree.to.port}`,
    href: app.href({ view: "port", item: portKey(tree.root.guid, tree.root.port) }),
    share: tree.blocked,
    seconds: 0,
    children: [],
    rest: "",
    total: 0,
    x: 0,
    y: 0,
  };
  return grow(tree.root.guid, tree.root.port, root, 0);
}

function branchOf(app: App, topology: Topology, victim: VictimRow): Branch {
  const index = topology.indexOf(victim.guid, victim.port);
  return {
    name: index < 0 ? `${victim.node} / ${victim.port}` : topology.shortName(index),
    to: victim.to === null ? "" : `→ ${victim.to.node} / ${victim.to.port}`,
    href: app.href({ view: "port", item: portKey(victim.guid, victim.port) }),
    share: victim.seconds > 0 ? victim.blocked_seconds / victim.seconds : 0,
    seconds: victim.blocked_seconds,
    children: [],
    rest: "",
    total: victim.blocked_seconds,
    x: 0,
    y: 0,
  };
}

function restOf(branches: Branch[], parent: string): Branch {
  const total = branches.reduce((sum, branch) => sum + branch.total, 0);
  const seconds = branches.reduce((sum, branch) => sum + branch.seconds, 0);
  const mean = branches.reduce((sum, branch) => sum + branch.share, 0) / branches.length;
  return {
    name: count(branches.length, "more port"),
    to: "",
    href: "",
    share: mean,
    seconds,
    children: [],
    rest: parent,
    total,
    x: 0,
    y: 0,
  };
}

/**
 * Places leaves one below the other, and each branch next to the middle of its children. On a phone,
 * the children are below their branch.
 */
function place(branch: Branch, depth: number, column: number, top: { y: number }): void {
  branch.x = MARGIN + depth * column;
  if (column === INDENT) {
    branch.y = top.y;
    top.y += ROW;
    for (const child of branch.children) place(child, depth + 1, column, top);
    return;
  }
  if (branch.children.length === 0) {
    branch.y = top.y;
    top.y += ROW;
    return;
  }
  for (const child of branch.children) place(child, depth + 1, column, top);
  branch.y = (branch.children[0].y + branch.children[branch.children.length - 1].y) / 2;
}

/** Returns the number of branches without children. */
function leaves(branch: Branch): number {
  return branch.children.length === 0
    ? 1
    : branch.children.reduce((sum, child) => sum + leaves(child), 0);
}

/** Returns the number of links from a branch to its farthest descendant. */
function depthOf(branch: Branch): number {
  return branch.children.reduce((most, child) => Math.max(most, 1 + depthOf(child)), 0);
}

function draw(root: Branch, room: number, open: (branch: Branch) => void): SVGSVGElement {
  const depth = depthOf(root);
  const fitting = (room - 2 * MARGIN - BOX.width) / Math.max(1, depth);
  const isPhone = phone().matches;
  const column = isPhone ? INDENT : Math.max(NARROWEST, Math.min(WIDEST_COLUMN, fitting));
  const top = { y: isPhone ? MARGIN : MARGIN + HEADING };
  place(root, 0, column, top);
  const width = 2 * MARGIN + depth * column + BOX.width;
  const height = Math.max(top.y + MARGIN, 80);
  const picture = s("svg", {
    width: width * zoom(),
    height: height * zoom(),
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": `Congestion tree of ${root.name}`,
  });
  const ribbons = s("g", {});
  const boxes = s("g", {});
  const visit = (branch: Branch) => {
    for (const child of branch.children) {
      ribbons.append(ribbon(branch, child, root.total));
      visit(child);
    }
    boxes.append(box(branch, branch === root, open));
  };
  visit(root);
  for (let links = 0; links <= depth && !isPhone; links++) {
    const text = links === 0 ? "Root" : `${count(links, "link")} away`;
    boxes.append(
      s("text", { class: "tree-heading", x: MARGIN + links * column, y: MARGIN + 8 }, text),
    );
  }
  picture.append(ribbons, boxes);
  return picture;
}

function ribbon(parent: Branch, child: Branch, total: number): SVGPathElement {
  const isBelow = child.x < parent.x + BOX.width;
  const x1 = parent.x + (isBelow ? INDENT / 2 : BOX.width);
  const y1 = parent.y + (isBelow ? BOX.height : BOX.height / 2);
  const y2 = child.y + BOX.height / 2;
  const middle = isBelow ? x1 : (x1 + child.x) / 2;
  const widest = isBelow ? INDENT / 2 : WIDEST;
  const width = Math.max(1.2, (widest * child.total) / Math.max(total, 1e-9));
  return s("path", {
    class: "ribbon",
    d: `M${x1} ${y1} C${middle} ${isBelow ? y2 : y1} ${middle} ${y2} ${child.x} ${y2}`,
    "stroke-width": width,
    stroke: blockedScale.color(0.35 + 0.45 * child.share),
  });
}

function box(branch: Branch, isRoot: boolean, open: (branch: Branch) => void): SVGElement {
  const combined = branch.rest !== "";
  const group = combined ? s("g", { tabindex: 0, role: "button" }) : s("a", { href: branch.href });
  if (combined) {
    group.addEventListener("click", () => open(branch));
    group.addEventListener(
      "keydown",
      (event) => (event as KeyboardEvent).key === "Enter" && open(branch),
    );
  }
  group.setAttribute("class", isRoot ? "tree-box root" : combined ? "tree-box rest" : "tree-box");
  group.append(
    s(
      "title",
      {},
      `${branch.name} ${branch.to}: blocked for ${duration(branch.seconds)}, ${percent(branch.share)} of the time`,
    ),
    s("rect", { x: branch.x, y: branch.y, width: BOX.width, height: BOX.height, rx: 4 }),
    s("rect", {
      class: "tree-share",
      x: branch.x,
      y: branch.y + BOX.height - 4,
      width: Math.max(0, BOX.width * Math.min(1, branch.share)),
      height: 4,
      fill: blockedScale.color(0.35 + 0.5 * branch.share),
    }),
    s("text", { x: branch.x + 8, y: branch.y + 15 }, fit(branch.name, 18)),
    s(
      "text",
      { class: "tree-time", x: branch.x + BOX.width - 8, y: branch.y + 15, "text-anchor": "end" },
      isRoot ? "" : duration(branch.seconds),
    ),
  );
  return group;
}

function fit(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
