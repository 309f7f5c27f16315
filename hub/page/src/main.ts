//! Starts the web page.

import { applyTheme } from "./draw/theme";
import { App, type Change } from "./model/app";
import type { ViewName } from "./model/state";
import type { Topology } from "./model/topology";
import { h } from "./parts/dom";
import { Shell } from "./parts/shell";
import type { MakeView, View } from "./parts/view";
import { makeAlerts } from "./views/alerts";
import { makeEvents } from "./views/events";
import { makeGroups } from "./views/groups";
import { makeHealth } from "./views/health";
import { makeHeatmap } from "./views/heatmap";
import { makeJob } from "./views/job";
import { makeJobs } from "./views/jobs";
import { makeLinks } from "./views/links";
import { makeMap } from "./views/map";
import { makeOverview } from "./views/overview";
import { makePort } from "./views/port";
import { makePorts } from "./views/ports";
import { makeSamplers } from "./views/samplers";
import { makeSwitch } from "./views/switch";
import { makeTree } from "./views/tree";

const MAKERS: Record<ViewName, MakeView> = {
  overview: makeOverview,
  map: makeMap,
  heatmap: makeHeatmap,
  links: makeLinks,
  ports: makePorts,
  health: makeHealth,
  port: makePort,
  switch: makeSwitch,
  tree: makeTree,
  jobs: makeJobs,
  job: makeJob,
  groups: makeGroups,
  events: makeEvents,
  samplers: makeSamplers,
  alerts: makeAlerts,
};

const ALL: ReadonlySet<Change> = new Set([
  "state",
  "slot",
  "topology",
  "connection",
  "health",
  "values",
  "theme",
]);

applyTheme();
const app = new App();
const shell = new Shell(app);
shell.main.append(h("p", { class: "loading", role: "status" }, "Connecting to the hub…"));

let view: View | null = null;
let shown: { view: ViewName; item: string; shift: string; topology: Topology } | null = null;

app.on((changes) => {
  const topology = app.topology;
  if (topology === null) return;
  const { state } = app;
  if (
    shown === null ||
    shown.view !== state.view ||
    shown.item !== state.item ||
    shown.shift !== state.shift ||
    shown.topology !== topology ||
    // The colours of the theme are in pictures, legends and charts.
    changes.has("theme")
  ) {
    const isSame = shown?.view === state.view && shown.item === state.item;
    const zoomed = isSame ? view?.zoomed : undefined;
    view?.close();
    shown = { view: state.view, item: state.item, shift: state.shift, topology };
    view = MAKERS[state.view](app, topology);
    shell.show(view);
    view.update(ALL);
    if (zoomed !== undefined) view.zoomed = zoomed;
  } else if (view?.isPrompt || [...changes].some((change) => change !== "frame"))
    view?.update(changes);
});

// Update times, for the browser tests and for `docs/inside/performance.md`.
Object.assign(window, { ibnet: { updateTimes: app.updateTimes, delays: app.delays } });
app.start();
