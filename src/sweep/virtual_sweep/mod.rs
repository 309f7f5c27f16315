//! Sweeps in virtual (simulated) time: runs the loop of the driver on a simulated fabric, without
//! waiting.
//!
//! The time jumps from one completion or timeout of a MAD to the next, so a test can run one hour
//! of a large fabric. Two runs with the same fabric, options and seed are identical.
//!
//! [`VirtualSweep`] runs slots without records. A [`Driver`](super::driver::Driver) with a
//! [`VirtualClock`] and a [`VirtualTransport`] also writes records.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::driver::{Clock, EngineLoop, Parts};
use super::engine::{Config, DevicePlan, Engine, Event};
use super::routes::{Cables, Routes};
use crate::mad::exchange::Local;
use crate::mad::transport::sim::SimFabric;
use crate::mad::transport::sim::faults::Faults;
use crate::mad::transport::{Transport, TransportError};
use crate::time::Instant;
use crate::topology::Fabric;

mod clock;
mod transport;

pub use clock::{Pause, VirtualClock};
pub use transport::VirtualTransport;

/// Max duration of the discovery.
const DISCOVERY: Duration = Duration::from_secs(10);

/// An engine with a transport in virtual time. The default transport is the simulated fabric.
#[derive(Debug)]
pub struct VirtualSweep<T = VirtualTransport> {
    /// The engine. Its samples are those of the last slot.
    pub engine: Engine,
    transport: T,
    clock: VirtualClock,
}

/// Returns a plan in which one sampler has all linked ports of a fabric.
pub fn all_linked_ports(fabric: &Fabric) -> Vec<DevicePlan> {
    let addressed = fabric
        .devices()
        .iter()
        .filter(|device| device.lid.is_unicast() && device.linked_ports() > 0);
    addressed
        .map(|device| {
            let ports = device.linked().map(|(port, _)| port.num).collect();
            DevicePlan {
                guid: device.guid,
                lid: device.lid,
                kind: device.kind,
                ports,
            }
        })
        .collect()
}

/// Returns the cables of a fabric.
fn cables(fabric: &Fabric) -> Cables {
    let devices = fabric.devices().iter();
    let cables = devices.clone().flat_map(|device| {
        let linked = device.linked();
        linked.map(|(port, peer)| ((device.guid, port.num), (peer.guid, peer.port)))
    });
    Cables::new(
        devices.map(|device| (device.guid, device.lid, device.kind)),
        cables,
    )
}

impl VirtualSweep {
    /// Creates a sampler of these devices at time zero.
    pub fn new(
        fabric: Arc<Mutex<SimFabric>>,
        plan: &[DevicePlan],
        config: Config,
        seed: u64,
    ) -> Self {
        let clock = VirtualClock::default();
        let cables = cables(
            fabric
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fabric(),
        );
        let transport = VirtualTransport::new(fabric, clock.clone(), seed);
        let local = transport.local();
        let mut sweep = Self::with_transport(transport, clock, plan, config, seed);
        sweep.engine.set_routes(Routes::new(Arc::new(cables)));
        sweep.engine.set_local(local);
        sweep
    }

    /// Returns the location of the sender on its subnet.
    pub fn local(&self) -> Local {
        self.transport.local()
    }

    /// Returns the faults of replies. The caller can change them between slots.
    pub fn faults_mut(&mut self) -> &mut Faults {
        self.transport.faults_mut()
    }
}

impl<T: Transport> VirtualSweep<T> {
    /// Creates a sampler with this transport, which must move this clock in
    /// [`recv`](Transport::recv).
    pub fn with_transport(
        transport: T,
        clock: VirtualClock,
        plan: &[DevicePlan],
        config: Config,
        seed: u64,
    ) -> Self {
        Self {
            engine: Engine::new(plan, config, seed),
            transport,
            clock,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Pauses the host when the clock reaches the start of the pause.
    pub fn pause(&mut self, pause: Pause) {
        self.clock.pause(pause);
    }

    /// Waits until this instant, or longer if the host pauses.
    pub fn wait_until(&mut self, instant: Instant) {
        self.clock.advance_to(instant);
    }

    /// Discovers all devices, and returns the events.
    pub fn discover(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        Running {
            sweep: self,
            on_event: |event| events.push(event),
        }
        .run_discovery(DISCOVERY);
        events
    }

    /// Runs a slot that starts now, waits for the start of the next slot, and returns the events.
    pub fn slot(&mut self, interval: Duration) -> Vec<Event> {
        let start = self.now();
        let events = self.slot_since(start, interval);
        self.wait_until(start + interval);
        events
    }

    /// Runs a slot that started at `start`, and returns the events. `start` may be in the past.
    pub fn slot_since(&mut self, start: Instant, interval: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        self.run_slot(start, interval, |event| events.push(event));
        events
    }

    /// Runs a slot and hands each event to a function. Allocates nothing.
    pub fn run_slot(&mut self, start: Instant, interval: Duration, on_event: impl FnMut(Event)) {
        EngineLoop::run_slot(
            &mut Running {
                sweep: self,
                on_event,
            },
            start,
            interval,
        );
    }
}

/// A sweep in its loop.
struct Running<'a, T, F> {
    sweep: &'a mut VirtualSweep<T>,
    on_event: F,
}

impl<T: Transport, F: FnMut(Event)> EngineLoop for Running<'_, T, F> {
    type Transport = T;
    type Clock = VirtualClock;

    fn parts(&mut self) -> Parts<'_, T, VirtualClock> {
        let VirtualSweep {
            engine,
            transport,
            clock,
        } = &mut *self.sweep;
        Parts {
            engine,
            transport,
            clock,
        }
    }

    fn on_event(&mut self, event: Event) {
        (self.on_event)(event);
    }

    fn on_send_error(&mut self, _error: TransportError) {}

    fn on_transport_lost(&mut self, error: TransportError) {
        let now = self.sweep.now();
        self.sweep.engine.transport_lost(error.errno(), now);
    }
}
