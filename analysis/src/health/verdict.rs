//! Judges one end of a link by a series of readings.
//!
//! The state of an end is small and incremental: a few readings of the last two hours, and the
//! times of the last events. The same readings always give the same verdict.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::inventory::Module;
use super::limits::Limits;
use super::planes::{Fault, LESS, PlaneReading, Planes};
use super::poisson;
use super::reading::{Counter, Reading, Window};

pub(super) const MINUTE_NS: u64 = 60_000_000_000;
const DAY_NS: u64 = 24 * 60 * MINUTE_NS;

/// Time for which bit errors are added up. NVIDIA judges bit error ratios of links that have been
/// up for this time.
pub const WINDOW_NS: u64 = 125 * MINUTE_NS;

/// Min time between two readings that are kept. A window can be longer than [`WINDOW_NS`] by this.
const SPACING_NS: u64 = WINDOW_NS / 5;

/// A fault is over after this time without a rule.
const CLEAN_NS: u64 = 126 * MINUTE_NS;

/// Temperature of a module in degrees Celsius, and its increase between two readings.
pub(super) const MAX_CELSIUS: f64 = 70.0;
pub(super) const MAX_JUMP: f64 = 10.0;

/// Max time between two readings whose temperatures are compared.
const JUMP_NS: u64 = 15 * MINUTE_NS;

/// Number of link downs, and number of bursts, in a day that are a fault.
const MAX_A_DAY: usize = 2;

/// A lane is worse if its bit error ratio is this many times that of the median of the others.
const WORSE_LANE: f64 = 100.0;

/// A burst is a reading with this many times the bit error ratio of the others.
const BURST: f64 = 30.0;

/// Verdict on a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No rule applies.
    #[default]
    Good,
    /// A rule applies, but there is no fault that a person can remove, or not enough was seen.
    Watch,
    /// Clean the connectors of this end and plug them in again.
    Clean,
    /// Replace the cable: both ends have a fault, or a fault came back.
    Replace,
}

impl Verdict {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Watch => "watch",
            Self::Clean => "clean",
            Self::Replace => "replace",
        }
    }
}

/// A rule that a verdict follows from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Errors that PLR left are above the limit for errors, or that for warnings.
    Symbol,
    /// Errors that the FEC left are above one of these limits.
    Effective,
    /// The link went down in the last 24 hours.
    LinkDown,
    /// Short times with many bit errors in the last 24 hours, as of a bad contact.
    Bursts,
    /// One lane has many more bit errors than the others, as in a cable that ages.
    Lane,
    /// The module is too warm.
    Hot,
    /// The module became warmer at once.
    Jump,
    /// A plane of the port is down, and another one is up.
    PlaneDown,
    /// A plane of the port carries less than the others.
    PlaneSlow,
}

/// A rule that applies.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// The rule.
    pub rule: Rule,
    /// Whether it is a fault of this end, and not only a warning.
    pub is_fault: bool,
    /// What was measured: a lower bound of a ratio of bit errors, a number of events, a lower
    /// bound of a factor, degrees Celsius, the state of a plane, or the share that it carries less.
    pub value: f64,
    /// The limit that the value exceeds.
    pub limit: f64,
    /// Number of the lane, from 0, or of the plane, from 1.
    pub lane: Option<usize>,
}

