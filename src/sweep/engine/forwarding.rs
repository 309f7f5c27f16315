//! Reads the tables by which switches forward packets: SwitchInfo, linear forwarding tables, the
//! mapping of SLs to VLs and, of NVIDIA switches, AdaptiveRoutingInfo.
//!
//! These are other routes than the directed routes of SMPs ([`routes`](crate::sweep::routes)).
//!
//! - The counters come first. A request is sent only after all ports of the slot are settled. A
//!   switch has at most one in flight, and gets at most [`ROUTES_RATE`] a second, averaged over a
//!   slot. The requests have the longer timeout of the physical layer and may outlive the slot.
//! - A *round* reads SwitchInfo, all blocks of the linear table, and AdaptiveRoutingInfo. After
//!   the first round of a switch, two of three requests read the mapping of SLs to VLs, once an
//!   hour, until it is complete.
//! - After a change of a link between this sampler's switches and others, of a LID or of a subnet
//!   manager, and after a changed block, the rounds of all switches start again, and are
//!   [`ROUTES_EARLY`] times as fast for a minute.
//! - The subnet manager writes a table block by block, so a round can read a *mixed* table, of
//!   which a part is old. A table is known to be whole after a round without a changed block.
//! - A block that has changed can be that of another switch at the same LID. The switch is verified
//!   before the block is used.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::{PortNum, Tid};

use super::{Engine, Event};
use crate::mad::Mad;
use crate::mad::exchange::Target;
use crate::mad::forwarding::{
    Block, LINEAR_FORWARDING_TABLE, NO_ROUTE, SL_TO_VL, SWITCH_INFO, SwitchInfo, block_of,
    sl_to_vl, sl_to_vl_modifier,
};
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::smp;
use crate::mad::vendor::NVIDIA;
use crate::mad::vendor::subnet::{ADAPTIVE_ROUTING_INFO, AdaptiveRouting};
use crate::sweep::inflight::{Purpose, Transaction};
use crate::time::Instant;

/// Max number of requests to a switch a second.
pub const ROUTES_RATE: f64 = 2.0;

/// Factor of the rate after an event.
pub const ROUTES_EARLY: f64 = 5.0;

/// Time for which the rate is higher after an event.
const EARLY_FOR: Duration = Duration::from_secs(60);

/// Min time between the starts of two rounds of a switch, and the same after an event.
const ROUND_EVERY: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];

/// Time after which a round reports all blocks again, and after which the mapping of SLs to VLs is
/// read again.
const AGAIN: [Duration; 2] = [Duration::from_secs(1800), Duration::from_secs(3600)];

/// Max number of requests to a switch in a slot.
const PER_SLOT: f64 = 16.0;

/// Max number of requests in flight.
const WINDOW: usize = 16;

/// Time within which a switch usually answers. A slot waits for so long to send the next request.
const USUAL: Duration = Duration::from_millis(25);

/// Number of consecutive requests without an answer after which a switch gets none for some time.
const MAX_LOST: u8 = 3;

/// Time for which a silent switch gets no requests, and one that refuses them.
const REST: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3600)];

/// Max number of readings that the caller has not taken, beyond those that a slot can complete. The
/// oldest are dropped.
const FINISHED: usize = 64;

/// What was read of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardingReading {
    /// The switch.
    pub device: usize,
    /// Time of the reply.
    pub at: Instant,
    /// The table, or a part of it.
    pub table: Table,
}

/// A table of a switch, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// A block of the linear forwarding table that is new, has changed or is reported again.
    Linear {
        /// Number of the block.
        block: u16,
        /// LinearFDBTop.
        top: u16,
        /// Port of each LID. Only LIDs up to `top` have one.
        ports: Block,
    },
    /// How the SLs of packets that leave by a port are mapped to VLs.
    SlToVl {
        /// The port.
        to: PortNum,
        /// The ports that receive the packets, one bit each.
        from: [u64; 4],
        /// The mapping, as [`sl_to_vl`] returns it.
        mapping: u64,
    },
    /// The end of a round.
    Round {
        /// SwitchInfo.
        info: SwitchInfo,
        /// AdaptiveRoutingInfo, if the switch gives it.
        adaptive: Option<AdaptiveRouting>,
        /// Start of the round.
        since: Instant,
        /// Number of entries that have changed. `None` in the first round.
        changed: Option<u32>,
    },
}

