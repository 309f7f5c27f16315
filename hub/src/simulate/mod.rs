//! Runs a simulated fabric with its samplers in this process. The samplers are those of
//! `ibnet-sweep`.
//!
//! Enough hosts to cover the fabric become samplers. A thread changes the fabric from time to time:
//! two hosts are dead, a link goes down and comes back, an incast happens every minute, the subnet
//! manager fails over, and a sampler fails for a while. The storage servers form a group of hosts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet::assignments::Sampler;
use ibnet::cli;
use ibnet::config::{self, Physical, Raw, Routes, Scenario, Simulation};
use ibnet::mad::transport::sim::storms::Storm;
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::mad::transport::sim::{SimFabric, SimTransport};
use ibnet::output::{Destination, Lines, Outlet};
use ibnet::partition;
use ibnet::partition::report::suggest::{SuggestOptions, suggest};
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine;
use ibnet::sweep::plan::SweepPlan;
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, net_file};
use ibnet_analysis::groups::Group;
use ibnet_record::types::NodeKind;

use self::changes::Changes;
use crate::error::HubError;
use crate::input::{Sender, What};
use crate::jobs::source::Simulated;
use crate::threads::Threads;

mod changes;
mod jobs;
mod record;

pub use record::{Recording, record};

/// Max number of ports of a sampler, as in `ibnet-gen`.
const CAP: u32 = 150;

/// Time between two readings of NodeInfo and PortInfo. It is shorter than the default, so that a
/// link which is down for some seconds is detected.
const IDENTITY: &str = "5s";

/// Size in bytes of all samplers' records that may wait for the hub, and the min for one sampler.
/// If the hub is slower, the outputs of the samplers drop records and count them.
const BUFFERS: u64 = 256 << 20;
const MIN_BUFFER: u64 = 1 << 20;

/// Time between two checks for records of the samplers.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Time between two incasts.
const INCAST_EVERY: Duration = Duration::from_secs(60);

/// Name of the group of storage servers, and their max number with an incast.
const STORAGE: &str = "storage";
const SERVERS: usize = 4;

/// Prefixes of the names of storage servers, as in the storms of the simulated traffic.
const STORAGE_NAMES: [&str; 3] = ["nfs", "oss", "mds"];

/// A fabric that the threads of all samplers share.
pub(crate) type SharedFabric = Arc<Mutex<SimFabric>>;

/// A fabric with its samplers, not started yet.
pub(crate) struct Prepared {
    fabric: SharedFabric,
    blocks: Vec<Sampler>,
    engine: engine::Config,
    interval: Duration,
    dead: Vec<DeviceId>,
    has_own_dead: bool,
    jobs: Simulated,
    storage: Option<Group>,
}

/// A sampler that can be stopped and started again.
pub(crate) struct RunningSampler {
    block: Sampler,
    settings: DriverSettings,
    fabric: SharedFabric,
    clock: SystemClock,
    outlet: Outlet,
    running: Option<(Arc<Control>, JoinHandle<()>)>,
}

impl Prepared {
    /// Reads the net file and plans the samplers. The simulation starts now.
    pub(crate) fn read(
        net: &Path,
        simulated: &config::Simulated,
        interval: &str,
    ) -> Result<Self, HubError> {
        Self::starting(net, simulated, interval, now_ns())
    }

