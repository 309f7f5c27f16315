//! A *batch*: the records of one slot, which the driver hands to all outputs.
//!
//! Most records are the same for all outputs, so the batch has them as text. The exceptions are
//! the `sweep` record and the `lines_lost` event: they contain the number of records that one
//! output dropped, so the batch has them as values, and each output formats its own text.

use ibnet_record::count::count;
use ibnet_record::reader::Type;
use ibnet_record::{EventRecord, SweepRecord};
use serde::Serialize;

/// Records of one slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// Records as JSON lines, each with its line feed.
    pub bytes: Vec<u8>,
    /// End of each record in `bytes`, and its type. The NATS output uses them to make one message
    /// of each record.
    pub records: Vec<(usize, Type)>,
    /// Number of records, including the record in `sweep`.
    pub lines: u64,
    /// Time at which the batch was made, in nanoseconds since 1970 (UTC). The file output rotates
    /// by this time.
    pub ts: u64,
    /// The `sweep` record and its position: the number of bytes of `bytes` before this record.
    /// Each output sets the record's field `lines_lost`.
    pub sweep: Option<(usize, SweepRecord<String>)>,
    /// Event that an output writes before the batch if it has dropped records. The output sets
    /// `detail`.
    pub gap: Option<EventRecord<String>>,
}

impl Batch {
    /// Appends a record of a type.
    pub fn push(&mut self, kind: Type, record: &impl Serialize) {
        ibnet_record::write(record, &mut self.bytes);
        self.records.push((self.bytes.len(), kind));
        self.lines += 1;
    }

    /// Returns an empty batch that has space for the same number of records.
    pub(crate) fn next(&self) -> Self {
        let (bytes, records) = (
            Vec::with_capacity(self.bytes.len()),
            Vec::with_capacity(self.records.len()),
        );
        Self {
            bytes,
            records,
            ..Self::default()
        }
    }

    /// Appends the records to `to`. `dropped` is the number of records that were dropped before
    /// them. `ends` receives the type of each record and its end in `to`.
    pub(super) fn write(&self, dropped: u64, to: &mut Vec<u8>, ends: &mut Vec<(usize, Type)>) {
        let at = self
            .sweep
            .as_ref()
            .map_or(self.bytes.len(), |(at, _)| (*at).min(self.bytes.len()));
        let (before, after) = self.bytes.split_at(at);
        let (records_before, records_after) = self
            .records
            .split_at(self.records.partition_point(|(end, _)| *end <= at));
        let begin = to.len();
        to.extend_from_slice(before);
        ends.extend(
            records_before
                .iter()
                .map(|(end, kind)| (begin + end, *kind)),
        );
        if let Some((_, sweep)) = &self.sweep {
            ibnet_record::write(
                &SweepRecord {
                    lines_lost: dropped,
                    ..sweep.clone()
                },
                to,
            );
            ends.push((to.len(), Type::Sweep));
        }
        let begin = to.len();
        to.extend_from_slice(after);
        ends.extend(
            records_after
                .iter()
                .map(|(end, kind)| (begin + end - at, *kind)),
        );
    }

    /// Returns the number of records.
    pub(super) fn items(&self) -> u64 {
        self.records.len() as u64 + u64::from(self.sweep.is_some())
    }

    /// Returns the index of the `sweep` record among the records.
    pub(super) fn place_of_sweep(&self) -> Option<u64> {
        let (at, _) = self.sweep.as_ref()?;
        Some(self.records.partition_point(|(end, _)| *end <= *at) as u64)
    }

    /// Appends records, beginning with record `from`, until `to` has `most` bytes. The `sweep`
    /// record reports `dropped` records. Returns the index of the first record that was not
    /// appended.
    pub(super) fn write_from(&self, from: u64, dropped: u64, most: usize, to: &mut Vec<u8>) -> u64 {
        let place = self.place_of_sweep();
        let mut next = from;
        while next < self.items() && to.len() < most {
            // The index in `records`, which does not contain the `sweep` record.
            let index = (next - u64::from(place.is_some_and(|place| place < next))) as usize;
            match &self.sweep {
                Some((_, sweep)) if place == Some(next) => ibnet_record::write(
                    &SweepRecord {
                        lines_lost: dropped,
                        ..sweep.clone()
                    },
                    to,
                ),
                _ => {
                    let begin = index
                        .checked_sub(1)
                        .and_then(|before| self.records.get(before))
                        .map_or(0, |(end, _)| *end);
                    let end = self.records.get(index).map_or(begin, |(end, _)| *end);
                    to.extend_from_slice(self.bytes.get(begin..end).unwrap_or_default());
                }
            }
            next += 1;
        }
        next
    }

    /// Appends the event that reports dropped records. `ends` receives its type and its end in
    /// `to`.
    pub(super) fn write_gap(&self, dropped: u64, to: &mut Vec<u8>, ends: &mut Vec<(usize, Type)>) {
        if let Some(gap) = &self.gap {
            ibnet_record::write(
                &EventRecord {
                    detail: format!("{} could not be written", count(dropped, "line")),
                    ..gap.clone()
                },
                to,
            );
            ends.push((to.len(), Type::Event));
        }
    }

