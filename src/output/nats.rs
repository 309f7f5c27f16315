//! The NATS output publishes to a server with JetStream. A message is one record, or contains the
//! records of a slot; the output keeps it until the server acknowledges it.
//!
//! While the server is unreachable, records wait in the queue, up to
//! [`Output::buffer`](super::Output::buffer) bytes, or in the spool on a disk. As in every
//! output, records that do not fit are dropped and reported.
//!
//! A message without an acknowledgement is sent again with the same `Nats-Msg-Id`, so the stream
//! at the server stores it only once, if the duplicate window of the stream is long enough (two
//! minutes by default). The administrator creates this stream, and sets its subjects, limits and
//! storage. With [`NatsOptions::create`], the output creates a stream if there is none.
//!
//! If the server sends more bytes than a correct server would, or the client stops, the output
//! replaces the client (`nats_guard`) without dropping a record.
//!
//! | module | contents |
//! |---|---|
//! | `connection` | the client and its connection |
//! | `message` | the messages: subjects, ids, sizes |
//! | `publisher` | publishes the messages of the queue until the server has acknowledged them |
//! | `remote_stream` | finds or creates the stream at the server |
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

/// Level of zstd for payloads: the fastest one that compresses records to about one tenth.
const LEVEL: i32 = 1;

/// The output to a server.
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
    /// Prepares the connection and opens the spool. An unreachable server is not an error,
    /// because the client retries.
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

    /// Publishes until all outlets are dropped and every record is acknowledged, or until the
    /// drain time of a stop ends.
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
            // The tasks of the client end with their runtime, which frees their memory.
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
                // The old client has ended, so the loop tries to replace it again.
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
