//! Follows files while samplers write them.
//!
//! The pattern is expanded again every second, so new files are found. A file is read when it
//! changes, whatever its age. After a rotation, the renamed file is read to its end through the old
//! handle, and under its new name only if it grows. Of a compressed file, text that was read before
//! the compression is not read again. A file counts as truncated if it is shorter than what was
//! read, or if the bytes before the position have changed; it is then read from its beginning.
//!
//! When the hub starts, a file is read from the first record that is younger than `recent`. This
//! position is found by bisection, so a file of many hours costs a few reads. A file that did not
//! change within `recent` is not read until it changes. The reader for the archive instead
//! continues each file where an earlier hub stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ibnet_analysis::record::Head;

use super::compressed::{MAGIC, Originals, Place, first_line, is_frame};
use super::lines::Splitter;
use super::positions::{FileId, Mark, Positions};
use super::{READ, Sender, Stopped, What, wall_ns};

/// Time between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Number of checks after which the pattern is expanded again.
const EXPAND_EVERY: u32 = 10;

/// Where reading starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// At the first record that is not older than this time, in nanoseconds since 1970.
    Since(u64),
    /// Where an earlier hub stopped. All files are read from there, whatever the age of their
    /// records. The reader reports [`What::Read`] when it has read all files to their ends.
    Behind(Positions),
}

/// An open file.
struct Followed {
    path: PathBuf,
    id: FileId,
    file: File,
    /// Number of bytes read.
    offset: u64,
    /// Mark after the whole lines that were read.
    mark: Mark,
    /// State of the file when it was read to its end.
    change: Change,
    /// Checksum of the first line, if it is complete.
    first_line: Option<u32>,
    splitter: Splitter,
    /// Whether its next lines were written before the hub opened it.
    is_recorded: bool,
}

/// Length and modification time.
type Change = (u64, i64, i64);

fn change_of(file: &fs::Metadata) -> Change {
    (file.len(), file.mtime(), file.mtime_nsec())
}

/// A file of the pattern that is not open.
struct Known {
    change: Change,
    read: Read,
    /// Why it could not be read to its end.
    fault: Option<String>,
}

/// How far a file was read.
enum Read {
    /// It has not changed recently, and was not read.
    Nothing,
    /// An uncompressed file, up to this mark.
    Octets(Mark),
    Compressed(Place),
}

/// The files of one pattern.
struct Files<'a> {
    pattern: &'a str,
    start: Start,
    open: Vec<Followed>,
    /// Files that are not open.
    known: BTreeMap<FileId, Known>,
    originals: Originals,
    /// Faults that were reported and have not ended.
    reported: BTreeMap<FileId, String>,
    is_connected: bool,
}

