//! Lists of rows: `{"from_ns", "to_ns", "rows": [...]}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use ibnet_analysis::errors::Thresholds;
use ibnet_analysis::links::LinkOrder;
use ibnet_analysis::trees::Limits;
use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use super::places::Weight;
use super::values::kept_range;
use crate::events::{EventRow, Filter};
use crate::kinds;
use crate::query::cabling;
use crate::query::congestion;
use crate::query::error::{ApiError, wrong};
use crate::query::evaluated::Evaluated;
use crate::query::health;
use crate::query::managers::{self, ManagerRow};
use crate::query::path;
use crate::query::ports::{self, Search};
use crate::state::Hub;

/// Default time range of links, trees and errors.
const USUAL_NS: u64 = 60_000_000_000;

/// Default number of congestion trees. Each tree has a row for each victim.
const USUAL_TREES: usize = 100;

/// Default number of rows of events and ports, and the max limit.
pub(super) const USUAL_LIMIT: usize = 500;
pub(super) const MAX_ROWS: usize = 100_000;

type Found = Result<Arc<Evaluated>, ApiError>;

#[derive(Serialize)]
pub(super) struct Rows<R> {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) rows: Vec<R>,
    /// Reason for an empty list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
}

fn rows<R: Serialize>((from_ns, to_ns): (u64, u64), rows: Vec<R>) -> Result<Answer, ApiError> {
    Answer::json(&Rows {
        from_ns,
        to_ns,
        rows,
        reason: None,
    })
}

/// Returns a function that evaluates the time range of links, paths, trees and errors, and its
/// weight.
fn evaluated(
    app: &App,
    params: &Params,
) -> Result<(Weight, impl FnOnce(&Hub) -> Found + Send + 'static), ApiError> {
    let (evaluations, range) = (Arc::clone(&app.evaluations), range(&app.hub, params)?);
    let is_newest = params.one("from")?.is_none() && params.one("to")?.is_none();
    let find = move |hub: &Hub| match is_newest {
        true => evaluations.newest(hub, range),
        false => evaluations.find(hub, range),
    };
    Ok((Weight::of_all_ports(&app.hub, range), find))
}

/// Returns the time range in nanoseconds since 1970. By default, it is [`USUAL_NS`] long and ends
/// with the newest complete slot.
fn range(hub: &Hub, params: &Params) -> Result<(u64, u64), ApiError> {
    let state = hub.read();
    let interval_ns = state.samplers.interval_ns().max(1);
    let last = state.newest_ns() / interval_ns * interval_ns;
    drop(state);
    let (from, to) = params.range((last.saturating_sub(USUAL_NS), last))?;
    // Without `from`, the range keeps the default length even if it ends earlier.
    let from = if params.one("from")?.is_none() {
        to.saturating_sub(USUAL_NS)
    } else {
        from
    };
    Ok((from, to))
}

fn interval_ns(hub: &Hub) -> u64 {
    hub.read().samplers.interval_ns().max(1)
}

fn top(params: &Params, usual: usize) -> Result<usize, ApiError> {
    Ok(params
        .parsed::<usize>("top", "a number of rows, 0 for all")?
        .unwrap_or(usual))
}

pub(crate) async fn links(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["by", "top", "from", "to"])?;
    let order = match params.one("by")? {
        None | Some("utilization") => LinkOrder::Utilization,
        Some("blocked") => LinkOrder::Blocked,
        Some("errors") => LinkOrder::Errors,
        Some(other) => return Err(wrong("by", other, "utilization, blocked or errors")),
    };
    let top = top(&params, 0)?;
    let (weight, find) = evaluated(&app, &params)?;
    app.compute_at(weight, headers, move |hub| {
        let found = find(hub)?;
        rows(found.range, found.links(order, top))
    })
    .await
}

pub(crate) async fn path(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["sender", "receiver", "from", "to"])?;
    let (weight, find) = evaluated(&app, &params)?;
    app.compute_at(weight, headers, move |hub| {
        let (Some(sender), Some(receiver)) = (params.one("sender")?, params.one("receiver")?)
        else {
            return Err(ApiError::wrong(
                "give sender and receiver: the name of a host, a node description, or a port GUID",
            ));
        };
        Answer::json(&path::find(hub, &*find(hub)?, (sender, receiver))?)
    })
    .await
}

pub(crate) async fn cabling(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let last = app.comparison.clone();
    app.compute(headers, move |hub| {
        Answer::json(&*cabling::find(hub, &last)?)
    })
    .await
}

pub(crate) async fn links_health(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["top"])?;
    let top = top(&params, USUAL_LIMIT)?;
    app.compute(headers, move |hub| Answer::json(&health::find(hub, top)))
        .await
}

