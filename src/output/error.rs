//! Reasons why an output cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

use ibnet_record::types::Printable;
use miette::Diagnostic;

use super::lock::Locked;
use super::options::Address;

/// Reason why an output cannot be opened.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum OutputError {
    /// A file cannot be opened.
    #[error("cannot write to {}: it cannot be opened", Printable(&path.display().to_string()))]
    #[diagnostic(help("give another file with -o FILE, or `-o -` for standard output"))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process or output already writes to the file.
    #[error("cannot write to {}: {locked}", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "stop the other writer, or give another file with -o FILE: two writers would mix their records"
    ))]
    Locked {
        /// Path of the file.
        path: PathBuf,
        /// The other writer.
        locked: String,
    },
    /// Standard output was closed when the program started, or is open for reading only. A
    /// `/dev/null` that is open for reading and writing cannot be distinguished from a closed
    /// descriptor.
    #[error(
        "cannot write to standard output: it is closed, or is /dev/null opened for reading and writing"
    )]
    #[diagnostic(help(
        "redirect it to a file, a pipe or with >/dev/null, or give a file with -o FILE"
    ))]
    StdoutClosed,
    /// A socket cannot be opened.
    #[error("cannot listen at {address}")]
    #[diagnostic(help("{}", remedy(address)))]
    Listen {
        /// Address of the socket.
        address: Address,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The path of a Unix socket is in use: a program listens on it, or it is not a socket.
    #[error("cannot listen at {}: the path exists and is not an unused socket", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "stop the ibnet-sweep that listens there, remove the path, or give another `path` in this [[output]]"
    ))]
    Taken {
        /// Path of the socket.
        path: PathBuf,
    },
    /// A file for the connection to a NATS server cannot be used.
    #[error("cannot connect to the NATS server {server}: {} cannot be used", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "check `password_file`, `credentials`, `ca_file`, `cert_file` and `key_file` of this [[output]]; this user must be able to read them"
    ))]
    NatsFile {
        /// Path of the file.
        path: PathBuf,
        /// Address of the server.
        server: String,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The address of a NATS server is invalid.
    #[error(
        "cannot connect to a NATS server: invalid address (found {})",
        Printable(server)
    )]
    #[diagnostic(help("write `server` of this [[output]] as nats://host:4222 or tls://host:4222"))]
    NatsServer {
        /// Address as configured, without a password.
        server: String,
    },
    /// No NATS server accepts the connection.
    #[error("cannot connect to the NATS server {server}: {reason}")]
    #[diagnostic(help(
        "check that the server runs and that the address, the user and the password are right"
    ))]
    NatsConnect {
        /// Address of the server.
        server: String,
        /// Reason.
        reason: String,
    },
    /// No stream of a NATS server stores the records.
    #[error("cannot publish to the NATS server {server}: no stream has the subject {subject}")]
    #[diagnostic(help(
        "add a stream: nats stream add IBNET --subjects 'ibnet.>' --storage file --max-age 2d --dupe-window 10m --defaults; or set `create = true` in this [[output]]"
    ))]
    NatsStream {
        /// Address of the server.
        server: String,
        /// Subject of the records.
        subject: String,
    },
    /// The folder of a spool cannot be used.
    #[error("cannot use the spool {}: it cannot be opened", Printable(&folder.display().to_string()))]
    #[diagnostic(help(
        "check `spool` of this [[output]]: this user must be able to write to the folder, and each process needs a separate folder"
    ))]
    Spool {
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system, or the other process.
        #[source]
        source: io::Error,
    },
    /// The program was built without the feature `nats`.
    #[error("cannot write to a NATS server: this ibnet-sweep was built without NATS")]
    #[diagnostic(help("build it with the feature `nats`, or remove this [[output]]"))]
    NoNats,
    /// A thread or the runtime for sockets cannot be started.
    #[error("cannot start an output")]
    Runtime(#[source] io::Error),
}

impl OutputError {
    /// Returns the error for a file that cannot be opened.
    pub(super) fn of_file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source
            .get_ref()
            .and_then(|error| error.downcast_ref::<Locked>())
        {
            Some(locked) => Self::Locked {
                path,
                locked: locked.to_string(),
            },
            None => Self::File { path, source },
        }
    }
}

fn remedy(address: &Address) -> &'static str {
    match address {
        Address::Unix(_) => {
            "the folder must exist and be writable for this user, and the path may have at most 107 bytes; change `path` of this [[output]]"
        }
        Address::Tcp(_) => {
            "check that the port is free (`ss -ltn`) and the address belongs to this host; change `listen` of this [[output]]"
        }
    }
}
