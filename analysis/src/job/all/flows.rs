//! The traffic of each host port over time, by job.

use super::list::Owner;
use super::{AllJobs, PortRates, host_ports};
use crate::cell::Cell;
use crate::error::AnalysisError;
use crate::job::marks::{Mark, Parts};

/// The traffic of all host ports over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Flows {
    /// Start of the first bin in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Recorded time of each bin, in seconds. Records can cover only a part of the first and the
    /// last bin.
    pub seconds: Vec<f64>,
    /// All host ports.
    pub ports: Vec<PortFlow>,
    /// Phases of an application.
    pub marks: Vec<Mark>,
}

/// The traffic of a host port. Rates are in Gb/s for each bin.
#[derive(Clone, PartialEq, Debug)]
pub struct PortFlow {
    /// Name of the host.
    pub host: String,
    /// The switch port at the other end of the link, and the host.
    pub name: String,
    /// Data rate from the switch to the host.
    pub into: Vec<Cell>,
    /// Data rate from the host to the switch.
    pub out: Vec<Cell>,
    /// Data rate from the host to the switch by the job that ran on the host, with `None` for the
    /// time without a job. In a bin in which a job did not run, its state is [`Cell::Down`].
    pub out_by_job: Vec<(Option<String>, Vec<Cell>)>,
    /// Bytes and blocked time in each bin. Empty without marks.
    pub(crate) parts: Parts,
}

impl Flows {
    /// Returns the bytes of a data rate over all bins in which it is known.
    pub fn octets(&self, gbps: impl IntoIterator<Item = Option<f64>>) -> f64 {
        gbps.into_iter()
            .zip(&self.seconds)
            .filter_map(|(gbps, seconds)| Some(gbps? * seconds * 1e9 / 8.0))
            .sum()
    }

    /// Returns the time in which rates are known, in seconds: the mean of the ports.
    pub fn covered_seconds<'a>(&self, ports: impl ExactSizeIterator<Item = &'a Vec<Cell>>) -> f64 {
        let count = ports.len().max(1) as f64;
        ports
            .flat_map(|cells| cells.iter().zip(&self.seconds))
            .map(|(cell, seconds)| cell.covered() * seconds)
            .sum::<f64>()
            / count
    }
}

impl AllJobs {
    /// Returns the traffic of each host port.
    ///
    /// # Errors
    /// Returns the errors of [`Self::finish`].
    pub fn flows(self) -> Result<Flows, AnalysisError> {
        let axis = self.axis()?;
        // The order of a sum must not depend on the order of the records.
        let all_ports = self.ports.into_iter().collect();
        let flow = |port: super::HostPort<'_>| {
            let id = |owner: Owner| {
                owner
                    .and_then(|job| self.list.jobs.get(job as usize))
                    .map(|job| job.id.clone())
            };
            let PortRates {
                into,
                out,
                out_by_job,
            } = port.rates(&self.list, &axis);
            let out_by_job = out_by_job
                .into_iter()
                .map(|(owner, cells)| (id(owner), cells))
                .collect();
            PortFlow {
                parts: port.parts(&axis, |_| !self.marks.is_empty()),
                host: port.host.to_owned(),
                name: port.name(),
                into,
                out,
                out_by_job,
            }
        };
        let ports = host_ports(&all_ports, &self.list, &axis)
            .into_iter()
            .map(flow)
            .collect();
        Ok(Flows {
            start_ns: axis.first * axis.bin_ns,
            bin_ns: axis.bin_ns,
            ports,
            seconds: axis.seconds,
            marks: self.marks,
        })
    }
}
