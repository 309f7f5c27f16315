//! Compares the clocks of the samplers with each other and with the clock of the hub.
//!
//! A record that arrives live has an *offset*: its time minus the clock of the hub. Delays only
//! make the offset smaller, so the max of a few seconds is the offset of the clock itself. A clock
//! is *wrong* if its offset is more than [`MAX_NS`] from the median of the active samplers, until
//! the distance falls below 1.5 s again. With fewer than three samplers, the clock of the hub
//! replaces the median. Finished recordings have no offset; their newest records are compared with
//! the live samplers or with each other.
//!
//! Records of a wrong clock are kept *apart*: they appear in the history, but they change neither
//! the live slot nor the time at which older records are dropped. If no clock is right, those
//! nearest to the clock of the hub are not kept apart, because otherwise the web page would have
//! no data.

use std::time::Duration;

/// Largest distance of a right clock, and the distance below which a wrong clock is right again.
pub(crate) const MAX_NS: i64 = 2_000_000_000;
const RIGHT_AGAIN_NS: i64 = 1_500_000_000;

/// Number of samplers from which their median replaces the clock of the hub.
const MANY: usize = 3;

/// Min duration of a window, over which the max offset is taken.
const WINDOW: Duration = Duration::from_secs(5);

/// An offset that increases by more than this from one window to the next shows a sampler that is
/// catching up: its old records are read quickly.
const CATCHING_UP_NS: i64 = 500_000_000;

/// Time for which a clock must be wrong before it is reported. When the hub starts, the median
/// covers only the samplers whose records have arrived already.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// If all live samplers are this far behind the hub, they replay a recording.
const REPLAY_NS: i64 = 3_600_000_000_000;

/// The clock of a sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    /// Whether its distance is too large.
    pub(crate) is_wrong: bool,
    /// Whether it was reported as wrong, and since when it has been right or wrong.
    is_reported: bool,
    since: Duration,
    /// Whether its records are kept apart.
    pub(crate) is_apart: bool,
    /// Distance from the median or from the clock of the hub. Positive if the clock is ahead.
    pub(crate) distance_ns: Option<i64>,
    /// Newest record in nanoseconds since 1970.
    pub(crate) newest_ns: u64,
    /// Arrival of the last record, live or not.
    heard: Duration,
    live: Option<Live>,
    /// Offset of the last record that was [alone](Hearing::Alone).
    alone: Option<i64>,
}

/// The offsets of a clock whose records arrive live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Live {
    begin: Duration,
    heard: Duration,
    /// Max offset of this window, and of the one before.
    largest: i64,
    before: Option<i64>,
    /// Whether the offset has stopped increasing.
    is_settled: bool,
}

/// When a record arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heard {
    /// Monotonic time.
    pub(crate) at: Duration,
    /// Clock of the hub in nanoseconds since 1970. `None` for a record that was written earlier.
    pub(crate) wall_ns: Option<u64>,
}

/// What the time of a record shows about the clock of its sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hearing {
    Usual,
    /// The clock is ahead of the others and must be judged at once.
    Ahead,
    /// The record is ahead of all others, even of those of its own sampler. One record does not
    /// prove that the clock was set, so the next one has to confirm it.
    Alone,
}

/// Upper limits for the records of a right clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Max offset in nanoseconds.
    offset: i64,
    /// Newest time of a finished recording.
    newest_ns: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            offset: MAX_NS,
            newest_ns: u64::MAX,
        }
    }
}

/// A clock whose judgement changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    pub(crate) place: usize,
    /// Whether it became wrong or right. Otherwise, only whether its records are kept apart
    /// has changed.
    pub(crate) is_reported: bool,
}

