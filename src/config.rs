//! The configuration of `ibnet-sweep`: as it is written ([`Raw`]), and as it was checked ([`Config`]).
//!
//! Every key stands in `ibnet.toml.example` with its unit, its default and one sentence; a test holds that file against [`Raw::default`].
//! Every flag of the program overrides the key of the same name, before anything is checked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::mad::pma::Group;
use crate::metrics;
use crate::sink::Output;
use crate::sweep::engine;
use crate::types::{HcaName, Printable};

mod keys;

pub use keys::show;

mod output;

pub use output::{Outputs, Table as OutputTable};

/// The file as it is written. Durations are texts such as `5ms`; an empty text means that nothing is said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Path of the assignments file.
    pub assignments: String,
    /// Path of a net file of which all is swept from here, in the place of an assignments file.
    pub net: String,
    /// Which sampler of the assignments file we are.
    pub sampler: String,
    /// Time between two slots.
    pub interval: String,
    /// Names of groups of counters.
    pub groups: Vec<String>,
    /// Groups that are asked of every device, whatever it says that it has.
    pub force_groups: Vec<String>,
    /// Time between two checks of who answers and how its links are.
    pub identity: String,
    /// MADs in flight.
    pub window: usize,
    /// Whether the window becomes smaller while more expires than usual.
    pub adaptive: bool,
    /// A ceiling of MADs a second.
    pub max_mads_per_second: u32,
    /// Deadline of a MAD.
    pub timeout: String,
    /// How long a late reply still counts.
    pub grace: String,
    /// HCA ports that send.
    pub ca: Ca,
    /// CPUs that their threads keep to.
    pub cpus: Vec<usize>,
    /// Service level.
    pub sl: Sl,
    /// P_Key.
    pub pkey: String,
    /// Where records go.
    pub output: Outputs,
    /// Path of the net file of a simulated fabric.
    pub simulate: String,
    /// How it behaves.
    pub simulated: Simulated,
    /// Where metrics are served.
    pub metrics: metrics::Raw,
}

/// A service level as it is written: a number, or `"path"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sl {
    /// 0 to 15.
    Number(u8),
    /// A word.
    Word(String),
}

/// HCA ports as they are written: one, or several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ca {
    /// One; a text that is empty is none.
    One(String),
    /// Any number.
    Many(Vec<String>),
}

/// How a simulated fabric behaves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulated {
    /// Share of requests that get lost.
    pub loss: f64,
    /// Names of devices that do not answer.
    pub dead: Vec<String>,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for Raw {
    fn default() -> Self {
        let engine = engine::Config::default();
        let text = |duration| humantime::format_duration(duration).to_string();
        Self {
            assignments: String::new(),
            net: String::new(),
            sampler: String::new(),
            interval: "1s".to_owned(),
            groups: engine.groups.iter().map(ToString::to_string).collect(),
            force_groups: Vec::new(),
            identity: text(engine.identity_every),
            window: engine.window,
            adaptive: engine.adaptive,
            max_mads_per_second: engine.max_mads_per_second,
            timeout: text(engine.timeout),
            grace: text(engine.grace),
            ca: Ca::One(String::new()),
            cpus: Vec::new(),
            sl: Sl::Number(engine.sl),
            pkey: "0xffff".to_owned(),
            output: Outputs::default(),
            simulate: String::new(),
            simulated: Simulated::default(),
            metrics: metrics::Raw::default(),
        }
    }
}

impl Default for Simulated {
    fn default() -> Self {
        Self { loss: 0.0, dead: Vec::new(), seed: 1 }
    }
}

/// What is swept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// What an assignments file gives to this sampler.
    Assignments(PathBuf),
    /// All of a net file.
    Net(PathBuf),
}

