//! Estimates how much of the traffic of each link belongs to each job, from the paths of all pairs
//! of hosts.
//!
//! The model: in a bin of time, host `a` sends to host `b` about
//! `affinity(a, b) x sent(a) x received(b)`. What both hosts sent and received is measured. The
//! affinity is unknown but the same in all bins, because a job seldom changes its pattern; and the
//! traffic of a pair changes little from one bin to the next, because most transfers last longer
//! than a bin. The fit alternates between two steps:
//!
//! 1. In each bin, iterative proportional fitting scales the pairs until their sums agree with the
//!    measured rates of hosts and links. Of all traffic matrices that agree, it finds the one that
//!    is closest to the *prior* (in Kullback-Leibler divergence). The prior is the weighted
//!    geometric mean of `affinity x sent x received` and of the mean of the two neighbour bins
//!    ([`CONTINUITY`]). Source: Zhang, Roughan, Duffield and Greenberg, "Fast accurate computation
//!    of large-scale IP traffic matrices from link loads", SIGMETRICS 2003.
//! 2. The affinity of a pair becomes its traffic over all bins, divided by `sent x received` over
//!    all bins. This is the maximization step of the Poisson model of Vardi, "Network tomography",
//!    Journal of the American Statistical Association, 1996, with known rates of the hosts. The
//!    exponent [`SPARSITY`] prefers few pairs with much traffic to many pairs with little.
//!
//! The constants were tuned on random jobs, with the generator of `analysis/tests/sharing.rs` and
//! the seeds 1 to 4. That test measures the errors of the result with other seeds.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::bounds::{
    Bounds, CONTRADICTION, HostLoads, IDLE_GBPS, Limits, Most, NO_JOB, Owner, Parts, of_most,
};
use super::network::{LinkIndex, Network};
use super::reach::Reach;
use crate::routes::Routes;
use crate::routing::Paths;

/// Max number of pairs of hosts with possible traffic; more would need too much memory.
const MAX_PAIRS: usize = 1_000_000;

/// Rounds of both steps, and iterations of step 1 in each round.
const ROUNDS: (usize, usize) = (40, 4);

/// Weight of the neighbour bins in the logarithm of the prior, 0 to 1.
const CONTINUITY: f64 = 0.9;

/// Exponent that is applied to the affinities after each round. At 1 it has no effect; above 1 it
/// concentrates the traffic on fewer pairs.
const SPARSITY: f64 = 1.1;

/// Exponent that turns the correlation of two hosts into their initial affinity.
const CONTRAST: i32 = 2;

/// Initial affinity of hosts without a correlation, so that they can still get traffic.
const MIN_CORRELATION: f64 = 0.02;

/// Iterations of step 1 after the last round.
const LAST_ROUNDS: usize = 30;

/// Min traffic of a pair in the neighbour bins, in Gb/s, so that an idle pair can begin to send.
const MIN_NEIGHBOUR_GBPS: f64 = 1e-8;

/// Min affinity, so that a pair can recover after a bin in which it was idle.
const MIN_AFFINITY: f64 = 1e-6;

/// Rounds in which the bounds of the pairs are made narrower. More change them by less than 1 %.
const BOUND_ROUNDS: usize = 3;

/// The result of the fit.
pub(super) struct Fit {
    /// Shares of all owners in each bin.
    pub(super) parts: Vec<Parts>,
    pub(super) pairs: Vec<PairTotal>,
}

/// Traffic from one host to another, in Gb/s summed over all bins.
#[derive(Clone, Copy)]
pub(super) struct PairTotal {
    /// Indices of [`Network::hosts`].
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bounds: Bounds,
    pub(super) estimate: f64,
}

/// Pairs of hosts with possible traffic, and their paths.
struct Pairs {
    /// Sender, receiver, and range in `paths`.
    pairs: Vec<(u32, u32, (u32, u32))>,
    paths: Vec<LinkIndex>,
}

/// One bin.
struct Bin<'h> {
    number: u64,
    hosts: &'h HostLoads,
    loads: Vec<Option<f64>>,
    /// Index of a pair, and owner of its traffic in this bin. Pairs come in the order of their
    /// senders, and then of their receivers.
    members: Vec<(u32, Owner)>,
}

/// Returns the owner of traffic between hosts of two owners. `None` if they have different jobs:
/// the method assumes that hosts of different jobs do not exchange data.
fn owner(from: Owner, to: Owner) -> Option<Owner> {
    match (from, to) {
        (NO_JOB, to) => Some(to),
        (from, NO_JOB) => Some(from),
        (from, to) => (from == to).then_some(from),
    }
}

