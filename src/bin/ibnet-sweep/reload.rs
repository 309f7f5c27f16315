//! The configuration and the plan, as they were read at the start or at a reload. This module
//! checks which keys may change, and determines the workers that continue. A worker is the thread
//! of one HCA port.

use std::sync::Arc;

use ibnet::config::{Config, Raw};
use ibnet::output::Outlet;
use ibnet::sweep::driver::{Driver, DriverSettings};

use super::failure::Failure;
use super::flags::Flags;
use super::watch::Reader;
use super::workers::{Share, Work};

/// Makes a driver that writes to an outlet. This may block, so the thread of the worker calls it.
pub(super) type MakeDriver<T> = Box<dyn FnOnce(Outlet) -> Driver<T> + Send>;

/// Opens the transport of a worker, whose driver is made later.
pub(super) type Prepare<T> =
    Arc<dyn Fn(&Config, &Share, DriverSettings) -> Result<MakeDriver<T>, Failure> + Send + Sync>;

/// The configuration and the plan, as they were read.
pub(super) struct Setup {
    pub(super) raw: Raw,
    pub(super) config: Config,
    pub(super) work: Work,
}

/// Everything that defines a worker. A worker whose setup is the same after a reload continues.
#[derive(Clone, PartialEq)]
pub(super) struct WorkerSetup {
    share: Share,
    settings: DriverSettings,
    cpu: Option<usize>,
    pkey: u16,
}

/// Keys that may change while the sweep runs. Changes of all other keys need a restart.
const CHANGEABLE: [&str; 21] = [
    "assignments",
    "plan_server",
    "net",
    "sampler",
    "interval",
    "groups",
    "force_groups",
    "clear",
    "identity",
    "smp",
    "window",
    "peers",
    "links",
    "routes",
    "max_mads_per_second",
    "timeout",
    "grace",
    "ca",
    "cpus",
    "sl",
    "pkey",
];

impl Setup {
    /// Reads and checks the configuration and the plan. Blocks as long as the file system does.
    ///
    /// It is not an error here if the plan does not contain the sampler: see [`Work::absent`].
    pub(super) fn load(flags: &Flags, reader: &mut Reader) -> Result<Self, Failure> {
        let file = flags.read(reader)?;
        let raw = flags.raw(file.as_ref())?;
        let config = flags.check(&raw, file.as_ref())?;
        flags.check_output(&config)?;
        let work = Work::load(&config, reader)?;
        Ok(Self { raw, config, work })
    }

    /// Returns the setup of each worker. `change` adjusts the settings of its driver.
    pub(super) fn workers(
        &self,
        change: impl Fn(DriverSettings) -> DriverSettings,
    ) -> Vec<WorkerSetup> {
        let Config { cpus, pkey, .. } = &self.config;
        // If there are fewer CPUs than workers, several workers share a CPU.
        let cpu = |place: usize| (!cpus.is_empty()).then(|| cpus[place % cpus.len()]);
        let shares = self.work.shares(&self.config).into_iter().enumerate();
        shares
            .map(|(place, share)| WorkerSetup {
                settings: change(self.work.settings(&share, &self.config)),
                share,
                cpu: cpu(place),
                pkey: *pkey,
            })
            .collect()
    }

    /// Returns an error if a key that needs a restart has changed.
    pub(super) fn check_change_from(&self, old: &Raw) -> Result<(), Failure> {
        let table = |raw: &Raw| toml::Table::try_from(raw).unwrap_or_default();
        let (old, new) = (table(old), table(&self.raw));
        let differs =
            |key: &&String| !CHANGEABLE.contains(&key.as_str()) && old.get(*key) != new.get(*key);
        match old.keys().chain(new.keys()).find(differs) {
            Some(key) => Err(Failure::NeedsRestart { key: key.clone() }),
            None => Ok(()),
        }
    }
}

impl WorkerSetup {
    pub(super) fn settings(&self) -> &DriverSettings {
        &self.settings
    }

