// generated from hub/openapi.json by `npm run types`; do not change by hand

/**
 * A number, a text of digits if it is above 2^53, or a list of them
 */
export type CounterValue = (number | string) | (number | string)[];
/**
 * A link, by the end with the worse verdict
 */
export type HealthLink = PortName & {
  /**
   * Place in the list, worst first; 0 outside of a list
   */
  rank: number;
  peer: PortName | null;
  link: string;
  verdict: "replace" | "clean" | "watch" | "good";
  /**
   * Rules that apply, as text
   */
  why: string[];
  /**
   * What the limits of bit errors follow from: the active FEC, or what was assumed
   */
  limits_by: string;
  /**
   * Why the link went down last; null if it was not read, or never did
   */
  link_down: string | null;
  /**
   * Time since which this end has its verdict
   */
  since_ns: number;
  /**
   * Minutes of readings, at most window_minutes
   */
  seen_minutes: number;
  /**
   * Minutes before which no verdict is worse than watch
   */
  window_minutes: number;
  /**
   * Serial number of the cable or the module; empty if it was not read
   */
  serial: string;
  part: string;
  vendor: string;
  /**
   * Temperature of the module
   */
  celsius: number | null;
  raw: MeasuredRatio | null;
  effective: MeasuredRatio | null;
  symbol: MeasuredRatio | null;
  /**
   * Ends that do not answer now, so that their condition is not known
   */
  silent: (PortName & {
    /**
     * Time of the last reading; null without one
     */
    read_ns: number | null;
  })[];
};
export type Port = PortRecord & {
  gbps: number | null;
  role: "primary" | "secondary";
  /**
   * Page of the hub of the part of the sampler; null without one
   */
  part_page: string | null;
  /**
   * Index in the topology
   */
  index: number | null;
  peer: PortName | null;
  counters: {
    [k: string]: CounterValue;
  };
  /**
   * Time of the record with the counters
   */
  counters_ts: number | null;
  rates: PortRates;
  saturated: string[];
  events: Event[];
  /**
   * What the records have of the attribute PortInfo
   */
  port_info: {
    /**
     * Null if the port did not answer
     */
    port_state: "active" | "down" | null;
    link_width_active: string | null;
    link_speed_active: string | null;
    /**
     * MTU of the link in bytes (NeighborMTU). Null before PortInfo was read
     */
    mtu: number | null;
    /**
     * Number of data VLs of the link (OperationalVLs). Null before PortInfo was read
     */
    vls: number | null;
    /**
     * What the last PortInfo reports besides the link, read about once a minute. Null if no record of the last minutes has it
     */
    limits: {
      /**
       * Largest MTU of the port in bytes
       */
      mtu_cap: number | null;
      /**
       * Number of data VLs that the port has
       */
      vl_cap: number | null;
      /**
       * VLHighLimit in units of 4096 bytes. 255: no limit; 0: one packet
       */
      vl_high_limit: number | null;
      /**
       * Packets in a row that are dropped before the VL is stalled. 0: it never is
       */
      vl_stall_count: number | null;
      /**
       * Exponent n of 4.096 us x 2^n. From 20 on: no limit
       */
      hoq_life: number | null;
      /**
       * Packets with a wrong M_Key. Stops at 65535
       */
      mkey_violations: number | null;
      /**
       * Packets with a wrong P_Key. Stops at 65535
       */
      pkey_violations: number | null;
      /**
       * Packets with a wrong Q_Key. Stops at 65535
       */
      qkey_violations: number | null;
    } | null;
    /**
     * `live` if the device reported width and speed, `file` if the net file has them
     */
    source: string;
    lid: number;
    /**
     * Time of the last event about the link
     */
    changed_ns: number | null;
    /**
     * Name of this event
     */
    changed: string | null;
  };
};

