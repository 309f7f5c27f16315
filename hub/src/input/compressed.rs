//! Reads zstd files frame by frame, even while frames are appended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::lines::Splitter;
use super::positions::Mark;
use super::{READ, Sender, Stopped};

/// Number of bytes at the start of a file that show whether it is a zstd file.
pub(super) const MAGIC: usize = 4;

/// Returns whether a file with these first bytes, [`MAGIC`] or fewer, can be a zstd file. It begins
/// with a frame (RFC 8878, 3.1.1) or with a skippable frame, as `pzstd` writes it (3.1.2).
pub(super) fn is_frame(start: &[u8]) -> bool {
    let is_skippable =
        |(first, rest): (&u8, &[u8])| first & 0xf0 == 0x50 && [0x2a, 0x4d, 0x18].starts_with(rest);
    [0x28, 0xb5, 0x2f, 0xfd].starts_with(start) || start.split_first().is_some_and(is_skippable)
}

/// How far uncompressed files were read, by the checksum of their first line. A compressed file
/// with the same first line is a copy of what was read, possibly with more text. First lines
/// identify files, because they have a time in nanoseconds and two samplers do not write the
/// same one.
#[derive(Debug, Default)]
pub(super) struct Originals {
    /// Marks by checksum, each with the number of its last change.
    marks: BTreeMap<u32, (u64, Mark)>,
    changes: u64,
}

impl Originals {
    /// Max number of files. Beyond it, the file that has not changed for the longest time is
    /// dropped, and its compressed form is then read again.
    const MAX: usize = 10_000;

    /// Records how far a file was read. `first` is the checksum of its first line.
    pub(super) fn add(&mut self, first: u32, mark: Mark) {
        let known = self.marks.get(&first).map_or(0, |(_, mark)| mark.octets);
        if mark.length == 0 || mark.octets <= known {
            return;
        }
        self.changes += 1;
        self.marks.insert(first, (self.changes, mark));
        if self.marks.len() > Self::MAX {
            let oldest = self.marks.iter().min_by_key(|(_, (change, _))| *change);
            if let Some(first) = oldest.map(|(first, _)| *first) {
                self.marks.remove(&first);
            }
        }
    }
}

#[cfg(test)]
impl Originals {
    pub(super) fn len(&self) -> usize {
        self.marks.len()
    }
}

/// Returns the checksum of the first line of an uncompressed file, if the line is complete.
pub(super) fn first_line(file: &File) -> Option<u32> {
    /// A record has at most 16 KiB.
    const LONGEST: usize = 64 << 10;
    let mut octets = vec![0; LONGEST];
    let read = file.read_at(&mut octets, 0).ok()?;
    let octets = octets.get(..read)?;
    let end = memchr::memchr(b'\n', octets)?;
    let is_text = !octets.get(..MAGIC).is_some_and(is_frame);
    is_text.then(|| crc32fast::hash(&octets[..end]))
}

/// Whether the text of a compressed file had been read before it was compressed.
#[derive(Debug, Default)]
enum Origin {
    /// The first line is not complete yet.
    #[default]
    Unknown,
    /// The text up to the mark was probably read. The checksum of its bytes confirms it.
    Read {
        mark: Mark,
        skipped: u64,
        crc: crc32fast::Hasher,
    },
    /// The text that follows has not been read.
    New,
}

/// How far a compressed file was read.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Compressed bytes of the frames that were read.
    octets: u64,
    /// The mark at these bytes.
    mark: Mark,
    /// Bytes of text already read from the next frame, which is not complete yet.
    of_frame: u64,
    /// Mark at the compressed bytes before the first incomplete line.
    pub(super) durable: Mark,
    origin: Origin,
    splitter: Splitter,
}

impl Place {
    pub(super) fn at(mark: Mark) -> Self {
        Self {
            octets: mark.octets,
            mark,
            durable: mark,
            origin: if mark.octets == 0 {
                Origin::Unknown
            } else {
                Origin::New
            },
            ..Self::default()
        }
    }