/// Computes the shares in all bins, and the traffic of all pairs of hosts, with forwarding tables.
/// Returns `None` if there are too many pairs of hosts.
pub(super) fn with_routes(
    network: &Network<'_>,
    loads: &[(u64, HostLoads)],
    routes: &Routes,
) -> Option<Fit> {
    let mut pairs = Pairs {
        pairs: Vec::new(),
        paths: Vec::new(),
    };
    let paths = Paths::new(&network.net, routes);
    let mut index: FxHashMap<(u32, u32), Option<u32>> = FxHashMap::default();
    let mut bins = Vec::new();
    for (number, hosts) in loads {
        bins.push(pairs.of_bin(network, &paths, *number, hosts, &mut index)?);
    }
    let reach = Reach::new(network, &paths)?;
    let mut affinity = pairs.correlation(loads);
    let mut fitted: Vec<Vec<f64>> = Vec::new();
    for _ in 0..ROUNDS.0 {
        fitted = (0..bins.len())
            .into_par_iter()
            .map(|at| {
                pairs.fit(
                    &bins[at],
                    pairs.prior(&bins, at, &affinity, &fitted),
                    ROUNDS.1,
                )
            })
            .collect();
        affinity = pairs.affinity(&bins, &fitted);
    }
    let fitted: Vec<Vec<f64>> = bins
        .par_iter()
        .zip(fitted)
        .map(|(bin, gbps)| pairs.fit(bin, gbps, LAST_ROUNDS))
        .collect();
    let parts: Vec<Parts> = bins
        .par_iter()
        .zip(&fitted)
        .map(|(bin, gbps)| pairs.parts(bin, gbps, network, &reach))
        .collect();
    let totals = pairs.totals(&bins, &fitted, &parts);
    Some(Fit {
        parts,
        pairs: totals,
    })
}

/// Returns values with the mean 0 and the sum of squares 1.
fn normalized(mut values: Vec<f64>) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter_mut().for_each(|value| *value -= mean);
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values
        .iter_mut()
        .for_each(|value| *value = if length > 0.0 { *value / length } else { 0.0 });
    values
}

impl Pairs {
    fn path(&self, pair: u32) -> &[LinkIndex] {
        let (from, to) = self.pairs[pair as usize].2;
        &self.paths[from as usize..to as usize]
    }

