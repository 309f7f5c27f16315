//! A simulated fabric, built from a net file.
//!
//! The simulator answers whole MADs, so a sweep encodes requests and decodes replies as on a real
//! fabric. It simulates the following:
//!
//! - A device answers its requests one after another. One request takes about 50 us on a switch
//!   and about 25 us on an HCA, with a random variation.
//! - Simulated [`traffic`] uses the links. One end of a link receives the data that the other end
//!   transmits.
//! - Devices answer NodeInfo, NodeDescription and PortInfo, also by directed routes, and a subnet
//!   manager answers path queries. Switches answer SwitchInfo, their linear forwarding tables, which
//!   lead along the paths of the traffic, and the mapping of SLs to VLs.
//! - Firmware answers requests for registers of the physical layer after 2 to 20 ms, and one in a
//!   hundred never.
//! - Requests and devices can have faults: MADs are lost at random; devices are dead or slow, do
//!   not answer some attributes, or require keys; LIDs are exchanged, and links change.
//! - Ports can have planes, which share the traffic.
//! - Replies can have [`faults`].
//!
//! The result depends only on the net file, the options and the times of the calls. The simulator
//! reads no clock, so it runs both in real time ([`SimTransport`]) and in simulated time
//! ([`Client`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ibnet_record::types::{Lid, NodeKind, PortNum};

use self::agent::{Counters, Encoder};
pub use self::client::{Client, SimTransport};
use self::forwarding::Tables;
use self::physical::{Cable, Physical};
use self::planes::Planes;
use self::traffic::{LEVELS, Sent, Traffic};
use crate::mad::Mad;
use crate::mad::directed::{CLASS_SUBN_DIRECTED_ROUTE, PERMISSIVE_LID, Route};
use crate::mad::exchange::Target;
use crate::mad::header::Header;
use crate::mad::inform::{self, Trap};
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::pma::{CLASS_PERF_MGT, Capabilities, Clearable};
use crate::mad::sa::CLASS_SUBN_ADM;
use crate::mad::sm_info::{SmInfo, SmState};
use crate::mad::smp::{CLASS_SUBN_LID_ROUTED, PortInfo};
use crate::mad::vendor::CLASS_VENDOR;
use crate::time::Instant;
use crate::topology::{DeviceId, Fabric, Port};

pub mod agent;
mod client;
pub mod faults;
mod forwarding;
pub mod link_end;
mod management;
mod page_image;
mod physical;
mod planes;
mod registers;
pub mod storms;
pub mod traffic;

pub use registers::Firmware;

/// Behaviour of a simulated fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Service time of a switch for one MAD.
    pub switch_service: Duration,
    /// Service time of an HCA for one MAD.
    pub adapter_service: Duration,
    /// Max deviation of a service time, as a share of it from 0 to 1.
    pub jitter: f64,
    /// Time that a request and its reply together spend on the links.
    pub flight: Duration,
    /// Share of requests that get lost, from 0 to 1.
    pub loss: f64,
    /// Service level that the subnet manager returns for every path.
    pub path_sl: u8,
    /// Whether switches have all counters in PortCountersExtended: CapabilityMask2 bit 1.
    pub wide_switches: bool,
    /// Whether HCAs have all counters in PortCountersExtended.
    pub wide_adapters: bool,
    /// Whether path queries are exempt from [`loss`](Self::loss) and from [`faults`], which helps
    /// to compare engines that handle lost path queries differently.
    pub spare_sa: bool,
    /// Whether devices answer SMPs by LID. In a planarized fabric (XDR), these are not valid.
    pub smps_by_lid: bool,
    /// Number of planes of each port (XDR). 1 means that ports have no planes, and 0 that devices
    /// have the register PPCR in spite of that.
    pub planes: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            switch_service: Duration::from_micros(50),
            adapter_service: Duration::from_micros(25),
            jitter: 0.2,
            flight: Duration::from_micros(4),
            loss: 0.0,
            path_sl: 0,
            wide_switches: true,
            wide_adapters: false,
            spare_sa: false,
            smps_by_lid: true,
            planes: 1,
        }
    }
}

