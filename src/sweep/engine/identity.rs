//! Verifies which device answers at a LID, and reads the state of the links.
//!
//! A reply with counters contains no GUID, and a device can get another LID. The engine therefore
//! sends a NodeInfo query (IBA vol. 1, 14.2.5.3) to every device: at the start, about once a
//! minute, and in the next slot if data suggests that another device answers. If another device
//! does answer, the engine does not use its counters and asks the subnet manager for the current
//! LID of the planned device.

use std::time::Duration;

use ibnet_record::Status;
use ibnet_record::types::{Guid, Lid, NodeKind};

use super::groups::Learned;
use super::state::{Device, Identity, IdentityCheck, NodeInfoFailure, PortState};
use super::state_tables::MAX_SENT;
use super::{Engine, Event, Key, Phase};
use crate::mad::exchange::Local;
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::time::Instant;

/// Time between two verifications of a LID at which another device answers.
pub(super) const WRONG_DEVICE_INTERVAL: Duration = Duration::from_secs(10);

/// Max time between two path queries for a device that does not answer or cannot be verified.
const PATH_INTERVAL: Duration = Duration::from_secs(60);

impl Engine {
    /// Sets the LIDs of the sending port and of its subnet manager. If the LID of the port or of
    /// the subnet manager has changed, every device is verified, because all LIDs may have changed;
    /// the function then returns true.
    pub fn set_local(&mut self, local: Local) -> bool {
        let before = std::mem::replace(&mut self.manager.local, local);
        self.start_ways(local);
        let moved =
            before != Local::default() && (before.lid, before.sm_lid) != (local.lid, local.sm_lid);
        if moved {
            self.manager.reset_losses();
            self.subnet_managers.expire();
            self.verify_all();
        }
        moved
    }

    /// Verifies every device in the next slot, because all LIDs may have changed.
    pub fn verify_all(&mut self) {
        self.forwarding.expect_change();
        for device in &mut self.devices {
            device.identity.verify();
            device.path.expire();
        }
    }

