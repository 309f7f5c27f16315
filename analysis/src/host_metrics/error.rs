//! Errors of reading host metrics.

use std::io;

use ibnet::types::Printable;
use miette::Diagnostic;

use crate::error::AnalysisError;

/// A fault of a source of host metrics, or of an argument.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum HostMetricsError {
    /// An argument that is not the name of a host metric.
    #[error("cannot read `{}` as a host metric: {why}", Printable(text))]
    #[diagnostic(help(
        "give ipoib, nfs, lustre, or a metric of the source, with `*` for any characters and labels if needed: `node_network_*_bytes_total{{device=ib*}}`"
    ))]
    Request {
        /// The argument.
        text: String,
        /// The fault.
        why: &'static str,
    },
    /// A URL that cannot be used.
    #[error("cannot use `{}` as the address of Prometheus: {why}", Printable(url))]
    #[diagnostic(help("give `http://HOST:9090` or `https://USER@HOST/PATH`, without `/api/v1`"))]
    Url {
        /// The argument.
        url: String,
        /// The fault.
        why: String,
    },
    /// No connection, or a connection that ended early.
    #[error("cannot reach Prometheus at {}: {why}", Printable(url))]
    #[diagnostic(help("check that Prometheus runs there and accepts connections from this machine: `curl {url}/-/ready`"))]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        why: String,
    },
    /// A response that is not from the API of Prometheus.
    #[error("cannot read the response of {}: {why}", Printable(url))]
    #[diagnostic(help(
        "give the address of Prometheus or of a server with the same API; with --web.route-prefix, add the prefix to the address; for status 401 give --host-metrics-password-file"
    ))]
    Response {
        /// The address.
        url: String,
        /// The status, or the fault of the text.
        why: String,
    },
    /// Prometheus rejected a query.
    #[error("cannot query Prometheus at {}: {kind}: {} (query `{}`)", Printable(url), Printable(why), Printable(query))]
    #[diagnostic(help("give a shorter time range with --from and --to, or fewer metrics with --host-metric"))]
    Refused {
        /// The address.
        url: String,
        /// The query.
        query: String,
        /// Error type of Prometheus, such as `execution`.
        kind: String,
        /// Message of Prometheus.
        why: String,
    },
    /// A pattern without files, or a malformed pattern.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Pattern(#[from] AnalysisError),
    /// A file that is not readable.
    #[error("cannot read {}", Printable(name))]
    #[diagnostic(help("give JSON lines, CSV or a file of the LDMS store_csv, or the address of Prometheus, which begins with `http://`"))]
    Read {
        /// Path of the file.
        name: String,
        /// The error of the operating system or of zstd.
        #[source]
        source: io::Error,
    },
    /// A malformed line.
    #[error("cannot read {}:{line}: {}", Printable(file), Printable(why))]
    #[diagnostic(help(
        "write JSON lines with `time`, `host`, `metric` and `value`, CSV with these columns, or files of the LDMS store_csv; docs/hosts.md describes them"
    ))]
    Line {
        /// Path of the file.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// The fault.
        why: String,
    },
    /// Sources without any reading of the metrics.
    #[error("cannot show host metrics: {}", Printable(what))]
    #[diagnostic(help("{help}"))]
    Empty {
        /// The missing data, with the queries.
        what: String,
        /// The remedy, with the metrics that exist.
        help: String,
    },
}
