//! The spool of the NATS output: records on a disk while the server is away.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use async_nats::ConnectOptions;

use super::faults::Disk;
use super::nats::{Server, available, dropped_at_the_end, file_and_server, same, slots};
use super::sampler::{Received, Sampler, wait_for};

/// Starts a server with a stream and kills it. Configures a sampler with a spool.
fn away<'a>(program: PathBuf, sampler: &'a Sampler, keys: &str) -> Server<'a> {
    let mut server = Server::start(program, sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    server.kill();
    let outputs = file_and_server("20ms", server.port, &format!("batch = \"slot\"\n{keys}"));
    sampler.configure(&format!("drain = \"300ms\"\n{outputs}"));
    server
}

fn more_slots(sampler: &Sampler, count: usize) {
    let before = slots(sampler);
    wait_for("slots", || slots(sampler) > before + count);
}

/// Returns the segments of the spool.
fn segments(sampler: &Sampler) -> Vec<String> {
    let entries = fs::read_dir(sampler.path("spool")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name.ends_with(".zst")).collect()
}

/// The sampler is killed, stopped and started while the server is away. All records arrive once and
/// in order, except for the slots that a killed process had not handed over.
#[test]
fn records_survive_the_sampler_while_the_server_is_away() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = away(program, &sampler, "spool = \"spool\"");
    let running = sampler.start();
    more_slots(&sampler, 100);
    let run = running.stop("KILL");
    assert!(run.stderr.contains("writing records to the spool"), "{}", run.stderr);
    let last_before_kill = Received::of_any(&sampler.read("lines")).slots.into_iter().max().unwrap();
    let running = sampler.start();
    more_slots(&sampler, 50);
    let run = running.stop("TERM");
    assert_eq!(dropped_at_the_end(&run), 0);
    assert!(run.stderr.contains("records stay in the spool"), "{}", run.stderr);
    server.start_again();
    let running = sampler.start();
    wait_for("an empty spool", || server.count() > 150 && segments(&sampler).is_empty());
    more_slots(&sampler, 20);
    let run = running.stop("TERM");
    let dropped = dropped_at_the_end(&run);
    let messages = server.messages(ConnectOptions::new, "nats");
    let text: String = messages.into_values().flatten().map(|text| text + "\n").collect();
    let (file, received) = (Received::of_any(&sampler.read("lines")), Received::of(&text));
    assert!(received.slots.is_sorted() && received.starts.len() == 3 && received.lost == 0);
    let slot_of = |line: &str| line.split("\"slot\":").nth(1).unwrap().split([',', '}']).next().unwrap().parse::<u64>().unwrap();
    let missing: BTreeSet<_> = file.lines.difference(&received.lines).map(|line| slot_of(line)).collect();
    // At the kill, one slot was on its way to the disk. At the end, the output had no time left.
    let at_kill = missing.iter().filter(|slot| **slot <= last_before_kill).count();
    assert!(at_kill <= 2 && missing.iter().all(|slot| *slot + 2 >= last_before_kill), "{missing:?}, killed after {last_before_kill}");
    assert!(dropped > 0 || missing.iter().all(|slot| *slot <= last_before_kill), "{missing:?}");
}

#[test]
fn oldest_records_of_a_full_spool_are_dropped_and_reported_exactly() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = away(program, &sampler, "spool = \"spool\"\nspool_max = \"1MiB\"\nbuffer_mib = 1");
    let running = sampler.start();
    let has_first = || segments(&sampler).iter().any(|name| name.starts_with("00000000000000000001"));
    wait_for("the first segment", has_first);
    // The limit holds some 10 MB of records.
    wait_for("a full spool", || !has_first());
    let size =
        || fs::read_dir(sampler.path("spool")).unwrap().map(|entry| entry.unwrap().metadata().map_or(0, |file| file.len())).sum::<u64>();
    assert!(size() <= 1 << 20, "{} octets", size());
    server.start_again();
    wait_for("an empty spool", || server.count() > 10 && segments(&sampler).is_empty());
    let run = running.stop("TERM");
    let dropped = dropped_at_the_end(&run) as u64;
    let text: String = server.messages(ConnectOptions::new, "nats").into_values().flatten().map(|text| text + "\n").collect();
    let (file, received) = (Received::of(&sampler.read("lines")), Received::of(&text));
    assert!(received.lines.is_subset(&file.lines) && received.lost > 0);
    // The first `start` record was dropped too. Another one follows each loss.
    let numbers: Vec<_> = received.starts.iter().map(|start| u64::from(start.file_seq)).collect();
    let all = numbers.last().map_or(0, |last| last + 1);
    assert!(numbers.is_sorted() && numbers.first() > Some(&0), "{numbers:?}");
    let missing = (file.lines.len() - received.lines.len()) as u64 + all - numbers.len() as u64;
    assert!((received.lost..=received.lost + dropped).contains(&missing), "{missing} missing, {} and {dropped} reported", received.lost);
}

/// A full disk is no reason to drop records that fit into the memory. Others are reported exactly.
#[test]
fn full_disk_of_the_spool_leaves_the_memory() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let Some(disk) = Disk::mount(&sampler) else { return };
    fs::write(sampler.path("disk/filler"), vec![0; 900 << 10]).unwrap();
    let mut server = away(program, &sampler, "spool = \"disk/spool\"\nbuffer_mib = 1");
    let running = sampler.start();
    wait_for("8 MB of records", || fs::metadata(sampler.path("lines")).is_ok_and(|file| file.len() > 8 << 20));
    server.start_again();
    wait_for("messages", || server.count() > 100);
    let run = running.stop("TERM");
    assert!(run.stderr.contains("cannot write to the spool"), "{}", run.stderr);
    let received = same(server.messages(ConnectOptions::new, "nats"), &Received::of(&sampler.read("lines")), dropped_at_the_end(&run));
    assert!(received.lost > 0);
    drop(disk);
}

#[test]
fn spool_of_another_process_is_refused() {
    let sampler = Sampler::new("[[output]]\ntype = \"nats\"\nserver = \"127.0.0.1:PORT\"\nspool = \"spool\"");
    let running = sampler.start();
    wait_for("the spool", || sampler.path("spool/lock").exists());
    wait_for("a refusal", || {
        let run = sampler.command().args(["--sweeps", "1"]).output().unwrap();
        let text = String::from_utf8(run.stderr).unwrap();
        run.status.code() == Some(1) && text.contains("cannot use the spool spool") && text.contains(&format!("process {}", running.id()))
    });
    running.stop("KILL");
}
