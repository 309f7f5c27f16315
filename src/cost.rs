//! The cost of a sampler: queries per second, expected time of a sweep, size of the records, and
//! the number of ports that one sampler can have. This file has every assumption of the model:
//!
//! - The number of queries of a port is exact: [`Cadence::mads_per_slot`], which also fills
//!   `mads_per_slot` in `start` records.
//! - [`SERVICE_TIME`] is from the LDMS paper (Allan, Aguilar, Schwaller, Langer): 1.20 s for 1005
//!   ports with 7 to 8 MADs each, one after another.
//! - [`CPU_TIME`] is from `docs/inside/performance.md`, cost of a MAD on a Linux kernel,
//!   2026-11-22: 52,953 and 7,365 instructions, at 3,000 million instructions per second.
//! - [`FIXED_OCTETS`] and [`VALUE_OCTETS`] are from 5,808 records of `examples/stria.p`,
//!   simulated, 2026-11-22.
//! - [`PACKED_OCTETS`] is from `docs/archive.md`, section Size, 2026-11-22.
//!
//! A net file does not contain the capabilities of the devices, so the number of queries has two
//! bounds. The max holds if no device has all counters in PortCountersExtended (CapabilityMask2
//! bit 1), the min if every device has them there.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::types::NodeKind;
use serde::Serialize;

use crate::mad::pma::Capabilities;
use crate::sweep::cadence::{Cadence, Circumstances};

/// Time of one query at a device: a device answers its queries one after another.
pub const SERVICE_TIME: Duration = Duration::from_micros(160);

/// CPU time of one query on the sampler host, in the process and in the kernel.
pub const CPU_TIME: Duration = Duration::from_micros(20);

/// Bytes of a port record without its counters.
pub const FIXED_OCTETS: f64 = 500.0;

/// Digits of one counter, on average. Most counters are error counters with one digit.
pub const VALUE_OCTETS: f64 = 3.0;

/// Bytes of a port record in the Parquet archive, with the default counter groups.
pub const PACKED_OCTETS: f64 = 40.1;

/// Number of timeouts by which devices that stop answering make a slot longer (rule 4 of
/// `docs/inside/sampling.md`).
const TIMEOUTS: u32 = 3;

/// The settings of a sweep on which its cost depends.
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    /// Time between two slots.
    pub interval: Duration,
    /// Counter groups.
    pub groups: &'a [Group],
    /// Cadences of the groups.
    pub cadence: &'a Cadence,
    /// Max number of queries in flight.
    pub window: usize,
    /// Time after which a query frees its place in the window.
    pub timeout: Duration,
}

/// A device of a sampler.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLoad {
    /// Kind of the device.
    pub kind: NodeKind,
    /// Number of queried ports.
    pub ports: u32,
    /// Measured time of one query. `None` for [`SERVICE_TIME`].
    pub service: Option<Duration>,
}

/// Cost of one sampler, or the sum over all samplers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Cost {
    /// Number of ports.
    pub ports: u32,
    /// Expected time of a sweep; in the sum over samplers, the longest one.
    pub sweep_ns: u64,
    /// Queries per second, if every device has all counters in PortCountersExtended.
    pub least_mads_per_second: f64,
    /// Queries per second, if no device has all counters in PortCountersExtended.
    pub most_mads_per_second: f64,
    /// Bytes of the port records of a day, as JSON lines.
    pub raw_bytes_per_day: u64,
    /// Bytes of the port records of a day in the archive. Null for other groups than the default
    /// ones, because their size was not measured.
    pub packed_bytes_per_day: Option<u64>,
}

