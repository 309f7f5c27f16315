//! The marks of applications, which say what an application did when.

use std::sync::Arc;

use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::job::marks::Mark;
use ibnet_record::hostlist;
use serde::Serialize;

use crate::state::Hub;

/// Max number of marks in an answer. The longest ones are kept.
const MAX_ROWS: usize = 1000;

/// Reason for an empty list if no file is configured.
pub(crate) const NO_MARKS: &str =
    "the configuration of the hub has no marks of applications; set the key marks";

/// A mark of an application.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct MarkRow {
    name: String,
    start_ns: u64,
    /// `None` until the end of the records.
    end_ns: Option<u64>,
    /// Host list. `None` for all hosts.
    nodes: Option<String>,
    /// A number of the application.
    value: Option<f64>,
}

/// Returns the marks of the file that are within a time range. `None` if no file is configured.
pub(crate) fn within(hub: &Hub, (from, to): (u64, u64)) -> Option<Result<Vec<Mark>, String>> {
    let file = hub.marks.as_ref()?;
    let within = |marks: Arc<Vec<Mark>>| {
        let all = marks.iter();
        all.filter(|mark| mark.from < to && mark.to.is_none_or(|end| end > from))
            .cloned()
            .collect()
    };
    Some(file.get().map(within))
}

/// Returns the rows of marks, the first start first.
pub(crate) fn rows<'m>(marks: impl Iterator<Item = &'m Mark>) -> Vec<MarkRow> {
    let mut marks: Vec<&Mark> = marks.collect();
    let length = |mark: &Mark| mark.to.map_or(u64::MAX, |end| end - mark.from);
    marks.sort_by_key(|mark| std::cmp::Reverse(length(mark)));
    marks.truncate(MAX_ROWS);
    marks.sort_by_key(|mark| mark.from);
    let row = |mark: &Mark| MarkRow {
        name: mark.name.clone(),
        start_ns: mark.from,
        end_ns: mark.to,
        nodes: mark.hosts.as_ref().map(text_of),
        value: mark.value,
    };
    marks.into_iter().map(row).collect()
}

fn text_of(hosts: &Hosts) -> String {
    let names = hostlist::fold(hosts.iter());
    let parts = std::iter::once(names.as_str()).chain(hosts.patterns());
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(",")
}
