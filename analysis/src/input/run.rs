//! Many records of a port at once, as columns.
//!
//! Most records of an archive need no merging: a port has one sampler, and only the numbers change
//! from slot to slot. A fold that takes such records as columns does not build each record.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use ibnet_record::slots::interval_of_slot;
use ibnet_record::types::PortNum;
use ibnet_store::column::Integers;

use super::rows::PortRows;
use super::selection::Selection;
use crate::record::{Interval, Port, limits};

/// Which of the two times of a record a value describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeasuredOver {
    /// The time of the data rates: [`Port::time`].
    Data,
    /// The time of the blocked share: [`Port::blocked_time`].
    Blocked,
}

/// Consecutive records of a port and of one sampler, in the order of time and without copies. Their
/// times are within the selected time range, and their values can have been measured. Their
/// counters are not needed for the edges of the time range.
#[derive(Debug)]
pub struct Run<'a> {
    of: &'a PortRows,
    rows: Range<usize>,
    /// A record with the same texts as those of the run.
    port: &'a Port<'a>,
    /// Times of all rows.
    ts: &'a [u64],
    slots: Option<&'a Integers>,
    rtt_ns: Option<&'a Integers>,
    /// `xmit_blocked_dt_ns` of all rows.
    blocked_ns: Option<&'a Integers>,
    times: [Time<'a>; 2],
    rates: [Option<&'a [f64]>; 5],
    bytes: [Option<&'a Integers>; 2],
    sampler: u64,
}

/// What a record measured. A fold that needs nothing else has one body for single records and for
/// runs.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Time of the record in nanoseconds since 1970.
    pub ts: u64,
    /// Slot.
    pub slot: u64,
    /// Id of the sampler. 0 at an edge, where the values are between those of two readings.
    pub sampler: u64,
    /// Longest time from the reading of the device to `ts`.
    pub rtt_ns: u64,
    /// `dt_ns` and `xmit_blocked_dt_ns` of the record.
    pub lengths_ns: (Option<u64>, Option<u64>),
    /// The times by [`MeasuredOver`].
    pub times: [Option<Interval>; 2],
    /// Data sent and received in Gb/s, then as shares of the data rate of the link. A NaN means
    /// that the record has no value.
    pub data: [f64; 4],
    /// Share of the time in which the port was blocked, or NaN.
    pub blocked: f64,
    /// Bytes sent and received, if they were read.
    pub bytes: [Option<u64>; 2],
}

impl Measured {
    /// Returns what a record measured.
    pub fn of(port: &Port<'_>) -> Self {
        // A value at an edge has been interpolated between two readings, of which one may be late.
        let (rtt_ns, sampler) = if port.is_edge {
            (u64::MAX, 0)
        } else {
            (port.rtt_ns, id_of(&port.sampler))
        };
        let data = [
            port.xmit_gbps,
            port.rcv_gbps,
            port.xmit_utilization,
            port.rcv_utilization,
        ];
        Self {
            ts: port.ts,
            slot: port.slot,
            sampler,
            rtt_ns,
            lengths_ns: (port.dt_ns, port.xmit_blocked_dt_ns),
            times: [port.time, port.blocked_time],
            data: data.map(|rate| rate.unwrap_or(f64::NAN)),
            blocked: port.xmit_blocked.unwrap_or(f64::NAN),
            bytes: DATA_COUNTERS.map(|name| port.counter(name)),
        }
    }

    /// Returns the time between two slots, in nanoseconds, or 0 if it is unknown.
    pub(crate) fn slot_interval(&self) -> u64 {
        interval_of_slot(self.ts, self.slot, self.lengths_ns.0, self.lengths_ns.1)
    }
}

/// Returns an id for the name of a sampler: its hash.
fn id_of(sampler: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    sampler.hash(&mut hasher);
    hasher.finish()
}

/// The byte counters: sent and received.
pub const DATA_COUNTERS: [&str; 2] = ["port_xmit_data_bytes", "port_rcv_data_bytes"];

/// The fields of [`Measured::data`] and [`Measured::blocked`].
const RATES: [&str; 5] = [
    "xmit_gbps",
    "rcv_gbps",
    "xmit_utilization",
    "rcv_utilization",
    "xmit_blocked",
];

/// The lengths of the times that the records describe.
#[derive(Clone, Copy, Debug)]
enum Time<'a> {
    /// No record describes a time.
    None,
    /// Every record describes a time.
    Each(&'a [u64]),
    /// Some records describe a time.
    Some {
        lengths: Option<&'a Integers>,
        /// Lengths for records that have no value in `lengths`.
        otherwise: Option<&'a Integers>,
        /// A record without one of these values describes no time.
        values: Option<&'a [f64]>,
    },
}

impl<'a> Time<'a> {
    /// Returns the time of the data rates.
    fn of_data(lengths: Option<&'a Integers>) -> Self {
        match lengths {
            Some(Integers::Each {
                values,
                present: None,
            }) => Self::Each(values),
            lengths => Self::Some {
                lengths,
                otherwise: None,
                values: None,
            },
        }
    }

    /// Returns the time of the blocked share of some rows.
    fn of_blocked(
        values: Option<&'a [f64]>,
        rows: Range<usize>,
        lengths: Option<&'a Integers>,
        otherwise: Option<&'a Integers>,
    ) -> Self {
        let Some(values) = values else {
            return Self::None;
        };
        let used = match lengths {
            None | Some(Integers::Same { value: None, .. }) => otherwise,
            Some(Integers::Same { value: Some(_), .. }) => None,
            lengths @ Some(Integers::Each { .. }) => lengths,
        };
        match used {
            Some(Integers::Each {
                values: lengths,
                present: None,
            }) if !any(&values[rows], |value| value.is_nan()) => Self::Each(lengths),
            _ => Self::Some {
                lengths,
                otherwise,
                values: Some(values),
            },
        }
    }

    /// Returns the time that some rows describe together. `ts` are the times of the rows.
    fn described(self, ts: &[u64], rows: Range<usize>) -> Described {
        match self {
            Self::None => Described::NOTHING,
            Self::Each(lengths) => Described::of(
                ts.iter()
                    .zip(&lengths[rows])
                    .map(|(ts, length_ns)| (*ts, *length_ns)),
            ),
            Self::Some { .. } => Described::of(
                ts.iter()
                    .zip(rows)
                    .map(|(ts, row)| (*ts, self.length_ns(row).unwrap_or(0))),
            ),
        }
    }

    #[inline]
    fn length_ns(&self, row: usize) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Each(lengths) => Some(lengths[row]),
            Self::Some {
                values: Some(values),
                ..
            } if values[row].is_nan() => None,
            Self::Some {
                lengths, otherwise, ..
            } => lengths
                .and_then(|lengths| lengths.get(row))
                .or_else(|| otherwise.and_then(|lengths| lengths.get(row))),
        }
    }
}

