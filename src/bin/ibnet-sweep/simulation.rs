//! The simulated fabric of a configuration: traffic, dead devices and loss.

use std::sync::{Arc, Mutex};

use ibnet::config::{Config, Scenario, Simulation, WideCounters};
use ibnet::mad::transport::sim::storms::{StormHosts, StormKind, StormOrder};
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::mad::transport::sim::{self, SimFabric};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric};
use ibnet::types::{HcaName, PortNum, Printable};

use super::failure::Failure;
use super::workers::read_net;

/// Largest number of senders of the scenario `incast`.
const INCAST_SENDERS: usize = 32;

/// A simulated fabric that several workers share.
pub(super) type SharedFabric = Arc<Mutex<SimFabric>>;

/// Builds the simulated fabric of a configuration. Returns `None` if the fabric is a real one.
pub(super) fn build(config: &Config) -> Result<Option<SharedFabric>, Failure> {
    let Some(simulation) = &config.simulation else { return Ok(None) };
    let net = simulation.net.display().to_string();
    let fabric = read_net(&simulation.net)?.fabric;
    let options = sim::Options {
        loss: simulation.loss,
        wide_switches: simulation.wide_counters != WideCounters::None,
        wide_adapters: simulation.wide_counters == WideCounters::All,
        seed: simulation.seed,
        ..sim::Options::default()
    };
    let traffic = traffic(&fabric, simulation)?;
    let mut simulated = SimFabric::with_traffic(fabric, options, traffic);
    for name in &simulation.dead {
        let found = devices_with_name(simulated.fabric(), name);
        if found.is_empty() {
            return Err(Failure::NoSuchDevice { name: name.clone(), net });
        }
        found.into_iter().for_each(|id| simulated.set_dead(id, true));
    }
    Ok(Some(Arc::new(Mutex::new(simulated))))
}

/// Returns the traffic of the scenario.
fn traffic(fabric: &Fabric, simulation: &Simulation) -> Result<Traffic, Failure> {
    let too_small = || Failure::FabricTooSmall { scenario: simulation.scenario.as_str(), net: simulation.net.display().to_string() };
    let start = Instant::ZERO + simulation.start;
    let storms = |order: StormOrder| {
        let storms = order.storms(fabric, start, simulation.length).ok_or_else(too_small)?;
        for storm in &storms {
            tracing::info!(
                kind = ?storm.kind,
                flows = storm.pairs.len(),
                start = %humantime::format_duration(storm.start.saturating_since(Instant::ZERO)),
                length = %humantime::format_duration(storm.length),
                "simulated storm"
            );
        }
        Ok(StormHosts::with_traffic(fabric, simulation.seed, &storms).1)
    };
    match simulation.scenario {
        Scenario::IpoibFlood => storms(StormOrder::Only(StormKind::IpoibFlood)),
        Scenario::NfsStorm => storms(StormOrder::Only(StormKind::NfsStorm)),
        Scenario::Storms => storms(StormOrder::FloodThenStorm),
        Scenario::Jobs => Ok(Traffic::jobs(fabric, simulation.seed)),
        Scenario::Incast => {
            // A small fabric has fewer hosts, so the number of senders is halved until it fits.
            let senders = std::iter::successors(Some(INCAST_SENDERS), |senders| Some(senders / 2)).take_while(|senders| *senders > 1);
            let incast = senders
                .filter_map(|senders| Incast::onto_last_server(fabric, senders, start, simulation.length))
                .next()
                .ok_or_else(too_small)?;
            tracing::info!(
                senders = incast.from.len(),
                server = %Printable(fabric.device(incast.to).host()),
                start = %humantime::format_duration(simulation.start),
                length = %humantime::format_duration(simulation.length),
                "simulated incast"
            );
            Ok(Traffic::incast(fabric, simulation.seed, &incast))
        }
    }
}

/// Finds devices by their node description or its first word.
fn devices_with_name(fabric: &Fabric, name: &str) -> Vec<DeviceId> {
    fabric.iter().filter(|(_, device)| device.name == name || device.host() == name).map(|(id, _)| id).collect()
}

/// Returns the name that an HCA port of the simulated fabric has in the records. It is the
/// configured name, or else `sim` with port 1.
pub(super) fn hca_name(ca: &HcaName) -> (String, PortNum) {
    (ca.ca.clone().unwrap_or_else(|| "sim".to_owned()), ca.port.unwrap_or(PortNum(1)))
}
