//! Computes what a port carried and how long it was blocked, from the records of both ends of its
//! link.
//!
//! The bytes of an HCA port come from its own counters, separately for each direction. For a time
//! in which they are unknown, because a counter is saturated, was reset or was not read, the
//! readings of the switch port at the other end of the link fill in. The bytes of a reading are
//! spread evenly over the time since the previous one, and a link that is down at one of its ends
//! carried nothing. No result depends on the bins or steps in which it is shown.

use ibnet_record::Says;
use ibnet_record::interval::Interval;
use ibnet_record::types::NodeKind;

use super::growth::{Growth, Moved, Reading};
use super::{DATA_COUNTERS, PortKey};
use crate::input::run::Measured;
use crate::record::Port;
use crate::silence::silent_time;

/// Max port number of an HCA.
pub(crate) const HCA_PORTS: u8 = 2;

/// Number of readings of a switch port that keep their own times when the port fills in. Beyond
/// it, neighbouring readings are joined.
const MAX_PARTS: usize = 256;

/// The amounts of a [`Flow`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sent,
    Received,
    Blocked,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Sent, Self::Received, Self::Blocked];

    /// Returns the same amount as seen from the other end of the link.
    const fn reversed(self) -> Option<Self> {
        match self {
            Self::Sent => Some(Self::Received),
            Self::Received => Some(Self::Sent),
            Self::Blocked => None,
        }
    }
}

/// Bytes or seconds, and the time in which they are known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Amount {
    /// Bytes, or seconds for which ports were blocked.
    pub sum: f64,
    /// Time in which the sum is known, in nanoseconds.
    pub time_ns: u64,
}

/// Bytes sent and received, and the time for which ports were blocked.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Flow([Amount; 3]);

impl Flow {
    pub(crate) const fn of(&self, kind: Kind) -> Amount {
        self.0[kind as usize]
    }

    /// Returns the bytes that were sent.
    pub const fn sent(&self) -> f64 {
        self.0[Kind::Sent as usize].sum
    }

    /// Returns the bytes that were received.
    pub const fn received(&self) -> f64 {
        self.0[Kind::Received as usize].sum
    }

    /// Returns the time in which an amount is known, in seconds.
    pub(crate) const fn seconds(&self, kind: Kind) -> f64 {
        self.0[kind as usize].time_ns as f64 / 1e9
    }

    /// Returns the time in which the bytes are known, in seconds: the shorter one of both
    /// directions.
    pub(crate) fn covered_seconds(&self) -> f64 {
        self.seconds(Kind::Sent).min(self.seconds(Kind::Received))
    }

    pub(crate) fn put(&mut self, kind: Kind, sum: f64, time_ns: u64) {
        let amount = &mut self.0[kind as usize];
        (amount.sum, amount.time_ns) = (amount.sum + sum, amount.time_ns.saturating_add(time_ns));
    }

    fn put_all(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        pieces
            .into_iter()
            .for_each(|(kind, time, sum)| self.put(kind, sum, time.length_ns()));
    }

    pub(crate) fn add(&mut self, other: Self) {
        Kind::ALL
            .into_iter()
            .for_each(|kind| self.put(kind, other.of(kind).sum, other.of(kind).time_ns));
    }

    /// Returns the bytes as seen from the other end of the link.
    #[must_use]
    pub const fn reversed(self) -> Self {
        let Self([sent, received, _]) = self;
        Self([
            received,
            sent,
            Amount {
                sum: 0.0,
                time_ns: 0,
            },
        ])
    }
}

/// A part of a flow: its kind, its time, and its bytes or seconds.
pub(crate) type Piece = (Kind, Interval, f64);

/// What a port carried according to its own records.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Carried {
    total: Flow,
    growth: Growth,
    /// Times in which the bytes sent and received are known.
    known: [Times; 2],
    /// Bytes sent and received at each reading, only for a switch port that may lead to a host.
    parts: [Parts; 2],
    /// Times in which the link was down.
    down: Times,
    /// Time of the last record, if the link was down then.
    down_ts: Option<u64>,
    /// Start of the first and end of the last time in which an amount is known.
    span: Option<(u64, u64)>,
}

/// What the strings of a record state. It is the same for many records.
pub(crate) struct Stated<'a> {
    link: &'a str,
    /// Whether the bytes sent and received are saturated.
    pub(super) full: [bool; 2],
    is_down: bool,
    is_leaf: bool,
}

impl<'a> Stated<'a> {
    /// `is_leaf` is the result of [`may_lead_to_host`].
    pub(crate) fn of(port: &'a Port<'_>, is_leaf: bool) -> Self {
        Self {
            link: &port.link,
            full: DATA_COUNTERS.map(|name| port.is_saturated(name)),
            is_down: port.says() == Says::Down,
            is_leaf,
        }
    }
}

