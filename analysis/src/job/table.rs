//! The job table: a file that keeps the runs of jobs, so that their nodes and times stay known
//! after the resource manager has forgotten them.
//!
//! The file has JSON lines. A line with `job` has the fields of [`RunRow`]; a run is identified
//! by its job ID and its start, and its last line replaces the earlier ones. A line with
//! `listed_ns` has the time of a listing. Lines are only appended, so a reader can follow the
//! file.
//!
//! A *listing* is the answer of the resource manager: all jobs that run, and some that have
//! ended. If a job of the table was running but is missing from the new listing, it ended after
//! the previous one, whose time becomes the end of the run, as a lower bound.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ibnet_record::limits;
use ibnet_record::types::Printable;
use miette::Diagnostic;
use serde::Deserialize;

use super::run::{JobRun, RunRow};

/// Max size of a job table in bytes, enough for about a million runs.
const MAX: u64 = limits::SLURM;

/// State of a run that disappeared between two listings.
const ENDED: &str = "ended";

/// Runs of jobs by their start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobTable {
    /// Runs by start and job ID.
    runs: BTreeMap<(u64, String), JobRun>,
    /// Time of the newest listing in nanoseconds since 1970.
    listed: Option<u64>,
}

/// The answer of a resource manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Runs of jobs. Runs without a start are ignored.
    pub runs: Vec<JobRun>,
    /// Time of the answer in nanoseconds since 1970.
    pub at: u64,
    /// Whether the answer has every job that runs.
    pub is_complete: bool,
}

/// Number of runs that a listing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Runs that were not in the table.
    pub new: usize,
    /// Runs with a new end or state.
    pub updated: usize,
}

/// Fault of a job table.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum TableError {
    /// The file cannot be read or written.
    #[error("cannot use the job table {}", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "give the path of a file in a directory that you may write to; `ibnet-view jobs --keep FILE` creates the file"
    ))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is not a job table.
    #[error("cannot use {} as a job table: line {line} is not a line of a job table", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "give a file that `ibnet-view jobs --keep FILE` wrote, or the name of a new file"
    ))]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
}

#[derive(Debug, Deserialize)]
struct Line {
    job: Option<String>,
    name: Option<String>,
    user: Option<String>,
    nodes: Option<String>,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    #[serde(default)]
    end_is_lower_bound: bool,
    #[serde(default)]
    state: String,
    listed_ns: Option<u64>,
}

