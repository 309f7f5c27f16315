//! A transport to the simulated fabric, in virtual (simulated) time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::VirtualClock;
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Local, Target};
use crate::mad::transport::sim::faults::{Faults, Faulty};
use crate::mad::transport::sim::{Client, SimFabric};
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::sweep::driver::Clock;
use crate::time::Instant;

/// A sender on the simulated fabric. Receiving moves the clock to the next completion.
#[derive(Debug)]
pub struct VirtualTransport {
    fabric: Arc<Mutex<SimFabric>>,
    client: Faulty,
    clock: VirtualClock,
    /// Number of pauses whose lost replies have already been dropped.
    lossy_pauses: u64,
}

impl VirtualTransport {
    /// Creates a sender without faults. The seed determines which replies will have faults.
    pub fn new(fabric: Arc<Mutex<SimFabric>>, clock: VirtualClock, seed: u64) -> Self {
        let client = Faulty::new(Client::new(Arc::clone(&fabric)), seed);
        Self {
            fabric,
            client,
            lossy_pauses: clock.lossy_pauses(),
            clock,
        }
    }

    /// Returns the faults of replies. The caller can change them at any time.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.client.faults
    }

    /// Returns the location of the sender on its subnet.
    pub fn local(&self) -> Local {
        self.client.local()
    }

    /// Drops the replies in transit if the host was suspended in the meantime.
    fn apply_pauses(&mut self) {
        let pauses = self.clock.lossy_pauses();
        if std::mem::replace(&mut self.lossy_pauses, pauses) != pauses {
            self.client.lose_all();
        }
    }
}

impl Transport for VirtualTransport {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.apply_pauses();
        self.client.send(target, mad, now);
        Ok(())
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        self.apply_pauses();
        let until = now + wait;
        self.clock
            .advance_to(self.client.next_due().map_or(until, |due| due.min(until)));
        self.apply_pauses();
        Ok(self
            .client
            .take_due(self.clock.now())
            .map(|(completion, reply)| {
                *mad = reply;
                completion
            }))
    }

    fn locator(&self) -> Locator {
        let client = Client::new(Arc::clone(&self.fabric));
        Box::new(move || Some(client.local()))
    }
}
