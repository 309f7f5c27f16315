//! Recorded lines once more, as if they were being written: for trying out what reads them.
//!
//! The lines of all files are put together by their times. Nothing is waited for here: each line comes with the moment at which it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ViewError;
use super::input::{self, Inputs};
use super::record::{Head, Record, Type};
use ibnet::cli;

/// How lines are played.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Manner {
    /// Seconds of the recording in one second.
    pub speed: f64,
    /// The instant that the first line gets, in nanoseconds since 1970; `None` keeps all times as they are.
    pub now: Option<u64>,
}

/// Plays recorded lines.
pub struct Player {
    files: Vec<File>,
    /// The next line of each file: its time, and which file.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    manner: Manner,
    from: Option<u64>,
    to: Option<u64>,
    /// Of the first line that was played.
    first: Option<u64>,
    /// Lines that are no records, or not laid out as ours are.
    pub skipped: u64,
}

struct File {
    name: String,
    lines: io::Split<input::Lines>,
    /// The line that `next` has the time of.
    line: Vec<u8>,
    ts: u64,
    /// As its last `start` says.
    interval_ns: Option<u64>,
}

/// A line that is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// How long after the first one.
    pub after: Duration,
    /// With its line feed.
    pub line: Vec<u8>,
}

impl Player {
    /// Opens all files.
    ///
    /// # Errors
    /// When one cannot be read, or has no record.
    pub fn new(inputs: &Inputs, manner: Manner) -> Result<Self, ViewError> {
        let mut player =
            Self { files: Vec::new(), next: BinaryHeap::new(), manner, from: inputs.from, to: inputs.to, first: None, skipped: 0 };
        for (place, path) in inputs.in_order().into_iter().enumerate() {
            player.files.push(File::open(path)?);
            let before = player.skipped;
            if !player.advance(place)? {
                let name = player.files[place].name.clone();
                let why = (player.skipped > before).then(|| "it begins with no `{\"type\":`".to_owned());
                return Err(ViewError::NoRecord { name, why });
            }
        }
        Ok(player)
    }

    /// Fetches the next record of a file; false at its end.
    fn advance(&mut self, place: usize) -> Result<bool, ViewError> {
        let file = &mut self.files[place];
        while let Some(line) = file.lines.next() {
            let line = line.map_err(|source| ViewError::Read { name: file.name.clone(), source })?;
            let Some(head) = Head::at_once(line.trim_ascii()) else {
                self.skipped += u64::from(!line.trim_ascii().is_empty());
                continue;
            };
            if head.kind == Some(Type::Start)
                && let Ok(Record::Start(start)) = Record::parse(line.trim_ascii(), Type::Start)
            {
                file.interval_ns = Some(start.interval_ns);
            }
            // A file keeps its order, though some of its times run back.
            file.ts = file.ts.max(head.ts);
            file.line = line;
            self.next.push(Reverse((file.ts, place)));
            return Ok(true);
        }
        Ok(false)
    }

    /// The next line.
    ///
    /// # Errors
    /// When a file cannot be read on.
    pub fn next_line(&mut self) -> Result<Option<Due>, ViewError> {
        while let Some(Reverse((ts, place))) = self.next.pop() {
            let line = std::mem::take(&mut self.files[place].line);
            let is_within = self.from.is_none_or(|from| ts >= from) && self.to.is_none_or(|to| ts < to);
            let due = is_within.then(|| self.due(ts, line.trim_ascii(), place));
            self.advance(place)?;
            if due.is_some() {
                return Ok(due);
            }
        }
        Ok(None)
    }

    fn due(&mut self, ts: u64, line: &[u8], place: usize) -> Due {
        let first = *self.first.get_or_insert(ts);
        let after = Duration::from_nanos(scaled(ts - first, self.manner.speed));
        let mut line = match self.manner.now {
            Some(now) => moved(line, first, now, self.manner.speed, self.files[place].interval_ns),
            None => line.to_owned(),
        };
        line.push(b'\n');
        Due { after, line }
    }
}

