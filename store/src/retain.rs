//! Retention: removes the oldest hours of an archive.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ibnet_record::types::Printable;

use crate::archive::Archive;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::pack::{PackOptions, Packer};
use crate::schema::TableName;

/// How much of a table is kept. The newest hour that is not in the future is always kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// The table.
    pub table: TableName,
    /// Age in nanoseconds from which an hour is removed. The age is counted from the end of
    /// the hour.
    pub age_ns: Option<u64>,
    /// Max total size of the table's files in bytes.
    pub octets: Option<u64>,
}

impl Keep {
    /// Parses a table and an age, such as `ports=30d`.
    ///
    /// # Errors
    /// Returns a description of the fault.
    pub fn of_age(text: &str) -> Result<Self, String> {
        let (table, age) = table_and(text, "30d")?;
        let age = humantime::parse_duration(age)
            .map_err(|error| format!("{error}; give an age such as 30d, 12h or 5y"))?;
        Ok(Self {
            table,
            age_ns: Some(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
            octets: None,
        })
    }

    /// Parses a table and a size, such as `ports=500GiB`.
    ///
    /// # Errors
    /// Returns a description of the fault.
    pub fn of_total(text: &str) -> Result<Self, String> {
        let (table, size) = table_and(text, "500GiB")?;
        let octets = parse_size::Config::new().with_binary().parse_size(size);
        let octets = octets.map_err(|error| format!("{error}; give a size such as 500GiB"))?;
        Ok(Self {
            table,
            age_ns: None,
            octets: Some(octets),
        })
    }
}

fn table_and<'t>(text: &'t str, example: &str) -> Result<(TableName, &'t str), String> {
    let names = || {
        TableName::every()
            .map(TableName::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected TABLE=VALUE such as ports={example}"))?;
    let table = TableName::every().find(|table| table.as_str() == name);
    Ok((
        table.ok_or_else(|| {
            format!(
                "the archive has no table `{}`; give one of {}",
                Printable(name),
                names()
            )
        })?,
        value,
    ))
}

/// Hours that were removed from a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The table.
    pub table: TableName,
    /// Number of files.
    pub files: u64,
    /// Size of the files in bytes.
    pub octets: u64,
    /// Number of hours.
    pub number: u64,
    /// First and last hour.
    pub hours: (Hour, Hour),
    /// Number of further hours that match the rules, but are left for later runs.
    pub left: u64,
}

/// Number of hours of a table that one run may always remove, however few hours the table has.
const FEW_HOURS: usize = 48;

/// Removes the hours of each table that exceed its age, and then the oldest hours until the table
/// fits into its size. Before an hour of `ports` is removed, its derived tables are written if they
/// are missing. Packing does not add records of removed hours again.
///
/// `clock` is the time of this host in nanoseconds since 1970. If it is later than all hours of the
/// archive, ages count from the end of the newest hour. An hour that begins after `clock` is never
/// removed, and does not count as the newest one. Because clock and records can both be wrong, a
/// run removes at most a tenth of the hours of a table, or 48 hours if that is more, unless
/// `is_forced` is true.
///
/// # Errors
/// Returns an error if another process packs, if a folder of the archive is a symbolic link, or if
/// a file cannot be read, written or removed. The hours that were not removed are complete.
pub fn retain(
    root: &Path,
    keep: &[Keep],
    clock: u64,
    is_forced: bool,
) -> Result<Vec<Removed>, StoreError> {
    let packer = Packer::new(root, PackOptions::default())?;
    let archive = packer.archive();
    let mut newest = None;
    for table in TableName::every() {
        newest = newest.max(archive.last_hour(table)?);
    }
    let now = newest.map_or(clock, |hour| hour.end().min(clock));
    let mut all = Vec::new();
    for rule in &by_table(keep) {
        let mut hours: BTreeMap<Hour, Vec<(PathBuf, u64)>> = BTreeMap::new();
        for (hour, path) in archive.files(rule.table)? {
            let octets = fs::metadata(&path).map_or(0, |file| file.len());
            hours.entry(hour).or_default().push((path, octets));
        }
        let chosen = rule.choose(&hours, now, clock);
        let most = if is_forced {
            usize::MAX
        } else {
            FEW_HOURS.max(hours.len() / 10)
        };
        let mut removed: Option<Removed> = None;
        let mut list = archive.removed()?;
        for hour in chosen.iter().take(most) {
            archive.check_folder(rule.table, *hour)?;
            if rule.table == TableName::Ports {
                packer.derive(*hour)?;
            }
            // The list is written first: after an interruption, the records of this hour are either
            // still there or cannot return.
            if list.get(&rule.table) < Some(hour) {
                list.insert(rule.table, *hour);
                archive.set_removed(&list)?;
            }
            let left = chosen.len().saturating_sub(most) as u64;
            let removed = removed.get_or_insert(Removed {
                table: rule.table,
                files: 0,
                octets: 0,
                number: 0,
                hours: (*hour, *hour),
                left,
            });
            for (path, octets) in hours.remove(hour).unwrap_or_default() {
                remove(archive, &path)?;
                (removed.files, removed.octets) = (removed.files + 1, removed.octets + octets);
            }
            (removed.number, removed.hours.1) = (removed.number + 1, *hour);
        }
        all.extend(removed);
    }
    Ok(all)
}

/// Combines the rules of each table: the shortest age and the smallest size apply.
fn by_table(keep: &[Keep]) -> Vec<Keep> {
    let mut rules: BTreeMap<TableName, Keep> = BTreeMap::new();
    for rule in keep {
        let all = rules.entry(rule.table).or_insert(*rule);
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        (all.age_ns, all.octets) = (
            least(all.age_ns, rule.age_ns),
            least(all.octets, rule.octets),
        );
    }
    rules.into_values().collect()
}

impl Keep {
    /// Returns the hours that exceed the age or the size, oldest first.
    fn choose(
        &self,
        hours: &BTreeMap<Hour, Vec<(PathBuf, u64)>>,
        now: u64,
        clock: u64,
    ) -> Vec<Hour> {
        let last = hours
            .range(..=Hour::of(clock))
            .next_back()
            .or_else(|| hours.last_key_value());
        let Some((newest, _)) = last else {
            return Vec::new();
        };
        let size =
            |files: &Vec<(PathBuf, u64)>| files.iter().map(|(_, octets)| octets).sum::<u64>();
        let mut total: u64 = hours.values().map(size).sum();
        let is_chosen = |(hour, files): &(&Hour, &Vec<(PathBuf, u64)>)| {
            let is_old = self
                .age_ns
                .is_some_and(|age_ns| hour.end().saturating_add(age_ns) <= now);
            let is_beyond = self.octets.is_some_and(|most| total > most);
            total -= size(files);
            is_old || is_beyond
        };
        hours
            .range(..newest)
            .take_while(is_chosen)
            .map(|(hour, _)| *hour)
            .collect()
    }
}

/// Removes a file, and the folders of its hour and its date if they are now empty.
fn remove(archive: &Archive, path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(|source| StoreError::Write {
        path: path.to_owned(),
        source,
    })?;
    let folders = path
        .ancestors()
        .skip(1)
        .take(2)
        .filter(|folder| folder.starts_with(archive.root()));
    // A folder that still has files stays.
    folders
        .take_while(|folder| fs::remove_dir(folder).is_ok())
        .for_each(drop);
    Ok(())
}
