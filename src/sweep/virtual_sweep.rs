//! A sweep in virtual time: the engine on the simulated fabric, without a clock and without waiting.
//!
//! Time jumps from one completion or timeout to the next, so an hour of a large fabric is a test. Same fabric, same options, same seed:
//! the same run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::engine::{Config, DevicePlan, Engine, Event};
use crate::mad::MAD_LEN;
use crate::mad::exchange::Local;
use crate::mad::transport::sim::faults::{Faults, Faulty};
use crate::mad::transport::sim::{Client, SimFabric};
use crate::time::Instant;
use crate::topology::Fabric;

/// An engine and its way to the simulated fabric, at an instant.
#[derive(Debug)]
pub struct Rehearsal {
    /// The engine; its samples are those of the last slot.
    pub engine: Engine,
    client: Faulty,
    now: Instant,
    pause: Option<Pause>,
}

/// The host stands still: nothing is sent, read or expired, and then everything is there at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Since when.
    pub from: Instant,
    /// For how long by the monotonic clock, which may stand still too.
    pub time: Duration,
    /// Whether all replies get lost that were on their way, as when the host was suspended.
    pub lossy: bool,
}

/// The devices of a fabric with all of their linked ports, as one sampler would sweep them.
pub fn whole(fabric: &Fabric) -> Vec<DevicePlan> {
    let addressed = fabric.devices().iter().filter(|device| device.lid.is_unicast() && device.linked_ports() > 0);
    addressed
        .map(|device| {
            let ports = device.linked().map(|(port, _)| port.num).collect();
            DevicePlan { guid: device.guid, lid: device.lid, kind: device.kind, ports }
        })
        .collect()
}

impl Rehearsal {
    /// A sampler of these devices at the zero of time.
    pub fn new(fabric: Arc<Mutex<SimFabric>>, plan: &[DevicePlan], config: Config, seed: u64) -> Self {
        let client = Faulty::new(Client::new(fabric), seed);
        let mut engine = Engine::new(plan, config, seed);
        engine.set_local(client.local());
        Self { engine, client, now: Instant::ZERO, pause: None }
    }

    /// The instant that was reached.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Where the sender is.
    pub fn local(&self) -> Local {
        self.client.local()
    }

    /// Asks every device who it is and what it can do.
    pub fn discover(&mut self) -> Vec<Event> {
        self.engine.start_discovery(self.now, self.now + Duration::from_secs(10));
        self.run()
    }

    /// What befalls replies on their way back from now on.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.client.faults
    }

    /// Lets the host stand still once it comes to that instant.
    pub fn pause(&mut self, pause: Pause) {
        self.pause = Some(pause);
    }

    /// Waits until then, or longer if the host stands still.
    pub fn wait_until(&mut self, instant: Instant) {
        self.now = self.now.max(instant);
        if let Some(Pause { from, time, lossy }) = self.pause.take_if(|pause| pause.from <= self.now) {
            self.now = self.now.max(from + time);
            if lossy {
                self.client.lose_all();
            }
        }
    }

    /// Runs a slot that starts now and goes on to the start of the next.
    pub fn slot(&mut self, interval: Duration) -> Vec<Event> {
        let start = self.now;
        let events = self.slot_since(start, interval);
        self.wait_until(start + interval);
        events
    }

    /// Runs a slot that started at an instant that may have passed.
    pub fn slot_since(&mut self, start: Instant, interval: Duration) -> Vec<Event> {
        self.engine.start_slot(start, start + interval.mul_f64(0.9), start + interval.mul_f64(0.95));
        self.run()
    }

    /// Lets things happen until nothing is left to be waited for.
    fn run(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut mad = [0; MAD_LEN];
        loop {
            while let Some((target, _)) = self.engine.poll_transmit(self.now, &mut mad) {
                self.client.send(&target, &mad, self.now);
            }
            while let Some(event) = self.engine.poll_event() {
                events.push(event);
            }
            let Some(timeout) = self.engine.poll_timeout() else { return events };
            self.wait_until(self.client.next_due().map_or(timeout, |due| due.min(timeout)));
            while let Some((completion, reply)) = self.client.take_due(self.now) {
                self.engine.handle_completion(&completion, &reply, self.now);
            }
            self.engine.handle_timeout(self.now);
        }
    }
}
