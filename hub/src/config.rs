//! The configuration: `ibnet-hub.toml`. [`Raw`] has the values as in the file.
//!
//! `ibnet-hub.toml.example` lists every key with its unit and default. A test compares this file
//! with [`Raw::default`]. A flag of the program overrides the key of the same name.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Uri;
use ibnet::config::{self, FileError, Keys, SIMULATED, Scenario, Simulated};
use ibnet::http_client::without_user;
use ibnet::metrics;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::groups::{Group, Groups};
use ibnet_analysis::job::source::ask::Manager;
use ibnet_record::types::Printable;
use ibnet_store::retain::Keep;
use miette::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::alerts::settings::{self, Settings, Wrong};
pub use crate::users::Proxy;

/// The keys of `ibnet-hub.toml`.
static KEYS: Keys = Keys {
    file: "ibnet-hub.toml.example",
    examples: &[EXAMPLES, SIMULATED],
};

/// Keys, and a valid value of each as in the file.
const EXAMPLES: &[(&str, &str)] = &[
    ("inputs", "[\"tcp://node001:9331\"]"),
    ("net", "\"fabric.p\""),
    ("fabric", "\"fabric\""),
    ("listen", "\"127.0.0.1:8080\""),
    ("tls_cert", "\"/etc/ibnet/hub.crt\""),
    ("tls_key", "\"/etc/ibnet/hub.key\""),
    ("password_file", "\"/etc/ibnet/hub.password\""),
    ("recent", "\"15m\""),
    ("recent_max", "\"1GiB\""),
    ("every", "1"),
    ("history", "\"24h\""),
    ("history_max", "\"256MiB\""),
    ("archive", "\"/var/lib/ibnet/archive\""),
    ("archive_pack", "true"),
    ("archive_every", "\"10m\""),
    ("archive_spool_max", "\"20GiB\""),
    ("archive_keep_age", "[\"ports=30d\"]"),
    ("archive_keep_total", "[\"ports=500GiB\"]"),
    ("archive_consumer", "\"ibnet-hub\""),
    ("verdicts", "\"/var/lib/ibnet/verdicts\""),
    ("jobs", "\"slurm\""),
    ("hide_users", "true"),
    ("routes", "\"/var/lib/ibnet/routes.txt\""),
    ("cabling", "\"/var/lib/ibnet/cabling.csv\""),
    ("marks", "\"/var/lib/ibnet/marks.csv\""),
    ("groups", "[\"storage=oss*,mds*\"]"),
    ("simulate", "\"fabric.p\""),
    ("alerts.off", "[\"InfinibandRelayErrors\"]"),
    ("alerts.hold", "[\"InfinibandHcaDead=10m\"]"),
    ("alerts.limits", "[\"InfinibandSymbolErrors=100\"]"),
    ("alerts.recovery", "\"1m\""),
    (
        "alerts.runbook",
        "\"https://wiki.example/ibnet/runbook.md\"",
    ),
    ("alerts.alertmanager", "[\"http://localhost:9093\"]"),
    ("alerts.watchdog", "true"),
    ("alerts.webhook", "\"https://chat.example/hook\""),
    ("alerts.command", "[\"/usr/local/bin/page\", \"--network\"]"),
    ("alerts.beat", "\"https://beat.example/ping\""),
    ("alerts.ca_file", "\"/etc/ibnet/ca.pem\""),
    ("alerts.marks", "\"/var/lib/ibnet/marks.json\""),
    ("alerts.state", "\"/var/lib/ibnet/alerts\""),
    ("users.tokens_file", "\"/etc/ibnet/hub.tokens\""),
    ("users.marks_file", "\"/var/lib/ibnet/posted.json\""),
    ("users.proxies", "[\"127.0.0.1\"]"),
    ("users.user_header", "\"X-Remote-User\""),
    ("users.groups_header", "\"X-Remote-Groups\""),
    ("users.admins", "[\"hpc-admins\"]"),
    ("users.operators", "[\"hpc-operators\"]"),
    ("users.audit", "\"/var/lib/ibnet/hub-audit.jsonl\""),
];