impl JobTable {
    /// Reads a table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if a line is not a line of a job table.
    /// Only the last line may be incomplete.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let text = limits::read_file(path, MAX).map_err(|source| TableError::File {
            path: path.to_owned(),
            source,
        })?;
        Self::of_file(&text, path)
    }

    fn of_file(text: &[u8], path: &Path) -> Result<Self, TableError> {
        let mut table = Self::default();
        let whole = text
            .iter()
            .rposition(|octet| *octet == b'\n')
            .map_or(0, |end| end + 1);
        for (index, line) in String::from_utf8_lossy(&text[..whole]).lines().enumerate() {
            if !line.trim().is_empty() && !table.add_line(line) {
                return Err(TableError::Line {
                    path: path.to_owned(),
                    line: index + 1,
                });
            }
        }
        Ok(table)
    }

    /// Adds one line of a table, for programs that follow the file. Returns false, and changes
    /// nothing, if the text is no such line.
    pub fn add_line(&mut self, text: &str) -> bool {
        let Ok(line) = serde_json::from_str::<Line>(text) else {
            return false;
        };
        match line {
            Line {
                listed_ns: Some(at),
                ..
            } => {
                self.listed = self.listed.max(Some(at));
                true
            }
            Line {
                job: Some(id),
                nodes: Some(nodes),
                start_ns: Some(from),
                ..
            } => {
                let Ok(run) = JobRun::new(&id, &nodes, Some(from), line.end_ns) else {
                    return false;
                };
                let run = JobRun {
                    name: line.name,
                    user: line.user,
                    to_is_lower_bound: line.end_is_lower_bound,
                    state: line.state,
                    ..run
                };
                self.runs.insert((from, id), run);
                true
            }
            _ => false,
        }
    }

    /// Returns all runs in the order of their starts.
    pub fn runs(&self) -> impl Iterator<Item = &JobRun> {
        self.runs.values()
    }

    /// Returns the runs that overlap the time range, in the order of their starts.
    pub fn during(&self, from: u64, to: u64) -> impl Iterator<Item = &JobRun> {
        self.runs
            .range(..(to, String::new()))
            .map(|(_, run)| run)
            .filter(move |run| run.is_during(from, to))
    }

    /// Returns the newest run of the job with this ID.
    pub fn newest(&self, id: &str) -> Option<&JobRun> {
        self.runs.values().rev().find(|run| run.id == id)
    }

    /// Returns the time of the newest listing in nanoseconds since 1970.
    pub const fn listed(&self) -> Option<u64> {
        self.listed
    }

    /// Adds a listing. Returns the new lines of the table, which a writer appends to its file.
    pub fn update(&mut self, listing: &Listing) -> (String, Changes) {
        let (mut text, mut changes) = (String::new(), Changes::default());
        let before = self.listed;
        let mut running: BTreeMap<(u64, String), ()> = self
            .runs
            .iter()
            .filter(|(_, run)| run.to.is_none())
            .map(|(key, _)| (key.clone(), ()))
            .collect();
        for run in &listing.runs {
            let Some(from) = run.from else { continue };
            let key = (from, run.id.clone());
            running.remove(&key);
            match self.runs.get(&key) {
                // A lower bound does not replace a measured end.
                Some(known)
                    if known == run
                        || (run.to.is_none() && known.to.is_some() && !known.to_is_lower_bound) =>
                {
                    continue;
                }
                Some(_) => changes.updated += 1,
                None => changes.new += 1,
            }
            push_line(&mut text, &run.row());
            self.runs.insert(key, run.clone());
        }
        if listing.is_complete {
            for key in running.into_keys() {
                if let Some(run) = self.runs.get_mut(&key) {
                    run.to = Some(before.unwrap_or(key.0).max(key.0));
                    run.to_is_lower_bound = true;
                    ENDED.clone_into(&mut run.state);
                    push_line(&mut text, &run.row());
                    changes.updated += 1;
                }
            }
            self.listed = self.listed.max(Some(listing.at));
            text.push_str(&format!("{{\"listed_ns\":{}}}\n", listing.at));
        }
        (text, changes)
    }

    /// Adds a listing to a table file, which is created if missing, and returns the new table.
    /// Other processes that call this function wait.
    ///
    /// # Errors
    /// Returns the errors of [`JobTable::read`], and an error if the file cannot be written.
    pub fn keep(path: &Path, listing: &Listing) -> Result<(Self, Changes), TableError> {
        let failed = |source| TableError::File {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        file.lock().map_err(failed)?;
        let text = limits::read(Read::by_ref(&mut file), MAX).map_err(failed)?;
        let mut table = Self::of_file(&text, path)?;
        let (mut lines, changes) = table.update(listing);
        // The writer was interrupted; its incomplete line is cut off.
        if !text.is_empty() && !text.ends_with(b"\n") {
            let whole = text
                .iter()
                .rposition(|octet| *octet == b'\n')
                .map_or(0, |end| end + 1);
            file.set_len(whole as u64).map_err(failed)?;
        }
        append(&mut file, &mut lines).map_err(failed)?;
        Ok((table, changes))
    }
}

fn append(file: &mut File, lines: &mut String) -> io::Result<()> {
    file.write_all(lines.as_bytes())?;
    file.sync_data()
}

