//! Records that wait for the readers of a socket, shared by all readers.
//!
//! Each slot is in memory only once, however many readers there are: a reader is just a position
//! in the records, and copies about [`PIECE`] bytes at a time. The oldest slots are removed when
//! all readers have copied them, or when the records exceed the limit. A reader that loses
//! records in this way receives a `lines_lost` event with their number before its next record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ibnet_record::Start;

use super::batch::Batch;
use super::fullness::Fullness;
use super::queue::{SourceId, octets};
use super::stream::write_start;

/// Number of bytes that a reader copies at a time. The last copied record may exceed it.
pub(super) const PIECE: usize = 32 << 10;

/// Records that at least one reader has not received yet.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Max number of bytes. A single slot may exceed it.
    bound: u64,
    octets: u64,
    entries: VecDeque<Entry>,
    /// Sequence number of the first entry.
    first: u64,
    readers: BTreeMap<u32, Reader>,
}

#[derive(Debug)]
enum Entry {
    /// New `start` record of a source.
    Start(SourceId, Arc<Start<String>>),
    /// Records, and how many records were dropped directly before them.
    Lines(Arc<Batch>, u64),
}

/// Position and counts of a reader.
#[derive(Debug, Default)]
struct Reader {
    /// Name for the log.
    name: String,
    /// Sequence number of the reader's connection, which is `file_seq` in its `start` records.
    seq: u32,
    /// Sequence number of the next entry.
    entry: u64,
    /// Number of records of the next entry that the reader has already copied.
    taken: u64,
    /// `start` records to write before the next record.
    starts: Vec<(SourceId, Arc<Start<String>>)>,
    /// Number of lost records that no event reports yet.
    lost: u64,
    /// Number of records that events have reported since the last `sweep` record.
    unswept: u64,
    /// Number of records in the piece that the reader is writing, including the records whose
    /// loss the piece reports.
    in_flight: u64,
    /// What the log has reported about records that the reader lost.
    fullness: Fullness,
}

impl Backlog {
    pub(super) fn new(bound: u64) -> Self {
        Self {
            bound,
            octets: 0,
            entries: VecDeque::new(),
            first: 0,
            readers: BTreeMap::new(),
        }
    }

    /// Adds a reader. It receives these `start` records, and then all records that are added from
    /// now on.
    pub(super) fn connect(
        &mut self,
        seq: u32,
        name: String,
        starts: Vec<(SourceId, Arc<Start<String>>)>,
    ) {
        let reader = Reader {
            name,
            seq,
            entry: self.end(),
            starts,
            ..Reader::default()
        };
        self.readers.insert(seq, reader);
    }

    pub(super) fn disconnect(&mut self, seq: u32) {
        self.readers.remove(&seq);
    }

    /// Adds a `start` record.
    pub(super) fn start(&mut self, source: SourceId, start: &Arc<Start<String>>) {
        self.push(Entry::Start(source, Arc::clone(start)));
    }

    /// Adds records. `dropped` is the number of records that were dropped directly before them.
    pub(super) fn lines(&mut self, batch: &Arc<Batch>, dropped: u64) {
        self.push(Entry::Lines(Arc::clone(batch), dropped));
    }

    /// Writes the next records of a reader to `text`. If there are none, `text` stays empty.
    pub(super) fn take(&mut self, seq: u32, text: &mut Vec<u8>) {
        text.clear();
        let Some(reader) = self.readers.get_mut(&seq) else {
            return;
        };
        reader.in_flight = 0;
        reader.write_starts(text);
        while text.len() < PIECE
            && let Some(entry) = self
                .entries
                .get(reader.entry.saturating_sub(self.first) as usize)
        {
            match entry {
                Entry::Start(_, start) => {
                    write_start(start, seq, text);
                    reader.entry += 1;
                }
                Entry::Lines(batch, dropped) => reader.write_lines(batch, *dropped, text),
            }
        }
    }

