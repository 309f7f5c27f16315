//! Shapes of the answers of the hub. `docs/hub.md` describes them.
//!
//! A field that ends in `_ns` and the field `ts` are nanoseconds since 1970. A number holds them to
//! a quarter of a microsecond, and the page shows milliseconds.

/** Kind of a device. */
export type Kind = "switch" | "hca" | "router";

/** Names one port of one device. */
export interface PortName {
  guid: string;
  port: number;
  node: string;
}

export interface Metric {
  name: string;
  /** Unit of the values, such as `share` or `Gb/s`. */
  unit: string;
  /** Value of the code 64000. */
  scale: number;
  /** Whether frames can have the metric. Matrices have all metrics. */
  live?: boolean;
}

export interface Health {
  /** `ok`, `waiting`, `silent` or `behind`. */
  status: string;
  /** Time for which lines wait until the hub processes them. */
  lag_ns: number;
  fabric: string;
  version: string;
  records: number;
  samplers: number;
  /** 0 before the first slot. */
  last_slot: number;
  interval_ns: number;
  now_ns: number;
  kept: {
    from_ns: number | null;
    to_ns: number | null;
    /** Start of the older time, of which the means of minutes are kept. */
    minutes_from_ns?: number | null;
    archive_from_ns?: number | null;
    octets: number;
    ports: number;
  };
  metrics?: Metric[];
  simulated?: boolean;
  /** Condition of the packing; null if the hub does not pack. */
  archive?: Packing | null;
}

export interface Packing {
  /** Lines that arrived before this time are in the archive. Null before the first run. */
  packed_ns: number | null;
  /** Size of the lines that wait to be packed. */
  spool_octets: number;
  /** Largest size of these lines; not from an older hub. */
  spool_max_octets?: number;
  /** Free space of the disk of the archive. Null if it is not known. */
  free_octets?: number | null;
  /** Number of lines that are lost for the archive. */
  lines_lost: number;
  /** Why lines cannot be kept or packed, or wait too long, with the remedy. */
  error: string | null;
}

export interface DeviceRow {
  guid: string;
  node: string;
  /** Null if the hub does not know it. */
  kind: Kind | null;
  /** 0 for hosts, 1 for leaf switches, and so on. Null for a switch without a path to a host. */
  tier: number | null;
  lid?: number | null;
}

export interface PortRow {
  guid: string;
  port: number;
  node: string;
  kind: Kind | null;
  /** Index of the device in `devices`. */
  device: number;
  /** Index of the port at the other end in `ports`; null if the hub does not know it. */
  peer: number | null;
  peer_guid: string | null;
  peer_port: number | null;
  peer_node: string | null;
  /** Width and speed, such as `4xEDR`. */
  link: string | null;
  /** Data rate of the link in Gb/s. */
  gbps: number | null;
  sampler: string | null;
  /** Name of the block of neighbouring rows, such as the leaf switch. */
  group?: string;
}

export interface TopologyAnswer {
  generation: number;
  devices: DeviceRow[];
  ports: PortRow[];
}

/** A list of rows and the time range that they describe. */
export interface Rows<Row> {
  from_ns: number;
  to_ns: number;
  rows: Row[];
  /** Why there are no rows. */
  reason?: string;
}

export interface LinkRow {
  from: PortName;
  to: PortName;
  link: string;
  xmit_gbps: number | null;
  xmit_utilization: number | null;
  xmit_utilization_peak: number | null;
  blocked: number | null;
  back_utilization: number | null;
  back_blocked: number | null;
  errors: number;
  ends_disagree: boolean;
}

export type RootCause = "full" | "slow_host" | "unreachable" | "unclear";

export interface TreeRow {
  root: PortName;
  to: PortName | null;
  link: string;
  why: RootCause;
  seconds: number;
  since_ns: number;
  until_ns: number;
  xmit_utilization: number;
  blocked: number;
  held_up_seconds: number;
  host_ports: number;
  switch_ports: number;
  victims: VictimRow[];
}

