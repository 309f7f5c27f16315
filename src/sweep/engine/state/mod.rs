//! The state of each device and of each port.
//!
//! The state of a device has several parts. Each part is a type of its own with a few methods, so
//! its fields change together and only in valid ways.
//!
//! | type | state |
//! |---|---|
//! | [`Groups`] | counter groups that the device has |
//! | [`IdentityCheck`] | verification of the GUID that answers at the LID |
//! | [`LinkReads`] | reads of PortInfo |
//! | [`StateTable`] | reads of the states of all ports of a switch |
//! | [`Support`] | registers of the physical layer that the device gives |
//! | [`Path`] | LID, service level, redirection, and the path query to the subnet manager |
//! | [`Way`] | the way of SMPs |
//! | [`Flight`] | MADs in flight to the device |
//! | [`Reachability`] | whether the device answers |
//! | [`Progress`] | position in the requests of a slot |
//! | [`ServiceTimes`] | measured round trips |

use std::ops::Range;
use std::time::Duration;

use ibnet_record::Status;
use ibnet_record::types::{NodeKind, PortNum};
use rustix::io::Errno;

pub(super) use self::flight::{AfterGrace, Flight};
pub(super) use self::identity::{Identity, IdentityCheck, KeyEvents, LinkReads, NodeInfoFailure};
pub(super) use self::path::Path;
pub(super) use self::progress::Progress;
pub(super) use self::reachability::Reachability;
use super::groups::Groups;
use super::physical::Support;
use super::smp_ways::Way;
use super::state_tables::{StateTable, TableState};
use super::{DevicePlan, SmpWay};
use crate::mad::header::MadStatus;
use crate::mad::pma::Clearable;
use crate::mad::smp::PortInfo;
use crate::sweep::cadence::{Cadence, Circumstances};
use crate::sweep::clearing::Cleared;
use crate::sweep::group_list::GroupList;
use crate::sweep::stats::{Durations, durations};
use crate::time::Instant;

mod flight;
mod identity;
mod path;
mod progress;
mod reachability;

/// Assumed service time of a MAD until the first measurement.
const UNMEASURED: Duration = Duration::from_micros(50);

/// A device of the plan.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) kind: NodeKind,
    /// Indices of its ports among the ports of all devices.
    pub(super) ports: Range<u32>,
    /// *Generation* of the device: how often everything learned from it was discarded. A request
    /// of an earlier generation may have reached another device.
    pub(super) generation: u32,
    pub(super) groups: Groups,
    pub(super) identity: IdentityCheck,
    pub(super) links: LinkReads,
    pub(super) state_table: StateTable,
    pub(super) physical: Support,
    pub(super) path: Path,
    pub(super) way: Way,
    pub(super) flight: Flight,
    pub(super) reachability: Reachability,
    pub(super) progress: Progress,
    pub(super) service: ServiceTimes,
    /// Keys that the device requires, as far as they were reported.
    pub(super) keys: KeyEvents,
    /// Consecutive requests to clear counters that failed.
    pub(super) clears_failed: u8,
}

impl Device {
    pub(super) fn new(
        (plan, smp): (&DevicePlan, SmpWay),
        ports: Range<u32>,
        groups: Groups,
    ) -> Self {
        Self {
            kind: plan.kind,
            progress: Progress::new(ports.end - ports.start),
            ports,
            generation: 0,
            groups,
            identity: IdentityCheck::new(plan.guid),
            links: LinkReads::default(),
            state_table: StateTable::default(),
            physical: Support::default(),
            path: Path::new(plan.lid),
            way: Way::new(smp == SmpWay::Directed, None),
            flight: Flight::default(),
            reachability: Reachability::default(),
            service: ServiceTimes::default(),
            keys: KeyEvents::default(),
            clears_failed: 0,
        }
    }

    pub(super) fn restart(&mut self, groups: &GroupList, cadence: &Cadence, slot: u64) {
        if self.reachability.restart() {
            // The device was unreachable; it may have been replaced, or may have new firmware.
            self.discard_learned();
        }
        self.flight = Flight::default();
        self.progress.restart();
        let of = Circumstances {
            wait_in_base: self.groups.wait_in_base(),
            is_down: false,
        };
        let turns = self
            .groups
            .all()
            .map(|group| cadence.of(group.into(), groups[usize::from(group)], of));
        let requests = turns
            .map(|turns| turns.count_in(slot, self.ports.clone()))
            .sum();
        self.service.estimate(requests);
    }