/// Returns a lower bound with two digits, of which the others would be noise.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powi((value.max(1.0).log10().floor() as i32 - 1).max(0));
    (value / unit).floor() * unit
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, limit, .. } = self;
        let lane = self.lane.unwrap_or(0);
        match self.rule {
            Rule::Symbol => write!(f, "symbol errors at least {value:.1e}, limit {limit:e}"),
            Rule::Effective => write!(f, "errors after FEC at least {value:.1e}, limit {limit:e}"),
            Rule::LinkDown if *value == 1.0 => f.write_str("1 unintended link down in 24 h"),
            Rule::LinkDown => write!(f, "{}unintended link downs in 24 h", Recent::text(*value)),
            Rule::Bursts => write!(f, "{}bursts of bit errors in 24 h", Recent::text(*value)),
            Rule::Lane => write!(
                f,
                "lane {lane}: at least {} times the bit errors of the others",
                two_digits(*value)
            ),
            Rule::Hot => write!(f, "module {value:.0} C, limit {limit:.0} C"),
            Rule::Jump => write!(f, "module {value:.0} C warmer at once"),
            Rule::PlaneDown => write!(f, "plane {lane} is down (state {value})"),
            Rule::PlaneSlow => write!(
                f,
                "plane {lane} carries {:.0} % less than the others",
                value * 100.0
            ),
        }
    }
}

/// Times of the last events of a kind, at most [`Recent::MAX`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Recent(VecDeque<u64>);

impl Recent {
    const MAX: usize = 16;

    /// Returns a number of events in front of their name. More than [`Recent::MAX`] are not kept.
    fn text(events: f64) -> String {
        let is_all = events < Self::MAX as f64;
        format!("{events} {}", if is_all { "" } else { "or more " })
    }

    fn add(&mut self, ts: u64, count: u64) {
        for _ in 0..count.min(Self::MAX as u64) {
            self.0.push_back(ts);
        }
        let surplus = self.0.len().saturating_sub(Self::MAX);
        self.0.drain(..surplus);
    }

    /// Returns the number of events in the last 24 hours.
    fn in_a_day(&self, now: u64) -> usize {
        let from = now.saturating_sub(DAY_NS);
        self.0.iter().filter(|ts| **ts >= from).count()
    }
}

/// Errors among bits.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Ratio {
    /// Number of wrong bits.
    pub errors: u64,
    /// Number of received bits.
    pub bits: u64,
    /// Errors divided by bits.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub lower: f64,
    /// Upper end of the 95 % interval of the ratio.
    pub upper: f64,
}

impl Ratio {
    /// Computes a ratio and its interval. `events` is the number of independent events that caused
    /// the errors: a block that cannot be corrected has many wrong bits at once. `None` without
    /// received bits.
    pub fn of(errors: u64, bits: u64, events: Option<u64>) -> Option<Self> {
        let events = events.filter(|events| (1..=errors).contains(events));
        let (count, size) = match events {
            Some(events) => (events, errors as f64 / events as f64),
            None => (errors, 1.0),
        };
        let [lower, upper] = poisson::interval(count).map(|mean| mean * size / bits as f64);
        (bits > 0).then_some(Self {
            errors,
            bits,
            ratio: errors as f64 / bits as f64,
            lower,
            upper,
        })
    }
}

/// The condition of one end of a link, from all readings so far. A program that continues with the
/// serialized state after a restart has the same verdicts as without the restart.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Readings at least [`SPACING_NS`] apart, the newest last. The first one is the start of the
    /// window.
    marks: VecDeque<Reading>,
    /// Time of the first reading since the counters were reset, or since the cable was replaced.
    first_ts: u64,
    /// Errors and bits of the readings without bursts.
    calm: (u64, u64),
    bursts: Recent,
    downs: Recent,
    /// Time and temperature of the last reading of the module.
    celsius: Option<(u64, f64)>,
    /// Time and size of the last jump of the temperature.
    jump: Option<(u64, f64)>,
    planes: Planes,
    limits: Limits,
    /// Time and serial number of the last module whose serial number was read.
    module: (u64, Box<str>),
    applied: Vec<Applied>,
    verdict: Verdict,
    since_ns: u64,
    last_fault_ns: Option<u64>,
    /// Whether a fault came back after it was over.
    is_repeated: bool,
}

