//! One end of a simulated link without its fabric, for studies of many links over many hours.

use ibnet_record::registers::Page;
use ibnet_record::types::{LinkRate, PortNum};

pub use super::physical::Change;
use super::physical::{Cable, Receiver};
use super::registers;
use crate::mad::vendor::register::Image;
use crate::time::Instant;

/// One end of a simulated link.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    cable: Cable,
    receiver: Receiver,
    downs: u64,
}

impl LinkEnd {
    /// Creates the end of a link, given the GUID and the number of this port and of the other one.
    /// Equal arguments give equal errors.
    pub fn new(
        seed: u64,
        here: (u64, PortNum),
        there: (u64, PortNum),
        rate: &LinkRate,
        change: Change,
    ) -> Self {
        let mut cable = Cable::new(seed, here, there, rate);
        cable.change = change;
        Self {
            receiver: Receiver::new(&cable),
            cable,
            downs: 0,
        }
    }

    /// Counts a link down, and returns the number of its reason.
    pub fn go_down(&mut self) -> u8 {
        self.downs += 1;
        self.cable.down_reason(self.downs).0
    }

    /// Returns whether one lane of the cable gets worse.
    pub fn is_ageing(&self) -> bool {
        self.cable.is_ageing()
    }

    /// Returns whether this end has a bad contact.
    pub fn has_bad_contact(&self) -> bool {
        self.cable.has_bad_contact()
    }

    /// Returns the error ratio of each lane before error correction, in the minute that contains a
    /// time.
    pub fn error_ratios(&self, at: Instant) -> Vec<f64> {
        let lanes = 0..self.cable.lanes;
        lanes.map(|lane| self.cable.error_ratio(lane, at)).collect()
    }

    /// Returns the number of blocks that the FEC could not correct.
    pub const fn lost_blocks(&self) -> u64 {
        self.receiver.blocks[2]
    }

    /// Counts up to a time, and returns the octets of a page about this port. Returns `None` if
    /// the device does not have the page.
    pub fn page(&mut self, page: Page, at: Instant) -> Option<Image> {
        self.receiver.advance(&self.cable, at);
        registers::of_port(page, &self.cable, &self.receiver, self.downs, at).ok()
    }
}
