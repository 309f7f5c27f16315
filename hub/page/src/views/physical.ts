//! The physical layer of a port: bit errors, error correction, lanes, module, and its switch.

import type { ErrorRatio, PhysicalDetail, PhysicalPage, Plane } from "../contract/types";
import { zoom } from "../draw/theme";
import type { App } from "../model/app";
import { Poll } from "../model/poll";
import { ratioText, significantRatio } from "../model/ratio";
import { count, dateTime, duration, grouped, scaled, significant } from "../model/units";
import { Chart, type Curve } from "../parts/chart";
import { h, setText } from "../parts/dom";
import { type Column, Table } from "../parts/table";
import { panel } from "./panel";
import { isFault, verdictSentence } from "./verdict";

/** Time between two requests: the samplers read bit errors each ten seconds at most. */
const PERIOD = 5000;
const HOUR = 3_600_000;

type Facts = [name: string, value: string][];
type Pages = Map<string, PhysicalPage>;

interface Lane {
  lane: number;
  errors: number | null;
  ratio: number | null;
  received: number | null;
  sent: number | null;
  bias: number | null;
}

const RATIO_NAMES: Record<ErrorRatio["ratio"], string> = {
  raw: "Before FEC",
  effective: "After FEC",
  symbol: "After PLR",
};

const RATIO_COLUMNS: Column<ErrorRatio>[] = [
  {
    id: "ratio",
    line: 1,
    title: "Bit errors",
    hint: "Before error correction (FEC), after it, and after retransmission (PLR) too",
    width: "minmax(78px, 0.6fr)",
    value: ({ ratio }) => Object.keys(RATIO_NAMES).indexOf(ratio),
    saved: ({ ratio }) => RATIO_NAMES[ratio],
    text: ({ ratio }) => RATIO_NAMES[ratio],
  },
  {
    id: "measured",
    line: 2,
    title: "Measured",
    hint: "Wrong bits divided by received bits, by differences of the counters",
    width: "minmax(74px, 0.6fr)",
    value: ({ measured }) => measured?.ratio ?? null,
    text: ({ measured }) => ratioText(measured?.ratio),
  },
  {
    id: "interval",
    line: 2,
    title: "95 % interval",
    width: "minmax(144px, 1.2fr)",
    value: ({ measured }) => measured?.lower ?? null,
    saved: ({ measured }) => (measured === null ? null : `${measured.lower} to ${measured.upper}`),
    text: ({ measured }) =>
      measured === null
        ? "–"
        : `${significantRatio(measured.lower)} to ${significantRatio(measured.upper)}`,
  },
  {
    id: "errors",
    line: 1,
    title: "Wrong bits",
    hint: "Wrong bits in the time of the measurement",
    end: true,
    width: "minmax(100px, 0.8fr)",
    value: ({ measured }) => measured?.errors ?? null,
    text: ({ measured }) => (measured === null ? "–" : grouped(measured.errors)),
  },
  {
    id: "device",
    line: 1,
    title: "Device",
    hint: "The ratio that the firmware computes, with one digit",
    end: true,
    width: "minmax(66px, 0.6fr)",
    value: ({ of_device }) => of_device,
    text: ({ of_device }) => ratioText(of_device),
  },
];

function laneColumn(
  id: keyof Lane,
  title: string,
  hint: string,
  text: (value: number) => string,
  line: 1 | 2,
  unit = "",
): Column<Lane> {
  return {
    id,
    line,
    title,
    hint,
    end: true,
    width: id === "errors" ? "minmax(100px, 1.2fr)" : "minmax(72px, 1fr)",
    value: (lane) => lane[id],
    // The hub has millionths of these units.
    saved: unit === "" ? undefined : (lane) => (lane[id] === null ? null : lane[id] / 1e6),
    unit,
    text: (lane) => {
      const value = lane[id];
      return value === null ? "–" : text(value);
    },
  };
}

