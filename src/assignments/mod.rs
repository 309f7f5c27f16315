//! The assignments file: who samples which ports. Partition writes it, the sweep reads it.
//!
//! TOML, version 1. The same assignments and the same header give the same bytes:
//!
//! ```toml
//! version = 1
//! cap = 150
//! [[sampler]]
//! host = "node00001"
//! port_count = 1
//!   [[sampler.device]]
//!   guid = "0x0000000000200006"   # port GUID as ibnetdiscover prints it (a switch: that of port 0)
//!   lid = 4
//!   kind = "switch"
//!   name = "rack0-leaf0"
//!   hops = 1                       # from the sampler
//!     [[sampler.device.port]]
//!     num = 1
//!     width = "4x"
//!     speed = "EDR"
//!     peer = { guid = "0x0000000000100001", lid = 17, port = 1, name = "node00001 mlx5_0" }
//! ```
//!
//! In a plan of several subnets each sampler has `subnet = "rail0"` after its host, and a host that is in two of them is there twice.
//!
//! What a reader may rely on after [`Assignments::parse`]: the counts are right, every LID can be addressed and is that of one
//! GUID only within its subnet, no port is assigned twice within a role. A file that was cut does not pass.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::partition::{self, LeftOut, Plan, Previous, Reason};
use crate::topology::graph::UNREACHABLE;
use crate::topology::{self, DeviceId, Fabric, Graph};
use crate::types::{Guid, Lid, NodeKind, PortNum, Printable};

/// The version of the file that this program writes and reads.
pub const VERSION: u32 = 1;

/// When a secondary sampler asks.
const HALF_AN_INTERVAL: f64 = 0.5;

/// All of an assignments file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignments {
    /// [`VERSION`].
    pub version: u32,
    /// The most ports that a sampler was to get.
    pub cap: u32,
    /// Who samples.
    #[serde(rename = "sampler", default)]
    pub samplers: Vec<Sampler>,
}

/// A sampler and what it asks.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampler {
    /// The host, by its short name.
    pub host: String,
    /// The subnet that it samples, where the plan is of several: the name of its net file. LIDs are unique within it only.
    pub subnet: Option<String>,
    /// The adapter that sends, if the administrator named it.
    pub ca: Option<String>,
    /// Its port, if the administrator named it.
    pub ca_port: Option<PortNum>,
    /// `secondary` for one that stands in; absent or `primary` otherwise.
    pub role: Option<String>,
    /// When within the interval it asks, as a share of the interval, from 0 to below 1.
    pub offset: Option<f64>,
    /// Ports in all of its devices.
    pub port_count: u32,
    /// What it asks.
    #[serde(rename = "device", default)]
    pub devices: Vec<Device>,
}

/// A device and those of its ports that are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The port GUID; of a switch that of port 0.
    pub guid: Guid,
    /// Where it answers.
    pub lid: Lid,
    /// What it is.
    pub kind: NodeKind,
    /// Its name, for people; written by strangers.
    pub name: String,
    /// Links between the sampler and the device, if that is known.
    pub hops: Option<u16>,
    /// Ascending by number.
    #[serde(rename = "port", default)]
    pub ports: Vec<Port>,
}

/// A port to ask for.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its number.
    pub num: PortNum,
    /// The width of the link when the net file was made: `4x`.
    pub width: String,
    /// The speed of the link when the net file was made: `EDR`.
    pub speed: String,
    /// The other end.
    pub peer: Option<Peer>,
}

/// The other end of a link when the net file was made.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID; 0 if none was known.
    pub lid: Lid,
    /// Its port.
    pub port: PortNum,
    /// Its name, for people; written by strangers.
    pub name: String,
}

/// A file as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// What is in it.
    pub assignments: Assignments,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// The comment at the top of the file: where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The net files: name and [`sha256_hex`].
    pub sources: Vec<(String, String)>,
    /// The command that wrote the file.
    pub command: String,
}

