//! Changes a simulated fabric over time.

use std::thread;
use std::time::Duration;

use ibnet::mad::sm_info::{SmInfo, SmState};
use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::topology::DeviceId;
use ibnet_record::types::{LinkRate, PortNum};

use super::{RunningSampler, SharedFabric, is_host, lock};

const SECOND: Duration = Duration::from_secs(1);

/// Period of the flapping link, and the seconds in which it is down.
const FLAP_EVERY: u64 = 60;
const FLAP: std::ops::Range<u64> = 20..34;

/// Period of the failing sampler, and the seconds in which it does not run.
const FAIL_EVERY: u64 = 180;
const FAIL: std::ops::Range<u64> = 100..120;

/// Period of the failover of the subnet manager, and the seconds in which the standby is
/// the master.
const FAILOVER_EVERY: u64 = 240;
const FAILOVER: std::ops::Range<u64> = 45..105;

/// Priorities of the master subnet manager and of its standby.
const PRIORITIES: (u8, u8) = (14, 13);

/// Number of dead hosts if the configuration names none.
const DEAD: usize = 2;

/// Min number of hosts of a fabric in which some are dead.
const MANY_HOSTS: usize = 16;

/// What changes, and when.
pub(crate) struct Changes {
    dead: Vec<DeviceId>,
    /// Both ends of the flapping link, and its rate.
    link: Option<([(DeviceId, PortNum); 2], LinkRate)>,
    /// Hosts of the subnet manager and of its standby.
    managers: Option<(DeviceId, DeviceId)>,
}

impl Changes {
    /// Chooses the devices that change. Hosts of samplers never do.
    pub(crate) fn new<'a>(
        fabric: &SimFabric,
        samplers: impl Iterator<Item = &'a str>,
        dead: Vec<DeviceId>,
        has_own_dead: bool,
    ) -> Self {
        let samplers: Vec<&str> = samplers.collect();
        let manager = fabric.manager();
        let fabric = fabric.fabric();
        let is_free = |id: &DeviceId| {
            is_host(fabric, *id)
                && !samplers.contains(&fabric.device(*id).host())
                && !dead.contains(id)
        };
        let free: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(is_free).collect();
        let at = |share: usize| free.get(free.len() * share / 8).copied();
        let chosen: Vec<DeviceId> = if has_own_dead || free.len() < MANY_HOSTS {
            dead.clone()
        } else {
            [3, 5].into_iter().take(DEAD).filter_map(at).collect()
        };
        let managers = manager.zip(at(6).filter(|id| Some(*id) != manager && !chosen.contains(id)));
        let link = at(1).filter(|_| free.len() > 1).and_then(|id| {
            let (port, peer) = fabric.device(id).linked().next()?;
            let other = fabric.find(peer.guid, peer.port)?;
            Some(([(id, port.num), (other, peer.port)], port.rate.clone()))
        });
        Self {
            dead: chosen,
            link,
            managers,
        }
    }

    /// Changes the fabric until the process ends.
    pub(crate) fn run(self, fabric: &SharedFabric, samplers: &mut [RunningSampler]) {
        self.begin(fabric);
        for second in 0_u64.. {
            thread::sleep(SECOND);
            self.pass(second, fabric);
            // A single sampler never fails, because no records would be left.
            if samplers.len() > 1 {
                fail(&mut samplers[1], second);
            }
        }
    }

    /// Changes the fabric at the start.
    pub(super) fn begin(&self, fabric: &SharedFabric) {
        self.dead
            .iter()
            .for_each(|id| lock(fabric).set_dead(*id, true));
        self.manage(fabric, false);
    }

    /// Changes the fabric in a second after the start. Each second must be passed once, in order.
    pub(super) fn pass(&self, second: u64, fabric: &SharedFabric) {
        self.flap(fabric, second % FLAP_EVERY);
        match second % FAILOVER_EVERY {
            second if second == FAILOVER.start => self.manage(fabric, true),
            second if second == FAILOVER.end => self.manage(fabric, false),
            _ => {}
        }
    }

    /// Makes one subnet manager the master. The other one becomes the standby, or stops answering
    /// if it has failed.
    fn manage(&self, fabric: &SharedFabric, has_failed: bool) {
        let Some((first, second)) = self.managers else {
            return;
        };
        let mut fabric = lock(fabric);
        let info = |fabric: &SimFabric, id: DeviceId, state, priority| SmInfo {
            guid: fabric.fabric().device(id).guid,
            act_count: 0,
            priority,
            state,
        };
        let (own, state) = match has_failed {
            true => (None, SmState::Master),
            false => (
                Some(info(&fabric, first, SmState::Master, PRIORITIES.0)),
                SmState::Standby,
            ),
        };
        let standby = info(&fabric, second, state, PRIORITIES.1);
        fabric.set_subnet_manager(first, own);
        fabric.set_subnet_manager(second, Some(standby));
    }

    fn flap(&self, fabric: &SharedFabric, second: u64) {
        let Some((ends, rate)) = &self.link else {
            return;
        };
        let info = match second {
            second if second == FLAP.start => PortInfo {
                state: PortInfo::DOWN,
                ..PortInfo::default()
            },
            second if second == FLAP.end => PortInfo::of_rate(rate, PortInfo::ACTIVE),
            _ => return,
        };
        let mut fabric = lock(fabric);
        ends.iter()
            .for_each(|(id, port)| fabric.set_link(*id, *port, info));
    }
}

fn fail(sampler: &mut RunningSampler, second: u64) {
    let second = second % FAIL_EVERY;
    if second == FAIL.start {
        sampler.stop();
    } else if second == FAIL.end
        && let Err(error) = sampler.start()
    {
        tracing::warn!(%error, "cannot start a simulated sampler again");
    }
}

#[cfg(test)]
mod tests {
    use ibnet::config::Simulated;
    use ibnet::sweep::driver::SystemClock;
    use ibnet::topology::synthetic::FatTree;

    use super::super::Prepared;
    use super::*;

    #[test]
    fn sampler_that_fails_runs_again_after_its_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("net.p");
        let tree = FatTree {
            leaves: 2,
            hosts: 2,
            spines: 1,
            trunk: 1,
            radix: 4,
        };
        std::fs::write(&net, tree.blueprint().ports_report()).expect("written");
        let prepared = Prepared::read(&net, &Simulated::default(), "1s").expect("a fabric");
        let (mut sampler, lines) = prepared.sampler(&prepared.blocks[0], SystemClock::start());
        sampler.start().expect("a thread");
        for second in 0..FAIL_EVERY {
            fail(&mut sampler, second);
            assert_eq!(
                sampler.is_running(),
                !FAIL.contains(&second),
                "second {second}"
            );
        }
        fail(&mut sampler, FAIL_EVERY + FAIL.start);
        assert!(!sampler.is_running(), "it fails again");
        assert_eq!(
            lines.text().matches(r#""type":"start""#).count(),
            2,
            "two runs"
        );
    }
}