export interface Schemas {
  Alert: Alert;
  AlertMark: AlertMark;
  Alerts: Alerts;
  Audit: Audit;
  AuditEntry: AuditEntry;
  CableEnd: CableEnd;
  CableFinding: CableFinding;
  Cabling: Cabling;
  CounterValue: CounterValue;
  Error: Error;
  ErrorRatio: ErrorRatio;
  ErrorRow: ErrorRow;
  Errors: Errors;
  Event: Event;
  Events: Events;
  Health: Health;
  HealthLinks: HealthLinks;
  HealthLink: HealthLink;
  MeasuredRatio: MeasuredRatio;
  Input: Input;
  Link: Link;
  Links: Links;
  Manager: Manager;
  Managers: Managers;
  Path: Path;
  PathLink: PathLink;
  Physical: Physical;
  PhysicalPage: PhysicalPage;
  Plane: Plane;
  Port: Port;
  PortName: PortName;
  PortRates: PortRates;
  PortRecord: PortRecord;
  PortRow: PortRow;
  Ports: Ports;
  Receiver: Receiver;
  Sampler: Sampler;
  Samplers: Samplers;
  Series: Series;
  Timeline: Timeline;
  Topology: Topology;
  Tree: Tree;
  Region: Region;
  Trees: Trees;
  Job: Job;
  JobDetail: JobDetail;
  Mark: Mark;
  Marks: Marks;
  MarkId: MarkId;
  JobMatrix: JobMatrix;
  Group: Group;
  GroupDetail: GroupDetail;
  GroupSender: GroupSender;
  GroupTarget: GroupTarget;
  Groups: Groups;
  Jobs: Jobs;
  Whoami: Whoami;
}
export interface Alert {
  /**
   * Identity: the name and the subject
   */
  id: string;
  /**
   * Name of the condition, as in docs/runbook.md
   */
  alert: string;
  severity: "critical" | "warning" | "info";
  state: "pending" | "firing" | "resolved";
  /**
   * Port GUID of the device; null for an alert of a sampler or of the fabric
   */
  guid: string | null;
  port: number | null;
  /**
   * Sampler with its HCA port
   */
  sampler: string | null;
  node: string | null;
  summary: string;
  /**
   * Name of the region of congestion; null except for an alert about its root
   */
  region: string | null;
  /**
   * Time from which the condition was true
   */
  since_ns: number;
  /**
   * Time at which the condition was found to be over
   */
  resolved_ns: number | null;
  /**
   * Address of the section of the runbook
   */
  runbook: string;
  /**
   * Who has seen or silenced the alert
   */
  mark: AlertMark | null;
}
export interface AlertMark {
  /**
   * Name of the user
   */
  by: string;
  why: string;
  /**
   * Whether receivers are not told that the alert fires
   */
  silent: boolean;
  at_ns: number;
  until_ns: number;
}
export interface Alerts {
  /**
   * Time of the last look for conditions; 0 before the first one
   */
  looked_ns: number;
  /**
   * Why the last look failed
   */
  error: string | null;
  /**
   * Number of conditions without an alert, because there are too many
   */
  left_out: number;
  /**
   * Number of firing alerts that are not silenced
   */
  firing: number;
  /**
   * Whether users may mark alerts
   */
  markable: boolean;
  rows: Alert[];
  receivers: Receiver[];
}
export interface Receiver {
  /**
   * Kind, and the host or the program
   */
  receiver: string;
  /**
   * Messages that were accepted
   */
  sent: number;
  /**
   * Failed attempts
   */
  failed: number;
  /**
   * Changes that the receiver did not get
   */
  dropped: number;
  /**
   * Why the last attempt failed
   */
  error: string | null;
}
export interface Audit {
  rows: AuditEntry[];
  /**
   * Why there are no entries
   */
  reason: string | null;
}
export interface AuditEntry {
  at_ns: number;
  /**
   * Such as login, login_failed, silence, seen, mark
   */
  what: string;
  /**
   * Name of the user, or `password`; empty after a failed login
   */
  who: string;
  role: string;
  /**
   * Address of the client, or of its proxy
   */
  address: string;
  /**
   * The alert, or the name of the mark
   */
  about: string | null;
  /**
   * Reason for the mark of an alert
   */
  why: string | null;
}
export interface CableEnd {
  /**
   * Null if only the plan names the device
   */
  guid: string | null;
  /**
   * Node description, or the name in the plan, untrusted text
   */
  name: string;
  port: number;
}
export interface CableFinding {
  kind:
    | "missing"
    | "wrong_rail"
    | "swapped"
    | "wrong_device"
    | "wrong_port"
    | "wrong_speed"
    | "wrong_part"
    | "wrong_length"
    | "unplanned";
  /**
   * Findings with the same number belong together
   */
  group: number;
  /**
   * Both ends as planned. Null for an unplanned cable
   */
  planned: CableEnd[] | null;
  /**
   * Both ends as they are. Null for a missing cable
   */
  found: CableEnd[] | null;
  /**
   * File and line of the planned cable
   */
  line: string | null;
  /**
   * Label of the planned cable
   */
  label: string | null;
  /**
   * Planned and found value of a wrong speed
   */
  values: string[] | null;
}
export interface Cabling {
  /**
   * Number of planned cables
   */
  planned: number;
  /**
   * Number of cables that are as planned
   */
  right: number;
  /**
   * Number of cables at devices that the plan does not name
   */
  beyond: number;
  /**
   * Number of devices of the plan that the records do not have
   */
  not_found: number;
  /**
   * Number of lines and values of the plan that were not compared
   */
  remarks: number;
  /**
   * Differences, the worst kind first
   */
  rows: CableFinding[];
  /**
   * Why nothing was compared
   */
  reason: string | null;
}
export interface Error {
  /**
   * Reason, for people
   */
  error: string;
}
export interface ErrorRatio {
  /**
   * Before FEC, after it, or after PLR too
   */
  ratio: "raw" | "effective" | "symbol";
  /**
   * Ratio that the device computes, with one digit
   */
  of_device: number | null;
  /**
   * By differences of the counters, at most of 125 minutes; null before the second reading
   */
  measured: MeasuredRatio | null;
}
/**
 * A bit error ratio with its 95 % interval
 */
