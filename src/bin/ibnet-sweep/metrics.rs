//! Starts the metrics server if it is configured.

use std::sync::Arc;
use std::time::Instant;

use ibnet::assignments::Sampler;
use ibnet::config::Config;
use ibnet::metrics::{Metrics, Peers, Server};

use super::failure::Failure;

/// Starts the metrics server. Returns `None` if none is configured.
#[expect(
    clippy::disallowed_methods,
    reason = "programs read clocks; the library gets the time as an argument"
)]
pub(super) fn serve(config: &Config, peers: Peers) -> Result<Option<Arc<Metrics>>, Failure> {
    let Some(settings) = &config.metrics else {
        return Ok(None);
    };
    let server = Server::bind(settings)?;
    let started = Instant::now();
    let metrics = Metrics::new(peers, settings.content.clone(), move || started.elapsed());
    server.start(Arc::clone(&metrics))?;
    Ok(Some(metrics))
}

/// Returns kind and LID of all devices of the plan, and the LIDs of their peers.
pub(super) fn peers(samplers: &[Sampler]) -> Peers {
    let devices = || samplers.iter().flat_map(|sampler| &sampler.devices);
    let ends = devices()
        .flat_map(|device| &device.ports)
        .filter_map(|port| port.peer.as_ref());
    let mut peers: Peers = ends.map(|peer| (peer.guid, (None, peer.lid))).collect();
    peers.extend(devices().map(|device| (device.guid, (Some(device.kind), device.lid))));
    peers
}
