//! Replays recorded lines, to test programs that read live records. The module merges the lines
//! of all files by time, and returns each line with the time at which the caller must write it;
//! it does not wait itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::AnalysisError;
use crate::input::archive_lines::ArchiveLines;
use crate::input::files::{self, Lines};
use crate::input::{ArchiveNotes, FileFault, IncompleteFile, Inputs};
use crate::path;
use crate::record::{Head, Record, Type};

/// Options of a replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplayOptions {
    /// Seconds of the recording per second of the replay.
    pub speed: f64,
    /// New `ts` of the first line, in nanoseconds since 1970. `None` keeps all times.
    pub now: Option<u64>,
}

/// A replay in progress.
pub struct Replay {
    files: Vec<RecordFile>,
    /// For each file, the time of its next line and the index of the file.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    options: ReplayOptions,
    from: Option<u64>,
    to: Option<u64>,
    /// Time of the first line.
    first: Option<u64>,
    /// Number of lines that are no records.
    pub skipped: u64,
    /// Files that were not read completely.
    pub incomplete: Vec<IncompleteFile>,
}

struct RecordFile {
    name: String,
    lines: RecordLines,
    /// The line whose time is in `Replay::next`.
    line: Vec<u8>,
    /// Whether the line is within the time range.
    is_within: bool,
    /// Latest time of a line within the time range.
    ts: u64,
    /// `interval_ns` of the last `start` record.
    interval_ns: Option<u64>,
}

/// The lines of a file or of an archive.
enum RecordLines {
    File(Lines),
    Archive(ArchiveLines),
}

/// A line and the time at which to write it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayLine {
    /// Time since the first line.
    pub after: Duration,
    /// The line with its line feed.
    pub line: Vec<u8>,
}

impl Replay {
    /// Opens all files.
    ///
    /// # Errors
    /// Returns an error if a file is unreadable, or if no file has a record.
    pub fn new(inputs: &Inputs, options: ReplayOptions) -> Result<Self, AnalysisError> {
        let (from, to) = (inputs.from, inputs.to);
        let mut replay = Self {
            files: Vec::new(),
            next: BinaryHeap::new(),
            options,
            from,
            to,
            first: None,
            skipped: 0,
            incomplete: Vec::new(),
        };
        for (index, path) in in_order(inputs).into_iter().enumerate() {
            replay.files.push(RecordFile::open(path)?);
            let before = replay.skipped;
            if !replay.advance(index)? {
                let file = replay.files[index].name.clone();
                let why = (replay.skipped > before).then(|| "it is not a record".to_owned());
                replay.incomplete.push(IncompleteFile {
                    file,
                    fault: FileFault::NoRecord(why),
                });
            }
        }
        match replay.incomplete.first() {
            Some(IncompleteFile {
                file,
                fault: FileFault::NoRecord(why),
            }) if replay.next.is_empty() => Err(AnalysisError::NoRecord {
                name: file.clone(),
                why: why.clone(),
            }),
            _ => Ok(replay),
        }
    }

    /// Reads the next record of a file. Returns false at the end of the file.
    fn advance(&mut self, index: usize) -> Result<bool, AnalysisError> {
        let file = &mut self.files[index];
        let mut line = Vec::new();
        while file.read(&mut line)? {
            let Some(head) = Head::of(line.trim_ascii()).ok() else {
                self.skipped += u64::from(!line.trim_ascii().is_empty());
                continue;
            };
            if head.kind == Some(Type::Start)
                && let Ok(Record::Start(start)) = Record::parse(line.trim_ascii(), Type::Start)
            {
                file.interval_ns = Some(start.interval_ns);
            }
            file.is_within = self.from.is_none_or(|from| head.ts >= from)
                && self.to.is_none_or(|to| head.ts < to);
            // Lines of a file keep their order, even if the clock of the sampler went back.
            if file.is_within {
                file.ts = file.ts.max(head.ts);
            }
            file.line = line;
            self.next.push(Reverse((file.ts, index)));
            return Ok(true);
        }
        if let RecordLines::File(lines) = &mut file.lines
            && std::mem::take(&mut lines.is_cut)
        {
            self.incomplete.push(IncompleteFile {
                file: file.name.clone(),
                fault: FileFault::Cut,
            });
        }
        Ok(false)
    }

    /// Returns the next line, or `None` after the last one.
    ///
    /// # Errors
    /// Returns an error if a file becomes unreadable.
    pub fn next_line(&mut self) -> Result<Option<ReplayLine>, AnalysisError> {
        while let Some(Reverse((ts, index))) = self.next.pop() {
            let line = std::mem::take(&mut self.files[index].line);
            let is_within = self.files[index].is_within;
            let due = is_within.then(|| self.schedule(ts, line.trim_ascii(), index));
            self.advance(index)?;
            if due.is_some() {
                return Ok(due);
            }
        }
        Ok(None)
    }

