//! What the engine knows of each device and of each port while a slot runs.

use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::DevicePlan;
use super::groups::Groups;
use super::identity::Who;
use crate::mad::header::MadStatus;
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::query::Query;
use crate::mad::smp::PortInfo;
use crate::sweep::inflight::Purpose;
use crate::sweep::sample::Status;
use crate::sweep::stats::durations_of_one;
use crate::time::Instant;
use crate::types::{NodeKind, PortNum};

/// What a device is taken to need for a MAD before it was measured.
const UNMEASURED: Duration = Duration::from_micros(50);

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) kind: NodeKind,
    pub(super) ports: Range<u32>,
    pub(super) groups: Groups,
    pub(super) who: Who,
    /// Service level to it.
    pub(super) sl: u8,
    /// Counts how often all that was known of it was forgotten: what was asked before that was asked of another, or may have been.
    pub(super) life: u32,
    /// Who answers for its performance management.
    pub(super) redirect: Option<Redirect>,
    /// What is asked once more, of whom it redirected to.
    pub(super) again: Option<(Query, Purpose)>,
    /// How far its chores are in this pass; see `transmit`.
    pub(super) step: u32,
    /// Passes over its chores that are left in this phase, this one included.
    pub(super) passes: u8,
    /// How many ports the first one of this slot is behind the first of all.
    pub(super) first: u32,
    /// Ports of which all was asked in this slot.
    pub(super) done: u32,
    /// The group of it that is asked next.
    pub(super) group: u8,
    /// MADs in a row without a reply.
    pub(super) silent: u8,
    /// Transactions that wait for the end of their grace.
    pub(super) in_grace: u16,
    /// Those of them that will not be answered any more: a later one was, in time.
    pub(super) lost: u16,
    /// Whether a MAD of it holds a place in the window.
    pub(super) outstanding: bool,
    /// Left alone because it is silent.
    pub(super) suspended: bool,
    /// Whether it was counted in the discovery.
    pub(super) discovered: bool,
    /// Whether anything answered in this slot, and whether anything expired.
    pub(super) answered: bool,
    pub(super) expired: bool,
    /// Whether its agent for performance management answered in this slot.
    pub(super) agent_answered: bool,
    /// MADs sent to it in this slot, and those of them that expired and that it should have answered.
    pub(super) mads: u32,
    pub(super) expiries: u32,
    /// How long its agent takes for a MAD, way included, as lately measured; none if it never answered.
    pub(super) service: Option<Duration>,
    /// Its round trips in nanoseconds, since somebody forgot them.
    pub(super) round_trips: Histogram<u64>,
    /// How long it takes for all that is asked of it in a slot, by that.
    pub(super) work: Duration,
    /// MADs that its agent left unanswered since it last answered one.
    pub(super) unanswered: u32,
    /// Whether it was told that it does not answer any more.
    pub(super) gone: bool,
    /// Whether nothing answered in the last slot.
    pub(super) was_silent: bool,
    /// Whether the next slot asks anew what it has; until then the samples of this one are read by what was known.
    pub(super) to_forget: bool,
    /// How many slots in a row were too short for it.
    pub(super) skipped_for: u32,
    /// Where the next slot begins, if this one is too short for it.
    pub(super) next_first: Option<u32>,
    /// Whether it was told that it demands a PM_Key.
    pub(super) pm_key_told: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) device: u32,
    pub(super) num: PortNum,
    /// How its link is, if it told.
    pub(super) link: Option<PortInfo>,
    /// Whether its error correction is a Reed-Solomon code, if it told.
    pub(super) rs_fec: Option<bool>,
    pub(super) slot: InSlot,
}

/// How a port fares in a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct InSlot {
    pub(super) status: Option<Status>,
    pub(super) rtt: Duration,
    pub(super) mads: u32,
    pub(super) at: Option<Instant>,
    pub(super) mad_status: Option<MadStatus>,
    /// Transactions that may still be answered.
    pub(super) open: u8,
    /// Whether all that will be asked of it was asked.
    pub(super) asked: bool,
    /// Whether the slot ended before all was asked.
    pub(super) cut_short: bool,
    pub(super) late: bool,
    pub(super) lost: bool,
    pub(super) bad_reply: bool,
    /// The errno of a MAD that could not be sent.
    pub(super) send_failed: Option<i32>,
}

impl Device {
    pub(super) fn new(plan: &DevicePlan, ports: Range<u32>, sl: u8, groups: Groups) -> Self {
        Self {
            kind: plan.kind,
            groups,
            who: Who::new(plan.guid, plan.lid),
            sl,
            life: 0,
            redirect: None,
            again: None,
            step: 0,
            passes: 0,
            first: 0,
            done: 0,
            ports,
            group: 0,
            silent: 0,
            in_grace: 0,
            lost: 0,
            outstanding: false,
            suspended: false,
            discovered: false,
            answered: false,
            expired: false,
            agent_answered: false,
            mads: 0,
            expiries: 0,
            service: None,
            round_trips: durations_of_one(),
            work: Duration::ZERO,
            unanswered: 0,
            gone: false,
            was_silent: false,
            to_forget: false,
            skipped_for: 0,
            next_first: None,
            pm_key_told: false,
        }
    }

    pub(super) fn restart(&mut self) {
        if std::mem::take(&mut self.to_forget) {
            self.forget();
        }
        (self.done, self.group, self.step, self.again) = (0, 0, 0, None);
        self.skipped_for = if self.next_first.is_some() { self.skipped_for + 1 } else { 0 };
        self.first = self.next_first.take().unwrap_or(0);
        self.lost = 0;
        (self.silent, self.in_grace, self.outstanding, self.suspended, self.discovered) = (0, 0, false, false, false);
        (self.answered, self.expired, self.agent_answered) = (false, false, false);
        (self.mads, self.expiries) = (0, 0);
        self.work = self.service.unwrap_or(UNMEASURED) * self.groups.count() * (self.ports.end - self.ports.start);
    }

    /// Knows nothing of it any more but who it should be.
    pub(super) fn forget(&mut self) {
        self.groups.forget();
        self.who.forget();
        (self.redirect, self.again) = (None, None);
        self.life = self.life.wrapping_add(1);
    }

    /// A MAD was answered after so long.
    pub(super) fn measure(&mut self, rtt: Duration) {
        self.round_trips.saturating_record(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        // Slowly, so that one that waited on the way says little.
        self.service = Some(self.service.map_or(rtt, |service| (service * 7 + rtt) / 8));
    }

    /// The port that is asked now or next; `None` once all were.
    pub(super) fn current(&self) -> Option<u32> {
        let count = self.ports.end - self.ports.start;
        (self.done < count).then(|| self.ports.start + (self.first + self.done) % count)
    }

    /// The next slot begins where this one has come to.
    pub(super) fn keep_place(&mut self) {
        self.next_first = self.current().map(|port| port - self.ports.start);
    }
}

impl Port {
    pub(super) fn new(device: u32, num: PortNum) -> Self {
        Self { device, num, link: None, rs_fec: None, slot: InSlot::default() }
    }
}
