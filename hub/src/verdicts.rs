//! Keeps the state of the verdicts on links in a file, so that a restart of the hub makes no
//! verdict better.
//!
//! A line has one end of a link. The counters of devices go on while the hub is stopped, so only
//! the times of events within the gap are not exact. After a crash, bursts of bit errors since the
//! last write are missing too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet_analysis::health::verdict::End;
use ibnet_analysis::ports::PortKey;
use serde::{Deserialize, Serialize};

use crate::query::health;
use crate::state::Hub;
use crate::state_file::{self, Lines};
use crate::threads::Threads;

/// What the file keeps.
const STATE: &str = "verdicts on links";

/// Time between two writes.
const EVERY: Duration = Duration::from_secs(60);

/// Number of ends that are written under one lock.
const AT_ONCE: usize = 64;

/// One end of a link.
#[derive(Debug, Serialize, Deserialize)]
struct Line<End> {
    port: PortKey,
    peer: Option<PortKey>,
    end: End,
}

/// Reads the file, and starts the thread that writes it.
///
/// # Errors
/// Returns the error of the operating system if the thread cannot be started.
pub(crate) fn start(hub: &Arc<Hub>, path: PathBuf, threads: &Threads) -> io::Result<()> {
    load(hub, &path);
    let hub = Arc::clone(hub);
    threads.start("verdicts", move || {
        loop {
            thread::sleep(EVERY);
            save(&hub, &path);
        }
    })
}

/// Continues with the verdicts of a file.
fn load(hub: &Hub, path: &Path) {
    state_file::load(path, STATE, |line| restore(hub, line));
}

fn restore(hub: &Hub, Line { port, peer, end }: Line<End>) -> bool {
    hub.write().store.physical.restore(port, end, peer);
    true
}

/// Writes the file.
pub(crate) fn save(hub: &Hub, path: &Path) {
    state_file::save(path, STATE, content(hub));
}

