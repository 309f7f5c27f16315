//! One congestion tree: the root at the left, the ports that wait for it at the right. The width of
//! a branch is the time that its ports waited.

import type { Rows, TreeRow, VictimRow } from "../contract/types";
import { blockedScale } from "../draw/scale";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { portKey, type Topology } from "../model/topology";
import { count, duration, percent } from "../model/units";
import { h, s, setText } from "../parts/dom";
import { legend } from "../parts/meter";
import { CAUSES } from "./overview/congestion";
import type { View } from "./view";

/** Branches of one port that are drawn; the others are one branch. */
const MOST_BRANCHES = 10;
const ROW = 30;
const BOX = { width: 190, height: 24 };
const COLUMN = 300;
const MARGIN = 14;
const WIDEST = 22;

interface Branch {
  name: string;
  to: string;
  href: string;
  share: number;
  seconds: number;
  children: Branch[];
  /** Sum of the waiting times of the branch and of all branches behind it, in seconds. */
  total: number;
  x: number;
  y: number;
}

export function makeTree(app: App, topology: Topology): View {
  const key = app.state.item;
  const poll = new Poll<Rows<TreeRow>>(app, "trees", () => app.spanParams, () => app.notify("values"));
  const title = h("h1", {}, "Congestion tree");
  const text = h("p", { class: "tree-text", role: "status" });
  const picture = h("div", { class: "tree panel" });
  const links = h("span", { class: "toolbar-links" });
  let drawn: TreeRow | null = null;

  function show(row: TreeRow): void {
    drawn = row;
    setText(title, `Congestion at ${row.root.node} / ${row.root.port}`);
    const victims = row.host_ports + row.switch_ports;
    setText(
      text,
      `The cause: ${CAUSES[row.why] ?? row.why}. The port ${row.to === null ? "" : `to ${row.to.node} / ${row.to.port} `}used ${percent(row.xmit_utilization)} of the link and was blocked for ${percent(row.blocked)} of the time. ${count(victims, "port")} waited, ${count(row.host_ports, "host port")} of them. Duration: ${duration(row.seconds)}. Lost: ${duration(row.held_up_seconds)} in all.`,
    );
    picture.replaceChildren(draw(app, topology, row));
    links.replaceChildren(
      h("a", { class: "action", href: app.href({ view: "port", item: key }) }, "Open the port"),
      h("a", { class: "action", href: app.href({ view: "map", metric: "xmit_blocked" }) }, "Show on the map"),
    );
  }

  return {
    element: h("div", { class: "tree-page" }, h("div", { class: "toolbar" }, title, h("span", { class: "space" }), links), text, picture, h("div", { class: "foot" }, legend("blocked", false), h("span", { class: "muted" }, "The width of a branch is the time that its ports waited."))),
    update() {
      poll.refresh();
      const row = poll.answer?.rows.find(({ root }) => portKey(root.guid, root.port) === key);
      if (row !== undefined) {
        if (row !== drawn) show(row);
      } else if (poll.answer !== null) {
        setText(text, drawn === null ? "This port is not the root of a congestion tree at this time." : "The congestion has ended. The picture shows its last state.");
        if (drawn === null) links.replaceChildren(h("a", { class: "action", href: app.href({ view: "port", item: key }) }, "Open the port"));
      } else setText(text, poll.error || "Waiting for the hub…");
    },
    close() {
      poll.close();
    },
  };
}

