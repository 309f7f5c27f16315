//! The advisory lock that ensures that a file has only one writer at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;

/// Error: another writer has the lock. Contains its process id, if it is known.
#[derive(Debug, thiserror::Error)]
#[error("{} writes to the file", other(*.0))]
pub(super) struct Locked(pub(super) Option<u32>);

fn other(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => "another output of this process".to_owned(),
        Some(pid) => format!("the process {pid}"),
        None => "another process".to_owned(),
    }
}

/// Takes the lock of a file, which ends when the file is closed. On a file system without locks,
/// the file is used without one.
pub(super) fn exclusive(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            Locked(holder(file)),
        )),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(%error, "the file system has no locks, so another program could write to the same file");
            Ok(())
        }
    }
}

/// Returns the id of the process that has the lock, from `/proc/locks`.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let device = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks
        .lines()
        .find_map(|line| holder_of(line, device, metadata.ino()))
}

/// Parses a line such as `1: FLOCK ADVISORY WRITE 1234 fe:01:5678 0 EOF`, whose device numbers
/// are hexadecimal. The process id is 0 if the process is in another PID namespace.
fn holder_of(line: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let (pid, place) = (words.nth(2)?, words.next()?);
    let mut parts = place.split(':');
    let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
    let is_there = (number()?, number()?) == device && parts.next()?.parse() == Ok(inode);
    pid.parse().ok().filter(|pid| is_there && *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_writer_is_told_the_process_of_the_first() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = || {
            File::options()
                .append(true)
                .open(file.path())
                .expect("opened")
        };
        let (one, two) = (open(), open());
        exclusive(&one).expect("the first writer");
        let error = exclusive(&two).expect_err("locked");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(
            error.to_string(),
            "another output of this process writes to the file"
        );
        drop(one);
        exclusive(&two).expect("the lock ended");
    }

    #[test]
    fn line_of_another_file_or_lock_names_no_process() {
        let line = "3: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF";
        assert_eq!(holder_of(line, (0xfe, 1), 5678), Some(1234));
        assert_eq!(holder_of(line, (0xfe, 1), 5679), None);
        assert_eq!(holder_of(line, (0xfe, 2), 5678), None);
        assert_eq!(
            holder_of(&line.replace("FLOCK", "POSIX"), (0xfe, 1), 5678),
            None
        );
        assert_eq!(holder_of(&line.replace("1234", "0"), (0xfe, 1), 5678), None);
        assert_eq!(holder_of("3: -> FLOCK", (0xfe, 1), 5678), None);
    }
}