/// Names of the files with the state of the verdicts and of the alerts in the folder of an archive.
const VERDICTS: &str = ".verdicts";
const ALERTS: &str = ".alerts";

/// The configuration as in the file. An empty string means "not set".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// The inputs.
    pub inputs: Vec<RawInput>,
    /// Path of a net file.
    pub net: String,
    /// Name of the fabric on the page.
    pub fabric: String,
    /// Address and port of the page.
    pub listen: String,
    /// Path of the certificate chain, PEM.
    pub tls_cert: String,
    /// Path of the private key of the certificate, PEM.
    pub tls_key: String,
    /// Path of the password file.
    pub password_file: String,
    /// Time for which all records are kept in memory.
    pub recent: String,
    /// Largest size of these records.
    pub recent_max: String,
    /// One slot in this number is kept in memory.
    pub every: u64,
    /// Time for which the means of minutes are kept in memory.
    pub history: String,
    /// Largest size of these means.
    pub history_max: String,
    /// Path of an archive.
    pub archive: String,
    /// Whether the hub packs what it gathers into the archive.
    pub archive_pack: bool,
    /// Time between two runs of packing.
    pub archive_every: String,
    /// Largest size of the records that wait to be packed.
    pub archive_spool_max: String,
    /// For tables of the archive: age from which an hour is removed.
    pub archive_keep_age: Vec<String>,
    /// For tables of the archive: largest size of all files.
    pub archive_keep_total: Vec<String>,
    /// Name of the durable consumer of a JetStream stream.
    pub archive_consumer: String,
    /// Path of a file in which the state of the verdicts on links is kept.
    pub verdicts: String,
    /// Path of a file with jobs, or `slurm`, or `pbs`.
    pub jobs: String,
    /// Whether the names of users are removed from jobs.
    pub hide_users: bool,
    /// Path of a file with forwarding tables.
    pub routes: String,
    /// Path of a file with the cabling as planned.
    pub cabling: String,
    /// Path of a file with the marks of applications.
    pub marks: String,
    /// Groups of hosts: `NAME=HOSTLIST`.
    pub groups: Vec<String>,
    /// Path of the net file of a simulated fabric.
    pub simulate: String,
    /// Behaviour of the simulated fabric.
    pub simulated: Simulated,
    /// Alerts.
    pub alerts: settings::Raw,
    /// Users and their roles.
    pub users: RawUsers,
}

/// An input: its URL, or a table that also has the address of a page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum RawInput {
    /// The URL.
    Url(String),
    /// The URL, and the page of the hub of this part of the fabric.
    OfPart {
        /// The URL.
        url: String,
        /// Address of the page.
        page: String,
    },
}

impl RawInput {
    /// Returns the URL of the input.
    pub fn url(&self) -> &str {
        let (Self::Url(url) | Self::OfPart { url, .. }) = self;
        url
    }

    /// Returns the address of the page of the hub of this part of the fabric.
    pub fn page(&self) -> Option<&str> {
        match self {
            Self::Url(_) => None,
            Self::OfPart { page, .. } => Some(page),
        }
    }

    fn check(&self) -> Result<Self, ConfigError> {
        let is_address = |page: &str| {
            page.parse::<Uri>().is_ok_and(|uri| {
                let scheme = uri.scheme_str();
                (scheme == Some("http") || scheme == Some("https")) && uri.query().is_none()
            }) && !page.contains(['@', '#'])
        };
        match self.page().filter(|page| !is_address(page)) {
            None => Ok(self.clone()),
            Some(page) => Err(ConfigError::Value {
                key: "inputs",
                found: without_user(page),
                expected: "as page an address without a password, such as https://hub1:8080",
            }),
        }
    }
}