/// A request to a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Item {
    /// SwitchInfo.
    Info,
    /// A block of the linear table.
    Block(u16),
    /// AdaptiveRoutingInfo.
    Adaptive,
    /// A pair of ports of the mapping of SLs to VLs: places in the list of ports.
    SlToVl(u16, u16),
}

/// Whether a changed block is that of this switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Verified {
    /// The switch was not verified in this round.
    #[default]
    No,
    /// The switch is verified in the next slot. It gets no requests until then.
    Asked,
    Yes,
}

/// The tables of one switch.
#[derive(Clone, Debug)]
struct Switch {
    device: u32,
    /// Generation of the device at the start of the round.
    generation: u32,
    /// Requests that may be sent in this slot.
    tokens: f64,
    /// The request in flight.
    sent: Option<Item>,
    lost: u8,
    /// Time before which no request is sent.
    rest: Instant,
    /// Next request of the round.
    next: Item,
    info: SwitchInfo,
    adaptive: Option<AdaptiveRouting>,
    /// The blocks of the linear table.
    blocks: Vec<Block>,
    /// Start of the round.
    since: Instant,
    /// Whether the round reports all blocks, and the start of the last one that did.
    reports_all: bool,
    reported: Option<Instant>,
    is_verified: Verified,
    /// Number of entries that have changed in this round, unless it is the first one.
    changed: u32,
    is_first: bool,
    /// Number of requests since the last one of the round.
    others: u8,
    /// Next pair of the mapping, and the mappings of the pairs before it with the same second port.
    pair: (u16, u16),
    row: Vec<u64>,
    mapping_due: Instant,
}

/// The forwarding tables of all switches.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    /// Empty if the tables are not read.
    switches: Vec<Switch>,
    /// Switches that may get a request in this slot.
    queue: VecDeque<u32>,
    finished: VecDeque<ForwardingReading>,
    in_flight: usize,
    /// Start of the slot.
    slot: Option<Instant>,
    /// Whether something has happened after which routes can change.
    has_news: bool,
    early_until: Instant,
    /// Time until which the last request is usually answered.
    usual: Instant,
    /// Time until which the slot waits for replies, to send the next requests.
    wait: Option<Instant>,
}

impl Switch {
    fn new((device, ports): (u32, usize)) -> Self {
        Self {
            device,
            generation: 0,
            tokens: 0.0,
            sent: None,
            lost: 0,
            rest: Instant::ZERO,
            next: Item::Info,
            info: SwitchInfo::default(),
            adaptive: None,
            blocks: Vec::new(),
            since: Instant::ZERO,
            reports_all: false,
            reported: None,
            is_verified: Verified::No,
            changed: 0,
            is_first: true,
            others: 0,
            pair: (0, 0),
            row: Vec::with_capacity(ports + 1),
            mapping_due: Instant::ZERO,
        }
    }

    /// Starts the round again, because the table may have changed or be that of another switch.
    fn restart(&mut self, now: Instant) {
        (self.next, self.is_verified) = (Item::Info, Verified::No);
        self.rest = self.rest.min(now);
    }

    /// Returns the next request. `ports` is the number of ports, including port 0.
    fn item(&self, ports: u16, now: Instant, is_early: bool) -> Option<Item> {
        let has_mapping = !self.is_first && !is_early && self.mapping_due <= now;
        let is_over = self.next == Item::Info && now < self.rest;
        if has_mapping && ports > 1 && (is_over || self.others < 2) {
            return Some(Item::SlToVl(self.pair.0, self.pair.1));
        }
        (!is_over).then_some(self.next)
    }

    /// Stores a block and returns whether it is reported.
    fn store(&mut self, block: u16, ports: Block) -> bool {
        let Some(known) = self.blocks.get_mut(usize::from(block)) else {
            let new = ports.iter().filter(|port| **port != NO_ROUTE).count();
            self.changed += new as u32;
            self.blocks.push(ports);
            return true;
        };
        let differs = known.iter().zip(&ports).filter(|(a, b)| a != b).count();
        self.changed += differs as u32;
        *known = ports;
        differs > 0 || self.reports_all
    }
}