    /// Returns the number of records that the connected readers have not received, including lost
    /// records that no event has reported.
    pub(super) fn unwritten(&self) -> u64 {
        let waiting = |reader: &Reader| {
            let entries = self
                .entries
                .iter()
                .skip(reader.entry.saturating_sub(self.first) as usize);
            let records: u64 = entries.map(Entry::records).sum();
            (records + reader.lost + reader.in_flight).saturating_sub(reader.taken)
        };
        self.readers.values().map(waiting).sum()
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn push(&mut self, entry: Entry) {
        let needed = self.readers.values().map(|reader| reader.entry).min();
        while !self.entries.is_empty() && needed.is_none_or(|needed| self.first < needed) {
            self.remove_first();
        }
        self.octets += entry.octets();
        self.entries.push_back(entry);
        while self.octets > self.bound && self.entries.len() > 1 {
            self.remove_first();
        }
    }

    /// Removes the first entry. A reader that has copied only a part of the entry, or nothing,
    /// loses the rest.
    fn remove_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.octets -= entry.octets();
        let number = self.first;
        self.first += 1;
        for reader in self
            .readers
            .values_mut()
            .filter(|reader| reader.entry == number)
        {
            reader.lose(&entry);
        }
    }
}

impl Entry {
    fn octets(&self) -> u64 {
        match self {
            // About the size of a `start` record.
            Self::Start(..) => 1024,
            Self::Lines(batch, _) => octets(batch),
        }
    }

    /// Returns the number of records, including those that were dropped directly before them.
    fn records(&self) -> u64 {
        match self {
            Self::Start(..) => 0,
            Self::Lines(batch, dropped) => batch.lines + dropped,
        }
    }
}

impl Reader {
    /// Skips the rest of the next entry.
    fn lose(&mut self, entry: &Entry) {
        match entry {
            Entry::Start(source, start) => {
                self.starts.retain(|(of, _)| of != source);
                self.starts.push((*source, Arc::clone(start)));
            }
            Entry::Lines(batch, _) => {
                let lost = entry.records().saturating_sub(self.taken);
                self.lost += lost;
                self.fullness.refused(&self.name, lost, batch.ts);
            }
        }
        self.next_entry();
    }

    fn next_entry(&mut self) {
        (self.entry, self.taken) = (self.entry + 1, 0);
    }

    fn write_starts(&mut self, text: &mut Vec<u8>) {
        for (_, start) in std::mem::take(&mut self.starts) {
            write_start(&start, self.seq, text);
        }
    }

