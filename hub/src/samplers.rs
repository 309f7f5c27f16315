//! Keeps the samplers that send records, and their condition.
//!
//! A sampler with several HCA ports has one entry for each of them. A sampler is *silent* if none
//! of its records has arrived for three intervals, and for at least two seconds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ibnet_analysis::record::{Start, Sweep};
use ibnet_record::Role;
use ibnet_record::slots::interval_by_slot;
use ibnet_record::types::PortNum;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::clocks::{self, Bounds, Clock, Heard, Hearing};

/// Max number of entries. There must be a limit because an input can invent samplers.
const MAX: usize = 4096;

/// Number of sweeps whose durations are kept.
const SLOTS: usize = 60;

/// Interval of a sampler until its records show another one.
const USUAL_INTERVAL_NS: u64 = 1_000_000_000;

/// Number of consecutive records that must show another interval before it replaces a known one.
const SURE: u32 = 4;

/// Min and max interval. Other values cannot come from a sampler.
const LIMITS_NS: (u64, u64) = (1_000_000, 86_400_000_000_000);

/// Max time from the end of a slot to one of its records. A busy sampler writes records late.
const LATEST_NS: u64 = 2_000_000_000;

/// Max time for which the sums of the jobs wait for the records of a sampler.
const AWAITED: Duration = Duration::from_secs(60);

/// Min time after which a sampler is silent.
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

/// One HCA port of a sampler, in an answer of the API.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sampler {
    /// Name of the sampler.
    #[serde(serialize_with = "crate::shared::text")]
    pub(crate) sampler: Arc<str>,
    /// Name of the HCA that sends the MADs.
    pub(crate) ca: String,
    /// Port of this HCA.
    pub(crate) ca_port: PortNum,
    /// `primary` or `secondary`.
    pub(crate) role: String,
    /// Whether records arrived recently.
    pub(crate) connected: bool,
    /// Whether the clock differs too much from those of the other samplers, or from the clock of
    /// the hub.
    pub(crate) wrong_clock: bool,
    /// Distance of the clock from the median of the samplers, or from the clock of the hub.
    /// Positive if it is ahead. `None` if it is not known.
    pub(crate) clock_distance_ns: Option<i64>,
    /// Input from which the last record came.
    #[serde(serialize_with = "crate::shared::text")]
    pub(crate) input: Arc<str>,
    /// Name with the HCA port and, for a secondary sampler, the role.
    pub(crate) title: String,
    /// Page of the hub of this part of the fabric, as configured for the input.
    #[serde(serialize_with = "crate::shared::optional")]
    pub(crate) part_page: Option<Arc<str>>,
    /// Version of the program.
    pub(crate) version: String,
    /// Time between two slots.
    pub(crate) interval_ns: u64,
    /// Number of the last slot.
    pub(crate) last_slot: u64,
    /// Time of the last `sweep` record, in nanoseconds since 1970.
    pub(crate) last_ts: u64,
    /// Number of assigned ports.
    pub(crate) ports: u64,
    /// Ports of the last slot by their status.
    pub(crate) ok: u32,
    pub(crate) late: u32,
    pub(crate) timeout: u32,
    pub(crate) unreachable: u32,
    pub(crate) skipped: u32,
    pub(crate) down: u32,
    pub(crate) errors: u32,
    /// Duration of the last sweep.
    pub(crate) duration_ns: u64,
    pub(crate) rtt_p50_ns: Option<u64>,
    pub(crate) rtt_p99_ns: Option<u64>,
    /// Total number of slots that the sampler missed.
    pub(crate) slots_missed: u64,
    /// Total number of records that the output of the sampler dropped.
    pub(crate) lines_lost: u64,
    /// Number of slots whose `sweep` record did not arrive, although the sampler did not miss them.
    pub(crate) slots_lost: u64,
    /// Number of starts after the first one.
    pub(crate) restarts: u64,
    /// For each of the last slots: share of the ports that answered. Oldest first.
    pub(crate) answered: VecDeque<f64>,
    /// Durations of the last sweeps, oldest first.
    pub(crate) durations: VecDeque<u64>,
    /// Boot and process of the last `start` record.
    #[serde(skip)]
    process: Option<(String, u32)>,
    /// Arrival of the last record, as monotonic time.
    #[serde(skip)]
    heard: Duration,
    /// Arrival of the last live record.
    #[serde(skip)]
    live_heard: Option<Duration>,
}

