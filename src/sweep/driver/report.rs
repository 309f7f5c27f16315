//! The report of a slot for observers of a driver, such as the metrics: the totals of the slot,
//! and the result of each port.
//!
//! The driver owns all values of the report, and an observer copies those that it needs. The
//! driver calls its observer on the MAD thread, after the slot.

use super::{Clock, Driver, DriverSettings};
use crate::mad::smp::PortInfo;
use crate::mad::transport::Transport;
use crate::sweep::counter::{Columns, Reading};
use crate::sweep::engine::{Engine, SubnetManager};
use crate::sweep::physical_record::Newest;
use crate::sweep::port_record::PortIdentity;
use crate::sweep::sample::Sample;
use crate::sweep::stats::SlotStats;

/// The outcome of one slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotReport<'a> {
    /// Number of the slot.
    pub slot: u64,
    /// End of the sweep in nanoseconds since 1970.
    pub ts: u64,
    /// Slots that have run so far, including this one.
    pub done: u64,
    /// Number of slots since the last report that could not start in time.
    pub missed: u64,
    /// Records that the outputs have dropped since the last slot.
    pub lines_lost: u64,
    /// Whether the transport is open. If it is not open, the driver tries to open it again.
    pub is_connected: bool,
    /// Totals of the slot.
    pub stats: &'a SlotStats,
    /// Settings of the driver.
    pub settings: &'a DriverSettings,
    /// All counters that a port can have.
    pub columns: &'a Columns,
    identities: &'a [PortIdentity],
    readings: &'a [Reading],
    newest: &'a [Newest],
    engine: &'a Engine,
}

/// The outcome of one slot for one port.
#[derive(Clone, Copy, Debug)]
pub struct PortReport<'a> {
    /// Identity of the port.
    pub identity: &'a PortIdentity,
    /// Sample of the port.
    pub sample: Sample<'a>,
    /// Counters of the port.
    pub reading: &'a Reading,
    /// Newest values of the physical layer of the port.
    pub physical: &'a Newest,
    /// Whether the link is active. `None` before the first PortInfo of the port.
    pub active: Option<bool>,
}

impl<'a> SlotReport<'a> {
    /// Iterates over the subnet managers that have answered.
    pub fn subnet_managers(self) -> impl Iterator<Item = SubnetManager> {
        self.engine.subnet_managers()
    }

    /// Returns how often the master subnet manager changed since the start.
    pub fn master_changes(self) -> u64 {
        self.engine.master_changes()
    }

    /// Returns all ports, always in the same order.
    pub fn ports(self) -> impl ExactSizeIterator<Item = PortReport<'a>> {
        let Self {
            identities,
            readings,
            newest,
            engine,
            ..
        } = self;
        identities
            .iter()
            .zip(readings)
            .enumerate()
            .map(|(port, (identity, reading))| PortReport {
                identity,
                sample: engine.sample(port),
                reading,
                physical: &newest[port],
                active: engine
                    .link(port)
                    .map(|(info, _)| info.state == PortInfo::ACTIVE),
            })
    }
}

impl<T: Transport, C: Clock> Driver<T, C> {
    pub(super) fn report(
        &self,
        slot: u64,
        done: u64,
        missed: u64,
        lines_lost: u64,
    ) -> SlotReport<'_> {
        SlotReport {
            slot,
            ts: self.unix_now(),
            done,
            missed,
            lines_lost,
            is_connected: !self.transport.is_lost(),
            stats: self.engine.stats(),
            settings: &self.settings,
            columns: &self.columns,
            identities: &self.ports,
            readings: &self.readings,
            newest: &self.newest,
            engine: &self.engine,
        }
    }
}
