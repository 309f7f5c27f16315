//! Finds, locks and changes the folders of an archive.
//!
//! The first [part](crate::part) of an hour is `TABLE/date=YYYY-MM-DD/hour=HH/TABLE.parquet`; a
//! large hour has later parts, named `TABLE_MM.parquet` after the minute in which they begin.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::StoreError;
use crate::hour::Hour;
use crate::part::{EXTENSION, Part, Parts};
use crate::schema::TableName;

/// Folder of files in progress. It is inside the archive because a rename cannot cross
/// file systems.
const STAGING: &str = ".staging";

/// File that lists, for each table, the last hour that retention removed: lines such as
/// `ports date=2026-11-21/hour=13`.
const REMOVED: &str = ".removed";

/// Lock file of a writer.
const LOCK: &str = ".lock";

/// An archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archive {
    root: PathBuf,
}

/// The exclusive right to change an archive, which only one process can hold.
#[derive(Debug)]
pub struct Lock {
    /// The lock ends when the file is closed.
    _file: File,
}

impl Archive {
    /// Returns the archive in a folder, or `None` if the folder has no table.
    pub fn open(root: &Path) -> Option<Self> {
        let has_table = |table: &TableName| root.join(table.as_str()).is_dir();
        TableName::every()
            .any(|table| has_table(&table))
            .then(|| Self {
                root: root.to_owned(),
            })
    }

    /// Returns the archive in a folder. Creates the folder if necessary.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        let staging = root.join(STAGING);
        fs::create_dir_all(&staging).map_err(|source| StoreError::Write {
            path: staging,
            source,
        })?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Locks the archive, and removes what an interrupted writer left.
    ///
    /// # Errors
    /// Returns an error if another process has the lock, or if the folder cannot be written to.
    pub fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.root.join(LOCK);
        let failed = |path: &Path, source| StoreError::Write {
            path: path.to_owned(),
            source,
        };
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|source| failed(&path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Busy {
                    path: self.root.clone(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
        }
        let staging = self.root.join(STAGING);
        check_link(&staging)?;
        for old in fs::read_dir(&staging)
            .map_err(|source| failed(&staging, source))?
            .filter_map(Result::ok)
        {
            if old.file_type().is_ok_and(|kind| kind.is_dir()) {
                return Err(StoreError::Foreign {
                    path: old.path(),
                    why: "a folder among files in progress".to_owned(),
                });
            }
            fs::remove_file(old.path()).map_err(|source| failed(&old.path(), source))?;
        }
        Ok(Lock { _file: file })
    }

    /// Returns the first file of a table and an hour.
    pub fn path(&self, table: TableName, hour: Hour) -> PathBuf {
        self.path_of(table, Part::first(hour))
    }

    /// Returns the file of a table and a part of an hour.
    pub fn path_of(&self, table: TableName, part: Part) -> PathBuf {
        self.folder(table, part.hour).join(part.file_name(table))
    }

    fn folder(&self, table: TableName, hour: Hour) -> PathBuf {
        self.root.join(table.as_str()).join(hour.to_string())
    }

    /// Returns the files of a table in the order of their hours and parts.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn files(&self, table: TableName) -> Result<Vec<(Hour, PathBuf)>, StoreError> {
        self.files_between(table, Hour(0)..=Hour(u32::MAX))
    }

