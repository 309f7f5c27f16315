//! The totals of a slot: ports by status, numbers of MADs, and round-trip times.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use ibnet_record::Status;
use ibnet_record::types::NodeKind;

use crate::mad::query::BadReply;
use crate::time::Instant;

/// Bytes that a MAD takes on each link: LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4.
pub const MAD_OCTETS_ON_LINK: u64 = 288;

/// The totals of a slot.
#[derive(Clone, Debug)]
pub struct SlotStats {
    /// Start of the slot.
    pub started: Instant,
    /// Time of the last reply or timeout.
    pub ended: Instant,
    /// Ports by status, in the order of [`Status::ALL`].
    pub ports: [u32; Status::ALL.len()],
    /// Requests that were sent.
    pub mads_sent: u64,
    /// Requests that could not be sent.
    pub send_errors: u64,
    /// Replies that arrived after their timeout, within the grace period or later.
    pub mads_late: u64,
    /// Rejected replies.
    pub rejected: Rejected,
    /// Accepted replies with an error status.
    pub mads_refused: u64,
    /// Round trips of all accepted replies of performance management agents.
    pub rtt: RoundTrips,
}

/// Rejected replies by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rejected {
    /// The transaction already had a reply.
    pub duplicate: u64,
    /// The TID was never sent, or the sender is not the queried device.
    pub foreign: u64,
    /// The length is not 256 bytes.
    pub length: u64,
    /// The class, its version or the method does not match.
    pub class: u64,
    /// The attribute does not match.
    pub attribute: u64,
    /// The port, which is in PortSelect or in AttributeModifier, or the register does not match.
    pub port: u64,
}

impl Rejected {
    /// Returns the number of all rejected replies.
    pub const fn total(&self) -> u64 {
        self.duplicate + self.foreign + self.malformed()
    }

    /// Returns the number of replies that have the TID of a request but do not match it otherwise.
    pub const fn malformed(&self) -> u64 {
        self.length + self.class + self.attribute + self.port
    }

    /// Adds the counts of another slot.
    pub const fn add(&mut self, other: Self) {
        self.duplicate += other.duplicate;
        self.foreign += other.foreign;
        self.length += other.length;
        self.class += other.class;
        self.attribute += other.attribute;
        self.port += other.port;
    }

    /// Counts a reply that does not match its request. An error status matches, and is not counted.
    pub(super) fn count(&mut self, bad: BadReply) {
        match bad {
            BadReply::Length(_) => self.length += 1,
            BadReply::Class { .. } | BadReply::Method(_) => self.class += 1,
            BadReply::Attribute(_) => self.attribute += 1,
            BadReply::PortSelect(_) | BadReply::Register(_) => self.port += 1,
            BadReply::Status(_) => {}
        }
    }
}

/// Distributions of round trips in nanoseconds, by the kind of device.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    /// Round trips of switches.
    pub switch: Durations,
    /// Round trips of HCAs and routers.
    pub hca: Durations,
    /// The exact longest round trip; the histograms have only two significant digits.
    pub longest: Duration,
}

/// Durations in nanoseconds.
pub type Durations = Histogram<u32>;

/// Creates a histogram of durations up to 100 s, with two significant digits but buckets of at
/// least 64 ns. The buckets are powers of two times the largest power of two up to the lower bound.
/// Every device has such a histogram, which takes 13 kB.
///
/// # Panics
/// Never panics, because the bounds are constant and valid.
pub fn durations() -> Durations {
    Histogram::new_with_bounds(64, 100_000_000_000, 2).expect("the bounds are constant and valid")
}

/// Creates a histogram of the times that single readings of the clock take: as [`durations`], but
/// with buckets of 1 ns for short times.
///
/// # Panics
/// Never panics, because the bounds are constant and valid.
pub fn timer_costs() -> Durations {
    Histogram::new_with_bounds(1, 1_000_000_000, 2).expect("the bounds are constant and valid")
}

/// Encodes a histogram in HdrHistogram's V2 format, deflated, in base64. Returns `None` if a count
/// is too large for the format.
pub fn encoded(histogram: &Durations) -> Option<String> {
    let mut v2 = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut v2)
        .ok()?;
    Some(BASE64.encode(v2))
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            switch: durations(),
            hca: durations(),
            longest: Duration::ZERO,
        }
    }
}

impl RoundTrips {
    /// Records one round trip.
    pub fn record(&mut self, kind: NodeKind, rtt: Duration) {
        let histogram = if kind == NodeKind::Switch {
            &mut self.switch
        } else {
            &mut self.hca
        };
        histogram.saturating_record(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        self.longest = self.longest.max(rtt);
    }

    /// Removes all round trips.
    pub fn reset(&mut self) {
        self.switch.reset();
        self.hca.reset();
        self.longest = Duration::ZERO;
    }

    /// Adds the round trips of another slot.
    pub fn add(&mut self, other: &Self) {
        // Both histograms have the same bounds, so this cannot fail.
        let _ = self.switch.add(&other.switch);
        let _ = self.hca.add(&other.hca);
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the round trips of all devices.
    pub fn all(&self) -> Durations {
        let mut all = self.switch.clone();
        let _ = all.add(&self.hca);
        all
    }
}

impl Default for SlotStats {
    fn default() -> Self {
        Self {
            started: Instant::ZERO,
            ended: Instant::ZERO,
            ports: [0; Status::ALL.len()],
            mads_sent: 0,
            send_errors: 0,
            mads_late: 0,
            rejected: Rejected::default(),
            mads_refused: 0,
            rtt: RoundTrips::default(),
        }
    }
}

impl SlotStats {
    /// Resets the sums for a new slot. Allocates nothing.
    pub(super) fn restart(&mut self, now: Instant) {
        self.rtt.reset();
        (self.started, self.ended) = (now, now);
        self.ports = [0; Status::ALL.len()];
        (
            self.mads_sent,
            self.send_errors,
            self.mads_late,
            self.mads_refused,
        ) = (0, 0, 0, 0);
        self.rejected = Rejected::default();
    }

    /// Returns the time from the start of the slot to the last reply or timeout.
    pub fn duration(&self) -> Duration {
        self.ended - self.started
    }

    /// Returns the number of ports with this status.
    pub fn count(&self, status: Status) -> u32 {
        self.ports[status as usize]
    }

    /// Returns the number of all ports.
    pub fn total(&self) -> u32 {
        self.ports.iter().sum()
    }
}
