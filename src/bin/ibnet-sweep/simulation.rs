//! The simulated fabric of a configuration: traffic, dead devices and loss.

use std::sync::{Arc, Mutex};

use ibnet::config::{Config, Simulation};
use ibnet::mad::transport::sim::SimFabric;
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::time::Instant;
use ibnet::topology::Fabric;
use ibnet_record::types::{HcaName, PortNum, Printable};

use super::failure::Failure;
use super::workers::read_net;

/// A simulated fabric that several workers share.
pub(super) type SharedFabric = Arc<Mutex<SimFabric>>;

/// Builds the simulated fabric of a configuration. Returns `None` if the sweep uses a real one.
pub(super) fn build(config: &Config) -> Result<Option<SharedFabric>, Failure> {
    let Some(simulation) = &config.simulation else {
        return Ok(None);
    };
    let fabric = read_net(&simulation.net)?.fabric;
    let traffic = traffic(&fabric, simulation)?;
    let mut simulated = SimFabric::with_traffic(fabric, simulation.options(), traffic);
    let net = || simulation.net.display().to_string();
    let dead = simulation
        .dead_devices(simulated.fabric())
        .map_err(|name| Failure::NoSuchDevice { name, net: net() })?;
    dead.into_iter().for_each(|id| simulated.set_dead(id, true));
    if simulation.links_down > 0 {
        let start = Instant::ZERO + simulation.start;
        simulated.cut_links(simulation.links_down, start, start + simulation.length);
    }
    Ok(Some(Arc::new(Mutex::new(simulated))))
}

/// Returns the traffic of the scenario, and logs when it takes place.
fn traffic(fabric: &Fabric, simulation: &Simulation) -> Result<Traffic, Failure> {
    let (incast, storms) = (simulation.incast(fabric), simulation.storms(fabric));
    if let Some(incast) = &incast {
        tracing::info!(
            senders = incast.from.len(),
            server = %Printable(fabric.device(incast.to).host()),
            start = %humantime::format_duration(simulation.start),
            length = %humantime::format_duration(simulation.length),
            "simulating an incast: several hosts send to one server"
        );
    }
    for storm in storms.iter().flatten() {
        tracing::info!(
            kind = ?storm.kind,
            flows = storm.pairs.len(),
            start = %humantime::format_duration(storm.start.saturating_since(Instant::ZERO)),
            length = %humantime::format_duration(storm.length),
            "simulating a storm of traffic between hosts"
        );
    }
    let too_small = || Failure::FabricTooSmall {
        scenario: simulation.scenario.as_str(),
        net: simulation.net.display().to_string(),
    };
    simulation
        .traffic(fabric, incast.as_ref(), storms.as_deref())
        .ok_or_else(too_small)
}

/// Returns the name of an HCA port of the simulated fabric in the records: the configured name,
/// or else `sim` with port 1.
pub(super) fn hca_name(ca: &HcaName) -> (String, PortNum) {
    (
        ca.ca.clone().unwrap_or_else(|| "sim".to_owned()),
        ca.port.unwrap_or(PortNum(1)),
    )
}