pub(crate) async fn trees(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["top", "waits", "full", "from", "to"])?;
    let share = |name: &str, default: f64| -> Result<f64, ApiError> {
        let expected = "a share from 0 to 1";
        let found = params.parsed::<f64>(name, expected)?.unwrap_or(default);
        if (0.0..=1.0).contains(&found) {
            Ok(found)
        } else {
            Err(wrong(name, &found.to_string(), expected))
        }
    };
    let limits = Limits {
        waits: share("waits", Limits::default().waits)?,
        full: share("full", Limits::default().full)?,
        routes: None,
    };
    let top = top(&params, USUAL_TREES)?;
    let (weight, find) = evaluated(&app, &params)?;
    app.compute_at(weight, headers, move |hub| {
        let found = find(hub)?;
        // An unclear cause of a recent tree is usually settled by the next slots.
        let settled = found.range.1.saturating_sub(2 * interval_ns(hub));
        let settled = params.one("to")?.is_none().then_some(settled);
        let trees = congestion::trees(hub, &found, limits, top, settled);
        rows(found.range, trees)
    })
    .await
}

pub(crate) async fn errors(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["threshold", "from", "to"])?;
    let mut thresholds = Thresholds::default();
    for text in params.all("threshold") {
        thresholds
            .set(text)
            .map_err(|error| ApiError::wrong(error.to_string()))?;
    }
    let (weight, find) = evaluated(&app, &params)?;
    app.compute_at(weight, headers, move |hub| {
        let found = find(hub)?;
        rows(found.range, found.errors(&thresholds).rows())
    })
    .await
}

#[derive(Serialize)]
struct EventRows {
    #[serde(flatten)]
    rows: Rows<EventRow>,
    /// Names of the events of each kind.
    kinds: BTreeMap<&'static str, &'static [&'static str]>,
}

pub(crate) async fn events(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(
        query.as_deref(),
        &["type", "kind", "guid", "port", "limit", "from", "to"],
    )?;
    let listed = |parameter| {
        params
            .all(parameter)
            .flat_map(|names| names.split(','))
            .filter(|name| !name.is_empty())
    };
    let mut names: Vec<String> = listed("type").map(str::to_owned).collect();
    for kind in listed("kind") {
        let of_kind = kinds::events_of(kind)
            .ok_or_else(|| wrong("kind", kind, &kinds::names().collect::<Vec<_>>().join(", ")))?;
        names.extend(of_kind.iter().map(ToString::to_string));
    }
    let guid = params.parsed::<Guid>("guid", "a GUID: 0x and 16 hexadecimal digits")?;
    let port = params.parsed::<u8>("port", "a port number")?.map(PortNum);
    let limit = limit(&params)?;
    app.compute(headers, move |hub| {
        // Events of the hub are timed by its own clock, so the end is open.
        let range = params.range((0, u64::MAX))?;
        let filter = Filter {
            from: range.0,
            to: range.1,
            names,
            guid,
            port,
            limit,
        };
        let found = hub.read().events(&filter);
        let rows = Rows {
            from_ns: found.last().map_or(range.0, |row| row.ts),
            to_ns: found.first().map_or(range.0, |row| row.ts),
            rows: found,
            reason: None,
        };
        Answer::json(&EventRows {
            rows,
            kinds: kinds::all(),
        })
    })
    .await
}

pub(super) fn limit(params: &Params) -> Result<usize, ApiError> {
    let expected = "a number of rows up to 100000";
    let limit = params
        .parsed::<usize>("limit", expected)?
        .unwrap_or(USUAL_LIMIT);
    if limit <= MAX_ROWS {
        Ok(limit)
    } else {
        Err(wrong("limit", &limit.to_string(), expected))
    }
}

pub(crate) async fn ports(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["q", "node", "guid", "limit"])?;
    let search = Search {
        text: params.one("q")?.unwrap_or_default().to_owned(),
        node: params.one("node")?.map(str::to_owned),
        guid: params.parsed("guid", "a GUID: 0x and 16 hexadecimal digits")?,
        limit: limit(&params)?,
    };
    app.compute(headers, move |hub| {
        let topology = hub.read().topology.clone();
        let frame = hub.frame();
        let ts = frame.as_ref().map_or(0, |frame| frame.ts);
        rows((ts, ts), ports::find(&topology, frame.as_deref(), &search))
    })
    .await
}

pub(crate) async fn samplers(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &["from", "to"])?;
    app.compute(headers, |hub| {
        let range = kept_range(hub);
        let found = hub.read().samplers.rows();
        rows(range, found)
    })
    .await
}

#[derive(Serialize)]
struct ManagerRows {
    #[serde(flatten)]
    rows: Rows<ManagerRow>,
    /// Number of changes of the master.
    master_changes: usize,
    events: Vec<EventRow>,
}

pub(crate) async fn sm(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["limit", "from", "to"])?;
    let limit = limit(&params)?;
    app.compute(headers, move |hub| {
        let (first, last) = kept_range(hub);
        // Events can be timed by other clocks than records, so the end is open.
        let range = params.range((0, u64::MAX))?;
        let mut found = managers::find(hub, range);
        found.events.truncate(limit);
        let reason = found
            .rows
            .is_empty()
            .then_some("no event of this time names a subnet manager");
        let shown = (range.0.max(first), range.1.min(last).max(first));
        let rows = Rows {
            from_ns: shown.0,
            to_ns: shown.1,
            rows: found.rows,
            reason,
        };
        Answer::json(&ManagerRows {
            rows,
            master_changes: found.changes,
            events: found.events,
        })
    })
    .await
}
