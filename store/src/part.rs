//! Parts of an hour.
//!
//! The first file of an hour, such as `ports.parquet`, has the rows from the start of the hour. If
//! it gets large, later rows go to another file, such as `ports_20.parquet`, which has the rows
//! from minute 20 up to the next part. The number of rows that a packer rewrites therefore does not
//! grow with the hour.
//!
//! The time of a row alone determines its part, because a part begins after all rows of the parts
//! before it. Two copies of a row are always in the same part, so each part can be merged alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};

use ibnet_record::minute::MINUTE_NS;

use crate::hour::Hour;
use crate::schema::TableName;

/// Extension of the files of an archive.
pub(crate) const EXTENSION: &str = "parquet";

/// A part of an hour: the rows from a minute up to the next part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Part {
    /// The hour.
    pub hour: Hour,
    /// First minute, 0 to 59.
    pub minute: u8,
}

impl Part {
    /// Returns the first part of an hour.
    pub const fn first(hour: Hour) -> Self {
        Self { hour, minute: 0 }
    }

    /// Returns the part that a file of a table has by its name, or `None` for other names.
    pub fn of(table: TableName, hour: Hour, path: &Path) -> Option<Self> {
        let name = path
            .file_name()?
            .to_str()?
            .strip_suffix(EXTENSION)?
            .strip_suffix('.')?;
        let minute = match name.strip_prefix(table.as_str())? {
            "" => 0,
            rest => rest
                .strip_prefix('_')?
                .parse()
                .ok()
                .filter(|minute| (1..60).contains(minute))?,
        };
        let part = Self { hour, minute };
        (part.stem(table) == name).then_some(part)
    }

    /// Returns the part that begins with the minute after a time of the hour. Returns `None` if
    /// that minute is in the next hour.
    pub(crate) fn after(hour: Hour, ts: u64) -> Option<Self> {
        let minute = ts.saturating_sub(hour.start()) / MINUTE_NS + 1;
        (minute < 60).then_some(Self {
            hour,
            minute: minute as u8,
        })
    }

    /// Returns the start in nanoseconds since 1970.
    pub const fn start(self) -> u64 {
        self.hour.start() + self.minute as u64 * MINUTE_NS
    }

    fn stem(self, table: TableName) -> String {
        match self.minute {
            0 => table.as_str().to_owned(),
            minute => format!("{}_{minute:02}", table.as_str()),
        }
    }

    pub(crate) fn file_name(self, table: TableName) -> String {
        format!("{}.{EXTENSION}", self.stem(table))
    }
}

/// The parts of an hour of a table.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) files: BTreeMap<Part, PathBuf>,
    /// Files with other names. Each of their rows belongs to the part of its time.
    pub(crate) others: Vec<PathBuf>,
    starts: BTreeSet<Part>,
}

impl Parts {
    pub(crate) fn new(table: TableName, hour: Hour, paths: Vec<PathBuf>) -> Self {
        let (mut files, mut others) = (BTreeMap::new(), Vec::new());
        for path in paths {
            match Part::of(table, hour, &path) {
                Some(part) => drop(files.insert(part, path)),
                None => others.push(path),
            }
        }
        // Rows before the first file belong to the first part.
        let starts = files.keys().copied().chain([Part::first(hour)]).collect();
        Self {
            files,
            others,
            starts,
        }
    }

    /// Adds a part that has no file.
    pub(crate) fn add(&mut self, part: Part) {
        self.starts.insert(part);
    }

    /// Returns whether all rows of the hour belong to one part.
    pub(crate) fn is_single(&self) -> bool {
        self.starts.len() == 1
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Part> {
        self.starts.iter().copied()
    }

    /// Returns the time range of a part. The first and the last part also cover the times outside
    /// of the hour.
    pub(crate) fn times(&self, part: Part) -> RangeInclusive<u64> {
        let from = if self.starts.first() == Some(&part) {
            0
        } else {
            part.start()
        };
        let next = self
            .starts
            .range((Bound::Excluded(part), Bound::Unbounded))
            .next();
        from..=next.map_or(u64::MAX, |next| next.start() - 1)
    }

    /// Returns the part that covers a time. A time outside of the hour belongs to its first or
    /// last part.
    pub(crate) fn at(&self, ts: u64) -> Option<Part> {
        self.starts
            .iter()
            .rev()
            .find(|part| part.start() <= ts)
            .or_else(|| self.starts.first())
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_file_is_parsed_to_its_part() {
        let hour = Hour(500_000);
        for (minute, name) in [
            (0, "ports.parquet"),
            (7, "ports_07.parquet"),
            (59, "ports_59.parquet"),
        ] {
            let part = Part { hour, minute };
            assert_eq!(part.file_name(TableName::Ports), name);
            assert_eq!(
                Part::of(
                    TableName::Ports,
                    hour,
                    Path::new("a/b").join(name).as_path()
                ),
                Some(part)
            );
        }
        for name in [
            "ports_00.parquet",
            "ports_7.parquet",
            "ports_60.parquet",
            "ports_1m.parquet",
            "ports-07.parquet",
            "x.parquet",
            "ports",
        ] {
            assert_eq!(
                Part::of(TableName::Ports, hour, Path::new(name)),
                None,
                "{name}"
            );
        }
        assert_eq!(
            Part::of(
                TableName::PortsMinute,
                hour,
                Path::new("ports_1m_07.parquet")
            ),
            Some(Part { hour, minute: 7 })
        );
    }

    #[test]
    fn time_of_a_row_determines_its_part() {
        let hour = Hour(500_000);
        let (first, second) = (Part::first(hour), Part { hour, minute: 20 });
        let mut parts = Parts::new(
            TableName::Ports,
            hour,
            vec!["ports_20.parquet".into(), "more.parquet".into()],
        );
        assert_eq!(
            (parts.all().collect::<Vec<_>>(), parts.others.len()),
            (vec![first, second], 1)
        );
        assert_eq!(
            [second.start() - 1, second.start(), hour.end() + 5, 0].map(|ts| parts.at(ts)),
            [first, second, second, first].map(Some)
        );
        assert_eq!(
            Part::after(hour, second.start() + 1),
            Some(Part { hour, minute: 21 })
        );
        assert_eq!(Part::after(hour, hour.end() - 1), None);
        parts.add(Part { hour, minute: 21 });
        assert_eq!(parts.at(hour.end() - 1), Some(Part { hour, minute: 21 }));
    }
}
