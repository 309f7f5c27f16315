//! Marks over time: the phases of applications from a file, what users have posted, and jobs.

use std::cmp::Reverse;

use ibnet_analysis::job::marks::Mark;
use serde::Serialize;

use crate::state::Hub;

/// Max number of marks of a file in an answer. The longest ones are kept.
const MAX_ROWS: usize = 1000;

/// Reason for an empty list if no file is configured.
const NO_MARKS: &str =
    "the configuration of the hub has no marks of applications; set the key marks";

/// A mark, and where it comes from.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct MarkRow {
    #[serde(flatten)]
    mark: Mark,
    /// `phase` of the file, `mark` of a user, or `job`.
    kind: &'static str,
    /// Number of the mark of a user.
    id: Option<u64>,
    /// User who posted the mark.
    by: Option<String>,
    /// ID of a job.
    job: Option<String>,
}

impl MarkRow {
    const fn new(mark: Mark, kind: &'static str) -> Self {
        Self {
            mark,
            kind,
            id: None,
            by: None,
            job: None,
        }
    }
}

/// Which marks are wanted.
pub(crate) struct Wanted<'a> {
    pub(crate) range: (u64, u64),
    /// Max number of jobs. The largest ones are kept.
    pub(crate) jobs: usize,
    pub(crate) is_wanted: &'a dyn Fn(&Mark) -> bool,
}

/// Returns the marks of the file that are within a time range. `None` if no file is configured.
pub(crate) fn of_file(hub: &Hub, range: (u64, u64)) -> Option<Result<Vec<Mark>, String>> {
    let marks = hub.marks.as_ref()?.get();
    let within = |mark: &&Mark| is_within(mark, range);
    Some(marks.map(|marks| marks.iter().filter(within).cloned().collect()))
}

/// Returns whether a mark overlaps a time range. A moment belongs to the range that begins with it.
fn is_within(mark: &Mark, (from, to): (u64, u64)) -> bool {
    mark.from < to && (mark.from >= from || mark.to.is_none_or(|end| end > from))
}

/// Returns the marks, the first start first, and why there are none or those of the file are
/// missing.
pub(crate) fn rows(hub: &Hub, wanted: &Wanted<'_>) -> (Vec<MarkRow>, Option<String>) {
    let (phases, mut reason) = match of_file(hub, wanted.range) {
        Some(Ok(marks)) => (marks, None),
        Some(Err(reason)) => (Vec::new(), Some(reason)),
        None => (Vec::new(), Some(NO_MARKS.to_owned())),
    };
    let mut rows = of_phases(phases, wanted.is_wanted);
    rows.extend(of_users(hub, wanted));
    rows.extend(of_jobs(hub, wanted));
    rows.sort_by_key(|row| row.mark.from);
    if hub.marks.is_none() && !rows.is_empty() {
        reason = None;
    }
    (rows, reason)
}

/// Returns the longest of the phases that are wanted.
fn of_phases(mut marks: Vec<Mark>, is_wanted: &dyn Fn(&Mark) -> bool) -> Vec<MarkRow> {
    marks.retain(is_wanted);
    marks.sort_by_key(|mark| Reverse(mark.to.unwrap_or(u64::MAX).saturating_sub(mark.from)));
    marks.truncate(MAX_ROWS);
    let row = |mark| MarkRow::new(mark, "phase");
    marks.into_iter().map(row).collect()
}

fn of_users(hub: &Hub, wanted: &Wanted<'_>) -> Vec<MarkRow> {
    let posted = hub.posted();
    let row = |(id, posted): (&u64, &crate::posted::Posted)| {
        let mark = posted.mark()?;
        (is_within(&mark, wanted.range) && (wanted.is_wanted)(&mark)).then(|| MarkRow {
            id: Some(*id),
            by: Some(posted.by.clone()),
            job: posted.job.clone(),
            ..MarkRow::new(mark, "mark")
        })
    };
    posted.value.iter().filter_map(row).collect()
}

/// Returns the largest of the jobs that are wanted.
fn of_jobs(hub: &Hub, wanted: &Wanted<'_>) -> Vec<MarkRow> {
    if wanted.jobs == 0 {
        return Vec::new();
    }
    let state = hub.read();
    let (from, to) = wanted.range;
    let mut runs: Vec<_> = state.jobs.within(from, to).map(|job| &job.run).collect();
    runs.sort_by_key(|run| Reverse(run.hosts.iter().count()));
    let row = |run: &ibnet_analysis::job::run::JobRun| {
        let name = run.name.as_deref().map(|name| format!(" {name}"));
        let mark = Mark {
            name: format!("job {}{}", run.id, name.unwrap_or_default()),
            hosts: Some(run.hosts.clone()),
            from: run.from.unwrap_or(0),
            to: run.to,
            value: None,
        };
        (wanted.is_wanted)(&mark).then(|| MarkRow {
            job: Some(run.id.clone()),
            ..MarkRow::new(mark, "job")
        })
    };
    runs.into_iter().filter_map(row).take(wanted.jobs).collect()
}
