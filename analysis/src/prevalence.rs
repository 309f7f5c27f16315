//! How often, where and at what cost ports wait: the share of the time in which the blocked share
//! of a port was above a limit, by link, leaf switch, host, hour of the day and weekday.
//!
//! Each record counts with its time: a record is above the limit if its blocked share is. Time
//! without a blocked share is unknown. It belongs neither to the time above the limit nor to the
//! time below it, and `covered` is the share of the time that is known.
//!
//! Over more than two days, an archive gives one-minute means. The mean, the max and the 95th
//! percentile of a minute do not determine for which share of it the records were above the limit,
//! but they bound this share: see `bounds`. Blocked time and bytes are the same for minutes and
//! for records.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibnet_record::types::{Guid, NodeKind, PortNum};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::hosts::{Hosts, host_of};
use crate::input::Fold;
use crate::input::run::{MeasuredOver, Run};
use crate::ports::carried::may_lead_to_host;
use crate::ports::{PortKey, PortName};
use crate::record::{Interval, Port, Record, Type, Value};
use crate::rows::Row;
use crate::when::Zone;

mod calendar;
mod hours;
pub mod roots;

use self::hours::{Hours, QUARTER_NS};

/// Time from which one-minute means are used: two days.
const LONG_NS: u64 = 2 * 86_400_000_000_000;

const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// What a row describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// A direction of a link.
    #[default]
    Link,
    /// A direction of all links between a switch and its hosts.
    Leaf,
    /// A direction of all links of a host.
    Host,
    /// An hour of the day in the local time zone, with all ports.
    Hour,
    /// A weekday in the local time zone, with all ports.
    Weekday,
}

/// The direction of a row of a leaf switch or a host. The sending ports count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Switch ports send to hosts.
    ToHosts,
    /// HCA ports send to switches.
    FromHosts,
}

/// A row of the JSON output, with null for unknown values.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct PrevalenceRow {
    /// Node description of the sending port or of the leaf switch, name of the host, hour of the
    /// day from `00` to `23`, or weekday.
    pub name: String,
    /// GUID of the sending port or of the leaf switch. Null for other rows.
    pub guid: Option<Guid>,
    /// Number of the sending port. Null for rows of several ports.
    pub port: Option<PortNum>,
    /// The receiving port. Null for rows of several ports, or if unknown.
    pub peer: Option<PortName>,
    /// Direction of a leaf switch or a host. Null for other rows.
    pub direction: Option<Direction>,
    /// Number of sending ports.
    pub ports: usize,
    /// Blocked share above which time counts, 0 to 1.
    pub limit: f64,
    /// Share of the known time in which the blocked share was above the limit, 0 to 1. From
    /// one-minute means, a lower bound.
    pub above: Option<f64>,
    /// Upper bound of this share. Equal to `above` without one-minute means.
    pub above_max: Option<f64>,
    /// Share of the known time that was read as one-minute means, 0 to 1.
    pub minutes: Option<f64>,
    /// Share of the time range in which the blocked share is known, 0 to 1.
    pub covered: Option<f64>,
    /// Mean blocked share of the known time, 0 to 1.
    pub blocked: Option<f64>,
    /// Blocked time in seconds, summed over the ports. Null if nothing is known.
    pub blocked_seconds: Option<f64>,
    /// Bytes sent in the time in which the data rate is known. Null if nothing is known.
    pub sent_bytes: Option<f64>,
    /// Blocked seconds per 10^9 bytes sent: `blocked` divided by the mean data rate.
    pub blocked_seconds_per_gb: Option<f64>,
}

impl Row for PrevalenceRow {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "guid",
        "port",
        "peer_guid",
        "peer_port",
        "peer_node",
        "direction",
        "ports",
        "limit",
        "above",
        "above_max",
        "minutes",
        "covered",
        "blocked",
        "blocked_seconds",
        "sent_bytes",
        "blocked_seconds_per_gb",
    ];
}