/// A configuration that was checked: nothing in it contradicts itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// What is swept.
    pub plan: Plan,
    /// Who we are; `None`: by our host's name.
    pub sampler: Option<String>,
    /// Between two slots.
    pub interval: Duration,
    /// How the engine sweeps. The P_Key index is not known before the HCA is.
    pub engine: engine::Config,
    /// HCA ports that send, each once; none: what the assignments say, or the only active one.
    pub cas: Vec<HcaName>,
    /// CPUs that their threads keep to, the first's to the first and so on; none: wherever the kernel puts them.
    pub cpus: Vec<usize>,
    /// P_Key.
    pub pkey: u16,
    /// Where records go.
    pub outputs: Vec<Output>,
    /// Where metrics are served, if they are.
    pub metrics: Option<metrics::Settings>,
    /// The net file of a simulated fabric, in the place of an HCA.
    pub simulate: Option<PathBuf>,
    /// How it behaves.
    pub simulated: Simulated,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot be read", path.display())]
    #[diagnostic(help("give another file with -c FILE; ibnet.toml.example has every key"))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The file has a key that does not exist.
    #[error("{}:{line}: there is no key {}", path.display(), Printable(found))]
    #[diagnostic(help(
        "{}ibnet.toml.example has every key with its unit and default",
        nearest.as_ref().map(|key| format!("did you mean {key}? ")).unwrap_or_default()
    ))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// The key.
        found: String,
        /// The key that it is most like.
        nearest: Option<String>,
    },
    /// The file is no TOML, or has a value of another type than its key.
    #[error("{}:{line}: {message}", path.display())]
    #[diagnostic(help("ibnet.toml.example has every key with its unit and default"))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// What was found and expected.
        message: String,
    },
    /// A value is not what it should be.
    #[error("{place}{key}: {found:?} is not {expected}")]
    #[diagnostic(help("{}", remedy(key)))]
    Value {
        /// The file and the line, with what divides them from the key; nothing if it is not known.
        place: String,
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// There is nothing to sweep.
    #[error("nothing says which ports to sweep")]
    #[diagnostic(help(
        "give --assignments FILE (ibnet-gen writes it), or --net FILE with what `ibnetdiscover` or `ibnetdiscover -p` printed to sweep all of it from here; --simulate FILE tries it without InfiniBand"
    ))]
    NothingToSweep,
    /// Both say what to sweep.
    #[error("both an assignments file and a net file say which ports to sweep")]
    #[diagnostic(help("give either --assignments or --net; the other may stand in ibnet.toml: empty it with \"\""))]
    TwoPlans,
    /// Metrics cannot be served so.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Metrics(#[from] metrics::SettingsError),
}

impl ConfigError {
    /// The same, with the line of the file where the value stands.
    #[must_use]
    pub fn placed(mut self, path: &Path) -> Self {
        if let Self::Value { place, key, .. } = &mut self {
            // A key that does not stand there has its default.
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let (inside, key) = key.split_once('.').unwrap_or(("", key));
            *place = keys::line_of(&text, inside, key).map(|line| format!("{}:{line}: ", path.display())).unwrap_or_default();
        }
        self
    }
}

/// Keys without a flag, beside those of a table.
const WITHOUT_FLAG: [&str; 4] = ["cpus", "force_groups", "identity", "output"];

/// Where the value of a key is set.
fn remedy(key: &str) -> String {
    let has_flag = !key.contains('.') && !WITHOUT_FLAG.contains(&key);
    let flag = if has_flag { format!(" or with --{key}") } else { String::new() };
    format!("set {key} in ibnet.toml{flag}; ibnet.toml.example has every key with its unit and default")
}

impl Raw {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, or has a key that does not exist.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|error| {
            let (path, line) = (path.to_owned(), error.span().map_or(1, |span| keys::line_at(&text, span.start)));
            match keys::unknown(error.message()) {
                Some((found, nearest)) => ConfigError::UnknownKey { path, line, found, nearest },
                None => ConfigError::Syntax { path, line, message: error.message().to_owned() },
            }
        })
    }

    /// Checks all of it.
    ///
    /// # Errors
    /// The first value that is not what it should be.
    pub fn check(&self) -> Result<Config, ConfigError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let simulate = path(&self.simulate);
        let plan = match (path(&self.assignments), path(&self.net)) {
            (Some(assignments), None) => Plan::Assignments(assignments),
            (None, Some(net)) => Plan::Net(net),
            (Some(_), Some(_)) => return Err(ConfigError::TwoPlans),
            (None, None) => Plan::Net(simulate.clone().ok_or(ConfigError::NothingToSweep)?),
        };
        let interval = duration("interval", &self.interval, Duration::from_millis(10), Duration::from_secs(3600))?;
        let deadline = duration("timeout", &self.timeout, Duration::from_micros(100), interval)?;
        let grace = duration("grace", &self.grace, deadline, Duration::from_secs(10))?;
        let simulated = self.simulated.clone();
        if !(0.0..=1.0).contains(&simulated.loss) {
            return Err(value("simulated.loss", &simulated.loss, "a share from 0 to 1"));
        }
        Ok(Config {
            plan,
            sampler: (!self.sampler.is_empty()).then(|| self.sampler.clone()),
            interval,
            engine: engine::Config {
                window: self.window()?,
                adaptive: self.adaptive,
                max_mads_per_second: self.max_mads_per_second,
                timeout: deadline,
                grace,
                groups: groups("groups", &self.groups)?.into(),
                force_groups: groups("force_groups", &self.force_groups)?,
                identity_every: duration("identity", &self.identity, Duration::from_secs(1), Duration::from_secs(24 * 3600))?,
                sl: self.sl()?,
                path_sl: self.sl == Sl::Word("path".to_owned()),
                ..engine::Config::default()
            },
            cas: self.ca.names()?,
            cpus: self.cpus.clone(),
            pkey: self.pkey()?,
            outputs: self.output.check()?,
            metrics: self.metrics.check()?,
            simulate,
            simulated,
        })
    }

    fn window(&self) -> Result<usize, ConfigError> {
        (1..=MOST_IN_FLIGHT)
            .contains(&self.window)
            .then_some(self.window)
            .ok_or_else(|| value("window", &self.window, "a number from 1 to 128"))
    }

    fn sl(&self) -> Result<u8, ConfigError> {
        match &self.sl {
            Sl::Number(sl @ 0..=15) => Ok(*sl),
            Sl::Number(other) => Err(value("sl", other, "a service level from 0 to 15, or \"path\"")),
            // Until a path record tells.
            Sl::Word(word) if word == "path" => Ok(0),
            Sl::Word(word) => {
                word.parse().ok().filter(|sl| *sl <= 15).ok_or_else(|| value("sl", word, "a service level from 0 to 15, or \"path\""))
            }
        }
    }

    fn pkey(&self) -> Result<u16, ConfigError> {
        let digits = self.pkey.strip_prefix("0x").unwrap_or(&self.pkey);
        u16::from_str_radix(digits, 16)
            .ok()
            .filter(|pkey| pkey & 0x7fff != 0)
            .ok_or_else(|| value("pkey", &self.pkey, "a P_Key such as 0xffff"))
    }
}

