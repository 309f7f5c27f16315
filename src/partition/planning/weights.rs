//! Measured service times, out of the lines that earlier sweeps recorded: with them a plan balances seconds instead of ports.
//!
//! A sweep writes once a minute, for each of its devices, what one MAD of it takes: lines of type `histogram` and kind `service`. All other lines are
//! passed over, so that whole recordings can be given. Devices are known by their GUID: LIDs move.
//!
//! A device costs its ports times the mean of one MAD: the time that it takes to ask each port once, one after another. How many MADs a port takes depends
//! on the groups that are asked, and is about the same for all. What was never measured is taken for the median of its kind in this fabric.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

use miette::Diagnostic;
use serde::Deserialize;

use super::task::Task;
use crate::topology::Fabric;
use crate::types::{Guid, NodeKind, Printable};

/// Service times by device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// The sum of all that was measured, in ns, and how many MADs that were.
    measured: BTreeMap<Guid, (u128, u64)>,
    /// Lines that are no record, with what is wrong with them.
    pub bad: Vec<BadLine>,
}

/// A line that was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// The file.
    pub name: String,
    /// From 1.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

/// Why there are no service times.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum WeightsError {
    /// It cannot be read.
    #[error("{}: cannot be read", Printable(name))]
    #[diagnostic(help("give a file of lines that ibnet-sweep wrote"))]
    Io {
        /// The file.
        name: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// No service time in it.
    #[error("{}: no measured service time in it; lines: {lines}{}", Printable(name), first(bad))]
    #[diagnostic(help(
        "give what ibnet-sweep wrote in more than a minute, or until it was stopped: service times are in its lines of type `histogram`, kind `service`"
    ))]
    Nothing {
        /// The file.
        name: String,
        /// Its lines.
        lines: u64,
        /// The first that is no record.
        bad: Option<BadLine>,
    },
    /// Of another fabric.
    #[error("--weights: nothing that was measured is in the net file; devices: {measured}")]
    #[diagnostic(help("give lines that were recorded on this fabric"))]
    Foreign {
        /// How many devices were measured.
        measured: usize,
    },
}

/// What is looked at in a line.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    guid: Option<Cow<'a, str>>,
    #[serde(default)]
    mean_ns: Option<u64>,
    #[serde(default)]
    count: Option<u64>,
}

/// No MAD is waited for any longer, in ns.
const LONGEST: u64 = 10_000_000_000;

/// So many bad lines are kept, of all files.
const MOST_BAD: usize = 100_000;

impl Weights {
    /// Takes the service times of another file; `name` is the file's in messages.
    ///
    /// # Errors
    /// When it cannot be read, or has none.
    pub fn add(&mut self, mut file: impl BufRead, name: &str) -> Result<(), WeightsError> {
        let (mut line, mut found, bad_before) = (0, 0, self.bad.len());
        let mut text = Vec::new();
        loop {
            text.clear();
            match file.read_until(b'\n', &mut text) {
                Ok(0) => break,
                Ok(_) => line += 1,
                Err(source) => return Err(WeightsError::Io { name: name.to_owned(), source }),
            }
            match service(text.trim_ascii()) {
                Ok(None) => {}
                Ok(Some((guid, mean, count))) => {
                    found += 1;
                    let (sum, all) = self.measured.entry(guid).or_default();
                    (*sum, *all) = (*sum + u128::from(mean) * u128::from(count), all.saturating_add(count));
                }
                Err(why) if self.bad.len() < MOST_BAD => self.bad.push(BadLine { name: name.to_owned(), line, why }),
                Err(_) => {}
            }
        }
        let bad = || self.bad.get(bad_before).cloned();
        if found > 0 { Ok(()) } else { Err(WeightsError::Nothing { name: name.to_owned(), lines: line, bad: bad() }) }
    }

    /// Sees to it that something of these subnets was measured.
    ///
    /// # Errors
    /// When nothing was.
    pub fn check(&self, fabrics: &[&Fabric]) -> Result<(), WeightsError> {
        let any = fabrics.iter().flat_map(|fabric| fabric.devices()).any(|device| self.mean_ns(device.guid).is_some());
        if any { Ok(()) } else { Err(WeightsError::Foreign { measured: self.measured.len() }) }
    }

    /// What one MAD of a device takes, if it was measured.
    pub fn mean_ns(&self, guid: Guid) -> Option<u64> {
        self.measured.get(&guid).map(|(sum, count)| (sum / u128::from(*count)) as u64)
    }

    /// How many of the sampled devices were measured.
    pub(super) fn measured(&self, task: &Task<'_>) -> usize {
        task.switches().chain(task.adapters()).filter(|id| self.mean_ns(task.fabric.device(*id).guid).is_some()).count()
    }

