//! Packs lines into an archive.
//!
//! The packer collects rows in memory by table and hour, and writes them to staged files if there
//! are too many. At the end it merges the rows of each [part](crate::part) of an hour with those in
//! the archive; a row with the same values is a copy and is stored once. The file of the part is
//! replaced atomically, so packing the same lines again changes nothing, and a process that is
//! killed leaves either the old or the new file of each part.
//!
//! If the last part of an hour is large, rows after its last minute begin a new part. Packing an
//! hour in many small runs therefore does not rewrite the whole hour each time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::archive::{Archive, Lock};
use crate::derive;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::inputs::{Hours, InputFile, Inputs};
use crate::parse::Batch;
use crate::part::{Part, Parts};
use crate::read::ArchiveFile;
use crate::schema::TableName;
use crate::sources::{self, Source};
use crate::table::{Sum, Table};
use crate::write::FileWriter;

/// Max number of rows in memory. A row of the default counter groups takes about 300 bytes.
const MAX_ROWS: usize = 1 << 21;

/// Number of rows from which a part of an hour is large, so that later rows begin a new part. A
/// file of this size has 16 row groups.
const PART_ROWS: u64 = 1 << 22;

/// Buffer size of a writer in bytes.
const BUFFER: usize = 1 << 20;

/// How to pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PackOptions {
    /// Whether each new file is read back and compared with the rows that were written.
    pub verify: bool,
}

/// Rows that are not in the archive yet.
#[derive(Debug)]
pub struct Packer {
    archive: Archive,
    options: PackOptions,
    most_rows: usize,
    part_rows: u64,
    waiting: BTreeMap<(TableName, Hour), Vec<Table>>,
    /// Number of rows in `waiting`.
    rows: usize,
    /// Number of rows dropped as copies of rows in the same staged file.
    copies: u64,
    staged: BTreeMap<(TableName, Part), Vec<NamedTempFile>>,
    /// Parts of the hours with new rows.
    parts: BTreeMap<(TableName, Hour), Parts>,
    /// Last hour that was removed from each table.
    removed: BTreeMap<TableName, Hour>,
    /// Files that were packed before.
    inputs: Inputs,
    /// Files whose rows were added in this run, with their hours.
    new_inputs: Vec<(InputFile, Hours)>,
    _lock: Lock,
}

