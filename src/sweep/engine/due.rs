//! The groups of a port that are requested in a slot, by their [cadence](crate::sweep::cadence).

use ibnet_record::Status;

use super::Engine;
use crate::mad::smp::PortInfo;
use crate::sweep::cadence::Circumstances;
use crate::time::Instant;

impl Engine {
    pub(super) fn circumstances(&self, port: u32) -> Circumstances {
        let device = &self.devices[self.ports[port as usize].device as usize];
        Circumstances {
            wait_in_base: device.groups.wait_in_base(),
            is_down: self.is_down(port),
        }
    }

    /// Returns whether a port is queried less often because its link is down.
    fn is_down(&self, port: u32) -> bool {
        let is_down = |link: PortInfo| link.state == PortInfo::DOWN;
        self.config.cadence.spares_down_ports()
            && self.ports[port as usize].link.is_some_and(is_down)
    }

    /// Iterates over the groups of a port that are due in this slot.
    pub(super) fn due_groups(&self, port: u32) -> impl Iterator<Item = u8> + '_ {
        let device = &self.devices[self.ports[port as usize].device as usize];
        let of = self.circumstances(port);
        device.groups.all().filter(move |group| {
            let turns = self.config.cadence.of(
                (*group).into(),
                self.config.groups[usize::from(*group)],
                of,
            );
            self.last_reads
                .is_due(port, *group, turns, device.generation)
        })
    }

    /// Returns whether PortInfo of a port is read before its counters, because its link was down
    /// and may be active again.
    pub(super) fn reads_link(&self, port: u32) -> bool {
        let port_state = &self.ports[port as usize];
        self.is_down(port) && self.has_smps(port_state.device) && port_state.slot.link_reads == 0
    }

    /// Gives a port its final status without a query if none of its groups is due. Returns whether
    /// it did.
    pub(super) fn settle_idle(&mut self, port: u32, now: Instant) -> bool {
        let device = &self.devices[self.ports[port as usize].device as usize];
        let is_idle = self.ports[port as usize].slot.mads == 0
            && device.groups.all().next().is_some()
            && self.due_groups(port).next().is_none();
        if is_idle {
            let status = if self.is_down(port) {
                Status::Down
            } else {
                Status::Ok
            };
            self.settle(port, status, now);
        }
        is_idle
    }

    /// Returns the number of requests for counters in an average slot, as far as devices and links
    /// are known now.
    pub fn mads_per_slot(&self) -> f64 {
        let of_port = |port: u32| -> f64 {
            let device = &self.devices[self.ports[port as usize].device as usize];
            let groups = device
                .groups
                .all()
                .map(|place| (usize::from(place), self.config.groups[usize::from(place)]));
            self.config
                .cadence
                .mads_per_slot(groups, self.circumstances(port))
        };
        (0..self.ports.len() as u32).map(of_port).sum()
    }
}
