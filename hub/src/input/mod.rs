//! The inputs, from which records come. Each input has its own thread, which sends whole lines to
//! the thread that parses them. The queue between them is short: if the hub is too slow, the output
//! of the sampler drops records and counts them.
//!
//! | module | contents |
//! |---|---|
//! | [`lines`] | splits a byte stream into batches of whole lines |
//! | [`socket`] | TCP and Unix sockets of samplers, with reconnection |
//! | [`file`], [`compressed`] | files that samplers append to, across rotation |
//! | [`positions`] | how far files were read |

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet_record::types::ParseError;

mod compressed;
pub(crate) mod file;
pub(crate) mod lines;
#[cfg(feature = "nats")]
pub(crate) mod nats;
pub(crate) mod positions;
pub(crate) mod socket;

use self::lines::Splitter;
use self::positions::Positions;
use crate::archive::spool::Spool;
use crate::threads::Threads;

/// Number of batches that wait to be parsed.
const QUEUE: usize = 64;

/// Bytes that are read at once.
pub(crate) const READ: usize = 128 << 10;

/// Where records come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// The TCP socket of a sampler: host and port.
    Tcp(String),
    /// The Unix socket of a sampler.
    Unix(PathBuf),
    /// Files by name or pattern.
    File(String),
    /// Standard input.
    Stdin,
    /// A NATS server.
    Nats(NatsInput),
}

/// A subject at a NATS server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NatsInput {
    /// `nats://host:port` or `tls://host:port`.
    pub(crate) server: String,
    pub(crate) subject: String,
    /// Name of a JetStream stream. `None` for core NATS, which stores no messages.
    pub(crate) stream: Option<String>,
}

/// A report of an input.
#[derive(Debug)]
pub(crate) struct Message {
    /// Index of the input.
    pub(crate) input: usize,
    /// Clock of the hub in nanoseconds since 1970 when lines arrived. `None` for lines that were
    /// written earlier, whose times do not show whether the clock of their sampler is right.
    pub(crate) live_ns: Option<u64>,
    pub(crate) what: What,
}

/// Content of a report.
#[derive(Debug)]
pub(crate) enum What {
    /// Whole lines.
    Lines(Vec<u8>),
    /// A line was too long and was skipped.
    TooLong,
    /// The input was opened.
    Connected,
    /// The open input was lost, for this reason. Another attempt follows.
    Lost(String),
    /// An attempt to open the input failed. Another attempt follows.
    Failed(String),
    /// The server refused something for this reason. The input stays open.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "only NATS refuses"))]
    Refused(String),
    /// The input has ended.
    Ended,
    /// All files were read to these positions, and all lines before them were sent.
    Read(Positions),
}

/// Sends the reports of one input.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    input: usize,
    to: SyncSender<Message>,
    is_live: bool,
    /// Gets a copy of all lines before they are sent.
    spool: Option<Arc<Spool>>,
}

/// The receiver has ended, because the hub stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stopped;

impl Sender {
    /// Lets the spool of an archive get a copy of all lines.
    pub(crate) fn with_spool(self, spool: Arc<Spool>) -> Self {
        Self {
            spool: Some(spool),
            ..self
        }
    }

    /// Returns a sender for lines that were written earlier.
    pub(crate) fn of_recording(&self) -> Self {
        Self {
            is_live: false,
            ..self.clone()
        }
    }

    /// Sends a report. Waits while the queue is full.
    pub(crate) fn send(&self, what: What) -> Result<(), Stopped> {
        if let (Some(spool), What::Lines(lines)) = (&self.spool, &what) {
            spool.offer(lines);
        }
        let live_ns = self.is_live.then(wall_ns);
        self.to
            .send(Message {
                input: self.input,
                live_ns,
                what,
            })
            .map_err(|_| Stopped)
    }
}

/// Settings of all inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Files and streams are read from this long before the start of the hub.
    pub(crate) recent: Duration,
}

/// Creates the queue of all inputs. Returns one sender for each of `count` inputs.
pub(crate) fn queue(count: usize) -> (Vec<Sender>, Receiver<Message>) {
    let (to, receiver) = sync_channel(QUEUE);
    (
        (0..count)
            .map(|input| Sender {
                input,
                to: to.clone(),
                is_live: true,
                spool: None,
            })
            .collect(),
        receiver,
    )
}

