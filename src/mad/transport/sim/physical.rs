//! The physical layer of a simulated fabric: bit errors, their correction, and modules.
//!
//! Each lane of a receiver has an error ratio. It is the product of a value for the speed, the
//! ageing of the cable, the temperature of the module, and a bad contact. Errors are a Poisson
//! process with this ratio; what the error correction (FEC) and the retransmission of the physical
//! layer (PLR) leave follows from it. The ratio does not depend on the traffic, because idle links
//! transmit symbols too.
//!
//! The constants were chosen before any program judged the simulated links, and should not be
//! tuned to such a program:
//!
//! | what | value | source |
//! |---|---|---|
//! | error ratio of a bad cable | constant over time, independent of the utilization | Zhuo et al., SIGCOMM 2017: 350,000 links in 15 data centers |
//! | limit of the FEC | RS(544,514) corrects 15 symbols of 10 bits, RS(528,514) corrects 7 | IEEE 802.3, clauses 91 and 119 |
//! | normal error ratios after the FEC | below 1e-12 | NVIDIA, InfiniBand Cluster Bring-up Procedure |
//! | shares of ageing cables and of bad contacts, error ratios of healthy lanes | orders of magnitude | assumed: no public distribution was found |
//!
//! All of this is a model. No value was compared with a real device.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::types::{LinkRate, PortNum};

use super::SimFabric;
use crate::time::Instant;
use crate::topology::DeviceId;

/// Max number of lanes that the registers have.
pub(super) const LANES: usize = 8;

/// Number of bins of the histogram of symbol errors in a block.
pub(super) const BINS: usize = 21;

/// Time for which every link has been up when the program starts.
pub(super) const UP_BEFORE: Duration = Duration::from_secs(30 * 3600);

/// log10 of the error ratio of a healthy lane: with two levels (up to EDR), and with four levels.
const HEALTHY: [f64; 2] = [-13.0, -9.0];

/// Standard deviation of this logarithm between lanes.
const LANE_SPREAD: f64 = 0.3;

/// One cable of this number is ageing: one of its lanes gets worse with each year.
const AGEING_ONE_OF: u64 = 40;

/// Increase of log10 of the error ratio of an ageing lane, per year.
const AGEING_PER_YEAR: f64 = 1.2;

/// Max age of a cable in years. An ageing cable has at least half of this age.
const MAX_AGE: f64 = 5.0;

/// One port of this number has a bad contact.
const CONTACT_ONE_OF: u64 = 60;

/// A bad contact disturbs all lanes in one minute of this number, by this many powers of ten.
const CONTACT_MINUTE_OF: u64 = 30;
const CONTACT_BURST: f64 = 3.0;

/// Increase of log10 of the error ratio per degree Celsius above [`NORMAL_CELSIUS`].
const PER_DEGREE: f64 = 0.02;

/// Temperature of a module, and how much warmer it becomes within [`WARM_UP`] after the start of
/// the link.
const NORMAL_CELSIUS: f64 = 48.0;
const SELF_HEATING: f64 = 18.0;
const WARM_UP: f64 = 900.0;

/// Daily variation of the temperature of the room, in degrees Celsius.
const ROOM_SWING: f64 = 2.0;

/// Reasons for which a link goes down: of one with a bad contact, and of all others.
const HIGH_BER: u8 = 2;
const DOWN_REASONS: [u8; 6] = [5, 10, 12, 22, 23, 38];

/// Length of the periods in which the error ratio counts as constant.
const PERIOD: Duration = Duration::from_secs(60);

/// What the port of a link has counted since its link came up.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Receiver {
    rng: fastrand::Rng,
    at: Instant,
    /// Received bits, as a float because the rate of some links is no integer.
    bits: f64,
    /// Corrected bit errors of each lane.
    pub(super) raw: [u64; LANES],
    /// Bit errors that the FEC did not correct.
    pub(super) effective: u64,
    /// Bit errors that PLR did not correct either.
    pub(super) symbols: u64,
    /// Blocks with no error, with corrected errors, and with too many.
    pub(super) blocks: [u64; 3],
    /// Blocks by the number of wrong symbols.
    pub(super) histogram: [u64; BINS],
    /// Code words of PLR that were received again.
    pub(super) retried: u64,
}

