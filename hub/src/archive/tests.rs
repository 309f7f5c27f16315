//! Spool and packing without processes. `tests/program` has the program as a whole.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ibnet_store::archive::Archive;
use ibnet_store::read::ArchiveFile;
use ibnet_store::retain::Keep;
use ibnet_store::schema::TableName;

use super::packing::Work;
use super::spool::{Spool, SpoolError};
use super::status::{Shared, Status};
use crate::config::Packing;
use crate::events::Filter;
use crate::ingest::Clock;
use crate::query::tests::{hub, lines};
use crate::state::Hub;

/// A hub that packs, without its thread.
struct Test {
    folder: tempfile::TempDir,
    hub: Arc<Hub>,
    spool: Arc<Spool>,
    status: Arc<Shared>,
    packing: Packing,
}

impl Test {
    fn new(spool_max: u64, keep: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let packing = Packing {
            archive: folder.path().join("archive"),
            every: Duration::from_secs(600),
            spool_max,
            keep: keep
                .iter()
                .map(|rule| Keep::of_age(rule).expect("a rule"))
                .collect(),
            consumer: "x".to_owned(),
        };
        let status = Arc::new(Shared::default());
        let spool = Arc::new(
            Spool::open(&packing.archive, spool_max, Arc::clone(&status)).expect("a spool"),
        );
        Self {
            folder,
            hub: Arc::new(hub(&[])),
            spool,
            status,
            packing,
        }
    }

    fn work(&self) -> Work {
        Work::new(
            Arc::clone(&self.hub),
            self.packing.clone(),
            Arc::clone(&self.spool),
            Arc::clone(&self.status),
            Clock::start(),
        )
    }

    fn status(&self) -> Status {
        self.status.lock().clone()
    }
}

/// Returns all lines of an archive, sorted.
fn archived(root: &Path) -> Vec<serde_json::Value> {
    let archive = Archive::open(root).expect("an archive");
    let mut all = Vec::new();
    for table in TableName::ALL {
        for (_, path) in archive.files(table).expect("listed") {
            let rows = ArchiveFile::open(&path)
                .expect("opened")
                .read_all()
                .expect("read");
            for row in 0..rows.len() {
                let mut line = Vec::new();
                rows.write_line(row, &mut line);
                all.push(serde_json::from_slice(&line).expect("JSON"));
            }
        }
    }
    all.sort_by_key(ToString::to_string);
    all
}

fn parsed(lines: &[String]) -> Vec<serde_json::Value> {
    let mut all: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    all.sort_by_key(ToString::to_string);
    all
}

#[test]
fn archive_has_each_line_of_the_spool_once() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    let (first, last) = lines.split_at(lines.len() / 2);
    test.spool
        .add((first.join("\n") + "\nno record\n").as_bytes())
        .expect("added");
    test.work().pack(7).expect("packed");
    // The last line has no line feed, and some lines come again.
    test.spool.add(last.join("\n").as_bytes()).expect("added");
    test.spool
        .add(first[..100].join("\n").as_bytes())
        .expect("added");
    assert!(test.status().spool_octets > 0);
    test.work().pack(8).expect("packed");
    assert_eq!(archived(&test.packing.archive), parsed(&lines));
    let status = test.status();
    assert_eq!(
        (status.added, status.copies, status.malformed),
        (lines.len() as u64, 100, 1)
    );
    assert_eq!(
        (
            status.packed_ns,
            status.spool_octets,
            status.lines_lost,
            status.error
        ),
        (Some(8), 0, 0, None)
    );
}

#[test]
fn spool_of_an_earlier_version_is_packed() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/earlier");
    let Test {
        folder,
        hub,
        spool,
        status,
        packing,
    } = Test::new(1 << 24, &[]);
    drop(spool);
    let name = "lines-000000000000.jsonl.zst";
    fs::copy(
        data.join("spool").join(name),
        packing.archive.join(".spool").join(name),
    )
    .expect("copied");
    let spool =
        Arc::new(Spool::open(&packing.archive, 1 << 24, Arc::clone(&status)).expect("a spool"));
    let test = Test {
        folder,
        hub,
        spool,
        status,
        packing,
    };
    test.work().pack(8).expect("packed");
    // The archive of that version has the same records.
    let records = archived(&test.packing.archive);
    assert!(!records.is_empty() && records == archived(&data.join("archive")));
}