impl Ca {
    fn names(&self) -> Result<Vec<HcaName>, ConfigError> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        };
        let mut names = Vec::new();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let name = text.parse().map_err(|_| value("ca", text, "an HCA and its port, such as mlx5_0 or mlx5_0:1"))?;
            if names.contains(&name) {
                return Err(value("ca", text, "there once only"));
            }
            names.push(name);
        }
        Ok(names)
    }
}

/// The groups of a list, each once; `all` stands for all of them.
fn groups(key: &'static str, names: &[String]) -> Result<Vec<Group>, ConfigError> {
    let mut groups = Vec::new();
    for name in names {
        if name == "all" {
            groups.extend(Group::ALL);
            continue;
        }
        let group = name.parse().map_err(|error: crate::types::ParseError| value(key, &error.found, error.expected))?;
        groups.push(group);
    }
    let mut once = Vec::new();
    groups.retain(|group| {
        !once.contains(group) && {
            once.push(*group);
            true
        }
    });
    let none = groups.is_empty() && key == "groups";
    if none { Err(value(key, &"", "a list of groups of counters, such as extended,base")) } else { Ok(groups) }
}

/// The ceiling of `window`: the QP1 send queue of a port has 128 places.
const MOST_IN_FLIGHT: usize = 128;

fn value(key: &'static str, found: &impl ToString, expected: &str) -> ConfigError {
    ConfigError::Value { place: String::new(), key, found: found.to_string(), expected: expected.to_owned() }
}

