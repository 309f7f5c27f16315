//! Metrics of a port: the derived values of the records, and the rate of any counter.

use std::fmt;
use std::str::FromStr;

use ibnet::record::ERROR_COUNTERS;
use ibnet::types::ParseError;

use crate::record::{Interval, Port, Value};

/// A metric of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    name: String,
    source: Source,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// A derived value of the record.
    Derived(Derived),
    /// The increase per second of the sum of these counters, or of one element of an array.
    Rate { counters: Vec<String>, element: Option<usize> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Derived {
    XmitGbps,
    RcvGbps,
    XmitUtilization,
    RcvUtilization,
    XmitBlocked,
    /// All MADs of the port in a slot: `rtt_ns` of the record.
    CompoundQuery,
    /// Mean per MAD of the port in a slot.
    MeanRtt,
}

const DERIVED: [(&str, Derived); 7] = [
    ("xmit_gbps", Derived::XmitGbps),
    ("rcv_gbps", Derived::RcvGbps),
    ("xmit_utilization", Derived::XmitUtilization),
    ("rcv_utilization", Derived::RcvUtilization),
    ("xmit_blocked", Derived::XmitBlocked),
    ("rtt_ns", Derived::CompoundQuery),
    ("rtt_mean_ns", Derived::MeanRtt),
];

/// Name of the metric that is the sum of the counters in [`ERROR_COUNTERS`].
const ERRORS: &str = "errors";

/// Kind of the elements of an array of counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// Service level.
    Sl,
    /// Virtual lane.
    Vl,
    /// Physical lane of a link.
    Lane,
}

/// Unit of the values of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Gb/s.
    Gbps,
    /// Share of the data rate of the link, 0 to 1.
    ShareOfLink,
    /// Share of the time, 0 to 1.
    ShareOfTime,
    /// Nanoseconds.
    Nanoseconds,
    /// Octets per second.
    OctetsPerSecond,
    /// Ticks per second; the length of a tick depends on the device.
    TicksPerSecond,
    /// Packets, events or errors per second.
    PerSecond,
}

