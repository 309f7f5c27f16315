//! Readers at sockets.

use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::sampler::{Sampler, Told, once, read_lines, read_on, wait_for};

const SOCKET: &str = "interval = \"10ms\"
    [[output]]
    type = \"file\"
    path = \"lines\"
    [[output]]
    type = \"unix\"
    path = \"sock\"
    readers = 2
    buffer_mib = 1";

/// A reader that stands still loses lines and is told how many; another, and the file, lose none.
#[test]
fn a_slow_reader_loses_lines_of_its_own_only() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    let mut slow = BufReader::new(sampler.unix("sock"));
    let first = read_on(&mut slow, "\"sweep\"", 1);
    let mut other = sampler.unix("sock");
    let quick = std::thread::spawn(move || {
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        text
    });
    // Longer than what waits for it and what the kernel holds: several times as much goes to the file.
    let size = |sampler: &Sampler| fs::metadata(sampler.path("lines")).map_or(0, |file| file.len());
    let begin = size(&sampler);
    wait_for("4 MB of lines", || size(&sampler) > begin + (4 << 20));
    // It reads on, until what it lost was told.
    let mut rest = read_on(&mut slow, "\"lines_lost\",\"guid\"", 1);
    running.signal("TERM");
    slow.read_to_string(&mut rest).unwrap();
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("takes nothing; lines are lost"), "{}", run.stderr);

    let (all, quick) = (Told::of(&sampler.read("lines")), Told::of(&quick.join().unwrap()));
    assert_eq!((all.lost, quick.lost), (0, 0));
    assert_eq!((quick.starts[0].file_seq, quick.starts.len()), (1, 1));
    // In the end it was not waited for.
    let slow = Told::of_any(&rest);
    assert!(slow.lost > 0 && slow.lines.is_subset(&all.lines) && slow.torn <= 1, "{} lines lost", slow.lost);
    assert!(Told::of(&first).starts.len() == 1 && quick.lines.is_subset(&all.lines));
    // Not a line is missing in what the quick one has: slot after slot.
    let since = all.slots.iter().skip_while(|slot| **slot != quick.slots[0]);
    assert!(since.zip(&quick.slots).all(|(one, other)| one == other));
}

/// What the slow one was told is what it lacks, to the line.
#[test]
fn what_a_slow_reader_lacks_is_what_it_is_told() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    let mut slow = BufReader::new(sampler.unix("sock"));
    let size = |sampler: &Sampler| fs::metadata(sampler.path("lines")).map_or(0, |file| file.len());
    wait_for("4 MB of lines", || size(&sampler) > 4 << 20);
    let mut text = read_on(&mut slow, "\"lines_lost\",\"guid\"", 1);
    text.push_str(&read_on(&mut slow, "\"sweep\"", 2));
    drop(running.stop("TERM"));
    let (all, slow) = (sampler.read("lines"), Told::of(&text));
    // The same stretch of the file: from the slot that the reader had first to the one that it had last.
    let (first, last) = (slow.slots[0], slow.slots[slow.slots.len() - 1]);
    let begin = all.find(&format!("\"slot\":{first},")).map(|at| all[..at].rfind('\n').unwrap() + 1).unwrap();
    let sweep = all
        .rfind(&format!("\"slot\":{last},\"sampler\":\"node00001\",\"ca\":\"sim\",\"ca_port\":1,\"role\":\"primary\",\"duration_ns\""))
        .unwrap();
    let end = sweep + all[sweep..].find('\n').unwrap() + 1;
    let stretch = Told::of(&all[begin..end]);
    assert!(slow.lost > 0);
    assert_eq!(stretch.lines.len() as u64, slow.lines.len() as u64 + slow.lost);
}

#[test]
fn a_socket_is_for_its_user_and_group_and_has_so_many_places() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    let readers = [sampler.unix("sock"), sampler.unix("sock")];
    for reader in &readers {
        read_lines(reader, "\"start\"", 1);
    }
    assert_eq!(fs::symlink_metadata(sampler.path("sock")).unwrap().permissions().mode() & 0o777, 0o660);
    let mut text = String::new();
    sampler.unix("sock").read_to_string(&mut text).unwrap();
    assert_eq!(text, "", "there is no third place");
    drop(readers);
    let again = once("a place", || {
        let mut first = [0];
        let mut reader = sampler.unix("sock");
        (reader.read(&mut first).unwrap() == 1).then_some(reader)
    });
    drop(again);
    let run = running.stop("TERM");
    assert!(run.code == 0 && run.stderr.contains("too many readers"), "{}", run.stderr);
}

/// A socket that a killed sampler left is taken over; nothing else is touched.
#[test]
fn a_socket_is_put_in_nobody_s_place() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    read_lines(sampler.unix("sock"), "\"start\"", 1);
    // Another, while this one listens.
    let refused = |sampler: &Sampler| {
        let output = sampler.command().output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: sock: is there already") && text.contains("\nhelp: "), "{text}");
    };
    refused(&sampler);
    running.stop("KILL");
    assert!(sampler.path("sock").exists(), "it was killed");
    let running = sampler.start();
    read_lines(sampler.unix("sock"), "\"start\"", 1);
    assert_eq!(running.stop("TERM").code, 0);
    // A file, a link to one, a link that leads nowhere, a link to a socket that nobody listens at.
    fs::write(sampler.path("precious"), "precious").unwrap();
    drop(UnixListener::bind(sampler.path("stale")).unwrap());
    fs::write(sampler.path("sock"), "precious too").unwrap();
    refused(&sampler);
    assert_eq!(sampler.read("sock"), "precious too");
    for target in ["precious", "nowhere", "stale"] {
        fs::remove_file(sampler.path("sock")).unwrap();
        symlink(target, sampler.path("sock")).unwrap();
        refused(&sampler);
        assert!(sampler.path("sock").is_symlink());
    }
    assert!(sampler.read("precious") == "precious" && sampler.path("stale").exists() && !sampler.path("nowhere").exists());
}

#[test]
fn a_port_that_is_taken_is_told() {
    let sampler = Sampler::new("[[output]]\ntype = \"tcp\"\nlisten = \"PORT\"");
    let first = sampler.start();
    read_lines(sampler.tcp(), "\"start\"", 1);
    let output = sampler.command().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("readers cannot be listened for there") && text.contains("Address already in use"), "{text}");
    assert_eq!(first.stop("TERM").code, 0);
}