    /// Reads what was appended. Text is never read twice, even if its frame was cut at first or the
    /// file was read before it was compressed.
    ///
    /// # Errors
    /// Returns the error of the file, or that of a damaged or cut frame.
    pub(super) fn read(
        &mut self,
        file: &File,
        originals: &Originals,
        sender: &Sender,
    ) -> Result<io::Result<()>, Stopped> {
        if !self.mark.holds(file) {
            // The file was truncated.
            *self = Self::default();
        }
        let mut durable = self.durable.octets;
        let result = loop {
            match self.read_frames(file, &mut durable, originals, sender)? {
                Ok(true) => break Ok(()),
                Ok(false) => {
                    durable = 0;
                    *self = Self {
                        origin: Origin::New,
                        ..Self::default()
                    };
                }
                Err(error) => break Err(error),
            }
        };
        self.mark = Mark::at(file, self.octets);
        self.durable = Mark::at(file, durable);
        Ok(result)
    }

    /// Reads the next frames. `durable` becomes the end of the last frame that ends with a whole
    /// line. Returns false if the skipped text turns out not to be the text that was read before.
    fn read_frames(
        &mut self,
        mut file: &File,
        durable: &mut u64,
        originals: &Originals,
        sender: &Sender,
    ) -> Result<io::Result<bool>, Stopped> {
        if let Err(error) = file.seek(SeekFrom::Start(self.octets)) {
            return Ok(Err(error));
        }
        let (mut reader, mut buffer) = (BufReader::new(file), vec![0; READ]);
        loop {
            match reader.fill_buf() {
                Ok([]) => break,
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
            let mut decoder = match zstd::Decoder::with_buffer(reader) {
                Ok(decoder) => decoder.single_frame(),
                Err(error) => return Ok(Err(fault_of(error))),
            };
            let mut passed = 0;
            loop {
                let octets = match decoder.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(octets) => octets,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Ok(Err(fault_of(error))),
                };
                let known = self.of_frame.saturating_sub(passed).min(octets as u64);
                passed += octets as u64;
                self.of_frame = self.of_frame.max(passed);
                if !self.add(&buffer[known as usize..octets], originals, sender)? {
                    return Ok(Ok(false));
                }
            }
            reader = decoder.finish();
            self.octets = match reader.stream_position() {
                Ok(octets) => octets,
                Err(error) => return Ok(Err(error)),
            };
            self.of_frame = 0;
            if self.splitter.pending() == 0 {
                *durable = self.octets;
            }
        }
        // The last line may lack its line feed. A cut line continues in the next frame.
        if self.splitter.is_whole() {
            self.splitter.finish(sender)?;
            self.origin = Origin::New;
            *durable = self.octets;
        }
        Ok(Ok(true))
    }

    /// Adds the next text. Returns false if the skipped text turns out not to be the text that was
    /// read before.
    fn add(
        &mut self,
        text: &[u8],
        originals: &Originals,
        sender: &Sender,
    ) -> Result<bool, Stopped> {
        let mut text = Cow::Borrowed(text);
        if matches!(self.origin, Origin::Unknown) && memchr::memchr(b'\n', &text).is_some() {
            text = [self.splitter.take(), text.into_owned()].concat().into();
            let line = text.split(|octet| *octet == b'\n').next().unwrap_or(&[]);
            self.origin = match originals.marks.get(&crc32fast::hash(line)) {
                Some((_, mark)) => Origin::Read {
                    mark: *mark,
                    skipped: 0,
                    crc: crc32fast::Hasher::new(),
                },
                None => Origin::New,
            };
        }
        let mut text = &*text;
        if let Origin::Read { mark, skipped, crc } = &mut self.origin {
            let (read, rest) =
                text.split_at((mark.octets - *skipped).min(text.len() as u64) as usize);
            let before = (mark.octets - mark.length).saturating_sub(*skipped);
            crc.update(read.get(before as usize..).unwrap_or(&[]));
            *skipped += read.len() as u64;
            text = rest;
            if *skipped == mark.octets {
                if crc.clone().finalize() != mark.crc {
                    return Ok(false);
                }
                self.origin = Origin::New;
            }
        }
        self.splitter.add(text, sender)?;
        Ok(true)
    }
}

/// Returns the fault of a file. An error without an OS error number is one of the compressed data.
fn fault_of(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    let reason = format!(
        "the compressed data is damaged or not complete ({error}); replace or remove the file if it stays so"
    );
    io::Error::new(error.kind(), reason)
}