    /// What each device costs, by the ports of each that are to be asked, in ns.
    pub(super) fn costs(&self, fabric: &Fabric, ports: &[u32]) -> Vec<u64> {
        let median = |is_switch: bool| {
            let of_kind = fabric.devices().iter().filter(|device| (device.kind == NodeKind::Switch) == is_switch);
            let mut means: Vec<_> = of_kind.filter_map(|device| self.mean_ns(device.guid)).collect();
            means.sort_unstable();
            means.get(means.len() / 2).copied()
        };
        let (switch, other) = (median(true), median(false));
        let (switch, other) = (switch.or(other).unwrap_or(1), other.or(switch).unwrap_or(1));
        let assumed = |kind| if kind == NodeKind::Switch { switch } else { other };
        let devices = fabric.devices().iter().zip(ports);
        devices.map(|(device, ports)| u64::from(*ports) * self.mean_ns(device.guid).unwrap_or_else(|| assumed(device.kind))).collect()
    }
}

/// The service time of a line: whose, its mean and of how many MADs. `None` if the line is about something else.
fn service(line: &[u8]) -> Result<Option<(Guid, u64, u64)>, String> {
    if line.is_empty() {
        return Ok(None);
    }
    let record: Record<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if record.r#type != "histogram" || record.kind.as_deref() != Some("service") {
        return Ok(None);
    }
    let guid = record.guid.ok_or("a service time without a guid")?;
    let guid = guid.parse().map_err(|error: crate::types::ParseError| error.to_string())?;
    match (record.mean_ns, record.count) {
        (Some(mean @ 1..=LONGEST), Some(count @ 1..)) => Ok(Some((guid, mean, count))),
        (mean, _) => Err(format!("expected mean_ns from 1 to {LONGEST} and a count, found {}", mean.unwrap_or(0))),
    }
}

fn first(bad: &Option<BadLine>) -> String {
    bad.as_ref().map(|bad| format!("; the first that is no record is line {}: {}", bad.line, Printable(&bad.why))).unwrap_or_default()
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
    fn means_are_weighed_by_how_often_they_were_measured() {
        let mut weights = read(&(line(1, 100, 3) + &line(2, 7, 1))).unwrap();
        weights.add(line(1, 200, 1).as_bytes(), "more").unwrap();
        assert_eq!([1, 2, 3].map(|guid| weights.mean_ns(Guid(guid))), [Some(125), Some(7), None]);
    }

    #[test]
    fn bad_lines_are_skipped_and_named_and_others_passed_over() {
        let text = [
            "{\"type\":\"port\",\"guid\":\"0x0000000000000001\",\"port\":1}\n",
            "{\"type\":\"histogram\",\"kind\":\"rtt\",\"guid\":null,\"mean_ns\":9,\"count\":1}\n",
            &line(1, 100, 1),
            "{\"type\":\"histogram\",\"kind\":\"service\",\"guid\":\"0x1\",\"mean_ns\":9,\"count\":1}\r\n",
            &line(1, 0, 1),
            &line(1, 5, 0),
            &line(1, 20_000_000_000, 1),
            "\n\u{1b}[2J\n",
            &line(2, 300, 1)[..40],
        ]
        .concat();
        let weights = read(&text).unwrap();
        assert_eq!((weights.mean_ns(Guid(1)), weights.mean_ns(Guid(2))), (Some(100), None));
        assert_eq!(weights.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 6, 7, 9, 10]);
    }

    #[test]
    fn a_file_without_a_service_time_is_refused() {
        let error = read("{\"type\":\"port\"}\nnonsense\n").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("lines: no measured service time in it; lines: 2; the first that is no record is line 2: expected "),
            "{error}"
        );
        assert!(matches!(read(""), Err(WeightsError::Nothing { lines: 0, bad: None, .. })));
    }

    #[test]
    fn what_was_not_measured_is_taken_for_the_median_of_its_kind() {
        let net = crate::topology::synthetic::FatTree { leaves: 2, hosts: 2, spines: 1, trunk: 1, radix: 4 };
        let fabric = crate::topology::ports_report::parse(net.blueprint().ports_report().as_bytes(), "tree").unwrap().fabric;
        let of = |kind| fabric.devices().iter().filter(move |device| device.kind == kind).map(|device| device.guid.0).collect::<Vec<_>>();
        let (switches, hosts) = (of(NodeKind::Switch), of(NodeKind::Hca));
        let ports = vec![2; fabric.devices().len()];
        let costs = |text: &str| read(text).unwrap().costs(&fabric, &ports);
        // In the order of GUIDs: four hosts, three switches.
        let text = line(switches[0], 50, 1) + &line(switches[1], 70, 1) + &line(hosts[0], 30, 1);
        assert_eq!(costs(&text), [60, 60, 60, 60, 100, 140, 140]);
        assert_eq!(costs(&line(hosts[3], 30, 1)), [60; 7]);
        assert!(matches!(read(&line(99, 1, 1)).unwrap().check(&[&fabric]), Err(WeightsError::Foreign { measured: 1 })));
    }
}
