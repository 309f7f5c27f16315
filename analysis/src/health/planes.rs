//! Compares the planes of one port (XDR): one of them can be down, or carry less than the others.
//!
//! A device distributes the packets of a port over its planes, so healthy planes carry the same.
//! The rule was tested with this model of jitter: each message of up to 4 MiB takes a random plane,
//! the planes are read up to 200 ms apart, and the traffic begins or ends at any time. What a plane
//! can carry between the readings of two planes is no difference. How real devices distribute
//! packets is not public, and no value was compared with one.

use std::collections::BTreeMap;

use ibnet_record::physical::ReadValues;
use serde::{Deserialize, Serialize};

/// Min time over which planes are compared.
pub const MIN_NS: u64 = 60_000_000_000;

/// Share of the link's data rate, in one direction, from which on planes are compared.
pub const MIN_USE: f64 = 0.05;

/// A plane with a fault carries this share less than the mean of the others, or even less.
pub const LESS: f64 = 0.1;

/// States of a plane that is up: active, and up before subnet management.
const UP: [u64; 2] = [3, 5];

/// One reading of one plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlaneReading {
    /// Time of the reading, in nanoseconds since 1970.
    pub ts: u64,
    /// Number of planes of the port.
    pub planes: u64,
    /// Number of the plane, from 1.
    pub plane: u64,
    /// State of the plane.
    pub state: Option<u64>,
    /// Transmitted and received bytes.
    pub bytes: Option<[u64; 2]>,
}

impl PlaneReading {
    /// Returns whether the plane is up. `None` if its state was not read.
    pub fn is_up(&self) -> Option<bool> {
        self.state.map(|state| UP.contains(&state))
    }

    /// Returns the sent and received bytes per second since an earlier reading. `None` if they were
    /// not read, or if the counters were reset.
    pub fn rates_since(&self, before: &Self) -> Option<[f64; 2]> {
        let seconds = self.ts.checked_sub(before.ts).filter(|ns| *ns > 0)? as f64 / 1e9;
        let (now, before) = (self.bytes?, before.bytes?);
        let [sent, received] = [0, 1].map(|place| now[place].checked_sub(before[place]));
        Some([sent? as f64 / seconds, received? as f64 / seconds])
    }

    /// Reads a `planes` record. `None` if it does not name its plane.
    pub fn of(ts: u64, values: &ReadValues) -> Option<Self> {
        let number = |name: &str| values.get(name)?.integer();
        let bytes = ["port_xmit_data_bytes", "port_rcv_data_bytes"].map(number);
        Some(Self {
            ts,
            planes: number("planes")?,
            plane: number("plane")?,
            state: number("phy_mngr_fsm_state"),
            bytes: bytes[0].zip(bytes[1]).map(<[u64; 2]>::from),
        })
    }
}

/// What is wrong with a plane.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Fault {
    /// It is down, and another one is up. This is its state.
    Down(u64),
    /// It carries this share less than the mean of the others.
    Less(f64),
}

/// Readings of the planes of a port at about the same time.
type Set = BTreeMap<u64, PlaneReading>;

/// The planes of one port, from all readings so far.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Planes {
    /// The set at the start of the window, and the newest one.
    start: Set,
    now: Set,
    /// Planes that carry less, as the last comparison found.
    less: BTreeMap<u64, f64>,
    faults: Vec<(u64, Fault)>,
}

impl Planes {
    /// Adds a reading. `bytes_per_second` is the data rate of the link.
    pub fn add(&mut self, reading: PlaneReading, bytes_per_second: Option<f64>) {
        if self.now.contains_key(&reading.plane) {
            // A plane that was not answered is missing in the set.
            self.compare(bytes_per_second);
            self.now.clear();
        }
        self.now.insert(reading.plane, reading);
        if self.now.len() as u64 >= reading.planes {
            self.compare(bytes_per_second);
        }
    }

    /// Returns the planes with a fault, as the newest complete set of readings shows them.
    pub fn faults(&self) -> &[(u64, Fault)] {
        &self.faults
    }

