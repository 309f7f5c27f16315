//! The spool: messages that wait for a server on a disk. They survive a restart of the process,
//! even after `kill -9`.
//!
//! The folder contains *segments*, which are files of zstd frames. Each append writes one or more
//! frames. Inside a frame, each message is a line `SUBJECT ID LINES OCTETS`, its text and a line
//! feed, so `zstdcat` shows a segment.
//!
//! | file | contents |
//! |---|---|
//! | `NUMBER-LINES.zst` | a closed segment with its number of records |
//! | `NUMBER.zst` | the segment being written; after a kill, its last frame can be incomplete |
//! | `position` | `NUMBER OFFSET LINES`: the server has everything before this position |
//! | `lock` | the lock of the process that uses the folder |
//!
//! If the spool exceeds its limit, it removes the oldest segment, and the caller counts the
//! records of that segment as dropped.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zstd::bulk::Compressor;
use zstd::zstd_safe;

use super::super::error::OutputError;
use super::super::frames;
use super::super::lock;
use super::super::options::SpoolOptions;
use super::super::test;
use super::message::{Pending, Waiting};

/// Max size of a segment. Segments are smaller if the limit of the spool is below eight segments.
const SEGMENT: u64 = 8 << 20;

/// Bytes of messages in a frame. The last message may exceed this number.
const FRAME: usize = 2 << 20;

/// Max number of bytes of messages that a frame is decompressed to.
const LARGEST_FRAME: u64 = 1 << 30;

/// Number of bytes per read.
const CHUNK: u64 = 1 << 20;

/// Level of zstd: the fastest one that compresses records to about one tenth.
const LEVEL: i32 = 1;

/// Modes of the folder and of its files.
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// An open spool.
pub(super) struct Spool {
    folder: PathBuf,
    /// Max total size of the segments in bytes.
    most: u64,
    segments: VecDeque<Segment>,
    /// The last segment, unless it is closed.
    writer: Option<File>,
    /// Sequence number of the next segment.
    next: u64,
    compressor: Compressor<'static>,
    /// Holds the lock of the folder.
    _lock: File,
}

/// A file of frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Segment {
    number: u64,
    path: PathBuf,
    octets: u64,
    /// Number of records.
    lines: u64,
    /// Number of bytes that were read.
    read: u64,
    /// Number of records that were read or reported as lost.
    read_lines: u64,
}