const LANE_COLUMNS: Column<Lane>[] = [
  {
    id: "lane",
    line: 1,
    title: "Lane",
    width: "44px",
    value: ({ lane }) => lane,
    text: ({ lane }) => String(lane),
  },
  laneColumn("errors", "Wrong bits", "Since the counters were cleared", grouped, 1),
  laneColumn("ratio", "Ratio", "Of the device, with one digit", ratioText, 1),
  laneColumn("received", "Received", "Received light power", power, 2, "W"),
  laneColumn("sent", "Sent", "Sent light power", power, 2, "W"),
  laneColumn(
    "bias",
    "Bias",
    "Bias current of the laser",
    (value) => `${significant(value / 1000)} mA`,
    2,
    "A",
  ),
];

function planeColumn(id: "xmit_gbps" | "rcv_gbps", title: string, hint: string): Column<Plane> {
  return {
    id,
    line: 2,
    title,
    hint,
    end: true,
    width: "minmax(78px, 0.6fr)",
    value: (plane) => plane[id],
    text: (plane) => {
      const gbps = plane[id];
      return gbps === null ? "–" : scaled(gbps * 1e9, "bit/s");
    },
  };
}

const PLANE_COLUMNS: Column<Plane>[] = [
  {
    id: "plane",
    line: 1,
    title: "Plane",
    width: "52px",
    value: ({ plane }) => plane,
    text: ({ plane }) => String(plane),
  },
  {
    id: "state",
    line: 1,
    title: "State",
    hint: "As the device reports it: 3 and 5 are up. Not seen on hardware",
    width: "minmax(84px, 0.6fr)",
    value: ({ state }) => state,
    draw: (cell, { state, is_up }) => {
      const word = is_up ? "up" : "down";
      setText(cell, state === null ? "not read" : `${word} (${state})`);
      cell.classList.toggle("alert-text", is_up === false);
    },
  },
  planeColumn("xmit_gbps", "Sent", "Mean between the last two readings"),
  planeColumn("rcv_gbps", "Received", "Mean between the last two readings"),
  {
    id: "finding",
    line: 3,
    title: "Finding",
    hint: "Down while another plane is up; or at least 10 % less than the others over 60 s, above 5 % use",
    width: "minmax(150px, 2fr)",
    value: ({ finding }) => finding,
    draw: (cell, { finding }) => {
      setText(cell, finding ?? "–");
      cell.classList.toggle("alert-text", finding !== null);
    },
  },
];

/** Formats light power in decibels over a milliwatt. */
function power(microwatts: number): string {
  if (microwatts === 0) return "none";
  return `${(10 * Math.log10(microwatts / 1000)).toFixed(1).replace("-", "−")} dBm`;
}

function celsius(value: number): string {
  return `${value.toFixed(1).replace("-", "−")}\u00a0°C`;
}

/** The section of the view of a port. */
export class PhysicalSection {
  readonly element: HTMLElement;
  private readonly poll: Poll<PhysicalDetail>;
  private readonly note: HTMLElement;
  private readonly missing = h("p", { class: "empty", role: "status" });
  /** The verdict, for the top of the page. */
  readonly verdict = h("p", { class: "physical-verdict", role: "status" });
  private readonly ratios: Table<ErrorRatio>;
  private readonly lanes: Table<Lane>;
  private readonly planes: Table<Plane>;
  private readonly charts: { ratio: Chart; temperature: Chart };
  private readonly chartBox: HTMLElement;
  private readonly cards = h("div", { class: "physical-cards" });
  private readonly all = h(
    "details",
    { class: "physical-all" },
    h("summary", {}, "All values of the registers"),
  );
  private shown: PhysicalDetail | null = null;