/// A change that the hub reports as an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) sampler: Arc<str>,
    pub(crate) role: String,
    pub(crate) is_back: bool,
}

/// All samplers.
#[derive(Debug, Default)]
pub(crate) struct Samplers {
    all: Vec<Sampler>,
    ids: FxHashMap<(Arc<str>, String, u8, String), usize>,
    names: BTreeMap<Arc<str>, Named>,
    /// Pages of the hubs of parts, by their inputs.
    pub(crate) pages: FxHashMap<Arc<str>, Arc<str>>,
    changes: Vec<Change>,
    clock_changes: Vec<ClockChange>,
    bounds: Bounds,
    /// Time of the last comparison of the clocks.
    judged: Duration,
    /// Min interval of the samplers that are not silent. Cached, because each record needs it.
    shortest_ns: Option<u64>,
}

/// Input and time of a record's arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) input: &'a Arc<str>,
    pub(crate) heard: Heard,
}

/// State shared by all entries of a name, because the HCA ports of a host have the same clock.
#[derive(Clone, Copy, Debug)]
struct Named {
    interval_ns: u64,
    /// Whether a `start` record states the interval, or times and slots of records agree with it.
    is_known: bool,
    /// Another interval that the last records show, and the number of these records.
    other: (u64, u32),
    clock: Clock,
}

/// The sampler of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub(crate) name: Arc<str>,
    pub(crate) interval_ns: u64,
    /// Whether the record is kept apart from those of the other samplers.
    pub(crate) is_apart: bool,
    /// Time of its newest record, in nanoseconds since 1970.
    pub(crate) newest_ns: u64,
}

/// A clock that became wrong or right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClockChange {
    pub(crate) sampler: Arc<str>,
    pub(crate) is_apart: bool,
    /// Text of the event: whether the clock is wrong, and its distance. `None` if only whether its
    /// records are kept apart has changed.
    pub(crate) event: Option<(bool, i64)>,
}

/// Time between two comparisons of the clocks. A clock that is ahead is detected at once.
const JUDGE_EVERY: Duration = Duration::from_secs(1);

impl Samplers {
    /// Returns the shared name of a sampler. `None` if there are too many samplers.
    fn name(&mut self, name: &str) -> Option<Arc<str>> {
        if let Some((name, _)) = self.names.get_key_value(name) {
            return Some(Arc::clone(name));
        }
        let name: Arc<str> = (self.names.len() < MAX).then(|| name.into())?;
        let named = Named {
            interval_ns: USUAL_INTERVAL_NS,
            is_known: false,
            other: (0, 0),
            clock: Clock::default(),
        };
        self.names.insert(Arc::clone(&name), named);
        Some(name)
    }

    /// Compares the time of a port or sweep record with the clock of its sampler. Returns the
    /// sampler, or `None` if there are too many samplers, or if no other record confirms the time
    /// of this one yet.
    pub(crate) fn hear(
        &mut self,
        name: &str,
        (ts, slot): (u64, u64),
        heard: Heard,
    ) -> Option<Source> {
        let name = self.name(name)?;
        let bounds = self.bounds;
        let named = self.names.get_mut(&name)?;
        if let Some(interval_ns) = named.learn(ts, slot) {
            self.set_interval(&name, interval_ns);
        }
        let named = self.names.get_mut(&name)?;
        match named
            .clock
            .hear(ts, heard, Duration::from_nanos(named.interval_ns), bounds)
        {
            Hearing::Alone => return None,
            Hearing::Ahead => self.judge(heard.at),
            Hearing::Usual => {}
        }
        self.source(&name)
    }

    fn set_interval(&mut self, name: &str, interval_ns: u64) {
        if let Some(named) = self.names.get_mut(name) {
            (named.interval_ns, named.is_known, named.other) = (interval_ns, true, (0, 0));
        }
        self.all
            .iter_mut()
            .filter(|sampler| *sampler.sampler == *name)
            .for_each(|sampler| sampler.interval_ns = interval_ns);
        self.update_interval();
    }

