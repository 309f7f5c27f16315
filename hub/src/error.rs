//! The errors that keep the hub from starting, or that end it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use ibnet::metrics::SecretsError;
use ibnet::partition::PlanError;
use ibnet::topology::NetFileError;
use ibnet_record::types::Printable;
use miette::Diagnostic;

use crate::config::ConfigError;

/// Why the hub cannot run.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum HubError {
    /// The configuration is wrong.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// The URL of an input is wrong.
    #[error("cannot use the input {found:?}: expected {expected}")]
    #[diagnostic(help(
        "give `--input` once for each input, for example --input tcp://node00001:9331"
    ))]
    Input {
        /// The URL.
        found: String,
        /// The forms of URLs.
        expected: &'static str,
    },
    /// There is no input.
    #[error("cannot start: there is no input")]
    #[diagnostic(help(
        "give `--input URL` or `--simulate FILE`, or set `inputs` in the configuration"
    ))]
    NoInput,
    /// An input needs a feature that the program does not have.
    #[error("cannot use the input {input}: this program was built without NATS")]
    #[diagnostic(help(
        "build it with `cargo build --release -p ibnet-hub --features nats`, or use the packages"
    ))]
    NoNats {
        /// The URL.
        input: String,
    },
    /// The net file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    /// The table `[simulated]` is wrong.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Simulated(#[from] ibnet::config::ConfigError),
    /// The simulated fabric has nothing to read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    /// `simulated.dead` names a device that does not exist.
    #[error("cannot use simulated.dead: there is no device {} in {}", Printable(name), net.display())]
    #[diagnostic(help("give a node description or its first word, as in the net file"))]
    NoSuchDevice {
        /// The name.
        name: String,
        /// The net file.
        net: PathBuf,
    },
    /// Certificate, key or password cannot be used.
    #[error("cannot use the certificate, the key, the password or the tokens of the page")]
    #[diagnostic(help(
        "the keys are tls_cert, tls_key, password_file and users.tokens_file; all but the certificate need mode 0600 or 0640"
    ))]
    Secrets(#[source] Box<SecretsError>),
    /// The address cannot be bound.
    #[error("cannot listen on {listen}")]
    #[diagnostic(help(
        "another program may use the address (see `ss -ltnp`), or the address does not belong to this host; give a free address with `--listen`"
    ))]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A thread without which the hub cannot work has panicked.
    #[error("cannot continue: the thread {thread} has panicked")]
    #[diagnostic(help(
        "please report this fault with the message of the panic above; systemd starts the hub again, else start it yourself"
    ))]
    Panicked {
        /// Name of the thread.
        thread: String,
    },
    /// A thread or the runtime cannot be started.
    #[error("cannot start a thread")]
    #[diagnostic(help("check the limits of the user: `ulimit -u`, TasksMax= of the unit"))]
    Thread(#[source] io::Error),
}
