//! The rule by which the PDR plugin of NVIDIA UFM isolates ports, as its README describes it.
//!
//! ibnet only lists what this rule would do, to compare it with [`verdict`](super::verdict): it
//! never isolates a port. The README leaves open which reading begins a time of 12 minutes; here it
//! is the newest one that is at least as old. Its tests of dropped packets and of port states are
//! not included. The decisions were not compared with the plugin itself.

use std::collections::VecDeque;

use ibnet_record::physical::ReadValues;
use serde::Serialize;

use super::verdict::{MAX_CELSIUS, MAX_JUMP, MINUTE_NS};
use crate::ports::PortName;
use crate::rows::Row;

/// Time between two polls.
pub const POLL_NS: u64 = 5 * MINUTE_NS;

/// Times over which symbol errors are counted, with the max bit error ratio.
const TESTS: [(u64, f64, Reason); 2] = [
    (12, 1e-14, Reason::Symbols12),
    (125, 1e-15, Reason::Symbols125),
];

/// Time without a reason after which a port is used again, in minutes.
const CLEAN_MINUTES: u64 = 126;

/// Max number of isolated ports, and max share of all ports; the larger one counts.
const MAX_ISOLATED: usize = 10;
const MAX_SHARE: f64 = 0.005;

/// Max number of times in a week that a port is used again.
const MAX_RETURNS: usize = 2;
const WEEK_NS: u64 = 7 * 24 * 60 * MINUTE_NS;

/// Why a port is isolated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Reason {
    /// Symbol errors of 12 minutes.
    #[serde(rename = "symbols_12min")]
    Symbols12,
    /// Symbol errors of 125 minutes.
    #[serde(rename = "symbols_125min")]
    Symbols125,
    /// The link went down, by the counters of both ends.
    #[serde(rename = "link_down")]
    LinkDown,
    /// The module is too warm, or its temperature changed too much.
    #[serde(rename = "temperature")]
    Temperature,
}

/// What happens to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The port is isolated.
    Isolate,
    /// There is a reason, but too many ports are isolated.
    OverLimit,
    /// The port is used again.
    Return,
}

/// A port at a poll.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Symbol errors so far.
    pub symbols: Option<u64>,
    /// Link downs so far, with the intended ones.
    pub downs: Option<u64>,
    /// Temperature of the module in degrees Celsius.
    pub celsius: Option<f64>,
    /// Data rate of the link in Gb/s.
    pub gbps: Option<f64>,
    /// Index of the port at the other end.
    pub peer: Option<usize>,
}

/// A decision about a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Decision {
    /// Index of the port.
    pub port: usize,
    /// What happens to it.
    pub action: Action,
    /// Why it is isolated.
    pub reason: Option<Reason>,
}

/// A decision in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PdrRow {
    /// Time of the poll in nanoseconds since 1970.
    pub ts: u64,
    /// The port.
    #[serde(flatten)]
    pub port: PortName,
    /// What happens to it.
    pub action: Action,
    /// Why. Null if the port is used again.
    pub reason: Option<Reason>,
}

impl Row for PdrRow {
    const COLUMNS: &'static [&'static str] = &["ts", "guid", "port", "node", "action", "reason"];
}

/// The state of all ports.
#[derive(Clone, Debug, Default)]
pub struct Pdr(Vec<Port>);

#[derive(Clone, Debug, Default)]
struct Port {
    /// Time and symbol errors of the last 125 minutes, and of one poll before.
    symbols: VecDeque<(u64, u64)>,
    /// The previous poll.
    last: Sample,
    /// Whether the link went down since the previous poll.
    was_down: bool,
    /// Time of the last reason, while the port is isolated.
    isolated: Option<u64>,
    returns: Vec<u64>,
}

/// Returns how often the link went down, by the values of a `phy` record. The plugin reads
/// LinkDownedCounter, which counts intended link downs too.
pub(super) fn all_downs(values: &ReadValues) -> Option<u64> {
    let count = |name: &str| values.get(name)?.integer();
    match count("unintentional_link_down_events") {
        Some(events) => {
            Some(events.saturating_add(count("intentional_link_down_events").unwrap_or(0)))
        }
        None => count("link_down_events"),
    }
}

impl Port {
    /// Adds a poll, and returns a reason that needs only this end.
    fn add(&mut self, ts: u64, sample: &Sample) -> Option<Reason> {
        if let Some(symbols) = sample.symbols {
            if self.symbols.back().is_some_and(|(_, last)| symbols < *last) {
                self.symbols.clear();
            }
            self.symbols.push_back((ts, symbols));
        }
        let longest = ts.saturating_sub(TESTS[1].0 * MINUTE_NS);
        while self.symbols.get(1).is_some_and(|(ts, _)| *ts <= longest) {
            self.symbols.pop_front();
        }
        let increase = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        self.was_down = increase(sample.downs, self.last.downs).is_some_and(|downs| downs > 0);
        let is_warm = sample.celsius.is_some_and(|celsius| {
            let jump = self.last.celsius.map_or(0.0, |last| (celsius - last).abs());
            celsius > MAX_CELSIUS || jump > MAX_JUMP
        });
        let reason = self.too_many_symbols(ts, sample);
        self.last = *sample;
        reason.or_else(|| is_warm.then_some(Reason::Temperature))
    }

