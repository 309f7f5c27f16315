//! The files that were packed into an archive, so that they are not read again.
//!
//! A file is the same if its path, size, time of change, and the sum over its first and last octets
//! are the same. It is read again if an hour of its records is no longer in the archive, unless
//! retention removed this hour.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::schema::TableName;

/// File of an archive with its inputs: one JSON object for each.
const LIST: &str = ".inputs";

/// Octets at the start and at the end of a file that its sum covers.
const SUMMED: u64 = 4096;

/// The identity of a file that can be packed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InputFile {
    /// Canonical path.
    file: PathBuf,
    /// Size in octets.
    size: u64,
    /// Time of the last change in nanoseconds since 1970.
    modified_ns: i64,
    /// Sum over the first and the last octets.
    sum: u64,
}

/// Tables and hours of the records of a file.
pub type Hours = BTreeSet<(TableName, Hour)>;

/// The files that were packed.
#[derive(Debug, Default)]
pub(crate) struct Inputs(BTreeMap<PathBuf, Entry>);

/// A line of the list.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    input: InputFile,
    /// Folders of the hours of its records, by table.
    hours: BTreeMap<String, BTreeSet<String>>,
}

impl InputFile {
    /// Returns the identity of a file. `None` for standard input, a pipe, or a path that is no text.
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
            sum = octets.iter().fold(sum, |sum, octet| (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3));
        }
        let modified_ns = state.mtime().saturating_mul(1_000_000_000).saturating_add(state.mtime_nsec());
        Ok(Some(Self { file, size: state.len(), modified_ns, sum }))
    }
}

impl Inputs {
    /// Reads the list. A line that is not valid is left out: its file is read again.
    pub(crate) fn load(archive: &Archive) -> Result<Self, StoreError> {
        let path = archive.root().join(LIST);
        let octets = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            octets => octets.map_err(|source| StoreError::Read { path, source })?,
        };
        // A damaged line need not be UTF-8.
        let entries = octets.split(|octet| *octet == b'\n').filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
        Ok(Self(entries.map(|entry| (entry.input.file.clone(), entry)).collect()))
    }

    /// Returns whether the archive has all records of a file. `was_removed` returns whether retention
    /// removed an hour.
    pub(crate) fn has(&self, input: &InputFile, archive: &Archive, was_removed: impl Fn(TableName, Hour) -> bool) -> bool {
        let Some(entry) = self.0.get(&input.file).filter(|entry| entry.input == *input) else { return false };
        let is_there = |table: &str, folders: &str| {
            let table = TableName::every().find(|name| name.as_str() == table)?;
            let (date, hour) = folders.split_once('/')?;
            let hour = Hour::parse(date, hour)?;
            Some(was_removed(table, hour) || archive.path(table, hour).is_file())
        };
        entry.hours.iter().flat_map(|(table, hours)| hours.iter().map(move |hour| (table, hour))).all(|(table, hour)| {
            // Another version can have a table that this version does not have.
            is_there(table, hour).unwrap_or(false)
        })
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, input: InputFile, hours: &Hours) {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, hour) in hours {
            names.entry(table.as_str().to_owned()).or_default().insert(hour.to_string());
        }
        self.0.insert(input.file.clone(), Entry { input, hours: names });
    }

    /// Replaces the list in one step. Files that no longer exist are left out.
    pub(crate) fn save(&mut self, archive: &Archive) -> Result<(), StoreError> {
        self.0.retain(|path, _| path.exists());
        let path = archive.root().join(LIST);
        let failed = |source| StoreError::Write { path: path.clone(), source };
        let mut file = archive.stage()?;
        for entry in self.0.values() {
            let line = serde_json::to_string(entry).map_err(|error| failed(error.into()))?;
            writeln!(file, "{line}").map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!again.has(&input, &archive, |_, _| false), "the hour is missing");
        assert!(again.has(&input, &archive, |_, removed| removed == hour), "retention removed the hour");
        // A disk can return any octets.
        let list = folder.path().join(LIST);
        fs::write(&list, [b"{\"file\":\"\xff\n\0\n".to_vec(), fs::read(&list).unwrap(), b"\xfe".to_vec()].concat()).unwrap();
        let damaged = Inputs::load(&archive).unwrap();
        assert!(damaged.0.len() == 1 && damaged.has(&input, &archive, |_, _| true), "only the damaged lines are left out");
        fs::write(&path, "next").unwrap();
        assert!(!again.has(&InputFile::of(&path).unwrap().unwrap(), &archive, |_, _| true));
        assert_eq!(InputFile::of(Path::new("-")).unwrap(), None);
        assert!(InputFile::of(&folder.path().join("no file")).is_err());
    }
}
