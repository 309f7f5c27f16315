//! Generates the jobs of a simulated fabric.
//!
//! The hosts of each job in the simulated traffic run one job after another, so there are running
//! and past jobs. The hosts of the incast belong to one job that never ends and writes its results
//! to one server every minute. Storage servers run no job.

use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::topology::{DeviceId, Fabric};
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::job::run::JobRun;
use ibnet_record::hostlist;
use ibnet_record::minute::MINUTE_NS;

use crate::jobs::source::Simulated;

/// Lengths of jobs in minutes. Each group of hosts takes the next one.
const LENGTHS: [u64; 5] = [7, 3, 12, 5, 25];

/// ID of the job of the incast, and of the first other job.
const INCAST_ID: u64 = 4100;
const FIRST_ID: u64 = 4101;

/// Distance between the IDs of consecutive jobs on the same hosts.
const NEXT: u64 = 100;

/// Names of jobs and users. Each group of hosts takes the next pair.
const NAMES: [(&str, &str); 5] = [
    ("climate", "user02"),
    ("lattice", "user03"),
    ("cfd", "user04"),
    ("md-run", "user05"),
    ("train", "user06"),
];

/// Hosts that run one job after another.
struct Group {
    nodes: String,
    hosts: Hosts,
    /// Start of the first job, and length of each job, in nanoseconds.
    first_ns: u64,
    length_ns: u64,
}

/// Returns the jobs of a fabric with this traffic. `start_ns` is the start of the traffic, in
/// nanoseconds since 1970.
pub(super) fn of(
    fabric: &Fabric,
    seed: u64,
    incast: Option<&Incast>,
    servers: &[DeviceId],
    start_ns: u64,
) -> Simulated {
    let senders: Vec<DeviceId> = incast.map(|incast| incast.from.clone()).unwrap_or_default();
    let is_free = |id: &DeviceId| !senders.contains(id) && !servers.contains(id);
    let writes = named(fabric, &senders);
    let mut groups = Vec::new();
    for hosts in Traffic::hosts_of_jobs(fabric, seed) {
        let hosts: Vec<DeviceId> = hosts.into_iter().filter(is_free).collect();
        let Some((nodes, hosts)) = named(fabric, &hosts) else {
            continue;
        };
        let (place, length_ns) = (
            groups.len() as u64,
            LENGTHS[groups.len() % LENGTHS.len()] * MINUTE_NS,
        );
        // The first jobs began before the simulation.
        let first_ns = start_ns.saturating_sub((place * 97 + 40) % 240 * MINUTE_NS / 60);
        groups.push(Group {
            nodes,
            hosts,
            first_ns,
            length_ns,
        });
    }
    Box::new(move |now| {
        let mut runs: Vec<JobRun> = Vec::new();
        if let Some((nodes, hosts)) = &writes {
            runs.push(run(
                INCAST_ID,
                ("checkpoint", "user01"),
                (nodes, hosts),
                start_ns - MINUTE_NS,
                None,
            ));
        }
        for (place, group) in groups.iter().enumerate() {
            let number = now.saturating_sub(group.first_ns) / group.length_ns;
            // Slurm forgets a job some time after its end.
            for number in number.saturating_sub(3)..=number {
                let from = group.first_ns + number * group.length_ns;
                let to = Some(from + group.length_ns).filter(|to| *to <= now);
                let id = FIRST_ID + place as u64 + NEXT * number;
                runs.push(run(
                    id,
                    NAMES[place % NAMES.len()],
                    (&group.nodes, &group.hosts),
                    from,
                    to,
                ));
            }
        }
        runs
    })
}

fn run(
    id: u64,
    (name, user): (&str, &str),
    (nodes, hosts): (&str, &Hosts),
    from: u64,
    to: Option<u64>,
) -> JobRun {
    JobRun {
        id: id.to_string(),
        name: Some(name.to_owned()),
        user: Some(user.to_owned()),
        nodes: nodes.to_owned(),
        hosts: hosts.clone(),
        from: Some(from),
        to,
        to_is_lower_bound: false,
        state: if to.is_some() { "completed" } else { "running" }.to_owned(),
    }
}

/// Returns the host list of some HCAs. `None` without a host.
pub(super) fn named(fabric: &Fabric, devices: &[DeviceId]) -> Option<(String, Hosts)> {
    let nodes = hostlist::fold(devices.iter().map(|id| fabric.device(*id).host()));
    let hosts = Hosts::parse(&nodes).ok()?;
    Some((nodes, hosts))
}