    /// Discards everything learned from the device and starts a new generation.
    pub(super) fn discard_learned(&mut self) {
        self.groups.discard_learned();
        self.identity.discard_learned();
        self.links.discard_learned();
        self.state_table = StateTable::default();
        self.physical = Support::default();
        self.path.redirect = None;
        self.clears_failed = 0;
        self.progress.repeat = None;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Verifies the device and reads its links in the next slot.
    pub(super) fn read_links(&mut self) {
        self.identity.verify();
        self.links.expire();
    }

    /// Returns the index of the port that is queried now or next, or `None` after the last port.
    pub(super) fn current_port(&self) -> Option<u32> {
        self.progress
            .current()
            .map(|offset| self.ports.start + offset)
    }

    /// Returns whether there is a request for the states of its ports. A device that is not
    /// verified gets none, such as one that did not answer in the last slot. If the first request
    /// of a slot is lost, the counters come first, so a dead device gets no more MADs than without
    /// the table.
    pub(super) fn has_state_requests(&self) -> bool {
        self.state_table.has_requests()
            && self.identity.is_verified()
            && !self.reachability.is_silent()
    }

    /// Returns whether the discovery of this device is complete.
    pub(super) fn is_discovered(&self) -> bool {
        self.progress.has_no_checks() && self.flight.is_over() && !self.path.is_queried()
    }
}

/// Service times of a device: the measured round trips of its performance management agent.
#[derive(Clone, Debug)]
pub(super) struct ServiceTimes {
    /// Moving average. `None` if the agent never answered.
    average: Option<Duration>,
    /// Round trips in nanoseconds since the last reset.
    pub(super) round_trips: Durations,
    /// The shortest of these round trips.
    pub(super) shortest: Option<u64>,
    /// Estimated time for all requests of a slot.
    pub(super) work: Duration,
}

impl Default for ServiceTimes {
    fn default() -> Self {
        Self {
            average: None,
            round_trips: durations(),
            shortest: None,
            work: Duration::ZERO,
        }
    }
}

impl ServiceTimes {
    /// Removes all round trips. The average stays.
    pub(super) fn reset(&mut self) {
        self.round_trips.reset();
        self.shortest = None;
    }

    pub(super) fn add(&mut self, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        self.round_trips.saturating_record(ns);
        self.shortest = Some(self.shortest.map_or(ns, |shortest| shortest.min(ns)));
        // A new value has a small weight, so one delayed reply changes the average only slightly.
        self.average = Some(self.average.map_or(rtt, |average| (average * 7 + rtt) / 8));
    }

    fn estimate(&mut self, requests: u32) {
        self.work = self.average.unwrap_or(UNMEASURED) * requests;
    }
}

/// A port of a device.
#[derive(Clone, Debug)]
pub(super) struct PortState {
    /// Index of its device.
    pub(super) device: u32,
    pub(super) num: PortNum,
    /// Last PortInfo of the port.
    pub(super) link: Option<PortInfo>,
    /// Time at which the state of `link` was last read, from PortInfo or from the table of the
    /// switch.
    pub(super) state_read_at: Option<Instant>,
    /// State of the port in the table of its switch.
    pub(super) table_state: TableState,
    /// Whether the error correction is a Reed-Solomon code. `None` if unknown.
    pub(super) rs_fec: Option<bool>,
    /// Data rate of the link in Gb/s, if it is known from PortInfo.
    pub(super) capacity_gbps: Option<f64>,
    pub(super) slot: PortProgress,
}

impl PortState {
    pub(super) fn new(device: u32, num: PortNum) -> Self {
        Self {
            device,
            num,
            link: None,
            state_read_at: None,
            table_state: TableState::default(),
            rs_fec: None,
            capacity_gbps: None,
            slot: PortProgress::default(),
        }
    }
}

/// Progress of a port in a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct PortProgress {
    /// Final status. `None` until the port is settled.
    pub(super) status: Option<Status>,
    /// Sum of the round trips.
    pub(super) rtt: Duration,
    /// Shortest round trip.
    pub(super) rtt_min: Option<Duration>,
    /// MADs sent.
    pub(super) mads: u32,
    /// Time of the last reply.
    pub(super) at: Option<Instant>,
    /// Last error status of the agent.
    pub(super) mad_status: Option<MadStatus>,
    /// Number of requests for PortInfo of the port in this slot.
    pub(super) link_reads: u8,
    /// Counters that were cleared after their reading, by the index of [`Clearable::ALL`].
    pub(super) cleared: [Option<Cleared>; Clearable::ALL.len()],
    /// Number of requests that may still be answered.
    pub(super) open: u8,
    /// Whether no more requests will be sent for this port.
    pub(super) all_sent: bool,
    /// Whether the slot ended before all requests were sent or answered.
    pub(super) cut_short: bool,
    /// Whether a reply came after the timeout.
    pub(super) late: bool,
    /// Whether a request was given up: its grace period ended without a reply.
    pub(super) lost: bool,
    /// Whether a reply did not match its request.
    pub(super) bad_reply: bool,
    /// Reason why a request was not sent.
    pub(super) send_error: Option<SendError>,
}

/// Reason why a request was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendError {
    /// The call failed with this errno.
    Errno(i32),
    /// The transport has no agent for the management class.
    NoAgent,
}

impl SendError {
    /// Returns the errno for the record: `EOPNOTSUPP` if there is no agent.
    pub(super) fn errno(self) -> i32 {
        match self {
            Self::Errno(errno) => errno,
            Self::NoAgent => Errno::OPNOTSUPP.raw_os_error(),
        }
    }
}

impl PortProgress {
    /// Returns the status of a port, or `None` if requests must still be sent or may still be
    /// answered.
    pub(super) fn result(&self) -> Option<Status> {
        if !self.all_sent || self.open > 0 {
            return None;
        }
        Some(match self {
            Self {
                send_error: Some(_),
                ..
            } => Status::SendError,
            Self {
                lost: true,
                bad_reply: true,
                ..
            } => Status::BadReply,
            Self { lost: true, .. } => Status::Timeout,
            Self {
                cut_short: true, ..
            } => Status::Skipped,
            Self {
                mad_status: Some(_),
                ..
            } => Status::MadError,
            Self { late: true, .. } => Status::Late,
            _ => Status::Ok,
        })
    }

    pub(super) fn add_round_trip(&mut self, rtt: Duration) {
        self.rtt += rtt;
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
    }

    /// Counts a request as closed, because no reply is expected any more.
    pub(super) fn close_one(&mut self) {
        self.open = self.open.saturating_sub(1);
    }
}
