//! Reads the inputs of a sweep, and detects when they have changed since they were read. An input
//! is a file or a published plan.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ibnet::distribution::PlanStore;
use ibnet_record::limits;

use super::failure::Failure;
use super::receiving::{ReceivedPlan, Receiving};

/// A file or a published plan.
#[derive(Clone, Debug)]
pub(super) enum Input {
    File(PathBuf),
    Published(Receiving),
}

/// The state of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stamp {
    /// The state of a file. Comparing it also works on network file systems.
    File {
        device: u64,
        inode: u64,
        /// Time at which the content was last changed, in seconds and nanoseconds.
        changed: (i64, i64),
        size: u64,
    },
    /// The SHA-256 of a published plan.
    Published(String),
}

/// An input with its state, which is `None` if a file does not exist or cannot be read.
pub(super) type Stamped = (Input, Option<Stamp>);

impl From<&Metadata> for Stamp {
    fn from(of: &Metadata) -> Self {
        Self::File {
            device: of.dev(),
            inode: of.ino(),
            changed: (of.mtime(), of.mtime_nsec()),
            size: of.size(),
        }
    }
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Published(one), Self::Published(other)) => one.is_same_as(other),
            _ => false,
        }
    }
}

/// What a thread is doing, for messages about an operation that does not end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage(Arc<Mutex<String>>);

impl Stage {
    pub(super) fn set(&self, operation: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = operation;
    }

    pub(super) fn get(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Reads inputs and keeps their states.
///
/// The state of a file is that of the open descriptor, taken before the content is read, so a
/// change during or after the read is always detected.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) stage: Stage,
    read: Vec<Stamped>,
    /// The connection of the running sweep, which is used again for the same plan.
    receiving: Option<Receiving>,
}

impl Reader {
    /// Creates a reader for a reload. `receiving` is the connection of the running sweep.
    pub(super) fn for_reload(receiving: Option<Receiving>) -> Self {
        Self {
            receiving,
            ..Self::default()
        }
    }

    /// Reads the newest published plan. At a start, or if the address has changed, reads the
    /// newest one whose time has come.
    pub(super) fn read_published(&mut self, store: &PlanStore) -> Result<ReceivedPlan, Failure> {
        self.stage
            .set(format!("connecting to {}", store.server.shown_server()));
        let known = self
            .receiving
            .as_ref()
            .filter(|receiving| receiving.store() == store)
            .cloned();
        let (receiving, plan) = match known {
            Some(receiving) => (receiving.clone(), receiving.newest()),
            None => {
                let receiving = Receiving::start(store)?;
                (receiving.clone(), receiving.first())
            }
        };
        let plan = plan.or_else(|_| receiving.copy());
        let stamp = plan
            .as_ref()
            .ok()
            .map(|plan| Stamp::Published(plan.sha256()));
        self.keep(Input::Published(receiving), stamp);
        plan
    }

    /// Reads a file of at most `longest` bytes.
    pub(super) fn read(&mut self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        self.stage.set(format!("reading {}", path.display()));
        self.keep(Input::File(path.to_owned()), None);
        let file = File::open(path)?;
        self.keep(
            Input::File(path.to_owned()),
            Some(Stamp::from(&file.metadata()?)),
        );
        limits::read(file, longest)
    }

    fn keep(&mut self, input: Input, stamp: Option<Stamp>) {
        self.read.retain(|(other, _)| *other != input);
        self.read.push((input, stamp));
    }

    /// Returns the inputs that were read.
    pub(super) fn into_read(self) -> Vec<Stamped> {
        self.read
    }
}

/// Returns the inputs with their current states. Blocks as long as the file system does.
pub(super) fn look(inputs: Vec<Input>) -> Vec<Stamped> {
    let stamp = |input: &Input| match input {
        Input::File(path) => fs::metadata(path).ok().as_ref().map(Stamp::from),
        Input::Published(receiving) => receiving.sha256().map(Stamp::Published),
    };
    inputs
        .into_iter()
        .map(|input| (input.clone(), stamp(&input)))
        .collect()
}

/// Compares the current states of inputs with those that were read.
pub(super) struct Watch {
    read: Vec<Stamped>,
    /// The states at the last call of [`is_changed`](Self::is_changed).
    seen: Vec<Stamped>,
}

impl Watch {
    pub(super) fn new(read: Vec<Stamped>) -> Self {
        Self {
            seen: read.clone(),
            read,
        }
    }

    pub(super) fn inputs(&self) -> Vec<Input> {
        self.read.iter().map(|(input, _)| input.clone()).collect()
    }

