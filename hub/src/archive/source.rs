//! Reads files and JetStream for the archive.
//!
//! These inputs keep their lines, so nothing is lost while the hub is stopped or the disk is full.
//! The reader waits, and it acknowledges messages or saves a position only when the lines before it
//! are durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::spool::{Spool, SpoolError};
use super::status::with_help;
use crate::input::file::{self, Start};
use crate::input::positions::Positions;
use crate::input::{self, Input, Message, What};
use crate::threads::Threads;

/// Number of position reports between two saves. A report comes every second.
const SAVE_EVERY: u32 = 5;

/// Starts the reader of an input that keeps its lines. `consumer` is the name of the durable
/// consumer of a JetStream stream.
///
/// # Errors
/// Returns the error of the operating system.
pub(crate) fn start(
    input: &Input,
    spool: Arc<Spool>,
    consumer: &str,
    threads: &Threads,
) -> io::Result<()> {
    match input {
        Input::File(pattern) => start_files(pattern.clone(), spool, threads),
        #[cfg(feature = "nats")]
        Input::Nats(nats) if nats.stream.is_some() => {
            super::stream::start(nats.clone(), consumer, spool, threads)
        }
        _ => {
            let _ = consumer;
            Ok(())
        }
    }
}

fn start_files(pattern: String, spool: Arc<Spool>, threads: &Threads) -> io::Result<()> {
    let path = positions_path(spool.folder(), &pattern);
    let positions = load(&spool, &path);
    let (mut senders, messages) = input::queue(1);
    let Some(sender) = senders.pop() else {
        return Ok(());
    };
    let reader = move || {
        // The reader ends when the hub stops.
        let _ = file::follow(&pattern, Start::Behind(positions), &sender);
    };
    threads.start("archive-files", reader)?;
    threads.start("archive-lines", move || keep(&messages, &spool, &path))
}

/// Returns the path of the file with the positions of a pattern.
fn positions_path(folder: &Path, pattern: &str) -> PathBuf {
    // FNV-1a: the name must be the same after each restart.
    let hash = pattern
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
        });
    folder.join(format!("read-{hash:016x}.positions"))
}

/// Returns the positions of an earlier hub. If they cannot be read, all files are read again; the
/// archive drops the copies of their records.
fn load(spool: &Spool, path: &Path) -> Positions {
    let loaded = Positions::load(path).map_err(|source| SpoolError::Read {
        path: path.to_owned(),
        source,
    });
    note(spool, path, loaded.as_ref().err());
    loaded.unwrap_or_default()
}

/// Sets or clears the fault of the positions.
fn note(spool: &Spool, path: &Path, fault: Option<&SpoolError>) {
    let fault = fault.map(|error| with_help(error));
    spool.set_reader_fault(&path.display().to_string(), fault);
}

/// Adds lines to the spool, and then saves the positions after them.
fn keep(messages: &Receiver<Message>, spool: &Spool, path: &Path) {
    let (mut saved, mut reports) = (None, 0_u32);
    for message in messages {
        match message.what {
            What::Lines(lines) => spool.add_when_possible(&lines),
            What::Read(positions) => {
                reports += 1;
                if reports % SAVE_EVERY == 1 && saved.as_ref() != Some(&positions) {
                    spool.sync_when_possible();
                    // After a failure here, the files are read again from their last
                    // saved positions.
                    let written = positions.save(path).map_err(|source| SpoolError::Write {
                        path: path.to_owned(),
                        source,
                    });
                    note(spool, path, written.as_ref().err());
                    if written.is_ok() {
                        saved = Some(positions);
                    }
                }
            }
            // The reader for the web page reports the condition of the input.
            What::TooLong
            | What::Connected
            | What::Lost(_)
            | What::Failed(_)
            | What::Refused(_)
            | What::Ended => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::archive::status::Shared;

    #[test]
    fn positions_that_cannot_be_read_or_written_are_a_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let status = Arc::new(Shared::default());
        let spool = Spool::open(folder.path(), 1 << 20, Arc::clone(&status)).expect("a spool");
        let error = || status.lock().error.clone().unwrap_or_default();
        let path = positions_path(spool.folder(), "*");
        let report = || {
            let (senders, messages) = input::queue(1);
            senders[0]
                .send(What::Read(Positions::default()))
                .expect("the receiver is there");
            drop(senders);
            keep(&messages, &spool, &path);
        };
        fs::create_dir(&path).expect("created");
        assert_eq!(load(&spool, &path), Positions::default());
        let name = path.display();
        assert!(error().starts_with(&format!("cannot read {name}: ")));
        report();
        assert!(error().starts_with(&format!("cannot write {name}: ")));
        fs::remove_dir(&path).expect("removed");
        report();
        assert_eq!(error(), "");
    }
}
