//! The table `[metrics]` of the configuration. It has the listen address, and the access control
//! for an address that other hosts can reach.

use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Whether the metrics include the ports for which this sampler is the secondary sampler.
    pub secondary: bool,
    /// Patterns of the metric families that are served.
    pub families: Vec<String>,
}

/// The checked table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Listen address and port. Port 0 means any free port.
    pub listen: SocketAddr,
    /// Paths of certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Path of the password file. `None` if no password is required.
    pub password_file: Option<PathBuf>,
    /// The part of the metrics that is served.
    pub content: Content,
}

/// The `[metrics]` table is not valid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SettingsError {
    /// The listen address is not valid.
    #[error("cannot use metrics.listen: expected an address and a port (found {found:?})")]
    #[diagnostic(help("set it to 127.0.0.1:9315 or [::1]:9315 for clients on this host; leave it empty to serve no metrics"))]
    Listen {
        /// Value in the file.
        found: String,
    },
    /// Other hosts can reach the address, and access control is not complete.
    #[error("cannot use metrics.listen: other hosts can reach the address, and these keys are not set: {missing} (found {listen})")]
    #[diagnostic(help(
        "metrics disclose host names and traffic: set metrics.tls_cert, metrics.tls_key and metrics.password_file, or listen on 127.0.0.1 only"
    ))]
    Open {
        /// Configured address.
        listen: SocketAddr,
        /// Keys that are not set, separated by commas.
        missing: String,
    },
    /// Either the certificate or the key is set, but not both.
    #[error("cannot use {there}: {missing} is not set")]
    #[diagnostic(help("set both keys: TLS needs a certificate and its private key, both as PEM files"))]
    Half {
        /// Key that is set.
        there: &'static str,
        /// Key that is not set.
        missing: &'static str,
    },
    /// A pattern of metric families matches none.
    #[error("cannot use metrics.families: expected patterns that match metric families of ibnet (found {found:?})")]
    #[diagnostic(help(
        "a pattern is the name of a family with its suffix, in which * stands for any text, such as \"infiniband_*_bytes_total\"; ! in front excludes the families; docs/metrics.md lists all families"
    ))]
    Families {
        /// Pattern in the file.
        found: String,
    },
    /// Access control is configured without a listen address.
    #[error("cannot use {there}: metrics.listen is not set")]
    #[diagnostic(help("set metrics.listen to an address and a port, such as 127.0.0.1:9315, or remove {there}"))]
    Unused {
        /// Key that is set.
        there: &'static str,
    },
}

impl Raw {
    /// Checks the table. Returns `None` if the table has no listen address.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn check(&self) -> Result<Option<Settings>, SettingsError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let keys =
            [("metrics.tls_cert", &self.tls_cert), ("metrics.tls_key", &self.tls_key), ("metrics.password_file", &self.password_file)];
        let families = Families::new(&self.families).map_err(|found| SettingsError::Families { found })?;
        if self.listen.is_empty() {
            let set = keys.iter().find(|(_, value)| !value.is_empty());
            return set.map_or(Ok(None), |(there, _)| Err(SettingsError::Unused { there }));
        }
        let listen: SocketAddr = self.listen.parse().map_err(|_| SettingsError::Listen { found: self.listen.clone() })?;
        let tls = match (path(&self.tls_cert), path(&self.tls_key)) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(SettingsError::Half { there: keys[0].0, missing: keys[1].0 }),
            (None, Some(_)) => return Err(SettingsError::Half { there: keys[1].0, missing: keys[0].0 }),
        };
        let missing: Vec<_> = keys.iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| *key).collect();
        if !is_local(listen) && !missing.is_empty() {
            return Err(SettingsError::Open { listen, missing: missing.join(", ") });
        }
        Ok(Some(Settings {
            listen,
            tls,
            password_file: path(&self.password_file),
            content: Content { secondary: self.secondary, families },
        }))
    }
}

/// Returns whether only this host can reach the address.
fn is_local(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, cert: &str, key: &str, password: &str) -> Result<Option<Settings>, SettingsError> {
        let [listen, tls_cert, tls_key, password_file] = [listen, cert, key, password].map(str::to_owned);
        Raw { listen, tls_cert, tls_key, password_file, ..Raw::default() }.check()
    }

    #[test]
    fn no_metrics_are_served_without_an_address() {
        assert_eq!(Raw::default().check(), Ok(None));
        assert_eq!(check("", "", "", "p"), Err(SettingsError::Unused { there: "metrics.password_file" }));
        for found in ["localhost", "localhost:9315", "127.0.0.1", ":9315", "127.0.0.1:x", "9315"] {
            assert_eq!(check(found, "", "", ""), Err(SettingsError::Listen { found: found.to_owned() }));
        }
    }

    #[test]
    fn loopback_address_needs_no_access_control() {
        for listen in ["127.0.0.1:9315", "127.3.2.1:0", "[::1]:9315", "[::ffff:127.0.0.1]:9315"] {
            let settings = check(listen, "", "", "").expect("the table is valid").expect("it has an address");
            assert_eq!((settings.listen.to_string().as_str(), settings.tls, settings.password_file), (listen, None, None));
        }
    }

    #[test]
    fn reachable_address_requires_tls_and_password() {
        for listen in ["0.0.0.0:9315", "[::]:9315", "10.0.0.1:9315", "[::ffff:10.0.0.1]:9315", "[fe80::1]:9315"] {
            for (cert, key, password, expected) in [
                ("", "", "", "metrics.tls_cert, metrics.tls_key, metrics.password_file"),
                ("", "", "p", "metrics.tls_cert, metrics.tls_key"),
                ("c", "k", "", "metrics.password_file"),
            ] {
                let Err(SettingsError::Open { missing, .. }) = check(listen, cert, key, password) else { panic!("{listen} is open") };
                assert_eq!(missing, expected);
            }
            assert!(check(listen, "c", "k", "p").expect("the table is valid").is_some());
        }
        assert!(matches!(check("127.0.0.1:1", "c", "", ""), Err(SettingsError::Half { missing: "metrics.tls_key", .. })));
        assert!(matches!(check("0.0.0.0:1", "", "k", "p"), Err(SettingsError::Half { missing: "metrics.tls_cert", .. })));
    }
}