/// A simulated fabric: its agents and its traffic.
#[derive(Debug)]
pub struct SimFabric {
    fabric: Fabric,
    options: Options,
    traffic: Traffic,
    encoder: Encoder,
    rng: fastrand::Rng,
    by_lid: BTreeMap<Lid, DeviceId>,
    agents: Vec<Agent>,
    /// Links that differ from the net file.
    links: BTreeMap<(DeviceId, PortNum), PortInfo>,
    /// How often the link of a port went down.
    downed: BTreeMap<(DeviceId, PortNum), u64>,
    /// Times at which the links of `cut_ends` change, and their new states.
    cuts: VecDeque<(Instant, u8)>,
    cut_ends: Vec<(DeviceId, PortNum)>,
    /// Cables that differ from the net file: the other end of a port, if it has one.
    cables: BTreeMap<(DeviceId, PortNum), Option<(DeviceId, PortNum)>>,
    /// Words that a port had counted when its counters were cleared, by service level.
    cleared: BTreeMap<(DeviceId, PortNum, Clearable), [u64; LEVELS]>,
    /// The device on which the master subnet manager runs.
    manager: Option<DeviceId>,
    /// Traps to which the subnet manager has a subscriber.
    subscribed: BTreeSet<u16>,
    refuses_subscriptions: bool,
    /// Reports that no subscriber has received yet.
    reports: VecDeque<Trap>,
    /// SMInfo of all subnet managers.
    managers: BTreeMap<DeviceId, SmInfo>,
    /// Whether the port of the senders is down.
    sender_down: bool,
    mads: u64,
    physical: Physical,
    tables: Tables,
    planes: Planes,
}

/// The agents of one device.
#[derive(Clone, Debug)]
struct Agent {
    lid: Lid,
    capabilities: Capabilities,
    tick: u8,
    service: Duration,
    /// Service time for SMPs, if they do not wait for the other requests.
    smp_service: Option<Duration>,
    busy_until: Instant,
    /// Number of requests that arrived.
    mads: u64,
    dead: bool,
    /// Attributes of performance management whose requests the device drops.
    drops: Vec<u16>,
    /// Whether subnet management requires an M_Key.
    m_key: bool,
    /// Whether the device drops requests for PortInfo.
    drops_port_info: bool,
    /// The agent to which the device redirects queries for counters.
    redirect: Option<Redirect>,
    firmware: Firmware,
}

impl SimFabric {
    /// Creates a fabric with the traffic of [`Traffic::jobs`].
    pub fn new(fabric: Fabric, options: Options) -> Self {
        let traffic = Traffic::jobs(&fabric, options.seed);
        Self::with_traffic(fabric, options, traffic)
    }

    /// Creates a fabric with the given traffic.
    pub fn with_traffic(fabric: Fabric, options: Options, traffic: Traffic) -> Self {
        let by_lid = fabric
            .iter()
            .filter(|(_, device)| device.lid.is_unicast())
            .map(|(id, device)| (device.lid, id))
            .collect();
        let agents = fabric
            .devices()
            .iter()
            .map(|device| Agent::new(device.lid, device.kind, &options))
            .collect();
        let rng = fastrand::Rng::with_seed(options.seed);
        let manager = fabric
            .iter()
            .find(|(_, device)| device.kind == NodeKind::Hca && device.lid.is_unicast())
            .map(|(id, _)| id);
        let info = |id| SmInfo {
            guid: fabric.device(id).guid,
            act_count: 1,
            priority: 14,
            state: SmState::Master,
        };
        let managers = manager.map(|id| (id, info(id))).into_iter().collect();
        Self {
            tables: Tables::new(&fabric),
            fabric,
            options,
            traffic,
            encoder: Encoder::default(),
            rng,
            by_lid,
            agents,
            links: BTreeMap::new(),
            downed: BTreeMap::new(),
            cuts: VecDeque::new(),
            cut_ends: Vec::new(),
            cables: BTreeMap::new(),
            cleared: BTreeMap::new(),
            manager,
            managers,
            subscribed: BTreeSet::new(),
            refuses_subscriptions: false,
            reports: VecDeque::new(),
            sender_down: false,
            mads: 0,
            physical: Physical::default(),
            planes: Planes::default(),
        }
    }

