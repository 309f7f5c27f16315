//! Reads measured service times from the records of earlier sweeps, with which a plan can balance
//! time instead of port counts.
//!
//! Once a minute, a sweep writes the service time of one MAD for each of its devices, in
//! `histogram` records of the kind `service`. This module ignores all other records, so it
//! accepts whole recordings. It identifies devices by their GUIDs, because LIDs change.
//!
//! The cost of a device is its number of ports times the mean time of one MAD: the time to query
//! all of its ports once, one after another. The number of MADs per port depends on the
//! configured counter groups, and is about the same for all ports. If a device has no measured
//! time, the planner uses the median of its kind of device in this fabric.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use ibnet_record::limits;
use ibnet_record::reader::{Head, Record, Type};
use ibnet_record::types::{Guid, NodeKind, Printable};
use miette::Diagnostic;

use crate::topology::{Device, Fabric};

/// Measured service times, by device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// Sum of the service times in nanoseconds, and number of MADs, by device.
    measured: BTreeMap<Guid, (u128, u64)>,
    /// Lines that were skipped because they are not records.
    pub bad: Vec<BadLine>,
}

/// A line that was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Name of the file.
    pub name: String,
    /// Line number, from 1.
    pub line: u64,
    /// Description of the problem.
    pub why: String,
}

/// Reason why there are no service times.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("cannot read {}", Printable(name))]
    #[diagnostic(help("give a file of records that ibnet-sweep wrote"))]
    Io {
        /// Name of the file.
        name: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file contains no service time.
    #[error(
        "cannot use {}: no measured service time (lines read: {lines}){}",
        Printable(name),
        first(bad)
    )]
    #[diagnostic(help(
        "give the records of ibnet-sweep of more than a minute, or until it was stopped: it writes service times in records of type `histogram`, kind `service`"
    ))]
    Nothing {
        /// Name of the file.
        name: String,
        /// Number of lines.
        lines: u64,
        /// First line that is not a record.
        bad: Option<BadLine>,
    },
    /// The files contain more devices than a fabric can have.
    #[error("cannot use {name}: with line {line}, more than {MAX_DEVICES} devices are measured")]
    #[diagnostic(help("give records of one fabric: it has at most 49151 LIDs"))]
    TooMany {
        /// Name of the file.
        name: String,
        /// Number of the line.
        line: u64,
    },
    /// No measured device is in the net file.
    #[error(
        "cannot use --weights: no measured device is in the net file (measured devices: {measured})"
    )]
    #[diagnostic(help("give records of this fabric"))]
    Foreign {
        /// Number of measured devices.
        measured: usize,
    },
}

/// Max plausible mean service time, in nanoseconds.
const MAX_MEAN_NS: u64 = 10_000_000_000;

/// Max number of measured devices in all files together.
const MAX_DEVICES: usize = 100_000;

/// Max number of bad lines that are kept, in all files together.
const MAX_BAD_LINES: usize = 100_000;

impl Weights {
    /// Adds the service times of a file. `name` is the name of the file in messages.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or has no service time.
    pub fn add(&mut self, mut file: impl BufRead, name: &str) -> Result<(), WeightsError> {
        let (mut line, mut found, bad_before) = (0, 0, self.bad.len());
        let mut text = Vec::new();
        loop {
            match limits::read_line(&mut file, &mut text) {
                Ok(false) => break,
                Ok(true) => line += 1,
                Err(source) => {
                    return Err(WeightsError::Io {
                        name: name.to_owned(),
                        source,
                    });
                }
            }
            match service_time(text.trim_ascii()) {
                Ok(None) => {}
                Ok(Some((guid, ..)))
                    if self.measured.len() >= MAX_DEVICES && !self.measured.contains_key(&guid) =>
                {
                    return Err(WeightsError::TooMany {
                        name: name.to_owned(),
                        line,
                    });
                }
                Ok(Some((guid, mean, count))) => {
                    found += 1;
                    let (sum, all) = self.measured.entry(guid).or_default();
                    (*sum, *all) = (
                        *sum + u128::from(mean) * u128::from(count),
                        all.saturating_add(count),
                    );
                }
                Err(why) if self.bad.len() < MAX_BAD_LINES => self.bad.push(BadLine {
                    name: name.to_owned(),
                    line,
                    why,
                }),
                Err(_) => {}
            }
        }
        let bad = || self.bad.get(bad_before).cloned();
        if found > 0 {
            Ok(())
        } else {
            Err(WeightsError::Nothing {
                name: name.to_owned(),
                lines: line,
                bad: bad(),
            })
        }
    }