/// Returns the start that includes the records of the time `recent`.
pub(crate) fn recent(recent: Duration) -> Start {
    Start::Since(wall_ns().saturating_sub(u64::try_from(recent.as_nanos()).unwrap_or(u64::MAX)))
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
        Self {
            pattern,
            start,
            open: Vec::new(),
            known: BTreeMap::new(),
            originals: Originals::default(),
            reported: BTreeMap::new(),
            is_connected: false,
        }
    }

    /// Returns how far each file was read. An incomplete line counts as not read.
    fn positions(&self) -> Positions {
        let position = |(id, known): (&FileId, &Known)| match &known.read {
            Read::Nothing => None,
            Read::Octets(mark) => Some((*id, *mark)),
            Read::Compressed(place) => Some((*id, place.durable)),
        };
        let closed = self.known.iter().filter_map(position);
        let open = self.open.iter().map(|file| (file.id, file.mark));
        Positions(closed.chain(open).collect())
    }

    /// Opens the new and changed files of the pattern, in the order of their last changes.
    fn expand(&mut self, sender: &Sender) -> Result<(), Stopped> {
        let path = Path::new(self.pattern);
        let paths: Vec<PathBuf> = match path.exists() {
            true => vec![path.to_owned()],
            false => glob::glob(self.pattern)
                .map(|paths| paths.filter_map(Result::ok).collect())
                .unwrap_or_default(),
        };
        let mut found: Vec<_> = paths
            .into_iter()
            .filter_map(|path| fs::metadata(&path).ok().map(|file| (file, path)))
            .collect();
        found.retain(|(file, _)| file.is_file());
        found.sort_by_key(|(file, path)| (file.mtime(), file.mtime_nsec(), path.clone()));
        if found.is_empty() && !self.is_connected {
            return sender.send(What::Failed(format!("no file matches {}", self.pattern)));
        }
        // A new file can reuse the inode of a removed one.
        let present: BTreeSet<FileId> = found.iter().map(|(file, _)| FileId::of(file)).collect();
        self.known.retain(|id, _| present.contains(id));
        let reported = self.reported.len();
        self.reported.retain(|id, _| present.contains(id));
        let mut has_ended = self.reported.len() < reported;
        for (file, path) in found {
            let id = FileId::of(&file);
            if self.open.iter().any(|followed| followed.id == id) {
                continue;
            }
            let change = change_of(&file);
            let (read, is_recorded) = match self.known.remove(&id) {
                Some(known) if known.change == change => {
                    // A frame that is just being written is not a fault.
                    if let Some(fault) = &known.fault
                        && self.reported.insert(id, fault.clone()).as_ref() != Some(fault)
                    {
                        sender.send(What::Failed(fault.clone()))?;
                    }
                    self.known.insert(id, known);
                    continue;
                }
                Some(known) => (known.read, false),
                None => (self.first(&file), true),
            };
            if is_recorded && matches!(read, Read::Nothing) && !self.is_due(&file) {
                // The compressed form of a file that is not read is not read either.
                if let Ok(file) = File::open(&path)
                    && let Some(first_line) = first_line(&file)
                {
                    self.originals.add(first_line, Mark::at(&file, change.0));
                }
                self.known.insert(
                    id,
                    Known {
                        change,
                        read,
                        fault: None,
                    },
                );
                continue;
            }
            match self.read_changed(&path, id, change, (read, is_recorded), sender)? {
                Ok(()) => {
                    let is_right = self
                        .known
                        .get(&id)
                        .is_none_or(|known| known.fault.is_none());
                    has_ended |= is_right && self.reported.remove(&id).is_some();
                    if !std::mem::replace(&mut self.is_connected, true) {
                        sender.send(What::Connected)?;
                    }
                }
                Err(error) => sender.send(What::Failed(format!("{}: {error}", path.display())))?,
            }
        }
        match self.reported.values().next() {
            _ if !has_ended => Ok(()),
            None => sender.send(What::Connected),
            Some(other) => sender.send(What::Failed(other.clone())),
        }
    }

    /// Returns how far a newly found file was read.
    fn first(&self, file: &fs::Metadata) -> Read {
        let position = match &self.start {
            Start::Since(_) => None,
            Start::Behind(positions) => positions.0.get(&FileId::of(file)).copied(),
        };
        match position {
            Some(Positions::WHOLE) => Read::Octets(Mark::unchecked(file.len())),
            Some(mark) => Read::Octets(mark),
            None => Read::Nothing,
        }
    }

    /// Returns whether a file that was never read is read now, and not only when it changes.
    fn is_due(&self, file: &fs::Metadata) -> bool {
        let changed_ns = u64::try_from(file.mtime())
            .unwrap_or(0)
            .saturating_mul(1_000_000_000);
        match &self.start {
            Start::Since(since_ns) => changed_ns >= *since_ns,
            Start::Behind(_) => true,
        }
    }

    /// Opens a new or changed file. A compressed file is read at once.
    fn read_changed(
        &mut self,
        path: &Path,
        id: FileId,
        change: Change,
        (read, is_recorded): (Read, bool),
        sender: &Sender,
    ) -> Result<io::Result<()>, Stopped> {
        let opened = File::open(path).and_then(|mut file| {
            let mut magic = Vec::new();
            file.by_ref().take(MAGIC as u64).read_to_end(&mut magic)?;
            file.rewind()?;
            Ok((file, magic))
        });
        let (mut file, magic) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        if magic.len() < MAGIC && is_frame(&magic) {
            // Too short: more bytes will show whether it is compressed.
            self.known.insert(
                id,
                Known {
                    change: Change::default(),
                    read,
                    fault: None,
                },
            );
            return Ok(Ok(()));
        }
        if is_frame(&magic) {
            let mut place = match read {
                Read::Compressed(place) => place,
                Read::Octets(mark) => Place::at(mark),
                Read::Nothing => Place::default(),
            };
            // It can be the compressed form of a file that was found shortly before.
            for followed in &mut self.open {
                followed.read(&mut self.originals, sender)?;
            }
            let lines = if is_recorded {
                sender.of_recording()
            } else {
                sender.clone()
            };
            let fault = place
                .read(&file, &self.originals, &lines)?
                .err()
                .map(|error| format!("{}: {error}", path.display()));
            self.known.insert(
                id,
                Known {
                    change,
                    read: Read::Compressed(place),
                    fault,
                },
            );
            return Ok(Ok(()));
        }
        let offset = match (read, &self.start) {
            (Read::Octets(mark), _) => Ok(if mark.holds(&file) { mark.octets } else { 0 }),
            (_, Start::Since(since_ns)) => start_of(&mut file, *since_ns),
            (_, Start::Behind(_)) => Ok(0),
        };
        let offset = match offset {
            Ok(offset) => offset,
            Err(error) => return Ok(Err(error)),
        };
        self.open.push(Followed {
            path: path.to_owned(),
            id,
            mark: Mark::at(&file, offset),
            change: Change::default(),
            first_line: None,
            file,
            offset,
            splitter: Splitter::default(),
            is_recorded,
        });
        Ok(Ok(()))
    }

    /// Reads what was appended. Closes files that were renamed and are read to their ends.
    fn read(&mut self, sender: &Sender) -> Result<(), Stopped> {
        let mut ended = Vec::new();
        for (place, followed) in self.open.iter_mut().enumerate() {
            // The name is looked up before the last read, so no line is missed.
            let is_renamed = fs::metadata(&followed.path)
                .map(|file| FileId::of(&file))
                .ok()
                != Some(followed.id);
            followed.read(&mut self.originals, sender)?;
            if is_renamed {
                if followed.splitter.is_whole() {
                    followed.mark = Mark::at(&followed.file, followed.offset);
                }
                followed.splitter.finish(sender)?;
                ended.push(place);
            }
        }
        let has_ended = !ended.is_empty();
        for place in ended.into_iter().rev() {
            let Followed {
                id,
                file,
                offset,
                mark,
                ..
            } = self.open.remove(place);
            // Under its new name, the file is read again only if it grows.
            let change = file
                .metadata()
                .map(|file| change_of(&file))
                .unwrap_or_default();
            let change = if change.0 == offset {
                change
            } else {
                Change::default()
            };
            self.known.insert(
                id,
                Known {
                    change,
                    read: Read::Octets(mark),
                    fault: None,
                },
            );
        }
        if has_ended {
            self.expand(sender)?;
        }
        Ok(())
    }
}

