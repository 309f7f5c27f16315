//! The order of the messages, without a server.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::super::options::{Kind, NatsOptions, SpoolOptions};
use super::super::super::queue::queue;
use super::super::new_runtime;
use super::*;

/// Limit of the spool. A segment has an eighth of it, so each message below has its own segment.
const MOST: u64 = 8 * 100;

fn publisher(folder: &Path) -> (Publisher, tokio::runtime::Runtime) {
    let options = NatsOptions { server: "nats://127.0.0.1:1".to_owned(), ..NatsOptions::default() };
    let runtime = new_runtime().expect("a runtime");
    let publisher = Publisher {
        server: options.shown_server(),
        session: Session::open(&options, &runtime).expect("a client without a connection"),
        stream: Stream::default(),
        batching: Batching::Line,
        names: Names { fabric: String::new(), nonce: 0, next: 0 },
        compressor: None,
        spool: Some(Spool::open(&SpoolOptions { folder: folder.to_owned(), most: MOST }).expect("a folder")),
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
    Pending { subject: "subject".to_owned(), id: id.to_owned(), text: text.into(), lines: 1 }
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
    assert_eq!((ids(&publisher.pending), ids(&publisher.unspooled)), (vec!["1"], vec!["2"]));
    assert!(!publisher.accepts(), "a new message would overtake the second one");
    // The server acknowledges the first message.
    publisher.pending.remove_first(1);
    publisher.fill(&mut inbox);
    assert_eq!((ids(&publisher.pending), ids(&publisher.unspooled)), (vec!["2"], vec![]), "nothing else is awaited first");
    assert!(publisher.accepts() && !publisher.is_spooling());
}

#[test]
fn disk_with_space_again_takes_the_messages_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut publisher, _runtime) = with_unspooled(folder.path());
    let (_queue, mut inbox) = queue(&"test", Kind::Nats, 1 << 20);
    set_full(folder.path(), false);
    publisher.fill(&mut inbox);
    assert_eq!((ids(&publisher.pending), publisher.unspooled.is_empty()), (vec!["1", "2"], true));
    assert_eq!(publisher.unacknowledged(), 0, "both are on the disk");
}