impl Spool {
    /// Opens a folder, and creates it if it is missing. Messages of an earlier process come first.
    ///
    /// # Errors
    /// Returns an error of the operating system, or [`lock::Locked`] if another process uses the
    /// folder.
    pub(super) fn open(options: &SpoolOptions) -> io::Result<Self> {
        let folder = options.folder.clone();
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&folder)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(folder.join("lock"))?;
        lock::exclusive(&lock)?;
        let compressor = frames::compressor(LEVEL)?;
        let position = read_position(&folder);
        let mut names: Vec<_> = fs::read_dir(&folder)?
            .filter_map(|entry| named(&entry.ok()?.path()))
            .collect();
        names.sort();
        let mut segments = VecDeque::new();
        for (number, lines, path) in names {
            if number < position.0 {
                fs::remove_file(&path)?;
                continue;
            }
            let mut segment = match lines {
                Some(lines) => Segment {
                    number,
                    octets: fs::metadata(&path)?.len(),
                    path,
                    lines,
                    ..Segment::default()
                },
                None => recover(number, &path)?,
            };
            if number == position.0 {
                (segment.read, segment.read_lines) = (
                    position.1.min(segment.octets),
                    position.2.min(segment.lines),
                );
            }
            segments.push_back(segment);
        }
        let next = segments
            .back()
            .map_or(position.0, |last| last.number.max(position.0))
            + 1;
        let mut spool = Self {
            folder,
            most: options.most,
            segments,
            writer: None,
            next,
            compressor,
            _lock: lock,
        };
        spool.acknowledge();
        Ok(spool)
    }

    /// Returns whether no message of the spool waits for an acknowledgement.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the number of records that were not read.
    pub(super) fn lines(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.lines - segment.read_lines)
            .sum()
    }

    /// Removes the oldest segments until a frame of this size fits. Returns the number of their
    /// records that were not read.
    pub(super) fn make_room(&mut self, octets: u64) -> u64 {
        let octets = octets.min(self.segment_size());
        let mut dropped = 0;
        while self.octets() + octets > self.most
            && let Some(first) = self.segments.pop_front()
        {
            if self.segments.is_empty() {
                self.writer = None;
            }
            dropped += first.lines - first.read_lines;
            // If a file cannot be removed, its space does not become free, and the next write
            // fails.
            remove(&first.path);
        }
        dropped
    }

    /// Writes messages and removes them from the queue. Returns the number of older records that
    /// were dropped. After an error, the messages that were not written are still in the queue.
    pub(super) fn append(&mut self, messages: &mut Waiting) -> (u64, io::Result<()>) {
        let mut dropped = 0;
        while !messages.is_empty() {
            let (plain, count, lines) = encode(messages);
            let written = self.compressor.compress(&plain).and_then(|frame| {
                dropped += self.make_room(frame.len() as u64);
                self.write(&frame, lines)
            });
            if let Err(error) = written {
                return (dropped, Err(error));
            }
            messages.remove_first(count);
        }
        (dropped, Ok(()))
    }

    /// Reads the next messages, about `most` bytes. Also returns the number of records that
    /// cannot be read.
    pub(super) fn read(&mut self, most: usize) -> (Vec<Pending>, u64) {
        let (mut messages, mut lost, mut octets) = (Vec::new(), 0, 0);
        for segment in self
            .segments
            .iter_mut()
            .filter(|segment| segment.read < segment.octets)
        {
            while segment.read < segment.octets && octets < most {
                let new = segment.read_some(most - octets);
                octets += new.iter().map(|message| message.text.len()).sum::<usize>();
                messages.extend(new);
            }
            if segment.read >= segment.octets {
                lost += segment.lines.saturating_sub(segment.read_lines);
                segment.read_lines = segment.lines;
            }
            if octets >= most {
                break;
            }
        }
        (messages, lost)
    }

    /// Removes everything that was read, because the server has it.
    pub(super) fn acknowledge(&mut self) {
        while self
            .segments
            .front()
            .is_some_and(|first| first.read >= first.octets)
            && let Some(first) = self.segments.pop_front()
        {
            if self.segments.is_empty() {
                self.writer = None;
            }
            remove(&first.path);
        }
        if let Some(first) = self.segments.front().filter(|first| first.read > 0) {
            let position = format!(
                "{:020} {:020} {:020}",
                first.number, first.read, first.read_lines
            );
            // The position is written twice, so that a difference shows damage. If the write
            // fails, a restart sends some messages again, with the same ids.
            let position = format!("{position} {position}\n");
            let written = open(&self.folder.join("position"))
                .and_then(|file| file.write_all_at(position.as_bytes(), 0));
            if let Err(error) = written {
                tracing::warn!(folder = %self.folder.display(), %error, "cannot write the position of the spool, so a restart sends some messages again");
            }
        }
    }

    fn octets(&self) -> u64 {
        self.segments.iter().map(|segment| segment.octets).sum()
    }

    fn segment_size(&self) -> u64 {
        SEGMENT.min(self.most / 8)
    }

    /// Appends a frame to the last segment, or to a new segment.
    fn write(&mut self, frame: &[u8], lines: u64) -> io::Result<()> {
        if self
            .segments
            .back()
            .is_some_and(|last| last.octets + frame.len() as u64 > self.segment_size())
        {
            self.close();
        }
        let (file, last) = match (&self.writer, self.segments.back_mut()) {
            (Some(file), Some(last)) => (file, last),
            _ => {
                let path = self.folder.join(format!("{:020}.zst", self.next));
                let file = self.writer.insert(open(&path)?);
                self.segments.push_back(Segment {
                    number: self.next,
                    path,
                    ..Segment::default()
                });
                self.next += 1;
                let Some(last) = self.segments.back_mut() else {
                    return Ok(());
                };
                (&*file, last)
            }
        };
        let written = file.write_all_at(frame, last.octets);
        match &written {
            Ok(()) => {
                (last.octets, last.lines) = (last.octets + frame.len() as u64, last.lines + lines);
            }
            // A segment without a frame is removed.
            Err(_) if last.octets == 0 => {
                remove(&last.path);
                self.writer = None;
                self.segments.pop_back();
            }
            // The next frame overwrites the incomplete one.
            Err(_) => drop(file.set_len(last.octets)),
        }
        written
    }

    /// Closes the last segment, and adds its number of records to its name.
    fn close(&mut self) {
        let (Some(file), Some(last)) = (self.writer.take(), self.segments.back_mut()) else {
            return;
        };
        let path = self
            .folder
            .join(format!("{:020}-{}.zst", last.number, last.lines));
        // If the rename fails, the next process counts the records of the segment itself.
        match file
            .sync_data()
            .and_then(|()| fs::rename(&last.path, &path))
        {
            Ok(()) => last.path = path,
            Err(error) => {
                tracing::warn!(path = %last.path.display(), %error, "cannot close a segment of the spool; a restart reads it again to count its records");
            }
        }
    }
}