  constructor(
    private readonly app: App,
    key: string,
    select: (from: number, to: number) => void,
  ) {
    const changed = () => app.notify("values");
    this.poll = new Poll(app, `port/${key}/physical`, () => ({}), changed, PERIOD);
    this.ratios = new Table({
      label: "Bit error ratios",
      columns: [...RATIO_COLUMNS],
      key: ({ ratio }) => ratio,
      sort: "ratio",
      descending: false,
      empty: "Bit errors were not read.",
    });
    this.lanes = new Table({
      label: "Lanes",
      columns: [...LANE_COLUMNS],
      key: ({ lane }) => String(lane),
      sort: "lane",
      descending: false,
      empty: "No value of a lane was read.",
    });
    this.planes = new Table({
      label: "Planes",
      columns: [...PLANE_COLUMNS],
      key: ({ plane }) => String(plane),
      sort: "plane",
      descending: false,
      empty: "The port has no planes.",
    });
    this.planes.element.classList.add("physical-planes");
    const chart = (title: string, unit: string, scale: "log" | "near") =>
      new Chart({ title, unit, scale, height: 170 * zoom(), select });
    this.charts = {
      ratio: chart("Bit error ratio of the received bits", "", "log"),
      temperature: chart("Temperature of the module", "°C", "near"),
    };
    this.chartBox = h(
      "div",
      { class: "physical-charts" },
      this.charts.ratio.element,
      this.charts.temperature.element,
    );
    const { element, body, note } = panel("Physical layer", "physical");
    this.element = element;
    this.note = note;
    body.append(
      this.missing,
      h(
        "div",
        { class: "physical-tables" },
        this.ratios.element,
        this.lanes.element,
        this.planes.element,
      ),
      this.chartBox,
      this.cards,
      this.all,
    );
  }

  update(): void {
    this.poll.refresh();
    const { answer, error } = this.poll;
    if (answer === null) {
      this.show([], []);
      setText(this.missing, error || "Waiting for the hub…");
      return;
    }
    if (answer !== this.shown) {
      this.shown = answer;
      this.draw(answer);
    }
    this.drawCharts(answer);
  }

  close(): void {
    this.poll.close();
    this.ratios.close();
    this.lanes.close();
    this.planes.close();
    for (const chart of Object.values(this.charts)) chart.close();
  }

  /** Shows only what was read. */
  private show(pages: PhysicalPage[], planes: Plane[]): void {
    const has = (...names: string[]) => pages.some(({ page }) => names.includes(page));
    this.ratios.element.hidden = !has("ber");
    this.planes.element.hidden = planes.length === 0;
    this.lanes.element.hidden = !has("ber", "module");
    this.charts.ratio.element.hidden = !has("ber");
    this.charts.temperature.element.hidden = !has("module");
    this.chartBox.hidden = !has("ber", "module");
    this.all.hidden = pages.length === 0;
  }

  private draw(answer: PhysicalDetail): void {
    const pages: Pages = new Map(answer.pages.map((page) => [page.page, page]));
    this.show(answer.pages, answer.planes);
    setText(this.missing, answer.pages.length === 0 ? physicalReason(answer) : "");
    const newest = Math.max(0, ...answer.pages.map(({ ts }) => ts));
    const over =
      answer.ratios_seconds === 0
        ? "; a ratio needs two readings"
        : `; ratios of ${duration(answer.ratios_seconds)}`;
    const seen = answer.planes.length === 0 ? "" : "; planes were not seen on hardware";
    setText(this.note, newest === 0 ? "" : `last reading ${age(newest)}${over}${seen}`);
    const { health } = answer;
    setText(this.verdict, health === null ? "" : verdictSentence(health));
    this.verdict.classList.toggle("alert-text", health !== null && isFault(health));
    this.ratios.setRows(answer.ratios);
    this.lanes.setRows(lanesOf(pages));
    this.planes.setRows(answer.planes);
    this.cards.replaceChildren(
      ...[
        card(
          "Error correction (FEC, PLR)",
          pages,
          ["fec", "plr", "fec_histogram"],
          correctionFacts,
        ),
        card("Last link down", pages, ["link_down"], () => downFacts(answer, pages)),
        card("Module", pages, ["module"], moduleFacts),
        switchCard(answer),
      ].filter((element) => element !== null),
    );
    const open = this.all.open;
    this.all.replaceChildren(this.all.firstElementChild!, ...answer.pages.map(pageList));
    this.all.open = open;
  }