/// Why an assignments file is of no use.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum AssignmentsError {
    /// It could not be read from the disk.
    #[error("{}: cannot be read", path.display())]
    #[diagnostic(help("give the file that `ibnet-gen -o FILE` wrote"))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no assignments file.
    #[error("{place}: {found}")]
    #[diagnostic(help("an assignments file is what `ibnet-gen -o FILE` writes; if this is one, it was cut or edited: write it anew"))]
    NotAssignments {
        /// The file and the line.
        place: String,
        /// What is wrong there.
        found: String,
    },
    /// Another version of the file.
    #[error("{place}: version {found} was found, version {VERSION} was expected")]
    #[diagnostic(help("use ibnet-gen and ibnet-sweep of the same release"))]
    Version {
        /// The file and the line.
        place: String,
        /// The version that it has.
        found: i64,
    },
    /// Something in it contradicts itself.
    #[error("{place}: {found}")]
    #[diagnostic(help("the file was cut or edited: write it anew with `ibnet-gen -o FILE`"))]
    Inconsistent {
        /// The file and the line.
        place: String,
        /// What is wrong there.
        found: String,
    },
    /// No such sampler.
    #[error("the sampler `{}` is not in the assignments; there are: {}", Printable(host), known)]
    #[diagnostic(help(
        "{}give one of these with --sampler HOST, or add this host to the samplers of ibnet-gen",
        nearest.as_ref().map(|name| format!("did you mean `{}`? ", Printable(name))).unwrap_or_default()
    ))]
    UnknownSampler {
        /// The name that was looked for.
        host: String,
        /// The name in the file that is most like it.
        nearest: Option<String>,
        /// Some of those that there are.
        known: String,
    },
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Assignments {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// As [`Assignments::parse`], and when the file cannot be read.
    pub fn read(path: &Path) -> Result<Loaded, AssignmentsError> {
        let bytes = std::fs::read(path).map_err(|source| AssignmentsError::Io { path: path.to_owned(), source })?;
        let name = path.display().to_string();
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            AssignmentsError::NotAssignments { place: format!("{name}:{line}"), found: "this is no text in UTF-8".to_owned() }
        })?;
        Ok(Loaded { assignments: Self::parse(text, &name)?, sha256: sha256_hex(&bytes) })
    }

    /// Reads and checks the text of a file; `name` is the file's in messages.
    ///
    /// # Errors
    /// When it is no assignments file, one of another version, or contradicts itself.
    pub fn parse(text: &str, name: &str) -> Result<Self, AssignmentsError> {
        /// What every version of the file has.
        #[derive(Deserialize)]
        struct Versioned {
            version: i64,
        }
        let not_toml = |error: toml::de::Error| {
            let line = error.span().map(|span| format!(":{}", line_at(text, span.start))).unwrap_or_default();
            let found = Printable(error.message()).to_string();
            AssignmentsError::NotAssignments { place: format!("{name}{line}"), found }
        };
        let other_version = |found| {
            let line = (1..).zip(text.lines()).find(|(_, line)| line.trim_start().starts_with("version")).map_or(1, |(line, _)| line);
            AssignmentsError::Version { place: format!("{name}:{line}"), found }
        };
        // A file of another version may have other fields: then its version is what to tell.
        let assignments: Self = toml::from_str(text).map_err(|error| match toml::from_str(text) {
            Ok(Versioned { version }) if version != i64::from(VERSION) => other_version(version),
            _ => not_toml(error),
        })?;
        if assignments.version != VERSION {
            return Err(other_version(assignments.version.into()));
        }
        let inconsistent = |(spot, found): (Spot, String)| {
            let line = spot.line(text).map(|line| format!(":{line}")).unwrap_or_default();
            AssignmentsError::Inconsistent { place: format!("{name}{line}"), found }
        };
        assignments.check().map_err(inconsistent)?;
        Ok(assignments)
    }

    /// The assignments that a plan makes.
    pub fn of(plan: &Plan, fabric: &Fabric) -> Self {
        let block = |share: &partition::Share, (role, offset): (Option<&str>, Option<f64>)| Sampler {
            host: share.host.name.clone(),
            subnet: None,
            ca: share.host.ca.clone(),
            ca_port: share.host.ca_port,
            role: role.map(str::to_owned),
            offset,
            port_count: share.ports,
            devices: share.devices.iter().map(|held| Device::of(fabric.device(held.id), held.hops)).collect(),
        };
        let primary = plan.shares.iter().map(|share| block(share, (None, None)));
        let secondary = plan.secondary.iter().map(|share| block(share, (Some("secondary"), Some(HALF_AN_INTERVAL))));
        Self { version: VERSION, cap: plan.cap, samplers: primary.chain(secondary).collect() }
    }

    /// Who samples what in it, for a plan that changes as little of it as possible: all of it, or what is of that subnet or of none.
    pub fn as_previous(&self, subnet: Option<&str>) -> Previous {
        let mut previous = Previous::default();
        let is_of_subnet = |sampler: &&Sampler| subnet.is_none() || sampler.subnet.is_none() || sampler.subnet.as_deref() == subnet;
        for sampler in self.samplers.iter().filter(is_of_subnet) {
            let of_role = if sampler.is_secondary() { &mut previous.secondary } else { &mut previous.primary };
            for device in &sampler.devices {
                let owner = || (sampler.host.clone(), device.name.clone());
                of_role.extend(device.ports.iter().map(|port| ((device.guid, port.num), owner())));
            }
        }
        previous
    }

    /// The assignments of several subnets in one file, each with its name.
    pub fn of_subnets(subnets: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut all = Self { version: VERSION, cap: 0, samplers: Vec::new() };
        for (name, Self { cap, samplers, .. }) in subnets {
            all.cap = all.cap.max(cap);
            all.samplers.extend(samplers.into_iter().map(|sampler| Sampler { subnet: Some(name.clone()), ..sampler }));
        }
        all
    }

    /// The text of the file.
    pub fn to_toml(&self, header: &Header) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write(header, &mut text);
        text
    }

    /// All that is of that host, its primary role first: more than one block where it has several HCA ports or both roles. `host@subnet` is what it has in one
    /// of several subnets.
    ///
    /// # Errors
    /// When there is none: with the names that there are.
    pub fn of_host(&self, host: &str) -> Result<Vec<&Sampler>, AssignmentsError> {
        const MOST: usize = 8;
        let at = |sampler: &Sampler| sampler.subnet.as_ref().is_some_and(|subnet| host == format!("{}@{subnet}", sampler.host));
        let mut of_host: Vec<_> = self.samplers.iter().filter(|sampler| sampler.host == host || at(sampler)).collect();
        of_host.sort_by_key(|sampler| sampler.is_secondary());
        if !of_host.is_empty() {
            return Ok(of_host);
        }
        let mut names: Vec<_> = self.samplers.iter().map(|sampler| &*sampler.host).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MOST);
        let some: Vec<_> = names.iter().take(MOST).map(|name| Printable(name).to_string()).collect();
        let known = match (names.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (_, 0) => some.join(", "),
            _ => format!("{} and {more} more", some.join(", ")),
        };
        let nearest = partition::hosts::nearest(host, names.into_iter()).map(str::to_owned);
        Err(AssignmentsError::UnknownSampler { host: host.to_owned(), nearest, known })
    }

    fn check(&self) -> Result<(), (Spot, String)> {
        let mut hosts = BTreeSet::new();
        let mut ports: BTreeMap<(Guid, PortNum, bool), &str> = BTreeMap::new();
        let mut lids: BTreeMap<(Option<&str>, Lid), Guid> = BTreeMap::new();
        let mut devices = 0;
        for (number, sampler) in self.samplers.iter().enumerate() {
            let host = Printable(&sampler.host);
            let secondary = sampler.is_secondary();
            let here = |found: String| (Spot::Sampler(number), found);
            if !matches!(sampler.role.as_deref(), None | Some("primary" | "secondary")) {
                return Err(here(format!("the role of `{host}` is neither `primary` nor `secondary`")));
            }
            if !sampler.offset.is_none_or(|offset| (0.0..1.0).contains(&offset)) {
                return Err(here(format!("the offset of `{host}` is not from 0 to below 1")));
            }
            let subnet = sampler.subnet.as_deref();
            if !hosts.insert((&sampler.host, subnet, &sampler.ca, sampler.ca_port, secondary)) {
                return Err(here(format!("the sampler `{host}` is there twice")));
            }
            for device in &sampler.devices {
                let guid = device.guid;
                let here = |found: String| (Spot::Device(devices), found);
                if !device.lid.is_unicast() {
                    return Err(here(format!("LID {} of {guid} is none that can be addressed (1 to {})", device.lid, Lid::MAX_UNICAST)));
                }
                let other = *lids.entry((subnet, device.lid)).or_insert(guid);
                if other != guid {
                    return Err(here(format!("LID {} of {guid} is already that of {other}", device.lid)));
                }
                for port in &device.ports {
                    if !(1..=254).contains(&port.num.0) {
                        return Err(here(format!("port {} of {guid} is not from 1 to 254", port.num)));
                    }
                    if let Some(first) = ports.insert((guid, port.num, secondary), &sampler.host) {
                        return Err(here(format!("port {} of {guid} is assigned to `{}` already", port.num, Printable(first))));
                    }
                }
                devices += 1;
            }
            let counted: usize = sampler.devices.iter().map(|device| device.ports.len()).sum();
            if counted != sampler.port_count as usize {
                return Err(here(format!("`{host}` has {counted} ports, port_count says {}", sampler.port_count)));
            }
        }
        Ok(())
    }

    fn write(&self, header: &Header, to: &mut String) -> std::fmt::Result {
        writeln!(to, "# Who samples which ports. Written by ibnet-gen; edit its arguments rather than this file.")?;
        for (name, sha256) in &header.sources {
            writeln!(to, "# source:  {} (SHA-256 {sha256})", Printable(name))?;
        }
        writeln!(to, "# command: {}", Printable(&header.command))?;
        writeln!(to, "\nversion = {}\ncap = {}", self.version, self.cap)?;
        self.samplers.iter().try_for_each(|sampler| sampler.write(to))
    }
}

