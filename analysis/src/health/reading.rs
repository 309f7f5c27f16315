//! One reading of the physical layer of a port, as the verdict uses it.

use ibnet_record::physical::{ReadValues, Value};
use serde::{Deserialize, Serialize};

/// Max number of lanes of a link.
pub const LANES: usize = 8;

/// Counters of a reading. Each of them only increases until it is reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Received bits.
    Bits,
    /// Bit errors before error correction (FEC).
    Corrected,
    /// Bit errors that the FEC left.
    Effective,
    /// Bit errors that the retransmission of the physical layer (PLR) left too.
    Symbols,
    /// Blocks that the FEC could not correct.
    LostBlocks,
    /// Code words that PLR did not deliver.
    LostCodes,
    /// Code words of PLR that were received.
    Codes,
    /// Those of them that had errors and were sent again.
    Retried,
    /// How often the link went down without intention.
    Downs,
    /// How often the ends trained the link again without a link down.
    Recoveries,
    /// Bit errors of the first lane; those of the others follow.
    Lane,
}

/// Number of values: the counters, of which the last has one value for each lane.
const VALUES: usize = Counter::Lane as usize + LANES;

/// The fields of the records, in the order of [`Counter`].
const FIELDS: [&[&str]; Counter::Lane as usize] = [
    &["phy_received_bits"],
    &["phy_corrected_bits"],
    &["phy_effective_errors"],
    &["phy_symbol_errors"],
    &["rs_fec_uncorrectable_blocks"],
    &["plr_rcv_uncorrectable_code"],
    &["plr_rcv_codes"],
    &["plr_rcv_code_err"],
    // The second field is older firmware's count of the same events.
    &["unintentional_link_down_events", "link_down_events"],
    &["successful_recovery_events"],
];

/// Stands for a counter that the device does not have, because no counter reaches this value.
const ABSENT: u64 = u64::MAX;

/// Max time in milliseconds in which two samplers read the pages of a port.
const MAX_OVERLAP_MS: u64 = 60_000;

/// The counters of a port at one time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// Time of the reading in nanoseconds since 1970.
    pub ts: u64,
    /// Time since another program cleared the counters, in milliseconds.
    pub(super) since_clear_ms: u64,
    pub(super) values: [u64; VALUES],
}

/// Differences between two readings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window<'a> {
    first: &'a Reading,
    last: &'a Reading,
}

impl Reading {
    /// Takes the counters of a `phy` record. Returns `None` if the record has none of them.
    pub fn of(ts: u64, values: &ReadValues) -> Option<Self> {
        let integer = |name: &&str| values.get(*name)?.integer();
        let mut reading = Self {
            ts,
            since_clear_ms: ABSENT,
            values: [ABSENT; VALUES],
        };
        for (value, names) in reading.values.iter_mut().zip(FIELDS) {
            *value = names.iter().find_map(integer).unwrap_or(ABSENT);
        }
        if let Some(lanes) = values.get("phy_raw_errors_lane").and_then(Value::integers) {
            let places = reading.values[Counter::Lane as usize..].iter_mut();
            places
                .zip(lanes)
                .for_each(|(place, errors)| *place = *errors);
        }
        if reading.get(Counter::Bits).is_some() {
            reading.since_clear_ms = integer(&"time_since_last_clear_ms").unwrap_or(ABSENT);
        }
        let has_any = reading.values.iter().any(|value| *value != ABSENT);
        has_any.then_some(reading)
    }

    /// Returns a counter, or `None` if the device does not have it.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        let value = self.values[counter as usize];
        (value != ABSENT).then_some(value)
    }

    /// Takes the counters that this reading does not have from another one: a sampler reads some
    /// pages less often than others.
    pub(super) fn fill_in(&mut self, other: &Self) {
        if self.since_clear_ms == ABSENT {
            self.since_clear_ms = other.since_clear_ms;
        }
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            if *value == ABSENT {
                *value = *other;
            }
        }
    }

    /// Returns whether counters were reset between an earlier reading and this one. A reset sets
    /// them to 0. A smaller decrease is no reset: another sampler read the port at the same time.
    pub(super) fn is_reset(&self, earlier: &Self) -> bool {
        let clear = self.since_clear_ms.saturating_add(MAX_OVERLAP_MS) < earlier.since_clear_ms;
        clear && earlier.since_clear_ms != ABSENT
            || self.pairs(earlier).any(|(now, before)| now < before / 2)
    }

    /// Returns whether this reading is older than an earlier one, by its counters.
    pub(super) fn is_older(&self, earlier: &Self) -> bool {
        self.pairs(earlier).any(|(now, before)| now < before)
    }

    /// Returns the differences to an earlier reading. `None` if the counters were reset in between,
    /// or if this reading is older by its counters.
    pub fn since<'a>(&'a self, earlier: &'a Self) -> Option<Window<'a>> {
        let is_later = !self.is_reset(earlier) && !self.is_older(earlier);
        is_later.then(|| Window::new(earlier, self))
    }

    /// Returns the counters of this reading and of an earlier one that both have.
    fn pairs(&self, earlier: &Self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.values.iter().copied().zip(earlier.values);
        pairs.filter(|(now, before)| *now != ABSENT && *before != ABSENT)
    }
}

impl<'a> Window<'a> {
    /// Creates the window between two readings.
    pub(super) const fn new(first: &'a Reading, last: &'a Reading) -> Self {
        Self { first, last }
    }

    /// Returns the length in nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.last.ts - self.first.ts
    }

    /// Returns the increase of a counter, or `None` if one of the readings lacks it.
    pub fn increase(&self, counter: Counter) -> Option<u64> {
        self.last
            .get(counter)?
            .checked_sub(self.first.get(counter)?)
    }

    /// Returns the bit errors of each lane before error correction. A link has 1, 2, 4 or 8 lanes;
    /// lanes beyond the last one that ever had an error are not counted. `None` without errors.
    pub fn lanes(&self) -> Option<Vec<u64>> {
        let [first, last] = [self.first, self.last].map(|reading| {
            let lanes = &reading.values[Counter::Lane as usize..];
            lanes
                .iter()
                .map(|errors| if *errors == ABSENT { 0 } else { *errors })
        });
        let used = last.clone().rposition(|errors| errors > 0)? + 1;
        let pairs = last.zip(first).take(used.next_power_of_two());
        Some(
            pairs
                .map(|(last, first)| last.saturating_sub(first))
                .collect(),
        )
    }
}