/// The table `[users]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawUsers {
    /// Path of a file with the names, tokens and roles of users.
    pub tokens_file: String,
    /// Path of a file in which the hub keeps the marks that users post.
    pub marks_file: String,
    /// Addresses of proxies that authenticate users.
    pub proxies: Vec<String>,
    /// Header with the name of the user.
    pub user_header: String,
    /// Header with the groups of the user.
    pub groups_header: String,
    /// Groups whose members have the role `admin`.
    pub admins: Vec<String>,
    /// Groups whose members have the role `operator`.
    pub operators: Vec<String>,
    /// Path of the audit log.
    pub audit: String,
}

impl Default for RawUsers {
    fn default() -> Self {
        Self {
            tokens_file: String::new(),
            marks_file: String::new(),
            proxies: Vec::new(),
            user_header: "X-Remote-User".to_owned(),
            groups_header: "X-Remote-Groups".to_owned(),
            admins: Vec::new(),
            operators: Vec::new(),
            audit: String::new(),
        }
    }
}

impl RawUsers {
    fn proxy(&self) -> Result<Option<Proxy>, ConfigError> {
        let wrong = |key, found: &str, expected| ConfigError::Value {
            key,
            found: found.to_owned(),
            expected,
        };
        let header = |key, name: &str| {
            name.parse()
                .map_err(|_| wrong(key, name, "the name of a header, such as X-Remote-User"))
        };
        let address = |text: &String| {
            let parsed = text.parse().map(|address: IpAddr| address.to_canonical());
            parsed.map_err(|_| wrong("users.proxies", text, "addresses, such as 127.0.0.1"))
        };
        let proxy = Proxy {
            from: self.proxies.iter().map(address).collect::<Result<_, _>>()?,
            user: header("users.user_header", &self.user_header)?,
            groups: header("users.groups_header", &self.groups_header)?,
            admins: self.admins.clone(),
            operators: self.operators.clone(),
        };
        Ok(Some(proxy).filter(|proxy| !proxy.from.is_empty()))
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            net: String::new(),
            fabric: String::new(),
            listen: "127.0.0.1:8080".to_owned(),
            tls_cert: String::new(),
            tls_key: String::new(),
            password_file: String::new(),
            recent: "15m".to_owned(),
            recent_max: "1GiB".to_owned(),
            every: 1,
            history: "24h".to_owned(),
            history_max: "256MiB".to_owned(),
            archive: String::new(),
            archive_pack: true,
            archive_every: "10m".to_owned(),
            archive_spool_max: "20GiB".to_owned(),
            archive_keep_age: Vec::new(),
            archive_keep_total: Vec::new(),
            archive_consumer: "ibnet-hub".to_owned(),
            verdicts: String::new(),
            jobs: String::new(),
            hide_users: false,
            routes: String::new(),
            cabling: String::new(),
            marks: String::new(),
            groups: Vec::new(),
            simulate: String::new(),
            simulated: Simulated {
                scenario: Scenario::Incast.as_str().to_owned(),
                scenario_start: "10s".to_owned(),
                scenario_length: "20s".to_owned(),
                // PortXmitWait of 32 bits would be at its maximum after some minutes of congestion.
                wide_counters: "all".to_owned(),
                ..Simulated::default()
            },
            alerts: settings::Raw::default(),
            users: RawUsers::default(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ConfigError {
    /// The file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// A value is not valid.
    #[error("cannot use {key}: expected {expected} (found {found:?})")]
    #[diagnostic(help(
        "correct the value in the configuration{}; ibnet-hub.toml.example explains every key",
        or_flag(key)
    ))]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        found: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// A rule of the archive is not valid.
    #[error("cannot use {key}: {} (found {found:?})", Printable(why))]
    #[diagnostic(help(
        "give a list such as [\"ports=30d\"] or [\"ports=500GiB\"]; docs/archive.md lists the tables"
    ))]
    Keep {
        /// The key.
        key: &'static str,
        /// The rule.
        found: String,
        /// What is wrong.
        why: String,
    },
    /// Two groups have the same name.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Groups(#[from] AnalysisError),
    /// Address and access control are not valid.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Access(#[from] metrics::SettingsError),
}

