//! Reads jobs from a CSV file with the columns `job,user,nodes,start,end,state`.
//!
//! The first line has the column names. `job`, `nodes` and `start` are required, `name` is one
//! more optional column, and other columns are ignored. A host list that contains commas is
//! quoted. Times are seconds since 1970, RFC 3339, or local times such as `2026-11-21 12:00:00`.

use super::{Entry, Fault, Fields};
use crate::when::Zone;

/// Returns the jobs, or `None` if the first line does not have these column names.
pub(super) fn entries(text: &str, zone: &Zone) -> Option<Result<Vec<Entry>, String>> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader.headers().ok()?.clone();
    let index = |name: &str| {
        header
            .iter()
            .position(|field| field.eq_ignore_ascii_case(name))
    };
    let (id, nodes, start) = (index("job")?, index("nodes")?, index("start")?);
    let (name, user, end, state) = (index("name"), index("user"), index("end"), index("state"));
    let read = |record: &csv::StringRecord| {
        let get = |column: Option<usize>| column.and_then(|column| record.get(column));
        let fields = time(get(Some(start)), zone).and_then(|from| {
            let (id, nodes) = (
                get(Some(id)).unwrap_or_default(),
                get(Some(nodes)).unwrap_or_default(),
            );
            Ok(Fields {
                id,
                name: get(name),
                user: get(user),
                nodes,
                from,
                to: time(get(end), zone)?,
                state: get(state).unwrap_or_default(),
            })
        });
        let line = record.position().map(|position| position.line() as usize);
        Entry {
            id: get(Some(id)).unwrap_or_default().to_owned(),
            run: fields.and_then(Fields::run),
            line,
        }
    };
    Some(
        reader
            .records()
            .map(|record| {
                record
                    .map(|record| read(&record))
                    .map_err(|error| error.to_string())
            })
            .collect(),
    )
}

/// Parses a time of a file. Returns `None` for an empty field.
pub(in crate::job) fn time(text: Option<&str>, zone: &Zone) -> Result<Option<u64>, Fault> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    // The parser also accepts times of today and times relative to now, but a file must not
    // depend on when it is read.
    let is_fixed = text.len() >= 8 && text.starts_with(|first: char| first.is_ascii_digit());
    let parsed = zone
        .parse(text, 0)
        .ok()
        .filter(|_| is_fixed && !(text.len() == 8 && text.contains(':')));
    parsed.map(Some).ok_or_else(|| {
        (
            "expected seconds since 1970 or a time such as 2026-11-21T12:00:00Z",
            text.to_owned(),
        )
    })
}
