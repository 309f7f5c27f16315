//! The socket output: a Unix or TCP socket. Each program that connects is a *reader*, and receives
//! its own stream.
//!
//! A reader first receives the `start` records, and then all records from the next slot on. A slow
//! reader loses records, and its stream reports their number. Other readers are not affected. If a
//! reader does not accept a batch within [`WRITE_TIMEOUT`], the output disconnects it, so that
//! another reader can connect. The output reads no data from readers.
//!
//! Every user who can connect can read the records. A Unix socket has mode 0660. Every user of the
//! host can connect to a TCP socket. On an address other than loopback, users of other hosts can
//! also connect.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::error::OutputError;
use super::options::{Address, Kind, ListenOptions};
use super::queue::{Inbox, Message, Queue, Stopper, queue};
use super::stream::Stream;

/// Time in which a reader must accept a batch.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// Pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Number of connections that wait to be accepted.
const BACKLOG: u32 = 16;

/// Mode of a Unix socket: its user and group may connect.
const MODE: u32 = 0o660;

/// An open socket.
#[derive(Debug)]
pub(super) struct SocketOutput {
    runtime: Runtime,
    socket: Socket,
    options: ListenOptions,
    /// Largest number of octets that wait for each reader.
    buffer: u64,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, #[expect(dead_code, reason = "the drop removes the file")] SocketFile),
    Tcp(TcpListener),
}

/// The file of a Unix socket, which is removed on drop.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

/// All connected readers.
struct Readers {
    name: String,
    most: usize,
    buffer: u64,
    /// `start` records for the next reader.
    stream: Stream,
    /// Number of the next reader, from 0.
    next: u32,
    queues: Vec<Queue>,
    tasks: JoinSet<()>,
    /// Whether the limit of readers was reached and logged.
    is_crowded: bool,
}

impl SocketOutput {
    /// Opens the socket. `buffer` is the limit in octets for all readers together.
    pub(super) fn open(options: &ListenOptions, buffer: u64) -> Result<Self, OutputError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(OutputError::Runtime)?;
        let failed = |source| OutputError::Listen { address: options.address.clone(), source };
        let guard = runtime.enter();
        let socket = match &options.address {
            Address::Tcp(address) => Socket::Tcp(listen_tcp(*address).map_err(failed)?),
            Address::Unix(path) => {
                remove_unused(path)?;
                let (listener, file) = listen_unix(path).map_err(failed)?;
                Socket::Unix(listener, file)
            }
        };
        drop(guard);
        if let Address::Tcp(address) = options.address
            && !address.ip().is_loopback()
        {
            tracing::warn!(%address, "every host that can reach this address can read the records");
        }
        Ok(Self { runtime, socket, options: options.clone(), buffer: buffer / options.readers.max(1) as u64 })
    }

    /// Serves readers until all outlets are dropped and every reader has its records, or until the
    /// drain time of a stop ends. Returns the number of records that connected readers did not
    /// receive.
    pub(super) fn run(self, inbox: Inbox) -> u64 {
        let Self { runtime, socket, options, buffer } = self;
        let readers = Readers {
            name: options.address.to_string(),
            most: options.readers,
            buffer,
            stream: Stream::default(),
            next: 0,
            queues: Vec::new(),
            tasks: JoinSet::new(),
            is_crowded: false,
        };
        runtime.block_on(readers.serve(inbox, &socket))
    }
}

impl Readers {
    async fn serve(mut self, mut inbox: Inbox, socket: &Socket) -> u64 {
        let stopper = inbox.stopper();
        loop {
            tokio::select! {
                message = inbox.next() => match message {
                    Some(message) => {
                        self.hand_over(&message);
                        inbox.settle(&message, 0);
                    }
                    None => break,
                },
                reader = socket.accept() => match reader {
                    Ok(reader) => self.accept(reader),
                    Err(error) => {
                        tracing::warn!(output = ?self.name, %error, "cannot accept a reader");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = self.tasks.join_next() => self.is_crowded = false,
            }
        }
        let readers: Vec<Stopper> = self.queues.iter().filter(|queue| !queue.is_closed()).map(Queue::stopper).collect();
        // The task of a reader ends when its queue is empty and closed.
        self.queues.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = stopper.abandoned() => {}
        }
        readers.iter().map(Stopper::unwritten).fold(0, u64::saturating_add)
    }

    /// Hands a message to every reader without waiting.
    fn hand_over(&mut self, message: &Message) {
        self.stream.note(message);
        self.queues.retain(|queue| !queue.is_closed());
        for queue in &self.queues {
            match message {
                Message::Lines(source, batch, dropped) => {
                    queue.add_dropped(*dropped);
                    queue.offer(*source, batch);
                }
                Message::Start(..) | Message::Gone(_) | Message::End => queue.put(message.clone()),
            }
        }
    }

    fn accept(&mut self, reader: impl AsyncWrite + Unpin + Send + 'static) {
        if self.tasks.len() >= self.most {
            if !std::mem::replace(&mut self.is_crowded, true) {
                tracing::warn!(output = ?self.name, readers = self.most, "too many readers, rejecting others");
            }
            return;
        }
        let name = format!("reader {} of {}", self.next, self.name);
        tracing::debug!(%name, "reader connected");
        let (queue, mut inbox) = queue(&name, Kind::Socket, self.buffer);
        let stream = self.stream.another(self.next);
        self.next = self.next.saturating_add(1);
        self.queues.push(queue);
        self.tasks.spawn(async move {
            match serve_one(reader, stream, &mut inbox).await {
                Ok(()) => tracing::debug!(%name, "reader received all records"),
                Err(error) => {
                    tracing::debug!(%name, %error, "reader disconnected");
                    inbox.forget();
                }
            }
        });
    }
}

/// Writes to a reader until it disconnects or its queue is closed and empty.
async fn serve_one(mut reader: impl AsyncWrite + Unpin, mut stream: Stream, inbox: &mut Inbox) -> io::Result<()> {
    let mut write = async |text: &[u8]| tokio::time::timeout(WRITE_TIMEOUT, reader.write_all(text)).await?;
    write(stream.head()).await?;
    stream.wrote(usize::MAX);
    while let Some(message) = inbox.next().await {
        write(stream.take(&message)).await?;
        stream.wrote(usize::MAX);
        inbox.settle(&message, stream.unreported());
    }
    Ok(())
}

/// A connection of either kind.
type Connection = Box<dyn AsyncWrite + Unpin + Send>;

impl Socket {
    async fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without this option a restart fails while connections of the previous process are in
    // TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Opens a Unix socket. No reader can connect before its mode is set.
fn listen_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) };
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes the socket of a killed program. Other files and symbolic links are not touched and give
/// an error.
fn remove_unused(path: &Path) -> Result<(), OutputError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_unused = metadata.file_type().is_socket()
        && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !is_unused {
        return Err(OutputError::Taken { path: path.to_owned() });
    }
    fs::remove_file(path).map_err(|source| OutputError::Listen { address: Address::Unix(path.to_owned()), source })
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file is removed only if it is still the same: another program may have replaced it.
        if fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