/// Returns the shortest time range that contains both.
pub(crate) fn both(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), a.1.max(b.1))
}

impl Carried {
    /// Adds a record, and returns the amounts that it adds.
    #[inline]
    pub(crate) fn add(&mut self, stated: &Stated<'_>, measured: &Measured) -> [Option<Piece>; 3] {
        let finite = |rate: f64| Some(rate).filter(|rate| rate.is_finite());
        let Measured {
            ts,
            sampler,
            rtt_ns,
            bytes: values,
            times: [rated, blocked],
            data: [xmit, rcv, ..],
            ..
        } = *measured;
        let reading = Reading {
            ts,
            sampler,
            rtt_ns,
            values,
            full: stated.full,
        };
        let gbps = [xmit, rcv].map(finite);
        let moved = self.growth.add_reading(reading, rated, gbps, stated.link);
        self.take(moved, stated.is_leaf, blocked.zip(finite(measured.blocked)))
    }

    fn take(
        &mut self,
        moved: [Option<Moved>; 2],
        is_leaf: bool,
        blocked: Option<(Interval, f64)>,
    ) -> [Option<Piece>; 3] {
        for (of, (time, octets)) in moved
            .into_iter()
            .enumerate()
            .filter_map(|(of, moved)| Some((of, moved?)))
        {
            self.known[of].add(time);
            if is_leaf {
                self.parts[of].add(time, octets);
            }
        }
        let blocked = blocked.map(|(time, share)| (time, share * time.length_ns() as f64 / 1e9));
        let [sent, received] = moved;
        let pieces = [sent, received, blocked];
        let pieces =
            Kind::ALL.map(|kind| pieces[kind as usize].map(|(time, sum)| (kind, time, sum)));
        let known = pieces.into_iter().flatten();
        self.total.put_all(known.clone());
        self.span = known
            .map(|(_, time, _)| (time.from(), time.to()))
            .chain(self.span)
            .reduce(both);
        pieces
    }

    /// Adds the link state of a record. Returns the time in which the link was down and nothing
    /// moved. Until the first record that reports it as down, the link may have carried traffic.
    #[inline]
    pub(crate) fn add_down(
        &mut self,
        stated: &Stated<'_>,
        measured: &Measured,
    ) -> Option<Interval> {
        let ts = Some(measured.ts).filter(|_| stated.is_down);
        let before = std::mem::replace(&mut self.down_ts, ts);
        let time = before
            .zip(ts)
            .and_then(|(before, ts)| silent_time(Some(before), ts, measured.slot_interval()))?;
        self.down.add(time);
        Some(time)
    }

    /// Adds the later records of the same port.
    pub(crate) fn merge(&mut self, later: Self) {
        self.total.add(later.total);
        for (known, later) in self.known.iter_mut().zip(later.known) {
            later.0.into_iter().for_each(|time| known.add(time));
        }
        for (parts, later) in self.parts.iter_mut().zip(later.parts) {
            later
                .all
                .into_iter()
                .for_each(|(time, octets)| parts.add(time, octets));
        }
        later
            .down
            .0
            .into_iter()
            .for_each(|time| self.down.add(time));
        self.down_ts = later.down_ts;
        self.span = later.span.into_iter().chain(self.span).reduce(both);
    }

    /// Returns the sums of this port's own records.
    pub const fn total(&self) -> Flow {
        self.total
    }

    /// Returns the start of the first and the end of the last time in which any amount is known.
    pub(crate) const fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Returns the amounts that this HCA port lacks: those that the port at the other end of the
    /// link has, and zeros for the times in which the link was down. `span` is the recorded time.
    pub(crate) fn filled(&self, far: Option<&Self>, span: (u64, u64)) -> Vec<Piece> {
        let mut filled = Vec::new();
        let down = self
            .down
            .0
            .iter()
            .chain(far.iter().flat_map(|far| &far.down.0));
        let down: Vec<(Interval, f64)> = down
            .filter_map(|time| Some((time.within(span.0, span.1)?, 0.0)))
            .collect();
        for kind in Kind::ALL {
            let mut known = Times::default();
            // While the link was down it blocked no port, unless its bytes are known for this
            // time.
            let own = self
                .known
                .iter()
                .enumerate()
                .filter(|(of, _)| kind == Kind::Blocked || *of == kind as usize);
            own.flat_map(|(_, own)| &own.0)
                .for_each(|time| known.add(*time));
            let far = far
                .zip(kind.reversed())
                .map_or(&[][..], |(far, of)| &far.parts[of as usize].all);
            for (time, sum) in far.iter().chain(&down) {
                for part in known.outside(*time) {
                    filled.push((
                        kind,
                        part,
                        sum * part.length_ns() as f64 / time.length_ns() as f64,
                    ));
                    known.add(part);
                }
            }
        }
        filled
    }

