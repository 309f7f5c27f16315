//! The metrics of a port: values derived from its records, and rates of its counters.

use std::fmt;
use std::str::FromStr;

use ibnet_record::types::ParseError;
use ibnet_record::{ERROR_COUNTERS, summed_error_counters};

use crate::input::run::MeasuredOver;
use crate::record::{Interval, Port, Value};

/// A metric of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    name: String,
    source: Source,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// A value that is derived from the fields of a record.
    Derived(Derived),
    /// The increase per second of the sum of these counters, or of one element of an array.
    Rate {
        counters: Vec<String>,
        element: Option<usize>,
    },
    /// Blocked time per byte sent: the ratio of two derived values.
    BlockedPerByte,
    /// A metric of hosts, which is in no record.
    Hosts { title: String, unit: Unit },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Derived {
    XmitGbps,
    RcvGbps,
    XmitUtilization,
    RcvUtilization,
    XmitBlocked,
    /// Time of all MADs of the port in a slot: `rtt_ns` of the record.
    CompoundQuery,
    /// Mean time of a MAD of the port in a slot.
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

/// Name of the metric that is the ratio of blocked time to bytes sent.
const BLOCKED_PER_BYTE: &str = "blocked_ns_per_byte";

/// Name of the metric that is the sum of [`summed_error_counters`].
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
    /// Bytes per second.
    OctetsPerSecond,
    /// Ticks per second. The length of a tick depends on the device.
    TicksPerSecond,
    /// Packets, events or errors per second.
    PerSecond,
    /// Bytes.
    Octets,
    /// A number without a unit.
    Number,
}