    /// Returns the fabric of the net file.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the number of requests so far, including those to dead devices and unknown LIDs.
    pub fn mads(&self) -> u64 {
        self.mads
    }

    /// Returns the number of requests to a device so far, even if the device is dead.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn mads_to(&self, id: DeviceId) -> u64 {
        self.agents[id.0 as usize].mads
    }

    /// Sets whether a device is dead, so that it answers nothing.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn set_dead(&mut self, id: DeviceId, dead: bool) {
        self.agents[id.0 as usize].dead = dead;
    }

    /// Sets whether the port of the senders is down, so that all requests get lost.
    pub fn set_sender_down(&mut self, down: bool) {
        self.sender_down = down;
    }

    /// Sets the share of requests that get lost, from 0 to 1.
    pub fn set_loss(&mut self, loss: f64) {
        self.options.loss = loss;
    }

    /// Sets the service time of a device.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn set_service(&mut self, id: DeviceId, service: Duration) {
        self.agents[id.0 as usize].service = service;
    }

    /// Sets how long a device needs to answer an SMP, which does not delay its other answers.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn set_smp_service(&mut self, id: DeviceId, service: Duration) {
        self.agents[id.0 as usize].smp_service = Some(service);
    }

    /// Returns the device of the master subnet manager, or `None` if no HCA has a LID.
    pub fn manager(&self) -> Option<DeviceId> {
        self.manager
    }

    /// Returns the current LID of a device.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn lid(&self, id: DeviceId) -> Lid {
        self.agents[id.0 as usize].lid
    }

    /// Exchanges the LIDs of two devices, as a restarted subnet manager may do.
    ///
    /// # Panics
    /// Panics if an identifier belongs to another fabric.
    pub fn swap_lids(&mut self, one: DeviceId, other: DeviceId) {
        let (a, b) = (self.lid(one), self.lid(other));
        (
            self.agents[one.0 as usize].lid,
            self.agents[other.0 as usize].lid,
        ) = (b, a);
        self.by_lid.extend([(b, one), (a, other)]);
    }

    /// Moves a device to an unused LID, so that no device answers at its old LID.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn move_lid(&mut self, id: DeviceId, lid: Lid) {
        self.by_lid.remove(&self.lid(id));
        self.by_lid.insert(lid, id);
        self.agents[id.0 as usize].lid = lid;
    }

    /// Replaces the PortInfo that the net file gave to a port. If it is down now and was not
    /// before, LinkDownedCounter of the port grows.
    pub fn set_link(&mut self, id: DeviceId, port: PortNum, info: PortInfo) {
        let before = self.links.insert((id, port), info);
        let was_down = before.is_some_and(|before| before.state == PortInfo::DOWN);
        if info.state == PortInfo::DOWN && !was_down {
            *self.downed.entry((id, port)).or_default() += 1;
        }
        let is_switch = self.fabric.device(id).kind == NodeKind::Switch;
        if is_switch && self.subscribed.contains(&inform::LINK_STATE) {
            self.reports.push_back(Trap {
                number: inform::LINK_STATE,
                lid: self.lid(id),
            });
        }
    }

    /// Lets links between switches, at most this number, be down from one time to another.
    pub fn cut_links(&mut self, count: usize, from: Instant, to: Instant) {
        let fabric = &self.fabric;
        let is_switch = |id| fabric.device(id).kind == NodeKind::Switch;
        let links = fabric.iter().flat_map(|(id, device)| {
            device.linked().filter_map(move |(port, peer)| {
                let other = fabric.find(peer.guid, peer.port)?;
                let is_wanted = id < other && is_switch(id) && is_switch(other);
                is_wanted.then_some([(id, port.num), (other, peer.port)])
            })
        });
        self.cut_ends = links.take(count).flatten().collect();
        self.cuts = [(from, PortInfo::DOWN), (to, PortInfo::ACTIVE)].into();
    }

    /// Changes the links whose time has come.
    fn change_links(&mut self, now: Instant) {
        while let Some((_, state)) = self.cuts.front().copied().filter(|(at, _)| *at <= now) {
            self.cuts.pop_front();
            for (id, port) in self.cut_ends.clone() {
                if let Some(found) = self.fabric.device(id).port(port) {
                    let info = PortInfo::of_rate(&found.rate, state);
                    self.set_link(id, port, info);
                }
            }
        }
    }

    /// Connects a port of a switch with another port, or with none. Only the identity of the peer
    /// changes; traffic and links stay as they are.
    pub fn set_peer(&mut self, id: DeviceId, port: PortNum, peer: Option<(DeviceId, PortNum)>) {
        self.cables.insert((id, port), peer);
    }

    /// Makes a device drop all requests for an attribute of performance management.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn drop_attribute(&mut self, id: DeviceId, attribute: u16) {
        self.agents[id.0 as usize].drops.push(attribute);
    }

    /// Makes a device require an M_Key, so that it drops requests of subnet management.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn demand_m_key(&mut self, id: DeviceId) {
        self.agents[id.0 as usize].m_key = true;
    }

    /// Makes a device drop requests for PortInfo.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn drop_port_info(&mut self, id: DeviceId) {
        self.agents[id.0 as usize].drops_port_info = true;
    }

    /// Sets how the firmware of a device answers requests for registers.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn set_firmware(&mut self, id: DeviceId, firmware: Firmware) {
        self.agents[id.0 as usize].firmware = firmware;
    }

    /// Makes a device redirect queries for counters to another device, which answers with its own
    /// counters.
    ///
    /// # Panics
    /// Panics if an identifier belongs to another fabric.
    pub fn redirect(&mut self, id: DeviceId, to: DeviceId) {
        let (lid, qkey) = (self.lid(to), crate::mad::exchange::QP1_QKEY);
        self.agents[id.0 as usize].redirect = Some(Redirect {
            lid,
            qp: 1,
            qkey,
            sl: 0,
            pkey: 0xffff,
        });
    }

    /// Returns the capabilities of a device, so that the caller can change them.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn capabilities_mut(&mut self, id: DeviceId) -> &mut Capabilities {
        &mut self.agents[id.0 as usize].capabilities
    }

    /// Accepts a request of the device of the subnet manager at `now`. Returns the reply and the
    /// instant at which it reaches the sender, or `None` if no reply will come.
    pub fn submit(
        &mut self,
        target: &Target,
        request: &Mad,
        now: Instant,
    ) -> Option<(Instant, Mad)> {
        self.submit_from(None, target, request, now)
    }

    /// Accepts a request of a device, or of the device of the subnet manager: see
    /// [`submit`](Self::submit).
    fn submit_from(
        &mut self,
        sender: Option<DeviceId>,
        target: &Target,
        request: &Mad,
        now: Instant,
    ) -> Option<(Instant, Mad)> {
        self.mads += 1;
        self.change_links(now);
        let first = match self.by_lid.get(&target.lid) {
            Some(id) => *id,
            None if target.lid == PERMISSIVE_LID => sender.or(self.manager)?,
            None => return None,
        };
        let end = match Header::parse(request).class {
            CLASS_SUBN_DIRECTED_ROUTE => management::end_of_route(self, first, request),
            _ => Some((first, management::first_port(self, first))),
        };
        // The switch of a LID forwards a request only after those that it has to answer.
        let id = if target.lid == PERMISSIVE_LID {
            end?.0
        } else {
            first
        };
        let lost =
            self.options.loss > 0.0 && self.rng.f64() < self.options.loss && !self.spares(request);
        let jitter = 1.0 + self.options.jitter * (2.0 * self.rng.f64() - 1.0);
        let agent = &mut self.agents[id.0 as usize];
        agent.mads += 1;
        if agent.dead || lost || self.sender_down {
            return None;
        }
        let half = self.options.flight / 2;
        if Header::parse(request).class == CLASS_VENDOR {
            return registers::answer(self, id, request, now + half);
        }
        let is_smp = Header::parse(request).class != CLASS_PERF_MGT;
        let served = match agent.smp_service.filter(|_| is_smp) {
            Some(service) => now + half + service,
            None => {
                agent.busy_until = agent.busy_until.max(now + half) + agent.service.mul_f64(jitter);
                agent.busy_until
            }
        };
        self.clear(id, request, served);
        let reply = if self.manager == Some(id) {
            self.subscribe(request)
        } else {
            None
        };
        Some((
            served + half,
            reply.or_else(|| self.answer(end?, request, served))?,
        ))
    }

    /// Returns whether a request or reply is exempt from random faults.
    fn spares(&self, mad: &Mad) -> bool {
        self.options.spare_sa && Header::parse(mad).class == CLASS_SUBN_ADM
    }

    /// Returns the reply of a device to a request of any class.
    fn answer(&self, end: (DeviceId, PortNum), request: &Mad, at: Instant) -> Option<Mad> {
        let (id, header) = (end.0, Header::parse(request));
        let agent = &self.agents[id.0 as usize];
        match header.class {
            CLASS_SUBN_LID_ROUTED if !self.options.smps_by_lid => None,
            CLASS_SUBN_DIRECTED_ROUTE
                if !self.options.smps_by_lid && !Route::parse(request)?.begins_at_sender() =>
            {
                None
            }
            CLASS_SUBN_LID_ROUTED => management::manage(self, end, request),
            CLASS_SUBN_DIRECTED_ROUTE => management::manage_by_route(self, end, request),
            CLASS_SUBN_ADM if self.manager == Some(id) => management::administer(self, request),
            CLASS_PERF_MGT if agent.drops.contains(&header.attribute) => None,
            CLASS_PERF_MGT => match agent.redirect {
                Some(redirect) => agent::redirect(request, redirect),
                None => agent::answer(
                    &self.encoder,
                    (agent.capabilities, agent.tick),
                    request,
                    |port| self.since_clearing(id, PortNum(port), at),
                ),
            },
            _ => None,
        }
    }

    /// Clears the counters that a request selects.
    fn clear(&mut self, id: DeviceId, request: &Mad, at: Instant) {
        let agent = &self.agents[id.0 as usize];
        let Some((of, port, select)) = agent::clears(request) else {
            return;
        };
        let is_accepted = !agent.drops.contains(&of.attribute().id) && agent.redirect.is_none();
        let counters = self.counters(id, PortNum(port), at).filter(|_| is_accepted);
        if let Some(mut counters) = counters {
            let cleared = self.cleared.entry((id, PortNum(port), of)).or_default();
            for (sl, words) in counters.by_sl(of).iter().enumerate() {
                if select & 1 << sl != 0 {
                    cleared[sl] = *words;
                }
            }
        }
    }

    /// Returns the counters that an agent reports: those by service level count since their last
    /// clearing.
    fn since_clearing(&self, id: DeviceId, port: PortNum, at: Instant) -> Option<Counters> {
        let mut counters = self.counters(id, port, at)?;
        for of in Clearable::ALL {
            let cleared = self.cleared.get(&(id, port, of)).into_iter().flatten();
            for (words, cleared) in counters.by_sl(of).iter_mut().zip(cleared) {
                *words -= cleared;
            }
        }
        Some(counters)
    }

    /// Returns the counters of a port at any instant, as if they were never cleared, or `None` if
    /// the device has no such port.
    pub fn counters(&self, id: DeviceId, port: PortNum, at: Instant) -> Option<Counters> {
        let device = self.fabric.device(id);
        let port = device.port(port)?;
        let out = self.traffic.sent(id, port.num, at);
        let peer = port
            .peer
            .as_ref()
            .and_then(|peer| Some((self.fabric.find(peer.guid, peer.port)?, peer.port)));
        let back = peer
            .map(|(peer, port)| self.traffic.sent(peer, port, at))
            .unwrap_or_default();
        let words = |sent: Sent| {
            sent.by_sl
                .map(|(packets, _)| packets * traffic::PACKET_OCTETS / 4)
        };
        Some(Counters {
            xmit_sl_words: words(out),
            rcv_sl_words: words(back),
            vl_wait: out.by_sl.map(|(_, waited)| self.ticks(id, port, waited)),
            xmit_words: out.packets * traffic::PACKET_OCTETS / 4,
            rcv_words: back.packets * traffic::PACKET_OCTETS / 4,
            xmit_packets: out.packets,
            rcv_packets: back.packets,
            xmit_wait: self.ticks(id, port, out.waited),
            symbol_errors: symbol_errors(device.guid.0, port.num, at),
            link_downed: self.downed.get(&(id, port.num)).copied().unwrap_or(0),
        })
    }
}