/// Costs of the samplers of a plan, for reports.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanCost {
    /// Sweeps per second.
    pub rate_hz: f64,
    /// Counter groups with their cadences, as configured.
    pub groups: Vec<String>,
    /// Max number of queries in flight.
    pub window_mads: usize,
    /// Number of ports for which one sampler has enough CPU time at this rate.
    pub largest_cap_ports: u32,
    /// Whether the longest sweep fits into the interval.
    pub fits: bool,
    /// Highest rate of 1, 2, 5, 10, 20 Hz and so on at which the longest sweep fits. Null if no
    /// rate of at least 0.1 Hz fits.
    pub highest_rate_hz: Option<f64>,
    /// What `[physical]` with its defaults adds.
    pub physical: PhysicalCost,
    /// Sum over the samplers.
    pub total: Cost,
    /// Cost of each sampler, in the order of the samplers of the report.
    pub samplers: Vec<Cost>,
}

/// Cost of the physical layer of all ports and switches, for reports.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PhysicalCost {
    /// Queries per second.
    pub mads_per_second: f64,
    /// Bytes of the records of a day, as JSON lines.
    pub raw_bytes_per_day: u64,
}

/// Where a device has its error counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counters {
    /// All counters are in PortCountersExtended.
    Extended,
    /// The error counters and PortXmitWait are in PortCounters.
    Base,
}

impl Counters {
    /// Returns the capabilities of a device that has everything else too.
    const fn capabilities(self) -> Capabilities {
        let mask2 = match self {
            Self::Extended => u32::MAX,
            Self::Base => !Capabilities::ADDITIONAL_EXTENDED,
        };
        Capabilities {
            mask: u16::MAX,
            mask2,
            option_mask: Some(u64::MAX),
        }
    }
}

impl Sampling<'_> {
    /// Returns the cost of a sampler with these devices.
    pub fn cost(&self, devices: impl Iterator<Item = DeviceLoad>) -> Cost {
        let (mut cost, mut work, mut slowest, mut queries) = (Cost::default(), 0.0, 0.0_f64, 0.0);
        for DeviceLoad {
            kind,
            ports,
            service,
        } in devices
        {
            let of_port = |counters| self.mads_per_port(kind, counters) * f64::from(ports);
            let most = of_port(Counters::Base);
            let time = most * service.unwrap_or(SERVICE_TIME).as_secs_f64();
            (work, slowest, queries) = (work + time, slowest.max(time), queries + most);
            cost.ports += ports;
            cost.least_mads_per_second += of_port(Counters::Extended) / self.interval.as_secs_f64();
            cost.most_mads_per_second += most / self.interval.as_secs_f64();
        }
        // A device answers one query at a time. All devices together have at most `window` queries
        // in flight, and the host handles one after another.
        let sweep = slowest
            .max(work / self.window as f64)
            .max(queries * CPU_TIME.as_secs_f64());
        cost.sweep_ns = (sweep * 1e9).round() as u64;
        let per_day = |octets: f64| {
            (octets * f64::from(cost.ports) * 86_400.0 / self.interval.as_secs_f64()).round() as u64
        };
        cost.raw_bytes_per_day = per_day(self.record_octets());
        cost.packed_bytes_per_day = (self.groups == Group::DEFAULT).then(|| per_day(PACKED_OCTETS));
        cost
    }

    /// Returns whether a sweep of this length fits into the interval: it must leave half of the
    /// interval free, in addition to the time that silent devices can add.
    pub fn fits(&self, sweep: Duration) -> bool {
        sweep <= self.budget()
    }

    /// Returns the max number of ports for which one sampler has enough CPU time at this rate.
    /// Devices with many ports can be too slow for the rate even with fewer ports: see
    /// [`fits`](Self::fits).
    pub fn largest_cap(&self) -> u32 {
        let of_port = self.mads_per_port(NodeKind::Switch, Counters::Base) * CPU_TIME.as_secs_f64();
        let ports = self.budget().as_secs_f64() / of_port;
        // Rounded down to two significant digits, because the model is not more exact.
        let unit = 10_f64.powf((ports.max(10.0).log10() - 1.0).floor());
        ((ports / unit).floor() * unit) as u32
    }

    /// Returns the time that a sweep may take.
    fn budget(&self) -> Duration {
        (self.interval / 2).saturating_sub(self.timeout * TIMEOUTS)
    }

    /// Returns the number of queries of a port in an average slot.
    fn mads_per_port(&self, kind: NodeKind, counters: Counters) -> f64 {
        let of = Circumstances {
            wait_in_base: counters == Counters::Base,
            is_down: false,
        };
        self.cadence.mads_per_slot(self.queried(kind, counters), of)
    }

    /// Returns the groups that are queried, with their indices in the list.
    fn queried(&self, kind: NodeKind, counters: Counters) -> impl Iterator<Item = (usize, Group)> {
        let capabilities = counters.capabilities();
        let groups = self.groups.iter().copied().enumerate();
        groups.filter(move |(_, group)| {
            capabilities.support(*group, kind) && !capabilities.supersede(*group, self.groups)
        })
    }

    /// Returns the mean size of a port record in bytes. The records of the slots in which a
    /// counter's group was queried have the counter.
    fn record_octets(&self) -> f64 {
        let of = Circumstances {
            wait_in_base: true,
            is_down: false,
        };
        let mut counters: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (place, group) in self.queried(NodeKind::Switch, Counters::Base) {
            let share = 1.0 / f64::from(self.cadence.of(place, group, of).every);
            for field in group
                .attribute()
                .counters()
                .filter(|field| Counters::Base.capabilities().have(field.needs))
            {
                // Two quotation marks, a colon and a comma. Several values also need brackets, and
                // a comma for each further value.
                let values = f64::from(field.len);
                let brackets = if field.len > 1 { 1.0 + values } else { 0.0 };
                let octets = field.json.len() as f64 + 4.0 + values * VALUE_OCTETS + brackets;
                let (most, _) = counters.entry(field.json).or_insert((0.0, octets));
                *most = most.max(share);
            }
        }
        FIXED_OCTETS
            + counters
                .values()
                .map(|(share, octets)| share * octets)
                .sum::<f64>()
    }
}