    /// Returns the sums of an HCA port from the records of both ends of its link.
    pub(crate) fn total_with(&self, far: Option<&Self>, span: (u64, u64)) -> Flow {
        let mut total = self.total;
        total.put_all(self.filled(far, span));
        total
    }

    /// Returns the zeros for the times in which the link of this switch port was down, as seen
    /// from its HCA port.
    pub(crate) fn down_of_host(&self, span: (u64, u64)) -> impl Iterator<Item = Piece> {
        self.filled(None, span)
            .into_iter()
            .map(|(kind, time, sum)| (kind.reversed().unwrap_or(kind), time, sum))
    }

    /// Returns the sums of an HCA port without records, taken from this switch port.
    pub(crate) fn total_of_host(&self, span: (u64, u64)) -> Flow {
        let mut total = self.total.reversed();
        total.put_all(self.down_of_host(span));
        total
    }
}

/// Returns whether a port may be a switch port that leads to a host.
pub(crate) fn may_lead_to_host(kind: Option<NodeKind>, peer: Option<PortKey>) -> bool {
    kind == Some(NodeKind::Switch) && peer.is_some_and(|(_, number)| number.0 <= HCA_PORTS)
}

/// Times in ascending order that do not overlap. Times that touch are joined.
#[derive(Clone, PartialEq, Debug, Default)]
struct Times(Vec<Interval>);

impl Times {
    fn add(&mut self, time: Interval) {
        let first = self.0.partition_point(|known| known.to() < time.from());
        let after = first + self.0[first..].partition_point(|known| known.from() <= time.to());
        let ends = self.0[first..after]
            .iter()
            .fold((time.from(), time.to()), |(from, to), known| {
                (from.min(known.from()), to.max(known.to()))
            });
        self.0.splice(first..after, Interval::new(ends.0, ends.1));
    }

    /// Returns the parts of a time that overlap none of these times.
    fn outside(&self, time: Interval) -> Vec<Interval> {
        let first = self.0.partition_point(|known| known.to() <= time.from());
        let inside = self.0[first..]
            .iter()
            .take_while(|known| known.from() < time.to());
        let (mut next, mut parts) = (time.from(), Vec::new());
        for known in inside {
            parts.extend(Interval::new(next, known.from()));
            next = known.to();
        }
        parts.extend(Interval::new(next, time.to()));
        parts
    }
}

/// Bytes by time. If there are many entries, neighbours that touch are joined.
#[derive(Clone, PartialEq, Debug, Default)]
struct Parts {
    all: Vec<(Interval, f64)>,
    /// Number of entries at which the next joining takes place.
    most: usize,
}

impl Parts {
    fn add(&mut self, time: Interval, octets: f64) {
        if self.all.len() >= self.most.max(MAX_PARTS) {
            let pair = |pair: &[(Interval, f64)]| match pair {
                [(a, some), (b, more)] if a.to() == b.from() => {
                    vec![(Interval::new(a.from(), b.to()).unwrap_or(*a), some + more)]
                }
                other => other.to_vec(),
            };
            self.all = self.all.chunks(2).flat_map(pair).collect();
            // Entries with gaps between them stay apart, so the limit must grow with what is
            // left.
            self.most = self.all.len() / 3 * 4;
        }
        self.all.push((time, octets));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(from: u64, to: u64) -> Interval {
        Interval::new(from, to).unwrap()
    }

    proptest! {
        #[test]
        fn times_are_those_that_were_added(added in prop::collection::vec((0_u64..60, 1_u64..9), 0..20), from in 0_u64..60, length in 1_u64..20) {
            let mut times = Times::default();
            added.iter().for_each(|(from, length)| times.add(time(*from, from + length)));
            prop_assert!(times.0.windows(2).all(|pair| pair[0].to() < pair[1].from()), "{times:?}");
            let is_in = |at: u64| added.iter().any(|(from, length)| (*from..from + length).contains(&at));
            let outside = times.outside(time(from, from + length));
            for at in 0..100 {
                let of = |times: &[Interval]| times.iter().filter(|time| (time.from()..time.to()).contains(&at)).count();
                prop_assert_eq!(of(&times.0), usize::from(is_in(at)));
                prop_assert_eq!(of(&outside), usize::from(!is_in(at) && (from..from + length).contains(&at)));
            }
        }
    }

    #[test]
    fn many_readings_of_a_switch_port_are_joined_and_gaps_are_kept() {
        let mut parts = Parts::default();
        (0..100_000)
            .filter(|number| number % 10_000 != 0)
            .for_each(|number| parts.add(time(number, number + 1), 1.0));
        assert!(parts.all.len() <= MAX_PARTS, "{}", parts.all.len());
        assert!(
            parts
                .all
                .iter()
                .all(|(time, octets)| time.length_ns() as f64 == *octets)
        );
        assert_eq!(
            parts.all.iter().map(|(_, octets)| octets).sum::<f64>(),
            99_990.0
        );
    }
}
