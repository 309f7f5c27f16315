//! Tests of file outputs. Files are rotated by the times of the batches, so the tests do not wait
//! for a clock.

use std::path::Path;

use super::super::batch::{Batch, short};
use super::super::*;
use super::*;

const SECOND: u64 = 1_000_000_000;

/// A slot of two records; the second is a `sweep` record.
fn slot(number: u64) -> Batch {
    let bytes = format!("port {number}\n").into_bytes();
    let sweep = Some((bytes.len(), short::sweep(number)));
    Batch {
        bytes,
        lines: 2,
        ts: number * SECOND,
        sweep,
        gap: Some(short::gap()),
        ..Batch::default()
    }
}

fn to_file(path: &Path, change: impl FnOnce(&mut FileOptions)) -> Output {
    let mut options = FileOptions {
        path: path.to_owned(),
        ..FileOptions::default()
    };
    change(&mut options);
    Destination::File(options).into()
}

/// A file output whose writer runs on the thread of the test.
struct Rig {
    outlet: Outlet,
    inbox: Inbox,
    output: Box<FileOutput>,
}

impl Rig {
    fn new(output: &Output) -> Self {
        let (outlet, mut writers) = open(std::slice::from_ref(output)).expect("opened");
        let Some(Writer {
            inbox,
            open: Open::File(output),
            ..
        }) = writers.pop()
        else {
            panic!("it is a file")
        };
        outlet.start(short::start("a"));
        Self {
            outlet,
            inbox,
            output,
        }
    }

    fn write(&mut self, number: u64) {
        self.outlet.offer(slot(number));
        while let Some(message) = self.inbox.ready() {
            self.output.take(&message, &self.inbox);
        }
    }
}

/// Returns all files of a folder by name, with their abbreviated text.
fn files(folder: &Path) -> Vec<(String, String)> {
    let read = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (
            entry.file_name().into_string().expect("text"),
            short::of(&fs::read_to_string(entry.path()).expect("read")),
        )
    };
    let mut files: Vec<_> = fs::read_dir(folder).expect("read").map(read).collect();
    files.sort();
    files
}

fn as_texts(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect()
}

#[test]
fn torn_last_line_of_an_earlier_run_is_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    fs::write(&path, "whole\nto").expect("written");
    for number in [1, 2] {
        Rig::new(&to_file(&path, |_| {})).write(number);
    }
    let text = short::of(&fs::read_to_string(&path).expect("read"));
    assert_eq!(
        text,
        "whole\nto\nstart a seq=0\nport 1\nsweep 1 lost=0\nstart a seq=0\nport 2\nsweep 2 lost=0\n"
    );
}

#[test]
fn file_is_not_readable_by_other_users() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    Rig::new(&to_file(&folder.path().join("lines"), |_| {})).write(1);
    let mode = fs::metadata(folder.path().join("lines"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}");
}

#[test]
fn file_is_rotated_where_the_clock_passes_a_multiple_of_the_period() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = Rig::new(&to_file(&folder.path().join("lines.jsonl"), |options| {
        options.rotate_every = Some(Duration::from_secs(60));
    }));
    rig.outlet.clone().start(short::start("b"));
    let second = rig.outlet.clone();
    second.start(short::start("c"));
    // The first slot is in a later period than the `start` records. A file with `start` records
    // only is not rotated.
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
            // The source of b has ended.
            (
                "lines-19700101T000305Z.jsonl",
                "start a seq=1\nstart c seq=1\nport 120\nsweep 120 lost=0\nport 121\nsweep 121 lost=0\n"
            ),
            (
                "lines.jsonl",
                "start a seq=2\nstart c seq=2\nport 185\nsweep 185 lost=0\n"
            ),
        ]
    );
}

#[test]
fn file_is_rotated_before_it_exceeds_its_size_and_the_oldest_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut head = Vec::new();
    ibnet_record::write(&short::start("a"), &mut head);
    // The size of the head and two slots.
    let most = head.len() as u64 + 2 * slot(1).octets();
    let mut rig = Rig::new(&to_file(&folder.path().join("lines"), |options| {
        (options.rotate_octets, options.keep) = (Some(most), Some(2));
    }));
    (1..=7).for_each(|number| rig.write(number));
    let files = files(folder.path());
    assert_eq!(
        as_texts(&files),
        [
            ("lines", "start a seq=3\nport 7\nsweep 7 lost=0\n"),
            (
                "lines-19700101T000005Z",
                "start a seq=1\nport 3\nsweep 3 lost=0\nport 4\nsweep 4 lost=0\n"
            ),
            (
                "lines-19700101T000007Z",
                "start a seq=2\nport 5\nsweep 5 lost=0\nport 6\nsweep 6 lost=0\n"
            ),
        ]
    );
    let sizes = fs::read_dir(folder.path())
        .expect("read")
        .map(|entry| entry.expect("an entry").metadata().expect("examined").len());
    assert!(sizes.into_iter().all(|size| size <= most));
}

