//! What is handed to the sinks: whole lines, and lines with a place for a number that each stream fills in by itself.

/// Whole lines of one slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// Each with its line feed.
    pub bytes: Vec<u8>,
    /// How many.
    pub lines: u64,
    /// When they were made, in nanoseconds since 1970. Files are rotated by it: a sink reads no clock.
    pub ts: u64,
    /// Where in `bytes` a `0` stands in whose place comes how many lines were lost before them.
    pub lost_at: Option<usize>,
    /// The line that tells of as many.
    pub gap: Blank,
}

/// A line with a place for a number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blank {
    text: Vec<u8>,
    at: Option<usize>,
}

/// What opens a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Start {
    /// The line, with a place for the number of the file or stream.
    pub line: Blank,
    /// Whose stream it is.
    pub sampler: String,
    /// Now, in nanoseconds since 1970.
    pub ts: u64,
}

impl Blank {
    /// Of a line that has a `0` after the last `before`.
    pub fn new(text: Vec<u8>, before: &str) -> Self {
        let at = place(&text, before);
        Self { text, at }
    }

    /// Appends the line with the number in its place.
    pub fn fill(&self, number: u64, to: &mut Vec<u8>) {
        fill(&self.text, self.at, number, to);
    }
}

impl Batch {
    /// Appends the lines, which say how many were lost before them.
    pub(super) fn fill(&self, lost: u64, to: &mut Vec<u8>) {
        fill(&self.bytes, self.lost_at, lost, to);
    }
}

/// Where the `0` after the last `before` stands.
pub fn place(text: &[u8], before: &str) -> Option<usize> {
    let at = text.windows(before.len()).rposition(|window| window == before.as_bytes())? + before.len();
    (text.get(at) == Some(&b'0')).then_some(at)
}

fn fill(text: &[u8], at: Option<usize>, number: u64, to: &mut Vec<u8>) {
    let (before, after) = text.split_at(at.map_or(text.len(), |at| at.min(text.len())));
    to.extend_from_slice(before);
    if let [_, after @ ..] = after {
        to.extend_from_slice(number.to_string().as_bytes());
        to.extend_from_slice(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_comes_into_its_place() {
        let blank = Blank::new(b"{\"name\":\"\\\"seq\\\":0\",\"seq\":0}\n".to_vec(), "\"seq\":");
        let mut text = Vec::new();
        blank.fill(12, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), "{\"name\":\"\\\"seq\\\":0\",\"seq\":12}\n");
    }

    #[test]
    fn a_line_without_a_place_is_as_it_was() {
        let mut text = Vec::new();
        Blank::new(b"{\"a\":1}\n".to_vec(), "\"seq\":").fill(7, &mut text);
        Blank::default().fill(7, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), "{\"a\":1}\n");
    }
}