export interface VictimRow extends PortName {
  to: PortName | null;
  is_host: boolean;
  waits_for: PortName;
  depth: number;
  seconds: number;
  blocked_seconds: number;
  used_seconds: number;
}

export interface ErrorRow extends PortName {
  peer: PortName | null;
  link: string | null;
  what: string;
  increase: number | null;
  is_lower_bound: boolean;
  rate: number | null;
  value: number | null;
  since_ns: number;
  began_in_range: boolean | null;
  devices_behind: number;
  behind: PortName[];
}

export interface EventRow {
  ts: number;
  slot: number;
  sampler: string;
  event: string;
  guid: string | null;
  port: number | null;
  node: string | null;
  detail: string;
  lid?: number | null;
  severe?: boolean;
}

export interface ManagerRow {
  guid: string | null;
  lid: number | null;
  node: string | null;
  state: string | null;
  priority: number | null;
  act_count: number | null;
  is_present: boolean;
  is_master: boolean;
  since_ns: number;
  first_ns: number;
  sampler: string;
}

export interface ManagerRows extends Rows<ManagerRow> {
  master_changes: number;
}

export interface SamplerRow {
  sampler: string;
  role: string;
  connected: boolean;
  /** The clock is not that of the others: its records are not in the shown slots. */
  wrong_clock: boolean;
  /** Positive if the clock is ahead; null if it is not known. */
  clock_distance_ns: number | null;
  input: string;
  version: string | null;
  interval_ns: number;
  last_slot: number | null;
  last_ts: number | null;
  ports: number;
  ok: number;
  late: number;
  timeout: number;
  unreachable: number;
  skipped: number;
  down: number;
  errors: number;
  duration_ns: number | null;
  rtt_p50_ns: number | null;
  rtt_p99_ns: number | null;
  slots_missed: number;
  lines_lost: number;
  /** Share of the ports that answered, for each of the last slots. */
  answered?: (number | null)[];
  /** Duration of the last sweeps in nanoseconds. */
  durations?: (number | null)[];
}

export interface JobNode {
  host: string;
  ports: number;
  injected_bytes: number;
  ejected_bytes: number;
  covered_seconds: number;
  blocked_seconds: number;
  blocked_covered_seconds: number;
}

export interface JobRow {
  job: string;
  name: string | null;
  user: string | null;
  state: string;
  /** Host list of the source. */
  nodes: string;
  node_count: number;
  start_ns: number;
  /** Null while the job runs. */
  end_ns: number | null;
  end_is_lower_bound: boolean;
  /** Time whose traffic is in the sums. Null without records, as the sums. */
  traffic_from_ns: number | null;
  traffic_to_ns: number | null;
  injected_bytes: number | null;
  ejected_bytes: number | null;
  /** Time in which the octets are known, in seconds. */
  covered_seconds: number | null;
  blocked_seconds: number | null;
  blocked_covered_seconds: number | null;
  /** Share of the known time in which a port was blocked: the mean of all ports. */
  blocked: number | null;
  blocked_ns_per_byte: number | null;
  imbalance: Imbalance;
  /** Nodes with and without records. Only in an answer about one job. */
  hosts?: JobNode[];
  missing?: string[];
}

export interface JobRows extends Rows<JobRow> {
  running: number;
  known: number;
  source: string | null;
  read_ns: number | null;
  error: string | null;
  settled_ns: number | null;
}

export interface JobLink {
  from: PortName;
  to: PortName | null;
  up_gbps: number;
  down_gbps: number;
  used: number | null;
  blocked: number | null;
  job_up_gbps: number;
  job_down_gbps: number;
}

export interface JobNeighbour {
  job: string;
  name: string | null;
  user: string | null;
  state: string;
  node_count: number;
  leaves: number;
  ports: number;
  /** Nodes of the neighbour at these leaf switches. */
  nodes: number;
  up_gbps: number;
  down_gbps: number;
}

