//! The socket output: a Unix or TCP socket. Each program that connects is a *reader*, and
//! receives its own stream.
//!
//! A reader first receives the `start` records, and then all records from the next slot on. The
//! records that wait for the readers are in memory only once, in the [`Backlog`]. A slow reader
//! loses records without affecting the others, and its stream reports their number. If a reader
//! does not accept a piece of the records within [`WRITE_TIMEOUT`], the output disconnects it to
//! free its connection for another reader. The output reads no data from readers.
//!
//! If another program removes the file of a Unix socket, the output creates the file again with
//! the next slot.
//!
//! Every process that can connect can read the records. A Unix socket has mode 0660, so its user
//! and group can connect; a TCP socket accepts every user of the host and, unless its address is
//! loopback, also users of other hosts.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ibnet_record::EventName;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::backlog::{Backlog, PIECE};
use super::error::OutputError;
use super::notices::Notices;
use super::options::{Address, ListenOptions};
use super::queue::{Inbox, Message};
use super::stream::Stream;

/// Max time until a reader accepts a piece of the records.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// Max size of most records in bytes. A piece exceeds [`PIECE`] by a part of one record.
const LONGEST_RECORD: usize = 4 << 10;

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Max number of connections that wait to be accepted.
const BACKLOG: u32 = 16;

/// Mode of a Unix socket: its user and its group may connect.
const MODE: u32 = 0o660;

/// An open socket.
#[derive(Debug)]
pub(super) struct SocketOutput {
    runtime: Runtime,
    socket: Socket,
    options: ListenOptions,
    /// Max number of bytes that wait for the readers.
    buffer: u64,
    notices: Arc<Notices>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// The file of a Unix socket. Dropping this value removes the file.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    /// Whether the file is missing and cannot be created again, and the log has reported this.
    is_missing: bool,
}

/// All connected readers.
struct Readers {
    name: String,
    most: usize,
    backlog: Arc<Mutex<Backlog>>,
    /// Wakes the readers. Dropping it ends each reader as soon as it has all records.
    wake: watch::Sender<()>,
    /// `start` records for the next reader.
    stream: Stream,
    /// Sequence number of the next reader, from 0.
    next: u32,
    tasks: JoinSet<()>,
    /// Whether the max number of readers was reached, and the log has reported this.
    is_crowded: bool,
}

impl SocketOutput {
    /// Opens the socket. `buffer` is the limit in bytes for all readers together.
    pub(super) fn open(
        options: &ListenOptions,
        buffer: u64,
        notices: Arc<Notices>,
    ) -> Result<Self, OutputError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(OutputError::Runtime)?;
        let failed = |source| OutputError::Listen {
            address: options.address.clone(),
            source,
        };
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
            tracing::warn!(%address, "the records are not protected: every host that can reach this address can read them");
        }
        Ok(Self {
            runtime,
            socket,
            options: options.clone(),
            buffer,
            notices,
        })
    }

    /// Serves readers until all outlets are dropped and every reader has its records, or until
    /// the drain time of a stop ends. Returns the number of records that connected readers did
    /// not receive.
    pub(super) fn run(self, inbox: Inbox) -> u64 {
        let Self {
            runtime,
            socket,
            options,
            buffer,
            notices,
        } = self;
        let readers = Readers {
            name: options.address.to_string(),
            most: options.readers,
            backlog: Arc::new(Mutex::new(Backlog::new(buffer))),
            wake: watch::Sender::new(()),
            stream: Stream::default(),
            next: 0,
            tasks: JoinSet::new(),
            is_crowded: false,
        };
        runtime.block_on(readers.serve(inbox, socket, &notices))
    }
}

