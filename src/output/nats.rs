//! The NATS output. Each message to a NATS server with JetStream is one record, or has the records
//! of a slot. The output keeps a message until the server acknowledges it.
//!
//! If the server is unreachable, the records wait in the queue, up to
//! [`Output::buffer`](super::Output::buffer) octets, or in the spool on a disk. Records that do not
//! fit are dropped and reported, as in every output.
//!
//! If the server does not acknowledge a message, the output sends the message again with the same
//! `Nats-Msg-Id`. The stream at the server then stores the message only once, if its duplicate
//! window is long enough (two minutes by default). The administrator creates this stream, and sets
//! its subjects, limits and storage. With [`NatsOptions::create`], the output creates a stream if
//! there is none.
//!
//! If the server sends more than a client can expect, or makes the client stop, the output replaces
//! the client (`nats_guard`). No record is dropped by this.
//!
//! | module | contents |
//! |---|---|
//! | `connection` | the client and its connection |
//! | `message` | the messages: subjects, identifiers, sizes |
//! | `publisher` | the way of the messages from the queue to the server |
//! | `remote_stream` | the stream at the server: finding it, creating it |
//! | `spool` | the messages on a disk |

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use tokio::runtime::Runtime;
use zstd::bulk::Compressor;

use self::connection::{LONGEST_PAUSE, Session};
use self::message::{Names, Origin, Waiting};
use self::publisher::{Ending, Log, Publisher};
use self::spool::Spool;
use super::error::OutputError;
use super::nats_guard::oversized_frame;
use super::options::NatsOptions;
use super::queue::Inbox;
use super::stream::Stream;

mod connection;
mod message;
mod publisher;
mod remote_stream;
mod spool;

pub use connection::connect;
pub(super) use remote_stream::test;

/// Level of zstd for payloads: the fastest that compresses records to about one tenth.
const LEVEL: i32 = 1;

/// The output of a server.
pub(super) struct NatsOutput {
    options: NatsOptions,
    runtime: Runtime,
    publisher: Publisher,
}

impl fmt::Debug for NatsOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOutput")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl NatsOutput {
    /// Prepares the connection and opens the spool. An unreachable server is not an error, because
    /// the client keeps trying.
    pub(super) fn open(options: &NatsOptions) -> Result<Self, OutputError> {
        let runtime = new_runtime()?;
        let session = Session::open(options, &runtime)?;
        let spool = options.spool.as_ref().map(|spool| {
            let failed = |source| OutputError::Spool {
                folder: spool.folder.clone(),
                source,
            };
            Spool::open(spool).map_err(failed)
        });
        let compressor = options
            .compress
            .then(|| Compressor::new(LEVEL).map_err(OutputError::Runtime));
        let nonce = RandomState::new().hash_one(std::process::id());
        let publisher = Publisher {
            server: options.shown_server(),
            session,
            stream: Stream::default(),
            batching: options.batching,
            creates: options.create,
            names: Names {
                fabric: options.fabric.clone(),
                nonce,
                next: 0,
            },
            compressor: compressor.transpose()?,
            spool: spool.transpose()?,
            origin: Origin::default(),
            pending: Waiting::default(),
            unspooled: Waiting::default(),
            log: Log::default(),
        };
        Ok(Self {
            options: options.clone(),
            runtime,
            publisher,
        })
    }

    /// Publishes until all outlets are dropped and every record is acknowledged, or until the drain
    /// time of a stop ends.
    pub(super) fn run(self, mut inbox: Inbox) {
        let Self {
            options,
            mut runtime,
            mut publisher,
        } = self;
        let stopper = inbox.stopper();
        loop {
            let statistics = publisher.session.client.statistics();
            let ending = runtime.block_on(async {
                tokio::select! {
                    ending = publisher.publish_all(&mut inbox) => ending,
                    () = stopper.abandoned() => Ending::Complete,
                    () = oversized_frame(&statistics) => Ending::OversizedFrame,
                }
            });
            if ending == Ending::Complete {
                break;
            }
            publisher.log_replacement(ending);
            // The tasks of the client end with their runtime, and their memory is freed.
            runtime.shutdown_background();
            runtime = match new_runtime() {
                Ok(runtime) => runtime,
                Err(error) => {
                    tracing::error!(output = ?publisher.server, %error, "the NATS output has stopped; its records are dropped until ibnet-sweep is restarted");
                    let lost = publisher.end(&mut inbox);
                    return inbox.set_unreported(lost);
                }
            };
            let is_abandoned = runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(LONGEST_PAUSE) => false,
                    () = stopper.abandoned() => true,
                }
            });
            if is_abandoned {
                break;
            }
            match Session::open(&options, &runtime) {
                Ok(session) => publisher.session = session,
                // The old client has ended, so the next attempt follows.
                Err(error) => publisher.log_failure(&error.to_string(), &inbox),
            }
        }
        let lost = publisher.end(&mut inbox);
        inbox.set_unreported(lost);
        runtime.shutdown_background();
    }
}

fn new_runtime() -> Result<Runtime, OutputError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OutputError::Runtime)
}
