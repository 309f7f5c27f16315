//! Handlers for groups of hosts.

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;

use super::answer::Answer;
use super::app::{Answered, App};
use super::lists::Rows;
use super::params::Params;
use super::places::Weight;
use super::values::kept_range;
use crate::query::groups;

/// Reason for an empty list if no group is configured.
const NO_GROUP: &str =
    "the configuration of the hub has no group; set the key groups, or give --group";

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    app.compute(headers, |hub| {
        let (from_ns, to_ns) = kept_range(hub);
        let rows = groups::list(hub);
        let reason = rows.is_empty().then_some(NO_GROUP);
        Answer::json(&Rows {
            from_ns,
            to_ns,
            rows,
            reason,
        })
    })
    .await
}

pub(crate) async fn one(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["from", "to"])?;
    let passes = app.passes.clone();
    let has_range = params.one("from")?.is_some() || params.one("to")?.is_some();
    let range = params.range(kept_range(&app.hub))?;
    // Without a range, the answer covers the last minutes.
    let weight = if has_range {
        Weight::of_all_ports(&app.hub, range)
    } else {
        Weight::Short
    };
    app.compute_at(weight, headers, move |hub| {
        Answer::json(&groups::one(
            hub,
            &passes,
            &name,
            has_range.then_some(range),
        )?)
    })
    .await
}
