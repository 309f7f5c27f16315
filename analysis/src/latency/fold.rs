//! Collects the round-trip times of a recording.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use ibnet_record::types::{Guid, NodeKind};

use super::compound::Compound;
use super::distribution::Distribution;
use super::evaluated::{Key, Latencies, Parts, Resolution};
use super::grouping::By;
use crate::error::AnalysisError;
use crate::input::Fold;
use crate::record::{self, Port, Record, Type};

/// The round-trip times of all records so far.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    samplers: BTreeMap<String, OfSampler>,
    compound: Compound,
    devices: BTreeMap<Guid, Facts>,
    timer: Distribution,
    /// Lowest resolution of the histograms by kind and of those by device.
    resolutions: [Option<Resolution>; 2],
    /// Number of `histogram` records that could not be decoded.
    pub undecoded: u64,
}

/// What a device is.
#[derive(Clone, Debug, Default)]
struct Facts {
    name: Option<String>,
    /// The device itself, or the switch to which the HCA is connected.
    switch: Option<Guid>,
    /// SystemImageGUID.
    chassis: Option<Guid>,
    /// Vendor and device ID.
    model: Option<(u32, u16)>,
}

impl Facts {
    /// Adds what is not known yet.
    fn merge(&mut self, other: Self) {
        self.name = self.name.take().or(other.name);
        self.switch = self.switch.or(other.switch);
        self.chassis = self.chassis.or(other.chassis);
        self.model = self.model.or(other.model);
    }
}

/// Vendor ID of NVIDIA (Mellanox).
const NVIDIA: u32 = 0x2c9;

/// Names a model as `ibstat` does (`MT4123`), or by its numbers.
fn model((vendor, device): (u32, u16)) -> String {
    if vendor == NVIDIA {
        format!("MT{device}")
    } else {
        format!("{vendor:#x}:{device}")
    }
}

/// Values that one sampler measured, including the timer cost (the min time for one reading of
/// the clock).
#[derive(Clone, Debug, Default)]
struct OfSampler {
    /// Min timer cost in nanoseconds.
    clock: Option<u64>,
    /// Single MADs by device kind, from `rtt` histograms.
    kinds: BTreeMap<String, Distribution>,
    devices: BTreeMap<Guid, OfDevice>,
}

#[derive(Clone, Debug, Default)]
struct OfDevice {
    kind: String,
    hops: Option<u16>,
    /// Single MADs, from `service` histograms.
    single: Distribution,
    /// Means over the MADs of a port in a slot: one value for each port and slot.
    means: Distribution,
    /// Shortest single round-trip time in the port records.
    least: Option<u64>,
    /// Shortest single round-trip time of each `service` histogram.
    minima: Distribution,
}

impl OfSampler {
    fn device(&mut self, guid: Guid, kind: &str, hops: Option<u16>) -> &mut OfDevice {
        let device = self.devices.entry(guid).or_default();
        if device.kind != kind {
            kind.clone_into(&mut device.kind);
        }
        device.hops = hops.or(device.hops);
        device
    }
}

impl Latency {
    fn sampler(&mut self, name: &str) -> &mut OfSampler {
        if !self.samplers.contains_key(name) {
            self.samplers.insert(name.to_owned(), OfSampler::default());
        }
        self.samplers.entry(name.to_owned()).or_default()
    }

    fn add_clock(&mut self, sampler: &str, clock: Option<u64>) {
        let Some(ns) = clock else { return };
        let known = &mut self.sampler(sampler).clock;
        *known = Some(known.map_or(ns, |least| least.min(ns)));
    }

    fn add_port(&mut self, port: &Port<'_>) {
        // If MADs were lost, `rtt_ns` adds up only those with a reply, but `mads` counts all of
        // them, so the mean would be too small.
        let Some(mean) = port
            .rtt_ns
            .checked_div(port.mads)
            .filter(|mean| *mean > 0 && port.answered())
        else {
            return;
        };
        self.compound.add(port);
        let kind = port.kind.map_or("other", |kind| kind.as_str());
        let facts = self.devices.entry(port.guid).or_default();
        if facts.name.is_none() {
            facts.name = Some(port.node.clone().into_owned());
        }
        if port.kind == Some(NodeKind::Switch) {
            facts.switch = Some(port.guid);
        } else if let (None, Some(peer)) = (facts.switch, port.peer_guid) {
            facts.switch = Some(peer);
            let name = port.peer.clone().map(Cow::into_owned);
            self.devices.entry(peer).or_default().merge(Facts {
                name,
                ..Facts::default()
            });
        }
        let device = self
            .sampler(&port.sampler)
            .device(port.guid, kind, port.hops);
        device.means.record(mean);
        device.least = [device.least, port.rtt_min_ns].into_iter().flatten().min();
    }

