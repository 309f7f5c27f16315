//! The records of one sampler about one port.

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
    last_ts: u64,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// It is the newest record.
    Newest,
    /// It is older than another record.
    Late,
    /// The record was already there.
    Copy,
}

/// The slots of the last records.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: u64,
    /// Bit *n* is set if the record of slot `last` - *n* was seen.
    bits: u64,
}

impl Seen {
    /// Adds a slot. Returns false if it is there already.
    fn insert(&mut self, slot: u64) -> bool {
        if slot > self.last || self.bits == 0 {
            let by = slot - self.last.min(slot);
            self.bits = if by < 64 { self.bits << by } else { 0 } | 1;
            self.last = slot;
            return true;
        }
        let bit = match self.last - slot {
            // A record of long ago can come from a file that is read again.
            64.. => return true,
            by => 1 << by,
        };
        let is_new = self.bits & bit == 0;
        self.bits |= bit;
        is_new
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
            seen: Seen::default(),
            last_ts: 0,
        }
    }

    /// Adds a record. Adds the octets of a new chunk to `octets`. The records of a chunk are at most
    /// `longest_ns` apart, so that one with a wrong time does not decide when the others are dropped.
    pub(crate) fn add(&mut self, port: &ReadPort<'_>, longest_ns: u64, names: &mut Arc<Names>, octets: &mut usize) -> Added {
        // Records without a slot are copies if they have the same time.
        let is_new = if port.slot > 0 { self.seen.insert(port.slot) } else { port.ts != self.last_ts };
        if !is_new {
            return Added::Copy;
        }
        let is_same = self.open.identity.is_of(port);
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
        let added = if port.ts < self.last_ts { Added::Late } else { Added::Newest };
        self.last_ts = self.last_ts.max(port.ts);
        added
    }

    /// Returns the chunks with records from `from` to `to`, both inclusive.
    pub(crate) fn chunks(&self, from: u64, to: u64) -> Vec<Arc<Chunk>> {
        let overlaps = |span: (u64, u64)| span.0 <= to && span.1 >= from;
        let mut chunks: Vec<_> = self.chunks.iter().filter(|chunk| overlaps(chunk.span)).cloned().collect();
        if self.open.span().is_some_and(overlaps) {
            chunks.extend(self.open.pack().map(Arc::new));
        }
        chunks
    }

    /// Returns the last chunk. It is not empty.
    pub(crate) fn last_chunk(&self) -> Option<Arc<Chunk>> {
        self.open.pack().map(Arc::new).or_else(|| self.chunks.back().cloned())
    }

    /// Makes all records compact and returns the octets of the new chunk. The memory of the table is freed.
    pub(crate) fn close(&mut self) -> usize {
        let Some(chunk) = self.open.close() else { return 0 };
        self.open.release();
        let octets = chunk.octets();
        self.chunks.push_back(Arc::new(chunk));
        octets
    }

    /// Removes the chunks whose end is further than `age` from all times of `now`. Returns their octets. A
    /// clock that was corrected leaves records of the time to come.
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
        self.chunks.is_empty() && self.open.span().is_none_or(|(_, end)| age_of(end, now) > age)
    }

    /// Returns the end and the octets of each chunk.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (u64, usize)> {
        self.chunks.iter().map(|chunk| (chunk.span.1, chunk.octets()))
    }

    /// Returns the time of the first record.
    pub(crate) fn first_ts(&self) -> Option<u64> {
        self.chunks.iter().map(|chunk| chunk.span.0).chain(self.open.span().map(|span| span.0)).min()
    }

    /// Returns the octets of the records that are not compact yet.
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
    fn slots_are_seen_once() {
        let mut seen = Seen::default();
        let slots = [100, 101, 100, 103, 102, 102, 103, 167, 104, 103, 90, 90];
        let found: Vec<bool> = slots.iter().map(|slot| seen.insert(*slot)).collect();
        let expected = [true, true, false, true, true, false, false, true, true, true, true, true];
        assert_eq!(found, expected, "a slot more than 63 slots ago is not remembered");
    }
}
