//! Reads host metrics from the HTTP API of Prometheus.
//!
//! For a time range of up to [`RAW`], raw samples are read: `/api/v1/query` with a range
//! selector. They carry the times of the scrapes, so rates and resets are exact. For a longer
//! range, Prometheus computes the rates: `/api/v1/query_range` with `rate` or `avg_over_time`
//! over steps, and each value then describes one step.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::HostMetricsError;
use super::readings::Kind;
use super::request::{Request, Selector};
use super::{AROUND_NS, Range, Server, Sink};

const SECOND: u64 = 1_000_000_000;

/// Max time range that is read as raw samples: six hours.
const RAW: u64 = 6 * 3600 * SECOND;

/// Max time of one query of raw samples.
const CHUNK: u64 = 1800 * SECOND;

/// Max number of steps of a longer time range, and below, their min length.
const STEPS: u64 = 1000;
const MIN_STEP: u64 = 60 * SECOND;

/// Labels that can contain the name of the host. The first one that names a host of the records
/// is used.
const HOST_LABELS: [&str; 7] = [
    "instance",
    "nodename",
    "hostname",
    "host",
    "node",
    "exported_instance",
    "exported_host",
];

/// Labels that do not distinguish two series of the same host.
const NOT_LABELS: [&str; 12] = [
    "__name__",
    "job",
    "instance",
    "nodename",
    "hostname",
    "host",
    "node",
    "exported_instance",
    "exported_host",
    "prometheus",
    "prometheus_replica",
    "replica",
];

#[derive(Deserialize)]
struct Answer {
    status: String,
    data: Option<Data>,
    #[serde(rename = "errorType")]
    kind: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    Series { result: Vec<Found> },
    Names(Vec<String>),
}

/// A series of the response: `values` in a matrix, `value` in a vector.
#[derive(Deserialize)]
struct Found {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// Reads the requested metrics. Returns the queries without a result.
pub(super) fn read(
    server: Box<dyn Server>,
    sink: &mut Sink<'_>,
    range: Range,
) -> Result<Vec<String>, HostMetricsError> {
    let mut reader = Reader {
        server,
        nodes: None,
        range,
    };
    let mut empty = Vec::new();
    let requests = sink.requests;
    for selector in requests.iter().flat_map(Request::selectors) {
        let is_raw = range.to.saturating_sub(range.from) <= RAW;
        let series = if is_raw {
            reader.raw(selector)?
        } else {
            reader.steps(selector)?
        };
        if series.iter().all(|(found, _)| found.is_empty()) {
            empty.push(selector.promql());
        }
        for (found, step) in series {
            found
                .into_iter()
                .try_for_each(|found| reader.add(found, step, sink))?;
        }
    }
    if sink.readings.series.is_empty() {
        sink.readings.known.extend(reader.names(None)?);
    }
    Ok(empty)
}

/// Series, and the step length if they are means over steps.
type Series = (Vec<Found>, Option<u64>);

struct Reader {
    server: Box<dyn Server>,
    /// Host names by `instance`, from `node_uname_info`. `None` until they are read.
    nodes: Option<BTreeMap<String, String>>,
    range: Range,
}

impl Reader {
    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Data, HostMetricsError> {
        let (status, body) = self.server.get(path, parameters)?;
        let response = |why: String| HostMetricsError::Response {
            url: self.server.url().to_owned(),
            why,
        };
        let answer: Answer = match serde_json::from_slice(&body) {
            Ok(answer) => answer,
            Err(_) if matches!(status, 401 | 403) => {
                return Err(HostMetricsError::Forbidden {
                    url: self.server.url().to_owned(),
                    status,
                });
            }
            Err(_) if status != 200 => return Err(response(format!("HTTP status {status}"))),
            Err(error) => return Err(response(format!("it is not an answer of the API: {error}"))),
        };
        if let Answer {
            status,
            data: Some(data),
            ..
        } = answer
            && status == "success"
        {
            return Ok(data);
        }
        let query = parameters
            .iter()
            .find(|(name, _)| *name == "query")
            .map_or(path, |(_, query)| query);
        Err(HostMetricsError::Refused {
            url: self.server.url().to_owned(),
            query: query.to_owned(),
            kind: answer
                .kind
                .unwrap_or_else(|| format!("HTTP status {status}")),
            why: answer.error.unwrap_or_default(),
        })
    }

