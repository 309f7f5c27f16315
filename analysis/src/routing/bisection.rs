//! Effective bisection bandwidth: what hosts can send to each other if half of them send to the
//! other half, in the mean over random bisections and the routes of the tables (Hoefler, Schneider
//! and Lumsdaine, "Multistage switches are not crossbars", CLUSTER 2008).

use rayon::prelude::*;

use super::net::{ChannelIndex, DeviceIndex};
use super::paths::Paths;

/// Patterns that are computed before the error is looked at.
const BATCH: u64 = 64;
/// Min number of patterns.
const FEWEST: usize = 256;
/// Max number of patterns.
const MOST: usize = 100_000;
/// The mean is known well enough if its standard error is at most this part of it.
const ENOUGH: f64 = 0.002;

/// The effective bisection bandwidth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bisection {
    /// Mean data rate of a sender, as a share of that of its own link, 0 to 1.
    pub share: f64,
    /// Standard error of the mean.
    pub error: f64,
    /// Number of random patterns.
    pub patterns: usize,
}

/// Computes the effective bisection bandwidth of all hosts. In each pattern, every host of a random
/// half sends to another host of the other half. A flow gets an equal part of each link of its
/// path; the link with the smallest part decides. A pair without a path gets nothing.
///
/// Returns `None` with fewer than two hosts.
pub fn bisection(paths: &Paths<'_>, seed: u64) -> Option<Bisection> {
    let hosts = paths.hosts();
    if hosts.len() < 2 {
        return None;
    }
    let mut shares: Vec<f64> = Vec::new();
    loop {
        let first = shares.len() as u64;
        let of_pattern = |pattern: u64| {
            let mut rng = fastrand::Rng::with_seed(seed ^ pattern.wrapping_mul(PRIME));
            let mut hosts = hosts.clone();
            rng.shuffle(&mut hosts);
            share_of(paths, &hosts)
        };
        let batch = (first..first + BATCH).into_par_iter().map(of_pattern);
        shares.extend(batch.collect::<Vec<_>>());
        let count = shares.len() as f64;
        let share = shares.iter().sum::<f64>() / count;
        let squares: f64 = shares.iter().map(|one| (one - share).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let is_enough = shares.len() >= FEWEST && error <= ENOUGH * share;
        if is_enough || shares.len() >= MOST {
            return Some(Bisection {
                share,
                error,
                patterns: shares.len(),
            });
        }
    }
}

/// Makes the seeds of the patterns differ.
const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the mean share of a pattern, in which the first host sends to the second, the third to
/// the fourth, and so on. The last of an odd number of hosts does not take part.
fn share_of(paths: &Paths<'_>, hosts: &[DeviceIndex]) -> f64 {
    let mut flows = vec![0_u32; paths.net.channels().len()];
    let (mut links, mut ends): (Vec<ChannelIndex>, Vec<usize>) = (Vec::new(), vec![0]);
    for pair in hosts.chunks_exact(2) {
        let start = links.len();
        if paths.trace(pair[0], pair[1], &mut links).is_err() {
            links.truncate(start);
        }
        links[start..]
            .iter()
            .for_each(|link| flows[*link as usize] += 1);
        ends.push(links.len());
    }
    let share = |path: &[ChannelIndex]| {
        let rate = |link: &ChannelIndex| paths.net.channel(*link).gbps;
        let own = path.first().and_then(rate);
        let of_link = |link: &ChannelIndex| {
            let relative = rate(link).zip(own).map_or(1.0, |(rate, own)| rate / own);
            relative / f64::from(flows[*link as usize])
        };
        path.iter()
            .map(of_link)
            .reduce(f64::min)
            .map_or(0.0, |share| share.min(1.0))
    };
    let all: f64 = ends
        .windows(2)
        .map(|ends| share(&links[ends[0]..ends[1]]))
        .sum();
    all / (ends.len() - 1) as f64
}
