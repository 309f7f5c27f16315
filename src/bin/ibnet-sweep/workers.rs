//! The work of this process, divided among workers.
//!
//! A worker is one HCA port with its share of the ports to query; its thread has its own engine.
//! A sampler usually has one worker. It has several if the assignments file has several blocks
//! for its host (for several rails, or for a secondary role), or if several HCA ports are
//! configured, among which the devices of a block are then divided.

#[cfg(feature = "umad")]
use std::io;
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "umad")]
use std::sync::atomic::{AtomicBool, Ordering};

use ibnet::assignments::{Assignments, AssignmentsError, Sampler};
use ibnet::cli::{self, Progress};
use ibnet::config::{Config, Plan as Source};
use ibnet::discovery;
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::{DeviceWatch, HcaPort, UmadTransport, ports};
use ibnet::metrics::Peers;
use ibnet::sweep::driver::DriverSettings;
#[cfg(feature = "umad")]
use ibnet::sweep::driver::{Changes, OpenError, Opened, Wake};
use ibnet::sweep::plan::{SweepPlan, cables};
use ibnet::sweep::routes::Cables;
use ibnet::topology::{Fabric, NetFile, NetFileError, net_file};
use ibnet_record::limits;
use ibnet_record::types::{Guid, HcaName, PortNum, Printable};

use super::failure::Failure;
use super::metrics;
use super::receiving::ReceivedPlan;
use super::watch::Reader;

/// The ports that this process sweeps.
pub(super) struct Work {
    /// Blocks of the assignments file. A net file counts as one block.
    blocks: Vec<Sampler>,
    sha256: Option<String>,
    /// Peers of the links, for the metrics.
    pub(super) peers: Peers,
    /// Cables of all blocks, for directed routes.
    cables: Arc<Cables>,
    /// The error if the plan does not contain this sampler. There are then no blocks.
    pub(super) absent: Option<AssignmentsError>,
    /// Start of the plan's first slot, in nanoseconds since 1970.
    pub(super) at: Option<u64>,
    /// The plan, if it was published.
    published: Option<ReceivedPlan>,
}

/// The work of one worker.
#[derive(Clone)]
pub(super) struct Share {
    /// The devices and ports to query.
    pub(super) block: Sampler,
    /// The HCA port that sends.
    pub(super) ca: HcaName,
    /// Cables of the whole plan.
    cables: Arc<Cables>,
}

/// A worker goes on with a new plan that differs only in the work of other samplers. If a cable on
/// one of its routes has moved, it takes another route.
impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        (&self.block, &self.ca) == (&other.block, &other.ca)
    }
}

impl Share {
    /// Creates the work of one worker.
    pub(super) fn new(block: Sampler, ca: HcaName, cables: Arc<Cables>) -> Self {
        Self { block, ca, cables }
    }

    /// Returns the cables of the whole plan.
    pub(super) fn cables(&self) -> &Arc<Cables> {
        &self.cables
    }

    /// Returns the plan of the worker.
    pub(super) fn plan(&self) -> SweepPlan {
        SweepPlan::with_cables(&self.block, Arc::clone(&self.cables))
    }
}

impl Work {
    /// Reads the assignments file or the net file of the configuration.
    ///
    /// It is not an error if the plan has no blocks for this sampler: see
    /// [`absent`](Self::absent).
    pub(super) fn load(config: &Config, reader: &mut Reader) -> Result<Self, Failure> {
        let host = config.sampler.clone().unwrap_or_else(cli::short_host_name);
        match &config.plan {
            Source::Assignments(path) => {
                let read = reader.read(path, limits::PLAN);
                let octets = read.map_err(|source| AssignmentsError::Io {
                    path: path.clone(),
                    source,
                })?;
                Self::of_assignments(&octets, &path.display().to_string(), config, &host)
            }
            Source::Published(store) => {
                let plan = reader.read_published(store)?;
                let work = Self::of_assignments(&plan.octets, &plan.name, config, &host)?;
                Ok(Self {
                    published: Some(plan),
                    ..work
                })
            }
            Source::Net(path) => {
                let octets = match discovery::hca_of(path) {
                    Some(hca) => discovered(hca, config)?,
                    None => reader.read(path, limits::NET_FILE).map_err(|source| {
                        let path = path.clone();
                        NetFileError::Io { path, source }
                    })?,
                };
                let net = net_file::parse(&octets, &path.display().to_string())?;
                log_faulty_lines(&net, path);
                let local = match config.simulation {
                    Some(_) => Vec::new(),
                    None => local_guids(),
                };
                let here = name_in(&net.fabric, &local).unwrap_or_else(|| host.clone());
                let (mut sampler, left_out) = ibnet::partition::whole_fabric(&net.fabric, &here);
                sampler.host = host;
                if !left_out.is_empty() {
                    tracing::info!(
                        devices = left_out.len(),
                        "routers, aggregation nodes and devices without a LID are not swept"
                    );
                }
                if sampler.port_count == 0 {
                    return Err(Failure::NothingLinked {
                        net: path.display().to_string(),
                    });
                }
                let peers = metrics::peers(std::slice::from_ref(&sampler));
                Ok(Self {
                    cables: Arc::new(cables(std::slice::from_ref(&sampler))),
                    blocks: vec![sampler],
                    sha256: None,
                    peers,
                    absent: None,
                    at: None,
                    published: None,
                })
            }
        }
    }