/// Returns the part of a remedy that names the flag of a key, if there is one.
fn or_flag(key: &str) -> &'static str {
    match key {
        "listen" => " or the flag --listen",
        "recent" => " or the flag --recent",
        "groups" => " or the flag --group",
        _ => "",
    }
}

/// Where jobs come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobSource {
    /// A file that another program writes.
    File(PathBuf),
    /// The commands of a resource manager, once a minute.
    Manager(Manager),
}

/// How the hub packs what it gathers into an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packing {
    /// Folder of the archive.
    pub archive: PathBuf,
    /// Time between two runs.
    pub every: Duration,
    /// Largest size of the records that wait, in bytes.
    pub spool_max: u64,
    /// How much of each table is kept. All of a table without a rule.
    pub keep: Vec<Keep>,
    /// Name of the durable consumer of a JetStream stream.
    pub consumer: String,
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The inputs.
    pub inputs: Vec<RawInput>,
    /// Path of a net file.
    pub net: Option<PathBuf>,
    /// Name of the fabric on the page. Without one, it is the name of the net file.
    pub fabric: String,
    /// Address and access control of the page.
    pub access: metrics::Settings,
    /// Time for which all records are kept.
    pub recent: Duration,
    /// Largest size of these records in bytes.
    pub recent_max: usize,
    /// One slot in this number is kept.
    pub every: u64,
    /// Time for which the means of minutes are kept.
    pub history: Duration,
    /// Largest size of these means in bytes.
    pub history_max: usize,
    /// Folder of an archive.
    pub archive: Option<PathBuf>,
    /// How the hub packs into the archive. `None` if it only reads the archive, or has none.
    pub packing: Option<Packing>,
    /// File in which the state of the verdicts on links is kept.
    pub verdicts: Option<PathBuf>,
    /// Source of jobs.
    pub jobs: Option<JobSource>,
    /// Whether the names of users are removed from jobs.
    pub hide_users: bool,
    /// File with forwarding tables.
    pub routes: Option<PathBuf>,
    /// File with the cabling as planned.
    pub cabling: Option<PathBuf>,
    /// File with the marks of applications.
    pub marks: Option<PathBuf>,
    /// Groups of hosts.
    pub groups: Groups,
    /// Net file of a simulated fabric, and its behaviour.
    pub simulate: Option<(PathBuf, Simulated)>,
    /// Alerts.
    pub alerts: Settings,
    /// File with the names, tokens and roles of users.
    pub tokens_file: Option<PathBuf>,
    /// File that keeps the marks of users.
    pub posted_marks: Option<PathBuf>,
    /// Proxy that authenticates users.
    pub proxy: Option<Proxy>,
    /// Audit log.
    pub audit: Option<PathBuf>,
}

