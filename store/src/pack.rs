//! Packs lines into an archive.
//!
//! Rows are collected in memory by table and hour. If there are too many of them, they are written
//! to staged files. At the end, the rows of each hour are merged with those that the archive has:
//! a row with the same key is a copy, and is stored once. The file of the hour is replaced in one
//! step. So packing the same lines again changes nothing, and a process that is killed leaves for
//! each hour either the old or the new file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::archive::{Archive, Lock};
use crate::column::Column;
use crate::derive;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::inputs::{Hours, InputFile, Inputs};
use crate::parse::Batch;
use crate::read::ArchiveFile;
use crate::schema::TableName;
use crate::table::{Sum, Table};
use crate::write::FileWriter;

/// Largest number of rows in memory. A row of the default groups takes about 300 octets.
const MOST_ROWS: usize = 1 << 21;

/// Octets of a writer's buffer.
const BUFFER: usize = 1 << 20;

/// How to pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PackOptions {
    /// Whether each new file is read again and compared with the rows that were written.
    pub verify: bool,
}

/// Rows that are not in the archive yet.
#[derive(Debug)]
pub struct Packer {
    archive: Archive,
    options: PackOptions,
    most_rows: usize,
    waiting: BTreeMap<(TableName, Hour), Vec<Table>>,
    /// Number of rows in `waiting`.
    rows: usize,
    staged: BTreeMap<(TableName, Hour), Vec<NamedTempFile>>,
    /// Last hour that was removed from each table.
    removed: BTreeMap<TableName, Hour>,
    /// Files that were packed before.
    inputs: Inputs,
    /// Files whose rows were added, with their hours.
    new_inputs: Vec<(InputFile, Hours)>,
    _lock: Lock,
}

/// Result of packing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packed {
    /// For each table: number of rows that are new in the archive.
    pub added: BTreeMap<TableName, u64>,
    /// Number of records that were copies of others.
    pub copies: u64,
    /// Files that were written, with their sizes in octets.
    pub files: Vec<(PathBuf, u64)>,
    /// Number of records of hours that were removed from the archive.
    pub expired: u64,
    /// Files of derived tables that were written, with their sizes in octets.
    pub derived: Vec<(PathBuf, u64)>,
    /// First and last hour with new rows.
    pub hours: Option<(Hour, Hour)>,
}

impl Packer {
    /// Opens or creates an archive, and locks it.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written to, or if another process packs into it.
    pub fn new(root: &Path, options: PackOptions) -> Result<Self, StoreError> {
        let archive = Archive::create(root)?;
        let lock = archive.lock()?;
        let removed = archive.removed()?;
        let inputs = Inputs::load(&archive)?;
        Ok(Self {
            archive,
            inputs,
            new_inputs: Vec::new(),
            options,
            most_rows: MOST_ROWS,
            waiting: BTreeMap::new(),
            rows: 0,
            staged: BTreeMap::new(),
            removed,
            _lock: lock,
        })
    }

    /// Sets the largest number of rows in memory.
    pub fn with_most_rows(self, rows: usize) -> Self {
        Self { most_rows: rows.max(1), ..self }
    }

    /// Adds rows. They are in the archive after [`finish`](Self::finish).
    ///
    /// # Errors
    /// Returns an error if a staged file cannot be written.
    pub fn add(&mut self, batch: Batch) -> Result<(), StoreError> {
        for (key, table) in batch.tables {
            self.rows += table.len();
            self.waiting.entry(key).or_default().push(table);
        }
        if self.rows > self.most_rows { self.flush() } else { Ok(()) }
    }

    /// Returns whether the archive has all records of a file, because it was packed before.
    pub fn has(&self, input: &InputFile) -> bool {
        self.inputs.has(input, &self.archive, |name, hour| self.was_removed(name, hour))
    }

    /// Notes that all rows of a file were added. `hours` are the tables and hours of its rows. After
    /// [`finish`](Self::finish), the archive [`has`](Self::has) the file.
    pub fn note_input(&mut self, input: InputFile, hours: Hours) {
        self.new_inputs.push((input, hours));
    }