    /// Returns whether the slots of both setups have the same numbers, and whether both change to
    /// a new plan at the same slot.
    fn has_slots_of(&self, other: &Self) -> bool {
        let of = |setup: &Self| {
            (
                setup.settings.interval,
                setup.settings.offset,
                setup.settings.is_secondary,
            )
        };
        of(self) == of(other)
    }

    /// Returns whether both setups send for the same sampler, in the same role, from the same HCA
    /// port.
    fn has_port_of(&self, other: &Self) -> bool {
        let of = |setup: &Self| {
            let Share { block, ca, .. } = setup.share.clone();
            (block.host, block.subnet, block.role, ca)
        };
        of(self) == of(other)
    }

    /// Returns the index of the worker whose slots the new worker continues: the worker of the
    /// same HCA port, or else the first worker whose slots have the same numbers.
    pub(super) fn predecessor<'a>(
        &self,
        replaced: impl Iterator<Item = &'a Self> + Clone,
    ) -> Option<usize> {
        let mut same_port = replaced.clone();
        let mut same_slots = replaced;
        let same_port = same_port.position(|old| old.has_slots_of(self) && old.has_port_of(self));
        same_port.or_else(|| same_slots.position(|old| old.has_slots_of(self)))
    }

    /// Returns the number of ports to query.
    pub(super) fn ports(&self) -> u32 {
        self.share.block.port_count
    }

    /// Returns the CPU of the worker's thread.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Opens the transport.
    pub(super) fn prepare<T>(
        &self,
        config: &Config,
        prepare: &Prepare<T>,
    ) -> Result<MakeDriver<T>, Failure> {
        prepare(config, &self.share, self.settings.clone())
    }

    /// Returns whether both setups describe the same worker, even if other parts of the
    /// assignments file differ.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let without_sha256 = |setup: &Self| Self {
            settings: DriverSettings {
                assignments_sha256: None,
                ..setup.settings.clone()
            },
            ..setup.clone()
        };
        without_sha256(self) == without_sha256(other)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ibnet::assignments::Sampler;
    use ibnet::sweep::engine;
    use ibnet_record::types::{HcaName, PortNum};

    use super::*;

    fn worker(host: &str, role: Option<&str>, ca: &str, interval: u64) -> WorkerSetup {
        let block = Sampler {
            host: host.to_owned(),
            subnet: None,
            ca: None,
            ca_port: None,
            role: role.map(str::to_owned),
            offset: None,
            port_count: 0,
            devices: Vec::new(),
        };
        let settings = DriverSettings {
            sampler: host.to_owned(),
            ca: String::new(),
            ca_port: PortNum(0),
            is_secondary: role.is_some(),
            interval: Duration::from_secs(interval),
            offset: Duration::ZERO,
            aligned: true,
            sweeps: None,
            assignments_sha256: None,
            engine: engine::Config::default(),
        };
        let ca = HcaName {
            ca: Some(ca.to_owned()),
            port: None,
        };
        WorkerSetup {
            share: Share::new(block, ca, Arc::default()),
            settings,
            cpu: None,
            pkey: 0xffff,
        }
    }

    #[test]
    fn predecessor_is_the_worker_of_the_same_sampler_role_and_hca_port() {
        let secondary = Some("secondary");
        let old = [
            worker("a", None, "mlx5_0", 1),
            worker("a", None, "mlx5_1", 1),
            worker("b", None, "mlx5_0", 1),
            worker("b", secondary, "mlx5_0", 1),
        ];
        let place = |new: WorkerSetup| new.predecessor(old.iter());
        assert_eq!(place(worker("b", secondary, "mlx5_0", 1)), Some(3));
        assert_eq!(place(worker("b", None, "mlx5_0", 1)), Some(2));
        assert_eq!(place(worker("a", None, "mlx5_1", 1)), Some(1));
        // A new HCA port continues the slots of another one.
        assert_eq!(place(worker("c", None, "mlx5_0", 1)), Some(0));
        assert_eq!(
            place(worker("b", None, "mlx5_0", 2)),
            None,
            "its slots have other numbers"
        );
    }
}