    /// Returns the connection to the server of the published plan.
    pub(super) fn receiving(&self) -> Option<Receiving> {
        self.read.iter().find_map(|(input, _)| match input {
            Input::Published(receiving) => Some(receiving.clone()),
            Input::File(_) => None,
        })
    }

    /// Returns whether the inputs differ from those that were read, and have not changed since
    /// the last call, so that no file is read while it is still being written.
    pub(super) fn is_changed(&mut self, now: Vec<Stamped>) -> bool {
        // This is the result of a check that began before the list of inputs changed.
        if now
            .iter()
            .map(|(input, _)| input)
            .ne(self.read.iter().map(|(input, _)| input))
        {
            return false;
        }
        let is_stable = now == self.seen;
        self.seen = now;
        is_stable && self.seen != self.read
    }

    /// Must be called when the files are about to be read. Until [`end`](Self::end), the states
    /// at the last call of [`is_changed`](Self::is_changed) count as those that were read.
    pub(super) fn begin(&mut self) {
        self.read.clone_from(&self.seen);
    }

    /// Records the files that were read. If `all` is false, reading has failed, and the files
    /// that were not reached are still watched.
    pub(super) fn end(&mut self, read: Vec<Stamped>, all: bool) {
        let mut inputs = read;
        if !all {
            let others: Vec<_> = self
                .read
                .iter()
                .filter(|(input, _)| !inputs.iter().any(|(other, _)| other == input))
                .cloned()
                .collect();
            inputs.extend(others);
        }
        *self = Self::new(inputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a file, and a watch of this file as it was read.
    fn watched(content: &str) -> (tempfile::TempDir, PathBuf, Watch) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan");
        fs::write(&path, content).expect("written");
        let mut reader = Reader::default();
        assert_eq!(reader.read(&path, 100).expect("read"), content.as_bytes());
        (folder, path, Watch::new(reader.into_read()))
    }

    fn is_changed(watch: &mut Watch) -> bool {
        let now = look(watch.inputs());
        watch.is_changed(now)
    }

    #[test]
    fn file_is_read_again_only_when_it_is_complete() {
        let (_folder, path, mut watch) = watched("1");
        assert!(!is_changed(&mut watch));
        fs::write(&path, "12").expect("written");
        assert!(!is_changed(&mut watch), "it may be incomplete");
        fs::write(&path, "123").expect("written");
        assert!(!is_changed(&mut watch), "it changed again");
        assert!(
            is_changed(&mut watch) && is_changed(&mut watch),
            "until it is read"
        );
        watch.begin();
        assert!(!is_changed(&mut watch));
        fs::remove_file(&path).expect("removed");
        assert!(
            !is_changed(&mut watch) && is_changed(&mut watch),
            "a removed file is a change"
        );
    }

    #[test]
    fn file_that_is_replaced_after_its_reading_is_a_change() {
        let (folder, path, mut watch) = watched("1");
        // The same name, size and time of change: only the inode differs.
        let modified = fs::metadata(&path)
            .and_then(|file| file.modified())
            .expect("a time");
        let other = folder.path().join("other");
        fs::write(&other, "2").expect("written");
        File::options()
            .write(true)
            .open(&other)
            .and_then(|file| file.set_modified(modified))
            .expect("the time is set");
        fs::rename(&other, &path).expect("renamed");
        assert!(!is_changed(&mut watch), "it may be incomplete");
        assert!(is_changed(&mut watch));
    }

    #[test]
    fn failed_reading_keeps_the_other_files_watched() {
        let (folder, path, mut watch) = watched("1");
        let missing = folder.path().join("missing");
        let mut reader = Reader::default();
        assert!(reader.read(&missing, 100).is_err());
        watch.end(reader.into_read(), false);
        assert_eq!(
            watch.inputs(),
            [Input::File(missing.clone()), Input::File(path)]
        );
        assert!(!is_changed(&mut watch));
        fs::write(&missing, "x").expect("written");
        assert!(
            !is_changed(&mut watch) && is_changed(&mut watch),
            "the file exists now"
        );
    }

    #[test]
    fn file_above_the_limit_is_refused() {
        let (_folder, path, _) = watched(&"x".repeat(100));
        assert!(Reader::default().read(&path, 99).is_err());
        assert!(
            Reader::default()
                .read(Path::new("/dev/zero"), 1 << 20)
                .expect_err("endless")
                .to_string()
                .contains("1 MiB")
        );
    }

    #[test]
    fn look_at_another_list_of_files_is_ignored() {
        let (_folder, path, mut watch) = watched("1");
        fs::remove_file(&path).expect("removed");
        let others = look(vec![Input::File("/dev/null".into())]);
        assert!(!watch.is_changed(others.clone()) && !watch.is_changed(others));
    }
}