    /// Returns what was unusual about the archive files that were read.
    pub fn archive_notes(&self) -> ArchiveNotes {
        let mut notes = ArchiveNotes::default();
        for file in &self.files {
            if let RecordLines::Archive(lines) = &file.lines {
                notes.merge(&lines.notes);
            }
        }
        notes
    }

    fn schedule(&mut self, ts: u64, line: &[u8], index: usize) -> ReplayLine {
        let first = *self.first.get_or_insert(ts);
        let after = Duration::from_nanos(scaled(ts - first, self.options.speed));
        let mut line = match self.options.now {
            Some(now) => shifted(
                line,
                first,
                now,
                self.options.speed,
                self.files[index].interval_ns,
            ),
            None => line.to_owned(),
        };
        line.push(b'\n');
        ReplayLine { after, line }
    }
}

impl RecordFile {
    fn open(path: PathBuf) -> Result<Self, AnalysisError> {
        let name = path::display_name(&path);
        let lines = if path.is_dir() {
            RecordLines::Archive(ArchiveLines::open(&path)?)
        } else {
            RecordLines::File(Lines::open(&path).map_err(|source| AnalysisError::Read {
                name: name.clone(),
                source,
            })?)
        };
        Ok(Self {
            name,
            lines,
            line: Vec::new(),
            is_within: false,
            ts: 0,
            interval_ns: None,
        })
    }

    /// Reads the next line. Returns false at the end.
    fn read(&mut self, line: &mut Vec<u8>) -> Result<bool, AnalysisError> {
        match &mut self.lines {
            RecordLines::File(lines) => lines.read(line).map_err(|source| AnalysisError::Read {
                name: self.name.clone(),
                source,
            }),
            RecordLines::Archive(lines) => lines.read(line),
        }
    }
}

/// Returns the files in the order of their first records. Unreadable files come first, so their
/// error is reported at once, and pipes come last, because they can be read only once.
fn in_order(inputs: &Inputs) -> Vec<PathBuf> {
    let mut paths = inputs.files.clone();
    paths.sort_by_cached_key(|path| {
        if files::is_pipe(path) {
            u64::MAX
        } else {
            files::first_lines(path).ts.unwrap_or(0)
        }
    });
    paths
}

/// Converts a duration of the recording to a duration of the replay, in nanoseconds.
fn scaled(ns: u64, speed: f64) -> u64 {
    if speed == 1.0 {
        ns
    } else {
        (ns as f64 / speed) as u64
    }
}

/// Returns the line with `ts` and `slot` moved to the time of the replay. All other fields stay
/// as they are, including `dt_ns` and the rates.
fn shifted(line: &[u8], first: u64, now: u64, speed: f64, interval_ns: Option<u64>) -> Vec<u8> {
    let mut shifted = Vec::with_capacity(line.len() + 8);
    let Some((before, ts, rest)) = number(line, b"\"ts\"") else {
        return line.to_owned();
    };
    shifted.extend_from_slice(before);
    let ts = if ts >= first {
        now.saturating_add(scaled(ts - first, speed))
    } else {
        now.saturating_sub(scaled(first - ts, speed))
    };
    shifted.extend_from_slice(ts.to_string().as_bytes());
    match (number(rest, b"\"slot\""), interval_ns) {
        // The slot directly follows the time. A key found farther away is part of another field.
        (Some((before, slot, rest)), Some(interval_ns @ 1..)) if before.len() <= LONGEST_KEY => {
            let slots = (i128::from(now) - i128::from(first)).div_euclid(i128::from(interval_ns));
            shifted.extend_from_slice(before);
            shifted.extend_from_slice((i128::from(slot) + slots).max(0).to_string().as_bytes());
            shifted.extend_from_slice(rest);
        }
        _ => shifted.extend_from_slice(rest),
    }
    shifted
}

/// Max number of bytes from the end of `ts` to the slot number, which leaves space for some
/// blanks.
const LONGEST_KEY: usize = 16;

