//! Runs `ibnet-view pack` with faults: a killed process, a full disk, torn and repeated files, a
//! wrong clock, and the removal of old hours.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

const VIEW: &str = env!("CARGO_BIN_EXE_ibnet-view");
const SECOND: u64 = 1_000_000_000;
/// The signal of a write beyond the largest size of a file.
const SIGXFSZ: i32 = 25;
/// 2026-11-21 12:00:00 UTC.
const START: u64 = 1_795_262_400;

/// Returns the records of 20 ports in three hours, one for each minute.
fn lines(clock: u64) -> String {
    let line = |minute: u64, port: u64| {
        let (slot, ts) = (
            clock + minute * 60,
            (clock + minute * 60) * SECOND + port * 1000 + minute % 7,
        );
        format!(
            "{{\"type\":\"port\",\"ts\":{ts},\"slot\":{slot},\"sampler\":\"s\",\"guid\":\"0x{port:016x}\",\"port\":1,\"lid\":{port},\"node\":\"n{port}\",\
             \"kind\":\"hca\",\"status\":\"ok\",\"rtt_ns\":{},\"mads\":2,\"dt_ns\":{SECOND},\"xmit_gbps\":{}.5,\"port_xmit_data_bytes\":{ts}}}\n",
            ts % 7919,
            minute % 90
        )
    };
    (0..180)
        .flat_map(|minute| (1..=20).map(move |port| line(minute, port)))
        .collect()
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.jsonl"), lines(START)).unwrap();
    dir
}

fn view(dir: &Path, args: &[&str]) -> Output {
    Command::new(VIEW)
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap()
}

/// Packs, and returns standard output and standard error.
fn pack(dir: &Path, args: &[&str]) -> (String, String) {
    let output = view(dir, &[&["pack"], args].concat());
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the paths and the contents of all data files. A folder that does not exist has none.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(Result::unwrap)
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type().unwrap().is_dir() {
                _ if name.starts_with('.') => {}
                true => folders.push(entry.path()),
                false => drop(files.insert(
                    entry.path().strip_prefix(root).unwrap().to_owned(),
                    fs::read(entry.path()).unwrap(),
                )),
            }
        }
    }
    files
}

/// Returns the number of files below a folder, also of those that are not complete.
fn files_in(folder: &Path) -> usize {
    // A file or folder may be renamed meanwhile.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                files_in(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

#[test]
fn process_that_is_killed_at_any_time_loses_and_repeats_nothing() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "whole"]);
    let whole = contents(&dir.path().join("whole"));
    assert_eq!(whole.len(), 9, "three tables of three hours");
    // Each process is killed when the archive has one file more, at once or a little later. The
    // last process ends by itself.
    for attempt in 0.. {
        let args = ["pack", "a.jsonl", "-o", "archive", "--remove-inputs"];
        let mut process = Command::new(VIEW)
            .current_dir(dir.path())
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let has_ended = loop {
            if process.try_wait().unwrap().is_some() {
                break true;
            }
            if files_in(&dir.path().join("archive")) >= attempt / 2 {
                break false;
            }
            std::thread::sleep(Duration::from_micros(100));
        };
        if has_ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(attempt as u64 % 2));
        process.kill().unwrap();
        process.wait().unwrap();
        if !dir.path().join("a.jsonl").exists() {
            break;
        }
        // Every file that exists is complete.
        for (path, octets) in contents(&dir.path().join("archive")) {
            assert!(octets == whole[&path], "{}", path.display());
        }
    }
    if dir.path().join("a.jsonl").exists() {
        pack(dir.path(), &["a.jsonl", "-o", "archive", "--remove-inputs"]);
    }
    assert!(!dir.path().join("a.jsonl").exists());
    assert!(contents(&dir.path().join("archive")) == whole);
}

#[test]
fn process_that_is_killed_in_a_write_loses_and_repeats_nothing() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "whole"]);
    let whole = contents(&dir.path().join("whole"));
    let mut killed = 0;
    for blocks in (1..).map(|number| number * 4) {
        // The kernel kills the process in the write that makes a file too large.
        let script = format!(
            "ulimit -c 0; ulimit -f {blocks}; exec \"$0\" pack a.jsonl -o archive --remove-inputs"
        );
        let output = Command::new("sh")
            .current_dir(dir.path())
            .args(["-c", &script, VIEW])
            .output()
            .unwrap();
        if output.status.success() {
            break;
        }
        assert_eq!(
            output.status.signal(),
            Some(SIGXFSZ),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        killed += 1;
        for (path, octets) in contents(&dir.path().join("archive")) {
            assert!(octets == whole[&path], "{}", path.display());
        }
        assert_eq!(
            fs::read_to_string(dir.path().join("a.jsonl")).unwrap(),
            lines(START),
            "no input was removed"
        );
    }
    assert!(killed > 1, "killed {killed} times");
    assert!(!dir.path().join("a.jsonl").exists());
    assert!(contents(&dir.path().join("archive")) == whole);
}

