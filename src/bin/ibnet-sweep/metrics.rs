//! Metrics, if the configuration wants them: who is at the other ends of links, and a clock for what serves them.

use std::sync::Arc;
use std::time::Instant;

use ibnet::assignments::Sampler;
use ibnet::config::Config;
use ibnet::metrics::{Metrics, Peers, Server};

use super::Failure;

/// Serves metrics from now on, or does nothing.
#[expect(clippy::disallowed_methods, reason = "the library is told the time")]
pub(super) fn serve(config: &Config, peers: Peers) -> Result<Option<Arc<Metrics>>, Failure> {
    let Some(settings) = &config.metrics else { return Ok(None) };
    let server = Server::bind(settings)?;
    let started = Instant::now();
    let metrics = Metrics::new(peers, move || started.elapsed());
    server.start(Arc::clone(&metrics))?;
    Ok(Some(metrics))
}

/// What all samplers together say of every device: those of others are at the other ends of our links.
pub(super) fn peers(samplers: &[Sampler]) -> Peers {
    let devices = || samplers.iter().flat_map(|sampler| &sampler.devices);
    let ends = devices().flat_map(|device| &device.ports).filter_map(|port| port.peer.as_ref());
    let mut peers: Peers = ends.map(|peer| (peer.guid, (None, peer.lid))).collect();
    peers.extend(devices().map(|device| (device.guid, (Some(device.kind), device.lid))));
    peers
}