impl Forwarding {
    /// Prepares the reads of these devices, which are switches. Each has a number of ports.
    pub(super) fn new(switches: impl Iterator<Item = (u32, usize)>) -> Self {
        let switches: Vec<_> = switches.map(Switch::new).collect();
        Self {
            queue: VecDeque::with_capacity(switches.len()),
            finished: VecDeque::with_capacity(match switches.len() {
                0 => 0,
                some => FINISHED + PER_SLOT as usize * some,
            }),
            switches,
            ..Self::default()
        }
    }

    /// Returns the max number of requests that are usually sent while one waits for its timeout.
    pub(super) fn queued(&self) -> usize {
        (ROUTES_RATE * ROUTES_EARLY) as usize * self.switches.len()
    }

    /// Notes that routes may change soon.
    pub(super) fn expect_change(&mut self) {
        self.has_news = true;
    }

    /// Notes that a device was verified.
    pub(super) fn verified(&mut self, device: u32) {
        let asked = self
            .switches
            .iter_mut()
            .find(|switch| switch.device == device && switch.is_verified == Verified::Asked);
        if let Some(switch) = asked {
            switch.is_verified = Verified::Yes;
        }
    }

    pub(super) fn is_early(&self, now: Instant) -> bool {
        now < self.early_until
    }

    /// Makes the next rounds early if something has happened.
    fn take_news(&mut self, now: Instant) {
        if !std::mem::take(&mut self.has_news) {
            return;
        }
        if !self.is_early(now) {
            self.switches
                .iter_mut()
                .for_each(|switch| switch.restart(now));
        }
        self.early_until = now + EARLY_FOR;
    }

    fn finish(&mut self, device: u32, at: Instant, table: Table) {
        if self.finished.len() == self.finished.capacity() {
            self.finished.pop_front();
        }
        self.finished.push_back(ForwardingReading {
            device: device as usize,
            at,
            table,
        });
    }

    /// Ends the request in flight to a switch, which may get the next one.
    fn end(&mut self, place: u32) -> Option<(&mut Switch, Item)> {
        let switch = self.switches.get_mut(place as usize)?;
        let item = switch.sent.take()?;
        self.in_flight -= 1;
        if switch.tokens >= 1.0 {
            self.queue.push_back(place);
        }
        Some((switch, item))
    }
}

impl Engine {
    /// Returns the readings of forwarding tables, the oldest first.
    pub fn take_forwarding(&mut self) -> Option<ForwardingReading> {
        self.forwarding.finished.pop_front()
    }

    /// Starts a slot.
    pub(super) fn start_forwarding(&mut self, now: Instant) {
        let forwarding = &mut self.forwarding;
        forwarding.take_news(now);
        let before = forwarding.slot.replace(now);
        let time = before.map_or(0.0, |before| now.saturating_since(before).as_secs_f64());
        let rate = if forwarding.is_early(now) {
            ROUTES_RATE * ROUTES_EARLY
        } else {
            ROUTES_RATE
        };
        forwarding.wait = None;
        forwarding.queue.clear();
        for (place, switch) in (0..).zip(&mut forwarding.switches) {
            // What a slot could not send is not sent later, but short slots collect one request.
            switch.tokens = (switch.tokens.min(1.0) + time * rate).min(PER_SLOT);
            if switch.tokens >= 1.0 && switch.sent.is_none() {
                forwarding.queue.push_back(place);
            }
        }
    }

    /// Writes the next request for a forwarding table into `mad` and returns its target and TID.
    /// Returns `None` if no request may be sent now.
    pub(super) fn next_forwarding_query(
        &mut self,
        now: Instant,
        mad: &mut Mad,
    ) -> Option<(Target, Tid)> {
        let (place, item) = self.ready_switch(now)?;
        self.forwarding.queue.pop_front();
        self.forwarding.in_flight += 1;
        let switch = &mut self.forwarding.switches[place as usize];
        switch.tokens -= 1.0;
        switch.sent = Some(item);
        self.forwarding.usual = now + USUAL;
        switch.others = match item {
            Item::SlToVl(..) => switch.others + 1,
            _ => 0,
        };
        let index = switch.device;
        let (attribute, modifier) = match item {
            Item::Info => (SWITCH_INFO, 0),
            Item::Adaptive => (ADAPTIVE_ROUTING_INFO, 0),
            Item::Block(block) => (LINEAR_FORWARDING_TABLE, block.into()),
            Item::SlToVl(to, from) => {
                let [to, from] = [to, from].map(|place| self.port_at(index, place));
                (SL_TO_VL, sl_to_vl_modifier(from, to))
            }
        };
        let query = Query::Smp(smp::Query {
            attribute,
            modifier,
        });
        let purpose = Purpose::Forwarding { switch: place };
        Some(self.send(index, query, purpose, now, mad))
    }

