//! A large fabric with a plan for 300 samplers, and their sweep in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::partition::{self, Plan, Request, Share, hosts};
use ibnet::sweep::engine::{Config, DevicePlan};
use ibnet::sweep::stats::MAD_OCTETS_ON_LINK;
use ibnet::sweep::virtual_sweep::VirtualSweep;
use ibnet::topology::graph::UNREACHABLE;
use ibnet::topology::{DeviceId, Fabric, Graph, ports_report, synthetic};
use ibnet_record::Status;
use ibnet_record::types::{NodeKind, PortNum};
use rayon::prelude::*;

pub(super) const SAMPLERS: usize = 300;
const CAP: u32 = 150;

/// The fabric, and the plan of its samplers.
pub(super) struct Large {
    pub(super) fabric: Fabric,
    pub(super) plan: Plan,
    /// Hosts that do not answer: one in fifty, none of them a sampler.
    dead: Vec<DeviceId>,
}

/// The outcome of a sweep.
#[derive(Default)]
pub(super) struct Swept {
    /// Length of each slot of each sampler.
    pub(super) lengths: Vec<Duration>,
    /// Length of each slot on the slowest sampler.
    pub(super) longest: Vec<Duration>,
    pub(super) mads: u64,
    /// MADs to each device.
    to: Vec<u64>,
    /// Slots of a sampler in which a port of a live device was not `ok`, or a port of a dead device
    /// not `timeout`.
    pub(super) incomplete: usize,
}

/// Share of the bandwidth of a link, in one direction, that MADs take.
pub(super) struct Load {
    pub(super) worst: f64,
    pub(super) mean: f64,
}

impl Large {
    pub(super) fn new() -> Self {
        let fabric = ports_report::parse(synthetic::large().ports_report().as_bytes(), "large")
            .expect("valid ports report")
            .fabric;
        let hosts: Vec<_> = fabric
            .iter()
            .filter(|(_, device)| device.kind == NodeKind::Hca)
            .collect();
        let places = (0..SAMPLERS).map(|n| n * hosts.len() / SAMPLERS);
        let names: Vec<_> = places.map(|place| hosts[place].1.host()).collect();
        let list = hosts::parse_list(&names.join(",")).expect("names");
        let samplers = hosts::locate(&list, &[], &fabric).expect("in the fabric");
        let dead = hosts
            .iter()
            .skip(25)
            .step_by(50)
            .filter(|(_, device)| !names.contains(&device.host()))
            .map(|(id, _)| *id)
            .collect();
        let plan = partition::plan(&Request {
            fabric: &fabric,
            samplers,
            cap: CAP,
        })
        .expect("the cap is large enough");
        Self { plan, dead, fabric }
    }

    /// Sweeps this number of slots with every `step`-th sampler. Several groups of samplers run at
    /// once, each on its own simulated fabric. This changes no result, because no two samplers
    /// query the same device.
    pub(super) fn sweep(&self, step: usize, slots: usize, interval: Duration) -> Swept {
        let shares: Vec<&Share> = self.plan.shares.iter().step_by(step).collect();
        let groups: Vec<&[&Share]> = shares.chunks(shares.len().div_ceil(4)).collect();
        let swept: Vec<Swept> = groups
            .par_iter()
            .map(|shares| self.sweep_group(shares, slots, interval))
            .collect();
        let mut all = Swept {
            to: vec![0; self.fabric.devices().len()],
            longest: vec![Duration::ZERO; slots],
            ..Swept::default()
        };
        for swept in swept {
            all.lengths.extend(swept.lengths);
            all.longest
                .iter_mut()
                .zip(swept.longest)
                .for_each(|(longest, other)| *longest = other.max(*longest));
            all.to
                .iter_mut()
                .zip(swept.to)
                .for_each(|(mads, other)| *mads += other);
            (all.mads, all.incomplete) = (all.mads + swept.mads, all.incomplete + swept.incomplete);
        }
        all.lengths.sort_unstable();
        all.longest.sort_unstable();
        all
    }

