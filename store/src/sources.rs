//! The input files of a merge.

use std::collections::BTreeMap;
use std::ops;
use std::path::Path;

use crate::column::Column;
use crate::error::StoreError;
use crate::read::ArchiveFile;
use crate::table::{Sum, Table};

/// A file whose rows are merged.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: ArchiveFile,
    /// Time range of the rows to take. `None` for all rows.
    times: Option<ops::RangeInclusive<u64>>,
}

/// First and last GUID of a range.
pub(crate) type Guids = (String, String);

impl Source {
    /// Creates a source of all rows of a file.
    pub(crate) const fn new(file: ArchiveFile) -> Self {
        Self { file, times: None }
    }

    /// Opens a file that will be replaced. Files with unknown columns are rejected, because the new
    /// file would lose these columns.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or has more columns.
    pub(crate) fn replaced(path: &Path) -> Result<Self, StoreError> {
        let file = ArchiveFile::open(path)?;
        let unknown = file
            .unknown_columns()
            .next()
            .map(|column| format!("column {column}"));
        match unknown {
            Some(what) => Err(StoreError::Later {
                path: path.to_owned(),
                what,
            }),
            None => Ok(Self::new(file)),
        }
    }

    /// Takes only the rows in a time range.
    pub(crate) fn with_times(self, times: ops::RangeInclusive<u64>) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// Returns the indices of the rows to take.
    fn taken(&self, read: &Table) -> Vec<u32> {
        let all = 0..read.len() as u32;
        match &self.times {
            Some(times) => all
                .filter(|row| times.contains(&read.ts(*row as usize)))
                .collect(),
            None => all.collect(),
        }
    }

    /// Appends all rows, and compares the file with its checksum, so that a damaged file is not
    /// replaced. Returns the number of rows that were added.
    pub(crate) fn append(&self, table: &mut Table) -> Result<u64, StoreError> {
        let columns = vec![true; table.columns.len()];
        let before = table.len();
        let mut found = Sum::default();
        for group in 0..self.file.groups() {
            let mut read = self.file.read(group, &columns)?;
            read.seal();
            found += read.sum();
            table.append(&read, &self.taken(&read));
        }
        self.file.check(found)?;
        Ok((table.len() - before) as u64)
    }

    /// Appends the rows in a range of GUIDs. Files are sorted by GUID, so only the pages with these
    /// rows are decoded. Returns the number of rows that were added.
    pub(crate) fn append_guids(
        &self,
        table: &mut Table,
        (first, last): &Guids,
    ) -> Result<u64, StoreError> {
        let schema = table.schema();
        let columns = vec![true; schema.columns.len()];
        let is_guid: Vec<bool> = schema
            .columns
            .iter()
            .map(|column| column.name == "guid")
            .collect();
        let is_outside = |group: usize| {
            self.file
                .guids(group)
                .is_some_and(|(from, to)| to < first.as_str() || from > last.as_str())
        };
        let before = table.len();
        for group in (0..self.file.groups()).filter(|group| !is_outside(*group)) {
            let guids = self.file.read(group, &is_guid)?;
            let Some(texts) = guids.texts("guid") else {
                continue;
            };
            let is_inside: Vec<bool> = texts
                .list()
                .iter()
                .map(|guid| **guid >= **first && **guid <= **last)
                .collect();
            let mut ranges: Vec<ops::Range<usize>> = Vec::new();
            let is_taken = |id: u32| is_inside.get(id as usize).is_some_and(|inside| *inside);
            for (rows, _) in texts.ids.runs().filter(|(_, id)| is_taken(*id)) {
                match ranges.last_mut() {
                    Some(range) if range.end == rows.start => range.end = rows.end,
                    _ => ranges.push(rows),
                }
            }
            if ranges.is_empty() {
                continue;
            }
            let mut read = self.file.read_rows(group, &columns, &ranges)?;
            read.seal();
            table.append(&read, &self.taken(&read));
        }
        Ok((table.len() - before) as u64)
    }
}

/// Divides all GUIDs into ranges of at most `most_rows` rows. A range has at least one GUID, even
/// if that GUID alone has more rows.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(crate) fn ranges<'s>(
    sources: impl IntoIterator<Item = &'s Source>,
    most_rows: usize,
) -> Result<Vec<Guids>, StoreError> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for Source { file, .. } in sources {
        let columns: Vec<bool> = file
            .name()
            .schema()
            .columns
            .iter()
            .map(|column| column.name == "guid")
            .collect();
        for group in 0..file.groups() {
            let table = file.read(group, &columns)?;
            let Some(Column::Text(texts)) = table
                .schema()
                .index("guid")
                .map(|index| table.column(index))
            else {
                continue;
            };
            let mut of_id = vec![0; texts.list().len()];
            for (rows, id) in texts.ids.runs() {
                if let Some(count) = of_id.get_mut(id as usize) {
                    *count += rows.len();
                }
            }
            for (guid, count) in texts.list().iter().zip(of_id) {
                *counts.entry(guid.to_string()).or_default() += count;
            }
        }
    }
    let mut ranges: Vec<Guids> = Vec::new();
    let mut rows = 0;
    for (guid, count) in counts {
        match ranges.last_mut() {
            Some((_, last)) if rows + count <= most_rows => (*last, rows) = (guid, rows + count),
            _ => {
                ranges.push((guid.clone(), guid));
                rows = count;
            }
        }
    }
    Ok(ranges)
}
