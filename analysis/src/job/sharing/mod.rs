//! Finds which jobs share links with a job, and how much of the traffic of each link belongs to
//! each job.
//!
//! Port counters do not show who sent a packet. But the data of each host is measured, and
//! forwarding tables give the path between each pair of hosts; bounds and an estimate of each
//! job's traffic on each link follow from these. `docs/jobs.md` describes the method, its
//! assumptions and its measured errors.
//!
//! Traffic belongs to the job of the sender, or to that of the receiver if the sender has no job.
//! The estimate and the narrower bounds assume that hosts of different jobs do not exchange data,
//! while hosts without a job, such as storage servers, can exchange data with all. The other
//! bounds need no such assumption.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::interval::Interval;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;

use self::bounds::{HostLoads, NO_JOB, Owner, Part, Parts};
use self::fit::{Fit, PairTotal};
use self::network::{LinkIndex, Network};
use super::all::JobList;
use crate::ports::{PortKey, PortSummary, with_equal_bins};
use crate::routes::Routes;

mod bounds;
mod fit;
mod matrix;
mod network;
mod reach;
mod rows;

pub use self::matrix::{Matrix, MatrixCell, OTHERS, Square};
pub use self::rows::{JobOnLink, JobShare, LinkShare, Neighbour, RootShare, Sharing};

/// A job counts on a link in a bin if its share of the data is larger than this, 0 to 1.
pub const COUNTS: f64 = 0.01;

/// How the shares were computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// With forwarding tables: bounds and estimates of all links.
    Routes,
    /// Without forwarding tables: bounds of the links of leaf switches.
    LeafLinks,
}

/// The shares of all jobs in all links and bins.
pub struct Shares<'a> {
    network: Network<'a>,
    ports: &'a BTreeMap<PortKey, PortSummary>,
    /// Names of the owners. The first one is the traffic without a job.
    owners: Vec<Option<String>>,
    /// The jobs of each owner.
    jobs: Vec<Vec<u32>>,
    bins: Vec<(u64, Parts)>,
    bin_ns: u64,
    /// `None` without an estimate.
    pairs: Option<Vec<PairTotal>>,
    has_too_many_pairs: bool,
}

/// Bytes of an owner on a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Octets {
    least: f64,
    estimate: Option<f64>,
    most: f64,
    /// Bounds if hosts of different jobs exchange no data.
    apart: (f64, f64),
    /// Time in which the owner counted on the link, in seconds.
    seconds: f64,
}

impl Octets {
    fn add(&mut self, part: &Part, seconds: f64, counts: bool) {
        // 1 Gb/s for 1 s is 1e9 bit.
        let octets = |gbps: f64| gbps * seconds * 1e9 / 8.0;
        self.least += octets(part.always.least);
        self.most += octets(part.always.most);
        self.apart.0 += octets(part.apart.least);
        self.apart.1 += octets(part.apart.most);
        self.estimate = part
            .estimate
            .map(|gbps| self.estimate.unwrap_or(0.0) + octets(gbps))
            .or(self.estimate);
        self.seconds += if counts { seconds } else { 0.0 };
    }
}

impl Part {
    /// Returns the estimate, or the upper bound if there is none.
    fn likely(&self) -> f64 {
        self.estimate.unwrap_or(self.apart.most)
    }
}

impl<'a> Shares<'a> {
    /// Computes the shares of the jobs of a list. The ports must have bins of equal length (see
    /// [`equal_bins`]).
    pub fn of(
        ports: &'a BTreeMap<PortKey, PortSummary>,
        jobs: &JobList,
        routes: Option<&Routes>,
    ) -> Self {
        let network = Network::new(ports, routes);
        let bin_ns = ports
            .values()
            .map(|port| port.bins.width_ns())
            .max()
            .unwrap_or(1);
        let numbers: BTreeSet<u64> = ports
            .values()
            .flat_map(|port| port.bins.iter().map(|(number, _)| number))
            .collect();
        let mut owners: Vec<Vec<u32>> = vec![Vec::new()];
        let mut known: BTreeMap<Vec<u32>, Owner> = BTreeMap::from([(Vec::new(), NO_JOB)]);
        let mut loads: Vec<(u64, HostLoads)> = Vec::new();
        for number in numbers {
            let Some(time) = Interval::new(
                number.saturating_mul(bin_ns),
                (number + 1).saturating_mul(bin_ns),
            ) else {
                continue;
            };
            let mut bin = HostLoads {
                owners: Vec::new(),
                sends: Vec::new(),
                receives: Vec::new(),
            };
            for host in &network.hosts {
                let jobs = jobs.during(host.port.host, time);
                let owner = *known.entry(jobs).or_insert_with_key(|jobs| {
                    owners.push(jobs.clone());
                    owners.len() as Owner - 1
                });
                let (sends, receives, _) = host.port.at(number);
                bin.owners.push(owner);
                bin.sends.push(sends.unwrap_or(0.0));
                bin.receives.push(receives.unwrap_or(0.0));
            }
            loads.push((number, bin));
        }
        let fitted = routes.map(|routes| fit::with_routes(&network, &loads, routes));
        let has_too_many_pairs = matches!(fitted, Some(None));
        let bounded = || {
            loads
                .par_iter()
                .map(|(number, hosts)| bounds::without_routes(&network, hosts, *number))
                .collect()
        };
        let (parts, pairs): (Vec<Parts>, _) = match fitted.flatten() {
            Some(Fit { parts, pairs }) => (parts, Some(pairs)),
            None => (bounded(), None),
        };
        let bins = loads.iter().map(|(number, _)| *number).zip(parts).collect();
        let name = |owner: &Vec<u32>| {
            let mut ids: Vec<&str> = owner.iter().map(|job| jobs.id(*job)).collect();
            ids.sort_unstable();
            (!ids.is_empty()).then(|| ids.join("+"))
        };
        let names = owners.iter().map(name).collect();
        Self {
            network,
            ports,
            owners: names,
            jobs: owners,
            bins,
            bin_ns,
            pairs,
            has_too_many_pairs,
        }
    }