#[test]
fn spool_of_a_killed_hub_is_packed() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    let (first, last) = lines.split_at(20);
    for line in first {
        test.spool.add(line.as_bytes()).expect("added");
    }
    let Test {
        folder,
        hub,
        spool,
        status,
        packing,
    } = test;
    drop(spool);
    // The last frame is torn.
    let path = packing.archive.join(".spool/lines-000000000000.jsonl.zst");
    let octets = fs::metadata(&path).expect("a file").len();
    fs::File::options()
        .write(true)
        .open(&path)
        .expect("opened")
        .set_len(octets - 3)
        .expect("cut");
    let spool =
        Arc::new(Spool::open(&packing.archive, 1 << 24, Arc::clone(&status)).expect("a spool"));
    let test = Test {
        folder,
        hub,
        spool,
        status,
        packing,
    };
    let mut reader = test.spool.lines(&path).expect("opened");
    while reader.read().is_some() {}
    assert!(
        reader.torn > 0 && reader.damaged == 0,
        "{} octets torn, {} frames damaged",
        reader.torn,
        reader.damaged
    );
    test.spool.add(last.join("\n").as_bytes()).expect("added");
    test.spool
        .add(first[19].as_bytes())
        .expect("a reader that keeps its lines adds the torn line again");
    test.work().pack(7).expect("packed");
    assert_eq!(archived(&test.packing.archive), parsed(&lines));
    assert!(test.folder.path().exists());
}

#[test]
fn full_spool_loses_lines_of_live_inputs_and_reports_them() {
    let test = Test::new(1000, &[]);
    let lines = lines();
    let text = lines[..10].join("\n") + "\n";
    let mut offered = 0;
    while test.status().lines_lost == 0 {
        test.spool.offer(text.as_bytes());
        offered += 1;
        assert!(offered < 100, "the limit is kept");
    }
    let mut work = test.work();
    work.report();
    let status = test.status();
    let error = status.error.expect("an error");
    assert!(
        error.contains("the limit is 1000; correct the fault"),
        "{error}"
    );
    assert!(status.lines_lost == 10 && status.spool_octets <= 1000);
    assert!(matches!(
        test.spool.add(text.as_bytes()),
        Err(SpoolError::Full { .. })
    ));
    // Packing makes room.
    work.pack(7).expect("packed");
    test.spool.offer(text.as_bytes());
    work.report();
    assert_eq!(test.status().error, None);
    let names: Vec<String> = test
        .hub
        .read()
        .events(&Filter::all())
        .into_iter()
        .map(|row| row.event)
        .collect();
    assert!(
        names.contains(&"archive_failed".to_owned()) && names.contains(&"archive_back".to_owned()),
        "{names:?}"
    );
}

#[test]
fn failed_run_keeps_the_spool() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    test.spool.add(lines.join("\n").as_bytes()).expect("added");
    let file = test
        .packing
        .archive
        .join("ports/date=2023-11-14/hour=22/ports.parquet");
    fs::create_dir_all(file.parent().expect("a folder")).expect("created");
    fs::write(&file, "damaged").expect("written");
    let before = test.status().spool_octets;
    assert!(test.work().pack(7).is_err());
    assert_eq!(
        (test.status().spool_octets, test.status().packed_ns),
        (before, None)
    );
    fs::remove_file(&file).expect("removed");
    test.work().pack(8).expect("packed");
    assert_eq!(archived(&test.packing.archive), parsed(&lines));
}

