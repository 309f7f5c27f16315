//! The traffic of each host port over time, by job.

use std::collections::BTreeMap;

use super::list::Owner;
use super::{AllJobs, add, host_ports};
use crate::error::AnalysisError;
use crate::ports::PortName;
use crate::record::Interval;

/// The traffic of all host ports over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Flows {
    /// Start of the first bin in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Number of bins.
    pub bins: usize,
    /// Recorded time of each bin, in seconds. Records may cover only a part of the first and of the
    /// last bin.
    pub seconds: Vec<f64>,
    /// All host ports.
    pub ports: Vec<PortFlow>,
}

/// The traffic of a host port. Rates are in Gb/s for each bin, `None` without records.
#[derive(Clone, PartialEq, Debug)]
pub struct PortFlow {
    /// Name of the host.
    pub host: String,
    /// The switch port at the other end of the link, and the host.
    pub name: String,
    /// Data rate from the switch to the host.
    pub into: Vec<Option<f64>>,
    /// Data rate from the host to the switch.
    pub out: Vec<Option<f64>>,
    /// Data rate from the host to the switch, by the job that ran on the host. `None` stands for the
    /// time without a job.
    pub out_by_job: Vec<(Option<String>, Vec<Option<f64>>)>,
}

impl Flows {
    /// Returns the octets of a data rate in each bin.
    pub fn octets<'a>(&'a self, gbps: &'a [Option<f64>]) -> impl Iterator<Item = Option<f64>> + 'a {
        gbps.iter().zip(&self.seconds).map(|(gbps, seconds)| gbps.map(|gbps| gbps * seconds * 1e9 / 8.0))
    }
}

impl AllJobs {
    /// Returns the traffic of each host port.
    ///
    /// # Errors
    /// Returns the errors of [`Self::finish`].
    pub fn flows(self) -> Result<Flows, AnalysisError> {
        let (from, to) = self.recorded()?;
        let (first, bin_ns) = (from / self.bin_ns, self.bin_ns);
        let bins = ((to - 1) / bin_ns - first + 1) as usize;
        let length = |bin: u64| Interval::new(bin * bin_ns, (bin + 1).saturating_mul(bin_ns)).and_then(|bin| bin.within(from, to));
        let seconds: Vec<f64> = (first..).take(bins).map(|bin| length(bin).map_or(1.0, |bin| bin.length_ns() as f64 / 1e9)).collect();
        let rates = |octets: Vec<Option<f64>>| -> Vec<Option<f64>> {
            octets.into_iter().zip(&seconds).map(|(octets, seconds)| Some(octets? * 8.0 / 1e9 / seconds)).collect()
        };
        // The order of a sum must not depend on the order of the records.
        let all_ports = self.ports.into_iter().collect();
        let flow = |port: super::HostPort<'_>| {
            let (mut into, mut out) = (vec![None; bins], vec![None; bins]);
            let mut by_job: BTreeMap<Owner, Vec<Option<f64>>> = BTreeMap::new();
            for ((bin, owner), flow) in &port.bins {
                let bin = (bin - first) as usize;
                add(&mut into[bin], flow.rcv);
                add(&mut out[bin], flow.xmit);
                add(&mut by_job.entry(*owner).or_insert_with(|| vec![None; bins])[bin], flow.xmit);
            }
            let name = port.leaf.map_or_else(String::new, |(key, name)| format!("{} to ", PortName::new(name, key)));
            let id = |owner: Owner| owner.and_then(|job| self.list.jobs.get(job as usize)).map(|job| job.id.clone());
            PortFlow {
                host: port.host.to_owned(),
                name: format!("{name}{}", port.host),
                into: rates(into),
                out: rates(out),
                out_by_job: by_job.into_iter().map(|(owner, octets)| (id(owner), rates(octets))).collect(),
            }
        };
        let ports = host_ports(&all_ports).into_iter().map(flow).collect();
        Ok(Flows { start_ns: first * bin_ns, bin_ns, bins, ports, seconds })
    }
}