impl Segment {
    /// Reads frames with about `most` bytes of messages. Skips what cannot be read.
    fn read_some(&mut self, most: usize) -> Vec<Pending> {
        let mut messages = Vec::new();
        let mut size = CHUNK;
        let mut text = 0;
        while messages.is_empty() && self.read < self.octets {
            let octets = size.min(self.octets - self.read);
            let mut chunk = vec![0; octets as usize];
            let read =
                File::open(&self.path).and_then(|file| file.read_exact_at(&mut chunk, self.read));
            if let Err(error) = read {
                tracing::warn!(path = %self.path.display(), %error, "cannot read a segment of the spool; its records are lost");
                self.read = self.octets;
                break;
            }
            let mut rest = chunk.as_slice();
            while text < most
                && let Some(length) = frames::length(rest)
                && let Some(frame) = decode(&rest[..length])
            {
                self.read_lines += frame.iter().map(|message| message.lines).sum::<u64>();
                text += frame
                    .iter()
                    .map(|message| message.text.len())
                    .sum::<usize>();
                messages.extend(frame);
                (rest, self.read) = (&rest[length..], self.read + length as u64);
            }
            if messages.is_empty() && octets == self.octets - self.read && !rest.is_empty() {
                tracing::warn!(path = %self.path.display(), offset = self.read, "skipping a damaged frame of the spool; its records are lost; check the disk");
                self.read += frames::next(rest) as u64;
            }
            // A frame may be longer than the chunk.
            size *= 2;
        }
        messages
    }
}

/// Tests whether the folder of a spool can be used, without taking the lock of a running process.
pub(super) fn test(options: &SpoolOptions) -> Result<(), OutputError> {
    let above = options
        .folder
        .ancestors()
        .find(|above| test::folder(above).exists());
    let failed = |source| OutputError::Spool {
        folder: options.folder.clone(),
        source,
    };
    test::writable(test::folder(above.unwrap_or_else(|| Path::new("")))).map_err(failed)
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove a segment of the spool; it keeps using space on the disk");
    }
}

/// Parses the name of a segment: its sequence number, and its number of records if it is closed.
fn named(path: &Path) -> Option<(u64, Option<u64>, PathBuf)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".zst")?;
    let (number, lines) = match name.split_once('-') {
        Some((number, lines)) => (number, Some(lines.parse().ok()?)),
        None => (name, None),
    };
    Some((number.parse().ok()?, lines, path.to_owned()))
}