/// Finds the number after a key, a colon and blanks. Returns the text before it, the number, and
/// the text after it.
fn number<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], u64, &'a [u8])> {
    let colon = memchr::memmem::find(text, key)? + key.len();
    let blanks = |text: &[u8]| {
        text.iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count()
    };
    let colon = colon + blanks(&text[colon..]);
    let value = text[colon..].strip_prefix(b":")?;
    let at = colon + 1 + blanks(value);
    let digits = text[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let value = std::str::from_utf8(&text[at..at + digits])
        .ok()?
        .parse()
        .ok()?;
    Some((&text[..at], value, &text[at + digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(files: &[&str], options: ReplayOptions, from: Option<u64>) -> Vec<(u64, String)> {
        replayed_within(files, options, (from, None))
    }

    fn replayed_within(
        files: &[&str],
        options: ReplayOptions,
        (from, to): (Option<u64>, Option<u64>),
    ) -> Vec<(u64, String)> {
        let dir = tempfile::tempdir().unwrap();
        let paths = files.iter().enumerate().map(|(index, text)| {
            let path = dir.path().join(index.to_string());
            std::fs::write(&path, text).unwrap();
            path
        });
        let mut replay = Replay::new(
            &Inputs {
                files: paths.collect(),
                from,
                to,
            },
            options,
        )
        .unwrap();
        let mut played = Vec::new();
        while let Some(due) = replay.next_line().unwrap() {
            played.push((
                due.after.as_nanos() as u64,
                String::from_utf8(due.line).unwrap(),
            ));
        }
        played
    }

    const A: &str = r#"{"type":"start","ts":1000,"slot":10,"sampler":"a","interval_ns":100}
nonsense
{"type":"port","ts":1300,"slot":13,"sampler":"a","node":",\"ts\":5","dt_ns":100}
{"type":"sweep","ts":1250,"slot":13,"sampler":"a"}
"#;
    const B: &str = "{\"type\":\"port\",\"ts\":1200,\"slot\":12,\"sampler\":\"b\"}\n";

    #[test]
    fn lines_of_all_files_are_merged_by_time_and_unchanged() {
        let played = replayed(
            &[A, B],
            ReplayOptions {
                speed: 2.0,
                now: None,
            },
            None,
        );
        let lines: Vec<_> = A.lines().filter(|line| line.starts_with('{')).collect();
        let expected = [
            (0, lines[0]),
            (100, B.trim_end()),
            (150, lines[1]),
            (150, lines[2]),
        ];
        assert_eq!(
            played,
            expected.map(|(after, line)| (after, format!("{line}\n")))
        );
    }

    #[test]
    fn only_times_and_slots_are_shifted() {
        let played = replayed(
            &[A, B],
            ReplayOptions {
                speed: 2.0,
                now: Some(100_000),
            },
            None,
        );
        let lines: Vec<_> = played.iter().map(|(_, line)| line.as_str()).collect();
        assert!(
            lines[0].starts_with(r#"{"type":"start","ts":100000,"slot":1000,"#),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].starts_with(r#"{"type":"port","ts":100100,"slot":12,"#),
            "without a start record the interval is not known: {}",
            lines[1]
        );
        assert!(
            lines[2].ends_with("\"ts\":100150,\"slot\":1003,\"sampler\":\"a\",\"node\":\",\\\"ts\\\":5\",\"dt_ns\":100}\n"),
            "{}",
            lines[2]
        );
        assert!(
            lines[3].starts_with(r#"{"type":"sweep","ts":100125,"slot":1003,"#),
            "{}",
            lines[3]
        );
    }

    #[test]
    fn blanks_in_a_line_are_accepted() {
        let spaced = A.replace(':', ": ").replace(',', ", ");
        let played = replayed(
            &[&spaced],
            ReplayOptions {
                speed: 1.0,
                now: Some(100_000),
            },
            None,
        );
        assert!(
            played[0]
                .1
                .starts_with(r#"{"type": "start", "ts": 100000, "slot": 1000, "#),
            "{}",
            played[0].1
        );
        assert_eq!(played.len(), 3);
    }

    #[test]
    fn selected_time_range_has_each_line_of_its_time_in_any_order() {
        let line = |ts: u64| format!("{{\"type\":\"port\",\"ts\":{ts},\"slot\":1}}\n");
        // A record of the future, and the halves of a recording in the wrong order.
        let future: String = [9000, 1000, 1100, 1200, 1300].map(line).concat();
        let swapped: String = [1250, 1350, 1050, 1150].map(line).concat();
        let options = ReplayOptions {
            speed: 1.0,
            now: None,
        };
        let range = (Some(1050), Some(1300));
        let played = replayed_within(&[&future, &swapped], options, range);
        let expected = [
            (0, 1100),
            (100, 1200),
            (150, 1250),
            (150, 1050),
            (150, 1150),
        ];
        assert_eq!(played, expected.map(|(after, ts)| (after, line(ts))));
    }

    #[test]
    fn selected_time_range_starts_without_delay() {
        let played = replayed(
            &[A, B],
            ReplayOptions {
                speed: 1.0,
                now: None,
            },
            Some(1250),
        );
        assert_eq!(
            played.iter().map(|(after, _)| *after).collect::<Vec<_>>(),
            [0, 0]
        );
    }
}
