//! A track: the records of one sampler about one port.

use std::collections::VecDeque;
use std::sync::Arc;

use ibnet_analysis::record::ReadPort;

use super::chunk::{Chunk, OpenChunk, ROWS};
use super::names::Names;

/// The records of one sampler about one port, newest last.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) sampler: Arc<str>,
    pub(crate) is_secondary: bool,
    /// Whether the clock of the sampler is wrong.
    pub(crate) is_apart: bool,
    chunks: VecDeque<Arc<Chunk>>,
    open: OpenChunk,
    seen: Seen,
    /// Time of the newest record. 0 after the clock was set back.
    last_ts: u64,
}

/// What happened to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// It is the newest record.
    Newest,
    /// It is older than another record.
    Late,
    /// The record was already there.
    Copy,
}

/// Number of consecutive slots in which copies are detected.
const SEEN: usize = 64;

/// Times of the last records, each at the index of its slot. A copy has the same slot and time as
/// the first record. A sampler whose clock was set back uses slots again, but at other times.
#[derive(Clone, Copy, Debug)]
struct Seen([u64; SEEN]);

impl Seen {
    /// Adds a record. Returns false if it was already there. Older records are not remembered, for
    /// example those of a file that is read again.
    const fn insert(&mut self, slot: u64, ts: u64) -> bool {
        std::mem::replace(&mut self.0[(slot % SEEN as u64) as usize], ts) != ts
    }
}

impl Track {
    pub(crate) fn new(port: &ReadPort<'_>, sampler: Arc<str>, is_secondary: bool) -> Self {
        Self {
            sampler,
            is_secondary,
            is_apart: false,
            chunks: VecDeque::new(),
            open: OpenChunk::new(port),
            // No record has this time.
            seen: Seen([u64::MAX; SEEN]),
            last_ts: 0,
        }
    }

    /// Forgets the time of the newest record if it is after `newest_ns`, the newest record of the
    /// sampler, because its clock was then set back.
    pub(crate) const fn forget_after(&mut self, newest_ns: u64) {
        if self.last_ts > newest_ns {
            self.last_ts = 0;
        }
    }

    /// Adds a record, and the size of a new chunk to `octets`. The records of a chunk are at
    /// most `longest_ns` apart, so that one with a wrong time does not decide when the others
    /// are dropped.
    pub(crate) fn add(
        &mut self,
        port: &ReadPort<'_>,
        longest_ns: u64,
        names: &mut Arc<Names>,
        octets: &mut usize,
    ) -> Added {
        if !self.seen.insert(port.slot, port.ts) {
            return Added::Copy;
        }
        let is_same = self.open.is_of(port);
        let is_far = |(from, to): (u64, u64)| to.max(port.ts) - from.min(port.ts) > longest_ns;
        let is_full = self.open.rows() >= ROWS || !is_same || self.open.span().is_some_and(is_far);
        if let Some(chunk) = is_full.then(|| self.open.close()).flatten() {
            *octets += chunk.octets();
            self.chunks.push_back(Arc::new(chunk));
        }
        if !is_same {
            self.open = OpenChunk::new(port);
        }
        self.open.add(port, names);
        let added = if port.ts < self.last_ts {
            Added::Late
        } else {
            Added::Newest
        };
        self.last_ts = self.last_ts.max(port.ts);
        added
    }

    /// Returns the chunks with records from `from` to `to`, both inclusive.
    pub(crate) fn chunks(&self, from: u64, to: u64) -> Vec<Arc<Chunk>> {
        let overlaps = |span: (u64, u64)| span.0 <= to && span.1 >= from;
        let mut chunks: Vec<_> = self
            .chunks
            .iter()
            .filter(|chunk| overlaps(chunk.span))
            .cloned()
            .collect();
        if self.open.span().is_some_and(overlaps) {
            chunks.extend(self.open.pack().map(Arc::new));
        }
        chunks
    }

    /// Returns the last chunk, which is never empty.
    pub(crate) fn last_chunk(&self) -> Option<Arc<Chunk>> {
        self.open
            .pack()
            .map(Arc::new)
            .or_else(|| self.chunks.back().cloned())
    }

    /// Makes all records compact, frees the memory of the table, and returns the size of the new
    /// chunk in bytes.
    pub(crate) fn close(&mut self) -> usize {
        let Some(chunk) = self.open.close() else {
            return 0;
        };
        self.open.release();
        let octets = chunk.octets();
        self.chunks.push_back(Arc::new(chunk));
        octets
    }

    /// Removes the chunks whose end is further than `age` from all times of `now`, and returns
    /// their size in bytes. Records from the future also have an age: a clock that was ahead and
    /// has been corrected leaves them.
    pub(crate) fn drop_older(&mut self, now: [u64; 2], age: u64) -> usize {
        let mut octets = 0;
        self.chunks.retain(|chunk| {
            let is_kept = age_of(chunk.span.1, now) <= age;
            octets += if is_kept { 0 } else { chunk.octets() };
            is_kept
        });
        octets
    }

    /// Returns whether all records are further than `age` from all times of `now`.
    pub(crate) fn is_older(&self, now: [u64; 2], age: u64) -> bool {
        self.chunks.is_empty()
            && self
                .open
                .span()
                .is_none_or(|(_, end)| age_of(end, now) > age)
    }

    /// Returns the end and the size in bytes of each chunk.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (u64, usize)> {
        self.chunks
            .iter()
            .map(|chunk| (chunk.span.1, chunk.octets()))
    }

    pub(crate) fn first_ts(&self) -> Option<u64> {
        self.chunks
            .iter()
            .map(|chunk| chunk.span.0)
            .chain(self.open.span().map(|span| span.0))
            .min()
    }

    /// Returns the size in bytes of the records that are not compact yet.
    pub(crate) fn open_octets(&self) -> usize {
        size_of::<Self>() + self.open.octets()
    }
}

/// Returns the distance of a time from the nearest time of `now`.
pub(crate) fn age_of(ns: u64, now: [u64; 2]) -> u64 {
    let [one, other] = now.map(|now| now.abs_diff(ns));
    one.min(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_seen_once() {
        let mut seen = Seen([u64::MAX; SEEN]);
        let slots = [100, 101, 100, 103, 102, 102, 103, 165, 104, 103, 101, 101];
        let found: Vec<bool> = slots
            .iter()
            .map(|slot| seen.insert(*slot, slot * 10))
            .collect();
        let expected = [
            true, true, false, true, true, false, false, true, true, false, true, false,
        ];
        assert_eq!(
            found, expected,
            "a slot is not remembered after one that is 64 slots later"
        );
        let again = [100, 103, 103].map(|slot| seen.insert(slot, slot * 10 + 1));
        assert_eq!(
            again,
            [true, true, false],
            "slots that are used again, at other times"
        );
    }
}