/// Sums over time, in seconds and bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sums {
    known: f64,
    /// Bounds of the time above the limit.
    above: [f64; 2],
    /// Known time of one-minute means.
    minutes: f64,
    blocked: f64,
    sent_known: f64,
    sent: f64,
}

impl Sums {
    #[inline]
    fn add_blocked(&mut self, share: f64, above: [f64; 2], is_minute: bool, seconds: f64) {
        self.known += seconds;
        self.above[0] += above[0] * seconds;
        self.above[1] += above[1] * seconds;
        self.minutes += if is_minute { seconds } else { 0.0 };
        self.blocked += share * seconds;
    }

    fn is_empty(&self) -> bool {
        self.known == 0.0 && self.sent_known == 0.0
    }

    /// Returns the mean blocked share by the mean data rate, which is also the number of blocked
    /// nanoseconds per byte.
    fn blocked_seconds_per_gb(&self) -> Option<f64> {
        let blocked = ratio(self.blocked, self.known)?;
        Some(blocked * ratio(self.sent_known, self.sent / 1e9)?)
    }

    #[inline]
    fn add_sent(&mut self, gbps: f64, seconds: f64) {
        self.sent_known += seconds;
        self.sent += gbps * seconds * 1e9 / 8.0;
    }

    fn merge(&mut self, other: Self) {
        self.known += other.known;
        self.above[0] += other.above[0];
        self.above[1] += other.above[1];
        self.minutes += other.minutes;
        self.blocked += other.blocked;
        self.sent_known += other.sent_known;
        self.sent += other.sent;
    }
}

fn ratio(part: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| part / of)
}

fn seconds(time: Interval) -> f64 {
    time.length_ns() as f64 / 1e9
}

/// What an archive has about the records of a minute, beside their mean. A NaN is unknown.
#[derive(Clone, Copy, Debug)]
struct Minute {
    max: f64,
    p95: f64,
}

/// The columns of [`Minute`].
const MINUTE: [&str; 2] = ["xmit_blocked_max", "xmit_blocked_p95"];

/// Returns bounds of the share of a time in which the records were above a limit *l*. `mean` is the
/// blocked share of a record, or that of a minute.
///
/// Of the records of a minute with the mean *m* and the max *M*, at least (*m* - *l*) / (*M* - *l*)
/// and at most *m* / *l* are above the limit. If the 95th percentile is above the limit, so are at
/// least 5 % of them, and else at most 5 %.
fn bounds(mean: f64, limit: f64, minute: Option<Minute>) -> [f64; 2] {
    let Some(Minute { max, p95 }) = minute else {
        return [f64::from(u8::from(mean > limit)); 2];
    };
    // Unlike the comparisons, `min` leaves out a NaN.
    let max = max.min(1.0);
    if max <= limit {
        return [0.0; 2];
    }
    let least = ((mean - limit) / (max - limit)).clamp(0.0, 1.0);
    let most = if limit > 0.0 {
        (mean / limit).min(1.0)
    } else {
        1.0
    };
    let [least, most] = if p95 > limit {
        [least.max(0.05), most]
    } else if p95 <= limit {
        [least, most.min(0.05)]
    } else {
        [least, most]
    };
    // The archive has six decimals.
    [least.min(most), most.max(least)]
}

#[derive(Clone, Debug, Default)]
struct PortWaits {
    node: Box<str>,
    kind: Option<NodeKind>,
    peer: Option<PortKey>,
    peer_node: Box<str>,
    sums: Sums,
}

impl PortWaits {
    fn add_names(&mut self, port: &Port<'_>) {
        if *self.node != *port.node {
            self.node = (&*port.node).into();
        }
        self.kind = port.kind.or(self.kind);
        self.peer = port.peer_guid.zip(port.peer_port).or(self.peer);
        if let Some(peer) = port.peer.as_ref().filter(|peer| ***peer != *self.peer_node) {
            self.peer_node = (&**peer).into();
        }
    }

