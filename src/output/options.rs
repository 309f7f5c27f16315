//! Settings of an output: its destination and the size of its buffer.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Default of [`Output::buffer`]: 64 MiB.
pub const BUFFER: u64 = 64 << 20;

/// An output: a destination of records, and the size of its buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Where the records go.
    pub to: Destination,
    /// Max number of bytes of records that wait for the destination.
    pub buffer: u64,
}

/// Destination of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file. Records are appended.
    File(FileOptions),
    /// A socket. Every connected reader receives the records.
    Listen(ListenOptions),
    /// A NATS server.
    Nats(NatsOptions),
}

/// Kind of an output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Standard output.
    Stdout,
    /// A file.
    File,
    /// A Unix or TCP socket with any number of readers.
    Socket,
    /// A NATS server.
    Nats,
}

/// Settings of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileOptions {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes at which the file is rotated. `None` means no limit.
    pub rotate_octets: Option<u64>,
    /// Rotation period: the file is rotated when the wall clock passes a multiple of it.
    pub rotate_every: Option<Duration>,
    /// Whether rotated files are compressed with zstd.
    pub compress: bool,
    /// Number of rotated files to keep. `None` keeps all files.
    pub keep: Option<usize>,
    /// Age at which a rotated file is removed. `None` keeps files of any age.
    pub keep_age: Option<Duration>,
    /// Max size of all rotated files together, in bytes. `None` means no limit.
    pub keep_total: Option<u64>,
}

/// Settings of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenOptions {
    /// Address of the socket.
    pub address: Address,
    /// Max number of simultaneous readers.
    pub readers: usize,
}

/// Address of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// IP address and port.
    Tcp(SocketAddr),
}

/// Settings of the connection to a NATS server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NatsOptions {
    /// Address of the server, `nats://host:4222` or `tls://host:4222`. Servers of a cluster are
    /// separated by commas.
    pub server: String,
    /// Name of the fabric in the subjects.
    pub fabric: String,
    /// User name.
    pub user: Option<String>,
    /// File with the password of the user, or with a token if there is no user.
    pub password_file: Option<PathBuf>,
    /// Credentials file as written by `nsc`.
    pub credentials: Option<PathBuf>,
    /// File with CA certificates, one of which must have signed the server's certificate. `None`
    /// for the CAs that the host trusts.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and its key, if the server requires one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether a message contains one record or the records of a slot.
    pub batching: Batching,
    /// Whether payloads are compressed with zstd.
    pub compress: bool,
    /// Whether the output creates a stream if no stream has its subjects.
    pub create: bool,
    /// Folder on a disk for the records that wait for the server. `None` keeps them in memory only.
    pub spool: Option<SpoolOptions>,
}

/// Contents of a message to a NATS server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Batching {
    /// One record.
    #[default]
    Line,
    /// The records of one slot of one sampler, up to 512 KiB.
    Slot,
}

/// Settings of a spool, a folder with records that wait for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpoolOptions {
    /// Folder, which only one process at a time uses.
    pub folder: PathBuf,
    /// Max size in bytes. If it is exceeded, the oldest records are dropped.
    pub most: u64,
}

impl Output {
    /// Returns the kind of the output.
    pub fn kind(&self) -> Kind {
        match self.to {
            Destination::Stdout => Kind::Stdout,
            Destination::File(_) => Kind::File,
            Destination::Listen(_) => Kind::Socket,
            Destination::Nats(_) => Kind::Nats,
        }
    }
}

impl From<Destination> for Output {
    fn from(to: Destination) -> Self {
        Self { to, buffer: BUFFER }
    }
}

impl Destination {
    /// Parses `-` and an empty string as standard output, and any other text as the path of a file.
    pub fn parse(text: &str) -> Self {
        let file = || {
            Self::File(FileOptions {
                path: text.into(),
                ..FileOptions::default()
            })
        };
        if ["-", ""].contains(&text) {
            Self::Stdout
        } else {
            file()
        }
    }
}

impl NatsOptions {
    /// Returns the addresses of the server without user names and passwords.
    ///
    /// A password may contain a comma, so everything between the scheme and the last `@` is
    /// removed. The configuration rejects such addresses.
    pub fn shown_server(&self) -> String {
        match self.server.rsplit_once('@') {
            Some((before, rest)) => {
                let scheme = before.find("://").map_or("", |end| &before[..end + 3]);
                format!("{scheme}{rest}")
            }
            None => self
                .server
                .split(',')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(","),
        }
    }

    /// Returns whether this output keeps a secret in memory.
    pub fn has_secret(&self) -> bool {
        self.password_file.is_some() || self.credentials.is_some() || self.certificate.is_some()
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stdout => "standard output",
            Self::File => "file",
            Self::Socket => "socket",
            Self::Nats => "NATS",
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_address_has_no_password() {
        let shown = |server: &str| {
            NatsOptions {
                server: server.to_owned(),
                ..NatsOptions::default()
            }
            .shown_server()
        };
        assert_eq!(shown("nats://user:p@ss@host:4222"), "nats://host:4222");
        assert_eq!(shown("user:pass@host, tls://other"), "host, tls://other");
        assert_eq!(shown("nats://user:pa,ss@host"), "nats://host");
        assert_eq!(shown("a:1,user:pa,ss@b:2"), "b:2");
        assert_eq!(shown("a:1, b:2"), "a:1,b:2");
        assert_eq!(shown("host:4222"), "host:4222");
    }
}
