//! The key `output`. Its value is a path, or there is a table `[[output]]` for each destination
//! of the records.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::error::{value, value_among};
use super::nats_access::{Names, NatsAccess};
use super::{ConfigError, duration};
use crate::output::{
    Address, BUFFER, Batching, Destination, FileOptions, ListenOptions, NatsOptions, Output,
    SpoolOptions,
};

/// The destinations of the records as in the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Outputs {
    /// `-`, or the path of a file or folder.
    Short(String),
    /// Any number of tables.
    Tables(Vec<Table>),
}

/// A table `[[output]]`.
///
/// A key that is not set has the default of `ibnet.toml.example`. A key that belongs to another
/// type of output is an error.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Table {
    /// `stdout`, `file`, `unix`, `tcp` or `nats`.
    pub r#type: String,
    /// Path of a file, of a folder (with `/` at the end), or of a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Size of a file in MiB at which the next one is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_mib: Option<u64>,
    /// Rotation period: the next file is started when the wall clock passes a multiple of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_every: Option<String>,
    /// Whether closed files, or payloads for a NATS server, are compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
    /// Number of closed files that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// Age at which a closed file is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_age: Option<String>,
    /// Max size of all closed files together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_total: Option<String>,
    /// Address and port of a TCP socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Max number of simultaneous readers of a socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<usize>,
    /// Address of a NATS server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Name of the fabric in NATS subjects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
    /// User name at a NATS server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Path of a file with the password of the user, or with a token if there is no user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// Path of a file with NATS credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Path of a file with CA certificates, one of which must have signed the certificate of the
    /// server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Path of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<String>,
    /// Path of the key of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// What a message to a NATS server contains: `line` or `slot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Whether the output creates a missing stream at a NATS server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// Folder for the records that wait for a NATS server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<String>,
    /// Max size of this folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool_max: Option<String>,
    /// Max size in MiB of the records that wait for this output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_mib: Option<u64>,
}

/// Keys that every type has.
const OF_ALL: [&str; 2] = ["type", "buffer_mib"];

/// The types, each with its own keys in addition to [`OF_ALL`].
pub(super) const TYPES: [(&str, &[&str]); 5] = [
    ("stdout", &[]),
    (
        "file",
        &[
            "path",
            "rotate_mib",
            "rotate_every",
            "compress",
            "keep",
            "keep_age",
            "keep_total",
        ],
    ),
    ("unix", &["path", "readers"]),
    ("tcp", &["listen", "readers"]),
    (
        "nats",
        &[
            "server",
            "fabric",
            "user",
            "password_file",
            "credentials",
            "ca_file",
            "cert_file",
            "key_file",
            "batch",
            "compress",
            "create",
            "spool",
            "spool_max",
        ],
    ),
];

const MIB: u64 = 1 << 20;

/// Passwords in addresses are rejected, because `--print-config`, messages and core dumps would
/// contain them.
const SERVER_WITHOUT_PASSWORD: &str = "addresses without user name and password: write the user name to `user`, \
                                       and the password or token to a file with mode 0600, `password_file`";

/// Max value of `buffer_mib`.
const MAX_BUFFER_MIB: u64 = 64 << 10;

/// Address of a TCP socket if only a port is given.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Default of `spool_max`: 10 GiB.
const SPOOL_MAX: u64 = 10 << 30;

/// Default of `readers`.
const READERS: usize = 16;

/// Max value of `readers`.
const MAX_READERS: usize = 1024;

/// Max path of a Unix socket in bytes: `sun_path` of unix(7) without the final zero byte.
const MAX_SOCKET_PATH: usize = 107;

impl Default for Outputs {
    fn default() -> Self {
        Self::Short("-".to_owned())
    }
}

// This implementation exists because serde's own one for untagged enums loses the message and the
// line of an error in a table.
impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrTables;

        impl<'de> Visitor<'de> for PathOrTables {
            type Value = Outputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a file, or tables [[output]]")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Outputs, E> {
                Ok(Outputs::Short(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, tables: A) -> Result<Outputs, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(tables)).map(Outputs::Tables)
            }
        }

        deserializer.deserialize_any(PathOrTables)
    }
}