/// What does not change while the program runs: a port and its cable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cable {
    /// Number by which the cable differs from all others. Both ends have the same.
    pub(super) id: u64,
    /// Number by which this end differs from all others.
    end: u64,
    /// This number of the other end.
    other_end: u64,
    /// Number of lanes.
    pub(super) lanes: usize,
    /// Signalling rate of one lane in bits per second.
    lane_rate: f64,
    /// Whether the signal has four levels, as from HDR on.
    pub(super) has_four_levels: bool,
    /// How the cable differs from those of a fabric.
    pub(super) change: Change,
}

/// How the links of a study differ from those of a fabric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// Factor of all error ratios.
    pub scale: f64,
    /// Years by which a cable ages in an hour. The ageing in a fabric is too slow to matter.
    pub years_an_hour: f64,
    /// Whether cables are new at the start.
    pub is_new: bool,
}

impl Default for Change {
    fn default() -> Self {
        Self {
            scale: 1.0,
            years_an_hour: 0.0,
            is_new: false,
        }
    }
}

/// A number that looks random and follows from others.
fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x2545_f491_4f6c_dd1d, |hash, number| {
        let mixed = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
    })
}

/// Converts such a number to one from 0 to 1.
fn share(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

impl Cable {
    /// Creates the cable between two ports, each given by GUID and number.
    pub(super) fn new(
        seed: u64,
        here: (u64, PortNum),
        there: (u64, PortNum),
        rate: &LinkRate,
    ) -> Self {
        let ends = [here, there].map(|(guid, port)| mix(&[seed, guid, port.0.into()]));
        let lanes = rate.lanes().unwrap_or(4.0);
        Self {
            id: mix(&[ends[0].min(ends[1]), ends[0].max(ends[1])]),
            end: ends[0],
            other_end: ends[1],
            lanes: (lanes as usize).min(LANES),
            lane_rate: rate.signal_gbps().unwrap_or(100.0) / lanes * 1e9,
            has_four_levels: matches!(&*rate.speed, "HDR" | "NDR" | "XDR"),
            change: Change::default(),
        }
    }

    /// Returns whether one lane of the cable gets worse.
    pub(super) fn is_ageing(&self) -> bool {
        self.id.is_multiple_of(AGEING_ONE_OF)
    }

    /// Returns whether this end has a bad contact.
    pub(super) fn has_bad_contact(&self) -> bool {
        self.end.is_multiple_of(CONTACT_ONE_OF)
    }

    /// Returns why the link went down for the n-th time: the number of the reason, and whether this
    /// end caused it.
    pub(super) fn down_reason(&self, count: u64) -> (u8, bool) {
        if self.has_bad_contact() || self.other_end.is_multiple_of(CONTACT_ONE_OF) {
            return (HIGH_BER, self.has_bad_contact());
        }
        let reason = mix(&[self.id, 8, count]) % DOWN_REASONS.len() as u64;
        (DOWN_REASONS[reason as usize], self.end < self.other_end)
    }

    /// Returns the age of the cable in years.
    pub(super) fn age(&self, at: Instant) -> f64 {
        let share = share(mix(&[self.id, 1]));
        let before = match (self.change.is_new, self.is_ageing()) {
            (true, _) => 0.0,
            (false, true) => 0.5 + share / 2.0,
            (false, false) => share,
        };
        MAX_AGE * before + self.change.years_an_hour * at.as_secs_f64() / 3600.0
    }

    /// Returns the length of the cable in meters.
    pub(super) fn length(&self) -> u64 {
        3 + mix(&[self.id, 2]) % 28
    }

    /// Returns the lane that gets worse in an ageing cable.
    pub(super) fn worst_lane(&self) -> usize {
        (mix(&[self.id, 3]) % self.lanes as u64) as usize
    }

    /// Returns the temperature of the module in degrees Celsius.
    pub(super) fn celsius(&self, at: Instant) -> f64 {
        let (up, day) = (at.as_secs_f64() + UP_BEFORE.as_secs_f64(), 86_400.0);
        let room = ROOM_SWING * (std::f64::consts::TAU * up / day).sin();
        let own = 4.0 * share(mix(&[self.end, 4])) - 2.0;
        NORMAL_CELSIUS + own + room - SELF_HEATING * (-up / WARM_UP).exp()
    }

    /// Returns the received optical power of a lane in microwatts. It decreases in an ageing lane.
    pub(super) fn received_microwatts(&self, lane: usize, at: Instant) -> f64 {
        let loss_db = 0.3 * self.length() as f64 / 30.0 + share(mix(&[self.end, 5, lane as u64]));
        let ageing_db = if self.is_ageing() && lane == self.worst_lane() {
            0.6 * self.age(at)
        } else {
            0.0
        };
        1000.0 * 10.0_f64.powf(-(loss_db + ageing_db) / 10.0)
    }

    /// Returns the error ratio of a lane in the period that contains an instant.
    pub(super) fn error_ratio(&self, lane: usize, at: Instant) -> f64 {
        // The sum of twelve uniform numbers is close to a normal distribution.
        let normal: f64 = (0..12)
            .map(|n| share(mix(&[self.end, 6, lane as u64, n])))
            .sum::<f64>()
            - 6.0;
        let mut log = HEALTHY[usize::from(self.has_four_levels)] + LANE_SPREAD * normal;
        if self.is_ageing() && lane == self.worst_lane() {
            log += AGEING_PER_YEAR * self.age(at);
        }
        log += PER_DEGREE * (self.celsius(at) - NORMAL_CELSIUS);
        let minute = at.as_nanos() / PERIOD.as_nanos() as u64;
        if self.has_bad_contact() && mix(&[self.end, 7, minute]).is_multiple_of(CONTACT_MINUTE_OF) {
            log += CONTACT_BURST;
        }
        10.0_f64.powf((log + self.change.scale.log10()).min(-3.0))
    }

    /// Returns the mean error ratio of all lanes.
    pub(super) fn mean_ratio(&self, at: Instant) -> f64 {
        (0..self.lanes)
            .map(|lane| self.error_ratio(lane, at))
            .sum::<f64>()
            / self.lanes as f64
    }

    /// Returns the number of symbols of a FEC block, and how many of them can be corrected.
    const fn code(&self) -> (u32, u32) {
        if self.has_four_levels {
            (544, 15)
        } else {
            (528, 7)
        }
    }

    /// Returns the share of FEC blocks with each number of wrong symbols. More wrong symbols than
    /// there are bins are too rare to count.
    fn wrong_symbols(&self, ratio: f64) -> [f64; BINS] {
        let (symbols, _) = self.code();
        let wrong = 1.0 - (1.0 - ratio).powi(BITS_OF_SYMBOL);
        let mut shares = [0.0; BINS];
        let mut log = f64::from(symbols) * (-wrong).ln_1p();
        for (count, share) in (0..).zip(&mut shares) {
            *share = log.exp();
            log += (f64::from(symbols - count) / f64::from(count + 1)).ln()
                + (wrong / (1.0 - wrong)).ln();
        }
        shares
    }

    /// Returns the number of the active FEC that the registers state: that of short NVIDIA cables,
    /// RS(271,257) with PLR or RS(528,514).
    pub(super) const fn fec(&self) -> u32 {
        if self.has_four_levels { 13 } else { 2 }
    }

    fn bits_per_second(&self) -> f64 {
        self.lane_rate * self.lanes as f64
    }
}

/// Number of bits of a symbol of the FEC.
const BITS_OF_SYMBOL: i32 = 10;

/// Bits of a block that counts as effective errors if it cannot be corrected.
pub(super) const BITS_OF_LOST_BLOCK: u64 = 160;

/// Share of the blocks with too many errors that PLR does not replace either.
const LOST_BY_PLR: f64 = 1e-3;

impl Receiver {
    pub(super) fn new(cable: &Cable) -> Self {
        let mut receiver = Self {
            rng: fastrand::Rng::with_seed(cable.end),
            at: Instant::ZERO,
            bits: 0.0,
            raw: [0; LANES],
            effective: 0,
            symbols: 0,
            blocks: [0; 3],
            histogram: [0; BINS],
            retried: 0,
        };
        receiver.count(cable, Instant::ZERO, UP_BEFORE);
        receiver
    }

    /// Returns the number of received bits.
    pub(super) fn bits(&self) -> u64 {
        self.bits as u64
    }

    /// Counts up to an instant.
    pub(super) fn advance(&mut self, cable: &Cable, to: Instant) {
        while self.at < to {
            let period = PERIOD.as_nanos() as u64;
            let end = Instant::from_nanos((self.at.as_nanos() / period + 1) * period).min(to);
            let (from, time) = (self.at, end - self.at);
            self.count(cable, from, time);
            self.at = end;
        }
    }

    /// Counts for a time with constant error ratios.
    fn count(&mut self, cable: &Cable, at: Instant, time: Duration) {
        let bits = cable.bits_per_second() * time.as_secs_f64();
        self.bits += bits;
        for lane in 0..cable.lanes {
            let expected = cable.error_ratio(lane, at) * bits / cable.lanes as f64;
            self.raw[lane] += poisson(&mut self.rng, expected);
        }
        let (symbols, correctable) = cable.code();
        let blocks = bits / (f64::from(symbols) * f64::from(BITS_OF_SYMBOL));
        let mut wrong = 0;
        for (count, share) in (0..).zip(cable.wrong_symbols(cable.mean_ratio(at))) {
            if count == 0 {
                continue;
            }
            let found = poisson(&mut self.rng, share * blocks);
            self.histogram[count as usize] += found;
            wrong += found;
            if count <= correctable {
                self.blocks[1] += found;
            } else {
                self.blocks[2] += found;
                self.effective += found * BITS_OF_LOST_BLOCK;
                let lost = if cable.has_four_levels {
                    LOST_BY_PLR
                } else {
                    1.0
                };
                self.symbols += poisson(&mut self.rng, found as f64 * lost) * BITS_OF_LOST_BLOCK;
                self.retried += if cable.has_four_levels { found } else { 0 };
            }
        }
        let right = (blocks as u64).saturating_sub(wrong);
        self.histogram[0] += right;
        self.blocks[0] += right;
    }
}

/// Returns a random number with a Poisson distribution.
fn poisson(rng: &mut fastrand::Rng, mean: f64) -> u64 {
    if mean > 50.0 {
        let normal = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
    }
    let (limit, mut product, mut count) = ((-mean).exp(), rng.f64(), 0);
    while product > limit {
        (product, count) = (product * rng.f64(), count + 1);
    }
    count
}

/// The physical layer of all ports that were asked for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Physical {
    receivers: BTreeMap<(DeviceId, PortNum), Receiver>,
}

