//! Reads and checks an assignments file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

use ibnet_record::limits;
use ibnet_record::types::{Guid, Lid, PortNum, Printable};
use serde::{Deserialize, Deserializer};

use super::{Assignments, AssignmentsError, Loaded, VERSION, sha256_hex};

impl Assignments {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns the errors of [`Assignments::parse`], and [`AssignmentsError::Io`].
    pub fn read(path: &Path) -> Result<Loaded, AssignmentsError> {
        let octets =
            limits::read_file(path, limits::PLAN).map_err(|source| AssignmentsError::Io {
                path: path.to_owned(),
                source,
            })?;
        Self::parse_file(&octets, &path.display().to_string())
    }

    /// Parses a file, and returns its content with the digest of its bytes. `name` is the name of
    /// the file in messages.
    ///
    /// # Errors
    /// Returns the errors of [`Assignments::parse`], and an error if the bytes are not UTF-8.
    pub fn parse_file(octets: &[u8], name: &str) -> Result<Loaded, AssignmentsError> {
        let not_utf8 = |line| AssignmentsError::NotAssignments {
            place: format!("{name}:{line}"),
            problem: "the text is not UTF-8".to_owned(),
        };
        let text = limits::utf8(octets).map_err(not_utf8)?;
        Ok(Loaded {
            assignments: Self::parse(text, name)?,
            sha256: sha256_hex(octets),
        })
    }

    /// Parses and checks the text of a file. `name` is the name of the file in messages.
    ///
    /// # Errors
    /// Returns an error if the text is not an assignments file, has another version, or contradicts
    /// itself.
    pub fn parse(text: &str, name: &str) -> Result<Self, AssignmentsError> {
        /// The only field that all versions of the file have in common.
        #[derive(Deserialize)]
        struct Versioned {
            version: i64,
        }
        let not_toml = |error: toml::de::Error| {
            let line = error
                .span()
                .map(|span| format!(":{}", line_at(text, span.start)))
                .unwrap_or_default();
            let problem = Printable(error.message()).to_string();
            AssignmentsError::NotAssignments {
                place: format!("{name}{line}"),
                problem,
            }
        };
        let other_version = |found| {
            let line = (1..)
                .zip(text.lines())
                .find(|(_, line)| line.trim_start().starts_with("version"))
                .map_or(1, |(line, _)| line);
            AssignmentsError::Version {
                place: format!("{name}:{line}"),
                found,
            }
        };
        // A file of another version may have other fields; an error about the version is then
        // clearer than one about a field.
        let assignments: Self =
            toml::from_str(text).map_err(|error| match toml::from_str(text) {
                Ok(Versioned { version }) if version != i64::from(VERSION) => {
                    other_version(version)
                }
                _ => not_toml(error),
            })?;
        if assignments.version != VERSION {
            return Err(other_version(assignments.version.into()));
        }
        let inconsistent = |(table, problem): (Table, String)| {
            let line = table
                .line(text)
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            AssignmentsError::Inconsistent {
                place: format!("{name}{line}"),
                problem,
            }
        };
        assignments.check().map_err(inconsistent)?;
        Ok(assignments)
    }

    fn check(&self) -> Result<(), (Table, String)> {
        let mut hosts = BTreeSet::new();
        let mut ports: BTreeMap<(Guid, PortNum, bool), &str> = BTreeMap::new();
        let mut lids: BTreeMap<(Option<&str>, Lid), Guid> = BTreeMap::new();
        let mut devices = 0;
        for (number, sampler) in self.samplers.iter().enumerate() {
            let host = Printable(&sampler.host);
            let secondary = sampler.is_secondary();
            let here = |problem: String| (Table::Sampler(number), problem);
            if !matches!(
                sampler.role.as_deref(),
                None | Some("primary" | "secondary")
            ) {
                return Err(here(format!(
                    "the role of `{host}` is neither `primary` nor `secondary`"
                )));
            }
            if !sampler
                .offset
                .is_none_or(|offset| (0.0..1.0).contains(&offset))
            {
                return Err(here(format!(
                    "the offset of `{host}` is not from 0 to below 1"
                )));
            }
            let subnet = sampler.subnet.as_deref();
            if !hosts.insert((
                &sampler.host,
                subnet,
                &sampler.ca,
                sampler.ca_port,
                secondary,
            )) {
                return Err(here(format!("the sampler `{host}` is listed twice")));
            }
            for device in &sampler.devices {
                let guid = device.guid;
                let here = |problem: String| (Table::Device(devices), problem);
                if !device.lid.is_unicast() {
                    return Err(here(format!(
                        "LID {} of {guid} is not a unicast LID (1 to {})",
                        device.lid,
                        Lid::MAX_UNICAST
                    )));
                }
                let other = *lids.entry((subnet, device.lid)).or_insert(guid);
                if other != guid {
                    return Err(here(format!(
                        "LID {} of {guid} is also the LID of {other}",
                        device.lid
                    )));
                }
                for port in &device.ports {
                    if !(1..=254).contains(&port.num.0) {
                        return Err(here(format!(
                            "port {} of {guid} is not from 1 to 254",
                            port.num
                        )));
                    }
                    if let Some(first) = ports.insert((guid, port.num, secondary), &sampler.host) {
                        return Err(here(format!(
                            "port {} of {guid} is already assigned to `{}`",
                            port.num,
                            Printable(first)
                        )));
                    }
                }
                devices += 1;
            }
            let counted: usize = sampler
                .devices
                .iter()
                .map(|device| device.ports.len())
                .sum();
            if counted != sampler.port_count as usize {
                return Err(here(format!(
                    "`{host}` has {counted} ports, but its port_count is {}",
                    sampler.port_count
                )));
            }
        }
        Ok(())
    }
}

/// Parses the time of the first slot, such as `2026-11-22T15:00:10Z`. Returns nanoseconds since
/// 1970.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let since_1970 = humantime::parse_rfc3339(&text)
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let at = since_1970.and_then(|time| u64::try_from(time.as_nanos()).ok());
    at.map(Some).ok_or_else(|| {
        let found = Printable(&text);
        serde::de::Error::custom(format!(
            "`at` is not a time in UTC such as 2026-11-22T15:00:10Z (found {found})"
        ))
    })
}

/// A table of the file, identified by its index among the tables of its kind.
#[derive(Clone, Copy)]
enum Table {
    Sampler(usize),
    Device(usize),
}

impl Table {
    /// Returns the line of the heading, or `None` if the tables are written inline.
    fn line(self, text: &str) -> Option<usize> {
        let (heading, number) = match self {
            Self::Sampler(number) => ("[[sampler]]", number),
            Self::Device(number) => ("[[sampler.device]]", number),
        };
        (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.trim() == heading)
            .nth(number)
            .map(|(line, _)| line)
    }
}

/// Returns the line number, from 1, of the line that contains this byte.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text
        .bytes()
        .take(byte)
        .filter(|byte| *byte == b'\n')
        .count()
}
