//! The file format of `tests/scenarios`: a fabric, an engine, faults with their slots, and the
//! expected outcome of each slot.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

/// A scenario file. Slots are counted from 1. A fault from slot 0 begins before the discovery.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    #[serde(default)]
    pub(super) fabric: Fabric,
    #[serde(default)]
    pub(super) engine: Engine,
    #[serde(default, rename = "fault")]
    pub(super) faults: Vec<Fault>,
    #[serde(rename = "expect")]
    pub(super) expected: Vec<Expected>,
}

/// The simulated fabric: that of `synthetic::stria`, or a two-tier tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fabric {
    pub(super) seed: u64,
    /// Largest deviation of a service time, as a share of it.
    pub(super) jitter: f64,
    pub(super) tree: Option<Tree>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tree {
    pub(super) leaves: usize,
    pub(super) hosts: usize,
    pub(super) spines: usize,
    pub(super) radix: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Engine {
    pub(super) slots: u64,
    pub(super) interval_ms: u64,
    pub(super) window: usize,
    pub(super) deadline_ms: u64,
    pub(super) grace_ms: u64,
}

/// A fault that begins with slot `from`, and ends with slot `until`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) from: u64,
    pub(super) until: Option<u64>,
    pub(super) what: FaultKind,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FaultKind {
    /// Devices that do not answer.
    Dead(Devices),
    /// Devices with another service time for each MAD.
    Slow { which: Devices, service_us: u64 },
    /// Share of requests that are lost, 0 to 1.
    Loss(f64),
    /// Share of replies that are delayed, 0 to 1, and the delay in milliseconds.
    Delay { share: f64, by_ms: f64 },
    /// Share of replies that are delivered twice, 0 to 1.
    Duplicates(f64),
    /// Share of replies with a forged reply before or instead of them, 0 to 1.
    Forged {
        share: f64,
        wrong: Wrong,
        instead: bool,
    },
    /// Replies that the sampler's queue pair can take within a time.
    Room { most: usize, within_us: u64 },
    /// The sampler process is stopped, from this time after the start of the slot.
    Stall { at_ms: f64, for_s: u64 },
    /// The host is suspended at this time after the start of the slot. Its monotonic clock stops,
    /// its wall clock continues, and replies are lost.
    Suspended { at_ms: f64, for_s: u64 },
    /// The wall clock is set before the slot.
    WallClock { by_s: i64 },
}

/// Devices by the first word of their names, or as a share of the hosts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Devices {
    Names(Vec<String>),
    Hosts(f64),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wrong {
    Sender,
    Attribute,
    Length,
}

/// Expected outcome of each slot in a range. Absent counts are zero.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    /// First and last slot of the range.
    pub(super) slots: [u64; 2],
    /// Longest of the slots in milliseconds, from the start to the last reply or timeout, rounded
    /// to a hundredth.
    pub(super) longest_ms: f64,
    /// Ports by status.
    pub(super) ports: BTreeMap<String, u32>,
    /// Rejected replies by reason.
    #[serde(default)]
    pub(super) rejected: BTreeMap<String, u64>,
    /// Replies after their timeout.
    #[serde(default)]
    pub(super) mads_late: u64,
    /// Slots before this range that could not start in time.
    #[serde(default)]
    pub(super) missed: u64,
    /// Seconds by which the wall clock was set.
    #[serde(default)]
    pub(super) stepped_s: i64,
}

impl Default for Fabric {
    fn default() -> Self {
        Self {
            seed: 1,
            jitter: 0.0,
            tree: None,
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            slots: 4,
            interval_ms: 1000,
            window: 32,
            deadline_ms: 5,
            grace_ms: 50,
        }
    }
}

impl Scenario {
    /// Parses and checks a file.
    ///
    /// # Panics
    /// If the file is invalid.
    pub(super) fn parse(name: &str, text: &str) -> Self {
        let scenario: Self = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut next = 1;
        for Expected {
            slots: [first, last],
            ..
        } in &scenario.expected
        {
            assert!(
                *first == next && last >= first,
                "{name}: slots {first} to {last} do not follow slot {}",
                next - 1
            );
            next = last + 1;
        }
        assert_eq!(
            next - 1,
            scenario.engine.slots,
            "{name}: an expected outcome is missing"
        );
        for fault in &scenario.faults {
            let lasts = !matches!(
                fault.what,
                FaultKind::Stall { .. } | FaultKind::Suspended { .. } | FaultKind::WallClock { .. }
            );
            let ends = fault.until.is_none_or(|until| lasts && until > fault.from);
            assert!(
                ends && fault.from <= scenario.engine.slots,
                "{name}: a fault that begins with slot {}",
                fault.from
            );
            assert!(
                lasts || fault.from > 0,
                "{name}: a fault within a slot cannot begin with slot 0"
            );
        }
        scenario
    }
}

/// Merges successive slots that differ only in their length, and by less than a quarter.
pub(super) fn merged(slots: &[Expected]) -> Vec<Expected> {
    let mut merged: Vec<Expected> = Vec::new();
    for slot in slots {
        if let Some(last) = merged.last_mut()
            && (0.8..1.25).contains(&(slot.longest_ms / last.longest_ms))
            && *last
                == (Expected {
                    slots: last.slots,
                    longest_ms: last.longest_ms,
                    ..slot.clone()
                })
        {
            (last.slots[1], last.longest_ms) =
                (slot.slots[1], last.longest_ms.max(slot.longest_ms));
        } else {
            merged.push(slot.clone());
        }
    }
    merged
}

/// Formats expected outcomes for a file.
pub(super) fn text(expected: &[Expected]) -> String {
    let table = |counts: Vec<(&str, u64)>| {
        let words: Vec<_> = counts
            .iter()
            .map(|(word, count)| format!("{word} = {count}"))
            .collect();
        format!("{{ {} }}", words.join(", "))
    };
    let mut text = String::new();
    for Expected {
        slots: [first, last],
        longest_ms,
        ports,
        rejected,
        mads_late,
        missed,
        stepped_s,
    } in expected
    {
        let ports = table(
            ports
                .iter()
                .map(|(word, count)| (&**word, u64::from(*count)))
                .collect(),
        );
        // Writing to a `String` never fails.
        let _ = write!(
            text,
            "[[expect]]\nslots = [{first}, {last}]\nlongest_ms = {longest_ms:.2}\nports = {ports}\n"
        );
        if !rejected.is_empty() {
            let _ = writeln!(
                text,
                "rejected = {}",
                table(
                    rejected
                        .iter()
                        .map(|(word, count)| (&**word, *count))
                        .collect()
                )
            );
        }
        for (word, value) in [
            ("mads_late", *mads_late as i64),
            ("missed", *missed as i64),
            ("stepped_s", *stepped_s),
        ] {
            if value != 0 {
                let _ = writeln!(text, "{word} = {value}");
            }
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}