    /// Returns a port of a switch: port 0, and then those of the plan.
    fn port_at(&self, index: u32, place: u16) -> PortNum {
        let first = self.devices[index as usize].ports.start;
        let port = u32::from(place).checked_sub(1);
        port.map_or(PortNum(0), |port| self.ports[(first + port) as usize].num)
    }

    /// Returns the switch at the front of the queue, and its next request, if it may be sent now.
    /// Switches that get no request in this slot leave the queue, and busy ones go to its end.
    fn ready_switch(&mut self, now: Instant) -> Option<(u32, Item)> {
        let is_time = self.unsettled == 0
            && self.is_requesting()
            && self.forwarding.in_flight < WINDOW
            && !self.no_smp_agent
            && self.pace.next() <= now;
        if !is_time || self.forwarding.queue.is_empty() || self.smp_limit.free_at(now).is_some() {
            return None;
        }
        for _ in 0..self.forwarding.queue.len() {
            let place = self.forwarding.queue.front().copied()?;
            let is_early = self.forwarding.is_early(now);
            let switch = &mut self.forwarding.switches[place as usize];
            let device = &self.devices[switch.device as usize];
            if switch.generation != device.generation {
                switch.generation = device.generation;
                switch.restart(now);
            }
            let may_read = device.identity.is_verified()
                && !device.reachability.was_silent()
                && device.way.is_known()
                && switch.is_verified != Verified::Asked
                && !(switch.lost >= MAX_LOST && now < switch.rest);
            let item = switch.item(device.ports.len() as u16 + 1, now, is_early);
            match item.filter(|_| may_read) {
                Some(item) if device.flight.is_free() => return Some((place, item)),
                Some(_) => self.forwarding.queue.rotate_left(1),
                None => drop(self.forwarding.queue.pop_front()),
            }
        }
        None
    }

    /// Returns whether the slot waits to send more requests for forwarding tables, and stores until
    /// when it waits for replies.
    pub(super) fn waits_for_forwarding(&mut self, now: Instant) -> bool {
        let is_waiting = self.is_requesting() && self.forwarding.in_flight > 0;
        let until = Some(self.forwarding.usual).filter(|until| is_waiting && *until > now);
        self.forwarding.wait = until;
        until.is_some() || self.ready_switch(now).is_some()
    }

    /// Returns when the slot stops waiting for replies with forwarding tables.
    pub(super) fn forwarding_wait(&self) -> Option<Instant> {
        self.forwarding.wait
    }

    pub(super) fn take_forwarding_reply(
        &mut self,
        transaction: &Transaction,
        place: u32,
        answer: Result<&Data, MadStatus>,
        now: Instant,
    ) {
        let Some((switch, item)) = self.forwarding.end(place) else {
            return;
        };
        let device = &mut self.devices[transaction.device as usize];
        let (is_nvidia, ports) = (
            device
                .identity
                .info()
                .is_some_and(|info| info.vendor_id == NVIDIA),
            device.ports.len() as u16 + 1,
        );
        switch.lost = 0;
        let is_expected = match item {
            Item::SlToVl(to, from) => switch.pair == (to, from),
            _ => switch.next == item,
        };
        if transaction.generation != device.generation || !is_expected {
            return;
        }
        match (item, answer) {
            (Item::Info, Ok(data)) => {
                let info = SwitchInfo::parse(data);
                let is_other = info != std::mem::replace(&mut switch.info, info);
                let blocks = usize::from(info.blocks());
                switch.blocks.truncate(blocks);
                switch
                    .blocks
                    .reserve_exact(blocks.saturating_sub(switch.blocks.len()));
                let is_due = |last: Instant| now >= last + AGAIN[0];
                switch.since = now;
                switch.reports_all |= is_other || switch.reported.is_none_or(is_due);
                switch.next = Item::Block(0);
            }
            (Item::Info, Err(_)) => (switch.lost, switch.rest) = (MAX_LOST, now + REST[1]),
            (Item::Block(block), Ok(data)) => {
                let ports = block_of(data);
                let known = switch.blocks.get(usize::from(block));
                let differs = known.is_some_and(|known| *known != ports);
                if differs && switch.is_verified == Verified::No {
                    // The block is read again when the switch is verified.
                    switch.is_verified = Verified::Asked;
                    device.identity.verify();
                    return;
                }
                let top = switch.info.linear_top;
                switch.next = match block + 1 {
                    next if next < switch.info.blocks() => Item::Block(next),
                    _ if is_nvidia => Item::Adaptive,
                    _ => Item::Info,
                };
                let is_over = switch.next == Item::Info;
                if switch.store(block, ports) {
                    let table = Table::Linear { block, top, ports };
                    self.forwarding.finish(transaction.device, now, table);
                    self.events.push_back(Event::Forwarding);
                }
                if differs {
                    self.forwarding.expect_change();
                    self.forwarding.take_news(now);
                }
                if is_over {
                    self.end_round(place, now);
                }
            }
            (Item::Block(_), Err(_)) => {
                switch.restart(now);
                (switch.lost, switch.rest) = (MAX_LOST, now + REST[0]);
            }
            (Item::Adaptive, answer) => {
                switch.adaptive = answer.ok().map(AdaptiveRouting::parse);
                switch.next = Item::Info;
                self.end_round(place, now);
            }
            (Item::SlToVl(to, from), Ok(data)) => {
                switch.row.push(sl_to_vl(data));
                switch.pair = (to, from + 1);
                if from + 1 == ports {
                    switch.pair = (to + 1, 0);
                    self.end_row(place, to, now);
                }
            }
            (Item::SlToVl(..), Err(_)) => self.end_mapping(place, now),
        }
    }

