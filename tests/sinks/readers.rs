//! Readers of sockets: slow readers, their limits, and the file of a Unix socket.

use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::sampler::{Received, Sampler, read_lines, read_on, wait_for, wait_for_some};

const SOCKET: &str = "interval = \"10ms\"
    [[output]]
    type = \"unix\"
    path = \"sock\"
    readers = 2
    buffer_mib = 1
    [[output]]
    type = \"file\"
    path = \"lines\"";

/// The other reader must not be slow as well if the machine is. So there is a larger buffer here,
/// and more time between two slots: the buffer has two seconds of records.
#[test]
fn slow_reader_does_not_affect_other_outputs() {
    let sampler = Sampler::new(
        &SOCKET
            .replace("10ms", "20ms")
            .replace("buffer_mib = 1", "buffer_mib = 2"),
    );
    let running = sampler.start();
    let mut slow = BufReader::new(sampler.unix("sock"));
    let first = read_on(&mut slow, "\"sweep\"", 1);
    let mut other = sampler.unix("sock");
    let quick = std::thread::spawn(move || {
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        text
    });
    running.wait_for_log("the buffer is full; records are dropped", 1);
    // The slow reader reads until its gap is reported.
    let mut rest = read_on(&mut slow, "\"lines_lost\",\"guid\"", 1);
    running.signal("TERM");
    slow.read_to_string(&mut rest).unwrap();
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);

    let (all, quick) = (
        Received::of(&sampler.read("lines")),
        Received::of(&quick.join().unwrap()),
    );
    assert_eq!((all.lost, quick.lost), (0, 0));
    assert_eq!((quick.starts[0].file_seq, quick.starts.len()), (1, 1));
    let slow = Received::of(&rest);
    assert!(
        slow.lost > 0 && slow.lines.is_subset(&all.lines),
        "{} records dropped",
        slow.lost
    );
    assert!(Received::of(&first).starts.len() == 1 && quick.lines.is_subset(&all.lines));
    // The fast reader has every slot since its first one.
    assert!(all.slots.ends_with(&quick.slots));
}

#[test]
fn records_dropped_for_a_slow_reader_are_reported_exactly() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    let mut slow = BufReader::new(sampler.unix("sock"));
    running.wait_for_log("the buffer is full; records are dropped", 1);
    let mut text = read_on(&mut slow, "\"lines_lost\",\"guid\"", 1);
    text.push_str(&read_on(&mut slow, "\"sweep\"", 2));
    // The sampler does not wait for a reader that is gone.
    drop(slow);
    drop(running.stop("TERM"));
    let (all, slow) = (sampler.read("lines"), Received::of(&text));
    // The part of the file from the first slot of the reader to its last.
    let (first, last) = (slow.slots[0], slow.slots[slow.slots.len() - 1]);
    let begin = all
        .find(&format!("\"slot\":{first},"))
        .map(|at| all[..at].rfind('\n').unwrap() + 1)
        .unwrap();
    let sweep = all
        .rfind(&format!("\"slot\":{last},\"sampler\":\"node00001\",\"ca\":\"sim\",\"ca_port\":1,\"role\":\"primary\",\"duration_ns\""))
        .unwrap();
    let end = sweep + all[sweep..].find('\n').unwrap() + 1;
    let stretch = Received::of(&all[begin..end]);
    assert!(slow.lost > 0);
    assert_eq!(
        stretch.lines.len() as u64,
        slow.lines.len() as u64 + slow.lost
    );
}

#[test]
fn socket_is_for_user_and_group_and_limits_its_readers() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    let readers = [sampler.unix("sock"), sampler.unix("sock")];
    for reader in &readers {
        read_lines(reader, "\"start\"", 1);
    }
    assert_eq!(
        fs::symlink_metadata(sampler.path("sock"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o660
    );
    let mut text = String::new();
    sampler.unix("sock").read_to_string(&mut text).unwrap();
    assert_eq!(text, "", "a third reader is rejected");
    drop(readers);
    let again = wait_for_some("a place", || {
        let mut first = [0];
        let mut reader = sampler.unix("sock");
        (reader.read(&mut first).unwrap() == 1).then_some(reader)
    });
    drop(again);
    let run = running.stop("TERM");
    assert!(
        run.code == 0 && run.stderr.contains("its largest number of readers"),
        "{}",
        run.stderr
    );
}

#[test]
fn unused_socket_is_replaced_but_no_other_file_is() {
    let sampler = Sampler::new(SOCKET);
    let running = sampler.start();
    read_lines(sampler.unix("sock"), "\"start\"", 1);
    // A second sampler while the first listens.
    let refused = |sampler: &Sampler| {
        let output = sampler.command().output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.starts_with("error: cannot listen at sock: the path exists")
                && text.contains("\nhelp: "),
            "{text}"
        );
    };
    refused(&sampler);
    running.stop("KILL");
    assert!(sampler.path("sock").exists(), "it was killed");
    let running = sampler.start();
    read_lines(sampler.unix("sock"), "\"start\"", 1);
    assert_eq!(running.stop("TERM").code, 0);
    // A file, and symbolic links to a file, to nothing and to an unused socket.
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
    assert!(
        sampler.read("precious") == "precious"
            && sampler.path("stale").exists()
            && !sampler.path("nowhere").exists()
    );
}

/// Readers can connect again, and every output has the event.
#[test]
fn removed_socket_is_made_again_with_an_event() {
    // No record is dropped while the test does not read.
    let sampler = Sampler::new(&SOCKET.replace("buffer_mib = 1", "buffer_mib = 64"));
    let running = sampler.start();
    let mut before = BufReader::new(sampler.unix("sock"));
    read_on(&mut before, "\"sweep\"", 1);
    fs::remove_file(sampler.path("sock")).unwrap();
    let after = read_lines(sampler.unix("sock"), "\"sweep\"", 1);
    assert_eq!(Received::of(&after).starts.len(), 1);
    let event = "\"event\":\"socket_restored\"";
    read_on(&mut before, event, 1);
    wait_for("the event in the file", || {
        sampler.read_now("lines").contains(event)
    });
    // A file of another program is not touched.
    fs::remove_file(sampler.path("sock")).unwrap();
    fs::write(sampler.path("new"), "precious").unwrap();
    fs::rename(sampler.path("new"), sampler.path("sock")).unwrap();
    read_on(&mut before, "\"sweep\"", 3);
    drop(before);
    let run = running.stop("TERM");
    assert!(
        run.code == 0 && run.stderr.contains("another program removed the socket"),
        "{}",
        run.stderr
    );
    assert_eq!(sampler.read("sock"), "precious");
}

#[test]
fn port_in_use_is_an_error() {
    let sampler = Sampler::new("[[output]]\ntype = \"tcp\"\nlisten = \"PORT\"");
    let first = sampler.start();
    read_lines(sampler.tcp(), "\"start\"", 1);
    let output = sampler.command().output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("cannot listen at 127.0.0.1:") && text.contains("Address already in use"),
        "{text}"
    );
    assert_eq!(first.stop("TERM").code, 0);
}
