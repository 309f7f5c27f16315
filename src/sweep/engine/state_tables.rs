//! Reads the states of all ports of a switch with one SMP, SwitchPortStateTable.
//!
//! Where a switch has this table, a link that goes down is known in the slot in which it is read,
//! and not after a round of PortInfo:
//!
//! - At the start of a slot, before any counters, each verified switch gets one request for each
//!   block of 128 ports, at most once in [`EVERY`]. A lost request is sent again.
//! - PortInfo of all ports, which shows the state too, is then read in every second round only.
//! - The table only shows that a port changed. PortInfo of this port, which is read next,
//!   confirms the change and has the new width and speed.
//! - A value that PortInfo does not confirm is not asked again until it changes, so a wrong table
//!   costs one PortInfo for each port.

use std::time::Duration;

use ibnet_record::types::PortNum;

use super::Engine;
use super::transmit::smp_query;
use crate::mad::header::MadStatus;
use crate::mad::pma::{Bits, Data};
use crate::mad::query::Query;
use crate::mad::smp::{self, PORT_STATES, PortInfo};
use crate::sweep::inflight::Purpose;
use crate::time::Instant;

/// Least time between two reads of a table: one second, less the inaccuracy of the clock.
const EVERY: Duration = Duration::from_millis(990);

/// Max number of requests for a block or for a PortInfo in a slot. All but the first follow a lost
/// one.
pub(super) const MAX_SENT: u8 = 3;

/// Number of consecutive lost requests after which the table is read only in the round of the
/// identity checks, or a change of a port is not confirmed.
const MAX_LOST: u8 = 9;

/// The reads of one switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StateTable {
    /// Whether the switch has the table and it is read.
    pub(super) is_supported: bool,
    /// Time of the next read.
    due: Instant,
    /// Blocks to request, one bit each.
    blocks: u8,
    /// Number of requests sent in this slot.
    sent: u8,
    /// Number of consecutive lost requests.
    lost: u8,
    /// Whether a port may have a change to confirm.
    has_changes: bool,
}

impl StateTable {
    /// Starts a slot.
    fn start(&mut self, now: Instant, ports: u8) {
        (self.blocks, self.sent) = (0, 0);
        if self.is_supported && now >= self.due {
            self.due = now + EVERY;
            self.blocks = if ports < PORT_STATES.len { 0b01 } else { 0b11 };
        }
    }

    /// Returns whether there is a request to send.
    pub(super) fn has_requests(&self) -> bool {
        self.blocks != 0 || self.has_changes
    }

    /// Sends a lost request again, if this slot may.
    pub(super) fn expire(&mut self, block: u8) {
        if self.sent < MAX_SENT {
            self.blocks |= 1 << block;
        }
    }

    /// Reads the table in the next slot.
    pub(super) fn read_again(&mut self) {
        self.due = Instant::ZERO;
    }

    /// Counts a lost request. After too many, waits until `next`.
    pub(super) fn fail(&mut self, next: Instant) {
        self.lost += 1;
        if self.lost >= MAX_LOST {
            (self.lost, self.blocks, self.due) = (0, 0, next);
        }
    }
}

/// The state of one port in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TableState {
    /// Last PortState in the table. 0 before the first one.
    now: u8,
    /// Value of `now` that needs no PortInfo any more.
    settled: u8,
    /// Number of lost requests for PortInfo.
    lost: u8,
}

impl TableState {
    /// Stores the state of a port in the table. If it is that of the last PortInfo, nothing has to
    /// be read, and the next change counts also if it was settled before.
    fn read(&mut self, state: u8, link: Option<PortInfo>) {
        self.now = state;
        if link.is_some_and(|link| link.state == state) {
            self.settle();
        }
    }

    fn has_changed(self, link: Option<PortInfo>) -> bool {
        self.now != self.settled && link.is_none_or(|link| link.state != self.now)
    }

    /// Stores that PortInfo was read.
    pub(super) fn settle(&mut self) {
        (self.settled, self.lost) = (self.now, 0);
    }

    /// Counts a lost request for PortInfo. Returns whether the change is given up.
    pub(super) fn fail(&mut self) -> bool {
        self.lost += 1;
        let is_over = self.lost >= MAX_LOST;
        if is_over {
            self.settle();
        }
        is_over
    }
}

impl Engine {
    /// Starts the reads of a slot.
    pub(super) fn start_state_tables(&mut self, now: Instant) {
        if self.no_smp_agent {
            return;
        }
        for index in &self.order {
            let device = &mut self.devices[*index as usize];
            let ports = device.identity.info().map_or(0, |info| info.ports);
            device.state_table.start(now, ports);
            if device.has_state_requests() {
                self.ready.push_first(*index);
            }
        }
    }

    /// Returns the next request for the states of a switch's ports: for a block of the table, or
    /// for PortInfo of a port that has changed.
    pub(super) fn next_state(&mut self, index: u32) -> Option<(Query, Purpose)> {
        if !self.is_requesting() || !self.devices[index as usize].has_state_requests() {
            return None;
        }
        let device = &mut self.devices[index as usize];
        let table = &mut device.state_table;
        if table.blocks != 0 {
            let block = table.blocks.trailing_zeros() as u8;
            (table.blocks, table.sent) = (table.blocks & !(1 << block), table.sent + 1);
            let query = smp_query(smp::SWITCH_PORT_STATE_TABLE, PortNum(block));
            return Some((query, Purpose::StateTable { block }));
        }
        if !table.has_changes {
            return None;
        }
        let changed = device.ports.clone().find(|port| {
            let port = &self.ports[*port as usize];
            port.table_state.has_changed(port.link) && port.slot.link_reads < MAX_SENT
        });
        let Some(port) = changed else {
            // Changes that this slot could not confirm are found again with the next table.
            table.has_changes = false;
            return None;
        };
        Some(self.link_query(port))
    }

    pub(super) fn take_state_table(
        &mut self,
        index: u32,
        block: u8,
        answer: Result<&Data, MadStatus>,
        now: Instant,
    ) {
        let Self { devices, ports, .. } = self;
        let device = &mut devices[index as usize];
        let table = &mut device.state_table;
        table.lost = 0;
        let data = match answer {
            Ok(data) => data,
            Err(status) => {
                table.is_supported &= !status.is_unsupported();
                return;
            }
        };
        for port in &mut ports[device.ports.start as usize..device.ports.end as usize] {
            let (of_block, place) = (port.num.0 / PORT_STATES.len, port.num.0 % PORT_STATES.len);
            if of_block != block {
                continue;
            }
            let state = PORT_STATES.raw(data, place) as u8;
            port.table_state.read(state, port.link);
            table.has_changes |= port.table_state.has_changed(port.link);
            if port.link.is_some_and(|link| link.state == state) {
                port.state_read_at = Some(now);
            }
        }
    }

    /// Returns the time at which the state of a port's link was last read, from PortInfo or from
    /// the table of its switch.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn state_read_at(&self, port: usize) -> Option<Instant> {
        self.ports[port].state_read_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_change_is_read_although_the_first_one_was_not_confirmed() {
        let (down, up) = (1, 4);
        let link = Some(PortInfo {
            state: up,
            ..PortInfo::default()
        });
        let mut state = TableState::default();
        let mut asked = Vec::new();
        for table in [up, down, down, up, down] {
            state.read(table, link);
            asked.push(state.has_changed(link));
            if state.has_changed(link) {
                // PortInfo says that the link is up.
                state.settle();
            }
        }
        assert_eq!(asked, [false, true, false, false, true]);
    }
}
