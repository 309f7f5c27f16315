//! How long answers take, as empirical distributions: after Settlemyer et al. (Confidence), and figures 4 and 5 of the LDMS paper.
//!
//! Round trips of single MADs are in the `histogram` records, by device kind and sampler. Distances and devices are in the port records, each
//! with the mean round trip of its MADs. Where there is no histogram the port records stand for all.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::error::ViewError;
use super::input::Fold;
use super::record::{self, Port, Record, Type};
use ibnet::types::{Guid, PortNum};

pub mod distribution;
pub mod picture;
pub mod text;

use distribution::Distribution;

/// All records so far. Each distribution in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    by_kind: BTreeMap<String, Distribution>,
    by_sampler: BTreeMap<String, Distribution>,
    /// Mean round trips of a port's MADs in one slot: by distance, or by kind where it is not known.
    ports: BTreeMap<Distance, Distribution>,
    ports_by_kind: BTreeMap<String, Distribution>,
    ports_by_sampler: BTreeMap<String, Distribution>,
    least: BTreeMap<(Guid, PortNum), u64>,
    /// What it takes to read the clock, by sampler.
    clocks: BTreeMap<String, u64>,
    /// `histogram` records that could not be decoded.
    pub undecoded: u64,
}

/// How far a device is from whoever asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Distance {
    /// Switches on the way, the device's own included; 0 is the sampler's own adapter.
    Hops(u16),
    /// No plan told.
    Unknown,
}

impl Distance {
    /// For people.
    pub fn name(self) -> String {
        match self {
            Self::Hops(1) => "1 hop".to_owned(),
            Self::Hops(hops) => format!("{hops} hops"),
            Self::Unknown => "unknown distance".to_owned(),
        }
    }
}

/// A distribution and what it is of.
#[derive(Clone, Debug)]
pub struct Named {
    /// What it is of.
    pub name: String,
    /// The values.
    pub values: Distribution,
}

/// What a recording says of latency.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Round trips of single MADs, or of ports where `is_of_ports`.
    pub all: Distribution,
    /// Whether no histogram was recorded, so that each value is the mean of a port's MADs in one slot.
    pub is_of_ports: bool,
    /// By device kind.
    pub kinds: Vec<Named>,
    /// By distance, each value the mean of a port's MADs in one slot.
    pub distances: Vec<Named>,
    /// By sampler.
    pub samplers: Vec<Named>,
    /// The least of each port: what is left without queues on the way is the hardware's own part.
    pub least: Distribution,
    /// What it takes to read the clock, by sampler: every duration has it in it.
    pub clocks: BTreeMap<String, u64>,
}

impl Latency {
    fn take_port(&mut self, port: &Port<'_>) {
        // A port of which only a part answered has the sum over that part, and the number of all.
        let Some(mean) = port.rtt_ns.checked_div(port.mads).filter(|mean| *mean > 0 && port.answered()) else { return };
        self.ports.entry(port.hops.map_or(Distance::Unknown, Distance::Hops)).or_default().record(mean);
        entry(&mut self.ports_by_sampler, &port.sampler).record(mean);
        let kind = port.kind.map_or("other", |kind| kind.as_str());
        entry(&mut self.ports_by_kind, kind).record(mean);
        self.least.entry(port.key()).and_modify(|least| *least = mean.min(*least)).or_insert(mean);
    }

    fn take_histogram(&mut self, record: &record::Histogram<'_>) {
        if record.kind != "rtt" {
            return;
        }
        let Some(values) = decoded(&record.v2) else {
            self.undecoded += 1;
            return;
        };
        entry(&mut self.by_kind, record.device_kind.as_deref().unwrap_or("other")).add(&values);
        entry(&mut self.by_sampler, &record.sampler).add(&values);
    }

    /// The distributions.
    ///
    /// # Errors
    /// When no round trip was recorded.
    pub fn finish(self) -> Result<Latencies, ViewError> {
        let is_of_ports = self.by_kind.is_empty();
        let (kinds, samplers) = if is_of_ports { (self.ports_by_kind, self.ports_by_sampler) } else { (self.by_kind, self.by_sampler) };
        let named = |(name, values)| Named { name, values };
        let mut all = Distribution::default();
        kinds.values().for_each(|values: &Distribution| all.merge(values));
        if all.is_empty() {
            let help = "give lines of ports that answered, and look at --from and --to".to_owned();
            return Err(ViewError::Nothing { what: "no round trip was recorded within these times".to_owned(), help });
        }
        let mut least = Distribution::default();
        self.least.values().for_each(|ns| least.record(*ns));
        Ok(Latencies {
            all,
            is_of_ports,
            kinds: kinds.into_iter().map(named).collect(),
            distances: self.ports.into_iter().map(|(distance, values)| Named { name: distance.name(), values }).collect(),
            samplers: samplers.into_iter().map(named).collect(),
            least,
            clocks: self.clocks,
        })
    }
}

