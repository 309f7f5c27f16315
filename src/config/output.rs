//! `output`: a path, or a table `[[output]]` for each place where records go.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ConfigError, duration, value};
use crate::output::{Address, BUFFER, Destination, FileOptions, ListenOptions, NatsOptions, Output};

/// Where records go, as it is written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Outputs {
    /// `-` or the path of a file.
    Short(String),
    /// Any number of tables.
    Tables(Vec<Table>),
}

/// A table `[[output]]`. What is not said has the default of `ibnet.toml.example`; a key that its type does not have is refused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Table {
    /// `stdout`, `file`, `unix`, `tcp` or `nats`.
    pub r#type: String,
    /// Of a file, or of a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// MiB of a file after which another is begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_mib: Option<u64>,
    /// Another file is begun where the wall clock passes a multiple of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_every: Option<String>,
    /// Whether closed files are compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
    /// How many closed files are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// Address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// How many there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<usize>,
    /// Of NATS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// A name in subjects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<String>,
    /// Path of a file with credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Path of a file with certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Path of our certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<String>,
    /// Path of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// MiB of lines that wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_mib: Option<u64>,
}

/// Of all types.
const OF_ALL: [&str; 2] = ["type", "buffer_mib"];

/// Types, and the keys that each has beside those of all.
const TYPES: [(&str, &[&str]); 5] = [
    ("stdout", &[]),
    ("file", &["path", "rotate_mib", "rotate_every", "compress", "keep"]),
    ("unix", &["path", "readers"]),
    ("tcp", &["listen", "readers"]),
    ("nats", &["server", "fabric", "credentials", "ca_file", "cert_file", "key_file"]),
];

const MIB: u64 = 1 << 20;

/// A sampler's lines for a minute at 10 Hz are no more.
const MOST_MIB: u64 = 64 << 10;

/// Where readers are listened for, if a port alone is given: this host.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const READERS: usize = 16;
const MOST_READERS: usize = 1024;

/// A path to a Unix socket has no room for more.
const LONGEST_SOCKET_PATH: usize = 107;

impl Default for Outputs {
    fn default() -> Self {
        Self::Short("-".to_owned())
    }
}

// As serde's own for untagged enums, but a mistake in a table keeps its words and its line.
impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Outputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or tables [[output]]")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Outputs, E> {
                Ok(Outputs::Short(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, tables: A) -> Result<Outputs, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(tables)).map(Outputs::Tables)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Outputs {
    /// Checks all of it.
    pub(super) fn check(&self) -> Result<Vec<Output>, ConfigError> {
        let tables = match self {
            Self::Short(path) => return Ok(vec![Destination::parse(path).into()]),
            Self::Tables(tables) => tables,
        };
        let mut outputs: Vec<Output> = Vec::new();
        for table in tables {
            let output = table.check()?;
            if outputs.iter().any(|other| is_same(&other.to, &output.to)) {
                return Err(value("output", &output.to, "there once only"));
            }
            outputs.push(output);
        }
        Ok(outputs)
    }
}

