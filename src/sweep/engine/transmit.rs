//! What a device is asked next: first its chores, then the counters of its ports.
//!
//! The chores, in their order: what it can do (ClassPortInfo), who it is (NodeInfo), which optional attributes it has (PortSamplesControl), how its
//! links are (PortInfo, PortInfoExtended), and a probe of each group that no mask tells of. Most slots have none. The discovery goes over them in
//! several passes, a slot in one.

use super::groups::Known;
use super::{Engine, Phase};
use crate::mad::exchange::Target;
use crate::mad::pma::{self, CLASS_PORT_INFO, Capabilities, Group, PORT_SAMPLES_CONTROL};
use crate::mad::query::Query;
use crate::mad::smp;
use crate::sweep::inflight::Purpose;
use crate::sweep::sample::Status;
use crate::time::Instant;
use crate::types::{NodeKind, PortNum};

/// Chores by their step: these, then two for each port, then one for each group.
const CAPABILITIES: u32 = 0;
const IDENTITY: u32 = 1;
const SAMPLING: u32 = 2;
const SWITCH: u32 = 3;
const LINKS: u32 = 4;

impl Engine {
    /// What a device is asked next; `None` if all of it was asked. Moves on past what it does not have.
    pub(super) fn next_query(&mut self, index: u32, now: Instant) -> Option<(Query, Purpose)> {
        if let Some((query, purpose)) = self.devices[index as usize].again.take() {
            if let Purpose::Counters { port, .. } = purpose {
                self.ports[port as usize].slot.mads += 1;
            }
            return Some((query, purpose));
        }
        if let Some(chore) = self.next_chore(index) {
            return Some(chore);
        }
        if matches!(self.phase, Phase::Slot { .. }) { self.next_counters(index, now) } else { None }
    }

    /// Where a request goes.
    pub(super) fn target(&self, index: u32, query: &Query) -> Target {
        let (device, config) = (&self.devices[index as usize], &self.config);
        let general = Target::general(device.who.lid, device.sl, config.pkey_index, config.grace);
        match (query, device.redirect) {
            (Query::Smp(_), _) => Target::subnet_management(device.who.lid, config.grace),
            (Query::Pma(_), Some(redirect)) => {
                // A queue pair that is not told is the well-known one.
                let qp = if redirect.qp == 0 { general.qp } else { redirect.qp };
                Target { lid: redirect.lid, qp, qkey: redirect.qkey, sl: redirect.sl, ..general }
            }
            _ => general,
        }
    }

    fn next_counters(&mut self, index: u32, now: Instant) -> Option<(Query, Purpose)> {
        while let Some(port) = self.devices[index as usize].current() {
            let device = &mut self.devices[index as usize];
            let mut wanted = (device.group..self.config.groups.len() as u8).filter(|place| device.groups.has(*place));
            let (next, last) = (wanted.next(), wanted.next().is_none());
            if let Some(place) = next {
                device.group = place + 1;
                let state = &mut self.ports[port as usize].slot;
                (state.mads, state.open) = (state.mads + 1, state.open + 1);
            }
            if last {
                self.end_of_port(index, now);
            }
            if let Some(group) = next {
                return Some((self.group_query(group, port), Purpose::Counters { port, group }));
            }
        }
        None
    }

    fn group_query(&self, group: u8, port: u32) -> Query {
        let attribute = self.config.groups[usize::from(group)].attribute().id;
        Query::Pma(pma::Query { attribute, port: Some(self.ports[port as usize].num) })
    }

    /// All that will be asked of the device's current port was asked: goes on to its next one.
    pub(super) fn end_of_port(&mut self, index: u32, now: Instant) {
        let device = &mut self.devices[index as usize];
        let Some(port) = device.current() else { return };
        (device.done, device.group) = (device.done + 1, 0);
        self.ports[port as usize].slot.asked = true;
        self.settle_if_complete(port, now);
    }

    /// Settles the ports of a device that will not be asked; one that was asked in part waits for what is under way. Ports that are skipped come
    /// first in the next slot.
    pub(super) fn leave_ports(&mut self, index: u32, status: Status, now: Instant) {
        let device = &mut self.devices[index as usize];
        device.passes = 0;
        if status == Status::Skipped {
            device.keep_place();
        }
        self.drop_again(index, now);
        while let Some(port) = self.devices[index as usize].current() {
            self.devices[index as usize].done += 1;
            let state = &mut self.ports[port as usize].slot;
            if state.mads == 0 {
                self.settle(port, status, now);
            } else {
                // Asked in part: what is under way still counts.
                (state.asked, state.cut_short) = (true, true);
                self.settle_if_complete(port, now);
            }
        }
    }

