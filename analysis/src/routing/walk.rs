//! The paths of all hosts to one destination. They form a tree, because a switch has one port for
//! each destination.

use super::net::{ChannelIndex, DeviceIndex};
use super::paths::{Paths, Stop, Stopped};

/// The paths to one destination. It can be used for one destination after another.
pub(super) struct Walk<'a> {
    paths: &'a Paths<'a>,
    leaves: &'a [DeviceIndex],
    /// What is known of each device.
    places: Vec<Place>,
    /// Number of the destination, from 1.
    turn: u32,
    /// The switches on paths, by the number of links to the destination.
    pub(super) by_depth: Vec<Vec<(DeviceIndex, ChannelIndex)>>,
    /// Leaf switches whose packets do not come to the destination, and where they stop.
    pub(super) lost: Vec<(DeviceIndex, Stopped)>,
    chain: Vec<(DeviceIndex, ChannelIndex)>,
}

#[derive(Clone, Copy)]
struct Place {
    turn: u32,
    end: End,
}

/// Where the path from a switch ends.
#[derive(Clone, Copy)]
enum End {
    /// Not known yet: the switch is on the path that is being followed.
    Open,
    /// At the destination, after this number of links.
    There(usize),
    Lost(Stopped),
}

impl<'a> Walk<'a> {
    /// Prepares to follow the paths of hosts on these switches.
    pub(super) fn new(paths: &'a Paths<'a>, leaves: &'a [DeviceIndex]) -> Self {
        let unknown = Place {
            turn: 0,
            end: End::Open,
        };
        Self {
            paths,
            leaves,
            places: vec![unknown; paths.net.devices().len()],
            turn: 0,
            by_depth: Vec::new(),
            lost: Vec::new(),
            chain: Vec::new(),
        }
    }

    /// Follows the paths to a destination.
    pub(super) fn to(&mut self, to: DeviceIndex) {
        self.turn += 1;
        self.by_depth.iter_mut().for_each(Vec::clear);
        self.lost.clear();
        for leaf in self.leaves {
            if let End::Lost(stopped) = self.follow(*leaf, to) {
                self.lost.push((*leaf, stopped));
            }
        }
    }

    /// Returns the switches on paths with the channels by which they forward, in an order in which
    /// each switch comes before the one to which it forwards.
    pub(super) fn far_first(&self) -> impl Iterator<Item = (DeviceIndex, ChannelIndex)> {
        self.by_depth.iter().rev().flatten().copied()
    }

    fn follow(&mut self, from: DeviceIndex, to: DeviceIndex) -> End {
        self.chain.clear();
        let mut at = from;
        let end = loop {
            if at == to {
                break End::There(0);
            }
            let place = &mut self.places[at as usize];
            if place.turn == self.turn {
                match place.end {
                    End::Open => break End::Lost(self.loop_at(at)),
                    known => break known,
                }
            }
            *place = Place {
                turn: self.turn,
                end: End::Open,
            };
            match self.paths.next(at, to) {
                Ok(channel) => {
                    self.chain.push((at, channel));
                    (at, _) = self.paths.net.channel(channel).to;
                }
                Err(why) => {
                    let end = End::Lost(Stopped { at, why });
                    self.places[at as usize].end = end;
                    break end;
                }
            }
        };
        let mut end_of_chain = end;
        while let Some((device, channel)) = self.chain.pop() {
            if let End::There(links) = end_of_chain {
                end_of_chain = End::There(links + 1);
                if self.by_depth.len() <= links {
                    self.by_depth.resize_with(links + 1, Vec::new);
                }
                self.by_depth[links].push((device, channel));
            }
            self.places[device as usize].end = end_of_chain;
        }
        end_of_chain
    }

    /// Returns a loop that contains a switch, at that of its switches with the lowest GUID, so that
    /// the loop has one name.
    fn loop_at(&self, at: DeviceIndex) -> Stopped {
        let start = self.chain.iter().position(|(device, _)| *device == at);
        let in_loop = &self.chain[start.unwrap_or(0)..];
        let lowest = in_loop.iter().min();
        let port = |channel: ChannelIndex| self.paths.net.channel(channel).from.1;
        lowest.map_or(
            Stopped {
                at,
                why: Stop::NoRoute,
            },
            |(device, channel)| Stopped {
                at: *device,
                why: Stop::Loop(port(*channel)),
            },
        )
    }
}
