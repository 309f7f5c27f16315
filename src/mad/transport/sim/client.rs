//! Senders on a simulated fabric: [`Client`] in simulated time, [`SimTransport`] in real time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ibnet_record::types::{NodeKind, Tid};

use super::{SimFabric, management};
use crate::mad::exchange::{Completion, Local, Outcome, Target};
use crate::mad::header::Header;
use crate::mad::sa::Gid;
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::mad::{MAD_LEN, Mad};
use crate::time::Instant;
use crate::topology::{Device, DeviceId};

/// A sender on a simulated fabric, with its completions that were not taken yet.
#[derive(Debug)]
pub struct Client {
    pub(super) fabric: Arc<Mutex<SimFabric>>,
    /// Completions that were not taken yet, by time. The number distinguishes completions of one
    /// instant.
    pub(super) pending: BTreeMap<(Instant, u64), Pending>,
    /// Number of completions that were ever scheduled.
    scheduled: u64,
    /// The device of the sender. `None` stands for the device of the subnet manager.
    device: Option<DeviceId>,
}

/// A completion that is due later.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) completion: Completion,
    pub(super) mad: Mad,
    /// The instant at which the sender gets a timeout if this reply is lost. `None` if no
    /// transaction waits for the reply.
    pub(super) give_up: Option<Instant>,
}

impl Client {
    /// Creates a sender. Several senders may share a fabric.
    pub fn new(fabric: Arc<Mutex<SimFabric>>) -> Self {
        Self {
            fabric,
            pending: BTreeMap::new(),
            scheduled: 0,
            device: None,
        }
    }

    /// Sends a MAD. Like the kernel, reports a timeout after [`Target::give_up`] and drops a later
    /// reply.
    pub fn send(&mut self, target: &Target, mad: &Mad, now: Instant) {
        let (at, pending) = self.submit(target, mad, now);
        self.schedule(at, pending);
    }

    /// Submits a MAD to the fabric. Returns its completion and the instant of the completion.
    pub(super) fn submit(&self, target: &Target, mad: &Mad, now: Instant) -> (Instant, Pending) {
        let give_up = now + target.give_up;
        let answer = self
            .fabric
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .submit_from(self.device, target, mad, now);
        let tid = Header::parse(mad).tid;
        let (at, outcome, mad) = match answer {
            Some((at, reply)) if at <= give_up => (
                at,
                Outcome::Reply {
                    slid: target.lid,
                    len: MAD_LEN,
                },
                reply,
            ),
            _ => (give_up, Outcome::TimedOut, *mad),
        };
        (
            at,
            Pending {
                completion: Completion { tid, outcome },
                mad,
                give_up: Some(give_up),
            },
        )
    }

    /// Returns whether a request or reply is exempt from random faults.
    pub(super) fn spares(&self, mad: &Mad) -> bool {
        self.fabric
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spares(mad)
    }

    /// Schedules a completion.
    pub(super) fn schedule(&mut self, at: Instant, pending: Pending) {
        self.pending.insert((at, self.scheduled), pending);
        self.scheduled += 1;
    }

    /// Returns the address of the sender.
    pub fn local(&self) -> Local {
        local(&self.fabric, self.device)
    }

    /// Returns the instant of the next completion.
    pub fn next_due(&self) -> Option<Instant> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next completion if it is due by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Completion, Mad)> {
        let (
            _,
            Pending {
                completion, mad, ..
            },
        ) = self.take(now)?;
        Some((completion, mad))
    }

    pub(super) fn take(&mut self, now: Instant) -> Option<(Instant, Pending)> {
        let first = self.pending.first_entry()?;
        let at = first.key().0;
        (at <= now).then(|| (at, first.remove()))
    }
}

/// Returns the address of a sender: on this device, or else on the device of the subnet manager.
fn local(fabric: &Mutex<SimFabric>, device: Option<DeviceId>) -> Local {
    let fabric = fabric.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(manager) = fabric.manager else {
        return Local::default();
    };
    let id = device.unwrap_or(manager);
    let gid = Gid {
        prefix: management::DEFAULT_PREFIX,
        guid: fabric.fabric.device(id).guid,
    };
    Local {
        lid: fabric.lid(id),
        sm_lid: fabric.lid(manager),
        sm_sl: 0,
        gid,
        port: management::first_port(&fabric, id),
        has_smi: false,
        is_down: fabric.sender_down,
    }
}

/// A transport to a simulated fabric in real time: it sleeps until a completion is due.
#[derive(Debug)]
pub struct SimTransport {
    client: Client,
    /// Whether the transport receives the reports of the subnet manager.
    takes_reports: bool,
}

impl SimTransport {
    /// Creates a transport. Several transports may share a fabric.
    pub fn new(fabric: Arc<Mutex<SimFabric>>) -> Self {
        Self {
            client: Client::new(fabric),
            takes_reports: false,
        }
    }

    /// Moves the sender to the HCA of a host, if the fabric has this host.
    #[must_use]
    pub fn of_host(mut self, host: &str) -> Self {
        let sim = self
            .client
            .fabric
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_host = |device: &Device| device.kind == NodeKind::Hca && device.host() == host;
        let found = sim
            .fabric
            .iter()
            .find(|(_, device)| is_host(device))
            .map(|(id, _)| id);
        drop(sim);
        self.client.device = found.or(self.client.device);
        self
    }

    /// Creates a transport that also receives the reports of the subnet manager. If several
    /// transports share a fabric, a report goes to only one of them.
    pub fn for_reports(fabric: Arc<Mutex<SimFabric>>) -> Self {
        Self {
            client: Client::new(fabric),
            takes_reports: true,
        }
    }

    fn report(&self, mad: &mut Mad) -> Option<Completion> {
        let mut fabric = self
            .client
            .fabric
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let report = fabric.reports.pop_front()?;
        report.emit(Tid(0), mad);
        let slid = fabric.manager.map(|id| fabric.lid(id)).unwrap_or_default();
        Some(Completion {
            tid: Tid(0),
            outcome: Outcome::Reply { slid, len: MAD_LEN },
        })
    }
}

impl Transport for SimTransport {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.client.send(target, mad, now);
        Ok(())
    }

    fn locator(&self) -> Locator {
        let (fabric, device) = (Arc::clone(&self.client.fabric), self.client.device);
        Box::new(move || Some(local(&fabric, device)))
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        if self.takes_reports
            && let Some(report) = self.report(mad)
        {
            return Ok(Some(report));
        }
        let until = now + wait;
        let Some(due) = self.client.next_due().filter(|due| *due <= until) else {
            std::thread::sleep(wait);
            return Ok(None);
        };
        if due > now {
            std::thread::sleep(due - now);
        }
        Ok(self
            .client
            .take_due(due.max(now))
            .map(|(completion, reply)| {
                *mad = reply;
                completion
            }))
    }
}