#[test]
fn full_disk_is_reported_and_nothing_is_lost() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "whole"]);
    // A limit for the size of files has the effect of a full disk: a write fails in the middle.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" pack a.jsonl -o archive --remove-inputs";
    let output = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", script, VIEW])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success()
            && error.contains("cannot write archive")
            && error.contains("no input was changed"),
        "{error}"
    );
    assert!(error.contains("File too large"), "{error}");
    assert_eq!(
        contents(&dir.path().join("archive")).len(),
        0,
        "no file of an hour"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("a.jsonl")).unwrap(),
        lines(START)
    );
    pack(dir.path(), &["a.jsonl", "-o", "archive", "--remove-inputs"]);
    assert!(contents(&dir.path().join("archive")) == contents(&dir.path().join("whole")));
}

#[test]
fn torn_and_repeated_files_count_once_and_are_kept() {
    let dir = folder();
    let text = lines(START);
    // In the middle of a line.
    let half = text[..text.len() / 2].rfind('\n').unwrap() + 60;
    fs::write(dir.path().join("torn.jsonl"), &text[..half]).unwrap();
    fs::write(dir.path().join("again.jsonl"), &text).unwrap();
    let whole_lines = text[..half].lines().count() - 1;
    let (out, notes) = pack(
        dir.path(),
        &[
            "torn.jsonl",
            "a.jsonl",
            "again.jsonl",
            "-o",
            "archive",
            "--remove-inputs",
        ],
    );
    assert!(
        notes.contains(&format!(
            "skipped   1 of {} lines are not records; the first is torn.jsonl:{}:",
            whole_lines + 1,
            whole_lines + 1
        )),
        "{notes}"
    );
    assert!(
        notes.contains("kept      torn.jsonl: some of its lines are not records"),
        "{notes}"
    );
    assert!(
        out.contains("added     3600 ports")
            && out.contains(&format!("copies    {} records", 3600 + whole_lines)),
        "{out}"
    );
    let exists =
        ["torn.jsonl", "a.jsonl", "again.jsonl"].map(|name| dir.path().join(name).exists());
    assert_eq!(exists, [true, false, false]);
    fs::write(dir.path().join("a.jsonl"), text).unwrap();
    pack(dir.path(), &["a.jsonl", "-o", "whole"]);
    assert!(contents(&dir.path().join("archive")) == contents(&dir.path().join("whole")));
}

#[test]
fn file_that_was_packed_before_is_not_read_again() {
    let dir = folder();
    let path = dir.path().join("a.jsonl");
    let report = |inputs: &[&str]| pack(dir.path(), &[inputs, &["-o", "archive"]].concat()).0;
    assert!(report(&["a.jsonl"]).starts_with("read      3600 records in 1 files\nadded "));
    // Other text in the middle of the file, with the same size and time: a reader reports it.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read(&path).unwrap();
    let replace = |range: std::ops::Range<usize>| {
        let mut other = text.clone();
        other[range].fill(b'#');
        fs::write(&path, other).unwrap();
        fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(modified)
            .unwrap();
    };
    replace(10_000..500_000);
    fs::write(dir.path().join("b.jsonl"), lines(START + 86_400)).unwrap();
    let out = report(&["a.jsonl", "b.jsonl"]);
    assert!(
        out.starts_with("read      3600 records in 1 files\nunchanged 1 files that were packed before: not read\nadded     3600 ports"),
        "{out}"
    );
    let out = report(&["a.jsonl", "b.jsonl"]);
    assert!(out.starts_with("read      0 records in 0 files\nunchanged 2 files that were packed before: not read\narchive "), "{out}");
    // Another text at the end is noticed.
    replace(text.len() - 2000..text.len() - 1);
    let (_, notes) = pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    assert!(notes.contains("lines are not records"), "{notes}");
    // A change of the time or of the size is noticed, and an hour that is missing.
    fs::write(&path, &text).unwrap();
    assert!(report(&["a.jsonl"]).starts_with("read      3600 records in 1 files\ncopies    3600 "));
    fs::remove_file(
        dir.path()
            .join("archive/ports/date=2026-11-21/hour=13/ports.parquet"),
    )
    .unwrap();
    assert!(report(&["a.jsonl"]).contains("added     1200 ports"));
    // An hour that retention removed is not missing.
    pack(dir.path(), &["-o", "archive", "--keep-total", "ports=0"]);
    assert!(
        report(&["a.jsonl", "b.jsonl"])
            .starts_with("read      0 records in 0 files\nunchanged 2 files")
    );
}