    /// Writes all rows in memory to staged files.
    fn flush(&mut self) -> Result<(), StoreError> {
        for ((name, hour), tables) in std::mem::take(&mut self.waiting) {
            let table = joined(name, tables);
            let file = self.write(name, |writer| writer.write(&table, &table.order()))?.0;
            self.staged.entry((name, hour)).or_default().push(file);
        }
        self.rows = 0;
        Ok(())
    }

    /// Merges all rows into the archive. Calls `progress` with the number of finished hours and the
    /// number of all hours.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written. The archive then has some of the rows,
    /// none of them twice. Packing the same lines again adds the others.
    pub fn finish(mut self, progress: &dyn Fn(u64, u64)) -> Result<Packed, StoreError> {
        let mut packed = Packed::default();
        let keys: BTreeSet<(TableName, Hour)> = self.waiting.keys().chain(self.staged.keys()).copied().collect();
        let total = keys.len() as u64;
        for (done, key) in (0..).zip(keys) {
            progress(done, total);
            self.merge(key, &mut packed)?;
        }
        // Records that were not added are reported again by the next run.
        if packed.expired == 0 && !self.new_inputs.is_empty() {
            for (input, hours) in std::mem::take(&mut self.new_inputs) {
                self.inputs.add(input, &hours);
            }
            self.inputs.save(&self.archive)?;
        }
        Ok(packed)
    }

    /// Merges the rows of an hour.
    fn merge(&mut self, (name, hour): (TableName, Hour), packed: &mut Packed) -> Result<(), StoreError> {
        let paths = self.archive.files_of_hour(name, hour)?;
        let mut files = paths.iter().map(|path| writable(path)).collect::<Result<Vec<_>, _>>()?;
        let before: Sum = files.iter().map(ArchiveFile::sum).fold(Sum::default(), added);
        let mut given = 0;
        // The staged files are removed when this function returns.
        let staged = self.staged.remove(&(name, hour)).unwrap_or_default();
        for file in &staged {
            files.push(ArchiveFile::open(file.path())?);
        }
        if paths.is_empty() && self.was_removed(name, hour) {
            // These records are perhaps only a part of those that were removed.
            packed.expired += files.iter().map(|file| file.sum().rows).sum::<u64>();
            let waiting = self.waiting.remove(&(name, hour)).unwrap_or_default();
            packed.expired += waiting.iter().map(|table| table.len() as u64).sum::<u64>();
            return Ok(());
        }
        given += files.iter().map(|file| file.sum().rows).sum::<u64>() - before.rows;
        let waiting = self.waiting.remove(&(name, hour)).unwrap_or_default();
        let in_memory: usize = waiting.iter().map(Table::len).sum();
        self.rows -= in_memory.min(self.rows);
        given += in_memory as u64;
        let rows = before.rows + given;
        let mut derived = TableName::DERIVED.map(Table::new);
        let (file, sum) = if rows <= self.most_rows as u64 || name != TableName::Ports {
            let mut table = joined(name, waiting);
            for file in &files {
                append_file(&mut table, file)?;
            }
            let order = table.order();
            if name == TableName::Ports {
                derived = TableName::DERIVED.map(|name| derive::derived(name, &table, &order));
            }
            self.write(name, |writer| writer.write(&table, &order))?
        } else {
            if in_memory > 0 {
                let table = joined(name, waiting);
                let file = self.write(name, |writer| writer.write(&table, &table.order()))?.0;
                files.push(ArchiveFile::open(file.path())?);
            }
            // The ranges read only parts of a file at a time.
            files.iter().take(paths.len()).try_for_each(|file| file.verify().map(drop))?;
            self.write_ranges(name, &files, &mut derived)?
        };
        let new = sum.rows - before.rows.min(sum.rows);
        packed.copies += given - new.min(given);
        if paths.len() == 1 && sum == before {
            return if name == TableName::Ports { self.publish_derived(hour, sum, &derived, packed) } else { Ok(()) };
        }
        let octets = file.as_file().metadata().map_or(0, |metadata| metadata.len());
        let path = self.archive.publish(file, name, hour)?;
        // Other files of this hour are part of the new one.
        for old in paths.iter().filter(|old| **old != path) {
            fs::remove_file(old).map_err(|source| StoreError::Write { path: old.clone(), source })?;
        }
        *packed.added.entry(name).or_default() += new;
        packed.hours = Some(packed.hours.map_or((hour, hour), |(first, last)| (first.min(hour), last.max(hour))));
        packed.files.push((path, octets));
        if name == TableName::Ports { self.publish_derived(hour, sum, &derived, packed) } else { Ok(()) }
    }

