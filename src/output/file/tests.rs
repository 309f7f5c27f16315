//! Files, as the sweep fills them: by the times that batches carry, so nothing here waits for a clock.

use std::path::Path;

use super::super::*;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// A slot of two lines, the second of which says how many are missing.
fn slot(number: u64) -> Batch {
    let bytes = format!("port {number}\nsweep {number} lost=0\n").into_bytes();
    let (lost_at, gap) = (place(&bytes, "lost="), Blank::new(b"gap=0\n".to_vec(), "gap="));
    Batch { bytes, lines: 2, ts: number * SECOND, lost_at, gap }
}

fn start(sampler: &str) -> Start {
    let line = Blank::new(format!("start {sampler} seq=0\n").into_bytes(), "seq=");
    Start { line, sampler: sampler.to_owned(), ts: 0 }
}

fn to_file(path: &Path, change: impl FnOnce(&mut FileOptions)) -> Output {
    let mut options = FileOptions { path: path.to_owned(), ..FileOptions::default() };
    change(&mut options);
    Destination::File(options).into()
}

/// A file sink that does its work when it is told to, on this thread.
struct Rig {
    outlet: Outlet,
    inbox: Inbox,
    sink: Box<FileSink>,
}

impl Rig {
    fn new(output: &Output) -> Self {
        let (outlet, mut writers) = open(std::slice::from_ref(output)).expect("opened");
        let Some(Writer { inbox, sink: Sink::File(sink) }) = writers.pop() else { panic!("it is a file") };
        outlet.start(start("a"));
        Self { outlet, inbox, sink }
    }

    fn write(&mut self, number: u64) {
        self.outlet.offer(slot(number));
        while let Some(message) = self.inbox.ready() {
            self.sink.take(&message);
        }
    }
}

/// All files of a folder by name, with their text.
fn files(folder: &Path) -> Vec<(String, String)> {
    let read = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (entry.file_name().into_string().expect("text"), fs::read_to_string(entry.path()).expect("read"))
    };
    let mut files: Vec<_> = fs::read_dir(folder).expect("read").map(read).collect();
    files.sort();
    files
}

fn as_texts(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

#[test]
fn a_torn_last_line_is_closed_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    fs::write(&path, "whole\nto").expect("written");
    for number in [1, 2] {
        Rig::new(&to_file(&path, |_| {})).write(number);
    }
    let text = fs::read_to_string(&path).expect("read");
    assert_eq!(text, "whole\nto\nstart a seq=0\nport 1\nsweep 1 lost=0\nstart a seq=0\nport 2\nsweep 2 lost=0\n");
}

#[test]
fn a_file_is_its_user_s_and_group_s() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    Rig::new(&to_file(&folder.path().join("lines"), |_| {})).write(1);
    let mode = fs::metadata(folder.path().join("lines")).expect("there").permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}");
}

#[test]
fn a_file_is_closed_where_the_clock_passes_a_multiple() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = Rig::new(&to_file(&folder.path().join("lines.jsonl"), |options| options.rotate_every = Some(Duration::from_secs(60))));
    rig.outlet.clone().start(start("b"));
    let second = rig.outlet.clone();
    second.start(start("c"));
    // The first slot is of another period than the start: that alone closes nothing.
    for number in [118, 119, 120, 121, 185] {
        rig.write(number);
    }
    let files = files(folder.path());
    assert_eq!(
        as_texts(&files),
        [
            (
                "lines-19700101T000200Z.jsonl",
                "start a seq=0\nstart b seq=0\nstart c seq=0\nport 118\nsweep 118 lost=0\nport 119\nsweep 119 lost=0\n"
            ),
            // Nobody comes b's way any more.
            ("lines-19700101T000305Z.jsonl", "start a seq=1\nstart c seq=1\nport 120\nsweep 120 lost=0\nport 121\nsweep 121 lost=0\n"),
            ("lines.jsonl", "start a seq=2\nstart c seq=2\nport 185\nsweep 185 lost=0\n"),
        ]
    );
}

#[test]
fn a_file_is_closed_before_it_is_too_large_and_the_oldest_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = Rig::new(&to_file(&folder.path().join("lines"), |options| (options.rotate_octets, options.keep) = (Some(60), Some(2))));
    (1..=7).for_each(|number| rig.write(number));
    let files = files(folder.path());
    assert_eq!(
        as_texts(&files),
        [
            ("lines", "start a seq=3\nport 7\nsweep 7 lost=0\n"),
            ("lines-19700101T000005Z", "start a seq=1\nport 3\nsweep 3 lost=0\nport 4\nsweep 4 lost=0\n"),
            ("lines-19700101T000007Z", "start a seq=2\nport 5\nsweep 5 lost=0\nport 6\nsweep 6 lost=0\n"),
        ]
    );
    assert!(files.iter().all(|(_, text)| text.len() <= 60));
}

