//! One stream of lines, as its reader gets it: its `start` lines first, whole lines, and after each gap the line that tells of it.

use std::sync::Arc;

use super::batch::{Batch, Start};
use super::queue::{Message, Way};

/// What one file, pipe or connection is told, and what of it arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Who writes, in the order in which they began.
    starts: Vec<(Way, Arc<Start>)>,
    /// Whether their lines stand at its head.
    headed: bool,
    /// Counts the heads.
    seq: u64,
    /// Lines that were lost, and that no line tells of.
    lost: u64,
    /// Whether the last line is torn: a line feed comes before anything else.
    torn: bool,
    /// What is to be written.
    text: Vec<u8>,
    parts: Parts,
}

/// What the text is made of.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// Where its start lines end, and where the line that tells of a gap does.
    head_end: usize,
    gap_end: usize,
    /// Whether there are start lines.
    has_head: bool,
    /// Lines after that.
    lines: u64,
}

impl Stream {
    /// Another stream of the same lines, of that number.
    pub(super) fn another(&self, seq: u64) -> Self {
        Self { starts: self.starts.clone(), seq, ..Self::default() }
    }

    /// What comes next is the head of another file.
    pub(super) fn begin(&mut self) {
        self.seq += u64::from(std::mem::replace(&mut self.headed, false));
        self.torn = false;
    }

    /// When the lines of a message were made; `None` of one that has none.
    pub(super) fn ts(message: &Message) -> Option<u64> {
        match message {
            Message::Start(_, start) => Some(start.ts),
            Message::Lines(_, batch, _) => Some(batch.ts),
            Message::Gone(_) => None,
        }
    }

    /// Makes text of a message. It is empty if there is nothing to write.
    pub(super) fn take(&mut self, message: &Message) -> &[u8] {
        self.text.clear();
        self.parts = Parts::default();
        match message {
            Message::Start(way, start) => self.take_start(*way, start),
            Message::Lines(_, batch, lost) => self.take_lines(batch, *lost),
            Message::Gone(_) => self.note(message),
        }
        &self.text
    }

    /// Remembers who writes, and writes nothing.
    pub(super) fn note(&mut self, message: &Message) {
        match message {
            Message::Start(way, start) => self.know(*way, start),
            Message::Gone(way) => self.starts.retain(|(of, _)| of != way),
            Message::Lines(..) => {}
        }
    }

    /// The start lines alone.
    pub(super) fn head(&mut self) -> &[u8] {
        self.text.clear();
        self.parts = Parts::default();
        self.write_head();
        &self.text
    }

    /// The text, as it was taken last.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// So many octets of the text were written.
    pub(super) fn wrote(&mut self, octets: usize) {
        let written = &self.text[..octets.min(self.text.len())];
        if let Some(last) = written.last() {
            self.torn = *last != b'\n';
        }
        let Parts { head_end, gap_end, has_head, lines } = self.parts;
        if written.len() < head_end {
            self.headed &= !has_head;
            self.lost += lines;
            return;
        }
        self.headed |= has_head;
        if written.len() < gap_end {
            self.lost += lines;
            return;
        }
        if gap_end > head_end {
            self.lost = 0;
        }
        let whole = written[gap_end..].iter().filter(|octet| **octet == b'\n').count() as u64;
        self.lost += lines.saturating_sub(whole);
    }

    /// Lines that were lost, and that no line tells of.
    pub(super) fn untold(&self) -> u64 {
        self.lost
    }

    /// Who writes a way's lines.
    #[cfg(feature = "nats")]
    pub(super) fn sampler(&self, way: Way) -> Option<&str> {
        self.starts.iter().find(|(of, _)| *of == way).map(|(_, start)| start.sampler.as_str())
    }

    fn know(&mut self, way: Way, start: &Arc<Start>) {
        match self.starts.iter_mut().find(|(of, _)| *of == way) {
            Some((_, before)) => *before = Arc::clone(start),
            None => self.starts.push((way, Arc::clone(start))),
        }
    }

    fn take_start(&mut self, way: Way, start: &Arc<Start>) {
        self.know(way, start);
        if !self.headed {
            return self.write_head();
        }
        self.close_torn();
        start.line.fill(self.seq, &mut self.text);
        self.parts = Parts { head_end: self.text.len(), gap_end: self.text.len(), has_head: true, lines: 0 };
    }

    fn take_lines(&mut self, batch: &Batch, lost: u64) {
        self.lost += lost;
        if self.headed {
            self.close_torn();
            self.parts.head_end = self.text.len();
        } else {
            self.write_head();
        }
        if self.lost > 0 {
            batch.gap.fill(self.lost, &mut self.text);
        }
        self.parts.gap_end = self.text.len();
        self.parts.lines = batch.lines;
        batch.fill(self.lost, &mut self.text);
    }

