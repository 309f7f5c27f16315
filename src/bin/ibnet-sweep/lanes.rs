//! What is swept, and by which ways: a lane is a share of the ports, the HCA port that asks them, and an engine on a thread of its own.
//!
//! A sampler mostly has one lane. It has more where the assignments file has several blocks of its host (rails, or a secondary role), and where several
//! HCA ports are configured: those divide the devices of a block among them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ibnet::assignments::{Assignments, Sampler};
use ibnet::cli;
use ibnet::config::{Config, Plan as Source};
use ibnet::mad::transport::sim::{self, SimFabric};
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::{HcaPort, UmadTransport, ports};
use ibnet::metrics::Peers;
use ibnet::sweep::driver::DriverSettings;
#[cfg(feature = "umad")]
use ibnet::sweep::driver::{OpenError, Opened};
use ibnet::topology::{DeviceId, NetFile, NetFileError, net_file};
use ibnet::types::{HcaName, PortNum, Printable};

use super::{Failure, metrics};

/// What is to be swept by this host.
pub(super) struct Work {
    /// Its blocks of the assignments file; all of a net file is one.
    blocks: Vec<Sampler>,
    sha256: Option<String>,
    /// What is known of the other ends of links.
    pub(super) peers: Peers,
}

/// A share of the ports, and who asks them.
#[derive(Clone, PartialEq)]
pub(super) struct Lane {
    pub(super) share: Sampler,
    pub(super) ca: HcaName,
}

impl Work {
    pub(super) fn load(config: &Config) -> Result<Self, Failure> {
        let host = config.sampler.clone().unwrap_or_else(cli::short_host_name);
        match &config.plan {
            Source::Assignments(path) => {
                let loaded = Assignments::read(path)?;
                let blocks: Vec<_> = loaded.assignments.of_host(&host)?.into_iter().cloned().collect();
                refuse_one_for_all(&blocks, config)?;
                let peers = metrics::peers(&loaded.assignments.samplers);
                Ok(Self { blocks, sha256: Some(loaded.sha256), peers })
            }
            Source::Net(path) => {
                let net = read_net(path)?;
                let (sampler, left_out) = Sampler::everything(&net.fabric, &host);
                if !left_out.is_empty() {
                    tracing::info!(devices = left_out.len(), "left out: routers, aggregation nodes, devices without a LID");
                }
                let source_name = path.display().to_string();
                if sampler.port_count == 0 {
                    return Err(Failure::NothingLinked { source_name });
                }
                let peers = metrics::peers(std::slice::from_ref(&sampler));
                Ok(Self { blocks: vec![sampler], sha256: None, peers })
            }
        }
    }

    /// The blocks of this host.
    pub(super) fn blocks(&self) -> &[Sampler] {
        &self.blocks
    }

    /// The SHA-256 of the assignments file.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    /// The lanes, in the order of blocks and HCA ports. What the configuration says of HCAs comes before what the assignments file says.
    pub(super) fn lanes(&self, config: &Config) -> Vec<Lane> {
        let lane = |share, ca: &HcaName| Lane { share, ca: ca.clone() };
        let of_block = |block: &Sampler| match &config.cas[..] {
            [] => vec![lane(block.clone(), &HcaName { ca: block.ca.clone(), port: block.ca_port })],
            [one] => vec![lane(block.clone(), one)],
            // An HCA port without a device has nothing to do; but who has no port at all waits for one.
            many => {
                let shares = block.divided(many.len()).into_iter().zip(many).enumerate();
                let busy = shares.filter(|(place, (share, _))| *place == 0 || share.port_count > 0);
                busy.map(|(_, (share, ca))| lane(share, ca)).collect()
            }
        };
        self.blocks.iter().flat_map(of_block).collect()
    }

