//! A simulated fabric, made of the same net file that the real one would be swept by.
//!
//! It answers whole MADs, so encoding and decoding are exercised. What it models:
//!
//! - a device serves its requests one after another, each for a service time with jitter (50 us for a switch, 25 us for an adapter);
//! - [`traffic`] that conserves over links;
//! - faults: MADs lost at random, devices that do not answer, devices that are slow.
//!
//! Everything is a function of the net file, the options and the instants that it is told: there is no clock in here, so that it runs
//! in real time ([`SimTransport`]) and in virtual time ([`Client`]) alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::agent::{Counters, Encoder};
use self::traffic::Traffic;
use super::{Transport, TransportError};
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::header::Header;
use crate::mad::pma::Capabilities;
use crate::mad::{MAD_LEN, Mad};
use crate::time::Instant;
use crate::topology::{DeviceId, Fabric};
use crate::types::{Lid, NodeKind, PortNum};

pub mod agent;
pub mod traffic;

/// How a simulated fabric behaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Everything random follows from it.
    pub seed: u64,
    /// For how long a switch's agent works on a MAD.
    pub switch_service: Duration,
    /// For how long an adapter's agent works on a MAD.
    pub adapter_service: Duration,
    /// Service times vary by up to this share of themselves, 0 to 1.
    pub jitter: f64,
    /// The time on the way, both directions together.
    pub flight: Duration,
    /// The share of requests that get lost, 0 to 1.
    pub loss: f64,
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
        }
    }
}

/// The fabric, all of its agents and its traffic.
#[derive(Debug)]
pub struct SimFabric {
    fabric: Fabric,
    options: Options,
    traffic: Traffic,
    encoder: Encoder,
    rng: fastrand::Rng,
    by_lid: BTreeMap<Lid, DeviceId>,
    agents: Vec<Agent>,
    mads: u64,
}

/// One device's agent.
#[derive(Clone, Debug)]
struct Agent {
    capabilities: Capabilities,
    service: Duration,
    busy_until: Instant,
    dead: bool,
}

impl SimFabric {
    /// A fabric with the traffic of [`Traffic::jobs`].
    pub fn new(fabric: Fabric, options: Options) -> Self {
        let traffic = Traffic::jobs(&fabric, options.seed);
        Self::with_traffic(fabric, options, traffic)
    }

    /// A fabric with traffic of one's own.
    pub fn with_traffic(fabric: Fabric, options: Options, traffic: Traffic) -> Self {
        let by_lid = fabric.iter().filter(|(_, device)| device.lid.is_unicast()).map(|(id, device)| (device.lid, id)).collect();
        let agents = fabric.devices().iter().map(|device| Agent::new(device.kind, &options)).collect();
        let rng = fastrand::Rng::with_seed(options.seed);
        Self { fabric, options, traffic, encoder: Encoder::default(), rng, by_lid, agents, mads: 0 }
    }

    /// What it was made of.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Requests that arrived so far, at devices that live or not.
    pub fn mads(&self) -> u64 {
        self.mads
    }

    /// Makes a device silent, or lets it answer again.
    ///
    /// # Panics
    /// If the identifier is another fabric's.
    pub fn set_dead(&mut self, id: DeviceId, dead: bool) {
        self.agents[id.0 as usize].dead = dead;
    }

    /// Makes a device slow.
    ///
    /// # Panics
    /// If the identifier is another fabric's.
    pub fn set_service(&mut self, id: DeviceId, service: Duration) {
        self.agents[id.0 as usize].service = service;
    }

    /// Takes a request at `now`; tells when its reply is back at the sender, and the reply. `None`: it will never be answered.
    pub fn submit(&mut self, target: &Target, request: &Mad, now: Instant) -> Option<(Instant, Mad)> {
        self.mads += 1;
        let id = *self.by_lid.get(&target.lid)?;
        let lost = self.options.loss > 0.0 && self.rng.f64() < self.options.loss;
        let jitter = 1.0 + self.options.jitter * (2.0 * self.rng.f64() - 1.0);
        let agent = &mut self.agents[id.0 as usize];
        if agent.dead || lost {
            return None;
        }
        let half = self.options.flight / 2;
        let served = agent.busy_until.max(now + half) + agent.service.mul_f64(jitter);
        agent.busy_until = served;
        let capabilities = agent.capabilities;
        let reply = agent::answer(&self.encoder, capabilities, request, |port| self.counters(id, PortNum(port), served))?;
        Some((served + half, reply))
    }

