//! Where the records go: standard output, files, readers that come over a socket, a NATS server; any number of them.
//!
//! The sweep hands over whole lines and never waits: before every sink is a queue of its own ([`Output::buffer`] octets), and behind it a thread of its own.
//! What does not fit into a queue, or cannot be written, is lost for that sink alone, **counted and told** in the lines that it gets next: in the
//! `lines_lost` event before them, and in their `sweep` record. So each stream says of itself what is missing in it; a sink that blocks, or is full or dead,
//! costs neither the sweep nor the others anything.
//!
//! - [`FileOptions`]: appended to, rotated by a rename.
//! - [`ListenOptions`]: a Unix or TCP socket that readers connect to.
//! - [`NatsOptions`]: a server, each line acknowledged.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use miette::Diagnostic;

use self::file::FileSink;
use self::listen::Listening;
#[cfg(feature = "nats")]
use self::nats::NatsSink;
use self::queue::{Inbox, Queue, queue};
use self::stream::Stream;

mod batch;
mod closed;
mod file;
mod listen;
#[cfg(feature = "nats")]
mod nats;
mod queue;
mod stream;
mod subject;

pub use batch::{Batch, Blank, Start, place};
pub use file::FileOptions;
pub use listen::{Address, ListenOptions};
pub use queue::{Hurry, Outlet};
pub use subject::NatsOptions;

/// Octets of lines that wait for a sink, if nothing else is said.
pub const BUFFER: u64 = 64 << 20;

/// A place where records go, and what may wait for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Where.
    pub to: Destination,
    /// Octets of lines that wait for it at most.
    pub buffer: u64,
}

/// Where records go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file, appended to.
    File(FileOptions),
    /// Whoever connects to a socket.
    Listen(ListenOptions),
    /// A NATS server.
    Nats(NatsOptions),
}

