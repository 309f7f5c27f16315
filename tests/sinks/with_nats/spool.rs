//! The spool of the NATS output: records on a disk while the server is away.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use async_nats::ConnectOptions;

use super::server::{
    Server, available, complete, dropped_at_the_end, file_and_server, same, slots,
};
use crate::faults::Disk;
use crate::sampler::{Received, Sampler, wait_for};

/// Starts a server with a stream and kills it. Configures a sampler with a spool.
fn away<'a>(program: PathBuf, sampler: &'a Sampler, drain: &str, keys: &str) -> Server<'a> {
    let mut server = Server::start(program, sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    server.kill();
    let outputs = file_and_server("10ms", server.port, &format!("batch = \"slot\"\n{keys}"));
    sampler.configure(&format!("drain = \"{drain}\"\n{outputs}"));
    server
}

fn more_slots(sampler: &Sampler, count: usize) {
    let before = slots(sampler);
    wait_for("slots", || slots(sampler) > before + count);
}

/// Returns the segments of the spool.
fn segments(sampler: &Sampler) -> Vec<String> {
    let entries = fs::read_dir(sampler.path("spool")).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".zst"))
        .collect()
}

/// Returns the records in the segments. The last one can have an incomplete end.
fn spooled(sampler: &Sampler) -> String {
    let mut names = segments(sampler);
    names.sort();
    let mut text = String::new();
    for name in names {
        // A segment that was closed in the meantime has another name.
        let Ok(octets) = fs::read(sampler.path("spool").join(name)) else {
            continue;
        };
        let (mut decoder, mut chunk) =
            (zstd::stream::Decoder::new(&octets[..]).unwrap(), [0; 4096]);
        while let Ok(read @ 1..) = decoder.read(&mut chunk) {
            text.push_str(&String::from_utf8_lossy(&chunk[..read]));
        }
    }
    text
}

/// The sampler is killed, stopped and started while the server is away. All records arrive once and
/// in order, except for the slots that a killed process had not handed over.
#[test]
fn records_survive_the_sampler_while_the_server_is_away() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = away(program, &sampler, "300ms", "spool = \"spool\"");
    let running = sampler.start();
    running.wait_for_log("records go to the spool", 1);
    wait_for("slots in the spool", || {
        spooled(&sampler).matches("{\"type\":\"sweep\"").count() > 60
    });
    running.stop("KILL");
    let killed = Received::of_any(&sampler.read("lines"));
    let running = sampler.start();
    more_slots(&sampler, 50);
    let run = running.stop("TERM");
    // On a busy machine, the time after the signal may be too short for the last slots.
    let dropped = dropped_at_the_end(&run, &server);
    assert!(
        run.stderr.contains("records stay in the spool"),
        "{}",
        run.stderr
    );
    server.start_again();
    sampler.configure(&file_and_server(
        "10ms",
        server.port,
        "batch = \"slot\"\nspool = \"spool\"",
    ));
    let running = sampler.start();
    more_slots(&sampler, 20);
    complete(&running.stop("TERM"));
    assert_eq!(segments(&sampler), [] as [&str; 0]);
    let messages = server.messages(ConnectOptions::new, "nats");
    let text: String = messages
        .into_values()
        .flatten()
        .map(|text| text + "\n")
        .collect();
    let (file, received) = (
        Received::of_any(&sampler.read("lines")),
        Received::of(&text),
    );
    assert!(received.slots.is_sorted() && received.starts.len() == 3 && received.lost == 0);
    let missing: BTreeSet<_> = file.lines.difference(&received.lines).cloned().collect();
    let (at_kill, later): (Vec<_>, Vec<_>) = missing
        .iter()
        .partition(|line| killed.lines.contains(*line));
    assert!(
        later.len() as u64 <= dropped,
        "{later:?} and {dropped} reported"
    );
    // The slots that were on their way to the disk at the kill: the last ones.
    let slot_of = |line: &str| {
        line.split("\"slot\":")
            .nth(1)
            .unwrap()
            .split([',', '}'])
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let lost: BTreeSet<_> = at_kill.iter().map(|line| slot_of(line)).collect();
    let kept: BTreeSet<_> = killed
        .lines
        .iter()
        .map(|line| slot_of(line))
        .filter(|slot| !lost.contains(slot))
        .collect();
    assert!(
        kept.len() > 60 && lost.first().is_none_or(|first| kept.last() < Some(first)),
        "{lost:?} lost, {kept:?} kept"
    );
}

