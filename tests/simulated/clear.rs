//! Counters by service level that are cleared: their totals, what clearing loses, and clearing that
//! fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::{Header, METHOD_GET, METHOD_SET, MadStatus};
use ibnet::mad::pma::{Clear, Clearable};
use ibnet::mad::pma::{data, data_mut};
use ibnet::mad::query::Query;
use ibnet::mad::transport::sim::traffic::{KnownFlow, Traffic};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::output::Destination;
use ibnet::partition::whole_fabric;
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::clearing::Clearing;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet_record::attributes::Group;
use ibnet_record::strict::{self, Line, Port, Value};
use ibnet_record::types::{Lid, PortNum, Tid};

/// Wall clock at time zero, in nanoseconds since 1970.
const WALL: i64 = 1_795_000_000_123_456_789;

const COUNTERS: [&str; 2] = ["port_xmit_data_sl_bytes", "port_rcv_data_sl_bytes"];

/// What happens to the requests to clear counters.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// The device clears the counters and answers.
    Answered,
    /// Of two requests, one is lost.
    HalfOfRequestsLost,
    /// Of two requests, the reply to one is lost.
    HalfOfRepliesLost,
    /// All requests are refused.
    Refused,
}

/// A transport that records the requests of performance management, and decides on the fate of
/// those that clear counters.
struct Watched {
    inner: VirtualTransport,
    fate: Fate,
    sent: Arc<Mutex<Vec<(Lid, Mad)>>>,
    sets: Vec<Tid>,
}

impl Transport for Watched {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        let header = Header::parse(mad);
        if header.class == 4 {
            self.sent.lock().expect("no panic").push((target.lid, *mad));
        }
        let mut mad = *mad;
        if header.method == METHOD_SET {
            self.sets.push(header.tid);
            match self.fate {
                Fate::HalfOfRequestsLost if self.sets.len() % 2 == 1 => return Ok(()),
                // The device does not see it, and its answer is changed below.
                Fate::Refused => mad[3] = METHOD_GET,
                _ => {}
            }
        }
        self.inner.send(target, &mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        loop {
            let completion = self.inner.recv(mad, wait, now)?;
            let of_set = completion
                .and_then(|completion| self.sets.iter().position(|tid| *tid == completion.tid));
            match (of_set, self.fate) {
                (Some(place), Fate::HalfOfRepliesLost) if place % 2 == 0 => {}
                (Some(_), Fate::Refused) => {
                    mad[4..6].copy_from_slice(&MadStatus::UNSUPPORTED_ATTRIBUTE.0.to_be_bytes());
                    return Ok(completion);
                }
                _ => return Ok(completion),
            }
        }
    }

    fn locator(&self) -> Locator {
        self.inner.locator()
    }
}

fn fabric() -> Fabric {
    let tree = synthetic::FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
        .expect("the format of this crate")
        .fabric
}

fn host(fabric: &Fabric, name: &str) -> DeviceId {
    let mut devices = fabric.iter();
    devices
        .find(|(_, device)| device.host() == name)
        .expect("in the fabric")
        .0
}

/// Returns a fabric whose hosts send this share of the rate of their links in pairs, until this
/// time.
fn loaded(share: f64, until: Duration) -> SimFabric {
    let fabric = fabric();
    let flow = |from: &str, to: &str| KnownFlow {
        from: host(&fabric, from),
        to: host(&fabric, to),
        octets_per_second: share * 12.5e9,
        start: Instant::ZERO,
        length: Duration::from_secs(3600),
        every: Duration::from_secs(7200),
    };
    let flows = [
        flow("node00001", "node00004"),
        flow("node00005", "node00002"),
    ];
    let traffic = Traffic::of(&fabric, &flows).until(Instant::ZERO + until);
    SimFabric::with_traffic(fabric, Options::default(), traffic)
}

/// For each port (GUID and number) and counter by service level, the records and their values.
type ByCounter<'a> = BTreeMap<(u64, u8, &'static str), Vec<(&'a Port, &'a [u64])>>;

/// The result of a sweep.
struct Swept {
    lines: Vec<Line>,
    sent: Vec<(Lid, Mad)>,
    sim: Arc<Mutex<SimFabric>>,
}

/// Settings of a sampler that clears the counters, or of one that does not.
fn config(interval: Duration, clears: bool) -> Config {
    Config {
        groups: [Group::Extended, Group::XmtSl, Group::RcvSl].into(),
        clearing: clears.then(|| Clearing {
            of: Clearable::ALL.into(),
            interval,
        }),
        ..Config::default()
    }
}