impl Readers {
    async fn serve(mut self, mut inbox: Inbox, mut socket: Socket, notices: &Notices) -> u64 {
        let stopper = inbox.stopper();
        loop {
            tokio::select! {
                message = inbox.next() => match message {
                    Some(message) => {
                        self.hand_over(&message);
                        inbox.settle(&message, 0);
                        if matches!(message, Message::Lines(..)) {
                            socket.restore(notices);
                        }
                    }
                    None => break,
                },
                reader = socket.accept() => match reader {
                    Ok(reader) => self.accept(reader),
                    Err(error) => {
                        tracing::warn!(output = ?self.name, %error, "cannot accept a reader; trying again");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = self.tasks.join_next() => self.is_crowded = false,
            }
        }
        let Self {
            backlog,
            wake,
            mut tasks,
            ..
        } = self;
        drop(wake);
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = stopper.abandoned() => {}
        }
        lock(&backlog).unwritten()
    }

    /// Adds a message to the records that wait for the readers, without waiting for a reader.
    fn hand_over(&mut self, message: &Message) {
        self.stream.note(message);
        match message {
            Message::Lines(_, batch, dropped) => lock(&self.backlog).lines(batch, *dropped),
            Message::Start(source, start) => lock(&self.backlog).start(*source, start),
            Message::Gone(_) | Message::End => {}
        }
        self.wake.send_replace(());
    }

    fn accept(&mut self, reader: impl AsyncWrite + Unpin + Send + 'static) {
        if self.tasks.len() >= self.most {
            if !std::mem::replace(&mut self.is_crowded, true) {
                tracing::warn!(output = ?self.name, readers = self.most, "the socket has its largest number of readers; others are rejected");
            }
            return;
        }
        let (seq, name) = (self.next, format!("reader {} of {}", self.next, self.name));
        self.next = self.next.saturating_add(1);
        tracing::debug!(%name, "reader connected");
        lock(&self.backlog).connect(seq, name.clone(), self.stream.starts());
        let (backlog, wake) = (Arc::clone(&self.backlog), self.wake.subscribe());
        self.tasks.spawn(async move {
            match serve_one(reader, &backlog, seq, wake).await {
                Ok(()) => tracing::debug!(%name, "reader received all records"),
                Err(error) => tracing::debug!(%name, %error, "reader disconnected"),
            }
            lock(&backlog).disconnect(seq);
        });
    }
}

fn lock(backlog: &Mutex<Backlog>) -> MutexGuard<'_, Backlog> {
    backlog.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to a reader until it disconnects, or until the output has ended and the reader has all
/// records.
async fn serve_one(
    mut reader: impl AsyncWrite + Unpin,
    backlog: &Mutex<Backlog>,
    seq: u32,
    mut wake: watch::Receiver<()>,
) -> io::Result<()> {
    let mut text = Vec::with_capacity(PIECE + LONGEST_RECORD);
    loop {
        // Records that are added from here on wake this reader again.
        wake.mark_unchanged();
        lock(backlog).take(seq, &mut text);
        if !text.is_empty() {
            tokio::time::timeout(WRITE_TIMEOUT, reader.write_all(&text)).await??;
        } else if wake.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// A connection of either kind, Unix or TCP.
type Connection = Box<dyn AsyncWrite + Unpin + Send>;

impl Socket {
    async fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }

    /// Creates the file of a Unix socket again if another program has removed it. Connected
    /// readers stay connected. If another program has put a file at this path, the output does
    /// not touch it.
    fn restore(&mut self, notices: &Notices) {
        let Self::Unix(_, file) = self else { return };
        let found = fs::symlink_metadata(&file.path);
        if found.as_ref().is_ok_and(|found| file.id == identity(found)) {
            return;
        }
        let path = file.path.clone();
        let made = match found {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => listen_unix(&path),
            Err(error) => Err(error),
        };
        match made {
            Ok((listener, new)) => {
                // The new file may have the inode of the removed one, so dropping the old value
                // must not remove it.
                file.id = (0, 0);
                *self = Self::Unix(listener, new);
                tracing::info!(path = %path.display(), "another program removed the socket; it was created again");
                notices.add(EventName::SocketRestored, path.display().to_string());
            }
            Err(error) if !std::mem::replace(&mut file.is_missing, true) => {
                tracing::warn!(path = %path.display(), %error, "another program removed the socket, and it cannot be created again; no new reader can connect");
            }
            Err(_) => {}
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // Without this option, a restart fails while connections of the previous process are in the
    // state TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Opens a Unix socket. No reader can connect before its mode is set.
fn listen_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        id: identity(&metadata),
        is_missing: false,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes a socket that a killed program left behind. Returns an error and changes nothing if
/// the path is another kind of file or a symbolic link, or if a program listens on it.
fn remove_unused(path: &Path) -> Result<(), OutputError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let is_unused = metadata.file_type().is_socket()
        && StdUnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !is_unused {
        return Err(OutputError::Taken {
            path: path.to_owned(),
        });
    }
    fs::remove_file(path).map_err(|source| OutputError::Listen {
        address: Address::Unix(path.to_owned()),
        source,
    })
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another program may have replaced the file, so it is removed only if it is still the
        // same.
        if fs::symlink_metadata(&self.path).is_ok_and(|now| identity(&now) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