  private drawCharts({ errors, module }: PhysicalDetail): void {
    const times = [...errors.to_ns, ...module.ts].map((time) => time / 1e6);
    if (times.length === 0) return;
    const { range } = this.app.state;
    const to = range?.to ?? Math.max(...times);
    const first = Math.min(...times, ...errors.from_ns.map((time) => time / 1e6));
    // The first readings would fill the whole width.
    const from = range?.from ?? Math.min(first, to - HOUR / 6);
    const { ratio, temperature } = this.charts;
    ratio.show(errorCurves(errors), from, to);
    const { ts, temperature_c: v } = module;
    const label = "Module";
    temperature.show([{ label, t: ts.map((time) => time / 1e6), v }], from, to);
  }
}

/** Returns the ratios over time. Points without wrong bits are gaps, as on each logarithmic axis. */
function errorCurves(errors: PhysicalDetail["errors"]): Curve[] {
  return (["raw", "effective", "symbol"] as const).map((name) => {
    const curve: Curve = { label: RATIO_NAMES[name], t: [], v: [] };
    errors.to_ns.forEach((to, index) => {
      const from = errors.from_ns[index];
      if (index > 0 && from !== errors.to_ns[index - 1]) {
        // The counters were cleared.
        curve.t.push(from / 1e6);
        curve.v.push(null);
      }
      const wrong = errors[name][index];
      curve.t.push(to / 1e6);
      curve.v.push(wrong === 0 ? null : wrong / errors.bits[index]);
    });
    return curve;
  });
}

/** Returns why a device has no readings. */
export function physicalReason({ refusal }: PhysicalDetail): string {
  return refusal === null
    ? "Not read: no sampler has sent a reading. Samplers read it with the table [physical] of their configuration."
    : `Not supported: ${refusal.detail}.`;
}

/** Returns the sensors, fans and firmware of the device of a port, or null if none was read. */
export function switchCard({ pages }: PhysicalDetail): HTMLElement | null {
  const byName: Pages = new Map(pages.map((page) => [page.page, page]));
  const ofSwitch = ["fans", "fan_limits", "system", "sensors", "fan_speed"];
  const isSwitch = ofSwitch.some((name) => byName.has(name));
  const facts = isSwitch ? switchFacts : chipFacts;
  return card(isSwitch ? "Switch" : "HCA", byName, ["sensor", "device", ...ofSwitch], facts);
}

function age(ts: number): string {
  const seconds = Math.round((Date.now() - ts / 1e6) / 1000);
  return seconds < 2 ? "now" : `${duration(seconds)} ago`;
}

/** Returns a list of facts with the age of its oldest reading, or null if nothing was read. */
function card(
  title: string,
  pages: Pages,
  names: string[],
  facts: (pages: Pages) => Facts,
): HTMLElement | null {
  const read = names.flatMap((name) => pages.get(name) ?? []);
  if (read.length === 0) return null;
  const ages = [...new Set(read.map(({ ts }) => age(ts)))];
  return h(
    "section",
    { "aria-label": title },
    h("h3", {}, title, h("span", { class: "panel-note" }, ` read ${ages.at(-1)}`)),
    factList(facts(pages)),
  );
}

function factList(facts: Facts): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** Returns a number of a page; null if it was not read. */
function number(pages: Pages, page: string, name: string): number | null {
  const value = pages.get(page)?.values[name];
  if (value === undefined || Array.isArray(value)) return null;
  const found = Number(value);
  return Number.isNaN(found) ? null : found;
}

function list(pages: Pages, page: string, name: string): number[] {
  const value = pages.get(page)?.values[name];
  return Array.isArray(value) ? value.map(Number) : [];
}

function text(pages: Pages, page: string, name: string): string {
  const value = pages.get(page)?.values[name];
  return typeof value === "string" ? value.trim() : "";
}

function texts(pages: Pages, page: string, name: string): string[] {
  const value = pages.get(page)?.values[name];
  return Array.isArray(value) ? value.map(String) : [];
}

function shown(value: number | null, format: (value: number) => string = grouped): string {
  return value === null ? "not read" : format(value);
}

/** Returns the index of the last value that is not 0, or -1. */
function lastUsed(values: number[]): number {
  return values.reduce((last, value, index) => (value > 0 ? index : last), -1);
}