/// Result of packing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packed {
    /// For each table: number of rows that are new in the archive.
    pub added: BTreeMap<TableName, u64>,
    /// Number of records dropped as copies.
    pub copies: u64,
    /// Number of rows in the merged parts that have the sampler, port and time of another row, but
    /// other values. All of them are kept.
    pub conflicts: u64,
    /// Files that were written, with their sizes in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// Number of rows in these files: new ones and rewritten ones.
    pub written: u64,
    /// Number of records that were not added, because retention had removed their hour.
    pub expired: u64,
    /// Files of derived tables that were written, with their sizes in bytes.
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
            most_rows: MAX_ROWS,
            part_rows: PART_ROWS,
            waiting: BTreeMap::new(),
            rows: 0,
            copies: 0,
            staged: BTreeMap::new(),
            parts: BTreeMap::new(),
            removed,
            _lock: lock,
        })
    }

    /// Sets the max number of rows in memory.
    pub fn with_most_rows(self, rows: usize) -> Self {
        Self {
            most_rows: rows.max(1),
            ..self
        }
    }

    /// Sets the number of rows from which a part of an hour is large.
    pub fn with_part_rows(self, rows: u64) -> Self {
        Self {
            part_rows: rows.max(1),
            ..self
        }
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
        if self.rows > self.most_rows {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Returns whether the archive has all records of a file, because it was packed before.
    pub fn has(&self, input: &InputFile) -> bool {
        self.inputs.has(input, &self.archive, |name, hour| {
            self.was_removed(name, hour)
        })
    }

    /// Records that all rows of a file were added. `hours` are the tables and hours of its rows.
    /// After [`finish`](Self::finish), the archive [`has`](Self::has) the file.
    pub fn note_input(&mut self, input: InputFile, hours: Hours) {
        self.new_inputs.push((input, hours));
    }

    /// Writes all rows in memory to staged files.
    fn flush(&mut self) -> Result<(), StoreError> {
        for ((name, hour), tables) in std::mem::take(&mut self.waiting) {
            for (part, table) in self.divide(name, hour, tables)? {
                let (file, sum) =
                    self.write(name, |writer| writer.write(&table, &table.order()))?;
                self.copies += (table.len() as u64).saturating_sub(sum.rows);
                self.staged.entry((name, part)).or_default().push(file);
            }
        }
        self.rows = 0;
        Ok(())
    }

    /// Divides the rows of an hour into its parts.
    fn divide(
        &mut self,
        name: TableName,
        hour: Hour,
        tables: Vec<Table>,
    ) -> Result<BTreeMap<Part, Table>, StoreError> {
        let all = joined(name, tables);
        let parts = self.parts(name, hour)?;
        if parts.is_single() {
            return Ok([(Part::first(hour), all)].into());
        }
        let mut rows: BTreeMap<Part, Vec<u32>> = BTreeMap::new();
        for row in 0..all.len() {
            rows.entry(parts.at(all.ts(row)).unwrap_or_else(|| Part::first(hour)))
                .or_default()
                .push(row as u32);
        }
        let of_rows = |rows: Vec<u32>| {
            let mut table = Table::new(name);
            table.append(&all, &rows);
            table
        };
        Ok(rows
            .into_iter()
            .map(|(part, rows)| (part, of_rows(rows)))
            .collect())
    }

    /// Returns the parts of an hour, followed by a new part if the last one is large.
    fn parts(&mut self, name: TableName, hour: Hour) -> Result<&Parts, StoreError> {
        match self.parts.entry((name, hour)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let mut parts = self.archive.parts(name, hour)?;
                if let Some(path) = parts.files.last_key_value().map(|(_, path)| path) {
                    let last = ArchiveFile::open(path)?;
                    let latest = (0..last.groups())
                        .map(|group| last.times(group).map(|(_, latest)| latest))
                        .max()
                        .flatten();
                    if let Some(next) = latest
                        .filter(|_| last.sum().rows >= self.part_rows)
                        .and_then(|ts| Part::after(hour, ts))
                    {
                        parts.add(next);
                    }
                }
                Ok(entry.insert(parts))
            }
        }
    }

    /// Merges all rows into the archive. Calls `progress` with the number of finished hours and the
    /// number of all hours.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written. The archive then has some of the rows,
    /// none of them twice; packing the same lines again adds the others.
    pub fn finish(mut self, progress: &dyn Fn(u64, u64)) -> Result<Packed, StoreError> {
        let mut packed = Packed {
            copies: self.copies,
            ..Packed::default()
        };
        let staged = self.staged.keys().map(|(name, part)| (*name, part.hour));
        let hours: Hours = self.waiting.keys().copied().chain(staged).collect();
        let total = hours.len() as u64;
        let is_lacking = |(name, hour): &(TableName, Hour)| {
            !self.was_removed(*name, *hour) && !self.inputs.is_whole(&self.archive, *name, *hour)
        };
        let lacking: Hours = hours.iter().copied().filter(is_lacking).collect();
        for (done, (name, hour)) in (0..).zip(&hours) {
            progress(done, total);
            self.merge_hour(*name, *hour, &mut packed)?;
        }
        self.note_inputs(&hours, &lacking, packed.expired > 0)?;
        Ok(packed)
    }

    /// Writes the list of the inputs. `lacking` are the hours whose files had changed since
    /// the last run: rows of this run do not bring back the records of inputs that this run
    /// did not read.
    fn note_inputs(
        &mut self,
        hours: &Hours,
        lacking: &Hours,
        has_expired: bool,
    ) -> Result<(), StoreError> {
        let new = std::mem::take(&mut self.new_inputs);
        if self.inputs.is_empty() && new.is_empty() {
            return Ok(());
        }
        self.inputs.forget(lacking);
        // Inputs with expired records stay off the list, so the next run reports these
        // records again.
        for (input, hours) in new.into_iter().filter(|_| !has_expired) {
            self.inputs.add(input, &hours);
        }
        hours
            .iter()
            .for_each(|(name, hour)| self.inputs.note_hour(&self.archive, *name, *hour));
        self.inputs.save(&self.archive)
    }

    fn merge_hour(
        &mut self,
        name: TableName,
        hour: Hour,
        packed: &mut Packed,
    ) -> Result<(), StoreError> {
        let waiting = self.waiting.remove(&(name, hour)).unwrap_or_default();
        let mut rows = self.divide(name, hour, waiting)?;
        let Some(parts) = self.parts.remove(&(name, hour)) else {
            return Ok(());
        };
        for part in parts.all() {
            let staged = self.staged.remove(&(name, part)).unwrap_or_default();
            let new = New {
                rows: rows.remove(&part).unwrap_or_else(|| Table::new(name)),
                staged,
            };
            // Files with unknown names can have rows of any part.
            if !new.rows.is_empty() || !new.staged.is_empty() || !parts.others.is_empty() {
                self.merge(name, part, &parts, new, packed)?;
            }
        }
        // Their rows are now in the files of the parts.
        parts.others.iter().try_for_each(|path| {
            fs::remove_file(path).map_err(|source| StoreError::Write {
                path: path.clone(),
                source,
            })
        })
    }

    fn merge(
        &self,
        name: TableName,
        part: Part,
        parts: &Parts,
        mut new: New,
        packed: &mut Packed,
    ) -> Result<(), StoreError> {
        let own = parts.files.get(&part);
        let mut old = own
            .map(|path| Source::replaced(path))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        for path in &parts.others {
            let other = Source::replaced(path)?;
            old.push(if parts.is_single() {
                other
            } else {
                other.with_times(parts.times(part))
            });
        }
        let mut staged = new
            .staged
            .iter()
            .map(|file| Ok(Source::new(ArchiveFile::open(file.path())?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let rows_of = |sources: &[Source]| {
            sources
                .iter()
                .map(|source| source.file.sum().rows)
                .sum::<u64>()
        };
        let given = new.rows.len() as u64 + rows_of(&staged);
        if old.is_empty() && self.was_removed(name, part.hour) {
            // These records may be only a part of those that were removed.
            packed.expired += given;
            return Ok(());
        }
        let mut derived = TableName::DERIVED.map(Table::new);
        let mut before = 0;
        let (file, sum) =
            if rows_of(&old) + given <= self.most_rows as u64 || name != TableName::Ports {
                let mut table = new.rows;
                before = add_old(&old, &mut table, &Source::append)?;
                for source in &staged {
                    source.append(&mut table)?;
                }
                let order = table.order();
                packed.conflicts += table.conflicts(&order);
                if name == TableName::Ports {
                    derived = TableName::DERIVED.map(|name| derive::derived(name, &table, &order));
                }
                self.write(name, |writer| writer.write(&table, &order))?
            } else {
                if !new.rows.is_empty() {
                    let file = self
                        .write(name, |writer| writer.write(&new.rows, &new.rows.order()))?
                        .0;
                    new.rows = Table::new(name);
                    staged.push(Source::new(ArchiveFile::open(file.path())?));
                    new.staged.push(file);
                }
                // A file is read one range at a time.
                old.iter()
                    .try_for_each(|source| source.file.verify().map(drop))?;
                let (before, conflicts) = (&mut before, &mut packed.conflicts);
                self.write_ranges(
                    name,
                    &old,
                    &staged,
                    Counts { before, conflicts },
                    &mut derived,
                )?
            };
        let added = sum.rows.saturating_sub(before);
        packed.copies += given.saturating_sub(added);
        let is_same =
            parts.others.is_empty() && old.first().is_some_and(|source| source.file.sum() == sum);
        if !is_same {
            let octets = file
                .as_file()
                .metadata()
                .map_or(0, |metadata| metadata.len());
            let path = self.archive.publish(file, name, part)?;
            *packed.added.entry(name).or_default() += added;
            let hour = part.hour;
            packed.hours = Some(packed.hours.map_or((hour, hour), |(first, last)| {
                (first.min(hour), last.max(hour))
            }));
            packed.files.push((path, octets));
            packed.written += sum.rows;
        }
        if name == TableName::Ports {
            self.publish_derived(part, sum, &derived, packed)
        } else {
            Ok(())
        }
    }

    /// Writes the derived tables of a part of an hour, unless the archive has them. `of` is the
    /// checksum of the part of `ports`; readers ignore a derived table with another one.
    fn publish_derived(
        &self,
        part: Part,
        of: Sum,
        tables: &[Table; 2],
        packed: &mut Packed,
    ) -> Result<(), StoreError> {
        for table in tables {
            let name = table.name();
            if self.has_derived(name, part, of) {
                continue;
            }
            let order: Vec<u32> = (0..table.len() as u32).collect();
            let (file, _) = self.write(name, |writer| {
                writer.set_of(of);
                writer.write(table, &order)
            })?;
            let octets = file
                .as_file()
                .metadata()
                .map_or(0, |metadata| metadata.len());
            packed
                .derived
                .push((self.archive.publish(file, name, part)?, octets));
        }
        Ok(())
    }

    /// Writes the derived tables of an hour that is in the archive, unless the archive has them.
    pub(crate) fn derive(&self, hour: Hour) -> Result<(), StoreError> {
        self.archive
            .parts(TableName::Ports, hour)?
            .files
            .iter()
            .try_for_each(|(part, path)| self.derive_part(*part, path))
    }

    fn derive_part(&self, part: Part, path: &Path) -> Result<(), StoreError> {
        let source = Source::replaced(path)?;
        let sum = source.file.sum();
        if TableName::DERIVED
            .into_iter()
            .all(|name| self.has_derived(name, part, sum))
        {
            return Ok(());
        }
        source.file.verify()?;
        let mut derived = TableName::DERIVED.map(Table::new);
        for guids in &sources::ranges([&source], self.most_rows)? {
            let mut table = Table::new(TableName::Ports);
            source.append_guids(&mut table, guids)?;
            add_derived(&table, &table.order(), &mut derived);
        }
        self.publish_derived(part, sum, &derived, &mut Packed::default())
    }

    /// Returns whether the archive has an undamaged derived table of a part, or retention removed
    /// it. Records can be removed later, and then the table cannot be computed again. A table that
    /// was computed from more rows is therefore kept: some of its records were removed, and only a
    /// part of them came back.
    fn has_derived(&self, name: TableName, part: Part, of: Sum) -> bool {
        let covers = |sum: Sum| sum == of || sum.rows > of.rows;
        let is_current = |path: &Path| {
            ArchiveFile::open(path)
                .is_ok_and(|file| file.of().is_some_and(covers) && file.verify().is_ok())
        };
        self.was_removed(name, part.hour) || is_current(&self.archive.path_of(name, part))
    }

    fn was_removed(&self, name: TableName, hour: Hour) -> bool {
        self.removed.get(&name).is_some_and(|last| hour <= *last)
    }

    pub(crate) const fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Merges files that do not fit into memory, one range of GUIDs at a time.
    fn write_ranges(
        &self,
        name: TableName,
        old: &[Source],
        staged: &[Source],
        counts: Counts<'_>,
        derived: &mut [Table; 2],
    ) -> Result<(NamedTempFile, Sum), StoreError> {
        let ranges = sources::ranges(old.iter().chain(staged), self.most_rows)?;
        let mut failed = None;
        let written = self.write(name, |writer| {
            for guids in &ranges {
                let mut table = Table::new(name);
                let mut read = || {
                    *counts.before += add_old(old, &mut table, &|source, table| {
                        source.append_guids(table, guids)
                    })?;
                    staged
                        .iter()
                        .try_for_each(|source| source.append_guids(&mut table, guids).map(drop))
                };
                if let Err(error) = read() {
                    failed = Some(error);
                    return Ok(());
                }
                let order = table.order();
                *counts.conflicts += table.conflicts(&order);
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

    /// Writes a staged file, and verifies it if the options ask for this.
    fn write(
        &self,
        name: TableName,
        write: impl FnOnce(&mut FileWriter<BufWriter<&fs::File>>) -> parquet::errors::Result<()>,
    ) -> Result<(NamedTempFile, Sum), StoreError> {
        let file = self.archive.stage()?;
        let failed = || StoreError::writing(self.archive.root());
        let mut writer = FileWriter::new(BufWriter::with_capacity(BUFFER, file.as_file()), name)
            .map_err(failed())?;
        write(&mut writer).map_err(failed())?;
        let (buffer, sum) = writer.finish().map_err(failed())?;
        buffer.into_inner().map_err(|error| StoreError::Write {
            path: self.archive.root().to_owned(),
            source: error.into_error(),
        })?;
        if self.options.verify {
            ArchiveFile::open(file.path())?.verify()?;
        }
        Ok((file, sum))
    }
}

/// New rows of a part of an hour.
struct New {
    rows: Table,
    /// Each file is deleted on drop.
    staged: Vec<NamedTempFile>,
}

/// Row counts to which a merge adds.
struct Counts<'a> {
    /// Distinct rows of the files that are replaced.
    before: &'a mut u64,
    conflicts: &'a mut u64,
}

/// Appends the rows of the files that are replaced, and returns how many are distinct.
fn add_old(
    old: &[Source],
    table: &mut Table,
    read: &dyn Fn(&Source, &mut Table) -> Result<u64, StoreError>,
) -> Result<u64, StoreError> {
    // One file alone has no copies.
    if let [only] = old {
        return read(only, table);
    }
    let mut all = Table::new(table.name());
    for source in old {
        read(source, &mut all)?;
    }
    let order = all.order();
    table.append(&all, &order);
    Ok(order.len() as u64)
}

fn joined(name: TableName, tables: Vec<Table>) -> Table {
    let mut all = Table::new(name);
    for table in tables {
        let rows: Vec<u32> = (0..table.len() as u32).collect();
        all.append(&table, &rows);
    }
    all
}

/// Appends the derived rows of a range of GUIDs.
fn add_derived(ports: &Table, order: &[u32], derived: &mut [Table; 2]) {
    for table in derived {
        let added = derive::derived(table.name(), ports, order);
        let rows: Vec<u32> = (0..added.len() as u32).collect();
        table.append(&added, &rows);
    }
}
