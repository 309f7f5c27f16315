//! A sampler on ibsim some of whose devices fall silent: what is sent to them is swallowed, and comes back as timed out when the kernel would give up.
//! ibsim itself answers for what cannot be reached, at once, with status 110; no real fabric does.
//!
//! It has to be a process of its own, as ibsim's client library is preloaded.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibnet::assignments::Sampler;
use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Local, Outcome, Target};
use ibnet::mad::transport::umad::{UmadTransport, ports};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::output::{self, Destination, Output};
use ibnet::sweep::driver::{Control, Driver, Settings};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::Plan;
use ibnet::time::Instant;
use ibnet::topology::net_file;
use ibnet::types::{HcaName, Lid, Tid};

/// What makes this program that sampler.
pub(crate) const FLAG: &str = "--sampler-with-silent-devices";

/// The LIDs that fall silent, one a line.
pub(crate) const LIDS: &str = "silent";

/// Slots before they do, and in all.
pub(crate) const HEALTHY: u64 = 40;
pub(crate) const SLOTS: u64 = 80;

/// A way to the fabric on which some are silent.
struct Muted {
    way: UmadTransport,
    lids: BTreeSet<Lid>,
    silent: Arc<AtomicBool>,
    /// What was swallowed, and when the kernel gives it up; all have the same patience, so they are in order.
    swallowed: VecDeque<(Instant, Tid)>,
}

impl Transport for Muted {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        if self.silent.load(Ordering::Relaxed) && self.lids.contains(&target.lid) {
            let tid = Tid(u32::from_be_bytes([mad[12], mad[13], mad[14], mad[15]]));
            self.swallowed.push_back((now + target.give_up, tid));
            return Ok(());
        }
        self.way.send(target, mad, now)
    }

    fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError> {
        let Some((give_up, tid)) = self.swallowed.front().copied() else { return self.way.recv(mad, wait, now) };
        if give_up <= now {
            self.swallowed.pop_front();
            return Ok(Some(Completion { tid, outcome: Outcome::TimedOut }));
        }
        self.way.recv(mad, wait.min(give_up - now), now)
    }

    fn local(&mut self) -> Option<Local> {
        self.way.local()
    }
}

/// Sweeps `net.p` at 10 Hz, lines to standard output; those of [`LIDS`] fall silent after [`HEALTHY`] slots.
pub(crate) fn run() {
    let fabric = net_file::read("net.p".as_ref()).expect("a net file").fabric;
    let (sampler, _) = Sampler::everything(&fabric, "node00001");
    let lids = fs::read_to_string(LIDS).expect("a list of LIDs").lines().map(|lid| Lid(lid.parse().expect("a LID"))).collect();
    let port = ports::find(&HcaName::default()).expect("ibsim's HCA");
    let silent = Arc::new(AtomicBool::new(false));
    let way = UmadTransport::open(&port).expect("it can be opened");
    let way = Muted { way, lids, silent: Arc::clone(&silent), swallowed: VecDeque::new() };
    let settings = Settings {
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
    let (outlet, writers) = output::open(&[Output::from(Destination::Stdout)]).expect("standard output");
    let writers: Vec<_> = writers.into_iter().map(|writer| std::thread::spawn(|| writer.run())).collect();
    let driver = Driver::new(Plan::new(&sampler), settings, way, outlet, 1);
    let done = driver.run(&Control::default(), |report| silent.store(report.done >= HEALTHY, Ordering::Relaxed));
    done.expect("the way to ibsim holds");
    for writer in writers {
        writer.join().expect("it writes");
    }
}