/** Returns the lanes of the link: those with any value, and all between them. */
function lanesOf(pages: Pages): Lane[] {
  const of = (page: string, name: string) => list(pages, page, name);
  const [errors, coefficient, magnitude] = [
    of("ber", "phy_raw_errors_lane"),
    of("ber", "raw_ber_coef_lane"),
    of("ber", "raw_ber_magnitude_lane"),
  ];
  const received = of("module", "rx_power_uw");
  const sent = of("module", "tx_power_uw");
  const bias = of("module", "tx_bias_ua");
  const used = [errors, coefficient, received, sent, bias].map(lastUsed);
  // A link has 1, 2, 4 or 8 lanes.
  const lanes = [1, 2, 4, 8].find((width) => width > Math.max(...used)) ?? 8;
  if (Math.max(...used) < 0) return [];
  return Array.from({ length: lanes }, (_, lane) => ({
    lane,
    errors: errors[lane] ?? null,
    ratio:
      !coefficient[lane] || magnitude[lane] === undefined
        ? null
        : coefficient[lane] / 10 ** magnitude[lane],
    received: received[lane] ?? null,
    sent: sent[lane] ?? null,
    bias: bias[lane] ?? null,
  }));
}

function correctionFacts(pages: Pages): Facts {
  const histogram = list(pages, "fec_histogram", "hist");
  const worst = lastUsed(histogram);
  const codes = number(pages, "plr", "plr_rcv_codes");
  const wrong = number(pages, "plr", "plr_rcv_code_err");
  const share = codes === null || wrong === null || codes === 0 ? null : wrong / codes;
  return [
    ["Corrected blocks", shown(number(pages, "fec", "rs_fec_corrected_blocks"))],
    ["Uncorrectable blocks", shown(number(pages, "fec", "rs_fec_uncorrectable_blocks"))],
    [
      "Most wrong symbols in a block",
      histogram.length === 0 ? "not read" : worst < 1 ? "none" : String(worst),
    ],
    [
      "Share sent again (PLR)",
      shown(share, (value) => (value === 0 ? "none" : significantRatio(value))),
    ],
    ["Link down without intention", shown(number(pages, "fec", "unintentional_link_down_events"))],
    ["Recoveries", shown(number(pages, "fec", "successful_recovery_events"))],
  ];
}

function downFacts(answer: PhysicalDetail, pages: Pages): Facts {
  const reason = answer.health?.link_down?.replace(/^reason /, "") ?? "none reported";
  const alarms = ["raw", "eff", "symbol"].map((name) =>
    number(pages, "link_down", `${name}_ber_alarms`),
  );
  return [
    ["Reason", reason],
    [
      "Alarms of bit errors",
      alarms.includes(null)
        ? "not read"
        : `raw ${alarms[0]}, effective ${alarms[1]}, symbol ${alarms[2]}`,
    ],
  ];
}

function moduleFacts(pages: Pages): Facts {
  const of = (name: string) => text(pages, "module", name) || "not read";
  const value = (name: string) => number(pages, "module", name);
  const temperature = value("temperature_c");
  const limits = [value("temperature_low_c"), value("temperature_high_c")];
  const voltage = value("voltage_v");
  return [
    ["Vendor", of("vendor_name")],
    ["Part number", of("vendor_pn")],
    ["Serial number", of("vendor_sn")],
    ["Revision", of("vendor_rev")],
    ["Length", lengthText(value("cable_length"), value("cable_identifier"))],
    [
      "Temperature",
      temperature === null
        ? "not read"
        : limits.includes(null)
          ? celsius(temperature)
          : `${celsius(temperature)} (limits ${celsius(limits[0]!)} and ${celsius(limits[1]!)})`,
    ],
    ["Voltage", shown(voltage, (volts) => `${significant(volts)} V`)],
    [
      "Firmware",
      shown(value("fw_version"), (version) => (version === 0 ? "none" : String(version))),
    ],
  ];
}

/** Identifier from which on a module has CMIS, where two bits of the length are a multiplier. */
const CMIS = 6;

function lengthText(length: number | null, identifier: number | null): string {
  if (length === null) return "not read";
  if (length === 0) return "not known to the module";
  if (identifier === null || identifier < CMIS) return `${length} m`;
  return `${significant((length & 63) * 10 ** ((length >> 6) - 1))} m`;
}

