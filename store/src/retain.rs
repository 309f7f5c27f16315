//! Removes the oldest hours of an archive.

use std::fs;
use std::path::Path;

use ibnet::types::Printable;

use crate::archive::Archive;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::pack::{PackOptions, Packer};
use crate::schema::TableName;

/// How much of a table is kept. The newest hour is always kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// The table.
    pub table: TableName,
    /// Age in nanoseconds from which an hour is removed. The age is counted from the end of the hour.
    pub age_ns: Option<u64>,
    /// Largest size of all files of the table in octets.
    pub octets: Option<u64>,
}

impl Keep {
    /// Parses a table and an age, such as `ports=30d`.
    ///
    /// # Errors
    /// Returns a description of the fault.
    pub fn of_age(text: &str) -> Result<Self, String> {
        let (table, age) = table_and(text, "30d")?;
        let age = humantime::parse_duration(age).map_err(|error| format!("{error}; give an age such as 30d, 12h or 5y"))?;
        Ok(Self { table, age_ns: Some(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)), octets: None })
    }

    /// Parses a table and a size, such as `ports=500GiB`.
    ///
    /// # Errors
    /// Returns a description of the fault.
    pub fn of_total(text: &str) -> Result<Self, String> {
        let (table, size) = table_and(text, "500GiB")?;
        let octets = parse_size::Config::new().with_binary().parse_size(size);
        let octets = octets.map_err(|error| format!("{error}; give a size such as 500GiB"))?;
        Ok(Self { table, age_ns: None, octets: Some(octets) })
    }
}

fn table_and<'t>(text: &'t str, example: &str) -> Result<(TableName, &'t str), String> {
    let names = || TableName::every().map(TableName::as_str).collect::<Vec<_>>().join(", ");
    let (name, value) = text.split_once('=').ok_or_else(|| format!("expected TABLE=VALUE such as ports={example}"))?;
    let table = TableName::every().find(|table| table.as_str() == name);
    Ok((table.ok_or_else(|| format!("the archive has no table `{}`; give one of {}", Printable(name), names()))?, value))
}

/// Hours that were removed from a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The table.
    pub table: TableName,
    /// Number of files.
    pub files: u64,
    /// Size of the files in octets.
    pub octets: u64,
    /// First and last hour.
    pub hours: (Hour, Hour),
}

/// Removes the hours of each table that are older than its age, and then the oldest hours until the
/// table has its size. Before an hour of `ports` is removed, its derived tables are written if they
/// are missing. Records of removed hours are not added again. `now` is the time in nanoseconds since 1970.
///
/// # Errors
/// Returns an error if another process packs, or if a file cannot be read, written or removed. The
/// hours that were not removed are complete.
pub fn retain(root: &Path, keep: &[Keep], now: u64) -> Result<Vec<Removed>, StoreError> {
    let packer = Packer::new(root, PackOptions::default())?;
    let archive = packer.archive();
    let mut all = Vec::new();
    for rule in keep {
        let files = archive.files(rule.table)?;
        let newest = files.last().map(|(hour, _)| *hour);
        let sizes: Vec<u64> = files.iter().map(|(_, path)| fs::metadata(path).map_or(0, |file| file.len())).collect();
        let mut total: u64 = sizes.iter().sum();
        let mut removed: Option<Removed> = None;
        let mut list = archive.removed()?;
        for ((hour, path), octets) in files.iter().zip(sizes).filter(|((hour, _), _)| Some(*hour) != newest) {
            let is_old = rule.age_ns.is_some_and(|age_ns| hour.end().saturating_add(age_ns) <= now);
            let is_beyond = rule.octets.is_some_and(|most| total > most);
            // The files are in the order of time.
            if !is_old && !is_beyond {
                break;
            }
            if rule.table == TableName::Ports {
                packer.derive(*hour)?;
            }
            // After an interruption, the records of this hour are still there, or do not return.
            if list.get(&rule.table) < Some(hour) {
                list.insert(rule.table, *hour);
                archive.set_removed(&list)?;
            }
            remove(archive, path)?;
            total -= octets;
            let before = removed.unwrap_or(Removed { table: rule.table, files: 0, octets: 0, hours: (*hour, *hour) });
            removed = Some(Removed { files: before.files + 1, octets: before.octets + octets, hours: (before.hours.0, *hour), ..before });
        }
        all.extend(removed);
    }
    Ok(all)
}

/// Removes a file, and the folders of its hour and its date if they are now empty.
fn remove(archive: &Archive, path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(|source| StoreError::Write { path: path.to_owned(), source })?;
    let folders = path.ancestors().skip(1).take(2).filter(|folder| folder.starts_with(archive.root()));
    // A folder with other files stays.
    folders.take_while(|folder| fs::remove_dir(folder).is_ok()).for_each(drop);
    Ok(())
}
