//! What forwarding tables do to the traffic of a fabric: the path of each pair of hosts, and what
//! is wrong with all of them.
//!
//! | module | contents |
//! |---|---|
//! | `net` | devices and links as indices: a [`Net`] from a net file or from records |
//! | `paths` | the next link of a packet, and the path of a pair of hosts |
//! | `walk` | the paths of all hosts to one destination, which form a tree |
//! | `census` | paths of each link, lost pairs, entries with dead ports |
//! | `bisection` | effective bisection bandwidth |
//! | `recorded` | the tables of records |
//! | `service_levels` | the virtual lane of a packet on each link |
//! | `loops` | credit loops |
//! | `rows` | the rows of the results |
//!
//! Only the base LID of a port is a destination. With an LMC above 0, traffic to the other LIDs of
//! a port can take other paths. With adaptive routing, a switch may choose another port than that
//! of its table.

mod bisection;
mod census;
mod loops;
mod net;
mod paths;
mod recorded;
mod rows;
mod service_levels;
#[cfg(test)]
mod tests;
mod walk;

pub use bisection::{Bisection, bisection};
pub use census::{Census, Lost};
pub use loops::{Certainty, CreditLoop, Loops, Onward, credit_loops};
pub use net::{Channel, ChannelIndex, DeviceIndex, End, Net, NetDevice, NetPort, Role};
pub use paths::{Paths, Stop, Stopped, pairs};
pub use recorded::Recorded;
pub use rows::{CyclePort, PathRow, RoutingRow, What, path_rows, routing_rows};
pub use service_levels::{PathSls, SlToVl};
