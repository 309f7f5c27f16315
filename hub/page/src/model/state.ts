//! What the user looks at. All of it is in the URL fragment, so a link opens the same view.

import { durationOf } from "./shift";

export const VIEWS = [
  "overview",
  "map",
  "heatmap",
  "links",
  "ports",
  "health",
  "jobs",
  "groups",
  "events",
  "samplers",
  "alerts",
] as const;
export type ViewName = (typeof VIEWS)[number] | "port" | "switch" | "tree" | "job";

export interface State {
  view: ViewName;
  /**
   * Item that the view shows: a port key, the GUID of a switch, a job ID, or the name of a group. Empty if the view
   * has none.
   */
  item: string;
  /** Metric of pictures. */
  metric: string;
  /** Time at which the page is paused, in milliseconds since 1970; null if it is live. */
  at: number | null;
  /** Selected time range, milliseconds since 1970. */
  range: { from: number; to: number } | null;
  /** How much earlier the time is with which the page compares, such as `36h`; empty if it does not. */
  shift: string;
  /** Settings of the view, such as its filter and its order. */
  options: Record<string, string>;
}

export const UTILIZATION = "xmit_utilization";
export const BLOCKED = "xmit_blocked";

export function initialState(): State {
  return {
    view: "overview",
    item: "",
    metric: UTILIZATION,
    at: null,
    range: null,
    shift: "",
    options: {},
  };
}

/** Reads the fragment of a URL. Unknown parts are ignored. */
export function parseState(fragment: string): State {
  const state = initialState();
  const [path, query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const [view, ...item] = path.split("/");
  if (isView(view)) state.view = view;
  state.item = decode(item.join("/"));
  const parameters = new URLSearchParams(query);
  for (const [name, value] of parameters) {
    if (name === "metric") state.metric = value;
    else if (name === "at") state.at = parseTime(value);
    else if (name === "shift") state.shift = durationOf(value) > 0 ? value : "";
    else if (name !== "from" && name !== "to") state.options[name] = value;
  }
  const from = parseTime(parameters.get("from"));
  const to = parseTime(parameters.get("to"));
  if (from !== null && to !== null && from < to) state.range = { from, to };
  return state;
}

/** Returns the view name in a URL fragment if no such view exists, else null. */
export function unknownView(fragment: string): string | null {
  const name = fragment.replace(/^#?\/?/, "").split(/[/?]/, 1)[0];
  return name === "" || isView(name) ? null : decode(name);
}

/** Writes the fragment of a URL. Defaults are left out. */
export function formatState(state: State): string {
  const query = new URLSearchParams();
  if (state.metric !== UTILIZATION) query.set("metric", state.metric);
  if (state.at !== null) query.set("at", new Date(state.at).toISOString());
  if (state.range !== null) {
    query.set("from", new Date(state.range.from).toISOString());
    query.set("to", new Date(state.range.to).toISOString());
  }
  if (state.shift !== "") query.set("shift", state.shift);
  for (const name of Object.keys(state.options).sort()) {
    if (state.options[name] !== "") query.set(name, state.options[name]);
  }
  const item =
    state.item === "" ? "" : `/${state.item.split("/").map(encodeURIComponent).join("/")}`;
  const text = query.toString().replaceAll("%3A", ":").replaceAll("%2F", "/");
  return `#/${state.view}${item}${text === "" ? "" : `?${text}`}`;
}

function isView(name: string): name is ViewName {
  return ([...VIEWS, "port", "switch", "tree", "job"] as string[]).includes(name);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseTime(text: string | null): number | null {
  if (text === null) return null;
  const time = Date.parse(text);
  return Number.isNaN(time) ? null : time;
}