impl End {
    /// Adds a reading. A reading that is older than the last one is ignored.
    pub fn add(&mut self, mut reading: Reading) {
        if let Some(last) = self.marks.back() {
            reading.fill_in(last);
            if reading.ts <= last.ts {
                return;
            } else if reading.is_reset(last) {
                self.marks.clear();
                self.calm = (0, 0);
            } else if reading.is_older(last) {
                return;
            } else {
                self.count_events(&reading);
            }
        } else if reading.ts < self.first_ts {
            return;
        }
        if self.marks.is_empty() {
            self.first_ts = reading.ts;
        }
        // A counter that was not read before counts from now on.
        self.marks
            .iter_mut()
            .for_each(|mark| mark.fill_in(&reading));
        let now = reading.ts;
        let newest = self.marks.len().saturating_sub(1);
        if newest > 0 && now < self.marks[newest - 1].ts + SPACING_NS {
            self.marks.pop_back();
        }
        self.marks.push_back(reading);
        while self.marks.len() > 2 && self.marks[1].ts + WINDOW_NS <= now {
            self.marks.pop_front();
        }
        self.judge(now);
    }

    /// Adds the temperature of the module. One that is older than the last one is ignored.
    pub fn add_celsius(&mut self, ts: u64, celsius: f64) {
        if self.celsius.is_some_and(|(last, _)| ts <= last) {
            return;
        }
        if let Some((before, earlier)) = self.celsius.replace((ts, celsius))
            && celsius - earlier > MAX_JUMP
            && ts <= before + JUMP_NS
        {
            self.jump = Some((ts, celsius - earlier));
        }
        self.judge(ts);
    }

    /// Adds a reading of a plane. `bytes_per_second` is the data rate of the link.
    pub fn add_plane(&mut self, reading: PlaneReading, bytes_per_second: Option<f64>) {
        self.planes.add(reading, bytes_per_second);
        self.judge(reading.ts);
    }

    /// Returns what is wrong with planes of the port.
    pub fn of_planes(&self) -> impl Iterator<Item = &Applied> {
        let is_of_plane =
            |applied: &&Applied| matches!(applied.rule, Rule::PlaneDown | Rule::PlaneSlow);
        self.applied.iter().filter(is_of_plane)
    }

    /// Takes what is known of the module. If its serial number is another one, the state begins
    /// anew, because the faults were those of the cable before. Returns whether it is another one.
    pub fn set_module(&mut self, ts: u64, module: &Module) -> bool {
        self.set_limits(Limits::of(module));
        let (last, serial) = &self.module;
        if module.serial.is_empty() || ts <= *last {
            return false;
        }
        let is_other = !serial.is_empty() && *serial != module.serial;
        if is_other {
            *self = Self {
                first_ts: ts,
                limits: self.limits,
                planes: std::mem::take(&mut self.planes),
                ..Self::default()
            };
            self.judge(ts);
        }
        self.module = (ts, module.serial.clone());
        is_other
    }

    /// Sets the limits for the FEC and the medium of the link. A link that is down has no active
    /// FEC, so limits by an active FEC stay until another one is active.
    fn set_limits(&mut self, limits: Limits) {
        if self.limits.is_assumed() || !limits.is_assumed() {
            self.limits = limits;
        }
    }

    /// Returns the limits of bit errors.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Counts link downs and bursts since the last reading.
    fn count_events(&mut self, reading: &Reading) {
        let Some(last) = self.marks.back() else {
            return;
        };
        let step = Window::new(last, reading);
        self.downs
            .add(reading.ts, step.increase(Counter::Downs).unwrap_or(0));
        let (errors, bits) = (
            step.increase(Counter::Corrected),
            step.increase(Counter::Bits),
        );
        let (Some(errors), Some(bits @ 1..)) = (errors, bits) else {
            return;
        };
        let (calm_errors, calm_bits) = self.calm;
        if is_above((errors, bits), (calm_errors, calm_bits), BURST) {
            self.bursts.add(reading.ts, 1);
        } else if is_above((calm_errors, calm_bits), (errors, bits), BURST) {
            // The first readings were a burst.
            self.bursts.add(last.ts, 1);
            self.calm = (errors, bits);
        } else {
            // Older readings lose their weight.
            let halve = calm_bits > 64 * bits;
            let keep = |sum: u64| if halve { sum / 2 } else { sum };
            self.calm = (keep(calm_errors) + errors, keep(calm_bits) + bits);
        }
    }