    fn add_histogram(&mut self, record: &record::Histogram<'_>) {
        self.add_clock(&record.sampler, record.clock_ns);
        let kind = record.device_kind.as_deref().unwrap_or("other");
        if !matches!(&*record.kind, "rtt" | "service" | "clock") {
            return;
        }
        let Some(values) = decoded(&record.v2) else {
            self.undecoded += 1;
            return;
        };
        let resolution = Some(Resolution {
            per_octave: octave(&values),
            unit_ns: values.equivalent_range(0),
        });
        match record.guid {
            Some(guid) if record.kind == "service" => {
                self.devices.entry(guid).or_default().merge(Facts {
                    chassis: record.system_guid,
                    model: record.vendor_id.zip(record.device_id),
                    ..Facts::default()
                });
                self.resolutions[1] = coarser(self.resolutions[1], resolution);
                let sampler = self.sampler(&record.sampler);
                let device = sampler.device(guid, kind, record.hops);
                device.single.add(&values);
                if !values.is_empty() {
                    let least = record.min_ns.unwrap_or_else(|| values.min_nz());
                    device.minima.record(least);
                }
            }
            None if record.kind == "rtt" => {
                self.resolutions[0] = coarser(self.resolutions[0], resolution);
                entry(&mut self.sampler(&record.sampler).kinds, kind).add(&values);
            }
            None if record.kind == "clock" => self.timer.add(&values),
            _ => {}
        }
    }

    /// Returns the group of a device in each grouping.
    fn keys(&self, sampler: &str, guid: Guid, device: &OfDevice) -> [(By, Key); 8] {
        let facts = self.devices.get(&guid);
        let switch = facts.and_then(|facts| facts.switch);
        let chassis = switch.and_then(|switch| self.devices.get(&switch)?.chassis);
        let model = facts.and_then(|facts| facts.model);
        let known = |key: Option<Key>| key.unwrap_or(Key::Unknown);
        let path = switch.map(|switch| Key::Path(sampler.to_owned(), switch));
        [
            (By::Kind, Key::Text(device.kind.clone())),
            (
                By::Model,
                known(model.map(|found| Key::Text(self::model(found)))),
            ),
            (By::Hops, known(device.hops.map(Key::Hops))),
            (By::Switch, known(switch.map(Key::Guid))),
            (By::Chassis, known(chassis.map(Key::Guid))),
            (By::Sampler, Key::Text(sampler.to_owned())),
            (By::Path, known(path)),
            (By::Device, Key::Guid(guid)),
        ]
    }

    /// Names a device, or a chassis by its switches.
    fn name(&self, by: By, guid: Guid) -> String {
        let name = |guid: Guid| {
            let facts = self.devices.get(&guid);
            let name = facts.and_then(|facts| facts.name.clone());
            name.unwrap_or_else(|| guid.to_string())
        };
        if by != By::Chassis {
            return name(guid);
        }
        let is_in = |(switch, facts): &(&Guid, &Facts)| {
            facts.chassis == Some(guid) && facts.switch == Some(**switch)
        };
        let switches: Vec<Guid> = self
            .devices
            .iter()
            .filter(is_in)
            .map(|(guid, _)| *guid)
            .collect();
        match switches[..] {
            [] => guid.to_string(),
            [one] => name(one),
            [first, ..] => format!("{} and {} more", name(first), switches.len() - 1),
        }
    }