#[test]
fn file_of_an_earlier_period_is_rotated_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines");
    fs::write(&path, "old\n").expect("written");
    File::options()
        .write(true)
        .open(&path)
        .expect("opened")
        .set_modified(UNIX_EPOCH)
        .expect("set");
    let mut rig = Rig::new(&to_file(&path, |options| {
        options.rotate_every = Some(Duration::from_secs(60));
    }));
    rig.write(90);
    // The new file, which has `start` records only, is not rotated.
    rig.write(91);
    let files = files(folder.path());
    assert_eq!(
        as_texts(&files),
        [
            (
                "lines",
                "start a seq=1\nport 90\nsweep 90 lost=0\nport 91\nsweep 91 lost=0\n"
            ),
            ("lines-19700101T000130Z", "old\nstart a seq=0\n")
        ]
    );
}

#[test]
fn moved_removed_or_truncated_file_gets_new_start_records() {
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
            (
                "lines",
                "start a seq=2\nport 3\nsweep 3 lost=0\nport 4\nsweep 4 lost=0\n"
            ),
            ("moved", "start a seq=0\nport 1\nsweep 1 lost=0\n")
        ]
    );
    File::options()
        .write(true)
        .open(&path)
        .expect("opened")
        .set_len(0)
        .expect("emptied");
    rig.write(5);
    assert_eq!(
        short::of(&fs::read_to_string(&path).expect("read")),
        "start a seq=3\nport 5\nsweep 5 lost=0\n"
    );
}

#[test]
fn records_dropped_by_a_full_disk_are_reported_after_space_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, roomy) = (folder.path().join("lines"), folder.path().join("roomy"));
    std::os::unix::fs::symlink("/dev/full", &path).expect("linked");
    let mut rig = Rig::new(&to_file(&path, |_| {}));
    (1..=3).for_each(|number| rig.write(number));
    assert_eq!(rig.output.stream.unreported(), 6);
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&roomy, &path).expect("linked");
    (4..=5).for_each(|number| rig.write(number));
    let text = short::of(&fs::read_to_string(&roomy).expect("read"));
    assert_eq!(
        text,
        "start a seq=0\ngap=6\nport 4\nsweep 4 lost=6\nport 5\nsweep 5 lost=0\n"
    );
    assert_eq!(rig.output.stream.unreported(), 0);
}

#[test]
fn folder_that_was_removed_is_used_again_when_it_exists() {
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
    assert_eq!(
        short::of(&fs::read_to_string(inner.join("lines")).expect("read")),
        "start a seq=1\ngap=4\nport 4\nsweep 4 lost=4\n"
    );
}

#[test]
fn unreported_records_are_counted_at_the_end() {
    let (outlet, mut writers) = open(&[to_file(Path::new("/dev/full"), |_| {})]).expect("opened");
    outlet.start(short::start("a"));
    outlet.offer(slot(1));
    drop(outlet);
    let finished = writers.pop().map(Writer::run).expect("one output");
    assert_eq!(
        (
            &*finished.name,
            finished.kind,
            finished.end,
            finished.dropped
        ),
        ("/dev/full", Kind::File, End::Complete, 2)
    );
    assert!(finished.is_failure());
}

#[test]
fn error_names_the_file_that_cannot_be_opened() {
    let error = open(&[to_file(Path::new("/no/such/folder/lines"), |_| {})])
        .map(|_| ())
        .expect_err("no such folder");
    assert!(
        error.to_string().contains("/no/such/folder/lines"),
        "{error}"
    );
}

#[test]
fn uncompressed_file_of_an_earlier_run_is_compressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = folder.path().join("lines-20261121T113657Z.jsonl");
    fs::write(&left, "line\n".repeat(1000)).expect("written");
    let rig = Rig::new(&to_file(&folder.path().join("lines.jsonl"), |options| {
        options.compress = true;
    }));
    // The compressing thread removes the file when the compressed one is complete.
    drop(rig);
    let whole = folder.path().join("lines-20261121T113657Z.jsonl.zst");
    while left.exists() {
        std::thread::yield_now();
    }
    assert_eq!(
        zstd::stream::decode_all(File::open(whole).expect("there"))
            .expect("whole")
            .len(),
        5000
    );
}

#[test]
fn records_in_memory_are_those_of_a_file() {
    let (outlet, lines) = Destination::memory();
    outlet.start(short::start("a"));
    outlet.offer(slot(1));
    assert_eq!(
        (short::of(&lines.text()).as_str(), lines.text().as_str()),
        ("start a seq=0\nport 1\nsweep 1 lost=0\n", "")
    );
}