/// The distribution of that name.
fn entry<'a>(all: &'a mut BTreeMap<String, Distribution>, name: &str) -> &'a mut Distribution {
    all.entry(name.to_owned()).or_default()
}

fn decoded(v2: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(v2).ok()?;
    Deserializer::new().deserialize(&mut &bytes[..]).ok()
}

impl Fold for Latency {
    fn wants(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Histogram | Type::Start)
    }

    fn wants_counters(&self) -> bool {
        false
    }

    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.take_port(port),
            Record::Histogram(histogram) => self.take_histogram(histogram),
            Record::Start(start) => {
                self.clocks.extend(start.clock_ns.map(|ns| (start.sampler.clone().into_owned(), ns)));
            }
            Record::Sweep(_) | Record::Event(_) => {}
        }
    }

    fn merge(&mut self, later: Self) {
        for (ours, theirs) in [
            (&mut self.by_kind, later.by_kind),
            (&mut self.by_sampler, later.by_sampler),
            (&mut self.ports_by_kind, later.ports_by_kind),
            (&mut self.ports_by_sampler, later.ports_by_sampler),
        ] {
            theirs.iter().for_each(|(name, values)| entry(ours, name).merge(values));
        }
        later.ports.into_iter().for_each(|(distance, values)| self.ports.entry(distance).or_default().merge(&values));
        for (key, ns) in later.least {
            self.least.entry(key).and_modify(|least| *least = ns.min(*least)).or_insert(ns);
        }
        self.clocks.extend(later.clocks);
        self.undecoded += later.undecoded;
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    use super::*;

    fn port(guid: u64, hops: &str, status: &str, rtt_ns: u64, mads: u64) -> String {
        format!(
            r#"{{"type":"port","ts":1,"sampler":"s","guid":"0x{guid:016x}","port":1,"kind":"hca","hops":{hops},"status":"{status}","rtt_ns":{rtt_ns},"mads":{mads}}}"#
        )
    }

    fn histogram(kind: &str, values: &[u64]) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1_000, 100_000_000_000, 2).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        let mut v2 = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut v2).unwrap();
        let (count, v2) = (values.len(), STANDARD.encode(v2));
        format!(
            r#"{{"type":"histogram","ts":1,"sampler":"s","kind":"rtt","device_kind":"{kind}","guid":null,"hops":null,"count":{count},"v2":"{v2}"}}"#
        )
    }

    fn latency(lines: &[String]) -> Latency {
        let mut latency = Latency::default();
        for line in lines {
            let kind = record::Head::of(line.as_bytes()).unwrap().kind.unwrap();
            latency.take(&Record::parse(line.as_bytes(), kind).unwrap());
        }
        latency
    }

    #[test]
    fn ports_tell_distances_and_the_least_of_each() {
        let lines = [
            port(1, "1", "ok", 40_000, 2),
            port(1, "1", "ok", 30_000, 2),
            port(2, "3", "late", 60_000, 1),
            port(2, "3", "timeout", 1_000, 1),
            port(3, "null", "ok", 0, 0),
        ];
        let mut whole = latency(&lines[..1]);
        whole.merge(latency(&lines[1..]));
        let all = whole.finish().unwrap();
        assert!(all.is_of_ports && all.clocks.is_empty());
        assert_eq!((all.all.count(), all.least.count()), (3, 2));
        let distances: Vec<_> = all.distances.iter().map(|named| (named.name.as_str(), named.values.count())).collect();
        assert_eq!(distances, [("1 hop", 2), ("3 hops", 1)]);
        assert!((all.least.mean() - 37_500.0).abs() < 50.0, "15 and 60 us: {}", all.least.mean());
    }

    #[test]
    fn histograms_tell_single_round_trips_where_they_are() {
        let start = r#"{"type":"start","ts":1,"sampler":"s","interval_ns":1,"clock_ns":27}"#.to_owned();
        let lines = [
            start,
            histogram("switch", &[50_000, 52_000]),
            histogram("hca", &[20_000]),
            histogram("switch", &[51_000]),
            port(1, "1", "ok", 9_000, 1),
        ];
        let all = latency(&lines).finish().unwrap();
        assert_eq!((all.all.count(), all.is_of_ports, all.clocks["s"]), (4, false, 27));
        assert_eq!(
            all.kinds.iter().map(|named| (named.name.as_str(), named.values.count())).collect::<Vec<_>>(),
            [("hca", 1), ("switch", 3)]
        );
        assert_eq!(latency(&[lines[1].replace("\"v2\":\"", "\"v2\":\"x")]).undecoded, 1);
    }

    #[test]
    fn without_a_round_trip_there_is_nothing() {
        assert!(matches!(latency(&[port(1, "1", "timeout", 0, 1)]).finish(), Err(ViewError::Nothing { .. })));
    }
}
