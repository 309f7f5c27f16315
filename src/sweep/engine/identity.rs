//! Who answers at a LID, and where a device is that answers there no more.
//!
//! A reply of performance management carries no GUID, and LIDs move. So NodeInfo is asked of every device at start, then about once a minute, and at once
//! when there is a reason to doubt. What another device answered is withheld; the subnet manager is asked where the right one is.

use std::time::Duration;

use super::state::Device;
use super::{Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::exchange::Local;
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, Data};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::sweep::inflight::{Patience, Transaction};
use crate::sweep::sample::Status;
use crate::time::Instant;
use crate::types::{Guid, Lid, NodeKind};

/// How often NodeInfo is asked in vain before a device counts as one whose identity cannot be checked.
const TRIES: u8 = 3;

/// Between two looks at a device that is not where it should be.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Between two questions where a device is that does not answer at all.
const SEEK_AGAIN: Duration = Duration::from_secs(60);

/// For how long the subnet manager may think: it serves the whole fabric.
pub(super) const MANAGER: Patience = Patience { deadline: Duration::from_secs(1), grace: Duration::from_secs(1) };

/// Who a device should be, where it is, and whether it is.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) guid: Guid,
    /// Where it is asked.
    pub(super) lid: Lid,
    /// Where it was last known to be.
    pub(super) known_lid: Lid,
    pub(super) identity: Identity,
    /// Whether it is asked in this phase, and when next.
    pub(super) ask: bool,
    pub(super) due: Instant,
    /// How often it was asked in vain.
    in_vain: u8,
    /// Whether nobody said a name at its LID when it was asked last.
    pub(super) nameless: bool,
    /// What it said of itself.
    pub(super) info: Option<NodeInfo>,
    /// Whether its links are asked for, and when next.
    pub(super) ask_links: bool,
    links_due: Instant,
    /// PortInfo.CapabilityMask of a switch's port 0.
    pub(super) capability_mask: Option<u32>,
    /// Whether the subnet manager is, or will be, asked for the way to it, and when it may be next.
    pub(super) waits_for_path: bool,
    pub(super) seek: Instant,
    /// Whether the service level to it is known.
    pub(super) has_sl: bool,
    /// Whether it was told that it demands an M_Key.
    m_key_told: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Identity {
    /// It did not say who it is, or not lately.
    Unknown,
    /// It is the one that is meant.
    Right,
    /// It is another, with this GUID.
    Wrong(Guid),
    /// The subnet manager says that it is at another LID; it did not confirm that yet.
    Moved,
}

impl Who {
    pub(super) fn new(guid: Guid, lid: Lid) -> Self {
        Self {
            guid,
            lid,
            known_lid: lid,
            identity: Identity::Unknown,
            ask: false,
            due: Instant::ZERO,
            in_vain: 0,
            nameless: false,
            info: None,
            ask_links: false,
            links_due: Instant::ZERO,
            capability_mask: None,
            waits_for_path: false,
            seek: Instant::ZERO,
            has_sl: false,
            m_key_told: false,
        }
    }

    /// It may be another now.
    pub(super) fn forget(&mut self) {
        (self.info, self.capability_mask, self.in_vain) = (None, None, 0);
        (self.due, self.links_due) = (Instant::ZERO, Instant::ZERO);
        if self.identity == Identity::Right {
            self.identity = Identity::Unknown;
        }
    }

    /// Whether nothing that comes from its LID may be believed.
    pub(super) fn is_wrong(&self) -> bool {
        matches!(self.identity, Identity::Wrong(_) | Identity::Moved)
    }
}

impl Engine {
    /// Tells where the sender is on its subnet. If its LID or the subnet manager's changed, all LIDs may have: every device is asked who it is. Tells
    /// whether it was so.
    pub fn set_local(&mut self, local: Local) -> bool {
        let before = std::mem::replace(&mut self.manager.local, local);
        let moved = before != Local::default() && (before.lid, before.sm_lid) != (local.lid, local.sm_lid);
        if moved {
            self.doubt_all();
        }
        moved
    }

    /// All LIDs may be others' now: every device is asked who it is.
    pub fn doubt_all(&mut self) {
        for device in &mut self.devices {
            (device.who.due, device.who.seek, device.who.has_sl) = (Instant::ZERO, Instant::ZERO, false);
        }
    }

