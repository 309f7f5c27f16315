//! Selects the next request to a device: first the checks of the device, then the counters of its
//! ports.
//!
//! The states of a switch's ports (`state_tables`) come first. The checks have a fixed order:
//! capabilities (ClassPortInfo), identity (NodeInfo), optional attributes (PortSamplesControl),
//! links (PortInfo, PortInfoExtended), and one probe for each optional group whose presence is
//! unknown. Most slots have no checks. A slot makes each check once, and the discovery before the
//! first slot repeats them several times.

use ibnet_record::Status;
use ibnet_record::attributes::Group;
use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::types::{NodeKind, PortNum};

use super::groups::Learned;
use super::{Engine, Phase};
use crate::mad::directed;
use crate::mad::exchange::Target;
use crate::mad::pma::{self, CLASS_PORT_INFO, Capabilities};
use crate::mad::query::Query;
use crate::mad::smp;
use crate::sweep::inflight::Purpose;
use crate::time::Instant;

/// Index of the first step in a pass over the checks. A pass has this step and the next two, then
/// two steps for each port, and then one step for each group.
const CAPABILITIES: u32 = 0;
const IDENTITY: u32 = 1;
const SAMPLING: u32 = 2;
const SWITCH_MASK: u32 = 3;
const LINKS: u32 = 4;

fn pma_query(attribute: u16, port: Option<PortNum>) -> Query {
    Query::Pma(pma::Query { attribute, port })
}

pub(super) fn smp_query(attribute: u16, port: PortNum) -> Query {
    Query::Smp(smp::Query {
        attribute,
        modifier: port.0.into(),
    })
}

impl Engine {
    /// Returns the next request to a device, or `None` if all requests were sent.
    pub(super) fn next_query(&mut self, index: u32, now: Instant) -> Option<(Query, Purpose)> {
        if let Some((query, purpose)) = self.devices[index as usize].progress.repeat.take() {
            self.count_repeat(&query, purpose);
            return Some((query, purpose));
        }
        if let Some(state) = self.next_state(index) {
            return Some(state);
        }
        // In a slot, the checks of identity and capabilities come before the counters. All other
        // checks come after them, so that slow or silent subnet management does not delay
        // counters.
        let in_slot = matches!(self.phase, Phase::Slot { .. });
        if let Some(check) = self.next_check(index, if in_slot { SWITCH_MASK } else { u32::MAX }) {
            return Some(check);
        }
        if in_slot && let Some(counters) = self.next_counters(index, now) {
            return Some(counters);
        }
        let way = &mut self.devices[index as usize].way;
        if std::mem::take(&mut way.asks) && self.has_smps(index) {
            return Some((smp_query(smp::NODE_INFO, PortNum(0)), Purpose::Identity));
        }
        self.next_check(index, u32::MAX)
    }

    pub(super) fn target(&self, index: u32, query: &Query) -> Target {
        let (path, config) = (&self.devices[index as usize].path, &self.config);
        let general = Target::general(
            path.lid,
            path.sl(config.sl),
            config.pkey_index,
            config.grace,
        );
        match (query, path.redirect) {
            (Query::Smp(_), _) => Target::subnet_management(path.lid, config.grace),
            (Query::Directed(directed::Query { route, .. }), _) => {
                Target::subnet_management(route.target(path.lid), config.grace)
            }
            (Query::Pma(_) | Query::Clear(_), Some(redirect)) => {
                // Queue pair 0 in a redirection means queue pair 1.
                let qp = if redirect.qp == 0 {
                    general.qp
                } else {
                    redirect.qp
                };
                let pkey_index = config
                    .index_of_pkey(redirect.pkey)
                    .unwrap_or(config.pkey_index);
                Target {
                    lid: redirect.lid,
                    qp,
                    qkey: redirect.qkey,
                    sl: redirect.sl,
                    pkey_index,
                    ..general
                }
            }
            _ => general,
        }
    }