impl Metric {
    /// Names of all metrics that are not counters.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DERIVED.iter().map(|(name, _)| *name).chain([ERRORS])
    }

    /// Returns the name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters of a rate. The list is empty for a derived value.
    pub fn counters(&self) -> &[String] {
        match &self.source {
            Source::Derived(_) => &[],
            Source::Rate { counters, .. } => counters,
        }
    }

    /// Returns the metric of one element of an array of counters. Returns `None` if the metric is
    /// not the rate of a single counter.
    pub fn element(&self, index: usize) -> Option<Self> {
        match &self.source {
            Source::Rate { counters, element: None } => match &counters[..] {
                [counter] => Some(Self {
                    name: format!("{counter}[{index}]"),
                    source: Source::Rate { counters: counters.clone(), element: Some(index) },
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the metric without the index of an element.
    pub fn whole(&self) -> Self {
        match &self.source {
            Source::Rate { counters, element: Some(_) } => {
                Self { name: counters.concat(), source: Source::Rate { counters: counters.clone(), element: None } }
            }
            _ => self.clone(),
        }
    }

    /// Returns the kind of the elements. It has a meaning only if the counter is an array.
    pub fn elements(&self) -> Element {
        match self.counters().first() {
            Some(name) if name.contains("_sl_") => Element::Sl,
            Some(name) if name.contains("_lane") => Element::Lane,
            _ => Element::Vl,
        }
    }

    /// Returns the derived value of a record. Returns `None` if the value is missing, or if the
    /// metric is a rate.
    pub fn value(&self, port: &Port<'_>) -> Option<f64> {
        let value = match &self.source {
            Source::Derived(Derived::XmitGbps) => port.xmit_gbps,
            Source::Derived(Derived::RcvGbps) => port.rcv_gbps,
            Source::Derived(Derived::XmitUtilization) => port.xmit_utilization,
            Source::Derived(Derived::RcvUtilization) => port.rcv_utilization,
            Source::Derived(Derived::XmitBlocked) => port.xmit_blocked,
            // Without an answer to all MADs, `rtt_ns` is the sum over a part of them.
            Source::Derived(Derived::CompoundQuery) => (port.mads > 0 && port.answered()).then_some(port.rtt_ns as f64),
            Source::Derived(Derived::MeanRtt) => (port.mads > 0 && port.answered()).then(|| port.rtt_ns as f64 / port.mads as f64),
            Source::Rate { .. } => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns the time that the value of a record describes. For a data rate or a blocked share,
    /// it is the time in the record. For a round-trip time it is `silent`, the time since the last
    /// record.
    pub fn time(&self, port: &Port<'_>, silent: Interval) -> Option<Interval> {
        match &self.source {
            Source::Derived(Derived::XmitBlocked) => port.blocked_time,
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt) => Some(silent),
            Source::Derived(_) => port.time,
            Source::Rate { .. } => None,
        }
    }

    /// Returns the number of values that a record has for this metric. If the metric sums an array,
    /// it is the length of the array. It is 0 if the record has no counter of the metric, and 1 in
    /// all other cases.
    pub fn width(&self, port: &Port<'_>) -> usize {
        let Source::Rate { counters, element } = &self.source else { return 1 };
        let values = |name: &String| match (port.value(name), element) {
            (Some(Value::One(_)), None) => 1,
            (Some(Value::Many(values)), None) => values.len(),
            (Some(Value::Many(values)), Some(index)) => usize::from(*index < values.len()),
            _ => 0,
        };
        counters.iter().map(values).max().unwrap_or(0)
    }

    /// Returns whether values of several ports can be added. Rates can be added, but shares and
    /// times cannot.
    pub fn is_additive(&self) -> bool {
        matches!(self.source, Source::Rate { .. } | Source::Derived(Derived::XmitGbps | Derived::RcvGbps))
    }

    /// Returns whether the metric counts errors, which are rare.
    pub fn counts_errors(&self) -> bool {
        matches!(&self.source, Source::Rate { counters, .. } if counters.iter().any(|name| crate::ports::ERRORS.contains(&&**name)))
    }

    /// Returns the title for pictures and tables.
    pub fn title(&self) -> String {
        match &self.source {
            Source::Derived(Derived::XmitGbps) => "data sent".to_owned(),
            Source::Derived(Derived::RcvGbps) => "data received".to_owned(),
            Source::Derived(Derived::XmitUtilization) => "utilization, sending".to_owned(),
            Source::Derived(Derived::RcvUtilization) => "utilization, receiving".to_owned(),
            Source::Derived(Derived::XmitBlocked) => "time blocked".to_owned(),
            Source::Derived(Derived::CompoundQuery) => "compound query of a port".to_owned(),
            Source::Derived(Derived::MeanRtt) => "mean round-trip time of a MAD".to_owned(),
            Source::Rate { .. } if self.name == ERRORS => "errors of all kinds".to_owned(),
            Source::Rate { .. } => self.name.clone(),
        }
    }

    /// Returns the unit.
    pub fn unit(&self) -> Unit {
        match &self.source {
            Source::Derived(Derived::XmitGbps | Derived::RcvGbps) => Unit::Gbps,
            Source::Derived(Derived::XmitUtilization | Derived::RcvUtilization) => Unit::ShareOfLink,
            Source::Derived(Derived::XmitBlocked) => Unit::ShareOfTime,
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt) => Unit::Nanoseconds,
            Source::Rate { counters, .. } => match counters.first() {
                Some(name) if name.ends_with("_bytes") => Unit::OctetsPerSecond,
                Some(name) if name.ends_with("_ticks") => Unit::TicksPerSecond,
                _ => Unit::PerSecond,
            },
        }
    }

    /// Returns the value of the metric on a full link with this data rate. Returns `None` if the
    /// data rate does not limit the metric.
    pub fn of_full_link(&self, gbps: f64) -> Option<f64> {
        match self.unit() {
            Unit::Gbps => Some(gbps),
            Unit::OctetsPerSecond => Some(gbps * 1e9 / 8.0),
            _ => None,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Metric {
    type Err = ParseError;

    /// Parses a name, or the name of an array of counters with an index: `NAME[3]`. Any unknown name
    /// in lower case counts as the name of a counter. Reading the records shows whether this counter
    /// exists.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            ParseError::new(
                text,
                "xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns, rtt_mean_ns, errors, \
                 a counter, or an element of an array of counters such as port_xmit_data_sl_bytes[3]",
            )
        };
        let text_name = text.trim();
        let (name, element) = match text_name.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((name, index)) => (name, Some(index.parse::<usize>().map_err(|_| wrong())?)),
            None => (text_name, None),
        };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name || (element.is_some() && Self::names().any(|known| known == name)) {
            return Err(wrong());
        }
        let derived = DERIVED.iter().find(|(known, _)| *known == name).map(|(_, derived)| Source::Derived(*derived));
        let source = derived.unwrap_or_else(|| Source::Rate {
            counters: if name == ERRORS { ERROR_COUNTERS.map(str::to_owned).to_vec() } else { vec![name.to_owned()] },
            element,
        });
        Ok(Self { name: text_name.to_owned(), source })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sl => "SL",
            Self::Vl => "VL",
            Self::Lane => "lane",
        })
    }
}

/// The counters of a metric in one record. They are kept until the next record of the port.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    slot: u64,
    ts: u64,
    /// Values in the order of the counters and of the elements of an array. `None` for a missing or
    /// saturated value.
    values: Vec<Option<u64>>,
}

