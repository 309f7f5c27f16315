//! Limits of reading. The memory depends on these limits, on the number of files that cover the
//! same time, and on the number of ports. It does not depend on the number of records.

/// Longest line that is parsed, in octets.
pub(super) use ibnet_record::limits::LINE;

/// Largest number of octets that are read from one file at a time.
pub(super) const CHUNK: usize = 4 << 20;

/// Smallest number of octets that are read from one file at a time.
pub(super) const SMALL_CHUNK: usize = 64 << 10;

/// Octets that are read from all files together at a time. With many files it can be more, because
/// each file gets at least [`SMALL_CHUNK`].
pub(super) const ROUND: usize = 64 << 20;

/// Number of lines at the start of a file that are searched for its first time and its interval.
pub(super) const HEAD_LINES: usize = 16;

/// Largest number of octets that are read for the first [`HEAD_LINES`] lines of a file.
pub(super) const HEAD: usize = LINE;

/// Number of parts into which the ports are divided. A part is folded by one thread at a time. The
/// number is fixed, so that results do not depend on the number of threads.
pub(super) const SHARDS: usize = 32;

/// Largest number of ports of a part. A fabric with 49,151 LIDs has about 10,000 ports in each part.
pub(super) const PORTS: usize = 65_536;

/// Largest number of names of samplers in a part.
pub(super) const SAMPLERS: usize = 4096;

/// Largest number of devices of a part. A fabric has at most 49,151 LIDs: 1,536 in each part.
pub(super) const DEVICES: usize = 2048;

/// Largest number of devices with histograms. These records are all in one part.
pub(super) const DEVICES_OF_HISTOGRAMS: usize = 65_536;

/// Largest number of kinds of devices with histograms.
pub(super) const KINDS: usize = 16;

/// Smallest time, in nanoseconds, by which a line may be older than an earlier line of the file.
/// The ports of a slot are written in the order of their replies, and after the events of the slot.
/// A file with older lines is sorted, with an index of 24 octets for each line.
pub(super) const DISORDER_NS: u64 = 2_000_000_000;

/// Smallest time, in nanoseconds, before and after the selected time range in which records are
/// also read. Their counters are needed for the increase at the edges of the range.
pub(super) const REACH_NS: u64 = 120_000_000_000;

/// Largest number of records of a secondary that wait for a record of the primary.
pub(super) const HELD: usize = 64;