    /// Returns a known sampler.
    pub(crate) fn source(&self, name: &str) -> Option<Source> {
        let (name, named) = self.names.get_key_value(name)?;
        let Clock {
            is_apart,
            newest_ns,
            ..
        } = named.clock;
        Some(Source {
            name: Arc::clone(name),
            interval_ns: named.interval_ns,
            is_apart,
            newest_ns,
        })
    }

    fn judge_sometimes(&mut self, now: Duration) {
        if now.saturating_sub(self.judged) >= JUDGE_EVERY {
            self.judge(now);
        }
    }

    fn judge(&mut self, now: Duration) {
        self.judged = now;
        let (names, mut all): (Vec<_>, Vec<_>) = self
            .names
            .iter_mut()
            .map(|(name, named)| {
                (
                    name,
                    (&mut named.clock, Duration::from_nanos(named.interval_ns)),
                )
            })
            .unzip();
        let (bounds, judged) = clocks::judge(&mut all, now);
        self.bounds = bounds;
        for judged in judged {
            let (sampler, (clock, _)) = (Arc::clone(names[judged.place]), &all[judged.place]);
            let event = judged
                .is_reported
                .then(|| (clock.is_wrong, clock.distance_ns.unwrap_or_default()));
            self.clock_changes.push(ClockChange {
                sampler,
                is_apart: clock.is_apart,
                event,
            });
        }
    }

    /// Returns the clocks that became wrong or right since the last call.
    pub(crate) fn take_clock_changes(&mut self) -> Vec<ClockChange> {
        std::mem::take(&mut self.clock_changes)
    }

    /// Returns the newest record of the samplers that are not kept apart, in nanoseconds
    /// since 1970.
    pub(crate) fn newest_ns(&self) -> u64 {
        let shown = self.names.values().filter(|named| !named.clock.is_apart);
        shown.map(|named| named.clock.newest_ns).max().unwrap_or(0)
    }

    /// Returns the time up to which all samplers have sent their records, in nanoseconds since
    /// 1970. A sampler that has been silent for longer than [`AWAITED`] does not count.
    pub(crate) fn arrived_ns(&self, now: Duration) -> u64 {
        let is_awaited = |sampler: &&Sampler| {
            let is_apart = |named: &Named| named.clock.is_apart;
            !self.names.get(&sampler.sampler).is_some_and(is_apart)
                && sampler.last_ts > 0
                && sampler
                    .live_heard
                    .is_some_and(|heard| now.saturating_sub(heard) < AWAITED)
        };
        let awaited = self.all.iter().filter(is_awaited);
        let newest_ns = self.newest_ns();
        awaited
            .map(|sampler| sampler.last_ts)
            .min()
            .map_or(newest_ns, |arrived_ns| arrived_ns.min(newest_ns))
    }

    /// Returns a function from the name of a sampler to the time of its clock.
    pub(crate) fn clock_times(&self) -> impl Fn(&str) -> u64 {
        let right_ns = clocks::newest_live_ns(self.names.values().map(|named| &named.clock));
        move |name| {
            self.names
                .get(name)
                .map_or(right_ns, |named| named.clock.now_ns(right_ns))
        }
    }

    /// Returns the indices of the entries of a sampler.
    pub(crate) fn ids_of(&self, name: &str) -> impl Iterator<Item = usize> {
        self.all
            .iter()
            .enumerate()
            .filter(move |(_, sampler)| *sampler.sampler == *name)
            .map(|(id, _)| id)
    }

    pub(crate) fn start(&mut self, start: &Start<'_>, arrival: Arrival<'_>) {
        let Some(name) = self.name(&start.sampler) else {
            return;
        };
        let Some(id) = self.id(
            Arc::clone(&name),
            (&start.ca, start.ca_port),
            &start.role,
            arrival,
        ) else {
            return;
        };
        let sampler = &mut self.all[id];
        (sampler.version, sampler.ports) = (start.version.to_string(), start.ports as u64);
        let process = (start.boot_id.to_string(), start.pid);
        if sampler
            .process
            .as_ref()
            .is_some_and(|known| *known != process)
        {
            sampler.restarts += 1;
        }
        sampler.process = Some(process);
        self.set_interval(&name, start.interval_ns.clamp(LIMITS_NS.0, LIMITS_NS.1));
    }