    fn judge(&mut self, now: u64) {
        let was_faulty = self.has_fault();
        self.applied = self.rules(now);
        if self.has_fault() {
            let last = self.last_fault_ns.replace(now);
            // A time without readings is not a good one.
            self.is_repeated |= !was_faulty && last.is_some_and(|last| last + CLEAN_NS < now);
        }
        let verdict = self.combined(None);
        if self.verdict != verdict || self.since_ns == 0 {
            (self.verdict, self.since_ns) = (verdict, now);
        }
    }

    /// Returns the rules that apply, the most severe first.
    fn rules(&self, now: u64) -> Vec<Applied> {
        let mut found = Vec::new();
        let mut add = |rule, is_fault, value, limit, lane| {
            found.push(Applied {
                rule,
                is_fault,
                value,
                limit,
                lane,
            });
        };
        let limits = [
            (Rule::Symbol, self.symbol(), self.limits.symbol()),
            (Rule::Effective, self.effective(), self.limits.effective()),
        ];
        for (rule, ratio, [warning, fault]) in limits {
            let lower = ratio.map_or(0.0, |ratio| ratio.lower);
            if lower > fault {
                add(rule, true, lower, fault, None);
            } else if lower > warning {
                add(rule, false, lower, warning, None);
            }
        }
        let downs = self.downs.in_a_day(now);
        if downs > 0 {
            add(Rule::LinkDown, downs >= MAX_A_DAY, downs as f64, 0.0, None);
        }
        let bursts = self.bursts.in_a_day(now);
        if bursts >= MAX_A_DAY {
            add(Rule::Bursts, true, bursts as f64, MAX_A_DAY as f64, None);
        }
        if let Some((lane, factor)) = self.worse_lane() {
            add(Rule::Lane, false, factor, WORSE_LANE, Some(lane));
        }
        if let Some((_, celsius)) = self.celsius.filter(|(_, celsius)| *celsius > MAX_CELSIUS) {
            add(Rule::Hot, false, celsius, MAX_CELSIUS, None);
        }
        if let Some((_, jump)) = self.jump.filter(|(ts, _)| now < ts + WINDOW_NS) {
            add(Rule::Jump, false, jump, MAX_JUMP, None);
        }
        for (plane, fault) in self.planes.faults() {
            let plane = Some(*plane as usize);
            match *fault {
                Fault::Down(state) => add(Rule::PlaneDown, false, state as f64, 0.0, plane),
                Fault::Less(share) => add(Rule::PlaneSlow, false, share, LESS, plane),
            }
        }
        found
    }

    /// Returns the lane with more than [`WORSE_LANE`] times the bit errors of the median of the
    /// others, and the lower bound of this factor.
    fn worse_lane(&self) -> Option<(usize, f64)> {
        let lanes = self.window()?.lanes()?;
        let (worst, errors) = (0..).zip(&lanes).max_by_key(|(_, errors)| **errors)?;
        let mut others: Vec<u64> = lanes.clone();
        others.swap_remove(worst);
        others.sort_unstable();
        let median = *others.get(others.len() / 2)?;
        // This is much faster than an interval, and nearly always enough.
        if (*errors as f64) < WORSE_LANE * median as f64 {
            return None;
        }
        let factor = poisson::interval(*errors)[0] / poisson::interval(median)[1];
        (factor > WORSE_LANE).then_some((worst, factor))
    }

