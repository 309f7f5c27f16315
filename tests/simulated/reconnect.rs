//! Runs the driver in virtual time on an HCA that is lost. The slots continue, the loss is
//! reported, the driver opens the HCA again, and no loop uses the CPU without a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::Header;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::{pma, smp};
use ibnet::output::Destination;
use ibnet::sweep::driver::{Clock, Control, Driver, DriverSettings, OpenError, Opened};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet_record::strict::{self, Event, Line, Port, Sweep};
use ibnet_record::types::{Lid, PortNum};
use rustix::io::Errno;

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

const INTERVAL: Duration = Duration::from_millis(50);

/// Wall clock at time zero, in nanoseconds since 1970.
const WALL: i64 = 1_795_000_000_123_456_789;

/// Largest number of slots, so that a faulty test ends.
const MAX: u64 = 400;

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

fn plan() -> SweepPlan {
    SweepPlan::new(&ibnet::partition::whole_fabric(&fabric(), "here").0)
}

/// The call that fails, and its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Send(Errno),
    Recv(&'static str, Errno),
}

/// An HCA that can be lost. A transport that was open at that time stays broken.
struct Hca {
    fabric: Arc<Mutex<SimFabric>>,
    clock: VirtualClock,
    state: Mutex<State>,
    /// Number of attempts to open the HCA.
    attempts: AtomicU32,
    /// Number of next attempts that fail.
    failures: AtomicU32,
}

#[derive(Default)]
struct State {
    /// Transports that were opened.
    opened: usize,
    /// Faults of the broken transports. Later transports are not broken.
    broken: Vec<Fault>,
    /// LID of the port, if it is not that of the fabric.
    lid: Option<Lid>,
    /// Readings of the location of the port.
    locations: u32,
    /// Calls of broken transports.
    failed_calls: u32,
    /// Queries for NodeInfo, by transport.
    identity_checks: Vec<u32>,
    tids: BTreeSet<u32>,
}

/// An open transport of the HCA.
struct Open {
    hca: Arc<Hca>,
    number: usize,
    transport: VirtualTransport,
}

impl Hca {
    fn new() -> Arc<Self> {
        let fabric = Arc::new(Mutex::new(SimFabric::new(fabric(), crate::options())));
        let clock = VirtualClock::default();
        clock.set_wall_offset(WALL);
        Arc::new(Self {
            fabric,
            clock,
            state: Mutex::default(),
            attempts: AtomicU32::new(0),
            failures: AtomicU32::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is locked")
    }

    fn open(self: &Arc<Self>) -> Open {
        let mut state = self.state();
        state.opened += 1;
        state.identity_checks.push(0);
        let transport = VirtualTransport::new(Arc::clone(&self.fabric), self.clock.clone(), 1);
        Open {
            hca: Arc::clone(self),
            number: state.opened - 1,
            transport,
        }
    }

    /// Attempts to open the HCA.
    fn reopen(self: &Arc<Self>) -> Result<Opened<Open>, OpenError> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let fails = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        if fails {
            return Err(TransportError::new("umad_open_port", Errno::NXIO.raw_os_error()).into());
        }
        Ok(Opened {
            transport: self.open(),
            hca: None,
            pkey_index: 0,
            pkey_table: Vec::new(),
        })
    }

    /// Breaks the transport that is open now, and the next attempts.
    fn lose(&self, fault: Fault, failures: u32) {
        self.failures.store(failures, Ordering::Relaxed);
        let mut state = self.state();
        let opened = state.opened;
        state.broken.resize(opened, fault);
    }

    fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }
}

