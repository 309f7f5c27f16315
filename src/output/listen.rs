//! A socket that readers connect to, on this host or by TCP: each has a stream of its own.
//!
//! A reader gets the `start` lines first, then every slot from the next one on. One that is slow loses lines, which its own stream tells of; the others do
//! not notice. One that does not take a slot's lines within [`PATIENCE`] is let go, so that its place is free. What readers send is not looked at.
//!
//! Who can connect can read: a Unix socket has mode 0660, a TCP socket is for every user of the host at least.

use std::fmt;
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

use super::queue::{Inbox, Message, Queue, queue};
use super::stream::Stream;
use super::{Ended, SinkError};

/// How readers are listened for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenOptions {
    /// Where.
    pub address: Address,
    /// How many there may be at once.
    pub readers: usize,
}

/// Where readers connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// An address and port.
    Tcp(SocketAddr),
}

/// A reader has so long to take the lines of a slot.
const PATIENCE: Duration = Duration::from_secs(300);

/// In a hurry readers have so long to take what waits for them.
const LAST_LINES: Duration = Duration::from_millis(300);

/// After a reader that could not be let in.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that wait to be let in.
const BACKLOG: u32 = 16;

/// Who may connect to a Unix socket: its user and group.
const MODE: u32 = 0o660;

/// A socket that is open.
#[derive(Debug)]
pub(super) struct Listening {
    runtime: Runtime,
    socket: Socket,
    options: ListenOptions,
    /// Octets that may wait for each reader.
    buffer: u64,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, #[expect(dead_code, reason = "is removed when it is dropped")] SocketFile),
    Tcp(TcpListener),
}

/// The file of a Unix socket; removed in the end.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

/// Everybody who reads.
struct Readers {
    name: String,
    most: usize,
    buffer: u64,
    /// What the next one is told first.
    stream: Stream,
    /// Their numbers, from 0.
    next: u64,
    queues: Vec<Queue>,
    tasks: JoinSet<()>,
    /// Whether the log was told that there are too many.
    crowded: bool,
}

impl Listening {
    /// Listens from now on. What waits for readers is bounded for all of them together.
    pub(super) fn open(options: &ListenOptions, buffer: u64) -> Result<Self, SinkError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SinkError::Runtime)?;
        let failed = |source| SinkError::Listen { address: options.address.clone(), source };
        let guard = runtime.enter();
        let socket = match &options.address {
            Address::Tcp(address) => Socket::Tcp(listen_tcp(*address).map_err(failed)?),
            Address::Unix(path) => {
                make_room(path)?;
                let (listener, file) = listen_unix(path).map_err(failed)?;
                Socket::Unix(listener, file)
            }
        };
        drop(guard);
        if let Address::Tcp(address) = options.address
            && !address.ip().is_loopback()
        {
            tracing::warn!(%address, "whoever reaches this address can read the records: nothing is encrypted and nobody is asked for a name");
        }
        Ok(Self { runtime, socket, options: options.clone(), buffer: buffer / options.readers.max(1) as u64 })
    }

    /// Serves readers until all outlets are dropped.
    pub(super) fn run(self, inbox: Inbox) -> Ended {
        let Self { runtime, socket, options, buffer } = self;
        let readers = Readers {
            name: options.address.to_string(),
            most: options.readers,
            buffer,
            stream: Stream::default(),
            next: 0,
            queues: Vec::new(),
            tasks: JoinSet::new(),
            crowded: false,
        };
        runtime.block_on(readers.serve(inbox, &socket));
        Ended::Complete
    }
}

impl Readers {
    async fn serve(mut self, mut inbox: Inbox, socket: &Socket) {
        loop {
            tokio::select! {
                message = inbox.next() => match message {
                    Some(message) => self.tell(&message),
                    None => break,
                },
                reader = socket.accept() => match reader {
                    Ok(reader) => self.let_in(reader),
                    Err(error) => {
                        tracing::warn!(to = %self.name, %error, "a reader could not be let in");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = self.tasks.join_next() => self.crowded = false,
            }
        }
        // Readers end when nothing more can come.
        self.queues.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = inbox.ending().patience(LAST_LINES) => tracing::info!(to = %self.name, "some readers did not take the last lines"),
        }
    }

    /// Hands a message to every reader; none of them is waited for.
    fn tell(&mut self, message: &Message) {
        // The starts are remembered for those who come later.
        self.stream.note(message);
        self.queues.retain(|queue| !queue.is_closed());
        for queue in &self.queues {
            match message {
                Message::Lines(way, batch, lost) => {
                    queue.lose(*lost);
                    queue.offer(*way, batch);
                }
                Message::Start(..) | Message::Gone(_) => queue.put(message.clone()),
            }
        }
    }

    fn let_in(&mut self, reader: impl AsyncWrite + Unpin + Send + 'static) {
        if self.tasks.len() >= self.most {
            if !std::mem::replace(&mut self.crowded, true) {
                tracing::warn!(to = %self.name, readers = self.most, "too many readers; others are turned away");
            }
            return;
        }
        let name = format!("reader {} of {}", self.next, self.name);
        tracing::debug!("{name} came");
        let (queue, inbox) = queue(&name, self.buffer);
        let stream = self.stream.another(self.next);
        self.next += 1;
        self.queues.push(queue);
        self.tasks.spawn(async move {
            match serve_one(reader, stream, inbox).await {
                Ok(()) => tracing::debug!("{name} was told all"),
                Err(error) => tracing::debug!(%error, "{name} went away"),
            }
        });
    }
}

/// Writes to one reader until it goes away or nothing more can come.
async fn serve_one(mut reader: impl AsyncWrite + Unpin, mut stream: Stream, mut inbox: Inbox) -> io::Result<()> {
    let mut write = async |text: &[u8]| tokio::time::timeout(PATIENCE, reader.write_all(text)).await?;
    write(stream.head()).await?;
    stream.wrote(usize::MAX);
    while let Some(message) = inbox.next().await {
        write(stream.take(&message)).await?;
        stream.wrote(usize::MAX);
    }
    Ok(())
}

/// Either kind of connection.
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
    // Else a restart would have to wait until the last connections are forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Nobody can connect before the mode is set.
fn listen_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), id: (metadata.dev(), metadata.ino()) };
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes the socket that a program left behind which was killed; nothing else, and no link is followed.
fn make_room(path: &Path) -> Result<(), SinkError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let is_stale = metadata.file_type().is_socket()
        && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !is_stale {
        return Err(SinkError::Taken { path: path.to_owned() });
    }
    fs::remove_file(path).map_err(|source| SinkError::Listen { address: Address::Unix(path.to_owned()), source })
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another may have its name by now.
        if fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Address {
    /// How to make it work.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::Unix(_) => {
                "its folder must be there, and this user be able to write to it; at most 107 octets are allowed; `path` of this [[output]] says where"
            }
            Self::Tcp(_) => "is the port taken (`ss -ltn`), and is the address one of this host? `listen` of this [[output]] says where",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}