    /// Asks a port's device who it is in the next slot: what it said is hard to believe.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn doubt(&mut self, port: usize) {
        let device = self.ports[port].device;
        self.devices[device as usize].who.due = Instant::ZERO;
    }

    /// Asks others who they are in the next slot: LIDs are given anew, and what befell this device befell them. Those that are known to be strangers
    /// have their own pace.
    pub(super) fn doubt_others(&mut self, index: u32, which: impl Fn(&Who) -> bool) {
        let others = (0..).zip(&mut self.devices).filter(|(other, device)| *other != index && !device.who.is_wrong() && which(&device.who));
        others.for_each(|(_, device)| device.who.due = Instant::ZERO);
    }

    /// Where a device is.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn lid(&self, device: usize) -> Lid {
        self.devices[device].who.known_lid
    }

    /// Devices whose service level should be the path record's and is not known.
    pub fn without_path(&self) -> usize {
        if self.config.path_sl { self.devices.iter().filter(|device| !device.who.has_sl).count() } else { 0 }
    }

    /// How a port's link is: what PortInfo said, and the mask by which its speeds count. `None` if it did not, or if the switch did not tell its mask,
    /// without which EDR cannot be told from QDR.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn link(&self, port: usize) -> Option<(PortInfo, u32)> {
        let Self { ports, devices, .. } = self;
        let link = ports[port].link?;
        let Device { kind, who, .. } = &devices[ports[port].device as usize];
        let mask = if *kind == NodeKind::Switch { who.capability_mask? } else { link.capability_mask };
        Some((link, mask))
    }

    /// When a device is checked next. Each has a time of its own in the round, so that they never come all at once, not even after all were asked at once.
    fn next_round(&self, index: u32, now: Instant) -> Instant {
        let every = u64::try_from(self.config.identity_every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let own = (u128::from(every) * u128::from(index) / self.devices.len().max(1) as u128) as u64;
        let since = (now.as_nanos() + every - own) % every;
        now + Duration::from_nanos(every - since)
    }

    /// What of this is due as a phase begins.
    pub(super) fn begin_checks(&mut self, index: u32, now: Instant) {
        let (path_sl, every) = (self.config.path_sl, self.config.identity_every);
        let device = &mut self.devices[index as usize];
        let who = &mut device.who;
        if device.was_silent && who.identity == Identity::Right {
            // It may be another that answers next.
            who.identity = Identity::Unknown;
        }
        let round = now >= who.due || device.was_silent;
        who.ask |= round && !self.smp_off;
        if (who.ask || self.smp_off && round) && who.in_vain == 0 {
            // A round: what was asked in vain before is asked again.
            device.groups.sampling_tries = device.groups.sampling_tries.max(1);
        }
        if round && self.smp_off {
            self.devices[index as usize].who.due = self.next_round(index, now);
        }
        let device = &mut self.devices[index as usize];
        let who = &mut device.who;
        let every = if who.is_wrong() {
            LOOK_AGAIN
        } else if device.was_silent {
            SEEK_AGAIN
        } else {
            every
        };
        if (who.is_wrong() || device.was_silent || path_sl && !who.has_sl) && now >= who.seek {
            who.seek = now + every.min(SEEK_AGAIN);
            self.seek(index);
        }
    }

    /// Nobody can be asked who it is: where the subnet manager says that a device is, it is.
    pub(super) fn do_without_smp(&mut self) {
        self.smp_off = true;
        for index in 0..self.devices.len() as u32 {
            let who = &mut self.devices[index as usize].who;
            who.ask = false;
            if who.identity == Identity::Moved {
                who.identity = Identity::Unknown;
                self.tell_lid(index);
            }
        }
    }

    /// NodeInfo was answered.
    pub(super) fn take_identity(&mut self, index: u32, answer: Result<&Data, MadStatus>, now: Instant) {
        let Ok(data) = answer else { return self.identity_in_vain(index, now) };
        let info = NodeInfo::parse(data);
        let who = &mut self.devices[index as usize].who;
        let before = who.identity;
        (who.ask, who.in_vain, who.nameless) = (false, 0, false);
        if info.port_guid != who.guid {
            let found = info.port_guid;
            // Neither what it can do nor where it redirects to is the right one's.
            self.devices[index as usize].forget();
            let who = &mut self.devices[index as usize].who;
            (who.identity, who.due) = (Identity::Wrong(found), now + LOOK_AGAIN);
            if before != Identity::Wrong(found) {
                self.events.push_back(Event::WrongDevice { device: index as usize, found });
                // It cannot be where it was.
                self.doubt_others(index, |who| who.guid == found);
            }
            self.devices[index as usize].who.seek = now + LOOK_AGAIN;
            self.withhold(index, now);
            self.seek(index);
            return;
        }
        let next = self.next_round(index, now);
        let who = &mut self.devices[index as usize].who;
        (who.identity, who.info, who.due) = (Identity::Right, Some(info), next);
        if now >= who.links_due {
            (who.ask_links, who.links_due) = (true, next);
        }
        if !self.tell_lid(index) && matches!(before, Identity::Wrong(_)) {
            self.events.push_back(Event::RightDevice(index as usize));
        }
    }

    /// Tells that a device is at another LID than it was known to be, if it is.
    pub(super) fn tell_lid(&mut self, index: u32) -> bool {
        let who = &mut self.devices[index as usize].who;
        let (from, to) = (std::mem::replace(&mut who.known_lid, who.lid), who.lid);
        if from != to {
            self.events.push_back(Event::LidChange { device: index as usize, from, to });
        }
        from != to
    }

    /// NodeInfo was asked in vain: not answered, or refused.
    pub(super) fn identity_in_vain(&mut self, index: u32, now: Instant) {
        let device = &mut self.devices[index as usize];
        let who = &mut device.who;
        who.in_vain += 1;
        if who.in_vain < TRIES {
            return;
        }
        let next = self.next_round(index, now);
        let who = &mut self.devices[index as usize].who;
        (who.ask, who.in_vain, who.nameless, who.due) = (false, 0, true, next);
        if !matches!(who.identity, Identity::Wrong(_)) {
            who.identity = Identity::Unknown;
        }
        let moved = self.tell_lid(index);
        let who = &mut self.devices[index as usize].who;
        if !moved && now >= who.seek {
            // What answers here may be another that wants a key; the subnet manager knows.
            who.seek = now + SEEK_AGAIN;
            self.seek(index);
        }
        let device = &mut self.devices[index as usize];
        // One that answers other questions keeps this one to who has its key.
        if !moved
            && device.answered
            && device.groups.capabilities != super::groups::Known::Not
            && !std::mem::replace(&mut device.who.m_key_told, true)
        {
            self.events.push_back(Event::KeyDemanded { device: index as usize, key: super::Key::M });
        }
    }

    /// PortInfo of a switch's port 0 was answered.
    pub(super) fn take_switch(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let Ok(data) = answer else { return };
        let Device { who, ports, .. } = &mut self.devices[index as usize];
        let mask = PortInfo::parse(data).capability_mask;
        if who.capability_mask.replace(mask) != Some(mask) {
            // It may have come after what it gives a meaning to.
            let told = ports.clone().filter(|port| self.ports[*port as usize].link.is_some());
            self.events.extend(told.map(|port| Event::Link(port as usize)));
        }
    }

    /// PortInfo of a port was answered.
    pub(super) fn take_link(&mut self, port: u32, answer: Result<&Data, MadStatus>) {
        let Ok(data) = answer else { return };
        let link = PortInfo::parse(data);
        let before = self.ports[port as usize].link.replace(link);
        if before != Some(link) && self.link(port as usize).is_some() {
            self.events.push_back(Event::Link(port as usize));
        }
    }

    /// PortInfoExtended of a port was answered.
    pub(super) fn take_fec(&mut self, port: u32, answer: Result<&Data, MadStatus>) {
        self.ports[port as usize].rs_fec = answer.ok().map(smp::is_rs_fec);
    }

    /// Withholds what came of a device in this slot: it is another's, or may be.
    pub(super) fn withhold(&mut self, index: u32, now: Instant) {
        if !matches!(self.phase, Phase::Slot { .. }) {
            return;
        }
        let device = &mut self.devices[index as usize];
        device.done = device.ports.end - device.ports.start;
        for port in device.ports.clone() {
            let state = &mut self.ports[port as usize].slot;
            match &mut state.status {
                Some(status) => {
                    self.stats.ports[*status as usize] -= 1;
                    *status = Status::WrongDevice;
                    self.stats.ports[Status::WrongDevice as usize] += 1;
                }
                None => self.settle(port, Status::WrongDevice, now),
            }
        }
    }

    /// A redirection is followed once, and remembered. Tells whether the request goes out again.
    pub(super) fn follow(&mut self, transaction: &Transaction, mad: &Mad) -> bool {
        let device = &mut self.devices[transaction.device as usize];
        if device.redirect.is_some() {
            return false;
        }
        let Some(redirect) = pma::class_port_info::Redirect::parse(pma::data(mad)) else { return false };
        (device.redirect, device.again) = (Some(redirect), Some((transaction.query, transaction.purpose)));
        self.events.push_back(Event::Redirected { device: transaction.device as usize, to: redirect.lid });
        true
    }
}
