//! Handlers for jobs.

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use serde::Serialize;

use super::answer::Answer;
use super::app::{Answered, App};
use super::lists::{Rows, limit};
use super::params::Params;
use super::places::Weight;
use super::values::kept_range;
use crate::jobs::SourceState;
use crate::query::error::{ApiError, wrong};
use crate::query::jobs::{self, Filter, JobRow};

/// Reason for an empty list if no source is configured.
const NO_SOURCE: &str = "the configuration of the hub has no source of jobs; set the key jobs";

#[derive(Serialize)]
struct JobRows {
    #[serde(flatten)]
    rows: Rows<JobRow>,
    /// Number of running jobs, and of all jobs in the table.
    running: usize,
    known: usize,
    #[serde(flatten)]
    source: SourceState,
}

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(
        query.as_deref(),
        &["job", "q", "state", "limit", "from", "to"],
    )?;
    let is_running = match params.one("state")? {
        None => None,
        Some("running") => Some(true),
        Some("ended") => Some(false),
        Some(other) => return Err(wrong("state", other, "running or ended")),
    };
    let limit = limit(&params)?;
    app.compute(headers, move |hub| {
        let range = params.range((0, u64::MAX))?;
        let filter = Filter {
            from: range.0,
            to: range.1,
            id: params.one("job")?.map(str::to_owned),
            text: params.one("q")?.unwrap_or_default().to_owned(),
            is_running,
            limit,
        };
        let rows = jobs::list(hub, &filter);
        let (_, last) = kept_range(hub);
        let state = hub.read();
        let source = state.jobs.source.clone();
        let (running, known) = state.jobs.counts();
        let shown = (
            state.jobs.first_ns().unwrap_or(last).max(range.0),
            last.min(range.1),
        );
        drop(state);
        let reason = source.source.is_none().then_some(NO_SOURCE);
        Answer::json(&JobRows {
            rows: Rows {
                from_ns: shown.0,
                to_ns: shown.1,
                rows,
                reason,
            },
            running,
            known,
            source,
        })
    })
    .await
}

pub(crate) async fn one(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let (range, weight) = time(&app, query.as_deref())?;
    let evaluations = app.evaluations.clone();
    app.compute_at(weight, headers, move |hub| {
        Answer::json(&jobs::one(hub, &evaluations, &id, range)?)
    })
    .await
}

pub(crate) async fn matrix(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let (range, _) = time(&app, query.as_deref())?;
    let evaluations = app.evaluations.clone();
    // The estimate takes longer than the records.
    app.compute_at(Weight::Long, headers, move |hub| {
        Answer::json(&jobs::matrix(hub, &evaluations, &id, range)?)
    })
    .await
}

/// Returns the time range of a query about one job, and its weight. `None` without a range: the
/// query then chooses one within the job.
fn time(app: &App, query: Option<&str>) -> Result<(Option<(u64, u64)>, Weight), ApiError> {
    let params = Params::parse(query, &["from", "to"])?;
    let has_range = params.one("from")?.is_some() || params.one("to")?.is_some();
    let range = params.range(kept_range(&app.hub))?;
    let weight = Weight::of_all_ports(&app.hub, range);
    Ok((has_range.then_some(range), weight))
}
