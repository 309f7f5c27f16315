//! Answers from the records in memory. All numbers come from [`ibnet_analysis`], so they equal
//! those of `ibnet-view` for the same records.
//!
//! | module | contents |
//! |---|---|
//! | [`series`] | the values of a port over time |
//! | [`heat`] | the values of all ports over time |
//! | [`evaluated`] | links, congestion trees and errors |
//! | [`cabling`] | the cables that differ from the plan |
//! | [`congestion`] | congestion trees with their regions and jobs |
//! | [`groups`] | groups of hosts with their traffic |
//! | [`health`] | the links with their verdicts |
//! | [`jobs`] | jobs with their traffic, links and neighbours |
//! | [`memory`] | the records in memory behind those of an archive |
//! | [`passes`] | the last passes over the records |
//! | [`error`] | the errors of a query |
//! | [`path`] | the links between two hosts |
//! | [`physical`] | the physical layer of a port |
//! | [`port`] | the last record of a port |
//! | [`ports`] | the newest values of ports that match a text |
//! | [`managers`] | the subnet managers |
//! | [`phases`] | the marks of applications, users and jobs |
//! | [`marks`] | the marks of the timeline |

pub(crate) mod cabling;
pub(crate) mod congestion;
pub(crate) mod error;
pub(crate) mod evaluated;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod heat;
pub(crate) mod jobs;
pub(crate) mod managers;
pub(crate) mod marks;
pub(crate) mod memory;
pub(crate) mod passes;
pub(crate) mod path;
pub(crate) mod phases;
pub(crate) mod physical;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod series;

#[cfg(test)]
pub(crate) mod tests;
