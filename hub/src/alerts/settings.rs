//! The table `[alerts]` of the configuration. [`Raw`] has the values as in the file, and
//! [`Settings`] the checked ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use ibnet::http_client::{Access, Client, Fault, without_user};
use serde::{Deserialize, Serialize};

use super::conditions::{self, Condition};

/// The table as in the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Names of conditions that are not watched.
    pub off: Vec<String>,
    /// Hold times: `NAME=TIME`.
    pub hold: Vec<String>,
    /// Limits of error counters: `NAME=N`.
    pub limits: Vec<String>,
    /// Time after which a condition that is no longer true is over.
    pub recovery: String,
    /// Address of the runbook.
    pub runbook: String,
    /// URLs of Alertmanagers.
    pub alertmanager: Vec<String>,
    /// Whether Alertmanager also gets an alert that always fires.
    pub watchdog: bool,
    /// URL that gets each change of state.
    pub webhook: String,
    /// Program and arguments that get each change of state.
    pub command: Vec<String>,
    /// URL that gets a request each minute.
    pub beat: String,
    /// PEM file with the certificates to trust.
    pub ca_file: String,
    /// File in which marks are kept.
    pub marks: String,
    /// File in which the state of the alerts is kept.
    pub state: String,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            off: Vec::new(),
            hold: Vec::new(),
            limits: Vec::new(),
            recovery: "1m".to_owned(),
            runbook: "file:///usr/share/doc/ibnet/docs/runbook.md".to_owned(),
            alertmanager: Vec::new(),
            watchdog: false,
            webhook: String::new(),
            command: Vec::new(),
            beat: String::new(),
            ca_file: String::new(),
            marks: String::new(),
            state: String::new(),
        }
    }
}

/// The checked table.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names of conditions that are not watched.
    pub(crate) off: BTreeSet<&'static str>,
    /// Hold times that differ from the default, by condition.
    hold: BTreeMap<&'static str, Duration>,
    /// Limits that differ from the default, by condition.
    limits: BTreeMap<&'static str, u64>,
    /// Time after which a condition that is no longer true is over.
    pub(crate) recovery: Duration,
    /// Address of the runbook.
    runbook: String,
    /// Who is told.
    pub(crate) targets: Vec<Target>,
    /// Whether Alertmanager also gets an alert that always fires.
    pub(crate) watchdog: bool,
    /// File in which marks are kept.
    pub(crate) marks: Option<PathBuf>,
    /// File in which the state of the alerts is kept.
    pub(crate) state: Option<PathBuf>,
}

/// Who is told about alerts.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// An Alertmanager, which gets all alerts each minute.
    Alertmanager(Client),
    /// A URL that gets each change of state.
    Webhook(Client),
    /// A program with its arguments that gets each change of state.
    Command(Vec<String>),
    /// A URL that gets a request each minute, as long as the hub looks for conditions.
    Beat(Client),
}

/// A value that is not valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The key, with the name of the table.
    pub key: &'static str,
    /// The value.
    pub found: String,
    /// Description of valid values.
    pub expected: &'static str,
}

/// Max time of a request to a receiver.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest hold and recovery time.
const DAY: Duration = Duration::from_secs(86_400);