    /// Returns the distributions, with the timer cost subtracted.
    ///
    /// # Errors
    /// Returns an error if there is no round-trip time.
    pub fn finish(self) -> Result<Latencies, AnalysisError> {
        let clocks: BTreeMap<String, u64> = self
            .samplers
            .iter()
            .filter_map(|(name, sampler)| sampler.clock.map(|clock| (name.clone(), clock)))
            .collect();
        let mut compound = Distribution::default();
        self.compound
            .finish(&clocks)
            .values()
            .for_each(|values| compound.merge(values));
        let (mut rtt, mut service, mut means) =
            (Parts::default(), Parts::default(), Parts::default());
        let mut minima = Distribution::default();
        // Shortest time of each device: exact ones, and those from histograms.
        let mut least: [BTreeMap<Guid, u64>; 2] = Default::default();
        for (name, sampler) in &self.samplers {
            let clock = sampler.clock.unwrap_or(0);
            for (kind, values) in &sampler.kinds {
                let keys = [(By::Kind, kind), (By::Sampler, name)];
                let keys = keys.map(|(by, text)| (by, Key::Text(text.clone())));
                rtt.add(keys, &values.less(clock));
            }
            for (guid, device) in &sampler.devices {
                for (parts, values) in [(&mut service, &device.single), (&mut means, &device.means)]
                {
                    if !values.is_empty() {
                        parts.add(self.keys(name, *guid, device), &values.less(clock));
                    }
                }
                minima.merge(&device.minima.less(clock));
                let from_histogram = (!device.single.is_empty()).then(|| device.single.least());
                for (least, ns) in least.iter_mut().zip([device.least, from_histogram]) {
                    let Some(ns) = ns.map(|ns| ns.saturating_sub(clock).max(1)) else {
                        continue;
                    };
                    least
                        .entry(*guid)
                        .and_modify(|known| *known = ns.min(*known))
                        .or_insert(ns);
                }
            }
        }
        let [mut least, from_histograms] = least;
        // Values of a histogram are rounded, and can come from before the time range, so they are
        // used only for a device without port records.
        for (guid, ns) in from_histograms {
            least.entry(guid).or_insert(ns);
        }
        let has_exact_least = self
            .samplers
            .values()
            .flat_map(|sampler| sampler.devices.values())
            .any(|device| device.least.is_some());
        let mut least_values = Distribution::default();
        least.values().for_each(|ns| least_values.record(*ns));
        let mut latencies = Latencies::of([rtt, service, means], |by, guid| self.name(by, guid))?;
        (latencies.least, latencies.has_exact_least) = (least_values, has_exact_least);
        (latencies.compound, latencies.clocks) = (compound, clocks);
        (latencies.minima, latencies.timer) = (minima, self.timer);
        latencies.resolutions = self.resolutions;
        Ok(latencies)
    }
}

/// Returns the distribution of this name, and allocates memory only for a new one.
fn entry<'a>(all: &'a mut BTreeMap<String, Distribution>, name: &str) -> &'a mut Distribution {
    all.entry(name.to_owned()).or_default()
}

fn coarser(known: Option<Resolution>, other: Option<Resolution>) -> Option<Resolution> {
    match (known, other) {
        (Some(known), Some(other)) => Some(known.coarser(other)),
        (known, other) => known.or(other),
    }
}

/// Returns the number of buckets from a power of two to the next one: half of those that can
/// resolve twice the largest number with the significant digits of the histogram.
fn octave(histogram: &Histogram<u64>) -> u64 {
    (2 * 10_u64.pow(u32::from(histogram.sigfig()))).next_power_of_two() / 2
}

fn decoded(v2: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(v2).ok()?;
    Deserializer::new().deserialize(&mut &bytes[..]).ok()
}

