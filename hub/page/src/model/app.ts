//! The state of the web page: the fabric, the slots, and what the user looks at. Views read it and
//! are notified of changes.

import { getBinary, getJson, nanoseconds } from "../contract/api";
import { codesIn, decodeHeat, type Frame, NO_DATA } from "../contract/frame";
import { type Connection, Live } from "../contract/live";
import type { Health, LiveHello, Metric, TopologyAnswer } from "../contract/types";
import { AlertWatch } from "./alerts";
import { type Column, History, MAX_PARTIAL } from "./history";
import { Pace } from "./pace";
import { BLOCKED, formatState, parseState, type State, UTILIZATION } from "./state";
import { Topology } from "./topology";

/** What changed since the last notification. */
export type Change = "state" | "slot" | "topology" | "connection" | "health" | "values" | "theme";
export type Listener = (changes: ReadonlySet<Change>) => void;

/** Max number of slots that are requested at the start. */
const FIRST_SLOTS = 90;
/** Max number of values in the answer to one request. */
const LARGEST_ANSWER = 12_000_000;
const RETRY = 2000;
/** Age in intervals from which the newest slot is late, and time that a slot may take besides. */
const LATE = 5;
const LATE_MORE = 1000;
/** Time between two requests for the health of the hub, in milliseconds. */
const HEALTH_PERIOD = 30_000;

/** Returns a metric that the hub has not listed. */
function share(name: string): Metric {
  return { name, unit: "share", scale: 1, live: true };
}

/** Metrics until the hub lists them. */
const FALLBACK_METRICS: Metric[] = [share(UTILIZATION), share("rcv_utilization"), share(BLOCKED)];

export class App {
  state: State = parseState(location.hash);
  topology: Topology | null = null;
  health: Health | null = null;
  connection: Connection = "connecting";
  /** Number of the newest slot that is shown; null before the first one. */
  latest: number | null = null;
  /** Number of the newest slot that has arrived, which a slower display shows later. */
  arrived: number | null = null;
  /** Shows the newest slot at the rate that the user chose. */
  readonly pace = new Pace(() => {
    this.latest = this.arrived;
    this.notify("slot");
  });
  /** Length of a slot in milliseconds. */
  interval = 1000;
  /** Last failure of a request that the web page depends on; empty if there is none. */
  failure = "";
  /** Durations of the last updates in milliseconds: script and drawing commands. */
  readonly updateTimes: number[] = [];
  /** For each of the last slots: time from its newest record to its drawing, in milliseconds. */
  readonly delays: number[] = [];
  readonly alerts = new AlertWatch(() => this.notify("values"));
  private newest: number | null = null;

  private histories = new Map<string, History>();
  private aggregates = new Map<string, Uint16Array>();
  /** The last values of each metric, which stay until the hub has answered. */
  private old = new Map<string, Uint16Array>();
  /** Requests for what the page shall show instead of what it shows. */
  private readonly open = new Set<string>();
  private requested = new Set<string>();
  private readonly listeners = new Set<Listener>();
  private readonly lateListeners = new Set<Listener>();
  private readonly changes = new Set<Change>();
  private scheduled = false;
  private wasLost = false;
  private healthTime = 0;
  /** While true, frames are dropped until the topology to which they belong has arrived. */
  private isReloading = false;
  private signature = "";
  private live: Live;
  private subscription: string[];

  constructor() {
    this.subscription = this.wanted();
    this.live = new Live(
      {
        hello: (hello) => this.hello(hello),
        frame: (frame) => this.frame(frame),
        connection: (connection) => this.setConnection(connection),
      },
      this.subscription,
    );
    window.addEventListener("hashchange", () => this.setState(parseState(location.hash)));
  }

  start(): void {
    this.pace.restore();
    this.alerts.start();
    void this.load();
  }

  // --- notifications