    fn next_counters(&mut self, index: u32, now: Instant) -> Option<(Query, Purpose)> {
        while let Some(port) = self.devices[index as usize].current_port() {
            let from = self.devices[index as usize].progress.group;
            let mut due = self.due_groups(port).filter(|group| *group >= from);
            let (next, is_last) = (due.next(), due.next().is_none());
            drop(due);
            if next.is_some() && self.reads_link(port) {
                return Some(self.link_query(port));
            }
            if next.is_none() && self.settle_idle(port, now) {
                self.devices[index as usize].progress.next_port();
                continue;
            }
            let device = &mut self.devices[index as usize];
            if let Some(group) = next {
                device.progress.group = group + 1;
                let progress = &mut self.ports[port as usize].slot;
                (progress.mads, progress.open) = (progress.mads + 1, progress.open + 1);
            }
            if is_last {
                self.end_port(index, now);
            }
            if let Some(group) = next {
                return Some((
                    self.group_query(group, port),
                    Purpose::Counters { port, group },
                ));
            }
        }
        None
    }

    /// Returns the request for the state, width and speed of a port's link.
    pub(super) fn link_query(&mut self, port: u32) -> (Query, Purpose) {
        let of = &mut self.ports[port as usize];
        of.slot.link_reads = of.slot.link_reads.saturating_add(1);
        (smp_query(smp::PORT_INFO, of.num), Purpose::Link { port })
    }

    fn group_query(&self, group: u8, port: u32) -> Query {
        pma_query(
            self.config.groups[usize::from(group)].attribute().id,
            Some(self.ports[port as usize].num),
        )
    }

    /// Marks all requests of the device's current port as sent, and selects the next port.
    pub(super) fn end_port(&mut self, index: u32, now: Instant) {
        let device = &mut self.devices[index as usize];
        let Some(port) = device.current_port() else {
            return;
        };
        device.progress.next_port();
        self.ports[port as usize].slot.all_sent = true;
        self.settle_if_complete(port, now);
    }

    /// Settles the ports of a device that are not queried any more in this slot. A partly queried
    /// port first waits for its requests in flight. The next slot starts with the skipped ports.
    pub(super) fn leave_ports(&mut self, index: u32, status: Status, now: Instant) {
        let progress = &mut self.devices[index as usize].progress;
        progress.passes = 0;
        if status == Status::Skipped {
            progress.keep_place();
        }
        self.drop_repeat(index, now);
        while let Some(port) = self.devices[index as usize].current_port() {
            self.devices[index as usize].progress.next_port();
            if status == Status::Skipped && self.settle_idle(port, now) {
                continue;
            }
            let progress = &mut self.ports[port as usize].slot;
            if progress.mads == 0 {
                self.settle(port, status, now);
            } else {
                (progress.all_sent, progress.cut_short) = (true, true);
                self.settle_if_complete(port, now);
            }
        }
    }

    /// Drops the request that a redirection repeats, or a request to clear counters. Its port is
    /// settled with the replies received so far.
    pub(super) fn drop_repeat(&mut self, index: u32, now: Instant) {
        let dropped = self.devices[index as usize].progress.repeat.take();
        let (port, cuts_short) = match dropped {
            Some((_, Purpose::Counters { port, .. })) => (port, true),
            Some((_, Purpose::Clear { port, .. })) => (port, false),
            _ => return,
        };
        let progress = &mut self.ports[port as usize].slot;
        progress.close_one();
        progress.cut_short |= cuts_short;
        self.settle_if_complete(port, now);
    }

    /// Returns whether the next request to a device may be an SMP. The step of the next due check
    /// is not known yet, so the result is true for all steps up to the last SMP of a pass.
    pub(super) fn next_is_smp(&self, index: u32) -> bool {
        let device = &self.devices[index as usize];
        let (step, links) = (device.progress.step, LINKS + 2 * device.ports.len() as u32);
        if let Some((_, purpose)) = device.progress.repeat {
            return !matches!(purpose, Purpose::Counters { .. } | Purpose::Clear { .. });
        }
        if device.has_state_requests() {
            return true;
        }
        let is_checking = device.progress.passes > 0 && self.has_smps(index);
        let counters_first =
            matches!(self.phase, Phase::Slot { .. }) && device.current_port().is_some();
        device.way.asks && !counters_first
            || is_checking
                && (device.identity.is_querying() && step <= IDENTITY
                    || device.links.reading && step < links && !counters_first)
    }

