//! The overview answers whether the fabric is healthy now. Everything that is wrong is one click
//! from its port.

import type { ErrorRows, SamplerRows, TreeRows } from "../../contract/types";
import type { App, Change } from "../../model/app";
import { Poll } from "../../model/poll";
import type { Topology } from "../../model/topology";
import { h } from "../../parts/dom";
import type { View } from "../../parts/view";
import { Broken } from "./broken";
import { Congestion } from "./congestion";
import { Fullest } from "./fullest";
import { Samplers } from "./samplers";
import { Tiers } from "./tiers";
import { Verdict } from "./verdict";

export function makeOverview(app: App, topology: Topology): View {
  const changed = () => app.notify("values");
  const range = () => app.spanParams;
  const trees = new Poll<TreeRows>(app, "trees", range, changed);
  const errors = new Poll<ErrorRows>(app, "errors", range, changed, 3000);
  const samplers = new Poll<SamplerRows>(app, "samplers", () => ({}), changed);
  const polls = [trees, errors, samplers];

  const verdict = new Verdict(app, topology);
  const congestion = new Congestion(app, topology);
  const fullest = new Fullest(app, topology);
  const broken = new Broken(app);
  const hosts = new Samplers(app);
  const tiers = new Tiers(app, topology);

  const element = h(
    "div",
    { class: "overview" },
    h("h1", { class: "hidden" }, "Overview"),
    verdict.element,
    congestion.element,
    broken.element,
    fullest.element,
    hosts.element,
    tiers.element,
  );
  return {
    element,
    update(changes: ReadonlySet<Change>) {
      for (const poll of polls) poll.refresh();
      verdict.update(trees, errors, samplers);
      congestion.update(trees);
      broken.update(errors, changes);
      hosts.update(samplers);
      // Three paints share the work of a slot. The second one draws the tiers and the timeline.
      requestAnimationFrame(() => {
        tiers.update(changes);
        requestAnimationFrame(() => fullest.update(changes));
      });
    },
    close() {
      for (const poll of polls) poll.close();
      tiers.close();
    },
  };
}
