//! The text of one stream: a file, a pipe or a connection. A stream begins with the `start`
//! records and continues with whole lines. Where records were dropped (a *gap*), an event reports
//! their number.

use std::sync::Arc;

use ibnet_record::Start;
use ibnet_record::reader::Type;

use super::batch::Batch;
use super::queue::{Message, SourceId};

/// State of one stream: whether its last line is complete, and how many dropped records no event
/// has reported yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The last `start` record of each source, in the order in which the sources began. A source
    /// is a sender of records, such as one HCA port.
    starts: Vec<(SourceId, Arc<Start<String>>)>,
    /// Whether the `start` records were written.
    has_head: bool,
    /// Sequence number of the current file or connection.
    seq: u32,
    /// Number of dropped records that are not reported yet.
    dropped: u64,
    /// Whether the last line is incomplete, so that a line feed must precede the next record.
    is_torn: bool,
    /// Text to be written.
    text: Vec<u8>,
    /// End of each record in the text, and its type.
    ends: Vec<(usize, Type)>,
    parts: Parts,
}

/// Structure of the text to be written.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// End of the `start` records.
    head_end: usize,
    /// End of the event that reports a gap.
    gap_end: usize,
    /// Whether the text has `start` records.
    has_head: bool,
    /// Number of records after the gap event.
    lines: u64,
}

impl Stream {
    /// Returns the `start` records of all sources.
    pub(super) fn starts(&self) -> Vec<(SourceId, Arc<Start<String>>)> {
        self.starts.clone()
    }

    /// Begins another file, so that the next text starts with the `start` records.
    pub(super) fn begin(&mut self) {
        self.seq = self
            .seq
            .saturating_add(u32::from(std::mem::replace(&mut self.has_head, false)));
        self.is_torn = false;
    }

    /// Returns the time of the records of a message in nanoseconds since 1970 (UTC), or `None` if
    /// it has none.
    pub(super) fn ts(message: &Message) -> Option<u64> {
        match message {
            Message::Start(_, start) => Some(start.ts),
            Message::Lines(_, batch, _) => Some(batch.ts),
            Message::Gone(_) | Message::End => None,
        }
    }

    /// Formats a message. The text is empty if there is nothing to write.
    pub(super) fn take(&mut self, message: &Message) -> &[u8] {
        self.text.clear();
        self.ends.clear();
        self.parts = Parts::default();
        match message {
            Message::Start(source, start) => self.take_start(*source, start),
            Message::Lines(_, batch, dropped) => self.take_lines(batch, *dropped),
            Message::Gone(_) | Message::End => self.note(message),
        }
        &self.text
    }

    /// Updates the `start` records from a message, without formatting a text.
    pub(super) fn note(&mut self, message: &Message) {
        match message {
            Message::Start(source, start) => self.set_start(*source, start),
            Message::Gone(source) => self.starts.retain(|(of, _)| of != source),
            Message::Lines(..) | Message::End => {}
        }
    }

