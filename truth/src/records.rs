//! The records that a sampler would write: counters of the model, read once in each slot.
//!
//! As a real sampler, it reads the devices one after another, in the first tenth of a slot, so the
//! readings of two ports are of different times. A reading can be lost.

use std::borrow::Cow;
use std::io::{self, Write};

use fastrand::Rng;
use ibnet_record::port::{PortFields, WriteCounters};
use ibnet_record::types::{Lid, PortNum};
use serde::ser::SerializeMap;

use crate::fabric::Fabric;
use crate::network::{Network, PACKET, Totals};

/// Packets that a link can send in a second. One packet of the model stands for many of a real
/// fabric.
pub const PACKETS_PER_SECOND: u64 = 2000;

/// Ticks of a second.
pub const SECOND: u64 = PACKETS_PER_SECOND * PACKET;

/// Nanoseconds of a tick.
const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / SECOND;

/// Start of the recording with seed 0: 2026-01-01 00:00 UTC, in seconds since 1970.
const EPOCH: u64 = 1_767_225_600;

/// Seconds between the starts of recordings with consecutive seeds. They do not overlap, so that
/// recordings with several seeds can be read together.
const APART: u64 = 60;

/// Data rate of the links, 4xEDR, in 10^9 bit/s.
const LINK_GBPS: f64 = 100.0;

/// Bytes of a packet.
const PACKET_BYTES: u64 = (LINK_GBPS * 1e9 / 8.0) as u64 / PACKETS_PER_SECOND;

/// Share of a slot in which the devices are read.
const SWEEP: f64 = 0.1;

/// Counters of a port, by the names of the records.
struct Counters([(&'static str, u64); 3]);

impl WriteCounters for Counters {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0
            .iter()
            .try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

/// Reads the ports and writes their records.
pub struct Sampler<W> {
    output: W,
    /// Length of a slot in ticks.
    slot: u64,
    /// Share of the readings that are lost.
    loss: f64,
    seed: u64,
    random: Rng,
    /// Time and values of the last reading of each port.
    last: Vec<Option<(u64, Totals)>>,
}

/// Returns the time of a tick of the recording with this seed, in nanoseconds since 1970.
pub fn time_of(tick: u64, seed: u64) -> u64 {
    nanoseconds(start(seed) * SECOND + tick)
}

/// Returns the start of the recording with this seed, in seconds since 1970.
pub const fn start(seed: u64) -> u64 {
    EPOCH + seed % 1_000_000 * APART
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks * NANOSECONDS_PER_TICK
}

impl<W: Write> Sampler<W> {
    /// Prepares a sampler for slots of this number of ticks.
    pub fn new(output: W, fabric: &Fabric, slot: u64, loss: f64, seed: u64) -> Self {
        let last = vec![None; fabric.ports.len()];
        Self {
            output,
            slot,
            loss,
            seed,
            random: Rng::with_seed(seed),
            last,
        }
    }

    /// Returns the times of the readings in a slot that begins at this tick, each with its device.
    pub fn plan(&mut self, begin: u64, fabric: &Fabric) -> Vec<(u64, usize)> {
        let length = (self.slot as f64 * SWEEP) as u64;
        let times = (0..fabric.nodes.len()).map(|node| (begin + self.random.u64(0..length), node));
        times.collect()
    }

    /// Reads all ports of a device.
    ///
    /// # Errors
    /// Returns the errors of the output.
    pub fn read(&mut self, node: usize, fabric: &Fabric, network: &Network<'_>) -> io::Result<()> {
        let at = &fabric.nodes[node];
        (at.first..at.first + at.len)
            .filter(|port| fabric.ports[*port].peer != *port)
            .try_for_each(|port| self.read_port(port, fabric, network))
    }

    fn read_port(&mut self, port: usize, fabric: &Fabric, network: &Network<'_>) -> io::Result<()> {
        let now = network.now();
        let at = &fabric.nodes[fabric.ports[port].node];
        let peer = fabric.ports[port].peer;
        let other = &fabric.nodes[fabric.ports[peer].node];
        let number =
            |port: usize| PortNum(u8::try_from(fabric.index_at_node(port) + 1).unwrap_or(u8::MAX));
        let is_lost = self.random.f64() < self.loss;
        let totals = network.totals(port);
        let counters = Counters([
            ("port_xmit_data_bytes", totals.sent * PACKET_BYTES),
            ("port_rcv_data_bytes", totals.received * PACKET_BYTES),
            ("port_xmit_wait_ticks", totals.waited),
        ]);
        let empty = Counters([("port_xmit_data_bytes", 0); 3]);
        let mut record = PortFields::<Cow<'_, str>, _>::without_values(empty);
        record.ts = time_of(now, self.seed);
        record.slot = (start(self.seed) * SECOND + now) / self.slot;
        record.sampler = "model".into();
        (record.guid, record.port, record.node) = (at.guid, number(port), at.name.as_str().into());
        record.lid = Lid(u16::try_from(fabric.ports[port].node + 1).unwrap_or(u16::MAX));
        record.kind = Some(at.kind);
        (record.peer_guid, record.peer_port) = (Some(other.guid), Some(number(peer)));
        record.peer = Some(other.name.as_str().into());
        (record.link, record.link_source) = ("4xEDR".into(), "live".into());
        (record.identity, record.mads) = ("ok".into(), 1);
        record.status = if is_lost { "timeout" } else { "ok" }.into();
        if !is_lost {
            if let Some((then, before)) = self.last[port] {
                let ticks = now - then;
                let share = |packets: u64| packets as f64 * PACKET as f64 / ticks as f64;
                let (sent, received) = (
                    share(totals.sent - before.sent),
                    share(totals.received - before.received),
                );
                record.dt_ns = Some(nanoseconds(ticks));
                // Samplers write six decimals, and an archive has no more.
                let rounded = |value: f64| Some((value * 1e6).round() / 1e6);
                let rates = |share| (rounded(share * LINK_GBPS), rounded(share));
                (record.xmit_gbps, record.xmit_utilization) = rates(sent);
                (record.rcv_gbps, record.rcv_utilization) = rates(received);
                let waited = (totals.waited - before.waited) as f64;
                record.xmit_blocked = rounded(waited / ticks as f64);
            }
            record.counters = counters;
            self.last[port] = Some((now, totals));
        }
        serde_json::to_writer(&mut self.output, &record)?;
        self.output.write_all(b"\n")
    }
}