export interface MeasuredRatio {
  errors: number;
  bits: number;
  ratio: number;
  lower: number;
  upper: number;
}
export interface ErrorRow {
  /**
   * Port GUID: 0x and 16 hexadecimal digits
   */
  guid: string;
  port: number;
  node: string;
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
export interface PortName {
  /**
   * Port GUID: 0x and 16 hexadecimal digits
   */
  guid: string;
  port: number;
  /**
   * Node description, untrusted text
   */
  node: string;
}
export interface Errors {
  from_ns: number;
  to_ns: number;
  rows: ErrorRow[];
}
export interface Event {
  ts: number;
  slot: number;
  /**
   * Sampler, or `hub`
   */
  sampler: string;
  role: string;
  event: string;
  /**
   * Port GUID; null if unknown
   */
  guid: string | null;
  port: number | null;
  /**
   * Node description, or the sampler that an event of the hub is about
   */
  node: string | null;
  detail: string;
  /**
   * Name of the region of congestion that began or ended; null for any other event
   */
  region: string | null;
  /**
   * Whether the event shows a fault
   */
  severe: boolean;
  lid: number | null;
}
export interface Events {
  from_ns: number;
  to_ns: number;
  /**
   * Names of the events of each kind; those of `routine` need no attention
   */
  kinds: {
    [k: string]: string[];
  };
  rows: Event[];
}
export interface Health {
  /**
   * `ok`; `waiting` before the first sampler; `silent` if no sampler sends records; `behind` if records wait more than 2 s for the hub
   */
  status: "ok" | "waiting" | "silent" | "behind";
  version: string;
  /**
   * Name of the fabric
   */
  fabric: string;
  simulated: boolean;
  /**
   * Clock of the hub, nanoseconds since 1970 (UTC)
   */
  now_ns: number;
  /**
   * Time for which lines wait until the hub processes them
   */
  lag_ns: number;
  /**
   * Port records that were added
   */
  records: number;
  samplers: number;
  samplers_connected: number;
  /**
   * Slot of the newest frame
   */
  last_slot: number;
  /**
   * Newest record, nanoseconds since 1970 (UTC)
   */
  last_ts: number;
  /**
   * Length of a slot
   */
  interval_ns: number;
  /**
   * Generation of the topology
   */
  generation: number;
  /**
   * Clients of the stream of slots
   */
  clients: number;
  /**
   * Frames that clients missed because they read slowly
   */
  frames_dropped: number;
  kept: {
    /**
     * Oldest record
     */
    from_ns: number | null;
    /**
     * Newest record
     */
    to_ns: number | null;
    /**
     * Oldest minute
     */
    minutes_from_ns: number | null;
    /**
     * Oldest hour of the archive
     */
    archive_from_ns: number | null;
    /**
     * Memory of records and minutes
     */
    octets: number;
    ports: number;
  };
  /**
   * Packing into the archive; null if the hub does not pack
   */
  archive: {
    folder: string;
    /**
     * Lines that arrived before this time are in the archive; null before the first run
     */
    packed_ns: number | null;
    /**
     * Duration of the last run
     */
    duration_ns: number | null;
    /**
     * Records that were added since the start of the hub
     */
    added: number;
    /**
     * Records that the archive already had
     */
    copies: number;
    /**
     * Lines that are not records
     */
    malformed: number;
    /**
     * Damaged parts of the lines that waited: each is a batch of lines that is lost for the archive
     */
    damaged: number;
    /**
     * Records of hours that were removed from the archive: not added
     */
    expired: number;
    /**
     * Files that were removed by archive_keep_age and archive_keep_total
     */
    files_removed: number;
    /**
     * Rows that were written into the archive, with those that were written again
     */
    written: number;
    /**
     * Size of the lines that wait to be packed
     */
    spool_octets: number;
    /**
     * Largest size of the lines that wait: archive_spool_max
     */
    spool_max_octets: number;
    /**
     * Free space of the disk of the archive
     */
    free_octets: number | null;
    /**
     * Lines that did not reach the spool
     */
    lines_lost: number;
    /**
     * Why lines cannot be kept or packed, or wait too long, with the remedy
     */
    error: string | null;
  } | null;
  counts: {
    added: number;
    /**
     * Older than another record of the same sampler and port. After a step back of its clock, records are late until the step is known
     */
    late: number;
    /**
     * Dropped, because they were there already
     */
    copies: number;
    /**
     * Too many ports or samplers, or no memory for more ports or for their names
     */
    refused: number;
  };
  inputs: Input[];
  metrics: {
    name: string;
    unit: string;
    /**
     * Value of the number 64000
     */
    scale: number;
    /**
     * Whether frames have the metric
     */
    live: boolean;
  }[];
}
export interface Input {
  /**
   * URL without a password
   */
  input: string;
  connected: boolean;
  /**
   * Successful connections, or 1 for files
   */
  connections: number;
  /**
   * Lost connections
   */
  lost: number;
  /**
   * Reason of the last failure, or what the server of an open input refused; null without
   */
  error: string | null;
  lines: number;
  /**
   * Lines that are not records
   */
  malformed: number;
  /**
   * Records of types that the hub does not know: those of a newer sampler
   */
  unknown: number;
  /**
   * Fields that the hub does not know, in every 256th line: those of a newer sampler
   */
  unknown_fields: number;
  /**
   * Fault of the first malformed line
   */
  first_malformed: string | null;
}
export interface HealthLinks {
  /**
   * Number of links with readings
   */
  known: number;
  /**
   * Number of links of each verdict
   */
  counts: {
    replace: number;
    clean: number;
    watch: number;
    good: number;
  };
  /**
   * Number of good links of which an end does not answer
   */
  silent: number;
  rows: HealthLink[];
}
export interface Link {
  from: PortName;
  to: PortName;
  link: string;
  stat: string;
  xmit_gbps: number | null;
  /**
   * 0 to 1
   */
  xmit_utilization: number | null;
  /**
   * 0 to 1
   */
  xmit_utilization_peak: number | null;
  /**
   * 0 to 1
   */
  blocked: number | null;
  /**
   * 0 to 1
   */
  back_utilization: number | null;
  /**
   * 0 to 1
   */
  back_blocked: number | null;
  errors: number;
  ends_disagree: boolean;
}
export interface Links {
  from_ns: number;
  to_ns: number;
  rows: Link[];
}
export interface Manager {
  /**
   * Null if no event has it
   */
  guid: string | null;
  lid: number | null;
  node: string | null;
  /**
   * State in lower case, such as `master`
   */
  state: string | null;
  priority: number | null;
  /**
   * ActCount of the subnet manager
   */
  act_count: number | null;
  /**
   * Whether it answers, and a port names it
   */
  is_present: boolean;
  is_master: boolean;
  /**
   * Time since which it has its state
   */
  since_ns: number;
  /**
   * Time of its first event
   */
  first_ns: number;
  /**
   * Sampler of the newest event
   */
  sampler: string;
}
export interface Managers {
  from_ns: number;
  to_ns: number;
  rows: Manager[];
  /**
   * Why the list is empty
   */
  reason?: string;
  /**
   * Number of changes of the master
   */
  master_changes: number;
  events: Event[];
}
export interface Path {
  from_ns: number;
  to_ns: number;
  /**
   * Links from the sender to the receiver, one rail after the other
   */
  rows: PathLink[];
  /**
   * Links of the way back, which can be another one
   */
  back: PathLink[];
  /**
   * Why a path is not known, or not to its end
   */
  reason: string | null;
  /**
   * Condition of the forwarding tables. Null without tables
   */
  tables: {
    /**
     * Number of switches with a table
     */
    switches: number;
    /**
     * Switches of which a part of the table was not read yet
     */
    partial: string[];
    /**
     * Switches whose table has changed since it was last read as a whole
     */
    changing: string[];
    /**
     * Switches whose table, or its newest part, does not fit into 256 MiB
     */
    left_out: string[];
    /**
     * Time of the newest record. Null for the tables of a file
     */
    newest_ns: number | null;
  } | null;
}
export interface PathLink {
  sender: PortName;
  receiver: PortName;
  /**
   * Number of the link on the path, from 1
   */
  hop: number;
  from: PortName;
  to: PortName;
  link: string;
  stat: string;
  xmit_gbps: number | null;
  /**
   * 0 to 1
   */
  xmit_utilization: number | null;
  /**
   * 0 to 1
   */
  xmit_utilization_peak: number | null;
  /**
   * 0 to 1
   */
  blocked: number | null;
  /**
   * 0 to 1
   */
  back_utilization: number | null;
  /**
   * 0 to 1
   */
  back_blocked: number | null;
  errors: number;
  ends_disagree: boolean;
}
export interface Physical {
  /**
   * Port GUID
   */
  guid: string;
  port: number;
  /**
   * Null if the topology does not have the device
   */
  node: string | null;
  /**
   * Newest values of each page that was read; empty without any
   */
  pages: PhysicalPage[];
  /**
   * Verdict on this end of the link; null if bit errors were not read
   */
  health: HealthLink | null;
  /**
   * Last event about registers that the device does not return; null without one
   */
  refusal: Event | null;
  /**
   * Bit error ratios; empty if bit errors were not read
   */
  ratios: ErrorRatio[];
  /**
   * Time that the ratios describe
   */
  ratios_seconds: number;
  /**
   * Planes of the port (XDR); empty if it has none
   */
  planes: Plane[];
  /**
   * Series of bit errors, oldest first; old points are longer, and cleared counters leave a gap
   */
  errors: {
    from_ns: number[];
    to_ns: number[];
    /**
     * Received bits
     */
    bits: number[];
    /**
     * Wrong bits before FEC
     */
    raw: number[];
    /**
     * Wrong bits after FEC
     */
    effective: number[];
    /**
     * Wrong bits after PLR too
     */
    symbol: number[];
  };
  /**
   * Series of the module, oldest first
   */
  module: {
    ts: number[];
    /**
     * Largest temperature
     */
    temperature_c: (number | null)[];
    /**
     * Smallest received light power of the lanes with light, in microwatts
     */
    rx_power_uw: (number | null)[];
  };
}
export interface PhysicalPage {
  /**
   * Page of a register, as in docs/inside/registers.md
   */
  page: string;
  /**
   * Number of the plane; null if the page is not about one
   */
  plane: number | null;
  sampler: string;
  /**
   * Time of the reading
   */
  ts: number;
  /**
   * Values by name, as in docs/records.md; an absent one was not answered
   */
  values: {
    [k: string]: CounterValue | number | string | string[];
  };
  /**
   * Units of the values that have one
   */
  units: {
    [k: string]: string;
  };
}
export interface Plane {
  /**
   * Number of the plane, from 1
   */
  plane: number;
  /**
   * Time of the last reading
   */
  ts: number;
  /**
   * State that the device reports: 3 and 5 are up; null if not read
   */
  state: number | null;
  is_up: boolean | null;
  /**
   * Mean between the last two readings; null before the second one
   */
  xmit_gbps: number | null;
  rcv_gbps: number | null;
  /**
   * What is wrong with the plane; null if nothing is
   */
  finding: string | null;
}
/**
 * Made from the table of the fields of ports by `make generate`
 */
export interface PortRecord {
  /**
   * Time of the last reply of the port, or the time at which its result was complete without a reply
   */
  ts: number;
  /**
   * Number of the slot: its start divided by `interval_ns`, rounded down; equal on all samplers
   */
  slot: number;
  /**
   * Name of the sampler that wrote the record
   */
  sampler: string;
  /**
   * Port GUID, `0x` and 16 digits; for a switch the GUID of its port 0, the same for all its ports
   */
  guid: string;
  /**
   * Port number
   */
  port: number;
  /**
   * LID to which the queries are sent; changes with a `lid_change` event
   */
  lid: number;
  /**
   * Name of the device in the plan or the net file
   */
  node: string;
  /**
   * `switch`, `hca` or `router`
   */
  kind: "switch" | "hca" | "router" | null;
  /**
   * Distance from the sampler by the plan: 0 for the HCA of the sampler host, 1 for its switch; null if it is not known
   */
  hops: number | null;
  /**
   * Width and speed, such as `4xEDR`; `??` and `???` if unknown. While a link is down: its last value
   */
  link: string;
  /**
   * Source of `link`: `live` (PortInfo, IBA vol. 1, 14.2.5.6), or `file` (the net file) as long as PortInfo was not read. `imported`: `ibnet-view import` made the record from a recording that does not have the link
   */
  link_source: string;
  /**
   * Result of the queries
   */
  status: string;
  /**
   * Sum of the round-trip times of the accepted replies. Unit: ns
   */
  rtt_ns: number;
  /**
   * Shortest of these round-trip times; null without a reply. Unit: ns
   */
  rtt_min_ns: number | null;
  /**
   * Number of counter queries that were sent. Unit: MADs
   */
  mads: number;
  /**
   * Status of the last reply that reported an error (IBA vol. 1, 13.4.7). Null if there was none. "Optional attribute not supported" is not an error here
   */
  mad_status: number | null;
  /**
   * `ok`: at the last check, about once a minute, NodeInfo (IBA vol. 1, 14.2.5.3) reported this GUID at this LID. `unverified`: NodeInfo was not answered, or reported another GUID
   */
  identity: string;
  /**
   * With `clear`, max number of bytes that the counters of each service level lack from now on in each direction, because ibnet cleared them after this reading. Null if none was cleared, or if the agent did not confirm it. Unit: bytes
   */
  clear_lost_bytes: number | null;
  /**
   * Time between the two readings from which the rates are computed; null if there is no rate. Unit: ns
   */
  dt_ns: number | null;
}
/**
 * Made from the table of the fields of ports by `make generate`
 */
export interface PortRates {
  /**
   * Derived value: data sent; null if it cannot be computed. Unit: 10^9 bit/s
   */
  xmit_gbps: number | null;
  /**
   * Data received; null if it cannot be computed. Unit: 10^9 bit/s
   */
  rcv_gbps: number | null;
  /**
   * Utilization, sending; null if it cannot be computed. Unit: share of 1
   */
  xmit_utilization: number | null;
  /**
   * Utilization, receiving; null if it cannot be computed. Unit: share of 1
   */
  rcv_utilization: number | null;
  /**
   * Share of the time in which the port was blocked; null if it cannot be computed. Unit: share of 1
   */
  xmit_blocked: number | null;
}
export interface PortRow {
  index: number;
  /**
   * Port GUID: 0x and 16 hexadecimal digits
   */
  guid: string;
  port: number;
  node: string;
  /**
   * `switch`, `hca` or `router`; null if unknown
   */
  kind: "switch" | "hca" | "router" | null;
  lid: number | null;
  /**
   * Port GUID; null if unknown
   */
  peer_guid: string | null;
  peer_port: number | null;
  peer_node: string | null;
  link: string;
  gbps: number | null;
  sampler: string | null;
  status: "ok" | "no_answer" | "down" | "no_data" | "not_assigned";
  /**
   * 0 to 1
   */
  xmit_utilization: number | null;
  /**
   * 0 to 1
   */
  rcv_utilization: number | null;
  /**
   * 0 to 1
   */
  xmit_blocked: number | null;
}
export interface Ports {
  from_ns: number;
  to_ns: number;
  rows: PortRow[];
}
export interface Sampler {
  sampler: string;
  ca: string;
  ca_port: number;
  role: string;
  connected: boolean;
  /**
   * The clock is more than 2 s from those of the others; its records are kept apart
   */
  wrong_clock: boolean;
  /**
   * Distance from the median of the samplers, or from the clock of the hub if there are fewer than three; positive if the clock is ahead; null if it is not known
   */
  clock_distance_ns: number | null;
  input: string;
  /**
   * Name with the HCA port and, for a secondary sampler, the role; alerts about it have it as `sampler`
   */
  title: string;
  /**
   * Page of the hub of this part of the fabric, as configured for the input; null without one
   */
  part_page: string | null;
  version: string;
  interval_ns: number;
  last_slot: number;
  last_ts: number;
  ports: number;
  ok: number;
  late: number;
  timeout: number;
  unreachable: number;
  skipped: number;
  down: number;
  errors: number;
  duration_ns: number;
  rtt_p50_ns: number | null;
  rtt_p99_ns: number | null;
  /**
   * Sum of the slots that the sampler missed
   */
  slots_missed: number;
  /**
   * Sum of the records that its output dropped
   */
  lines_lost: number;
  /**
   * Slots whose records did not arrive
   */
  slots_lost: number;
  restarts: number;
  answered: number[];
  durations: number[];
}
export interface Samplers {
  from_ns: number;
  to_ns: number;
  rows: Sampler[];
}
export interface Series {
  from_ns: number;
  to_ns: number;
  /**
   * Ends of the intervals of the only series
   */
  t?: number[];
  /**
   * Values of the only series; `series` has their states
   */
  v?: (number | null)[];
  series: {
    port: string;
    metric: string;
    /**
     * Ends of the intervals, nanoseconds since 1970 (UTC)
     */
    t: number[];
    /**
     * Values; null if there is none
     */
    v: (number | null)[];
    /**
     * Largest value of each step
     */
    max?: (number | null)[];
    /**
     * `at_least`: the value is a lower bound. `increase`: errors increased at an unknown time. Absent if all values are exact
     */
    state?: ("at_least" | "increase" | null)[];
  }[];
}
export interface Timeline {
  from_ns: number;
  to_ns: number;
  /**
   * Length of a column
   */
  step_ns: number;
  /**
   * Starts of the columns
   */
  t: number[];
  /**
   * Items: 0 to 1
   */
  utilization_max: (number | null)[];
  /**
   * Items: 0 to 1
   */
  blocked_max: (number | null)[];
  /**
   * Share of the records whose port answered
   *
   * Items: 0 to 1
   */
  answered: (number | null)[];
  marks: {
    ts: number;
    kind: "link" | "device" | "sampler" | "event";
    text: string;
    /**
     * Port GUID; null if unknown
     */
    guid: string | null;
    port: number | null;
    severe: boolean;
  }[];
}
export interface Topology {
  generation: number;
  devices: {
    /**
     * Port GUID: 0x and 16 hexadecimal digits
     */
    guid: string;
    node: string;
    /**
     * `switch`, `hca` or `router`; null if unknown
     */
    kind: "switch" | "hca" | "router" | null;
    /**
     * 0 host, 1 leaf switch, and so on; null if no host can be reached
     */
    tier: number | null;
    lid: number | null;
  }[];
  ports: {
    /**
     * Port GUID: 0x and 16 hexadecimal digits
     */
    guid: string;
    port: number;
    node: string;
    /**
     * `switch`, `hca` or `router`; null if unknown
     */
    kind: "switch" | "hca" | "router" | null;
    /**
     * Index in `devices`
     */
    device: number;
    /**
     * Index in `ports`
     */
    peer: number | null;
    /**
     * Port GUID; null if unknown
     */
    peer_guid: string | null;
    peer_port: number | null;
    peer_node: string | null;
    /**
     * Width and speed, such as 4xEDR
     */
    link: string;
    /**
     * Data rate of `link`
     */
    gbps: number | null;
    /**
     * Sampler of the primary role; null if no sampler reads the port
     */
    sampler: string | null;
    /**
     * Name of the block of neighbouring rows
     */
    group: string;
  }[];
}
export interface Tree {
  root: PortName;
  to: PortName | null;
  link: string;
  why: "full" | "slow_host" | "unreachable" | "unclear";
  /**
   * How surely the port is the root; null for an unreachable device or an unclear cause
   */
  confidence: "low" | "medium" | "high" | null;
  /**
   * Other ports with records of the device at the end of the root's link
   */
  ports_beyond: number;
  /**
   * Start of the first interval with the tree
   */
  since_ns: number;
  /**
   * End of the last interval with the tree
   */
  until_ns: number;
  seconds: number;
  xmit_utilization: number;
  blocked: number;
  held_up_seconds: number;
  host_ports: number;
  switch_ports: number;
  /**
   * The regions of this root and cause in the time range, the last one first
   */
  regions: Region[];
  victims: {
    /**
     * Port GUID: 0x and 16 hexadecimal digits
     */
    guid: string;
    port: number;
    node: string;
    to: PortName | null;
    is_host: boolean;
    waits_for: PortName;
    depth: number;
    seconds: number;
    blocked_seconds: number;
    used_seconds: number;
  }[];
  xmit_utilization_peak: number;
}
/**
 * A congestion tree for as long as it lasts
 */
export interface Region {
  /**
   * Name: node and port of the root, and the second of the begin since 1970. A region keeps its name as long as it lasts
   */
  region: string;
  root: PortName;
  to: PortName | null;
  why: "full" | "slow_host" | "unreachable" | "unclear";
  confidence: "low" | "medium" | "high" | null;
  ports_beyond: number;
  /**
   * Other ports of the root's switch that lead to the same host; null without forwarding tables, or if there are none
   */
  other_ways: number | null;
  /**
   * Mean share of their data rates that they used
   */
  other_ways_utilization: number | null;
  /**
   * Start of the first interval, which can be before the time range
   */
  since_ns: number;
  /**
   * End of the last interval
   */
  until_ns: number;
  /**
   * Mean share of the data rate that the root used
   */
  xmit_utilization: number;
  /**
   * Blocked time of all ports, from the begin of the region on
   */
  held_up_seconds: number;
  /**
   * HCA ports that waited
   */
  host_ports: number;
  /**
   * Switch ports that waited
   */
  switch_ports: number;
  /**
   * Jobs that cause or suffer the congestion; empty without a source of jobs
   */
  jobs: {
    /**
     * Job ID
     */
    job: string;
    /**
     * Whether the job causes the congestion; else it suffers
     */
    causes: boolean;
    /**
     * Its HCA ports that waited
     */
    host_ports: number;
    blocked_seconds: number;
    /**
     * What its waiting ports sent, as a share of what the root sent; an upper bound, possibly more than 1
     */
    share: number;
  }[];
}
export interface Trees {
  from_ns: number;
  to_ns: number;
  rows: Tree[];
}
export interface Job {
  /**
   * Job ID
   */
  job: string;
  name: string | null;
  /**
   * Null if the source does not give it, or if users are hidden
   */
  user: string | null;
  /**
   * State in lower case, such as `running`
   */
  state: string;
  /**
   * Host list of the source
   */
  nodes: string;
  node_count: number;
  start_ns: number;
  /**
   * Null while the job runs
   */
  end_ns: number | null;
  /**
   * Whether the job ended at an unknown time after `end_ns`
   */
  end_is_lower_bound: boolean;
  /**
   * Start of the time whose traffic is in the sums; null without records
   */
  traffic_from_ns: number | null;
  /**
   * End of this time
   */
  traffic_to_ns: number | null;
  /**
   * Octets that all nodes sent
   */
  injected_bytes: number | null;
  /**
   * Octets that all nodes received
   */
  ejected_bytes: number | null;
  /**
   * Time in which the bytes are known, in seconds: the mean of the nodes
   */
  covered_seconds: number | null;
  /**
   * Time in which the blocked time is known, in seconds: the mean of the nodes
   */
  blocked_covered_seconds: number | null;
  /**
   * Time for which the ports of all nodes were blocked, summed
   */
  blocked_seconds: number | null;
  /**
   * Share of the known time in which a port was blocked: the mean of all ports
   */
  blocked: number | null;
  /**
   * Blocked time per byte that was sent
   */
  blocked_ns_per_byte: number | null;
  imbalance: {
    max_to_mean: number | null;
    variation: number | null;
    gini: number | null;
  };
  /**
   * Nodes with records; only in an answer about one job
   */
  hosts?: {
    host: string;
    ports: number;
    injected_bytes: number;
    ejected_bytes: number;
    covered_seconds: number;
    blocked_seconds: number;
    blocked_covered_seconds: number;
  }[];
  /**
   * Names of the nodes without records; only in an answer about one job
   */
  missing?: string[];
}
export interface JobDetail {
  /**
   * Job ID
   */
  job: string;
  name: string | null;
  /**
   * Null if the source does not give it, or if users are hidden
   */
  user: string | null;
  /**
   * State in lower case, such as `running`
   */
  state: string;
  /**
   * Host list of the source
   */
  nodes: string;
  node_count: number;
  start_ns: number;
  /**
   * Null while the job runs
   */
  end_ns: number | null;
  /**
   * Whether the job ended at an unknown time after `end_ns`
   */
  end_is_lower_bound: boolean;
  /**
   * Start of the time whose traffic is in the sums; null without records
   */
  traffic_from_ns: number | null;
  /**
   * End of this time
   */
  traffic_to_ns: number | null;
  /**
   * Octets that all nodes sent
   */
  injected_bytes: number | null;
  /**
   * Octets that all nodes received
   */
  ejected_bytes: number | null;
  /**
   * Time in which the bytes are known, in seconds: the mean of the nodes
   */
  covered_seconds: number | null;
  /**
   * Time in which the blocked time is known, in seconds: the mean of the nodes
   */
  blocked_covered_seconds: number | null;
  /**
   * Time for which the ports of all nodes were blocked, summed
   */
  blocked_seconds: number | null;
  /**
   * Share of the known time in which a port was blocked: the mean of all ports
   */
  blocked: number | null;
  /**
   * Blocked time per byte that was sent
   */
  blocked_ns_per_byte: number | null;
  imbalance: {
    max_to_mean: number | null;
    variation: number | null;
    gini: number | null;
  };
  /**
   * Nodes with records; only in an answer about one job
   */
  hosts: {
    host: string;
    ports: number;
    injected_bytes: number;
    ejected_bytes: number;
    covered_seconds: number;
    blocked_seconds: number;
    blocked_covered_seconds: number;
  }[];
  /**
   * Names of the nodes without records; only in an answer about one job
   */
  missing: string[];
  /**
   * Data rate that all nodes sent in each bin, in Gb/s: the mean of the recorded time in which the job ran. A lower bound where injected_covered is below 1; null where nothing is known
   */
  injected_gbps: (number | null)[];
  /**
   * Share of the ports whose data rate is known in each bin, 0 to 1: 0 for a bin without records, null where the job did not run
   */
  injected_covered: (number | null)[];
  /**
   * Start of the first bin
   */
  bins_from_ns: number | null;
  /**
   * Length of a bin
   */
  bin_ns: number;
  /**
   * Marks of applications and users with nodes of the job, the first start first
   */
  marks: Mark[];
  /**
   * Why the marks cannot be read
   */
  marks_error: string | null;
  /**
   * Increase of the error counters of the links of each node in the time range of links, by its name in lower case
   */
  node_errors: {
    [k: string]: number;
  };
  /**
   * The marks within the time range of links, added up by name
   */
  phases: {
    name: string;
    /**
     * Number of marks
     */
    times: number;
    /**
     * Time of the phases in which the sent bytes are known
     */
    covered_seconds: number;
    injected_bytes: number | null;
    ejected_bytes: number | null;
    /**
     * Time for which the ports of the nodes were blocked, summed
     */
    blocked_seconds: number | null;
    /**
     * Sum of the numbers of the application
     */
    value: number | null;
  }[];
  /**
   * Start of the time range of links, neighbours and trees
   */
  links_from_ns: number;
  /**
   * End of this time range
   */
  links_to_ns: number;
  /**
   * Links from the leaf switches of the job to other switches; `job_up_gbps` and `job_down_gbps` are the estimated part of the job
   */
  uplinks: {
    from: PortName;
    to: PortName | null;
    up_gbps: number;
    down_gbps: number;
    used: number | null;
    blocked: number | null;
    job_up_gbps: number;
    job_down_gbps: number;
  }[];
  /**
   * Jobs at the same leaf switches in the time of the job, with the most traffic in the time range first
   */
  neighbours: {
    job: string;
    name: string | null;
    user: string | null;
    state: string;
    start_ns: number;
    /**
     * Null while the job runs
     */
    end_ns: number | null;
    node_count: number;
    /**
     * Number of leaf switches that both jobs use
     */
    leaves: number;
    /**
     * Number of ports of the neighbour at these leaf switches
     */
    ports: number;
    /**
     * Number of nodes of the neighbour at these leaf switches
     */
    nodes: number;
    /**
     * Estimated part of the neighbour in the traffic of the links, in Gb/s: 0 if it did not run in the time range
     */
    up_gbps: number;
    down_gbps: number;
  }[];
  /**
   * Congestion trees in which nodes of the job waited
   */
  trees: {
    root: PortName;
    to: PortName | null;
    why: "full" | "slow_host" | "unreachable" | "unclear";
    seconds: number;
    /**
     * Number of HCA ports of the job that waited
     */
    job_ports: number;
    /**
     * Number of all HCA ports that waited
     */
    host_ports: number;
    job_blocked_seconds: number;
  }[];
}
export interface Mark {
  name: string;
  start_ns: number;
  /**
   * Null until the end of the records; the start for a moment
   */
  end_ns: number | null;
  /**
   * Host list; null for all hosts
   */
  nodes: string | null;
  /**
   * A number of the application
   */
  value: number | null;
  /**
   * `phase` of the file of marks, `mark` of a user, or `job`
   */
  kind: "phase" | "mark" | "job";
  /**
   * Number of the mark of a user
   */
  id: number | null;
  /**
   * User who posted the mark
   */
  by: string | null;
  /**
   * Job ID
   */
  job: string | null;
}
export interface Marks {
  from_ns: number;
  to_ns: number;
  rows: Mark[];
  /**
   * Why there are no marks
   */
  reason?: string;
}
export interface MarkId {
  id: number;
}
export interface JobMatrix {
  from_ns: number;
  /**
   * End of the time range, exclusive
   */
  to_ns: number;
  /**
   * What `from` and `to` are: leaf switches if the job has many nodes
   */
  ends: "hosts" | "leaf switches";
  /**
   * Null without an estimate
   */
  matrix: {
    /**
     * Pairs with possible traffic, the largest estimate first. The others exchanged no data, if hosts of different jobs exchange none
     */
    cells: {
      /**
       * Sender, or `other hosts` for all hosts outside the job
       */
      from: string;
      to: string;
      /**
       * Leaf switch of the sender; empty if unknown
       */
      from_leaf: string;
      to_leaf: string;
      /**
       * Whether the sender is a node of the job
       */
      from_is_node: boolean;
      to_is_node: boolean;
      /**
       * Lower bound, if hosts of different jobs exchange no data
       */
      least_bytes: number;
      estimate_bytes: number;
      /**
       * Upper bound
       */
      most_bytes: number;
    }[];
    /**
     * Length of the intervals of the estimate
     */
    interval_ns: number;
    /**
     * Part of the data on links between switches that the estimate does not explain, 0 to 1
     */
    unexplained: number | null;
    /**
     * Time in which the counters show that hosts of different jobs exchange data
     */
    contradicted_seconds: number;
    /**
     * What the estimate is worth, as a text
     */
    worth: string;
  } | null;
  /**
   * Why there is no estimate
   */
  reason: string | null;
}
export interface Group {
  /**
   * Name of the group
   */
  group: string;
  /**
   * Host list of the configuration
   */
  hosts: string;
  /**
   * Names of the hosts of the group in the topology
   */
  nodes: string[];
  /**
   * Names in the host list that the topology does not have
   */
  unknown: string[];
}
/**
 * A group with the traffic into and out of its hosts, computed as by `ibnet-view job --group`
 */
export interface GroupDetail {
  /**
   * Start of the time range, inclusive
   */
  from_ns: number;
  /**
   * End of the time range, exclusive
   */
  to_ns: number;
  group: string;
  hosts: string;
  nodes: string[];
  unknown: string[];
  /**
   * Number of senders; `senders` has at most the first 100
   */
  sender_count: number;
  /**
   * Octets that all hosts of the group received
   */
  in_bytes: number;
  /**
   * Octets that all hosts of the group sent
   */
  out_bytes: number;
  /**
   * Time in which the bytes are known, in seconds: the mean of the ports
   */
  covered_seconds: number;
  /**
   * Recorded time in seconds
   */
  recorded_seconds: number;
  in_imbalance: {
    max_to_mean: number | null;
    /**
     * Coefficient of variation
     */
    variation: number | null;
    /**
     * Gini coefficient
     */
    gini: number | null;
  };
  out_imbalance: {
    max_to_mean: number | null;
    /**
     * Coefficient of variation
     */
    variation: number | null;
    /**
     * Gini coefficient
     */
    gini: number | null;
  };
  /**
   * Hosts with records; the host that received most comes first
   */
  targets: GroupTarget[];
  /**
   * Names in the host list without records in the time range
   */
  missing: string[];
  /**
   * The sender with the largest estimate comes first
   */
  senders: GroupSender[];
  /**
   * Start of the first bin
   */
  start_ns: number;
  /**
   * Length of a bin in nanoseconds
   */
  bin_ns: number;
  /**
   * Data rates from the switch ports into the hosts; the largest comes first
   */
  into: {
    /**
     * The switch port and the host
     */
    port: string;
    /**
     * Data rate in each bin, Gb/s; null if it is not known
     */
    gbps: (number | null)[];
    /**
     * Share of each bin in which the data rate is known; below 1 the rate is a lower bound
     */
    covered: (number | null)[];
  }[];
  /**
   * Data rates from the hosts into the switch ports; the largest comes first
   */
  out: {
    /**
     * The switch port and the host
     */
    port: string;
    /**
     * Data rate in each bin, Gb/s; null if it is not known
     */
    gbps: (number | null)[];
    /**
     * Share of each bin in which the data rate is known; below 1 the rate is a lower bound
     */
    covered: (number | null)[];
  }[];
  /**
   * Largest received data rate of a host divided by the mean of the hosts, for each bin; null without traffic, and if the value of a host is missing
   */
  in_max_to_mean: (number | null)[];
}
/**
 * A host of a group
 */
export interface GroupTarget {
  host: string;
  /**
   * Number of HCA ports
   */
  ports: number;
  /**
   * Octets that the host received
   */
  in_bytes: number;
  /**
   * Octets that the host sent
   */
  out_bytes: number;
  /**
   * Time in which the bytes are known, in seconds: the mean of the ports
   */
  covered_seconds: number;
  /**
   * Largest received data rate of a bin, Gb/s
   */
  in_peak_gbps: number | null;
  /**
   * Largest sent data rate of a bin, Gb/s
   */
  out_peak_gbps: number | null;
}
/**
 * A job or a host outside the group that can have sent to the group
 */
export interface GroupSender {
  /**
   * ID of a job; null for a host without a job
   */
  job: string | null;
  /**
   * Name of the host; null for a job
   */
  host: string | null;
  /**
   * Octets that it sent to any destination
   */
  sent_bytes: number;
  /**
   * Lower bound of the bytes that it sent to the group
   */
  least_bytes: number;
  /**
   * Estimate of the bytes that it sent to the group
   */
  estimate_bytes: number;
  /**
   * Upper bound of the bytes that it sent to the group
   */
  most_bytes: number;
  /**
   * Time in which the bounds are known, in seconds
   */
  covered_seconds: number;
  /**
   * Correlation of what it sent with what the group received, -1 to 1
   */
  correlation: number | null;
  /**
   * Estimated data rate to the group in each bin, Gb/s
   */
  estimate_gbps: (number | null)[];
}
export interface Groups {
  from_ns: number;
  to_ns: number;
  rows: Group[];
  /**
   * Why the list is empty
   */
  reason?: string;
}
export interface Jobs {
  from_ns: number;
  to_ns: number;
  rows: Job[];
  /**
   * Why the list is empty
   */
  reason?: string;
  /**
   * Number of jobs that run
   */
  running: number;
  /**
   * Number of all jobs of the table
   */
  known: number;
  /**
   * Source of the jobs
   */
  source: string | null;
  /**
   * Time of the last report of the source
   */
  read_ns: number | null;
  /**
   * Reason why the last attempt failed
   */
  error: string | null;
  /**
   * End of the time whose traffic is in the sums
   */
  settled_ns: number | null;
}
export interface Whoami {
  /**
   * Name of the user; null with the password alone, and without roles
   */
  name: string | null;
  role: "user" | "operator" | "admin";
}