/// Whether two cannot be written to at once.
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
            return Err(value("output.type", &self.r#type, "stdout, file, unix, tcp or nats"));
        };
        if let Some(key) = self.keys().into_iter().find(|key| !keys.contains(&key.as_str()) && !OF_ALL.contains(&key.as_str())) {
            return Err(value("output", &key, &format!("a key of type {}: {}", self.r#type, [keys, &OF_ALL[..]].concat().join(", "))));
        }
        let buffer = self.buffer_mib.unwrap_or(BUFFER / MIB);
        if !(1..=MOST_MIB).contains(&buffer) {
            return Err(value("output.buffer_mib", &buffer, "a number from 1 to 65536"));
        }
        let to = match self.r#type.as_str() {
            "file" => Destination::File(self.file()?),
            "unix" => Destination::Listen(ListenOptions { address: Address::Unix(self.socket_path()?), readers: self.readers()? }),
            "tcp" => Destination::Listen(ListenOptions { address: Address::Tcp(self.address()?), readers: self.readers()? }),
            "nats" => Destination::Nats(self.nats()?),
            _ => Destination::Stdout,
        };
        Ok(Output { to, buffer: buffer * MIB })
    }

    /// The keys that are said.
    fn keys(&self) -> Vec<String> {
        toml::Table::try_from(self).map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    fn file(&self) -> Result<FileOptions, ConfigError> {
        let every = text(self.rotate_every.as_ref());
        let rotate_every =
            every.map(|text| duration("output.rotate_every", text, Duration::from_secs(1), Duration::from_secs(400 * 86400)));
        let rotate_octets = self.rotate_mib.filter(|mib| *mib > 0);
        if rotate_octets.is_some_and(|mib| mib > u64::MAX / MIB) {
            return Err(value("output.rotate_mib", &rotate_octets.unwrap_or(0), "a number of MiB that a disk may have"));
        }
        Ok(FileOptions {
            path: self.path("file")?,
            rotate_octets: rotate_octets.map(|mib| mib * MIB),
            rotate_every: rotate_every.transpose()?,
            compress: self.compress.unwrap_or(false),
            keep: self.keep.filter(|keep| *keep > 0),
        })
    }

    fn path(&self, of: &str) -> Result<PathBuf, ConfigError> {
        text(self.path.as_ref()).map(PathBuf::from).ok_or_else(|| value("output.path", &"", &format!("the path of a {of}")))
    }

    fn socket_path(&self) -> Result<PathBuf, ConfigError> {
        let path = self.path("socket")?;
        let expected = format!("the path of a socket, of at most {LONGEST_SOCKET_PATH} octets");
        if path.as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(value("output.path", &path.display(), &expected));
        }
        Ok(path)
    }

    /// A port alone is one of this host that nobody else reaches.
    fn address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = self.listen.as_deref().unwrap_or_default();
        let port = listen.parse().ok().map(|port| SocketAddr::new(LOOPBACK, port));
        let address = port.or_else(|| listen.parse().ok()).filter(|address: &SocketAddr| address.port() != 0);
        address.ok_or_else(|| {
            value("output.listen", &listen, "a port such as 9331, or an address and port such as 192.0.2.1:9331 or [::1]:9331")
        })
    }

    fn readers(&self) -> Result<usize, ConfigError> {
        let readers = self.readers.unwrap_or(READERS);
        (1..=MOST_READERS)
            .contains(&readers)
            .then_some(readers)
            .ok_or_else(|| value("output.readers", &readers, &format!("a number from 1 to {MOST_READERS}")))
    }

    fn nats(&self) -> Result<NatsOptions, ConfigError> {
        let path = |key: &Option<String>| text(key.as_ref()).map(PathBuf::from);
        let certificate = match (path(&self.cert_file), path(&self.key_file)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (certificate, _) => {
                let (key, other) = if certificate.is_some() { ("output.key_file", "cert_file") } else { ("output.cert_file", "key_file") };
                return Err(value(key, &"", &format!("the path of a file, as {other} has one")));
            }
        };
        Ok(NatsOptions {
            server: text(self.server.as_ref()).unwrap_or("nats://127.0.0.1:4222").to_owned(),
            fabric: text(self.fabric.as_ref()).unwrap_or("fabric").to_owned(),
            credentials: path(&self.credentials),
            ca_file: path(&self.ca_file),
            certificate,
        })
    }
}

