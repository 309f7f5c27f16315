//! A sampler on ibsim with devices that stop answering after some slots.
//!
//! MADs to a silent device are dropped, and time out when the kernel's timeout would end. ibsim
//! itself reports an unreachable device at once with status 110, which no real fabric does.
//!
//! The sampler is a process of its own, because ibsim's client library is preloaded.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::transport::umad::{UmadTransport, ports};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::output::{self, Destination, Output};
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::time::Instant;
use ibnet::topology::net_file;
use ibnet_record::types::{HcaName, Lid, Tid};

/// The flag with which this program is the sampler.
pub(crate) const FLAG: &str = "--sampler-with-silent-devices";

/// The file with the LIDs of the devices that stop answering, one per line.
pub(crate) const LIDS: &str = "silent";

/// Slots before the devices stop answering.
pub(crate) const HEALTHY: u64 = 40;

/// Slots in all.
pub(crate) const SLOTS: u64 = 80;

/// A transport on which some devices are silent.
struct Muted {
    transport: UmadTransport,
    lids: BTreeSet<Lid>,
    silent: Arc<AtomicBool>,
    /// MADs that were dropped, and when each times out. All have the same timeout, so that they are
    /// in order.
    dropped: VecDeque<(Instant, Tid)>,
}

impl Transport for Muted {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        if self.silent.load(Ordering::Relaxed) && self.lids.contains(&target.lid) {
            let tid = Tid(u32::from_be_bytes([mad[12], mad[13], mad[14], mad[15]]));
            self.dropped.push_back((now + target.give_up, tid));
            return Ok(());
        }
        self.transport.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let Some((give_up, tid)) = self.dropped.front().copied() else {
            return self.transport.recv(mad, wait, now);
        };
        if give_up <= now {
            self.dropped.pop_front();
            return Ok(Some(Completion {
                tid,
                outcome: Outcome::TimedOut,
            }));
        }
        self.transport.recv(mad, wait.min(give_up - now), now)
    }

    fn locator(&self) -> Locator {
        self.transport.locator()
    }
}

/// Sweeps `net.p` at 10 Hz, with records to standard output. The devices of [`LIDS`] stop
/// answering after [`HEALTHY`] slots.
pub(crate) fn run() {
    let fabric = net_file::read("net.p".as_ref()).expect("a net file").fabric;
    let (sampler, _) = ibnet::partition::whole_fabric(&fabric, "node00001");
    let lids = fs::read_to_string(LIDS)
        .expect("a list of LIDs")
        .lines()
        .map(|lid| Lid(lid.parse().expect("a LID")))
        .collect();
    let port = ports::find(&HcaName::default()).expect("ibsim's HCA");
    let silent = Arc::new(AtomicBool::new(false));
    let transport = UmadTransport::open(&port).expect("it can be opened");
    let transport = Muted {
        transport,
        lids,
        silent: Arc::clone(&silent),
        dropped: VecDeque::new(),
    };
    let settings = DriverSettings {
        sampler: sampler.host.clone(),
        ca: port.ca.clone(),
        ca_port: port.port,
        is_secondary: false,
        interval: Duration::from_millis(100),
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(SLOTS),
        assignments_sha256: None,
        engine: Config::default(),
    };
    let (outlet, writers) =
        output::open(&[Output::from(Destination::Stdout)]).expect("standard output");
    let writers: Vec<_> = writers
        .into_iter()
        .map(|writer| std::thread::spawn(|| writer.run()))
        .collect();
    let driver = Driver::new(
        SweepPlan::new(&sampler),
        settings,
        transport,
        SystemClock::start(),
        outlet,
        1,
    );
    let done = driver.run(&Control::default(), |report| {
        silent.store(report.done >= HEALTHY, Ordering::Relaxed);
    });
    done.expect("ibsim stays there");
    for writer in writers {
        writer.join().expect("it writes");
    }
}