    fn method(&self) -> Method {
        match self.pairs {
            Some(_) => Method::Routes,
            None => Method::LeafLinks,
        }
    }

    /// Returns the bytes of each owner on a link, over the bins for which `is_counted` returns
    /// true; and the bytes of the link and the seconds of these bins.
    fn on(
        &self,
        link: LinkIndex,
        is_counted: impl Fn(u64, &[(Owner, Part)]) -> bool,
    ) -> (BTreeMap<Owner, Octets>, f64, f64) {
        let mut sums: BTreeMap<Owner, Octets> = BTreeMap::new();
        let (mut all, mut time) = (0.0, 0.0);
        let seconds = self.bin_ns as f64 / 1e9;
        for (bin, parts) in &self.bins {
            let (Some(owners), Some(load)) =
                (parts.by_link.get(&link), self.network.load(link, *bin))
            else {
                continue;
            };
            if !is_counted(*bin, owners) {
                continue;
            }
            all += load * seconds * 1e9 / 8.0;
            time += seconds;
            for (owner, part) in owners {
                sums.entry(*owner)
                    .or_default()
                    .add(part, seconds, part.likely() > COUNTS * load);
            }
        }
        (sums, all, time)
    }

    /// Returns the owners that contain a job.
    fn owners_of(&self, job: u32) -> BTreeSet<Owner> {
        (0..)
            .zip(&self.jobs)
            .filter(|(_, jobs)| jobs.contains(&job))
            .map(|(owner, _)| owner)
            .collect()
    }

    /// Returns which part of the data on links between switches the estimate does not explain, 0
    /// to 1. Returns `None` without an estimate.
    pub fn unexplained(&self) -> Option<f64> {
        let sum =
            |value: fn(&Parts) -> f64| self.bins.iter().map(|(_, parts)| value(parts)).sum::<f64>();
        let measured = sum(|parts| parts.measured);
        (self.method() == Method::Routes && measured > 0.0)
            .then(|| sum(|parts| parts.unexplained) / measured)
    }

    /// Returns the time of the bins in which the counters show that hosts of different jobs
    /// exchange data, in seconds.
    pub fn contradicted_seconds(&self) -> f64 {
        self.bins
            .iter()
            .filter(|(_, parts)| parts.is_contradicted)
            .count() as f64
            * self.bin_ns as f64
            / 1e9
    }

    /// Returns the bytes of each job on each link in each bin, for tests that know the truth: the
    /// sending port, the number of the bin, the job, and as values the lower bound, the estimate,
    /// the upper bound, and both bounds if hosts of different jobs exchange no data.
    pub fn all(&self) -> Vec<(PortKey, u64, Option<&str>, [f64; 5])> {
        let octets = |gbps: f64| gbps * self.bin_ns as f64 / 8.0;
        let mut all = Vec::new();
        for (bin, parts) in &self.bins {
            for (link, owners) in &parts.by_link {
                for (owner, part) in owners {
                    let Part {
                        always,
                        apart,
                        estimate,
                    } = part;
                    let values = [
                        always.least,
                        estimate.unwrap_or(f64::NAN),
                        always.most,
                        apart.least,
                        apart.most,
                    ]
                    .map(octets);
                    all.push((
                        self.network.ends(*link)[0],
                        *bin,
                        self.owners[*owner as usize].as_deref(),
                        values,
                    ));
                }
            }
        }
        all.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        all
    }

    fn links(&self) -> impl Iterator<Item = LinkIndex> {
        0..self.network.net.channels().len() as LinkIndex
    }

    /// Returns how busy a link was in a bin, 0 to 1: the larger one of its utilization and its
    /// blocked share.
    fn usage(&self, link: LinkIndex, bin: u64) -> f64 {
        let (used, blocked) = self.network.usage(link, bin);
        used.max(blocked)
    }
}

/// Returns the ports with bins of equal length.
pub fn equal_bins(
    ports: &BTreeMap<PortKey, PortSummary>,
) -> std::borrow::Cow<'_, BTreeMap<PortKey, PortSummary>> {
    with_equal_bins(ports)
}

type ByOwner = FxHashMap<Owner, Octets>;
