//! Reads jobs from the plain text output of Slurm's `sacct` and `squeue`.
//!
//! This module accepts the output of `sacct -P -X --format=JobID,State,Start,End,NodeList` and of
//! `squeue -o '%i|%T|%N|%S'`. The first line has the column names, unless the user gave the option
//! `-n` or `-h`. With column names, the columns can have any order, and other columns are ignored.
//! Without column names, the columns must be `JobID|User|State|Start|End|NodeList` or
//! `%i|%u|%T|%N|%S`. The module does not read the JSON output of both tools, because it changes
//! between versions.

use ibnet::types::Printable;
use miette::Diagnostic;

use super::run::JobRun;
use crate::when::Zone;

/// Reason why a job cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SlurmError {
    /// The file does not have the job.
    #[error("cannot find job {}: it is not in {}", Printable(id), Printable(name))]
    #[diagnostic(help("give the output of `sacct -P -X --format=JobID,State,Start,End,NodeList -j ID`"))]
    NoJob {
        /// Name of the file.
        name: String,
        /// Job ID.
        id: String,
    },
    /// The file has no job with nodes and a start.
    #[error("cannot find a job: {} has none with nodes and a start", Printable(name))]
    #[diagnostic(help("give the output of `sacct -a -P -X --format=JobID,State,Start,End,NodeList --starttime TIME`"))]
    NoJobs {
        /// Name of the file.
        name: String,
    },
    /// The line of the job is malformed.
    #[error("cannot read the job at {}:{line}: {what} (found `{}`)", Printable(name), Printable(found))]
    #[diagnostic(help("give the output of `sacct -P -X --format=JobID,State,Start,End,NodeList -j ID`; -P prevents truncation"))]
    Line {
        /// Name of the file.
        name: String,
        /// Line number, from 1.
        line: usize,
        /// The fault.
        what: &'static str,
        /// The text.
        found: String,
    },
}

/// Indices of the columns.
#[derive(Clone, Copy)]
struct Columns {
    id: usize,
    nodes: usize,
    start: Option<usize>,
    end: Option<usize>,
}

impl Columns {
    /// Finds the columns by the names in the first line.
    fn named(fields: &[&str]) -> Option<Self> {
        let index = |names: &[&str]| fields.iter().position(|field| names.iter().any(|name| field.eq_ignore_ascii_case(name)));
        let (id, nodes) = (index(&["JobID", "JOBID"])?, index(&["NodeList", "NODELIST(REASON)"])?);
        Some(Self { id, nodes, start: index(&["Start", "START_TIME"]), end: index(&["End"]) })
    }

    /// Finds the columns by their order, which depends on their number.
    fn counted(fields: &[&str]) -> Option<Self> {
        match fields.len() {
            6 => Some(Self { id: 0, nodes: 5, start: Some(3), end: Some(4) }),
            5 => Some(Self { id: 0, nodes: 3, start: Some(4), end: None }),
            _ => None,
        }
    }
}

/// Finds a job in the output of Slurm. `name` is the name of the file. Times are in the given zone.
///
/// # Errors
/// Returns an error if the job is missing or its line is malformed.
pub fn find(text: &str, name: &str, id: &str, zone: &Zone) -> Result<JobRun, SlurmError> {
    let missing = || SlurmError::NoJob { name: name.to_owned(), id: id.to_owned() };
    let line = lines(text, name, |found| found == Some(id)).find(|line| line.as_ref().map_or(true, |line| line.id() == Some(id)));
    let line = line.ok_or_else(missing)??;
    line.job(zone)?.ok_or_else(|| line.wrong("the job has no nodes yet", line.nodes().unwrap_or_default()))
}

/// Returns all jobs of the output of Slurm that have nodes and a start, in the order of the lines.
/// Job steps (`4711.batch`) are left out, because their traffic belongs to their job. `name` is the
/// name of the file. Times are in the given zone.
///
/// # Errors
/// Returns an error if a line is malformed or no job is left.
pub fn all(text: &str, name: &str, zone: &Zone) -> Result<Vec<JobRun>, SlurmError> {
    let mut jobs = Vec::new();
    for line in lines(text, name, |_| true) {
        let line = line?;
        let is_job = line.id().is_some_and(|id| !id.contains('.') && id.starts_with(|c: char| c.is_ascii_digit()));
        if is_job {
            jobs.extend(line.job(zone)?.filter(|job| job.from.is_some()));
        }
    }
    if jobs.is_empty() { Err(SlurmError::NoJobs { name: name.to_owned() }) } else { Ok(jobs) }
}

/// A line of a job.
struct Line<'a> {
    name: &'a str,
    number: usize,
    columns: Columns,
    fields: Vec<&'a str>,
}

/// Returns the lines with their columns. Without column names, only lines whose first field
/// `is_counted` accepts are returned.
fn lines<'a>(
    text: &'a str,
    name: &'a str,
    is_counted: impl Fn(Option<&str>) -> bool + 'a,
) -> impl Iterator<Item = Result<Line<'a>, SlurmError>> {
    let mut named: Option<Columns> = None;
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).filter_map(move |(index, line)| {
        let fields: Vec<&str> =
            if line.contains('|') { line.split('|').map(str::trim).collect() } else { line.split_whitespace().collect() };
        if let Some(columns) = Columns::named(&fields) {
            named = Some(columns);
            return None;
        }
        let columns = match named {
            Some(columns) => columns,
            None if is_counted(fields.first().copied()) => match Columns::counted(&fields) {
                Some(columns) => columns,
                None => {
                    let what = "expected 5 or 6 columns, or their names in the first line";
                    return Some(Err(SlurmError::Line { name: name.to_owned(), line: index + 1, what, found: line.to_owned() }));
                }
            },
            None => return None,
        };
        Some(Ok(Line { name, number: index + 1, columns, fields }))
    })
}

