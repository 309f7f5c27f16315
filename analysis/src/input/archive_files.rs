//! The archive files that a time range needs. The files of the next hours of data are opened ahead
//! of their use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibnet_store::archive::Archive;
use ibnet_store::error::StoreError;
use ibnet_store::hour::Hour;
use ibnet_store::part::Part;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::selection::Selection;
use crate::error::AnalysisError;
use crate::path;
use crate::record::Type;

/// Max number of hours whose files are open at a time.
const MAX_OPEN: usize = 8;

/// What was unusual about the archive files that were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArchiveNotes {
    /// Number of files without checksums, which earlier versions wrote. Damage to such files is
    /// not always detected.
    pub without_checksums: u64,
    /// Names of columns that this version does not know, and therefore did not read.
    pub unknown_columns: BTreeSet<String>,
}

impl ArchiveNotes {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.without_checksums += other.without_checksums;
        self.unknown_columns
            .extend(other.unknown_columns.iter().cloned());
    }

    pub(super) fn add(&mut self, file: &ArchiveFile) {
        self.without_checksums += u64::from(!file.has_checksums());
        self.unknown_columns
            .extend(file.unknown_columns().map(str::to_owned));
    }
}

/// The files of all archives.
#[derive(Clone, Debug, Default)]
pub(super) struct ArchiveFiles {
    archives: Vec<Archive>,
    /// Table and path of each file.
    pub(super) all: Vec<(TableName, PathBuf)>,
    /// For each hour that was not read yet, the indices of its files in `all`.
    pub(super) hours: BTreeMap<Hour, Vec<usize>>,
    /// Files with one-minute means, by the index of the `ports` file that they summarize.
    minutes: BTreeMap<usize, PathBuf>,
    /// Files that were opened ahead, by path.
    opened: FxHashMap<PathBuf, Arc<ArchiveFile>>,
}

