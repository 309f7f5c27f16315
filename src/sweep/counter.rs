//! Turns the replies of a port into the values of its record: counters, rates since the last slot,
//! and resets.
//!
//! 1. **One value per counter.** PortCounters and PortCountersExtended can have the same counter.
//!    The value comes from PortCountersExtended, which has more bits, whenever the device has the
//!    counter there. Only the capabilities of the device decide this; the replies of a slot do
//!    not.
//! 2. **A decrease is a reset**: another program cleared the counter, or the device restarted. An
//!    event names the counter, and the port has no rates in this slot.
//! 3. **A rate needs two valid readings** that are at most one [cadence](super::cadence) of the
//!    group apart. If the group is queried in every slot, the readings are of two successive
//!    slots. There is no rate after a longer gap, after a reset, or for a saturated counter.
//! 4. **The time of a rate** is the time between the two readings of its counter group, not the
//!    interval of the slots.

use std::time::Duration;

use ibnet_record::attributes::{Field, Group, Needs};
use ibnet_record::types::LinkRate;

use super::clearing;
use super::sample::Sample;
use super::totals::Totals;
use crate::mad::pma::{Bits, Capabilities, Clearable};
use crate::time::Instant;

/// Columns of a record: all counters that a record can have, in its order.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    /// Number of values of all columns: one per column, or one per SL, VL or lane.
    values: usize,
    groups: Vec<Group>,
}

/// A counter of one group, or an array of counters.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Index of the group among the swept groups.
    pub group: usize,
    of: Group,
    /// The counter.
    pub field: &'static Field,
    /// Index of the first value among the values of all columns.
    first: usize,
    /// The 64-bit version of the counter, if its group is swept too: index of the group, group,
    /// field.
    wider: Option<(usize, Group, &'static Field)>,
    /// Rate that is computed from the counter.
    rate: Option<Rate>,
    /// Whether the counter counts how often the link went down.
    counts_downs: bool,
    /// The counters, if ibnet clears them: the values are then totals that continue.
    cleared: Option<Clearable>,
}

#[derive(Clone, Copy, Debug)]
enum Rate {
    Xmit,
    Rcv,
    Wait,
}

impl Columns {
    /// Returns the columns of these groups.
    pub fn new(groups: &[Group]) -> Self {
        let all = groups
            .iter()
            .enumerate()
            .flat_map(|(place, group)| group.fields().map(move |field| (place, *group, field)));
        let mut values = 0;
        let columns = all
            .map(|(group, of, field)| {
                let place = |wide| groups.iter().position(|group| *group == wide);
                let wider = of
                    .wider(field)
                    .and_then(|(wide, twin)| Some((place(wide)?, wide, twin)));
                let first = values;
                values += usize::from(field.len);
                Column {
                    group,
                    of,
                    field,
                    first,
                    wider,
                    rate: Rate::of(field),
                    counts_downs: field.name == "LinkDownedCounter",
                    cleared: None,
                }
            })
            .collect();
        Self {
            columns,
            values,
            groups: groups.to_vec(),
        }
    }

    /// Makes the values of these counters totals that continue when ibnet clears the counters.
    #[must_use]
    pub fn with_totals(mut self, of: impl Iterator<Item = Clearable>) -> Self {
        for of in of {
            let columns = self.columns.iter_mut();
            columns
                .filter(|column| column.of == of.group())
                .for_each(|column| column.cleared = Some(of));
        }
        self
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Iterates over the columns and their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate()
    }
}

impl Rate {
    fn of(field: &Field) -> Option<Self> {
        match field.json {
            "port_xmit_data_bytes" => Some(Self::Xmit),
            "port_rcv_data_bytes" => Some(Self::Rcv),
            "port_xmit_wait_ticks" => Some(Self::Wait),
            _ => None,
        }
    }
}