    /// Checks that at least one device of these subnets was measured.
    ///
    /// # Errors
    /// Returns [`WeightsError::Foreign`] if none was measured.
    pub fn check(&self, fabrics: &[&Fabric]) -> Result<(), WeightsError> {
        let any = fabrics
            .iter()
            .flat_map(|fabric| fabric.devices())
            .any(|device| self.mean_ns(device.guid).is_some());
        if any {
            Ok(())
        } else {
            Err(WeightsError::Foreign {
                measured: self.measured.len(),
            })
        }
    }

    /// Returns the mean service time of a device in nanoseconds, if it was measured.
    pub fn mean_ns(&self, guid: Guid) -> Option<u64> {
        self.measured
            .get(&guid)
            .map(|(sum, count)| (sum / u128::from(*count)) as u64)
    }

    /// Returns how many of these devices were measured.
    pub(super) fn measured<'a>(&self, devices: impl Iterator<Item = &'a Device>) -> usize {
        devices
            .filter(|device| self.mean_ns(device.guid).is_some())
            .count()
    }

    /// Returns the cost of each device in nanoseconds. `ports` contains the number of ports to
    /// query of each device.
    pub(super) fn costs(&self, fabric: &Fabric, ports: &[u32]) -> Vec<u64> {
        let median = |is_switch: bool| {
            let of_kind = fabric
                .devices()
                .iter()
                .filter(|device| (device.kind == NodeKind::Switch) == is_switch);
            let mut means: Vec<_> = of_kind
                .filter_map(|device| self.mean_ns(device.guid))
                .collect();
            means.sort_unstable();
            means.get(means.len() / 2).copied()
        };
        let (switch, other) = (median(true), median(false));
        let (switch, other) = (switch.or(other).unwrap_or(1), other.or(switch).unwrap_or(1));
        let assumed = |kind| {
            if kind == NodeKind::Switch {
                switch
            } else {
                other
            }
        };
        let devices = fabric.devices().iter().zip(ports);
        devices
            .map(|(device, ports)| {
                u64::from(*ports)
                    * self
                        .mean_ns(device.guid)
                        .unwrap_or_else(|| assumed(device.kind))
            })
            .collect()
    }
}

/// Returns the service time of a record: the GUID of the device, the mean in nanoseconds and the
/// number of MADs. Returns `None` for other records and empty lines.
///
/// # Errors
/// Returns an error if the line is not a record, or its values are not plausible.
fn service_time(line: &[u8]) -> Result<Option<(Guid, u64, u64)>, String> {
    if line.is_empty() {
        return Ok(None);
    }
    let Some(Type::Histogram) = Head::of(line).map_err(|error| error.to_string())?.kind else {
        return Ok(None);
    };
    let record = Record::parse(line, Type::Histogram).map_err(|error| error.to_string())?;
    let Record::Histogram(record) = record else {
        return Ok(None);
    };
    if record.kind != "service" {
        return Ok(None);
    }
    let guid = record.guid.ok_or("a service time has no guid")?;
    match (record.mean_ns, record.count) {
        (Some(mean @ 1..=MAX_MEAN_NS), count @ 1..) => Ok(Some((guid, mean, count))),
        (mean, _) => Err(format!(
            "expected mean_ns from 1 to {MAX_MEAN_NS} and a count, found {}",
            mean.unwrap_or(0)
        )),
    }
}

