//! Errors of the archive.

use std::io;
use std::path::PathBuf;

use ibnet_record::types::Printable;
use miette::Diagnostic;
use parquet::errors::ParquetError;

/// An error of the archive.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum StoreError {
    /// A file or folder that cannot be read.
    #[error("cannot read {}", shown(path))]
    #[diagnostic(help("check that the path exists and that you may read it"))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file that is not a Parquet file, or that is torn or damaged.
    #[error(
        "cannot read {}: it is damaged or not complete ({})",
        shown(path),
        Printable(why)
    )]
    #[diagnostic(help(
        "remove the file and pack the lines of this hour again, or restore it from a copy"
    ))]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// What is damaged.
        why: String,
    },
    /// A Parquet file that is not part of an archive.
    #[error(
        "cannot use {}: it is not a file of an archive ({})",
        shown(path),
        Printable(why)
    )]
    #[diagnostic(help("give a folder that `ibnet-view pack` wrote; move other files out of it"))]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// What is missing or different.
        why: String,
    },
    /// The list of the hours that retention removed is damaged.
    #[error("cannot read {}:{number}: expected a table and an hour, such as `ports date=2026-11-22/hour=15` (found {:?})", shown(path), Printable(line).to_string())]
    #[diagnostic(help(
        "restore the file from a copy, correct the line, or remove the file; without it, records of removed hours are packed again if their files are given again"
    ))]
    Removed {
        /// Path of the list.
        path: PathBuf,
        /// Number of the line, from 1.
        number: usize,
        /// The line.
        line: String,
    },
    /// A folder of an archive that is a symbolic link.
    #[error(
        "cannot change {}: it is a symbolic link, and packing and retention do not follow links",
        shown(path)
    )]
    #[diagnostic(help(
        "replace the link by a folder with its files; to use another disk, put the whole archive there"
    ))]
    Link {
        /// Path of the link.
        path: PathBuf,
    },
    /// A file of a later version.
    #[error(
        "cannot use {}: a later version of ibnet wrote it ({})",
        shown(path),
        Printable(what)
    )]
    #[diagnostic(help("use that version; this file was not changed"))]
    Later {
        /// Path of the file.
        path: PathBuf,
        /// The schema or column that this version does not have.
        what: String,
    },
    /// A file that cannot be written.
    #[error("cannot write {}", shown(path))]
    #[diagnostic(help(
        "free space or give a folder that you may write to, and pack again: no input was changed"
    ))]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file whose rows differ from those that were written.
    #[error("cannot verify {}: it has {found}, expected {expected}", shown(path))]
    #[diagnostic(help(
        "check the disk and the memory of this host, and pack again: no input was changed"
    ))]
    Different {
        /// Path of the file.
        path: PathBuf,
        /// Row count and checksum that were read.
        found: String,
        /// Row count and checksum that were written.
        expected: String,
    },
    /// Another process writes to the archive.
    #[error(
        "cannot pack into {}: another process writes to this archive",
        shown(path)
    )]
    #[diagnostic(help("wait until it has finished; `fuser FOLDER/.lock` shows the process"))]
    Busy {
        /// Folder of the archive.
        path: PathBuf,
    },
}

fn shown(path: &std::path::Path) -> String {
    Printable(&path.display().to_string()).to_string()
}

impl StoreError {
    /// Returns the error of a file that could not be written.
    pub(crate) fn writing(path: &std::path::Path) -> impl FnOnce(ParquetError) -> Self {
        let path = path.to_owned();
        move |error| Self::Write {
            path,
            source: io_error(error),
        }
    }

    /// Returns the error of a file that could not be decoded.
    pub(crate) fn damaged(path: &std::path::Path) -> impl FnOnce(ParquetError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            // Other external errors come from the decompressor.
            ParquetError::External(inner)
                if inner
                    .downcast_ref()
                    .and_then(io::Error::raw_os_error)
                    .is_some() =>
            {
                Self::Read {
                    path,
                    source: io_error(ParquetError::External(inner)),
                }
            }
            error => Self::Damaged {
                path,
                why: error.to_string(),
            },
        }
    }
}

/// Returns the error of the operating system that a Parquet error contains.
pub(crate) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}
