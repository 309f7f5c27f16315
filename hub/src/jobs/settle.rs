//! Adds the traffic of the nodes to their jobs, by the rules of `ibnet-view job --all`.
//!
//! A listing of the source describes the jobs up to its time. Only traffic before the last listing
//! is added, because the job of each node is then certain and no sum has to be corrected later. For
//! the same reason, it waits for the records of all samplers.

use std::collections::BTreeSet;

use ibnet_analysis::hosts::host_of;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::job::all::{AllJobs, JobList, JobTotal, JobsTraffic};
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::ports::{DATA_COUNTERS, PortKey};
use ibnet_analysis::record::Interval;

use crate::live::topology::Topology;
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// Length of a bin of a job's data rate, in nanoseconds.
pub(crate) const BIN_NS: u64 = 10_000_000_000;

/// Length of the time that is added at once.
const SLICE_NS: u64 = 6 * BIN_NS;

/// A record can arrive this much later than the newest record of its sampler.
const LATE_NS: u64 = 3_000_000_000;

/// Number of ports whose records are read at a time, which bounds the memory.
const PORTS_AT_ONCE: usize = 1024;

/// Adds the traffic up to the last listing of the source.
pub(crate) fn run(hub: &Hub) {
    loop {
        let slice = {
            let state = hub.read();
            let Some(read_ns) = state.jobs.source.read_ns else {
                return;
            };
            let Some(first) = state.store.first_ts() else {
                return;
            };
            let Some(arrived_ns) = state.arrived_ns() else {
                return;
            };
            let to = read_ns.min(arrived_ns).saturating_sub(LATE_NS) / BIN_NS * BIN_NS;
            // There is nothing to add before the first record.
            let from = state
                .jobs
                .source
                .settled_ns
                .unwrap_or(0)
                .max(first / BIN_NS * BIN_NS);
            (from, to.min(from.saturating_add(SLICE_NS)))
        };
        if slice.0 >= slice.1 {
            return;
        }
        let found = traffic(hub, slice);
        let mut state = hub.write();
        for (found, total) in found
            .iter()
            .flat_map(|found| found.jobs.iter().map(move |total| (found, total)))
        {
            if let Some(known) = state.jobs.of_total(total) {
                // The first record in memory can be in the middle of a bin.
                let from = slice.0.max(found.recorded_ns.0);
                known.add(
                    in_own_time(total, found),
                    (from, slice.1),
                    found.start_ns,
                    BIN_NS,
                );
            }
        }
        state.jobs.source.settled_ns = Some(slice.1);
    }
}

/// Returns the traffic of all jobs from `from` to `to`. `None` without records.
fn traffic(hub: &Hub, (from, to): (u64, u64)) -> Option<JobsTraffic> {
    let (list, keys) = {
        let state = hub.read();
        let jobs: Vec<JobRun> = state
            .jobs
            .within(from, to)
            .map(|known| known.run.clone())
            .collect();
        let hosts: BTreeSet<String> = jobs
            .iter()
            .flat_map(|job| job.hosts.iter().map(str::to_lowercase))
            .collect();
        (JobList::new(&jobs), keys_of(&state.topology, &hosts))
    };
    let mut fold = AllJobs::new(list, Some(BIN_NS));
    let wanted = Wanted::named(DATA_COUNTERS);
    for keys in keys.chunks(PORTS_AT_ONCE) {
        let chunks: Vec<_> = {
            let state = hub.read();
            keys.iter()
                .filter_map(|key| {
                    state.store.chunks(
                        *key,
                        from.saturating_sub(REACH_NS),
                        to.saturating_add(REACH_NS),
                    )
                })
                .collect()
        };
        for chunks in &chunks {
            fold_port(chunks.records(&wanted), Some(from), Some(to), &mut fold);
        }
    }
    fold.finish(None).ok()
}

/// Returns the traffic with the mean data rate over the time in which the job ran and records
/// exist. In the analysis, the rates of a bin are means over its whole recorded time, so that the
/// rates of jobs add up.
fn in_own_time(total: &JobTotal, traffic: &JobsTraffic) -> JobTotal {
    let mut total = total.clone();
    let (from, to) = (
        total.start_ns.unwrap_or(0),
        total.end_ns.unwrap_or(u64::MAX),
    );
    for (bin, rate) in (0..).zip(&mut total.injected_gbps) {
        let start = traffic.start_ns + bin * traffic.bin_ns;
        let recorded = Interval::new(traffic.recorded_ns.0, traffic.recorded_ns.1)
            .and_then(|time| time.within(start, start + traffic.bin_ns));
        let own = recorded.and_then(|recorded| recorded.within(from, to));
        if let (Some(rate), Some(recorded), Some(own)) = (rate, recorded, own) {
            *rate *= recorded.length_ns() as f64 / own.length_ns() as f64;
        }
    }
    total
}

/// Returns the ports of hosts, and the switch ports at the other end of their links.
pub(crate) fn keys_of(topology: &Topology, hosts: &BTreeSet<String>) -> Vec<PortKey> {
    let is_own = |node: &str| hosts.contains(&host_of(node).to_lowercase());
    let of_port = |port: &&crate::live::topology::TopologyPort| {
        is_own(&port.node) || port.peer_node.as_deref().is_some_and(is_own)
    };
    topology
        .ports
        .iter()
        .filter(of_port)
        .map(|port| (port.guid, port.port))
        .collect()
}
