//! Metrics of hosts, to be shown beside those of the fabric: IPoIB, NFS, Lustre, and any other
//! metric.
//!
//! `ibnet-sweep` reads no counters on hosts. This module reads what a site collects already:
//! Prometheus with the node_exporter, or files of LDMS or another collector.
//!
//! | module | contents |
//! |---|---|
//! | `request` | the metrics that a user can request |
//! | `text`, `prometheus` | the sources |
//! | `readings` | the readings of all sources, and the values between them |
//! | [`panels`] | host metrics as rows of a heat map |

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ibnet_record::suggest;

use crate::hosts::HostNames;
use crate::input::files;
use crate::metric::{Metric, Unit};
use crate::record::Interval;

pub mod error;
pub mod panels;
mod prometheus;
mod readings;
mod request;
pub(crate) mod text;

pub use self::error::HostMetricsError;
use self::readings::{Kind, Readings, SeriesKey};
pub use self::request::Request;

/// A time range in nanoseconds since 1970: `from` inclusive, `to` exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Start, inclusive.
    pub from: u64,
    /// End, exclusive.
    pub to: u64,
}

/// Source of host metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Address of Prometheus.
    Prometheus(String),
    /// Path or pattern of files, or `-` for standard input.
    Files(PathBuf),
}

/// A server with the API of Prometheus.
pub trait Server {
    /// Returns the address, for messages.
    fn url(&self) -> &str;

    /// Sends a GET request. Returns the status and the body.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(u16, Vec<u8>), HostMetricsError>;
}

/// A metric of hosts over time.
#[derive(Clone, PartialEq, Debug)]
pub struct HostMetric {
    /// Name, title and unit.
    pub metric: Metric,
    /// Values of each series, with its host. A host can have several series, such as one for each
    /// interface, and its value is their sum.
    pub series: Vec<(String, Vec<Piece>)>,
}

/// The value of a series in a time interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    /// The time.
    pub time: Interval,
    /// The value. `None` if it is unknown, after a reset or in a gap.
    pub value: Option<f64>,
}

/// Host metrics, and messages for the user.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostMetrics {
    /// The metrics that a source has.
    pub metrics: Vec<HostMetric>,
    /// What was left out, one line for each message.
    pub notes: Vec<String>,
}

/// Collects the readings that were requested.
struct Sink<'a> {
    readings: Readings,
    requests: &'a [Request],
    names: &'a HostNames,
    /// Name of the current source.
    origin: String,
    /// Earliest and latest needed time.
    needed: Range,
}

/// Readings up to this time before and after the time range are used, because the first value of
/// the range begins at the reading before it.
const AROUND_NS: u64 = 300_000_000_000;

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        let is_url = ["http://", "https://"].iter().any(|scheme| {
            text.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        if is_url {
            Self::Prometheus(text.trim_end_matches('/').to_owned())
        } else {
            Self::Files(text.into())
        }
    }
}

impl Sink<'_> {
    /// Returns the identity and the kind of a series, if its metric was requested and its host is
    /// in the records.
    fn series(
        &mut self,
        host: &str,
        metric: &str,
        mut labels: Vec<(String, String)>,
        kind: Kind,
    ) -> Option<(SeriesKey, Kind)> {
        if !self.readings.known.contains(metric) {
            self.readings.known.insert(metric.to_owned());
        }
        let mut matching = self.requests.iter().filter(|request| {
            request
                .selectors()
                .any(|selector| selector.matches(metric, &labels))
        });
        let first = matching.next()?;
        // All metrics of presets are counters, whatever their names are.
        let is_preset = std::iter::once(first)
            .chain(matching)
            .any(|request| request.preset.is_some());
        let Some(host) = self.names.find(host) else {
            self.readings.strangers.insert(host.to_owned());
            return None;
        };
        labels.sort();
        let kind = if is_preset && kind == Kind::Gauge {
            Kind::Counter
        } else {
            kind
        };
        Some((
            SeriesKey {
                host: host.to_owned(),
                metric: metric.to_owned(),
                labels,
            },
            kind,
        ))
    }

    fn put(&mut self, (key, kind): &(SeriesKey, Kind), (ts, value): (u64, f64)) {
        if (self.needed.from..self.needed.to).contains(&ts) {
            self.readings.add(key, *kind, &self.origin, (ts, value));
        }
    }

    fn add(
        &mut self,
        host: &str,
        metric: &str,
        labels: Vec<(String, String)>,
        kind: Kind,
        reading: (u64, f64),
    ) {
        if let Some(series) = self.series(host, metric, labels, kind) {
            self.put(&series, reading);
        }
    }
}