/// The time that several records describe together, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Described {
    /// Length of the longest time of a record.
    longest: u64,
    /// Start of the earliest time since 1970, or `u64::MAX` if no record describes a time.
    start: u64,
    /// End of the latest time since 1970, or 0 if no record describes a time.
    end: u64,
}

impl Described {
    const NOTHING: Self = Self {
        longest: 0,
        start: u64::MAX,
        end: 0,
    };

    /// Joins the times of records, which are in the order of time. A record is the end and the
    /// length of its time. The length 0 means that it describes no time.
    fn of(records: impl Iterator<Item = (u64, u64)>) -> Self {
        records.fold(
            Self::NOTHING,
            |Self {
                 longest,
                 start,
                 end,
             },
             (ts, length_ns)| Self {
                longest: longest.max(length_ns),
                start: start.min(if length_ns > 0 {
                    ts.saturating_sub(length_ns)
                } else {
                    u64::MAX
                }),
                end: if length_ns > 0 { ts } else { end },
            },
        )
    }
}

/// Returns whether a condition is true for any value. It is computed for all values, which is
/// faster than an end at the first one.
fn any<T>(values: &[T], is_true: impl Fn(&T) -> bool) -> bool {
    values
        .iter()
        .fold(false, |found, value| found | is_true(value))
}

