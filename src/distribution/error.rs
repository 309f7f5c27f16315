//! Errors of publishing and receiving plans.

use std::io;
use std::path::PathBuf;

use ibnet_record::types::Printable;
use miette::Diagnostic;

use crate::output::OutputError;

/// Reason why a plan cannot be published or received.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum DistributionError {
    /// The address is not that of a NATS server, or contains a password.
    #[error(
        "cannot use the address of a plan: expected nats://HOST:4222/BUCKET/KEY (found {})",
        Printable(found)
    )]
    #[diagnostic(help(
        "write nats://HOST:4222 for the bucket `ibnet` and the key `plan`, tls:// for TLS, and the user and the password into the keys of [plan_server]"
    ))]
    Address {
        /// The address.
        found: String,
    },
    /// A file for the connection cannot be used.
    #[error("cannot connect to the NATS server {server}: {} cannot be used", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "check `password_file`, `credentials`, `ca_file`, `cert_file` and `key_file` of [plan_server]; this user must be able to read them"
    ))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Address of the server.
        server: String,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// No server accepts the connection, or the connection has ended.
    #[error("cannot connect to the NATS server {server}: {}", Printable(reason))]
    #[diagnostic(help(
        "check that the server runs, that this host may reach it, and that the address and the user and password of [plan_server] are right"
    ))]
    Connect {
        /// Address of the server.
        server: String,
        /// Reason.
        reason: String,
    },
    /// The bucket does not exist, or this user may not read it.
    #[error("cannot read the plan {store}: {}", Printable(reason))]
    #[diagnostic(help(
        "check that JetStream is on and that this user may read the bucket (`nats kv ls`); `ibnet-gen publish` creates the bucket"
    ))]
    Read {
        /// Address of the plan.
        store: String,
        /// Reason.
        reason: String,
    },
    /// The bucket has no such key.
    #[error("cannot read the plan {store}: no plan is published there")]
    #[diagnostic(help("publish one: ibnet-gen publish plan.toml --to {store}"))]
    Missing {
        /// Address of the plan.
        store: String,
    },
    /// The value cannot be decompressed, or is too large.
    #[error("cannot read the plan {store} revision {revision}: the value is damaged or too long")]
    #[diagnostic(help("publish the plan again: ibnet-gen publish plan.toml --to {store}"))]
    Damaged {
        /// Address of the plan.
        store: String,
        /// Revision of the value.
        revision: u64,
    },
    /// The plan is larger than the server accepts.
    #[error(
        "cannot publish the plan to {store}: it has {octets} bytes compressed, and the server accepts {limit}"
    )]
    #[diagnostic(help(
        "set `max_payload` in the configuration of the server, up to 64MB, or distribute the plan as a file (docs/planning.md)"
    ))]
    TooLong {
        /// Address of the plan.
        store: String,
        /// Size of the compressed plan in bytes.
        octets: usize,
        /// Max size of a message that the server accepts, in bytes.
        limit: usize,
    },
    /// The server did not store the plan.
    #[error("cannot publish the plan to {store}: {}", Printable(reason))]
    #[diagnostic(help(
        "check that JetStream is on and that this user may write to the bucket, or create it (`nats kv add`)"
    ))]
    Publish {
        /// Address of the plan.
        store: String,
        /// Reason.
        reason: String,
    },
    /// The time of the first slot cannot be added to the text of the plan.
    #[error("cannot publish {name}: the time of the first slot cannot be added to its text")]
    #[diagnostic(help(
        "publish a plan as `ibnet-gen -o FILE` writes it, with the line `cap` before the samplers"
    ))]
    NoPlaceForTime {
        /// Name of the plan.
        name: String,
    },
    /// The program was built without the feature `nats`.
    #[error("cannot use {}: this program was built without NATS", Printable(store))]
    #[diagnostic(help(
        "build it with `make build-full`, or install a package; or distribute the plan as a file"
    ))]
    NoNats {
        /// Address of the plan.
        store: String,
    },
    /// A thread or a runtime cannot be started.
    #[error("cannot start the connection to a NATS server")]
    Threads(#[source] io::Error),
}

impl From<OutputError> for DistributionError {
    /// Converts an error of [`connect_nats`](crate::output::connect_nats), whose remedy is about
    /// keys of `[[output]]` instead of `[plan_server]`.
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NatsFile {
                path,
                server,
                source,
            } => Self::File {
                path,
                server,
                source,
            },
            OutputError::NatsConnect { server, reason } => Self::Connect { server, reason },
            OutputError::NatsServer { server } => Self::Address { found: server },
            OutputError::Runtime(source) => Self::Threads(source),
            other => Self::Connect {
                server: String::new(),
                reason: other.to_string(),
            },
        }
    }
}