    /// Adds a record: its data rate and its blocked share, each with the time that it describes.
    #[inline]
    fn add(
        &mut self,
        [sent, blocked]: [(f64, Option<Interval>); 2],
        limit: f64,
        minute: Option<Minute>,
        hours: &mut Hours,
    ) {
        if let (share, Some(time)) = blocked
            && share.is_finite()
        {
            let (above, is_minute) = (bounds(share, limit, minute), minute.is_some());
            let add = |sums: &mut Sums, seconds| sums.add_blocked(share, above, is_minute, seconds);
            add(&mut self.sums, seconds(time));
            hours.spread(time, add);
        }
        if let (gbps, Some(time)) = sent
            && gbps.is_finite()
        {
            let add = |sums: &mut Sums, seconds| sums.add_sent(gbps, seconds);
            add(&mut self.sums, seconds(time));
            hours.spread(time, add);
        }
    }
}

/// The waiting of all ports.
#[derive(Clone, Debug)]
pub struct Prevalence {
    limit: f64,
    hosts: Option<Arc<Hosts>>,
    by_port: BTreeMap<PortKey, PortWaits>,
    hours: Hours,
}

impl Prevalence {
    /// Creates an empty state. Only ports of these hosts, and their peers, are evaluated; `None` is
    /// all ports.
    pub fn new(limit: f64, zone: Zone, hosts: Option<Hosts>) -> Self {
        Self {
            limit,
            hosts: hosts.map(Arc::new),
            by_port: BTreeMap::new(),
            hours: Hours::new(zone),
        }
    }