    /// Returns the time between the first and the last reading that are compared.
    pub fn window(&self) -> Option<Window<'_>> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        (first.ts < last.ts).then(|| Window::new(first, last))
    }

    /// Returns the ratio of bit errors before error correction in the window.
    pub fn raw(&self) -> Option<Ratio> {
        self.ratio(Counter::Corrected, None)
    }

    /// Returns the ratio of bit errors that the FEC left.
    pub fn effective(&self) -> Option<Ratio> {
        self.ratio(Counter::Effective, Some(Counter::LostBlocks))
    }

    /// Returns the ratio of bit errors that PLR left too.
    pub fn symbol(&self) -> Option<Ratio> {
        self.ratio(Counter::Symbols, Some(Counter::LostCodes))
    }

    fn ratio(&self, errors: Counter, events: Option<Counter>) -> Option<Ratio> {
        let window = self.window()?;
        let events = events.and_then(|events| window.increase(events));
        Ratio::of(
            window.increase(errors)?,
            window.increase(Counter::Bits)?,
            events,
        )
    }

    /// Returns the time for which the readings are known, at most [`WINDOW_NS`].
    pub fn seen_ns(&self) -> u64 {
        let seen = |last: &Reading| last.ts.saturating_sub(self.first_ts).min(WINDOW_NS);
        self.marks.back().map_or(0, seen)
    }

    /// Returns the rules that apply, the most severe first.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Returns the rules that apply as text. A limit that does not follow from the active FEC is
    /// marked.
    pub fn why(&self) -> Vec<String> {
        let text = |applied: &Applied| match applied.rule {
            Rule::Symbol | Rule::Effective if self.limits.is_assumed() => {
                format!("{applied} ({})", self.limits)
            }
            _ => applied.to_string(),
        };
        self.applied.iter().map(text).collect()
    }

    /// Returns the number of link downs in the last 24 hours.
    pub fn downs(&self) -> usize {
        self.marks
            .back()
            .map_or(0, |last| self.downs.in_a_day(last.ts))
    }

    /// Returns the time since which this end has its verdict, in nanoseconds since 1970.
    pub const fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Returns the time of the last reading in nanoseconds since 1970, or 0 without one.
    pub fn last_ns(&self) -> u64 {
        self.marks.back().map_or(0, |last| last.ts)
    }

    /// Returns the last temperature of the module in degrees Celsius.
    pub fn celsius(&self) -> Option<f64> {
        self.celsius.map(|(_, celsius)| celsius)
    }

    fn has_fault(&self) -> bool {
        self.applied.iter().any(|applied| applied.is_fault)
    }

    /// Returns whether this end has a fault of its own. Both ends count each link down.
    fn has_own_fault(&self) -> bool {
        let is_own = |applied: &Applied| applied.is_fault && applied.rule != Rule::LinkDown;
        self.applied.iter().any(is_own)
    }

    /// Returns the verdict on this end, given the other end of the link if it is known.
    pub fn combined(&self, peer: Option<&Self>) -> Verdict {
        if self.applied.is_empty() {
            Verdict::Good
        } else if self.seen_ns() < WINDOW_NS || !self.has_fault() {
            Verdict::Watch
        } else if self.is_repeated || self.has_own_fault() && peer.is_some_and(Self::has_own_fault)
        {
            Verdict::Replace
        } else {
            Verdict::Clean
        }
    }
}

/// Returns whether a ratio of errors is surely more than `factor` times another one: whether the
/// 95 % intervals of both are that far from each other.
fn is_above(
    (errors, bits): (u64, u64),
    (other_errors, other_bits): (u64, u64),
    factor: f64,
) -> bool {
    let (own, other) = (bits as f64, factor / other_bits as f64);
    if bits == 0 || other_bits == 0 || errors as f64 / own <= other_errors as f64 * other {
        return false;
    }
    poisson::interval(errors)[0] / own > poisson::interval(other_errors)[1] * other
}

#[cfg(test)]
mod tests {
    use ibnet_record::physical::{ReadValues, Value};

    use super::*;

    /// Bits that a link of 400 Gb/s receives in a minute.
    const BITS: u64 = 25_500_000_000_000;

