//! What a file of `tests/scenarios` tells: a fabric, an engine, what befalls them in which slots, and what the records must be.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

/// All of a file. Slots are counted from 1; what begins with slot 0 is there before the devices are asked who they are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Story {
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
    /// Service times vary by this share of themselves.
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

/// Something that goes wrong with slot `from`, and is well again with slot `until`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) from: u64,
    pub(super) until: Option<u64>,
    pub(super) what: What,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum What {
    /// These devices answer nothing.
    Dead(Which),
    /// These devices work so long on each MAD.
    Slow { which: Which, service_us: u64 },
    /// A share of requests gets lost.
    Loss(f64),
    /// A share of replies comes so much later.
    Delay { share: f64, by_ms: f64 },
    /// A share of replies comes twice.
    Duplicates(f64),
    /// Somebody answers beside the device, or instead of it.
    Forged { share: f64, wrong: Wrong, instead: bool },
    /// The sampler's queue pair takes in so many replies within a time.
    Room { most: usize, within_us: u64 },
    /// Nobody polls, from so far into the slot.
    Stall { at_ms: f64, for_s: u64 },
    /// The host is suspended so far into the slot: its monotonic clock stands still, its wall clock does not, and what comes meanwhile is lost.
    Suspended { at_ms: f64, for_s: u64 },
    /// The wall clock is set, before the slot.
    WallClock { by_s: i64 },
}

/// Devices by the first word of their names, or a share of the hosts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Which {
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

/// What must be in each of these slots, first and last. Absent is zero.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) slots: [u64; 2],
    /// The longest of them, from start to last reply or expiry, to a hundredth.
    pub(super) longest_ms: f64,
    /// Ports by status.
    pub(super) ports: BTreeMap<String, u32>,
    /// Replies that were not taken, by the reason.
    #[serde(default)]
    pub(super) rejected: BTreeMap<String, u64>,
    /// Replies that came after their deadline.
    #[serde(default)]
    pub(super) mads_late: u64,
    /// Slots that could not start, before it.
    #[serde(default)]
    pub(super) missed: u64,
    /// By how much the wall clock was set.
    #[serde(default)]
    pub(super) stepped_s: i64,
}

impl Default for Fabric {
    fn default() -> Self {
        Self { seed: 1, jitter: 0.0, tree: None }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self { slots: 4, interval_ms: 1000, window: 32, deadline_ms: 5, grace_ms: 50 }
    }
}

impl Story {
    /// Reads a file.
    ///
    /// # Panics
    /// If it is not as it should be.
    pub(super) fn parse(name: &str, text: &str) -> Self {
        let story: Self = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut next = 1;
        for Expected { slots: [first, last], .. } in &story.expected {
            assert!(*first == next && last >= first, "{name}: slots {first} to {last} do not follow slot {}", next - 1);
            next = last + 1;
        }
        assert_eq!(next - 1, story.engine.slots, "{name}: each slot must be expected");
        for fault in &story.faults {
            let lasts = !matches!(fault.what, What::Stall { .. } | What::Suspended { .. } | What::WallClock { .. });
            let ends = fault.until.is_none_or(|until| lasts && until > fault.from);
            assert!(ends && fault.from <= story.engine.slots, "{name}: a fault that begins with slot {}", fault.from);
            assert!(lasts || fault.from > 0, "{name}: what befalls a slot cannot befall slot 0");
        }
        story
    }
}

/// Puts successive slots together that differ in nothing but their length, and not much in that.
pub(super) fn merged(slots: &[Expected]) -> Vec<Expected> {
    let mut merged: Vec<Expected> = Vec::new();
    for slot in slots {
        if let Some(last) = merged.last_mut()
            && (0.8..1.25).contains(&(slot.longest_ms / last.longest_ms))
            && *last == (Expected { slots: last.slots, longest_ms: last.longest_ms, ..slot.clone() })
        {
            (last.slots[1], last.longest_ms) = (slot.slots[1], last.longest_ms.max(slot.longest_ms));
        } else {
            merged.push(slot.clone());
        }
    }
    merged
}

/// As a file says it.
pub(super) fn text(expected: &[Expected]) -> String {
    let table = |counts: Vec<(&str, u64)>| {
        let words: Vec<_> = counts.iter().map(|(word, count)| format!("{word} = {count}")).collect();
        format!("{{ {} }}", words.join(", "))
    };
    let mut text = String::new();
    for Expected { slots: [first, last], longest_ms, ports, rejected, mads_late, missed, stepped_s } in expected {
        let ports = table(ports.iter().map(|(word, count)| (&**word, u64::from(*count))).collect());
        // Writing to a String does not fail.
        let _ = write!(text, "[[expect]]\nslots = [{first}, {last}]\nlongest_ms = {longest_ms:.2}\nports = {ports}\n");
        if !rejected.is_empty() {
            let _ = writeln!(text, "rejected = {}", table(rejected.iter().map(|(word, count)| (&**word, *count)).collect()));
        }
        for (word, value) in [("mads_late", *mads_late as i64), ("missed", *missed as i64), ("stepped_s", *stepped_s)] {
            if value != 0 {
                let _ = writeln!(text, "{word} = {value}");
            }
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}
