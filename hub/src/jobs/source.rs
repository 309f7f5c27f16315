//! Reads jobs from a file that another program writes, from a resource manager, or from the
//! simulation.
//!
//! A thread reads the source from time to time, updates the table, and adds the traffic of the
//! jobs. If the source fails, the table stays as it is, and the traffic is added later.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::source::ask::{Ask, Manager};
use ibnet_analysis::job::source::{self, SourceError};
use ibnet_analysis::job::table::Listing;
use ibnet_analysis::when::Zone;

use super::settle;
use crate::events::EventRow;
use crate::state::Hub;
use crate::threads::Threads;

/// Time between two checks of a file or of the simulation. [`ASK_EVERY`] is the time between two
/// queries to a resource manager.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(60);

/// A resource manager is asked for jobs from this long before the last listing.
const BEFORE_NS: u64 = 900_000_000_000;

/// Max size of a job file in bytes.
const LARGEST: u64 = 64 << 20;

/// Jobs of a simulated fabric at a time in nanoseconds since 1970.
pub(crate) type Simulated = Box<dyn Fn(u64) -> Vec<JobRun> + Send>;

/// A source of jobs.
pub(crate) enum Source {
    /// A job file in any form that `ibnet-view` reads. It is read when it changes.
    File(PathBuf),
    /// A resource manager, once a minute.
    Manager(Manager),
    /// The jobs of a simulated fabric.
    Simulated(Simulated),
}

impl Source {
    fn describe(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Manager(Manager::Slurm) => "Slurm".to_owned(),
            Self::Manager(Manager::Pbs) => "PBS".to_owned(),
            Self::Simulated(_) => "simulated".to_owned(),
        }
    }

    const fn every(&self) -> Duration {
        match self {
            Self::Manager(_) => ASK_EVERY,
            Self::File(_) | Self::Simulated(_) => LOOK_EVERY,
        }
    }

    /// Returns the jobs. `None` if the source has not changed since `known`.
    fn read(&self, known: Option<u64>) -> Result<Option<Listing>, String> {
        match self {
            Self::File(path) => read_file(path, known),
            Self::Manager(manager) => {
                let now = now_ns();
                // Includes jobs that ended since the last listing, even after a failure.
                let from = known.unwrap_or(now).saturating_sub(BEFORE_NS);
                Ask::new(*manager)
                    .jobs(from, None, now)
                    .map(Some)
                    .map_err(|error| error.to_string())
            }
            Self::Simulated(jobs) => {
                let now = now_ns();
                Ok(Some(Listing {
                    runs: jobs(now),
                    at: now,
                    is_complete: true,
                }))
            }
        }
    }
}

/// Starts the thread that reads the source. `hides_users` removes the names of users.
pub(crate) fn start(
    hub: Arc<Hub>,
    source: Source,
    hides_users: bool,
    threads: &Threads,
) -> io::Result<()> {
    hub.write().jobs.source.source = Some(source.describe());
    threads.start("jobs", move || {
        loop {
            look(&hub, &source, hides_users);
            settle::run(&hub);
            thread::sleep(source.every());
        }
    })
}

/// Reads the source once. A failure and the recovery from it are events.
fn look(hub: &Hub, source: &Source, hides_users: bool) {
    let known = hub.read().jobs.source.read_ns;
    let report = source.read(known);
    let mut state = hub.write();
    let name = source.describe();
    match report {
        Ok(report) => {
            if state.jobs.source.error.take().is_some() {
                tracing::info!(source = name, "the jobs are read again");
                state.events.add(EventRow::of_hub(
                    now_ns(),
                    "jobs_back",
                    format!("jobs of {name} are readable"),
                ));
            }
            if let Some(mut listing) = report {
                if hides_users {
                    listing.runs.iter_mut().for_each(|run| run.user = None);
                }
                state.jobs.update(listing);
            }
        }
        Err(reason) => {
            // Only the first failure in a series is reported.
            if state.jobs.source.error.replace(reason.clone()).is_none() {
                tracing::warn!(source = name, error = ?reason, "cannot read the jobs, so the page keeps the last list; trying again");
                state.events.add(EventRow::of_hub(
                    now_ns(),
                    "jobs_lost",
                    format!("jobs of {name}: {reason}"),
                ));
            }
        }
    }
}

/// Reads a file if it has changed. Its jobs are valid for the time of its last change.
fn read_file(path: &Path, known: Option<u64>) -> Result<Option<Listing>, String> {
    let failed = |error: io::Error| error.to_string();
    let mut file = File::open(path).map_err(failed)?;
    let changed = file
        .metadata()
        .and_then(|file| file.modified())
        .map_err(failed)?;
    let changed = nanos(changed);
    if known == Some(changed) {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.by_ref()
        .take(LARGEST + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    let name = path.display().to_string();
    match source::all(&bounded(text)?, &name, &Zone::local()) {
        Ok(runs) => Ok(Some(Listing {
            runs,
            at: changed,
            is_complete: true,
        })),
        // No job is running, and the file lists no past ones.
        Err(SourceError::NoJobs { .. }) => Ok(Some(Listing {
            runs: Vec::new(),
            at: changed,
            is_complete: true,
        })),
        Err(error) => Err(error.to_string()),
    }
}

fn bounded(text: Vec<u8>) -> Result<String, String> {
    if text.len() as u64 > LARGEST {
        return Err(format!("the file is larger than {} MiB", LARGEST >> 20));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a report of the source describes the present"
)]
fn now_ns() -> u64 {
    nanos(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::job::source::ask::Manager;

    use super::*;
    use crate::query::tests::hub;

    #[test]
    fn file_is_read_when_it_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jobs");
        let source = Source::File(path.clone());
        let hub = hub(&[]);
        let events = |hub: &Hub| {
            hub.read()
                .events
                .select(&crate::events::Filter::all())
                .iter()
                .map(|row| row.event.clone())
                .collect::<Vec<_>>()
        };
        look(&hub, &source, false);
        look(&hub, &source, false);
        assert_eq!(
            (events(&hub), hub.read().jobs.source.error.is_some()),
            (vec!["jobs_lost".to_owned()], true),
            "the file is missing"
        );
        std::fs::write(
            &path,
            "job,user,nodes,start,end,state\n7,user01,n[1-2],1700000100,,running\n",
        )
        .expect("written");
        look(&hub, &source, true);
        assert_eq!(
            (events(&hub).len(), hub.read().jobs.source.error.clone()),
            (2, None)
        );
        assert_eq!(
            hub.read()
                .jobs
                .find("7")
                .map(|known| (known.run.user.clone(), known.run.to)),
            Some((None, None)),
            "the user is hidden"
        );
        let read_ns = hub.read().jobs.source.read_ns;
        assert_eq!(source.read(read_ns), Ok(None), "the file has not changed");
        std::fs::write(&path, "job,user,nodes,start,end,state\n").expect("written");
        let later = UNIX_EPOCH + Duration::from_nanos(now_ns()) + Duration::from_secs(60);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(later))
            .expect("a later time");
        look(&hub, &source, false);
        assert_eq!(
            hub.read().jobs.find("7").and_then(|known| known.run.to),
            read_ns,
            "the last time with the job"
        );
        std::fs::write(&path, "nonsense").expect("written");
        look(&hub, &source, false);
        assert!(
            hub.read().jobs.find("7").is_some(),
            "a failure changes no job"
        );
    }

    #[test]
    fn sources_have_names() {
        assert_eq!(
            [Manager::Slurm, Manager::Pbs].map(|manager| Source::Manager(manager).describe()),
            ["Slurm", "PBS"]
        );
    }
}
