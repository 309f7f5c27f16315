//! The driver on a HCA that goes away: what is told, that slots go on, that it comes back, and that nothing spins meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ibnet::assignments::Sampler;
use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Local, Target};
use ibnet::mad::header::Header;
use ibnet::mad::smp;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::sink::Destination;
use ibnet::sweep::driver::{Control, Driver, OpenError, Opened, Settings};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::Plan;
use ibnet::sweep::record::line::{self, Event, Line, Port, Sweep};
use ibnet::time::Instant;
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet::types::{Lid, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

const ENXIO: i32 = 6;
const EIO: i32 = 5;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EPIPE: i32 = 32;

/// More slots than any of this takes, so that a mistake does not run for ever.
const MOST: u64 = 400;

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
}

/// The call that fails, and its errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Send(i32),
    Recv(&'static str, i32),
}

/// An adapter that can be taken away. What was opened before stays broken for good.
struct Hca {
    sim: Arc<Mutex<SimFabric>>,
    state: Mutex<State>,
    /// Tries to open it, and how many more of them fail.
    opens: AtomicU32,
    away_for: AtomicU32,
}

#[derive(Default)]
struct State {
    /// What was opened last, and all that is broken with its fault.
    opened: usize,
    broken: Vec<Fault>,
    /// What it says its own LID is; 0: as it is.
    lid: u16,
    /// Calls of what is broken.
    in_vain: u32,
    /// Questions for who a device is, by what was opened.
    identities: Vec<u32>,
    tids: BTreeSet<u32>,
}

/// What is open of it.
struct Open {
    hca: Arc<Hca>,
    number: usize,
    sim: SimTransport,
}

impl Hca {
    fn new() -> Arc<Self> {
        let sim = Arc::new(Mutex::new(SimFabric::new(fabric(), Options::default())));
        Arc::new(Self { sim, state: Mutex::default(), opens: AtomicU32::new(0), away_for: AtomicU32::new(0) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn open(self: &Arc<Self>) -> Open {
        let mut state = self.state();
        state.opened += 1;
        state.identities.push(0);
        Open { hca: Arc::clone(self), number: state.opened - 1, sim: SimTransport::new(Arc::clone(&self.sim)) }
    }

    /// Fails as often as it was told.
    fn reopen(self: &Arc<Self>) -> Result<Opened<Open>, OpenError> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let is_away = self.away_for.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if is_away {
            return Err(TransportError::new("umad_open_port", ENXIO).into());
        }
        Ok(Opened { transport: self.open(), pkey_index: 0, pkey_table: Vec::new() })
    }

    /// Breaks what is open now; the next tries fail.
    fn take_away(&self, fault: Fault, tries: u32) {
        self.away_for.store(tries, Ordering::Relaxed);
        let mut state = self.state();
        let opened = state.opened;
        state.broken.resize(opened, fault);
    }

    fn opens(&self) -> u32 {
        self.opens.load(Ordering::Relaxed)
    }
}

impl Transport for Open {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        let header = Header::parse(mad);
        let mut state = self.hca.state();
        if let Some(Fault::Send(errno)) = state.broken.get(self.number).copied() {
            state.in_vain += 1;
            return Err(TransportError::new("umad_send", errno));
        }
        // The kernel refuses a second MAD of a TID that it still has; and it is told the grace, as the deadline is ours.
        assert!(state.tids.insert(header.tid.0), "TID {} twice", header.tid);
        assert!(target.give_up == Config::default().grace || target.give_up >= Duration::from_secs(1), "{target:?}");
        state.identities[self.number] += u32::from(header.class == smp::CLASS_SUBN_LID_ROUTED && header.attribute == smp::NODE_INFO);
        drop(state);
        self.sim.send(target, mad, now)
    }

    fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError> {
        let mut state = self.hca.state();
        match state.broken.get(self.number).copied() {
            Some(Fault::Recv(call, errno)) => {
                state.in_vain += 1;
                return Err(TransportError::new(call, errno));
            }
            Some(Fault::Send(_)) => {
                // An older kernel lets who reads sleep for ever.
                drop(state);
                thread::sleep(wait);
                return Ok(None);
            }
            None => drop(state),
        }
        self.sim.recv(mad, wait, now)
    }

    fn local(&mut self) -> Option<Local> {
        let mut local = self.sim.local()?;
        if self.hca.state().lid != 0 {
            local.lid = Lid(self.hca.state().lid);
        }
        Some(local)
    }
}

/// What was written so far.
#[derive(Default)]
struct Told {
    ports: Vec<Port>,
    sweeps: Vec<Sweep>,
    events: Vec<Event>,
}

impl Told {
    fn take(&mut self, text: &str) {
        for text in text.lines() {
            match line::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")) {
                Line::Port(port) => self.ports.push(*port),
                Line::Sweep(sweep) => self.sweeps.push(sweep),
                Line::Event(event) => self.events.push(event),
                Line::Start(_) | Line::Histogram(_) => {}
            }
        }
    }