    fn sweep_group(&self, shares: &[&Share], slots: usize, interval: Duration) -> Swept {
        let mut sim =
            SimFabric::with_traffic(self.fabric.clone(), Options::default(), Traffic::none());
        self.dead.iter().for_each(|id| sim.set_dead(*id, true));
        let sim = Arc::new(Mutex::new(sim));
        let mut samplers: Vec<(VirtualSweep, u32)> = (1..)
            .zip(shares)
            .map(|(seed, share)| {
                let dead = share
                    .devices
                    .iter()
                    .filter(|held| self.dead.contains(&held.id))
                    .count();
                (
                    VirtualSweep::new(
                        Arc::clone(&sim),
                        &self.devices_of(share),
                        Config::default(),
                        seed,
                    ),
                    dead as u32,
                )
            })
            .collect();
        let mut swept = Swept::default();
        for (sweep, _) in &mut samplers {
            sweep.discover();
        }
        let devices = || (0..self.fabric.devices().len() as u32).map(DeviceId);
        let mads_to = || -> Vec<u64> {
            devices()
                .map(|id| {
                    sim.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .mads_to(id)
                })
                .collect()
        };
        let before = mads_to();
        let start = samplers
            .iter()
            .map(|(sweep, _)| sweep.now())
            .max()
            .expect("not empty");
        samplers
            .iter_mut()
            .for_each(|(sweep, _)| sweep.wait_until(start));
        for _ in 0..slots {
            let mut longest = Duration::ZERO;
            for (sweep, dead) in &mut samplers {
                sweep.slot(interval);
                let stats = sweep.engine.stats();
                let ports = sweep.engine.ports() as u32;
                let complete = (stats.count(Status::Ok), stats.count(Status::Timeout))
                    == (ports - *dead, *dead);
                swept.incomplete += usize::from(!complete);
                swept.mads += stats.mads_sent;
                swept.lengths.push(stats.duration());
                longest = longest.max(stats.duration());
            }
            swept.longest.push(longest);
        }
        swept.to = mads_to()
            .iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        swept
    }

    fn devices_of(&self, share: &Share) -> Vec<DevicePlan> {
        let devices = share.devices.iter().map(|held| self.fabric.device(held.id));
        devices
            .map(|device| {
                let ports = device.linked().map(|(port, _)| port.num).collect();
                DevicePlan {
                    guid: device.guid,
                    lid: device.lid,
                    kind: device.kind,
                    ports,
                }
            })
            .collect()
    }

    /// Returns the load of the links by the MADs of a sweep. A MAD takes the shortest path, the
    /// same in both directions; the device selects one of several equal cables.
    pub(super) fn load(&self, swept: &Swept, time: Duration) -> Load {
        let graph = Graph::new(&self.fabric);
        let mut mads: BTreeMap<(DeviceId, PortNum), u64> = BTreeMap::new();
        for share in &self.plan.shares {
            let hops = graph.hops_from([share.host.sending[0]]);
            for held in &share.devices {
                let count = swept.to[held.id.0 as usize];
                self.path(held.id, &hops)
                    .into_iter()
                    .for_each(|cable| *mads.entry(cable).or_default() += count);
            }
        }
        let share = |mads: u64| {
            mads as f64 * MAD_OCTETS_ON_LINK as f64 * 8.0 / time.as_secs_f64() / GBPS_EDR / 1e9
        };
        let cables = self.fabric.linked_ports() / 2;
        Load {
            worst: share(mads.values().copied().max().unwrap_or(0)),
            mean: share(mads.values().sum()) / cables as f64,
        }
    }

    /// Returns the cables between a device and the sampler from which the hops are counted, each by
    /// its lower end.
    fn path(&self, device: DeviceId, hops: &[u16]) -> Vec<(DeviceId, PortNum)> {
        let (mut at, mut path) = (device, Vec::new());
        while hops[at.0 as usize] > 0 && hops[at.0 as usize] != UNREACHABLE {
            let nearer: Vec<_> = self
                .fabric
                .device(at)
                .linked()
                .filter_map(|(port, peer)| {
                    Some((
                        (at, port.num),
                        (self.fabric.find(peer.guid, peer.port)?, peer.port),
                    ))
                })
                .filter(|(_, (peer, _))| hops[peer.0 as usize] < hops[at.0 as usize])
                .collect();
            let spread = (u64::from(device.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ u64::from(at.0).wrapping_mul(0xc2b2_ae3d_27d4_eb4f))
                >> 32;
            let (here, there) = nearer[spread as usize % nearer.len()];
            path.push(here.min(there));
            at = there.0;
        }
        path
    }
}

/// Data rate of a 4xEDR link in Gb/s.
const GBPS_EDR: f64 = 96.97;