impl Column {
    /// Returns whether the record of a device has the column. The device must have the counter in
    /// this group, and no wider counter of the same name.
    ///
    /// If the capabilities of a device are unknown, it is assumed to have the mandatory counters
    /// and the 64-bit traffic counters, except those that it refused. A forced group
    /// (`force_groups`) counts as present if it was answered. A counter of such a group that has a
    /// requirement of its own, for example a 64-bit error counter, must still meet this
    /// requirement.
    fn is_present(&self, sample: &Sample<'_>) -> bool {
        let has = |place: usize, group: Group, field: &Field| {
            let forced = sample.forced & 1 << place != 0 && sample.answer(place).is_some();
            let needs = group.attribute().needs;
            (forced || sample.has(place) && satisfied(sample, needs))
                && (field.needs == needs || satisfied(sample, field.needs))
        };
        has(self.group, self.of, self.field)
            && !self
                .wider
                .is_some_and(|(place, group, field)| has(place, group, field))
    }

    fn places(&self) -> std::ops::Range<usize> {
        self.first..self.first + usize::from(self.field.len)
    }
}

fn satisfied(sample: &Sample<'_>, needs: Needs) -> bool {
    let Some(capabilities) = sample.capabilities else {
        // Without capabilities, OptionMask is unknown too, so its groups count as supported;
        // `Reading::take` uses a group only if it was answered.
        return matches!(
            needs,
            Needs::Nothing | Needs::ExtendedWidth | Needs::Option(_) | Needs::ExtendedSpeeds
        );
    };
    match needs {
        Needs::RsFec => capabilities.have(needs) && sample.rs_fec == Some(true),
        Needs::OtherFec => {
            capabilities.mask & Capabilities::RS_FEC == 0 || sample.rs_fec == Some(false)
        }
        _ => capabilities.have(needs),
    }
}

/// The values of a port in one slot, by column, with resets and rates since the last slot.
#[derive(Clone, Debug)]
pub struct Reading {
    slot: u64,
    /// Whether the last reply of its group had each column.
    present: Vec<bool>,
    /// Last values as on the wire, or [`totals`](Self::totals) of them. They are kept while the
    /// device does not answer, so a smaller value is recognized as a reset when it answers again.
    raw: Vec<u64>,
    /// Last reply of each group.
    replies: Vec<Option<LastReply>>,
    /// For each group with a counter in this slot: slots since its last reply, or 0 if no counter
    /// can be compared with an earlier reply.
    since: Vec<Option<u64>>,
    /// Columns that decreased since the previous reading.
    pub resets: Vec<usize>,
    /// How often the link went down since the previous reading, however long ago that was. `None`
    /// if the counter was not read, is full, or cannot be compared.
    pub downs: Option<u64>,
    /// Rates since the previous reading.
    pub rates: Rates,
    /// Last rates, each with its group.
    held: Held,
    /// Whether a data rate exceeds `IMPLAUSIBLE_FACTOR` times the data rate of the link, which
    /// suggests that another port has answered.
    pub implausible: bool,
    /// Data rate of the link in Gb/s, if it is known from PortInfo.
    pub capacity_gbps: Option<f64>,
    /// Totals of the counters that ibnet clears, by the index of [`Clearable::ALL`]. `None` if it
    /// clears none.
    totals: Option<Box<[Totals; Clearable::ALL.len()]>>,
    /// Max number of bytes of each cleared counter that the totals lack, because they passed
    /// between this reading and the clearing. `None` if nothing was cleared.
    pub clear_lost_bytes: Option<u64>,
}

/// Last reply of a group.
#[derive(Clone, Copy, Debug)]
struct LastReply {
    /// Time of receipt.
    at: Instant,
    /// Number of the slot.
    slot: u64,
    /// Cadence of the group: number of slots for which the values hold.
    every: u64,
}

impl LastReply {
    /// Returns whether the values hold in a slot, because the group is not due again yet.
    fn holds_in(&self, slot: u64) -> bool {
        slot.checked_sub(self.slot)
            .is_some_and(|age| age < self.every)
    }
}

/// A rate above this multiple of the link's data rate is implausible. Rates slightly above the
/// data rate come from the uncertainty of the reading times.
const IMPLAUSIBLE_FACTOR: f64 = 2.0;

/// The rates of the last replies, each with the index of its group.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    xmit: Option<(f64, usize)>,
    rcv: Option<(f64, usize)>,
    wait: Option<(f64, usize)>,
}

/// Rates over the time between two readings. `None` means unknown.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Time between the readings of the data counters or, if these have no rate, of PortXmitWait.
    pub interval: Option<Duration>,
    /// Transmitted data in Gb/s.
    pub xmit_gbps: Option<f64>,
    /// Received data in Gb/s.
    pub rcv_gbps: Option<f64>,
    /// Ticks of PortXmitWait per second.
    pub wait_ticks: Option<f64>,
    /// Time between the readings of PortXmitWait.
    pub wait_interval: Option<Duration>,
}