impl Sampler {
    /// All that can be sampled of a fabric, for sweeping it from one host without a plan.
    ///
    /// Left out is what [`partition`] leaves out. Hops are known if an adapter of the fabric has the host's name.
    pub fn everything(fabric: &Fabric, host: &str) -> (Self, Vec<LeftOut>) {
        let here = |(_, device): &(DeviceId, &topology::Device)| device.kind == NodeKind::Hca && device.host() == host;
        let hops = Graph::new(fabric).hops_from(fabric.iter().filter(here).map(|(id, _)| id));
        let sampled = fabric.iter().filter(|(_, device)| device.linked_ports() > 0 && Reason::of(fabric, device).is_none());
        let known = |id: DeviceId| Some(hops[id.0 as usize]).filter(|hops| *hops != UNREACHABLE);
        let devices: Vec<_> = sampled.map(|(id, device)| Device::of(device, known(id))).collect();
        let port_count = devices.iter().map(|device| device.ports.len() as u32).sum();
        let sampler = Self { host: host.to_owned(), subnet: None, ca: None, ca_port: None, role: None, offset: None, port_count, devices };
        (sampler, partition::left_out(fabric))
    }

    /// The same in so many parts, with about as many ports each; a device is never split. For HCA ports that share the work.
    pub fn divided(&self, parts: usize) -> Vec<Self> {
        let Self { host, subnet, ca, ca_port, role, offset, .. } = self.clone();
        let mut shares = vec![Self { host, subnet, ca, ca_port, role, offset, port_count: 0, devices: Vec::new() }; parts];
        let mut devices: Vec<_> = self.devices.iter().enumerate().collect();
        // The largest first, each to the part that has least: no part is behind another by more than a device.
        devices.sort_by_key(|(_, device)| Reverse(device.ports.len()));
        let mut owners = vec![0; self.devices.len()];
        for (at, device) in devices {
            let least = (0..parts).min_by_key(|part| shares[*part].port_count).unwrap_or(0);
            (owners[at], shares[least].port_count) = (least, shares[least].port_count + device.ports.len() as u32);
        }
        self.devices.iter().zip(owners).for_each(|(device, owner)| shares[owner].devices.push(device.clone()));
        shares
    }

