//! Limits that bound the memory for reading. It depends on these limits, on the number of files
//! that cover the same time, and on the number of ports, but not on the number of records.

/// Max length of a line that is parsed, in bytes.
pub(super) use ibnet_record::limits::LINE;

/// Max number of bytes that are read from one file at a time.
pub(super) const CHUNK: usize = 4 << 20;

/// Min number of bytes that are read from one file at a time.
pub(super) const SMALL_CHUNK: usize = 64 << 10;

/// Bytes that are read from all files together at a time. With many files it can be more, because
/// each file gets at least [`SMALL_CHUNK`].
pub(super) const ROUND: usize = 64 << 20;

/// Number of lines at the start of a file that are searched for its first time and its interval.
pub(super) const HEAD_LINES: usize = 16;

/// Max number of bytes that are read for the first [`HEAD_LINES`] lines of a file.
pub(super) const HEAD: usize = LINE;

/// Number of shards into which the ports are divided. One thread folds a shard at a time. The
/// number is fixed, so results do not depend on the number of threads.
pub(super) const SHARDS: usize = 32;

/// Max number of ports of a shard. A fabric with 49,151 LIDs has about 10,000 ports in each
/// shard.
pub(super) const PORTS: usize = 65_536;

/// Max number of sampler names in a shard.
pub(super) const SAMPLERS: usize = 4096;

/// Max number of devices of a shard. A fabric has at most 49,151 LIDs, 1,536 in each shard.
pub(super) const DEVICES: usize = 2048;

/// Max number of devices with histograms. These records are all in one shard.
pub(super) const DEVICES_OF_HISTOGRAMS: usize = 65_536;

/// Max number of device kinds with histograms.
pub(super) const KINDS: usize = 16;

/// Min of `Stream::slack_ns`, the time in nanoseconds by which a line may be older than an earlier
/// line of its file: the lines of a slot are written in the order of the replies, and after its
/// events. A file with still older lines is sorted, with an index of 24 bytes for each line.
pub(super) const DISORDER_NS: u64 = 2_000_000_000;

/// Min time in nanoseconds, before and after the selected time range, in which records are also
/// read. Their counters give the increase at the edges of the range.
pub(super) const REACH_NS: u64 = 120_000_000_000;

/// Max number of records of a secondary that wait for a record of the primary.
pub(super) const HELD: usize = 64;