    /// Parses an assignments file, and selects the blocks of this sampler.
    fn of_assignments(
        octets: &[u8],
        name: &str,
        config: &Config,
        host: &str,
    ) -> Result<Self, Failure> {
        let loaded = Assignments::parse_file(octets, name)?;
        let samplers = &loaded.assignments.samplers;
        let found = match config.is_for_all_samplers() {
            true => Ok(samplers.iter().collect()),
            false => loaded.assignments.of_host(host),
        };
        let (blocks, absent) = match found {
            Ok(blocks) => (blocks.into_iter().cloned().collect(), None),
            Err(absent) => (Vec::new(), Some(absent)),
        };
        check_subnets(&blocks, config)?;
        let (peers, at) = (metrics::peers(samplers), loaded.assignments.at);
        Ok(Self {
            cables: Arc::new(cables(samplers)),
            blocks,
            sha256: Some(loaded.sha256),
            peers,
            absent,
            at,
            published: None,
        })
    }

    pub(super) fn published(&self) -> Option<&ReceivedPlan> {
        self.published.as_ref()
    }

    /// Writes a published plan that is in use to the copy on the disk.
    pub(super) fn keep_copy(&self) {
        if let Some(plan) = &self.published {
            plan.keep_copy();
        }
    }

    /// Returns an error if the plan does not contain this sampler.
    pub(super) fn present(self) -> Result<Self, Failure> {
        match self.absent {
            Some(absent) => Err(absent.into()),
            None => Ok(self),
        }
    }

    /// Returns the blocks of the assignments file.
    pub(super) fn blocks(&self) -> &[Sampler] {
        &self.blocks
    }

    /// Returns the names of the samplers, each once, in the order of the blocks.
    pub(super) fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for block in &self.blocks {
            if !hosts.contains(&block.host.as_str()) {
                hosts.push(&block.host);
            }
        }
        hosts
    }

    /// Returns the SHA-256 of the assignments file.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    /// Returns the cables of the whole plan.
    pub(super) fn cables(&self) -> &Arc<Cables> {
        &self.cables
    }

    /// Divides the work, in the order of blocks and HCA ports.
    ///
    /// The HCA ports of the configuration take precedence over those of the assignments file.
    pub(super) fn shares(&self, config: &Config) -> Vec<Share> {
        let share = |block, ca: &HcaName| Share::new(block, ca.clone(), Arc::clone(&self.cables));
        let of_block = |block: &Sampler| match &config.cas[..] {
            [] => vec![share(
                block.clone(),
                &HcaName {
                    ca: block.ca.clone(),
                    port: block.ca_port,
                },
            )],
            [one] => vec![share(block.clone(), one)],
            // An HCA port without devices gets no worker, but a block without ports keeps the
            // worker of the first HCA port.
            many => {
                let parts = block.divided(many.len()).into_iter().zip(many).enumerate();
                let busy = parts.filter(|(place, (part, _))| *place == 0 || part.port_count > 0);
                busy.map(|(_, (part, ca))| share(part, ca)).collect()
            }
        };
        self.blocks.iter().flat_map(of_block).collect()
    }

    /// Returns the settings of a worker's driver. The name and port of the HCA are set later.
    pub(super) fn settings(&self, share: &Share, config: &Config) -> DriverSettings {
        let is_secondary = share.block.is_secondary();
        DriverSettings {
            sampler: share.block.host.clone(),
            ca: String::new(),
            ca_port: PortNum(0),
            is_secondary,
            interval: config.interval,
            offset: config.interval.mul_f64(share.block.offset.unwrap_or(0.0)),
            aligned: true,
            sweeps: None,
            assignments_sha256: self.sha256.clone(),
            engine: if is_secondary {
                config.engine.of_secondary()
            } else {
                config.engine.clone()
            },
        }
    }
}

/// Discovers the fabric of an HCA port, or of the first one of the configuration if the port has no
/// name. Returns a net file.
fn discovered(hca: HcaName, config: &Config) -> Result<Vec<u8>, Failure> {
    let hca = match (hca.ca.is_some(), config.cas.first()) {
        (false, Some(first)) => first.clone(),
        _ => hca,
    };
    let bar = Progress::new(0, "requests");
    let found = discovery::discover_from(&hca, cli::random_seed(), |(done, needed)| {
        bar.set_of(done, needed);
    });
    bar.finish();
    let found = found?.checked()?;
    for note in &found.notes {
        tracing::warn!(missing = %Printable(note), "the discovery of the fabric is incomplete, so some ports are not swept");
    }
    let ports = found.net_file.lines().count();
    tracing::info!(ports, mads = found.mads, "the fabric was discovered");
    Ok(found.net_file.into_bytes())
}