#[test]
fn torn_file_of_an_archive_is_named_and_kept() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    let path = dir
        .path()
        .join("archive/ports/date=2026-11-21/hour=13/ports.parquet");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    for args in [
        &["pack", "a.jsonl", "-o", "archive", "--remove-inputs"][..],
        &["errors", "archive"],
    ] {
        let output = view(dir.path(), args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success()
                && error.contains("hour=13/ports.parquet: it is damaged or not complete"),
            "{error}"
        );
    }
    // A time range in another hour does not open the file.
    let output = view(
        dir.path(),
        &[
            "errors",
            "archive",
            "--from",
            "2026-11-21T12:05:00Z",
            "--to",
            "2026-11-21T12:15:00Z",
        ],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read(&path).unwrap(), whole[..whole.len() / 2]);
    assert!(dir.path().join("a.jsonl").exists());
    fs::remove_file(&path).unwrap();
    pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn damaged_octet_of_an_archive_is_an_error_or_changes_nothing() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    let path = dir
        .path()
        .join("archive/ports/date=2026-11-21/hour=13/ports.parquet");
    let whole = fs::read(&path).unwrap();
    let commands = [
        &["replay", "archive", "--speed", "0", "--keep-times"][..],
        &["links", "archive", "--format", "json"],
        &[
            "job",
            "archive",
            "--nodes",
            "n[7-8]",
            "--from",
            "2026-11-21T13:10:00Z",
            "--to",
            "2026-11-21T13:20:00Z",
            "--format",
            "json",
        ],
    ];
    let expected = commands.map(|args| view(dir.path(), args).stdout);
    let mut found = [0; 3];
    for place in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, &damaged).unwrap();
        for (number, args) in commands.into_iter().enumerate() {
            let output = view(dir.path(), args);
            let error = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                assert!(
                    output.stdout == expected[number],
                    "octet {place}, {args:?}: {error}"
                );
            } else {
                assert!(
                    output.status.code() == Some(1)
                        && error.contains("hour=13/ports.parquet: it is damaged"),
                    "octet {place}: {error}"
                );
                found[number] += 1;
            }
        }
    }
    assert!(found.into_iter().all(|found| found > 5), "{found:?}");
}

#[test]
fn conflicts_and_removals_are_reported() {
    let dir = folder();
    let line = lines(START).lines().next().unwrap().to_owned() + "\n";
    pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    fs::write(
        dir.path().join("b.jsonl"),
        line.replace("\"lid\":1,", "\"lid\":2,") + &line,
    )
    .unwrap();
    let (out, _) = pack(dir.path(), &["b.jsonl", "-o", "archive", "--remove-inputs"]);
    assert!(
        out.contains("added     1 ports\ncopies    1 records")
            && out.contains("conflicts 1 records have sampler, port and time"),
        "{out}"
    );
    assert!(
        out.contains("removed   1 files; their records are verified"),
        "{out}"
    );
    let replayed = String::from_utf8(
        view(
            dir.path(),
            &["replay", "archive", "--speed", "0", "--keep-times"],
        )
        .stdout,
    )
    .unwrap();
    assert_eq!(replayed.lines().count(), 3601);
    // An event in each of 60 hours.
    let event = |hour: u64| {
        format!(
            "{{\"type\":\"event\",\"ts\":{},\"slot\":1,\"sampler\":\"s\"}}\n",
            (START - hour * 3600) * SECOND
        )
    };
    fs::write(
        dir.path().join("events.jsonl"),
        (0..60).map(event).collect::<String>(),
    )
    .unwrap();
    let (out, notes) = pack(
        dir.path(),
        &["events.jsonl", "-o", "archive", "--keep-age", "events=1h"],
    );
    assert!(
        out.contains("removed   events of 48 hours")
            && notes.contains("warning   11 more hours of events"),
        "{out}{notes}"
    );
    let (out, notes) = pack(
        dir.path(),
        &["-o", "archive", "--keep-age", "events=1h", "--force"],
    );
    assert!(
        out.contains("removed   events of 11 hours") && notes.is_empty(),
        "{out}{notes}"
    );
}

#[test]
fn wrong_clock_changes_no_hour_of_other_samplers() {
    let dir = folder();
    pack(dir.path(), &["a.jsonl", "-o", "archive"]);
    let before = contents(&dir.path().join("archive"));
    fs::write(dir.path().join("wrong.jsonl"), lines(3600)).unwrap();
    let (out, _) = pack(dir.path(), &["wrong.jsonl", "-o", "archive"]);
    assert!(
        out.contains("date=1970-01-01/hour=01 to date=1970-01-01/hour=03"),
        "{out}"
    );
    let after = contents(&dir.path().join("archive"));
    assert!(before.iter().all(|(path, octets)| after[path] == *octets));
    assert_eq!(after.len(), 2 * before.len());
}