    fn compare(&mut self, bytes_per_second: Option<f64>) {
        self.compare_traffic(bytes_per_second);
        let is_up = |reading: &PlaneReading| reading.is_up() == Some(true);
        let one_is_up = self.now.values().any(is_up);
        let down = |reading: &PlaneReading| match reading.state {
            Some(state) if one_is_up && !is_up(reading) => Some(Fault::Down(state)),
            _ => None,
        };
        let fault = |reading: &PlaneReading| {
            let less = self.less.get(&reading.plane).copied().map(Fault::Less);
            Some((reading.plane, down(reading).or(less)?))
        };
        self.faults = self.now.values().filter_map(fault).collect();
    }

    /// Compares the planes over the window, if it is long enough, and starts the next one.
    fn compare_traffic(&mut self, bytes_per_second: Option<f64>) {
        let pairs = || {
            let both = self.now.values();
            both.filter_map(|now| Some((self.start.get(&now.plane)?, now)))
        };
        let spread = |ts: &dyn Fn((&PlaneReading, &PlaneReading)) -> u64| {
            let times = || pairs().map(ts);
            Some(times().max()? - times().min()?)
        };
        let length = pairs()
            .map(|(start, now)| now.ts.saturating_sub(start.ts))
            .min();
        let (Some(length), Some(at_start), Some(at_end)) = (
            length,
            spread(&|(start, _)| start.ts),
            spread(&|(_, now)| now.ts),
        ) else {
            self.start = self.now.clone();
            return;
        };
        if length < MIN_NS {
            return;
        }
        let apart = at_start.max(at_end) as f64 / 1e9;
        let seconds = length as f64 / 1e9;
        let mut less = BTreeMap::new();
        for direction in [0, 1] {
            let carried = pairs().filter_map(|(start, now)| {
                let [start, bytes] = [start.bytes?, now.bytes?].map(|bytes| bytes[direction]);
                Some((now.plane, bytes.checked_sub(start)? as f64))
            });
            let carried: Vec<(u64, f64)> = carried.collect();
            let Some(rate) = bytes_per_second.filter(|_| carried.len() > 1) else {
                continue;
            };
            let planes = self.now.values().map(|reading| reading.planes).max();
            let most = apart * rate / planes.unwrap_or(1) as f64;
            let sum: f64 = carried.iter().map(|(_, bytes)| bytes).sum();
            if sum < MIN_USE * rate * seconds {
                continue;
            }
            for (plane, bytes) in carried.iter().copied() {
                let mean = (sum - bytes) / (carried.len() - 1) as f64;
                if bytes + most <= (1.0 - LESS) * mean {
                    let share = less.entry(plane).or_insert(0.0_f64);
                    *share = share.max(1.0 - bytes / mean);
                }
            }
        }
        self.less = less;
        self.start = self.now.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data rate of 4xXDR in bytes per second.
    const RATE: f64 = 100e9;
    const SECOND: u64 = 1_000_000_000;

    fn reading(ts: u64, plane: u64, bytes: u64) -> PlaneReading {
        PlaneReading {
            ts,
            planes: 4,
            plane,
            state: Some(3),
            bytes: Some([bytes, 0]),
        }
    }

    /// The faults after two sets of readings, `seconds` apart, in which the planes carry so much.
    fn found(seconds: f64, carried: [f64; 4]) -> Vec<(u64, Fault)> {
        let mut planes = Planes::default();
        for (ts, share) in [(0, 0.0), ((seconds * 1e9) as u64, 1.0)] {
            for (plane, bytes) in (1..).zip(carried) {
                let bytes = (bytes * share) as u64;
                planes.add(reading(7 * SECOND + ts, plane, bytes), Some(RATE));
            }
        }
        planes.faults().to_vec()
    }

    #[test]
    fn plane_is_slow_from_10_percent_60_seconds_and_5_percent_of_use_on() {
        // 10 % of the data rate.
        let each = 0.1 * RATE / 4.0 * 60.0;
        let with = |share: f64| [each, each * share, each, each];
        assert_eq!(found(60.0, with(0.9)).len(), 1);
        assert_eq!(found(60.0, with(0.9001)), []);
        assert_eq!(found(59.9, with(0.5)), []);
        let [(2, Fault::Less(less))] = found(60.0, with(0.75))[..] else {
            panic!("plane 2 is the slow one")
        };
        assert!((less - 0.25).abs() < 1e-9);
        // The sum of all planes is 5 % of the data rate, or just less.
        let edge = 0.05 * RATE * 60.0 / 3.5;
        let of = |each: f64| [each, each, each / 2.0, each];
        assert_eq!(found(60.0, of(edge * 1.0001)).len(), 1);
        assert_eq!(found(60.0, of(edge * 0.9999)), []);
    }

    #[test]
    fn plane_is_down_only_if_another_one_is_up() {
        let faults = |states: [Option<u64>; 4]| {
            let mut planes = Planes::default();
            for (plane, state) in (1..).zip(states) {
                let reading = PlaneReading {
                    state,
                    bytes: None,
                    ..reading(5, plane, 0)
                };
                planes.add(reading, None);
            }
            planes.faults().to_vec()
        };
        assert_eq!(faults([Some(3), Some(5), Some(3), None]), []);
        assert_eq!(
            faults([Some(3), Some(2), Some(3), Some(3)]),
            [(2, Fault::Down(2))]
        );
        assert_eq!(faults([Some(2); 4]), []);
        assert_eq!(faults([Some(0); 4]), []);
    }

    #[test]
    fn short_readings_are_added_up_and_a_missing_plane_or_a_reset_hides_no_other() {
        let mut planes = Planes::default();
        let each = |ts: u64| ts * 10 * SECOND;
        for set in 0..13 {
            for plane in 1..=4 {
                let share = if plane == 3 { 0.8 } else { 1.0 };
                let mut bytes = (set as f64 * share * 0.1 * RATE / 4.0 * 10.0) as u64;
                if plane == 1 && set >= 9 {
                    bytes /= 10;
                }
                if plane != 4 || set % 2 == 0 {
                    planes.add(reading(each(set), plane, bytes), Some(RATE));
                }
            }
            let is_found = planes.faults().iter().any(|(plane, _)| *plane == 3);
            assert_eq!(is_found, set >= 6, "{set}");
            assert!(planes.faults().len() <= 1);
        }
    }

    #[test]
    fn traffic_between_the_readings_of_two_planes_is_no_fault() {
        let mut planes = Planes::default();
        for (set, begin) in [(0, 0), (1, 60)] {
            for plane in 1..=4 {
                // All planes carry data at full rate from second 58 on.
                let seconds = set * (begin + plane - 58);
                let bytes = (f64::from(seconds) * RATE / 4.0) as u64;
                planes.add(
                    reading((begin + plane) as u64 * SECOND, plane as u64, bytes),
                    Some(RATE),
                );
            }
        }
        assert_eq!(planes.faults(), []);
    }

    #[test]
    fn jitter_of_healthy_planes_is_no_fault_and_a_slow_plane_is_found_in_it() {
        const MESSAGE: f64 = 4_194_304.0;
        let mut rng = fastrand::Rng::with_seed(9);
        let mut found = 0;
        for _ in 0..30 {
            let (begin, end) = (50.0 * rng.f64(), 50.0 + 30.0 * rng.f64());
            let share = 0.04 + 0.1 * rng.f64();
            let count = ((end - begin) * share * RATE / MESSAGE) as u32;
            let messages: Vec<(f64, u64)> = (0..count)
                .map(|number| {
                    let at = begin + f64::from(number) * MESSAGE / (share * RATE);
                    (at, rng.u64(1..=4))
                })
                .collect();
            // The readings of the planes are up to 200 ms apart.
            let delays: Vec<f64> = (0..8).map(|_| 0.2 * rng.f64()).collect();
            for is_slow in [false, true] {
                let mut planes = Planes::default();
                for (index, delay) in delays.iter().enumerate() {
                    let plane = index as u64 % 4 + 1;
                    let at = if index < 4 { 10.0 } else { 70.2 } + delay;
                    let own = messages.iter().filter(|(ts, of)| *of == plane && *ts < at);
                    // A slow plane carries 5 of 7 messages.
                    let is_carried = |number: &usize| !is_slow || plane != 2 || number % 7 < 5;
                    let carried = (0..own.count()).filter(is_carried).count();
                    let bytes = carried as u64 * MESSAGE as u64;
                    planes.add(reading((at * 1e9) as u64, plane, bytes), Some(RATE));
                }
                let faults = planes.faults();
                let in_use = share * (end.min(70.2) - begin.max(10.2)) / 60.4;
                if !is_slow {
                    assert_eq!(faults, [], "{share}");
                } else if in_use > 1.1 * MIN_USE {
                    assert_eq!(faults.len(), 1, "{share}");
                    found += 1;
                }
            }
        }
        assert!(found > 5, "{found}");
    }
}