#[test]
fn damaged_file_of_the_spool_is_kept_aside() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    test.spool
        .add(lines[..9].join("\n").as_bytes())
        .expect("added");
    test.spool.oldest(u64::MAX).expect("closed");
    let path = test.spool.folder().join("lines-000000000000.jsonl.zst");
    let mut octets = fs::read(&path).expect("read");
    octets.extend(b"this is no frame of zstd, and more than its first octets");
    fs::write(&path, octets).expect("written");
    test.spool
        .add(lines[9..].join("\n").as_bytes())
        .expect("added");
    test.work().pack(7).expect("packed");
    assert_eq!(
        archived(&test.packing.archive),
        parsed(&lines),
        "the lines before the damage"
    );
    assert!(
        test.spool
            .folder()
            .join("lines-000000000000.jsonl.damaged")
            .exists()
    );
    assert_eq!(test.status().spool_octets, 0);
}

#[test]
fn damaged_frames_are_counted_and_no_other_frame_is_lost() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    let name = "lines-000000000000.jsonl.zst";
    let path = test.spool.folder().join(name);
    // Three frames with a line each. `ends` are the ends of the frames.
    let ends = [0, 1, 2].map(|line| {
        test.spool.add(lines[line].as_bytes()).expect("added");
        fs::metadata(&path).expect("a file").len() as usize
    });
    test.spool.oldest(u64::MAX).expect("closed");
    let whole = fs::read(&path).expect("read");
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, &damaged).expect("written");
        let mut reader = test.spool.lines(&path).expect("opened");
        let text = std::iter::from_fn(|| reader.read())
            .flatten()
            .collect::<Vec<u8>>();
        let at = ends.iter().position(|end| place < *end).expect("a frame");
        let others: String = (0..3)
            .filter(|line| *line != at)
            .map(|line| lines[line].clone() + "\n")
            .collect();
        // Some bits of a frame mean nothing.
        let all = lines[..3].join("\n") + "\n";
        assert!(
            text == others.as_bytes() && reader.damaged == 1 || text == all.as_bytes(),
            "octet {place}: {} damaged",
            reader.damaged
        );
    }
    let mut damaged = whole;
    damaged[ends[1] - 6] ^= 1;
    fs::write(&path, &damaged).expect("written");
    test.work().pack(7).expect("packed");
    // The next hub gives its file the same name.
    let Test {
        folder,
        hub,
        spool,
        status,
        packing,
    } = test;
    drop(spool);
    let spool =
        Arc::new(Spool::open(&packing.archive, 1 << 24, Arc::clone(&status)).expect("a spool"));
    let test = Test {
        folder,
        hub,
        spool,
        status,
        packing,
    };
    test.spool.add(lines[0].as_bytes()).expect("added");
    test.spool.oldest(u64::MAX).expect("closed");
    fs::write(&path, &damaged[1..]).expect("written");
    test.work().pack(8).expect("packed");
    assert_eq!(
        archived(&test.packing.archive),
        parsed(&[lines[0].clone(), lines[2].clone()])
    );
    assert_eq!(test.status().damaged, 3);
    let kept = |name: &str| fs::read(test.spool.folder().join(name)).expect("kept");
    assert!(
        kept("lines-000000000000.jsonl.damaged") == damaged
            && kept("lines-000000000000.jsonl.damaged.1") == damaged[1..]
    );
    assert!(test.folder.path().exists() && !path.exists());
}

