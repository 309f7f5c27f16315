//! The table `[metrics]` of the configuration: the listen address, and the access control for an
//! address that other hosts can reach.
//!
//! Every HTTP server of this repository has the same keys for access control, which
//! [`Access::check`] checks.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use miette::Diagnostic;
use serde::{Deserialize, Serialize};

use super::{Content, Families};

/// The table as written in the file. An empty string means "not set".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Listen address and port.
    pub listen: String,
    /// Path of the certificate chain, PEM.
    pub tls_cert: String,
    /// Path of the private key of the certificate, PEM.
    pub tls_key: String,
    /// Path of the password file.
    pub password_file: String,
    /// Networks whose hosts may read the metrics over HTTP without TLS, separated by commas.
    pub plain_http: String,
    /// Whether the metrics include the ports for which this sampler is the secondary sampler.
    pub secondary: bool,
    /// Patterns of the metric families that are served.
    pub families: Vec<String>,
}

/// The checked table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Prefix of the keys in messages, such as `metrics.`.
    pub prefix: &'static str,
    /// Listen address and port. Port 0 means any free port.
    pub listen: SocketAddr,
    /// Paths of certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Path of the password file. `None` if no password is required.
    pub password_file: Option<PathBuf>,
    /// Networks whose clients may connect without TLS. If there is one, the server accepts only
    /// clients of these networks and of this host.
    pub plain_http: Vec<IpNet>,
    /// Which metrics are served.
    pub content: Content,
}

impl Settings {
    /// Returns whether a client with this address may connect.
    pub fn admits(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.plain_http.is_empty()
            || client.is_loopback()
            || self
                .plain_http
                .iter()
                .any(|network| network.contains(&client))
    }
}

/// The settings of an HTTP server are not valid. Messages name its keys with a prefix: `metrics.`
/// for keys of `[metrics]`, such as `metrics.listen`, and none for keys outside of tables.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SettingsError {
    /// The listen address is not valid.
    #[error("cannot use metrics.listen: expected an address and a port (found {found:?})")]
    #[diagnostic(help(
        "set it to 127.0.0.1:9315 or [::1]:9315 for clients on this host; leave it empty to serve no metrics"
    ))]
    Listen {
        /// Value in the file.
        found: String,
    },
    /// Other hosts can reach the address, but access control is incomplete.
    #[error(
        "cannot use {prefix}listen: other hosts can reach the address, and these keys are not set: {missing} (found {listen})"
    )]
    #[diagnostic(help(
        "its clients can read host names and traffic: set {prefix}tls_cert, {prefix}tls_key and {prefix}password_file, or listen on 127.0.0.1 only, for example for an SSH tunnel"
    ))]
    Open {
        /// Prefix of the keys in messages.
        prefix: &'static str,
        /// Configured address.
        listen: SocketAddr,
        /// Keys that are not set, separated by commas.
        missing: String,
    },
    /// Either the certificate or the key is set, but not both.
    #[error("cannot use {there}: {missing} is not set")]
    #[diagnostic(help(
        "set both keys: TLS needs a certificate and its private key, both as PEM files"
    ))]
    Half {
        /// Key that is set.
        there: String,
        /// Key that is not set.
        missing: String,
    },
    /// A pattern of metric families matches no family.
    #[error(
        "cannot use metrics.families: expected patterns that match metric families of ibnet (found {found:?})"
    )]
    #[diagnostic(help(
        "a pattern is the name of a family with its suffix, in which * stands for any text, such as \"infiniband_*_bytes_total\"; ! in front excludes the families; docs/metrics.md lists all families"
    ))]
    Families {
        /// Pattern in the file.
        found: String,
    },
    /// Access control is configured without a listen address.
    #[error("cannot use {there}: metrics.listen is not set")]
    #[diagnostic(help(
        "set metrics.listen to an address and a port, such as 127.0.0.1:9315, or remove {there}"
    ))]
    Unused {
        /// Key that is set.
        there: &'static str,
    },
    /// A network is not valid.
    #[error("cannot use metrics.plain_http: expected {expected} (found {found:?})")]
    #[diagnostic(help(
        "name the management network of the Prometheus server, such as 10.1.0.0/16; separate several networks by commas"
    ))]
    Network {
        /// Part of the value in the file.
        found: String,
        /// Description of a valid value.
        expected: String,
    },
    /// TLS and plain HTTP exclude each other.
    #[error("cannot use metrics.plain_http: metrics.tls_cert is set")]
    #[diagnostic(help(
        "remove metrics.plain_http to serve HTTPS, or remove metrics.tls_cert and metrics.tls_key to serve HTTP without encryption"
    ))]
    Both,
}

