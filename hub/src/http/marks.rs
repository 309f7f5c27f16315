//! Handlers for marks: what applications and users did when, and which jobs began.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use ibnet_analysis::hosts::host_of;
use ibnet_analysis::job::marks::Mark;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use super::posting::{Posted, Sender};
use super::values::{kept_range, now_ns};
use crate::posted::Request;
use crate::query::error::{ApiError, wrong};
use crate::query::phases::{self, MarkRow, Wanted};
use crate::state::Hub;

/// Max number of jobs among the marks.
const MAX_JOBS: usize = 200;

#[derive(Serialize)]
struct Marks {
    from_ns: u64,
    to_ns: u64,
    rows: Vec<MarkRow>,
    /// Why there are no marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["node", "jobs", "from", "to"])?;
    let (from_ns, to_ns) = params.range(kept_range(&app.hub))?;
    let expected = "a number of jobs up to 200";
    let jobs = params.parsed::<usize>("jobs", expected)?.unwrap_or(0);
    if jobs > MAX_JOBS {
        return Err(wrong("jobs", &jobs.to_string(), expected));
    }
    app.compute(headers, move |hub| {
        let is_wanted = |mark: &Mark| {
            let mut nodes = params.all("node").peekable();
            nodes.peek().is_none() || nodes.any(|node| mark.contains(host_of(node)))
        };
        let wanted = Wanted {
            range: (from_ns, to_ns),
            jobs,
            is_wanted: &is_wanted,
        };
        let (rows, reason) = phases::rows(hub, &wanted);
        Answer::json(&Marks {
            from_ns,
            to_ns,
            rows,
            reason,
        })
    })
    .await
}

/// Number of a mark of a user: the answer to a post, and what a user removes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    id: u64,
}

pub(crate) async fn post(posted: Posted) -> Answered {
    let fields = "name and perhaps start_ns, end_ns, nodes and job";
    let work = |hub: &Hub, sender: &Sender, request: Request| {
        let now = now_ns();
        let by = sender.name.clone();
        let mark = request.check(by, now).map_err(ApiError::wrong)?;
        let more = json!({"name": mark.name});
        let id = hub.posted().add(mark, now);
        sender.note(hub, "mark", more);
        Answer::json(&Number { id })
    };
    posted.serve(fields, work).await
}

pub(crate) async fn remove(posted: Posted) -> Answered {
    let work = |hub: &Hub, sender: &Sender, Number { id }| {
        let mut marks = hub.posted();
        let mark = marks
            .value
            .get(&id)
            .ok_or_else(|| ApiError::missing("there is no mark with this id"))?;
        if mark.by != sender.name {
            return Err(ApiError {
                status: StatusCode::FORBIDDEN,
                reason: "only its user can remove a mark".to_owned(),
            });
        }
        let more = json!({"name": mark.name});
        marks.remove(id);
        drop(marks);
        sender.note(hub, "unmark", more);
        Answer::json(&Number { id })
    };
    posted.serve("id", work).await
}