    /// Returns the files of a table for some hours, in the order of the hours. Folders of other
    /// dates are not read.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn files_between(
        &self,
        table: TableName,
        hours: RangeInclusive<Hour>,
    ) -> Result<Vec<(Hour, PathBuf)>, StoreError> {
        let mut files = Vec::new();
        for (date, folder) in entries(&self.root.join(table.as_str()))? {
            let ends = ["hour=00", "hour=23"].map(|hour| Hour::parse(&date, hour));
            let [Some(first), Some(last)] = ends else {
                continue;
            };
            if last < *hours.start() || first > *hours.end() {
                continue;
            }
            for (hour, folder) in entries(&folder)? {
                if let Some(hour) = Hour::parse(&date, &hour).filter(|hour| hours.contains(hour)) {
                    files.extend(files_of(&folder)?.into_iter().map(|path| (hour, path)));
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Returns the first hour of a table. `None` if the table has no file.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn first_hour(&self, table: TableName) -> Result<Option<Hour>, StoreError> {
        self.end_hour(table, <[_]>::sort)
    }

    /// Returns the last hour of a table. `None` if the table has no file.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub fn last_hour(&self, table: TableName) -> Result<Option<Hour>, StoreError> {
        self.end_hour(table, |folders| folders.sort_by(|a, b| b.cmp(a)))
    }

    fn end_hour(
        &self,
        table: TableName,
        sort: fn(&mut [(String, PathBuf)]),
    ) -> Result<Option<Hour>, StoreError> {
        let mut dates = entries(&self.root.join(table.as_str()))?;
        // Folder names sort by time.
        sort(&mut dates);
        for (date, folder) in dates.iter().filter(|(date, _)| date.starts_with("date=")) {
            let mut hours = entries(folder)?;
            sort(&mut hours);
            for (name, folder) in hours {
                if let Some(hour) = Hour::parse(date, &name)
                    .filter(|_| files_of(&folder).is_ok_and(|files| !files.is_empty()))
                {
                    return Ok(Some(hour));
                }
            }
        }
        Ok(None)
    }

    /// Returns the last hour that was removed from each table. Packing does not add the records of
    /// removed hours again.
    ///
    /// # Errors
    /// Returns an error if the list of the archive cannot be read.
    pub fn removed(&self) -> Result<BTreeMap<TableName, Hour>, StoreError> {
        let path = self.root.join(REMOVED);
        let octets = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            octets => octets.map_err(|source| StoreError::Read {
                path: path.clone(),
                source,
            })?,
        };
        let text = String::from_utf8_lossy(&octets);
        let entry = |line: &str| {
            let (name, folders) = line.split_once(' ')?;
            let (date, hour) = folders.split_once('/')?;
            Some((
                TableName::every().find(|table| table.as_str() == name)?,
                Hour::parse(date, hour)?,
            ))
        };
        let damaged = |number, line: String| StoreError::Removed {
            path: path.clone(),
            number,
            line,
        };
        let mut removed: BTreeMap<TableName, Hour> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let (table, hour) = entry(line).ok_or_else(|| damaged(number, line.to_owned()))?;
            // The list is written twice. If the two copies differ, one of them is damaged.
            if let Some(first) = removed.insert(table, hour).filter(|first| *first != hour) {
                return Err(damaged(number, format!("{line}, and before it {first}")));
            }
        }
        Ok(removed)
    }

    /// Sets the last hour that was removed from each table.
    ///
    /// # Errors
    /// Returns an error if the list cannot be written.
    pub(crate) fn set_removed(
        &self,
        removed: &BTreeMap<TableName, Hour>,
    ) -> Result<(), StoreError> {
        let path = self.root.join(REMOVED);
        let failed = |source| StoreError::Write {
            path: path.clone(),
            source,
        };
        let text: String = removed
            .iter()
            .map(|(table, hour)| format!("{} {hour}\n", table.as_str()))
            .collect();
        // Two copies: damage that turns one hour into another shows as a difference between them.
        // Earlier versions accept repeated lines.
        let text = text.repeat(2);
        let mut file = self.stage()?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        sync(&self.root).map_err(failed)
    }

    /// Returns the parts of a table and an hour.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub(crate) fn parts(&self, table: TableName, hour: Hour) -> Result<Parts, StoreError> {
        let mut files = files_of(&self.folder(table, hour))?;
        files.sort();
        Ok(Parts::new(table, hour, files))
    }

    /// Checks that none of the folders of an hour is a symbolic link. Missing folders are accepted.
    pub(crate) fn check_folder(&self, table: TableName, hour: Hour) -> Result<(), StoreError> {
        self.folder(table, hour)
            .ancestors()
            .take_while(|folder| *folder != self.root)
            .try_for_each(check_link)
    }

    /// Creates a file in progress. It is deleted on drop unless it is [published](Self::publish).
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(crate) fn stage(&self) -> Result<NamedTempFile, StoreError> {
        let staging = self.root.join(STAGING);
        let mut builder = tempfile::Builder::new();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        builder
            .permissions(permissions)
            .tempfile_in(&staging)
            .map_err(|source| StoreError::Write {
                path: staging,
                source,
            })
    }

    /// Renames a complete file to its final path, and makes the rename durable.
    pub(crate) fn publish(
        &self,
        file: NamedTempFile,
        table: TableName,
        part: Part,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path_of(table, part);
        self.check_folder(table, part.hour)?;
        let failed = |source| StoreError::Write {
            path: path.clone(),
            source,
        };
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        // A rename is durable once its folder is synced.
        folder
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.root))
            .try_for_each(sync)
            .map_err(failed)?;
        Ok(path)
    }
}

fn check_link(folder: &Path) -> Result<(), StoreError> {
    let is_link = fs::symlink_metadata(folder).is_ok_and(|folder| folder.is_symlink());
    if is_link {
        Err(StoreError::Link {
            path: folder.to_owned(),
        })
    } else {
        Ok(())
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the names and paths in a folder. A folder that does not exist is empty.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let failed = |source| StoreError::Read {
        path: folder.to_owned(),
        source,
    };
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ))
    };
    read.map(entry).collect::<io::Result<_>>().map_err(failed)
}

/// Returns the files of an archive in a folder. Files in progress and hidden files do not count.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let is_data = |(name, path): &(String, PathBuf)| {
        !name.starts_with('.') && path.extension().is_some_and(|found| found == EXTENSION)
    };
    Ok(entries(folder)?
        .into_iter()
        .filter(is_data)
        .map(|(_, path)| path)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_the_list_of_removed_hours_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::create(folder.path()).unwrap();
        let removed = BTreeMap::from([
            (TableName::Ports, Hour(500_000)),
            (TableName::Events, Hour(500_009)),
        ]);
        archive.set_removed(&removed).unwrap();
        assert_eq!(archive.removed().unwrap(), removed);
        let list = folder.path().join(REMOVED);
        let whole = fs::read(&list).unwrap();
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            fs::write(&list, &damaged).unwrap();
            let read = archive.removed();
            assert!(
                read.is_err() || read.is_ok_and(|read| read == removed),
                "{}",
                String::from_utf8_lossy(&damaged)
            );
        }
        // The list of an earlier version has no copy.
        fs::write(&list, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(archive.removed().unwrap(), removed);
    }
}
