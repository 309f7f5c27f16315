//! Writes output files, and replaces existing ones in one step.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use tempfile::NamedTempFile;

use super::{is_dash, print};

/// Mode of a new file, before the umask applies.
const NEW_FILE_MODE: u32 = 0o666;

/// An output file cannot be written. If a file already exists at its path, it is unchanged.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot write {}", path.display())]
#[diagnostic(help(
    "give a path in a directory that you may write to and that has free space, or `-` for standard output"
))]
pub struct OutputError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the operating system.
    #[source]
    pub source: io::Error,
}

/// Output that is not yet at its path, where an existing file stays unchanged until
/// [`Staged::commit`].
///
/// A regular file is written next to its path and then renamed, so readers never see a partial
/// file. Other outputs (`-`, a pipe, `/dev/null`) are written at the commit.
#[derive(Debug)]
#[must_use]
pub struct Staged<'a> {
    path: PathBuf,
    content: Content<'a>,
}

#[derive(Debug)]
enum Content<'a> {
    /// A complete file on the disk, which is removed when this value is dropped.
    Beside(NamedTempFile),
    Direct(&'a [u8]),
}

impl<'a> Staged<'a> {
    /// Writes a regular file next to its path. Most errors occur here, before any file is replaced.
    ///
    /// # Errors
    /// Returns the error of the operating system: missing directory, permissions, no space.
    pub fn new(path: &Path, bytes: &'a [u8]) -> Result<Self, OutputError> {
        let failed = |source| OutputError {
            path: path.to_owned(),
            source,
        };
        if is_dash(path) {
            return Ok(Self {
                path: path.to_owned(),
                content: Content::Direct(bytes),
            });
        }
        // If the path is a symbolic link, its target is replaced, not the link itself.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = fs::metadata(&path).ok();
        if old
            .as_ref()
            .is_some_and(|old| !old.is_file() && !old.is_dir())
        {
            return Ok(Self {
                path,
                content: Content::Direct(bytes),
            });
        }
        if old.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let mut file = beside(&path).map_err(failed)?;
        if let Some(old) = old {
            file.as_file()
                .set_permissions(old.permissions())
                .map_err(failed)?;
        }
        file.write_all(bytes)
            .and_then(|()| file.as_file().sync_all())
            .map_err(failed)?;
        Ok(Self {
            path,
            content: Content::Beside(file),
        })
    }

    /// Moves the output to its path. It is not an error if the reader of standard output has
    /// closed the pipe.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn commit(self) -> Result<(), OutputError> {
        let Self { path, content } = self;
        let done = match content {
            Content::Beside(file) => file.persist(&path).map(drop).map_err(|error| error.error),
            Content::Direct(bytes) if is_dash(&path) => print(bytes),
            Content::Direct(bytes) => File::options()
                .write(true)
                .open(&path)
                .and_then(|mut file| file.write_all(bytes)),
        };
        done.map_err(|source| OutputError { path, source })
    }
}

/// Creates an empty file in the directory of `path`. Another directory could be on another file
/// system, which a rename cannot cross.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let prefix = format!(".{}.", name.to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(&prefix)
        .suffix(".tmp")
        .permissions(Permissions::from_mode(NEW_FILE_MODE))
        .tempfile_in(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn staged_files_of_one_path_do_not_collide() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let first = Staged::new(&path, b"1").unwrap();
        let second = Staged::new(&path, b"2").unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(dir.path())),
            ("2".to_owned(), vec!["out".to_owned()])
        );
    }

    #[test]
    fn older_file_is_unchanged_until_the_commit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "old").unwrap();
        drop(Staged::new(&path, b"new").unwrap());
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(dir.path())),
            ("old".to_owned(), vec!["out".to_owned()])
        );
        Staged::new(&path, b"new").unwrap().commit().unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), names(dir.path())),
            ("new".to_owned(), vec!["out".to_owned()])
        );
    }

    #[test]
    fn mode_of_an_older_file_is_kept_and_a_new_file_follows_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (old, new, plain) = (
            dir.path().join("old"),
            dir.path().join("new"),
            dir.path().join("plain"),
        );
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        Staged::new(&old, b"new").unwrap().commit().unwrap();
        assert_eq!(mode(&old), 0o640);
        Staged::new(&new, b"new").unwrap().commit().unwrap();
        fs::write(&plain, "new").unwrap();
        assert_eq!(mode(&new), mode(&plain));
    }

    #[test]
    fn special_files_are_not_replaced() {
        Staged::new(Path::new("/dev/null"), b"new")
            .unwrap()
            .commit()
            .unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = tempfile::tempdir().unwrap();
        assert!(Staged::new(dir.path(), b"new").is_err());
        assert!(Staged::new(&dir.path().join("nowhere/out"), b"new").is_err());
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn target_of_a_symbolic_link_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        Staged::new(&link, b"new").unwrap().commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }
}