fn push_line(text: &mut String, row: &RunRow<'_>) {
    // Cannot fail, because numbers and strings always have a JSON form.
    text.push_str(&serde_json::to_string(row).unwrap_or_default());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, nodes: &str, from: u64, to: Option<u64>) -> JobRun {
        let state = if to.is_some() { "completed" } else { "running" };
        JobRun {
            state: state.to_owned(),
            name: Some("cfd".to_owned()),
            ..JobRun::new(id, nodes, Some(from), to).unwrap()
        }
    }

    fn listing(at: u64, runs: &[JobRun]) -> Listing {
        Listing {
            runs: runs.to_vec(),
            at,
            is_complete: true,
        }
    }

    #[test]
    fn running_job_is_updated_and_history_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.jsonl");
        let first = [run("1", "n[1-2]", 10, None), run("2", "n3", 20, None)];
        let (_, changes) = JobTable::keep(&path, &listing(100, &first)).unwrap();
        assert_eq!(changes, Changes { new: 2, updated: 0 });
        // Job 1 ended; job 2 is forgotten without an end; job 1 starts again.
        let second = [
            run("1", "n[1-2]", 10, Some(130)),
            run("1", "n[1-2]", 140, None),
        ];
        let (table, changes) = JobTable::keep(&path, &listing(200, &second)).unwrap();
        assert_eq!(changes, Changes { new: 1, updated: 2 });
        assert_eq!(JobTable::read(&path).unwrap(), table);
        let found: Vec<_> = table
            .runs()
            .map(|run| {
                (
                    &*run.id,
                    run.from,
                    run.to,
                    run.to_is_lower_bound,
                    &*run.state,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("1", Some(10), Some(130), false, "completed"),
                ("2", Some(20), Some(100), true, "ended"),
                ("1", Some(140), None, false, "running"),
            ]
        );
        assert_eq!(table.newest("1").and_then(|run| run.from), Some(140));
        assert_eq!(
            table
                .during(100, 140)
                .map(|run| &*run.id)
                .collect::<Vec<_>>(),
            ["1"],
            "job 2 ended at 100 or later"
        );
        // An equal listing adds no run, and an empty one does not end a job twice.
        let before = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| line.contains("job"))
            .count();
        JobTable::keep(&path, &listing(300, &second)).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path)
                .unwrap()
                .lines()
                .filter(|line| line.contains("job"))
                .count(),
            before
        );
    }

    #[test]
    fn late_answer_with_the_true_end_replaces_the_lower_bound() {
        let mut table = JobTable::default();
        table.update(&listing(100, &[run("1", "n1", 10, None)]));
        table.update(&listing(200, &[]));
        assert_eq!(
            table.newest("1").map(|run| (run.to, run.to_is_lower_bound)),
            Some((Some(100), true))
        );
        table.update(&Listing {
            is_complete: false,
            ..listing(300, &[run("1", "n1", 10, Some(150))])
        });
        assert_eq!(
            table.newest("1").map(|run| (run.to, run.to_is_lower_bound)),
            Some((Some(150), false))
        );
        // A listing of another source that still has it running is older.
        table.update(&Listing {
            is_complete: false,
            ..listing(300, &[run("1", "n1", 10, None)])
        });
        assert_eq!(table.newest("1").map(|run| run.to), Some(Some(150)));
    }

    #[test]
    fn torn_last_line_is_cut_off_and_a_foreign_file_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.jsonl");
        JobTable::keep(&path, &listing(100, &[run("1", "n1", 10, None)])).unwrap();
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"job\":\"2\",\"no");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(JobTable::read(&path).unwrap().runs().count(), 1);
        JobTable::keep(&path, &listing(200, &[run("3", "n3", 150, None)])).unwrap();
        assert_eq!(
            JobTable::read(&path)
                .unwrap()
                .runs()
                .map(|run| &*run.id)
                .collect::<Vec<_>>(),
            ["1", "3"]
        );
        std::fs::write(&path, "{\"type\":\"port\"}\n").unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(
            JobTable::keep(&path, &listing(1, &[])),
            Err(TableError::Line { line: 1, .. })
        ));
        assert_eq!(
            std::fs::read(&path).unwrap(),
            before,
            "a foreign file is not changed"
        );
    }
}
