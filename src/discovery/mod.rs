//! Discovery: finds all devices and links of the fabric by directed routes, and describes them in
//! the format of `ibnetdiscover -p`.
//!
//! | module | contents |
//! |---|---|
//! | [`explore`] | the state machine that decides which request is sent next |
//! | [`report`] | what was found, as the lines of a net file, and what did not answer |
//! | [`source`] | the fabric in place of a net file |
//! | [`run`](mod@run) | the loop that connects the state machine with a transport and a clock |
//!
//! The requests are Gets of NodeInfo, NodeDescription and PortInfo
//! ([`directed`](crate::mad::directed)). SwitchInfo is not read, because no line of the format
//! depends on it.

pub mod explore;
pub mod report;
pub mod run;
pub mod source;

pub use explore::Exploration;
pub use run::{Discovered, discover};
pub use source::{DiscoveryError, FABRIC, discover_from, hca_of};
