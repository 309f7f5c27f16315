//! Reads jobs from the output of resource managers, and from files of other programs.
//!
//! `parse` detects which of these forms a text has:
//!
//! | form | module |
//! |---|---|
//! | text of Slurm's `sacct` and `squeue` | [`slurm_text`] |
//! | JSON of Slurm's `sacct --json` and `squeue --json` | [`slurm_json`] |
//! | JSON of PBS: `qstat -x -f -F json` | [`pbs`] |
//! | CSV with the columns `job,user,nodes,start,end,state` | [`csv`] |
//! | job table of `ibnet-view jobs --keep` | [`super::table`] |
//!
//! [`ask`] runs the commands of Slurm and PBS.

use ibnet_record::types::Printable;
use miette::Diagnostic;
use serde_json::Value;

use super::run::JobRun;
use super::table::JobTable;
use crate::when::Zone;

pub mod ask;
pub mod csv;
pub mod pbs;
pub mod slurm_json;
pub mod slurm_text;

/// How a user gets a file with jobs.
const REMEDY: &str = "give the output of `sacct -P -X --format=JobID,User,State,Start,End,NodeList`, of `sacct --json`, of `qstat -x -f -F json`, \
                      a CSV file with the columns job,user,nodes,start,end,state, or a job table";

/// Reason why a job cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SourceError {
    /// The text does not contain the job.
    #[error("cannot find job {}: it is not in {}{}", Printable(id), Printable(name), task_note(*tasks))]
    #[diagnostic(help("{REMEDY}"))]
    NoJob {
        /// Name of the file or command.
        name: String,
        /// Job ID.
        id: String,
        /// Number of tasks of the job, if the job is an array.
        tasks: usize,
    },
    /// The text contains no job with nodes and a start.
    #[error(
        "cannot find a job: {} has none with nodes and a start",
        Printable(name)
    )]
    #[diagnostic(help("{REMEDY}"))]
    NoJobs {
        /// Name of the file or command.
        name: String,
    },
    /// A job is malformed.
    #[error(
        "cannot read the job at {}: {what} (found `{}`)",
        Printable(place),
        Printable(found)
    )]
    #[diagnostic(help("{REMEDY}; `sacct -P` prevents truncation"))]
    Malformed {
        /// File name and line number, or job ID and file name.
        place: String,
        /// The fault.
        what: &'static str,
        /// The text.
        found: String,
    },
    /// A mark is malformed.
    #[error(
        "cannot read the mark at {}: {what} (found `{}`)",
        Printable(place),
        Printable(found)
    )]
    #[diagnostic(help(
        "give CSV with the columns name,start,end,nodes,value, or JSON lines with these fields"
    ))]
    Mark {
        /// File name and line number.
        place: String,
        /// The fault.
        what: &'static str,
        /// The text.
        found: String,
    },
    /// The whole text is malformed.
    #[error("cannot read jobs from {}: {why}", Printable(name))]
    #[diagnostic(help("{REMEDY}"))]
    Text {
        /// Name of the file or command.
        name: String,
        /// The fault.
        why: String,
    },
}

fn task_note(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(", but {count} tasks of this array are; give the ID of a task")
    }
}

/// A job in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    /// The run, or `None` if the job has no nodes yet. The error is what is wrong, and the text.
    pub(super) run: Result<Option<JobRun>, Fault>,
    /// Line number. `None` if the text has no lines.
    pub(super) line: Option<usize>,
}

/// What is wrong with a job, and its text.
pub(in crate::job) type Fault = (&'static str, String);

/// The values of a job in a text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) id: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) nodes: &'a str,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) state: &'a str,
}

impl Fields<'_> {
    /// Returns the run, or `None` if the job has no nodes yet. The start of a waiting job and the
    /// end of a running job are only expected times, so they are dropped.
    pub(super) fn run(self) -> Result<Option<JobRun>, Fault> {
        let nodes = self.nodes.trim();
        if nodes.is_empty() || nodes.eq_ignore_ascii_case("none assigned") || nodes.starts_with('(')
        {
            return Ok(None);
        }
        if nodes.ends_with('+') {
            return Err(("the list of nodes is truncated", nodes.to_owned()));
        }
        // sacct writes `CANCELLED by 1000`.
        let state = self
            .state
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_lowercase();
        let is_waiting = matches!(
            &*state,
            "pending" | "configuring" | "requeued" | "requeue_hold" | "requeue_fed"
        );
        let is_running = matches!(
            &*state,
            "running"
                | "suspended"
                | "completing"
                | "stage_out"
                | "signaling"
                | "stopped"
                | "resizing"
        );
        let from = self.from.filter(|_| !is_waiting);
        let to = self.to.filter(|_| !is_waiting && !is_running);
        let run = JobRun::new(self.id, nodes, from, to)
            .map_err(|_| ("the list of nodes is malformed", nodes.to_owned()))?;
        let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Some(JobRun {
            name: text(self.name),
            user: text(self.user),
            state,
            ..run
        }))
    }
}