    fn reading(minute: u64, counters: &[(&str, u64)], lanes: [u64; 4]) -> Reading {
        let integers = counters.iter().copied().chain([
            ("phy_received_bits", minute * BITS),
            ("phy_corrected_bits", lanes.iter().sum()),
        ]);
        let mut values: ReadValues = integers
            .map(|(name, value)| (name.to_owned(), Value::Integer(value)))
            .collect();
        let lanes = lanes.into_iter().chain([0; 4]).collect();
        values.insert("phy_raw_errors_lane".to_owned(), Value::Integers(lanes));
        Reading::of(minute * MINUTE_NS, &values).expect("counters")
    }

    /// Judges readings of these minutes with the same increase in each of them.
    fn steady(minutes: u64, counters: &[(&str, u64)], lanes: [u64; 4]) -> End {
        let mut end = End::default();
        for minute in 1..=minutes {
            let counters: Vec<_> = counters
                .iter()
                .map(|(name, value)| (*name, minute * value))
                .collect();
            end.add(reading(minute, &counters, lanes.map(|lane| minute * lane)));
        }
        end
    }

    fn rules(end: &End) -> Vec<Rule> {
        end.applied().iter().map(|applied| applied.rule).collect()
    }

    const LOST: [(&str, u64); 2] = [
        ("phy_effective_errors", 1600),
        ("rs_fec_uncorrectable_blocks", 10),
    ];

    #[test]
    fn fault_is_only_watched_before_125_minutes() {
        let end = steady(100, &LOST, [100; 4]);
        assert_eq!(
            (rules(&end), end.combined(None)),
            (vec![Rule::Effective], Verdict::Watch)
        );
        let end = steady(130, &LOST, [100; 4]);
        assert_eq!(end.combined(None), Verdict::Clean);
        assert_eq!(end.combined(Some(&end)), Verdict::Replace, "both ends");
        assert_eq!(end.combined(Some(&End::default())), Verdict::Clean);
    }

    #[test]
    fn ratio_is_exact_and_its_window_is_bounded() {
        let end = steady(600, &LOST, [100; 4]);
        let length = end.window().expect("readings").length_ns();
        assert!(
            (WINDOW_NS..=WINDOW_NS + SPACING_NS).contains(&length),
            "{length}"
        );
        let ratio = end.raw().expect("bits").ratio * BITS as f64 / 400.0;
        assert!((ratio - 1.0).abs() < 1e-12, "{ratio}");
        assert!(end.marks.len() <= 8, "the state is small");
    }

    #[test]
    fn few_lost_blocks_are_no_fault() {
        // One block has 160 wrong bits, but it is one event.
        let lost = |blocks: u64| {
            [
                ("phy_symbol_errors", 160 * blocks),
                ("plr_rcv_uncorrectable_code", blocks),
            ]
        };
        let mut end = steady(130, &lost(0), [100; 4]);
        end.add(reading(131, &lost(1), [13_100; 4]));
        assert_eq!(rules(&end), []);
        end.add(reading(132, &lost(3), [13_200; 4]));
        assert_eq!(rules(&end), [Rule::Symbol]);
    }

    #[test]
    fn worse_lane_is_named() {
        let end = steady(30, &[], [100, 90, 200_000, 110]);
        assert_eq!(
            (end.applied()[0].rule, end.applied()[0].lane),
            (Rule::Lane, Some(2))
        );
        assert_eq!(rules(&steady(30, &[], [100, 90, 5_000, 110])), []);
    }

    #[test]
    fn two_bursts_are_a_fault() {
        let (mut end, mut lanes) = (End::default(), [0; 4]);
        for minute in 1..=140 {
            let errors = if minute == 20 || minute == 90 {
                100_000
            } else {
                100
            };
            lanes = lanes.map(|lane| lane + errors);
            end.add(reading(minute, &[], lanes));
            assert_eq!(
                rules(&end).contains(&Rule::Bursts),
                minute >= 90,
                "{minute}"
            );
        }
        assert_eq!(end.combined(None), Verdict::Clean);
    }

