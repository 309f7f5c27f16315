//! Files that samplers write, followed while they grow.
//!
//! A pattern is expanded again every second, so new files are found. A file that was renamed by the
//! rotation is read to its end under its old handle, and is not read again under its new name. A
//! compressed file whose content was read before its compression is not read again either. A file
//! that became shorter was truncated, and is read from its beginning.
//!
//! At the start of the hub, a file is read from the first record that is younger than `recent`. The
//! place is found by bisection, so a file of many hours costs a few reads. The reader for the archive
//! instead continues each file where an earlier hub stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet_analysis::record::Head;

use super::lines::{Splitter, read_all};
use super::positions::{FileId, Positions};
use super::{READ, Sender, Stopped, What};

/// Time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Number of looks after which the pattern is expanded again.
const EXPAND_EVERY: u32 = 10;

/// First octets of a file compressed by zstd (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where the reading starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// At the first record that is not older, in nanoseconds since 1970.
    Since(u64),
    /// Behind what an earlier hub read. All files are read from there, whatever the age of their
    /// records. The reader reports [`What::Read`] when it has read all files to their ends.
    Behind(Positions),
}

/// A file that is read.
struct Followed {
    path: PathBuf,
    id: FileId,
    file: File,
    /// Octets that were read.
    offset: u64,
    splitter: Splitter,
}

/// The files of one pattern.
struct Files<'a> {
    pattern: &'a str,
    start: Start,
    open: Vec<Followed>,
    /// Files that were read, or are read, with the octets that were read when they were closed.
    known: BTreeMap<FileId, u64>,
    /// Names of these files, also under which they were compressed.
    read_names: BTreeSet<PathBuf>,
    is_connected: bool,
}

/// Returns the start for the records of the last time.
pub(crate) fn recent(recent: Duration) -> Start {
    Start::Since(now_ns().saturating_sub(u64::try_from(recent.as_nanos()).unwrap_or(u64::MAX)))
}