impl Line<'_> {
    fn id(&self) -> Option<&str> {
        self.fields.get(self.columns.id).copied()
    }

    fn nodes(&self) -> Option<&str> {
        self.fields.get(self.columns.nodes).copied()
    }

    fn wrong(&self, what: &'static str, found: &str) -> SlurmError {
        SlurmError::Line { name: self.name.to_owned(), line: self.number, what, found: found.to_owned() }
    }

    /// Returns the job, or `None` if it has no nodes yet.
    fn job(&self, zone: &Zone) -> Result<Option<JobRun>, SlurmError> {
        let nodes = self.nodes().ok_or_else(|| self.wrong("the list of nodes is missing", &self.fields.join("|")))?;
        if nodes.is_empty() || nodes.eq_ignore_ascii_case("none assigned") || nodes.starts_with('(') {
            return Ok(None);
        }
        if nodes.ends_with('+') {
            return Err(self.wrong("the list of nodes is truncated", nodes));
        }
        let time = |column: Option<usize>| match column.and_then(|column| self.fields.get(column)).copied() {
            None | Some("" | "Unknown" | "N/A" | "None") => Ok(None),
            // The parser takes a text without a date as a time of today. So such a text is rejected
            // first.
            Some(text) if !text.contains('T') => Err(self.wrong("expected a time such as 2026-11-21T12:00:00", text)),
            Some(text) => zone.parse(text, 0).map(Some).map_err(|_| self.wrong("expected a time such as 2026-11-21T12:00:00", text)),
        };
        let (from, to) = (time(self.columns.start)?, time(self.columns.end)?);
        let job = JobRun::new(self.id().unwrap_or_default(), nodes, from, to);
        job.map(Some).map_err(|_| self.wrong("the list of nodes is malformed", nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_795_262_400_000_000_000;

    fn found(text: &str, id: &str) -> Result<JobRun, SlurmError> {
        find(text, "jobs", id, &Zone::utc())
    }

    #[test]
    fn jobs_are_found_in_the_output_of_slurm() {
        let whole = JobRun::new("7", "n[1-2,7]", Some(NOON), Some(NOON + 60_000_000_000)).unwrap();
        let running = JobRun { to: None, ..whole.clone() };
        let sacct = "JobID|State|Start|End|NodeList\n6|COMPLETED|Unknown|Unknown|n9\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n";
        assert_eq!(found(sacct, "7"), Ok(whole.clone()));
        assert_eq!(found("70|u|R|x|y|z\n7|u|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n", "7"), Ok(whole));
        assert_eq!(found("7|u|RUNNING|n[1-2,7]|2026-11-21T12:00:00\n", "7"), Ok(running.clone()));
        let padded =
            "JobID      Start               End      NodeList\n------ ------- ----- ----\n7   2026-11-21T12:00:00  Unknown  n[1-2,7]\n";
        assert_eq!(found(padded, "7"), Ok(running));
    }

    #[test]
    fn malformed_line_is_reported_with_its_number() {
        assert_eq!(found("", "7"), Err(SlurmError::NoJob { name: "jobs".to_owned(), id: "7".to_owned() }));
        for (text, what) in [
            ("JobID|NodeList\n7|n[1-2+\n", "the list of nodes is truncated"),
            ("JobID|NodeList\n7|n[1-\n", "the list of nodes is malformed"),
            ("JobID|NodeList\n7|None assigned\n", "the job has no nodes yet"),
            ("JobID|NodeList|Start\n7|n1|yesterday\n", "expected a time such as 2026-11-21T12:00:00"),
            ("JobID|NodeList\n7\n", "the list of nodes is missing"),
            ("\n7|x\n", "expected 5 or 6 columns, or their names in the first line"),
        ] {
            let Err(SlurmError::Line { line, what: found, .. }) = found(text, "7") else { panic!("{text}") };
            assert_eq!((line, found), (2, what));
        }
    }

    #[test]
    fn all_jobs_with_nodes_and_a_start_are_found() {
        let text = "JobID|State|Start|End|NodeList\n\
                    6|PENDING|Unknown|Unknown|None assigned\n\
                    7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n\
                    7.batch|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n1\n\
                    8_1|RUNNING|2026-11-21T12:00:00|Unknown|n3\n";
        let jobs = all(text, "jobs", &Zone::utc()).unwrap();
        let found: Vec<_> = jobs.iter().map(|job| (&*job.id, &*job.nodes, job.from, job.to)).collect();
        assert_eq!(found, [("7", "n[1-2,7]", Some(NOON), Some(NOON + 60_000_000_000)), ("8_1", "n3", Some(NOON), None)]);
        assert_eq!(all("JobID|NodeList\n", "jobs", &Zone::utc()), Err(SlurmError::NoJobs { name: "jobs".to_owned() }));
        assert!(matches!(all("7|n1\n", "jobs", &Zone::utc()), Err(SlurmError::Line { line: 1, .. })));
    }
}
