//! A run of a job: its nodes, its times and its state.

use serde::Serialize;

use crate::error::AnalysisError;
use crate::hosts::Hosts;
use crate::rows::Row;

/// One run of a job on its nodes. A job that starts again has a second run with the same ID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRun {
    /// Job ID, such as `4711` or `4711_3`.
    pub id: String,
    /// Name of the job. `None` if the source does not give it.
    pub name: Option<String>,
    /// User of the job. `None` if the source does not give it or the user is hidden.
    pub user: Option<String>,
    /// Host list as the resource manager prints it.
    pub nodes: String,
    /// The hosts of the list.
    pub hosts: Hosts,
    /// Start in nanoseconds since 1970.
    pub from: Option<u64>,
    /// End in nanoseconds since 1970. `None` while the job runs.
    pub to: Option<u64>,
    /// Whether the run still existed at `to` and ended at an unknown later time. This is the case
    /// if the job disappeared between two listings.
    pub to_is_lower_bound: bool,
    /// State in lower case, such as `running`, `completed` or `failed`. Empty if the source does
    /// not give it.
    pub state: String,
}

impl JobRun {
    /// Creates a run on the hosts of a list, with its start and end in nanoseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the host list is malformed.
    pub fn new(
        id: &str,
        nodes: &str,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<Self, AnalysisError> {
        Ok(Self {
            id: id.to_owned(),
            name: None,
            user: None,
            nodes: nodes.to_owned(),
            hosts: Hosts::parse(nodes)?,
            from,
            to,
            to_is_lower_bound: false,
            state: String::new(),
        })
    }

    /// Returns whether the run overlaps the time range, whose start is inclusive and whose end is
    /// exclusive. An unknown start is before every time.
    pub fn is_during(&self, from: u64, to: u64) -> bool {
        self.from.is_none_or(|start| start < to) && self.to.is_none_or(|end| end > from)
    }

    /// Returns the row of the run in the JSON and CSV output, which is also its line in a job
    /// table.
    pub fn row(&self) -> RunRow<'_> {
        RunRow {
            job: &self.id,
            name: self.name.as_deref(),
            user: self.user.as_deref(),
            nodes: &self.nodes,
            start_ns: self.from,
            end_ns: self.to,
            end_is_lower_bound: self.to_is_lower_bound,
            state: &self.state,
        }
    }
}

/// A run in the JSON and CSV output, and in a job table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RunRow<'a> {
    /// Job ID.
    pub job: &'a str,
    /// Name of the job. Null if unknown.
    pub name: Option<&'a str>,
    /// User of the job. Null if hidden or unknown.
    pub user: Option<&'a str>,
    /// Host list, such as `node[001-024]`.
    pub nodes: &'a str,
    /// Start in nanoseconds since 1970.
    pub start_ns: Option<u64>,
    /// End in nanoseconds since 1970. Null while the job runs.
    pub end_ns: Option<u64>,
    /// Whether the run still existed at `end_ns`, and ended at an unknown later time.
    pub end_is_lower_bound: bool,
    /// State in lower case, such as `running` or `completed`.
    pub state: &'a str,
}

impl Row for RunRow<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "job",
        "name",
        "user",
        "nodes",
        "start_ns",
        "end_ns",
        "end_is_lower_bound",
        "state",
    ];
}
