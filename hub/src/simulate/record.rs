//! Records a simulated fabric in virtual time, so minutes of records need no waiting.
//!
//! The browser tests send these records to a hub slot by slot, so that no result depends on the
//! speed of the machine.

use std::path::Path;
use std::sync::Arc;

use ibnet::config;
use ibnet::mad::transport::TransportError;
use ibnet::output::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};

use super::changes::Changes;
use super::{Prepared, lock, settings};
use crate::error::HubError;

const SECOND_NS: u64 = 1_000_000_000;

/// What the samplers of a simulated fabric have recorded.
#[derive(Debug)]
pub struct Recording {
    /// Names of the samplers, each with its lines.
    pub samplers: Vec<(String, String)>,
    /// The jobs as CSV, including those that are running at the end.
    pub jobs: String,
    /// Group of the storage servers, in the form of the key `groups`.
    pub storage: Option<String>,
}

/// Records a number of slots of one second. `start_ns` is the time of the start in nanoseconds
/// since 1970, a whole second. The fabric changes as in the program, but no sampler fails. The same
/// arguments give the same records, except for the `start` records.
///
/// # Errors
/// Returns an error if the net file or the scenario cannot be used.
pub fn record(
    net: &Path,
    simulated: &config::Simulated,
    slots: u64,
    start_ns: u64,
) -> Result<Recording, HubError> {
    let prepare = || Prepared::starting(net, simulated, "1s", start_ns);
    let mut prepared = prepare()?;
    let count = prepared.blocks.len();
    let storage = prepared
        .storage()
        .map(|group| format!("{}={}", group.name, group.text));
    let jobs = prepared.take_jobs()(start_ns + slots * SECOND_NS);
    let seconds = |ns: Option<u64>| ns.map_or_else(String::new, |ns| (ns / SECOND_NS).to_string());
    let jobs = jobs.iter().map(|job| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, user, from, to) = (
            text(&job.name),
            text(&job.user),
            seconds(job.from),
            seconds(job.to),
        );
        format!(
            "{},{name},{user},\"{}\",{from},{to},{}\n",
            job.id, job.nodes, job.state
        )
    });
    let jobs = "job,name,user,nodes,start,end,state\n".to_owned() + &jobs.collect::<String>();
    // The samplers run one after the other, each on its own copy of the same fabric.
    let samplers = (0..count)
        .map(|sampler| sweep(&prepare()?, sampler, slots, start_ns))
        .collect::<Result<_, _>>()?;
    Ok(Recording {
        samplers,
        jobs,
        storage,
    })
}

/// Records the slots of one sampler. Returns its name and its lines.
fn sweep(
    prepared: &Prepared,
    sampler: usize,
    slots: u64,
    start_ns: u64,
) -> Result<(String, String), HubError> {
    let fabric = &prepared.fabric;
    let changes = Changes::new(
        &lock(fabric),
        prepared.samplers(),
        prepared.dead.clone(),
        prepared.has_own_dead,
    );
    changes.begin(fabric);
    let block = &prepared.blocks[sampler];
    let clock = VirtualClock::default();
    clock.set_wall_offset(i64::try_from(start_ns).unwrap_or(i64::MAX));
    // Each sampler has its own seed, which is the same in every run.
    let seed = sampler as u64;
    let transport = VirtualTransport::new(Arc::clone(fabric), clock.clone(), seed);
    let settings = DriverSettings {
        sweeps: Some(slots),
        ..settings(block, prepared.interval, &prepared.engine)
    };
    let (outlet, lines) = Destination::memory();
    let driver = Driver::new(
        SweepPlan::new(block),
        settings,
        transport,
        clock,
        outlet,
        seed,
    );
    let (mut text, mut passed) = (String::new(), 0);
    let done = driver.run(&Control::default(), |report| {
        text += &lines.text();
        let next = report.ts.saturating_sub(start_ns) / SECOND_NS + 1;
        (passed..next).for_each(|second| changes.pass(second, fabric));
        passed = passed.max(next);
    });
    text += &lines.text();
    match done {
        // No record is lost in virtual time.
        Ok(()) => Ok((block.host.clone(), text)),
        Err(error) => Err(HubError::Thread(stopped(error))),
    }
}

fn stopped(error: TransportError) -> std::io::Error {
    std::io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use ibnet::topology::synthetic::FatTree;
    use serde_json::Value;

    use super::*;

    const START: u64 = 1_795_000_000;

    #[test]
    fn records_have_all_changes_at_their_times() {
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("net.p");
        let tree = FatTree {
            leaves: 4,
            hosts: 6,
            spines: 2,
            trunk: 1,
            radix: 8,
        };
        std::fs::write(&net, tree.blueprint().ports_report()).expect("written");
        let simulated = crate::config::Raw::default().simulated;
        let run = || record(&net, &simulated, 70, START * SECOND_NS).expect("a recording");
        let (recording, again) = (run(), run());
        let records = |recording: &Recording| -> Vec<Value> {
            let lines = recording
                .samplers
                .iter()
                .flat_map(|(_, lines)| lines.lines());
            lines
                .map(|line| serde_json::from_str(line).expect("a record"))
                .filter(|record: &Value| record["type"] != "start")
                .collect()
        };
        let all = records(&recording);
        assert_eq!(all, records(&again));
        let of = |kind: &str, name: &str, value: &str| -> Vec<u64> {
            let found = all
                .iter()
                .filter(|record| record["type"] == kind && record[name] == value);
            found
                .map(|record| record["ts"].as_u64().expect("a time") / SECOND_NS - START)
                .collect()
        };
        let down = of("port", "status", "down");
        let bounds = (down.iter().min(), down.iter().max());
        assert!(
            bounds.0 >= Some(&20) && bounds.1 <= Some(&40) && down.len() > 10,
            "{bounds:?}"
        );
        let down = of("event", "event", "link_down");
        assert!(
            !down.is_empty() && down.iter().all(|second| (20..30).contains(second)),
            "{down:?}"
        );
        let masters = of("event", "event", "sm_change");
        assert!(
            !masters.is_empty() && masters.iter().all(|second| *second >= 45),
            "{masters:?}"
        );
        assert_eq!(
            of("port", "status", "timeout").len(),
            2 * 70,
            "two hosts are dead"
        );
        assert!(
            recording
                .storage
                .is_some_and(|storage| storage.starts_with("storage="))
        );
        assert!(recording.jobs.lines().count() > 1, "{}", recording.jobs);
    }
}