impl Transport for Open {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        let header = Header::parse(mad);
        let mut state = self.hca.state();
        if let Some(Fault::Send(errno)) = state.broken.get(self.number).copied() {
            state.failed_calls += 1;
            return Err(TransportError::new("umad_send", errno.raw_os_error()));
        }
        // The kernel rejects a TID that is still in use. It waits for the grace period; the engine
        // itself applies the timeout.
        assert!(state.tids.insert(header.tid.0), "TID {} twice", header.tid);
        assert!(
            target.give_up == crate::config().grace || target.give_up >= Duration::from_secs(1),
            "{target:?}"
        );
        let is_identity_check =
            header.class != pma::CLASS_PERF_MGT && header.attribute == smp::NODE_INFO;
        state.identity_checks[self.number] += u32::from(is_identity_check);
        drop(state);
        self.transport.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let mut state = self.hca.state();
        match state.broken.get(self.number).copied() {
            Some(Fault::Recv(call, errno)) => {
                state.failed_calls += 1;
                Err(TransportError::new(call, errno.raw_os_error()))
            }
            Some(Fault::Send(_)) => {
                // A kernel before 5.12 does not wake a reader of a removed device.
                self.hca.clock.sleep(wait);
                Ok(None)
            }
            None => {
                drop(state);
                self.transport.recv(mad, wait, now)
            }
        }
    }

    fn locator(&self) -> Locator {
        let (hca, mut locator) = (Arc::clone(&self.hca), self.transport.locator());
        Box::new(move || {
            let mut local = locator()?;
            let mut state = hca.state();
            state.locations += 1;
            local.lid = state.lid.unwrap_or(local.lid);
            Some(local)
        })
    }
}

/// The records written so far.
#[derive(Default)]
struct Records {
    ports: Vec<Port>,
    sweeps: Vec<Sweep>,
    events: Vec<Event>,
}

impl Records {
    fn add(&mut self, text: &str) {
        for text in text.lines() {
            match strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")) {
                Line::Port(port) => self.ports.push(*port),
                Line::Sweep(sweep) => self.sweeps.push(sweep),
                Line::Event(event) => self.events.push(event),
                Line::Start(_) | Line::Histogram(_) | Line::Physical(_) | Line::Routes(_) => {}
            }
        }
    }

    fn count(&self, event: &str) -> usize {
        self.events
            .iter()
            .filter(|found| found.event == event)
            .count()
    }

    fn of_slot(&self, slot: u64) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(move |port| port.slot == slot)
    }

    /// Returns the slots in which nothing was sent.
    fn lost_slots(&self) -> Vec<u64> {
        self.sweeps
            .iter()
            .filter(|sweep| sweep.mads_sent == 0)
            .map(|sweep| sweep.slot)
            .collect()
    }

    /// Asserts that each slot ran and has each port once, and that no device is reported as
    /// unreachable because of the HCA.
    #[track_caller]
    fn check(&self, ports: usize) {
        for sweep in &self.sweeps {
            let of_slot: BTreeSet<_> = self
                .of_slot(sweep.slot)
                .map(|port| (port.guid, port.port))
                .collect();
            assert_eq!(
                (of_slot.len(), self.of_slot(sweep.slot).count()),
                (ports, ports),
                "slot {}",
                sweep.slot
            );
            assert_eq!(sweep.slots_missed, 0, "slot {}", sweep.slot);
        }
        let lost = self.lost_slots();
        let is_wrong = |event: &&Event| event.event == "unreachable" && lost.contains(&event.slot);
        assert_eq!(
            (
                self.events.iter().find(is_wrong),
                self.count("wrong_device")
            ),
            (None, 0)
        );
    }
}

/// Sweeps until `is_done`, which is called after each slot and may break the HCA. Returns the
/// records.
fn sweep(
    hca: &Arc<Hca>,
    open: impl Fn() -> Result<Opened<Open>, OpenError> + Clone + Send + 'static,
    mut is_done: impl FnMut(&Records) -> bool,
) -> Records {
    let (outlet, lines) = Destination::memory();
    let settings = DriverSettings {
        sampler: "here".to_owned(),
        ca: "mlx5_0".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: INTERVAL,
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(MAX),
        assignments_sha256: None,
        engine: crate::config(),
    };
    let plan = plan();
    let ports = plan.ports.len();
    let driver =
        Driver::new(plan, settings, hca.open(), hca.clock.clone(), outlet, 1).reconnecting(open);
    let (control, mut records) = (Control::default(), Records::default());
    driver
        .run(&control, |_| {
            records.add(&lines.text());
            if is_done(&records) {
                control.stop();
            }
        })
        .expect("the driver goes on");
    records.add(&lines.text());
    assert!(
        (records.sweeps.len() as u64) < MAX,
        "the condition was never met: {:?}",
        records.events
    );
    records.check(ports);
    records
}

