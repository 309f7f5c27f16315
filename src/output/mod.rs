//! Outputs, the destinations of the records: standard output, a file, a socket with readers, or a
//! NATS server.
//!
//! For each slot, the driver (`sweep::driver`) hands its records to the outputs as one *batch*,
//! and never waits for an output. Each output has its own thread, and a queue of
//! [`Output::buffer`] bytes. If an output is slow, full or unreachable, its queue fills up, and
//! this output alone *drops* the records that do not fit.
//!
//! An output reports the number of dropped records in its own stream: in a `lines_lost` event
//! before the next records, and in the next `sweep` record. When the program stops,
//! [`Running::finish`] reports how many records were not written.
//!
//! | module | contents |
//! |---|---|
//! | [`options`] | settings of an output |
//! | [`finish`] | the threads of the outputs, and their results at a stop |
//! | `batch`, `queue` | hand the records from the driver to the outputs |
//! | `stream` | the text of one file or connection: `start` records, then whole lines |
//! | `backlog` | the records that the readers of a socket share |
//! | `fifo` | waits for the reader of a FIFO before the output ends |
//! | [`frames`] | reads the zstd frames of a damaged file |
//! | `fullness` | logs that a buffer is full |
//! | `lock` | the lock of a file |
//! | `notices` | events about the outputs themselves |
//! | `payload` | compressed and plain payloads of NATS messages |
//! | `secret` | reads the file with the password of a server |
//! | `test` | tests an output before a sweep |
//! | `stdout`, `file`, `archive`, `socket`, `nats`, `subject` | the outputs |

use std::io::{self, Write};
use std::sync::Arc;

use self::file::FileOutput;
#[cfg(feature = "nats")]
use self::nats::NatsOutput;
use self::notices::Notices;
use self::queue::{Inbox, Queue, Stopper, queue};
use self::socket::SocketOutput;
use self::stdout::StdoutOutput;
use self::stream::Stream;

mod archive;
mod backlog;
mod batch;
#[cfg(feature = "nats")]
pub mod durable;
mod error;
mod fifo;
mod file;
pub mod finish;
pub mod frames;
mod fullness;
mod lock;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_guard;
mod notices;
pub mod options;
mod payload;
mod queue;
mod result;
mod retention;
#[cfg(feature = "nats")]
mod secret;
mod socket;
mod stdout;
mod stream;
#[cfg(feature = "nats")]
mod subject;
mod test;

pub use batch::Batch;
pub use error::OutputError;
pub use finish::{DRAIN, Running};
#[cfg(feature = "nats")]
pub use nats::connect as connect_nats;
#[cfg(feature = "nats")]
pub(crate) use nats_guard::oversized_frame;
pub use options::{
    Address, BUFFER, Batching, Destination, FileOptions, Kind, ListenOptions, NatsOptions, Output,
    SpoolOptions,
};
pub use payload::payload_text;
pub use queue::Outlet;
pub use result::{End, Finished};
pub use test::Tested;

/// An open output, with the receiving half of its queue.
#[derive(Debug)]
pub struct Writer {
    inbox: Inbox,
    name: String,
    kind: Kind,
    open: Open,
}

#[derive(Debug)]
enum Open {
    Stdout(StdoutOutput),
    File(Box<FileOutput>),
    Socket(Box<SocketOutput>),
    #[cfg(feature = "nats")]
    Nats(Box<NatsOutput>),
}

/// The records of an output in memory ([`Destination::memory`]).
#[derive(Debug)]
pub struct Lines(std::sync::Mutex<(Inbox, Stream)>);

impl Lines {
    /// Returns the records that were added since the last call.
    pub fn text(&self) -> String {
        let mut guard = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (inbox, stream) = &mut *guard;
        let mut bytes = Vec::new();
        while let Some(message) = inbox.ready() {
            bytes.extend_from_slice(stream.take(&message));
            stream.wrote(usize::MAX);
            inbox.settle(&message, stream.unreported());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Opens all outputs. Returns the outlet, which sends to their queues, and one writer per output.
///
/// # Errors
/// Returns an error if an output cannot be opened, or if standard output is closed.
pub fn open(outputs: &[Output]) -> Result<(Outlet, Vec<Writer>), OutputError> {
    let notices = Arc::<Notices>::default();
    let opened: Vec<(Queue, Writer)> = outputs
        .iter()
        .map(|output| output.open(&notices))
        .collect::<Result<_, _>>()?;
    let (queues, writers) = opened.into_iter().unzip();
    Ok((Outlet::new(queues, notices), writers))
}

impl Output {
    fn open(&self, notices: &Arc<Notices>) -> Result<(Queue, Writer), OutputError> {
        let open = match &self.to {
            Destination::Stdout => Open::Stdout(StdoutOutput::open()?),
            Destination::File(options) => {
                let file = FileOutput::open(options.clone())
                    .map_err(|source| OutputError::of_file(&options.path, source))?;
                Open::File(Box::new(file))
            }
            Destination::Listen(options) => Open::Socket(Box::new(SocketOutput::open(
                options,
                self.buffer,
                Arc::clone(notices),
            )?)),
            #[cfg(feature = "nats")]
            Destination::Nats(options) => Open::Nats(Box::new(NatsOutput::open(options)?)),
            #[cfg(not(feature = "nats"))]
            Destination::Nats(_) => return Err(OutputError::NoNats),
        };
        let (name, kind) = (self.to.to_string(), self.kind());
        let (queue, inbox) = queue(&name, kind, self.buffer);
        Ok((
            queue,
            Writer {
                inbox,
                name,
                kind,
                open,
            },
        ))
    }
}

impl Destination {
    /// Creates an outlet that keeps at most [`BUFFER`] bytes of records in memory, and returns it
    /// with these records.
    pub fn memory() -> (Outlet, Lines) {
        Self::memory_of(BUFFER)
    }

    /// Creates an outlet that keeps at most `most` bytes of records in memory. Further records
    /// are dropped and counted.
    pub fn memory_of(most: u64) -> (Outlet, Lines) {
        let (queue, inbox) = queue(&"memory", Kind::File, most);
        (
            Outlet::new(vec![queue], Arc::default()),
            Lines((inbox, Stream::default()).into()),
        )
    }
}

impl Writer {
    /// Returns the name of the output: its path, its address or `standard output`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the output.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Writes records until all outlets are dropped, the output is ended, or the reader of
    /// standard output closes the pipe.
    pub fn run(self) -> Finished {
        let stopper = self.stopper();
        match self.open {
            Open::Stdout(stdout) => stopper.finished(stdout.run(self.inbox)),
            Open::File(file) => {
                file.run(self.inbox);
                stopper.finished(End::Complete)
            }
            Open::Socket(socket) => {
                let dropped = socket.run(self.inbox);
                let finished = stopper.finished(End::Complete);
                Finished {
                    dropped: finished.dropped.saturating_add(dropped),
                    ..finished
                }
            }
            #[cfg(feature = "nats")]
            Open::Nats(nats) => {
                nats.run(self.inbox);
                stopper.finished(End::Complete)
            }
        }
    }

    fn stopper(&self) -> Stopper {
        self.inbox.stopper()
    }
}

/// Writes a text. Returns the number of written bytes, and an error if some bytes were not written.
fn write_counted(to: &mut impl Write, text: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < text.len() {
        match to.write(&text[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(octets) => written += octets,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}