/// Returns the jobs of a text in any of the forms.
fn entries(text: &str, name: &str, zone: &Zone) -> Result<Vec<Entry>, SourceError> {
    let failed = |why: String| SourceError::Text {
        name: name.to_owned(),
        why,
    };
    let trimmed = text.trim_start_matches('\u{feff}').trim_start();
    if trimmed.starts_with('{') {
        if let Ok(Value::Object(document)) = serde_json::from_str::<Value>(trimmed) {
            return match (document.get("jobs"), document.get("Jobs")) {
                (Some(Value::Array(jobs)), _) => Ok(slurm_json::entries(jobs)),
                (_, Some(Value::Object(jobs))) => Ok(pbs::entries(jobs, zone)),
                // PBS leaves `Jobs` out if there are none.
                _ if document.contains_key("pbs_version") => Ok(Vec::new()),
                _ if document.contains_key("job") || document.contains_key("listed_ns") => {
                    table_entries(trimmed).map_err(failed)
                }
                _ => Err(failed(
                    "the JSON document has neither `jobs` of Slurm nor `Jobs` of PBS".to_owned(),
                )),
            };
        }
        return table_entries(trimmed).map_err(failed);
    }
    match csv::entries(trimmed, zone) {
        Some(found) => found.map_err(failed),
        None => Ok(slurm_text::entries(text, slurm_text::BAR, zone)),
    }
}

fn table_entries(text: &str) -> Result<Vec<Entry>, String> {
    let mut table = JobTable::default();
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() && !table.add_line(line) {
            return Err(format!(
                "line {} is neither JSON of Slurm or PBS nor a line of a job table",
                index + 1
            ));
        }
    }
    Ok(table
        .runs()
        .map(|run| Entry {
            id: run.id.clone(),
            run: Ok(Some(run.clone())),
            line: None,
        })
        .collect())
}

impl Entry {
    fn run(self, name: &str) -> Result<Option<JobRun>, SourceError> {
        let Self { id, run, line } = self;
        run.map_err(|(what, found)| {
            let place = line.map_or_else(
                || format!("job {id} of {name}"),
                |line| format!("{name}:{line}"),
            );
            SourceError::Malformed { place, what, found }
        })
    }
}

/// Finds a job in a text. `name` is the name of the file, and `zone` that of times without a
/// zone. If the job ran several times, its newest run is returned.
///
/// # Errors
/// Returns an error if the job is missing or malformed.
pub fn find(text: &str, name: &str, id: &str, zone: &Zone) -> Result<JobRun, SourceError> {
    find_in(entries(text, name, zone)?, name, id)
}

fn find_in(entries: Vec<Entry>, name: &str, id: &str) -> Result<JobRun, SourceError> {
    let is_task = |entry: &Entry| {
        entry
            .id
            .strip_prefix(id)
            .is_some_and(|task| task.starts_with(['_', '[']))
    };
    let tasks = entries.iter().filter(|entry| is_task(entry)).count();
    let mut newest: Option<JobRun> = None;
    let mut is_listed = false;
    for entry in entries.into_iter().filter(|entry| entry.id == id) {
        is_listed = true;
        let run = entry.run(name)?;
        newest = run.into_iter().chain(newest).max_by_key(|run| run.from);
    }
    newest.ok_or_else(|| match is_listed {
        true => SourceError::Malformed {
            place: format!("job {id} of {name}"),
            what: "the job has no nodes yet",
            found: String::new(),
        },
        false => SourceError::NoJob {
            name: name.to_owned(),
            id: id.to_owned(),
            tasks,
        },
    })
}

/// Returns all runs of a text that have nodes and a start, in the order of the text. `name` is
/// the name of the file, and `zone` that of times without a zone.
///
/// # Errors
/// Returns an error if a job is malformed or no run is left.
pub fn all(text: &str, name: &str, zone: &Zone) -> Result<Vec<JobRun>, SourceError> {
    let runs = runs(entries(text, name, zone)?, name)?;
    if runs.is_empty() {
        Err(SourceError::NoJobs {
            name: name.to_owned(),
        })
    } else {
        Ok(runs)
    }
}

fn runs(entries: Vec<Entry>, name: &str) -> Result<Vec<JobRun>, SourceError> {
    let mut runs = Vec::new();
    for entry in entries {
        runs.extend(entry.run(name)?.filter(|run| run.from.is_some()));
    }
    Ok(runs)
}

#[cfg(test)]
mod tests;