impl Reading {
    /// Creates an empty reading.
    pub fn new(columns: &Columns) -> Self {
        Self {
            slot: 0,
            present: vec![false; columns.len()],
            raw: vec![0; columns.values],
            replies: vec![None; columns.groups.len()],
            since: vec![None; columns.groups.len()],
            resets: Vec::with_capacity(columns.len()),
            downs: None,
            rates: Rates::default(),
            held: Held::default(),
            implausible: false,
            capacity_gbps: None,
            totals: columns
                .columns
                .iter()
                .any(|column| column.cleared.is_some())
                .then(Box::default),
            clear_lost_bytes: None,
        }
    }

    /// Discards all values, because the next ones may come from another device.
    pub fn clear(&mut self) {
        self.present.fill(false);
        self.raw.fill(0);
        self.replies.fill(None);
        self.held = Held::default();
        if let Some(totals) = &mut self.totals {
            **totals = Default::default();
        }
    }

    /// Stores the values of a sample and computes resets and rates. Allocates no memory.
    pub fn take(&mut self, columns: &Columns, slot: u64, sample: &Sample<'_>) {
        self.slot = slot;
        self.resets.clear();
        self.downs = None;
        self.rates = Rates::default();
        self.since.fill(None);
        self.clear_lost_bytes = None;
        let mut group = None;
        for (index, column) in columns.iter() {
            // Columns are ordered by group. The entry in `replies` is updated after the last
            // column of the group, so until then it has the reply of an earlier slot.
            if group != Some(column.group) {
                self.close_group(group, sample);
                group = Some(column.group);
            }
            let Some((at, data)) = sample.answer(column.group) else {
                continue;
            };
            let was_present =
                std::mem::replace(&mut self.present[index], column.is_present(sample));
            if !self.present[index] {
                continue;
            }
            let earlier = self.replies[column.group].filter(|_| was_present);
            // One counter with an earlier value is enough, because the others can be new.
            if self.since[column.group].is_none_or(|slots| slots == 0) {
                self.since[column.group] =
                    Some(earlier.map_or(0, |earlier| slot.saturating_sub(earlier.slot)));
            }
            let before = self.raw[column.first];
            let mut decreased = false;
            let values = &mut self.raw[column.places()];
            let cleared = column.cleared.and_then(|of| {
                let totals = &mut self.totals.as_mut()?[of as usize];
                let elapsed = earlier.map(|earlier| at - earlier.at);
                let gbps = self.capacity_gbps;
                if !totals.read(column.field, data, values, elapsed, gbps) {
                    self.since[column.group] = Some(0);
                }
                Some((totals, sample.cleared[of as usize]))
            });
            for (index, value) in values.iter_mut().enumerate() {
                let raw = column.field.raw(data, index as u8);
                let raw = match &cleared {
                    Some((totals, _)) => totals.of(index, raw),
                    None => raw,
                };
                decreased |= raw < std::mem::replace(value, raw);
            }
            if let Some((totals, Some(cleared))) = cleared {
                totals.clear(cleared, values);
                let lost = cleared
                    .took
                    .map(|took| clearing::lost_bytes(self.capacity_gbps, took));
                self.clear_lost_bytes = self.clear_lost_bytes.max(lost);
            }
            if decreased && column.field.is_counter() {
                self.resets.push(index);
                continue;
            }
            if column.counts_downs && earlier.is_some() {
                let raw = self.raw[column.first];
                self.downs = Some(raw - before).filter(|_| !column.field.is_saturated(raw));
            }
            let (Some(rate), Some(earlier)) = (column.rate, earlier) else {
                continue;
            };
            let every = sample.every(column.group);
            let in_time = slot
                .checked_sub(earlier.slot)
                .is_some_and(|age| (1..=every).contains(&age));
            let (raw, elapsed) = (self.raw[column.first], at - earlier.at);
            if !in_time || column.field.is_saturated(raw) || elapsed.is_zero() {
                continue;
            }
            let delta = column.field.value(raw - before) as f64;
            match rate {
                Rate::Xmit => self.rates.xmit_gbps = Some(gbps(delta, elapsed)),
                Rate::Rcv => self.rates.rcv_gbps = Some(gbps(delta, elapsed)),
                Rate::Wait => {
                    (self.rates.wait_ticks, self.rates.wait_interval) =
                        (Some(delta / elapsed.as_secs_f64()), Some(elapsed));
                }
            }
            if !matches!(rate, Rate::Wait) || self.rates.interval.is_none() {
                self.rates.interval = Some(elapsed);
            }
        }
        self.close_group(group, sample);
        let limit = IMPLAUSIBLE_FACTOR * self.capacity_gbps.unwrap_or(LinkRate::FASTEST_GBPS);
        let exceeds = |gbps: Option<f64>| gbps.is_some_and(|gbps| gbps > limit);
        self.implausible = exceeds(self.rates.xmit_gbps) || exceeds(self.rates.rcv_gbps);
        if !self.resets.is_empty() || self.implausible {
            self.since.iter_mut().flatten().for_each(|slots| *slots = 0);
            self.downs = None;
            self.rates = Rates::default();
            self.held = Held::default();
        }
        self.hold(columns);
    }

