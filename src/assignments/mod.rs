//! The assignments file, also called the *plan*: it defines which sampler queries which ports.
//! `ibnet-gen` writes it, and `ibnet-sweep` reads it.
//!
//! The file is TOML, version 1. The same assignments and header always give the same bytes:
//!
//! ```toml
//! version = 1
//! cap = 150
//! [[sampler]]
//! host = "node00001"
//! port_count = 1
//!   [[sampler.device]]
//!   guid = "0x0000000000200006"   # port GUID as ibnetdiscover prints it (a switch: port 0)
//!   lid = 4
//!   kind = "switch"
//!   name = "rack0-leaf0"
//!   hops = 1                       # links between the sampler and the device
//!     [[sampler.device.port]]
//!     num = 1
//!     width = "4x"
//!     speed = "EDR"
//!     peer = { guid = "0x0000000000100001", lid = 17, port = 1, name = "node00001 mlx5_0" }
//! ```
//!
//! In a plan of several subnets, each sampler also has the name of its subnet after its host,
//! such as `subnet = "rail0"`. A host with ports in two subnets has one block for each subnet.
//!
//! A plan that is distributed to a running fleet can have the line `at = "2026-11-22T15:00:10Z"`
//! after `cap`: the time of its first slot, in UTC ([`Assignments::at`], [`with_time`]).
//!
//! [`Assignments::parse`] accepts a file only if its counts are correct, no port is assigned
//! twice within a role (`primary` or `secondary`), and each LID is a unicast LID that belongs to
//! only one GUID within its subnet. The counts also detect a truncated file.
//!
//! This module contains only the file format. [`crate::partition`] converts a plan of the planner
//! to assignments.

use std::cmp::Reverse;
use std::fmt::Write;
use std::path::PathBuf;

use ibnet_record::hostlist;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum, Printable};
use miette::Diagnostic;
use serde::Deserialize;
use sha2::{Digest, Sha256};

mod read;
mod write;

pub use write::with_time;

/// Version of the file that this program writes and reads.
pub const VERSION: u32 = 1;

/// Content of an assignments file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignments {
    /// Version of the file: [`VERSION`].
    pub version: u32,
    /// The cap: max number of ports that a sampler may get in one role.
    pub cap: u32,
    /// Start of the first slot of this plan, in nanoseconds since 1970. Samplers that run another
    /// plan change to this one in the first slot that starts at this time or later, so they all
    /// change in the same slot. With `None` or a time in the past, they change as soon as possible.
    #[serde(default, deserialize_with = "read::time")]
    pub at: Option<u64>,
    /// One or more blocks for each sampler host.
    #[serde(rename = "sampler", default)]
    pub samplers: Vec<Sampler>,
}

/// A block of the file: one sampler in one role, and the devices that it queries.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampler {
    /// Short name of the host.
    pub host: String,
    /// Name of the subnet in a plan of several subnets. LIDs are unique within a subnet only.
    pub subnet: Option<String>,
    /// HCA that sends the queries, if the administrator named it.
    pub ca: Option<String>,
    /// Port of the HCA, if the administrator named it.
    pub ca_port: Option<PortNum>,
    /// `secondary` for the second sampler of the ports; `primary` or absent for the first one.
    pub role: Option<String>,
    /// Time at which the queries start, as a share of the interval: at least 0 and below 1.
    pub offset: Option<f64>,
    /// Number of ports of all devices of the block.
    pub port_count: u32,
    /// Devices to query.
    #[serde(rename = "device", default)]
    pub devices: Vec<AssignedDevice>,
}

/// A device, and those of its ports that are queried.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignedDevice {
    /// Port GUID. For a switch it is the GUID of port 0.
    pub guid: Guid,
    /// LID at which the device answered when the net file was made.
    pub lid: Lid,
    /// Kind of the device.
    pub kind: NodeKind,
    /// Node description for display. The text is untrusted.
    pub name: String,
    /// Number of links between the sampler and the device, if known.
    pub hops: Option<u16>,
    /// Ports to query, in ascending order.
    #[serde(rename = "port", default)]
    pub ports: Vec<AssignedPort>,
}

/// A port to query.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignedPort {
    /// Port number.
    pub num: PortNum,
    /// Width of the link when the net file was made: `4x`.
    pub width: String,
    /// Speed of the link when the net file was made: `EDR`.
    pub speed: String,
    /// Peer of the port when the net file was made.
    pub peer: Option<AssignedPeer>,
}

/// The port at the other end of a link when the net file was made.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssignedPeer {
    /// Port GUID.
    pub guid: Guid,
    /// LID, or 0 if the net file had none.
    pub lid: Lid,
    /// Port number.
    pub port: PortNum,
    /// Node description for display. The text is untrusted.
    pub name: String,
}

/// The content of an assignments file, together with the digest of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// Content of the file.
    pub assignments: Assignments,
    /// SHA-256 of the bytes of the file, in hexadecimal digits.
    pub sha256: String,
}

/// The comment at the top of the file: the origin of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Net files: name and [`sha256_hex`] of each.
    pub sources: Vec<(String, String)>,
    /// Command that wrote the file.
    pub command: String,
}

