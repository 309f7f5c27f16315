//! Where jobs come from: a file that another program writes, the scheduler itself, or the simulation.
//!
//! A thread reads the source from time to time, changes the table, and adds the traffic of the jobs.
//! If the source fails, the table stays as it is and the traffic is added later.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ibnet_analysis::job::slurm::{self, SlurmJob};
use ibnet_analysis::when::Zone;

use super::{JobRun, settle};
use crate::events::EventRow;
use crate::state::Hub;

/// Time between two looks at a file, and between two questions to Slurm.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(60);

/// Largest output of a source.
const LARGEST: u64 = 64 << 20;

/// Time in which Slurm must answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Octets of the error output of Slurm that are reported.
const REASON: u64 = 400;

/// Jobs of a simulated fabric at a time in nanoseconds since 1970.
pub(crate) type Simulated = Box<dyn Fn(u64) -> Vec<JobRun> + Send>;

/// A source of jobs.
pub(crate) enum Source {
    /// A file with the output of `sacct` or `squeue`, which is read when it changes.
    File(PathBuf),
    /// `squeue`, once a minute.
    Slurm,
    /// The jobs of a simulated fabric.
    Simulated(Simulated),
}

/// Jobs, and the time that they describe.
type Report = (Vec<JobRun>, u64);

impl Source {
    fn describe(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Slurm => "squeue".to_owned(),
            Self::Simulated(_) => "simulated".to_owned(),
        }
    }

    const fn every(&self) -> Duration {
        match self {
            Self::Slurm => ASK_EVERY,
            Self::File(_) | Self::Simulated(_) => LOOK_EVERY,
        }
    }

    /// Returns the jobs. `None` if the source has not changed since `known`.
    fn read(&self, known: Option<u64>) -> Result<Option<Report>, String> {
        match self {
            Self::File(path) => read_file(path, known),
            Self::Slurm => {
                let asked = now_ns();
                let text = run(Command::new(SQUEUE[0]).args(&SQUEUE[1..]), PATIENCE)?;
                Ok(Some((parse(&text, SQUEUE[0])?, asked)))
            }
            Self::Simulated(jobs) => {
                let now = now_ns();
                Ok(Some((jobs(now), now)))
            }
        }
    }
}

/// Starts the thread that reads the source. `hides_users` removes the names of users.
pub(crate) fn start(hub: Arc<Hub>, source: Source, hides_users: bool) -> io::Result<()> {
    hub.write().jobs.source.source = Some(source.describe());
    let work = move || {
        loop {
            look(&hub, &source, hides_users);
            settle::run(&hub);
            thread::sleep(source.every());
        }
    };
    thread::Builder::new().name("jobs".to_owned()).spawn(work).map(drop)
}

/// Reads the source once. A failure and its end are events.
fn look(hub: &Hub, source: &Source, hides_users: bool) {
    let known = hub.read().jobs.source.read_ns;
    let report = source.read(known);
    let mut state = hub.write();
    let name = source.describe();
    match report {
        Ok(report) => {
            if state.jobs.source.error.take().is_some() {
                tracing::info!(source = name, "the jobs are readable again");
                state.events.add(EventRow::of_hub(now_ns(), "jobs_back", format!("jobs of {name} are readable")));
            }
            if let Some((mut runs, read_ns)) = report {
                if hides_users {
                    runs.iter_mut().for_each(|run| run.user = None);
                }
                state.jobs.update(runs, read_ns);
            }
        }
        Err(reason) => {
            // The first failure of a row of failures is reported.
            if state.jobs.source.error.replace(reason.clone()).is_none() {
                tracing::warn!(source = name, error = ?reason, "cannot read the jobs, trying again");
                state.events.add(EventRow::of_hub(now_ns(), "jobs_lost", format!("jobs of {name}: {reason}")));
            }
        }
    }
}

/// Question about all jobs that Slurm still has, running and ended.
const SQUEUE: [&str; 3] = ["squeue", "--json", "--states=all"];

/// Reads a file if it has changed. Its last change is the time that it describes.
fn read_file(path: &Path, known: Option<u64>) -> Result<Option<Report>, String> {
    let failed = |error: io::Error| error.to_string();
    let mut file = File::open(path).map_err(failed)?;
    let changed = file.metadata().and_then(|file| file.modified()).map_err(failed)?;
    let changed = nanos(changed);
    if known == Some(changed) {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.by_ref().take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
    let jobs = parse(&bounded(text)?, &path.display().to_string())?;
    Ok(Some((jobs, changed)))
}

fn bounded(text: Vec<u8>) -> Result<String, String> {
    if text.len() as u64 > LARGEST {
        return Err(format!("the output is larger than {} MiB", LARGEST >> 20));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs a program and returns its output. Ends it when its time is over.
fn run(command: &mut Command, patience: Duration) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    let (sender, output) = channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.take(LARGEST + 1).read_to_end(&mut text);
            // The receiver is gone if the time is over.
            let _ = sender.send(read.map(|_| text));
        });
    }
    let (sender, reason) = channel();
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.take(REASON).read_to_end(&mut text);
            let _ = sender.send(text);
        });
    }
    let end = clock() + patience;
    let output = output.recv_timeout(patience);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if output.is_ok() && clock() < end => thread::sleep(Duration::from_millis(10)),
            _ => break None,
        }
    };
    let Some(status) = status else {
        // A program that has ended cannot be stopped.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("{name} has not answered within {} s", patience.as_secs_f64()));
    };
    let reason = reason.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    if !status.success() {
        return Err(format!("{name} has failed ({status}): {}", String::from_utf8_lossy(&reason).trim()));
    }
    match output {
        Ok(Ok(text)) => bounded(text),
        Ok(Err(error)) => Err(format!("cannot read the output of {name}: {error}")),
        Err(_) => Err(format!("{name} has written no output")),
    }
}

/// Reads the output of a scheduler.
fn parse(text: &str, name: &str) -> Result<Vec<JobRun>, String> {
    let jobs = slurm::all(text, name, &Zone::local()).map_err(|error| error.to_string())?;
    Ok(jobs.into_iter().filter_map(run_of).collect())
}

/// Returns the run of a job, or `None` if the job has not started.
fn run_of(job: SlurmJob) -> Option<JobRun> {
    job.from?;
    Some(JobRun {
        id: job.id,
        name: None,
        user: None,
        nodes: job.nodes,
        hosts: job.hosts,
        from: job.from,
        to: job.to,
        to_is_lower_bound: false,
        state: if job.to.is_some() { "ended" } else { "running" }.to_owned(),
    })
}

fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "a report of the source describes the present")]
fn now_ns() -> u64 {
    nanos(SystemTime::now())
}

#[expect(clippy::disallowed_methods, reason = "a program has a limited time")]
fn clock() -> Instant {
    Instant::now()
}