/// A text that is empty says nothing.
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

    /// The tables of the example: what stands behind a `#` without a blank.
    fn example() -> Vec<Table> {
        let lines: Vec<_> =
            EXAMPLE.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
        let raw: Raw = toml::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}"));
        match raw.output {
            Outputs::Tables(tables) => tables,
            Outputs::Short(path) => panic!("{path}"),
        }
    }

    #[test]
    fn the_example_has_every_type_with_all_of_its_keys() {
        let found: Vec<_> = example().into_iter().map(|table| (table.r#type.clone(), table.keys())).collect();
        let sorted = |keys: &[&str]| {
            let mut keys: Vec<_> = keys.iter().chain(&OF_ALL).map(|&key| key.to_owned()).collect();
            keys.sort();
            keys
        };
        assert_eq!(found, TYPES.map(|(name, keys)| (name.to_owned(), sorted(keys))));
    }

    #[test]
    fn what_the_example_says_is_the_default() {
        for table in example() {
            // What has no default.
            let (path, listen) = (table.path.clone(), table.listen.clone());
            let bare = Table { r#type: table.r#type.clone(), path, listen, ..Table::default() };
            assert_eq!(table.check().expect("good"), bare.check().expect("good"));
        }
    }

    #[test]
    fn a_path_alone_is_one_output() {
        assert_eq!(outputs("output = \"lines\""), Ok(vec![Destination::parse("lines").into()]));
        assert_eq!(outputs(""), Ok(vec![Destination::Stdout.into()]));
    }

    #[test]
    fn a_port_alone_is_of_this_host() {
        let address = |listen: &str| match outputs(&format!("[[output]]\ntype = \"tcp\"\nlisten = \"{listen}\"")) {
            Ok(outputs) => outputs[0].to.to_string(),
            Err(error) => error,
        };
        assert_eq!(address("9331"), "127.0.0.1:9331");
        assert_eq!(address("0.0.0.0:9331"), "0.0.0.0:9331");
        assert_eq!(address("[::1]:9331"), "[::1]:9331");
        assert!(address("").starts_with("output.listen: \"\" is not a port such as 9331"));
        assert!(address("0").starts_with("output.listen: "));
        assert!(address("host:9331").starts_with("output.listen: "));
    }

    #[test]
    fn tables_that_make_no_sense_are_refused() {
        let refused = |text: &str| outputs(text).expect_err("refused");
        assert_eq!(refused("[[output]]\ntype = \"kafka\""), "output.type: \"kafka\" is not stdout, file, unix, tcp or nats");
        assert_eq!(
            refused("[[output]]\ntype = \"unix\"\npath = \"a\"\nkeep = 2"),
            "output: \"keep\" is not a key of type unix: path, readers, type, buffer_mib"
        );
        assert_eq!(refused("[[output]]\ntype = \"file\""), "output.path: \"\" is not the path of a file");
        assert!(refused("[[output]]\ntype = \"stdout\"\nbuffer_mib = 0").starts_with("output.buffer_mib: \"0\""));
        assert!(refused("[[output]]\ntype = \"tcp\"\nlisten = \"1\"\nreaders = 0").starts_with("output.readers: \"0\""));
        assert!(refused("[[output]]\ntype = \"file\"\npath = \"a\"\nrotate_every = \"0s\"").starts_with("output.rotate_every: \"0s\""));
        assert!(refused("[[output]]\ntype = \"nats\"\ncert_file = \"a\"").starts_with("output.key_file: "));
        assert!(refused(&format!("[[output]]\ntype = \"unix\"\npath = \"{}\"", "x".repeat(108))).contains("at most 107 octets"));
        let twice = "[[output]]\ntype = \"file\"\npath = \"a\"\n[[output]]\ntype = \"file\"\npath = \"a\"\nkeep = 2";
        assert_eq!(refused(twice), "output: \"a\" is not there once only");
    }

    #[test]
    fn a_mistake_in_a_table_has_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ibnet.toml");
        std::fs::write(&path, "window = 8\n\n[[output]]\ntype = \"file\"\npaht = \"lines\"\n").expect("written");
        let error = Raw::read(&path).expect_err("refused").to_string();
        assert!(error.contains("ibnet.toml:5: there is no key paht"), "{error}");
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        for text in ["output = \"lines\"", "[[output]]\ntype = \"file\"\npath = \"a\"\nkeep = 2\n[[output]]\ntype = \"stdout\""] {
            let raw: Raw = toml::from_str(text).expect("it parses");
            assert_eq!(toml::from_str::<Raw>(&toml::to_string(&raw).expect("it serialises")).expect("it parses"), raw);
        }
    }
}