fn sweep(
    sim: SimFabric,
    (slots, interval): (u64, Duration),
    engine: Config,
    fate: Fate,
    mut change: impl FnMut(u64, &mut SimFabric),
) -> Swept {
    let (sim, clock) = (Arc::new(Mutex::new(sim)), VirtualClock::default());
    clock.set_wall_offset(WALL);
    let (outlet, written) = Destination::memory();
    let settings = DriverSettings {
        sweeps: Some(slots),
        ..DriverSettings::simulated("here", interval, engine)
    };
    let sent = Arc::default();
    let transport = Watched {
        inner: VirtualTransport::new(Arc::clone(&sim), clock.clone(), 1),
        fate,
        sent: Arc::clone(&sent),
        sets: Vec::new(),
    };
    let plan = SweepPlan::new(&whole_fabric(&fabric(), "here").0);
    let mut text = String::new();
    Driver::new(plan, settings, transport, clock, outlet, 1)
        .run(&Control::default(), |report| {
            text += &written.text();
            change(report.done, &mut sim.lock().expect("no panic"));
        })
        .expect("no record is lost");
    text += &written.text();
    let lines = text
        .lines()
        .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")))
        .collect();
    let sent = sent.lock().expect("no panic").clone();
    Swept { lines, sent, sim }
}

impl Swept {
    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.lines.iter().filter_map(|line| match line {
            Line::Port(port) => Some(&**port),
            _ => None,
        })
    }

    fn events(&self, name: &str) -> usize {
        let is_event = |line: &&Line| matches!(line, Line::Event(event) if event.event == name);
        self.lines.iter().filter(is_event).count()
    }

    /// Returns the requests that clear counters.
    fn sets(&self) -> impl Iterator<Item = &(Lid, Mad)> {
        self.sent.iter().filter(|(_, mad)| mad[3] == METHOD_SET)
    }

    /// Returns, for each port and counter by service level, the records.
    fn by_counter(&self) -> ByCounter<'_> {
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for port in self.ports() {
            for name in COUNTERS {
                if let Some(Value::Many(values)) = port.counters.get(name) {
                    let key = (port.guid.0, port.port.0, name);
                    found.entry(key).or_default().push((port, &values[..]));
                }
            }
        }
        found
    }

    /// Returns the true bytes of a counter, for each service level.
    fn truth(&self, (guid, port, name): (u64, u8, &str)) -> Vec<u64> {
        let sim = self.sim.lock().expect("no panic");
        let (id, _) = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.guid.0 == guid)
            .expect("in the fabric");
        let end = Instant::from_nanos(u64::MAX / 2);
        let mut counters = sim
            .counters(id, PortNum(port), end)
            .expect("the port exists");
        let of = Clearable::ALL[usize::from(name == COUNTERS[1])];
        counters.by_sl(of).iter().map(|words| words * 4).collect()
    }
}

/// Number of bytes at which a counter stops.
const FULL: u64 = 4 * u32::MAX as u64;

#[test]
fn totals_lack_at_most_the_stated_bytes() {
    // At 1 Hz, a counter is full after 1.37 s; at 10 Hz it is cleared once in a second.
    for (slots, interval, least_sets) in [(8, 1000, 8), (60, 100, 8)] {
        let swept = sweep(
            loaded(1.0, Duration::from_millis(5500)),
            (slots, Duration::from_millis(interval)),
            config(Duration::from_millis(interval), true),
            Fate::Answered,
            |_, _| {},
        );
        let (mut most, mut lost) = (0, 0);
        for (key, records) in swept.by_counter() {
            let (last, totals) = records.last().expect("every slot has one");
            assert_eq!(last.saturated, Vec::<String>::new());
            let bound: u64 = records
                .iter()
                .map(|(port, _)| port.clear_lost_bytes.unwrap_or(0))
                .sum();
            for (total, truth) in totals.iter().zip(swept.truth(key)) {
                assert!(
                    (truth.saturating_sub(bound)..=truth).contains(total),
                    "{key:?}: {total} of {truth}, {bound} can be lost"
                );
                (most, lost) = (most.max(truth), lost.max(truth - total));
            }
            assert!(
                records.windows(2).all(|pair| {
                    let mut both = pair[0].1.iter().zip(pair[1].1);
                    both.all(|(before, after)| before <= after)
                }),
                "{key:?}"
            );
        }
        assert!(most > 3 * FULL && lost > 0, "{most} {lost}");
        assert_eq!(swept.events("reset"), 0);
        assert_eq!(swept.events("clear"), 1);
        assert!(swept.sets().count() >= least_sets);
    }
}