/// Counts the records of a segment that a killed process left open, and truncates the file after
/// its last whole frame. A damaged frame before that stays; the reader reports and skips it.
fn recover(number: u64, path: &Path) -> io::Result<Segment> {
    let octets = fs::read(path)?;
    let mut segment = Segment {
        number,
        path: path.to_owned(),
        ..Segment::default()
    };
    let mut at = 0;
    while at < octets.len() {
        let rest = &octets[at..];
        let whole =
            frames::length(rest).and_then(|length| Some((length, decode(&rest[..length])?)));
        at += whole
            .as_ref()
            .map_or_else(|| frames::next(rest), |(length, _)| *length);
        if let Some((_, messages)) = whole {
            segment.lines += messages.iter().map(|message| message.lines).sum::<u64>();
            segment.octets = at as u64;
        }
    }
    let behind = octets.len() as u64 - segment.octets;
    if behind > 0 {
        tracing::warn!(path = %path.display(), octets = behind, "removed an incomplete slot at the end of the spool; its records are lost");
        File::options()
            .write(true)
            .open(path)?
            .set_len(segment.octets)?;
    }
    Ok(segment)
}

/// Returns segment, offset and records of the position file. Without a valid file, all messages
/// of the spool are sent, and the server discards those that it already has by their ids.
fn read_position(folder: &Path) -> (u64, u64, u64) {
    let path = folder.join("position");
    let octets = match fs::read(&path) {
        // Nothing was acknowledged.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (0, 0, 0),
        octets => octets,
    };
    let error = match octets.map(|octets| position(&octets)) {
        Ok(Some(position)) => return position,
        Ok(None) => "it is damaged".to_owned(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        path = %path.display(), error,
        "cannot read the position of the spool, so all of its messages are sent again; the server drops those that it has, within its duplicate window"
    );
    (0, 0, 0)
}

/// Parses a position and its copy. Returns `None` if they differ or are damaged. A file of 63 bytes
/// was written by an earlier version, which wrote no copy.
fn position(octets: &[u8]) -> Option<(u64, u64, u64)> {
    let words: Vec<&str> = str::from_utf8(octets)
        .ok()?
        .strip_suffix('\n')?
        .split(' ')
        .collect();
    let (first, copy) = words.split_at_checked(3)?;
    let is_valid = octets.len() == 63 && copy.is_empty() || first == copy;
    let number = |word: usize| first[word].parse().ok();
    is_valid.then(|| Some((number(0)?, number(1)?, number(2)?)))?
}

/// Encodes the first messages, about [`FRAME`] bytes. Returns the frame, the number of messages
/// and the number of records.
fn encode(messages: &Waiting) -> (Vec<u8>, usize, u64) {
    let (mut plain, mut count, mut lines) = (Vec::new(), 0, 0);
    for message in messages.iter() {
        plain.extend_from_slice(
            format!(
                "{} {} {} {}\n",
                message.subject,
                message.id,
                message.lines,
                message.text.len()
            )
            .as_bytes(),
        );
        plain.extend_from_slice(&message.text);
        plain.push(b'\n');
        (count, lines) = (count + 1, lines + message.lines);
        if plain.len() >= FRAME {
            break;
        }
    }
    (plain, count, lines)
}

/// Decodes a frame. Returns `None` if it is damaged.
fn decode(frame: &[u8]) -> Option<Vec<Pending>> {
    let size = zstd_safe::get_frame_content_size(frame)
        .ok()
        .flatten()
        .filter(|size| *size <= LARGEST_FRAME)?;
    let plain = zstd::bulk::decompress(frame, usize::try_from(size).ok()?).ok()?;
    let mut rest = plain.as_slice();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (head, text) = rest.split_at_checked(memchr::memchr(b'\n', rest)? + 1)?;
        let mut words = str::from_utf8(head).ok()?.split_whitespace();
        let (subject, id) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (lines, octets) = (
            words.next()?.parse().ok()?,
            words.next()?.parse::<usize>().ok()?,
        );
        let (text, others) = text.split_at_checked(octets)?;
        messages.push(Pending {
            subject,
            id,
            text: Bytes::copy_from_slice(text),
            lines,
        });
        rest = others.strip_prefix(b"\n")?;
    }
    Some(messages)
}

#[cfg(test)]
mod tests;
