//! The table `[metrics]` of the configuration: where to listen, and what a listener that others can reach must have.

use std::net::SocketAddr;
use std::path::PathBuf;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};

/// The table as it is written; an empty text means that nothing is said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Address and port.
    pub listen: String,
    /// Path of the certificate and what signed it, in PEM.
    pub tls_cert: String,
    /// Path of its key, in PEM.
    pub tls_key: String,
    /// Path of a file with a password.
    pub password_file: String,
}

/// Where metrics are served: a table that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Address and port; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What a reader has to know.
    pub password_file: Option<PathBuf>,
}

/// Why metrics cannot be served so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum SettingsError {
    /// Not where one can listen.
    #[error("metrics.listen: {found:?} is not an address and a port")]
    #[diagnostic(help("set it to 127.0.0.1:9315 for readers on this host, [::1]:9315 likewise; empty serves no metrics"))]
    Listen {
        /// What is written there.
        found: String,
    },
    /// Others could read, and there is nothing that keeps them from it.
    #[error("metrics.listen: {listen} can be reached from other hosts, and there is no {missing}")]
    #[diagnostic(help(
        "metrics tell of hosts and of their traffic: set metrics.tls_cert, metrics.tls_key and metrics.password_file, or listen on 127.0.0.1 only"
    ))]
    Open {
        /// Where it would listen.
        listen: SocketAddr,
        /// The keys that are not set.
        missing: String,
    },
    /// One without the other.
    #[error("metrics: {there} is set, and {missing} is not")]
    #[diagnostic(help("TLS needs both, the certificate and its key, each in PEM"))]
    Half {
        /// What is set.
        there: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// Nothing listens, so nothing is kept from anybody.
    #[error("metrics: {there} is set, and metrics.listen is not")]
    #[diagnostic(help("set metrics.listen to an address and a port, such as 127.0.0.1:9315, or empty {there}"))]
    Unused {
        /// What is set.
        there: &'static str,
    },
}

impl Raw {
    /// Checks the table; `None`: no metrics are served.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<Option<Settings>, SettingsError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let keys =
            [("metrics.tls_cert", &self.tls_cert), ("metrics.tls_key", &self.tls_key), ("metrics.password_file", &self.password_file)];
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
        Ok(Some(Settings { listen, tls, password_file: path(&self.password_file) }))
    }
}

/// Whether only this host can reach it.
fn is_local(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, cert: &str, key: &str, password: &str) -> Result<Option<Settings>, SettingsError> {
        let [listen, tls_cert, tls_key, password_file] = [listen, cert, key, password].map(str::to_owned);
        Raw { listen, tls_cert, tls_key, password_file }.check()
    }

    #[test]
    fn nothing_listens_unless_it_is_said_where() {
        assert_eq!(Raw::default().check(), Ok(None));
        assert_eq!(check("", "", "", "p"), Err(SettingsError::Unused { there: "metrics.password_file" }));
        for found in ["localhost", "localhost:9315", "127.0.0.1", ":9315", "127.0.0.1:x", "9315"] {
            assert_eq!(check(found, "", "", ""), Err(SettingsError::Listen { found: found.to_owned() }));
        }
    }

    #[test]
    fn loopback_needs_nothing_else() {
        for listen in ["127.0.0.1:9315", "127.3.2.1:0", "[::1]:9315", "[::ffff:127.0.0.1]:9315"] {
            let settings = check(listen, "", "", "").expect("it is fine").expect("it listens");
            assert_eq!((settings.listen.to_string().as_str(), settings.tls, settings.password_file), (listen, None, None));
        }
    }

    #[test]
    fn what_others_can_reach_demands_tls_and_a_password() {
        for listen in ["0.0.0.0:9315", "[::]:9315", "10.0.0.1:9315", "[::ffff:10.0.0.1]:9315", "[fe80::1]:9315"] {
            for (cert, key, password, said) in [
                ("", "", "", "metrics.tls_cert, metrics.tls_key, metrics.password_file"),
                ("", "", "p", "metrics.tls_cert, metrics.tls_key"),
                ("c", "k", "", "metrics.password_file"),
            ] {
                let Err(SettingsError::Open { missing, .. }) = check(listen, cert, key, password) else { panic!("{listen} is open") };
                assert_eq!(missing, said);
            }
            assert!(check(listen, "c", "k", "p").expect("it is fine").is_some());
        }
        assert!(matches!(check("127.0.0.1:1", "c", "", ""), Err(SettingsError::Half { missing: "metrics.tls_key", .. })));
        assert!(matches!(check("0.0.0.0:1", "", "k", "p"), Err(SettingsError::Half { missing: "metrics.tls_cert", .. })));
    }
}
