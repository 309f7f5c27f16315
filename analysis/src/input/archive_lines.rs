//! Returns the records of an archive as lines in time order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ibnet_store::archive::Archive;
use ibnet_store::hour::Hour;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use rayon::prelude::*;

use super::archive_files::ArchiveNotes;
use crate::error::AnalysisError;
use crate::path;

/// The lines of an archive, hour by hour. Only the rows of one hour are in memory.
pub(crate) struct ArchiveLines {
    /// Files of the hours that were not read yet.
    hours: BTreeMap<Hour, Vec<PathBuf>>,
    tables: Vec<Table>,
    /// Time, table and row of each line of the hour, latest first.
    order: Vec<(u64, u32, u32)>,
    /// What was unusual about the files.
    pub(crate) notes: ArchiveNotes,
}

impl ArchiveLines {
    /// Lists the files of an archive.
    ///
    /// # Errors
    /// Returns an error if the folder is not an archive or cannot be read.
    pub(crate) fn open(folder: &Path) -> Result<Self, AnalysisError> {
        let archive = Archive::open(folder).ok_or_else(|| AnalysisError::NotAnArchive {
            name: path::display_name(folder),
        })?;
        let mut hours: BTreeMap<Hour, Vec<PathBuf>> = BTreeMap::new();
        for table in TableName::ALL {
            for (hour, file) in archive.files(table)? {
                hours.entry(hour).or_default().push(file);
            }
        }
        Ok(Self {
            hours,
            tables: Vec::new(),
            order: Vec::new(),
            notes: ArchiveNotes::default(),
        })
    }

    /// Reads the next line without its line feed. Returns false at the end of the archive.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is damaged.
    pub(crate) fn read(&mut self, line: &mut Vec<u8>) -> Result<bool, AnalysisError> {
        while self.order.is_empty() {
            let Some((_, files)) = self.hours.pop_first() else {
                return Ok(false);
            };
            let opened: Vec<ArchiveFile> = files
                .iter()
                .map(|path| ArchiveFile::open(path))
                .collect::<Result<_, _>>()?;
            opened.iter().for_each(|file| self.notes.add(file));
            self.tables = opened
                .par_iter()
                .map(ArchiveFile::read_all)
                .collect::<Result<_, _>>()?;
            // A `start` record comes before the other records of its time, as in a file of lines.
            self.tables
                .sort_by_key(|table| (table.name() != TableName::Starts, table.name()));
            let rows = self.tables.iter().zip(0..).flat_map(|(table, number)| {
                (0..table.len()).map(move |row| (table.ts(row), number, row as u32))
            });
            self.order = rows.collect();
            self.order.par_sort_unstable_by(|a, b| b.cmp(a));
        }
        line.clear();
        if let Some((_, table, row)) = self.order.pop() {
            self.tables[table as usize].write_line(row as usize, line);
        }
        Ok(true)
    }
}