    /// Verifies the device of a port in the next slot, because its data is implausible.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn verify(&mut self, port: usize) {
        let device = self.ports[port].device;
        self.devices[device as usize].identity.verify();
    }

    /// Verifies the device at a LID and reads its links in the next slot. Returns the index of the
    /// device, or `None` if no planned device is at this LID.
    pub fn read_links_at(&mut self, lid: Lid) -> Option<usize> {
        self.forwarding.expect_change();
        let index = self
            .devices
            .iter()
            .position(|device| device.path.lid == lid)?;
        self.devices[index].read_links();
        Some(index)
    }

    /// Reads the state of a port's link soon: by PortInfo in the next slot, unless the next table
    /// of its switch has it.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn read_state(&mut self, port: usize) {
        let device = &mut self.devices[self.ports[port].device as usize];
        if device.kind == NodeKind::Switch {
            self.forwarding.expect_change();
        }
        if !device.state_table.is_supported {
            device.read_links();
        }
    }

    /// In the next slot, verifies all other devices that satisfy a condition. Devices at
    /// whose LID another device answers are left out, because they have a schedule of their own.
    pub(super) fn verify_others(&mut self, index: u32, condition: impl Fn(&Device) -> bool) {
        let others = (0..)
            .zip(&mut self.devices)
            .filter(|(other, device)| *other != index && !device.identity.is_wrong());
        others
            .filter(|(_, device)| condition(device))
            .for_each(|(_, device)| device.identity.verify());
    }

    /// Returns the LID at which a device was last known to be.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn lid(&self, device: usize) -> Lid {
        self.devices[device].path.known_lid
    }

    /// With service levels from path records, returns the number of devices without a current path
    /// record; otherwise 0.
    pub fn devices_without_path(&self) -> usize {
        if self.config.path_sl {
            self.devices
                .iter()
                .filter(|device| !device.path.has_sl())
                .count()
        } else {
            0
        }
    }

    /// Returns the PortInfo of a port and the CapabilityMask that belongs to it: without this
    /// mask, EDR cannot be distinguished from QDR. Returns `None` as long as PortInfo is unknown
    /// or, for a switch port, the mask of the switch's port 0.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn link(&self, port: usize) -> Option<(PortInfo, u32)> {
        let Self { ports, devices, .. } = self;
        let link = ports[port].link?;
        let Device { kind, links, .. } = &devices[ports[port].device as usize];
        let mask = if *kind == NodeKind::Switch {
            links.switch_mask?
        } else {
            link.capability_mask
        };
        Some((link, mask))
    }

    /// Returns the time of a device's next periodic verification. The devices are spread over the
    /// interval, even after all of them were verified at once.
    pub(super) fn next_verification(&self, index: u32, now: Instant) -> Instant {
        let every = u64::try_from(self.config.identity_every.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let offset =
            (u128::from(every) * u128::from(index) / self.devices.len().max(1) as u128) as u64;
        let elapsed = (now.as_nanos() + every - offset) % every;
        now + Duration::from_nanos(every - elapsed)
    }

    /// Starts the checks of a device that are due when a slot or a discovery starts.
    pub(super) fn start_checks(&mut self, index: u32, now: Instant) {
        let next = self.next_verification(index, now);
        let has_smps = self.has_smps(index);
        let device = &mut self.devices[index as usize];
        let was_silent = device.reachability.was_silent();
        device.way.asks = false;
        if was_silent {
            // The next reply may come from another device.
            device.identity.withdraw();
        }
        let is_doubted = device.way.doubted_link.is_some();
        let due = was_silent || is_doubted || device.identity.is_due(now);
        if due && has_smps {
            device.identity.query();
        }
        if (device.identity.is_querying() || !has_smps && due) && device.identity.has_not_failed() {
            // This starts a new round of checks, in which failed requests of earlier rounds are
            // tried again.
            device.groups.retry_sampling();
        }
        if due && !has_smps {
            device.identity.schedule(next);
        }
        let interval = if device.identity.is_wrong() {
            WRONG_DEVICE_INTERVAL
        } else if was_silent {
            PATH_INTERVAL
        } else {
            self.config.identity_every.min(PATH_INTERVAL)
        };
        let wanted = device.identity.is_wrong()
            || was_silent
            || self.config.path_sl && !device.path.has_sl();
        if wanted && device.path.may_query(now) {
            device.path.wait_until(now + interval);
            self.query_path(index);
        }
    }

    /// Continues without subnet management, for which the transport has no agent. NodeInfo cannot
    /// be queried, so LIDs from the subnet manager are used without verification.
    pub(super) fn do_without_smp(&mut self) {
        self.no_smp_agent = true;
        for index in 0..self.devices.len() as u32 {
            self.do_without_smps_to(index);
        }
    }

    /// Continues without SMPs to a device.
    pub(super) fn do_without_smps_to(&mut self, index: u32) {
        let IdentityCheck { identity, .. } = &mut self.devices[index as usize].identity;
        let moved = *identity == Identity::Moved;
        if moved {
            *identity = Identity::Unverified(None);
        }
        let check = &mut self.devices[index as usize].identity;
        if check.is_querying() {
            check.schedule(Instant::ZERO);
        }
        if moved {
            self.report_lid(index);
        }
    }

    pub(super) fn take_identity(
        &mut self,
        index: u32,
        answer: Result<&Data, MadStatus>,
        now: Instant,
    ) {
        let Ok(data) = answer else {
            return self.identity_failed(index, true, now);
        };
        let info = NodeInfo::parse(data);
        let device = &mut self.devices[index as usize];
        if info.port_guid == device.identity.expected {
            if self.is_verified_by(index, info, now) {
                self.verified(index, info, now);
            }
        } else if device.way.route().is_some() {
            // The route leads to another device, which shows nothing about the LID.
            self.way_failed(index, true, now);
        } else {
            self.found_other(index, info.port_guid, now);
        }
    }

    /// Notes that the planned device answers at its LID.
    pub(super) fn verified(&mut self, index: u32, info: NodeInfo, now: Instant) {
        let next = self.next_verification(index, now);
        let device = &mut self.devices[index as usize];
        let other_before = device.identity.found();
        device.identity.answered(Identity::Verified(info), next);
        let next_links = if device.state_table.is_supported {
            next + self.config.identity_every
        } else {
            next
        };
        device.links.start(now, next_links);
        self.forwarding.verified(index);
        self.ask_doubted(index);
        if !self.report_lid(index) && other_before.is_some() {
            self.events.push_back(Event::RightDevice(index as usize));
        }
    }

    /// Notes that another device, with this GUID, is at the LID of a device.
    pub(super) fn found_other(&mut self, index: u32, found: Guid, now: Instant) {
        let device = &mut self.devices[index as usize];
        let other_before = device.identity.found();
        // The known capabilities and the redirection may belong to the other device.
        device.discard_learned();
        let again = now + WRONG_DEVICE_INTERVAL;
        device.identity.answered(
            Identity::Wrong {
                found,
                unanswered: false,
            },
            again,
        );
        device.path.wait_until(again);
        if other_before != Some(found) {
            self.events.push_back(Event::WrongDevice {
                device: index as usize,
                found,
            });
            // If the plan has the other device too, that device has left its own LID.
            self.verify_others(index, |other| other.identity.expected == found);
        }
        self.withhold(index, now);
        self.query_path(index);
    }

    /// Reports the LID of a device if it has changed.
    pub(super) fn report_lid(&mut self, index: u32) -> bool {
        let path = &mut self.devices[index as usize].path;
        let (from, to) = (std::mem::replace(&mut path.known_lid, path.lid), path.lid);
        if from != to {
            self.forwarding.expect_change();
            self.events.push_back(Event::LidChange {
                device: index as usize,
                from,
                to,
            });
        }
        from != to
    }

    /// Handles a NodeInfo query that was refused or not answered. A route on which it was lost
    /// (`is_lost`) has failed, any other way after three.
    pub(super) fn identity_failed(&mut self, index: u32, is_lost: bool, now: Instant) {
        let device = &mut self.devices[index as usize];
        let is_final = device.identity.fail() == NodeInfoFailure::NotVerifiable;
        if is_final || is_lost && device.way.route().is_some() {
            self.way_failed(index, is_final, now);
        }
    }

    /// Handles the failure of the way of SMPs to a device: tries the next one, or ends the
    /// verification.
    fn way_failed(&mut self, index: u32, is_third: bool, now: Instant) {
        if self.try_next_way(index, is_third) {
            return;
        }
        let next = self.next_verification(index, now);
        let device = &mut self.devices[index as usize];
        let is_first = device.way.is_lost_anew() && device.reachability.has_answered();
        device.identity.give_up(if is_first {
            next.min(now + WRONG_DEVICE_INTERVAL)
        } else {
            next
        });
        if is_first {
            self.peers.start_soon();
        }
        if self.report_lid(index) {
            return;
        }
        let path = &mut self.devices[index as usize].path;
        if path.may_query(now) {
            // A device that requires a key may have taken over the LID. A path record shows
            // whether the planned device has moved.
            path.wait_until(now + PATH_INTERVAL);
            self.query_path(index);
        }
        let device = &mut self.devices[index as usize];
        // A device that answers other requests but not NodeInfo requires an M_Key.
        let answers_others =
            device.reachability.has_answered() && device.groups.capabilities != Learned::Unknown;
        let by_route = device.way.route().is_some() && device.way.is_proven();
        if answers_others && !by_route && device.keys.first(Key::M) {
            self.events.push_back(Event::KeyDemanded {
                device: index as usize,
                key: Key::M,
            });
        }
    }

    pub(super) fn take_switch_mask(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let Ok(data) = answer else { return };
        let Device {
            links,
            state_table,
            ports,
            ..
        } = &mut self.devices[index as usize];
        let info = PortInfo::parse(data);
        state_table.is_supported = self.config.state_tables && info.has_state_table();
        let mask = info.capability_mask;
        if links.switch_mask.replace(mask) != Some(mask) {
            // Links that were read before this mask become known now.
            let complete = ports
                .clone()
                .filter(|port| self.ports[*port as usize].link.is_some());
            self.events
                .extend(complete.map(|port| Event::Link(port as usize)));
        }
    }

    pub(super) fn take_link(
        &mut self,
        (port, sent): (u32, Instant),
        answer: Result<&Data, MadStatus>,
        now: Instant,
    ) {
        let Ok(data) = answer else { return };
        let link = PortInfo::parse(data);
        let PortState {
            device,
            link: before,
            ..
        } = self.ports[port as usize];
        if before.is_some_and(|before| before != link) && !self.is_believed(device, sent, now) {
            self.devices[device as usize].way.doubted_link = Some(port);
            return self.doubt(device, now);
        }
        let doubted = &mut self.devices[device as usize].way.doubted_link;
        *doubted = doubted.filter(|doubted| *doubted != port);
        let of = &mut self.ports[port as usize];
        of.table_state.settle();
        of.state_read_at = Some(now);
        let before = of.link.replace(link);
        if before != Some(link) && self.link(port as usize).is_some() {
            self.events.push_back(Event::Link(port as usize));
        }
        if before.is_some_and(|before| before.state != link.state) {
            self.read_physical(port, now);
            let index = self.ports[port as usize].device;
            if self.devices[index as usize].kind == NodeKind::Switch {
                self.forwarding.expect_change();
            }
        }
    }

    /// Reads again what was seen on a route before the device was verified on it.
    pub(super) fn ask_doubted(&mut self, index: u32) {
        self.ask_doubted_peers(index);
        let Some(port) = self.devices[index as usize].way.doubted_link else {
            return;
        };
        // More reads follow in the next slot.
        if self.ports[port as usize].slot.link_reads >= MAX_SENT {
            return;
        }
        let link = self.link_query(port);
        let device = &mut self.devices[index as usize];
        device.progress.repeat.get_or_insert(link);
    }

    pub(super) fn take_fec(&mut self, port: u32, answer: Result<&Data, MadStatus>) {
        self.ports[port as usize].rs_fec = answer.ok().map(smp::is_rs_fec);
    }

    /// Discards all data of a device in this slot, because another device answers at its LID, or
    /// may do so.
    pub(super) fn withhold(&mut self, index: u32, now: Instant) {
        if !matches!(self.phase, Phase::Slot { .. }) {
            return;
        }
        let device = &mut self.devices[index as usize];
        device.progress.skip_ports();
        for port in device.ports.clone() {
            let progress = &mut self.ports[port as usize].slot;
            match &mut progress.status {
                Some(status) => {
                    self.stats.ports[*status as usize] -= 1;
                    *status = Status::WrongDevice;
                    self.stats.ports[Status::WrongDevice as usize] += 1;
                }
                None => self.settle(port, Status::WrongDevice, now),
            }
        }
    }
}