    /// The counters of a port at an instant, past or to come.
    pub fn counters(&self, id: DeviceId, port: PortNum, at: Instant) -> Option<Counters> {
        let device = self.fabric.device(id);
        let port = device.port(port)?;
        let out = self.traffic.sent(id, port.num, at);
        let peer = port.peer.as_ref().and_then(|peer| Some((self.fabric.find(peer.guid, peer.port)?, peer.port)));
        let back = peer.map(|(peer, port)| self.traffic.sent(peer, port, at)).unwrap_or_default();
        Some(Counters {
            xmit_words: out.packets * traffic::PACKET_OCTETS / 4,
            rcv_words: back.packets * traffic::PACKET_OCTETS / 4,
            xmit_packets: out.packets,
            rcv_packets: back.packets,
            // A tick of 5.12 ns: that of a switch which counts the time of 64 octets at EDR.
            xmit_wait: (out.waited.as_nanos() * 100 / 512) as u64,
            symbol_errors: symbol_errors(device.guid.0, port.num, at),
        })
    }
}

/// A few links are bad: one event every so often.
fn symbol_errors(guid: u64, port: PortNum, at: Instant) -> u64 {
    let hash = (guid << 8 | u64::from(port.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    if hash.is_multiple_of(97) { at.as_nanos() / (1_000_000_000 + hash % 7_000_000_000) } else { 0 }
}

impl Agent {
    /// Switches are of a newer kind than adapters, which lack the 64-bit error counters.
    fn new(kind: NodeKind, options: &Options) -> Self {
        let common = Capabilities::EXTENDED_WIDTH | Capabilities::XMIT_WAIT;
        let (capabilities, service) = match kind {
            NodeKind::Switch => {
                let mask = common | Capabilities::ALL_PORT_SELECT | Capabilities::QP1_DROPPED;
                (Capabilities { mask, mask2: Capabilities::ADDITIONAL_EXTENDED, option_mask: None }, options.switch_service)
            }
            NodeKind::Hca | NodeKind::Router => (Capabilities { mask: common, mask2: 0, option_mask: None }, options.adapter_service),
        };
        Self { capabilities, service, busy_until: Instant::ZERO, dead: false }
    }
}

/// One sender's view of a simulated fabric: what is on its way back to it.
#[derive(Debug)]
pub struct Client {
    fabric: Arc<Mutex<SimFabric>>,
    /// In the order of their time; the number keeps those of one instant apart.
    coming: BTreeMap<(Instant, u64), (Completion, Mad)>,
    sent: u64,
}

impl Client {
    /// A sender on this fabric. Several may share it.
    pub fn new(fabric: Arc<Mutex<SimFabric>>) -> Self {
        Self { fabric, coming: BTreeMap::new(), sent: 0 }
    }

    /// Sends a MAD. As from the kernel, a request that is not answered within `give_up` comes back as timed out, and its late reply is
    /// dropped.
    pub fn send(&mut self, target: &Target, mad: &Mad, give_up: Duration, now: Instant) {
        let answer = self.fabric.lock().unwrap_or_else(PoisonError::into_inner).submit(target, mad, now);
        let tid = Header::parse(mad).tid;
        let (at, outcome, mad) = match answer {
            Some((at, reply)) if at <= now + give_up => (at, Outcome::Reply { slid: target.lid, len: MAD_LEN }, reply),
            _ => (now + give_up, Outcome::TimedOut, *mad),
        };
        self.coming.insert((at, self.sent), (Completion { tid, outcome }, mad));
        self.sent += 1;
    }

    /// When the next completion is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.coming.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next completion that is due by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Completion, Mad)> {
        let first = self.coming.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// A simulated fabric in real time: it sleeps until a completion is due.
#[derive(Debug)]
pub struct SimTransport(Client);

impl SimTransport {
    /// A sender on this fabric.
    pub fn new(fabric: Arc<Mutex<SimFabric>>) -> Self {
        Self(Client::new(fabric))
    }
}

impl Transport for SimTransport {
    fn send(&mut self, target: &Target, mad: &Mad, give_up: Duration, now: Instant) -> Result<(), TransportError> {
        self.0.send(target, mad, give_up, now);
        Ok(())
    }

    fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError> {
        let until = now + wait;
        let Some(due) = self.0.next_due().filter(|due| *due <= until) else {
            std::thread::sleep(wait);
            return Ok(None);
        };
        if due > now {
            std::thread::sleep(due - now);
        }
        Ok(self.0.take_due(due.max(now)).map(|(completion, reply)| {
            *mad = reply;
            completion
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::{Group, Query};
    use crate::topology::{ports_report, synthetic};
    use crate::types::Tid;

    fn fabric() -> Fabric {
        let tree = synthetic::FatTree { leaves: 2, hosts: 4, spines: 2, trunk: 1, radix: 8 };
        ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
    }

    /// PortXmitData and PortRcvData of a port, as a MAD tells them.
    fn words(sim: &mut SimFabric, lid: Lid, port: PortNum, at: Instant) -> (u64, u64) {
        let attribute = Group::Extended.attribute();
        let query = Query { attribute: attribute.id, port: Some(port) };
        let mut mad = [0; MAD_LEN];
        query.emit(Tid(1), &mut mad);
        let (_, reply) = sim.submit(&Target { lid, sl: 0, pkey_index: 0 }, &mad, at).expect("alive");
        let data = query.answer(&reply, MAD_LEN).expect("a good reply");
        let field = |name| attribute.field(name).map_or(0, |field| field.raw(data, 0));
        (field("PortXmitData"), field("PortRcvData"))
    }

    #[test]
    fn what_one_end_transmits_the_other_receives() {
        let end = Instant::ZERO + Duration::from_secs(20);
        let traffic = Traffic::jobs(&fabric(), 5).until(end);
        let mut sim = SimFabric::with_traffic(fabric(), Options::default(), traffic);
        let mut moved = 0;
        for device in fabric().devices() {
            for (port, peer) in device.linked() {
                let here = words(&mut sim, device.lid, port.num, end);
                let there = words(&mut sim, peer.lid, peer.port, end);
                assert_eq!(here, (there.1, there.0), "port {} of {}", port.num, device.name);
                moved += here.0;
            }
        }
        assert!(moved > 0, "nothing moved");
    }

    #[test]
    fn a_device_serves_one_request_after_another() {
        let options = Options { jitter: 0.0, flight: Duration::ZERO, ..Options::default() };
        let mut sim = SimFabric::new(fabric(), options);
        let leaf = sim.fabric().devices().iter().find(|device| device.kind == NodeKind::Switch).expect("a switch").lid;
        let mut mad = [0; MAD_LEN];
        Query { attribute: 0x12, port: Some(PortNum(1)) }.emit(Tid(1), &mut mad);
        let mut back = || sim.submit(&Target { lid: leaf, sl: 0, pkey_index: 0 }, &mad, Instant::ZERO).expect("alive").0;
        assert_eq!([back(), back(), back()].map(Instant::as_nanos), [50_000, 100_000, 150_000]);
    }

    #[test]
    fn the_dead_and_the_unknown_come_back_as_timed_out() {
        let mut sim = SimFabric::new(fabric(), Options::default());
        sim.set_dead(DeviceId(0), true);
        let dead = sim.fabric().device(DeviceId(0)).lid;
        let mut client = Client::new(Arc::new(Mutex::new(sim)));
        let mut mad = [0; MAD_LEN];
        for (tid, lid) in [(1, dead), (2, Lid(4711))] {
            Query { attribute: 0x12, port: Some(PortNum(1)) }.emit(Tid(tid), &mut mad);
            client.send(&Target { lid, sl: 0, pkey_index: 0 }, &mad, Duration::from_millis(50), Instant::ZERO);
        }
        let due = Instant::ZERO + Duration::from_millis(50);
        assert_eq!((client.next_due(), client.take_due(Instant::ZERO)), (Some(due), None));
        for tid in [1, 2] {
            let (completion, _) = client.take_due(due).expect("timed out");
            assert_eq!(completion, Completion { tid: Tid(tid), outcome: Outcome::TimedOut });
        }
    }
}