/// Reason why an assignments file is rejected, or why it cannot be used for a host.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum AssignmentsError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    #[diagnostic(help("give the file that `ibnet-gen -o FILE` wrote"))]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The text is not an assignments file.
    #[error("cannot read {place}: {problem}")]
    #[diagnostic(help(
        "an assignments file is what `ibnet-gen -o FILE` writes; if this is one, it was truncated or edited: write it again"
    ))]
    NotAssignments {
        /// Name and line of the file.
        place: String,
        /// Description of the problem.
        problem: String,
    },
    /// The file has another version.
    #[error(
        "cannot read {place}: another version of the assignments file (found {found}, expected {VERSION})"
    )]
    #[diagnostic(help("use ibnet-gen and ibnet-sweep of the same release"))]
    Version {
        /// Name and line of the file.
        place: String,
        /// Version of the file.
        found: i64,
    },
    /// The content of the file contradicts itself.
    #[error("cannot read {place}: {problem}")]
    #[diagnostic(help(
        "the file was truncated or edited: write it again with `ibnet-gen -o FILE`"
    ))]
    Inconsistent {
        /// Name and line of the file.
        place: String,
        /// Description of the problem.
        problem: String,
    },
    /// The file has no block for a host.
    #[error(
        "cannot find the sampler `{}`: it is not in the assignments (found {})",
        Printable(host),
        known
    )]
    #[diagnostic(help(
        "{}give one of these with --sampler HOST, or add this host to the samplers of ibnet-gen",
        nearest.as_ref().map(|name| format!("did you mean `{}`? ", Printable(name))).unwrap_or_default()
    ))]
    UnknownSampler {
        /// Host name that was given with `--sampler`.
        host: String,
        /// Most similar name in the file.
        nearest: Option<String>,
        /// Some of the names in the file.
        known: String,
    },
}

/// Returns the SHA-256 of some bytes in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

impl Assignments {
    /// Returns the blocks of a host, those with the primary role first. A host has several blocks
    /// if it sends from several HCA ports, samples several subnets, or has both roles. The
    /// argument `host@subnet` selects the blocks of one subnet.
    ///
    /// # Errors
    /// Returns [`AssignmentsError::UnknownSampler`] if the file has no block for the host. The
    /// error lists some of the hosts in the file.
    pub fn of_host(&self, host: &str) -> Result<Vec<&Sampler>, AssignmentsError> {
        const MAX_NAMES: usize = 8;
        let at = |sampler: &Sampler| {
            sampler
                .subnet
                .as_ref()
                .is_some_and(|subnet| host == format!("{}@{subnet}", sampler.host))
        };
        let mut of_host: Vec<_> = self
            .samplers
            .iter()
            .filter(|sampler| sampler.host == host || at(sampler))
            .collect();
        of_host.sort_by_key(|sampler| sampler.is_secondary());
        if !of_host.is_empty() {
            return Ok(of_host);
        }
        let mut names: Vec<_> = self.samplers.iter().map(|sampler| &*sampler.host).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MAX_NAMES);
        let some: Vec<_> = names
            .iter()
            .take(MAX_NAMES)
            .map(|name| Printable(name).to_string())
            .collect();
        let known = match (names.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (_, 0) => some.join(", "),
            _ => format!("{} and {more} more", some.join(", ")),
        };
        let nearest = hostlist::nearest(host, names.into_iter()).map(str::to_owned);
        Err(AssignmentsError::UnknownSampler {
            host: host.to_owned(),
            nearest,
            known,
        })
    }
}

impl Sampler {
    /// Divides the block into `parts` blocks with similar numbers of ports, one for each HCA port
    /// of the host. A device is never split, so the numbers differ by at most the ports of one
    /// device.
    pub fn divided(&self, parts: usize) -> Vec<Self> {
        let Self {
            host,
            subnet,
            ca,
            ca_port,
            role,
            offset,
            ..
        } = self.clone();
        let mut shares = vec![
            Self {
                host,
                subnet,
                ca,
                ca_port,
                role,
                offset,
                port_count: 0,
                devices: Vec::new()
            };
            parts
        ];
        let mut devices: Vec<_> = self.devices.iter().enumerate().collect();
        // Each device, the largest first, goes to the part that has the fewest ports so far.
        devices.sort_by_key(|(_, device)| Reverse(device.ports.len()));
        let mut owners = vec![0; self.devices.len()];
        for (at, device) in devices {
            let least = (0..parts)
                .min_by_key(|part| shares[*part].port_count)
                .unwrap_or(0);
            (owners[at], shares[least].port_count) =
                (least, shares[least].port_count + device.ports.len() as u32);
        }
        self.devices
            .iter()
            .zip(owners)
            .for_each(|(device, owner)| shares[owner].devices.push(device.clone()));
        shares
    }

    /// Returns whether the block has the secondary role.
    pub fn is_secondary(&self) -> bool {
        self.role.as_deref() == Some("secondary")
    }
}

#[cfg(test)]
mod tests;