    #[test]
    fn fault_that_comes_back_means_a_new_cable() {
        let (mut end, mut lost) = (End::default(), 0);
        for minute in 1..=900 {
            lost += if (10..20).contains(&minute) || minute > 700 {
                1000
            } else {
                0
            };
            let counters = [
                ("phy_effective_errors", 160 * lost),
                ("rs_fec_uncorrectable_blocks", lost),
            ];
            end.add(reading(minute, &counters, [100 * minute; 4]));
            let expected = match minute {
                130..=145 => Verdict::Clean,
                200..=700 => Verdict::Good,
                720.. => Verdict::Replace,
                _ => continue,
            };
            assert_eq!(end.combined(None), expected, "{minute}");
        }
    }

    #[test]
    fn restart_at_any_minute_changes_no_verdict() {
        let (mut all, mut restarted) = (End::default(), End::default());
        let (mut lost, mut lanes) = (0, [0; 4]);
        for minute in 1..=900 {
            lost += u64::from((10..20).contains(&minute) || minute > 700) * 1000;
            lanes = lanes.map(|lane| lane + if minute == 500 { 100_000 } else { 100 });
            let counters = [
                ("phy_effective_errors", 160 * lost),
                ("rs_fec_uncorrectable_blocks", lost),
                ("link_down_events", minute / 300),
            ];
            let text = serde_json::to_vec(&restarted).expect("serialized");
            restarted = serde_json::from_slice(&text).expect("read");
            for end in [&mut all, &mut restarted] {
                end.add(reading(minute, &counters, lanes));
                end.add_celsius(minute * MINUTE_NS, 40.0 + (minute / 30) as f64 * 1.1);
            }
            let verdict = |end: &End| {
                (
                    end.combined(None),
                    rules(end),
                    end.seen_ns(),
                    end.since_ns(),
                )
            };
            assert_eq!(verdict(&all), verdict(&restarted), "{minute}");
        }
        assert_eq!(all.combined(None), Verdict::Replace);
    }

    #[test]
    fn events_while_nothing_was_read_count_and_the_time_is_not_a_good_one() {
        let mut end = steady(130, &LOST, [100; 4]);
        let counters = |minute: u64| LOST.map(|(name, value)| (name, value * minute));
        let downs =
            |minute, downs| [&counters(minute)[..], &[("link_down_events", downs)]].concat();
        end.add(reading(131, &downs(131, 0), [13_100; 4]));
        // A program that kept the state was stopped for four hours.
        end.add(reading(371, &downs(371, 2), [37_100; 4]));
        assert_eq!(rules(&end), [Rule::Effective, Rule::LinkDown]);
        assert_eq!(
            end.combined(None),
            Verdict::Clean,
            "the fault was there all the time"
        );
        // Records that are read a second time change nothing.
        let before = end.clone();
        end.add(reading(370, &downs(370, 0), [37_000; 4]));
        end.add_celsius(371 * MINUTE_NS, 80.0);
        end.add_celsius(370 * MINUTE_NS, 20.0);
        assert_eq!(
            (end.celsius(), end.last_ns()),
            (Some(80.0), before.last_ns())
        );
    }

    #[test]
    fn reset_of_counters_begins_a_new_window() {
        let mut end = steady(130, &LOST, [100; 4]);
        let cleared = reading(0, &[("phy_effective_errors", 0)], [0; 4]);
        end.add(Reading {
            ts: 131 * MINUTE_NS,
            ..cleared
        });
        assert_eq!((end.seen_ns(), end.combined(None)), (0, Verdict::Good));
    }

    #[test]
    fn readings_of_two_samplers_are_one_series() {
        let mut end = End::default();
        for minute in 1..=130 {
            let of = |minute, ts| Reading {
                ts,
                ..reading(
                    minute,
                    &LOST.map(|(name, value)| (name, value * minute)),
                    [100 * minute; 4],
                )
            };
            end.add(of(minute, minute * MINUTE_NS));
            // The other sampler reads the counters first, and finishes later.
            end.add(of(minute - 1, minute * MINUTE_NS + MINUTE_NS / 60));
        }
        assert_eq!(
            (end.seen_ns(), end.combined(None)),
            (WINDOW_NS, Verdict::Clean)
        );
    }