    /// Reads the net file and plans the samplers. `start_ns` is the start of the simulation, in
    /// nanoseconds since 1970.
    fn starting(
        net: &Path,
        simulated: &config::Simulated,
        interval: &str,
        start_ns: u64,
    ) -> Result<Self, HubError> {
        let raw = Raw {
            simulate: net.display().to_string(),
            simulated: simulated.clone(),
            interval: interval.to_owned(),
            identity: IDENTITY.to_owned(),
            routes: Routes { enabled: true },
            physical: Physical {
                enabled: true,
                ..Physical::default()
            },
            ..Raw::default()
        };
        let config = raw.check()?;
        let simulation = config.simulation.ok_or(HubError::NoInput)?;
        let fabric = net_file::read(net)?.fabric;
        let blocks = samplers(&fabric)?;
        let incast = incast(&fabric, &simulation);
        // A fabric with a single leaf switch has no flood, so it gets the traffic of jobs.
        let traffic = simulation.traffic(
            &fabric,
            incast.as_ref(),
            simulation.storms(&fabric).as_deref(),
        );
        let traffic = traffic.unwrap_or_else(|| Traffic::jobs(&fabric, simulation.seed));
        let servers = servers(&fabric, &simulation, incast.as_ref());
        let jobs = jobs::of(
            &fabric,
            simulation.seed,
            incast.as_ref(),
            &servers,
            start_ns,
        );
        let storage = jobs::named(&fabric, &servers).map(|(text, hosts)| Group {
            name: STORAGE.to_owned(),
            hosts,
            text,
        });
        let no_device = |name| HubError::NoSuchDevice {
            name,
            net: PathBuf::from(net),
        };
        let dead = simulation.dead_devices(&fabric).map_err(no_device)?;
        let mut fabric = SimFabric::with_traffic(fabric, simulation.options(), traffic);
        if simulation.links_down > 0 {
            let start = Instant::ZERO + simulation.start;
            fabric.cut_links(simulation.links_down, start, start + simulation.length);
        }
        let fabric = Arc::new(Mutex::new(fabric));
        let has_own_dead = !dead.is_empty();
        Ok(Self {
            fabric,
            blocks,
            engine: config.engine,
            interval: config.interval,
            dead,
            has_own_dead,
            jobs,
            storage,
        })
    }

    pub(crate) fn samplers(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().map(|block| block.host.as_str())
    }

    pub(crate) fn take_jobs(&mut self) -> Simulated {
        std::mem::replace(&mut self.jobs, Box::new(|_| Vec::new()))
    }

    /// Returns the group of the storage servers. `None` if the scenario has none.
    pub(crate) const fn storage(&self) -> Option<&Group> {
        self.storage.as_ref()
    }

    /// Returns a sampler that has not started yet, and its records.
    fn sampler(&self, block: &Sampler, clock: SystemClock) -> (RunningSampler, Lines) {
        let (outlet, lines) =
            Destination::memory_of((BUFFERS / self.blocks.len().max(1) as u64).max(MIN_BUFFER));
        let settings = settings(block, self.interval, &self.engine);
        let (block, fabric) = (block.clone(), Arc::clone(&self.fabric));
        (
            RunningSampler {
                block,
                settings,
                fabric,
                clock,
                outlet,
                running: None,
            },
            lines,
        )
    }

    /// Starts the samplers and the changes of the fabric. All records go to `sender`.
    pub(crate) fn start(self, sender: Sender, threads: &Threads) -> std::io::Result<()> {
        let clock = SystemClock::start();
        let (mut samplers, mut outlets) = (Vec::new(), Vec::new());
        for block in &self.blocks {
            let (mut sampler, lines) = self.sampler(block, clock);
            sampler.start()?;
            samplers.push(sampler);
            outlets.push(lines);
        }
        let changes = Changes::new(
            &lock(&self.fabric),
            samplers.iter().map(RunningSampler::name),
            self.dead,
            self.has_own_dead,
        );
        let fabric = self.fabric;
        threads.start("scenario", move || changes.run(&fabric, &mut samplers))?;
        threads.start("simulated", move || forward(&outlets, &sender))
    }
}

fn settings(block: &Sampler, interval: Duration, engine: &engine::Config) -> DriverSettings {
    DriverSettings {
        is_secondary: block.is_secondary(),
        offset: interval.mul_f64(block.offset.unwrap_or(0.0)),
        ..DriverSettings::simulated(&block.host, interval, engine.clone())
    }
}