#[test]
fn set_follows_its_reading_and_selects_only_counters_that_have_reached_the_threshold() {
    let swept = sweep(
        loaded(1.0, Duration::from_secs(4)),
        (5, Duration::from_secs(1)),
        config(Duration::from_secs(1), true),
        Fate::Answered,
        |_, _| {},
    );
    let mut last = BTreeMap::new();
    for (lid, mad) in &swept.sent {
        let attribute = Header::parse(mad).attribute;
        let before = last.insert(*lid, (attribute, mad[65]));
        if mad[3] == METHOD_SET {
            assert_eq!(before, Some((attribute, mad[65])), "{lid:?}");
            assert!([0x36, 0x37].contains(&attribute));
            // The traffic has the service levels 0 and 1, and each link only one of them.
            assert!([1, 2].contains(&u16::from_be_bytes([mad[66], mad[67]])));
            assert!(mad[68..].iter().all(|octet| *octet == 0));
        }
    }
    assert!(swept.sets().count() > 20);
}

#[test]
fn full_counter_is_reported_as_saturated_and_continues() {
    // At a quarter of the needed rate, a counter is full in each slot.
    let interval = Duration::from_secs(4);
    let swept = sweep(
        loaded(1.0, Duration::from_secs(17)),
        (6, interval),
        config(interval, true),
        Fate::Answered,
        |_, _| {},
    );
    let (mut full, mut after) = (0, 0);
    for (key, records) in swept.by_counter() {
        let truth = swept.truth(key);
        for pair in records.windows(2) {
            let is_full = |(port, _): (&Port, &[u64])| port.saturated.iter().any(|it| it == key.2);
            full += usize::from(is_full(pair[1]));
            after += usize::from(is_full(pair[0]) && !is_full(pair[1]));
            let both = pair[0].1.iter().zip(pair[1].1);
            for ((before, now), truth) in both.zip(&truth) {
                assert!(before <= now && now <= truth, "{key:?}");
                assert!(now - before <= FULL, "{key:?}");
            }
        }
    }
    assert!(full > 8 && after > 0, "{full} {after}");
    assert_eq!(swept.events("reset"), 0);
}

