//! Finds a rail that became slower, and the host that makes it slower.
//!
//! In an all-reduce, the ports of a rail send in a ring, so a slow port slows its whole ring, and
//! all ports of the rail send less alike. Two observations remain:
//!
//! - **A rail against the others of the job**: the median of its ports falls, compared with the
//!   other rails and with the time before. This shows the rail, and not the host.
//! - **A switch port that waits for its host**: if the host accepts packets too slowly, the port
//!   of the leaf switch has data and no credit, and no other port of this kind does. This shows the
//!   host, also if all rails of the job became slower together.
//!
//! Each is judged over the last [`WINDOW`] steps, and by the spread of the same value over the job
//! or over the time before. The limits were chosen on the seeds 1 to 3 of `tests/rails.rs`.

use std::ops::Range;

use super::mean;

/// Steps that are judged together.
pub const WINDOW: usize = 5;

/// Steps before them with which a rail is compared: the min and the max number.
const BEFORE: Range<usize> = 30..120;

/// Smallest share by which a rail or a host is slower.
const LEAST: f64 = 0.06;

/// Standard deviations that a mean over the window must be away.
const DEVIATIONS: f64 = 5.5;

/// Links are hardly used, and not judged, below this share of their data rate.
const LEAST_USED: f64 = 0.05;

/// A rail is hardly used, and not judged, below this part of what the other rails use.
const LEAST_PART: f64 = 0.1;

/// Values of a port in each step, with `None` for unknown ones.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Index of the rail.
    pub rail: usize,
    /// Share of the data rate of its link that the host sent.
    pub sent: Vec<Option<f64>>,
    /// Share of the time with data for the host in which the switch port had no credit: see
    /// [`held_up`].
    pub held_up: Vec<Option<f64>>,
}

/// A rail that was slower for some steps.
#[derive(Clone, PartialEq, Debug)]
pub struct Slow {
    /// Index of the rail.
    pub rail: usize,
    /// Index of the port whose host accepts packets too slowly. `None` if no port waits for its
    /// host.
    pub port: Option<usize>,
    /// The steps.
    pub steps: Range<usize>,
    /// Share by which the rail sent less, compared with the other rails and the time before.
    pub slower: Option<f64>,
    /// Share of the time with data in which the switch port waited for the host, beyond what is
    /// usual.
    pub held_up: Option<f64>,
}

/// Returns the part of the time with data in which a port had no credit. A host that accepts
/// packets at 0.9 of the rate of its link holds up the port for 0.1 of this time, however much the
/// link is used. Returns `None` if the link is hardly used.
pub fn held_up(used: Option<f64>, blocked: Option<f64>) -> Option<f64> {
    let (used, blocked) = (used.filter(|used| *used >= LEAST_USED)?, blocked?);
    Some(blocked / (used + blocked))
}

/// Returns the slow rails of a job, in the order of their first steps.
pub fn find(ports: &[Series], rails: usize, steps: usize) -> Vec<Slow> {
    let mut found = waiting(ports, steps);
    for slow in falling(ports, rails, steps) {
        let is_same = |other: &&mut Slow| {
            other.rail == slow.rail
                && other.steps.start < slow.steps.end
                && slow.steps.start < other.steps.end
        };
        let mut same = found.iter_mut().filter(is_same).peekable();
        if same.peek().is_some() {
            same.for_each(|other| other.slower = slow.slower);
        } else {
            found.push(slow);
        }
    }
    found.sort_by_key(|slow| (slow.steps.start, slow.rail, slow.port));
    found
}

/// Finds the ports that wait for their hosts while the others do not.
fn waiting(ports: &[Series], steps: usize) -> Vec<Slow> {
    let medians: Vec<f64> = (0..steps)
        .map(|step| median(ports.iter().filter_map(|port| port.held_up[step])).unwrap_or(0.0))
        .collect();
    let course = |port: &Series| -> Course {
        let shares = port.held_up.iter().zip(&medians);
        shares
            .map(|(share, median)| Some((*share)? - median))
            .collect()
    };
    let courses: Vec<Course> = ports.iter().map(course).collect();
    let mut found = Vec::new();
    for (index, course) in courses.iter().enumerate() {
        let normal = |window: Range<usize>, now: f64| {
            // Most ports end here, which saves time.
            if now < LEAST {
                return None;
            }
            usual(&course[..window.start], 2).or_else(|| {
                let ports = courses.iter();
                let levels = ports.filter_map(|other| least_of(&other[window.clone()]));
                // Healthy ports differ for longer than a window.
                Some((0.0, 2.0 * spread(&levels.collect::<Vec<_>>())?.1))
            })
        };
        found.extend(
            episodes(course, least_of, normal)
                .into_iter()
                .map(|(steps, held_up)| Slow {
                    rail: ports[index].rail,
                    port: Some(index),
                    steps,
                    slower: None,
                    held_up: Some(held_up),
                }),
        );
    }
    found
}