    fn close_group(&mut self, group: Option<usize>, sample: &Sample<'_>) {
        let Some(group) = group else { return };
        let every = sample.every(group);
        match (sample.answer(group), &mut self.replies[group]) {
            (Some((at, _)), reply) => {
                *reply = Some(LastReply {
                    at,
                    slot: self.slot,
                    every,
                });
            }
            // The cadence changes with the state of the link.
            (None, Some(reply)) => reply.every = every,
            (None, None) => {}
        }
    }

    /// Keeps the rates of this slot until their counters are due again.
    fn hold(&mut self, columns: &Columns) {
        for (index, column) in columns.iter() {
            let (Some(rate), true) = (column.rate, self.present[index]) else {
                continue;
            };
            if self.replies[column.group].is_none_or(|reply| reply.slot != self.slot) {
                continue;
            }
            let with_group = |rate: Option<f64>| rate.map(|rate| (rate, column.group));
            match rate {
                Rate::Xmit => self.held.xmit = with_group(self.rates.xmit_gbps),
                Rate::Rcv => self.held.rcv = with_group(self.rates.rcv_gbps),
                Rate::Wait => self.held.wait = with_group(self.rates.wait_ticks),
            }
        }
    }

    /// Returns the rates that hold in this slot: those of this slot, and those of earlier slots
    /// whose counters are not due again yet. They have no intervals.
    pub fn held_rates(&self) -> Rates {
        let Held { xmit, rcv, wait } = self.held;
        let held = |rate: Option<(f64, usize)>| {
            rate.filter(|(_, group)| self.holds(*group))
                .map(|(rate, _)| rate)
        };
        Rates {
            xmit_gbps: held(xmit),
            rcv_gbps: held(rcv),
            wait_ticks: held(wait),
            ..Rates::default()
        }
    }

    /// Returns whether any counter holds in this slot.
    pub fn holds_any(&self) -> bool {
        (0..self.replies.len()).any(|group| self.holds(group))
    }

    /// Returns whether the last reply of a group holds in this slot.
    fn holds(&self, group: usize) -> bool {
        self.replies[group].is_some_and(|reply| reply.holds_in(self.slot))
    }