/// Loses the HCA after three slots. The second attempt to open it succeeds. Ends once there are
/// rates again.
fn lose_and_reconnect(fault: Fault) -> (Arc<Hca>, Records) {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            if records.sweeps.len() == 3 {
                hca.lose(fault, 1);
            }
            let last = records.sweeps.last().map_or(0, |sweep| sweep.slot);
            records.count("umad_back") > 0 && records.of_slot(last).any(|port| port.dt_ns.is_some())
        },
    );
    (hca, records)
}

#[test]
fn every_fault_is_reported_and_ends_after_the_device_is_opened_again() {
    let faults = [
        Fault::Send(Errno::IO),
        Fault::Send(Errno::NODEV),
        Fault::Send(Errno::NXIO),
        Fault::Send(Errno::PIPE),
        // The kernel returns this error for a single MAD too, such as one with a TID in use. If all
        // MADs of a slot are rejected, the device was removed.
        Fault::Send(Errno::INVAL),
        Fault::Send(Errno::NOMEM),
        Fault::Recv("umad_recv", Errno::IO),
        Fault::Recv("umad_recv", Errno::NODEV),
        // The packet returns to the queue, so a second read fails in the same way.
        Fault::Recv("umad_recv", Errno::NOSPC),
        Fault::Recv("umad_recv", Errno::INVAL),
        // POLLERR and POLLHUP.
        Fault::Recv("poll", Errno::IO),
    ];
    for fault in faults {
        let (hca, records) = lose_and_reconnect(fault);
        let (call, errno) = match fault {
            Fault::Send(errno) => ("umad_send", errno.raw_os_error()),
            Fault::Recv(call, errno) => (call, errno.raw_os_error()),
        };
        let events: Vec<_> = records
            .events
            .iter()
            .filter(|event| event.event.starts_with("umad"))
            .collect();
        let [lost, back] = events[..] else {
            panic!("{fault:?}: {:?}", records.events)
        };
        assert_eq!(
            (lost.event.as_str(), back.event.as_str()),
            ("umad_lost", "umad_back"),
            "{fault:?}"
        );
        let os = format!("os error {errno}");
        assert!(
            lost.detail.starts_with(&format!("{call} failed")) && lost.detail.contains(&os),
            "{}",
            lost.detail
        );
        assert!(
            back.detail.starts_with("after 0.3 s; this host is at LID"),
            "{}",
            back.detail
        );

        let lost_slots = records.lost_slots();
        assert!(!lost_slots.is_empty(), "{fault:?}");
        for port in lost_slots.iter().flat_map(|slot| records.of_slot(*slot)) {
            assert_eq!(
                (
                    port.status.as_str(),
                    port.errno,
                    port.mads,
                    port.counters.len()
                ),
                ("send_error", Some(errno), 0, 0),
                "{fault:?}"
            );
        }
        let last_lost = lost_slots[lost_slots.len() - 1];
        let mut first = BTreeMap::new();
        for port in records
            .ports
            .iter()
            .filter(|port| port.slot > last_lost && !port.counters.is_empty())
        {
            first.entry((port.guid, port.port)).or_insert(port);
        }
        assert!(
            !first.is_empty() && first.values().all(|first| first.dt_ns.is_none()),
            "{fault:?}: a rate over the gap"
        );

        // An error that may concern a single MAD counts as a loss only at the end of the slot.
        let most = if matches!(fault, Fault::Send(Errno::INVAL | Errno::NOMEM)) {
            records.sweeps[0].mads_sent as u32 + 100
        } else {
            1
        };
        let failed_calls = hca.state().failed_calls;
        assert!(
            (1..=most).contains(&failed_calls),
            "{fault:?}: {failed_calls} calls"
        );
        assert_eq!(hca.attempts(), 2, "{fault:?}");
    }
}

#[test]
fn missing_device_causes_few_attempts_and_a_stop_ends_the_sweep() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            if records.sweeps.len() == 2 {
                hca.lose(Fault::Recv("umad_recv", Errno::IO), u32::MAX);
            }
            records.lost_slots().len() == 40
        },
    );
    assert_eq!(
        (
            records.count("umad_lost"),
            records.count("umad_back"),
            records.count("send_error")
        ),
        (1, 0, 0)
    );
    // 40 slots are two seconds: attempts after 0.1, 0.3, 0.7 and 1.5 s.
    assert_eq!((hca.attempts(), hca.state().failed_calls), (4, 1));
    assert!(
        (42..=43).contains(&records.sweeps.len()),
        "it ended with the stop: {} slots",
        records.sweeps.len()
    );
}