    fn series(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<Found>, HostMetricsError> {
        match self.ask(path, parameters)? {
            Data::Series { result } => Ok(result),
            Data::Names(_) => Err(HostMetricsError::Response {
                url: self.server.url().to_owned(),
                why: "the answer has no series".to_owned(),
            }),
        }
    }

    /// Reads the raw samples of a selector, split into several time ranges.
    fn raw(&self, selector: &Selector) -> Result<Vec<Series>, HostMetricsError> {
        let mut parts = Vec::new();
        let (mut from, last) = (
            self.range.from.saturating_sub(AROUND_NS),
            self.range.to.saturating_add(AROUND_NS),
        );
        while from < last {
            let to = from.saturating_add(CHUNK).min(last);
            // A range selector excludes its start and includes its end.
            let seconds = (to - from).div_ceil(SECOND);
            let query = format!("{}[{seconds}s]", selector.promql());
            parts.push((
                self.series("/api/v1/query", &[("query", &query), ("time", &time(to))])?,
                None,
            ));
            from = to;
        }
        Ok(parts)
    }

    /// Reads the means of a selector over steps. PromQL functions drop the metric names, so each
    /// metric needs its own query.
    fn steps(&self, selector: &Selector) -> Result<Vec<Series>, HostMetricsError> {
        let step = ((self.range.to - self.range.from) / STEPS)
            .max(MIN_STEP)
            .div_ceil(SECOND)
            * SECOND;
        let seconds = step / SECOND;
        let (start, end, step_text) = (
            time(self.range.from.saturating_add(step)),
            time(self.range.to.saturating_add(step)),
            seconds.to_string(),
        );
        let mut parts = Vec::new();
        for name in self.names(Some(&selector.promql()))? {
            let function = if Kind::of(&name) == Kind::Counter {
                "rate"
            } else {
                "avg_over_time"
            };
            let query = format!("{function}({}[{seconds}s])", selector.named(&name).promql());
            let mut found = self.series(
                "/api/v1/query_range",
                &[
                    ("query", &query),
                    ("start", &start),
                    ("end", &end),
                    ("step", &step_text),
                ],
            )?;
            for series in &mut found {
                series.metric.insert("__name__".to_owned(), name.clone());
            }
            parts.push((found, Some(step)));
        }
        Ok(parts)
    }

    fn add(
        &mut self,
        found: Found,
        step: Option<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<(), HostMetricsError> {
        let Found {
            metric: labels,
            values,
        } = found;
        let Some(metric) = labels.get("__name__").cloned() else {
            return Ok(());
        };
        let host = self.host(&labels, sink)?;
        let target = |name: &str| labels.get(name).map_or("", String::as_str);
        sink.origin = format!(
            "{} {} {}",
            self.server.url(),
            target("job"),
            target("instance")
        );
        let kind = step.map_or_else(|| Kind::of(&metric), Kind::Mean);
        let others = labels
            .iter()
            .filter(|(name, _)| !NOT_LABELS.contains(&&***name));
        let others: Vec<(String, String)> = others
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let Some(series) = sink.series(&host, &metric, others, kind) else {
            return Ok(());
        };
        for (seconds, value) in values {
            if let Ok(value) = value.parse() {
                sink.put(&series, ((seconds * 1e3).round() as u64 * 1_000_000, value));
            }
        }
        Ok(())
    }

    /// Returns the host of a series, from a label or from the `node_uname_info` of its instance.
    fn host(
        &mut self,
        labels: &BTreeMap<String, String>,
        sink: &Sink<'_>,
    ) -> Result<String, HostMetricsError> {
        let candidates = || HOST_LABELS.iter().filter_map(|name| labels.get(*name));
        if let Some(host) = candidates().find(|host| sink.names.find(host).is_some()) {
            return Ok(host.clone());
        }
        if self.nodes.is_none() {
            let window = (self.range.to.saturating_sub(self.range.from) / SECOND + 300).to_string();
            let query = format!("last_over_time(node_uname_info[{window}s])");
            let found = self.series(
                "/api/v1/query",
                &[("query", &query), ("time", &time(self.range.to))],
            )?;
            let pair = |found: Found| {
                Some((
                    found.metric.get("instance")?.clone(),
                    found.metric.get("nodename")?.clone(),
                ))
            };
            self.nodes = Some(found.into_iter().filter_map(pair).collect());
        }
        let node = labels
            .get("instance")
            .and_then(|instance| self.nodes.as_ref()?.get(instance));
        Ok(node
            .or_else(|| candidates().next())
            .cloned()
            .unwrap_or_default())
    }

    /// Returns the metric names in the time range: those of a selector, or all.
    fn names(&self, selector: Option<&str>) -> Result<Vec<String>, HostMetricsError> {
        let (start, end) = (time(self.range.from), time(self.range.to));
        let parameters = [("start", &*start), ("end", &*end)]
            .into_iter()
            .chain(selector.map(|selector| ("match[]", selector)));
        match self.ask(
            "/api/v1/label/__name__/values",
            &parameters.collect::<Vec<_>>(),
        )? {
            Data::Names(names) => Ok(names),
            Data::Series { .. } => Ok(Vec::new()),
        }
    }
}

/// Formats a time as Prometheus reads it: seconds with milliseconds.
fn time(ns: u64) -> String {
    format!("{}.{:03}", ns / SECOND, ns % SECOND / 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::super::{HostMetrics, Source, load};
    use super::*;
    use crate::hosts::HostNames;

    const URL: &str = "http://prometheus:9090";

    /// A server with these responses, in their order. It writes down the requests.
    struct Recorder {
        responses: RefCell<std::vec::IntoIter<(u16, String)>>,
        requests: Rc<RefCell<Vec<String>>>,
    }

    impl Server for Recorder {
        fn url(&self) -> &str {
            URL
        }

        fn get(
            &self,
            path: &str,
            parameters: &[(&str, &str)],
        ) -> Result<(u16, Vec<u8>), HostMetricsError> {
            let pairs: Vec<String> = parameters
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            self.requests
                .borrow_mut()
                .push(format!("{path}?{}", pairs.join("&")));
            let (status, body) = self.responses.borrow_mut().next().unwrap();
            Ok((status, body.into_bytes()))
        }
    }

    /// Returns the result with these responses, and the requests.
    fn load_from(
        responses: Vec<(u16, String)>,
        request: &str,
        seconds: u64,
    ) -> (Result<HostMetrics, HostMetricsError>, Vec<String>) {
        let names = HostNames::new(["n1", "n2"].map(str::to_owned));
        let range = Range {
            from: 100_000 * SECOND,
            to: (100_000 + seconds) * SECOND,
        };
        let requests = Rc::<RefCell<_>>::default();
        let connect = |url: &str| -> Result<Box<dyn Server>, _> {
            assert_eq!(url, URL);
            Ok(Box::new(Recorder {
                responses: RefCell::new(responses.clone().into_iter()),
                requests: Rc::clone(&requests),
            }))
        };
        let loaded = load(
            &[Source::from(URL)],
            connect,
            &[request.parse().unwrap()],
            &names,
            range,
        );
        (loaded, requests.take())
    }

    fn matrix(series: &str) -> (u16, String) {
        (
            200,
            format!(
                r#"{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}"#
            ),
        )
    }

    #[test]
    fn raw_samples_are_read_and_hosts_are_found_by_their_labels() {
        let series = [
            r#"{"metric":{"__name__":"m_total","instance":"n1.x:9100","job":"a"},"values":[[100000,"5"],[100001,"7"]]}"#,
            r#"{"metric":{"__name__":"m_total","instance":"n1.x:9100","job":"b"},"values":[[100000,"0"],[100001,"0"]]}"#,
            r#"{"metric":{"__name__":"m_total","instance":"10.0.0.2:9100"},"values":[[100000,"1"],[100001,"NaN"],[100002.5,"6"]]}"#,
        ];
        let nodes = (
            200,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"10.0.0.2:9100","nodename":"n2"},"value":[1,"1"]}]}}"#
                .to_owned(),
        );
        let responses = vec![matrix(&series.join(",")), nodes];
        let (found, requests) = load_from(responses, "m_total", 10);
        let found = found.unwrap();
        let shown: Vec<_> = found.metrics[0]
            .series
            .iter()
            .map(|(host, pieces)| (&**host, pieces[0].value))
            .collect();
        assert_eq!(shown, [("n1", Some(2.0)), ("n2", Some(2.0))]);
        assert!(
            found
                .notes
                .iter()
                .any(|note| note.starts_with("2 readings were left out")),
            "{:?}",
            found.notes
        );
        // The range begins and ends five minutes outside.
        assert_eq!(
            requests[0],
            "/api/v1/query?query={__name__=\"m_total\"}[610s]&time=100310.000"
        );
    }

    #[test]
    fn long_time_range_is_read_as_means_of_steps() {
        let names = (200, r#"{"status":"success","data":["m_total"]}"#.to_owned());
        let rates = matrix(r#"{"metric":{"instance":"n1"},"values":[[100100,"5"]]}"#);
        let (found, requests) = load_from(vec![names, rates], "m_*", 100_000);
        let found = found.unwrap();
        assert_eq!(
            found.metrics[0].series[0]
                .1
                .iter()
                .map(|piece| piece.value)
                .collect::<Vec<_>>(),
            [Some(5.0)]
        );
        assert!(
            requests[0].starts_with(
                "/api/v1/label/__name__/values?start=100000.000&end=200000.000&match[]="
            ),
            "{requests:?}"
        );
        assert_eq!(
            requests[1],
            "/api/v1/query_range?query=rate({__name__=\"m_total\"}[100s])&start=100100.000&end=200100.000&step=100"
        );
    }

    #[test]
    fn faults_have_the_message_of_prometheus() {
        let refused = r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples"}"#;
        for (status, body, expected) in [
            (
                422,
                refused,
                "execution: query processing would load too many samples (query `{__name__=\"m_total\"}[610s]`)",
            ),
            (401, "Unauthorized", "HTTP status 401"),
            (403, "Forbidden", "HTTP status 403"),
            (404, "<html>", "HTTP status 404"),
            (302, "", "HTTP status 302"),
            (200, "<html>", "it is not an answer of the API"),
        ] {
            let (loaded, _) = load_from(vec![(status, body.to_owned())], "m_total", 10);
            let error = loaded.unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(URL), "{error}");
        }
    }

    #[test]
    fn empty_result_has_the_query_and_the_metrics_that_exist() {
        let known = (
            200,
            r#"{"status":"success","data":["n_total","up"]}"#.to_owned(),
        );
        let (loaded, _) = load_from(vec![matrix(""), known], "m_total", 10);
        let error = loaded.unwrap_err();
        let help = miette::Diagnostic::help(&error).unwrap().to_string();
        assert!(
            error
                .to_string()
                .contains("queries without a result: {__name__=\"m_total\"}"),
            "{error}"
        );
        assert_eq!(help, "did you mean --host-metric n_total?");
    }
}