impl Clock {
    pub(crate) fn hear(
        &mut self,
        ts: u64,
        heard: Heard,
        interval: Duration,
        bounds: Bounds,
    ) -> Hearing {
        let ahead = |is_ahead: bool| {
            if is_ahead {
                Hearing::Ahead
            } else {
                Hearing::Usual
            }
        };
        self.heard = heard.at;
        let Some(wall_ns) = heard.wall_ns else {
            self.newest_ns = self.newest_ns.max(ts);
            return ahead(!self.is_apart && ts > bounds.newest_ns);
        };
        let offset = signed(ts).saturating_sub(signed(wall_ns));
        let window = interval.max(WINDOW);
        let Some(live) = &mut self.live else {
            self.live = Some(Live {
                begin: heard.at,
                heard: heard.at,
                largest: offset,
                before: None,
                is_settled: false,
            });
            self.newest_ns = self.newest_ns.max(ts);
            return Hearing::Ahead;
        };
        if offset > bounds.offset && offset.saturating_sub(live.offset()) > MAX_NS {
            let is_confirmed = self
                .alone
                .replace(offset)
                .is_some_and(|alone| alone.abs_diff(offset) <= MAX_NS.unsigned_abs());
            if !is_confirmed {
                return Hearing::Alone;
            }
        }
        self.alone = None;
        if heard.at.saturating_sub(live.begin) >= window {
            live.is_settled = live
                .before
                .is_some_and(|before| live.largest <= before.saturating_add(CATCHING_UP_NS));
            (live.before, live.largest, live.begin) = (Some(live.largest), offset, heard.at);
        } else {
            live.largest = live.largest.max(offset);
        }
        live.heard = heard.at;
        // After a step back, the newest record is not the last one before the step.
        let expected = signed(wall_ns)
            .saturating_add(live.offset())
            .saturating_add(MAX_NS);
        self.newest_ns = if signed(self.newest_ns) > expected {
            ts
        } else {
            self.newest_ns.max(ts)
        };
        ahead(!self.is_wrong && offset > bounds.offset)
    }

    /// Returns the offset if records have arrived live within some intervals.
    fn offset(&self, now: Duration, interval: Duration) -> Option<i64> {
        let silence = (interval * 3).max(2 * WINDOW);
        self.live
            .filter(|live| now.saturating_sub(live.heard) < silence)
            .map(|live| live.offset())
    }

    fn is_settled(&self) -> bool {
        self.live.is_some_and(|live| live.is_settled)
    }

    /// Returns the current time by this clock; records that are `recent` older than it are dropped.
    /// `right_ns` is the newest record of all right live clocks.
    pub(crate) fn now_ns(&self, right_ns: u64) -> u64 {
        // Until a clock has settled, it may be behind only because its old records are being read.
        let is_own = self.is_apart || self.live.is_some_and(|live| !live.is_settled);
        if is_own {
            self.newest_ns
        } else {
            right_ns.max(self.newest_ns)
        }
    }

    /// Returns whether records of this clock have arrived live.
    pub(crate) const fn is_live(&self) -> bool {
        self.live.is_some()
    }
}

impl Live {
    fn offset(&self) -> i64 {
        self.before
            .map_or(self.largest, |before| before.max(self.largest))
    }
}

/// Judges all clocks, each with the interval of its sampler. Returns the bounds of a right clock,
/// and the clocks whose judgement changed.
pub(crate) fn judge(clocks: &mut [(&mut Clock, Duration)], now: Duration) -> (Bounds, Vec<Judged>) {
    let was: Vec<(bool, bool)> = clocks
        .iter()
        .map(|(clock, _)| (clock.is_wrong, clock.is_apart))
        .collect();
    let mut judged = Vec::new();
    let offsets: Vec<Option<i64>> = clocks
        .iter()
        .map(|(clock, interval)| clock.offset(now, *interval))
        .collect();
    let live: Vec<i64> = offsets.iter().flatten().copied().collect();
    let median = if live.len() < MANY {
        0
    } else {
        median(live.clone())
    };
    let is_replay = !live.is_empty() && live.iter().all(|offset| *offset < -REPLAY_NS);
    for ((clock, _), offset) in clocks.iter_mut().zip(&offsets) {
        let Some(offset) = offset else { continue };
        let distance = offset.saturating_sub(median);
        let most = if clock.is_wrong {
            RIGHT_AGAIN_NS
        } else {
            MAX_NS
        };
        let is_far =
            distance > most || (distance < -most && (clock.is_settled() || clock.is_wrong));
        clock.is_wrong = is_far && !(is_replay && live.len() < MANY);
        clock.distance_ns = Some(distance);
    }
    // If no clock is right, the one nearest to the clock of the hub stands in for them.
    let has_right = clocks
        .iter()
        .zip(&offsets)
        .any(|((clock, _), offset)| offset.is_some() && !clock.is_wrong);
    let nearest = live
        .iter()
        .copied()
        .min_by_key(|offset| offset.unsigned_abs())
        .unwrap_or_default();
    for ((clock, _), offset) in clocks.iter_mut().zip(&offsets) {
        match offset {
            Some(offset) => {
                clock.is_apart = clock.is_wrong
                    && (has_right || offset.abs_diff(nearest) > MAX_NS.unsigned_abs());
            }
            None if clock.is_live() && !live.is_empty() => clock.is_apart = clock.is_wrong,
            None => {}
        }
    }
    judge_recordings(clocks, now);
    let right_ns = newest_live_ns(clocks.iter().map(|(clock, _)| &**clock));
    let newest_ns = if right_ns == 0 {
        u64::MAX
    } else {
        right_ns.saturating_add(MAX_NS.unsigned_abs())
    };
    for (place, ((clock, _), (was_wrong, was_apart))) in clocks.iter_mut().zip(was).enumerate() {
        if clock.is_wrong != was_wrong {
            clock.since = now;
        }
        let is_long = !clock.is_wrong || now.saturating_sub(clock.since) >= REPORT_AFTER;
        let is_reported = clock.is_wrong != clock.is_reported && is_long;
        clock.is_reported ^= is_reported;
        if is_reported || clock.is_apart != was_apart {
            judged.push(Judged { place, is_reported });
        }
    }
    (
        Bounds {
            offset: median.saturating_add(MAX_NS),
            newest_ns,
        },
        judged,
    )
}