/// Reads the requested metrics of the hosts in `names` in a time range. `connect` returns the
/// server of an address.
///
/// # Errors
/// Returns an error if a source cannot be read, or if no source has any of the metrics.
pub fn load(
    sources: &[Source],
    connect: impl Fn(&str) -> Result<Box<dyn Server>, HostMetricsError>,
    requests: &[Request],
    names: &HostNames,
    range: Range,
) -> Result<HostMetrics, HostMetricsError> {
    let needed = Range {
        from: range.from.saturating_sub(AROUND_NS),
        to: range.to.saturating_add(AROUND_NS),
    };
    let mut sink = Sink {
        readings: Readings::default(),
        requests,
        names,
        origin: String::new(),
        needed,
    };
    let mut queries = Vec::new();
    for source in sources {
        match source {
            Source::Prometheus(url) => {
                queries.extend(prometheus::read(connect(url)?, &mut sink, range)?);
            }
            Source::Files(pattern) => {
                // Readings of one host can be spread over several files, and are then one series.
                sink.origin = "files".to_owned();
                for path in files::expand(pattern)? {
                    text::read(&path, &mut sink)?;
                }
            }
        }
    }
    let readings = sink.readings;
    let usual_ns = readings.usual_ns();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for request in requests {
        let metrics = metrics(request, &readings, &usual_ns, range);
        if metrics.is_empty() {
            missing.push(request);
        }
        found.extend(metrics);
    }
    if found.is_empty() {
        return Err(nothing(&missing, &readings, &queries, names));
    }
    Ok(HostMetrics {
        notes: notes(&missing, &readings, &found, names),
        metrics: found,
    })
}

/// Returns the metrics of a request: one for a preset, or one for each name that a pattern
/// matches.
fn metrics(
    request: &Request,
    readings: &Readings,
    usual_ns: &BTreeMap<&str, u64>,
    range: Range,
) -> Vec<HostMetric> {
    let pieces = |key: &SeriesKey| {
        let series = &readings.series[key];
        // If each series has only one reading, there is no usual time, and only a mean has a
        // value.
        let usual =
            usual_ns
                .get(&*key.metric)
                .copied()
                .or(if let Kind::Mean(length) = series.kind {
                    Some(length)
                } else {
                    None
                });
        (
            key.host.clone(),
            usual.map_or_else(Vec::new, |usual| series.pieces(usual, range)),
        )
    };
    let matching = |alternative: usize| {
        let selectors = request.alternatives.get(alternative).into_iter().flatten();
        let selectors: Vec<_> = selectors.collect();
        readings.series.keys().filter(move |key| {
            selectors
                .iter()
                .any(|selector| selector.matches(&key.metric, &key.labels))
        })
    };
    if let Some((title, unit)) = request.preset {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut series = Vec::new();
        for alternative in 0..request.alternatives.len() {
            let keys: Vec<_> = matching(alternative)
                .filter(|key| !done.contains(&*key.host))
                .collect();
            series.extend(keys.iter().map(|key| pieces(key)));
            done.extend(keys.iter().map(|key| &*key.host));
        }
        let metric = Metric::of_hosts(request.name(), title, unit);
        return if series.iter().all(|(_, pieces)| pieces.is_empty()) {
            Vec::new()
        } else {
            vec![HostMetric { metric, series }]
        };
    }
    let names: BTreeSet<&str> = matching(0).map(|key| &*key.metric).collect();
    let of_name = |name: &&str| {
        let keys: Vec<_> = matching(0).filter(|key| key.metric == **name).collect();
        let is_rate = keys
            .first()
            .and_then(|key| readings.series.get(*key))
            .is_some_and(|series| series.kind != Kind::Gauge);
        let series: Vec<_> = keys.into_iter().map(pieces).collect();
        let metric = Metric::of_hosts(name, name, unit(name, is_rate));
        (!series.iter().all(|(_, pieces)| pieces.is_empty()))
            .then_some(HostMetric { metric, series })
    };
    names.iter().filter_map(of_name).collect()
}

