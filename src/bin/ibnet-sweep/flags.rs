//! The flags of a sweep, and the configuration that the file and the flags result in.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::config::{self, Ca, Config, ConfigError, FileError, Outputs, Plan as Source, Raw, Sl};
use ibnet::discovery;
use ibnet::output::{Destination, FileOptions, NatsOptions};
use ibnet_record::limits;

use super::failure::Failure;
use super::watch::Reader;

/// Configuration file that is used if no other input is given.
pub(super) const DEFAULT_CONFIG: &str = "/etc/ibnet/ibnet.toml";

/// A configuration file, as it was read.
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
}

// The flags of a sweep and of `check`. This is not a doc comment, because clap would print it
// instead of the description of the program.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Configuration file; a flag below overrides the key of the same name
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Assignments file, written by ibnet-gen; or nats://HOST:4222/BUCKET/KEY, a published one
    #[arg(long, value_name = "FILE|URL")]
    assignments: Option<String>,
    /// Name of this sampler in the assignments file, or all with --simulate [default: short name of
    /// this host]
    #[arg(long, value_name = "HOST|all")]
    sampler: Option<String>,
    /// Net file (output of `ibnet-gen discover` or `ibnetdiscover`); umad, or umad:NAME:PORT,
    /// discovers the fabric now. All of its ports are queried from this host, without a plan
    #[arg(long, value_name = "FILE|umad")]
    net: Option<String>,
    /// Net file whose fabric is simulated in this process; needs no InfiniBand
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Traffic of the simulated fabric: jobs, incast, ipoib_flood, nfs_storm or storms
    /// [default: jobs]
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
    /// Way of SMPs: lid, directed (routes along the cables of the plan), or auto [default: auto]
    #[arg(long, value_name = "WAY")]
    smp: Option<String>,
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
            ("smp", self.smp.is_some()),
            ("output", self.output.is_some()),
        ];
        flags
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(key, _)| key)
            .collect()
    }

    /// Adds the flags of `before`. Returns false if a flag is set in both.
    pub(super) fn merge(&mut self, before: &Self) -> bool {
        fn merge<V: Clone>(own: &mut Option<V>, before: &Option<V>) -> bool {
            let is_twice = own.is_some() && before.is_some();
            if let Some(before) = before {
                own.get_or_insert_with(|| before.clone());
            }
            !is_twice
        }
        let texts = [
            (&mut self.assignments, &before.assignments),
            (&mut self.sampler, &before.sampler),
            (&mut self.net, &before.net),
            (&mut self.simulate, &before.simulate),
            (&mut self.scenario, &before.scenario),
            (&mut self.interval, &before.interval),
            (&mut self.timeout, &before.timeout),
            (&mut self.grace, &before.grace),
            (&mut self.sl, &before.sl),
            (&mut self.pkey, &before.pkey),
            (&mut self.smp, &before.smp),
            (&mut self.output, &before.output),
        ];
        let texts = texts
            .map(|(own, before)| merge(own, before))
            .into_iter()
            .all(|is_once| is_once);
        let lists = [
            merge(&mut self.groups, &before.groups),
            merge(&mut self.ca, &before.ca),
        ];
        let others = [
            merge(&mut self.config, &before.config),
            merge(&mut self.window, &before.window),
        ];
        texts && lists.into_iter().chain(others).all(|is_once| is_once)
    }

    /// Returns the configuration file, or `None` if there are other flags.
    pub(super) fn only_config(&self) -> Option<Option<PathBuf>> {
        self.given().is_empty().then(|| self.config.clone())
    }

    /// Uses the configuration file `path` if it exists, unless a flag gives another input. Returns
    /// whether there is an input now.
    pub(super) fn use_default_config(&mut self, path: &Path) -> bool {
        let has_input = self.config.is_some()
            || self.assignments.is_some()
            || self.net.is_some()
            || self.simulate.is_some();
        if !has_input && path.exists() {
            self.config = Some(path.to_owned());
        }
        has_input || self.config.is_some()
    }

    /// Discovers the fabric instead of reading a net file.
    pub(super) fn use_fabric(&mut self) {
        self.net = Some(discovery::FABRIC.to_owned());
    }

    /// Returns whether the invalid value of this failure came from a flag.
    pub(super) fn gave(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::Config(ConfigError::Value { key, .. }) if self.given().contains(key))
    }

    /// Reads the configuration file, if there is one.
    pub(super) fn read(&self, reader: &mut Reader) -> Result<Option<ConfigFile>, ConfigError> {
        let Some(path) = &self.config else {
            return Ok(None);
        };
        let octets = reader
            .read(path, limits::CONFIG)
            .map_err(|source| FileError::Io {
                path: path.clone(),
                source,
            })?;
        Ok(Some(ConfigFile {
            path: path.clone(),
            text: config::text(&octets, path)?.to_owned(),
        }))
    }

    /// Checks the configuration.
    pub(super) fn check(
        &self,
        raw: &Raw,
        file: Option<&ConfigFile>,
    ) -> Result<Config, ConfigError> {
        raw.check().map_err(|error| match (&error, file) {
            (ConfigError::Value { key, .. }, _) if self.given().contains(key) => error,
            (_, Some(file)) => error.placed(&file.path, &file.text),
            (_, None) => error,
        })
    }

    /// Reads and checks the configuration.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let file = self.read(&mut Reader::default())?;
        self.check(&self.raw(file.as_ref())?, file.as_ref())
    }

    /// Prints the configuration, which must be valid; only the ports to sweep may be missing.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let file = self.read(&mut Reader::default())?;
        let raw = self.raw(file.as_ref())?;
        if let Err(ConfigError::NothingToSweep) = self.check(&raw, file.as_ref()) {
            // This net file only makes it possible to check all other keys.
            self.check(
                &Raw {
                    net: "-".to_owned(),
                    ..raw.clone()
                },
                file.as_ref(),
            )?;
            cli::note("note: no key gives the ports to sweep\n");
        } else {
            self.check(&raw, file.as_ref())?;
        }
        let file = file
            .as_ref()
            .map(|file| (&*file.text, file.path.display().to_string()));
        let file = file.as_ref().map(|(text, name)| (*text, name.as_str()));
        cli::print(config::show(&raw, file, &self.given()).as_bytes()).map_err(Failure::Stdout)
    }

    /// Returns an error if an output would append records to a file that the program reads: the
    /// plan, the configuration, a password, a certificate or a key. Hard links count as the same
    /// file.
    pub(super) fn check_output(&self, config: &Config) -> Result<(), Failure> {
        let identity = |path: &Path| {
            std::fs::metadata(path)
                .ok()
                .map(|found| (found.dev(), found.ino()))
        };
        let inputs: Vec<_> = self
            .inputs(config)
            .into_iter()
            .map(|(input, path)| (input, identity(path)))
            .collect();
        for output in &config.outputs {
            let Destination::File(FileOptions { path: output, .. }) = &output.to else {
                continue;
            };
            let Some(found) = identity(output) else {
                continue;
            };
            if let Some((input, _)) = inputs.iter().find(|(_, input)| *input == Some(found)) {
                return Err(Failure::OverInput {
                    output: output.display().to_string(),
                    input,
                });
            }
        }
        Ok(())
    }

    /// Returns the files that the program reads.
    fn inputs<'a>(&'a self, config: &'a Config) -> Vec<(&'static str, &'a PathBuf)> {
        let mut inputs = match &config.plan {
            Source::Net(path) => vec![("net file", path)],
            Source::Assignments(path) => vec![("assignments file", path)],
            Source::Published(store) => store
                .copy
                .iter()
                .map(|path| ("copy of the assignments", path))
                .collect(),
        };
        inputs.extend(
            config
                .simulation
                .as_ref()
                .map(|simulation| ("simulated net file", &simulation.net)),
        );
        inputs.extend(self.config.as_ref().map(|path| ("configuration", path)));
        if let Some(metrics) = &config.metrics {
            inputs.extend(
                metrics
                    .password_file
                    .as_ref()
                    .map(|path| ("password file of the metrics", path)),
            );
            let (certificate, key) = (
                metrics.tls.as_ref().map(|tls| &tls.0),
                metrics.tls.as_ref().map(|tls| &tls.1),
            );
            inputs.extend(certificate.map(|path| ("certificate of the metrics", path)));
            inputs.extend(key.map(|path| ("key of the metrics", path)));
        }
        let of_outputs = config.outputs.iter().filter_map(|output| match &output.to {
            Destination::Nats(options) => Some(options),
            _ => None,
        });
        let of_plan = match &config.plan {
            Source::Published(store) => Some(&store.server),
            _ => None,
        };
        for NatsOptions {
            password_file,
            credentials,
            ca_file,
            certificate,
            ..
        } in of_outputs.chain(of_plan)
        {
            inputs.extend(
                password_file
                    .as_ref()
                    .map(|path| ("password file of NATS", path)),
            );
            inputs.extend(
                credentials
                    .as_ref()
                    .map(|path| ("credentials file of NATS", path)),
            );
            inputs.extend(ca_file.as_ref().map(|path| ("CA file of NATS", path)));
            inputs.extend(certificate.iter().flat_map(|(certificate, key)| {
                [("certificate of NATS", certificate), ("key of NATS", key)]
            }));
        }
        inputs
    }

    /// Returns the configuration of the file, overridden by the flags.
    pub(super) fn raw(&self, file: Option<&ConfigFile>) -> Result<Raw, ConfigError> {
        let mut raw = file
            .map(|file| Raw::parse(&file.text, &file.path))
            .transpose()?
            .unwrap_or_default();
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
            (&self.smp, &mut raw.smp),
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(args: &[&str]) -> Flags {
        Program::try_parse_from([&["x"], args].concat())
            .map(|program| program.flags)
            .expect("valid")
    }

    #[test]
    fn flags_before_and_after_a_command_are_combined_each_once() {
        let mut own = flags(&["--interval", "2s"]);
        assert!(own.merge(&flags(&["-c", "a", "--window", "4", "--ca", "x,y"])));
        assert_eq!(own.given(), ["interval", "window", "ca"]);
        assert_eq!(own.config, Some("a".into()));
        assert!(!own.merge(&flags(&["--window", "5"])));
        assert_eq!(
            (
                flags(&[]).only_config(),
                flags(&["--sl", "1"]).only_config()
            ),
            (Some(None), None)
        );
    }

    #[test]
    fn installed_configuration_is_used_without_another_input() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let used = |args: &[&str], path: &Path| {
            let mut flags = flags(args);
            flags.use_default_config(path);
            flags.config
        };
        assert_eq!(
            used(&["--interval", "2s"], file.path()),
            Some(file.path().to_owned())
        );
        assert_eq!(used(&[], Path::new("/nonexistent/ibnet.toml")), None);
        for args in [["--net", "a"], ["--assignments", "a"], ["--simulate", "a"]] {
            assert_eq!(used(&args, file.path()), None);
        }
        assert_eq!(used(&["-c", "b"], file.path()), Some("b".into()));
    }
}
