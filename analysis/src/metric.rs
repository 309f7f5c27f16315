//! Metrics of a port: the derived values of the records, and the rate of any counter.

use std::fmt;
use std::str::FromStr;

use ibnet::record::ERROR_COUNTERS;
use ibnet::types::ParseError;

use crate::record::Port;

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
    /// The increase per second of the sum of these counters.
    Rate(Vec<String>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Derived {
    XmitGbps,
    RcvGbps,
    XmitUtilization,
    RcvUtilization,
    XmitBlocked,
    Rtt,
}

const DERIVED: [(&str, Derived); 6] = [
    ("xmit_gbps", Derived::XmitGbps),
    ("rcv_gbps", Derived::RcvGbps),
    ("xmit_utilization", Derived::XmitUtilization),
    ("rcv_utilization", Derived::RcvUtilization),
    ("xmit_blocked", Derived::XmitBlocked),
    ("rtt_ns", Derived::Rtt),
];

impl Metric {
    /// Returns the name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counters of a rate; empty for a derived value.
    pub fn counters(&self) -> &[String] {
        match &self.source {
            Source::Derived(_) => &[],
            Source::Rate(names) => names,
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
            // `rtt_ns` is the sum over the MADs that were answered.
            Source::Derived(Derived::Rtt) => (port.mads > 0 && port.answered()).then(|| port.rtt_ns as f64 / port.mads as f64),
            Source::Rate(_) => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns whether values of several ports can be added. Rates can be added, but shares and
    /// times cannot.
    pub fn is_additive(&self) -> bool {
        matches!(self.source, Source::Rate(_) | Source::Derived(Derived::XmitGbps | Derived::RcvGbps))
    }

    /// Returns the title for pictures and tables.
    pub fn title(&self) -> String {
        match &self.source {
            Source::Derived(Derived::XmitGbps) => "data sent".to_owned(),
            Source::Derived(Derived::RcvGbps) => "data received".to_owned(),
            Source::Derived(Derived::XmitUtilization) => "utilization, sending".to_owned(),
            Source::Derived(Derived::RcvUtilization) => "utilization, receiving".to_owned(),
            Source::Derived(Derived::XmitBlocked) => "time blocked".to_owned(),
            Source::Derived(Derived::Rtt) => "round-trip time of a MAD".to_owned(),
            Source::Rate(_) if self.name == "errors" => "errors of all kinds".to_owned(),
            Source::Rate(_) => self.name.clone(),
        }
    }

    /// Returns the unit.
    pub fn unit(&self) -> &'static str {
        match &self.source {
            Source::Derived(Derived::XmitGbps | Derived::RcvGbps) => "Gb/s",
            Source::Derived(Derived::XmitUtilization | Derived::RcvUtilization) => "share of the link",
            Source::Derived(Derived::XmitBlocked) => "share of the time",
            Source::Derived(Derived::Rtt) => "ns",
            Source::Rate(_) if self.name.ends_with("_bytes") => "octets/s",
            Source::Rate(_) if self.name.ends_with("_ticks") => "ticks/s",
            Source::Rate(_) => "1/s",
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

    /// Parses a name. Any unknown name in lower case counts as the name of a counter. Reading the
    /// records shows whether this counter exists.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let name = text.trim().to_owned();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name {
            return Err(ParseError::new(
                text,
                "xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns, errors or a counter",
            ));
        }
        let derived = DERIVED.iter().find(|(known, _)| *known == name).map(|(_, derived)| Source::Derived(*derived));
        let source = derived.unwrap_or_else(|| {
            Source::Rate(if name == "errors" { ERROR_COUNTERS.map(str::to_owned).to_vec() } else { vec![name.clone()] })
        });
        Ok(Self { name, source })
    }
}

/// The counters of a metric in one record, kept until the next record.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    slot: u64,
    ts: u64,
    /// Values in the order of the counters. `None` for a missing or saturated counter.
    values: Vec<Option<u64>>,
}

impl Reading {
    /// Reads these counters from a record.
    pub fn new(port: &Port<'_>, counters: &[String]) -> Self {
        let value = |name: &String| port.counter(name).filter(|_| !port.is_saturated(name));
        Self { slot: port.slot, ts: port.ts, values: counters.iter().map(value).collect() }
    }

    /// Returns the increase per second since the previous slot, summed over the counters that both
    /// readings have. Returns `None` if they have none in common, if they are not of consecutive
    /// slots, or if a counter decreased because it was reset.
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
        assert_eq!("xmit_gbps".parse::<Metric>().unwrap().unit(), "Gb/s");
        assert_eq!("errors".parse::<Metric>().unwrap().counters().len(), ERROR_COUNTERS.len());
        let counter: Metric = "port_xmit_data_bytes".parse().unwrap();
        assert_eq!((counter.unit(), counter.counters()), ("octets/s", &["port_xmit_data_bytes".to_owned()][..]));
        assert!("".parse::<Metric>().is_err() && "Xmit".parse::<Metric>().is_err() && "a\u{1b}".parse::<Metric>().is_err());
    }
}
