//! The messages of the NATS output: one record each, or the records of a slot.

use std::collections::VecDeque;

use bytes::Bytes;
use ibnet_record::Start;
use ibnet_record::reader::Type;

use super::super::subject::{self, Word};

/// Max payload of a message with several records, in bytes. By default, a server accepts 1 MiB.
pub(super) const LARGEST: usize = 512 << 10;

/// Space for the headers of a message, which count towards the max payload of a server.
const HEADERS: usize = 1 << 10;

/// A message that the server has not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Pending {
    pub(super) subject: String,
    /// `Nats-Msg-Id`. The server stores only one of several messages with the same id.
    pub(super) id: String,
    /// One record without its line feed, or whole lines. Clones share the bytes.
    pub(super) text: Bytes,
    /// Number of records.
    pub(super) lines: u64,
}

/// Messages in order, with their total size and number of records.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    messages: VecDeque<Pending>,
    octets: usize,
    lines: u64,
}

/// What makes the subjects and ids of one output's messages unique.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) fabric: String,
    /// Random number of this process, because all processes in containers can have the same
    /// process id.
    pub(super) nonce: u64,
    /// Sequence number of the next message.
    pub(super) next: u64,
}

/// Origin of a batch: its sampler for the subject; its boot, process and slot for the message ids.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Origin {
    pub(super) sampler: String,
    pub(super) boot_id: String,
    pub(super) pid: u32,
    pub(super) slot: u64,
}

impl Names {
    /// Makes one message of each record.
    pub(super) fn lines<'a>(
        &mut self,
        sampler: &str,
        records: impl Iterator<Item = (&'a [u8], Type)>,
    ) -> Vec<Pending> {
        let message = |(text, kind): (&[u8], Type)| {
            let id = format!("{:016x}-{}", self.nonce, self.next);
            self.next += 1;
            Pending {
                subject: subject::subject(&self.fabric, sampler, Word::Record(kind)),
                id,
                text: Bytes::copy_from_slice(text),
                lines: 1,
            }
        };
        records.map(message).collect()
    }

    /// Makes messages of whole lines, which share the bytes of the text. Each message has at most
    /// [`LARGEST`] bytes, or is a single longer line.
    ///
    /// The id of a message is `BOOT-PID-SLOT-PART`. The part consists of the random number of
    /// this process and the sequence number of the message, because containers and restarts can
    /// repeat the other three.
    pub(super) fn batches(&mut self, origin: &Origin, text: &Bytes) -> Vec<Pending> {
        let subject = subject::subject(&self.fabric, &origin.sampler, Word::Batch);
        let message = |piece: &[u8]| {
            let id = format!(
                "{}-{}-{}-{:016x}.{}",
                origin.boot_id, origin.pid, origin.slot, self.nonce, self.next
            );
            self.next += 1;
            Pending {
                subject: subject.clone(),
                id,
                text: text.slice_ref(piece),
                lines: count(piece),
            }
        };
        pieces(text, LARGEST).map(message).collect()
    }
}

impl Pending {
    /// Splits a message that is larger than the max payload of the server. Returns `None` if the
    /// server accepts the message, or if the message is a single record.
    ///
    /// The same message and limit always give the same ids, so a second attempt creates no
    /// duplicates.
    pub(super) fn split(&self, max_payload: usize) -> Option<Vec<Self>> {
        let most = max_payload.saturating_sub(HEADERS);
        if self.text.len() <= most || self.lines < 2 {
            return None;
        }
        let piece = |(number, text): (usize, &[u8])| Self {
            subject: self.subject.clone(),
            id: format!("{}.{number}", self.id),
            text: self.text.slice_ref(text),
            lines: count(text),
        };
        Some(pieces(&self.text, most).enumerate().map(piece).collect())
    }
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn get(&self, place: usize) -> Option<&Pending> {
        self.messages.get(place)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.messages.iter()
    }

    pub(super) fn extend(&mut self, messages: impl IntoIterator<Item = Pending>) {
        for message in messages {
            self.octets += message.text.len();
            self.lines += message.lines;
            self.messages.push_back(message);
        }
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other).messages);
    }

    pub(super) fn remove_first(&mut self, count: usize) {
        for message in self.messages.drain(..count.min(self.messages.len())) {
            self.octets -= message.text.len();
            self.lines -= message.lines;
        }
    }

    pub(super) fn replace(&mut self, place: usize, parts: Vec<Pending>) {
        let mut rest = self.messages.split_off(place.min(self.messages.len()));
        rest.pop_front();
        self.messages.extend(parts);
        self.messages.append(&mut rest);
    }
}

