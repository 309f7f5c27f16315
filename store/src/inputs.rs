//! Remembers which files were packed into an archive, so that the next run can skip them.
//!
//! An input counts as unchanged if its path, size, modification time, and a checksum over its first
//! and last bytes are the same. The list also has the archive files of each hour as the last run
//! left them. If one of those is missing, older or different, the hour may lack records, so every
//! input with records of this hour is read again, unless retention removed the hour. Each line has
//! a checksum; damaged or missing lines only mean that some inputs are read again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::checked;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::schema::TableName;

/// File in an archive that lists its inputs, one JSON object a line.
const LIST: &str = ".inputs";

/// Number of bytes at the start and at the end of a file that its checksum covers.
const SUMMED: u64 = 4096;

/// The identity of a file that can be packed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InputFile {
    /// Canonical path.
    file: PathBuf,
    /// Size in bytes.
    size: u64,
    /// Modification time in nanoseconds since 1970.
    modified_ns: i64,
    /// Checksum over the first and the last bytes.
    sum: u64,
}

/// Tables and hours to which the records of a file belong.
pub type Hours = BTreeSet<(TableName, Hour)>;

/// The files that were packed, with the hours of their records.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    entries: BTreeMap<PathBuf, Entry>,
    /// The archive files of each hour after the last run, by table and folders of the hour.
    hours: BTreeMap<String, HourFiles>,
}

/// Archive files of an hour by name: size in bytes and modification time.
type HourFiles = BTreeMap<String, (u64, i64)>;

/// A line of the list, after its checksum.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line<'a> {
    Input(Cow<'a, Entry>),
    Hour {
        hour: Cow<'a, str>,
        files: Cow<'a, HourFiles>,
    },
}

/// A file that was packed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    input: InputFile,
    /// The hours of its records as folders, by table.
    hours: BTreeMap<String, BTreeSet<String>>,
}

impl InputFile {
    /// Returns the identity of a file. `None` for standard input, a pipe, or a path that is
    /// not UTF-8.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        if path == Path::new("-") || !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = fs::canonicalize(path)?;
        if file.to_str().is_none() {
            return Ok(None);
        }
        let open = File::open(&file)?;
        let state = open.metadata()?;
        let mut octets = vec![0; SUMMED.min(state.len()) as usize];
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for offset in [0, state.len().saturating_sub(SUMMED)] {
            open.read_exact_at(&mut octets, offset)?;
            // FNV-1a.
            sum = octets.iter().fold(sum, |sum, octet| {
                (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
            });
        }
        Ok(Some(Self {
            file,
            size: state.len(),
            modified_ns: modified_ns(&state),
            sum,
        }))
    }
}

fn modified_ns(state: &fs::Metadata) -> i64 {
    state
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(state.mtime_nsec())
}

/// Returns the name of a table and an hour in the list.
fn key(table: &str, folders: impl Display) -> String {
    format!("{table}/{folders}")
}

/// Returns the current archive files of an hour. A file that vanishes meanwhile is left out.
fn files_of(archive: &Archive, table: TableName, hour: Hour) -> HourFiles {
    let parts = archive.parts(table, hour).map(|parts| {
        parts
            .files
            .into_values()
            .chain(parts.others)
            .collect::<Vec<_>>()
    });
    let file = |path: PathBuf| {
        let state = fs::metadata(&path).ok()?;
        Some((
            path.file_name()?.to_string_lossy().into_owned(),
            (state.len(), modified_ns(&state)),
        ))
    };
    parts
        .unwrap_or_default()
        .into_iter()
        .filter_map(file)
        .collect()
}