impl Raw {
    /// Checks all values.
    ///
    /// # Errors
    /// Returns the first value that is not valid.
    pub fn check(&self) -> Result<Settings, Wrong> {
        Ok(Settings {
            off: rules(
                (
                    "alerts.off",
                    "names of conditions, which docs/runbook.md lists",
                ),
                &self.off,
                |text| Some((named(text)?.name, ())),
            )?
            .into_keys()
            .collect(),
            hold: rules(
                (
                    "alerts.hold",
                    "NAME=TIME up to 1day such as InfinibandHcaDead=10m, with the name of a condition of docs/runbook.md",
                ),
                &self.hold,
                |text| {
                    let (name, time) = text.split_once('=')?;
                    Some((named(name)?.name, duration(time)?))
                },
            )?,
            limits: rules(
                (
                    "alerts.limits",
                    "NAME=N such as InfinibandSymbolErrors=100, with the name of a condition of an error counter",
                ),
                &self.limits,
                |text| {
                    let (name, limit) = text.split_once('=')?;
                    let condition = named(name).filter(|known| known.counter.is_some())?;
                    Some((condition.name, limit.trim().parse().ok()?))
                },
            )?,
            recovery: duration(&self.recovery).ok_or_else(|| Wrong {
                key: "alerts.recovery",
                found: self.recovery.clone(),
                expected: "a duration up to 1day, such as 1m",
            })?,
            runbook: self.runbook.clone(),
            targets: self.targets()?,
            watchdog: self.watchdog,
            marks: (!self.marks.is_empty()).then(|| self.marks.clone().into()),
            state: (!self.state.is_empty()).then(|| self.state.clone().into()),
        })
    }

    fn targets(&self) -> Result<Vec<Target>, Wrong> {
        let access = Access {
            secret: None,
            ca_file: (!self.ca_file.is_empty()).then(|| self.ca_file.clone().into()),
        };
        let client = |key, url: &str, path: &str| {
            let url = format!("{}{path}", url.trim_end_matches('/'));
            Client::new(&url, &access, ANSWER_TIMEOUT).map_err(|error| match error.fault {
                Fault::Authority => Wrong {
                    key: "alerts.ca_file",
                    found: self.ca_file.clone(),
                    expected: "a PEM file with certificates that the user of the hub can read",
                },
                _ => Wrong {
                    key,
                    found: without_user(&url),
                    expected: "a URL such as https://host:9093",
                },
            })
        };
        let mut targets = Vec::new();
        for url in &self.alertmanager {
            let made = client("alerts.alertmanager", url, "/api/v2/alerts")?;
            targets.push(Target::Alertmanager(made));
        }
        let is_set = |text: &&String| !text.is_empty();
        if let Some(url) = Some(&self.webhook).filter(is_set) {
            targets.push(Target::Webhook(client("alerts.webhook", url, "")?));
        }
        if !self.command.is_empty() {
            targets.push(Target::Command(self.command.clone()));
        }
        if let Some(url) = Some(&self.beat).filter(is_set) {
            targets.push(Target::Beat(client("alerts.beat", url, "")?));
        }
        Ok(targets)
    }
}

impl Settings {
    /// Returns the time for which a condition must be true before its alert fires.
    pub(crate) fn hold(&self, condition: &Condition) -> Duration {
        self.hold
            .get(condition.name)
            .copied()
            .unwrap_or_else(|| Duration::from_secs(condition.hold_s))
    }

    /// Returns the address of the section of a condition.
    pub(crate) fn runbook(&self, condition: &Condition) -> String {
        format!("{}#{}", self.runbook, condition.name.to_lowercase())
    }

    /// Returns the largest increase in an hour of the counter of a condition, and `default` if the
    /// configuration has none.
    pub(crate) fn limit(&self, condition: &Condition, default: u64) -> u64 {
        self.limits.get(condition.name).copied().unwrap_or(default)
    }
}

/// Returns the condition of this name.
pub(super) fn named(name: &str) -> Option<&'static Condition> {
    conditions::all().find(|condition| condition.name == name.trim())
}

fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text.trim())
        .ok()
        .filter(|duration| *duration <= DAY)
}

/// Parses the rules of a key. The last rule of a condition counts.
fn rules<T>(
    (key, expected): (&'static str, &'static str),
    texts: &[String],
    parse: impl Fn(&str) -> Option<(&'static str, T)>,
) -> Result<BTreeMap<&'static str, T>, Wrong> {
    let wrong = |text: &String| Wrong {
        key,
        found: text.clone(),
        expected,
    };
    texts
        .iter()
        .map(|text| parse(text).ok_or_else(|| wrong(text)))
        .collect()
}
