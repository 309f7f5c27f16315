//! The flags of a sweep, and the configuration that results from them and the file.

use std::path::PathBuf;

use ibnet::cli;
use ibnet::config::{self, Ca, Config, ConfigError, Outputs, Plan as Source, Raw, Sl};
use ibnet::sink::{self, Destination};

use super::failure::Failure;

// Not a doc comment: clap would print it in the place of the program's. What a sweep and its check have in common.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Configuration; every flag below overrides its key
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// What ibnet-gen wrote
    #[arg(long, value_name = "FILE")]
    assignments: Option<String>,
    /// Which sampler of it this is [default: this host's short name]
    #[arg(long, value_name = "HOST")]
    sampler: Option<String>,
    /// What `ibnetdiscover` or `ibnetdiscover -p` printed: sweep all of it from here
    #[arg(long, value_name = "FILE")]
    net: Option<String>,
    /// Sweep the fabric of this net file simulated in this process, without InfiniBand
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Time between two slots [default: 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Groups of counters, of those in ibnet.toml.example, or all [default: extended,base,xmtdisc,rcverr]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Option<Vec<String>>,
    /// MADs in flight, never more than one to a device [default: 32]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Deadline of a MAD [default: 5ms]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// How long after sending a late reply still counts [default: 50ms]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// HCA that sends; several, with commas or given again, share the devices [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]", value_delimiter = ',')]
    ca: Option<Vec<String>>,
    /// Service level, or the path record's [default: 0]
    #[arg(long, value_name = "N|path")]
    sl: Option<String>,
    /// P_Key [default: 0xffff]
    #[arg(long, value_name = "HEX")]
    pkey: Option<String>,
    /// Where the lines go; a file is appended to [default: -]
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<String>,
}

impl Flags {
    /// The keys that were given here.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("assignments", self.assignments.is_some()),
            ("sampler", self.sampler.is_some()),
            ("net", self.net.is_some()),
            ("simulate", self.simulate.is_some()),
            ("interval", self.interval.is_some()),
            ("groups", self.groups.is_some()),
            ("window", self.window.is_some()),
            ("timeout", self.timeout.is_some()),
            ("grace", self.grace.is_some()),
            ("ca", self.ca.is_some()),
            ("sl", self.sl.is_some()),
            ("pkey", self.pkey.is_some()),
            ("output", self.output.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
    }

    /// Whether the value that is wrong was given here.
    pub(super) fn gave(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::Config(ConfigError::Value { key, .. }) if self.given().contains(key))
    }

    /// What results of the file and of what was given here.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let placed = |error: ConfigError| match (&error, &self.config) {
            (ConfigError::Value { key, .. }, Some(path)) if !self.given().contains(key) => error.placed(path),
            _ => error,
        };
        self.raw()?.check().map_err(placed)
    }

    /// Prints that, if it can be used; with nothing to sweep in it, it is shown all the same.
    pub(super) fn print(&self) -> Result<(), Failure> {
        if let Err(ConfigError::NothingToSweep) = self.config() {
            // What else there is shall be right.
            Self { net: Some("-".to_owned()), ..self.clone() }.config()?;
            cli::note("note: nothing says yet which ports to sweep\n");
        } else {
            self.config()?;
        }
        let file = self.config.as_deref().map(|path| (std::fs::read_to_string(path).unwrap_or_default(), path.display().to_string()));
        let file = file.as_ref().map(|(text, name)| (text.as_str(), name.as_str()));
        cli::print(config::show(&self.raw()?, file, &self.given()).as_bytes()).map_err(Failure::Stdout)
    }

    /// Refuses to append records to a file that is read.
    pub(super) fn check_output(&self, config: &Config) -> Result<(), Failure> {
        let (net, assignments) = match &config.plan {
            Source::Net(path) => (Some(path), None),
            Source::Assignments(path) => (None, Some(path)),
        };
        let inputs = [
            ("net file", net),
            ("assignments file", assignments),
            ("simulated net file", config.simulate.as_ref()),
            ("configuration", self.config.as_ref()),
        ];
        for output in &config.outputs {
            let Destination::File(sink::FileOptions { path: output, .. }) = &output.to else { continue };
            let same = |path: &PathBuf| path.canonicalize().ok().is_some_and(|path| output.canonicalize().ok() == Some(path));
            if let Some((input, _)) = inputs.into_iter().find(|(_, path)| path.is_some_and(same)) {
                return Err(Failure::OverInput { output: output.display().to_string(), input });
            }
        }
        Ok(())
    }

    /// The file, with the flags over it.
    pub(super) fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = self.config.as_deref().map(Raw::read).transpose()?.unwrap_or_default();
        let texts = [
            (&self.assignments, &mut raw.assignments),
            (&self.sampler, &mut raw.sampler),
            (&self.net, &mut raw.net),
            (&self.simulate, &mut raw.simulate),
            (&self.interval, &mut raw.interval),
            (&self.timeout, &mut raw.timeout),
            (&self.grace, &mut raw.grace),
            (&self.pkey, &mut raw.pkey),
        ];
        for (flag, key) in texts {
            if let Some(flag) = flag {
                key.clone_from(flag);
            }
        }
        if let Some(groups) = &self.groups {
            raw.groups.clone_from(groups);
        }
        if let Some(cas) = &self.ca {
            raw.ca = Ca::Many(cas.clone());
        }
        if let Some(output) = &self.output {
            raw.output = Outputs::Short(output.clone());
        }
        if let Some(window) = self.window {
            raw.window = window;
        }
        if let Some(sl) = &self.sl {
            raw.sl = Sl::Word(sl.clone());
        }
        Ok(raw)
    }
}
