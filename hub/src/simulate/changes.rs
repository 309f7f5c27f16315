//! Changes of a simulated fabric over time.

use std::thread;
use std::time::Duration;

use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::topology::DeviceId;
use ibnet::types::{LinkRate, PortNum};

use super::{RunningSampler, SharedFabric, is_host, lock};

const SECOND: Duration = Duration::from_secs(1);

/// Period of the flapping link, and the seconds in which it is down.
const FLAP_EVERY: u64 = 45;
const FLAP: std::ops::Range<u64> = 20..26;

/// Period of the failing sampler, and the seconds in which it does not run.
const FAIL_EVERY: u64 = 180;
const FAIL: std::ops::Range<u64> = 100..120;

/// Number of dead hosts if the configuration names none.
const DEAD: usize = 2;

/// A fabric needs this many hosts for dead ones among them.
const MANY_HOSTS: usize = 16;

/// What changes, and when.
pub(crate) struct Changes {
    dead: Vec<DeviceId>,
    /// Both ends of the flapping link, and its rate.
    link: Option<([(DeviceId, PortNum); 2], LinkRate)>,
}

impl Changes {
    /// Chooses the devices that change. Hosts of samplers do not change.
    pub(crate) fn new<'a>(fabric: &SimFabric, samplers: impl Iterator<Item = &'a str>, dead: Vec<DeviceId>, has_own_dead: bool) -> Self {
        let samplers: Vec<&str> = samplers.collect();
        let fabric = fabric.fabric();
        let is_free = |id: &DeviceId| is_host(fabric, *id) && !samplers.contains(&fabric.device(*id).host()) && !dead.contains(id);
        let free: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(is_free).collect();
        let at = |share: usize| free.get(free.len() * share / 8).copied();
        let chosen: Vec<DeviceId> =
            if has_own_dead || free.len() < MANY_HOSTS { dead.clone() } else { [3, 5].into_iter().take(DEAD).filter_map(at).collect() };
        let link = at(1).filter(|_| free.len() > 1).and_then(|id| {
            let (port, peer) = fabric.device(id).linked().next()?;
            let other = fabric.find(peer.guid, peer.port)?;
            Some(([(id, port.num), (other, peer.port)], port.rate.clone()))
        });
        Self { dead: chosen, link }
    }

    /// Changes the fabric until the process ends.
    pub(crate) fn run(self, fabric: &SharedFabric, samplers: &mut [RunningSampler]) {
        self.dead.iter().for_each(|id| lock(fabric).set_dead(*id, true));
        for second in 0_u64.. {
            thread::sleep(SECOND);
            self.flap(fabric, second % FLAP_EVERY);
            // A single sampler does not fail: nothing would be left.
            if samplers.len() > 1 {
                fail(&mut samplers[1], second % FAIL_EVERY);
            }
        }
    }

    fn flap(&self, fabric: &SharedFabric, second: u64) {
        let Some((ends, rate)) = &self.link else { return };
        let info = match second {
            second if second == FLAP.start => PortInfo { state: PortInfo::DOWN, ..PortInfo::default() },
            second if second == FLAP.end => PortInfo::of_rate(rate, PortInfo::ACTIVE),
            _ => return,
        };
        let mut fabric = lock(fabric);
        ends.iter().for_each(|(id, port)| fabric.set_link(*id, *port, info));
    }
}

fn fail(sampler: &mut RunningSampler, second: u64) {
    if second == FAIL.start {
        sampler.stop();
    } else if second == FAIL.end
        && let Err(error) = sampler.start()
    {
        tracing::warn!(%error, "cannot start a simulated sampler again");
    }
}
