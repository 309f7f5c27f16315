//! The host metrics that a user can request: a preset, or a pattern of the names that a source
//! uses. A preset has the same meaning for all sources:
//!
//! - `ipoib`: bytes in and out of `ib*` interfaces. Prometheus exporters:
//!   `node_network_*_bytes_total`; LDMS: `rx_bytes#ib*`, `tx_bytes#ib*`.
//!   `ipoib-in` and `ipoib-out` are one direction of it.
//! - `nfs-reads`, `nfs-writes`, `nfs-retransmits`: some of the requests of `nfs`. Prometheus
//!   exporters: label `method` or `operation`, and `node_nfs_rpc_retransmissions_total`; LDMS:
//!   `read`, `write` and `retransmitts`.
//! - `nfs`: requests of the NFS client. Prometheus exporters: `node_nfs_requests_total`, or
//!   `node_mountstats_nfs_operations_requests_total`; LDMS: `numcalls`.
//! - `lustre`: bytes read and written. Prometheus exporters: `lustre_read_bytes_total`,
//!   `lustre_write_bytes_total`; LDMS: `read_bytes.sum`, `write_bytes.sum`.
//!
//! The LDMS names are those of the samplers procnetdev, procnetdev2, procnfs, lustre_client and
//! lustre2_client. The Lustre exporter names are those of HewlettPackard/lustre_exporter and its
//! successors.

use std::str::FromStr;

use glob::Pattern;

use super::error::HostMetricsError;
use crate::metric::Unit;

/// A requested metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    pub(super) name: String,
    /// Title and unit of a preset. `None` for a pattern.
    pub(super) preset: Option<(&'static str, Unit)>,
    /// Selectors with the same meaning. For each host, the first one that finds a metric is used.
    pub(super) alternatives: Vec<Vec<Selector>>,
}

/// Selects metrics by name and labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Selector {
    pub(super) metric: Pattern,
    pub(super) labels: Vec<(String, Pattern)>,
}

impl Selector {
    fn new(metric: &str, labels: &[(&str, &str)]) -> Option<Self> {
        let label = |(name, pattern): &(&str, &str)| {
            Some(((*name).to_owned(), Pattern::new(pattern).ok()?))
        };
        Some(Self {
            metric: Pattern::new(metric).ok()?,
            labels: labels.iter().map(label).collect::<Option<_>>()?,
        })
    }

    /// Returns whether the selector matches a series with this name and these labels.
    pub(super) fn matches(&self, metric: &str, labels: &[(String, String)]) -> bool {
        let has = |(name, pattern): &(String, Pattern)| {
            labels
                .iter()
                .any(|(label, value)| label == name && pattern.matches(value))
        };
        self.metric.matches(metric) && self.labels.iter().all(has)
    }

    /// Returns the same selector for one metric name.
    pub(super) fn named(&self, metric: &str) -> Self {
        Self {
            metric: Pattern::new(&Pattern::escape(metric)).unwrap_or_default(),
            labels: self.labels.clone(),
        }
    }

    /// Formats the selector in PromQL.
    pub(super) fn promql(&self) -> String {
        let one = |name: &str, pattern: &str| match pattern.contains(['*', '?']) {
            true => format!("{name}=~\"{}\"", regex(pattern)),
            false => format!("{name}=\"{pattern}\""),
        };
        let labels = self
            .labels
            .iter()
            .map(|(name, pattern)| one(name, pattern.as_str()));
        let all: Vec<_> = std::iter::once(one("__name__", self.metric.as_str()))
            .chain(labels)
            .collect();
        format!("{{{}}}", all.join(","))
    }
}

/// Converts the pattern to a regular expression in a double-quoted PromQL string.
fn regex(pattern: &str) -> String {
    let mut regex = String::new();
    for c in pattern.chars() {
        match c {
            '*' => regex += ".*",
            '?' => regex.push('.'),
            // A backslash of the regular expression is doubled in a PromQL string.
            c if !c.is_ascii_alphanumeric() && c != '_' => {
                regex += "\\\\";
                regex.push(c);
            }
            c => regex.push(c),
        }
    }
    regex
}

impl Request {
    /// Returns the requests to use if the user gave none.
    pub fn defaults() -> Vec<Self> {
        ["ipoib", "nfs", "lustre"]
            .into_iter()
            .filter_map(Self::preset)
            .collect()
    }