    /// Writes the derived tables of an hour, unless the archive has them. `of` is the sum of the hour of
    /// `ports`. A reader ignores a derived table with another sum.
    fn publish_derived(&self, hour: Hour, of: Sum, tables: &[Table; 2], packed: &mut Packed) -> Result<(), StoreError> {
        for table in tables {
            let name = table.name();
            let is_current = |path: &PathBuf| ArchiveFile::open(path).is_ok_and(|file| file.of() == Some(of));
            if self.was_removed(name, hour) || is_current(&self.archive.path(name, hour)) {
                continue;
            }
            let order: Vec<u32> = (0..table.len() as u32).collect();
            let (file, _) = self.write(name, |writer| {
                writer.set_of(of);
                writer.write(table, &order)
            })?;
            let octets = file.as_file().metadata().map_or(0, |metadata| metadata.len());
            packed.derived.push((self.archive.publish(file, name, hour)?, octets));
        }
        Ok(())
    }

    /// Writes the derived tables of an hour that is in the archive, unless the archive has them.
    pub(crate) fn derive(&self, hour: Hour) -> Result<(), StoreError> {
        let paths = self.archive.files_of_hour(TableName::Ports, hour)?;
        let files = paths.iter().map(|path| writable(path)).collect::<Result<Vec<_>, _>>()?;
        let [file] = &files[..] else { return Ok(()) };
        let is_current = |name: TableName| {
            self.was_removed(name, hour)
                || ArchiveFile::open(&self.archive.path(name, hour)).is_ok_and(|derived| derived.of() == Some(file.sum()))
        };
        if TableName::DERIVED.into_iter().all(is_current) {
            return Ok(());
        }
        file.verify()?;
        let mut derived = TableName::DERIVED.map(Table::new);
        for range in &ranges(&files, self.most_rows)? {
            let mut table = Table::new(TableName::Ports);
            append_range(&mut table, file, range)?;
            add_derived(&table, &table.order(), &mut derived);
        }
        self.publish_derived(hour, file.sum(), &derived, &mut Packed::default())
    }

    fn was_removed(&self, name: TableName, hour: Hour) -> bool {
        self.removed.get(&name).is_some_and(|last| hour <= *last)
    }

    pub(crate) const fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Merges files that do not fit into memory: one range of GUIDs after the other.
    fn write_ranges(&self, name: TableName, files: &[ArchiveFile], derived: &mut [Table; 2]) -> Result<(NamedTempFile, Sum), StoreError> {
        let ranges = ranges(files, self.most_rows)?;
        let mut failed = None;
        let written = self.write(name, |writer| {
            for range in &ranges {
                let mut table = Table::new(name);
                for file in files {
                    if let Err(error) = append_range(&mut table, file, range) {
                        failed = Some(error);
                        return Ok(());
                    }
                }
                let order = table.order();
                add_derived(&table, &order, derived);
                writer.write(&table, &order)?;
            }
            Ok(())
        });
        match failed {
            Some(error) => Err(error),
            None => written,
        }
    }