    fn too_many_symbols(&self, ts: u64, sample: &Sample) -> Option<Reason> {
        let (_, last) = self.symbols.back()?;
        let bits_per_second = sample.gbps? * 1e9;
        let test = |(minutes, ratio, reason): (u64, f64, Reason)| {
            let from = ts.saturating_sub(minutes * MINUTE_NS);
            let (_, first) = self.symbols.iter().rfind(|(ts, _)| *ts <= from)?;
            let limit = bits_per_second * (minutes * 60) as f64 * ratio;
            ((last - first) as f64 > limit).then_some(reason)
        };
        TESTS.into_iter().find_map(test)
    }
}

impl Pdr {
    /// Decides at a poll, by a sample of each port. Ports keep their index.
    pub fn poll(&mut self, ts: u64, samples: &[Sample]) -> Vec<Decision> {
        self.0.resize_with(samples.len(), Port::default);
        let own: Vec<Option<Reason>> = self
            .0
            .iter_mut()
            .zip(samples)
            .map(|(port, sample)| port.add(ts, sample))
            .collect();
        let limit = MAX_ISOLATED.max((MAX_SHARE * samples.len() as f64) as usize);
        let mut isolated = self.0.iter().filter(|port| port.isolated.is_some()).count();
        let mut decisions = Vec::new();
        for (index, sample) in samples.iter().enumerate() {
            let peer = sample.peer.and_then(|peer| self.0.get(peer));
            let both = self.0[index].was_down && peer.is_some_and(|peer| peer.was_down);
            let reason = own[index].or_else(|| both.then_some(Reason::LinkDown));
            let port = &mut self.0[index];
            let action = match (reason, port.isolated) {
                (Some(_), Some(_)) => {
                    port.isolated = Some(ts);
                    continue;
                }
                (Some(_), None) if isolated >= limit => Action::OverLimit,
                (Some(_), None) => {
                    (port.isolated, isolated) = (Some(ts), isolated + 1);
                    Action::Isolate
                }
                (None, Some(last)) if ts >= last + CLEAN_MINUTES * MINUTE_NS => {
                    port.returns.retain(|before| ts < before + WEEK_NS);
                    if port.returns.len() >= MAX_RETURNS {
                        continue;
                    }
                    port.returns.push(ts);
                    (port.isolated, isolated) = (None, isolated - 1);
                    Action::Return
                }
                (None, _) => continue,
            };
            decisions.push(Decision {
                port: index,
                action,
                reason,
            });
        }
        decisions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(symbols: u64) -> Sample {
        Sample {
            symbols: Some(symbols),
            downs: Some(0),
            celsius: Some(50.0),
            gbps: Some(400.0),
            peer: None,
        }
    }

    /// At 400 Gb/s the limits are 2.88 errors in 12 minutes and 3 in 125 minutes.
    #[test]
    fn third_symbol_error_in_twelve_minutes_isolates_the_port() {
        let mut pdr = Pdr::default();
        for (poll, symbols) in [0, 0, 0, 2, 2].into_iter().enumerate() {
            assert_eq!(pdr.poll(poll as u64 * POLL_NS, &[sample(symbols)]), []);
        }
        let decided = pdr.poll(5 * POLL_NS, &[sample(3)]);
        assert_eq!(decided[0].reason, Some(Reason::Symbols12));
        let later = (6..40).map(|poll| (poll, pdr.poll(poll * POLL_NS, &[sample(3)])));
        let returned: Vec<u64> = later
            .filter(|(_, decided)| {
                decided
                    .iter()
                    .any(|decided| decided.action == Action::Return)
            })
            .map(|(poll, _)| poll)
            .collect();
        // Only the fifth poll has three errors in 12 minutes: 126 minutes later is 151.
        assert_eq!(returned, [31]);
    }

    #[test]
    fn link_down_needs_both_ends() {
        let mut pdr = Pdr::default();
        let ends = |downs: [u64; 2]| {
            [0, 1].map(|index| Sample {
                downs: Some(downs[index]),
                peer: Some(1 - index),
                ..sample(0)
            })
        };
        assert_eq!(pdr.poll(0, &ends([4, 9])), []);
        assert_eq!(pdr.poll(POLL_NS, &ends([5, 9])), []);
        let decided = pdr.poll(2 * POLL_NS, &ends([6, 10]));
        assert_eq!(decided.len(), 2);
        assert!(
            decided
                .iter()
                .all(|decided| decided.reason == Some(Reason::LinkDown))
        );
    }

    #[test]
    fn at_most_ten_ports_of_a_small_fabric_are_isolated() {
        let mut pdr = Pdr::default();
        let hot = Sample {
            celsius: Some(71.0),
            ..sample(0)
        };
        let decided = pdr.poll(0, &[hot; 12]);
        let isolated = decided
            .iter()
            .filter(|decided| decided.action == Action::Isolate);
        assert_eq!((isolated.count(), decided.len()), (10, 12));
    }
}
