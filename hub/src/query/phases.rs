//! The marks of applications, which say what an application did when.

use ibnet_analysis::job::marks::Mark;

use crate::state::Hub;

/// Max number of marks in an answer. The longest ones are kept.
const MAX_ROWS: usize = 1000;

/// Reason for an empty list if no file is configured.
pub(crate) const NO_MARKS: &str =
    "the configuration of the hub has no marks of applications; set the key marks";

/// Returns the marks of the file that are within a time range. `None` if no file is configured.
pub(crate) fn within(hub: &Hub, (from, to): (u64, u64)) -> Option<Result<Vec<Mark>, String>> {
    let marks = hub.marks.as_ref()?.get();
    let is_within = |mark: &&Mark| mark.from < to && mark.to.is_none_or(|end| end > from);
    Some(marks.map(|marks| marks.iter().filter(is_within).cloned().collect()))
}

/// Returns the longest of the marks that are wanted, the first start first.
pub(crate) fn longest(mut marks: Vec<Mark>, is_wanted: impl Fn(&Mark) -> bool) -> Vec<Mark> {
    marks.retain(is_wanted);
    marks.sort_by_key(|mark| {
        std::cmp::Reverse(mark.to.unwrap_or(u64::MAX).saturating_sub(mark.from))
    });
    marks.truncate(MAX_ROWS);
    marks.sort_by_key(|mark| mark.from);
    marks
}