impl Inputs {
    /// Reads the list. Damaged lines and lines of an earlier version are left out, so their inputs
    /// are read again.
    pub(crate) fn load(archive: &Archive) -> Result<Self, StoreError> {
        let path = archive.root().join(LIST);
        let octets = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            octets => octets.map_err(|source| StoreError::Read { path, source })?,
        };
        let mut inputs = Self::default();
        // A damaged line need not be UTF-8.
        for line in octets.split(|octet| *octet == b'\n').filter_map(parse) {
            match line {
                Line::Input(entry) => drop(
                    inputs
                        .entries
                        .insert(entry.input.file.clone(), entry.into_owned()),
                ),
                Line::Hour { hour, files } => {
                    drop(inputs.hours.insert(hour.into_owned(), files.into_owned()));
                }
            }
        }
        Ok(inputs)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether the archive has all records of a file. `was_removed` returns whether
    /// retention removed an hour.
    pub(crate) fn has(
        &self,
        input: &InputFile,
        archive: &Archive,
        was_removed: impl Fn(TableName, Hour) -> bool,
    ) -> bool {
        let Some(entry) = self
            .entries
            .get(&input.file)
            .filter(|entry| entry.input == *input)
        else {
            return false;
        };
        let is_there = |table: &str, folders: &str| {
            let table = TableName::every().find(|name| name.as_str() == table)?;
            let (date, hour) = folders.split_once('/')?;
            let hour = Hour::parse(date, hour)?;
            Some(was_removed(table, hour) || self.is_whole(archive, table, hour))
        };
        entry
            .hours
            .iter()
            .flat_map(|(table, hours)| hours.iter().map(move |hour| (table, hour)))
            .all(|(table, hour)| {
                // A later version can have a table that this version lacks.
                is_there(table, hour).unwrap_or(false)
            })
    }

    /// Returns whether an hour has exactly the files that the last run left.
    pub(crate) fn is_whole(&self, archive: &Archive, table: TableName, hour: Hour) -> bool {
        let files = self
            .hours
            .get(&key(table.as_str(), hour))
            .filter(|files| !files.is_empty());
        files.is_some_and(|files| *files == files_of(archive, table, hour))
    }

    /// Removes the inputs with records of some hours, because the archive may lack these records.
    pub(crate) fn forget(&mut self, hours: &Hours) {
        let is_of = |entry: &Entry| {
            let has = |(table, hour): &(TableName, Hour)| {
                entry
                    .hours
                    .get(table.as_str())
                    .is_some_and(|of| of.contains(&hour.to_string()))
            };
            hours.iter().any(has)
        };
        self.entries.retain(|_, entry| !is_of(entry));
    }