#[test]
fn large_spool_is_packed_in_several_runs_and_a_killed_hub_continues() {
    let test = Test::new(1 << 24, &[]);
    let lines = lines();
    for some in lines.chunks(lines.len() / 4 + 1) {
        test.spool
            .add((some.join("\n") + "\n").as_bytes())
            .expect("added");
        assert!(test.spool.oldest(u64::MAX).expect("closed").is_all);
    }
    let spooled = test.status().spool_octets;
    assert!(
        !test.work().with_run(1).pack(7).expect("packed"),
        "more lines wait"
    );
    let status = test.status();
    let packed_ns = status.packed_ns.expect("a time");
    assert!(
        status.spool_octets < spooled && packed_ns > 1_700_000_000_000_000_000,
        "the time of the last line that is packed"
    );
    // The hub is killed after the records are in the archive, and before their lines are removed.
    let oldest = test.spool.oldest(1).expect("closed").files;
    let octets = fs::read(&oldest[0]).expect("read");
    assert!(!test.work().with_run(1).pack(8).expect("packed"));
    fs::write(&oldest[0], octets).expect("written");
    let Test {
        folder,
        hub,
        spool,
        status,
        packing,
    } = test;
    drop(spool);
    let spool =
        Arc::new(Spool::open(&packing.archive, 1 << 24, Arc::clone(&status)).expect("a spool"));
    let test = Test {
        folder,
        hub,
        spool,
        status,
        packing,
    };
    let runs = (1..9).find(|_| test.work().with_run(1).pack(9).expect("packed"));
    assert_eq!(runs, Some(3));
    assert_eq!(archived(&test.packing.archive), parsed(&lines));
    assert_eq!(
        (test.status().packed_ns, test.status().spool_octets),
        (Some(9), 0)
    );
    assert!(test.folder.path().exists());
}

#[test]
fn lines_that_wait_too_long_are_reported_with_a_remedy() {
    let test = Test::new(1 << 24, &[]);
    test.spool
        .add(lines().join("\n").as_bytes())
        .expect("added");
    let [path] = &test.spool.oldest(u64::MAX).expect("closed").files[..] else {
        panic!("a file")
    };
    let now_ns = 1_700_000_000_000_000_000;
    let written = |seconds| {
        let time =
            std::time::UNIX_EPOCH + Duration::from_nanos(now_ns) - Duration::from_secs(seconds);
        fs::File::options()
            .write(true)
            .open(path)
            .expect("opened")
            .set_modified(time)
            .expect("set");
    };
    let mut work = test.work();
    // Two periods and five minutes.
    written(1500);
    work.check(now_ns);
    assert!(
        test.status()
            .error
            .is_none_or(|error| error.contains("disk"))
    );
    written(1501);
    work.check(now_ns);
    work.report();
    let error = test.status().error.expect("an error");
    assert!(error.starts_with("packing is slower than the records arrive: lines wait for 25m 1s in the spool (found 0.0 GiB"), "{error}");
    assert!(error.contains("free a core"), "{error}");
    work.pack(now_ns).expect("packed");
    work.check(now_ns);
    work.report();
    let names: Vec<String> = test
        .hub
        .read()
        .events(&Filter::all())
        .into_iter()
        .map(|row| row.event)
        .collect();
    assert!(names.contains(&"archive_behind".to_owned()), "{names:?}");
    assert!(
        test.status()
            .error
            .is_none_or(|error| error.contains("disk"))
    );
}

#[test]
fn old_hours_are_removed_and_do_not_return() {
    let test = Test::new(1 << 24, &["ports=1h"]);
    let day = 86_400_000_000_000;
    let later: Vec<String> = lines()
        .iter()
        .map(|line| line.replace("\"ts\":17000", "\"ts\":17001"))
        .filter(|line| line.contains("\"type\":\"port\""))
        .collect();
    test.spool
        .add((lines().join("\n") + "\n" + &later.join("\n")).as_bytes())
        .expect("added");
    test.work()
        .pack(1_700_100_000_000_000_000 + day)
        .expect("packed");
    assert_eq!(test.status().files_removed, 1);
    test.spool
        .add(lines().join("\n").as_bytes())
        .expect("added");
    test.work()
        .pack(1_700_100_000_000_000_000 + day)
        .expect("packed");
    let ports = lines()
        .iter()
        .filter(|line| line.contains("\"type\":\"port\""))
        .count();
    assert_eq!(test.status().expired, ports as u64);
}

#[test]
fn second_hub_is_refused() {
    let test = Test::new(1 << 24, &[]);
    let error = Spool::open(&test.packing.archive, 1, Arc::default()).expect_err("locked");
    assert!(matches!(error, SpoolError::Busy { .. }), "{error}");
}