    /// Writes records of a batch until the text has [`PIECE`] bytes.
    fn write_lines(&mut self, batch: &Batch, dropped: u64, text: &mut Vec<u8>) {
        if self.taken == 0 {
            // The dropped records come first. They count as taken, because `lost` now counts them.
            (self.lost, self.taken) = (self.lost + dropped, dropped);
            let before = text.len();
            if self.lost > 0 {
                batch.write_gap(self.lost, text, &mut Vec::new());
            }
            if text.len() > before {
                let reported = std::mem::take(&mut self.lost);
                (self.unswept, self.in_flight) =
                    (self.unswept + reported, self.in_flight + reported);
            }
        }
        self.fullness.accepted(&self.name, batch.ts);
        let from = self.taken - dropped;
        let to = batch.write_from(from, self.unswept, PIECE, text);
        if batch
            .place_of_sweep()
            .is_some_and(|place| (from..to).contains(&place))
        {
            self.unswept = 0;
        }
        self.in_flight += to - from;
        self.taken = dropped + to;
        if to >= batch.items() {
            self.next_entry();
        }
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::reader::Type;

    use super::super::batch::short;
    use super::*;

    /// A slot of `ports` records of about 1 kB and a `sweep` record.
    fn slot(number: u64, ports: usize) -> Arc<Batch> {
        let mut batch = Batch {
            gap: Some(short::gap()),
            ..Batch::default()
        };
        (0..ports).for_each(|port| {
            batch.push(Type::Port, &format!("{number}-{port}-{}", "x".repeat(1000)));
        });
        batch.sweep = Some((batch.bytes.len(), short::sweep(number)));
        batch.lines += 1;
        Arc::new(batch)
    }

    /// Takes all records of a reader, each abbreviated.
    fn all(backlog: &mut Backlog, seq: u32) -> Vec<String> {
        let (mut text, mut lines) = (Vec::new(), String::new());
        loop {
            backlog.take(seq, &mut text);
            assert!(text.len() < PIECE + 4096, "{} octets", text.len());
            if text.is_empty() {
                break;
            }
            assert!(text.ends_with(b"\n"));
            lines.push_str(&String::from_utf8_lossy(&text));
        }
        short::of(&lines)
            .lines()
            .map(|line| line.split("-x").next().unwrap_or(line).to_owned())
            .collect()
    }

    fn starts() -> Vec<(SourceId, Arc<Start<String>>)> {
        vec![(1, Arc::new(short::start("a")))]
    }

    #[test]
    fn reader_receives_the_start_records_and_all_slots_from_its_connection_on() {
        let mut backlog = Backlog::new(1 << 20);
        backlog.lines(&slot(1, 1), 0);
        backlog.connect(7, "r".to_owned(), starts());
        backlog.lines(&slot(2, 1), 0);
        backlog.start(2, &Arc::new(short::start("b")));
        backlog.lines(&slot(3, 1), 0);
        assert_eq!(backlog.unwritten(), 4);
        let expected = [
            "start a seq=7",
            "\"2-0",
            "sweep 2 lost=0",
            "start b seq=7",
            "\"3-0",
            "sweep 3 lost=0",
        ];
        assert_eq!(all(&mut backlog, 7), expected);
        assert_eq!(backlog.unwritten(), 0);
    }

    #[test]
    fn slots_are_removed_when_all_readers_have_them() {
        let mut backlog = Backlog::new(1 << 20);
        (1..=9).for_each(|number| backlog.lines(&slot(number, 1), 0));
        assert_eq!(backlog.entries.len(), 1, "no reader");
        backlog.connect(0, "r".to_owned(), starts());
        backlog.connect(1, "s".to_owned(), starts());
        (10..=19).for_each(|number| backlog.lines(&slot(number, 1), 0));
        all(&mut backlog, 0);
        backlog.lines(&slot(20, 1), 0);
        assert_eq!(backlog.entries.len(), 11, "one reader has not read");
        all(&mut backlog, 1);
        backlog.lines(&slot(21, 1), 0);
        assert_eq!(backlog.entries.len(), 2);
    }

    #[test]
    fn lost_records_are_reported_once_by_the_event_and_by_the_sweep_record() {
        let mut backlog = Backlog::new(12_000);
        backlog.connect(0, "r".to_owned(), starts());
        (1..=8).for_each(|number| backlog.lines(&slot(number, 3), 0));
        assert!(backlog.octets <= 12_000, "{}", backlog.octets);
        let kept = backlog.entries.len() as u64;
        assert_eq!(backlog.unwritten(), 8 * 4);
        let lines = all(&mut backlog, 0);
        let lost = 4 * (8 - kept);
        assert_eq!(
            lines[..2],
            ["start a seq=0".to_owned(), format!("gap={lost}")]
        );
        assert_eq!(lines[5], format!("sweep {} lost={lost}", 8 - kept + 1));
        assert_eq!(lines.len() as u64, 2 + 4 * kept);
        assert_eq!(backlog.unwritten(), 0);
    }

    #[test]
    fn reader_within_a_removed_slot_loses_the_rest_of_it() {
        let mut backlog = Backlog::new(100_000);
        backlog.connect(0, "r".to_owned(), starts());
        backlog.lines(&slot(1, 80), 5);
        let mut text = Vec::new();
        backlog.take(0, &mut text);
        let first = short::of(&String::from_utf8_lossy(&text));
        let read = first.lines().filter(|line| line.starts_with('"')).count();
        assert!(
            first.starts_with("start a seq=0\ngap=5\n") && (30..40).contains(&read),
            "{read} records"
        );
        assert_eq!(backlog.unwritten(), 5 + 81, "nothing is written yet");
        backlog.lines(&slot(2, 80), 0);
        let rest = all(&mut backlog, 0);
        let lost = 81 - read;
        assert_eq!(rest[0], format!("gap={lost}"));
        // The events since the last `sweep` record have reported both losses.
        assert_eq!(rest[81], format!("sweep 2 lost={}", 5 + lost));
    }

    #[test]
    fn octets_do_not_depend_on_the_number_of_readers() {
        let mut backlog = Backlog::new(50_000);
        for number in 0..1000 {
            backlog.connect(number, "r".to_owned(), starts());
            backlog.lines(&slot(number.into(), 3), 0);
            let mut text = Vec::new();
            backlog.take(number, &mut text);
        }
        assert!(backlog.octets <= 50_000 && backlog.readers.len() == 1000);
    }

    #[test]
    fn start_record_of_a_removed_entry_is_not_lost() {
        let mut backlog = Backlog::new(12_000);
        backlog.connect(0, "r".to_owned(), starts());
        backlog.start(1, &Arc::new(short::start("again")));
        (1..=8).for_each(|number| backlog.lines(&slot(number, 3), 0));
        let lines = all(&mut backlog, 0);
        assert!(
            lines[0] == "start again seq=0" && lines[1].starts_with("gap="),
            "{lines:?}"
        );
    }
}
