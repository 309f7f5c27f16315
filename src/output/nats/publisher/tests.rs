//! The order of the messages without a server, and the log with a server that acknowledges only
//! some messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use super::super::super::options::{Kind, NatsOptions, SpoolOptions};
use super::super::super::queue::queue;
use super::super::super::result::End;
use super::super::new_runtime;
use super::*;

/// Limit of the spool. A segment has an eighth of it, so each message below has its own segment.
const MAX: u64 = 8 * 100;

fn publisher(folder: &Path) -> (Publisher, tokio::runtime::Runtime) {
    publisher_to(1, folder)
}

/// Returns a publisher to a port of this host.
fn publisher_to(port: u16, folder: &Path) -> (Publisher, tokio::runtime::Runtime) {
    let options = NatsOptions {
        server: format!("nats://127.0.0.1:{port}"),
        ..NatsOptions::default()
    };
    let runtime = new_runtime().expect("a runtime");
    let publisher = Publisher {
        server: options.shown_server(),
        session: Session::open(&options, &runtime).expect("a client without a connection"),
        stream: Stream::default(),
        batching: Batching::Line,
        creates: false,
        names: Names {
            fabric: String::new(),
            nonce: 0,
            next: 0,
        },
        compressor: None,
        spool: Some(
            Spool::open(&SpoolOptions {
                folder: folder.to_owned(),
                most: MAX,
            })
            .expect("a folder"),
        ),
        origin: Origin::default(),
        pending: Waiting::default(),
        unspooled: Waiting::default(),
        log: Log::default(),
    };
    (publisher, runtime)
}

fn message(id: &str) -> Pending {
    // This text cannot be compressed well.
    let text = "the quick brown fox jumps over the lazy dog 0123456789";
    Pending {
        subject: "subject".to_owned(),
        id: id.to_owned(),
        text: text.into(),
        lines: 1,
    }
}

fn ids(messages: &Waiting) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

/// Makes all further segments full, or lets the disk accept them again.
fn set_full(folder: &Path, is_full: bool) {
    for number in 0..40 {
        let path = folder.join(format!("{number:020}.zst"));
        if is_full && !path.exists() {
            symlink("/dev/full", path).expect("linked");
        } else if !is_full && path.is_symlink() {
            std::fs::remove_file(path).expect("removed");
        }
    }
}

/// Returns a publisher whose first message is in the spool. The disk did not accept the second one.
fn with_unspooled(folder: &Path) -> (Publisher, tokio::runtime::Runtime) {
    let (mut publisher, runtime) = publisher(folder);
    publisher.pending.extend([message("1")]);
    publisher.spill();
    assert!(publisher.is_spooling() && publisher.pending.is_empty());
    set_full(folder, true);
    publisher.unspooled.extend([message("2")]);
    publisher.write_unspooled();
    assert_eq!(ids(&publisher.unspooled), ["2"], "the disk is full");
    (publisher, runtime)
}

#[test]
fn message_that_a_full_disk_did_not_accept_follows_the_spool_before_new_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut publisher, _runtime) = with_unspooled(folder.path());
    let (_queue, mut inbox) = queue(&"test", Kind::Nats, 1 << 20);
    publisher.fill(&mut inbox);
    assert_eq!(
        (ids(&publisher.pending), ids(&publisher.unspooled)),
        (vec!["1"], vec!["2"])
    );
    assert!(
        !publisher.accepts(),
        "a new message would overtake the second one"
    );
    // The server acknowledges the first message.
    publisher.pending.remove_first(1);
    publisher.fill(&mut inbox);
    assert_eq!(
        (ids(&publisher.pending), ids(&publisher.unspooled)),
        (vec!["2"], vec![]),
        "nothing else is awaited first"
    );
    assert!(publisher.accepts() && !publisher.is_spooling());
}

#[test]
fn disk_with_space_again_takes_the_messages_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut publisher, _runtime) = with_unspooled(folder.path());
    let (_queue, mut inbox) = queue(&"test", Kind::Nats, 1 << 20);
    set_full(folder.path(), false);
    publisher.fill(&mut inbox);
    assert_eq!(
        (ids(&publisher.pending), publisher.unspooled.is_empty()),
        (vec!["1", "2"], true)
    );
    assert_eq!(publisher.unacknowledged(), 0, "both are on the disk");
}

/// Accepts one client like a NATS server with JetStream, and acknowledges the first `most`
/// messages. Returns at the end of the connection.
fn acknowledge(listener: &TcpListener, most: usize) {
    let (mut to, _) = listener.accept().expect("a client");
    let mut from = BufReader::new(to.try_clone().expect("a second handle"));
    to.write_all(
        b"INFO {\"server_id\":\"X\",\"version\":\"2.10.0\",\"host\":\"127.0.0.1\",\"port\":1,\"max_payload\":1048576,\"headers\":true}\r\n",
    )
    .expect("sent");
    let (mut line, mut subscription, mut acknowledged) = (String::new(), String::new(), 0);
    while from.read_line(&mut line).is_ok_and(|octets| octets > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["PING"] => to.write_all(b"PONG\r\n").expect("sent"),
            ["SUB", .., id] => subscription = id.to_owned(),
            ["HPUB", _, reply, _, octets] => {
                let mut message = vec![0; octets.parse::<usize>().expect("a number") + 2];
                from.read_exact(&mut message).expect("received");
                if acknowledged < most {
                    acknowledged += 1;
                    let text = format!("{{\"stream\":\"S\",\"seq\":{acknowledged}}}");
                    to.write_all(
                        format!("MSG {reply} {subscription} {}\r\n{text}\r\n", text.len())
                            .as_bytes(),
                    )
                    .expect("sent");
                }
            }
            _ => {}
        }
        line.clear();
    }
}

#[test]
fn success_is_logged_while_newer_messages_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for (acknowledged, is_failing) in [(1, true), (2, false)] {
        let (mut publisher, runtime) = publisher_to(port, folder.path());
        let (_queue, mut inbox) = queue(&"test", Kind::Nats, 1 << 20);
        publisher.spool = None;
        publisher.pending.extend([message("1"), message("2")]);
        publisher.log_failure("a failure", &inbox);
        // This message is added after the first acknowledgement.
        publisher.unspooled.extend([message("3")]);
        thread::scope(|threads| {
            threads.spawn(|| acknowledge(&listener, acknowledged));
            let error = runtime.block_on(async {
                assert!(
                    publisher.wait_for_server(&mut inbox).await,
                    "the client works"
                );
                publisher.publish_some(&mut inbox).await
            });
            assert_eq!(error.as_deref(), Some("no acknowledgement"));
            // This ends the connection.
            runtime.shutdown_background();
        });
        assert_eq!(
            (
                publisher.pending.len(),
                inbox.stopper().finished(End::Complete).error.is_some()
            ),
            (3 - acknowledged, is_failing)
        );
    }
}
