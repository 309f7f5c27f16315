//! The readers of files and of JetStream for the archive.
//!
//! These inputs keep their lines, so nothing of them is lost while the hub does not run, or while the
//! disk is full: the reader waits, and an acknowledgement or a saved position follows only when the
//! lines before it are durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::spool::Spool;
use crate::input::file::{self, Start};
use crate::input::positions::Positions;
use crate::input::{self, Input, Message, What};
use crate::threads::Threads;

/// Number of reports after which positions are saved. A report comes every second.
const SAVE_EVERY: u32 = 5;

/// Starts the reader of an input that keeps its lines. `consumer` is the name of the durable consumer
/// of a JetStream stream.
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
    let positions = Positions::load(&path)?;
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

/// Adds lines to the spool, and saves the positions behind them.
fn keep(messages: &Receiver<Message>, spool: &Spool, path: &Path) {
    let (mut saved, mut reports) = (None, 0_u32);
    for message in messages {
        match message.what {
            What::Lines(lines) => spool.add_when_possible(&lines),
            What::Read(positions) => {
                reports += 1;
                if reports % SAVE_EVERY == 1 && saved.as_ref() != Some(&positions) {
                    spool.sync_when_possible();
                    // Without it, the files are read again from their last positions.
                    match positions.save(path) {
                        Ok(()) => saved = Some(positions),
                        Err(error) => {
                            tracing::debug!(path = %path.display(), %error, "cannot save positions");
                        }
                    }
                }
            }
            // The reader of the page reports the condition of the input.
            What::TooLong | What::Connected | What::Lost(_) | What::Failed(_) | What::Ended => {}
        }
    }
}