    /// Writes a staged file, and verifies it if the options demand this.
    fn write(
        &self,
        name: TableName,
        write: impl FnOnce(&mut FileWriter<BufWriter<&fs::File>>) -> parquet::errors::Result<()>,
    ) -> Result<(NamedTempFile, Sum), StoreError> {
        let file = self.archive.stage()?;
        let failed = || StoreError::writing(self.archive.root());
        let mut writer = FileWriter::new(BufWriter::with_capacity(BUFFER, file.as_file()), name).map_err(failed())?;
        write(&mut writer).map_err(failed())?;
        let (buffer, sum) = writer.finish().map_err(failed())?;
        buffer.into_inner().map_err(|error| StoreError::Write { path: self.archive.root().to_owned(), source: error.into_error() })?;
        if self.options.verify {
            ArchiveFile::open(file.path())?.verify()?;
        }
        Ok((file, sum))
    }
}

fn added(mut sum: Sum, other: Sum) -> Sum {
    sum += other;
    sum
}

/// Opens a file that will be replaced. A file with more columns than this version has would lose
/// them.
fn writable(path: &Path) -> Result<ArchiveFile, StoreError> {
    let file = ArchiveFile::open(path)?;
    match file.unknown_column() {
        Some(what) => Err(StoreError::Later { path: path.to_owned(), what: format!("column {what}") }),
        None => Ok(file),
    }
}

fn joined(name: TableName, tables: Vec<Table>) -> Table {
    let mut all = Table::new(name);
    for table in tables {
        let rows: Vec<u32> = (0..table.len() as u32).collect();
        all.append(&table, &rows);
    }
    all
}

/// Adds all rows of a file, and compares them with the sum of the file. A damaged file is not
/// replaced.
fn append_file(table: &mut Table, file: &ArchiveFile) -> Result<(), StoreError> {
    let columns = vec![true; table.columns.len()];
    let mut found = Sum::default();
    for group in 0..file.groups() {
        let mut read = file.read(group, &columns)?;
        read.seal();
        found += read.sum();
        let rows: Vec<u32> = (0..read.len() as u32).collect();
        table.append(&read, &rows);
    }
    file.check(found)
}

/// Adds the derived rows of a range of GUIDs.
fn add_derived(ports: &Table, order: &[u32], derived: &mut [Table; 2]) {
    for table in derived {
        let added = derive::derived(table.name(), ports, order);
        let rows: Vec<u32> = (0..added.len() as u32).collect();
        table.append(&added, &rows);
    }
}

/// First and last GUID of a range.
type Range = (String, String);

/// Divides all GUIDs into ranges with at most `most_rows` rows. A range has at least one GUID.
fn ranges(files: &[ArchiveFile], most_rows: usize) -> Result<Vec<Range>, StoreError> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let schema = file.name().schema();
        let columns: Vec<bool> = schema.columns.iter().map(|column| column.name == "guid").collect();
        for group in 0..file.groups() {
            let table = file.read(group, &columns)?;
            let Some(texts) = table.texts("guid") else { continue };
            let mut of_id = vec![0; texts.list().len()];
            for id in &texts.ids {
                if let Some(count) = of_id.get_mut(*id as usize) {
                    *count += 1;
                }
            }
            for (guid, count) in texts.list().iter().zip(of_id) {
                *counts.entry(guid.to_string()).or_default() += count;
            }
        }
    }
    let mut ranges: Vec<Range> = Vec::new();
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

/// Adds the rows of a range of GUIDs.
fn append_range(table: &mut Table, file: &ArchiveFile, (first, last): &Range) -> Result<(), StoreError> {
    let columns = vec![true; table.columns.len()];
    let is_outside = |group: usize| file.guids(group).is_some_and(|(from, to)| to < first.as_str() || from > last.as_str());
    for group in (0..file.groups()).filter(|group| !is_outside(*group)) {
        let mut read = file.read(group, &columns)?;
        read.seal();
        let Some(index) = read.schema().index("guid") else { continue };
        let Column::Text(texts) = read.column(index) else { continue };
        let is_inside: Vec<bool> = texts.list().iter().map(|guid| **guid >= **first && **guid <= **last).collect();
        let is_selected = |row: &u32| is_inside.get(texts.ids[*row as usize] as usize).is_some_and(|inside| *inside);
        let rows: Vec<u32> = (0..read.len() as u32).filter(is_selected).collect();
        table.append(&read, &rows);
    }
    Ok(())
}
