//! Bounds of reading. Memory is bounded by these numbers, by the number of files that cover the same
//! time, and by the number of ports; not by the number of records.

/// Longest line that is parsed, in octets. A record has at most 16 KiB.
pub(crate) const LINE: usize = 1 << 20;

/// Largest number of octets that are read from one file at a time.
pub(super) const CHUNK: usize = 4 << 20;

/// Smallest number of octets that are read from one file at a time.
pub(super) const SMALL_CHUNK: usize = 64 << 10;

/// Octets that are read from all files together at a time, unless [`SMALL_CHUNK`] makes them more.
pub(super) const ROUND: usize = 64 << 20;

/// Lines at the start of a file that determine its place in the order of the files.
pub(super) const HEAD_LINES: usize = 16;

/// Octets at the start of a file that are searched for these lines.
pub(super) const HEAD: usize = LINE;

/// Number of parts into which the ports are divided. A part is folded by one thread at a time. The
/// number is fixed, so that results do not depend on the number of threads.
pub(super) const SHARDS: usize = 32;

/// Nanoseconds by which a line may be older than a line before it, at least. The ports of a slot are
/// written in the order of their replies, and after the events of the slot. A file with older lines
/// is sorted, with an index of 24 octets for each line.
pub(super) const DISORDER_NS: u64 = 2_000_000_000;

/// Nanoseconds before and after the selected time in which records are read, at least: their
/// counters determine the increase from and to the edges.
pub(super) const REACH_NS: u64 = 120_000_000_000;

/// Number of records of a secondary that wait for a record of the primary.
pub(super) const HELD: usize = 64;