    /// Iterates over the groups with a counter in this slot, each with the number of slots since
    /// its last reply. This number is 0 if no counter can be compared with an earlier reply: there
    /// is none, a counter of the port decreased, or another port may have answered.
    pub fn slots_since<'a>(
        &'a self,
        columns: &'a Columns,
    ) -> impl Iterator<Item = (Group, u64)> + 'a {
        columns
            .groups
            .iter()
            .zip(&self.since)
            .filter_map(|(group, since)| Some((*group, (*since)?)))
    }

    /// Iterates over the counters that were answered in this slot, with their values as on the
    /// wire: one value, or one per SL, VL or lane.
    pub fn counters<'a>(
        &'a self,
        columns: &'a Columns,
    ) -> impl Iterator<Item = (&'static Field, &'a [u64])> + 'a {
        self.last_columns(columns, false)
            .map(|column| (column.field, &self.raw[column.places()]))
    }

    /// Iterates over the counters that hold in this slot: those that were answered in it, and
    /// those of earlier slots whose group is not due again yet.
    pub fn held_counters<'a>(
        &'a self,
        columns: &'a Columns,
    ) -> impl Iterator<Item = (&'static Field, &'a [u64])> + 'a {
        self.last_columns(columns, true)
            .map(|column| (column.field, &self.raw[column.places()]))
    }

    /// Iterates over the saturated counters among those that were answered in this slot or, if
    /// `held` is true, that hold in it. An array is saturated if any of its values is.
    pub fn saturated<'a>(
        &'a self,
        columns: &'a Columns,
        held: bool,
    ) -> impl Iterator<Item = &'static Field> + 'a {
        let is_full = |column: &&Column| match (column.cleared, &self.totals) {
            (Some(of), Some(totals)) => totals[of as usize].is_saturated,
            _ => {
                let mut raws = self.raw[column.places()].iter();
                raws.any(|raw| column.field.is_saturated(*raw))
            }
        };
        self.last_columns(columns, held)
            .filter(is_full)
            .map(|column| column.field)
    }

    fn last_columns<'a>(
        &'a self,
        columns: &'a Columns,
        held: bool,
    ) -> impl Iterator<Item = &'a Column> + 'a {
        let is_included = move |reply: LastReply| {
            if held {
                reply.holds_in(self.slot)
            } else {
                reply.slot == self.slot
            }
        };
        columns
            .iter()
            .filter(move |(index, column)| {
                self.present[*index] && self.replies[column.group].is_some_and(is_included)
            })
            .map(|(_, column)| column)
    }
}

