//! User and certificates for a NATS server: the same keys in `[[output]]` and in `[plan_server]`.

use std::path::PathBuf;

use super::ConfigError;
use super::error::value;
use crate::output::NatsOptions;

/// The keys as in the file. `None` or an empty string means "not set".
#[derive(Clone, Copy, Debug)]
pub(super) struct NatsAccess<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) password_file: Option<&'a str>,
    pub(super) credentials: Option<&'a str>,
    pub(super) ca_file: Option<&'a str>,
    pub(super) cert_file: Option<&'a str>,
    pub(super) key_file: Option<&'a str>,
}

/// Names of the keys with their table, for messages.
pub(super) struct Names {
    pub(super) password_file: &'static str,
    pub(super) cert_file: &'static str,
    pub(super) key_file: &'static str,
}

impl NatsAccess<'_> {
    /// Returns connection settings with these keys, and with defaults for everything else.
    pub(super) fn check(self, names: &Names) -> Result<NatsOptions, ConfigError> {
        let path = |key: Option<&str>| key.filter(|text| !text.is_empty()).map(PathBuf::from);
        let certificate = match (path(self.cert_file), path(self.key_file)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(value(
                    names.key_file,
                    &"",
                    "the path of a file, because cert_file is set",
                ));
            }
            (None, Some(_)) => {
                return Err(value(
                    names.cert_file,
                    &"",
                    "the path of a file, because key_file is set",
                ));
            }
        };
        let (user, password_file) = (
            self.user.filter(|user| !user.is_empty()).map(str::to_owned),
            path(self.password_file),
        );
        if user.is_some() && password_file.is_none() {
            return Err(value(
                names.password_file,
                &"",
                "the path of a file with the password, because user is set",
            ));
        }
        let (credentials, ca_file) = (path(self.credentials), path(self.ca_file));
        Ok(NatsOptions {
            user,
            password_file,
            credentials,
            ca_file,
            certificate,
            ..NatsOptions::default()
        })
    }
}
