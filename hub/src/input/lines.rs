//! Splits a byte stream into batches of whole lines.

use std::io::{self, Read};

use super::{READ, Sender, Stopped, What};

/// Max length of a line in bytes. A record has at most 16 KiB.
const LONGEST: usize = 1 << 20;

/// Bytes of the current line, which is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    rest: Vec<u8>,
    /// Whether the beginning of the current line was dropped because the line is too long.
    is_skipping: bool,
}

impl Splitter {
    /// Adds bytes and sends the whole lines.
    pub(crate) fn add(&mut self, octets: &[u8], sender: &Sender) -> Result<(), Stopped> {
        let mut octets = octets;
        if self.is_skipping {
            let Some(end) = memchr::memchr(b'\n', octets) else {
                return Ok(());
            };
            (octets, self.is_skipping) = (&octets[end + 1..], false);
        }
        let Some(end) = memchr::memrchr(b'\n', octets) else {
            self.rest.extend_from_slice(octets);
            if self.rest.len() > LONGEST {
                (self.rest, self.is_skipping) = (Vec::new(), true);
                sender.send(What::TooLong)?;
            }
            return Ok(());
        };
        let (lines, rest) = octets.split_at(end + 1);
        let mut batch = std::mem::take(&mut self.rest);
        batch.extend_from_slice(lines);
        self.rest.extend_from_slice(rest);
        sender.send(What::Lines(batch))
    }

    /// Sends the last line, which has no line feed.
    pub(crate) fn finish(&mut self, sender: &Sender) -> Result<(), Stopped> {
        self.is_skipping = false;
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            Ok(())
        } else {
            sender.send(What::Lines(rest))
        }
    }

    /// Takes the beginning of the incomplete line.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// Returns whether the bytes without a line feed are probably a whole record.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.last() == Some(&b'}')
    }

    /// Returns the number of bytes of the incomplete line.
    pub(crate) const fn pending(&self) -> usize {
        self.rest.len()
    }

    /// Drops the beginning of a line whose end can no longer arrive.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Reads to the end, or to an error.
pub(crate) fn read_all(
    from: &mut impl Read,
    splitter: &mut Splitter,
    sender: &Sender,
) -> Result<io::Result<()>, Stopped> {
    let mut buffer = vec![0; READ];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(octets) => splitter.add(&buffer[..octets], sender)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue;
    use super::*;

    fn batches(parts: &[&[u8]]) -> Vec<String> {
        let (senders, receiver) = queue(1);
        let mut splitter = Splitter::default();
        for part in parts {
            splitter
                .add(part, &senders[0])
                .expect("the receiver is there");
        }
        splitter.finish(&senders[0]).expect("the receiver is there");
        let text = |what| match what {
            What::Lines(lines) => String::from_utf8(lines).expect("text"),
            other => format!("{other:?}"),
        };
        receiver
            .try_iter()
            .map(|message| text(message.what))
            .collect()
    }

    #[test]
    fn lines_are_never_cut() {
        assert_eq!(
            batches(&[b"one\ntwo\nth", b"r", b"ee\nfo", b"ur"]),
            ["one\ntwo\n", "three\n", "four"]
        );
        assert!(batches(&[b""]).is_empty());
    }

    #[test]
    fn too_long_line_is_skipped() {
        let long = vec![b'x'; LONGEST + 1];
        assert_eq!(
            batches(&[b"one\n", &long, &long, b"end\ntwo\nthree"]),
            ["one\n", "TooLong", "two\n", "three"]
        );
    }
}