impl Origin {
    /// Sets the origin to that of a source.
    pub(super) fn set(&mut self, start: &Start<String>) {
        self.sampler.clone_from(&start.sampler);
        self.boot_id.clone_from(&start.boot_id);
        self.pid = start.pid;
        self.slot = self.slot.max(start.slot);
    }
}

fn count(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// Cuts a text into pieces of whole lines. A piece has at most `most` bytes, or is a single
/// longer line.
fn pieces(text: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if rest.len() <= most {
            rest.len()
        } else {
            let head = rest.get(..most).unwrap_or(rest);
            let end = memchr::memrchr(b'\n', head).or_else(|| memchr::memchr(b'\n', rest));
            end.map_or(rest.len(), |at| at + 1)
        };
        let (piece, others) = rest.split_at(end);
        rest = others;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            fabric: "stria".to_owned(),
            nonce: 0xab,
            next: 0,
        }
    }

    #[test]
    fn pieces_are_whole_lines_of_at_most_the_size() {
        let of = |text: &'static str, most| {
            pieces(text.as_bytes(), most)
                .map(|piece| str::from_utf8(piece).expect("text"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("a\nbb\nccc\n", 5), ["a\nbb\n", "ccc\n"]);
        assert_eq!(of("a\nbb\nccc\n", 100), ["a\nbb\nccc\n"]);
        assert_eq!(of("a\nbb\nccc\n", 1), ["a\n", "bb\n", "ccc\n"]);
        assert_eq!(of("long line\nb\n", 3), ["long line\n", "b\n"]);
        assert_eq!(of("", 3), Vec::<&str>::new());
        assert_eq!(of("a\ntorn", 3), ["a\n", "torn"]);
    }

    #[test]
    fn batch_has_all_lines_in_order_and_identifiers_of_its_slot() {
        let text: String = (0..2000)
            .map(|line| format!("{line} {}\n", "x".repeat(600)))
            .collect();
        let origin = Origin {
            sampler: "a.b".to_owned(),
            boot_id: "boot".to_owned(),
            pid: 7,
            slot: 12,
        };
        let messages = names().batches(&origin, &text.clone().into());
        assert_eq!(
            messages
                .iter()
                .map(|message| &message.text[..])
                .collect::<Vec<_>>()
                .concat(),
            text.as_bytes()
        );
        assert_eq!(
            messages.iter().map(|message| message.lines).sum::<u64>(),
            2000
        );
        assert!(
            messages.iter().all(|message| message.text.len() <= LARGEST
                && message.subject == "ibnet.stria.a_b.batch")
        );
        let ids: Vec<_> = messages.iter().map(|message| message.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "boot-7-12-00000000000000ab.0",
                "boot-7-12-00000000000000ab.1",
                "boot-7-12-00000000000000ab.2"
            ]
        );
    }

    #[test]
    fn message_that_the_server_rejects_is_split() {
        let text = "one\ntwo\nthree\n";
        let message = names().batches(&Origin::default(), &text.into()).remove(0);
        assert_eq!(message.split(HEADERS + 14), None);
        let parts = message.split(HEADERS + 9).expect("too long");
        let texts: Vec<_> = parts
            .iter()
            .map(|part| (String::from_utf8_lossy(&part.text).into_owned(), part.lines))
            .collect();
        assert_eq!(
            texts,
            [("one\ntwo\n".to_owned(), 2), ("three\n".to_owned(), 1)]
        );
        assert!(parts[1].id == format!("{}.1", message.id) && parts[1].subject == message.subject);
        assert_eq!(parts[1].split(0), None, "a single record cannot be split");
    }

    #[test]
    fn message_of_one_record_has_its_type_in_the_subject() {
        let records = [(&b"{}"[..], Type::Port), (b"[]", Type::Sweep)];
        let messages = names().lines("node1", records.into_iter());
        let found: Vec<_> = messages
            .iter()
            .map(|message| (message.subject.as_str(), message.id.as_str(), message.lines))
            .collect();
        let expected = [
            ("ibnet.stria.node1.port", "00000000000000ab-0", 1),
            ("ibnet.stria.node1.sweep", "00000000000000ab-1", 1),
        ];
        assert_eq!(found, expected);
    }
}