impl Reading {
    /// Reads the counters of a metric from a record.
    pub fn new(port: &Port<'_>, metric: &Metric) -> Self {
        let element = if let Source::Rate { element, .. } = &metric.source { *element } else { None };
        let mut values = Vec::with_capacity(metric.counters().len());
        for name in metric.counters() {
            let is_saturated = port.is_saturated(name);
            match (port.value(name), element) {
                (Some(Value::One(value)), None) => values.push((!is_saturated).then_some(*value)),
                (Some(Value::Many(all)), element) => {
                    // All bits of a saturated value are set, so it is the largest value of the
                    // array.
                    let limit = if is_saturated { all.iter().max() } else { None };
                    let read = |value: &u64| Some(*value).filter(|value| Some(value) != limit);
                    match element {
                        Some(index) => values.push(all.get(index).and_then(read)),
                        None => values.extend(all.iter().map(read)),
                    }
                }
                _ => values.push(None),
            }
        }
        Self { slot: port.slot, ts: port.ts, values }
    }

    /// Returns the increase per second since the previous slot, summed over the counters that both
    /// readings have. Returns `None` if the readings have no counter in common, if their slots are
    /// not consecutive, or if a counter decreased because it was reset.
    pub fn rate_since(&self, before: &Self) -> Option<f64> {
        let seconds = self.ts.checked_sub(before.ts).filter(|ns| *ns > 0)? as f64 / 1e9;
        if self.slot.checked_sub(before.slot) != Some(1) {
            return None;
        }
        let pairs: Vec<_> = self.values.iter().zip(&before.values).filter_map(|(now, then)| Some(((*now)?, (*then)?))).collect();
        let grown = pairs.iter().map(|(now, then)| now.checked_sub(*then).map(|more| more as f64)).sum::<Option<f64>>()?;
        (!pairs.is_empty()).then_some(grown / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Type};

    fn reading(slot: u64, values: &[Option<u64>]) -> Reading {
        Reading { slot, ts: slot * 500_000_000, values: values.to_vec() }
    }

    #[test]
    fn rate_is_the_increase_per_second() {
        let first = reading(1, &[Some(10), Some(5), None]);
        assert_eq!(reading(2, &[Some(13), Some(6), Some(9)]).rate_since(&first), Some(8.0), "4 more in half a second");
        assert_eq!(reading(2, &[Some(10), None, None]).rate_since(&first), Some(0.0));
    }

    #[test]
    fn gap_or_reset_gives_no_rate() {
        let first = reading(1, &[Some(10), None]);
        assert_eq!(reading(2, &[Some(9), None]).rate_since(&first), None, "the counter was reset");
        assert_eq!(reading(3, &[Some(12), None]).rate_since(&first), None, "a slot is missing");
        assert_eq!(reading(2, &[None, Some(1)]).rate_since(&first), None, "nothing in common");
        assert_eq!(reading(1, &[Some(10), None]).rate_since(&first), None, "the same slot");
        assert_eq!(first.rate_since(&reading(2, &[Some(1), None])), None, "time runs back");
    }

    #[test]
    fn names_parse_as_metrics() {
        assert_eq!("xmit_gbps".parse::<Metric>().unwrap().unit(), Unit::Gbps);
        assert_eq!("errors".parse::<Metric>().unwrap().counters().len(), ERROR_COUNTERS.len());
        let counter: Metric = "port_xmit_data_bytes".parse().unwrap();
        assert_eq!((counter.unit(), counter.counters()), (Unit::OctetsPerSecond, &["port_xmit_data_bytes".to_owned()][..]));
        assert!("".parse::<Metric>().is_err() && "Xmit".parse::<Metric>().is_err() && "a\u{1b}".parse::<Metric>().is_err());
    }

    fn read(line: &str, metric: &str) -> Reading {
        let line = format!(r#"{{"type":"port","ts":1,"slot":1,"sampler":"s","guid":"0x0000000000000001","port":1,"status":"ok",{line}}}"#);
        let Record::Port(port) = Record::parse(line.as_bytes(), Type::Port).unwrap() else { panic!("a port") };
        Reading::new(&port, &metric.parse().unwrap())
    }

    #[test]
    fn array_is_read_as_an_element_or_as_the_sum() {
        let line = r#""port_xmit_data_sl_bytes":[5,0,7],"port_xmit_pkts":9"#;
        assert_eq!(read(line, "port_xmit_data_sl_bytes[2]").values, [Some(7)]);
        assert_eq!(read(line, "port_xmit_data_sl_bytes[3]").values, [None]);
        assert_eq!(read(line, "port_xmit_data_sl_bytes").values, [Some(5), Some(0), Some(7)]);
        assert_eq!(read(line, "port_xmit_pkts").values, [Some(9)]);
        assert_eq!(read(line, "port_xmit_pkts[0]").values, [None], "a single value has no elements");
    }

    #[test]
    fn other_elements_of_a_saturated_array_are_known() {
        let line = r#""port_vl_op_packets":[65535,3,0],"saturated":["port_vl_op_packets"]"#;
        assert_eq!(read(line, "port_vl_op_packets").values, [None, Some(3), Some(0)]);
        assert_eq!(read(line, "port_vl_op_packets[1]").values, [Some(3)]);
    }

    #[test]
    fn elements_have_names() {
        let metric: Metric = "port_xmit_data_sl_bytes[3]".parse().unwrap();
        assert_eq!((metric.name(), metric.elements(), metric.unit()), ("port_xmit_data_sl_bytes[3]", Element::Sl, Unit::OctetsPerSecond));
        assert_eq!("port_vl_op_data".parse::<Metric>().unwrap().element(3), Some("port_vl_op_data[3]".parse().unwrap()));
        assert_eq!("errors".parse::<Metric>().unwrap().element(3), None);
        for text in ["xmit_gbps[1]", "errors[0]", "a[", "a[x]", "a[-1]", "[1]", "a]"] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }
}