/// Returns the name of the host that has one of these GUIDs. The fabric can have another name for
/// this host than the host itself; by this name, the distances of the devices are found.
fn name_in(fabric: &Fabric, guids: &[Guid]) -> Option<String> {
    let mut devices = fabric.iter().map(|(_, device)| device);
    let here = devices.find(|device| guids.contains(&device.guid));
    here.map(|device| device.host().to_owned())
}

/// Returns the GUIDs of all HCA ports of this host.
#[cfg(feature = "umad")]
fn local_guids() -> Vec<Guid> {
    let ports = ports::list().unwrap_or_default().into_iter();
    ports.map(|port| port.gid.guid).collect()
}

#[cfg(not(feature = "umad"))]
fn local_guids() -> Vec<Guid> {
    Vec::new()
}

/// Returns an error if HCA ports are configured, but the blocks belong to several subnets,
/// because an HCA port reaches only one subnet.
fn check_subnets(blocks: &[Sampler], config: &Config) -> Result<(), Failure> {
    let is_one_subnet = blocks.iter().all(|block| block.subnet == blocks[0].subnet);
    if config.cas.is_empty() || is_one_subnet {
        return Ok(());
    }
    let name = |block: &Sampler| {
        format!(
            "{}@{}",
            block.host,
            block.subnet.as_deref().unwrap_or_default()
        )
    };
    Err(Failure::SeveralSubnets {
        known: blocks.iter().map(name).collect::<Vec<_>>().join(", "),
    })
}

/// Reads a net file, and logs how many lines of each kind are faulty.
pub(super) fn read_net(path: &Path) -> Result<NetFile, NetFileError> {
    let net = net_file::read(path)?;
    log_faulty_lines(&net, path);
    Ok(net)
}

fn log_faulty_lines(net: &NetFile, path: &Path) {
    let name = path.display().to_string();
    let mut counts = std::collections::BTreeMap::new();
    for remark in &net.remarks {
        *counts.entry(remark.kind).or_insert(0) += 1;
        tracing::debug!(file = %Printable(&name), remark = %Printable(&remark.to_string()), "faulty line in the net file");
    }
    for (kind, lines) in counts {
        tracing::warn!(file = %Printable(&name), fault = kind.as_str(), lines, "skipping faulty lines of the net file; RUST_LOG=ibnet=debug lists them");
    }
}

/// Finds an HCA port, and the index of the configured P_Key in its table.
#[cfg(feature = "umad")]
pub(super) fn hca_port(config: &Config, ca: &HcaName) -> Result<(HcaPort, u16), Failure> {
    let port = ports::find(ca)?;
    if config.pkey & 0x8000 == 0 {
        tracing::warn!(
            pkey = format!("{:#06x}", config.pkey),
            "this P_Key is that of a limited member, so only full members of the partition answer"
        );
    }
    if port.sm_lid.0 == 0 {
        tracing::warn!(%port, "this port has no subnet manager, so MADs may not reach their devices; check that the subnet manager runs");
    }
    let pkey_index = port.pkey_index(config.pkey)?;
    Ok((port, pkey_index))
}

/// Returns a function that opens the same port again. The function returns an error while the
/// port is not active or lacks the P_Key.
#[cfg(feature = "umad")]
pub(super) fn reopen(
    port: HcaPort,
    pkey: u16,
) -> impl Fn() -> Result<Opened<UmadTransport>, OpenError> + Clone + Send + 'static {
    let others = ports::other_guids(&port);
    move || {
        let port = ports::find_again(&port, &others)?;
        let (pkey_index, transport) = (port.pkey_index(pkey)?, UmadTransport::open(&port)?);
        Ok(Opened {
            transport,
            hca: Some((port.ca, port.port)),
            pkey_index,
            pkey_table: port.pkeys,
        })
    }
}

/// Returns a function that opens a port, with its own device, for the reports of the subnet
/// manager. The function returns an error while the port is not active, or while another program
/// receives them.
#[cfg(feature = "umad")]
pub(super) fn open_for_reports(
    port: HcaPort,
    pkey: u16,
) -> impl FnMut() -> Result<Opened<UmadTransport>, OpenError> + Send + 'static {
    let others = ports::other_guids(&port);
    move || {
        let port = ports::find_again(&port, &others)?;
        let (pkey_index, transport) = (
            port.pkey_index(pkey)?,
            UmadTransport::open_for_reports(&port)?,
        );
        Ok(Opened {
            transport,
            hca: None,
            pkey_index,
            pkey_table: Vec::new(),
        })
    }
}

/// Watches for umad devices, and raises `wake` at each change.
#[cfg(feature = "umad")]
pub(super) fn watch_devices(wake: &Arc<Wake>) -> io::Result<Changes> {
    let changed = Arc::new(AtomicBool::new(false));
    let (seen, wake) = (Arc::clone(&changed), Arc::clone(wake));
    let watch = DeviceWatch::start(move || {
        seen.store(true, Ordering::Release);
        wake.raise();
    })?;
    Ok(Box::new(move || {
        let _watch = &watch;
        changed.swap(false, Ordering::AcqRel)
    }))
}