    /// Whether its ports have another sampler that comes first.
    pub fn is_secondary(&self) -> bool {
        self.role.as_deref() == Some("secondary")
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        writeln!(to, "\n[[sampler]]\nhost = {}", quoted(&self.host))?;
        if let Some(subnet) = &self.subnet {
            writeln!(to, "subnet = {}", quoted(subnet))?;
        }
        if let Some(ca) = &self.ca {
            writeln!(to, "ca = {}", quoted(ca))?;
        }
        if let Some(port) = self.ca_port {
            writeln!(to, "ca_port = {port}")?;
        }
        if let Some(role) = &self.role {
            writeln!(to, "role = {}", quoted(role))?;
        }
        if let Some(offset) = self.offset {
            writeln!(to, "offset = {}", toml::Value::Float(offset))?;
        }
        writeln!(to, "port_count = {}", self.port_count)?;
        self.devices.iter().try_for_each(|device| device.write(to))
    }
}

impl Device {
    fn of(device: &topology::Device, hops: Option<u16>) -> Self {
        let port = |(port, peer): (&topology::Port, &topology::Peer)| Port {
            num: port.num,
            width: port.rate.width.to_string(),
            speed: port.rate.speed.to_string(),
            peer: Some(Peer { guid: peer.guid, lid: peer.lid, port: peer.port, name: peer.name.clone() }),
        };
        let ports = device.linked().map(port).collect();
        Self { guid: device.guid, lid: device.lid, kind: device.kind, name: device.name.clone(), hops, ports }
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        writeln!(to, "  [[sampler.device]]\n  guid = \"{}\"\n  lid = {}\n  kind = \"{}\"", self.guid, self.lid, self.kind)?;
        writeln!(to, "  name = {}", quoted(&self.name))?;
        if let Some(hops) = self.hops {
            writeln!(to, "  hops = {hops}")?;
        }
        self.ports.iter().try_for_each(|port| port.write(to))
    }
}

impl Port {
    fn write(&self, to: &mut String) -> std::fmt::Result {
        let (width, speed) = (quoted(&self.width), quoted(&self.speed));
        writeln!(to, "    [[sampler.device.port]]\n    num = {}\n    width = {width}\n    speed = {speed}", self.num)?;
        if let Some(Peer { guid, lid, port, name }) = &self.peer {
            writeln!(to, "    peer = {{ guid = \"{guid}\", lid = {lid}, port = {port}, name = {} }}", quoted(name))?;
        }
        Ok(())
    }
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A table of the file, by its number among its like.
#[derive(Clone, Copy)]
enum Spot {
    Sampler(usize),
    Device(usize),
}

impl Spot {
    /// The line of its heading; `None` if the tables are written in some other way.
    fn line(self, text: &str) -> Option<usize> {
        let (heading, number) = match self {
            Self::Sampler(number) => ("[[sampler]]", number),
            Self::Device(number) => ("[[sampler.device]]", number),
        };
        (1..).zip(text.lines()).filter(|(_, line)| line.trim() == heading).nth(number).map(|(line, _)| line)
    }
}

/// The line on which a byte stands.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