    /// Returns the text of the last call of [`take`](Self::take) or [`head`](Self::head).
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes this text, which must have been written. The next text gets a buffer of the same size.
    #[cfg(feature = "nats")]
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        let next = Vec::with_capacity(self.text.len());
        std::mem::replace(&mut self.text, next)
    }

    /// Returns the records of this text without their line feeds, each with its type.
    #[cfg(feature = "nats")]
    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], Type)> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        // Each end is the position after a line feed.
        self.ends
            .iter()
            .zip(begins)
            .map(|((end, kind), begin)| (&self.text[begin..end - 1], *kind))
    }

    /// Updates the state after the first `octets` bytes of the text were written. All records
    /// after them are dropped.
    pub(super) fn wrote(&mut self, octets: usize) {
        let written = &self.text[..octets.min(self.text.len())];
        if let Some(last) = written.last() {
            self.is_torn = *last != b'\n';
        }
        // If only the line feed of the last line is missing, the record still counts as written,
        // because the next text begins with this line feed.
        let lacks_line_feed = self.is_torn && self.text.get(written.len()) == Some(&b'\n');
        let reached = written.len() + usize::from(lacks_line_feed);
        let Parts {
            head_end,
            gap_end,
            has_head,
            lines,
        } = self.parts;
        if reached < head_end {
            self.has_head &= !has_head;
            self.dropped += lines;
            return;
        }
        self.has_head |= has_head;
        if reached < gap_end {
            // The gap event was only partly written, so the gap must be reported again.
            self.dropped += lines;
            return;
        }
        if gap_end > head_end {
            self.dropped = 0;
        }
        let whole = memchr::memchr_iter(b'\n', &self.text[gap_end..reached]).count() as u64;
        self.dropped += lines.saturating_sub(whole);
    }

    /// Returns the number of dropped records that no `lines_lost` event has reported yet.
    pub(super) fn unreported(&self) -> u64 {
        self.dropped
    }

    /// Counts records that were dropped from a buffer of the output after this stream had
    /// formatted them. The next records report them.
    #[cfg(feature = "nats")]
    pub(super) fn lose(&mut self, records: u64) {
        self.dropped += records;
    }

    /// Returns the last `start` record of a source.
    #[cfg(feature = "nats")]
    pub(super) fn start(&self, source: SourceId) -> Option<&Start<String>> {
        self.starts
            .iter()
            .find(|(of, _)| *of == source)
            .map(|(_, start)| &**start)
    }

    fn set_start(&mut self, source: SourceId, start: &Arc<Start<String>>) {
        match self.starts.iter_mut().find(|(of, _)| *of == source) {
            Some((_, before)) => *before = Arc::clone(start),
            None => self.starts.push((source, Arc::clone(start))),
        }
    }

    fn take_start(&mut self, source: SourceId, start: &Arc<Start<String>>) {
        self.set_start(source, start);
        if !self.has_head {
            return self.write_head();
        }
        self.end_torn_line();
        write_start(start, self.seq, &mut self.text);
        self.ends.push((self.text.len(), Type::Start));
        self.parts = Parts {
            head_end: self.text.len(),
            gap_end: self.text.len(),
            has_head: true,
            lines: 0,
        };
    }

    fn take_lines(&mut self, batch: &Batch, dropped: u64) {
        self.dropped += dropped;
        if self.has_head {
            self.end_torn_line();
            self.parts.head_end = self.text.len();
        } else {
            self.write_head();
        }
        if self.dropped > 0 {
            batch.write_gap(self.dropped, &mut self.text, &mut self.ends);
        }
        self.parts.gap_end = self.text.len();
        self.parts.lines = batch.lines;
        batch.write(self.dropped, &mut self.text, &mut self.ends);
    }

    fn write_head(&mut self) {
        self.end_torn_line();
        for (_, start) in &self.starts {
            write_start(start, self.seq, &mut self.text);
            self.ends.push((self.text.len(), Type::Start));
        }
        self.parts = Parts {
            head_end: self.text.len(),
            gap_end: self.text.len(),
            has_head: !self.starts.is_empty(),
            lines: 0,
        };
    }

    fn end_torn_line(&mut self) {
        if self.is_torn {
            self.text.push(b'\n');
        }
    }
}

/// Writes a `start` record with its `file_seq`.
pub(super) fn write_start(start: &Start<String>, seq: u32, to: &mut Vec<u8>) {
    ibnet_record::write(
        &Start {
            file_seq: seq,
            ..start.clone()
        },
        to,
    );
}

#[cfg(test)]
mod tests {
    use super::super::batch::short;
    use super::*;

    fn start(source: SourceId) -> Message {
        Message::Start(source, Arc::new(short::start(&source.to_string())))
    }

    fn lines(text: &str, dropped: u64) -> Message {
        let lines = text.lines().count() as u64;
        let batch = Batch {
            bytes: text.as_bytes().to_vec(),
            lines,
            gap: Some(short::gap()),
            ..Batch::default()
        };
        Message::Lines(1, Arc::new(batch), dropped)
    }

    /// Takes a message and writes some octets of its text. Returns the abbreviated text.
    fn write(stream: &mut Stream, message: &Message, octets: usize) -> String {
        let text = short::of(std::str::from_utf8(stream.take(message)).expect("text"));
        stream.wrote(octets);
        text
    }

    const ALL: usize = usize::MAX;

    #[test]
    fn every_head_has_the_start_records_of_all_sources_with_its_own_number() {
        let mut stream = Stream::default();
        assert_eq!(write(&mut stream, &start(1), ALL), "start 1 seq=0\n");
        assert_eq!(write(&mut stream, &start(2), ALL), "start 2 seq=0\n");
        assert_eq!(write(&mut stream, &lines("a\n", 0), ALL), "a\n");
        stream.begin();
        assert_eq!(
            write(&mut stream, &lines("b\n", 0), ALL),
            "start 1 seq=1\nstart 2 seq=1\nb\n"
        );
        write(&mut stream, &Message::Gone(1), ALL);
        stream.begin();
        stream.begin();
        assert_eq!(
            write(&mut stream, &lines("c\n", 0), ALL),
            "start 2 seq=2\nc\n"
        );
        assert_eq!(
            stream
                .starts()
                .iter()
                .map(|(source, _)| *source)
                .collect::<Vec<_>>(),
            [2]
        );
    }

    #[test]
    fn gap_is_reported_once_by_the_event_and_by_the_sweep_record() {
        let mut stream = Stream::default();
        let slot = |dropped| {
            let (bytes, sweep) = (b"a\n".to_vec(), Some((2, short::sweep(1))));
            Message::Lines(
                1,
                Arc::new(Batch {
                    bytes,
                    lines: 2,
                    sweep,
                    gap: Some(short::gap()),
                    ..Batch::default()
                }),
                dropped,
            )
        };
        assert_eq!(write(&mut stream, &slot(0), ALL), "a\nsweep 1 lost=0\n");
        assert_eq!(
            write(&mut stream, &slot(12), ALL),
            "gap=12\na\nsweep 1 lost=12\n"
        );
        assert_eq!(write(&mut stream, &slot(0), ALL), "a\nsweep 1 lost=0\n");
        assert_eq!(stream.unreported(), 0);
    }