impl Followed {
    fn read(&mut self, originals: &mut Originals, sender: &Sender) -> Result<(), Stopped> {
        let recording = std::mem::take(&mut self.is_recorded).then(|| sender.of_recording());
        let sender = recording.as_ref().unwrap_or(sender);
        let Ok(change) = self.file.metadata().map(|file| change_of(&file)) else {
            return Ok(());
        };
        if change == self.change {
            return Ok(());
        }
        if change.0 < self.offset || !self.mark.holds(&self.file) {
            (self.offset, self.first_line) = (0, None);
            self.splitter.clear();
        }
        if self.file.seek(SeekFrom::Start(self.offset)).is_err() {
            return Ok(());
        }
        let mut buffer = vec![0; READ];
        while let Ok(octets) = self.file.read(&mut buffer) {
            if octets == 0 {
                self.change = change;
                break;
            }
            self.offset += octets as u64;
            self.splitter.add(&buffer[..octets], sender)?;
        }
        self.mark = Mark::at(&self.file, self.offset - self.splitter.pending() as u64);
        self.first_line = self.first_line.or_else(|| first_line(&self.file));
        if let Some(first_line) = self.first_line {
            originals.add(first_line, self.mark);
        }
        Ok(())
    }
}

/// Returns the start of the first line that is not older than `since_ns`, or of a line shortly
/// before it. The lines of a file are roughly in the order of time.
fn start_of(file: &mut File, since_ns: u64) -> io::Result<u64> {
    /// Records within a slot are not in the order of time.
    const SLACK_NS: u64 = 5_000_000_000;
    /// A part of the file up to this size is read as a whole.
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
    // The first line may begin before `from`.
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
            Self {
                folder: tempfile::tempdir().expect("a folder"),
                receiver,
                sender: senders.remove(0),
            }
        }

        fn append(&self, name: &str, text: &str) {
            let path = self.folder.path().join(name);
            let mut file = File::options()
                .create(true)
                .append(true)
                .open(path)
                .expect("opened");
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
        let pattern = test
            .folder
            .path()
            .join("lines*.jsonl*")
            .display()
            .to_string();
        let mut files = files(&pattern);
        assert_eq!(test.look(&mut files), "");
        test.append("lines.jsonl", "1\n2\n3");
        assert_eq!(test.look(&mut files), "1\n2\n");
        test.append("lines.jsonl", "3\n");
        let path = |name| test.folder.path().join(name);
        fs::rename(path("lines.jsonl"), path("lines-1.jsonl")).expect("renamed");
        test.append("lines.jsonl", "4\n");
        assert_eq!(
            test.look(&mut files),
            "33\n4\n",
            "the end of the old file, then the new one"
        );
        fs::write(
            path("lines-1.jsonl.zst"),
            zstd::encode_all(&b"1\n2\n33\n"[..], 0).expect("compressed"),
        )
        .expect("written");
        fs::remove_file(path("lines-1.jsonl")).expect("removed");
        test.append("lines.jsonl", "5\n");
        assert_eq!(
            test.look(&mut files),
            "5\n",
            "the compressed file was read before"
        );
        fs::write(
            path("lines-0.jsonl.zst"),
            zstd::encode_all(&b"0\n"[..], 0).expect("compressed"),
        )
        .expect("written");
        assert_eq!(test.look(&mut files), "0\n", "another compressed file");
    }

    #[test]
    fn compressed_file_is_read_behind_what_was_read_before_its_compression() {
        let test = Test::new();
        let pattern = test.folder.path().join("*").display().to_string();
        let path = |name| test.folder.path().join(name);
        for start in [Start::Since(0), Start::Behind(Positions::default())] {
            let mut files = Files::new(&pattern, start);
            test.append("a", "a1\na2\na");
            assert_eq!(test.look(&mut files), "a1\na2\n");
            // A copy was not complete, and is replaced by the whole, which is written in parts.
            let whole = frame("a1\na2\na3\na4\n");
            fs::remove_file(path("a")).expect("removed");
            append_octets(&path("a.zst"), &whole[..9]);
            assert_eq!(test.look(&mut files), "a", "the end of the old file");
            append_octets(&path("a.zst"), &whole[9..]);
            assert_eq!(test.look(&mut files), "a3\na4\n");
            append_octets(&path("a.zst"), &frame("a5\n"));
            assert_eq!(test.look(&mut files), "a5\n", "it grows");
            // Another file has the name.
            test.append("b", "b1\nb2\nb3\n");
            assert_eq!(test.look(&mut files), "b1\nb2\nb3\n");
            append_octets(&path("b.zst"), &frame("c1\n"));
            assert_eq!(test.look(&mut files), "c1\n");
            append_octets(&path("b.zst"), &frame("c2\nc3\nc4\n"));
            assert_eq!(test.look(&mut files), "c2\nc3\nc4\n");
            // Only the first line is the same.
            append_octets(&path("d.zst"), &frame("b1\n"));
            assert_eq!(test.look(&mut files), "");
            append_octets(&path("d.zst"), &frame("b4\nb5\nb6\n"));
            assert_eq!(test.look(&mut files), "b1\nb4\nb5\nb6\n");
            // Both forms are found at the same time, and the name is another one.
            test.append("e", "e1\ne2\n");
            append_octets(&path("f.zst"), &frame("e1\ne2\ne3\n"));
            let mut lines: Vec<String> = test.look(&mut files).lines().map(str::to_owned).collect();
            lines.sort();
            assert_eq!(lines, ["e1", "e2", "e3"]);
            for name in ["a.zst", "b", "b.zst", "d.zst", "e", "f.zst"] {
                fs::remove_file(path(name)).expect("removed");
            }
        }
    }

    #[test]
    fn compressed_form_of_an_old_file_is_not_read() {
        let test = Test::new();
        let path = |name| test.folder.path().join(name);
        let pattern = path("*").display().to_string();
        test.append("a", "1\n2\n");
        File::options()
            .append(true)
            .open(path("a"))
            .expect("opened")
            .set_modified(std::time::UNIX_EPOCH)
            .expect("set");
        let mut files = Files::new(&pattern, Start::Since(100_000_000_000));
        assert_eq!(test.look(&mut files), "");
        append_octets(&path("a.zst"), &frame("1\n2\n"));
        fs::remove_file(path("a")).expect("removed");
        assert_eq!(test.look(&mut files), "");
    }

    #[test]
    fn number_of_files_whose_compressed_forms_are_known_is_limited() {
        let test = Test::new();
        test.append("a", "1\n");
        let file = File::open(test.folder.path().join("a")).expect("opened");
        let mut originals = Originals::default();
        for first_line in 0..10_100 {
            originals.add(first_line, Mark::at(&file, 2));
        }
        assert_eq!(originals.len(), 10_000);
    }

    #[test]
    fn reader_for_the_archive_continues_behind_what_was_read() {
        let test = Test::new();
        let pattern = test
            .folder
            .path()
            .join("lines*.jsonl*")
            .display()
            .to_string();
        let path = |name| test.folder.path().join(name);
        test.append("lines-0.jsonl", "old\n");
        test.append("lines.jsonl", "1\n2\ntor");
        let mut files = Files::new(&pattern, Start::Behind(Positions::default()));
        assert_eq!(
            test.look(&mut files),
            "old\n1\n2\n",
            "all files are read from their beginnings"
        );
        fs::write(
            path("lines-1.jsonl.zst"),
            zstd::encode_all(&b"z\n"[..], 0).expect("compressed"),
        )
        .expect("written");
        assert_eq!(test.look(&mut files), "z\n");
        let positions = files.positions();
        // While no hub runs: the end of a line, a rotation, and a new file with an old time.
        test.append("lines.jsonl", "n\n3\n");
        fs::rename(path("lines.jsonl"), path("lines-2.jsonl")).expect("renamed");
        test.append("lines-3.jsonl", "copied\n");
        let old = File::options()
            .append(true)
            .open(path("lines-3.jsonl"))
            .expect("opened");
        old.set_modified(std::time::UNIX_EPOCH).expect("set");
        test.append("lines.jsonl", "4\n");
        let mut files = Files::new(&pattern, Start::Behind(positions));
        let mut lines: Vec<String> = test.look(&mut files).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["3", "4", "copied", "torn"]);
    }

    fn frame(text: &str) -> Vec<u8> {
        zstd::encode_all(text.as_bytes(), 0).expect("compressed")
    }

    fn append_octets(path: &Path, octets: &[u8]) {
        File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("opened")
            .write_all(octets)
            .expect("written");
    }

    #[test]
    fn old_file_that_grows_again_is_followed() {
        let test = Test::new();
        let path = test.folder.path().join("a");
        let line = |second: u64| {
            format!(
                "{{\"type\":\"event\",\"ts\":{},\"event\":\"reset\"}}\n",
                second * 1_000_000_000
            )
        };
        test.append("a", &line(1));
        File::options()
            .append(true)
            .open(&path)
            .expect("opened")
            .set_modified(std::time::UNIX_EPOCH)
            .expect("set");
        let pattern = path.display().to_string();
        let mut files = Files::new(&pattern, Start::Since(100_000_000_000));
        assert_eq!(test.look(&mut files), "");
        test.append("a", &line(200));
        assert!(test.look(&mut files).ends_with(&line(200)));
        test.append("a", &line(201));
        assert_eq!(test.look(&mut files), line(201));
    }

    #[test]
    fn compressed_file_is_followed_while_frames_are_appended() {
        let test = Test::new();
        let path = test.folder.path().join("a.zst");
        let pattern = path.display().to_string();
        let mut files = Files::new(&pattern, Start::Behind(Positions::default()));
        append_octets(&path, &frame("1\n"));
        assert_eq!(test.look(&mut files), "1\n");
        append_octets(&path, &frame("2\n3"));
        assert_eq!(test.look(&mut files), "2\n");
        let positions = files.positions();
        append_octets(&path, &[frame("3\n"), frame("4\n")].concat());
        assert_eq!(test.look(&mut files), "33\n4\n");
        assert_eq!(test.look(&mut files), "");
        let mut again = Files::new(&pattern, Start::Behind(positions));
        assert_eq!(
            test.look(&mut again),
            "2\n33\n4\n",
            "a cut line is not lost"
        );
        let mut again = Files::new(&pattern, Start::Behind(files.positions()));
        assert_eq!(test.look(&mut again), "");
        append_octets(&path, &frame("5\n"));
        assert_eq!(test.look(&mut again), "5\n");
    }

    #[test]
    fn cut_compressed_file_is_read_once_and_again_when_it_is_complete() {
        let test = Test::new();
        let path = test.folder.path().join("a.zst");
        let pattern = path.display().to_string();
        let mut files = files(&pattern);
        let text: String = (0..200_000)
            .map(|number| format!("{{\"number\":{number}}}\n"))
            .collect();
        let whole = frame(&text);
        append_octets(&path, &whole[..whole.len() - 9]);
        let first = test.look(&mut files);
        assert!(!first.is_empty() && text.starts_with(&first));
        for _ in 0..3 {
            assert_eq!(test.look(&mut files), "", "it did not change");
        }
        append_octets(&path, &whole[whole.len() - 9..]);
        assert_eq!(first + &test.look(&mut files), text);
    }

    #[test]
    fn frames_that_decoders_skip_are_skipped() {
        let test = Test::new();
        let path = test.folder.path().join("a.zst");
        let pattern = path.display().to_string();
        let mut files = files(&pattern);
        let skipped = [0x5a, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        append_octets(&path, &skipped[..2]);
        assert_eq!(test.look(&mut files), "");
        append_octets(&path, &[&skipped[2..], &frame("1\n")].concat());
        assert_eq!(test.look(&mut files), "1\n");
        append_octets(&path, &[&skipped[..], &frame("2\n")].concat());
        assert_eq!(test.look(&mut files), "2\n");
    }

    #[test]
    fn compressed_file_is_found_when_it_has_its_first_octets() {
        let test = Test::new();
        let path = test.folder.path().join("a.zst");
        let pattern = path.display().to_string();
        let (mut files, whole) = (files(&pattern), frame("1\n"));
        for part in [&whole[..0], &whole[..3], &whole[3..7]] {
            append_octets(&path, part);
            assert_eq!(test.look(&mut files), "");
        }
        append_octets(&path, &whole[7..]);
        assert_eq!(test.look(&mut files), "1\n");
    }

    #[test]
    fn fault_of_a_file_is_reported_once_until_it_is_complete() {
        let test = Test::new();
        let path = test.folder.path().join("a.zst");
        let pattern = path.display().to_string();
        let (mut files, whole) = (files(&pattern), frame("1\n"));
        append_octets(&path, &whole[..whole.len() - 1]);
        let reports = |files: &mut Files<'_>| -> Vec<&str> {
            files.expand(&test.sender).expect("the receiver is there");
            let name = |what| match what {
                What::Failed(reason)
                    if reason
                        .contains("a.zst: the compressed data is damaged or not complete (") =>
                {
                    "failed"
                }
                What::Connected => "connected",
                _ => "lines",
            };
            test.receiver
                .try_iter()
                .map(|message| name(message.what))
                .collect()
        };
        let all: Vec<_> = (0..4).map(|_| reports(&mut files)).collect();
        assert_eq!(
            all.iter()
                .filter(|reports| reports.contains(&"failed"))
                .count(),
            1,
            "{all:?}"
        );
        append_octets(&path, &whole[whole.len() - 1..]);
        assert!(reports(&mut files).contains(&"connected"));
        assert!(reports(&mut files).is_empty());
        // It is reported, grows and is not complete, and is then complete before the next look.
        append_octets(&path, &whole[..3]);
        assert!(reports(&mut files).is_empty());
        assert_eq!(reports(&mut files), ["failed"]);
        append_octets(&path, &whole[3..6]);
        assert!(reports(&mut files).is_empty());
        append_octets(&path, &whole[6..]);
        assert_eq!(reports(&mut files), ["lines", "connected"]);
        // It is removed.
        append_octets(&path, &whole[..6]);
        assert!(reports(&mut files).is_empty());
        assert_eq!(reports(&mut files), ["failed"]);
        fs::remove_file(&path).expect("removed");
        assert_eq!(reports(&mut files), ["connected"]);
    }

    #[test]
    fn renamed_file_that_grows_is_read_under_its_new_name() {
        let test = Test::new();
        let pattern = test.folder.path().join("a*").display().to_string();
        let mut files = files(&pattern);
        test.append("a", "1\n");
        assert_eq!(test.look(&mut files), "1\n");
        fs::rename(test.folder.path().join("a"), test.folder.path().join("a-1")).expect("renamed");
        assert_eq!(test.look(&mut files), "");
        test.append("a-1", "2\n");
        assert_eq!(test.look(&mut files) + &test.look(&mut files), "2\n");
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
        fs::write(&pattern, "one\ntwo\nthree\n").expect("written");
        assert_eq!(
            test.look(&mut files),
            "one\ntwo\nthree\n",
            "longer than before"
        );
        test.append("a", "four\nfi");
        assert_eq!(test.look(&mut files), "four\n");
        test.append("a", "ve\n");
        assert_eq!(test.look(&mut files), "five\n");
    }

    #[test]
    fn file_that_was_written_anew_while_no_hub_ran_is_read_from_its_beginning() {
        let test = Test::new();
        let path = |name| test.folder.path().join(name);
        let pattern = path("*").display().to_string();
        let saved = path("a").with_extension("positions");
        fs::write(path("a"), "1\n2\ntor").expect("written");
        fs::write(path("b.zst"), frame("b1\n")).expect("written");
        let again = |positions: &Positions| {
            positions.save(&saved).expect("saved");
            let positions = Positions::load(&saved).expect("read");
            fs::remove_file(&saved).expect("removed");
            let mut files = Files::new(&pattern, Start::Behind(positions));
            let mut lines: Vec<String> = test.look(&mut files).lines().map(str::to_owned).collect();
            lines.sort();
            (lines.join(" "), files.positions())
        };
        let (lines, positions) = again(&Positions::default());
        assert_eq!(lines, "1 2 b1");
        fs::write(path("a"), "1\n2\ntorn\n").expect("written");
        fs::write(path("b.zst"), [frame("b1\n"), frame("b2\n")].concat()).expect("written");
        let (lines, positions) = again(&positions);
        assert_eq!(lines, "b2 torn", "the octets before are the same");
        fs::write(path("a"), "3\n4\n5\n6\n7\n8\n9\n").expect("written");
        let longer: String = (0..99).map(|number| format!("c{number:02}\n")).collect();
        fs::write(path("b.zst"), frame(&longer)).expect("written");
        let (lines, _) = again(&positions);
        assert_eq!(
            lines,
            format!("3 4 5 6 7 8 9 {}", longer.trim_end().replace('\n', " "))
        );
    }

    #[test]
    fn old_records_of_a_long_file_are_skipped() {
        const SECOND: u64 = 1_000_000_000;
        let mut text = String::new();
        for second in 0..100_000 {
            writeln!(
                text,
                "{{\"type\":\"event\",\"ts\":{},\"event\":\"reset\",\"detail\":\"some words\"}}",
                second * SECOND
            )
            .expect("written");
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let start = start_of(&mut file, 90_000 * SECOND).expect("read");
        let first = Head::of(
            text[start as usize..]
                .lines()
                .next()
                .expect("a line")
                .as_bytes(),
        )
        .expect("a record");
        assert!(
            (70_000 * SECOND..=90_000 * SECOND).contains(&first.ts),
            "{}",
            first.ts
        );
        assert_eq!(start_of(&mut file, 0).expect("read"), 0);
    }
}