impl Raw {
    /// Checks the table. Returns `None` if the table has no listen address.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn check(&self) -> Result<Option<Settings>, SettingsError> {
        let families =
            Families::new(&self.families).map_err(|found| SettingsError::Families { found })?;
        if self.listen.is_empty() {
            let keys = [
                ("metrics.tls_cert", &self.tls_cert),
                ("metrics.tls_key", &self.tls_key),
                ("metrics.password_file", &self.password_file),
                ("metrics.plain_http", &self.plain_http),
            ];
            let set = keys.iter().find(|(_, value)| !value.is_empty());
            return set.map_or(Ok(None), |(there, _)| Err(SettingsError::Unused { there }));
        }
        let listen = self.listen.parse().map_err(|_| SettingsError::Listen {
            found: self.listen.clone(),
        })?;
        let plain_http = networks(&self.plain_http)?;
        if !plain_http.is_empty() && !self.tls_cert.is_empty() {
            return Err(SettingsError::Both);
        }
        let access = Access {
            prefix: "metrics.",
            listen,
            tls_cert: &self.tls_cert,
            tls_key: &self.tls_key,
            password_file: &self.password_file,
            plain_http,
        };
        Ok(Some(Settings {
            content: Content {
                secondary: self.secondary,
                families,
            },
            ..access.check()?
        }))
    }
}

/// The keys of access control of an HTTP server. An empty string means "not set".
#[derive(Debug)]
pub struct Access<'a> {
    /// Prefix of the keys in messages, such as `metrics.`.
    pub prefix: &'static str,
    /// Listen address and port.
    pub listen: SocketAddr,
    /// Path of the certificate chain.
    pub tls_cert: &'a str,
    /// Path of the private key.
    pub tls_key: &'a str,
    /// Path of the password file.
    pub password_file: &'a str,
    /// Networks whose clients may connect without TLS.
    pub plain_http: Vec<IpNet>,
}

impl Access<'_> {
    /// Checks that other hosts can reach the server only with TLS and a password, or from a network
    /// of `plain_http`.
    ///
    /// # Errors
    /// Returns [`SettingsError::Half`] or [`SettingsError::Open`].
    pub fn check(self) -> Result<Settings, SettingsError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let named = |key: &str| format!("{}{key}", self.prefix);
        let half = |there, missing| SettingsError::Half {
            there: named(there),
            missing: named(missing),
        };
        let tls = match (path(self.tls_cert), path(self.tls_key)) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(half("tls_cert", "tls_key")),
            (None, Some(_)) => return Err(half("tls_key", "tls_cert")),
        };
        let keys = [
            ("tls_cert", self.tls_cert),
            ("tls_key", self.tls_key),
            ("password_file", self.password_file),
        ];
        let missing: Vec<_> = keys
            .iter()
            .filter(|(_, value)| value.is_empty())
            .map(|(key, _)| named(key))
            .collect();
        // Only this host can reach a loopback address.
        let is_local = self.listen.ip().to_canonical().is_loopback();
        if !is_local && self.plain_http.is_empty() && !missing.is_empty() {
            return Err(SettingsError::Open {
                prefix: self.prefix,
                listen: self.listen,
                missing: missing.join(", "),
            });
        }
        let password_file = path(self.password_file);
        Ok(Settings {
            prefix: self.prefix,
            listen: self.listen,
            tls,
            password_file,
            plain_http: self.plain_http,
            content: Content::default(),
        })
    }
}

