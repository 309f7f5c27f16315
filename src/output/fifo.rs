//! The reader of a FIFO: a record that was written is not yet a record that was read.
//!
//! The kernel keeps up to a megabyte of a FIFO for its reader, and discards it when the last
//! descriptor is closed. The output therefore waits at the end until the reader has all octets, and
//! counts the records that no process can read any more.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::ioctl_fionread;

/// Largest number of octets that a FIFO holds: the default of `/proc/sys/fs/pipe-max-size`.
const MOST: u64 = 1 << 20;

/// Pause between two looks at the FIFO. The kernel reports no event when a FIFO becomes empty.
const PAUSE: Duration = Duration::from_millis(10);

/// Sizes of the lines that a FIFO may still hold.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    lines: VecDeque<u64>,
    /// Sum of `lines`.
    octets: u64,
}

impl Fifo {
    /// Adds a text that was written.
    pub(super) fn wrote(&mut self, text: &[u8]) {
        for line in text.split_inclusive(|octet| *octet == b'\n') {
            self.lines.push_back(line.len() as u64);
            self.octets += line.len() as u64;
        }
        while let Some(first) = self.lines.front().copied().filter(|first| self.octets - first >= MOST) {
            self.lines.pop_front();
            self.octets -= first;
        }
    }

    /// Waits until the reader has read everything, or until no process has the FIFO open for
    /// reading. `unread` receives the number of lines that are not read.
    pub(super) fn wait(&self, file: File, path: &Path, unread: impl Fn(u64)) {
        // `file` is open for reading too. Without it the kernel tells whether there is a reader.
        let Ok(writer) = writer(path) else {
            // Another program moved the FIFO: no reader can be found any more.
            return unread(ioctl_fionread(&file).ok().filter(|octets| *octets > 0).map_or(0, |octets| self.lines_in(octets)));
        };
        drop(file);
        while let Ok(octets @ 1..) = ioctl_fionread(&writer) {
            unread(self.lines_in(octets));
            if self::writer(path).is_err() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        unread(0);
    }

    /// Returns the number of lines that the last octets are part of.
    fn lines_in(&self, octets: u64) -> u64 {
        let ends = self.lines.iter().rev().scan(0, |sum, line| {
            *sum += line;
            Some(*sum)
        });
        ends.take_while(|sum| *sum < octets).count() as u64 + 1
    }
}

/// Opens a FIFO for writing only. That fails without a reader.
fn writer(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_read_in_part_count_as_unread() {
        let mut fifo = Fifo::default();
        fifo.wrote(b"one\ntwo\nthree\n");
        assert_eq!([1, 6, 7, 10, 11, 14].map(|octets| fifo.lines_in(octets)), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn only_the_last_octets_are_kept() {
        let mut fifo = Fifo::default();
        (0..100).for_each(|_| fifo.wrote(&[b'x'; 100_000]));
        assert!(fifo.octets >= MOST && fifo.lines.len() == 11, "{}", fifo.lines.len());
    }
}