#[test]
fn unstable_device_is_opened_at_growing_intervals() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    let mut backs = 0;
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            // The HCA is lost again as soon as it is open.
            if records.sweeps.len() == 2 || records.count("umad_back") > backs {
                backs = records.count("umad_back");
                hca.lose(Fault::Recv("poll", Errno::IO), 0);
            }
            records.sweeps.len() == 50
        },
    );
    // 48 slots are 2.4 s: attempts 0.1, 0.2, 0.4 and 0.8 s after a loss. Each loss is in the slot
    // after an attempt.
    assert_eq!(
        (
            records.count("umad_lost"),
            records.count("umad_back"),
            hca.attempts()
        ),
        (5, 4, 4)
    );
    assert_eq!(hca.state().failed_calls, 5);
}

#[test]
fn every_device_is_verified_after_a_reconnection_at_another_lid() {
    crate::on_both_fabrics(|| {
        let hca = Hca::new();
        let opener = Arc::clone(&hca);
        let devices = plan().devices.len() as u32;
        let records = sweep(
            &hca,
            move || {
                opener.state().lid = Some(Lid(77));
                opener.reopen()
            },
            |records| {
                if records.sweeps.len() == 2 {
                    hca.lose(Fault::Recv("umad_recv", Errno::IO), 0);
                }
                hca.state()
                    .identity_checks
                    .get(1)
                    .is_some_and(|checks| *checks >= devices)
            },
        );
        let names = records.events.iter().map(|event| event.event.as_str());
        let names: Vec<_> = names
            .filter(|name| name.starts_with("umad") || *name == "local_change")
            .collect();
        assert_eq!(names, ["umad_lost", "umad_back", "local_change"]);
        assert!(
            records.events.iter().any(|event| event.event == "umad_back"
                && event.detail.contains("this host is at LID 77"))
        );
    });
}

#[test]
fn location_whose_reading_started_before_the_loss_is_dropped() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    // The first reading beside the slots takes three seconds.
    hca.clock.set_job_time(Duration::from_secs(3));
    let mut slots = 0;
    let records = sweep(
        &hca,
        move || {
            opener.state().lid = Some(Lid(77));
            opener.reopen()
        },
        |records| {
            // It has started after the one before the first slot.
            if slots == 0 && hca.state().locations == 2 {
                slots = records.sweeps.len();
                hca.clock.set_job_time(Duration::ZERO);
                hca.lose(Fault::Recv("umad_recv", Errno::IO), 0);
            }
            slots > 0 && records.sweeps.len() == slots + 120
        },
    );
    let names = records.events.iter().map(|event| event.event.as_str());
    let names: Vec<_> = names
        .filter(|name| name.starts_with("umad") || *name == "local_change")
        .collect();
    assert_eq!(names, ["umad_lost", "umad_back", "local_change"]);
    // One reading with the reconnection, and one a second after the slow one.
    assert!(hca.state().locations > 4, "{}", hca.state().locations);
}

#[test]
fn every_device_is_verified_within_seconds_of_a_change_of_the_own_lid() {
    let hca = Hca::new();
    let devices = plan().devices.len() as u32;
    let mut checks_before = 0;
    let records = sweep(
        &hca,
        || Err("not used".into()),
        |records| {
            if records.sweeps.len() == 5 {
                hca.state().lid = Some(Lid(77));
                checks_before = hca.state().identity_checks[0];
            }
            records.sweeps.len() == 30
        },
    );
    let changes: Vec<_> = records
        .events
        .iter()
        .filter(|event| event.event == "local_change")
        .collect();
    let [change] = changes[..] else {
        panic!("{:?}", records.events)
    };
    // The LID is read once a second, which is 20 slots.
    assert!(
        change.slot - records.sweeps[0].slot <= 21,
        "slot {} of {:?}",
        change.slot,
        records.sweeps[0].slot
    );
    assert!(hca.state().identity_checks[0] - checks_before >= devices);
    assert_eq!(hca.attempts(), 0);
}