/// What the merging needs to know about the records of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    /// Start of the earliest and end of the latest time that the records describe.
    pub(super) span: Option<(u64, u64)>,
    /// End of the latest time of the data rates, and of the blocked share.
    pub(super) covered: [u64; 2],
    /// Time of the last record but one. With a single record, it is the time of the record before.
    pub(super) before: u64,
    /// Time and slot of the last record.
    pub(super) last: (u64, u64),
}

impl<'a> Run<'a> {
    /// Returns the records of some rows, or `None` if they must be added one after the other.
    /// `port` is the record of the row before, and has the same texts. The run ends before the
    /// first row that is not within the selected time. Without rows, returns `None`.
    pub(super) fn new(
        of: &'a PortRows,
        rows: Range<usize>,
        port: &'a Port<'a>,
        selection: &Selection,
    ) -> Option<(Self, Ends)> {
        let ts = of.times()?;
        // Counters close to the end of the time range can be the last ones before it.
        let is_within = |ts: &u64| {
            selection.contains(*ts) && !(selection.uses_counters && selection.is_near_end(*ts))
        };
        let within = rows
            .end
            .min(rows.start + ts[rows.clone()].partition_point(is_within));
        let rows = rows.start..within;
        if rows.is_empty() {
            return None;
        }
        let rates = RATES.map(|name| of.floats(name));
        let (lengths, blocked_ns) = (of.integers("dt_ns"), of.integers("xmit_blocked_dt_ns"));
        let times = [
            Time::of_data(lengths),
            Time::of_blocked(rates[4], rows.clone(), blocked_ns, lengths),
        ];
        let run = Self {
            of,
            rows,
            port,
            ts,
            slots: of.integers("slot"),
            rtt_ns: of.integers("rtt_ns"),
            blocked_ns,
            times,
            rates,
            bytes: DATA_COUNTERS.map(|name| of.integers(name)),
            sampler: id_of(&port.sampler),
        };
        let ends = run.check(selection)?;
        Some((run, ends))
    }

    /// Checks all records. Returns `None` if one of them needs the merging of single records.
    fn check(&self, selection: &Selection) -> Option<Ends> {
        const MAX: [f64; 5] = [
            limits::GBPS,
            limits::GBPS,
            limits::UTILIZATION,
            limits::UTILIZATION,
            1.0,
        ];
        let Self { rows, port, .. } = self;
        let is_malformed = self.rates.iter().zip(MAX).any(|(values, most)| {
            // A NaN means that the record has no value. It is neither less nor more.
            let is_outside = |value: &f64| *value < 0.0 || *value > most;
            values.is_some_and(|values| any(&values[rows.clone()], is_outside))
        });
        if is_malformed {
            return None;
        }
        let ts = &self.ts[rows.clone()];
        if ts.first().is_none_or(|first| *first <= port.ts) || !ts.is_sorted_by(|a, b| a < b) {
            return None;
        }
        if self.repeats_slot() {
            return None;
        }
        let described = self.times.map(|time| time.described(ts, rows.clone()));
        let start = described
            .iter()
            .map(|time| time.start)
            .min()
            .unwrap_or(u64::MAX);
        if described
            .iter()
            .any(|time| time.longest > limits::INTERVAL_NS)
            || start < selection.from
        {
            return None;
        }
        let covered = described.map(|time| time.end);
        let last = rows.end - 1;
        let before = if last > rows.start {
            self.ts[last - 1]
        } else {
            port.ts
        };
        let last = (self.ts[last], self.slot(last));
        let end = covered[0].max(covered[1]);
        Some(Ends {
            span: (start < end).then_some((start, end)),
            covered,
            before,
            last,
        })
    }

    /// Returns whether a record has the slot of the record before. Slot 0 means that the slot is
    /// not known.
    fn repeats_slot(&self) -> bool {
        let Self { rows, port, .. } = self;
        let is_equal = |slot: u64, before: u64| slot == before && slot > 0;
        if is_equal(self.slot(rows.start), port.slot) {
            return true;
        }
        match self.slots {
            Some(Integers::Each {
                values,
                present: None,
            }) => {
                let (some, before) = (
                    &values[rows.start + 1..rows.end],
                    &values[rows.start..rows.end - 1],
                );
                some.iter()
                    .zip(before)
                    .fold(false, |found, (slot, before)| {
                        found | is_equal(*slot, *before)
                    })
            }
            _ => rows
                .clone()
                .skip(1)
                .any(|row| is_equal(self.slot(row), self.slot(row - 1))),
        }
    }