    /// Returns the next due check of a device whose step is before `end_step`.
    fn next_check(&mut self, index: u32, end_step: u32) -> Option<(Query, Purpose)> {
        loop {
            let device = &mut self.devices[index as usize];
            if device.progress.passes == 0 || device.progress.step >= end_step {
                return None;
            }
            let end = LINKS
                + 2 * (device.ports.end - device.ports.start)
                + self.config.groups.len() as u32;
            if device.progress.step >= end {
                // The links of a switch cannot be interpreted without the mask of its port 0, so
                // every pass requests this mask.
                let mask_is_missing =
                    device.kind == NodeKind::Switch && device.links.switch_mask.is_none();
                device.links.reading &= mask_is_missing && device.progress.passes > 1;
                (device.progress.passes, device.progress.step) = (device.progress.passes - 1, 0);
                continue;
            }
            let step = device.progress.step;
            device.progress.step += 1;
            if let Some(check) = self.check(index, step) {
                return Some(check);
            }
        }
    }

    fn check(&mut self, index: u32, step: u32) -> Option<(Query, Purpose)> {
        let in_discovery = matches!(self.phase, Phase::Discovery { .. });
        let has_smps = self.has_smps(index);
        let device = &mut self.devices[index as usize];
        // If another device answers at the LID, only the identity is queried. The same applies
        // after a slot without any answer, until the device answers, because another device may
        // now have the LID.
        let is_wrong = device.identity.is_wrong();
        let was_silent = device.reachability.was_silent()
            && !device.reachability.has_answered()
            && !in_discovery;
        if step != IDENTITY && (is_wrong || was_silent)
            || !has_smps && matches!(step, IDENTITY | SWITCH_MASK)
        {
            return None;
        }
        match step {
            CAPABILITIES => {
                let unknown = device.groups.capabilities == Learned::Unknown;
                unknown.then(|| (pma_query(CLASS_PORT_INFO.id, None), Purpose::Capabilities))
            }
            IDENTITY => device
                .identity
                .is_querying()
                .then(|| (smp_query(smp::NODE_INFO, PortNum(0)), Purpose::Identity)),
            SAMPLING => {
                let first = self.ports.get(device.ports.start as usize)?.num;
                device.groups.take_sampling_try().then(|| {
                    (
                        pma_query(PORT_SAMPLES_CONTROL.id, Some(first)),
                        Purpose::Sampling,
                    )
                })
            }
            SWITCH_MASK => {
                let is_missing =
                    device.kind == NodeKind::Switch && device.links.switch_mask.is_none();
                (device.links.reading && is_missing)
                    .then(|| (smp_query(smp::PORT_INFO, PortNum(0)), Purpose::SwitchMask))
            }
            _ => {
                let first_probe = LINKS + 2 * device.ports.len() as u32;
                if step < first_probe {
                    self.link_check(index, step - LINKS)
                } else {
                    self.probe(index, (step - first_probe) as u8)
                }
            }
        }
    }

    /// Returns the request for a link check of a port: PortInfo in even steps, PortInfoExtended in
    /// odd ones.
    fn link_check(&mut self, index: u32, step: u32) -> Option<(Query, Purpose)> {
        let device = &mut self.devices[index as usize];
        if !device.links.reading {
            device.progress.step = LINKS + 2 * device.ports.len() as u32;
            return None;
        }
        let port = device.ports.start + step / 2;
        let num = self.ports[port as usize].num;
        if step.is_multiple_of(2) {
            return Some(self.link_query(port));
        }
        let has_two_views = device
            .groups
            .capabilities
            .known()
            .is_some_and(|known| known.mask & Capabilities::RS_FEC != 0);
        let wanted = has_two_views && self.config.groups.contains(&Group::ExtendedSpeeds);
        wanted.then(|| {
            (
                smp_query(smp::PORT_INFO_EXTENDED, num),
                Purpose::Fec { port },
            )
        })
    }

    fn probe(&mut self, index: u32, group: u8) -> Option<(Query, Purpose)> {
        let device = &mut self.devices[index as usize];
        if !device.groups.needs_probe(group) {
            return None;
        }
        if matches!(self.phase, Phase::Slot { .. }) {
            // A slot sends only one probe, because unanswered probes must not delay the counters.
            device.progress.passes = 0;
        }
        let first = device.ports.start;
        Some((self.group_query(group, first), Purpose::Probe { group }))
    }
}