#[test]
fn set_without_reply_is_neither_counted_twice_nor_lost_silently() {
    for fate in [Fate::HalfOfRequestsLost, Fate::HalfOfRepliesLost] {
        for (interval, share) in [(1000, 1.0), (1000, 0.2), (100, 1.0)] {
            let slots = 8000 / interval;
            let swept = sweep(
                loaded(share, Duration::from_millis(7500)),
                (slots, Duration::from_millis(interval)),
                config(Duration::from_millis(interval), true),
                fate,
                |_, _| {},
            );
            let mut unknown = 0;
            for (key, records) in swept.by_counter() {
                let group = if key.2 == COUNTERS[0] {
                    "xmtsl"
                } else {
                    "rcvsl"
                };
                let bound: u64 = records
                    .iter()
                    .map(|(port, _)| port.clear_lost_bytes.unwrap_or(0))
                    .sum();
                let truth = swept.truth(key);
                let gaps = records[1..]
                    .iter()
                    .filter(|(port, _)| {
                        let stated = port.counters.get(&format!("{group}_dt_slots"));
                        let is_full = port.saturated.iter().any(|name| name == key.2);
                        stated == Some(&Value::One(0)) || is_full
                    })
                    .count();
                unknown += gaps;
                let (_, totals) = records.last().expect("every slot has one");
                for (total, truth) in totals.iter().zip(&truth) {
                    assert!(total <= truth, "{key:?}: {total} of {truth}");
                    assert!(
                        gaps > 0 || total + bound >= *truth,
                        "{key:?}: {total} of {truth}, {bound} can be lost"
                    );
                }
            }
            assert!(unknown > 0, "a reading is marked as unknown");
            assert!(swept.ports().all(|port| port.status == "ok"));
            assert_eq!(
                (swept.events("reset"), swept.events("clear_refused")),
                (0, 0)
            );
            // A request without a reply is not sent again in its slot.
            let sets: Vec<_> = swept
                .sets()
                .map(|(_, mad)| Header::parse(mad).tid)
                .collect();
            assert!(sets.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}

#[test]
fn device_that_refuses_gets_no_further_request() {
    let swept = sweep(
        loaded(1.0, Duration::from_secs(60)),
        (6, Duration::from_secs(1)),
        config(Duration::from_secs(1), true),
        Fate::Refused,
        |_, _| {},
    );
    let mut devices: Vec<_> = swept.sets().map(|(lid, _)| *lid).collect();
    let sets = devices.len();
    devices.sort_unstable();
    devices.dedup();
    assert!(sets > 1);
    assert_eq!((devices.len(), swept.events("clear_refused")), (sets, sets));
    assert_eq!(swept.events("reset"), 0);
    let is_full = |port: &Port| port.saturated.iter().any(|name| name == COUNTERS[0]);
    assert!(swept.ports().any(is_full), "the counters are full");
    assert!(swept.ports().all(|port| port.clear_lost_bytes.is_none()));
}

#[test]
fn clearing_by_another_program_is_a_reset() {
    for clears in [false, true] {
        let swept = sweep(
            loaded(0.05, Duration::from_secs(60)),
            (10, Duration::from_millis(100)),
            config(Duration::from_millis(100), clears),
            Fate::Answered,
            |done, sim| {
                if done != 5 {
                    return;
                }
                clear_port(sim, Duration::from_millis(600));
            },
        );
        assert_eq!(swept.events("reset"), 1);
        assert_eq!(swept.sets().count(), 0, "the counters are nearly empty");
    }
}

/// Clears the counters of the port of [`leaf_and_port`] as another program does, at a time.
fn clear_port(sim: &mut SimFabric, at: Duration) {
    let (leaf, port) = leaf_and_port(sim);
    let mut mad = [0; MAD_LEN];
    let request = Clear {
        of: Clearable::XmtSl,
        port,
        select: 0xffff,
    };
    Query::Clear(request).emit(Tid(1), &mut mad);
    let target = Target::general(sim.lid(leaf), 0, 0, Duration::from_millis(50));
    sim.submit(&target, &mad, Instant::ZERO + at)
        .expect("the device answers");
}

/// Returns the leaf switch of a host that receives, and the port to this host.
fn leaf_and_port(sim: &SimFabric) -> (DeviceId, PortNum) {
    let fabric = sim.fabric();
    let device = fabric.device(host(fabric, "node00004"));
    let (_, peer) = device.linked().next().expect("it has a link");
    let leaf = fabric.find(peer.guid, peer.port).expect("in the fabric");
    (leaf, peer.port)
}

#[test]
fn second_sampler_neither_clears_nor_queries_what_the_first_one_clears() {
    let interval = Duration::from_secs(1);
    let first = config(interval, true);
    assert_eq!(first.of_secondary().groups[..], [Group::Extended]);
    let cadences = Config {
        cadence: Cadence::new(vec![1, 2, 3], 1, 1),
        groups: [Group::XmtSl, Group::Extended, Group::RcvSl].into(),
        ..first.clone()
    };
    assert_eq!(
        cadences.of_secondary().cadence,
        Cadence::new(vec![2], 1, 1),
        "the other groups keep their cadences"
    );
    let swept = sweep(
        loaded(1.0, Duration::from_secs(60)),
        (5, interval),
        first.of_secondary(),
        Fate::Answered,
        // The first sampler clears in the meantime.
        |done, sim| {
            clear_port(sim, interval * (done as u32 + 1));
        },
    );
    assert_eq!((swept.sets().count(), swept.events("reset")), (0, 0));
    assert_eq!(swept.by_counter().len(), 0);
    assert!(swept.ports().any(|port| port.xmit_gbps.is_some()));
}

#[test]
fn device_without_verified_identity_is_not_cleared() {
    let mut sim = loaded(1.0, Duration::from_secs(60));
    let (leaf, _) = leaf_and_port(&sim);
    let lid = sim.lid(leaf);
    sim.demand_m_key(leaf);
    let interval = Duration::from_secs(1);
    let swept = sweep(
        sim,
        (4, interval),
        config(interval, true),
        Fate::Answered,
        |_, _| {},
    );
    assert!(swept.sets().count() > 0 && swept.sets().all(|(to, _)| *to != lid));
    let is_full = |port: &Port| port.lid == lid && !port.saturated.is_empty();
    assert!(swept.ports().any(is_full), "its counters are read");
}

#[test]
fn cleared_data_is_that_of_the_request() {
    // The helper of the simulated agent reads the same octets as a device.
    let mut mad = [0; MAD_LEN];
    let request = Clear {
        of: Clearable::RcvSl,
        port: PortNum(3),
        select: 0x0100,
    };
    request.emit(Tid(1), &mut mad);
    assert_eq!(data(&mad)[1..4], [3, 1, 0]);
    data_mut(&mut mad)[3] = 2;
    assert_eq!(
        ibnet::mad::transport::sim::agent::clears(&mad),
        Some((Clearable::RcvSl, 3, 0x0102))
    );
}
