//! The hosts selected in a picture: those of a job, or those of a group.

import type { GroupRows, JobRows } from "../contract/types";
import type { App } from "../model/app";
import { hostsOfGroup } from "../model/group";
import { hostsOfJob } from "../model/job";
import { Poll } from "../model/poll";
import { count } from "../model/units";
import { h, setText } from "../parts/dom";
import { chip } from "./panel";

/** The URL options `job` and `group`, with their hosts and controls. */
export class Selection {
  /** Names of the selected hosts in lower case. Empty without a selection. */
  hosts: ReadonlySet<string> = new Set();
  /** A string that differs between sets of hosts. */
  key = "";
  readonly elements: HTMLElement[];
  private readonly jobs: Poll<JobRows>;
  private readonly groups: Poll<GroupRows>;
  private readonly job: HTMLElement;
  private readonly group: HTMLSelectElement;
  private listed = "";

  constructor(private readonly app: App) {
    this.jobs = new Poll(
      app,
      "jobs",
      () => (app.option("job") === "" ? null : { job: app.option("job") }),
      () => app.notify("values"),
      10_000,
    );
    this.groups = new Poll(
      app,
      "groups",
      () => ({}),
      () => app.notify("values"),
      60_000,
    );
    this.job = chip(() => app.setOption("job", ""));
    this.group = h("select", {
      "aria-label": "Group of hosts",
      hidden: true,
      on: { change: () => this.choose(this.group.value) },
    });
    this.elements = [this.group, this.job];
  }

  /** Requests what is selected, and shows it. */
  update(): void {
    this.jobs.refresh();
    this.groups.refresh();
    const [job, group] = [this.app.option("job"), this.app.option("group")];
    const ofJob = hostsOfJob(job === "" ? null : this.jobs.answer);
    const ofGroup = hostsOfGroup(group === "" ? null : this.groups.answer, group);
    this.hosts = new Set([...ofJob, ...ofGroup]);
    this.key = [job, group, ...this.hosts].join();
    this.job.hidden = job === "";
    setText(
      this.job.firstElementChild!,
      this.jobs.error || `Job ${job}: ${count(ofJob.size, "node")}`,
    );
    this.showGroups(group);
  }

  close(): void {
    this.jobs.close();
    this.groups.close();
  }

  private choose(group: string): void {
    this.app.go({ options: { ...this.app.state.options, group, job: "" } });
  }

  private showGroups(group: string): void {
    const rows = this.groups.answer?.rows ?? [];
    const why = this.groups.error || (this.groups.answer === null ? "waiting" : "not known");
    const known = rows.some((row) => row.group === group);
    const options = [
      ["", "All hosts"],
      ...rows.map((row) => [row.group, `Group ${row.group}: ${count(row.nodes.length, "host")}`]),
      ...(group === "" || known ? [] : [[group, `Group ${group}: ${why}`]]),
    ];
    const listed = JSON.stringify(options);
    if (listed !== this.listed) {
      this.listed = listed;
      this.group.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    }
    this.group.hidden = options.length === 1;
    this.group.value = group;
  }
}