fn duration(key: &'static str, text: &str, least: Duration, most: Duration) -> Result<Duration, ConfigError> {
    let show = humantime::format_duration;
    let parsed = humantime::parse_duration(text).map_err(|_| value(key, &text, "a duration such as 1s or 5ms"))?;
    let expected = || format!("a duration from {} to {}", show(least), show(most));
    if (least..=most).contains(&parsed) { Ok(parsed) } else { Err(value(key, &text, &expected())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Raw)) -> Result<Config, ConfigError> {
        let mut raw = Raw { net: "fabric.p".to_owned(), ..Raw::default() };
        change(&mut raw);
        raw.check()
    }

    fn refused(change: impl FnOnce(&mut Raw)) -> String {
        check(change).expect_err("refused").to_string()
    }

    #[test]
    fn the_example_is_the_defaults() {
        let example: Raw = toml::from_str(include_str!("../ibnet.toml.example")).expect("it parses");
        assert_eq!(example, Raw::default());
    }

    #[test]
    fn the_example_has_every_key_and_its_tables() {
        let example: toml::Table = toml::from_str(include_str!("../ibnet.toml.example")).expect("it parses");
        let defaults = toml::Table::try_from(Raw::default()).expect("it serialises");
        let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&example), keys(&defaults));
        for inner in ["simulated", "metrics"] {
            let inner = |table: &toml::Table| table[inner].as_table().map(keys);
            assert_eq!(inner(&example), inner(&defaults));
        }
    }

    #[test]
    fn the_defaults_are_the_engine_s() {
        let config = check(|_| {}).expect("good");
        assert_eq!((config.engine, config.interval), (engine::Config::default(), Duration::from_secs(1)));
    }

    #[test]
    fn a_simulated_fabric_is_swept_whole_unless_something_else_is_said() {
        let config = check(|raw| (raw.net, raw.simulate) = (String::new(), "sim.p".to_owned())).expect("good");
        assert_eq!((config.plan, config.simulate), (Plan::Net("sim.p".into()), Some("sim.p".into())));
        assert!(matches!(Raw::default().check(), Err(ConfigError::NothingToSweep)));
        assert!(matches!(check(|raw| raw.assignments = "a.toml".to_owned()), Err(ConfigError::TwoPlans)));
    }

    #[test]
    fn values_that_are_wrong_are_named_with_what_was_expected() {
        assert_eq!(refused(|raw| raw.interval = "1 parsec".to_owned()), "interval: \"1 parsec\" is not a duration such as 1s or 5ms");
        assert_eq!(refused(|raw| raw.timeout = "2s".to_owned()), "timeout: \"2s\" is not a duration from 100us to 1s");
        assert_eq!(refused(|raw| raw.grace = "1ms".to_owned()), "grace: \"1ms\" is not a duration from 5ms to 10s");
        assert_eq!(refused(|raw| raw.window = 0), "window: \"0\" is not a number from 1 to 128");
        assert_eq!(refused(|raw| raw.sl = Sl::Number(16)), "sl: \"16\" is not a service level from 0 to 15, or \"path\"");
        assert_eq!(refused(|raw| raw.pkey = "0x8000".to_owned()), "pkey: \"0x8000\" is not a P_Key such as 0xffff");
        assert!(refused(|raw| raw.groups = vec!["vlopdat".to_owned()]).contains("vlopdata"));
        assert!(refused(|raw| raw.groups.clear()).starts_with("groups:"));
        assert!(refused(|raw| raw.force_groups = vec!["bas".to_owned()]).starts_with("force_groups:"));
        assert!(refused(|raw| raw.identity = "0s".to_owned()).starts_with("identity:"));
        assert!(refused(|raw| raw.simulated.loss = f64::NAN).starts_with("simulated.loss:"));
    }

    #[test]
    fn hca_ports_are_one_or_several_each_once() {
        let names = |ca| check(|raw| raw.ca = ca).expect("good").cas.iter().map(ToString::to_string).collect::<Vec<_>>();
        let many = |names: &[&str]| Ca::Many(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(names(Ca::One(String::new())), Vec::<String>::new());
        assert_eq!(names(Ca::One("mlx5_0".to_owned())), ["mlx5_0"]);
        assert_eq!(names(many(&["mlx5_0:1", "mlx5_0:2", "mlx5_1"])), ["mlx5_0:1", "mlx5_0:2", "mlx5_1"]);
        assert_eq!(refused(|raw| raw.ca = many(&["a", "b", "a"])), "ca: \"a\" is not there once only");
        assert!(refused(|raw| raw.ca = many(&["a:x"])).starts_with("ca: \"a:x\" is not an HCA"));
        let read: Raw = toml::from_str("ca = [\"mlx5_0\", \"mlx5_1\"]\ncpus = [2, 3]\n").expect("it parses");
        assert_eq!((read.ca, read.cpus), (many(&["mlx5_0", "mlx5_1"]), vec![2, 3]));
    }

    #[test]
    fn the_service_level_is_a_number_or_the_path_s() {
        let engine = |sl| check(|raw| raw.sl = sl).expect("good").engine;
        assert_eq!((engine(Sl::Number(3)).sl, engine(Sl::Number(3)).path_sl), (3, false));
        assert_eq!((engine(Sl::Word("path".to_owned())).sl, engine(Sl::Word("path".to_owned())).path_sl), (0, true));
    }

    #[test]
    fn groups_stay_in_order_and_are_asked_for_once() {
        let groups = check(|raw| raw.groups = ["base", "all", "base"].map(str::to_owned).to_vec()).expect("good").engine.groups;
        assert_eq!(groups[..5], [Group::Base, Group::Extended, Group::XmtDisc, Group::RcvErr, Group::XmtSl]);
        assert_eq!(groups.len(), Group::ALL.len());
    }

    #[test]
    fn a_mistake_in_the_file_has_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ibnet.toml");
        std::fs::write(&path, "window = 8\nwindwo = 9\n").expect("written");
        assert!(matches!(Raw::read(&path), Err(ConfigError::UnknownKey { line: 2, nearest: Some(key), .. }) if key == "window"));
        std::fs::write(&path, "window = 8\n\n[simulated\n").expect("written");
        assert!(matches!(Raw::read(&path), Err(ConfigError::Syntax { line: 3, .. })));
    }
}