impl Outputs {
    /// Checks all outputs.
    pub(super) fn check(&self) -> Result<Vec<Output>, ConfigError> {
        let tables = match self {
            Self::Short(path) => return Ok(vec![Destination::parse(path).into()]),
            Self::Tables(tables) => tables,
        };
        if tables.is_empty() {
            return Err(value(
                "output",
                &"[]",
                "the path of a file, `-` for standard output, or tables [[output]]",
            ));
        }
        let mut outputs: Vec<Output> = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let output = table.check().map_err(|error| error.in_table(index))?;
            if outputs.iter().any(|other| is_same(&other.to, &output.to)) {
                return Err(
                    value("output.type", &output.to, "each destination once").in_table(index)
                );
            }
            outputs.push(output);
        }
        Ok(outputs)
    }
}

/// Returns whether two destinations cannot be used at the same time.
fn is_same(one: &Destination, other: &Destination) -> bool {
    match (one, other) {
        (Destination::File(one), Destination::File(other)) => one.path == other.path,
        (Destination::Listen(one), Destination::Listen(other)) => one.address == other.address,
        (one, other) => one == other,
    }
}

impl Table {
    fn check(&self) -> Result<Output, ConfigError> {
        let Some((_, keys)) = TYPES.iter().find(|(name, _)| *name == self.r#type) else {
            return Err(value_among(
                "output.type",
                &self.r#type,
                "stdout, file, unix, tcp or nats",
                &TYPES.map(|(name, _)| name),
            ));
        };
        if let Some(key) = self
            .keys()
            .into_iter()
            .find(|key| !keys.contains(&key.as_str()) && !OF_ALL.contains(&key.as_str()))
        {
            return Err(value(
                "output",
                &key,
                &format!(
                    "a key of the type {}: {}",
                    self.r#type,
                    [keys, &OF_ALL[..]].concat().join(", ")
                ),
            ));
        }
        let buffer = self.buffer_mib.unwrap_or(BUFFER / MIB);
        if !(1..=MAX_BUFFER_MIB).contains(&buffer) {
            return Err(value(
                "output.buffer_mib",
                &buffer,
                "a number from 1 to 65536",
            ));
        }
        let to = match self.r#type.as_str() {
            "file" => Destination::File(self.file()?),
            "unix" => Destination::Listen(ListenOptions {
                address: Address::Unix(self.socket_path()?),
                readers: self.readers()?,
            }),
            "tcp" => Destination::Listen(ListenOptions {
                address: Address::Tcp(self.address()?),
                readers: self.readers()?,
            }),
            "nats" if cfg!(not(feature = "nats")) => {
                return Err(ConfigError::NoNats {
                    place: String::new(),
                    table: 0,
                });
            }
            "nats" => Destination::Nats(self.nats()?),
            _ => Destination::Stdout,
        };
        Ok(Output {
            to,
            buffer: buffer * MIB,
        })
    }

    /// Returns the names of the keys that are set.
    fn keys(&self) -> Vec<String> {
        toml::Table::try_from(self)
            .map(|table| table.keys().cloned().collect())
            .unwrap_or_default()
    }

    fn file(&self) -> Result<FileOptions, ConfigError> {
        let every = text(self.rotate_every.as_ref());
        let rotate_every = every.map(|text| {
            duration(
                "output.rotate_every",
                text,
                Duration::from_secs(1),
                Duration::from_secs(400 * 86400),
            )
        });
        let keep_age = text(self.keep_age.as_ref()).map(|text| {
            duration(
                "output.keep_age",
                text,
                Duration::from_secs(1),
                Duration::from_secs(4000 * 86400),
            )
        });
        let rotate_octets = self.rotate_mib.filter(|mib| *mib > 0);
        if rotate_octets.is_some_and(|mib| mib > u64::MAX / MIB) {
            return Err(value(
                "output.rotate_mib",
                &rotate_octets.unwrap_or(0),
                "a smaller number of MiB",
            ));
        }
        Ok(FileOptions {
            path: self.path("file")?,
            rotate_octets: rotate_octets.map(|mib| mib * MIB),
            rotate_every: rotate_every.transpose()?,
            compress: self.compress.unwrap_or(false),
            keep: self.keep.filter(|keep| *keep > 0),
            keep_age: keep_age.transpose()?,
            keep_total: text(self.keep_total.as_ref())
                .map(|text| size("output.keep_total", text))
                .transpose()?,
        })
    }

    fn path(&self, of: &str) -> Result<PathBuf, ConfigError> {
        text(self.path.as_ref())
            .map(PathBuf::from)
            .ok_or_else(|| value("output.path", &"", &format!("the path of a {of}")))
    }

    fn socket_path(&self) -> Result<PathBuf, ConfigError> {
        let path = self.path("socket")?;
        let expected = format!("the path of a socket, of at most {MAX_SOCKET_PATH} bytes");
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(value("output.path", &path.display(), &expected));
        }
        Ok(path)
    }

    /// Parses `listen`. A port without an address means the loopback address, which other hosts
    /// cannot reach.
    fn address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = self.listen.as_deref().unwrap_or_default();
        let port = listen
            .parse()
            .ok()
            .map(|port| SocketAddr::new(LOOPBACK, port));
        let address = port
            .or_else(|| listen.parse().ok())
            .filter(|address: &SocketAddr| address.port() != 0);
        address.ok_or_else(|| {
            value(
                "output.listen",
                &listen,
                "a port such as 9331, or an address and port such as 192.0.2.1:9331 or [::1]:9331",
            )
        })
    }

    fn readers(&self) -> Result<usize, ConfigError> {
        let readers = self.readers.unwrap_or(READERS);
        (1..=MAX_READERS)
            .contains(&readers)
            .then_some(readers)
            .ok_or_else(|| {
                value(
                    "output.readers",
                    &readers,
                    &format!("a number from 1 to {MAX_READERS}"),
                )
            })
    }

    fn nats(&self) -> Result<NatsOptions, ConfigError> {
        let access = NatsAccess {
            user: self.user.as_deref(),
            password_file: self.password_file.as_deref(),
            credentials: self.credentials.as_deref(),
            ca_file: self.ca_file.as_deref(),
            cert_file: self.cert_file.as_deref(),
            key_file: self.key_file.as_deref(),
        };
        let names = Names {
            password_file: "output.password_file",
            cert_file: "output.cert_file",
            key_file: "output.key_file",
        };
        let options = NatsOptions {
            server: text(self.server.as_ref())
                .unwrap_or("nats://127.0.0.1:4222")
                .to_owned(),
            fabric: text(self.fabric.as_ref()).unwrap_or("fabric").to_owned(),
            batching: match text(self.batch.as_ref()) {
                None | Some("line") => Batching::Line,
                Some("slot") => Batching::Slot,
                Some(other) => return Err(value("output.batch", &other, "line or slot")),
            },
            compress: self.compress.unwrap_or(false),
            create: self.create.unwrap_or(false),
            spool: self.spool()?,
            ..access.check(&names)?
        };
        if options.server.contains('@') {
            return Err(value(
                "output.server",
                &options.shown_server(),
                SERVER_WITHOUT_PASSWORD,
            ));
        }
        Ok(options)
    }

    /// Returns the spool. Its max size must be valid even if there is no spool.
    fn spool(&self) -> Result<Option<SpoolOptions>, ConfigError> {
        let most = text(self.spool_max.as_ref())
            .map_or(Ok(SPOOL_MAX), |text| size("output.spool_max", text))?;
        Ok(text(self.spool.as_ref()).map(|folder| SpoolOptions {
            folder: folder.into(),
            most,
        }))
    }
}

