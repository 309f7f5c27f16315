//! What whoever watches is told of a slot: its sum, and how each of its ports fared.
//!
//! The driver's own values are lent, and nothing is copied: who watches copies what it wants, after the slot and on the driver's time.

use super::{Driver, Settings};
use crate::mad::smp::PortInfo;
use crate::mad::transport::Transport;
use crate::record::PortIdentity;
use crate::sweep::counter::{Columns, Reading};
use crate::sweep::engine::Engine;
use crate::sweep::sample::Sample;
use crate::sweep::stats::SlotStats;

/// What is told of each slot to whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct SlotReport<'a> {
    /// Which slot.
    pub slot: u64,
    /// When it was settled, in nanoseconds since 1970.
    pub ts: u64,
    /// Slots that ran so far, this one included.
    pub done: u64,
    /// Slots that could not start since the one before.
    pub missed: u64,
    /// Lines for which outputs had no room since the one before.
    pub lines_lost: u64,
    /// Whether there is a way to the fabric.
    pub way: bool,
    /// Its sum.
    pub stats: &'a SlotStats,
    /// Who swept, and how.
    pub settings: &'a Settings,
    /// The counters that a port can have.
    pub columns: &'a Columns,
    identities: &'a [PortIdentity],
    readings: &'a [Reading],
    engine: &'a Engine,
}

/// What a slot brought of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortReport<'a> {
    /// Which port.
    pub identity: &'a PortIdentity,
    /// How it fared.
    pub sample: Sample<'a>,
    /// Its counters.
    pub reading: &'a Reading,
    /// Whether its link is active; `None` until PortInfo told.
    pub active: Option<bool>,
}

impl<'a> SlotReport<'a> {
    /// All ports, always in the same order.
    pub fn ports(self) -> impl ExactSizeIterator<Item = PortReport<'a>> {
        let Self { identities, readings, engine, .. } = self;
        identities.iter().zip(readings).enumerate().map(|(port, (identity, reading))| PortReport {
            identity,
            sample: engine.sample(port),
            reading,
            active: engine.link(port).map(|(info, _)| info.state == PortInfo::ACTIVE),
        })
    }
}

impl<T: Transport> Driver<T> {
    pub(super) fn report(&self, slot: u64, done: u64, missed: u64, lines_lost: u64) -> SlotReport<'_> {
        SlotReport {
            slot,
            ts: self.clock.wall(self.clock.now()),
            done,
            missed,
            lines_lost,
            way: self.lifeline.lost().is_none(),
            stats: self.engine.stats(),
            settings: &self.settings,
            columns: &self.columns,
            identities: &self.ports,
            readings: &self.readings,
            engine: &self.engine,
        }
    }
}