    /// Returns the number of bytes that [`write`](Self::write) appends if no record was dropped.
    pub(super) fn octets(&self) -> u64 {
        let mut sweep = Vec::new();
        self.sweep
            .iter()
            .for_each(|(_, record)| ibnet_record::write(record, &mut sweep));
        (self.bytes.len() + sweep.len()) as u64
    }
}

/// Short records for the tests of this module.
#[cfg(test)]
pub(super) mod short {
    use ibnet_record::Start;
    use ibnet_record::strict::{self, Line};

    use super::*;

    /// A `start` record of a sampler.
    pub(crate) fn start(sampler: &str) -> Start<String> {
        Start {
            sampler: sampler.to_owned(),
            role: "primary".to_owned(),
            mads_per_slot: Some(1),
            clock_ns: Some(1),
            ..Start::default()
        }
    }

    /// An event that reports dropped records.
    pub(crate) fn gap() -> EventRecord<String> {
        EventRecord {
            event: "lines_lost".to_owned(),
            role: "primary".to_owned(),
            ..EventRecord::default()
        }
    }

    /// A `sweep` record.
    pub(crate) fn sweep(slot: u64) -> SweepRecord<String> {
        SweepRecord {
            slot,
            role: "primary".to_owned(),
            ..SweepRecord::default()
        }
    }

    /// Returns a text with every record abbreviated: `start NAME seq=N`, `sweep SLOT lost=N`,
    /// `gap=N`.
    pub(crate) fn of(text: &str) -> String {
        let line = |line: &str| match strict::parse(line.trim_end_matches('\n')) {
            Ok(Line::Start(start)) => format!("start {} seq={}\n", start.sampler, start.file_seq),
            Ok(Line::Sweep(sweep)) => format!("sweep {} lost={}\n", sweep.slot, sweep.lines_lost),
            Ok(Line::Event(event)) => {
                let lines = event.detail.strip_suffix(" could not be written");
                match lines.and_then(|lines| lines.split_once(' ')) {
                    Some((lines, _)) => format!("gap={lines}\n"),
                    None => line.to_owned(),
                }
            }
            _ => line.to_owned(),
        };
        text.split_inclusive('\n').map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_record_is_written_at_its_place_with_the_number_of_dropped_records() {
        let (bytes, sweep) = (b"a\nb\n".to_vec(), Some((2, short::sweep(7))));
        let records = vec![(2, Type::Port), (4, Type::Histogram)];
        let batch = Batch {
            bytes,
            records,
            lines: 3,
            ts: 0,
            sweep,
            gap: Some(short::gap()),
        };
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        batch.write_gap(12, &mut text, &mut ends);
        batch.write(12, &mut text, &mut ends);
        let lines = text
            .split_inclusive(|octet| *octet == b'\n')
            .scan(0, |end, line| {
                *end += line.len();
                Some(*end)
            });
        let kinds = [Type::Event, Type::Port, Type::Sweep, Type::Histogram];
        assert_eq!(ends, lines.zip(kinds).collect::<Vec<_>>());
        assert_eq!(
            short::of(&String::from_utf8_lossy(&text)),
            "gap=12\na\nsweep 7 lost=12\nb\n"
        );
    }

    #[test]
    fn pieces_of_a_batch_are_its_text() {
        let mut batch = Batch::default();
        batch.push(Type::Port, &"one");
        batch.push(Type::Port, &"two");
        batch.sweep = Some((batch.bytes.len(), short::sweep(7)));
        batch.push(Type::Histogram, &"three");
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        batch.write(12, &mut whole, &mut Vec::new());
        let mut from = 0;
        while from < batch.items() {
            let mut piece = Vec::new();
            from = batch.write_from(from, 12, 1, &mut piece);
            pieces.push(piece);
        }
        assert_eq!((pieces.len(), batch.place_of_sweep()), (4, Some(2)));
        assert_eq!(pieces.concat(), whole);
    }

    #[test]
    fn batch_without_sweep_record_is_written_unchanged() {
        let batch = Batch {
            bytes: b"a\n".to_vec(),
            lines: 1,
            ..Batch::default()
        };
        let mut text = Vec::new();
        batch.write_gap(3, &mut text, &mut Vec::new());
        batch.write(3, &mut text, &mut Vec::new());
        assert_eq!((text.as_slice(), batch.octets()), (&b"a\n"[..], 2));
    }

    #[test]
    fn octets_are_those_of_the_text() {
        let batch = Batch {
            bytes: b"a\n".to_vec(),
            lines: 2,
            sweep: Some((2, short::sweep(7))),
            ..Batch::default()
        };
        let mut text = Vec::new();
        batch.write(0, &mut text, &mut Vec::new());
        assert_eq!(batch.octets(), text.len() as u64);
    }
}
