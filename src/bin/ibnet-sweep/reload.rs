//! A configuration and assignments that are read anew while they are swept by: when to look, what may change, and which lanes are the same.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibnet::config::{Config, Plan as Source, Raw};
use ibnet::sink::Outlet;
use ibnet::sweep::driver::{Driver, DriverSettings};

use super::lanes::{Lane, Work};
use super::{Failure, Flags};

/// Makes a driver once its records have somewhere to go.
pub(super) type Start<T> = Box<dyn FnOnce(Outlet) -> Driver<T>>;

/// Prepares a lane: opens its way to the fabric.
pub(super) type Prepare<T> = Box<dyn Fn(&Config, &Lane, DriverSettings) -> Result<Start<T>, Failure>>;

/// All that is swept by, as it was read.
pub(super) struct Setup {
    pub(super) raw: Raw,
    pub(super) config: Config,
    pub(super) work: Work,
}

/// What makes a lane the one that it is: where all of it is equal, it may go on.
#[derive(Clone, PartialEq)]
pub(super) struct Identity {
    lane: Lane,
    settings: DriverSettings,
    cpu: Option<usize>,
    pkey: u16,
}

/// Keys that a running sweep can change. All else is given once, at the start.
const CHANGEABLE: [&str; 16] = [
    "assignments",
    "net",
    "sampler",
    "interval",
    "groups",
    "force_groups",
    "identity",
    "window",
    "adaptive",
    "max_mads_per_second",
    "timeout",
    "grace",
    "ca",
    "cpus",
    "sl",
    "pkey",
];

impl Setup {
    pub(super) fn load(flags: &Flags) -> Result<Self, Failure> {
        let raw = flags.raw()?;
        let config = flags.config()?;
        flags.check_output(&config)?;
        let work = Work::load(&config)?;
        Ok(Self { raw, config, work })
    }

    /// The lanes, each with what makes it the one that it is.
    pub(super) fn lanes(&self, settings: impl Fn(DriverSettings) -> DriverSettings) -> Vec<Identity> {
        let Config { cpus, pkey, .. } = &self.config;
        // Fewer CPUs than lanes are shared.
        let cpu = |place: usize| (!cpus.is_empty()).then(|| cpus[place % cpus.len()]);
        let lanes = self.work.lanes(&self.config).into_iter().enumerate();
        lanes
            .map(|(place, lane)| Identity {
                settings: settings(self.work.settings(&lane, &self.config)),
                lane,
                cpu: cpu(place),
                pkey: *pkey,
            })
            .collect()
    }

    /// Refuses what only a start can change.
    pub(super) fn follows(&self, old: &Self) -> Result<(), Failure> {
        let table = |raw: &Raw| toml::Table::try_from(raw).unwrap_or_default();
        let (old, new) = (table(&old.raw), table(&self.raw));
        let differs = |key: &&String| !CHANGEABLE.contains(&key.as_str()) && old.get(*key) != new.get(*key);
        match old.keys().chain(new.keys()).find(differs) {
            Some(key) => Err(Failure::NeedsStart { key: key.clone() }),
            None => Ok(()),
        }
    }

    /// What is read, and looked after for changes.
    pub(super) fn files(&self, flags: &Flags) -> Vec<PathBuf> {
        let (Source::Assignments(plan) | Source::Net(plan)) = &self.config.plan;
        flags.config.iter().chain([plan]).cloned().collect()
    }
}

impl Identity {
    pub(super) fn settings(&self) -> &DriverSettings {
        &self.settings
    }

    /// Whether a slot has the same number for both.
    pub(super) fn counts_slots_like(&self, other: &Self) -> bool {
        let of = |identity: &Self| (identity.settings.interval, identity.settings.offset);
        of(self) == of(other)
    }

    pub(super) fn ports(&self) -> u32 {
        self.lane.share.port_count
    }

    pub(super) fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    pub(super) fn prepare<T>(&self, config: &Config, prepare: &Prepare<T>) -> Result<Start<T>, Failure> {
        prepare(config, &self.lane, self.settings.clone())
    }

    /// Whether it is the same lane, whatever the rest of the assignments file says.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let of = |identity: &Self| Self {
            settings: DriverSettings { assignments_sha256: None, ..identity.settings.clone() },
            ..identity.clone()
        };
        of(self) == of(other)
    }
}

/// Which file it is and when it was written; `None` while it is not there.
type Stamp = Option<(u64, u64, i64, i64, u64)>;

/// Looks whether files were changed.
pub(super) struct Watch {
    files: Vec<PathBuf>,
    /// As they were when they were read.
    taken: Vec<Stamp>,
    /// As they were when they were looked at last.
    seen: Vec<Stamp>,
}

impl Watch {
    pub(super) fn new(files: Vec<PathBuf>) -> Self {
        let taken: Vec<Stamp> = files.iter().map(|path| stamp(path)).collect();
        Self { files, seen: taken.clone(), taken }
    }

    /// Whether they are others than those that were read, and nobody is writing them any more: they were the same when this was asked last.
    pub(super) fn is_changed(&mut self) -> bool {
        let now: Vec<Stamp> = self.files.iter().map(|path| stamp(path)).collect();
        let stable = now == self.seen;
        self.seen.clone_from(&now);
        stable && now != self.taken
    }

    /// Looks after these from now on.
    pub(super) fn files(&mut self, files: Vec<PathBuf>) {
        if files != self.files {
            *self = Self::new(files);
        }
    }

    /// Has them read as soon as nobody writes them.
    pub(super) fn forget(&mut self) {
        self.taken.clear();
    }

    /// Takes note that they are read now; a later change is another one.
    pub(super) fn take(&mut self) {
        self.taken = self.files.iter().map(|path| stamp(path)).collect();
        self.seen.clone_from(&self.taken);
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_still_written_is_not_read_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan");
        fs::write(&path, "1").expect("written");
        let mut watch = Watch::new(vec![path.clone()]);
        assert!(!watch.is_changed());
        fs::write(&path, "12").expect("written");
        assert!(!watch.is_changed(), "it may be half of it");
        fs::write(&path, "123").expect("written");
        assert!(!watch.is_changed(), "it was");
        assert!(watch.is_changed() && watch.is_changed(), "until it is read");
        watch.take();
        assert!(!watch.is_changed());
        fs::remove_file(&path).expect("removed");
        assert!(!watch.is_changed() && watch.is_changed(), "gone is another, too");
    }
}