    /// Does not ask again what was redirected: its port comes to what it has.
    pub(super) fn drop_again(&mut self, index: u32, now: Instant) {
        if let Some((_, Purpose::Counters { port, .. })) = self.devices[index as usize].again.take() {
            let state = &mut self.ports[port as usize].slot;
            (state.open, state.cut_short) = (state.open.saturating_sub(1), true);
            self.settle_if_complete(port, now);
        }
    }

    fn next_chore(&mut self, index: u32) -> Option<(Query, Purpose)> {
        loop {
            let device = &mut self.devices[index as usize];
            if device.passes == 0 {
                return None;
            }
            let end = LINKS + 2 * (device.ports.end - device.ports.start) + self.config.groups.len() as u32;
            if device.step >= end {
                // Without it the links say nothing: it is asked in every pass.
                let without_mask = device.kind == NodeKind::Switch && device.who.capability_mask.is_none();
                device.who.ask_links &= without_mask && device.passes > 1;
                (device.passes, device.step) = (device.passes - 1, 0);
                continue;
            }
            let step = device.step;
            device.step += 1;
            if let Some(chore) = self.chore(index, step) {
                return Some(chore);
            }
        }
    }

    /// What is asked in a step, if it is due.
    fn chore(&mut self, index: u32, step: u32) -> Option<(Query, Purpose)> {
        let in_discovery = matches!(self.phase, Phase::Discovery { .. });
        let device = &mut self.devices[index as usize];
        let performance = |attribute, port| Query::Pma(pma::Query { attribute, port });
        let subnet = |attribute, port| Query::Smp(smp::Query { attribute, port });
        let ports = device.ports.clone();
        // Nothing is asked of a stranger but who it is.
        let wrong = device.who.is_wrong() && step != IDENTITY;
        // One that did not answer lately is asked only that, too, until it answers: it may be another that has its LID now.
        let away = device.was_silent && !device.answered && !in_discovery && step != IDENTITY;
        if wrong || away || self.smp_off && matches!(step, IDENTITY | SWITCH) {
            return None;
        }
        match step {
            CAPABILITIES => {
                (device.groups.capabilities == Known::Not).then(|| (performance(CLASS_PORT_INFO.id, None), Purpose::Capabilities))
            }
            IDENTITY => device.who.ask.then(|| (subnet(smp::NODE_INFO, PortNum(0)), Purpose::Identity)),
            SAMPLING => {
                let groups = &mut device.groups;
                let first = self.ports.get(ports.start as usize)?.num;
                if groups.tick != Known::Not || groups.sampling_tries == 0 {
                    return None;
                }
                groups.sampling_tries -= 1;
                Some((performance(PORT_SAMPLES_CONTROL.id, Some(first)), Purpose::Sampling))
            }
            SWITCH => (device.who.ask_links && device.kind == NodeKind::Switch && device.who.capability_mask.is_none())
                .then(|| (subnet(smp::PORT_INFO, PortNum(0)), Purpose::Switch)),
            _ if step < LINKS + 2 * ports.len() as u32 => {
                if !device.who.ask_links {
                    device.step = LINKS + 2 * ports.len() as u32;
                    return None;
                }
                let port = ports.start + (step - LINKS) / 2;
                let num = self.ports[port as usize].num;
                if (step - LINKS).is_multiple_of(2) {
                    return Some((subnet(smp::PORT_INFO, num), Purpose::Link { port }));
                }
                let has_views = device.groups.capabilities.known().is_some_and(|known| known.mask & Capabilities::RS_FEC != 0);
                let wanted = has_views && self.config.groups.contains(&Group::ExtendedSpeeds);
                wanted.then(|| (subnet(smp::PORT_INFO_EXTENDED, num), Purpose::Fec { port }))
            }
            _ => {
                let group = (step - LINKS - 2 * ports.len() as u32) as u8;
                device.groups.begin_probing();
                if device.groups.probe & 1 << group == 0 {
                    return None;
                }
                if !in_discovery {
                    // One a slot: what does not answer shall not keep the counters waiting.
                    device.passes = 0;
                }
                Some((self.group_query(group, ports.start), Purpose::Probe { group }))
            }
        }
    }
}