impl PlanCost {
    /// Returns the min number of hosts, at least 2, that can sample the fabric with two samplers
    /// for each port. Returns `None` if one sampler does not have the time for a single port.
    pub fn fewest_hosts_in_pairs(&self) -> Option<u32> {
        (self.largest_cap_ports > 0).then(|| {
            (2 * self.total.ports)
                .div_ceil(self.largest_cap_ports)
                .max(2)
        })
    }

    /// Returns the number of ports of the sampler with the most ports.
    pub fn most_ports(&self) -> u32 {
        self.samplers
            .iter()
            .map(|cost| cost.ports)
            .max()
            .unwrap_or(0)
    }
}

impl Cost {
    /// Returns the cost of all samplers together.
    pub fn total<'a>(costs: impl IntoIterator<Item = &'a Self>) -> Self {
        costs.into_iter().fold(
            Self {
                packed_bytes_per_day: Some(0),
                ..Self::default()
            },
            |sum, cost| Self {
                ports: sum.ports + cost.ports,
                sweep_ns: sum.sweep_ns.max(cost.sweep_ns),
                least_mads_per_second: sum.least_mads_per_second + cost.least_mads_per_second,
                most_mads_per_second: sum.most_mads_per_second + cost.most_mads_per_second,
                raw_bytes_per_day: sum.raw_bytes_per_day + cost.raw_bytes_per_day,
                packed_bytes_per_day: sum
                    .packed_bytes_per_day
                    .zip(cost.packed_bytes_per_day)
                    .map(|(sum, more)| sum + more),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling<'a>(hertz: u32, cadence: &'a Cadence) -> Sampling<'a> {
        let interval = Duration::from_secs(1) / hertz;
        Sampling {
            interval,
            groups: &Group::DEFAULT,
            cadence,
            window: 32,
            timeout: Duration::from_millis(5),
        }
    }

    fn switches(count: usize, ports: u32) -> impl Iterator<Item = DeviceLoad> {
        std::iter::repeat_n(
            DeviceLoad {
                kind: NodeKind::Switch,
                ports,
                service: None,
            },
            count,
        )
    }

    #[test]
    fn queries_are_those_of_the_measured_runs() {
        // docs/inside/performance.md: 968 ports at 1 Hz and at 10 Hz, per slot.
        let cost = sampling(1, &Cadence::EVERY_SLOT).cost(switches(1, 968));
        assert_eq!(
            (
                cost.least_mads_per_second.round(),
                cost.most_mads_per_second.round()
            ),
            (2904.0, 3872.0)
        );
        let once_a_second = Cadence::new(vec![1, 10, 10, 10], 1, 100);
        let cost = sampling(10, &once_a_second).cost(switches(1, 968));
        assert_eq!(
            (
                cost.least_mads_per_second.round(),
                cost.most_mads_per_second.round()
            ),
            (11_616.0, 21_296.0)
        );
    }

    #[test]
    fn size_of_records_is_that_of_the_measured_runs() {
        // docs/inside/performance.md: 122 MB per port and day at 1 Hz, bytes of 968 records at 10
        // Hz.
        let cost = sampling(1, &Cadence::EVERY_SLOT).cost(switches(1, 1));
        assert!(
            (118_000_000..126_000_000).contains(&cost.raw_bytes_per_day),
            "{cost:?}"
        );
        assert_eq!(cost.packed_bytes_per_day, Some(3_464_640));
        for (cadence, octets) in [
            (Cadence::new(vec![1, 10, 10, 10], 1, 100), 1_114_004.0),
            (Cadence::new(vec![1, 10, 10, 10], 10, 100), 730_213.0),
        ] {
            let modelled = 968.0 * sampling(10, &cadence).record_octets();
            assert!(
                (modelled / octets - 1.0).abs() < 0.08,
                "{modelled} for {octets}"
            );
        }
        let every = Cadence::EVERY_SLOT;
        let other = Sampling {
            groups: &[Group::Base],
            ..sampling(1, &every)
        };
        assert_eq!(other.cost(switches(1, 1)).packed_bytes_per_day, None);
    }

    #[test]
    fn sweep_takes_the_longest_of_device_window_and_cpu() {
        let every = Cadence::EVERY_SLOT;
        let (slow, fast) = (Duration::from_millis(1), Duration::from_micros(1));
        let of = |count: usize, ports, service| {
            let devices = switches(count, ports).map(|device| DeviceLoad {
                service: Some(service),
                ..device
            });
            Duration::from_nanos(sampling(1, &every).cost(devices).sweep_ns)
        };
        assert_eq!(
            of(1, 36, slow),
            36 * 4 * slow,
            "one device answers one query at a time"
        );
        assert_eq!(
            of(64, 1, slow),
            8 * slow,
            "64 devices with 4 queries each share 32 places"
        );
        assert_eq!(of(1, 100, fast), 400 * CPU_TIME);
    }

    #[test]
    fn largest_cap_follows_the_rate() {
        let every = Cadence::EVERY_SLOT;
        let caps = [1, 10, 20, 30].map(|hertz| sampling(hertz, &every).largest_cap());
        assert_eq!(caps, [6000, 430, 120, 20]);
        assert_eq!(sampling(100, &every).largest_cap(), 0);
        let one = sampling(1, &every);
        assert!(one.fits(Duration::from_millis(485)) && !one.fits(Duration::from_millis(486)));
    }

    #[test]
    fn total_has_the_longest_sweep_and_the_sum_of_the_rest() {
        let every = Cadence::EVERY_SLOT;
        let costs = [18, 36].map(|ports| sampling(1, &every).cost(switches(1, ports)));
        let total = Cost::total(&costs);
        assert_eq!((total.ports, total.sweep_ns), (54, costs[1].sweep_ns));
        assert_eq!(total.packed_bytes_per_day, Some(54 * 3_464_640));
    }
}