/// Sends the records of the samplers until the hub stops.
fn forward(outlets: &[Lines], sender: &Sender) {
    if sender.send(What::Connected).is_err() {
        return;
    }
    loop {
        for lines in outlets {
            let text = lines.text();
            if !text.is_empty() && sender.send(What::Lines(text.into_bytes())).is_err() {
                return;
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

impl RunningSampler {
    pub(crate) fn name(&self) -> &str {
        &self.settings.sampler
    }

    #[cfg(test)]
    const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn start(&mut self) -> std::io::Result<()> {
        let control = Arc::new(Control::default());
        let driver = Driver::new(
            SweepPlan::new(&self.block),
            self.settings.clone(),
            SimTransport::new(Arc::clone(&self.fabric)).of_host(&self.block.host),
            self.clock,
            self.outlet.clone(),
            cli::random_seed(),
        );
        let of_thread = Arc::clone(&control);
        let work = move || {
            if let Err(error) = driver.run(&of_thread, |_| {}) {
                tracing::error!(%error, "a simulated sampler has stopped; its ports get no more records");
            }
        };
        let handle = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(work)?;
        self.running = Some((control, handle));
        Ok(())
    }

    /// Stops the sampler and waits for its end.
    pub(crate) fn stop(&mut self) {
        if let Some((control, handle)) = self.running.take() {
            control.stop();
            // The panic of the thread was reported when it happened.
            let _ = handle.join();
        }
    }
}

/// Returns the ports of each sampler. If no hosts can cover the fabric, one sampler reads
/// all ports.
fn samplers(fabric: &Fabric) -> Result<Vec<Sampler>, HubError> {
    partition::something_to_sample(fabric)?;
    match suggest(
        fabric,
        &SuggestOptions {
            cap: CAP,
            count: None,
            among: None,
        },
    ) {
        Ok(suggested) => Ok(partition::assignments_of(&suggested.plan, fabric).samplers),
        Err(error) => {
            tracing::info!(%error, "one simulated sampler reads the whole fabric");
            Ok(vec![partition::whole_fabric(fabric, "simulated").0])
        }
    }
}

/// Returns the incast of the scenario, which is repeated every minute. `None` for a scenario
/// without an incast, and for a fabric that is too small for one.
fn incast(fabric: &Fabric, simulation: &Simulation) -> Option<Incast> {
    let every = Some(INCAST_EVERY.max(simulation.length));
    simulation
        .incast(fabric)
        .map(|incast| Incast { every, ..incast })
}

/// Returns the storage servers: the hosts whose names begin with `nfs`, `oss` or `mds`. Without
/// such hosts they are the destinations of the storm, or the server of the incast and the hosts
/// before it at the same switch.
fn servers(fabric: &Fabric, simulation: &Simulation, incast: Option<&Incast>) -> Vec<DeviceId> {
    let has_name = |id: &DeviceId| {
        is_host(fabric, *id)
            && STORAGE_NAMES
                .iter()
                .any(|name| fabric.device(*id).host().starts_with(name))
    };
    let named: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(has_name).collect();
    if !named.is_empty() {
        return named;
    }
    if let Some(incast) = incast {
        let switch = |id: DeviceId| fabric.device(id).linked().next().map(|(_, peer)| peer.guid);
        let is_server = |id: &DeviceId| {
            is_host(fabric, *id) && switch(*id) == switch(incast.to) && !incast.from.contains(id)
        };
        let near: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(is_server).collect();
        return near.iter().rev().take(SERVERS).rev().copied().collect();
    }
    let has_storm = matches!(simulation.scenario, Scenario::NfsStorm | Scenario::Storms);
    let storm = has_storm
        .then(|| Storm::nfs_storm(fabric, Instant::ZERO, simulation.length))
        .flatten();
    let servers: BTreeSet<DeviceId> = storm
        .iter()
        .flat_map(|storm| &storm.pairs)
        .map(|(_, server)| *server)
        .collect();
    servers.into_iter().collect()
}

/// Locks the fabric. The simulation stays valid even if a thread panics.
pub(crate) fn lock(fabric: &SharedFabric) -> std::sync::MutexGuard<'_, SimFabric> {
    fabric.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a device is the port of a host.
pub(crate) fn is_host(fabric: &Fabric, id: DeviceId) -> bool {
    let device = fabric.device(id);
    device.kind == NodeKind::Hca && device.linked_ports() > 0
}

#[expect(clippy::disallowed_methods, reason = "the simulated fabric exists now")]
fn now_ns() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
