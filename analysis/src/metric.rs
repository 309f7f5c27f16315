//! What can be shown of a port: the derived values of the records, and the rate of any counter.

use std::fmt;
use std::str::FromStr;

use super::record::Port;
use ibnet::types::ParseError;

/// What is summed up as `errors`.
const ERRORS: [&str; 9] = [
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
];

/// A quantity that every port has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    name: String,
    of: Of,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    /// Stands in the record.
    Derived(Derived),
    /// So much more a second, of all these counters together.
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
    /// As it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counters whose rate it is; none for what stands in the record.
    pub fn counters(&self) -> &[String] {
        match &self.of {
            Of::Derived(_) => &[],
            Of::Rate(names) => names,
        }
    }

    /// Its value in a record, if it stands there and is known.
    pub fn value(&self, port: &Port<'_>) -> Option<f64> {
        let value = match &self.of {
            Of::Derived(Derived::XmitGbps) => port.xmit_gbps,
            Of::Derived(Derived::RcvGbps) => port.rcv_gbps,
            Of::Derived(Derived::XmitUtilization) => port.xmit_utilization,
            Of::Derived(Derived::RcvUtilization) => port.rcv_utilization,
            Of::Derived(Derived::XmitBlocked) => port.xmit_blocked,
            // The record has the sum over the MADs; of some of them when others were lost.
            Of::Derived(Derived::Rtt) => (port.mads > 0 && port.answered()).then(|| port.rtt_ns as f64 / port.mads as f64),
            Of::Rate(_) => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Whether values of several ports make sense as a sum: rates do, shares and times do not.
    pub fn is_additive(&self) -> bool {
        matches!(self.of, Of::Rate(_) | Of::Derived(Derived::XmitGbps | Derived::RcvGbps))
    }

    /// What it is, for people.
    pub fn title(&self) -> String {
        match &self.of {
            Of::Derived(Derived::XmitGbps) => "data sent".to_owned(),
            Of::Derived(Derived::RcvGbps) => "data received".to_owned(),
            Of::Derived(Derived::XmitUtilization) => "utilisation, sending".to_owned(),
            Of::Derived(Derived::RcvUtilization) => "utilisation, receiving".to_owned(),
            Of::Derived(Derived::XmitBlocked) => "time blocked".to_owned(),
            Of::Derived(Derived::Rtt) => "round trip of a MAD".to_owned(),
            Of::Rate(_) if self.name == "errors" => "errors of all kinds".to_owned(),
            Of::Rate(_) => self.name.clone(),
        }
    }

    /// Its unit.
    pub fn unit(&self) -> &'static str {
        match &self.of {
            Of::Derived(Derived::XmitGbps | Derived::RcvGbps) => "Gb/s",
            Of::Derived(Derived::XmitUtilization | Derived::RcvUtilization) => "share of the link",
            Of::Derived(Derived::XmitBlocked) => "share of the time",
            Of::Derived(Derived::Rtt) => "ns",
            Of::Rate(_) if self.name.ends_with("_bytes") => "octets/s",
            Of::Rate(_) if self.name.ends_with("_ticks") => "ticks/s",
            Of::Rate(_) => "1/s",
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

    /// Any name in lower case may be a counter: whether it is, the records tell.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let name = text.trim().to_owned();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name {
            return Err(ParseError::new(
                text,
                "xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns, errors or a counter",
            ));
        }
        let derived = DERIVED.iter().find(|(known, _)| *known == name).map(|(_, derived)| Of::Derived(*derived));
        let of =
            derived.unwrap_or_else(|| Of::Rate(if name == "errors" { ERRORS.map(str::to_owned).to_vec() } else { vec![name.clone()] }));
        Ok(Self { name, of })
    }
}

/// A reading of the counters of a metric, kept until the next one.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    slot: u64,
    ts: u64,
    /// In the order of the counters; `None` where one did not answer or is full.
    values: Vec<Option<u64>>,
}

impl Reading {
    /// What a record has of these counters.
    pub fn new(port: &Port<'_>, counters: &[String]) -> Self {
        let value = |name: &String| port.counter(name).filter(|_| !port.is_saturated(name));
        Self { slot: port.slot, ts: port.ts, values: counters.iter().map(value).collect() }
    }

    /// So much more a second than in the slot before, of all counters that both have. `None` if that is none of them, if slots are between the
    /// two, or if a counter fell: somebody cleared it.
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
    fn a_rate_is_a_difference_over_its_time() {
        let first = reading(1, &[Some(10), Some(5), None]);
        assert_eq!(reading(2, &[Some(13), Some(6), Some(9)]).rate_since(&first), Some(8.0), "4 more in half a second");
        assert_eq!(reading(2, &[Some(10), None, None]).rate_since(&first), Some(0.0));
    }

    #[test]
    fn no_rate_is_made_up() {
        let first = reading(1, &[Some(10), None]);
        assert_eq!(reading(2, &[Some(9), None]).rate_since(&first), None, "it was cleared");
        assert_eq!(reading(3, &[Some(12), None]).rate_since(&first), None, "a slot is missing");
        assert_eq!(reading(2, &[None, Some(1)]).rate_since(&first), None, "nothing in common");
        assert_eq!(reading(1, &[Some(10), None]).rate_since(&first), None, "the same slot");
        assert_eq!(first.rate_since(&reading(2, &[Some(1), None])), None, "time runs back");
    }

    #[test]
    fn names_are_metrics() {
        assert_eq!("xmit_gbps".parse::<Metric>().unwrap().unit(), "Gb/s");
        assert_eq!("errors".parse::<Metric>().unwrap().counters().len(), ERRORS.len());
        let counter: Metric = "port_xmit_data_bytes".parse().unwrap();
        assert_eq!((counter.unit(), counter.counters()), ("octets/s", &["port_xmit_data_bytes".to_owned()][..]));
        assert!("".parse::<Metric>().is_err() && "Xmit".parse::<Metric>().is_err() && "a\u{1b}".parse::<Metric>().is_err());
    }
}