  /**
   * Calls `listener` before the next paint after each change. Returns a function that stops this.
   */
  on(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /**
   * Calls `listener` one paint after the listeners of `on`. The values of a slot are drawn first,
   * and no single paint has to wait for all parts of the page.
   */
  onLate(listener: Listener): void {
    this.lateListeners.add(listener);
  }

  notify(change: Change): void {
    this.changes.add(change);
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      const changes = new Set(this.changes);
      this.changes.clear();
      this.call(this.listeners, changes);
      if (this.newest !== null) this.delays.push(Date.now() - this.newest);
      this.newest = null;
      if (this.delays.length > 1000) this.delays.shift();
      requestAnimationFrame(() => this.call(this.lateListeners, changes));
    });
  }

  private call(listeners: ReadonlySet<Listener>, changes: ReadonlySet<Change>): void {
    const start = performance.now();
    for (const listener of [...listeners]) {
      try {
        listener(changes);
      } catch (error) {
        // A view that fails must not stop the others.
        console.error(error);
        this.failure = `the page has an error: ${error}`;
      }
    }
    this.updateTimes.push(performance.now() - start);
    if (this.updateTimes.length > 1000) this.updateTimes.shift();
  }

  // --- what the user looks at

  get metrics(): Metric[] {
    return this.health?.metrics ?? FALLBACK_METRICS;
  }

  metric(name: string): Metric {
    return this.metrics.find((metric) => metric.name === name) ?? share(name);
  }

  get isLive(): boolean {
    return this.state.at === null && this.state.range === null;
  }

  /** Changes the state. `push` adds an entry to the browser history. */
  go(change: Partial<State>, push = false): void {
    const next = { ...this.state, ...change };
    const fragment = formatState(next);
    if (fragment === location.hash) return;
    if (push) history.pushState(null, "", fragment);
    else history.replaceState(null, "", fragment);
    this.setState(next);
  }

  /** Returns the URL of a state that differs from the current one, for links. */
  href(change: Partial<State>): string {
    return formatState({ ...this.state, options: {}, item: "", ...change });
  }

  /** Returns the URL of a device: the page of a switch, or the ports of a host. */
  deviceHref({ guid, kind }: { guid: string; kind: string | null }): string {
    return kind === "switch"
      ? this.href({ view: "switch", item: guid })
      : this.href({ view: "ports", options: { q: guid } });
  }

  option(name: string): string {
    return this.state.options[name] ?? "";
  }

  setOption(name: string, value: string): void {
    this.go({ options: { ...this.state.options, [name]: value } });
  }

  private setState(state: State): void {
    this.state = state;
    const wanted = this.wanted();
    if (wanted.join() !== this.subscription.join()) {
      this.subscription = wanted;
      this.live.subscribe(wanted);
      if (this.topology !== null) void this.fill();
    }
    this.notify("state");
  }

  /**
   * Returns whether frames can have a metric. A URL can contain any text, and the hub rejects a
   * subscription with an unknown name.
   */
  isStreamed(name: string): boolean {
    return this.metrics.some((metric) => metric.name === name && metric.live);
  }

  private wanted(): string[] {
    const metrics = [UTILIZATION, BLOCKED];
    const extra = this.state.metric;
    if (!metrics.includes(extra) && this.isStreamed(extra)) metrics.push(extra);
    return metrics;
  }

  // --- time

  /**
   * Returns the time at which the values of a slot end, in milliseconds since 1970. A slot begins
   * with reading the counters, so its values describe the interval before it.
   */
  timeOf(slot: number): number {
    return slot * this.interval;
  }

  /** Returns the slot whose values end at a time. */
  slotAt(time: number): number {
    return Math.round(time / this.interval);
  }

  /** Returns the age of the newest slot in milliseconds if it is late, else null. */
  get lateness(): number | null {
    if (this.arrived === null) return null;
    const age = Date.now() - this.timeOf(this.arrived);
    return age > LATE * this.interval + LATE_MORE ? age : null;
  }

  /** Whether the page still shows earlier values, because the hub has not answered yet. */
  get isWaiting(): boolean {
    return this.open.size > 0;
  }

  /** Notes that a request for other values is open. The function that it returns ends this. */
  wait(key: string): () => void {
    this.open.add(key);
    this.notify("connection");
    return () => {
      this.open.delete(key);
      this.notify("connection");
    };
  }

  /** Returns the slot that the page shows; null before the first one. */
  get shown(): number | null {
    if (this.state.at !== null) return this.slotAt(this.state.at);
    if (this.state.range !== null) return this.slotAt(this.state.range.to);
    return this.latest;
  }

  /** Returns the time range of lists, in milliseconds since 1970: the selection, or a minute. */
  get span(): { from: number; to: number } | null {
    if (this.state.range !== null) return this.state.range;
    const slot = this.shown;
    if (slot === null) return null;
    const to = this.timeOf(slot);
    return { from: to - 60_000, to };
  }

  /** Returns the parameters `from` and `to` of a request for the shown range. */
  get spanParams(): { from?: string; to?: string } {
    const span = this.span;
    // Without the parameters, the hub computes its last minute once for all clients.
    return span === null || this.isLive
      ? {}
      : { from: nanoseconds(span.from), to: nanoseconds(span.to) };
  }

  pause(): void {
    if (this.isLive && this.latest !== null) this.go({ at: this.timeOf(this.latest) });
  }

  resume(): void {
    this.go({ at: null, range: null });
  }

  /** Moves by some slots. A step past the newest slot returns to live. */
  step(slots: number): void {
    const shown = this.shown;
    if (shown === null || this.latest === null) return;
    const slot = shown + slots;
    if (slot >= this.latest && !this.isLive && slots > 0) this.resume();
    else this.go({ at: this.timeOf(Math.min(slot, this.latest)), range: null });
  }

  // --- values

  /**
   * Returns the codes of all ports for what the page shows: a slot, or the max over the selected
   * range. Null means that they are missing. If the hub may have them, they are requested, the
   * last values stay meanwhile, and a `values` change follows.
   */
  values(metric: string): Uint16Array | null {
    const values = this.state.range === null ? this.slot(metric) : this.largest(metric);
    if (values === undefined) return this.old.get(metric) ?? null;
    if (values !== null) this.old.set(metric, values);
    return values;
  }

  /** Returns the codes of the shown slot; undefined while they are requested. */
  private slot(metric: string): Uint16Array | null | undefined {
    const slot = this.shown;
    if (slot === null) return null;
    const column = this.histories.get(metric)?.get(slot);
    if (column !== undefined) return column.values;
    if (this.state.at === null) return null;
    const key = `${metric} ${Math.floor((slot - 30) / 30)}`;
    void this.request(key, metric, slot - 30, slot + 30);
    return this.open.has(key) ? undefined : null;
  }

  /**
   * Returns the newest slot that all samplers have ended. If that one is too old, returns the
   * newest slot.
   */
  newestWhole(metric: string): Column | undefined {
    const history = this.histories.get(metric);
    if (history === undefined || this.latest === null) return undefined;
    return history.whole(this.latest, MAX_PARTIAL) ?? history.get(this.latest);
  }

  /** Returns one code of a port over the last slots up to the shown one. */
  trace(metric: string, port: number, count: number): Uint16Array {
    const history = this.histories.get(metric);
    const slot = this.shown;
    if (history === undefined || slot === null) return new Uint16Array(count).fill(NO_DATA);
    return history.trace(port, slot, count, NO_DATA);
  }

  history(metric: string): History | undefined {
    return this.histories.get(metric);
  }

  /**
   * Returns the max of each port over the selected range; undefined until the hub has answered.
   */
  private largest(metric: string): Uint16Array | null | undefined {
    const range = this.state.range;
    if (range === null) return null;
    const key = `${metric} ${range.from} ${range.to}`;
    const found = this.aggregates.get(key);
    if (found !== undefined) return found;
    if (this.requested.has(key)) return undefined;
    this.requested.add(key);
    const done = this.wait(key);
    const from = Math.floor(range.from / this.interval) * this.interval;
    const step = Math.max(1, Math.ceil((range.to - from) / this.interval)) * this.interval;
    this.matrix(metric, from, from + step, step, "max")
      .then((heat) => {
        if (this.aggregates.size > 40) this.aggregates.clear();
        const none = () => new Uint16Array(heat.rows).fill(NO_DATA);
        this.aggregates.set(key, heat.columns.length > 0 ? codesIn(heat.columns[0]) : none());
        this.requested.delete(key);
        this.notify("values");
      })
      .catch((error: unknown) => {
        this.fail(error);
        window.setTimeout(() => this.requested.delete(key), RETRY);
      })
      .finally(done);
    return undefined;
  }

  /** Requests a matrix of all ports. Times are milliseconds since 1970. */
  async matrix(
    metric: string,
    from: number,
    to: number,
    step: number,
    agg: string,
    signal?: AbortSignal,
  ) {
    const params = {
      metric,
      by: "port",
      agg,
      from: nanoseconds(from),
      to: nanoseconds(to),
      step: nanoseconds(step),
    };
    return decodeHeat(await getBinary("heat", params, signal));
  }

  /** Requests slots that are missing. */
  private async request(key: string, metric: string, from: number, to: number): Promise<void> {
    if (this.requested.has(key) || this.topology === null) return;
    this.requested.add(key);
    const done = this.wait(key);
    try {
      await this.fetchSlots(metric, from, Math.min(to, this.arrived ?? to));
      this.notify("values");
    } catch (error) {
      this.fail(error);
    } finally {
      done();
      window.setTimeout(() => this.requested.delete(key), RETRY);
    }
  }

  private async fetchSlots(metric: string, from: number, to: number): Promise<void> {
    const topology = this.topology;
    if (topology === null || to < from) return;
    const heat = await this.matrix(
      metric,
      this.timeOf(from - 1),
      this.timeOf(to),
      this.interval,
      "max",
    );
    if (heat.generation !== topology.generation || this.topology !== topology) return;
    const store = this.store(metric, topology);
    heat.columns.forEach((values, index) => {
      const slot = this.slotAt(heat.from + (index + 1) * heat.step);
      store.fill(slot, this.timeOf(slot), codesIn(values), this.arrived ?? slot);
    });
  }

  private store(metric: string, topology: Topology): History {
    let store = this.histories.get(metric);
    if (store === undefined) {
      store = new History(topology.ports.length);
      this.histories.set(metric, store);
    }
    return store;
  }

  // --- messages of the hub

  private async load(): Promise<void> {
    try {
      this.health = await getJson<Health>("health");
      this.healthTime = performance.now();
      this.interval = this.health.interval_ns / 1e6 || 1000;
      this.arrived = this.health.last_slot || this.arrived;
      this.latest = this.arrived;
      await this.loadTopology();
      this.failure = "";
      this.live.open();
      await this.fill();
    } catch (error) {
      this.fail(error);
      this.setConnection("lost");
      window.setTimeout(() => void this.load(), RETRY);
    }
  }

  private async loadTopology(): Promise<void> {
    this.isReloading = true;
    try {
      const answer = await getJson<TopologyAnswer>("topology");
      const signature = signatureOf(answer);
      if (signature === this.signature) return;
      this.signature = signature;
      this.topology = new Topology(answer);
    } finally {
      this.isReloading = false;
    }
    this.histories = new Map();
    this.aggregates = new Map();
    this.old = new Map();
    this.notify("topology");
    this.notify("health");
  }

  /** Requests the recent slots of all metrics that have none. */
  private async fill(): Promise<void> {
    const topology = this.topology;
    if (topology === null || this.arrived === null) return;
    const most = Math.floor(LARGEST_ANSWER / Math.max(1, topology.ports.length));
    const slots = Math.max(10, Math.min(FIRST_SLOTS, most));
    for (const metric of this.subscription) {
      if ((this.histories.get(metric)?.size ?? 0) >= slots) continue;
      try {
        await this.fetchSlots(metric, this.arrived - slots + 1, this.arrived);
        this.notify("values");
      } catch (error) {
        this.fail(error);
      }
    }
  }

  private hello(hello: LiveHello): void {
    this.interval = hello.interval_ns / 1e6 || this.interval;
    this.subscription = hello.metrics;
    // A restarted hub counts generations from the start, so an equal number proves nothing.
    if (this.wasLost || hello.generation !== this.topology?.generation) {
      this.wasLost = false;
      void this.loadTopology()
        .then(() => this.fill())
        .catch((error: unknown) => this.fail(error));
    }
  }

  /** Requests the slots that were missed while the connection was lost or slow. */
  private async fillGap(first: number, last: number): Promise<void> {
    for (const metric of this.subscription) {
      await this.fetchSlots(metric, Math.max(first, last - FIRST_SLOTS), last).catch(
        (error: unknown) => this.fail(error),
      );
    }
    this.notify("values");
  }

  private frame(frame: Frame): void {
    const topology = this.topology;
    if (topology === null || this.isReloading) return;
    const ports = topology.ports.length;
    if (frame.generation !== topology.generation || frame.values[0]?.length !== ports) return;
    frame.values.forEach((values, index) => {
      const metric = this.subscription[index];
      if (metric !== undefined)
        this.store(metric, topology).set(frame.slot, frame.time, values, frame.partial);
    });
    if (this.arrived === null || frame.slot >= this.arrived) {
      if (this.arrived !== null && frame.slot > this.arrived + 1)
        void this.fillGap(this.arrived + 1, frame.slot - 1);
      this.arrived = frame.slot;
    }
    this.failure = "";
    this.pace.arrive();
    if (this.latest !== this.arrived) this.notify("values");
    else if (frame.slot === this.latest && !frame.partial) this.newest = frame.time;
    if (performance.now() - this.healthTime > HEALTH_PERIOD) void this.loadHealth();
  }

  private async loadHealth(): Promise<void> {
    this.healthTime = performance.now();
    try {
      this.health = await getJson<Health>("health");
      this.notify("health");
    } catch (error) {
      this.fail(error);
    }
  }

  private setConnection(connection: Connection): void {
    if (connection === this.connection) return;
    this.connection = connection;
    if (connection === "lost") this.wasLost = true;
    this.notify("connection");
  }

  private fail(error: unknown): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    this.failure = error instanceof Error ? error.message : String(error);
    this.notify("connection");
  }
}

/** Returns a string that differs between topologies with different ports, order or links. */
function signatureOf({ generation, ports }: TopologyAnswer): string {
  const port = ({ guid, port: number, node, peer, link }: TopologyAnswer["ports"][number]) =>
    `${guid}/${number} ${node} ${peer} ${link}`;
  return `${generation}\n${ports.map(port).join("\n")}`;
}