fn content(hub: &Hub) -> io::Result<Vec<u8>> {
    let mut lines = Lines::new()?;
    let mut last = None;
    loop {
        let state = hub.read();
        let before = last;
        for (port, subject) in state.store.physical.ports_after(last).take(AT_ONCE) {
            lines.add(&Line {
                port,
                peer: health::peer(&state, port, subject),
                end: &subject.end,
            })?;
            last = Some(port);
        }
        if last == before {
            return lines.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::RangeInclusive;

    use ibnet_analysis::health::verdict::Verdict;
    use ibnet_record::types::{Guid, PortNum};
    use serde_json::{Value, json};

    use super::*;
    use crate::ingest::{self, Clock};
    use crate::input::{Message, What};
    use crate::query::tests::{hub, lines};
    use crate::state;
    use crate::store::Limits;

    const FILE: &str = "verdicts";

    /// Time of minute 0: the sampler has records of more than two hours later.
    const START_NS: u64 = 1_699_991_000_000_000_000;

    /// Returns a hub that knows the ports and their peers.
    fn with_ports() -> Hub {
        let hub = hub(&[lines().join("\n")]);
        hub.tick(Clock::start().now());
        hub
    }

    /// Adds the readings of both ends of a link, each of which loses blocks from minute 1 on.
    fn add(hub: &Hub, minutes: RangeInclusive<u64>) {
        let line = |minute: u64, guid: u64| {
            json!({"type": "phy", "ts": START_NS + 60_000_000_000 * minute, "slot": minute, "sampler": "s1",
                "guid": Guid(guid).to_string(), "port": 1, "lid": guid, "node": "n", "dt_ns": null,
                "time_since_last_clear_ms": 60_000 * minute,
                "phy_received_bits": 25_500_000_000_000_u64 * minute,
                "phy_corrected_bits": 400 * minute, "phy_effective_errors": 1600 * minute,
                "rs_fec_uncorrectable_blocks": 10 * minute, "phy_symbol_errors": 0})
        };
        let lines =
            minutes.flat_map(|minute| [1, 0x101].map(|guid| format!("{}\n", line(minute, guid))));
        add_lines(hub, lines.collect());
    }

    /// Adds the serial number of the cable, as both ends of the link report it.
    fn add_cable(hub: &Hub, minute: u64, serial: &str) {
        let line = |guid: u64| {
            json!({"type": "module", "ts": START_NS + 60_000_000_000 * minute, "slot": minute, "sampler": "s1",
                "guid": Guid(guid).to_string(), "port": 1, "lid": guid, "node": "n", "dt_ns": null,
                "cable_type": 1, "vendor_sn": serial})
        };
        let lines = [1, 0x101].map(|guid| format!("{}\n", line(guid)));
        add_lines(hub, lines.concat());
    }

    fn add_lines(hub: &Hub, lines: String) {
        let message = Message {
            input: 0,
            live_ns: None,
            what: What::Lines(lines.into_bytes()),
        };
        ingest::handle(hub, message, Clock::start());
    }

    fn rows(hub: &Hub) -> Value {
        serde_json::to_value(health::find(hub, 0)).expect("JSON")
    }

    #[test]
    fn restart_makes_no_verdict_better() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let before = with_ports();
        add(&before, 1..=140);
        let expected = health::faulty(&before);
        assert_eq!(expected[0].verdict, Verdict::Replace, "both ends");
        save(&before, &path);

        // Before any record has arrived, the hub has the verdict on both ends together.
        let empty = hub(&[]);
        load(&empty, &path);
        let found = health::faulty(&empty);
        assert_eq!((found.len(), found[0].verdict), (1, Verdict::Replace));

        // With more records, and some that are read again, nothing shows the restart.
        let restarted = with_ports();
        load(&restarted, &path);
        add(&restarted, 130..=143);
        add(&before, 141..=143);
        assert_eq!(rows(&restarted), rows(&before));

        // Without the file, the verdict would begin anew.
        let anew = with_ports();
        load(&anew, &folder.path().join("missing"));
        add(&anew, 130..=143);
        assert_eq!(health::faulty(&anew).len(), 0);
    }

    #[test]
    fn verdict_on_a_cable_ends_with_it_also_over_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let before = with_ports();
        add(&before, 1..=139);
        add_cable(&before, 140, "OLD");
        save(&before, &path);
        let restarted = |serial: &str| {
            let hub = with_ports();
            load(&hub, &path);
            add_cable(&hub, 145, serial);
            health::faulty(&hub).len()
        };
        assert_eq!(["OLD", "", "NEW"].map(restarted), [1, 1, 0]);
    }

    #[test]
    fn file_that_is_damaged_or_of_another_version_costs_its_own_lines_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let before = with_ports();
        add(&before, 1..=140);
        save(&before, &path);
        let whole = fs::read(&path).expect("written");
        let lines = zstd::decode_all(&whole[..]).expect("zstd");
        let of = |content: &[u8]| {
            let hub = hub(&[]);
            fs::write(&path, content).expect("written");
            let wrong =
                state_file::read(&path, |line| restore(&hub, line)).map_err(|error| error.kind());
            (wrong.ok(), health::find(&hub, 0).rows.len())
        };
        let pack = |lines: &[u8]| zstd::encode_all(lines, 1).expect("zstd");
        assert_eq!(of(&whole), (Some(0), 1));
        assert_eq!(of(&pack(&[&lines[..], b"{}\nx\n"].concat())), (Some(2), 1));
        assert_eq!(of(&pack(b"")), (Some(0), 0));
        assert_eq!(of(b"no zstd").0, None);
        for place in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            // There is no panic, and mostly an error of the checksum.
            of(&damaged);
        }
    }

    #[test]
    fn endless_verdicts_are_limited_by_the_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let line = |guid: u64| {
            let line = Line {
                port: (Guid(guid), PortNum(1)),
                peer: None,
                end: End::default(),
            };
            serde_json::to_string(&line).expect("JSON") + "\n"
        };
        let lines: String = (0..10_000).map(line).collect();
        fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).expect("zstd")).expect("written");
        let hub = state::tests::new(Limits {
            recent_max: 16 << 20,
            ..state::tests::LIMITS
        });
        load(&hub, &path);
        let octets = hub.read().store.physical.octets();
        assert!((1 << 20..6 << 20).contains(&octets), "{octets}");
    }
}
