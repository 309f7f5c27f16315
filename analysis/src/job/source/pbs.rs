//! Reads the JSON output of PBS: `qstat -x -f -F json`.
//!
//! Sources: the manual page `qstat(1B)` of OpenPBS, and the PBS Professional Reference Guide,
//! "Job Attributes". The end of a job is `obittime`, which only newer versions write, or else its
//! start plus `resources_used.walltime`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Entry, Fault, Fields};
use crate::when::Zone;

/// Returns the jobs of the object `Jobs`.
pub(super) fn entries(jobs: &Map<String, Value>, zone: &Zone) -> Vec<Entry> {
    jobs.iter().map(|(id, job)| entry(id, job, zone)).collect()
}

fn entry(id: &str, job: &Value, zone: &Zone) -> Entry {
    // The ID is `4711.server`, or `4711[3].server` for a subjob.
    let id = id.split('.').next().unwrap_or_default();
    let state = state(job["job_state"].as_str().unwrap_or_default());
    // `node001/0*32+node002/0*32`, where a host can occur several times.
    let hosts = job["exec_host"]
        .as_str()
        .unwrap_or_default()
        .split('+')
        .map(|part| part.split('/').next().unwrap_or_default());
    let hosts: BTreeSet<&str> = hosts.filter(|host| !host.is_empty()).collect();
    let nodes = hosts.into_iter().collect::<Vec<_>>().join(",");
    let user = job["Job_Owner"]
        .as_str()
        .map(|owner| owner.split('@').next().unwrap_or(owner));
    let run = times(job, zone).and_then(|(from, to)| {
        let to = to.filter(|_| state == "finished");
        Fields {
            id,
            name: job["Job_Name"].as_str(),
            user,
            nodes: &nodes,
            from,
            to,
            state,
        }
        .run()
    });
    Entry {
        id: id.to_owned(),
        run,
        line: None,
    }
}

/// Returns the start and the end of a job.
fn times(job: &Value, zone: &Zone) -> Result<(Option<u64>, Option<u64>), Fault> {
    let at = |key: &str| job[key].as_str().map(|text| time(text, zone)).transpose();
    let (from, end) = (at("stime")?, at("obittime")?);
    let walltime = || from?.checked_add(walltime(job["resources_used"]["walltime"].as_str()?)?);
    Ok((from, end.or_else(walltime)))
}

/// Returns the state for a state letter.
fn state(letter: &str) -> &str {
    match letter {
        "R" | "B" => "running",
        "E" => "completing",
        "S" | "U" => "suspended",
        "F" | "X" | "C" => "finished",
        "Q" | "H" | "W" | "T" | "M" => "pending",
        other => other,
    }
}

/// Reads a time such as `Sat Nov 21 12:00:00 2026`, which is local.
fn time(text: &str, zone: &Zone) -> Result<u64, Fault> {
    let wrong = || {
        (
            "expected a time such as `Sat Nov 21 12:00:00 2026`",
            text.to_owned(),
        )
    };
    let civil = jiff::fmt::strtime::parse("%a %b %d %H:%M:%S %Y", text)
        .and_then(|parsed| parsed.to_datetime())
        .map_err(|_| wrong())?;
    zone.parse(&civil.to_string(), 0).map_err(|_| wrong())
}

/// Parses a duration such as `26:03:09`. Returns nanoseconds.
fn walltime(text: &str) -> Option<u64> {
    let seconds = text.split(':').try_fold(0_u64, |sum, part| {
        sum.checked_mul(60)?.checked_add(part.parse().ok()?)
    })?;
    seconds.checked_mul(1_000_000_000)
}
