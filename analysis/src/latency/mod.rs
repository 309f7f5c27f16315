//! Round-trip times of MADs as empirical distributions. The method follows Settlemyer et al.
//! (Confidence) and figures 4 and 5 of the LDMS paper.
//!
//! The `histogram` records contain the times of single MADs, by device kind and by sampler. The
//! port records contain the mean time of the MADs of a port in a slot, and the distance of the
//! port. If there are no `histogram` records, all distributions come from the port records.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use serde::Serialize;

use crate::error::AnalysisError;
use crate::input::Fold;
use crate::ports::PortKey;
use crate::record::{self, Port, Record, Type};

pub mod distribution;

use distribution::{Distribution, Moments};

/// The distributions of all records so far, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    by_kind: BTreeMap<String, Distribution>,
    by_sampler: BTreeMap<String, Distribution>,
    /// Mean round-trip times of the MADs of a port in a slot, by distance.
    ports: BTreeMap<Distance, Distribution>,
    ports_by_kind: BTreeMap<String, Distribution>,
    ports_by_sampler: BTreeMap<String, Distribution>,
    least: BTreeMap<PortKey, u64>,
    /// Time to read the clock in nanoseconds, by sampler.
    clocks: BTreeMap<String, u64>,
    /// Number of `histogram` records that could not be decoded.
    pub undecoded: u64,
}

/// Distance of a device from the sampler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Distance {
    /// Number of switches on the path, including the device itself; 0 for the sampler's own HCA.
    Hops(u16),
    /// The distance is not in the records.
    Unknown,
}

impl Distance {
    /// Returns the name for tables.
    pub fn name(self) -> String {
        match self {
            Self::Hops(1) => "1 hop".to_owned(),
            Self::Hops(hops) => format!("{hops} hops"),
            Self::Unknown => "unknown distance".to_owned(),
        }
    }
}

/// A distribution with a name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Device kind, distance or sampler.
    pub name: String,
    /// Values in nanoseconds.
    pub values: Distribution,
}

/// All distributions of a recording.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Round-trip times of single MADs, or means per port if `is_of_ports`.
    pub all: Distribution,
    /// Whether each value is the mean over the MADs of a port in a slot, because there were no
    /// histograms.
    pub is_of_ports: bool,
    /// Distributions by device kind.
    pub kinds: Vec<Named>,
    /// Distributions by distance; each value is the mean over the MADs of a port in a slot.
    pub distances: Vec<Named>,
    /// Distributions by sampler.
    pub samplers: Vec<Named>,
    /// The smallest value of each port: the time without queues on the path.
    pub least: Distribution,
    /// Time to read the clock in nanoseconds, by sampler. Every measured time includes it.
    pub clocks: BTreeMap<String, u64>,
}

/// A distribution in the JSON output. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LatencyRow {
    /// `all`, a device kind, a distance, `from SAMPLER`, or `smallest of each port`.
    pub name: String,
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub sd_ns: f64,
    /// Skewness; 0 for a symmetric distribution.
    pub skew: f64,
    /// Kurtosis; 3 for a normal distribution.
    pub kurtosis: f64,
    /// Most frequent value.
    pub mode_ns: f64,
    /// All modes, ascending.
    pub modes: Vec<f64>,
    /// 1st percentile.
    pub p1_ns: u64,
    /// 25th percentile.
    pub p25_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
}

impl LatencyRow {
    /// Evaluates a distribution.
    pub fn of(name: String, values: &Distribution) -> Self {
        let Moments { mean, deviation, skewness, kurtosis } = values.moments();
        Self {
            name,
            count: values.count(),
            mean_ns: mean,
            sd_ns: deviation,
            skew: skewness,
            kurtosis,
            mode_ns: values.mode(),
            modes: values.modes(),
            p1_ns: values.percentile(1.0),
            p25_ns: values.percentile(25.0),
            p50_ns: values.percentile(50.0),
            p75_ns: values.percentile(75.0),
            p90_ns: values.percentile(90.0),
            p99_ns: values.percentile(99.0),
            p999_ns: values.percentile(99.9),
            max_ns: values.percentile(100.0),
        }
    }
}

impl Latencies {
    /// Returns the rows of the JSON output: all values, then by kind, distance and sampler.
    pub fn rows(&self) -> Vec<LatencyRow> {
        let mut rows = vec![LatencyRow::of("all".to_owned(), &self.all)];
        rows.extend(self.kinds.iter().chain(&self.distances).map(|named| LatencyRow::of(named.name.clone(), &named.values)));
        rows.extend(self.samplers.iter().map(|named| LatencyRow::of(format!("from {}", named.name), &named.values)));
        if !self.least.is_empty() {
            rows.push(LatencyRow::of("smallest of each port".to_owned(), &self.least));
        }
        rows
    }
}

impl Latency {
    fn add_port(&mut self, port: &Port<'_>) {
        // With lost MADs `rtt_ns` is the sum over the answered MADs, but `mads` counts all MADs.
        let Some(mean) = port.rtt_ns.checked_div(port.mads).filter(|mean| *mean > 0 && port.answered()) else { return };
        self.ports.entry(port.hops.map_or(Distance::Unknown, Distance::Hops)).or_default().record(mean);
        entry(&mut self.ports_by_sampler, &port.sampler).record(mean);
        let kind = port.kind.map_or("other", |kind| kind.as_str());
        entry(&mut self.ports_by_kind, kind).record(mean);
        self.least.entry((port.guid, port.port)).and_modify(|least| *least = mean.min(*least)).or_insert(mean);
    }

    fn add_histogram(&mut self, record: &record::Histogram<'_>) {
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

    /// Returns the distributions.
    ///
    /// # Errors
    /// Returns an error if there is no round-trip time.
    pub fn finish(self) -> Result<Latencies, AnalysisError> {
        let is_of_ports = self.by_kind.is_empty();
        let (kinds, samplers) = if is_of_ports { (self.ports_by_kind, self.ports_by_sampler) } else { (self.by_kind, self.by_sampler) };
        let named = |(name, values)| Named { name, values };
        let mut all = Distribution::default();
        kinds.values().for_each(|values: &Distribution| all.merge(values));
        if all.is_empty() {
            let help = "give records of ports that answered, and check --from and --to".to_owned();
            return Err(AnalysisError::Nothing { what: "no round-trip time in the time range".to_owned(), help });
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

/// Returns the distribution of that name.
fn entry<'a>(all: &'a mut BTreeMap<String, Distribution>, name: &str) -> &'a mut Distribution {
    all.entry(name.to_owned()).or_default()
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

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.add_port(port),
            Record::Histogram(histogram) => self.add_histogram(histogram),
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
            latency.add(&Record::parse(line.as_bytes(), kind).unwrap());
        }
        latency
    }

    #[test]
    fn port_records_give_distances_and_smallest_values() {
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
    fn histograms_give_times_of_single_mads() {
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
        let rows: Vec<_> = all.rows().into_iter().map(|row| (row.name, row.count)).collect();
        let expected = [("all", 4), ("hca", 1), ("switch", 3), ("1 hop", 1), ("from s", 4), ("smallest of each port", 1)];
        assert_eq!(rows, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn no_round_trip_time_is_an_error() {
        assert!(matches!(latency(&[port(1, "1", "timeout", 0, 1)]).finish(), Err(AnalysisError::Nothing { .. })));
    }
}