/// Reads the files until the hub stops.
pub(crate) fn follow(pattern: &str, start: Start, sender: &Sender) -> Result<(), Stopped> {
    let mut files = Files::new(pattern, start);
    for look in 0_u32.. {
        let expands = look % EXPAND_EVERY == 0;
        if expands {
            files.expand(sender)?;
        }
        files.read(sender)?;
        if expands && matches!(files.start, Start::Behind(_)) {
            sender.send(What::Read(files.positions()))?;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

impl<'a> Files<'a> {
    fn new(pattern: &'a str, start: Start) -> Self {
        Self { pattern, start, open: Vec::new(), known: BTreeMap::new(), read_names: BTreeSet::new(), is_connected: false }
    }

    /// Returns how far each file was read. A line that is not complete counts as not read.
    fn positions(&self) -> Positions {
        let mut positions = self.known.clone();
        positions.extend(self.open.iter().map(|followed| (followed.id, followed.offset - followed.splitter.pending() as u64)));
        Positions(positions)
    }

    /// Opens the new files of the pattern, in the order of their last changes.
    fn expand(&mut self, sender: &Sender) -> Result<(), Stopped> {
        let path = Path::new(self.pattern);
        let paths: Vec<PathBuf> = match path.exists() {
            true => vec![path.to_owned()],
            false => glob::glob(self.pattern).map(|paths| paths.filter_map(Result::ok).collect()).unwrap_or_default(),
        };
        let mut found: Vec<_> = paths.into_iter().filter_map(|path| fs::metadata(&path).ok().map(|file| (file, path))).collect();
        found.retain(|(file, _)| file.is_file());
        found.sort_by_key(|(file, path)| (file.mtime(), file.mtime_nsec(), path.clone()));
        if found.is_empty() && !self.is_connected {
            return sender.send(What::Failed(format!("no file matches {}", self.pattern)));
        }
        // A new file can get the number of a removed one.
        let present: BTreeSet<FileId> = found.iter().map(|(file, _)| FileId::of(file)).collect();
        self.known.retain(|id, _| present.contains(id) || self.open.iter().any(|followed| followed.id == *id));
        for (file, path) in found {
            let id = FileId::of(&file);
            let changed_ns = u64::try_from(file.mtime()).unwrap_or(0).saturating_mul(1_000_000_000);
            let is_old = match &self.start {
                Start::Since(since_ns) => changed_ns < *since_ns,
                Start::Behind(positions) => positions.0.get(&id) == Some(&Positions::WHOLE),
            };
            let uncompressed = path.to_str().and_then(|path| path.strip_suffix(".zst")).map(PathBuf::from);
            let was_read = uncompressed.is_some_and(|path| self.read_names.contains(&path));
            // A renamed file keeps its number. Its new name is noted for its compressed form.
            let is_new = !self.known.contains_key(&id);
            self.known.entry(id).or_insert(Positions::WHOLE);
            self.read_names.insert(path.clone());
            if !is_new || was_read || is_old {
                continue;
            }
            match Followed::open(&path, id, &self.start, sender)? {
                Ok(followed) => {
                    if !std::mem::replace(&mut self.is_connected, true) {
                        sender.send(What::Connected)?;
                    }
                    self.open.extend(followed);
                }
                Err(error) => {
                    self.known.remove(&id);
                    sender.send(What::Failed(format!("{}: {error}", path.display())))?;
                }
            }
        }
        Ok(())
    }

    /// Reads what was appended. Closes the files that have another name and are read to their ends.
    fn read(&mut self, sender: &Sender) -> Result<(), Stopped> {
        let mut ended = Vec::new();
        for (place, followed) in self.open.iter_mut().enumerate() {
            // The name is looked up before the last read, so nothing is missed.
            let is_renamed = fs::metadata(&followed.path).map(|file| FileId::of(&file)).ok() != Some(followed.id);
            followed.read(sender)?;
            if is_renamed {
                followed.splitter.finish(sender)?;
                ended.push(place);
            }
        }
        let has_ended = !ended.is_empty();
        ended.into_iter().rev().for_each(|place| drop(self.open.remove(place)));
        if has_ended {
            self.expand(sender)?;
        }
        Ok(())
    }
}

impl Followed {
    /// Opens a file. Reads a compressed file at once, and returns `None`.
    fn open(path: &Path, id: FileId, start: &Start, sender: &Sender) -> Result<io::Result<Option<Self>>, Stopped> {
        let opened = File::open(path).and_then(|mut file| {
            let mut magic = Vec::new();
            file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
            file.rewind()?;
            Ok((file, magic == ZSTD))
        });
        let (mut file, is_compressed) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let mut splitter = Splitter::default();
        if is_compressed {
            let read = match zstd::Decoder::new(file) {
                Ok(mut text) => read_all(&mut text, &mut splitter, sender)?,
                Err(error) => Err(error),
            };
            splitter.finish(sender)?;
            return Ok(read.map(|()| None));
        }
        let offset = match start {
            Start::Since(since_ns) => start_of(&mut file, *since_ns),
            Start::Behind(positions) => Ok(positions.0.get(&id).copied().unwrap_or(0)),
        };
        let offset = match offset {
            Ok(offset) => offset,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(Some(Self { path: path.to_owned(), id, file, offset, splitter })))
    }

    fn read(&mut self, sender: &Sender) -> Result<(), Stopped> {
        let length = self.file.metadata().map_or(self.offset, |file| file.len());
        if length < self.offset {
            self.offset = 0;
            self.splitter.clear();
        }
        if length == self.offset || self.file.seek(SeekFrom::Start(self.offset)).is_err() {
            return Ok(());
        }
        let mut buffer = vec![0; READ];
        while let Ok(octets) = self.file.read(&mut buffer) {
            if octets == 0 {
                break;
            }
            self.offset += octets as u64;
            self.splitter.add(&buffer[..octets], sender)?;
        }
        Ok(())
    }
}

/// Returns the start of the first line that is not older than `since_ns`, or of a line shortly
/// before it. The lines of a file are roughly in the order of time.
fn start_of(file: &mut File, since_ns: u64) -> io::Result<u64> {
    /// Records of a slot are not in the order of time.
    const SLACK_NS: u64 = 5_000_000_000;
    /// A smaller part of the file is read as a whole.
    const SMALL: u64 = 1 << 20;
    let since_ns = since_ns.saturating_sub(SLACK_NS);
    let (mut low, mut high) = (0, file.metadata()?.len());
    while high - low > SMALL {
        let middle = low + (high - low) / 2;
        match line_after(file, middle, high)? {
            Some((start, ts)) if ts < since_ns => low = start,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns start and time of the first record that begins between two offsets.
fn line_after(file: &mut File, from: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file.by_ref().take(to - from));
    let (mut start, mut line) = (from, Vec::new());
    // The first line is cut.
    start += reader.read_until(b'\n', &mut line)? as u64;
    loop {
        line.clear();
        let octets = reader.read_until(b'\n', &mut line)?;
        if octets == 0 {
            return Ok(None);
        }
        if let Ok(head) = Head::of(line.trim_ascii()) {
            return Ok(Some((start, head.ts)));
        }
        start += octets as u64;
    }
}

#[expect(clippy::disallowed_methods, reason = "files are read from a time before now")]
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Write as _;

    use super::super::queue;
    use super::*;

    /// Follows a pattern, and returns the lines after each step.
    struct Test {
        folder: tempfile::TempDir,
        receiver: std::sync::mpsc::Receiver<super::super::Message>,
        sender: Sender,
    }

    impl Test {
        fn new() -> Self {
            let (mut senders, receiver) = queue(1);
            Self { folder: tempfile::tempdir().expect("a folder"), receiver, sender: senders.remove(0) }
        }

        fn append(&self, name: &str, text: &str) {
            let path = self.folder.path().join(name);
            let mut file = File::options().create(true).append(true).open(path).expect("opened");
            file.write_all(text.as_bytes()).expect("written");
        }

        fn lines(&self) -> String {
            let mut all = String::new();
            for message in self.receiver.try_iter() {
                if let What::Lines(lines) = message.what {
                    all += std::str::from_utf8(&lines).expect("text");
                }
            }
            all
        }

        fn look(&self, files: &mut Files<'_>) -> String {
            files.expand(&self.sender).expect("the receiver is there");
            files.read(&self.sender).expect("the receiver is there");
            self.lines()
        }
    }

    fn files(pattern: &str) -> Files<'_> {
        Files::new(pattern, Start::Since(0))
    }

    #[test]
    fn file_is_followed_across_rotation_and_compression() {
        let test = Test::new();
        let pattern = test.folder.path().join("lines*.jsonl*").display().to_string();
        let mut files = files(&pattern);
        assert_eq!(test.look(&mut files), "");
        test.append("lines.jsonl", "1\n2\n3");
        assert_eq!(test.look(&mut files), "1\n2\n");
        test.append("lines.jsonl", "3\n");
        let path = |name| test.folder.path().join(name);
        fs::rename(path("lines.jsonl"), path("lines-1.jsonl")).expect("renamed");
        test.append("lines.jsonl", "4\n");
        assert_eq!(test.look(&mut files), "33\n4\n", "the end of the old file, then the new one");
        fs::write(path("lines-1.jsonl.zst"), zstd::encode_all(&b"1\n2\n33\n"[..], 0).expect("compressed")).expect("written");
        fs::remove_file(path("lines-1.jsonl")).expect("removed");
        test.append("lines.jsonl", "5\n");
        assert_eq!(test.look(&mut files), "5\n", "the compressed file was read before");
        fs::write(path("lines-0.jsonl.zst"), zstd::encode_all(&b"0\n"[..], 0).expect("compressed")).expect("written");
        assert_eq!(test.look(&mut files), "0\n", "another compressed file");
    }

    #[test]
    fn reader_for_the_archive_continues_behind_what_was_read() {
        let test = Test::new();
        let pattern = test.folder.path().join("lines*.jsonl*").display().to_string();
        let path = |name| test.folder.path().join(name);
        test.append("lines-0.jsonl", "old\n");
        test.append("lines.jsonl", "1\n2\ntor");
        let mut files = Files::new(&pattern, Start::Behind(Positions::default()));
        assert_eq!(test.look(&mut files), "old\n1\n2\n", "all files are read from their beginnings");
        fs::write(path("lines-1.jsonl.zst"), zstd::encode_all(&b"z\n"[..], 0).expect("compressed")).expect("written");
        assert_eq!(test.look(&mut files), "z\n");
        let positions = files.positions();
        // While no hub runs: the end of a line, a rotation, and a new file with an old time.
        test.append("lines.jsonl", "n\n3\n");
        fs::rename(path("lines.jsonl"), path("lines-2.jsonl")).expect("renamed");
        test.append("lines-3.jsonl", "copied\n");
        let old = File::options().append(true).open(path("lines-3.jsonl")).expect("opened");
        old.set_modified(UNIX_EPOCH).expect("set");
        test.append("lines.jsonl", "4\n");
        let mut files = Files::new(&pattern, Start::Behind(positions));
        let mut lines: Vec<String> = test.look(&mut files).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["3", "4", "copied", "torn"]);
    }

    #[test]
    fn truncated_file_is_read_from_its_beginning() {
        let test = Test::new();
        let pattern = test.folder.path().join("a").display().to_string();
        let mut files = files(&pattern);
        test.append("a", "one\ntwo\n");
        assert_eq!(test.look(&mut files), "one\ntwo\n");
        fs::write(&pattern, "new\n").expect("written");
        assert_eq!(test.look(&mut files), "new\n");
    }

    #[test]
    fn old_records_of_a_long_file_are_skipped() {
        const SECOND: u64 = 1_000_000_000;
        let mut text = String::new();
        for second in 0..100_000 {
            writeln!(text, "{{\"type\":\"event\",\"ts\":{},\"event\":\"reset\",\"detail\":\"some words\"}}", second * SECOND)
                .expect("written");
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let start = start_of(&mut file, 90_000 * SECOND).expect("read");
        let first = Head::of(text[start as usize..].lines().next().expect("a line").as_bytes()).expect("a record");
        assert!((70_000 * SECOND..=90_000 * SECOND).contains(&first.ts), "{}", first.ts);
        assert_eq!(start_of(&mut file, 0).expect("read"), 0);
    }
}