#[test]
fn old_hours_are_removed_and_commands_read_the_means() {
    let dir = folder();
    let (out, _) = pack(
        dir.path(),
        &["a.jsonl", "-o", "archive", "--keep-total", "ports=0"],
    );
    assert!(
        out.contains("removed   ports of 2 hours")
            && out.contains("date=2026-11-21/hour=12 to date=2026-11-21/hour=13 (UTC)"),
        "{out}"
    );
    let csv = |inputs: &[&str]| {
        let output = view(
            dir.path(),
            &[&["heatmap", "--format", "csv"], inputs].concat(),
        );
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        assert!(output.status.success());
        (text(output.stdout), text(output.stderr))
    };
    let (cells, notes) = csv(&["archive"]);
    assert!(
        notes.contains(
            "minutes   one-minute means of the archive (ports_1m) were read for 2 of 3 hours"
        ),
        "{notes}"
    );
    // With one record a minute, the means are the values.
    assert_eq!(csv(&["a.jsonl"]), (cells.clone(), String::new()));
    let (repeated, notes) = csv(&["archive", "a.jsonl"]);
    assert_eq!(repeated, cells, "records and their means count once");
    assert!(notes.contains("copies    3600 of 7200"), "{notes}");
    let (out, notes) = pack(dir.path(), &["a.jsonl", "-o", "archive", "--remove-inputs"]);
    assert!(
        out.contains("expired   2400 records") && notes.contains("kept      all inputs"),
        "{out}{notes}"
    );
    let (out, _) = pack(
        dir.path(),
        &["-o", "archive", "--keep-age", "ports_1m=1h,devices=1h"],
    );
    assert!(
        out.contains("removed   ports_1m of 2 hours")
            && out.contains("removed   devices of 2 hours"),
        "{out}"
    );
}

#[test]
fn wrong_rules_are_refused() {
    let dir = folder();
    for (args, expected) in [
        (
            ["--keep-age", "ports"],
            "expected TABLE=VALUE such as ports=30d",
        ),
        (
            ["--keep-age", "port=30d"],
            "the archive has no table `port`; give one of ports,",
        ),
        (["--keep-age", "ports=30"], "give an age such as 30d"),
        (["--keep-total", "ports=much"], "give a size such as 500GiB"),
    ] {
        let output = view(
            dir.path(),
            &[&["pack", "-o", "archive"], &args[..]].concat(),
        );
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && error.contains(expected),
            "{error}"
        );
    }
    assert!(!dir.path().join("archive").exists());
}

#[test]
fn damaged_input_is_named_and_kept_and_the_others_are_packed() {
    let dir = folder();
    // A frame of zstd with one block that is not compressed, and a checksum that is not that of its
    // text.
    let text: String = lines(START + 86_400)
        .lines()
        .take(50)
        .map(|line| format!("{line}\n"))
        .collect();
    let size = (text.len() as u32).to_le_bytes();
    let block = ((text.len() as u32) << 3 | 1).to_le_bytes();
    let octets = [
        &[0x28, 0xb5, 0x2f, 0xfd, 0xa4],
        &size[..],
        &block[..3],
        text.as_bytes(),
        &[0; 4],
    ]
    .concat();
    let path = dir.path().join("0-damaged.jsonl.zst");
    fs::write(&path, &octets).unwrap();
    fs::write(dir.path().join("b.jsonl.zst.part"), "in progress").unwrap();
    let output = view(
        dir.path(),
        &["pack", "*.jsonl*", "-o", "archive", "--remove-inputs"],
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("skipped   0-damaged.jsonl.zst: it cannot be read completely")
            && error.contains("checksum"),
        "{error}"
    );
    assert!(!error.contains(".part"), "{error}");
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("read      3600 records in 1 files\n")
    );
    assert!(path.exists() && !dir.path().join("a.jsonl").exists());
    // A name that is given is no pattern.
    fs::write(dir.path().join("a.jsonl"), lines(START)).unwrap();
    let output = view(
        dir.path(),
        &["pack", "a.jsonl", "missing.jsonl", "-o", "archive"],
    );
    assert!(
        !output.status.success()
            && String::from_utf8(output.stderr)
                .unwrap()
                .contains("missing.jsonl")
    );
}

#[test]
fn input_that_vanishes_is_skipped() {
    let dir = folder();
    // The pattern matches a link to a file that is not there any more.
    std::os::unix::fs::symlink("gone", dir.path().join("b.jsonl")).unwrap();
    let (out, notes) = pack(dir.path(), &["*.jsonl", "-o", "archive"]);
    assert!(
        out.starts_with("read      3600 records in 1 files\n")
            && notes.contains("skipped   b.jsonl: it vanished"),
        "{out}{notes}"
    );
}
