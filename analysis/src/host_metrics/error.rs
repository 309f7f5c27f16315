//! Errors in reading host metrics.

use std::io;

use ibnet_record::types::Printable;
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
    #[diagnostic(help(
        "check that Prometheus runs there and accepts connections from this machine: `curl {url}/-/ready`"
    ))]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        why: String,
    },
    /// A TLS handshake that failed.
    #[error(
        "cannot reach Prometheus at {}: TLS: {}",
        Printable(url),
        Printable(why)
    )]
    #[diagnostic(help("{}", tls_help(why)))]
    Tls {
        /// The address.
        url: String,
        /// The error of the handshake.
        why: String,
    },
    /// A file of CA certificates that cannot be used.
    #[error(
        "cannot use {} as the certificates of an authority: {}",
        Printable(path),
        Printable(why)
    )]
    #[diagnostic(help(
        "give a PEM file that begins with `-----BEGIN CERTIFICATE-----`, and that this user can read"
    ))]
    Authority {
        /// Path of the file.
        path: String,
        /// The fault.
        why: String,
    },
    /// A wrong or missing password or token.
    #[error(
        "cannot read from Prometheus at {}: it refuses the access (HTTP status {status})",
        Printable(url)
    )]
    #[diagnostic(help(
        "give the user in the address (`https://USER@HOST:9090`) and the password with --host-metrics-password-file; without a user, the file has a bearer token"
    ))]
    Forbidden {
        /// The address.
        url: String,
        /// Status of the response.
        status: u16,
    },
    /// A response that is not from the API of Prometheus.
    #[error("cannot read the response of {}: {why}", Printable(url))]
    #[diagnostic(help(
        "give the address of Prometheus or of a server with the same API; with --web.route-prefix, add the prefix to the address"
    ))]
    Response {
        /// The address.
        url: String,
        /// The HTTP status, or what is wrong with the body.
        why: String,
    },
    /// Prometheus rejected a query.
    #[error(
        "cannot query Prometheus at {}: {kind}: {} (query `{}`)",
        Printable(url),
        Printable(why),
        Printable(query)
    )]
    #[diagnostic(help(
        "give a shorter time range with --from and --to, or fewer metrics with --host-metric"
    ))]
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
    #[diagnostic(help(
        "give JSON lines, CSV or a file of the LDMS store_csv, or the address of Prometheus, which begins with `http://`"
    ))]
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

/// Returns the remedy of a failed TLS handshake. rustls names the faults of a certificate.
fn tls_help(why: &str) -> &'static str {
    if why.contains("CaUsedAsEndEntity") {
        "Prometheus uses the certificate of an authority itself; give it a certificate that is no authority (`openssl req -x509 -addext basicConstraints=CA:FALSE ...`)"
    } else if why.contains("UnknownIssuer") {
        "give the certificate of the authority that signed the certificate of Prometheus with --host-metrics-ca-file FILE"
    } else if why.contains("not valid for name") || why.contains("NotValidForName") {
        "use a name of the certificate of Prometheus in the address, or a certificate with this name"
    } else if why.contains("xpired") || why.contains("NotValidYet") {
        "renew the certificate of Prometheus; check the clocks of both machines"
    } else {
        "check that Prometheus serves TLS at this address (`tls_server_config` in its --web.config.file); without TLS, use `http://`"
    }
}