    fn count(&self, event: &str) -> usize {
        self.events.iter().filter(|told| told.event == event).count()
    }

    fn of_slot(&self, slot: u64) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(move |port| port.slot == slot)
    }

    /// Slots in which nothing was sent.
    fn lost_slots(&self) -> Vec<u64> {
        self.sweeps.iter().filter(|sweep| sweep.mads_sent == 0).map(|sweep| sweep.slot).collect()
    }

    /// Each port once in each slot, and nobody blamed for what is our fault.
    #[track_caller]
    fn check(&self, ports: usize) {
        for sweep in &self.sweeps {
            let of_slot: BTreeSet<_> = self.of_slot(sweep.slot).map(|port| (port.guid, port.port)).collect();
            assert_eq!((of_slot.len(), self.of_slot(sweep.slot).count()), (ports, ports), "slot {}", sweep.slot);
        }
        let without_way = self.lost_slots();
        let blamed = |event: &&Event| event.event == "unreachable" && without_way.contains(&event.slot);
        assert_eq!((self.events.iter().find(blamed), self.count("wrong_device")), (None, 0));
    }
}

/// Sweeps until `enough`, which is asked after each slot and may meddle; gives what was written.
fn swept(
    hca: &Arc<Hca>,
    open: impl Fn() -> Result<Opened<Open>, OpenError> + Clone + Send + 'static,
    mut enough: impl FnMut(&Told) -> bool,
) -> Told {
    let (outlet, lines) = Destination::memory();
    let settings = Settings {
        sampler: "here".to_owned(),
        ca: "mlx5_0".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(50),
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(MOST),
        assignments_sha256: None,
        engine: Config::default(),
    };
    let plan = Plan::new(&Sampler::everything(&fabric(), "here").0);
    let ports = plan.ports.len();
    let driver = Driver::new(plan, settings, hca.open(), outlet, 1).reopening(open);
    let (control, mut told) = (Control::default(), Told::default());
    driver
        .run(&control, |_| {
            told.take(&lines.text());
            if enough(&told) {
                control.stop();
            }
        })
        .expect("it goes on");
    told.take(&lines.text());
    assert!((told.sweeps.len() as u64) < MOST, "that never came: {:?}", told.events);
    told.check(ports);
    told
}

/// A HCA that goes away so after three slots and comes back at the second try; ends once there are rates again.
fn away_and_back(fault: Fault) -> (Arc<Hca>, Told) {
    let hca = Hca::new();
    let for_opener = Arc::clone(&hca);
    let told = swept(
        &hca,
        move || for_opener.reopen(),
        |told| {
            if told.sweeps.len() == 3 {
                hca.take_away(fault, 1);
            }
            let last = told.sweeps.last().map_or(0, |sweep| sweep.slot);
            told.count("umad_back") > 0 && told.of_slot(last).any(|port| port.dt_ns.is_some())
        },
    );
    (hca, told)
}

#[test]
fn every_fault_is_told_survived_and_over_when_the_device_is_back() {
    let faults = [
        Fault::Send(EIO),
        Fault::Send(ENODEV),
        Fault::Send(ENXIO),
        Fault::Send(EPIPE),
        // Of a MAD that is refused, too, as one with the TID of another; of all in a slot, the device is gone.
        Fault::Send(EINVAL),
        Fault::Send(ENOMEM),
        Fault::Recv("umad_recv", EIO),
        Fault::Recv("umad_recv", ENODEV),
        // The packet went back to the queue: who read again would read it for ever.
        Fault::Recv("umad_recv", ENOSPC),
        Fault::Recv("umad_recv", EINVAL),
        // POLLERR and POLLHUP.
        Fault::Recv("poll", EIO),
    ];
    let runs: Vec<_> = faults.into_iter().map(|fault| (fault, thread::spawn(move || away_and_back(fault)))).collect();
    for (fault, run) in runs {
        let (hca, told) = run.join().expect("it ends well");
        let (call, errno) = match fault {
            Fault::Send(errno) => ("umad_send", errno),
            Fault::Recv(call, errno) => (call, errno),
        };
        let way: Vec<_> = told.events.iter().filter(|event| event.event.starts_with("umad")).collect();
        let [lost, back] = way[..] else { panic!("{fault:?}: {:?}", told.events) };
        assert_eq!((lost.event.as_str(), back.event.as_str()), ("umad_lost", "umad_back"), "{fault:?}");
        let os = format!("os error {errno}");
        assert!(lost.detail.starts_with(&format!("{call} failed")) && lost.detail.contains(&os), "{}", lost.detail);
        assert!(back.detail.contains("this host is at LID"), "{}", back.detail);

        let lost_slots = told.lost_slots();
        assert!(!lost_slots.is_empty(), "{fault:?}");
        for port in lost_slots.iter().flat_map(|slot| told.of_slot(*slot)) {
            assert_eq!((port.status.as_str(), port.errno, port.mads, port.counters.len()), ("send_error", Some(errno), 0, 0), "{fault:?}");
        }
        let last_lost = lost_slots[lost_slots.len() - 1];
        let mut again = BTreeMap::new();
        for port in told.ports.iter().filter(|port| port.slot > last_lost && !port.counters.is_empty()) {
            again.entry((port.guid, port.port)).or_insert(port);
        }
        assert!(!again.is_empty() && again.values().all(|first| first.dt_ns.is_none()), "{fault:?}: a rate over the gap");

        // One that is refused as a MAD may be is found out at the end of the slot.
        let slot_of_mads = told.sweeps[0].mads_sent as u32 + 100;
        let in_vain = hca.state().in_vain;
        let most = if matches!(fault, Fault::Send(EINVAL | ENOMEM)) { slot_of_mads } else { 1 };
        assert!((1..=most).contains(&in_vain), "{fault:?}: {in_vain} calls");
        assert_eq!(hca.opens(), 2, "{fault:?}");
    }
}

