//! What a slot brought in sum.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::sample::Status;
use crate::mad::query::BadReply;
use crate::time::Instant;
use crate::types::NodeKind;

/// Octets that a MAD counts for on each link: LRH 8, BTH 12, DETH 8, 256, ICRC 4.
pub const MAD_OCTETS_ON_LINK: u64 = 288;

/// The sum of a slot.
#[derive(Clone, Debug)]
pub struct SlotStats {
    /// When it started.
    pub started: Instant,
    /// When the last reply came or the last deadline passed.
    pub ended: Instant,
    /// Ports by status, in the order of [`Status::ALL`].
    pub ports: [u32; Status::ALL.len()],
    /// Requests sent.
    pub mads_sent: u64,
    /// Requests that could not be sent.
    pub send_errors: u64,
    /// Replies that came after their deadline, whether they still counted or not.
    pub mads_late: u64,
    /// Replies that were not taken.
    pub rejected: Rejected,
    /// Replies that were taken and said no.
    pub mads_refused: u64,
    /// Round trips of all replies that were taken, in nanoseconds, by the kind of device.
    pub rtt: RoundTrips,
}

/// Replies that were not taken, by the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rejected {
    /// The transaction had its reply already.
    pub duplicate: u64,
    /// A TID that was never ours, or another sender than the one asked.
    pub foreign: u64,
    /// Not 256 octets.
    pub length: u64,
    /// Another class or version of it, or no response.
    pub class: u64,
    /// Another attribute.
    pub attribute: u64,
    /// Another port: PortSelect or AttributeModifier.
    pub port: u64,
}

impl Rejected {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.duplicate + self.foreign + self.malformed()
    }

    /// Those of the right transaction that are no answer to it.
    pub const fn malformed(&self) -> u64 {
        self.length + self.class + self.attribute + self.port
    }

    /// Adds those of another slot.
    pub const fn add(&mut self, other: Self) {
        self.duplicate += other.duplicate;
        self.foreign += other.foreign;
        self.length += other.length;
        self.class += other.class;
        self.attribute += other.attribute;
        self.port += other.port;
    }

    /// Counts one that is no answer; a refusal is one.
    pub(super) fn count(&mut self, bad: BadReply) {
        match bad {
            BadReply::Length(_) => self.length += 1,
            BadReply::Class { .. } | BadReply::Method(_) => self.class += 1,
            BadReply::Attribute(_) => self.attribute += 1,
            BadReply::PortSelect(_) => self.port += 1,
            BadReply::Status(_) => {}
        }
    }
}

/// Distributions of round trips in nanoseconds, by the kind of device.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    /// Of switches.
    pub switch: Histogram<u64>,
    /// Of adapters and routers.
    pub hca: Histogram<u64>,
    /// The longest of all, exactly; a histogram knows two digits.
    pub longest: Duration,
}

/// A distribution of durations in nanoseconds: from 1 us to 100 s, to two digits.
///
/// # Panics
/// Never: the bounds are constant and good.
pub fn durations() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 100_000_000_000, 2).expect("constant bounds that are in order")
}

/// The same for one device: to one digit, as there are many; 3 kB each.
///
/// # Panics
/// Never: the bounds are constant and good.
pub fn durations_of_one() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 10_000_000_000, 1).expect("constant bounds that are in order")
}

/// HdrHistogram's V2 format, deflated, in base64; `None` if it has no place for such numbers.
pub fn encoded(histogram: &Histogram<u64>) -> Option<String> {
    let mut v2 = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut v2).ok()?;
    Some(BASE64.encode(v2))
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { switch: durations(), hca: durations(), longest: Duration::ZERO }
    }
}

impl RoundTrips {
    /// Takes one round trip.
    pub fn record(&mut self, kind: NodeKind, rtt: Duration) {
        let histogram = if kind == NodeKind::Switch { &mut self.switch } else { &mut self.hca };
        histogram.saturating_record(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        self.longest = self.longest.max(rtt);
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        self.switch.reset();
        self.hca.reset();
        self.longest = Duration::ZERO;
    }

    /// Adds those of another slot.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, so there is nothing that could not be added.
        let _ = self.switch.add(&other.switch);
        let _ = self.hca.add(&other.hca);
        self.longest = self.longest.max(other.longest);
    }

    /// Both kinds together.
    pub fn all(&self) -> Histogram<u64> {
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
    /// Begins a slot; allocates nothing.
    pub(super) fn restart(&mut self, now: Instant) {
        self.rtt.reset();
        (self.started, self.ended) = (now, now);
        self.ports = [0; Status::ALL.len()];
        (self.mads_sent, self.send_errors, self.mads_late, self.mads_refused) = (0, 0, 0, 0);
        self.rejected = Rejected::default();
    }

    /// From the slot's start to the last reply or expiry.
    pub fn duration(&self) -> Duration {
        self.ended - self.started
    }

    /// Ports of that status.
    pub fn count(&self, status: Status) -> u32 {
        self.ports[status as usize]
    }

    /// All ports.
    pub fn total(&self) -> u32 {
        self.ports.iter().sum()
    }
}