/** Builds the branches from the list of the ports that wait. */
function branchesOf(app: App, topology: Topology, tree: TreeRow): Branch {
  const behind = new Map<string, VictimRow[]>();
  for (const victim of tree.victims) {
    const next = portKey(victim.waits_for.guid, victim.waits_for.port);
    const list = behind.get(next);
    if (list === undefined) behind.set(next, [victim]);
    else list.push(victim);
  }
  const seen = new Set<string>();
  const grow = (guid: string, port: number, branch: Branch): Branch => {
    const key = portKey(guid, port);
    if (seen.has(key)) return branch;
    seen.add(key);
    const victims = [...(behind.get(key) ?? [])].sort((x, y) => y.blocked_seconds - x.blocked_seconds);
    const children = victims.map((victim) => grow(victim.guid, victim.port, branchOf(app, topology, victim)));
    branch.total = branch.seconds + children.reduce((sum, child) => sum + child.total, 0);
    children.sort((x, y) => y.total - x.total);
    branch.children = children.slice(0, MOST_BRANCHES);
    const rest = children.slice(MOST_BRANCHES);
    if (rest.length > 0) branch.children.push(restOf(rest));
    return branch;
  };
  const root: Branch = {
    name: `${tree.root.node} / ${tree.root.port}`,
    to: tree.to === null ? "" : `→ ${tree.to.node} / ${tree.to.port}`,
    href: app.href({ view: "port", item: portKey(tree.root.guid, tree.root.port) }),
    share: tree.blocked,
    seconds: 0,
    children: [],
    total: 0,
    x: 0,
    y: 0,
  };
  return grow(tree.root.guid, tree.root.port, root);
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
    total: victim.blocked_seconds,
    x: 0,
    y: 0,
  };
}

function restOf(branches: Branch[]): Branch {
  const total = branches.reduce((sum, branch) => sum + branch.total, 0);
  const seconds = branches.reduce((sum, branch) => sum + branch.seconds, 0);
  const mean = branches.reduce((sum, branch) => sum + branch.share, 0) / branches.length;
  return { name: `${count(branches.length, "more port")}`, to: "", href: "", share: mean, seconds, children: [], total, x: 0, y: 0 };
}

/** Places leaves one below the other, and each branch at the middle of its children. */
function place(branch: Branch, depth: number, top: { y: number }): number {
  branch.x = MARGIN + depth * COLUMN;
  if (branch.children.length === 0) {
    branch.y = top.y;
    top.y += ROW;
    return depth;
  }
  const depths = branch.children.map((child) => place(child, depth + 1, top));
  branch.y = (branch.children[0].y + branch.children[branch.children.length - 1].y) / 2;
  return Math.max(...depths);
}

function draw(app: App, topology: Topology, tree: TreeRow): SVGSVGElement {
  const root = branchesOf(app, topology, tree);
  const top = { y: MARGIN };
  const depth = place(root, 0, top);
  const width = 2 * MARGIN + depth * COLUMN + BOX.width + 90;
  const picture = s("svg", { width, height: Math.max(top.y + MARGIN, 80), role: "group", "aria-label": `Congestion tree of ${root.name}` });
  const ribbons = s("g", {});
  const boxes = s("g", {});
  const visit = (branch: Branch) => {
    for (const child of branch.children) {
      ribbons.append(ribbon(branch, child, root.total));
      visit(child);
    }
    boxes.append(box(branch, branch === root));
  };
  visit(root);
  picture.append(ribbons, boxes);
  return picture;
}

function ribbon(parent: Branch, child: Branch, total: number): SVGPathElement {
  const x1 = parent.x + BOX.width;
  const y1 = parent.y + BOX.height / 2;
  const y2 = child.y + BOX.height / 2;
  const middle = (x1 + child.x) / 2;
  const width = Math.max(1.2, (WIDEST * child.total) / Math.max(total, 1e-9));
  return s("path", { class: "ribbon", d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${child.x} ${y2}`, "stroke-width": width, stroke: blockedScale.color(0.35 + 0.45 * child.share) });
}

function box(branch: Branch, isRoot: boolean): SVGElement {
  const group = branch.href === "" ? s("g", {}) : s("a", { href: branch.href });
  group.setAttribute("class", isRoot ? "tree-box root" : "tree-box");
  group.append(
    s("title", {}, `${branch.name} ${branch.to}: blocked for ${duration(branch.seconds)}, ${percent(branch.share)} of the time`),
    s("rect", { x: branch.x, y: branch.y, width: BOX.width, height: BOX.height, rx: 4 }),
    s("rect", { class: "tree-share", x: branch.x, y: branch.y + BOX.height - 4, width: Math.max(0, BOX.width * Math.min(1, branch.share)), height: 4, fill: blockedScale.color(0.35 + 0.5 * branch.share) }),
    s("text", { x: branch.x + 8, y: branch.y + 15 }, fit(branch.name, 26)),
    s("text", { class: "tree-time", x: branch.x + BOX.width + 8, y: branch.y + 15 }, isRoot ? "" : duration(branch.seconds)),
  );
  return group;
}

function fit(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