    #[test]
    fn page_that_is_read_less_often_keeps_its_last_values() {
        let mut end = End::default();
        for minute in 1..=130 {
            let counters = LOST.map(|(name, value)| (name, value * minute));
            let read = if minute % 5 == 0 { &counters[..] } else { &[] };
            end.add(reading(minute, read, [100 * minute; 4]));
        }
        assert_eq!(rules(&end), [Rule::Effective]);
    }

    #[test]
    fn other_serial_number_clears_the_faults_of_the_cable_before() {
        let module = |serial: &str| Module {
            serial: serial.into(),
            ..Module::default()
        };
        let (mut end, mut lost) = (End::default(), 0);
        for minute in 1..=750 {
            lost += u64::from((10..20).contains(&minute) || minute > 700) * 1000;
            let errors = if minute > 740 { 100_000 } else { 100 };
            let counters = [
                ("phy_effective_errors", 160 * lost),
                ("rs_fec_uncorrectable_blocks", lost),
                ("link_down_events", minute / 300),
            ];
            end.add(reading(minute, &counters, [errors * minute; 4]));
            // The serial number is not read at first, and not always.
            let serial = if minute % 200 == 100 { "OLD" } else { "" };
            assert!(!end.set_module(minute * MINUTE_NS, &module(serial)));
        }
        end.add_celsius(750 * MINUTE_NS, 80.0);
        assert_eq!(end.combined(None), Verdict::Replace, "a fault came back");

        let text = serde_json::to_vec(&end).expect("serialized");
        let mut end: End = serde_json::from_slice(&text).expect("read");
        let exchanged = 760 * MINUTE_NS;
        assert!(end.set_module(exchanged, &module("NEW")));
        let state = |end: &End| (rules(end), end.combined(None), end.downs(), end.celsius());
        let good = (vec![], Verdict::Good, 0, None);
        assert_eq!((state(&end), end.since_ns()), (good.clone(), exchanged));
        // Records of before the exchange that are read again change nothing.
        let counters = [("link_down_events", 2)];
        end.add(reading(755, &counters, [100_000 * 755; 4]));
        assert!(!end.set_module(755 * MINUTE_NS, &module("OLD")));
        // The link downs of the exchange are not those of the new cable.
        let counters = [("link_down_events", 9)];
        for minute in 761..=900 {
            end.add(reading(minute, &counters, [100_000 * 761 + minute; 4]));
            assert_eq!(state(&end), good, "{minute}");
        }
        assert_eq!(end.seen_ns(), WINDOW_NS, "judged anew");
    }

    #[test]
    fn link_downs_and_temperatures_are_rules() {
        let mut end = steady(130, &[], [100; 4]);
        end.add(reading(131, &[("link_down_events", 4)], [13_100; 4]));
        end.add(reading(132, &[("link_down_events", 5)], [13_200; 4]));
        assert_eq!(
            (rules(&end), end.combined(None)),
            (vec![Rule::LinkDown], Verdict::Watch)
        );
        end.add(reading(133, &[("link_down_events", 6)], [13_300; 4]));
        assert_eq!(
            end.combined(Some(&end)),
            Verdict::Clean,
            "both ends count a link down"
        );
        end.add_celsius(133 * MINUTE_NS, 55.0);
        end.add_celsius(138 * MINUTE_NS, 71.0);
        assert_eq!(rules(&end), [Rule::LinkDown, Rule::Hot, Rule::Jump]);
        let text = |end: &End| end.applied[0].to_string();
        assert_eq!(text(&end), "2 unintended link downs in 24 h");
        end.add(reading(139, &[("link_down_events", 40)], [13_900; 4]));
        assert_eq!(text(&end), "16 or more unintended link downs in 24 h");
    }
}