#[test]
fn one_that_never_comes_back_costs_a_few_tries_and_a_stop_ends_it() {
    let hca = Hca::new();
    let for_opener = Arc::clone(&hca);
    let told = swept(
        &hca,
        move || for_opener.reopen(),
        |told| {
            if told.sweeps.len() == 2 {
                hca.take_away(Fault::Recv("umad_recv", EIO), u32::MAX);
            }
            told.lost_slots().len() == 40
        },
    );
    assert_eq!((told.count("umad_lost"), told.count("umad_back"), told.count("send_error")), (1, 0, 0));
    // Two seconds: after 0.1, 0.3, 0.7 and 1.5 of them, if this machine keeps up.
    assert!((1..=8).contains(&hca.opens()), "{} tries", hca.opens());
    assert_eq!(hca.state().in_vain, 1);
    assert!(told.sweeps.len() <= 46, "it ended with the stop");
}

#[test]
fn one_that_flaps_is_opened_ever_more_rarely() {
    let hca = Hca::new();
    let for_opener = Arc::clone(&hca);
    let mut backs = 0;
    let told = swept(
        &hca,
        move || for_opener.reopen(),
        |told| {
            // As soon as it is back it goes away again.
            if told.sweeps.len() == 2 || told.count("umad_back") > backs {
                backs = told.count("umad_back");
                hca.take_away(Fault::Recv("poll", EIO), 0);
            }
            told.sweeps.len() == 50
        },
    );
    let (lost, back) = (told.count("umad_lost"), told.count("umad_back"));
    assert!(back >= 1 && (back..=back + 1).contains(&lost), "{lost} and {back}");
    assert!(hca.opens() <= 8, "{} tries", hca.opens());
    assert!(hca.state().in_vain <= 8);
}

#[test]
fn where_we_are_is_looked_at_anew_and_every_device_is_asked_who_it_is() {
    let hca = Hca::new();
    let for_opener = Arc::clone(&hca);
    let devices = Plan::new(&Sampler::everything(&fabric(), "here").0).devices.len() as u32;
    let told = swept(
        &hca,
        move || {
            for_opener.state().lid = 77;
            for_opener.reopen()
        },
        |told| {
            if told.sweeps.len() == 2 {
                hca.take_away(Fault::Recv("umad_recv", EIO), 0);
            }
            hca.state().identities.get(1).is_some_and(|asked| *asked >= devices)
        },
    );
    let names = told.events.iter().map(|event| event.event.as_str());
    let names: Vec<_> = names.filter(|name| name.starts_with("umad") || *name == "local_change").collect();
    assert_eq!(names, ["umad_lost", "umad_back", "local_change"]);
    assert!(told.events.iter().any(|event| event.event == "umad_back" && event.detail.contains("this host is at LID 77")));
}

#[test]
fn a_try_that_stands_still_delays_no_slot_and_no_stop() {
    let hca = Hca::new();
    // Kept until the end: who opens waits for it.
    let (_release, stuck) = channel::<()>();
    let (stuck, for_opener) = (Arc::new(Mutex::new(stuck)), Arc::clone(&hca));
    let open = move || {
        for_opener.opens.fetch_add(1, Ordering::Relaxed);
        let _ = stuck.lock().map(|stuck| stuck.recv());
        Err(TransportError::new("umad_open_port", ENXIO).into())
    };
    let told = swept(&hca, open, |told| {
        if told.sweeps.len() == 2 {
            hca.take_away(Fault::Send(EIO), 0);
        }
        told.lost_slots().len() == 10
    });
    assert_eq!((hca.opens(), told.count("umad_back")), (1, 0));
}

#[test]
fn one_that_is_lost_before_the_first_slot_is_found_again() {
    let hca = Hca::new();
    let for_opener = Arc::clone(&hca);
    hca.state().broken.push(Fault::Recv("umad_recv", EIO));
    let told =
        swept(&hca, move || for_opener.reopen(), |told| told.ports.iter().any(|port| !port.counters.is_empty() && port.identity == "ok"));
    assert_eq!((told.count("umad_lost"), told.count("umad_back")), (1, 1));
}