    /// Ends a round of a switch.
    fn end_round(&mut self, place: u32, now: Instant) {
        let is_early = self.forwarding.is_early(now);
        let switch = &mut self.forwarding.switches[place as usize];
        let changed = std::mem::take(&mut switch.changed);
        let is_first = std::mem::take(&mut switch.is_first);
        switch.is_verified = Verified::No;
        if std::mem::take(&mut switch.reports_all) {
            switch.reported = Some(switch.since);
        }
        switch.rest = switch.since + ROUND_EVERY[usize::from(is_early)];
        let device = switch.device;
        let round = Table::Round {
            info: switch.info,
            adaptive: switch.adaptive,
            since: switch.since,
            changed: (!is_first).then_some(changed),
        };
        self.forwarding.finish(device, now, round);
        self.events.push_back(Event::Forwarding);
        if changed > 0 && !is_first {
            self.events.push_back(Event::RoutesChanged {
                device: device as usize,
                entries: changed,
            });
        }
    }

    /// Reports the mappings of a port, and goes on with the next one.
    fn end_row(&mut self, place: u32, to: u16, now: Instant) {
        let device = self.forwarding.switches[place as usize].device;
        let mut row = std::mem::take(&mut self.forwarding.switches[place as usize].row);
        for (first, mapping) in row.iter().enumerate() {
            if row[..first].contains(mapping) {
                continue;
            }
            let mut from = [0_u64; 4];
            for (same, _) in (0..).zip(&row).filter(|(_, other)| *other == mapping) {
                let port = usize::from(self.port_at(device, same).0);
                from[port / 64] |= 1 << (port % 64);
            }
            let table = Table::SlToVl {
                to: self.port_at(device, to),
                from,
                mapping: *mapping,
            };
            self.forwarding.finish(device, now, table);
            self.events.push_back(Event::Forwarding);
        }
        let is_last = to as usize + 1 == row.len();
        row.clear();
        self.forwarding.switches[place as usize].row = row;
        if is_last {
            self.end_mapping(place, now);
        }
    }

    fn end_mapping(&mut self, place: u32, now: Instant) {
        let switch = &mut self.forwarding.switches[place as usize];
        switch.row.clear();
        (switch.pair, switch.mapping_due) = ((0, 0), now + AGAIN[1]);
    }

    /// Handles a request without a reply.
    pub(super) fn forwarding_failed(&mut self, place: u32, now: Instant) {
        if let Some((switch, _)) = self.forwarding.end(place) {
            switch.lost = switch.lost.saturating_add(1);
            if switch.lost >= MAX_LOST {
                switch.restart(now);
                switch.rest = now + REST[0];
            }
        }
    }

    /// Handles a request that was not sent, or was in flight when the transport was lost.
    pub(super) fn forwarding_not_sent(&mut self, place: u32) {
        self.forwarding.end(place);
    }
}