    /// Adds a `sweep` record. Returns the index of the entry.
    pub(crate) fn sweep(&mut self, sweep: &Sweep<'_>, arrival: Arrival<'_>) -> Option<usize> {
        let name = self.name(&sweep.sampler)?;
        let id = self.id(name, (&sweep.ca, sweep.ca_port), &sweep.role, arrival)?;
        let sampler = &mut self.all[id];
        let is_next = sampler.last_slot > 0 && sweep.slot > sampler.last_slot;
        if sweep.slot == sampler.last_slot && sweep.ts == sampler.last_ts {
            return Some(id);
        }
        if is_next && sampler.process.is_some() {
            sampler.slots_lost += (sweep.slot - sampler.last_slot - 1)
                .saturating_sub(sweep.slots_missed)
                .min(86_400);
        }
        (sampler.last_slot, sampler.last_ts, sampler.duration_ns) =
            (sweep.slot, sweep.ts, sweep.duration_ns);
        (
            sampler.ok,
            sampler.late,
            sampler.timeout,
            sampler.unreachable,
        ) = (sweep.ok, sweep.late, sweep.timeout, sweep.unreachable);
        (sampler.skipped, sampler.down, sampler.errors, sampler.ports) =
            (sweep.skipped, sweep.down, sweep.errors, sweep.ports.into());
        (sampler.rtt_p50_ns, sampler.rtt_p99_ns) = (sweep.rtt_p50_ns, sweep.rtt_p99_ns);
        sampler.add_lost(sweep);
        let answered = f64::from(
            sweep
                .ok
                .saturating_add(sweep.late)
                .saturating_add(sweep.down),
        ) / f64::from(sweep.ports.max(1));
        push(&mut sampler.answered, answered);
        push(&mut sampler.durations, sweep.duration_ns);
        Some(id)
    }

    /// Adds the losses that a `sweep` record reports, and nothing else of it, to its entry.
    pub(crate) fn add_lost(&mut self, sweep: &Sweep<'_>) {
        let of = |sampler: &&mut Sampler| {
            *sampler.sampler == *sweep.sampler
                && (&*sampler.ca, sampler.ca_port) == (&*sweep.ca, sweep.ca_port)
                && sampler.role == sweep.role
        };
        if let Some(sampler) = self.all.iter_mut().find(of) {
            sampler.add_lost(sweep);
        }
    }