    /// Finds the pairs with possible traffic in a bin. Returns `None` if there are too many.
    fn of_bin<'h>(
        &mut self,
        network: &Network<'_>,
        paths: &Paths<'_>,
        number: u64,
        hosts: &'h HostLoads,
        index: &mut FxHashMap<(u32, u32), Option<u32>>,
    ) -> Option<Bin<'h>> {
        let loads: Vec<Option<f64>> = (0..network.net.channels().len() as LinkIndex)
            .map(|link| network.load(link, number))
            .collect();
        let active = |gbps: &[f64]| -> Vec<u32> {
            (0..gbps.len() as u32)
                .filter(|host| gbps[*host as usize] > IDLE_GBPS)
                .collect()
        };
        let (senders, receivers) = (active(&hosts.sends), active(&hosts.receives));
        let mut members = Vec::new();
        for from in senders {
            for to in receivers.iter().copied().filter(|to| *to != from) {
                let Some(owner) = owner(hosts.owners[from as usize], hosts.owners[to as usize])
                else {
                    continue;
                };
                let pair = *index.entry((from, to)).or_insert_with(|| {
                    let start = self.paths.len() as u32;
                    network
                        .path(from as usize, to as usize, paths, &mut self.paths)
                        .then(|| {
                            self.pairs
                                .push((from, to, (start, self.paths.len() as u32)));
                            self.pairs.len() as u32 - 1
                        })
                });
                if self.pairs.len() > MAX_PAIRS {
                    return None;
                }
                // A link without traffic excludes the pair.
                let is_possible = |pair: u32| {
                    !self
                        .path(pair)
                        .iter()
                        .any(|link| loads[*link as usize].is_some_and(|load| load < IDLE_GBPS))
                };
                members.extend(
                    pair.filter(|pair| is_possible(*pair))
                        .map(|pair| (pair, owner)),
                );
            }
        }
        Some(Bin {
            number,
            hosts,
            loads,
            members,
        })
    }

    /// Returns the product of the rates of both hosts of a pair.
    fn gravity(&self, pair: u32, hosts: &HostLoads) -> f64 {
        let (from, to, _) = self.pairs[pair as usize];
        hosts.sends[from as usize] * hosts.receives[to as usize]
    }

    /// Returns the prior of each pair of a bin, in Gb/s. `fitted` has the result of the round
    /// before; it is empty in the first round.
    fn prior(
        &self,
        bins: &[Bin<'_>],
        at: usize,
        affinity: &[f64],
        fitted: &[Vec<f64>],
    ) -> Vec<f64> {
        let bin = &bins[at];
        let mut gbps: Vec<f64> = bin
            .members
            .iter()
            .map(|(pair, _)| affinity[*pair as usize] * self.gravity(*pair, bin.hosts))
            .collect();
        let is_neighbour = |other: &usize| {
            bins.get(*other)
                .is_some_and(|other| other.number.abs_diff(bin.number) == 1)
        };
        let neighbours: Vec<usize> = [at.wrapping_sub(1), at + 1]
            .into_iter()
            .filter(is_neighbour)
            .collect();
        if fitted.is_empty() || neighbours.is_empty() {
            return gbps;
        }
        let mut near = vec![0.0; gbps.len()];
        for other in &neighbours {
            self.add(&mut near, bin, &bins[*other], &fitted[*other]);
        }
        for (gbps, near) in gbps.iter_mut().zip(near) {
            let near = (near / neighbours.len() as f64).max(MIN_NEIGHBOUR_GBPS);
            *gbps = ((1.0 - CONTINUITY) * gbps.ln() + CONTINUITY * near.ln()).exp();
        }
        gbps
    }

    /// Adds the traffic of the members of another bin to those of the same pairs.
    fn add(&self, sums: &mut [f64], bin: &Bin<'_>, other: &Bin<'_>, gbps: &[f64]) {
        let place = |(pair, _): &(u32, Owner)| {
            let (from, to, _) = self.pairs[*pair as usize];
            (from, to)
        };
        // The members of both bins are in the same order.
        let mut others = other.members.iter().map(place).zip(gbps).peekable();
        for (member, sum) in bin.members.iter().map(place).zip(sums) {
            while others.next_if(|(other, _)| *other < member).is_some() {}
            *sum += others
                .next_if(|(other, _)| *other == member)
                .map_or(0.0, |(_, gbps)| *gbps);
        }
    }

    /// Fits the traffic of the pairs to the rates of a bin, in Gb/s of each member.
    fn fit(&self, bin: &Bin<'_>, mut gbps: Vec<f64>, rounds: usize) -> Vec<f64> {
        let mut sums = vec![0.0; bin.hosts.sends.len()];
        let mut links = vec![0.0; bin.loads.len()];
        let ratio = |measured: f64, sum: f64| if sum > 0.0 { measured / sum } else { 1.0 };
        for _ in 0..rounds {
            for is_sender in [true, false] {
                let measured = if is_sender {
                    &bin.hosts.sends
                } else {
                    &bin.hosts.receives
                };
                let place = |pair: u32| {
                    let (from, to, _) = self.pairs[pair as usize];
                    (if is_sender { from } else { to }) as usize
                };
                sums.fill(0.0);
                bin.members
                    .iter()
                    .zip(&gbps)
                    .for_each(|((pair, _), gbps)| sums[place(*pair)] += gbps);
                let factors: Vec<f64> = measured
                    .iter()
                    .zip(&sums)
                    .map(|(measured, sum)| ratio(*measured, *sum))
                    .collect();
                for ((pair, _), gbps) in bin.members.iter().zip(&mut gbps) {
                    *gbps *= factors[place(*pair)];
                }
            }
            links.fill(0.0);
            for ((pair, _), gbps) in bin.members.iter().zip(&gbps) {
                self.path(*pair)
                    .iter()
                    .for_each(|link| links[*link as usize] += gbps);
            }
            let logs: Vec<Option<f64>> = bin
                .loads
                .iter()
                .zip(&links)
                .map(|(load, sum)| Some(ratio((*load)?, *sum).max(1e-9).ln()))
                .collect();
            for ((pair, _), gbps) in bin.members.iter().zip(&mut gbps) {
                // The links of a path are not independent. The geometric mean does not overshoot.
                let path = self.path(*pair);
                let sum: f64 = path.iter().filter_map(|link| logs[*link as usize]).sum();
                *gbps *= (sum / path.len().max(1) as f64).exp();
            }
        }
        gbps
    }

    /// Returns the initial affinity of each pair. It comes from the changes from bin to bin, which
    /// show where transfers begin and end: what one host sends is correlated with what the other
    /// receives.
    fn correlation(&self, loads: &[(u64, HostLoads)]) -> Vec<f64> {
        let series = |rate: fn(&HostLoads) -> &[f64]| -> Vec<Vec<f64>> {
            let hosts = loads.first().map_or(0, |(_, hosts)| rate(hosts).len());
            let series = |host: usize| {
                loads
                    .iter()
                    .map(|(_, hosts)| rate(hosts)[host])
                    .collect::<Vec<f64>>()
            };
            (0..hosts).map(series).collect()
        };
        let series = |rate| {
            series(rate)
                .into_iter()
                .map(|rates| normalized(rates.windows(2).map(|two| two[1] - two[0]).collect()))
                .collect::<Vec<_>>()
        };
        let (sends, receives) = (
            series(|hosts| &hosts.sends),
            series(|hosts| &hosts.receives),
        );
        let correlation = |from: u32, to: u32| {
            sends[from as usize]
                .iter()
                .zip(&receives[to as usize])
                .map(|(a, b)| a * b)
                .sum::<f64>()
        };
        self.pairs
            .iter()
            .map(|(from, to, _)| correlation(*from, *to).max(0.0).powi(CONTRAST) + MIN_CORRELATION)
            .collect()
    }

    /// Returns the affinity of each pair over all bins.
    fn affinity(&self, bins: &[Bin<'_>], fitted: &[Vec<f64>]) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.pairs.len()];
        for (bin, gbps) in bins.iter().zip(fitted) {
            for ((pair, _), gbps) in bin.members.iter().zip(gbps) {
                let (traffic, gravity) = &mut sums[*pair as usize];
                *traffic += gbps;
                *gravity += self.gravity(*pair, bin.hosts);
            }
        }
        let ratio = |(traffic, gravity): (f64, f64)| {
            if gravity > 0.0 {
                traffic / gravity
            } else {
                0.0
            }
        };
        let plain: Vec<f64> = sums.into_iter().map(ratio).collect();
        let sparse: Vec<f64> = plain
            .iter()
            .map(|affinity| affinity.powf(SPARSITY))
            .collect();
        // The mean stays the same.
        let (mean, sparse_mean) = (plain.iter().sum::<f64>(), sparse.iter().sum::<f64>());
        let scale = if sparse_mean > 0.0 {
            mean / sparse_mean
        } else {
            1.0
        };
        sparse
            .into_iter()
            .map(|affinity| (affinity * scale).max(MIN_AFFINITY))
            .collect()
    }

    /// Returns the bounds and the estimate of each owner on each link. The estimate is scaled to
    /// the load of the link, and limited by the bounds.
    fn parts(&self, bin: &Bin<'_>, gbps: &[f64], network: &Network<'_>, reach: &Reach) -> Parts {
        let mut parts = Parts::default();
        let mut apart: FxHashMap<LinkIndex, Most> = FxHashMap::default();
        for ((link, owner), Limits { sent, received }) in self.limits(bin) {
            apart
                .entry(link)
                .or_default()
                .insert(owner, sent.min(received));
        }
        let mut sums: FxHashMap<(LinkIndex, Owner), f64> = FxHashMap::default();
        for ((pair, owner), gbps) in bin.members.iter().zip(gbps) {
            for link in self.path(*pair) {
                *sums.entry((*link, *owner)).or_default() += gbps;
            }
        }
        let none = Most::default();
        for (link, load) in (0..).zip(&bin.loads) {
            let Some(load) = load.filter(|load| *load > IDLE_GBPS) else {
                continue;
            };
            let sum = |owner: Owner| sums.get(&(link, owner)).copied().unwrap_or(0.0);
            let mut owners = of_most(
                &reach.most(link, bin.hosts),
                apart.get(&link).unwrap_or(&none),
                load,
            );
            let modelled: f64 = owners.iter().map(|(owner, _)| sum(*owner)).sum();
            for (owner, part) in owners.iter_mut().filter(|_| modelled > 0.0) {
                part.estimate =
                    Some((sum(*owner) * load / modelled).clamp(part.apart.least, part.apart.most));
            }
            parts.by_link.insert(link, owners);
            if network.is_between_switches(link) {
                parts.measured += load;
                parts.unexplained += (load - modelled).abs();
            }
        }
        if parts.unexplained > CONTRADICTION * parts.measured {
            parts
                .by_link
                .values_mut()
                .flatten()
                .for_each(|(_, part)| part.apart = part.always);
            parts.is_contradicted = true;
        }
        parts
    }

    /// Returns what the hosts of each owner sent and received, over the pairs that use each link.
    fn limits(&self, bin: &Bin<'_>) -> FxHashMap<(LinkIndex, Owner), Limits> {
        let mut limits: FxHashMap<(LinkIndex, Owner), Limits> = FxHashMap::default();
        // The last host that was added to a link. The members are grouped by this host.
        let mut last: FxHashMap<(LinkIndex, Owner), u32> = FxHashMap::default();
        for (pair, owner) in &bin.members {
            let from = self.pairs[*pair as usize].0;
            for link in self.path(*pair) {
                if last.insert((*link, *owner), from) != Some(from) {
                    limits.entry((*link, *owner)).or_default().sent +=
                        bin.hosts.sends[from as usize];
                }
            }
        }
        last.clear();
        let mut by_receiver = bin.members.clone();
        by_receiver.sort_by_key(|(pair, _)| self.pairs[*pair as usize].1);
        for (pair, owner) in by_receiver {
            let to = self.pairs[pair as usize].1;
            for link in self.path(pair) {
                if last.insert((*link, owner), to) != Some(to) {
                    limits.entry((*link, owner)).or_default().received +=
                        bin.hosts.receives[to as usize];
                }
            }
        }
        limits
    }

    /// Returns the traffic of the pairs over all bins. The estimate is limited by the bounds.
    fn totals(&self, bins: &[Bin<'_>], fitted: &[Vec<f64>], parts: &[Parts]) -> Vec<PairTotal> {
        let total = |(from, to, _): &(u32, u32, _)| PairTotal {
            from: *from,
            to: *to,
            bounds: Bounds::default(),
            estimate: 0.0,
        };
        let mut totals: Vec<PairTotal> = self.pairs.iter().map(total).collect();
        let bounds: Vec<Vec<Bounds>> = bins
            .par_iter()
            .zip(parts)
            .map(|(bin, parts)| self.bounds(bin, parts.is_contradicted))
            .collect();
        for ((bin, gbps), bounds) in bins.iter().zip(fitted).zip(bounds) {
            for (((pair, _), gbps), Bounds { least, most }) in
                bin.members.iter().zip(gbps).zip(bounds)
            {
                let total = &mut totals[*pair as usize];
                total.bounds.least += least;
                total.bounds.most += most;
                total.estimate += gbps.clamp(least, most);
            }
        }
        totals
    }

    /// Returns the bounds of the traffic of each member of a bin, in Gb/s. A pair sends at most
    /// what each of its counters shows (those of the sender, the receiver and the links of its
    /// path) less what the other pairs of this counter send at least; and at least what a counter
    /// shows less what the other pairs send at most. Each round starts from the bounds of the round
    /// before. If hosts of different jobs exchange data, only the counters themselves are bounds.
    fn bounds(&self, bin: &Bin<'_>, is_contradicted: bool) -> Vec<Bounds> {
        let hosts = bin.hosts.sends.len();
        let links = bin.loads.iter().copied();
        let measured: Vec<Option<f64>> = [&bin.hosts.sends, &bin.hosts.receives]
            .into_iter()
            .flatten()
            .map(|gbps| Some(*gbps))
            .chain(links)
            .collect();
        let counters = |pair: u32| {
            let (from, to, _) = self.pairs[pair as usize];
            let path = self
                .path(pair)
                .iter()
                .map(|link| 2 * hosts + *link as usize);
            [from as usize, hosts + to as usize]
                .into_iter()
                .chain(path)
                .filter_map(|counter| Some((counter, measured[counter]?)))
        };
        // The counters of two ports are not read at the same instant.
        let (low, high) = (1.0 - CONTRADICTION, 1.0 + CONTRADICTION);
        let of_counters = |(pair, _): &(u32, Owner)| Bounds {
            least: 0.0,
            most: counters(*pair)
                .map(|(_, gbps)| gbps)
                .fold(f64::MAX, f64::min)
                * high,
        };
        let widest: Vec<Bounds> = bin.members.iter().map(of_counters).collect();
        let mut bounds = widest.clone();
        let rounds = if is_contradicted { 0 } else { BOUND_ROUNDS };
        for _ in 0..rounds {
            let mut sums = vec![Bounds::default(); measured.len()];
            for ((pair, _), bounds) in bin.members.iter().zip(&bounds) {
                for (counter, _) in counters(*pair) {
                    sums[counter].least += bounds.least;
                    sums[counter].most += bounds.most;
                }
            }
            for ((pair, _), bounds) in bin.members.iter().zip(&mut bounds) {
                let before = *bounds;
                for (counter, gbps) in counters(*pair) {
                    let sum = sums[counter];
                    let least = gbps * low - (sum.most - before.most);
                    let most = gbps * high - (sum.least - before.least);
                    bounds.least = bounds.least.max(least);
                    bounds.most = bounds.most.min(most);
                }
            }
            if bounds.iter().any(|bounds| bounds.least > bounds.most) {
                return widest;
            }
        }
        bounds
    }
}