/// Judges the clocks of finished recordings. A recording that merely ends early is not wrong.
fn judge_recordings(clocks: &mut [(&mut Clock, Duration)], now: Duration) {
    let right_ns = newest_live_ns(clocks.iter().map(|(clock, _)| &**clock));
    let is_read = |clock: &Clock| {
        !clock.is_live() && clock.newest_ns > 0 && now.saturating_sub(clock.heard) >= WINDOW
    };
    let ends: Vec<i64> = clocks
        .iter()
        .filter(|(clock, _)| is_read(clock))
        .map(|(clock, _)| signed(clock.newest_ns))
        .collect();
    let reference = match right_ns {
        0 if ends.len() < MANY => None,
        0 => Some(median(ends)),
        right_ns => Some(signed(right_ns)),
    };
    for (clock, _) in clocks
        .iter_mut()
        .filter(|(clock, _)| !clock.is_live() && clock.newest_ns > 0)
    {
        let distance = reference.map(|reference| signed(clock.newest_ns).saturating_sub(reference));
        let is_judged = right_ns > 0 || is_read(clock);
        if is_judged && let Some(distance) = distance {
            clock.is_wrong = distance > MAX_NS;
            (clock.is_apart, clock.distance_ns) =
                (clock.is_wrong, clock.is_wrong.then_some(distance));
        }
    }
}