/** Returns what an HCA and a switch have: the temperature of the chip, and the firmware. */
function chipFacts(pages: Pages): Facts {
  const value = (page: string, name: string) => number(pages, page, name);
  const [now, most, limit] = ["temperature_c", "max_temperature_c", "temperature_high_c"].map(
    (name) => value("sensor", name),
  );
  const version = ["extended_major", "extended_minor", "extended_sub_minor"].map((name) =>
    value("device", name),
  );
  const uptime = value("device", "uptime_s");
  return [
    [
      "Temperature of the chip",
      now === null
        ? "not read"
        : `${celsius(now)}${most === null ? "" : `, highest ${celsius(most)}`}${limit === null ? "" : `, limit ${celsius(limit)}`}`,
    ],
    ["Firmware", version.includes(null) ? "not read" : version.join(".")],
    ["PSID", text(pages, "device", "psid") || "not read"],
    ["Running since", uptime === null ? "not read" : since(pages, uptime)],
  ];
}

/** Returns the sensors of a switch beside its chip, and the speeds of its fans. */
function listedFacts(pages: Pages): Facts {
  const [names, fans] = [
    texts(pages, "sensors", "sensor_names"),
    list(pages, "fan_speed", "fan_numbers"),
  ];
  const [now, most] = ["sensor_temperatures_mc", "sensor_max_temperatures_mc"].map((name) =>
    list(pages, "sensors", name),
  );
  const degrees = (milli: number) => celsius(milli / 1000);
  const sensors = list(pages, "sensors", "sensor_numbers").map((sensor, at): [string, string] => [
    `Sensor ${names[at] || sensor}`,
    `${degrees(now[at])}, highest ${degrees(most[at])}`,
  ]);
  const speeds = list(pages, "fan_speed", "fan_rpm");
  const each = fans.map((fan, at) => `${fan}:\u00a0${grouped(speeds[at])}`);
  return [
    // The first one is the chip.
    ...sensors.slice(1),
    ...(each.length === 0 ? [] : [["Fan speeds in rpm", each.join(", ")] as [string, string]]),
  ];
}

function switchFacts(pages: Pages): Facts {
  const value = (page: string, name: string) => number(pages, page, name);
  const fans = value("fans", "tacho_active");
  const [slow, fast] = ["fan_under_limit", "fan_over_limit"].map((name) =>
    value("fan_limits", name),
  );
  const numbers = (bits: number) =>
    Array.from({ length: 16 }, (_, fan) => fan).filter((fan) => ((bits >> fan) & 1) === 1);
  const [chip, ...rest] = chipFacts(pages);
  return [
    chip,
    ...listedFacts(pages),
    [
      "Fans",
      fans === null && slow === null
        ? "not read"
        : [
            fans === null ? "" : count(numbers(fans).length, "fan"),
            slow === null
              ? "limits of speed not read"
              : slow === 0
                ? "none too slow"
                : `too slow: ${numbers(slow).join(", ")}`,
            fast === null || fast === 0 ? "" : `too fast: ${numbers(fast).join(", ")}`,
          ]
            .filter((part) => part !== "")
            .join(", "),
    ],
    ["Product", text(pages, "system", "product_name") || "not read"],
    ["Serial number", text(pages, "system", "serial_number") || "not read"],
    ...rest,
  ];
}

function since(pages: Pages, uptime: number): string {
  return dateTime(pages.get("device")!.ts / 1e6 - 1000 * uptime);
}

/** Lists all values of a page with their units. */
function pageList({ page, plane, sampler, ts, values, units }: PhysicalPage): HTMLElement {
  const title = plane === null ? page : `${page}, plane ${plane}`;
  const facts = Object.entries(values).map(([name, value]): [string, string] => {
    const unit = units[name];
    const shown = Array.isArray(value) ? value.map(grouped).join(", ") : String(value);
    return [name, unit === undefined ? shown : `${shown} ${unit}`];
  });
  return h(
    "section",
    { "aria-label": `Page ${title}` },
    h("h3", {}, title, h("span", { class: "panel-note" }, ` read ${age(ts)} by ${sampler}`)),
    factList(facts),
  );
}
