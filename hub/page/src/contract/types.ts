//! Short names for the answers of the hub and their parts. `docs/hub.md` describes the answers.
//!
//! A field that ends in `_ns` and the field `ts` are nanoseconds since 1970. A number holds them to
//! a quarter of a microsecond, and the page shows milliseconds.

import type {
  GroupDetail,
  Health,
  JobDetail,
  JobMatrix,
  Series as SeriesAnswer,
  Timeline,
  Topology,
  Tree,
} from "./openapi";

export type {
  Alert as AlertRow,
  Alerts,
  Audit,
  AuditEntry,
  CableEnd,
  CableFinding,
  Cabling,
  CounterValue,
  ErrorRatio,
  ErrorRow,
  Errors as ErrorRows,
  Event as EventRow,
  Events as EventRows,
  Group as GroupRow,
  GroupDetail,
  GroupSender,
  Groups as GroupRows,
  GroupTarget,
  Health,
  HealthLink,
  HealthLinks,
  Job as JobRow,
  JobDetail,
  JobMatrix,
  Jobs as JobRows,
  Link as LinkRow,
  Links as LinkRows,
  Manager as ManagerRow,
  Managers as ManagerRows,
  Mark as MarkRow,
  Marks as MarkRows,
  Path,
  PathLink,
  Physical as PhysicalDetail,
  PhysicalPage,
  Plane,
  Port as PortDetail,
  PortName,
  Receiver,
  Region as RegionRow,
  Sampler as SamplerRow,
  Samplers as SamplerRows,
  Series as SeriesAnswer,
  Timeline,
  Topology as TopologyAnswer,
  Tree as TreeRow,
  Trees as TreeRows,
  Whoami,
} from "./openapi";

export type DeviceRow = Topology["devices"][number];
export type JobLink = JobDetail["uplinks"][number];
export type JobNeighbour = JobDetail["neighbours"][number];
export type JobNode = JobDetail["hosts"][number];
export type JobPhase = JobDetail["phases"][number];
export type JobTree = JobDetail["trees"][number];
/** Kind of a device. */
export type Kind = NonNullable<DeviceRow["kind"]>;
export type MatrixCell = NonNullable<JobMatrix["matrix"]>["cells"][number];
export type Metric = Health["metrics"][number];
export type Packing = NonNullable<Health["archive"]>;
export type PortRate = GroupDetail["into"][number];
export type PortRow = Topology["ports"][number];
export type Series = SeriesAnswer["series"][number];
export type TimelineMark = Timeline["marks"][number];
export type VictimRow = Tree["victims"][number];

/** First message of the stream of slots. */
export interface LiveHello {
  generation: number;
  metrics: string[];
  interval_ns: number;
}