export interface JobTree {
  root: PortName;
  to: PortName | null;
  why: RootCause;
  seconds: number;
  job_ports: number;
  host_ports: number;
  job_blocked_seconds: number;
}

export interface JobDetail extends JobRow {
  hosts: JobNode[];
  missing: string[];
  injected_gbps: (number | null)[];
  /** Share of the ports whose rate is known: 0 without records, null where the job did not run. */
  injected_covered: (number | null)[];
  bins_from_ns: number | null;
  bin_ns: number;
  links_from_ns: number;
  links_to_ns: number;
  uplinks: JobLink[];
  neighbours: JobNeighbour[];
  trees: JobTree[];
}

export interface GroupRow {
  group: string;
  /** Host list of the configuration. */
  hosts: string;
  /** Names of the hosts of the group in the topology. */
  nodes: string[];
  /** Names in the host list that the topology does not have. */
  unknown: string[];
}

export interface Imbalance {
  max_to_mean: number | null;
  variation: number | null;
  gini: number | null;
}

/** A host of a group. */
export interface GroupTarget {
  host: string;
  ports: number;
  in_bytes: number;
  out_bytes: number;
  covered_seconds: number;
  in_peak_gbps: number | null;
  out_peak_gbps: number | null;
}

/** A job, or a host without a job, that can have sent to a group. */
export interface GroupSender {
  job: string | null;
  host: string | null;
  sent_bytes: number;
  least_bytes: number;
  estimate_bytes: number;
  most_bytes: number;
  covered_seconds: number;
  correlation: number | null;
  estimate_gbps: (number | null)[];
}

export interface PortRate {
  port: string;
  gbps: (number | null)[];
  covered?: (number | null)[];
}

export interface GroupDetail extends GroupRow {
  from_ns: number;
  to_ns: number;
  sender_count: number;
  in_bytes: number;
  out_bytes: number;
  covered_seconds: number;
  recorded_seconds: number;
  in_imbalance: Imbalance;
  out_imbalance: Imbalance;
  targets: GroupTarget[];
  missing: string[];
  senders: GroupSender[];
  start_ns: number;
  bin_ns: number;
  into: PortRate[];
  out: PortRate[];
  in_max_to_mean: (number | null)[];
}

export interface TimelineMark {
  ts: number;
  kind: string;
  text: string;
  guid: string | null;
  port: number | null;
  severe: boolean;
}

export interface Timeline {
  step_ns: number;
  /** Start of each column: of the slots in which the values were read. */
  t: number[];
  utilization_max: (number | null)[];
  blocked_max: (number | null)[];
  answered: (number | null)[];
  marks: TimelineMark[];
}

/** A counter above 2^53 comes as a string of digits. */
export type CounterValue = number | string | (number | string)[];

export interface PortDetail extends PortName {
  kind: Kind;
  lid: number | null;
  link: string | null;
  link_source: string | null;
  gbps: number | null;
  sampler: string | null;
  status: string | null;
  ts: number | null;
  slot: number | null;
  identity: string | null;
  rtt_ns: number | null;
  peer: PortName | null;
  counters: Record<string, CounterValue>;
  rates: Record<string, number | null>;
  saturated: string[];
  port_info?: {
    port_state: string | null;
    link_width_active: string | null;
    link_speed_active: string | null;
    /** Octets. */
    mtu: number | null;
    /** Number of data VLs. */
    vls: number | null;
    /** `live` if the device reported width and speed, or `file`. */
    source: string;
    /** Name and time of the last event about the link. */
    changed: string | null;
    changed_ns: number | null;
  };
  events: EventRow[];
}

export interface Series {
  port: string;
  metric: string;
  t: number[];
  v: (number | null)[];
  /** Values that are not exact. Absent if all are exact. */
  state?: ("at_least" | "increase" | null)[];
}

/** The hub answers a request for one series without the list. */
export type SeriesAnswer = { series: Series[] } | { t: number[]; v: (number | null)[] };

export interface LiveHello {
  generation: number;
  metrics: string[];
  interval_ns: number;
}