impl ArchiveFiles {
    /// Lists the files with `start` records. They are used whatever their time.
    ///
    /// # Errors
    /// Returns an error if a folder is not an archive or cannot be read.
    pub(super) fn starts<'p>(
        folders: impl Iterator<Item = &'p Path>,
    ) -> Result<Self, AnalysisError> {
        let mut files = Self::default();
        for folder in folders {
            let archive = Archive::open(folder).ok_or_else(|| AnalysisError::NotAnArchive {
                name: path::display_name(folder),
            })?;
            for (hour, file) in archive.files(TableName::Starts)? {
                files.add(hour, TableName::Starts, file);
            }
            files.archives.push(archive);
        }
        Ok(files)
    }

    /// Adds the files of all other tables that can have the needed records.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub(super) fn select(&mut self, selection: &Selection) -> Result<(), AnalysisError> {
        let times = selection.port_times(None);
        self.add_between(*times.start(), *times.end())?;
        if !selection.uses(Type::Start) {
            self.hours
                .retain(|hour, _| selection.is_near(hour.start(), hour.end()));
        }
        Ok(())
    }

    /// Adds the files of all other tables that can have records between two times, inclusive.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read.
    pub(super) fn add_between(&mut self, first: u64, last: u64) -> Result<(), AnalysisError> {
        let near = Hour::of(first)..=Hour::of(last);
        for archive in std::mem::take(&mut self.archives) {
            // Indices of the `ports` files: parts of hours, and files with other names.
            let (mut parts, mut others) = (BTreeMap::new(), BTreeMap::new());
            for table in TableName::ALL
                .into_iter()
                .filter(|table| *table != TableName::Starts)
            {
                for (hour, file) in archive.files_between(table, near.clone())? {
                    if table == TableName::Ports {
                        match Part::of(table, hour, &file) {
                            Some(part) => drop(parts.insert(part, self.all.len())),
                            None => drop(others.insert(hour, self.all.len())),
                        }
                    }
                    self.add(hour, table, file);
                }
            }
            for (hour, file) in archive.files_between(TableName::PortsMinute, near.clone())? {
                let of_part =
                    Part::of(TableName::PortsMinute, hour, &file).and_then(|part| parts.get(&part));
                match of_part.or_else(|| others.get(&hour)) {
                    Some(number) => drop(self.minutes.insert(*number, file)),
                    // Retention removed the records of this hour.
                    None => self.add(hour, TableName::PortsMinute, file),
                }
            }
            self.archives.push(archive);
        }
        Ok(())
    }

    fn add(&mut self, hour: Hour, table: TableName, file: PathBuf) {
        self.hours.entry(hour).or_default().push(self.all.len());
        self.all.push((table, file));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.archives.is_empty()
    }

    /// Returns the size of all files in bytes.
    pub(super) fn size(&self) -> u64 {
        (0..self.all.len()).map(|number| self.size_of(number)).sum()
    }

    /// Returns the size of a file in bytes.
    pub(super) fn size_of(&self, number: usize) -> u64 {
        std::fs::metadata(&self.all[number].1).map_or(0, |file| file.len())
    }

    /// Returns the longest `interval_ns` of the `start` records.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub(super) fn longest_interval_ns(&self) -> Result<Option<u64>, AnalysisError> {
        let schema = TableName::Starts.schema();
        let columns: Vec<bool> = schema
            .columns
            .iter()
            .map(|column| column.name == "interval_ns")
            .collect();
        let starts: Vec<&PathBuf> = self
            .all
            .iter()
            .filter(|(table, _)| *table == TableName::Starts)
            .map(|(_, path)| path)
            .collect();
        let longest = starts.par_iter().map(|path| {
            let file = ArchiveFile::open(path)?;
            let mut longest = None;
            for group in 0..file.groups() {
                let table = file.read(group, &columns)?;
                let values = table.integers("interval_ns");
                longest = longest.max((0..table.len()).filter_map(|row| values?.get(row)).max());
            }
            Ok(longest)
        });
        longest.try_reduce(|| None, |a, b| Ok(a.max(b)))
    }

    /// Opens the files of the next hours in parallel, unless those of the next hour are open. One
    /// thread would need longer to read the metadata of an hour than to read a column of a row
    /// group. With `is_coarse`, the one-minute means are opened too.
    pub(super) fn open_ahead(&mut self, is_coarse: bool) {
        let is_open = |number: &usize| self.opened.contains_key(&self.all[*number].1);
        if self
            .hours
            .values()
            .next()
            .is_none_or(|numbers| numbers.iter().any(is_open))
        {
            return;
        }
        let next = self
            .hours
            .values()
            .take(rayon::current_num_threads().clamp(1, MAX_OPEN))
            .flatten();
        let minutes = |number: &usize| self.minutes.get(number).filter(|_| is_coarse);
        let paths: Vec<&PathBuf> = next
            .flat_map(|number| [Some(&self.all[*number].1), minutes(number)])
            .flatten()
            .collect();
        // A file that cannot be opened is tried again when it is its turn, and then reports the
        // error.
        let opened = paths
            .into_par_iter()
            .filter_map(|path| Some((path.clone(), Arc::new(ArchiveFile::open(path).ok()?))));
        self.opened = opened.collect();
    }

    /// Returns the file, opened now if it was not opened ahead.
    pub(super) fn open(&self, path: &Path) -> Result<Arc<ArchiveFile>, StoreError> {
        match self.opened.get(path) {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(Arc::new(ArchiveFile::open(path)?)),
        }
    }

    /// Returns the file with the one-minute means of a `ports` file, if it was made from the same
    /// records.
    pub(super) fn current_minutes(&self, number: usize) -> Option<PathBuf> {
        let path = self.minutes.get(&number)?;
        let ports = self.open(&self.all[number].1).ok()?;
        let minutes = self.open(path).ok()?;
        (minutes.of() == Some(ports.sum())).then(|| path.clone())
    }
}
