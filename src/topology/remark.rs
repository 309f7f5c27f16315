//! Remarks about single lines of net files, and the positions of these lines.

use std::fmt;

use serde::Serialize;

/// Position of a line in a list of net files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinePosition {
    /// Index of the file in [`NetFile::names`](super::NetFile::names), from 0 in the order of the
    /// command line.
    pub file: u16,
    /// Line number, from 1.
    pub line: u32,
}

/// A problem or a peculiarity of one line of a net file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Remark {
    /// Index of the file in [`NetFile::names`](super::NetFile::names).
    pub file: u16,
    /// Line number, from 1.
    pub line: u32,
    /// Kind of the remark.
    pub kind: RemarkKind,
    /// Description of the line's content.
    pub text: String,
}

/// Kind of a [`Remark`]. A line with one of the first three kinds gives no port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// The line cannot be parsed.
    Unreadable,
    /// The line repeats or contradicts an earlier line. The earlier line is used.
    Repeated,
    /// An earlier line assigns the LID to another device. The earlier line is used.
    DuplicateLid,
    /// The names of the two ends cannot be separated, so the text is not split.
    AmbiguousName,
    /// The line of the other end names another peer, or none.
    Contradiction,
    /// The other end has no line, so the file may be incomplete.
    OneSided,
    /// Both ends are ports of one device.
    Loop,
    /// The HCA port is cabled to a leaf switch of another rail.
    OtherRail,
}

impl RemarkKind {
    /// All kinds, beginning with those whose line gives no port.
    pub const ALL: [Self; 8] = [
        Self::Unreadable,
        Self::Repeated,
        Self::DuplicateLid,
        Self::OneSided,
        Self::Contradiction,
        Self::Loop,
        Self::OtherRail,
        Self::AmbiguousName,
    ];

    /// Returns whether a line with this remark gives no port.
    pub const fn loses_a_port(self) -> bool {
        matches!(self, Self::Unreadable | Self::Repeated | Self::DuplicateLid)
    }

    /// Returns the heading of such remarks in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Repeated => "repeated",
            Self::DuplicateLid => "LID used twice",
            Self::AmbiguousName => "ambiguous name",
            Self::Contradiction => "ends disagree",
            Self::OneSided => "other end missing",
            Self::Loop => "cabled to itself",
            Self::OtherRail => "cabled to another rail",
        }
    }
}

impl Remark {
    pub(super) fn new(
        LinePosition { file, line }: LinePosition,
        kind: RemarkKind,
        text: String,
    ) -> Self {
        Self {
            file,
            line,
            kind,
            text,
        }
    }

    /// Returns the position of the line.
    pub fn position(&self) -> LinePosition {
        LinePosition {
            file: self.file,
            line: self.line,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: {}: {}",
            self.line,
            self.kind.as_str(),
            self.text
        )
    }
}