fn first(bad: &Option<BadLine>) -> String {
    bad.as_ref()
        .map(|bad| {
            format!(
                "; the first line that is not a record is {}: {}",
                bad.line,
                Printable(&bad.why)
            )
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(guid: u64, mean: u64, count: u64) -> String {
        format!(
            "{{\"type\":\"histogram\",\"ts\":1,\"slot\":1,\"sampler\":\"a\",\"kind\":\"service\",\"guid\":\"{}\",\"lid\":4,\"mean_ns\":{mean},\"count\":{count},\"v2\":\"\"}}\n",
            Guid(guid)
        )
    }

    fn read(text: &str) -> Result<Weights, WeightsError> {
        let mut weights = Weights::default();
        weights.add(text.as_bytes(), "lines").map(|()| weights)
    }

    #[test]
    fn means_are_weighted_by_their_counts() {
        let mut weights = read(&(line(1, 100, 3) + &line(2, 7, 1))).unwrap();
        weights.add(line(1, 200, 1).as_bytes(), "more").unwrap();
        assert_eq!(
            [1, 2, 3].map(|guid| weights.mean_ns(Guid(guid))),
            [Some(125), Some(7), None]
        );
    }

    #[test]
    fn bad_lines_are_listed_and_other_records_ignored() {
        let text = [
            "{\"type\":\"port\",\"ts\":1,\"guid\":\"0x0000000000000001\",\"port\":1}\n",
            "{\"type\":\"histogram\",\"ts\":1,\"sampler\":\"a\",\"kind\":\"rtt\",\"guid\":null,\"mean_ns\":9,\"count\":1,\"v2\":\"\"}\n",
            &line(1, 100, 1),
            "{\"type\":\"histogram\",\"ts\":1,\"sampler\":\"a\",\"kind\":\"service\",\"guid\":\"0x1\",\"mean_ns\":9,\"count\":1,\"v2\":\"\"}\r\n",
            &line(1, 0, 1),
            &line(1, 5, 0),
            &line(1, 20_000_000_000, 1),
            "\n\u{1b}[2J\n",
            &line(2, 300, 1)[..40],
        ]
        .concat();
        let weights = read(&text).unwrap();
        assert_eq!(
            (weights.mean_ns(Guid(1)), weights.mean_ns(Guid(2))),
            (Some(100), None)
        );
        assert_eq!(
            weights.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(),
            [4, 5, 6, 7, 9, 10]
        );
    }

    #[test]
    fn devices_beyond_the_limit_are_refused() {
        let text: String = (1..=MAX_DEVICES as u64 + 1)
            .map(|guid| line(guid, 5, 1))
            .collect();
        let error = read(&text).unwrap_err();
        assert!(
            matches!(error, WeightsError::TooMany { line: 100_001, .. }),
            "{error}"
        );
    }

    #[test]
    fn long_line_is_bad_and_the_next_line_is_read() {
        let text = format!(
            "{{\"type\":\"histogram\",\"x\":\"{}\"}}\n{}",
            "x".repeat(2 * limits::LINE),
            line(1, 100, 1)
        );
        let weights = read(&text).unwrap();
        assert_eq!(
            (
                weights.mean_ns(Guid(1)),
                weights.bad.len(),
                weights.bad[0].line
            ),
            (Some(100), 1, 1)
        );
    }

    #[test]
    fn file_without_service_times_is_rejected() {
        let error = read("{\"type\":\"port\",\"ts\":1}\nnonsense\n").unwrap_err();
        assert!(
            error.to_string().starts_with(
                "cannot use lines: no measured service time (lines read: 2); the first line that is not a record is 2: expected "
            ),
            "{error}"
        );
        assert!(matches!(
            read(""),
            Err(WeightsError::Nothing {
                lines: 0,
                bad: None,
                ..
            })
        ));
    }

    #[test]
    fn devices_without_measurement_cost_the_median_of_their_kind() {
        let net = crate::topology::synthetic::FatTree {
            leaves: 2,
            hosts: 2,
            spines: 1,
            trunk: 1,
            radix: 4,
        };
        let fabric =
            crate::topology::ports_report::parse(net.blueprint().ports_report().as_bytes(), "tree")
                .unwrap()
                .fabric;
        let of = |kind| {
            fabric
                .devices()
                .iter()
                .filter(move |device| device.kind == kind)
                .map(|device| device.guid.0)
                .collect::<Vec<_>>()
        };
        let (switches, hosts) = (of(NodeKind::Switch), of(NodeKind::Hca));
        let ports = vec![2; fabric.devices().len()];
        let costs = |text: &str| read(text).unwrap().costs(&fabric, &ports);
        // Costs are in the order of GUIDs: four HCA ports, three switches.
        let text = line(switches[0], 50, 1) + &line(switches[1], 70, 1) + &line(hosts[0], 30, 1);
        assert_eq!(costs(&text), [60, 60, 60, 60, 100, 140, 140]);
        assert_eq!(costs(&line(hosts[3], 30, 1)), [60; 7]);
        assert!(matches!(
            read(&line(99, 1, 1)).unwrap().check(&[&fabric]),
            Err(WeightsError::Foreign { measured: 1 })
        ));
    }
}
