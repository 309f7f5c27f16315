//! Reads the text output of Slurm's `sacct` and `squeue`.
//!
//! This module accepts the output of `sacct -P -X --format=JobID,User,State,Start,End,NodeList`
//! and of `squeue -o '%i|%u|%T|%N|%S'`. The first line has the column names, unless the user gave
//! the option `-n` or `-h`. With names, the columns can have any order, and other columns are
//! ignored. Without names, they must be `JobID|User|State|Start|End|NodeList` or
//! `%i|%u|%T|%N|%S`.
//!
//! Job steps (`4711.batch`) are left out, because their traffic belongs to their job. A job name
//! can contain line feeds; the lines after them do not start with a job ID, so they are left out
//! too.

use super::{Entry, Fault, Fields};
use crate::when::Zone;

/// The usual separator of columns.
pub(super) const BAR: &str = "|";

#[derive(Clone, Copy)]
struct Columns {
    id: usize,
    nodes: usize,
    start: Option<usize>,
    end: Option<usize>,
    state: Option<usize>,
    user: Option<usize>,
    name: Option<usize>,
    /// Number of columns, if known.
    count: Option<usize>,
}

impl Columns {
    /// Finds the columns by their names in the first line.
    fn named(fields: &[&str]) -> Option<Self> {
        let index = |names: &[&str]| {
            fields
                .iter()
                .position(|field| names.iter().any(|name| field.eq_ignore_ascii_case(name)))
        };
        let (id, nodes) = (
            index(&["JobID", "JOBID"])?,
            index(&["NodeList", "NODELIST(REASON)"])?,
        );
        Some(Self {
            id,
            nodes,
            start: index(&["Start", "START_TIME"]),
            end: index(&["End", "END_TIME"]),
            state: index(&["State"]),
            user: index(&["User"]),
            name: index(&["JobName", "NAME"]),
            count: Some(fields.len()),
        })
    }

    /// Finds the columns by their order, which depends on their number.
    fn counted(fields: &[&str]) -> Option<Self> {
        let (user, state) = (Some(1), Some(2));
        match fields.len() {
            6 => Some(Self {
                id: 0,
                nodes: 5,
                start: Some(3),
                end: Some(4),
                state,
                user,
                name: None,
                count: None,
            }),
            5 => Some(Self {
                id: 0,
                nodes: 3,
                start: Some(4),
                end: None,
                state,
                user,
                name: None,
                count: None,
            }),
            _ => None,
        }
    }
}

/// Returns the jobs of the text.
pub(super) fn entries(text: &str, separator: &str, zone: &Zone) -> Vec<Entry> {
    let mut named: Option<Columns> = None;
    let mut entries = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let fields: Vec<&str> = if line.contains(separator) {
            line.split(separator).map(str::trim).collect()
        } else {
            line.split_whitespace().collect()
        };
        if let (None, Some(columns)) = (named, Columns::named(&fields)) {
            named = Some(columns);
            continue;
        }
        let is_job =
            |id: &&str| !id.contains('.') && id.starts_with(|first: char| first.is_ascii_digit());
        let columns = named.or_else(|| Columns::counted(&fields));
        let Some(id) = fields
            .get(columns.map_or(0, |columns| columns.id))
            .filter(|id| is_job(id))
        else {
            continue;
        };
        let run = match columns {
            // A line has another number of columns only if a job name contains a line feed.
            Some(Columns {
                count: Some(count), ..
            }) if separator != BAR && fields.len() != count => continue,
            Some(columns) => columns.read(&fields, zone).and_then(Fields::run),
            None => Err((
                "expected 5 or 6 columns, or their names in the first line",
                line.to_owned(),
            )),
        };
        entries.push(Entry {
            id: (*id).to_owned(),
            run,
            line: Some(index + 1),
        });
    }
    entries
}

impl Columns {
    fn read<'a>(&self, fields: &[&'a str], zone: &Zone) -> Result<Fields<'a>, Fault> {
        let get = |column: Option<usize>| column.and_then(|column| fields.get(column)).copied();
        let nodes = get(Some(self.nodes))
            .ok_or_else(|| ("the list of nodes is missing", fields.join(BAR)))?;
        Ok(Fields {
            id: get(Some(self.id)).unwrap_or_default(),
            name: get(self.name),
            user: get(self.user),
            nodes,
            from: time(get(self.start), zone)?,
            to: time(get(self.end), zone)?,
            state: get(self.state).unwrap_or_default(),
        })
    }
}

/// Parses a time of Slurm: local time, or seconds since 1970 with `SLURM_TIME_FORMAT=%s`.
fn time(text: Option<&str>, zone: &Zone) -> Result<Option<u64>, Fault> {
    let wrong = |text: &str| {
        (
            "expected a time such as 2026-11-21T12:00:00",
            text.to_owned(),
        )
    };
    match text {
        None | Some("" | "Unknown" | "N/A" | "None" | "NONE" | "0") => Ok(None),
        // The parser would take a text without a date as a time of today.
        Some(text) if !text.contains('T') && text.bytes().any(|octet| !octet.is_ascii_digit()) => {
            Err(wrong(text))
        }
        Some(text) => zone.parse(text, 0).map(Some).map_err(|_| wrong(text)),
    }
}