/// Starts the thread of an input.
///
/// # Errors
/// Returns the error of the operating system.
pub(crate) fn start(
    input: Input,
    sender: Sender,
    options: Options,
    threads: &Threads,
) -> io::Result<()> {
    let name = format!("input-{}", sender.input);
    let work = move || {
        // The thread ends when the hub stops.
        let _ = match input {
            Input::Tcp(address) => socket::read_tcp(&address, &sender),
            Input::Unix(path) => socket::read_unix(&path, &sender),
            Input::File(pattern) => file::follow(&pattern, file::recent(options.recent), &sender),
            Input::Stdin => read_stdin(&sender),
            #[cfg(feature = "nats")]
            Input::Nats(input) => nats::read(&input, options.recent, &sender),
            #[cfg(not(feature = "nats"))]
            Input::Nats(_) => sender.send(What::Failed(
                "this program was built without NATS".to_owned(),
            )),
        };
    };
    threads.start(&name, work)
}

/// Returns the clock of the hub in nanoseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the clocks of samplers are compared with that of the hub"
)]
pub(crate) fn wall_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

fn read_stdin(sender: &Sender) -> Result<(), Stopped> {
    // Standard input is either a pipe from a sampler or a recording.
    let sender = &sender.of_recording();
    sender.send(What::Connected)?;
    let mut splitter = Splitter::default();
    let end = lines::read_all(&mut io::stdin().lock(), &mut splitter, sender)?;
    if let Err(error) = end {
        sender.send(What::Lost(error.to_string()))?;
    }
    splitter.finish(sender)?;
    sender.send(What::Ended)
}

impl Input {
    /// Returns whether the input keeps its lines, so that a reader which starts later gets all
    /// of them.
    pub(crate) const fn keeps_lines(&self) -> bool {
        matches!(
            self,
            Self::File(_)
                | Self::Nats(NatsInput {
                    stream: Some(_),
                    ..
                })
        )
    }
}

impl FromStr for Input {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str =
            "an input: tcp://host:port, unix:///path, file:PATTERN, nats://host:port/subject, or -";
        let wrong = || ParseError::new(text, EXPECTED);
        if text == "-" {
            return Ok(Self::Stdin);
        }
        if let Some(address) = text.strip_prefix("tcp://") {
            let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
            let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
            return if !host.is_empty() && is_port {
                Ok(Self::Tcp(address.to_owned()))
            } else {
                Err(wrong())
            };
        }
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(wrong())
            };
        }
        if let Some(pattern) = text.strip_prefix("file:") {
            let pattern = pattern.strip_prefix("//").unwrap_or(pattern);
            return if pattern.is_empty() {
                Err(wrong())
            } else {
                Ok(Self::File(pattern.to_owned()))
            };
        }
        for scheme in ["nats://", "tls://"] {
            let Some(rest) = text.strip_prefix(scheme) else {
                continue;
            };
            let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
            let (subject, stream) = path
                .split_once("?stream=")
                .map_or((path, None), |(subject, stream)| (subject, Some(stream)));
            let subject = if subject.is_empty() {
                "ibnet.>"
            } else {
                subject
            };
            let is_word = |word: &str| {
                !word.is_empty()
                    && word
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b'?')
            };
            if server.is_empty() || !is_word(subject) || !stream.is_none_or(is_word) {
                return Err(wrong());
            }
            return Ok(Self::Nats(NatsInput {
                server: format!("{scheme}{server}"),
                subject: subject.to_owned(),
                stream: stream.map(str::to_owned),
            }));
        }
        Err(wrong())
    }
}

impl fmt::Display for Input {
    /// Writes the URL without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::File(pattern) => write!(f, "file:{pattern}"),
            Self::Stdin => f.write_str("-"),
            Self::Nats(NatsInput {
                server,
                subject,
                stream,
            }) => {
                let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                write!(f, "{scheme}://{host}/{subject}")?;
                stream
                    .as_ref()
                    .map_or(Ok(()), |stream| write!(f, "?stream={stream}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for text in [
            "-",
            "tcp://host:9000",
            "tcp://[::1]:9000",
            "unix:///run/ibnet/a.sock",
            "file:lines*.jsonl",
            "nats://host:4222/ibnet.stria.>",
            "tls://host/x.y?stream=IBNET",
        ] {
            assert_eq!(
                text.parse::<Input>().map(|input| input.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(
            "nats://host:4222"
                .parse::<Input>()
                .map(|input| input.to_string()),
            Ok("nats://host:4222/ibnet.>".to_owned())
        );
        for text in [
            "",
            "x",
            "tcp://host",
            "tcp://:1",
            "tcp://host:0",
            "tcp://host:70000",
            "unix://run",
            "file:",
            "nats://",
            "nats:///a",
            "http://host/",
        ] {
            assert!(text.parse::<Input>().is_err(), "{text}");
        }
    }

    #[test]
    fn password_is_not_shown() {
        let input: Input = "nats://user:secret@host:4222/a".parse().expect("a URL");
        assert_eq!(input.to_string(), "nats://host:4222/a");
    }
}