impl Physical {
    /// Returns what a port has counted up to an instant.
    pub(super) fn receiver(
        &mut self,
        port: (DeviceId, PortNum),
        cable: &Cable,
        at: Instant,
    ) -> &Receiver {
        let receiver = self
            .receivers
            .entry(port)
            .or_insert_with(|| Receiver::new(cable));
        receiver.advance(cable, at);
        receiver
    }
}

impl SimFabric {
    /// Returns the cable of a port, or `None` if the device has no such port or the port has no
    /// cable.
    pub(super) fn cable(&self, id: DeviceId, port: PortNum) -> Option<Cable> {
        let device = self.fabric.device(id);
        let found = device.port(port)?;
        let peer = found.peer.as_ref()?;
        let (here, there) = ((device.guid.0, port), (peer.guid.0, peer.port));
        Some(Cable::new(self.options.seed, here, there, &found.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cables(speed: &str) -> impl Iterator<Item = Cable> {
        let rate = LinkRate::new("4x", speed);
        (0..400)
            .map(move |guid| Cable::new(1, (guid, PortNum(1)), (guid + 1000, PortNum(2)), &rate))
    }

    const HOUR: Instant = Instant::from_nanos(3_600_000_000_000);

    #[test]
    fn both_ends_of_a_cable_have_its_number_and_its_age() {
        let rate = LinkRate::new("4x", "NDR");
        let (a, b) = ((7, PortNum(1)), (9, PortNum(30)));
        let (here, there) = (Cable::new(1, a, b, &rate), Cable::new(1, b, a, &rate));
        assert_eq!(
            (here.id, here.age(HOUR), here.length()),
            (there.id, there.age(HOUR), there.length())
        );
        assert_ne!(here.end, there.end);
        assert_ne!(here.id, Cable::new(2, a, b, &rate).id);
    }

    #[test]
    fn errors_are_as_many_as_the_error_ratio_says() {
        for cable in cables("NDR") {
            let mut physical = Physical::default();
            let port = (DeviceId(0), PortNum(1));
            let start = physical.receiver(port, &cable, Instant::ZERO).clone();
            let end = physical
                .receiver(port, &cable, Instant::ZERO + PERIOD)
                .clone();
            let bits = (end.bits() - start.bits()) as f64 / cable.lanes as f64;
            for lane in 0..cable.lanes {
                let (found, expected) = (
                    (end.raw[lane] - start.raw[lane]) as f64,
                    cable.error_ratio(lane, Instant::ZERO) * bits,
                );
                assert!(
                    (found - expected).abs() < 6.5 * expected.sqrt() + 1.0,
                    "{found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn only_faulty_links_have_errors_after_their_correction() {
        for speed in ["EDR", "NDR"] {
            let faulty = |cable: &Cable| cable.is_ageing() || cable.has_bad_contact();
            assert!(
                cables(speed).any(|cable| cable.is_ageing())
                    && cables(speed).any(|cable| cable.has_bad_contact())
            );
            for cable in cables(speed).filter(|cable| !faulty(cable)) {
                let mut physical = Physical::default();
                let receiver = physical.receiver((DeviceId(0), PortNum(1)), &cable, HOUR);
                assert_eq!((receiver.effective, receiver.symbols), (0, 0));
            }
        }
    }

    #[test]
    fn one_lane_of_an_ageing_cable_is_worse_than_the_others() {
        for cable in cables("NDR").filter(Cable::is_ageing) {
            let ratio = |lane| cable.error_ratio(lane, Instant::ZERO);
            let worst = cable.worst_lane();
            assert!(
                (0..cable.lanes)
                    .filter(|lane| *lane != worst)
                    .all(|lane| ratio(worst) > 10.0 * ratio(lane))
            );
        }
    }

    #[test]
    fn shares_of_blocks_add_up_to_one() {
        let cable = cables("NDR").next().expect("a cable");
        for ratio in [1e-12, 1e-7, 1e-4] {
            let sum: f64 = cable.wrong_symbols(ratio).iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{ratio}: {sum}");
        }
    }

    #[test]
    fn counters_do_not_depend_on_how_often_they_are_read() {
        let cable = cables("NDR").next().expect("a cable");
        let port = (DeviceId(0), PortNum(1));
        let (mut often, mut once) = (Physical::default(), Physical::default());
        for minute in 0..60 {
            often.receiver(port, &cable, Instant::ZERO + minute * PERIOD);
        }
        let end = Instant::ZERO + 60 * PERIOD;
        assert_eq!(
            often.receiver(port, &cable, end),
            once.receiver(port, &cable, end)
        );
    }
}
