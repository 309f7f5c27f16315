//! The subnet manager's path records: where a device is, and the service level to it.

use std::collections::VecDeque;

use super::identity::{Identity, LOOK_AGAIN, MANAGER};
use super::{Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::exchange::{Local, Target};
use crate::mad::header::MadStatus;
use crate::mad::query::Query;
use crate::mad::sa::{self, Gid, PathRecord};
use crate::sweep::inflight::{Purpose, Transaction};
use crate::time::Instant;
use crate::types::Tid;

/// The subnet manager, and whose ways it is asked for.
#[derive(Debug, Default)]
pub(super) struct Manager {
    pub(super) local: Local,
    queue: VecDeque<u32>,
    asked: bool,
}

impl Manager {
    /// Whether it is asked for anybody, or will be.
    pub(super) fn is_busy(&self) -> bool {
        self.asked || !self.queue.is_empty()
    }
}

impl Engine {
    /// Asks the subnet manager for the way to a device.
    pub(super) fn seek(&mut self, index: u32) {
        let who = &mut self.devices[index as usize].who;
        if self.manager.local.sm_lid.is_unicast() && !std::mem::replace(&mut who.waits_for_path, true) {
            self.manager.queue.push_back(index);
        }
    }

    /// Asks the subnet manager nothing of all that it was to be asked: it may be later, and is not soon.
    pub(super) fn forget_paths(&mut self, now: Instant) {
        while let Some(index) = self.manager.queue.pop_front() {
            let who = &mut self.devices[index as usize].who;
            (who.waits_for_path, who.seek) = (false, now + LOOK_AGAIN);
            self.settle_discovery(index);
        }
    }

    /// The next request to the subnet manager: one at a time.
    pub(super) fn next_path(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        let Local { sm_lid, sm_sl, gid, .. } = self.manager.local;
        if self.manager.asked || matches!(self.phase, Phase::Idle) {
            return None;
        }
        let device = self.manager.queue.pop_front()?;
        self.manager.asked = true;
        let destination = Gid { prefix: gid.prefix, guid: self.devices[device as usize].who.guid };
        let query = Query::Sa(sa::Query { source: gid, destination });
        self.stats.mads_sent += 1;
        let tid =
            self.inflight.insert(Transaction { device, lid: sm_lid, life: 0, query, purpose: Purpose::Path, sent: now, expired: false });
        query.emit(tid, mad);
        Some((Target::general(sm_lid, sm_sl, self.config.pkey_index, MANAGER.grace), tid))
    }

    /// What the subnet manager said; `None` if it said nothing, or that there is no way.
    pub(super) fn take_path(&mut self, index: u32, record: Option<PathRecord>, now: Instant) {
        self.manager.asked = false;
        let path_sl = self.config.path_sl;
        let device = &mut self.devices[index as usize];
        device.who.waits_for_path = false;
        if let Some(PathRecord { dlid, sl }) = record.filter(|record| record.dlid.is_unicast()) {
            if path_sl {
                (device.sl, device.who.has_sl) = (sl, true);
            }
            if dlid != device.who.lid {
                // Nothing is believed of it before it said who it is.
                device.forget();
                self.doubt_others(index, |who| who.lid == dlid);
                let device = &mut self.devices[index as usize];
                (device.who.lid, device.who.identity, device.who.ask, device.step) = (dlid, Identity::Moved, true, 0);
                self.withhold(index, now);
                if self.smp_off {
                    self.do_without_smp();
                }
                self.go_on(index);
            } else if device.who.nameless && matches!(device.who.identity, Identity::Wrong(_)) {
                // The stranger is gone, and who is here wants a key: as far as anybody knows the right one.
                device.who.identity = Identity::Unknown;
                self.events.push_back(Event::RightDevice(index as usize));
            }
        }
        self.settle_discovery(index);
    }

    /// Lets a device be asked again whose chores were done.
    fn go_on(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        let passes = match self.phase {
            Phase::Idle => return,
            Phase::Discovery { .. } => super::DISCOVERY_PASSES,
            Phase::Slot { asking, .. } => u8::from(asking),
        };
        (device.passes, device.silent) = (passes, 0);
        // Nothing that it could wait for is left of one that was given up wholly.
        device.suspended &= device.in_grace > 0;
        if !device.outstanding && !device.suspended {
            self.ready.push_back(index);
        }
    }

    /// The path of a reply, if it has one.
    pub(super) fn path_of(answer: Result<(), MadStatus>, mad: &Mad) -> Option<PathRecord> {
        answer.ok().map(|()| PathRecord::parse(mad))
    }
}
