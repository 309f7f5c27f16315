//! Handles FIFOs, where a record that has been written may not have been read yet.
//!
//! The kernel holds up to one megabyte of a FIFO for its reader, and discards it when the last
//! descriptor is closed. Before the output ends, it therefore waits until the reader has
//! everything. It counts the records that no process can read any more, also while it waits for a
//! full FIFO.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::ioctl_fionread;

use super::write_counted;

/// Max number of bytes that a FIFO holds: the default of `/proc/sys/fs/pipe-max-size`.
const MAX: u64 = 1 << 20;

/// Reason for unread records in the log and the result.
const NO_READER: &str = "no process reads the FIFO";

/// Pause between two checks whether the FIFO is empty, because the kernel reports no event for
/// this.
const PAUSE: Duration = Duration::from_millis(10);

/// Open flags of a FIFO: a write to a full one does not block.
pub(super) const FLAGS: i32 = OFlags::NONBLOCK.bits() as i32;

/// Time after which the records in a full FIFO are counted again, in nanoseconds. A reader can take
/// less than a write needs, and `poll` then reports nothing.
const COUNT_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Sizes of the lines that the FIFO may still hold.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    lines: VecDeque<u64>,
    /// Sum of `lines`.
    octets: u64,
}

impl Fifo {
    /// Writes a text, and returns the number of written bytes. While the FIFO is full, it waits
    /// and passes the number of earlier lines that are not read yet to `unread`.
    pub(super) fn write(
        &mut self,
        mut file: &File,
        text: &[u8],
        unread: impl Fn(u64),
    ) -> (usize, io::Result<()>) {
        let mut written = 0;
        let result = loop {
            let (more, result) = write_counted(&mut file, &text[written..]);
            written += more;
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The records of this text still count as queued, so only those before it are
                    // counted here.
                    let octets = ioctl_fionread(file)
                        .unwrap_or(0)
                        .saturating_sub(written as u64);
                    unread(if octets > 0 { self.lines_in(octets) } else { 0 });
                    // An error of `poll`, such as an interrupting signal, only leads to the next
                    // write.
                    let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&COUNT_AGAIN));
                }
                result => break result,
            }
        };
        self.wrote(&text[..written]);
        (written, result)
    }

    /// Adds a text that was written, and removes lines that the FIFO can no longer hold.
    fn wrote(&mut self, text: &[u8]) {
        for line in text.split_inclusive(|octet| *octet == b'\n') {
            self.lines.push_back(line.len() as u64);
            self.octets += line.len() as u64;
        }
        while let Some(first) = self
            .lines
            .front()
            .copied()
            .filter(|first| self.octets - first >= MAX)
        {
            self.lines.pop_front();
            self.octets -= first;
        }
    }

    /// Waits until the reader has read everything, or until no process has the FIFO open for
    /// reading. `unread` receives the number of unread lines, and the reason.
    pub(super) fn wait(&self, file: File, path: &Path, unread: impl Fn(u64, &str)) {
        // `file` is also open for reading, so it would count as a reader. A descriptor for
        // writing only shows whether another reader exists.
        let Ok(writer) = writer(path) else {
            // Another program has moved the FIFO, or the FIFO has no reader.
            let lines = ioctl_fionread(&file)
                .ok()
                .filter(|octets| *octets > 0)
                .map_or(0, |octets| self.lines_in(octets));
            return unread(lines, NO_READER);
        };
        drop(file);
        while let Ok(octets @ 1..) = ioctl_fionread(&writer) {
            let has_reader = self::writer(path).is_ok();
            unread(
                self.lines_in(octets),
                if has_reader {
                    "the reader of the FIFO does not read"
                } else {
                    NO_READER
                },
            );
            if !has_reader {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        unread(0, "");
    }

    /// Returns the number of lines to which the last `octets` bytes belong.
    fn lines_in(&self, octets: u64) -> u64 {
        let ends = self.lines.iter().rev().scan(0, |sum, line| {
            *sum += line;
            Some(*sum)
        });
        ends.take_while(|sum| *sum < octets).count() as u64 + 1
    }
}

/// Opens a FIFO for writing only. This fails if the FIFO has no reader.
fn writer(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(FLAGS)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_read_in_part_count_as_unread() {
        let mut fifo = Fifo::default();
        fifo.wrote(b"one\ntwo\nthree\n");
        assert_eq!(
            [1, 6, 7, 10, 11, 14].map(|octets| fifo.lines_in(octets)),
            [1, 1, 2, 2, 3, 3]
        );
    }

    #[test]
    fn only_the_last_octets_are_kept() {
        let mut fifo = Fifo::default();
        (0..100).for_each(|_| fifo.wrote(&[b'x'; 100_000]));
        assert!(
            fifo.octets >= MAX && fifo.lines.len() == 11,
            "{}",
            fifo.lines.len()
        );
    }
}
