//! The flags of a sweep, and the configuration that results from the file and the flags.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::config::{self, Ca, Config, ConfigError, Outputs, Plan as Source, Raw, Sl};
use ibnet::limits;
use ibnet::output::{Destination, FileOptions, NatsOptions};

use super::failure::Failure;

// These flags belong to a sweep and to `check`. This is not a doc comment, because clap would print
// it instead of the description of the program.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Configuration file; a flag below overrides the key of the same name
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Assignments file, written by ibnet-gen
    #[arg(long, value_name = "FILE")]
    assignments: Option<String>,
    /// Name of this sampler in the assignments file, or all with --simulate [default: short name of
    /// this host]
    #[arg(long, value_name = "HOST|all")]
    sampler: Option<String>,
    /// Net file (output of `ibnetdiscover`): query all of its ports from this host, without a plan
    #[arg(long, value_name = "FILE")]
    net: Option<String>,
    /// Net file whose fabric is simulated in this process; needs no InfiniBand
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Traffic of the simulated fabric: jobs or incast [default: jobs]
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Time between two slots [default: 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Counter groups, as listed in ibnet.toml.example, or all. NAME/N is queried once in N slots,
    /// NAME/TIME once in this time [default: extended,base/1s,xmtdisc/1s,rcverr/1s]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Option<Vec<String>>,
    /// Largest number of MADs in flight; a device never has more than one [default: 32]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Time from the sending of a MAD to its timeout [default: 5ms]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Time from the sending of a MAD during which a late reply is accepted [default: 50ms]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// HCA port that sends. Several ports (with commas, or the flag again) divide the devices
    /// between them [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]", value_delimiter = ',')]
    ca: Option<Vec<String>>,
    /// Service level; path means the service level of the path record to each device [default: 0]
    #[arg(long, value_name = "N|path")]
    sl: Option<String>,
    /// P_Key [default: 0xffff]
    #[arg(long, value_name = "HEX")]
    pkey: Option<String>,
    /// Destination of the records: a file (records are appended), a folder DIR/ (each sampler gets
    /// a file SAMPLER.jsonl), or - for standard output [default: -]
    #[arg(short, long, value_name = "FILE|DIR/|-")]
    output: Option<String>,
}

impl Flags {
    /// Returns the keys that are set by flags.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("assignments", self.assignments.is_some()),
            ("sampler", self.sampler.is_some()),
            ("net", self.net.is_some()),
            ("simulate", self.simulate.is_some()),
            ("simulated.scenario", self.scenario.is_some()),
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

    /// Returns whether the invalid value of this failure came from a flag.
    pub(super) fn gave(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::Config(ConfigError::Value { key, .. }) if self.given().contains(key))
    }

    /// Returns the checked configuration.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        self.raw()?.check().map_err(|error| match (&error, &self.config) {
            (ConfigError::Value { key, .. }, _) if self.given().contains(key) => error,
            (_, Some(path)) => error.placed(path),
            (_, None) => error,
        })
    }

    /// Prints the configuration. The configuration must be valid; only the ports to sweep may be
    /// missing.
    pub(super) fn print(&self) -> Result<(), Failure> {
        if let Err(ConfigError::NothingToSweep) = self.config() {
            // A net file is set here only to check all other keys.
            Self { net: Some("-".to_owned()), ..self.clone() }.config()?;
            cli::note("note: no key gives the ports to sweep\n");
        } else {
            self.config()?;
        }
        let file =
            self.config.as_deref().map(|path| (limits::read_text(path, limits::CONFIG).unwrap_or_default(), path.display().to_string()));
        let file = file.as_ref().map(|(text, name)| (text.as_str(), name.as_str()));
        cli::print(config::show(&self.raw()?, file, &self.given()).as_bytes()).map_err(Failure::Stdout)
    }

    /// Returns an error if an output would append records to a file that the program reads: the
    /// plan, the configuration, a password, a certificate or a key. Hard links are the same file.
    pub(super) fn check_output(&self, config: &Config) -> Result<(), Failure> {
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let inputs: Vec<_> = self.inputs(config).into_iter().map(|(input, path)| (input, identity(path))).collect();
        for output in &config.outputs {
            let Destination::File(FileOptions { path: output, .. }) = &output.to else { continue };
            let Some(found) = identity(output) else { continue };
            if let Some((input, _)) = inputs.iter().find(|(_, input)| *input == Some(found)) {
                return Err(Failure::OverInput { output: output.display().to_string(), input });
            }
        }
        Ok(())
    }

    /// Returns the files that the program reads.
    fn inputs<'a>(&'a self, config: &'a Config) -> Vec<(&'static str, &'a PathBuf)> {
        let mut inputs = match &config.plan {
            Source::Net(path) => vec![("net file", path)],
            Source::Assignments(path) => vec![("assignments file", path)],
        };
        inputs.extend(config.simulation.as_ref().map(|simulation| ("simulated net file", &simulation.net)));
        inputs.extend(self.config.as_ref().map(|path| ("configuration", path)));
        if let Some(metrics) = &config.metrics {
            inputs.extend(metrics.password_file.as_ref().map(|path| ("password file of the metrics", path)));
            let (certificate, key) = (metrics.tls.as_ref().map(|tls| &tls.0), metrics.tls.as_ref().map(|tls| &tls.1));
            inputs.extend(certificate.map(|path| ("certificate of the metrics", path)));
            inputs.extend(key.map(|path| ("key of the metrics", path)));
        }
        for output in &config.outputs {
            let Destination::Nats(NatsOptions { credentials, ca_file, certificate, .. }) = &output.to else { continue };
            inputs.extend(credentials.as_ref().map(|path| ("credentials file of NATS", path)));
            inputs.extend(ca_file.as_ref().map(|path| ("CA file of NATS", path)));
            inputs.extend(certificate.iter().flat_map(|(certificate, key)| [("certificate of NATS", certificate), ("key of NATS", key)]));
        }
        inputs
    }

    /// Returns the configuration of the file with the flags applied.
    pub(super) fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = self.config.as_deref().map(Raw::read).transpose()?.unwrap_or_default();
        let texts = [
            (&self.assignments, &mut raw.assignments),
            (&self.sampler, &mut raw.sampler),
            (&self.net, &mut raw.net),
            (&self.simulate, &mut raw.simulate),
            (&self.scenario, &mut raw.simulated.scenario),
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