    /// Returns a record with the texts of all records of the run. Its numbers and its time are
    /// those of an earlier record.
    pub fn port(&self) -> &Port<'a> {
        self.port
    }

    /// Returns the numbers of the records for the other functions.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns whether the records are one-minute means of an archive.
    pub fn are_minutes(&self) -> bool {
        self.of.are_minutes()
    }

    /// Returns the time of a record in nanoseconds since 1970.
    #[inline]
    pub fn ts(&self, row: usize) -> u64 {
        self.ts[row]
    }

    /// Returns the slot of a record.
    #[inline]
    pub fn slot(&self, row: usize) -> u64 {
        self.slots.and_then(|slots| slots.get(row)).unwrap_or(0)
    }

    /// Returns the values of a field by the numbers of the records. A NaN means that the record has
    /// no value. Returns `None` if no record has the field.
    pub fn values(&self, field: &str) -> Option<&'a [f64]> {
        self.of.floats(field)
    }

    /// Returns what each record measured.
    #[inline]
    pub fn measured(&self) -> impl ExactSizeIterator<Item = Measured> {
        self.rows().map(|row| {
            let [a, b, c, d, blocked] = self
                .rates
                .map(|column| column.map_or(f64::NAN, |column| column[row]));
            Measured {
                ts: self.ts(row),
                slot: self.slot(row),
                sampler: self.sampler,
                rtt_ns: self.rtt_ns.and_then(|rtt_ns| rtt_ns.get(row)).unwrap_or(0),
                lengths_ns: self.lengths_ns(row),
                times: [MeasuredOver::Data, MeasuredOver::Blocked].map(|over| self.time(row, over)),
                data: [a, b, c, d],
                blocked,
                bytes: self.bytes.map(|column| column?.get(row)),
            }
        })
    }

    /// Returns a counter by the numbers of the records. Returns `None` if no record has the
    /// counter, or if it has several values.
    pub fn counter(&self, name: &str) -> Option<&'a Integers> {
        self.of.integers(name)
    }

    /// Returns the time that a value of a record describes.
    #[inline]
    pub fn time(&self, row: usize, over: MeasuredOver) -> Option<Interval> {
        Interval::ending_at(self.ts(row), self.times[over as usize].length_ns(row))
    }

    /// Returns `dt_ns` and `xmit_blocked_dt_ns` of a record.
    #[inline]
    pub fn lengths_ns(&self, row: usize) -> (Option<u64>, Option<u64>) {
        let of_blocked = self.blocked_ns.and_then(|lengths| lengths.get(row));
        (
            self.times[MeasuredOver::Data as usize].length_ns(row),
            of_blocked,
        )
    }

    /// Returns the last record, with the peer of the last one that has a peer.
    pub fn last(&self) -> Port<'a> {
        let mut last = self.record(self.rows.end - 1);
        last.peer_port = self.peer_port();
        last
    }

    /// Returns the port number of the peer in the last record that has a peer. The GUID of the peer
    /// is a text, so it is equal in all records.
    pub fn peer_port(&self) -> Option<PortNum> {
        let ports = self.of.integers("peer_port")?;
        let number = |row: usize| u8::try_from(ports.get(row)?).ok();
        self.rows().rev().find_map(number).map(PortNum)
    }

    /// Returns a record as [`Fold::add`](super::Fold::add) gets it.
    pub fn record(&self, row: usize) -> Port<'a> {
        let mut port = self.port.clone();
        self.of.update(&mut port, row);
        let [data, blocked] =
            [MeasuredOver::Data, MeasuredOver::Blocked].map(|over| self.time(row, over));
        (port.time, port.blocked_time) = (data, blocked);
        port
    }
}