impl Raw {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not valid TOML, or has an unknown key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Ok(config::read(path, &KEYS)?)
    }

    /// Checks all values.
    ///
    /// # Errors
    /// Returns an error for the first invalid value.
    pub fn check(&self) -> Result<Config, ConfigError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let stem = |path: &PathBuf| {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        let (net, simulate) = (path(&self.net), path(&self.simulate));
        let fabric = if self.fabric.is_empty() {
            net.as_ref()
                .or(simulate.as_ref())
                .and_then(stem)
                .unwrap_or_default()
        } else {
            self.fabric.clone()
        };
        let in_archive = |name| {
            let archive = path(&self.archive).filter(|_| self.archive_pack);
            archive.map(|archive| archive.join(name))
        };
        let mut alerts = self.alerts.check().map_err(
            |Wrong {
                 key,
                 found,
                 expected,
             }| ConfigError::Value {
                key,
                found,
                expected,
            },
        )?;
        alerts.state = alerts.state.or_else(|| in_archive(ALERTS));
        let inputs = self.inputs.iter().map(RawInput::check);
        const MINUTE: Duration = Duration::from_secs(60);
        const DAY: Duration = Duration::from_secs(86_400);
        Ok(Config {
            inputs: inputs.collect::<Result<_, _>>()?,
            net,
            fabric,
            access: self.access()?,
            recent: duration(
                "recent",
                &self.recent,
                (MINUTE, 7 * DAY),
                "a duration from 1m to 7days, such as 15m",
            )?,
            recent_max: size("recent_max", &self.recent_max)?,
            every: match self.every {
                every @ 1..=3600 => every,
                other => {
                    return Err(ConfigError::Value {
                        key: "every",
                        found: other.to_string(),
                        expected: "a number of slots from 1 to 3600, such as 10",
                    });
                }
            },
            history: duration(
                "history",
                &self.history,
                (MINUTE, 366 * DAY),
                "a duration from 1m to 1year, such as 24h",
            )?,
            history_max: size("history_max", &self.history_max)?,
            archive: path(&self.archive),
            packing: path(&self.archive)
                .filter(|_| self.archive_pack)
                .map(|archive| self.packing(archive))
                .transpose()?,
            verdicts: path(&self.verdicts).or_else(|| in_archive(VERDICTS)),
            jobs: match &*self.jobs {
                "" => None,
                "slurm" => Some(JobSource::Manager(Manager::Slurm)),
                "pbs" => Some(JobSource::Manager(Manager::Pbs)),
                file => Some(JobSource::File(PathBuf::from(file))),
            },
            hide_users: self.hide_users,
            routes: path(&self.routes),
            cabling: path(&self.cabling),
            marks: path(&self.marks),
            groups: self.groups()?,
            simulate: simulate.map(|net| (net, self.simulated.clone())),
            tokens_file: path(&self.users.tokens_file),
            posted_marks: path(&self.users.marks_file),
            proxy: self.users.proxy()?,
            audit: path(&self.users.audit),
            alerts,
        })
    }

    fn packing(&self, archive: PathBuf) -> Result<Packing, ConfigError> {
        const EXPECTED: &str = "a duration from 10s to 1h, such as 10m";
        let limits = (Duration::from_secs(10), Duration::from_secs(3600));
        let mut keep = Vec::new();
        for (key, texts, parse) in [
            (
                "archive_keep_age",
                &self.archive_keep_age,
                Keep::of_age as fn(&str) -> Result<Keep, String>,
            ),
            (
                "archive_keep_total",
                &self.archive_keep_total,
                Keep::of_total,
            ),
        ] {
            for text in texts {
                keep.push(parse(text).map_err(|why| ConfigError::Keep {
                    key,
                    found: text.clone(),
                    why,
                })?);
            }
        }
        // These are the characters that a server accepts in the name of a consumer.
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|octet| octet.is_ascii_alphanumeric() || b"-_".contains(&octet))
        };
        if !is_name(&self.archive_consumer) {
            let expected = "letters, digits, - and _";
            return Err(ConfigError::Value {
                key: "archive_consumer",
                found: self.archive_consumer.clone(),
                expected,
            });
        }
        Ok(Packing {
            archive,
            every: duration("archive_every", &self.archive_every, limits, EXPECTED)?,
            spool_max: size("archive_spool_max", &self.archive_spool_max)? as u64,
            keep,
            consumer: self.archive_consumer.clone(),
        })
    }

    fn groups(&self) -> Result<Groups, ConfigError> {
        const EXPECTED: &str =
            "NAME=HOSTLIST such as storage=oss*,mds*, with a name without blanks and = , [ ] * ?";
        let parse = |text: &String| {
            text.parse::<Group>().map_err(|_| ConfigError::Value {
                key: "groups",
                found: text.clone(),
                expected: EXPECTED,
            })
        };
        Ok(Groups::new(
            self.groups.iter().map(parse).collect::<Result<_, _>>()?,
        )?)
    }

    fn access(&self) -> Result<metrics::Settings, ConfigError> {
        let wrong = || ConfigError::Value {
            key: "listen",
            found: self.listen.clone(),
            expected: "an address and a port, such as 127.0.0.1:8080",
        };
        let access = metrics::Access {
            prefix: "",
            listen: self.listen.parse().map_err(|_| wrong())?,
            tls_cert: &self.tls_cert,
            tls_key: &self.tls_key,
            password_file: &self.password_file,
            plain_http: Vec::new(),
        };
        Ok(access.check()?)
    }
}