impl Fold for Latency {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Histogram | Type::Start)
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn uses_every_query(&self) -> bool {
        true
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            [
                "node",
                "kind",
                "hops",
                "peer_guid",
                "peer",
                "status",
                "rtt_ns",
                "rtt_min_ns",
                "mads",
            ]
            .map(str::to_owned)
            .to_vec(),
        )
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.add_port(port),
            Record::Histogram(histogram) => self.add_histogram(histogram),
            Record::Start(start) => self.add_clock(&start.sampler, start.clock_ns),
            Record::Sweep(_) | Record::Event(_) | Record::Physical(_) | Record::Routes(_) => {}
        }
    }

    fn merge(&mut self, later: Self) {
        for (name, theirs) in later.samplers {
            self.add_clock(&name, theirs.clock);
            let ours = self.sampler(&name);
            theirs
                .kinds
                .iter()
                .for_each(|(kind, values)| entry(&mut ours.kinds, kind).merge(values));
            for (guid, device) in theirs.devices {
                let known = ours.device(guid, &device.kind, device.hops);
                known.single.merge(&device.single);
                known.means.merge(&device.means);
                known.minima.merge(&device.minima);
                known.least = [known.least, device.least].into_iter().flatten().min();
            }
        }
        self.compound.merge(later.compound);
        for (guid, facts) in later.devices {
            self.devices.entry(guid).or_default().merge(facts);
        }
        self.timer.merge(&later.timer);
        for (ours, theirs) in self.resolutions.iter_mut().zip(later.resolutions) {
            *ours = coarser(*ours, theirs);
        }
        self.undecoded += later.undecoded;
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    use super::super::bins::Bins;
    use super::super::evaluated::Source;
    use super::*;
    use crate::fixtures;

    fn port(
        guid: u64,
        hops: &str,
        status: &str,
        (rtt_ns, mads): (u64, u64),
        least: &str,
    ) -> String {
        format!(
            r#"{{"type":"port","ts":1,"slot":1,"sampler":"s","guid":"0x{guid:016x}","port":1,"lid":1,"node":"n{guid}","kind":"hca","hops":{hops},"status":"{status}","rtt_ns":{rtt_ns},"mads":{mads}{least}}}"#
        )
    }

    fn histogram(kind: &str, device: &str, guid: &str, values: &[u64]) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1_000, 100_000_000_000, 2).unwrap();
        values
            .iter()
            .for_each(|value| histogram.record(*value).unwrap());
        let mut v2 = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut v2)
            .unwrap();
        let (count, v2) = (values.len(), STANDARD.encode(v2));
        format!(
            r#"{{"type":"histogram","ts":1,"sampler":"s","kind":"{kind}","device_kind":"{device}","guid":{guid},"hops":2,"clock_ns":31,"count":{count},"v2":"{v2}"}}"#
        )
    }

    fn start(clock_ns: u64) -> String {
        format!(r#"{{"type":"start","ts":1,"sampler":"s","interval_ns":1,"clock_ns":{clock_ns}}}"#)
    }

    fn latency(lines: &[String]) -> Latency {
        fixtures::fold(Latency::default(), lines)
    }

    fn names(groups: &[super::super::grouping::Named]) -> Vec<(&str, u64)> {
        groups
            .iter()
            .map(|named| (named.name.as_str(), named.values.count()))
            .collect()
    }

    #[test]
    fn histogram_gives_the_least_time_only_of_a_device_without_records_of_any_sampler() {
        let record = port(7, "1", "ok", (40_000, 1), r#","rtt_min_ns":40000"#);
        let of_other = |guid: u64| {
            histogram("service", "hca", &format!(r#""0x{guid:016x}""#), &[30_000])
                .replace(r#""s""#, r#""t""#)
        };
        let latencies = latency(&[record, of_other(7), of_other(8)])
            .finish()
            .unwrap();
        assert_eq!(
            (latencies.least.count(), latencies.least.greatest()),
            (2, 40_000)
        );
        assert!(
            latencies.least.least() < 30_500,
            "{}",
            latencies.least.least()
        );
    }

    #[test]
    fn port_records_give_means_and_compound_queries() {
        let lines = [
            start(1_000),
            port(1, "1", "ok", (40_000, 2), r#","rtt_min_ns":12000"#),
            port(1, "1", "ok", (30_000, 2), r#","rtt_min_ns":9000"#),
            port(2, "3", "late", (60_000, 1), ""),
            port(2, "3", "timeout", (1_000, 1), ""),
            port(3, "null", "ok", (0, 0), ""),
        ];
        let mut whole = latency(&lines[1..2]);
        whole.merge(latency(&lines[2..]));
        whole.merge(latency(&lines[..1]));
        let all = whole.finish().unwrap();
        assert_eq!(
            (all.source, all.device_source, all.clocks["s"]),
            (Source::PortMeans, Source::PortMeans, 1_000)
        );
        assert_eq!(names(all.groups(By::Hops)), [("1 hop", 2), ("3 hops", 1)]);
        assert_eq!(names(all.groups(By::Device)), [("n1", 2), ("n2", 1)]);
        assert!(
            (all.all.moments().mean - (19_000.0 + 14_000.0 + 59_000.0) / 3.0).abs() < 1e-6,
            "less the timer cost of a MAD"
        );
        assert!(
            (all.compound.moments().mean - (38_000.0 + 28_000.0 + 59_000.0) / 3.0).abs() < 1e-6,
            "less that of all MADs"
        );
        assert_eq!(
            (all.least.count(), all.least.least(), all.has_exact_least),
            (1, 8_000, true),
            "a minimum of means is none"
        );
    }

    #[test]
    fn histograms_give_times_of_single_mads() {
        let one = r#""0x0000000000000001""#;
        let lines = [
            start(27),
            histogram("rtt", "switch", "null", &[50_000, 52_000]),
            histogram("rtt", "hca", "null", &[20_000]),
            histogram("rtt", "switch", "null", &[51_000]),
            histogram("service", "switch", one, &[50_000, 51_000, 52_000]),
            histogram("sweep", "switch", "null", &[9_000_000]),
            port(1, "2", "ok", (9_000, 1), ""),
        ];
        let all = latency(&lines).finish().unwrap();
        assert_eq!(
            (all.all.count(), all.source, all.device_source),
            (4, Source::SingleMads, Source::SingleMads)
        );
        assert_eq!(all.clocks["s"], 27, "the least of all measurements");
        assert_eq!(
            (names(all.groups(By::Kind)), names(all.groups(By::Hops))),
            (vec![("hca", 1), ("switch", 3)], vec![("2 hops", 3)])
        );
        assert_eq!((all.least.count(), all.has_exact_least), (1, false));
        assert!(
            all.least.least().abs_diff(50_000) < 1_000,
            "from the histogram of the device"
        );
        assert_eq!(
            latency(&[lines[1].replace("\"v2\":\"", "\"v2\":\"x")]).undecoded,
            1
        );
        let rows: Vec<_> = all
            .rows(Bins::LOG)
            .into_iter()
            .map(|row| (row.by, row.name, row.count))
            .collect();
        let expected = [
            (None, "all", 4),
            (Some(By::Kind), "hca", 1),
            (Some(By::Kind), "switch", 3),
            (Some(By::Hops), "2 hops", 3),
            (Some(By::Sampler), "s", 4),
            (Some(By::Device), "n1", 3),
            (None, "least of each device", 1),
            (None, "least of each device and minute", 1),
            (None, "compound query of a port", 1),
        ];
        assert_eq!(
            rows,
            expected.map(|(by, name, count)| (by, name.to_owned(), count))
        );
    }

    #[test]
    fn devices_are_grouped_by_switch_chassis_model_and_path() {
        let facts = |guid: u64, chassis: u64, model: u16, least: u64| {
            let line = histogram(
                "service",
                "switch",
                &format!(r#""0x{guid:016x}""#),
                &[50_000],
            );
            line.replace(
                r#""clock_ns""#,
                &format!(r#""system_guid":"0x{chassis:016x}","vendor_id":713,"device_id":{model},"min_ns":{least},"clock_ns""#),
            )
        };
        let hca = port(
            3,
            "2",
            "ok",
            (9_000, 1),
            r#","peer_guid":"0x0000000000000001","peer":"n1""#,
        );
        let switch = |guid| port(guid, "1", "ok", (9_000, 1), "").replace("hca", "switch");
        // Switches 1 and 2 are in chassis 9; HCA 3 is connected to switch 1.
        let lines = [
            facts(1, 9, 54_000, 40_031),
            facts(1, 9, 54_000, 45_031),
            facts(2, 9, 54_002, 47_031),
            facts(3, 3, 4_123, 20_031),
            hca,
            switch(1),
            switch(2),
        ];
        let mut whole = latency(&lines[..3]);
        whole.merge(latency(&lines[3..]));
        let all = whole.finish().unwrap();
        let of = |by| names(all.groups(by));
        assert_eq!(
            of(By::Model),
            [("MT4123", 1), ("MT54000", 2), ("MT54002", 1)]
        );
        assert_eq!(of(By::Switch), [("n1", 3), ("n2", 1)]);
        assert_eq!(of(By::Chassis), [("n1 and 1 more", 4)]);
        assert_eq!(of(By::Path), [("s -> n1", 3), ("s -> n2", 1)]);
        let guids = all.groups(By::Chassis).iter().map(|group| group.guid);
        assert_eq!(guids.collect::<Vec<_>>(), [Some(Guid(9))]);
        // One value for each histogram, without the timer cost.
        let minima: Vec<_> = [0.0, 50.0, 75.0, 100.0]
            .map(|percent| all.minima.percentile(percent))
            .into();
        for (found, expected) in minima.iter().zip([20_000_u64, 40_000, 45_000, 47_000]) {
            assert!(found.abs_diff(expected) < 100, "{minima:?}");
        }
        assert_eq!((all.minima.count(), all.minima.least()), (4, 20_000));
        assert_eq!(
            all.resolutions,
            [
                None,
                Some(Resolution {
                    per_octave: 128,
                    unit_ns: 512
                })
            ]
        );
    }

    #[test]
    fn times_of_the_clock_are_no_round_trips() {
        let clock = histogram("clock", "x", "null", &[1_000, 1_000, 9_000]);
        let all = latency(&[clock, port(1, "1", "ok", (9_000, 1), "")])
            .finish()
            .unwrap();
        assert_eq!((all.all.count(), all.timer.count()), (1, 3));
        let rows = all.rows(Bins::LOG);
        assert!(
            rows.iter()
                .any(|row| row.name == "timer cost" && row.count == 3)
        );
    }

    #[test]
    fn no_round_trip_time_is_an_error() {
        assert!(matches!(
            latency(&[port(1, "1", "timeout", (0, 1), "")]).finish(),
            Err(AnalysisError::Nothing { .. })
        ));
    }
}
