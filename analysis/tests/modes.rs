//! Error rates of the search for modes and for their causes, on synthetic values whose number of
//! modes and whose cause are known. All seeds are fixed. `docs/viewing.md` states the rates;
//! `cargo test -p ibnet-analysis --test modes -- --nocapture` prints them.

use std::collections::BTreeMap;

use fastrand::Rng;
use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::grouping::{By, MIN_SCORE, Separation};
use ibnet_analysis::latency::modes::modes;

/// Returns a normally distributed number (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

fn sample(count: usize, mut value: impl FnMut() -> f64) -> Distribution {
    let mut values = Distribution::default();
    (0..count).for_each(|_| values.record(value() as u64));
    values
}

/// Distributions with one mode, on a linear and on a logarithmic scale. Values in nanoseconds.
type Shape = (&'static str, fn(&mut Rng) -> f64);
const ONE_MODE: [Shape; 8] = [
    ("normal", |rng| 60_000.0 + 5_000.0 * normal(rng)),
    ("narrow", |rng| 60_000.0 + 100.0 * normal(rng)),
    ("lognormal", |rng| 60_000.0 * (0.4 * normal(rng)).exp()),
    ("uniform", |rng| 20_000.0 + 80_000.0 * rng.f64()),
    ("exponential with offset", |rng| {
        20_000.0 + 15_000.0 * exponential(rng)
    }),
    ("gamma", |rng| {
        20_000.0 * (exponential(rng) + exponential(rng) + exponential(rng))
    }),
    ("two sided exponential", |rng| {
        60_000.0 * (0.2 * (exponential(rng) - exponential(rng))).exp()
    }),
    ("lognormal with heavy tail", |rng| {
        let tail = if rng.f64() < 0.05 {
            exponential(rng)
        } else {
            0.0
        };
        60_000.0 * (0.1 * normal(rng).abs() + tail).exp()
    }),
];

#[test]
fn one_mode_is_seldom_taken_for_two() {
    const SETS: usize = 50;
    let mut rng = Rng::with_seed(1);
    let (mut wrong, mut all) = (0, 0);
    for (name, value) in ONE_MODE {
        for count in [200, 2_000, 20_000] {
            for bins in [Bins::LOG, Bins::Fixed { width: None }] {
                let found = (0..SETS)
                    .filter(|_| modes(&sample(count, || value(&mut rng)), bins).len() != 1)
                    .count();
                if found > 0 {
                    println!(
                        "{name}, {count} values, {bins:?}: {found} of {SETS} have another number of modes"
                    );
                }
                wrong += found;
                all += SETS;
            }
        }
    }
    println!("one mode: {wrong} of {all} wrong");
    assert!(
        wrong * 200 <= all,
        "false positives: {wrong} of {all}, more than 0.5 %"
    );
}

/// Standard deviation of a mode, in natural logarithms.
const SPREAD: f64 = 0.1;

#[test]
fn several_modes_are_found_at_their_places() {
    const SETS: usize = 20;
    let mut rng = Rng::with_seed(2);
    for (distance, share, count, least) in [
        (3.0, 0.5, 2_000, 18),
        (3.0, 0.5, 20_000, 20),
        (4.0, 0.5, 200, 15),
        (4.0, 0.5, 2_000, 20),
        (4.0, 0.2, 2_000, 2),
        (4.0, 0.2, 20_000, 20),
        (6.0, 0.5, 200, 20),
        (6.0, 0.2, 200, 5),
        (6.0, 0.2, 2_000, 20),
        (6.0, 0.05, 2_000, 0),
        (6.0, 0.05, 20_000, 20),
        (8.0, 0.02, 50_000, 20),
    ] {
        let places = [50_000.0, 50_000.0 * (distance * SPREAD).exp()];
        let right = |rng: &mut Rng| {
            let values = sample(count, || {
                places[usize::from(rng.f64() < share)] * (SPREAD * normal(rng)).exp()
            });
            let found = modes(&values, Bins::LOG);
            found.len() == 2
                && found
                    .iter()
                    .zip(places)
                    .all(|(mode, place)| (mode.at / place).ln().abs() < SPREAD)
        };
        let found = (0..SETS).filter(|_| right(&mut rng)).count();
        println!(
            "two modes, {distance} standard deviations apart, {share} in the smaller one, {count} values: {found} of {SETS} right"
        );
        assert!(found >= least, "{found} of {SETS}");
    }
    // Two close modes and a distant one need kernels of different widths.
    let places = [50_000.0, 52_000.0, 2_000_000.0];
    let three = |rng: &mut Rng| {
        modes(
            &sample(6_000, || {
                places[rng.usize(0..3)] * (0.008 * normal(rng)).exp()
            }),
            Bins::LOG,
        )
        .len()
            == 3
    };
    let found = (0..SETS).filter(|_| three(&mut rng)).count();
    println!("three modes: {found} of {SETS} right");
    assert_eq!(found, SETS);
}

/// The groupings of the synthetic fabric.
const GROUPINGS: [By; 5] = [By::Kind, By::Hops, By::Sampler, By::Switch, By::Device];

/// A device of a synthetic fabric, in the order of [`GROUPINGS`] without the device.
#[derive(Clone, Copy)]
struct Device {
    groups: [usize; 4],
    is_slow: bool,
}

/// Cause of the modes: a grouping, or none.
fn mode_of(device: Device, cause: Option<By>, rng: &mut Rng) -> usize {
    let expected = match cause {
        None => return rng.usize(0..2),
        Some(By::Kind) => device.groups[0],
        Some(By::Hops) => usize::from(device.groups[1] == 2),
        Some(By::Sampler) => usize::from(device.groups[2] == 1),
        Some(By::Switch) => usize::from(device.groups[3] < 8),
        Some(_) => usize::from(device.is_slow),
    };
    // 5 % of the values are in the other mode.
    if rng.f64() < 0.05 {
        1 - expected
    } else {
        expected
    }
}

#[test]
fn grouping_that_causes_the_modes_is_the_best_one() {
    const SETS: usize = 50;
    let mut rng = Rng::with_seed(3);
    for cause in GROUPINGS.map(Some).into_iter().chain([None]) {
        let mut right = 0;
        for _ in 0..SETS {
            let devices: Vec<Device> = (0..150)
                .map(|device| Device {
                    groups: [
                        usize::from(rng.f64() < 0.25),
                        rng.usize(0..4),
                        rng.usize(0..8),
                        rng.usize(0..24),
                    ],
                    // At least one, and a tenth of all.
                    is_slow: device == 0 || rng.f64() < 0.1,
                })
                .collect();
            let mut groups: [BTreeMap<usize, Distribution>; 5] = Default::default();
            let mut all = Distribution::default();
            for _ in 0..12_000 {
                let index = rng.usize(0..devices.len());
                let mode = mode_of(devices[index], cause, &mut rng);
                let ns = ([65_000.0, 150_000.0][mode] * (0.15 * normal(&mut rng)).exp()) as u64;
                all.record(ns);
                let [kind, hops, sampler, switch] = devices[index].groups;
                for (group, key) in groups.iter_mut().zip([kind, hops, sampler, switch, index]) {
                    group.entry(key).or_default().record(ns);
                }
            }
            let modes = modes(&all, Bins::LOG);
            assert_eq!(modes.len(), 2, "{cause:?}");
            let scores = GROUPINGS.iter().zip(&groups).map(|(by, groups)| {
                Separation::of(*by, &groups.values().collect::<Vec<_>>(), &modes)
            });
            let best = scores
                .max_by(|a, b| a.score.total_cmp(&b.score))
                .expect("there are groupings");
            right += usize::from(Some(best.by).filter(|_| best.score >= MIN_SCORE) == cause);
        }
        let name = cause.map_or("none", By::as_str);
        println!("cause {name}: {right} of {SETS} right");
        assert!(right * 50 >= SETS * 49, "cause {name}: {right} of {SETS}");
    }
}