    pub(crate) fn add(&mut self, input: InputFile, hours: &Hours) {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, hour) in hours {
            names
                .entry(table.as_str().to_owned())
                .or_default()
                .insert(hour.to_string());
        }
        self.entries.insert(
            input.file.clone(),
            Entry {
                input,
                hours: names,
            },
        );
    }

    /// Records the archive files of an hour after a run.
    pub(crate) fn note_hour(&mut self, archive: &Archive, table: TableName, hour: Hour) {
        self.hours
            .insert(key(table.as_str(), hour), files_of(archive, table, hour));
    }

    /// Replaces the list atomically. Inputs that no longer exist are left out.
    pub(crate) fn save(&mut self, archive: &Archive) -> Result<(), StoreError> {
        self.entries.retain(|path, _| path.exists());
        let hours = self.entries.values().flat_map(|entry| &entry.hours);
        let used: BTreeSet<String> = hours
            .flat_map(|(table, hours)| hours.iter().map(move |hour| key(table, hour)))
            .collect();
        self.hours.retain(|hour, _| used.contains(hour));
        let path = archive.root().join(LIST);
        let failed = |source| StoreError::Write {
            path: path.clone(),
            source,
        };
        let inputs = self
            .entries
            .values()
            .map(|entry| Line::Input(Cow::Borrowed(entry)));
        let hours = self.hours.iter().map(|(hour, files)| Line::Hour {
            hour: hour.into(),
            files: Cow::Borrowed(files),
        });
        let mut file = BufWriter::new(archive.stage()?);
        for line in inputs.chain(hours) {
            let line = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
            file.write_all(checked::line(&line).as_bytes())
                .map_err(failed)?;
        }
        let file = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Parses a line. `None` if it is damaged.
fn parse(line: &[u8]) -> Option<Line<'static>> {
    serde_json::from_slice(checked::text(line)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{PackOptions, Packer};
    use crate::parse::Batch;

    const HOUR: Hour = Hour(500_000);

    /// Packs a file with one event in each of these minutes of the hour, and returns its identity.
    fn pack(root: &Path, name: &str, minutes: &[u64]) -> InputFile {
        let path = root.with_extension(name);
        let event = |minute: &u64| {
            let ts = HOUR.start() + minute * 60_000_000_000;
            format!(
                "{{\"type\":\"event\",\"ts\":{ts},\"slot\":1,\"sampler\":\"s\",\"event\":\"link_up\",\"guid\":null,\"detail\":\"x\"}}\n"
            )
        };
        fs::write(&path, minutes.iter().map(event).collect::<String>()).unwrap();
        let input = InputFile::of(&path).unwrap().unwrap();
        let batch = Batch::parse(&fs::read(&path).unwrap());
        let mut packer = Packer::new(root, PackOptions::default())
            .unwrap()
            .with_part_rows(2);
        packer.note_input(input.clone(), batch.tables.keys().copied().collect());
        packer.add(batch).unwrap();
        packer.finish(&|_, _| {}).unwrap();
        input
    }

    fn has(root: &Path, input: &InputFile) -> bool {
        Packer::new(root, PackOptions::default())
            .unwrap()
            .has(input)
    }

    #[test]
    fn input_whose_records_may_be_missing_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("archive");
        let hour = root.join("events").join(HOUR.to_string());
        let first = pack(&root, "first", &[0, 1]);
        fs::copy(hour.join("events.parquet"), folder.path().join("copy")).unwrap();
        let second = pack(&root, "second", &[0, 5]);
        let names = |files: &HourFiles| files.keys().cloned().collect::<Vec<_>>();
        let archive = Archive::open(&root).unwrap();
        assert_eq!(
            names(&files_of(&archive, TableName::Events, HOUR)),
            ["events.parquet", "events_02.parquet"]
        );
        assert!(has(&root, &first) && has(&root, &second));
        // A part of the hour that was removed because of damage.
        let part = hour.join("events_02.parquet");
        let octets = fs::read(&part).unwrap();
        fs::remove_file(&part).unwrap();
        assert!(
            !has(&root, &first) && !has(&root, &second),
            "a part is missing"
        );
        // Another file gives the part a file again, but not all of its records.
        let third = pack(&root, "third", &[7]);
        assert!(
            has(&root, &third) && !has(&root, &first) && !has(&root, &second),
            "a part lacks records"
        );
        let (first, second) = (
            pack(&root, "first", &[0, 1]),
            pack(&root, "second", &[0, 5]),
        );
        assert!(
            has(&root, &first) && has(&root, &second) && has(&root, &third),
            "all were packed again"
        );
        // An older copy of the file lacks the records that were packed later.
        fs::write(&part, octets).unwrap();
        assert!(!has(&root, &third), "a part is older");
        fs::remove_dir_all(&hour).unwrap();
        assert!(!has(&root, &first), "the hour is missing");
    }

    #[test]
    fn any_flipped_bit_of_the_list_only_means_that_files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("archive");
        let input = pack(&root, "lines", &[1, 61]);
        let first = root
            .join("events")
            .join(HOUR.to_string())
            .join("events.parquet");
        assert!(has(&root, &input) && first.exists());
        fs::remove_file(first).unwrap();
        let list = root.join(LIST);
        let whole = fs::read(&list).unwrap();
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            fs::write(&list, &damaged).unwrap();
            assert!(
                !has(&root, &input),
                "bit {bit} of {place}: {}",
                String::from_utf8_lossy(&damaged)
            );
        }
    }

    #[test]
    fn list_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::create(folder.path()).unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "text").unwrap();
        let input = InputFile::of(&path).unwrap().unwrap();
        let hour = Hour(500_000);
        let mut inputs = Inputs::load(&archive).unwrap();
        inputs.add(input.clone(), &[(TableName::Ports, hour)].into());
        inputs.save(&archive).unwrap();
        let again = Inputs::load(&archive).unwrap();
        assert!(
            !again.has(&input, &archive, |_, _| false),
            "the hour is missing"
        );
        assert!(
            again.has(&input, &archive, |_, removed| removed == hour),
            "retention removed the hour"
        );
        // A disk can return any bytes.
        let list = folder.path().join(LIST);
        fs::write(
            &list,
            [
                b"{\"file\":\"\xff\n\0\n".to_vec(),
                fs::read(&list).unwrap(),
                b"\xfe".to_vec(),
            ]
            .concat(),
        )
        .unwrap();
        let damaged = Inputs::load(&archive).unwrap();
        assert!(
            damaged.entries.len() == 1 && damaged.has(&input, &archive, |_, _| true),
            "only the damaged lines are left out"
        );
        fs::write(&path, "next").unwrap();
        assert!(
            !again.has(&InputFile::of(&path).unwrap().unwrap(), &archive, |_, _| {
                true
            })
        );
        assert_eq!(InputFile::of(Path::new("-")).unwrap(), None);
        assert!(InputFile::of(&folder.path().join("no file")).is_err());
    }
}