/// Why records cannot be written at all.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum SinkError {
    /// A file.
    #[error("{}: cannot be opened for writing", path.display())]
    #[diagnostic(help("give another file with -o FILE, or `-o -` for standard output"))]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A socket.
    #[error("{address}: readers cannot be listened for there")]
    #[diagnostic(help("{}", address.remedy()))]
    Listen {
        /// Where.
        address: Address,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// What is to become a socket is something else.
    #[error("{}: is there already, and is no socket that nobody listens at", path.display())]
    #[diagnostic(help("another ibnet-sweep may listen there; else remove it, or give another path with `path` of this [[output]]"))]
    Taken {
        /// Its path.
        path: PathBuf,
    },
    /// A file that the way to a NATS server needs.
    #[error("{}: cannot be used for the NATS server {server}", path.display())]
    #[diagnostic(help("see `credentials`, `ca_file`, `cert_file` and `key_file` of this [[output]]; this user must be able to read them"))]
    NatsFile {
        /// The file.
        path: PathBuf,
        /// The server.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The address of a NATS server.
    #[error("{server}: no NATS server can be reached at such an address")]
    #[diagnostic(help("`server` of this [[output]] is like nats://host:4222, or tls://host:4222"))]
    NatsServer {
        /// As it was given, without a password.
        server: String,
    },
    /// The feature `nats` is not built in.
    #[error("this ibnet-sweep was built without NATS")]
    #[diagnostic(help("build it with the feature `nats` (one of the defaults), or leave out this [[output]]"))]
    NoNats,
    /// No thread, or no way to wait for sockets.
    #[error("what waits for sockets could not be started")]
    Runtime(#[source] io::Error),
}

/// The end of a queue that writes what is in it.
#[derive(Debug)]
pub struct Writer {
    inbox: Inbox,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout(File),
    File(Box<FileSink>),
    Listen(Box<Listening>),
    #[cfg(feature = "nats")]
    Nats(Box<NatsSink>),
}

/// How a writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All was written, or told of as lost in what was.
    Complete,
    /// The last of these lines could not be written, so no line tells of them.
    Untold {
        /// How many.
        lines: u64,
    },
    /// Nobody reads standard output any more: a quiet end.
    ReaderGone,
}

/// Lines in memory, at most as many octets as [`BUFFER`].
#[derive(Debug)]
pub struct Lines(std::sync::Mutex<(Inbox, Stream)>);

impl Lines {
    /// All that was handed over since this was asked last.
    pub fn text(&self) -> String {
        let mut guard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (inbox, stream) = &mut *guard;
        let mut bytes = Vec::new();
        while let Some(message) = inbox.ready() {
            bytes.extend_from_slice(stream.take(&message));
            stream.wrote(usize::MAX);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Opens all of them: one outlet for whoever has lines, and what writes them, each for a thread of its own.
///
/// # Errors
/// When one cannot be opened.
pub fn open(outputs: &[Output]) -> Result<(Outlet, Vec<Writer>), SinkError> {
    let opened: Vec<(Queue, Writer)> = outputs.iter().map(Output::open).collect::<Result<_, _>>()?;
    let (queues, writers) = opened.into_iter().unzip();
    Ok((Outlet::new(queues), writers))
}

impl Output {
    fn open(&self) -> Result<(Queue, Writer), SinkError> {
        let sink = match &self.to {
            // Not through the buffer of `io::stdout`: it would hide how much was written.
            Destination::Stdout => match io::stdout().as_fd().try_clone_to_owned() {
                Ok(stdout) => Sink::Stdout(stdout.into()),
                Err(source) => return Err(SinkError::File { path: "/dev/stdout".into(), source }),
            },
            Destination::File(options) => {
                let sink = FileSink::open(options.clone()).map_err(|source| SinkError::File { path: options.path.clone(), source })?;
                Sink::File(Box::new(sink))
            }
            Destination::Listen(options) => Sink::Listen(Box::new(Listening::open(options, self.buffer)?)),
            #[cfg(feature = "nats")]
            Destination::Nats(options) => Sink::Nats(Box::new(NatsSink::open(options)?)),
            #[cfg(not(feature = "nats"))]
            Destination::Nats(_) => return Err(SinkError::NoNats),
        };
        let (queue, inbox) = queue(&self.to, self.buffer);
        Ok((queue, Writer { inbox, sink }))
    }
}

impl From<Destination> for Output {
    fn from(to: Destination) -> Self {
        Self { to, buffer: BUFFER }
    }
}

impl Destination {
    /// `-` is standard output, and so is a text that says nothing.
    pub fn parse(text: &str) -> Self {
        let file = || Self::File(FileOptions { path: text.into(), ..FileOptions::default() });
        if ["-", ""].contains(&text) { Self::Stdout } else { file() }
    }

    /// An outlet whose lines stay in memory.
    pub fn memory() -> (Outlet, Lines) {
        let (queue, inbox) = queue(&"memory", BUFFER);
        (Outlet::new(vec![queue]), Lines((inbox, Stream::default()).into()))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(options) => options.path.display().fmt(f),
            Self::Listen(options) => options.address.fmt(f),
            Self::Nats(options) => options.shown_server().fmt(f),
        }
    }
}

impl Writer {
    /// A way to tell it, while it runs, that nobody waits for it any more.
    pub fn hurry(&self) -> Hurry {
        self.inbox.hurry()
    }

    /// Writes until all outlets are dropped or nobody reads any more.
    pub fn run(self) -> Ended {
        match self.sink {
            Sink::Stdout(stdout) => write_stdout(stdout, self.inbox),
            Sink::File(file) => file.run(self.inbox),
            Sink::Listen(listening) => listening.run(self.inbox),
            #[cfg(feature = "nats")]
            Sink::Nats(nats) => nats.run(self.inbox),
        }
    }
}

impl Ended {
    /// Of lines that were lost and that no line tells of.
    fn of(lines: u64) -> Self {
        if lines == 0 { Self::Complete } else { Self::Untold { lines } }
    }
}

fn write_stdout(mut stdout: File, mut inbox: Inbox) -> Ended {
    let (mut stream, mut failing) = (Stream::default(), false);
    while let Some(message) = inbox.wait() {
        let text = stream.take(&message);
        if text.is_empty() {
            continue;
        }
        let (written, result) = write_counted(&mut stdout, text);
        match result {
            Ok(()) => {
                if std::mem::take(&mut failing) {
                    tracing::info!(to = "standard output", "writing again");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ended::ReaderGone,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(to = "standard output", %error, "cannot write; lines are lost, and counted");
                }
            }
        }
        stream.wrote(written);
    }
    Ended::of(stream.untold() + inbox.untold())
}

/// Writes all of a text, or tells how many octets of it were written before the error.
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
