//! The condition of one sampler.

use ibnet_record::SweepRecord;
use serde::{Deserialize, Serialize};

/// Min time without a slot after which a sampler counts as silent.
const SHORTEST_SILENCE_NS: u64 = 2_000_000_000;

/// Number of intervals without a slot after which a sampler counts as silent.
const SILENT_INTERVALS: u64 = 3;

/// The last slot of one HCA port of a sampler. Before the first slot, the numbers are zero.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub(super) struct Row {
    pub(super) sampler: String,
    #[serde(default)]
    pub(super) ca: String,
    #[serde(default)]
    pub(super) ca_port: u8,
    #[serde(default)]
    pub(super) role: String,
    #[serde(default)]
    pub(super) last_slot: u64,
    /// End of the last slot in nanoseconds since 1970, or 0 before the first slot.
    #[serde(default)]
    pub(super) last_ts: u64,
    #[serde(default)]
    pub(super) ports: u64,
    #[serde(default)]
    pub(super) ok: u64,
    #[serde(default)]
    pub(super) late: u64,
    #[serde(default)]
    pub(super) down: u64,
    /// Number of records that the sampler's output dropped, in the last slot or since the start
    /// of the hub.
    #[serde(default)]
    pub(super) lines_lost: u64,
    /// Number of slots that the sampler missed, before the last slot or since the start of the hub.
    #[serde(default)]
    pub(super) slots_missed: u64,
    /// Number of slots whose records the hub did not receive.
    #[serde(default)]
    pub(super) slots_lost: u64,
}

/// State of a sampler, in ascending order of urgency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    Incomplete,
    Silent,
    NeverHeard,
}

impl Row {
    #[cfg_attr(
        not(feature = "nats"),
        expect(dead_code, reason = "only NATS has sweep records")
    )]
    pub(super) fn of(sweep: SweepRecord<String>) -> Self {
        Self {
            sampler: sweep.sampler,
            ca: sweep.ca,
            ca_port: sweep.ca_port.0,
            role: sweep.role,
            last_slot: sweep.slot,
            last_ts: sweep.ts,
            ports: sweep.ports.into(),
            ok: sweep.ok.into(),
            late: sweep.late.into(),
            down: sweep.down.into(),
            lines_lost: sweep.lines_lost,
            slots_missed: sweep.slots_missed,
            slots_lost: 0,
        }
    }

    /// Returns the fields that identify a row: sampler, HCA, port of the HCA, and role.
    pub(super) fn key(&self) -> (&str, &str, u8, &str) {
        (&self.sampler, &self.ca, self.ca_port, &self.role)
    }

    /// Returns the time since the end of the last slot, or `None` before the first slot.
    pub(super) fn age_ns(&self, now: u64) -> Option<u64> {
        (self.last_ts > 0).then(|| now.saturating_sub(self.last_ts))
    }

    /// Returns the number of ports whose condition is known: those that answered, and those that
    /// have no link.
    pub(super) fn known(&self) -> u64 {
        self.ok + self.late + self.down
    }

    /// Returns the time between two slots. It follows from the last slot, whose number is the
    /// time since 1970 divided by the interval.
    pub(super) fn interval_ns(&self) -> u64 {
        self.last_ts / self.last_slot.max(1)
    }

    /// Returns the state.
    pub(super) fn state(&self, now: u64) -> State {
        let Some(age) = self.age_ns(now) else {
            return State::NeverHeard;
        };
        if age > SHORTEST_SILENCE_NS.max(self.interval_ns().saturating_mul(SILENT_INTERVALS)) {
            State::Silent
        } else if self.known() < self.ports
            || self.lines_lost + self.slots_missed + self.slots_lost > 0
        {
            State::Incomplete
        } else {
            State::Ok
        }
    }
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Incomplete => "incomplete",
            Self::Silent => "silent",
            Self::NeverHeard => "never heard",
        }
    }
}

/// Adds a row for each sampler and role of the plan that has none. `planned` contains names and
/// roles.
pub(super) fn add_missing(rows: &mut Vec<Row>, planned: &[(String, String)]) {
    for (host, role) in planned {
        if !rows
            .iter()
            .any(|row| row.sampler == *host && row.role == *role)
        {
            rows.push(Row {
                sampler: host.clone(),
                role: role.clone(),
                ..Row::default()
            });
        }
    }
}

#[cfg(test)]
pub(super) fn example(sampler: &str) -> Row {
    let (last_slot, last_ts) = (1_795_000_000, 1_795_000_000_400_000_000);
    Row {
        sampler: sampler.to_owned(),
        role: "primary".to_owned(),
        last_slot,
        last_ts,
        ports: 100,
        ok: 90,
        late: 2,
        down: 8,
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn state_is_that_of_the_last_slot_and_its_age() {
        let row = example("a");
        let at = |seconds| row.last_ts + seconds * SECOND;
        assert_eq!(
            (row.state(at(0)), row.state(at(3)), row.state(at(4))),
            (State::Ok, State::Ok, State::Silent)
        );
        assert_eq!(
            Row {
                ok: 89,
                ..row.clone()
            }
            .state(at(0)),
            State::Incomplete
        );
        assert_eq!(
            Row {
                lines_lost: 1,
                ..row.clone()
            }
            .state(at(0)),
            State::Incomplete
        );
        assert_eq!(
            Row {
                slots_missed: 1,
                ..row.clone()
            }
            .state(at(0)),
            State::Incomplete
        );
        assert_eq!(
            row.state(0),
            State::Ok,
            "a clock of the sampler that is ahead is no silence"
        );
    }

    #[test]
    fn slow_sampler_is_silent_after_three_of_its_intervals() {
        let slow = Row {
            last_slot: 29_916_666,
            ..example("a")
        };
        assert_eq!(slow.state(slow.last_ts + 179 * SECOND), State::Ok);
        assert_eq!(slow.state(slow.last_ts + 181 * SECOND), State::Silent);
        let fast = Row {
            last_slot: 179_500_000_000,
            ..example("a")
        };
        assert_eq!(fast.state(fast.last_ts + SECOND), State::Ok);
    }

    #[test]
    fn sampler_of_the_plan_without_a_slot_was_never_heard() {
        let mut rows = vec![example("a")];
        let planned = [
            ("a", "primary"),
            ("a", "secondary"),
            ("b", "primary"),
            ("b", "primary"),
        ];
        add_missing(
            &mut rows,
            &planned.map(|(host, role)| (host.to_owned(), role.to_owned())),
        );
        let states: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.sampler.as_str(),
                    row.role.as_str(),
                    row.state(row.last_ts),
                )
            })
            .collect();
        let expected = [
            ("a", "primary", State::Ok),
            ("a", "secondary", State::NeverHeard),
            ("b", "primary", State::NeverHeard),
        ];
        assert_eq!(states, expected);
    }
}
