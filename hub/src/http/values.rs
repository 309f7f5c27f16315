//! Handlers for health, topology, and values over time.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use serde::Serialize;

use super::answer::Answer;
use super::app::{Answered, App, CLIENTS};
use super::params::{Params, port_key};
use super::places::Weight;
use crate::archive::status::Status;
use crate::events::Filter;
use crate::live::timeline::Columns;
use crate::query::error::{ApiError, wrong};
use crate::query::heat::{self, HeatMetric, Join};
use crate::query::marks::{self as events, Mark as EventMark};
use crate::query::{physical, port, series};
use crate::state::{Hub, InputState};
use crate::store::{Counts, Kept};

#[derive(Serialize)]
struct Health {
    /// `ok`, `waiting` before the first slot, `silent` if no sampler sends records, or `behind` if
    /// the hub processes records too slowly.
    status: &'static str,
    version: &'static str,
    fabric: String,
    /// Whether the hub simulates the fabric.
    simulated: bool,
    /// Time of the answer in nanoseconds since 1970.
    now_ns: u64,
    /// Time for which lines wait before they are processed.
    lag_ns: u64,
    records: u64,
    samplers: usize,
    samplers_connected: usize,
    last_slot: u64,
    last_ts: u64,
    interval_ns: u64,
    generation: u32,
    /// Clients of the slot stream, and the frames that slow clients missed.
    clients: usize,
    frames_dropped: u64,
    kept: Kept,
    /// Condition of the packing. Null if the hub does not pack.
    archive: Option<Status>,
    counts: Counts,
    inputs: Vec<InputState>,
    /// Metrics of the heat map. Those with `live` are also in the frames of the slot stream.
    metrics: &'static [HeatMetric],
}

pub(crate) async fn health(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let archive_from_ns = app
        .hub
        .archive
        .as_ref()
        .and_then(crate::archive::Archive::first_ns);
    let archive = app
        .hub
        .packing
        .as_ref()
        .map(|packing| packing.lock().clone());
    let health = {
        let state = app.hub.read();
        let (samplers, samplers_connected) = state.samplers.counts();
        Health {
            status: match (samplers, samplers_connected) {
                (0, _) => "waiting",
                (_, 0) => "silent",
                _ if state.is_behind() => "behind",
                _ => "ok",
            },
            version: env!("CARGO_PKG_VERSION"),
            fabric: app.hub.fabric.clone(),
            simulated: app.hub.is_simulated,
            now_ns: now_ns(),
            lag_ns: state.lag_ns(),
            records: state.store.counts().added,
            samplers,
            samplers_connected,
            last_slot: state.last_slot(),
            last_ts: state.newest_ns(),
            interval_ns: state.samplers.interval_ns(),
            generation: state.topology.generation,
            clients: CLIENTS - app.clients.available_permits(),
            frames_dropped: app.hub.frames_dropped(),
            kept: Kept {
                archive_from_ns,
                ..state.kept()
            },
            archive,
            counts: state.store.counts(),
            inputs: state.inputs.clone(),
            metrics: &heat::METRICS,
        }
    };
    Ok(Answer::json(&health)?.respond(&headers))
}

pub(crate) async fn topology(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    app.compute(headers, |hub| {
        let topology = Arc::clone(&hub.read().topology);
        Answer::json(&*topology)
    })
    .await
}

pub(crate) async fn one_port(
    State(app): State<App>,
    Path((guid, number)): Path<(String, String)>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let key = port_key(&format!("{guid}/{number}"))?;
    app.compute(headers, move |hub| Answer::json(&port::find(hub, key)?))
        .await
}

pub(crate) async fn physical(
    State(app): State<App>,
    Path((guid, number)): Path<(String, String)>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let key = port_key(&format!("{guid}/{number}"))?;
    app.compute(headers, move |hub| Answer::json(&physical::find(hub, key)?))
        .await
}

/// Largest number of series in one answer.
const MAX_SERIES: usize = 256;

#[derive(Serialize)]
struct NamedSeries {
    port: String,
    metric: String,
    #[serde(flatten)]
    series: series::Series,
}

#[derive(Serialize)]
struct AllSeries {
    from_ns: u64,
    to_ns: u64,
    /// Times and values if there is a single series. Absent with several series.
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<Vec<Option<series::Number>>>,
    series: Vec<NamedSeries>,
}