fn duration(
    key: &'static str,
    text: &str,
    (least, most): (Duration, Duration),
    expected: &'static str,
) -> Result<Duration, ConfigError> {
    let wrong = || ConfigError::Value {
        key,
        found: text.to_owned(),
        expected,
    };
    let parsed = humantime::parse_duration(text).map_err(|_| wrong())?;
    if (least..=most).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(wrong())
    }
}

/// Parses a size such as `1GiB`.
fn size(key: &'static str, text: &str) -> Result<usize, ConfigError> {
    const UNITS: [(&str, usize); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let parsed = UNITS.iter().find_map(|(unit, octets)| {
        text.strip_suffix(unit)?
            .trim()
            .parse::<usize>()
            .ok()?
            .checked_mul(*octets)
    });
    let wrong = || ConfigError::Value {
        key,
        found: text.to_owned(),
        expected: "a size of at least 16MiB, such as 256MiB or 1GiB",
    };
    parsed
        .filter(|octets| *octets >= 16 << 20)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const EXAMPLE: &str = include_str!("../../ibnet-hub.toml.example");

    fn refused(change: impl FnOnce(&mut Raw)) -> String {
        let mut raw = Raw::default();
        change(&mut raw);
        raw.check().expect_err("refused").to_string()
    }

    #[test]
    fn example_has_the_default_of_every_key() {
        let example: Raw = toml::from_str(EXAMPLE).expect("it parses");
        assert_eq!(example, Raw::default());
        let (example, defaults): (toml::Table, _) = (
            toml::from_str(EXAMPLE).expect("it parses"),
            toml::Table::try_from(Raw::default()).expect("a table"),
        );
        let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&example), keys(&defaults));
        for table in ["simulated", "alerts", "users"] {
            let keys = |all: &toml::Table| all[table].as_table().map(keys);
            assert_eq!(keys(&example), keys(&defaults), "{table}");
        }
    }

    #[test]
    fn reachable_address_requires_tls_and_a_password() {
        for listen in [
            "0.0.0.0:8080",
            "[::]:8080",
            "10.0.0.1:80",
            "[::ffff:10.0.0.1]:80",
        ] {
            let error = refused(|raw| raw.listen = listen.to_owned());
            assert!(
                error.contains("tls_cert, tls_key, password_file"),
                "{error}"
            );
            let error = refused(|raw| {
                (raw.listen, raw.tls_cert, raw.tls_key) =
                    (listen.to_owned(), "c".to_owned(), "k".to_owned());
            });
            assert!(error.contains("not set: password_file"), "{error}");
        }
        assert!(refused(|raw| raw.tls_cert = "c".to_owned()).contains("tls_key is not set"));
        let config = Raw {
            listen: "[::1]:0".to_owned(),
            ..Raw::default()
        }
        .check()
        .expect("loopback");
        assert_eq!(
            (config.access.tls, config.access.password_file),
            (None, None)
        );
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(
            refused(|raw| raw.listen = "8080".to_owned()),
            "cannot use listen: expected an address and a port, such as 127.0.0.1:8080 (found \"8080\")"
        );
        assert!(
            refused(|raw| raw.groups = vec!["storage".to_owned()])
                .starts_with("cannot use groups: expected NAME=HOSTLIST")
        );
        assert!(
            refused(|raw| raw.groups = ["a=n1", "a=n2"].map(str::to_owned).to_vec())
                .contains("a group `a` was given before")
        );
        assert!(refused(|raw| raw.recent = "1s".to_owned()).starts_with("cannot use recent:"));
        assert!(
            refused(|raw| raw.recent_max = "1GB".to_owned()).starts_with("cannot use recent_max:")
        );
        assert!(
            refused(|raw| raw.history_max = "1MiB".to_owned())
                .starts_with("cannot use history_max:")
        );
        let alerts = |change: fn(&mut settings::Raw)| refused(|raw| change(&mut raw.alerts));
        for (error, key) in [
            (
                alerts(|raw| raw.off = vec!["X".to_owned()]),
                "off: expected names",
            ),
            (
                alerts(|raw| raw.hold = vec!["InfinibandHcaDead=2days".to_owned()]),
                "hold: expected",
            ),
            (
                alerts(|raw| raw.limits = vec!["InfinibandHcaDead=2".to_owned()]),
                "limits: expected",
            ),
            (
                alerts(|raw| raw.recovery = "1".to_owned()),
                "recovery: expected a duration",
            ),
        ] {
            assert!(
                error.starts_with(&format!("cannot use alerts.{key}")),
                "{error}"
            );
        }
        let users = |change: fn(&mut RawUsers)| refused(|raw| change(&mut raw.users));
        assert!(
            users(|raw| raw.proxies = vec!["proxy.example".to_owned()])
                .starts_with("cannot use users.proxies: expected addresses")
        );
        assert!(
            users(|raw| raw.user_header = "a b".to_owned())
                .starts_with("cannot use users.user_header:")
        );
        let archive = |change: fn(&mut Raw)| {
            refused(|raw| {
                raw.archive = "a".to_owned();
                change(raw);
            })
        };
        assert!(
            archive(|raw| raw.archive_every = "5s".to_owned())
                .starts_with("cannot use archive_every: expected a duration from 10s")
        );
        assert!(
            archive(|raw| raw.archive_spool_max = "1".to_owned())
                .starts_with("cannot use archive_spool_max:")
        );
        assert!(
            archive(|raw| raw.archive_consumer = "a.b".to_owned())
                .starts_with("cannot use archive_consumer: expected letters")
        );
        let error = archive(|raw| raw.archive_keep_age = vec!["port=30d".to_owned()]);
        assert!(
            error.starts_with("cannot use archive_keep_age: the archive has no table `port`")
                && error.ends_with("(found \"port=30d\")")
        );
        let error = archive(|raw| raw.archive_keep_total = vec!["ports=much".to_owned()]);
        assert!(error.contains("give a size such as 500GiB"), "{error}");
        let only_read = Raw {
            archive: "a".to_owned(),
            archive_pack: false,
            ..Raw::default()
        }
        .check()
        .expect("valid");
        assert_eq!(
            (only_read.packing, only_read.archive),
            (None, Some("a".into()))
        );
    }

    #[test]
    fn page_of_an_input_is_an_address() {
        let read = |text: &str| toml::from_str::<Raw>(text).map_err(|error| error.to_string());
        let both = r#"inputs = ["-", { url = "tcp://a:1", page = "https://hub1:8080/ib" }]"#;
        let inputs = read(both).expect("valid").check().expect("valid").inputs;
        let found: Vec<_> = inputs.iter().map(|of| (of.url(), of.page())).collect();
        let page = Some("https://hub1:8080/ib");
        assert_eq!(found, [("-", None), ("tcp://a:1", page)]);
        for page in [
            "",
            "hub1:8080",
            "/ib",
            "https://",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://hub1/#/links",
            "https://hub1/?at=1",
            "https://user:CANARY@hub1",
        ] {
            let input = RawInput::OfPart {
                url: "-".to_owned(),
                page: page.to_owned(),
            };
            let error = refused(|raw| raw.inputs.push(input));
            assert!(
                error.starts_with("cannot use inputs: expected as page")
                    && !error.contains("CANARY"),
                "{error}"
            );
        }
        assert!(read(r#"inputs = [{ url = "-", pge = "https://hub1" }]"#).is_err());
    }

    #[test]
    fn remedy_names_only_flags_that_exist() {
        let help = |change: fn(&mut Raw)| {
            let mut raw = Raw::default();
            change(&mut raw);
            raw.check()
                .expect_err("refused")
                .help()
                .expect("it has one")
                .to_string()
        };
        for (help, place) in [
            (
                help(|raw| raw.recent = "1s".to_owned()),
                "the configuration or the flag --recent;",
            ),
            (
                help(|raw| raw.groups = vec!["x".to_owned()]),
                "the configuration or the flag --group;",
            ),
            (
                help(|raw| raw.recent_max = "1".to_owned()),
                "the configuration;",
            ),
        ] {
            assert!(
                help.starts_with(&format!("correct the value in {place}")),
                "{help}"
            );
        }
    }

    #[test]
    fn errors_of_the_file_have_line_and_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ibnet-hub.toml");
        let lists = "ibnet-hub.toml.example lists every key with its unit and default";
        for (text, message, help) in [
            (
                &b"recent = \"15m\"\nrecnt = \"1m\"\n"[..],
                "2: cannot use recnt: there is no such key",
                format!("did you mean recent? {lists}"),
            ),
            (
                b"\nrecent = 15\n",
                "2: cannot use recent: the value is not valid (found 15)",
                format!("a valid line is recent = \"15m\"; {lists}"),
            ),
            (
                b"[simulated]\nloss = \"x\"\n",
                "2: cannot use simulated.loss: the value is not valid (found \"x\")",
                String::new(),
            ),
            (
                b"listen = 127.0.0.1:1\n",
                "1: cannot read this line: ",
                "a valid line is listen = \"127.0.0.1:8080\"; ".to_owned(),
            ),
            (
                b"# a\n# \xe9t\xe9\n",
                "2: cannot read this line: the text is not UTF-8",
                "save the file in the encoding UTF-8".to_owned(),
            ),
        ] {
            std::fs::write(&path, text).expect("written");
            let error = Raw::read(&path).expect_err("refused");
            let place = format!("{}:{message}", path.display());
            assert!(error.to_string().starts_with(&place), "{error}");
            let found = error.help().expect("it has one").to_string();
            assert!(found.starts_with(&help), "{found}");
        }
        for inputs in ["\"{}\"", "[{ url = \"{}\", pge = \"https://hub1\" }]"] {
            let inputs = inputs.replace("{}", "nats://user:CANARY@host");
            std::fs::write(&path, format!("inputs = {inputs}")).expect("written");
            let error = Raw::read(&path).expect_err("refused");
            assert!(!format!("{error:?}").contains("CANARY"));
            assert!(
                error
                    .to_string()
                    .contains("1: cannot use inputs: the value is not valid")
            );
        }
        assert!(
            Raw::read(Path::new("/dev/zero"))
                .expect_err("refused")
                .to_string()
                .starts_with("cannot read /dev/zero")
        );
    }

    #[test]
    fn every_key_has_an_example_that_is_valid() {
        let defaults = toml::Table::try_from(Raw::default()).expect("it serializes");
        let found = EXAMPLES.iter().chain(SIMULATED).map(|(key, _)| *key);
        let defaults = defaults.iter().flat_map(|(key, value)| match value {
            toml::Value::Table(table) => table.keys().map(|name| format!("{key}.{name}")).collect(),
            _ => vec![key.clone()],
        });
        assert_eq!(
            found.map(str::to_owned).collect::<BTreeSet<_>>(),
            defaults.collect()
        );
        for (key, _) in EXAMPLES {
            let table = key.split_once('.').map(|(table, _)| format!("[{table}]\n"));
            let text = table.unwrap_or_default() + &KEYS.example(key).expect("it has one");
            let raw: Raw = toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            // The certificate and its key need each other.
            if !key.starts_with("tls_") {
                raw.check()
                    .unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }
}