impl File {
    fn open(path: PathBuf) -> Result<Self, ViewError> {
        let name = cli::name_of(&path);
        match input::lines(&path) {
            Ok(lines) => Ok(Self { name, lines, line: Vec::new(), ts: 0, interval_ns: None }),
            Err(source) => Err(ViewError::Read { name, source }),
        }
    }
}

/// So many nanoseconds at that speed.
fn scaled(ns: u64, speed: f64) -> u64 {
    if speed == 1.0 { ns } else { (ns as f64 / speed) as u64 }
}

/// The line as if the first one had been written now. All else stands as it was recorded, `dt_ns` and the rates too.
fn moved(line: &[u8], first: u64, now: u64, speed: f64, interval_ns: Option<u64>) -> Vec<u8> {
    let mut moved = Vec::with_capacity(line.len() + 8);
    let Some((before, ts, rest)) = number(line, b",\"ts\":") else { return line.to_owned() };
    moved.extend_from_slice(before);
    let ts = if ts >= first { now.saturating_add(scaled(ts - first, speed)) } else { now.saturating_sub(scaled(first - ts, speed)) };
    moved.extend_from_slice(ts.to_string().as_bytes());
    match (number(rest, b",\"slot\":"), interval_ns) {
        (Some((before, slot, rest)), Some(interval_ns @ 1..)) if before.len() == b",\"slot\":".len() => {
            let slots = (i128::from(now) - i128::from(first)).div_euclid(i128::from(interval_ns));
            moved.extend_from_slice(before);
            moved.extend_from_slice((i128::from(slot) + slots).max(0).to_string().as_bytes());
            moved.extend_from_slice(rest);
        }
        _ => moved.extend_from_slice(rest),
    }
    moved
}

/// The number after a key: what stands before it, itself, what stands after it.
fn number<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], u64, &'a [u8])> {
    let at = memchr::memmem::find(text, key)? + key.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[at..at + digits]).ok()?.parse().ok()?;
    Some((&text[..at], value, &text[at + digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(files: &[&str], manner: Manner, from: Option<u64>) -> Vec<(u64, String)> {
        let dir = tempfile::tempdir().unwrap();
        let paths = files.iter().enumerate().map(|(place, text)| {
            let path = dir.path().join(place.to_string());
            std::fs::write(&path, text).unwrap();
            path
        });
        let mut player = Player::new(&Inputs { files: paths.collect(), from, to: None }, manner).unwrap();
        let mut played = Vec::new();
        while let Some(due) = player.next_line().unwrap() {
            played.push((due.after.as_nanos() as u64, String::from_utf8(due.line).unwrap()));
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
    fn lines_of_all_files_come_by_their_times_and_are_as_they_were() {
        let played = play(&[A, B], Manner { speed: 2.0, now: None }, None);
        let lines: Vec<_> = A.lines().filter(|line| line.starts_with('{')).collect();
        let expected = [(0, lines[0]), (100, B.trim_end()), (150, lines[1]), (150, lines[2])];
        assert_eq!(played, expected.map(|(after, line)| (after, format!("{line}\n"))));
    }

    #[test]
    fn times_and_slots_are_moved_and_nothing_else() {
        let played = play(&[A, B], Manner { speed: 2.0, now: Some(100_000) }, None);
        let lines: Vec<_> = played.iter().map(|(_, line)| line.as_str()).collect();
        assert!(lines[0].starts_with(r#"{"type":"start","ts":100000,"slot":1000,"#), "{}", lines[0]);
        assert!(lines[1].starts_with(r#"{"type":"port","ts":100100,"slot":12,"#), "no start told the interval: {}", lines[1]);
        assert!(
            lines[2].ends_with("\"ts\":100150,\"slot\":1003,\"sampler\":\"a\",\"node\":\",\\\"ts\\\":5\",\"dt_ns\":100}\n"),
            "{}",
            lines[2]
        );
        assert!(lines[3].starts_with(r#"{"type":"sweep","ts":100125,"slot":1003,"#), "{}", lines[3]);
    }

    #[test]
    fn a_part_begins_at_once() {
        let played = play(&[A, B], Manner { speed: 1.0, now: None }, Some(1250));
        assert_eq!(played.iter().map(|(after, _)| *after).collect::<Vec<_>>(), [0, 0]);
    }
}