    fn id(
        &mut self,
        name: Arc<str>,
        (ca, ca_port): (&str, PortNum),
        role: &str,
        arrival: Arrival<'_>,
    ) -> Option<usize> {
        let key = (name, ca.to_owned(), ca_port.0, role.to_owned());
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None if self.all.len() < MAX => {
                let interval_ns = self
                    .names
                    .get(&key.0)
                    .map_or(USUAL_INTERVAL_NS, |named| named.interval_ns);
                self.all.push(Sampler::new(&key, interval_ns, arrival));
                self.ids.insert(key, self.all.len() - 1);
                self.update_interval();
                self.all.len() - 1
            }
            None => return None,
        };
        let sampler = &mut self.all[id];
        sampler.heard = arrival.heard.at;
        if arrival.heard.wall_ns.is_some() {
            sampler.live_heard = Some(arrival.heard.at);
        }
        if sampler.input != *arrival.input {
            sampler.input = Arc::clone(arrival.input);
        }
        if !std::mem::replace(&mut sampler.connected, true) {
            self.changes.push(Change {
                sampler: Arc::clone(&sampler.sampler),
                role: sampler.role.clone(),
                is_back: true,
            });
        }
        Some(id)
    }

    /// Marks silent samplers. Returns the changes since the last call.
    pub(crate) fn check(&mut self, now: Duration) -> Vec<Change> {
        self.judge_sometimes(now);
        for sampler in self.all.iter_mut().filter(|sampler| sampler.connected) {
            let silence =
                Duration::from_nanos(sampler.interval_ns.saturating_mul(3)).max(SHORTEST_SILENCE);
            if now.saturating_sub(sampler.heard) >= silence {
                sampler.connected = false;
                self.changes.push(Change {
                    sampler: Arc::clone(&sampler.sampler),
                    role: sampler.role.clone(),
                    is_back: false,
                });
            }
        }
        if !self.changes.is_empty() {
            self.update_interval();
        }
        std::mem::take(&mut self.changes)
    }

    /// Returns the shortest interval of the samplers that are not silent.
    pub(crate) fn interval_ns(&self) -> u64 {
        self.shortest_ns.unwrap_or(USUAL_INTERVAL_NS)
    }

    /// Computes the shortest interval again. While all samplers are silent, the last value stays.
    fn update_interval(&mut self) {
        let connected = self.all.iter().filter(|sampler| sampler.connected);
        self.shortest_ns = connected
            .map(|sampler| sampler.interval_ns)
            .min()
            .or(self.shortest_ns);
    }

    /// Returns all samplers in the order of their names.
    pub(crate) fn rows(&self) -> Vec<Sampler> {
        let mut rows = self.all.clone();
        for row in &mut rows {
            row.part_page = self.pages.get(&row.input).cloned();
            if let Some(Named { clock, .. }) = self.names.get(&row.sampler) {
                (row.wrong_clock, row.clock_distance_ns) = (clock.is_wrong, clock.distance_ns);
            }
        }
        rows.sort_by(|a, b| {
            (&a.sampler, &a.role, &a.ca, a.ca_port).cmp(&(&b.sampler, &b.role, &b.ca, b.ca_port))
        });
        rows
    }

    /// Returns the page of the hub of the part to which a sampler belongs.
    pub(crate) fn part_page(&self, name: &str) -> Option<Arc<str>> {
        let mut inputs = self.ids_of(name).map(|id| &self.all[id].input);
        inputs.find_map(|input| self.pages.get(input).cloned())
    }

    /// Returns the number of samplers, and the number of those that are not silent.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.all.len(),
            self.all.iter().filter(|sampler| sampler.connected).count(),
        )
    }

    /// Returns whether an entry has the secondary role.
    pub(crate) fn is_secondary(&self, id: usize) -> bool {
        self.all
            .get(id)
            .is_some_and(|sampler| Role::named(&sampler.role) == Some(Role::Secondary))
    }
}

impl Named {
    /// Compares the time and the slot of a record with the interval. Returns another interval if
    /// the records show one, because the `start` record of a sampler can be older than what the
    /// hub reads.
    fn learn(&mut self, ts: u64, slot: u64) -> Option<u64> {
        if is_in_slot(ts, slot, self.interval_ns) {
            (self.is_known, self.other) = (true, (0, 0));
            return None;
        }
        let other = interval_by_slot(ts, slot, 0).filter(|other| is_in_slot(ts, slot, *other))?;
        let count = if self.other.0 == other {
            self.other.1 + 1
        } else {
            1
        };
        self.other = (other, count);
        (!self.is_known || count >= SURE).then_some(other)
    }
}

/// Returns whether a record can belong to a slot, by its time.
pub(crate) fn is_in_slot(ts: u64, slot: u64, interval_ns: u64) -> bool {
    ts.abs_diff(slot.saturating_mul(interval_ns))
        <= interval_ns.saturating_mul(2).saturating_add(LATEST_NS)
}

impl Sampler {
    fn add_lost(&mut self, sweep: &Sweep<'_>) {
        self.slots_missed = self.slots_missed.saturating_add(sweep.slots_missed);
        self.lines_lost = self.lines_lost.saturating_add(sweep.lines_lost);
    }

    /// Returns whether its records arrived live, and not only from a finished recording.
    pub(crate) const fn is_live(&self) -> bool {
        self.live_heard.is_some()
    }

