//! Reads the files of a sweep, and detects that they have changed since they were read.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ibnet::limits;

/// The state of a file. Works on network file systems too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    /// Time of the last change of the content: seconds and nanoseconds.
    changed: (i64, i64),
    size: u64,
}

/// A file with its state. `None` if the file does not exist or cannot be read.
pub(super) type Stamped = (PathBuf, Option<Stamp>);

impl From<&Metadata> for Stamp {
    fn from(of: &Metadata) -> Self {
        Self { device: of.dev(), inode: of.ino(), changed: (of.mtime(), of.mtime_nsec()), size: of.size() }
    }
}

/// The operation that a thread carries out, for messages about an operation that does not end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stage(Arc<Mutex<String>>);

impl Stage {
    pub(super) fn set(&self, operation: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = operation;
    }

    pub(super) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads files and keeps their states.
///
/// The state of a file is that of the open descriptor, taken before the content is read. So a
/// change during the reading or after it is always detected.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) stage: Stage,
    read: Vec<Stamped>,
}

impl Reader {
    /// Reads a file of at most `longest` octets.
    pub(super) fn read(&mut self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        self.stage.set(format!("reading {}", path.display()));
        self.keep(path, None);
        let file = File::open(path)?;
        self.keep(path, Some(Stamp::from(&file.metadata()?)));
        limits::read(file, longest)
    }

    fn keep(&mut self, path: &Path, stamp: Option<Stamp>) {
        self.read.retain(|(other, _)| other != path);
        self.read.push((path.to_owned(), stamp));
    }

    /// Returns the files that were read.
    pub(super) fn into_read(self) -> Vec<Stamped> {
        self.read
    }
}

/// Returns the files with their present states. May block as long as the file system.
pub(super) fn look(files: &[PathBuf]) -> Vec<Stamped> {
    files.iter().map(|path| (path.clone(), fs::metadata(path).ok().as_ref().map(Stamp::from))).collect()
}

/// Compares the present states of files with those that were read.
pub(super) struct Watch {
    read: Vec<Stamped>,
    /// The states at the last call of [`is_changed`](Self::is_changed).
    seen: Vec<Stamped>,
}

impl Watch {
    pub(super) fn new(read: Vec<Stamped>) -> Self {
        Self { seen: read.clone(), read }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.read.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Returns whether the files differ from those that were read, and have not changed since the
    /// last call. So files are not read while they are still being written.
    pub(super) fn is_changed(&mut self, now: Vec<Stamped>) -> bool {
        // The result of a look that began before the list of files changed.
        if now.iter().map(|(path, _)| path).ne(self.read.iter().map(|(path, _)| path)) {
            return false;
        }
        let is_stable = now == self.seen;
        self.seen = now;
        is_stable && self.seen != self.read
    }

    /// Records that the reading of the files has begun. Until it has ended, the files count as
    /// those of the last call of [`is_changed`](Self::is_changed).
    pub(super) fn begin(&mut self) {
        self.read.clone_from(&self.seen);
    }

    /// Records the files that were read. If `all` is false, the reading has failed, and the other
    /// files stay watched.
    pub(super) fn end(&mut self, read: Vec<Stamped>, all: bool) {
        let mut files = read;
        if !all {
            let others: Vec<_> = self.read.iter().filter(|(path, _)| !files.iter().any(|(other, _)| other == path)).cloned().collect();
            files.extend(others);
        }
        *self = Self::new(files);
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
        let now = look(&watch.files());
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
        assert!(is_changed(&mut watch) && is_changed(&mut watch), "until it is read");
        watch.begin();
        assert!(!is_changed(&mut watch));
        fs::remove_file(&path).expect("removed");
        assert!(!is_changed(&mut watch) && is_changed(&mut watch), "a removed file is a change");
    }

    #[test]
    fn file_that_is_replaced_after_its_reading_is_a_change() {
        let (folder, path, mut watch) = watched("1");
        // The same name, size and time of change: only the inode differs.
        let modified = fs::metadata(&path).and_then(|file| file.modified()).expect("a time");
        let other = folder.path().join("other");
        fs::write(&other, "2").expect("written");
        File::options().write(true).open(&other).and_then(|file| file.set_modified(modified)).expect("the time is set");
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
        assert_eq!(watch.files(), [missing.clone(), path]);
        assert!(!is_changed(&mut watch));
        fs::write(&missing, "x").expect("written");
        assert!(!is_changed(&mut watch) && is_changed(&mut watch), "the file exists now");
    }

    #[test]
    fn file_above_the_limit_is_refused() {
        let (_folder, path, _) = watched(&"x".repeat(100));
        assert!(Reader::default().read(&path, 99).is_err());
        assert!(Reader::default().read(Path::new("/dev/zero"), 1 << 20).expect_err("endless").to_string().contains("1 MiB"));
    }

    #[test]
    fn look_at_another_list_of_files_is_ignored() {
        let (_folder, path, mut watch) = watched("1");
        fs::remove_file(&path).expect("removed");
        let others = look(&["/dev/null".into()]);
        assert!(!watch.is_changed(others.clone()) && !watch.is_changed(others));
    }
}
