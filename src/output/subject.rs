//! What lines are called at a NATS server: `ibnet.<fabric>.<sampler>.<type>`.

use std::path::PathBuf;

/// How a NATS server is reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NatsOptions {
    /// Its address, `nats://host:4222` or `tls://host:4222`; several of a cluster with commas between them.
    pub server: String,
    /// The fabric's name in the subjects.
    pub fabric: String,
    /// A file with credentials, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// Certificates of who may have signed the server's, if not of those that the host trusts.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate and its key, if the server asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl NatsOptions {
    /// The server's address without a name and password that may stand in it.
    pub fn shown_server(&self) -> String {
        let without = |server: &str| match (server.find("://"), server.rfind('@')) {
            (Some(scheme), Some(at)) if scheme < at => format!("{}{}", &server[..scheme + 3], &server[at + 1..]),
            (None, Some(at)) => server[at + 1..].to_owned(),
            _ => server.to_owned(),
        };
        self.server.split(',').map(|server| without(server.trim())).collect::<Vec<_>>().join(",")
    }
}

/// The subject of a line: of letters, digits, `-` and `_`, as a dot, a blank or a wildcard in a name would mean something else.
#[cfg(any(feature = "nats", test))]
pub(super) fn subject(fabric: &str, sampler: &str, line: &[u8]) -> String {
    format!("ibnet.{}.{}.{}", word(fabric), word(sampler), word(kind(line)))
}

/// The type of a record, which comes first in it.
#[cfg(any(feature = "nats", test))]
fn kind(line: &[u8]) -> &str {
    let rest = line.strip_prefix(b"{\"type\":\"").unwrap_or_default();
    let end = rest.iter().position(|octet| *octet == b'"').unwrap_or(0);
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

#[cfg(any(feature = "nats", test))]
fn word(text: &str) -> String {
    let word: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_four_words_whatever_the_names_are() {
        let line = b"{\"type\":\"port\",\"ts\":1}\n";
        for (fabric, sampler, expected) in [
            ("stria", "node00001", "ibnet.stria.node00001.port"),
            ("two words", "a.b", "ibnet.two_words.a_b.port"),
            ("*", ">", "ibnet._._.port"),
            ("", "\u{e4}\u{1b}", "ibnet._.__.port"),
        ] {
            assert_eq!(subject(fabric, sampler, line), expected);
        }
        assert_eq!(subject("a", "b", b"no record"), "ibnet.a.b._");
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        let shown = |server: &str| NatsOptions { server: server.to_owned(), ..NatsOptions::default() }.shown_server();
        assert_eq!(shown("nats://user:p@ss@host:4222"), "nats://host:4222");
        assert_eq!(shown("user:pass@host, tls://other"), "host,tls://other");
        assert_eq!(shown("host:4222"), "host:4222");
    }
}