    fn new(
        (name, ca, ca_port, role): &(Arc<str>, String, u8, String),
        interval_ns: u64,
        arrival: Arrival<'_>,
    ) -> Self {
        let role_text = match Role::named(role) {
            Some(Role::Secondary) => " secondary",
            _ => "",
        };
        Self {
            sampler: Arc::clone(name),
            ca: ca.clone(),
            ca_port: PortNum(*ca_port),
            role: role.clone(),
            connected: true,
            wrong_clock: false,
            clock_distance_ns: None,
            input: Arc::clone(arrival.input),
            title: format!("{name} {ca}/{ca_port}{role_text}"),
            part_page: None,
            version: String::new(),
            interval_ns,
            last_slot: 0,
            last_ts: 0,
            ports: 0,
            ok: 0,
            late: 0,
            timeout: 0,
            unreachable: 0,
            skipped: 0,
            down: 0,
            errors: 0,
            duration_ns: 0,
            rtt_p50_ns: None,
            rtt_p99_ns: None,
            slots_missed: 0,
            lines_lost: 0,
            slots_lost: 0,
            restarts: 0,
            answered: VecDeque::new(),
            durations: VecDeque::new(),
            process: None,
            heard: arrival.heard.at,
            live_heard: arrival.heard.wall_ns.map(|_| arrival.heard.at),
        }
    }
}

fn push<V>(values: &mut VecDeque<V>, value: V) {
    if values.len() == SLOTS {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(pid: u32) -> Start<'static> {
        Start {
            sampler: "s".into(),
            interval_ns: 1_000_000_000,
            pid,
            role: "primary".into(),
            ..Start::default()
        }
    }

    fn sweep(slot: u64, missed: u64) -> Sweep<'static> {
        Sweep {
            sampler: "s".into(),
            role: "primary".into(),
            slot,
            ts: slot,
            slots_missed: missed,
            ports: 4,
            ok: 3,
            ..Sweep::default()
        }
    }

    #[test]
    fn lost_slots_and_restarts_are_counted() {
        let (mut samplers, input) = (Samplers::default(), "x".into());
        let at = |seconds| Arrival {
            input: &input,
            heard: Heard {
                at: Duration::from_secs(seconds),
                wall_ns: None,
            },
        };
        samplers.start(&start(1), at(0));
        for (slot, missed) in [(10, 0), (11, 0), (11, 0), (14, 2), (20, 2)] {
            samplers.sweep(&sweep(slot, missed), at(slot));
        }
        samplers.start(&start(1), at(21));
        samplers.start(&start(2), at(22));
        samplers.sweep(&sweep(3, 0), at(23));
        let [row] = &samplers.rows()[..] else {
            panic!("one row")
        };
        assert_eq!(
            (
                row.slots_missed,
                row.slots_lost,
                row.restarts,
                row.last_slot
            ),
            (4, 3, 1, 3)
        );
        assert_eq!((row.answered.len(), row.answered[0]), (5, 0.75));
    }

    #[test]
    fn title_has_the_port_and_the_role_of_a_secondary() {
        let (mut samplers, input) = (Samplers::default(), "x".into());
        for role in ["primary", "secondary"] {
            let start = Start {
                role: role.into(),
                ca: "mlx5_0".into(),
                ca_port: PortNum(2),
                ..start(1)
            };
            samplers.start(
                &start,
                Arrival {
                    input: &input,
                    heard: Heard {
                        at: Duration::ZERO,
                        wall_ns: None,
                    },
                },
            );
        }
        let titles: Vec<_> = samplers.rows().into_iter().map(|row| row.title).collect();
        assert_eq!(titles, ["s mlx5_0/2", "s mlx5_0/2 secondary"]);
    }

    #[test]
    fn silence_and_return_are_changes() {
        let (mut samplers, input) = (Samplers::default(), "x".into());
        let at = |seconds| Arrival {
            input: &input,
            heard: Heard {
                at: Duration::from_secs(seconds),
                wall_ns: None,
            },
        };
        samplers.start(&start(1), at(0));
        assert_eq!(samplers.check(Duration::from_millis(2999)), []);
        let changes = samplers.check(Duration::from_secs(3));
        assert_eq!(
            (changes.len(), changes[0].is_back, samplers.counts()),
            (1, false, (1, 0))
        );
        samplers.sweep(&sweep(1, 0), at(9));
        assert_eq!(
            samplers
                .check(Duration::from_secs(9))
                .iter()
                .map(|change| change.is_back)
                .collect::<Vec<_>>(),
            [true]
        );
    }
}