    /// Returns whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.by_port.is_empty()
    }

    fn port(&mut self, port: &Port<'_>) -> Option<(&mut PortWaits, &mut Hours)> {
        if let Some(hosts) = &self.hosts
            && !hosts.contains_end(&port.node, port.peer.as_deref())
        {
            return None;
        }
        let waits = self.by_port.entry(port.key()).or_default();
        waits.add_names(port);
        Some((waits, &mut self.hours))
    }

    /// Returns the rows. `span` is the time range in nanoseconds since 1970. Hours and weekdays are
    /// in their order; in other rows the largest share of time above the limit is first.
    pub fn rows(&self, by: By, span: (u64, u64)) -> Vec<PrevalenceRow> {
        let time = Interval::new(span.0, span.1);
        match by {
            By::Hour => self.of_week(time, 24, |hour| (hour % 24, format!("{:02}", hour % 24))),
            By::Weekday => self.of_week(time, 7, |hour| (hour / 24, WEEKDAYS[hour / 24].into())),
            By::Link | By::Leaf | By::Host => {
                let mut rows = self.of_ports(by, time.map_or(0.0, seconds));
                // The sort is stable, so rows of equal value stay in the order of their names.
                rows.sort_by(|a, b| b.value().total_cmp(&a.value()));
                rows
            }
        }
    }

    fn of_week(
        &self,
        time: Option<Interval>,
        count: usize,
        of: impl Fn(usize) -> (usize, String),
    ) -> Vec<PrevalenceRow> {
        let mut rows = vec![(String::new(), Sums::default(), 0.0); count];
        let zone = self.hours.zone();
        for hour in 0..168 {
            let (index, name) = of(hour);
            rows[index].0 = name;
        }
        for (start_ns, sums) in self.hours.iter() {
            rows[of(zone.hour_of_week(start_ns)).0].1.merge(*sums);
        }
        for (quarter, part) in time.into_iter().flat_map(|time| time.split(QUARTER_NS)) {
            let hour = zone.hour_of_week(quarter * QUARTER_NS);
            rows[of(hour).0].2 += seconds(part);
        }
        let ports = self.by_port.len();
        rows.into_iter()
            .map(|(name, sums, seconds)| {
                let row = PrevalenceRow {
                    name,
                    ports,
                    ..PrevalenceRow::default()
                };
                self.with_values(row, &sums, seconds)
            })
            .collect()
    }

    fn of_ports(&self, by: By, seconds: f64) -> Vec<PrevalenceRow> {
        let kinds: FxHashMap<Guid, NodeKind> = self
            .by_port
            .iter()
            .filter_map(|((guid, _), port)| Some((*guid, port.kind?)))
            .collect();
        let mut rows: BTreeMap<_, (PrevalenceRow, Sums)> = BTreeMap::new();
        for (key, port) in &self.by_port {
            let is_host = |guid: &Guid| kinds.get(guid).map(|kind| *kind != NodeKind::Switch);
            let direction = if is_host(&key.0) == Some(true) {
                Some(Direction::FromHosts)
            } else {
                let leads = port.peer.and_then(|(guid, _)| is_host(&guid));
                leads
                    .unwrap_or_else(|| may_lead_to_host(port.kind, port.peer))
                    .then_some(Direction::ToHosts)
            };
            let ends = [(&port.node, Some(*key)), (&port.peer_node, port.peer)];
            let [host, switch] = match direction {
                Some(Direction::ToHosts) => [ends[1], ends[0]],
                _ => ends,
            };
            let (key, name, guid) = match by {
                By::Host if direction.is_some() => (None, host_of(host.0), None),
                By::Leaf if direction.is_some() => {
                    let Some((guid, _)) = switch.1 else { continue };
                    (Some((guid, PortNum(0))), &**switch.0, Some(guid))
                }
                By::Link => (Some(*key), &*port.node, Some(key.0)),
                _ => continue,
            };
            let direction = direction.filter(|_| by != By::Link);
            let host = if by == By::Host { name } else { "" };
            let entry = rows.entry((key, host.to_owned(), direction));
            let (row, sums) = entry.or_insert_with(|| {
                let row = PrevalenceRow {
                    name: name.to_owned(),
                    guid,
                    direction,
                    ..PrevalenceRow::default()
                };
                (row, Sums::default())
            });
            if by == By::Link {
                row.port = key.map(|(_, number)| number);
                row.peer = port.peer.map(|peer| PortName::new(&port.peer_node, peer));
            }
            row.ports += 1;
            sums.merge(port.sums);
        }
        rows.into_values()
            .map(|(row, sums)| self.with_values(row, &sums, seconds))
            .collect()
    }

    /// Fills in the values of a row whose ports were recorded for this time.
    fn with_values(&self, row: PrevalenceRow, sums: &Sums, seconds: f64) -> PrevalenceRow {
        let blocked = ratio(sums.blocked, sums.known);
        PrevalenceRow {
            limit: self.limit,
            above: ratio(sums.above[0], sums.known),
            above_max: ratio(sums.above[1], sums.known),
            minutes: ratio(sums.minutes, sums.known),
            covered: ratio(sums.known, seconds * row.ports as f64).map(|covered| covered.min(1.0)),
            blocked,
            blocked_seconds: blocked.map(|_| sums.blocked),
            sent_bytes: (sums.sent_known > 0.0).then_some(sums.sent),
            blocked_seconds_per_gb: sums.blocked_seconds_per_gb(),
            ..row
        }
    }
}

impl PrevalenceRow {
    /// Returns the value by which rows are ranked: the middle of the bounds.
    fn value(&self) -> f64 {
        let middle = |(least, most): (f64, f64)| (least + most) / 2.0;
        self.above.zip(self.above_max).map_or(-1.0, middle)
    }
}

