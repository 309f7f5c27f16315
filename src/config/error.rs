//! Errors of a configuration. Each one has the file and the line, the value, and a remedy.

use std::path::Path;

use ibnet_record::suggest;
use miette::Diagnostic;

use super::examples::KEYS;
use super::file::FileError;
use super::keys;
use crate::metrics;

/// Error of a configuration.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A value is out of range, or has the wrong form.
    #[error("{place}cannot use {key}: expected {expected} (found {found:?})")]
    #[diagnostic(help("{}", remedy(key, *nearest)))]
    Value {
        /// Position as `FILE:LINE: `, or an empty string if the value does not come from the file.
        place: String,
        /// The key, preceded by the name of its table and a dot.
        key: &'static str,
        /// Index of the `[[output]]` table that has the key.
        table: Option<usize>,
        /// The value.
        found: String,
        /// Description of valid values.
        expected: String,
        /// The value that the user probably meant.
        nearest: Option<&'static str>,
    },
    /// Neither a plan nor a net file is given.
    #[error("cannot sweep: neither an assignments file nor a net file is given")]
    #[diagnostic(help(
        "give --assignments FILE (written by ibnet-gen), or --net FILE with the output of `ibnet-gen discover` or `ibnetdiscover`, or --net umad, to sweep the whole fabric from this host; --simulate FILE needs no InfiniBand"
    ))]
    NothingToSweep,
    /// An output needs the feature `nats`.
    #[error(
        "{place}cannot use an output of type \"nats\": this ibnet-sweep was built without NATS"
    )]
    #[diagnostic(help(
        "build it with `make build-full`, or install a package; or remove this [[output]]"
    ))]
    NoNats {
        /// Position as `FILE:LINE: `, or an empty string.
        place: String,
        /// Index of the `[[output]]` table.
        table: usize,
    },
    /// A published plan needs the feature `nats`.
    #[error("{place}cannot use assignments: this ibnet-sweep was built without NATS")]
    #[diagnostic(help(
        "build it with `make build-full`, or install a package; or give the path of a file"
    ))]
    NoNatsForPlan {
        /// Position as `FILE:LINE: `, or an empty string.
        place: String,
    },
    /// The table `[metrics]` is wrong.
    #[error("{place}{source}")]
    #[diagnostic(forward(source))]
    Metrics {
        /// Position as `FILE:LINE: `, or an empty string.
        place: String,
        /// The error.
        source: metrics::SettingsError,
    },
}

impl From<metrics::SettingsError> for ConfigError {
    fn from(source: metrics::SettingsError) -> Self {
        Self::Metrics {
            place: String::new(),
            source,
        }
    }
}

impl ConfigError {
    /// Adds the line of the file that sets the value. A value that the file does not set has no
    /// line.
    #[must_use]
    pub fn placed(mut self, path: &Path, text: &str) -> Self {
        let at = |line: Option<usize>| {
            line.map(|line| format!("{}:{line}: ", path.display()))
                .unwrap_or_default()
        };
        match &mut self {
            Self::Value {
                place,
                key,
                table,
                found,
                ..
            } => {
                let (inside, key) = match key.split_once('.') {
                    Some(parts) => parts,
                    // Here `found` is the name of a key that this [[output]] table must not have.
                    None if table.is_some() => (*key, found.as_str()),
                    None => ("", *key),
                };
                *place = at(keys::line_of(text, inside, *table, key));
            }
            Self::NoNats { place, table } => {
                *place = at(keys::line_of(text, "output", Some(*table), "type"));
            }
            Self::NoNatsForPlan { place } => {
                *place = at(keys::line_of(text, "", None, "assignments"));
            }
            Self::Metrics { place, source } => {
                use metrics::SettingsError::{Both, Families, Half, Listen, Network, Open, Unused};
                let key = match source {
                    Listen { .. } | Open { .. } => "listen",
                    Network { .. } | Both => "plain_http",
                    Families { .. } => "families",
                    Half { there, .. } => there.strip_prefix("metrics.").unwrap_or(there),
                    Unused { there } => there.strip_prefix("metrics.").unwrap_or(there),
                };
                *place = at(keys::line_of(text, "metrics", None, key));
            }
            _ => {}
        }
        self
    }

    /// Sets the index of the `[[output]]` table to which the error belongs.
    #[must_use]
    pub(super) fn in_table(mut self, index: usize) -> Self {
        match &mut self {
            Self::Value { table, .. } => *table = Some(index),
            Self::NoNats { table, .. } => *table = index,
            _ => {}
        }
        self
    }
}

/// Keys outside of tables that have no flag. Of the keys in tables, only `simulated.scenario` has
/// one.
const WITHOUT_FLAG: [&str; 10] = [
    "clear",
    "cpus",
    "drain",
    "force_groups",
    "identity",
    "max_mads_per_second",
    "output",
    "peers",
    "traps",
    "wait_every",
];

/// Returns the remedy: an example, and where the key can be set.
fn remedy(key: &str, nearest: Option<&str>) -> String {
    let flag = match key {
        "simulated.scenario" => Some("scenario"),
        key => Some(key).filter(|key| !key.contains('.') && !WITHOUT_FLAG.contains(key)),
    };
    let nearest = nearest
        .map(|name| format!("did you mean {name}? "))
        .unwrap_or_default();
    let flag = flag
        .map(|flag| format!(", or use --{flag}"))
        .unwrap_or_default();
    let example = KEYS
        .example(key)
        .map(|line| format!(" to a valid value, such as {line}"))
        .unwrap_or_default();
    format!(
        "{nearest}set {key} in ibnet.toml{example}{flag}; ibnet.toml.example lists every key with its unit and default"
    )
}

/// Returns the error for a value that does not have the expected form.
pub(super) fn value(key: &'static str, found: &impl ToString, expected: &str) -> ConfigError {
    let (place, found, expected) = (String::new(), found.to_string(), expected.to_owned());
    ConfigError::Value {
        place,
        key,
        table: None,
        found,
        expected,
        nearest: None,
    }
}

/// Returns the error for a value that is not one of the names, with the most similar name.
pub(super) fn value_among(
    key: &'static str,
    found: &str,
    expected: &str,
    names: &[&'static str],
) -> ConfigError {
    match value(key, &found, expected) {
        ConfigError::Value {
            place,
            key,
            table,
            found,
            expected,
            ..
        } => {
            let nearest = suggest::nearest(&found, names);
            ConfigError::Value {
                place,
                key,
                table,
                found,
                expected,
                nearest,
            }
        }
        other => other,
    }
}
