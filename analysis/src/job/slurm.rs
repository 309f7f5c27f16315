//! Jobs as Slurm prints them: `sacct` and `squeue`, in their plain form.
//!
//! Read are `sacct -P -X --format=JobID,State,Start,End,NodeList` and `squeue -o '%i|%T|%N|%S'`, with any columns in any order as long as their names are in the
//! first line (so without `-n` and `-h`); without names `JobID|User|State|Start|End|NodeList` and `%i|%u|%T|%N|%S`. The JSON of both changes from version to
//! version and is not read.

use miette::Diagnostic;

use super::super::when::Zone;
use ibnet::types::Printable;

/// A job's nodes and times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlurmJob {
    /// A HOSTLIST.
    pub nodes: String,
    /// When it began.
    pub from: Option<u64>,
    /// When it ended; `None` while it runs.
    pub to: Option<u64>,
}

/// Why a job cannot be found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SlurmError {
    /// The job is not there.
    #[error("{}: there is no job {}", Printable(name), Printable(id))]
    #[diagnostic(help("give what `sacct -P -X --format=JobID,State,Start,End,NodeList -j ID` printed"))]
    NoJob {
        /// The file.
        name: String,
        /// The job.
        id: String,
    },
    /// The line cannot be read.
    #[error("{}:{line}: {what}: `{}`", Printable(name), Printable(found))]
    #[diagnostic(help("give what `sacct -P -X --format=JobID,State,Start,End,NodeList -j ID` printed: with -P nothing is cut"))]
    Line {
        /// The file.
        name: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// What stood there.
        found: String,
    },
}

/// The places of the columns.
struct Columns {
    id: usize,
    nodes: usize,
    start: Option<usize>,
    end: Option<usize>,
}

impl Columns {
    /// By the names in a first line.
    fn named(fields: &[&str]) -> Option<Self> {
        let place = |names: &[&str]| fields.iter().position(|field| names.iter().any(|name| field.eq_ignore_ascii_case(name)));
        let (id, nodes) = (place(&["JobID", "JOBID"])?, place(&["NodeList", "NODELIST(REASON)"])?);
        Some(Self { id, nodes, start: place(&["Start", "START_TIME"]), end: place(&["End"]) })
    }

    /// By their number.
    fn counted(fields: &[&str]) -> Option<Self> {
        match fields.len() {
            6 => Some(Self { id: 0, nodes: 5, start: Some(3), end: Some(4) }),
            5 => Some(Self { id: 0, nodes: 3, start: Some(4), end: None }),
            _ => None,
        }
    }
}

/// Finds a job in what Slurm printed; `name` is where that stands. Times are of the zone.
///
/// # Errors
/// When it is not there, or its line cannot be read.
pub fn find(text: &str, name: &str, id: &str, zone: &Zone) -> Result<SlurmJob, SlurmError> {
    let mut named: Option<Columns> = None;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what, found: &str| SlurmError::Line { name: name.to_owned(), line: number + 1, what, found: found.to_owned() };
        let fields: Vec<&str> =
            if line.contains('|') { line.split('|').map(str::trim).collect() } else { line.split_whitespace().collect() };
        if let Some(columns) = Columns::named(&fields) {
            named = Some(columns);
            continue;
        }
        let counted;
        let columns = match &named {
            Some(columns) => columns,
            None if fields.first() == Some(&id) => {
                counted =
                    Columns::counted(&fields).ok_or_else(|| wrong("expected 5 or 6 columns, or their names in the first line", line))?;
                &counted
            }
            None => continue,
        };
        if fields.get(columns.id) != Some(&id) {
            continue;
        }
        let nodes = *fields.get(columns.nodes).ok_or_else(|| wrong("the list of nodes is missing", line))?;
        if nodes.is_empty() || nodes.eq_ignore_ascii_case("none assigned") || nodes.starts_with('(') {
            return Err(wrong("the job has no nodes yet", nodes));
        }
        if nodes.ends_with('+') {
            return Err(wrong("the list of nodes is cut", nodes));
        }
        let time = |place: Option<usize>| match place.and_then(|place| fields.get(place)).copied() {
            None | Some("" | "Unknown" | "N/A" | "None") => Ok(None),
            // Without a time of the day it would be read as one of today.
            Some(text) if !text.contains('T') => Err(wrong("expected a time such as 2026-11-21T12:00:00", text)),
            Some(text) => zone.parse(text, 0).map(Some).map_err(|_| wrong("expected a time such as 2026-11-21T12:00:00", text)),
        };
        return Ok(SlurmJob { nodes: nodes.to_owned(), from: time(columns.start)?, to: time(columns.end)? });
    }
    Err(SlurmError::NoJob { name: name.to_owned(), id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_795_262_400_000_000_000;

    fn found(text: &str, id: &str) -> Result<SlurmJob, SlurmError> {
        find(text, "jobs", id, &Zone::utc())
    }

    #[test]
    fn jobs_are_found_in_what_slurm_prints() {
        let whole = SlurmJob { nodes: "n[1-2,7]".to_owned(), from: Some(NOON), to: Some(NOON + 60_000_000_000) };
        let running = SlurmJob { to: None, ..whole.clone() };
        let sacct = "JobID|State|Start|End|NodeList\n6|COMPLETED|Unknown|Unknown|n9\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n";
        assert_eq!(found(sacct, "7"), Ok(whole.clone()));
        assert_eq!(found("70|u|R|x|y|z\n7|u|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n", "7"), Ok(whole));
        assert_eq!(found("7|u|RUNNING|n[1-2,7]|2026-11-21T12:00:00\n", "7"), Ok(running.clone()));
        let padded =
            "JobID      Start               End      NodeList\n------ ------- ----- ----\n7   2026-11-21T12:00:00  Unknown  n[1-2,7]\n";
        assert_eq!(found(padded, "7"), Ok(running));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        assert_eq!(found("", "7"), Err(SlurmError::NoJob { name: "jobs".to_owned(), id: "7".to_owned() }));
        for (text, what) in [
            ("JobID|NodeList\n7|n[1-2+\n", "the list of nodes is cut"),
            ("JobID|NodeList\n7|None assigned\n", "the job has no nodes yet"),
            ("JobID|NodeList|Start\n7|n1|yesterday\n", "expected a time such as 2026-11-21T12:00:00"),
            ("JobID|NodeList\n7\n", "the list of nodes is missing"),
            ("\n7|x\n", "expected 5 or 6 columns, or their names in the first line"),
        ] {
            let Err(SlurmError::Line { line, what: found, .. }) = found(text, "7") else { panic!("{text}") };
            assert_eq!((line, found), (2, what));
        }
    }
}