    #[test]
    fn whole_lines_count_as_written_and_a_torn_line_is_ended() {
        let mut stream = Stream::default();
        write(&mut stream, &start(1), ALL);
        // Six octets are written: the first of three lines, and half of the second.
        assert_eq!(
            write(&mut stream, &lines("one\ntwo\nthree\n", 0), 6),
            "one\ntwo\nthree\n"
        );
        assert_eq!(stream.unreported(), 2);
        // Nothing is written, not even the line feed that ends the incomplete line.
        assert_eq!(
            write(&mut stream, &lines("four\n", 0), 0),
            "\ngap=2\nfour\n"
        );
        assert_eq!(stream.unreported(), 3);
        // Only the line feed is written.
        assert_eq!(
            write(&mut stream, &lines("five\n", 0), 1),
            "\ngap=3\nfive\n"
        );
        // Only a part of the gap event is written, so the gap is reported again.
        assert_eq!(write(&mut stream, &lines("six\n", 0), 3), "gap=4\nsix\n");
        assert_eq!(
            write(&mut stream, &lines("seven\n", 1), ALL),
            "\ngap=6\nseven\n"
        );
        assert_eq!(stream.unreported(), 0);
        // All octets but the line feed are written.
        assert_eq!(write(&mut stream, &lines("eight\n", 0), 5), "eight\n");
        assert_eq!(stream.unreported(), 0);
        assert_eq!(write(&mut stream, &lines("nine\n", 0), ALL), "\nnine\n");
    }

    #[test]
    fn gap_event_and_start_record_that_lack_their_line_feed_are_not_written_again() {
        let mut stream = Stream::default();
        let full = |text: &Message| Stream::default().take(text).len();
        write(&mut stream, &start(1), full(&start(1)) - 1);
        assert_eq!(write(&mut stream, &lines("one\n", 2), 0), "\ngap=2\none\n");
        assert_eq!(stream.unreported(), 3);
        let length = stream.take(&lines("two\n", 0)).len();
        // The gap event is whole, but for its line feed.
        stream.wrote(length - "\ntwo\n".len());
        assert_eq!(stream.unreported(), 1);
        assert_eq!(
            write(&mut stream, &lines("three\n", 0), ALL),
            "\ngap=1\nthree\n"
        );
        assert_eq!(stream.unreported(), 0);
    }

    /// The types are stored with the records, so that no code has to parse the text again.
    #[cfg(feature = "nats")]
    #[test]
    fn each_record_of_the_text_has_its_type() {
        use ibnet_record::HistogramRecord;
        use ibnet_record::reader::Head;
        let mut stream = Stream::default();
        let mut batch = Batch {
            gap: Some(short::gap()),
            ..Batch::default()
        };
        // A line feed and quotes within a name, and a type that the text does not have.
        batch.push(
            Type::Event,
            &ibnet_record::EventRecord {
                detail: "\n\"type\":\"port\"".to_owned(),
                ..short::gap()
            },
        );
        batch.sweep = Some((batch.bytes.len(), short::sweep(7)));
        batch.lines += 1;
        batch.push(Type::Histogram, &HistogramRecord::<&str>::default());
        batch.push(Type::Port, &"no record");
        stream.take(&start(1));
        let kinds = |stream: &Stream| stream.records().map(|(_, kind)| kind).collect::<Vec<_>>();
        assert_eq!(kinds(&stream), [Type::Start]);
        stream.begin();
        stream.take(&Message::Lines(1, Arc::new(batch), 12));
        assert_eq!(
            kinds(&stream),
            [
                Type::Start,
                Type::Event,
                Type::Event,
                Type::Sweep,
                Type::Histogram,
                Type::Port
            ]
        );
        let records: Vec<_> = stream.records().collect();
        let (last, records) = records.split_last().expect("records");
        assert_eq!(last.0, b"\"no record\"");
        for (text, kind) in records {
            assert_eq!(Head::of(text).expect("a record").kind, Some(*kind));
        }
    }

    #[test]
    fn start_record_that_was_not_written_is_written_later() {
        let mut stream = Stream::default();
        write(&mut stream, &start(1), 0);
        assert_eq!(
            write(&mut stream, &lines("a\n", 0), 3),
            "start 1 seq=0\na\n"
        );
        assert_eq!(
            write(&mut stream, &lines("b\n", 0), ALL),
            "\nstart 1 seq=0\ngap=1\nb\n"
        );
        write(&mut stream, &start(2), 0);
        assert_eq!(
            write(&mut stream, &lines("c\n", 0), ALL),
            "start 1 seq=0\nstart 2 seq=0\nc\n"
        );
        assert_eq!(stream.unreported(), 0);
    }
}