    /// What the driver of a lane is told, but for what its HCA port tells.
    pub(super) fn settings(&self, lane: &Lane, config: &Config) -> DriverSettings {
        DriverSettings {
            sampler: lane.share.host.clone(),
            ca: String::new(),
            ca_port: PortNum(0),
            is_secondary: lane.share.is_secondary(),
            interval: config.interval,
            offset: config.interval.mul_f64(lane.share.offset.unwrap_or(0.0)),
            aligned: true,
            sweeps: None,
            assignments_sha256: self.sha256.clone(),
            engine: config.engine.clone(),
        }
    }
}

/// Refuses HCAs that are configured for blocks of several subnets: no HCA port reaches more than one.
fn refuse_one_for_all(blocks: &[Sampler], config: &Config) -> Result<(), Failure> {
    if config.cas.is_empty() || blocks.iter().all(|block| block.subnet == blocks[0].subnet) {
        return Ok(());
    }
    let name = |block: &Sampler| format!("{}@{}", block.host, block.subnet.as_deref().unwrap_or_default());
    Err(Failure::SeveralSubnets { known: blocks.iter().map(name).collect::<Vec<_>>().join(", ") })
}

/// Reads a net file; what a person should know of it goes to the log.
fn read_net(path: &Path) -> Result<NetFile, NetFileError> {
    let net = net_file::read(path)?;
    let name = path.display().to_string();
    let mut counts = std::collections::BTreeMap::new();
    for remark in &net.remarks {
        *counts.entry(remark.kind).or_insert(0) += 1;
        tracing::debug!("{}: {}", Printable(&name), Printable(&remark.to_string()));
    }
    for (kind, lines) in counts {
        tracing::warn!(lines, "{}: {} (RUST_LOG=ibnet=debug names them)", Printable(&name), kind.as_str());
    }
    Ok(net)
}

/// The simulated fabric of a configuration, if it has one.
pub(super) fn simulated(config: &Config) -> Result<Option<Arc<Mutex<SimFabric>>>, Failure> {
    let Some(path) = &config.simulate else { return Ok(None) };
    let net = read_net(path)?;
    let options = sim::Options { loss: config.simulated.loss, seed: config.simulated.seed, ..sim::Options::default() };
    let mut fabric = SimFabric::new(net.fabric, options);
    for name in &config.simulated.dead {
        let named: Vec<DeviceId> =
            fabric.fabric().iter().filter(|(_, device)| device.name == *name || device.host() == name).map(|(id, _)| id).collect();
        if named.is_empty() {
            return Err(Failure::NoSuchDevice { name: name.clone(), net: path.display().to_string() });
        }
        named.into_iter().for_each(|id| fabric.set_dead(id, true));
    }
    Ok(Some(Arc::new(Mutex::new(fabric))))
}

/// What an HCA port of the simulated fabric is called: as it was asked for.
pub(super) fn simulated_name(ca: &HcaName) -> (String, PortNum) {
    (ca.ca.clone().unwrap_or_else(|| "sim".to_owned()), ca.port.unwrap_or(PortNum(1)))
}

/// Finds an HCA port, and the place of our P_Key in its table.
#[cfg(feature = "umad")]
pub(super) fn hca_port(config: &Config, ca: &HcaName) -> Result<(HcaPort, u16), Failure> {
    let port = ports::find(ca)?;
    if config.pkey & 0x8000 == 0 {
        tracing::warn!(pkey = format!("{:#06x}", config.pkey), "this is a limited member's P_Key: only full members answer it");
    }
    if port.sm_lid.0 == 0 {
        tracing::warn!(%port, "no subnet manager is known here; LIDs may not lead anywhere");
    }
    let pkey_index = port.pkey_index(config.pkey)?;
    Ok((port, pkey_index))
}

/// Opens the same port again, once it is active and has our P_Key.
#[cfg(feature = "umad")]
pub(super) fn reopen(port: HcaPort, pkey: u16) -> impl Fn() -> Result<Opened<UmadTransport>, OpenError> + Clone + Send + 'static {
    let name = HcaName { ca: Some(port.ca), port: Some(port.port) };
    move || {
        let port = ports::find(&name)?;
        Ok(Opened { pkey_index: port.pkey_index(pkey)?, pkey_table: port.pkeys.clone(), transport: UmadTransport::open(&port)? })
    }
}
