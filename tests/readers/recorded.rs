//! Records of the small fabric in virtual time, which can have any time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ibnet::mad::transport::sim::faults::Faults;
use ibnet::topology::net_file;

use crate::recording::{Disturbance, Recording};

/// Start of the records of a test that needs no certain time, in nanoseconds since 1970: a whole
/// minute in the year 2096. ClickHouse removes records that are older than 30 days.
pub(crate) const START_NS: u64 = 4_000_000_020_000_000_000;

/// Records slots of the fabric in `net.p`, as `ibnet-sweep` with this configuration does. The
/// fabric and its scenario start at `start_ns`, in nanoseconds since 1970. Returns the lines, and
/// writes them to `lines.jsonl`.
pub(crate) fn record(dir: &Path, config: &str, slots: u64, start_ns: u64) -> String {
    let fabric = net_file::read(&dir.join("net.p")).unwrap().fabric;
    let recording = Recording {
        config,
        plans: &[],
        slots,
        fabric_ns: start_ns,
        start: Duration::ZERO,
        faults: Faults::default(),
        disturbed: &|_, _| Disturbance::default(),
    };
    let (_, text) = recording.lines(&fabric).remove(0);
    fs::write(dir.join("lines.jsonl"), &text).unwrap();
    text
}