    fn write_head(&mut self) {
        self.close_torn();
        self.starts.iter().for_each(|(_, start)| start.line.fill(self.seq, &mut self.text));
        self.parts = Parts { head_end: self.text.len(), gap_end: self.text.len(), has_head: !self.starts.is_empty(), lines: 0 };
    }

    fn close_torn(&mut self) {
        if self.torn {
            self.text.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Blank;
    use super::*;

    fn start(way: Way) -> Message {
        let line = Blank::new(format!("start {way} seq=0\n").into_bytes(), "seq=");
        Message::Start(way, Arc::new(Start { line, ..Start::default() }))
    }

    fn lines(text: &str, lost: u64) -> Message {
        let gap = Blank::new(b"gap=0\n".to_vec(), "gap=");
        let lost_at = super::super::batch::place(text.as_bytes(), "lost=");
        let lines = text.lines().count() as u64;
        Message::Lines(1, Arc::new(Batch { bytes: text.as_bytes().to_vec(), lines, ts: 0, lost_at, gap }), lost)
    }

    /// Takes a message and writes so much of its text; gives the text.
    fn write(stream: &mut Stream, message: &Message, octets: usize) -> String {
        let text = String::from_utf8(stream.take(message).to_vec()).expect("text");
        stream.wrote(octets);
        text
    }

    const ALL: usize = usize::MAX;

    #[test]
    fn every_head_has_the_starts_of_all_with_its_own_number() {
        let mut stream = Stream::default();
        assert_eq!(write(&mut stream, &start(1), ALL), "start 1 seq=0\n");
        assert_eq!(write(&mut stream, &start(2), ALL), "start 2 seq=0\n");
        assert_eq!(write(&mut stream, &lines("a\n", 0), ALL), "a\n");
        stream.begin();
        assert_eq!(write(&mut stream, &lines("b\n", 0), ALL), "start 1 seq=1\nstart 2 seq=1\nb\n");
        write(&mut stream, &Message::Gone(1), ALL);
        stream.begin();
        stream.begin();
        assert_eq!(write(&mut stream, &lines("c\n", 0), ALL), "start 2 seq=2\nc\n");
        assert_eq!(stream.another(9).head(), b"start 2 seq=9\n");
    }

    #[test]
    fn a_gap_is_told_once_and_in_the_lines_after_it() {
        let mut stream = Stream::default();
        assert_eq!(write(&mut stream, &lines("a lost=0\n", 0), ALL), "a lost=0\n");
        assert_eq!(write(&mut stream, &lines("a lost=0\n", 12), ALL), "gap=12\na lost=12\n");
        assert_eq!(write(&mut stream, &lines("a lost=0\n", 0), ALL), "a lost=0\n");
        assert_eq!(stream.untold(), 0);
    }

    #[test]
    fn whole_lines_that_were_written_are_not_lost_and_a_torn_one_is_closed() {
        let mut stream = Stream::default();
        write(&mut stream, &start(1), ALL);
        // Of three lines the first, and half of the second.
        assert_eq!(write(&mut stream, &lines("one\ntwo\nthree\n", 0), 6), "one\ntwo\nthree\n");
        assert_eq!(stream.untold(), 2);
        // Not even the line feed.
        assert_eq!(write(&mut stream, &lines("four\n", 0), 0), "\ngap=2\nfour\n");
        assert_eq!(stream.untold(), 3);
        // The line feed, and nothing else.
        assert_eq!(write(&mut stream, &lines("five\n", 0), 1), "\ngap=3\nfive\n");
        // What tells of it, torn: so it is not told.
        assert_eq!(write(&mut stream, &lines("six\n", 0), 3), "gap=4\nsix\n");
        assert_eq!(write(&mut stream, &lines("seven\n", 1), ALL), "\ngap=6\nseven\n");
        assert_eq!(stream.untold(), 0);
    }

    #[test]
    fn a_start_that_was_not_written_is_written_later() {
        let mut stream = Stream::default();
        write(&mut stream, &start(1), 0);
        assert_eq!(write(&mut stream, &lines("a\n", 0), 3), "start 1 seq=0\na\n");
        assert_eq!(write(&mut stream, &lines("b\n", 0), ALL), "\nstart 1 seq=0\ngap=1\nb\n");
        write(&mut stream, &start(2), 0);
        assert_eq!(write(&mut stream, &lines("c\n", 0), ALL), "start 1 seq=0\nstart 2 seq=0\nc\n");
        assert_eq!(stream.untold(), 0);
    }
}