/// Returns the newest record of the right live clocks in nanoseconds since 1970, or 0 without any.
pub(crate) fn newest_live_ns<'a>(clocks: impl Iterator<Item = &'a Clock>) -> u64 {
    clocks
        .filter(|clock| clock.is_live() && !clock.is_apart)
        .map(|clock| clock.newest_ns)
        .max()
        .unwrap_or(0)
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Returns the median; of two middle values, the one nearer to zero.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    let upper = values.get(values.len() / 2).copied().unwrap_or_default();
    let lower = values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or_default();
    if lower.unsigned_abs() < upper.unsigned_abs() {
        lower
    } else {
        upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const START: i64 = 1_700_000_000 * SECOND;
    const INTERVAL: Duration = Duration::from_secs(1);

    /// Lets seconds pass in which each clock has a record. `None` is a silent sampler.
    fn pass(clocks: &mut [Clock], seconds: std::ops::Range<u64>, offsets: &[Option<i64>]) {
        for second in seconds {
            let at = Duration::from_secs(second);
            let wall = START + second as i64 * SECOND;
            for (clock, offset) in clocks.iter_mut().zip(offsets) {
                if let Some(offset) = offset {
                    let heard = Heard {
                        at,
                        wall_ns: Some(wall.unsigned_abs()),
                    };
                    clock.hear(
                        (wall + offset).unsigned_abs(),
                        heard,
                        INTERVAL,
                        Bounds::default(),
                    );
                }
            }
            let mut all: Vec<_> = clocks.iter_mut().map(|clock| (clock, INTERVAL)).collect();
            judge(&mut all, at);
        }
    }

    fn wrong(clocks: &[Clock]) -> Vec<bool> {
        clocks.iter().map(|clock| clock.is_wrong).collect()
    }

    fn apart(clocks: &[Clock]) -> Vec<bool> {
        clocks.iter().map(|clock| clock.is_apart).collect()
    }

    #[test]
    fn clock_that_is_ahead_is_wrong_from_its_first_record_on() {
        let mut clocks = [Clock::default(); 2];
        pass(&mut clocks, 0..1, &[Some(0), Some(5 * SECOND)]);
        assert_eq!(
            (wrong(&clocks), apart(&clocks)),
            (vec![false, true], vec![false, true])
        );
        assert_eq!(clocks[1].distance_ns, Some(5 * SECOND));
    }

    #[test]
    fn clock_that_is_behind_is_wrong_when_it_does_not_catch_up() {
        let mut clocks = [Clock::default(); 4];
        // The last sampler reads old records: 30 seconds in each second.
        for second in 0..20 {
            pass(
                &mut clocks,
                second..second + 1,
                &[
                    Some(0),
                    Some(0),
                    Some(-10 * SECOND),
                    Some((second as i64 * 29 - 600) * SECOND),
                ],
            );
        }
        assert_eq!(wrong(&clocks), [false, false, true, false]);
    }

    #[test]
    fn clocks_that_are_wrong_alike_agree_with_their_median() {
        let mut clocks = [Clock::default(); 3];
        pass(
            &mut clocks,
            0..30,
            &[Some(60 * SECOND), Some(60 * SECOND), Some(61 * SECOND)],
        );
        assert_eq!(
            (wrong(&clocks), apart(&clocks)),
            (vec![false; 3], vec![false; 3])
        );
    }

    #[test]
    fn two_wrong_clocks_are_reported_and_the_nearest_one_is_shown() {
        let mut clocks = [Clock::default(); 2];
        pass(&mut clocks, 0..30, &[Some(60 * SECOND), Some(-30 * SECOND)]);
        assert_eq!(
            (wrong(&clocks), apart(&clocks)),
            (vec![true; 2], vec![true, false])
        );
    }

    #[test]
    fn corrected_clock_is_right_again() {
        let mut clocks = [Clock::default(); 2];
        pass(&mut clocks, 0..10, &[Some(0), Some(1200 * SECOND)]);
        assert_eq!(wrong(&clocks), [false, true]);
        pass(&mut clocks, 10..30, &[Some(0), Some(0)]);
        assert_eq!(
            (wrong(&clocks), apart(&clocks)),
            (vec![false; 2], vec![false; 2])
        );
        assert_eq!(clocks[1].newest_ns, clocks[0].newest_ns);
    }

    #[test]
    fn offset_near_the_limit_changes_nothing_repeatedly() {
        let mut clocks = [Clock::default(); 2];
        for second in 0..60 {
            pass(
                &mut clocks,
                second..second + 1,
                &[
                    Some(0),
                    Some(if second % 20 < 10 { 21 } else { 18 } * SECOND / 10),
                ],
            );
            assert_eq!(wrong(&clocks), [false, true], "second {second}");
        }
    }

    #[test]
    fn replayed_recording_is_not_wrong() {
        let mut clocks = [Clock::default(); 2];
        pass(
            &mut clocks,
            0..30,
            &[Some(-86_400 * SECOND), Some(-86_400 * SECOND)],
        );
        assert_eq!(
            (wrong(&clocks), apart(&clocks)),
            (vec![false; 2], vec![false; 2])
        );
    }

    #[test]
    fn sampler_with_a_long_interval_and_late_records_is_right() {
        let mut clocks = [Clock::default(); 2];
        for second in 0..200_u64 {
            // The records of a slot arrive at its end, and the newest one is the last.
            pass(&mut clocks[..1], second..second + 1, &[Some(0)]);
            let at = Duration::from_secs(second);
            if second % 60 == 59 {
                for age in (0..60).rev() {
                    let wall_ns = (START + second as i64 * SECOND).unsigned_abs();
                    clocks[1].hear(
                        wall_ns - age * SECOND.unsigned_abs(),
                        Heard {
                            at,
                            wall_ns: Some(wall_ns),
                        },
                        Duration::from_secs(60),
                        Bounds::default(),
                    );
                }
            }
            let [one, two] = &mut clocks;
            judge(&mut [(one, INTERVAL), (two, Duration::from_secs(60))], at);
            assert_eq!(wrong(&clocks), [false, false], "second {second}");
        }
    }

    #[test]
    fn recordings_are_compared_with_each_other() {
        let mut clocks = [Clock::default(); 3];
        for (clock, end) in clocks.iter_mut().zip([1200, 0, 0]) {
            let heard = Heard {
                at: Duration::ZERO,
                wall_ns: None,
            };
            clock.hear(
                (START + end * SECOND).unsigned_abs(),
                heard,
                INTERVAL,
                Bounds::default(),
            );
        }
        let mut all: Vec<_> = clocks.iter_mut().map(|clock| (clock, INTERVAL)).collect();
        assert_eq!(
            judge(&mut all, Duration::from_secs(1)).1,
            [],
            "other recordings can be longer"
        );
        assert_eq!(
            judge(&mut all, Duration::from_secs(9)).1,
            [Judged {
                place: 0,
                is_reported: false
            }]
        );
        assert_eq!(
            judge(&mut all, Duration::from_secs(11)).1,
            [Judged {
                place: 0,
                is_reported: true
            }]
        );
        assert_eq!(apart(&clocks), [true, false, false]);
    }
}