/// Finds the rails whose ports send less than before, compared with the other rails.
fn falling(ports: &[Series], rails: usize, steps: usize) -> Vec<Slow> {
    // Logarithms of the median shares, so that an unequal use of the rails is a constant.
    let level = |rail: usize, step: usize| {
        let of_rail = ports.iter().filter(|port| port.rail == rail);
        let sent = of_rail.filter_map(|port| port.sent[step]);
        median(sent).filter(|sent| *sent > 0.0).map(f64::ln)
    };
    let levels: Vec<Course> = (0..rails)
        .map(|rail| (0..steps).map(|step| level(rail, step)).collect())
        .collect();
    let mut found = Vec::new();
    for (rail, levels_of_rail) in levels.iter().enumerate() {
        let below_others = |(step, level): (usize, &Option<f64>)| {
            let others = levels
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != rail);
            let others = median(others.filter_map(|(_, other)| other[step]))?;
            let below = others - (*level)?;
            (others >= LEAST_USED.ln() && below < -LEAST_PART.ln()).then_some(below)
        };
        let course: Course = levels_of_rail
            .iter()
            .enumerate()
            .map(below_others)
            .collect();
        let normal = |window: Range<usize>, _| usual(&course[..window.start], WINDOW);
        found.extend(
            episodes(&course, mean_of, normal)
                .into_iter()
                .map(|(steps, below)| Slow {
                    rail,
                    port: None,
                    steps,
                    slower: Some(1.0 - (-below).exp()),
                    held_up: None,
                }),
        );
    }
    found
}

/// Values that are larger if something is slower, with `None` for unknown ones.
type Course = Vec<Option<f64>>;

/// Returns the times in which the values were larger than usual, each with the mean by which they
/// were. `level` returns the level of a window, and `normal` what is usual before a window and the
/// standard deviation of a mean over a window; it is called with the window and its level.
fn episodes(
    course: &[Option<f64>],
    level: impl Fn(&[Option<f64>]) -> Option<f64>,
    normal: impl Fn(Range<usize>, f64) -> Option<(f64, f64)>,
) -> Vec<(Range<usize>, f64)> {
    // Each with what was usual at its begin, and the limit above it.
    let mut found: Vec<(Range<usize>, f64, f64)> = Vec::new();
    for end in WINDOW..=course.len() {
        let window = end - WINDOW..end;
        let Some(now) = level(&course[window.clone()]) else {
            continue;
        };
        if let Some((steps, usual, limit)) = found.last_mut()
            && steps.end >= window.start
            && now - *usual >= *limit / 2.0
        {
            steps.end = end;
            continue;
        }
        let Some((usual, deviation)) = normal(window.clone(), now) else {
            continue;
        };
        let limit = LEAST.max(DEVIATIONS * deviation);
        if now - usual >= limit {
            let is_slow =
                |step: &usize| course[*step].is_some_and(|value| value - usual >= limit / 2.0);
            let start = window.clone().find(is_slow).unwrap_or(window.start);
            found.push((start..end, usual, limit));
        }
    }
    let with_size = |(steps, usual, _): (Range<usize>, f64, f64)| {
        let known: Vec<f64> = course[steps.clone()].iter().flatten().copied().collect();
        (steps, mean(&known).unwrap_or(usual) - usual)
    };
    found.into_iter().map(with_size).collect()
}

/// Returns the mean of the last values, and the standard deviation of the difference between it
/// and a mean of `of` other values. The largest twentieth does not count, so that a burst does not
/// hide what follows it.
fn usual(course: &[Option<f64>], of: usize) -> Option<(f64, f64)> {
    let values = course[course.len().saturating_sub(BEFORE.end)..].iter();
    let mut values: Vec<f64> = values.flatten().copied().collect();
    values.sort_by(f64::total_cmp);
    values.truncate(values.len() - values.len() / 20);
    let (mean, deviation) = spread(&values).filter(|_| values.len() >= BEFORE.start)?;
    let part = 1.0 / of as f64 + 1.0 / values.len() as f64;
    Some((mean, deviation * part.sqrt()))
}

/// Returns the mean and the standard deviation.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let center = mean(values)?;
    let squares: Vec<f64> = values
        .iter()
        .map(|value| (value - center).powi(2))
        .collect();
    Some((center, mean(&squares)?.sqrt()))
}

/// Returns the mean of a window if at most one of its values is unknown.
fn mean_of(window: &[Option<f64>]) -> Option<f64> {
    mean(&known(window)?)
}

/// Returns the min of a window if at most one of its values is unknown: a burst of waiting is no
/// slow host.
fn least_of(window: &[Option<f64>]) -> Option<f64> {
    known(window)?.into_iter().reduce(f64::min)
}

fn known(window: &[Option<f64>]) -> Option<Vec<f64>> {
    let known: Vec<f64> = window.iter().flatten().copied().collect();
    (known.len() + 1 >= window.len()).then_some(known)
}

/// Returns the median; of an even number of values, the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let count = values.len();
    if count == 0 {
        return None;
    }
    let (below, middle, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    let below = below
        .iter()
        .copied()
        .reduce(f64::max)
        .filter(|_| count.is_multiple_of(2));
    Some(below.map_or(*middle, |below| (below + *middle) / 2.0))
}