#[test]
fn a_file_of_another_day_is_closed_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    fs::write(&path, "old\n").expect("written");
    File::options().write(true).open(&path).expect("opened").set_modified(UNIX_EPOCH).expect("set");
    let mut rig = Rig::new(&to_file(&path, |options| options.rotate_every = Some(Duration::from_secs(60))));
    rig.write(90);
    // Its own head is no reason to close the new one.
    rig.write(91);
    let files = files(folder.path());
    assert_eq!(
        as_texts(&files),
        [
            ("lines", "start a seq=1\nport 90\nsweep 90 lost=0\nport 91\nsweep 91 lost=0\n"),
            ("lines-19700101T000130Z", "old\nstart a seq=0\n")
        ]
    );
}

#[test]
fn a_file_that_is_moved_away_or_emptied_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    let mut rig = Rig::new(&to_file(&path, |_| {}));
    rig.write(1);
    fs::rename(&path, folder.path().join("moved")).expect("renamed");
    rig.write(2);
    fs::remove_file(&path).expect("removed");
    rig.write(3);
    rig.write(4);
    let files_now = files(folder.path());
    assert_eq!(
        as_texts(&files_now),
        [
            ("lines", "start a seq=2\nport 3\nsweep 3 lost=0\nport 4\nsweep 4 lost=0\n"),
            ("moved", "start a seq=0\nport 1\nsweep 1 lost=0\n")
        ]
    );
    File::options().write(true).open(&path).expect("opened").set_len(0).expect("emptied");
    rig.write(5);
    assert_eq!(fs::read_to_string(&path).expect("read"), "start a seq=3\nport 5\nsweep 5 lost=0\n");
}

#[test]
fn a_full_disk_loses_lines_and_tells_how_many_once_it_has_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, roomy) = (folder.path().join("lines"), folder.path().join("roomy"));
    std::os::unix::fs::symlink("/dev/full", &path).expect("linked");
    let mut rig = Rig::new(&to_file(&path, |_| {}));
    (1..=3).for_each(|number| rig.write(number));
    assert_eq!(rig.sink.stream.untold(), 6);
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&roomy, &path).expect("linked");
    (4..=5).for_each(|number| rig.write(number));
    let text = fs::read_to_string(&roomy).expect("read");
    assert_eq!(text, "start a seq=0\ngap=6\nport 4\nsweep 4 lost=6\nport 5\nsweep 5 lost=0\n");
    assert_eq!(rig.sink.stream.untold(), 0);
}

#[test]
fn a_folder_that_went_away_is_used_again_once_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let mut rig = Rig::new(&to_file(&inner.join("lines"), |_| {}));
    rig.write(1);
    fs::remove_dir_all(&inner).expect("removed");
    rig.write(2);
    rig.write(3);
    fs::create_dir(&inner).expect("made");
    rig.write(4);
    assert_eq!(fs::read_to_string(inner.join("lines")).expect("read"), "start a seq=1\ngap=4\nport 4\nsweep 4 lost=4\n");
}

#[test]
fn what_nobody_was_told_of_is_counted_in_the_end() {
    let (outlet, mut writers) = open(&[to_file(Path::new("/dev/full"), |_| {})]).expect("opened");
    outlet.start(start("a"));
    outlet.offer(slot(1));
    drop(outlet);
    assert_eq!(writers.pop().map(Writer::run), Some(Ended::Untold { lines: 2 }));
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let error = open(&[to_file(Path::new("/no/such/folder/lines"), |_| {})]).map(|_| ()).expect_err("no such folder");
    assert!(error.to_string().starts_with("/no/such/folder/lines:"), "{error}");
}

#[test]
fn a_closed_file_that_was_left_is_compressed_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = folder.path().join("lines-20261121T113657Z.jsonl");
    fs::write(&left, "line\n".repeat(1000)).expect("written");
    let rig = Rig::new(&to_file(&folder.path().join("lines.jsonl"), |options| options.compress = true));
    // The compressor ends when nothing can come any more; until it has, the file is there.
    drop(rig);
    let whole = folder.path().join("lines-20261121T113657Z.jsonl.zst");
    while left.exists() {
        std::thread::yield_now();
    }
    assert_eq!(zstd::stream::decode_all(File::open(whole).expect("there")).expect("whole").len(), 5000);
}

#[test]
fn lines_in_memory_are_as_they_would_be_in_a_file() {
    let (outlet, lines) = Destination::memory();
    outlet.start(start("a"));
    outlet.offer(slot(1));
    assert_eq!((lines.text().as_str(), lines.text().as_str()), ("start a seq=0\nport 1\nsweep 1 lost=0\n", ""));
}