/// Parses networks that are separated by commas. A network of all addresses is rejected, because
/// the key exists to limit who may connect.
fn networks(text: &str) -> Result<Vec<IpNet>, SettingsError> {
    let parts = text.split(',').map(str::trim).filter(|_| !text.is_empty());
    let network = |part: &str| {
        let wrong = |expected: String| SettingsError::Network {
            found: part.to_owned(),
            expected,
        };
        let parsed: IpNet = part.parse().map_err(|_| {
            wrong("a network with the length of its prefix, such as 10.1.0.0/16".to_owned())
        })?;
        if parsed.prefix_len() == 0 {
            return Err(wrong(
                "a network that is smaller than all addresses, such as 10.1.0.0/16".to_owned(),
            ));
        }
        match parsed.trunc() {
            trunc if trunc == parsed => Ok(parsed),
            trunc => Err(wrong(format!("zeros behind the prefix: {trunc}"))),
        }
    };
    parts.map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        listen: &str,
        cert: &str,
        key: &str,
        password: &str,
    ) -> Result<Option<Settings>, SettingsError> {
        let [listen, tls_cert, tls_key, password_file] =
            [listen, cert, key, password].map(str::to_owned);
        Raw {
            listen,
            tls_cert,
            tls_key,
            password_file,
            ..Raw::default()
        }
        .check()
    }

    fn plain(listen: &str, networks: &str) -> Result<Option<Settings>, SettingsError> {
        Raw {
            listen: listen.to_owned(),
            plain_http: networks.to_owned(),
            ..Raw::default()
        }
        .check()
    }

    #[test]
    fn no_metrics_are_served_without_an_address() {
        assert_eq!(Raw::default().check(), Ok(None));
        assert_eq!(
            check("", "", "", "p"),
            Err(SettingsError::Unused {
                there: "metrics.password_file"
            })
        );
        for found in [
            "localhost",
            "localhost:9315",
            "127.0.0.1",
            ":9315",
            "127.0.0.1:x",
            "9315",
        ] {
            assert_eq!(
                check(found, "", "", ""),
                Err(SettingsError::Listen {
                    found: found.to_owned()
                })
            );
        }
    }

    #[test]
    fn loopback_address_needs_no_access_control() {
        for listen in [
            "127.0.0.1:9315",
            "127.3.2.1:0",
            "[::1]:9315",
            "[::ffff:127.0.0.1]:9315",
        ] {
            let settings = check(listen, "", "", "")
                .expect("the table is valid")
                .expect("it has an address");
            assert_eq!(
                (
                    settings.listen.to_string().as_str(),
                    settings.tls,
                    settings.password_file
                ),
                (listen, None, None)
            );
        }
    }

    #[test]
    fn reachable_address_requires_tls_and_password() {
        for listen in [
            "0.0.0.0:9315",
            "[::]:9315",
            "10.0.0.1:9315",
            "[::ffff:10.0.0.1]:9315",
            "[fe80::1]:9315",
        ] {
            for (cert, key, password, expected) in [
                (
                    "",
                    "",
                    "",
                    "metrics.tls_cert, metrics.tls_key, metrics.password_file",
                ),
                ("", "", "p", "metrics.tls_cert, metrics.tls_key"),
                ("c", "k", "", "metrics.password_file"),
            ] {
                let Err(SettingsError::Open { missing, .. }) = check(listen, cert, key, password)
                else {
                    panic!("{listen} is open")
                };
                assert_eq!(missing, expected);
            }
            assert!(
                check(listen, "c", "k", "p")
                    .expect("the table is valid")
                    .is_some()
            );
        }
        assert!(
            matches!(check("127.0.0.1:1", "c", "", ""), Err(SettingsError::Half { missing, .. }) if missing == "metrics.tls_key")
        );
        assert!(
            matches!(check("0.0.0.0:1", "", "k", "p"), Err(SettingsError::Half { missing, .. }) if missing == "metrics.tls_cert")
        );
    }

    #[test]
    fn plain_http_admits_this_host_and_the_named_networks_only() {
        let settings = plain("0.0.0.0:9315", "10.1.0.0/16, fd00:1::/32")
            .expect("the table is valid")
            .expect("it has an address");
        let admits = |address: &str| settings.admits(address.parse().expect("an address"));
        for client in [
            "10.1.0.0",
            "10.1.255.255",
            "::ffff:10.1.2.3",
            "127.0.0.1",
            "::1",
            "fd00:1::5",
        ] {
            assert!(admits(client), "{client}");
        }
        for client in [
            "10.0.255.255",
            "10.2.0.0",
            "192.0.2.1",
            "::ffff:10.2.0.0",
            "fd00:2::1",
            "::2",
        ] {
            assert!(!admits(client), "{client}");
        }
        // A password is possible, but TLS is not.
        let with = |tls_cert: &str, password_file: &str| {
            let [listen, tls_cert, password_file] =
                ["10.1.0.1:9315", tls_cert, password_file].map(str::to_owned);
            Raw {
                listen,
                tls_key: tls_cert.clone(),
                tls_cert,
                password_file,
                plain_http: "10.1.0.0/16".to_owned(),
                ..Raw::default()
            }
            .check()
        };
        assert_eq!(with("c", ""), Err(SettingsError::Both));
        assert!(with("", "p").is_ok_and(|settings| {
            settings.is_some_and(|settings| settings.password_file.is_some())
        }));
        // Without the key, the address decides.
        let open = check("127.0.0.1:9315", "", "", "")
            .expect("the table is valid")
            .expect("it has an address");
        assert!(open.admits("192.0.2.1".parse().expect("an address")));
    }

    #[test]
    fn faulty_network_of_plain_http_is_named() {
        assert_eq!(
            plain("", "10.1.0.0/16"),
            Err(SettingsError::Unused {
                there: "metrics.plain_http"
            })
        );
        for (text, part, expected) in [
            ("10.1.0.0", "10.1.0.0", "a network with"),
            ("mgmt", "mgmt", "a network with"),
            ("10.1.0.0/16,", "", "a network with"),
            ("10.1.0.0/33", "10.1.0.0/33", "a network with"),
            (
                "10.1.2.3/16",
                "10.1.2.3/16",
                "zeros behind the prefix: 10.1.0.0/16",
            ),
            (
                "10.1.0.0/16,0.0.0.0/0",
                "0.0.0.0/0",
                "a network that is smaller",
            ),
            ("::/0", "::/0", "a network that is smaller"),
        ] {
            let Err(SettingsError::Network {
                found,
                expected: text_of,
            }) = plain("0.0.0.0:1", text)
            else {
                panic!("{text} is accepted")
            };
            assert!(
                found == part && text_of.starts_with(expected),
                "{text}: {found} {text_of}"
            );
        }
    }
}