pub(crate) async fn series(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(
        query.as_deref(),
        &["port", "metric", "from", "to", "step", "as"],
    )?;
    let range = params.range(kept_range(&app.hub))?;
    let weight = Weight::of(&app.hub, range, params.all("port").count());
    app.compute_at(weight, headers, move |hub| {
        let step = params
            .parsed::<u64>("step", "a time in nanoseconds")?
            .filter(|step| *step > 0);
        let form = series::form(params.one("as")?)?;
        let ports = params
            .all("port")
            .map(|text| Ok((text, port_key(text)?)))
            .collect::<Result<Vec<_>, ApiError>>()?;
        let metrics = params
            .all("metric")
            .map(|name| series::SeriesMetric::parse(name, form))
            .collect::<Result<Vec<_>, ApiError>>()?;
        if ports.is_empty() || metrics.is_empty() {
            return Err(ApiError::wrong(
                "give port=0xGUID/NUM and metric=NAME, each once or several times",
            ));
        }
        if ports.len() * metrics.len() > MAX_SERIES {
            return Err(ApiError::wrong(format!(
                "the answer has more than {MAX_SERIES} series; ask for fewer ports or metrics"
            )));
        }
        let mut all = Vec::with_capacity(ports.len() * metrics.len());
        for (text, key) in &ports {
            for (metric, series) in metrics
                .iter()
                .zip(series::find(hub, *key, &metrics, range, step)?)
            {
                all.push(NamedSeries {
                    port: (*text).to_owned(),
                    metric: metric.name().to_owned(),
                    series,
                });
            }
        }
        let single = if let [one] = &all[..] {
            Some((one.series.t.clone(), one.series.v.clone()))
        } else {
            None
        };
        let (t, v) = single.unzip();
        Answer::json(&AllSeries {
            from_ns: range.0,
            to_ns: range.1,
            t,
            v,
            series: all,
        })
    })
    .await
}

/// Returns the time from the oldest minute or record to the newest record.
pub(crate) fn kept_range(hub: &Hub) -> (u64, u64) {
    let kept = hub.read().kept();
    (
        kept.minutes_from_ns.or(kept.from_ns).unwrap_or(0),
        kept.to_ns.unwrap_or(0),
    )
}

fn heat_metric(name: Option<&str>) -> Result<HeatMetric, ApiError> {
    let name = name.unwrap_or("xmit_utilization");
    let found = heat::METRICS
        .iter()
        .find(|metric| metric.name == name)
        .copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = heat::METRICS.iter().map(|metric| metric.name).collect();
        wrong("metric", name, &format!("one of {}", names.join(", ")))
    })
}

pub(crate) async fn heat(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(
        query.as_deref(),
        &["metric", "by", "agg", "from", "to", "step"],
    )?;
    let (from, to) = params.range(kept_range(&app.hub))?;
    let weight = Weight::of_all_ports(&app.hub, (from, to));
    app.compute_at(weight, headers, move |hub| {
        let metric = heat_metric(params.one("metric")?)?;
        if let Some(by) = params.one("by")?.filter(|by| *by != "port") {
            return Err(wrong(
                "by",
                by,
                "port; a client joins the rows of links, switches and hosts itself",
            ));
        }
        let join = match params.one("agg")? {
            None | Some("max") => Join::Max,
            Some("mean") => Join::Mean,
            Some("p95") => Join::P95,
            Some(other) => return Err(wrong("agg", other, "max, mean or p95")),
        };
        let step = params
            .parsed::<u64>("step", "a time in nanoseconds")?
            .filter(|step| *step > 0);
        Ok(Answer::octets(heat::find(
            hub,
            heat::Request {
                metric,
                join,
                from,
                to,
                step,
            },
        )?))
    })
    .await
}

#[derive(Serialize)]
struct Timeline {
    from_ns: u64,
    to_ns: u64,
    #[serde(flatten)]
    columns: Columns,
    marks: Vec<EventMark>,
}

/// Largest number of columns of the timeline.
const MAX_COLUMNS: u64 = 900;

pub(crate) async fn timeline(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    let params = Params::parse(query.as_deref(), &["from", "to"])?;
    app.compute(headers, move |hub| {
        let (first, last) = kept_range(hub);
        let (from_ns, to_ns) = params.range((first, last))?;
        let state = hub.read();
        let columns =
            state
                .timeline
                .columns(from_ns, to_ns, state.samplers.interval_ns(), MAX_COLUMNS);
        let filter = Filter {
            from: from_ns,
            to: to_ns,
            names: Vec::new(),
            guid: None,
            port: None,
            limit: usize::MAX,
        };
        let marks = events::of(state.events(&filter));
        drop(state);
        Answer::json(&Timeline {
            from_ns,
            to_ns,
            columns,
            marks,
        })
    })
    .await
}

#[expect(
    clippy::disallowed_methods,
    reason = "a client compares its clock with that of the hub"
)]
pub(super) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}