#[test]
fn oldest_records_of_a_full_spool_are_dropped_and_reported_exactly() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = away(
        program,
        &sampler,
        "10m",
        "spool = \"spool\"\nspool_max = \"1MiB\"\nbuffer_mib = 1",
    );
    let running = sampler.start();
    let has_first = || {
        segments(&sampler)
            .iter()
            .any(|name| name.starts_with("00000000000000000001"))
    };
    wait_for("the first segment", has_first);
    // The limit holds some 10 MB of records.
    wait_for("a full spool", || !has_first());
    running.suspend();
    let size: u64 = fs::read_dir(sampler.path("spool"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    running.signal("CONT");
    assert!(size <= 1 << 20, "{size} octets");
    server.start_again();
    // The sampler ends when the server has everything.
    let dropped = dropped_at_the_end(&running.stop("TERM"), &server);
    assert_eq!(segments(&sampler), [] as [&str; 0]);
    let text: String = server
        .messages(ConnectOptions::new, "nats")
        .into_values()
        .flatten()
        .map(|text| text + "\n")
        .collect();
    let (file, received) = (Received::of(&sampler.read("lines")), Received::of(&text));
    assert!(received.lines.is_subset(&file.lines) && received.lost > 0);
    // The first `start` record was dropped too. Another one follows each loss.
    let numbers: Vec<_> = received
        .starts
        .iter()
        .map(|start| u64::from(start.file_seq))
        .collect();
    let all = numbers.last().map_or(0, |last| last + 1);
    assert!(
        numbers.is_sorted() && numbers.first() > Some(&0),
        "{numbers:?}"
    );
    let missing = (file.lines.len() - received.lines.len()) as u64 + all - numbers.len() as u64;
    assert_eq!(
        missing,
        received.lost + dropped,
        "{} and {dropped} reported",
        received.lost
    );
}

/// A full disk is no reason to drop records that fit into the memory. Others are reported exactly.
#[test]
fn full_disk_of_the_spool_leaves_the_memory() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let Some(disk) = Disk::mount(&sampler) else {
        return;
    };
    fs::write(sampler.path("disk/filler"), vec![0; 900 << 10]).unwrap();
    let mut server = away(
        program,
        &sampler,
        "10m",
        "spool = \"disk/spool\"\nbuffer_mib = 1",
    );
    let running = sampler.start();
    running.wait_for_log("cannot write to the spool", 1);
    running.wait_for_log("the buffer is full; records are dropped", 1);
    running.wait_for_log("cannot publish; records are buffered", 1);
    server.start_again();
    // The next records report the loss.
    running.wait_for_log("the NATS server accepts records again", 1);
    more_slots(&sampler, 3);
    let dropped = dropped_at_the_end(&running.stop("TERM"), &server);
    let received = same(
        server.messages(ConnectOptions::new, "nats"),
        &Received::of(&sampler.read("lines")),
        dropped,
    );
    assert!(received.lost > 0);
    drop(disk);
}

#[test]
fn spool_of_another_process_is_refused() {
    let sampler =
        Sampler::new("[[output]]\ntype = \"nats\"\nserver = \"127.0.0.1:PORT\"\nspool = \"spool\"");
    let running = sampler.start();
    wait_for("the spool", || sampler.path("spool/lock").exists());
    wait_for("a refusal", || {
        let run = sampler.command().args(["--sweeps", "1"]).output().unwrap();
        let text = String::from_utf8(run.stderr).unwrap();
        run.status.code() == Some(1)
            && text.contains("cannot use the spool spool")
            && text.contains(&format!("process {}", running.id()))
    });
    running.stop("KILL");
}