    fn preset(name: &str) -> Option<Self> {
        const IB: (&str, &str) = ("device", "ib*");
        let all = |selectors: &[(&str, &[(&str, &str)])]| {
            selectors
                .iter()
                .map(|(name, labels)| Selector::new(name, labels))
                .collect::<Option<Vec<_>>>()
        };
        let requests = |method, operation, ldms| {
            Some(vec![
                all(&[("node_nfs_requests_total", &[("method", method)])])?,
                all(&[(
                    "node_mountstats_nfs_operations_requests_total",
                    &[("operation", operation)],
                )])?,
                all(&[(ldms, &[])])?,
            ])
        };
        let (title, unit, alternatives) = match name {
            "ipoib" => (
                "IPoIB, in and out",
                Unit::OctetsPerSecond,
                vec![
                    all(&[
                        ("node_network_receive_bytes_total", &[IB]),
                        ("node_network_transmit_bytes_total", &[IB]),
                    ])?,
                    all(&[("rx_bytes", &[IB]), ("tx_bytes", &[IB])])?,
                ],
            ),
            "ipoib-in" => (
                "IPoIB, received",
                Unit::OctetsPerSecond,
                vec![
                    all(&[("node_network_receive_bytes_total", &[IB])])?,
                    all(&[("rx_bytes", &[IB])])?,
                ],
            ),
            "ipoib-out" => (
                "IPoIB, sent",
                Unit::OctetsPerSecond,
                vec![
                    all(&[("node_network_transmit_bytes_total", &[IB])])?,
                    all(&[("tx_bytes", &[IB])])?,
                ],
            ),
            "nfs-reads" => (
                "NFS reads of clients",
                Unit::PerSecond,
                requests("Read", "READ", "read")?,
            ),
            "nfs-writes" => (
                "NFS writes of clients",
                Unit::PerSecond,
                requests("Write", "WRITE", "write")?,
            ),
            "nfs-retransmits" => (
                "NFS retransmits of clients",
                Unit::PerSecond,
                vec![
                    all(&[("node_nfs_rpc_retransmissions_total", &[])])?,
                    all(&[("retransmitts", &[])])?,
                ],
            ),
            "nfs" => (
                "NFS requests of clients",
                Unit::PerSecond,
                vec![
                    all(&[("node_nfs_requests_total", &[])])?,
                    all(&[("node_mountstats_nfs_operations_requests_total", &[])])?,
                    all(&[("numcalls", &[])])?,
                ],
            ),
            "lustre" => (
                "Lustre, read and written",
                Unit::OctetsPerSecond,
                vec![
                    all(&[
                        ("lustre_read_bytes_total", &[]),
                        ("lustre_write_bytes_total", &[]),
                    ])?,
                    all(&[("read_bytes.sum", &[]), ("write_bytes.sum", &[])])?,
                    all(&[("client.read_bytes", &[]), ("client.write_bytes", &[])])?,
                ],
            ),
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            preset: Some((title, unit)),
            alternatives,
        })
    }

    /// Returns the name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.alternatives.iter().flatten()
    }
}

impl FromStr for Request {
    type Err = HostMetricsError;

    /// Parses the name of a preset, or a pattern such as `node_network_*_bytes_total{device=ib*}`.
    fn from_str(text: &str) -> Result<Self, HostMetricsError> {
        let wrong = |why| HostMetricsError::Request {
            text: text.to_owned(),
            why,
        };
        let text = text.trim();
        if let Some(preset) = Self::preset(text) {
            return Ok(preset);
        }
        let (name, labels) = match text.split_once('{') {
            Some((name, rest)) => (
                name,
                rest.strip_suffix('}')
                    .ok_or_else(|| wrong("the labels do not end with `}`"))?,
            ),
            None => (text, ""),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_:.#-*?".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(wrong(
                "it has no name of letters, digits, `_`, `:`, `.`, `-`, `*` and `?`",
            ));
        }
        let mut pairs = Vec::new();
        for label in labels.split(',').filter(|label| !label.trim().is_empty()) {
            let (name, value) = label
                .split_once('=')
                .ok_or_else(|| wrong("a label has no `=`"))?;
            let value = value.trim().trim_matches('"');
            if value.contains(['[', ']', '"', '\\', '~', '{']) {
                return Err(wrong(
                    "the value of a label has one of the characters [ ] \" \\ ~ {",
                ));
            }
            pairs.push((name.trim(), value));
        }
        let selector = Selector::new(name, &pairs).ok_or_else(|| wrong("it is not a pattern"))?;
        Ok(Self {
            name: text.to_owned(),
            preset: None,
            alternatives: vec![vec![selector]],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn pattern_selects_by_name_and_labels() {
        let request: Request = "node_network_*_bytes_total{device=ib*}".parse().unwrap();
        let selector = request.selectors().next().unwrap();
        assert!(selector.matches(
            "node_network_receive_bytes_total",
            &labels(&[("device", "ib0")])
        ));
        assert!(!selector.matches(
            "node_network_receive_bytes_total",
            &labels(&[("device", "eth0")])
        ));
        assert!(!selector.matches("node_network_receive_bytes_total", &[]));
        assert_eq!(
            selector.promql(),
            "{__name__=~\"node_network_.*_bytes_total\",device=~\"ib.*\"}"
        );
        let exact: Request = "read_bytes.s?m".parse().unwrap();
        assert_eq!(
            exact.selectors().next().unwrap().promql(),
            "{__name__=~\"read_bytes\\\\.s.m\"}"
        );
    }

    #[test]
    fn preset_has_a_selector_for_each_source() {
        let [ipoib, nfs, lustre] =
            ["ipoib", "nfs", "lustre"].map(|name| name.parse::<Request>().unwrap());
        let finds = |request: &Request, metric: &str, pairs: &[(&str, &str)]| {
            request
                .selectors()
                .any(|selector| selector.matches(metric, &labels(pairs)))
        };
        assert!(
            finds(
                &ipoib,
                "node_network_transmit_bytes_total",
                &[("device", "ibs1")]
            ) && finds(&ipoib, "rx_bytes", &[("device", "ib0")])
        );
        assert!(
            !finds(&ipoib, "rx_bytes", &[("device", "eth0")])
                && finds(&nfs, "numcalls", &[])
                && finds(&nfs, "node_nfs_requests_total", &[])
        );
        assert!(
            finds(
                &lustre,
                "lustre_write_bytes_total",
                &[("component", "client")]
            ) && finds(&lustre, "read_bytes.sum", &[])
        );
        assert_eq!(Request::defaults().len(), 3);
    }

    #[test]
    fn malformed_request_is_rejected() {
        for text in [
            "",
            "a b",
            "a{b=c",
            "a{b}",
            "{b=c}",
            "a{b=\"x\\\"}",
            "a{b=[x]}",
            "ü",
        ] {
            assert!(text.parse::<Request>().is_err(), "{text}");
        }
    }
}