impl SimFabric {
    /// Converts a time to ticks of a port. As on real devices, a tick is the time of Tick + 1
    /// bytes: of the whole port on a switch, and of each lane on an HCA.
    fn ticks(&self, id: DeviceId, port: &Port, time: Duration) -> u64 {
        let agent = &self.agents[id.0 as usize];
        let gbps = port.rate.data_gbps().unwrap_or(traffic::DEFAULT_GBPS);
        let lanes = if self.fabric.device(id).kind == NodeKind::Switch {
            1.0
        } else {
            port.rate.lanes().unwrap_or(4.0)
        };
        (time.as_nanos() as f64 * gbps / 8.0 / ((f64::from(agent.tick) + 1.0) * lanes)) as u64
    }
}

/// Returns the number of symbol errors of a port. One port in 97 has an error every 1 to 8
/// seconds; all others have none.
fn symbol_errors(guid: u64, port: PortNum, at: Instant) -> u64 {
    let hash = (guid << 8 | u64::from(port.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    if hash.is_multiple_of(97) {
        at.as_nanos() / (1_000_000_000 + hash % 7_000_000_000)
    } else {
        0
    }
}

impl Agent {
    /// Creates the agents of a device. Only switches have the optional attributes and, with the
    /// default options, the 64-bit error counters.
    fn new(lid: Lid, kind: NodeKind, options: &Options) -> Self {
        let common = Capabilities::EXTENDED_WIDTH | Capabilities::XMIT_WAIT;
        let details = 0x3ff << 6;
        let is_wide = if kind == NodeKind::Switch {
            options.wide_switches
        } else {
            options.wide_adapters
        };
        let mask2 = if is_wide {
            Capabilities::ADDITIONAL_EXTENDED
        } else {
            0
        };
        let (capabilities, tick, service) = match kind {
            NodeKind::Switch => {
                let mask = common | Capabilities::ALL_PORT_SELECT | Capabilities::QP1_DROPPED;
                // Besides `details`, the mask has the attributes 0x18, 0x1B, 0x1C, 0x1F and 0x30 to
                // 0x37.
                let option_mask = details | 0b11 << 18 | 0b11 << 22 | 1 << 28 | 0x1ff << 48;
                (
                    Capabilities {
                        mask,
                        mask2,
                        option_mask: Some(option_mask),
                    },
                    7,
                    options.switch_service,
                )
            }
            NodeKind::Hca | NodeKind::Router => (
                Capabilities {
                    mask: common,
                    mask2,
                    option_mask: Some(details),
                },
                31,
                options.adapter_service,
            ),
        };
        let (drops, busy_until) = (Vec::new(), Instant::ZERO);
        let (dead, m_key, drops_port_info, redirect) = (false, false, false, None);
        let firmware = Firmware::default();
        Self {
            lid,
            capabilities,
            tick,
            service,
            smp_service: None,
            busy_until,
            mads: 0,
            dead,
            drops,
            m_key,
            drops_port_info,
            redirect,
            firmware,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ibnet_record::attributes::Group;
    use ibnet_record::types::Tid;

    use super::*;
    use crate::mad::MAD_LEN;
    use crate::mad::exchange::{Completion, Outcome};
    use crate::mad::pma::{self, Bits, data};
    use crate::mad::query::Query;
    use crate::mad::sa::{self, Gid};
    use crate::topology::{ports_report, synthetic};

    const GIVE_UP: Duration = Duration::from_millis(50);

    fn fabric() -> Fabric {
        let tree = synthetic::FatTree {
            leaves: 2,
            hosts: 4,
            spines: 2,
            trunk: 1,
            radix: 8,
        };
        ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
            .expect("a valid ports report")
            .fabric
    }

    /// Returns PortXmitData and PortRcvData of a port, in words, as read with a MAD.
    fn words(sim: &mut SimFabric, lid: Lid, port: PortNum, at: Instant) -> (u64, u64) {
        let attribute = Group::Extended.attribute();
        let query = pma::Query {
            attribute: attribute.id,
            port: Some(port),
        };
        let mut mad = [0; MAD_LEN];
        query.emit(Tid(1), &mut mad);
        let (_, reply) = sim
            .submit(&Target::general(lid, 0, 0, GIVE_UP), &mad, at)
            .expect("alive");
        assert_eq!(Query::Pma(query).check(&reply, MAD_LEN), Ok(()));
        let data = data(&reply);
        let field = |name| attribute.field(name).map_or(0, |field| field.raw(data, 0));
        (field("PortXmitData"), field("PortRcvData"))
    }

    #[test]
    fn one_end_receives_what_the_other_transmits() {
        let end = Instant::ZERO + Duration::from_secs(20);
        let traffic = Traffic::jobs(&fabric(), 5).until(end);
        let mut sim = SimFabric::with_traffic(fabric(), Options::default(), traffic);
        let mut moved = 0;
        for device in fabric().devices() {
            for (port, peer) in device.linked() {
                let here = words(&mut sim, device.lid, port.num, end);
                let there = words(&mut sim, peer.lid, peer.port, end);
                assert_eq!(
                    here,
                    (there.1, there.0),
                    "port {} of {}",
                    port.num,
                    device.name
                );
                moved += here.0;
            }
        }
        assert!(moved > 0, "no traffic");
    }

    #[test]
    fn device_serves_one_request_after_another() {
        let options = Options {
            jitter: 0.0,
            flight: Duration::ZERO,
            ..Options::default()
        };
        let mut sim = SimFabric::new(fabric(), options);
        let leaf = sim
            .fabric()
            .devices()
            .iter()
            .find(|device| device.kind == NodeKind::Switch)
            .expect("a switch")
            .lid;
        let mut mad = [0; MAD_LEN];
        pma::Query {
            attribute: 0x12,
            port: Some(PortNum(1)),
        }
        .emit(Tid(1), &mut mad);
        let mut back = || {
            sim.submit(&Target::general(leaf, 0, 0, GIVE_UP), &mad, Instant::ZERO)
                .expect("alive")
                .0
        };
        assert_eq!(
            [back(), back(), back()].map(Instant::as_nanos),
            [50_000, 100_000, 150_000]
        );
    }

    #[test]
    fn spared_path_query_is_answered_while_all_other_requests_are_lost() {
        for spare_sa in [false, true] {
            let mut sim = SimFabric::new(
                fabric(),
                Options {
                    loss: 1.0,
                    spare_sa,
                    ..Options::default()
                },
            );
            let device = sim.fabric().device(sim.manager().expect("an HCA"));
            let (target, gid) = (
                Target::general(device.lid, 0, 0, GIVE_UP),
                Gid {
                    prefix: 1,
                    guid: device.guid,
                },
            );
            let path = Query::Sa(sa::Query {
                source: gid,
                destination: gid,
            });
            let counters = Query::Pma(pma::Query {
                attribute: 0x12,
                port: Some(PortNum(1)),
            });
            let answered = [path, counters].map(|query| {
                let mut mad = [0; MAD_LEN];
                query.emit(Tid(1), &mut mad);
                sim.submit(&target, &mad, Instant::ZERO).is_some()
            });
            assert_eq!(answered, [spare_sa, false]);
        }
    }

    #[test]
    fn dead_device_and_unknown_lid_time_out() {
        let mut sim = SimFabric::new(fabric(), Options::default());
        sim.set_dead(DeviceId(0), true);
        let dead = sim.fabric().device(DeviceId(0)).lid;
        let mut client = Client::new(Arc::new(Mutex::new(sim)));
        let mut mad = [0; MAD_LEN];
        for (tid, lid) in [(1, dead), (2, Lid(4711))] {
            pma::Query {
                attribute: 0x12,
                port: Some(PortNum(1)),
            }
            .emit(Tid(tid), &mut mad);
            client.send(&Target::general(lid, 0, 0, GIVE_UP), &mad, Instant::ZERO);
        }
        let due = Instant::ZERO + GIVE_UP;
        assert_eq!(
            (client.next_due(), client.take_due(Instant::ZERO)),
            (Some(due), None)
        );
        for tid in [1, 2] {
            let (completion, _) = client.take_due(due).expect("timed out");
            assert_eq!(
                completion,
                Completion {
                    tid: Tid(tid),
                    outcome: Outcome::TimedOut
                }
            );
        }
    }
}