impl Fold for Prevalence {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            [
                "node",
                "kind",
                "peer_guid",
                "peer_port",
                "peer",
                "xmit_gbps",
                "xmit_blocked",
                "xmit_blocked_dt_ns",
                MINUTE[0],
                MINUTE[1],
            ]
            .map(str::to_owned)
            .to_vec(),
        )
    }

    fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_deref()
    }

    fn takes_minutes(&self, length_ns: u64) -> bool {
        length_ns > LONG_NS
    }

    fn takes_runs(&self) -> bool {
        true
    }

    fn add_run(&mut self, run: &Run<'_>) {
        let limit = self.limit;
        let Some((waits, hours)) = self.port(run.port()) else {
            return;
        };
        let [gbps, share] = ["xmit_gbps", "xmit_blocked"].map(|name| run.values(name));
        let [max, p95] = MINUTE.map(|name| run.values(name));
        let are_minutes = run.are_minutes();
        let at = |column: Option<&[f64]>, row: usize| column.map_or(f64::NAN, |values| values[row]);
        for row in run.rows() {
            let minute = are_minutes.then(|| Minute {
                max: at(max, row),
                p95: at(p95, row),
            });
            let sent = (at(gbps, row), run.time(row, MeasuredOver::Data));
            let blocked = (at(share, row), run.time(row, MeasuredOver::Blocked));
            waits.add([sent, blocked], limit, minute, hours);
        }
        waits.peer = run.port().peer_guid.zip(run.peer_port()).or(waits.peer);
    }

    fn add(&mut self, record: &Record<'_>) {
        let limit = self.limit;
        if let Record::Port(port) = record
            && let Some((waits, hours)) = self.port(port)
        {
            let [max, p95] = MINUTE.map(|name| match port.value(name) {
                Some(Value::Real(value)) => Some(*value),
                _ => None,
            });
            // The columns are only in one-minute means.
            let minute = max.map(|max| Minute {
                max,
                p95: p95.unwrap_or(f64::NAN),
            });
            let value = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let sent = (value(port.xmit_gbps), port.time);
            let blocked = (value(port.xmit_blocked), port.blocked_time);
            waits.add([sent, blocked], limit, minute, hours);
        }
    }

    fn merge(&mut self, mut other: Self) {
        // The ports of the two states are different.
        self.by_port.append(&mut other.by_port);
        self.hours.merge(other.hours);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, port};

    /// 2026-11-22 23:59:50 UTC, a Sunday, in seconds since 1970.
    const SUNDAY: u64 = 1_795_391_990;

    /// Returns twenty seconds around midnight: a leaf switch with the hosts n1 and n2, and its link
    /// to a core switch without records. The HCA of n2 has no records either. The port of n1 is
    /// blocked in seconds 5 to 12, and its share is unknown in the last four.
    fn lines() -> Vec<String> {
        let mut lines = Vec::new();
        for second in 1..=20 {
            let slot = SUNDAY + second;
            let blocked: serde_json::Value = match second {
                5..=12 => 0.5.into(),
                17.. => serde_json::Value::Null,
                _ => 0.1.into(),
            };
            let of_host = [("xmit_blocked", blocked), ("xmit_gbps", 80.into())];
            lines.push(port(slot, (0x101, 1), "n1 a", (1, 1, "leaf"), &of_host));
            for (number, peer) in [(1, (0x101, 1, "n1 a")), (2, (0x102, 1, "n2 a"))] {
                let of_leaf = [("xmit_blocked", (0.2 * f64::from(number - 1)).into())];
                lines.push(port(slot, (1, number), "leaf", peer, &of_leaf));
            }
            lines.push(port(slot, (1, 9), "leaf", (2, 40, "core"), &[]));
        }
        lines
    }

    fn waits(hosts: Option<&str>, lines: &[String]) -> Prevalence {
        let hosts = hosts.map(|hosts| Hosts::parse(hosts).expect("a list"));
        fold(Prevalence::new(0.1, Zone::utc(), hosts), lines)
    }

    fn rows(by: By) -> Vec<PrevalenceRow> {
        let span = [SUNDAY, SUNDAY + 20].map(|second| second * 1_000_000_000);
        waits(None, &lines()).rows(by, (span[0], span[1]))
    }

    fn is_near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9)
    }

    #[test]
    fn unknown_time_counts_neither_as_blocked_nor_as_free() {
        let rows = rows(By::Link);
        let of = |node: &str, number| {
            rows.iter()
                .find(|row| row.name == node && row.port == Some(PortNum(number)))
                .expect("a row")
        };
        let host = of("n1 a", 1);
        assert_eq!((rows.len(), host.ports), (4, 1));
        // A share that equals the limit is not above it.
        assert!(is_near(host.above, 8.0 / 16.0), "{host:?}");
        assert!(is_near(host.covered, 16.0 / 20.0), "{host:?}");
        assert!(is_near(host.blocked_seconds, 8.0 * 0.5 + 8.0 * 0.1));
        assert!(is_near(host.sent_bytes, 200e9));
        // A mean share of 0.3 at 10 GB/s.
        assert!(is_near(host.blocked_seconds_per_gb, 0.03), "{host:?}");
        let idle = of("leaf", 9);
        assert!(is_near(idle.above, 0.0) && is_near(idle.sent_bytes, 0.0));
        assert_eq!(idle.blocked_seconds_per_gb, None);
        assert!(is_near(rows[0].above, 1.0), "leaf port 2 comes first");
    }

    #[test]
    fn links_between_leaf_switch_and_hosts_are_joined_by_direction() {
        let found = |by| {
            let shown = |row: &PrevalenceRow| (row.name.clone(), row.direction, row.ports);
            rows(by).iter().map(shown).collect::<Vec<_>>()
        };
        let (to, from) = (Some(Direction::ToHosts), Some(Direction::FromHosts));
        assert_eq!(
            found(By::Leaf),
            [("leaf".to_owned(), to, 2), ("leaf".to_owned(), from, 1)]
        );
        assert_eq!(
            found(By::Host),
            [
                ("n2".to_owned(), to, 1),
                ("n1".to_owned(), from, 1),
                ("n1".to_owned(), to, 1)
            ]
        );
        let of_leaf = &rows(By::Leaf)[0];
        assert!(is_near(of_leaf.above, 0.5) && is_near(of_leaf.blocked, 0.1));
    }

    #[test]
    fn hours_and_weekdays_end_at_midnight() {
        let hours = rows(By::Hour);
        let known: Vec<_> = hours
            .iter()
            .filter(|row| row.covered.is_some())
            .map(|row| &*row.name)
            .collect();
        assert_eq!((hours.len(), known), (24, vec!["00", "23"]));
        // Of four ports, one is above the limit all the time, and one for six or two seconds of
        // ten; after midnight, the latter is known for six of ten seconds.
        assert!(is_near(hours[23].above, (10.0 + 6.0) / 40.0), "{hours:?}");
        assert!(is_near(hours[0].above, (10.0 + 2.0) / 36.0), "{hours:?}");
        assert!(is_near(hours[0].covered, 0.9) && is_near(hours[23].covered, 1.0));
        let days = rows(By::Weekday);
        assert_eq!((&*days[0].name, &*days[6].name), ("Monday", "Sunday"));
        assert_eq!(
            (days[0].above, days[6].above, days[1].covered),
            (hours[0].above, hours[23].above, None)
        );
        // A record across midnight counts on both sides.
        let long = port(
            SUNDAY + 15,
            (1, 1),
            "leaf",
            (0x101, 1, "n1"),
            &[
                ("dt_ns", 15_000_000_000_u64.into()),
                ("xmit_blocked", 0.5.into()),
            ],
        );
        let span = (SUNDAY * 1_000_000_000, (SUNDAY + 15) * 1_000_000_000);
        let days = waits(None, &[long]).rows(By::Weekday, span);
        assert!(is_near(days[0].blocked_seconds, 2.5) && is_near(days[6].blocked_seconds, 5.0));
    }

    #[test]
    fn merged_ports_equal_the_whole() {
        let (hosts, switches): (Vec<_>, Vec<_>) = lines()
            .into_iter()
            .partition(|line| line.contains("\"node\":\"n1 a\""));
        let mut merged = waits(None, &hosts);
        merged.merge(waits(None, &switches));
        let span = (SUNDAY * 1_000_000_000, (SUNDAY + 20) * 1_000_000_000);
        for by in [By::Link, By::Leaf, By::Host] {
            assert_eq!(merged.rows(by, span), rows(by));
        }
        for (merged, whole) in merged.rows(By::Hour, span).iter().zip(rows(By::Hour)) {
            let is_equal = |value: Option<f64>, expected: Option<f64>| {
                value == expected || expected.is_some_and(|expected| is_near(value, expected))
            };
            assert!(is_equal(merged.above, whole.above) && is_equal(merged.covered, whole.covered));
        }
    }

    #[test]
    fn selected_hosts_keep_both_directions_of_their_links() {
        let span = (SUNDAY * 1_000_000_000, (SUNDAY + 20) * 1_000_000_000);
        let rows = waits(Some("n1"), &lines()).rows(By::Link, span);
        let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["n1 a", "leaf"]);
        assert!(waits(Some("n9"), &lines()).is_empty());
    }

    #[test]
    fn minute_bounds_the_time_above_the_limit() {
        // Shares of the records of a minute, a twentieth of it each.
        let minutes = [
            vec![0.0; 20],
            [vec![0.9; 2], vec![0.0; 18]].concat(),
            [vec![0.9], vec![0.02; 19]].concat(),
            [vec![0.3; 10], vec![0.1; 10]].concat(),
            vec![0.1; 20],
            vec![0.11; 20],
            vec![1.0; 20],
        ];
        for shares in minutes {
            let mut sorted = shares.clone();
            sorted.sort_by(f64::total_cmp);
            let mean = shares.iter().sum::<f64>() / 20.0;
            let (max, p95) = (sorted[19], sorted[18]);
            for limit in [0.0, 0.05, 0.1, 0.5, 0.95] {
                let above = shares.iter().filter(|share| **share > limit).count() as f64 / 20.0;
                for (max, p95) in [(max, p95), (max, f64::NAN), (f64::NAN, f64::NAN)] {
                    let [least, most] = bounds(mean, limit, Some(Minute { max, p95 }));
                    assert!(
                        least <= above + 1e-9 && above <= most + 1e-9,
                        "{shares:?} {limit}: {least} {above} {most}"
                    );
                }
            }
        }
        let exact = |mean, max, p95| bounds(mean, 0.1, Some(Minute { max, p95 }));
        assert_eq!(exact(0.05, 0.1, 0.1), [0.0, 0.0]);
        assert_eq!(exact(0.045, 0.9, 0.0), [0.0, 0.05]);
        assert_eq!(exact(1.0, 1.0, 1.0), [1.0, 1.0]);
        assert_eq!(bounds(0.1, 0.1, None), [0.0, 0.0]);
        assert_eq!(bounds(0.2, 0.1, None), [1.0, 1.0]);
    }

    #[test]
    fn calendar_has_the_hours_of_each_day() {
        use crate::cell::Cell;
        let span = (SUNDAY * 1_000_000_000, (SUNDAY + 20) * 1_000_000_000);
        let grid = waits(None, &lines()).calendar(span);
        assert_eq!((grid.columns, grid.rows.len()), (2, 24));
        assert_eq!(grid.start_ns, (SUNDAY + 10 - 86_400) * 1_000_000_000);
        let hours = rows(By::Hour);
        let [above, per_byte] = &grid.panels[..] else {
            panic!("two panels")
        };
        let value = |value: Option<f64>| Cell::Value(value.expect("a value"));
        assert_eq!(above.cells[23], [value(hours[23].above), Cell::NoRecord]);
        assert_eq!(above.cells[0], [Cell::NoRecord, value(hours[0].above)]);
        let cost = value(hours[23].blocked_seconds_per_gb);
        assert_eq!(per_byte.cells[23], [cost, Cell::NoRecord]);
        assert!(above.cells[1].iter().all(|cell| *cell == Cell::NoRecord));
    }
}