fn gbps(octets: f64, elapsed: Duration) -> f64 {
    octets * 8.0 / elapsed.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use ibnet_record::Status;

    use super::*;
    use crate::mad::pma::{Capabilities, DATA_LEN};
    use crate::sweep::sample::Answer;

    const GROUPS: [Group; 2] = [Group::Extended, Group::Base];
    const WIDE: Capabilities = Capabilities {
        mask: 0x1300,
        mask2: 2,
        option_mask: None,
    };
    const NARROW_ERRORS: Capabilities = Capabilities {
        mask: 0x1300,
        mask2: 0,
        option_mask: None,
    };
    const NARROW: Capabilities = Capabilities {
        mask: 0x1000,
        mask2: 0,
        option_mask: None,
    };

    /// Returns replies of both groups, received at a second, with the given counters.
    fn answers(second: u64, values: &[(Group, &str, u64)]) -> [Answer; 2] {
        GROUPS.map(|group| {
            let mut data = [0; DATA_LEN];
            for (_, name, value) in values.iter().filter(|(of, ..)| *of == group) {
                group
                    .attribute()
                    .field(name)
                    .expect("declared")
                    .set_raw(&mut data, 0, *value);
            }
            Answer {
                at: Some(Instant::from_nanos(second * 1_000_000_000)),
                data,
            }
        })
    }

    fn sample(answers: &[Answer; 2], capabilities: Option<Capabilities>) -> Sample<'_> {
        Sample {
            mads: 2,
            capabilities,
            ..Sample::new(Status::Ok, &GROUPS, answers)
        }
    }

    fn names(capabilities: Option<Capabilities>) -> Vec<(&'static str, u8)> {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        reading.take(&columns, 1, &sample(&answers(1, &[]), capabilities));
        reading
            .counters(&columns)
            .map(|(field, _)| (field.json, field.width))
            .collect()
    }

    #[test]
    fn each_counter_appears_once_in_its_widest_form() {
        for capabilities in [Some(WIDE), Some(NARROW_ERRORS), Some(NARROW), None] {
            let names = names(capabilities);
            let mut unique: Vec<_> = names.iter().map(|(name, _)| name).collect();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{capabilities:?}");
        }
        assert!(names(Some(WIDE)).contains(&("symbol_error_counter", 64)));
        assert!(names(Some(NARROW_ERRORS)).contains(&("symbol_error_counter", 16)));
        assert!(names(Some(NARROW_ERRORS)).contains(&("port_xmit_data_bytes", 64)));
        assert!(names(Some(NARROW)).contains(&("port_xmit_data_bytes", 32)));
        assert!(
            !names(Some(NARROW))
                .iter()
                .any(|(name, _)| *name == "qp1_dropped"),
            "absent, not zero"
        );
        assert!(
            !names(None)
                .iter()
                .any(|(name, _)| *name == "port_xmit_wait_ticks"),
            "not known to be present"
        );
        assert!(names(None).contains(&("port_xmit_data_bytes", 64)));
    }

    #[test]
    fn rates_are_computed_over_the_time_between_the_readings() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let words = |second, xmit, rcv| {
            answers(
                second,
                &[
                    (Group::Extended, "PortXmitData", xmit),
                    (Group::Extended, "PortRcvData", rcv),
                ],
            )
        };
        reading.take(&columns, 8, &sample(&words(1, 1000, 0), Some(WIDE)));
        assert_eq!(reading.rates, Rates::default());
        // 2.5e9 words in two seconds are 5e9 bytes per second.
        reading.take(
            &columns,
            9,
            &sample(&words(3, 1000 + 2_500_000_000, 0), Some(WIDE)),
        );
        assert_eq!(
            reading.rates,
            Rates {
                interval: Some(Duration::from_secs(2)),
                xmit_gbps: Some(40.0),
                rcv_gbps: Some(0.0),
                wait_ticks: Some(0.0),
                wait_interval: Some(Duration::from_secs(2)),
            }
        );
        reading.take(
            &columns,
            11,
            &sample(&words(4, 3_000_000_000, 0), Some(WIDE)),
        );
        assert_eq!(reading.rates, Rates::default(), "a slot is missing");
    }

    #[test]
    fn decrease_is_a_reset_without_rates() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let both = |second, xmit, errors| {
            answers(
                second,
                &[
                    (Group::Extended, "PortXmitData", xmit),
                    (Group::Base, "PortRcvErrors", errors),
                ],
            )
        };
        reading.take(&columns, 1, &sample(&both(1, 10, 5), Some(NARROW_ERRORS)));
        reading.take(&columns, 2, &sample(&both(2, 20, 0), Some(NARROW_ERRORS)));
        let reset: Vec<_> = columns
            .iter()
            .filter(|(index, _)| reading.resets.contains(index))
            .map(|(_, column)| column.field.name)
            .collect();
        assert_eq!(
            (reset, reading.rates),
            (vec!["PortRcvErrors"], Rates::default())
        );
        reading.take(&columns, 3, &sample(&both(3, 30, 0), Some(NARROW_ERRORS)));
        assert!(reading.resets.is_empty() && reading.rates.xmit_gbps.is_some());
    }

    #[test]
    fn saturated_counter_has_no_rate() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let full = |second, words| answers(second, &[(Group::Base, "PortXmitData", words)]);
        reading.take(&columns, 1, &sample(&full(1, 7), Some(NARROW)));
        reading.take(&columns, 2, &sample(&full(2, u64::MAX), Some(NARROW)));
        assert_eq!(
            (reading.rates.xmit_gbps, reading.rates.rcv_gbps),
            (None, Some(0.0))
        );
    }

    #[test]
    fn missing_reply_leaves_a_gap() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let good = answers(1, &[(Group::Extended, "PortXmitData", 10)]);
        let mut silent = good.clone();
        silent[0].at = None;
        reading.take(&columns, 1, &sample(&good, Some(WIDE)));
        reading.take(&columns, 2, &sample(&silent, Some(WIDE)));
        assert!(
            !reading
                .counters(&columns)
                .any(|(field, _)| field.json == "port_xmit_data_bytes"),
            "an old value is never repeated"
        );
        reading.take(&columns, 3, &sample(&good, Some(WIDE)));
        assert_eq!(reading.rates.xmit_gbps, None);
    }

    #[test]
    fn slots_since_the_last_reading_are_those_between_comparable_replies() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let take = |reading: &mut Reading, slot: u64, words: u64, has_extended: bool| {
            let mut answers = answers(slot, &[(Group::Extended, "PortXmitData", words)]);
            answers[0].at = answers[0].at.filter(|_| has_extended);
            reading.take(&columns, slot, &sample(&answers, Some(NARROW_ERRORS)));
            reading
                .slots_since(&columns)
                .map(|(_, slots)| slots)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            take(&mut reading, 1, 10, true),
            [0, 0],
            "there is no earlier reply"
        );
        assert_eq!(take(&mut reading, 2, 11, true), [1, 1]);
        assert_eq!(
            take(&mut reading, 5, 12, false),
            [3],
            "only PortCounters answered"
        );
        assert_eq!(take(&mut reading, 6, 13, true), [4, 1]);
        assert_eq!(
            take(&mut reading, 7, 5, true),
            [0, 0],
            "a counter decreased"
        );
        assert_eq!(take(&mut reading, 8, 6, true), [1, 1]);
        assert_eq!(
            take(&mut reading, 7, 7, true),
            [0, 0],
            "the clock was set back"
        );
        reading.clear();
        assert_eq!(
            take(&mut reading, 9, 8, true),
            [0, 0],
            "another device may have answered"
        );
    }

    #[test]
    fn cleared_counters_after_a_gap_are_a_reset() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let words = |second, xmit| answers(second, &[(Group::Extended, "PortXmitData", xmit)]);
        let mut silent = words(2, 0);
        silent.iter_mut().for_each(|answer| answer.at = None);
        reading.take(&columns, 1, &sample(&words(1, 1_000_000), Some(WIDE)));
        reading.take(&columns, 2, &sample(&silent, Some(WIDE)));
        assert!(reading.resets.is_empty());
        reading.take(&columns, 3, &sample(&words(3, 5), Some(WIDE)));
        assert_eq!(reading.resets.len(), 1);
    }

    #[test]
    fn refused_group_hides_no_counter_of_another_group() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let both = answers(1, &[(Group::Base, "PortXmitData", 7)]);
        reading.take(
            &columns,
            1,
            &Sample {
                unsupported: 1,
                ..sample(&both, Some(WIDE))
            },
        );
        let widths: Vec<_> = reading
            .counters(&columns)
            .filter(|(field, _)| field.json == "port_xmit_data_bytes")
            .map(|(field, raw)| (field.width, raw[0]))
            .collect();
        assert_eq!(widths, [(32, 7)]);
    }

    #[test]
    fn forced_group_adds_no_counter_that_the_device_lacks() {
        let columns = Columns::new(&GROUPS);
        let widths = |capabilities| {
            let mut reading = Reading::new(&columns);
            let both = answers(
                1,
                &[
                    (Group::Extended, "PortXmitData", 7),
                    (Group::Extended, "PortRcvErrors", u64::MAX),
                    (Group::Base, "PortRcvErrors", 5),
                ],
            );
            reading.take(
                &columns,
                1,
                &Sample {
                    forced: 1,
                    ..sample(&both, Some(capabilities))
                },
            );
            let width = |name| {
                reading
                    .counters(&columns)
                    .find(|(field, _)| field.json == name)
                    .map(|(field, raw)| (field.width, raw[0]))
            };
            (width("port_xmit_data_bytes"), width("port_rcv_errors"))
        };
        assert_eq!(
            widths(NARROW),
            (Some((64, 7)), Some((16, 5))),
            "the octets after the 64-bit traffic counters are undefined"
        );
        assert_eq!(widths(WIDE), (Some((64, 7)), Some((64, u64::MAX))));
    }

    #[test]
    fn rate_above_the_capacity_of_the_link_is_implausible() {
        let columns = Columns::new(&GROUPS);
        let mut reading = Reading::new(&columns);
        let words = |second, xmit| answers(second, &[(Group::Extended, "PortXmitData", xmit)]);
        reading.take(&columns, 1, &sample(&words(1, 0), Some(WIDE)));
        reading.take(&columns, 2, &sample(&words(2, 1 << 50), Some(WIDE)));
        assert!(reading.implausible && reading.rates == Rates::default());
        // 250 Gb/s is implausible for EDR, but not for a link of unknown speed.
        let more = |second| words(second, (1 << 50) + second * 7_812_500_000);
        reading.take(&columns, 3, &sample(&more(3), Some(WIDE)));
        reading.take(&columns, 4, &sample(&more(4), Some(WIDE)));
        assert!(!reading.implausible && reading.rates.xmit_gbps == Some(250.0));
        reading.capacity_gbps = Some(100.0);
        reading.take(&columns, 5, &sample(&more(5), Some(WIDE)));
        assert!(reading.implausible && reading.rates == Rates::default());
    }
}