/// Parses a size such as `50GiB` to bytes.
fn size(key: &'static str, size: &str) -> Result<u64, ConfigError> {
    let octets = parse_size::Config::new()
        .with_binary()
        .parse_size(size)
        .ok()
        .filter(|octets| *octets >= MIB);
    octets.ok_or_else(|| {
        value(
            key,
            &size,
            "a size of 1MiB or more, such as \"500MiB\" or \"50GiB\"",
        )
    })
}

/// Returns the text of a key. An empty string means "not set".
fn text(key: Option<&String>) -> Option<&str> {
    key.map(String::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Raw;

    const EXAMPLE: &str = include_str!("../../ibnet.toml.example");

    fn outputs(text: &str) -> Result<Vec<Output>, String> {
        let raw: Raw = toml::from_str(text).map_err(|error| error.to_string())?;
        raw.output.check().map_err(|error| error.to_string())
    }

    /// Returns the tables of the example. These are the lines that begin with `#`, without a blank
    /// after it.
    fn example() -> Vec<Table> {
        let lines: Vec<_> = EXAMPLE
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .filter(|line| !line.is_empty() && !line.starts_with(' '))
            .collect();
        let raw: Raw = toml::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}"));
        match raw.output {
            Outputs::Tables(tables) => tables,
            Outputs::Short(path) => panic!("{path}"),
        }
    }

    #[test]
    fn example_has_every_type_with_all_of_its_keys() {
        let found: Vec<_> = example()
            .into_iter()
            .map(|table| (table.r#type.clone(), table.keys()))
            .collect();
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<_> = keys
                .iter()
                .chain(&OF_ALL)
                .map(|&key| key.to_owned())
                .collect();
            keys.sort();
            keys
        };
        assert_eq!(
            found,
            TYPES.map(|(name, keys)| (name.to_owned(), sorted(keys)))
        );
    }

    #[test]
    fn example_has_the_default_of_every_key() {
        for table in example()
            .into_iter()
            .filter(|table| cfg!(feature = "nats") || table.r#type != "nats")
        {
            // These keys have no default.
            let (path, listen) = (table.path.clone(), table.listen.clone());
            let bare = Table {
                r#type: table.r#type.clone(),
                path,
                listen,
                ..Table::default()
            };
            assert_eq!(table.check().expect("valid"), bare.check().expect("valid"));
        }
    }

    #[test]
    fn path_alone_is_one_output() {
        assert_eq!(
            outputs("output = \"lines\""),
            Ok(vec![Destination::parse("lines").into()])
        );
        assert_eq!(outputs(""), Ok(vec![Destination::Stdout.into()]));
    }

    #[test]
    fn empty_list_of_outputs_is_refused() {
        let error = outputs("output = []").expect_err("refused");
        assert!(
            error.starts_with("cannot use output: expected the path of a file"),
            "{error}"
        );
    }

    #[test]
    fn port_alone_is_on_the_loopback_address() {
        let address = |listen: &str| match outputs(&format!(
            "[[output]]\ntype = \"tcp\"\nlisten = \"{listen}\""
        )) {
            Ok(outputs) => outputs[0].to.to_string(),
            Err(error) => error,
        };
        assert_eq!(address("9331"), "127.0.0.1:9331");
        assert_eq!(address("0.0.0.0:9331"), "0.0.0.0:9331");
        assert_eq!(address("[::1]:9331"), "[::1]:9331");
        assert!(address("").starts_with("cannot use output.listen: expected a port such as 9331"));
        assert!(address("0").starts_with("cannot use output.listen: "));
        assert!(address("host:9331").starts_with("cannot use output.listen: "));
    }

    #[test]
    fn tables_with_wrong_values_are_refused() {
        let refused = |text: &str| outputs(text).expect_err("refused");
        assert_eq!(
            refused("[[output]]\ntype = \"kafka\""),
            "cannot use output.type: expected stdout, file, unix, tcp or nats (found \"kafka\")"
        );
        assert_eq!(
            refused("[[output]]\ntype = \"unix\"\npath = \"a\"\nkeep = 2"),
            "cannot use output: expected a key of the type unix: path, readers, type, buffer_mib (found \"keep\")"
        );
        assert_eq!(
            refused("[[output]]\ntype = \"file\""),
            "cannot use output.path: expected the path of a file (found \"\")"
        );
        for (table, key) in [
            ("type = \"stdout\"\nbuffer_mib = 0", "output.buffer_mib"),
            (
                "type = \"tcp\"\nlisten = \"1\"\nreaders = 0",
                "output.readers",
            ),
            (
                "type = \"file\"\npath = \"a\"\nrotate_every = \"0s\"",
                "output.rotate_every",
            ),
        ] {
            let error = refused(&format!("[[output]]\n{table}"));
            assert!(
                error.starts_with(&format!("cannot use {key}: ")) && error.contains("(found \"0"),
                "{error}"
            );
        }
        assert!(
            refused(&format!(
                "[[output]]\ntype = \"unix\"\npath = \"{}\"",
                "x".repeat(108)
            ))
            .contains("at most 107 bytes")
        );
        let twice = "[[output]]\ntype = \"file\"\npath = \"a\"\n[[output]]\ntype = \"file\"\npath = \"a\"\nkeep = 2";
        assert_eq!(
            refused(twice),
            "cannot use output.type: expected each destination once (found \"a\")"
        );
    }

    #[cfg(feature = "nats")]
    #[test]
    fn certificate_without_its_key_is_refused() {
        let error = outputs("[[output]]\ntype = \"nats\"\ncert_file = \"a\"").expect_err("refused");
        assert!(error.starts_with("cannot use output.key_file: "), "{error}");
    }

    #[cfg(feature = "nats")]
    #[test]
    fn password_is_refused_in_the_address_and_accepted_in_a_file() {
        for server in [
            "nats://user:CANARY@host:4222",
            "CANARY@host",
            "a:4222,user:CANARY,9@b",
            "nats://u:CAN@ARY@host",
        ] {
            let error = outputs(&format!(
                "[[output]]\ntype = \"nats\"\nserver = \"{server}\""
            ))
            .expect_err("refused");
            assert!(
                error.starts_with("cannot use output.server: ")
                    && error.contains("`password_file`"),
                "{error}"
            );
            assert!(!error.contains("CAN") && !error.contains("ARY"), "{error}");
        }
        let error = outputs("[[output]]\ntype = \"nats\"\nuser = \"a\"").expect_err("refused");
        assert!(
            error.starts_with("cannot use output.password_file: "),
            "{error}"
        );
        assert!(
            outputs("[[output]]\ntype = \"nats\"\nuser = \"a\"\npassword_file = \"b\"").is_ok()
        );
        assert!(outputs("[[output]]\ntype = \"nats\"\npassword_file = \"token\"").is_ok());
    }

    #[cfg(not(feature = "nats"))]
    #[test]
    fn nats_is_refused_in_a_build_without_it() {
        let error = outputs("[[output]]\ntype = \"nats\"").expect_err("refused");
        assert_eq!(
            error,
            "cannot use an output of type \"nats\": this ibnet-sweep was built without NATS"
        );
    }

    #[test]
    fn unknown_key_of_a_table_has_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ibnet.toml");
        std::fs::write(
            &path,
            "window = 8\n\n[[output]]\ntype = \"file\"\npaht = \"lines\"\n",
        )
        .expect("written");
        let error = Raw::read(&path).expect_err("refused").to_string();
        assert!(
            error.contains("ibnet.toml:5: cannot use paht: there is no such key"),
            "{error}"
        );
        let text = "[[output]]\ntype = \"unix\"\npath = \"a\"\nkeep = 2\n";
        let wrong: Raw = toml::from_str(text).expect("it parses");
        let error = wrong
            .output
            .check()
            .expect_err("refused")
            .placed(&path, text)
            .to_string();
        assert!(
            error.contains("ibnet.toml:4: cannot use output: "),
            "{error}"
        );
    }

    #[test]
    fn limits_of_closed_files_have_units() {
        let file = |keys: &str| {
            let raw: Table = toml::from_str(&format!("type = \"file\"\npath = \"a\"\n{keys}"))
                .expect("it parses");
            raw.file()
        };
        let options = file("keep_age = \"14d\"\nkeep_total = \"50GiB\"").expect("valid");
        assert_eq!(
            (options.keep_age, options.keep_total),
            (Some(Duration::from_secs(14 * 86_400)), Some(50 << 30))
        );
        assert_eq!(
            file("keep_age = \"\"\nkeep_total = \"\"").expect("valid"),
            file("").expect("valid")
        );
        for size in ["50", "1KiB", "fifty"] {
            let error = file(&format!("keep_total = \"{size}\""))
                .expect_err("refused")
                .to_string();
            assert!(
                error.contains("keep_total") && error.contains("50GiB") && error.contains(size),
                "{error}"
            );
        }
    }

    #[test]
    fn serialized_outputs_parse_again() {
        for text in [
            "output = \"lines\"",
            "[[output]]\ntype = \"file\"\npath = \"a\"\nkeep = 2\n[[output]]\ntype = \"stdout\"",
        ] {
            let raw: Raw = toml::from_str(text).expect("it parses");
            assert_eq!(
                toml::from_str::<Raw>(&toml::to_string(&raw).expect("it serializes"))
                    .expect("it parses"),
                raw
            );
        }
    }
}
