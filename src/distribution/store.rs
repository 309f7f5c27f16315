//! The address of a published plan.

use std::fmt;
use std::path::PathBuf;

use crate::output::NatsOptions;

/// Bucket that is used if an address has none.
pub const DEFAULT_BUCKET: &str = "ibnet";

/// Key that is used if an address has none.
pub const DEFAULT_KEY: &str = "plan";

/// Address of a plan in the key-value store of a NATS server, with access to that server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanStore {
    /// Addresses of the server, user and certificates.
    pub server: NatsOptions,
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the plan in the bucket.
    pub key: String,
    /// Path of the copy on a disk.
    pub copy: Option<PathBuf>,
}

impl PlanStore {
    /// Returns whether a text is the address of a published plan, and not the path of a file.
    pub fn is_address(text: &str) -> bool {
        scheme(text).is_some()
    }

    /// Parses an address: `nats://HOST:4222/BUCKET/KEY`. Bucket and key are optional. The servers
    /// of a cluster are separated by commas: `nats://a:4222,b:4222/BUCKET/KEY`.
    ///
    /// Returns `None` if the address is invalid, or has a user name or password.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = &text[scheme(text)?.len()..];
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let or = |text: &str, default: &str| {
            if text.is_empty() {
                default.to_owned()
            } else {
                text.to_owned()
            }
        };
        let (bucket, key) = (or(bucket, DEFAULT_BUCKET), or(key, DEFAULT_KEY));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_valid = !servers.is_empty()
            && !servers.contains('@')
            && bucket.chars().all(is_name)
            && key
                .split('.')
                .all(|part| !part.is_empty() && part.chars().all(is_name));
        let server = NatsOptions {
            server: text[..text.len() - rest.len() + servers.len()].to_owned(),
            ..NatsOptions::default()
        };
        is_valid.then_some(Self {
            server,
            bucket,
            key,
            copy: None,
        })
    }
}

/// Returns the scheme of a server address.
fn scheme(text: &str) -> Option<&'static str> {
    ["nats://", "tls://"]
        .into_iter()
        .find(|scheme| text.starts_with(scheme))
}

impl fmt::Display for PlanStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.server.shown_server(),
            self.bucket,
            self.key
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_servers_bucket_and_key() {
        let shown = |text: &str| PlanStore::parse(text).map(|store| store.to_string());
        let same = "tls://a.example:4222,b:4222/fleet-1/rack_2.plan";
        assert_eq!(shown(same).as_deref(), Some(same));
        assert_eq!(
            PlanStore::parse(same)
                .map(|store| store.server.server)
                .as_deref(),
            Some("tls://a.example:4222,b:4222")
        );
        for short in [
            "nats://a:4222",
            "nats://a:4222/",
            "nats://a:4222/ibnet",
            "nats://a:4222/ibnet/",
        ] {
            assert_eq!(
                shown(short).as_deref(),
                Some("nats://a:4222/ibnet/plan"),
                "{short}"
            );
        }
        for wrong in [
            "nats://",
            "nats:///ibnet",
            "nats://u:p@a/ibnet",
            "nats://a/b c",
            "nats://a/b/c/d",
            "nats://a/b/.c",
            "plan.toml",
            "a:4222",
        ] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
        assert!(PlanStore::is_address("nats://") && !PlanStore::is_address("/etc/nats://x"));
    }
}