impl Metric {
    /// Names of all metrics that are not counters.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DERIVED
            .iter()
            .map(|(name, _)| *name)
            .chain([BLOCKED_PER_BYTE, ERRORS])
    }

    fn derived((name, derived): (&str, Derived)) -> Self {
        Self {
            name: name.to_owned(),
            source: Source::Derived(derived),
        }
    }

    /// Returns the share of the link's data rate that a port sends.
    pub fn xmit_utilization() -> Self {
        Self::derived(("xmit_utilization", Derived::XmitUtilization))
    }

    /// Returns the numerator and the denominator of a ratio, whose means over a time are known
    /// before their ratio is. Returns `None` for any other metric.
    pub fn ratio(&self) -> Option<[Self; 2]> {
        (self.source == Source::BlockedPerByte).then(|| {
            [
                ("xmit_blocked", Derived::XmitBlocked),
                ("xmit_gbps", Derived::XmitGbps),
            ]
            .map(Self::derived)
        })
    }

    /// Returns a metric of hosts. Its values come from other sources, not from the records.
    pub fn of_hosts(name: &str, title: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            source: Source::Hosts {
                title: title.to_owned(),
                unit,
            },
        }
    }

    /// Returns whether this is a metric of hosts.
    pub const fn is_of_hosts(&self) -> bool {
        matches!(self.source, Source::Hosts { .. })
    }

    /// Returns the name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters of a rate. The list is empty for a derived value.
    pub fn counters(&self) -> &[String] {
        match &self.source {
            Source::Derived(_) | Source::BlockedPerByte | Source::Hosts { .. } => &[],
            Source::Rate { counters, .. } => counters,
        }
    }

    /// Returns the index of the element, if the metric is one element of an array of counters.
    pub const fn index(&self) -> Option<usize> {
        match &self.source {
            Source::Rate { element, .. } => *element,
            _ => None,
        }
    }

    /// Returns the metric of one element of an array of counters, or `None` if the metric is not
    /// the rate of a single counter.
    pub fn element(&self, index: usize) -> Option<Self> {
        match &self.source {
            Source::Rate {
                counters,
                element: None,
            } => match &counters[..] {
                [counter] => Some(Self {
                    name: format!("{counter}[{index}]"),
                    source: Source::Rate {
                        counters: counters.clone(),
                        element: Some(index),
                    },
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the metric without the index of an element.
    pub fn whole(&self) -> Self {
        match &self.source {
            Source::Rate {
                counters,
                element: Some(_),
            } => Self {
                name: counters.concat(),
                source: Source::Rate {
                    counters: counters.clone(),
                    element: None,
                },
            },
            _ => self.clone(),
        }
    }

    /// Returns the kind of the elements. It is meaningful only if the counter is an array.
    pub fn elements(&self) -> Element {
        match self.counters().first() {
            Some(name) if name.contains("_sl_") => Element::Sl,
            Some(name) if name.contains("_lane") => Element::Lane,
            _ => Element::Vl,
        }
    }

    /// Returns the derived value of a record. Returns `None` if the value is missing or the
    /// metric is a rate.
    pub fn value(&self, port: &Port<'_>) -> Option<f64> {
        let value = match &self.source {
            Source::Derived(Derived::XmitGbps) => port.xmit_gbps,
            Source::Derived(Derived::RcvGbps) => port.rcv_gbps,
            Source::Derived(Derived::XmitUtilization) => port.xmit_utilization,
            Source::Derived(Derived::RcvUtilization) => port.rcv_utilization,
            Source::Derived(Derived::XmitBlocked) => port.xmit_blocked,
            // `rtt_ns` adds up only the MADs with a reply, so it is too short if one had none.
            Source::Derived(Derived::CompoundQuery) => {
                (port.mads > 0 && port.answered()).then_some(port.rtt_ns as f64)
            }
            Source::Derived(Derived::MeanRtt) => {
                (port.mads > 0 && port.answered()).then(|| port.rtt_ns as f64 / port.mads as f64)
            }
            Source::Rate { .. } | Source::BlockedPerByte | Source::Hosts { .. } => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns the time that the value of a record describes. Data rates and blocked shares have
    /// it in the record; a round-trip time describes `slot_before`, one slot that ends at the
    /// record.
    pub fn time(&self, port: &Port<'_>, slot_before: Interval) -> Option<Interval> {
        match &self.source {
            Source::Derived(Derived::XmitBlocked) => port.blocked_time,
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt) => Some(slot_before),
            Source::Derived(_) => port.time,
            Source::Rate { .. } | Source::BlockedPerByte | Source::Hosts { .. } => None,
        }
    }

    /// Returns the names of the record fields that [`Self::value`] and [`Self::time`] read; for a
    /// rate, the names of its counters.
    pub fn fields(&self) -> Vec<String> {
        let fields: &[&str] = match &self.source {
            Source::Rate { counters, .. } => return counters.clone(),
            Source::Derived(Derived::XmitBlocked) => &["xmit_blocked", "xmit_blocked_dt_ns"],
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt) => &["rtt_ns", "mads"],
            Source::Derived(_) => return vec![self.name.clone()],
            Source::BlockedPerByte => &["xmit_blocked", "xmit_blocked_dt_ns", "xmit_gbps"],
            Source::Hosts { .. } => &[],
        };
        fields.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Returns the field whose value is the metric, and whether its time is that of the data
    /// rates or of the blocked share. Returns `None` if the metric is computed from several
    /// fields or records.
    pub fn field(&self) -> Option<(&str, MeasuredOver)> {
        match &self.source {
            Source::Derived(Derived::XmitBlocked) => Some((&self.name, MeasuredOver::Blocked)),
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt)
            | Source::Rate { .. }
            | Source::BlockedPerByte
            | Source::Hosts { .. } => None,
            Source::Derived(_) => Some((&self.name, MeasuredOver::Data)),
        }
    }

    /// Returns the number of values that a record has for this metric: the array length if the
    /// metric sums an array, 0 if the record has no counter of the metric, otherwise 1.
    pub fn width(&self, port: &Port<'_>) -> usize {
        let Source::Rate { counters, element } = &self.source else {
            return 1;
        };
        let values = |name: &String| match (port.value(name), element) {
            (Some(Value::One(_)), None) => 1,
            (Some(Value::Many(values)), None) => values.len(),
            (Some(Value::Many(values)), Some(index)) => usize::from(*index < values.len()),
            _ => 0,
        };
        counters.iter().map(values).max().unwrap_or(0)
    }

    /// Returns whether values of several ports can be added up. Rates and both parts of a ratio
    /// can, but shares and times cannot.
    pub fn is_additive(&self) -> bool {
        matches!(
            self.source,
            Source::Rate { .. }
                | Source::BlockedPerByte
                | Source::Derived(Derived::XmitGbps | Derived::RcvGbps)
        )
    }

    /// Returns whether the metric counts errors, which are rare.
    pub fn counts_errors(&self) -> bool {
        matches!(&self.source, Source::Rate { counters, .. } if counters.iter().any(|name| ERROR_COUNTERS.contains(&&**name)))
    }

    /// Returns whether an increase is shown although its rate is unknown: errors, and waits of a
    /// virtual lane, whose counters are full so soon that they show only whether it waited.
    pub fn shows_increases(&self) -> bool {
        let waits = "port_vl_xmit_wait_ticks";
        self.counts_errors() || self.counters().iter().any(|name| &**name == waits)
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
            Source::BlockedPerByte => "blocked time per byte sent".to_owned(),
            Source::Rate { .. } if self.name == ERRORS => "errors of all kinds".to_owned(),
            Source::Rate { .. } => self.name.clone(),
            Source::Hosts { title, .. } => title.clone(),
        }
    }

    /// Returns the unit.
    pub fn unit(&self) -> Unit {
        match &self.source {
            Source::Derived(Derived::XmitGbps | Derived::RcvGbps) => Unit::Gbps,
            Source::Derived(Derived::XmitUtilization | Derived::RcvUtilization) => {
                Unit::ShareOfLink
            }
            Source::Derived(Derived::XmitBlocked) => Unit::ShareOfTime,
            Source::Derived(Derived::CompoundQuery | Derived::MeanRtt) | Source::BlockedPerByte => {
                Unit::Nanoseconds
            }
            Source::Hosts { unit, .. } => *unit,
            Source::Rate { counters, .. } => match counters.first() {
                Some(name) if name.ends_with("_bytes") => Unit::OctetsPerSecond,
                Some(name) if name.ends_with("_ticks") => Unit::TicksPerSecond,
                _ => Unit::PerSecond,
            },
        }
    }

    /// Returns the value of the metric on a fully used link with this data rate. Returns `None`
    /// if the data rate does not limit the metric.
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

    /// Parses a name, or the name of an array of counters with an index: `NAME[3]`. An unknown
    /// name in lower case is taken for a counter; only the records show whether this counter
    /// exists.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            ParseError::new(
                text,
                "xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns, rtt_mean_ns, blocked_ns_per_byte, errors, \
                 a counter, or an element of an array of counters such as port_xmit_data_sl_bytes[3]",
            )
        };
        let text_name = text.trim();
        let (name, element) = match text_name
            .strip_suffix(']')
            .and_then(|text| text.split_once('['))
        {
            Some((name, index)) => (name, Some(index.parse::<usize>().map_err(|_| wrong())?)),
            None => (text_name, None),
        };
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name || (element.is_some() && Self::names().any(|known| known == name)) {
            return Err(wrong());
        }
        let derived = DERIVED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, derived)| Source::Derived(*derived))
            .or_else(|| (name == BLOCKED_PER_BYTE).then_some(Source::BlockedPerByte));
        let source = derived.unwrap_or_else(|| Source::Rate {
            counters: if name == ERRORS {
                summed_error_counters().map(str::to_owned).collect()
            } else {
                vec![name.to_owned()]
            },
            element,
        });
        Ok(Self {
            name: text_name.to_owned(),
            source,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_as_metrics() {
        assert_eq!("xmit_gbps".parse::<Metric>().unwrap().unit(), Unit::Gbps);
        assert_eq!(
            "errors".parse::<Metric>().unwrap().counters().len(),
            summed_error_counters().count()
        );
        let counter: Metric = "port_xmit_data_bytes".parse().unwrap();
        assert_eq!(
            (counter.unit(), counter.counters()),
            (
                Unit::OctetsPerSecond,
                &["port_xmit_data_bytes".to_owned()][..]
            )
        );
        assert!(
            "".parse::<Metric>().is_err()
                && "Xmit".parse::<Metric>().is_err()
                && "a\u{1b}".parse::<Metric>().is_err()
        );
    }

    #[test]
    fn elements_have_names() {
        let metric: Metric = "port_xmit_data_sl_bytes[3]".parse().unwrap();
        assert_eq!(
            (metric.name(), metric.elements(), metric.unit()),
            (
                "port_xmit_data_sl_bytes[3]",
                Element::Sl,
                Unit::OctetsPerSecond
            )
        );
        assert_eq!(
            "port_vl_op_data".parse::<Metric>().unwrap().element(3),
            Some("port_vl_op_data[3]".parse().unwrap())
        );
        assert_eq!("errors".parse::<Metric>().unwrap().element(3), None);
        for text in [
            "xmit_gbps[1]",
            "errors[0]",
            "a[",
            "a[x]",
            "a[-1]",
            "[1]",
            "a]",
        ] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }
}