#[test]
fn attempt_that_blocks_delays_no_slot_and_no_stop() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    hca.clock.set_job_time(Duration::from_secs(3600));
    let mut slots_while_blocked = 0;
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            if records.sweeps.len() == 2 {
                hca.lose(Fault::Send(Errno::IO), 0);
            }
            slots_while_blocked += u32::from(hca.attempts() == 1);
            records.lost_slots().len() == 10
        },
    );
    // The attempt has begun 0.1 s after the loss, and would end after an hour.
    assert_eq!(
        (
            hca.attempts(),
            records.count("umad_lost"),
            records.count("umad_back")
        ),
        (1, 1, 0)
    );
    assert!(slots_while_blocked >= 8, "{slots_while_blocked} slots");
    let slots: Vec<_> = records.sweeps.iter().map(|sweep| sweep.slot).collect();
    assert!(
        slots.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{slots:?}"
    );
    assert!(
        hca.clock.now() < Instant::ZERO + 20 * INTERVAL,
        "the stop did not wait either"
    );
}

#[test]
fn device_that_is_lost_before_the_first_slot_is_opened_again() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    hca.state().broken.push(Fault::Recv("umad_recv", Errno::IO));
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            records
                .ports
                .iter()
                .any(|port| !port.counters.is_empty() && port.identity == "ok")
        },
    );
    assert_eq!(
        (records.count("umad_lost"), records.count("umad_back")),
        (1, 1)
    );
}

/// While the port is down, MADs are accepted and get lost, and the port cannot be opened.
#[test]
fn port_that_is_down_is_named_instead_of_its_devices() {
    let hca = Hca::new();
    let (opener, is_down) = (Arc::clone(&hca), Arc::new(AtomicBool::new(false)));
    let set_down = |down: bool| {
        is_down.store(down, Ordering::Relaxed);
        hca.fabric
            .lock()
            .expect("no panic while it is locked")
            .set_sender_down(down);
    };
    let refuses = Arc::clone(&is_down);
    let records = sweep(
        &hca,
        move || {
            if refuses.load(Ordering::Relaxed) {
                Err(TransportError::PortDown.into())
            } else {
                opener.reopen()
            }
        },
        |records| {
            // The state of the port is read once a second, which is 20 slots.
            match records.sweeps.len() {
                3 => set_down(true),
                60 => set_down(false),
                _ => {}
            }
            records.sweeps.len() > 60
                && records
                    .sweeps
                    .last()
                    .is_some_and(|sweep| sweep.ok == sweep.ports)
        },
    );
    let counts =
        ["umad_lost", "umad_back", "unreachable", "reachable"].map(|event| records.count(event));
    assert_eq!(counts, [1, 1, 0, 0], "{:?}", records.events);
    let lost = records
        .events
        .iter()
        .find(|event| event.event == "umad_lost")
        .expect("counted above");
    assert!(
        lost.detail.starts_with("the HCA port is not active"),
        "{}",
        lost.detail
    );
    let errnos: BTreeSet<_> = records
        .lost_slots()
        .into_iter()
        .flat_map(|slot| records.of_slot(slot))
        .map(|port| port.errno)
        .collect();
    assert_eq!(
        errnos,
        BTreeSet::from([Some(Errno::NETDOWN.raw_os_error())])
    );
}

/// If all devices are silent and the port is active, the devices are reported.
#[test]
fn silent_fabric_is_reported_once_the_port_is_known_to_be_active() {
    let hca = Hca::new();
    let opener = Arc::clone(&hca);
    let records = sweep(
        &hca,
        move || opener.reopen(),
        |records| {
            if records.sweeps.len() == 3 {
                let mut fabric = hca.fabric.lock().expect("no panic while it is locked");
                let ids: Vec<_> = fabric.fabric().iter().map(|(id, _)| id).collect();
                ids.into_iter().for_each(|id| fabric.set_dead(id, true));
            }
            records.count("unreachable") > 0
        },
    );
    assert_eq!(
        (records.count("unreachable"), records.count("umad_lost")),
        (fabric().devices().len(), 0),
        "{:?}",
        records.events
    );
    assert!(
        records.sweeps.len() <= 3 + 21,
        "{} slots",
        records.sweeps.len()
    );
}