/// Returns the unit of a metric by its name.
fn unit(name: &str, is_rate: bool) -> Unit {
    let is_octets = name.contains("bytes");
    match (is_octets, is_rate) {
        (true, true) => Unit::OctetsPerSecond,
        (false, true) => Unit::PerSecond,
        (true, false) => Unit::Octets,
        (false, false) => Unit::Number,
    }
}

/// Returns messages for the user. `wanted` has the requests without any metric.
fn notes(
    wanted: &[&Request],
    readings: &Readings,
    metrics: &[HostMetric],
    names: &HostNames,
) -> Vec<String> {
    let mut notes = Vec::new();
    for request in wanted {
        // The name of a preset is never misspelled.
        let help = existing(&[request], readings).filter(|_| request.preset.is_none());
        let help = help.map_or_else(String::new, |help| format!("; {help}"));
        notes.push(format!(
            "no source has the metric {} for the selected hosts{help}",
            request.name()
        ));
    }
    if !readings.strangers.is_empty() {
        notes.push(format!(
            "hosts of the sources that are not selected or not in the records: {}",
            some_of(&readings.strangers)
        ));
    }
    let found: BTreeSet<&str> = metrics
        .iter()
        .flat_map(|metric| metric.series.iter().map(|(host, _)| &**host))
        .collect();
    let missing: BTreeSet<String> = names
        .iter()
        .filter(|name| !found.contains(name))
        .map(str::to_owned)
        .collect();
    if !missing.is_empty() {
        notes.push(format!(
            "selected hosts without host metrics: {}",
            some_of(&missing)
        ));
    }
    if readings.copies > 0 {
        notes.push(format!(
            "{} readings were left out: another target has the same metric of the same host",
            readings.copies
        ));
    }
    notes
}

/// Formats the number of names and the first few of them.
fn some_of(names: &BTreeSet<String>) -> String {
    const MAX: usize = 5;
    let first: Vec<&str> = names.iter().take(MAX).map(String::as_str).collect();
    let more = names.len().saturating_sub(MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{} ({}{more})", names.len(), first.join(", "))
}

/// Returns which metrics the sources have in place of those that no source has. Returns `None` if
/// the sources have no metric.
fn existing(wanted: &[&Request], readings: &Readings) -> Option<String> {
    let known: Vec<&str> = readings.known.iter().map(String::as_str).collect();
    let nearest = wanted
        .iter()
        .find_map(|request| suggest::nearest(request.name(), &known));
    match nearest {
        Some(nearest) => Some(format!("did you mean --host-metric {nearest}?")),
        None if known.is_empty() => None,
        None => Some(format!(
            "give --host-metric with a metric that exists: {}",
            some_of(&readings.known)
        )),
    }
}

/// Returns the error for sources without any reading.
fn nothing(
    wanted: &[&Request],
    readings: &Readings,
    queries: &[String],
    names: &HostNames,
) -> HostMetricsError {
    let help = existing(wanted, readings).unwrap_or_else(|| {
        "the sources have no metric at all in this time range; check --from and --to".to_owned()
    });
    let wanted: Vec<&str> = wanted.iter().map(|request| request.name()).collect();
    let wanted = wanted.join(", ");
    if !readings.strangers.is_empty() {
        let records: BTreeSet<String> = names.iter().map(str::to_owned).collect();
        return HostMetricsError::Empty {
            what: format!(
                "the sources have {wanted} only for hosts that are not selected or not in the records: {}",
                some_of(&readings.strangers)
            ),
            help: format!(
                "the selected hosts are {}; a host is the first word of a node description, without domain",
                some_of(&records)
            ),
        };
    }
    let queries = if queries.is_empty() {
        String::new()
    } else {
        format!("; queries without a result: {}", queries.join(" "))
    };
    HostMetricsError::Empty {
        what: format!("no source has {wanted} in the time of the records{queries}"),
        help,
    }
}

#[cfg(test)]
mod tests;
