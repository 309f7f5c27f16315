//! The physical layer in the records of a sweep, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::output::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::engine::{Config, PhysicalConfig};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet_record::physical::Value;
use ibnet_record::registers::link_down;
use ibnet_record::strict::{self, Event, Line, Physical};
use ibnet_record::types::{Guid, LinkRate, NodeKind, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 4,
    hosts: 10,
    spines: 2,
    trunk: 2,
    radix: 20,
};

/// GUID and port number.
type Port = (Guid, PortNum);

fn fabric(tree: &synthetic::FatTree) -> Fabric {
    let report = tree.blueprint().ports_report();
    ports_report::parse(report.as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// Returns the end of each port's cable.
fn cables(fabric: &Fabric) -> BTreeMap<Port, Port> {
    let cables = fabric.devices().iter().flat_map(|device| {
        let linked = device.linked();
        linked.map(|(port, peer)| ((device.guid, port.num), (peer.guid, peer.port)))
    });
    cables.collect()
}

/// Runs a sweep with slots of a second, and returns its records. Before each slot, `change` gets
/// the number of completed slots and the fabric.
fn swept(
    sim: SimFabric,
    slots: u64,
    physical: PhysicalConfig,
    mut change: impl FnMut(u64, &mut SimFabric),
) -> Vec<Line> {
    let plan = SweepPlan::new(&ibnet::partition::whole_fabric(sim.fabric(), "here").0);
    let clock = VirtualClock::default();
    clock.set_wall_offset(1_795_000_000_123_456_789);
    let sim = Arc::new(Mutex::new(sim));
    let engine = Config {
        physical: Some(physical),
        state_tables: true,
        ..Config::default()
    };
    let settings = DriverSettings {
        sweeps: Some(slots),
        ..DriverSettings::simulated("here", Duration::from_secs(1), engine)
    };
    let (outlet, lines) = Destination::memory();
    let transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), 1);
    let (mut records, mut done) = (Vec::new(), 0);
    Driver::new(plan, settings, transport, clock, outlet, 1)
        .run(&Control::default(), |_| {
            let parsed =
                |line| strict::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            records.extend(lines.text().lines().map(parsed));
            done += 1;
            change(
                done,
                &mut sim.lock().expect("no thread panicked with the lock"),
            );
        })
        .expect("nothing is lost");
    records
}

/// A budget with which the readings of a small fabric are never late.
fn ample() -> PhysicalConfig {
    PhysicalConfig {
        budget_ppm: 300_000,
        ..PhysicalConfig::default()
    }
}

fn events<'a>(lines: &'a [Line], name: &str) -> Vec<&'a Event> {
    let events = lines.iter().filter_map(|line| match line {
        Line::Event(event) if event.event == name => Some(event),
        _ => None,
    });
    events.collect()
}

fn physical(lines: Vec<Line>) -> Vec<Physical> {
    let records = lines.into_iter().filter_map(|line| match line {
        Line::Physical(record) => Some(record),
        _ => None,
    });
    records.collect()
}

/// Sets the state of a link at one of its ends.
fn set_link(sim: &mut SimFabric, end: (DeviceId, PortNum), state: u8) {
    let rate = LinkRate::new("4x", "EDR");
    sim.set_link(end.0, end.1, PortInfo::of_rate(&rate, state));
}

fn text(record: &Physical, name: &str) -> Option<String> {
    match record.values.get(name)? {
        Value::Text(text) => Some(text.clone()),
        other => panic!("{name}: {other:?}"),
    }
}

fn number(record: &Physical, name: &str) -> Option<u64> {
    match record.values.get(name)? {
        Value::Integer(number) => Some(*number),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn records_have_the_times_and_the_modules_of_all_links() {
    let sim = SimFabric::new(fabric(&TREE), Options::default());
    let cables = cables(sim.fabric());
    let lines = swept(sim, 200, ample(), |_, _| {});
    let is_ok = |line: &Line| !matches!(line, Line::Port(port) if port.status != "ok");
    assert!(lines.iter().all(is_ok), "all counters are read");
    let records = physical(lines);
    let mut serials = BTreeMap::new();
    let mut readings: BTreeMap<_, Vec<&Physical>> = BTreeMap::new();
    for record in &records {
        let key = record.head.port.map(|port| (record.head.guid, port));
        match (&*record.head.kind, key) {
            ("module", Some(key)) => {
                // A page that was not answered is absent.
                serials.extend(text(record, "vendor_sn").map(|serial| (key, serial)));
            }
            ("phy", Some(key)) => readings.entry(key).or_default().push(record),
            ("sensors", None) => {}
            other => panic!("{other:?}"),
        }
    }
    // One request in a hundred is not answered, so a few modules are missing.
    assert!(
        serials.len() * 10 > cables.len() * 9,
        "{} modules",
        serials.len()
    );
    for (here, there) in &cables {
        if let (Some(here), Some(there)) = (serials.get(here), serials.get(there)) {
            assert_eq!(here, there);
        }
        let of_port = &readings[here];
        assert!(of_port.len() >= 6, "{} records", of_port.len());
        // Of four records, one has all registers.
        let all = of_port
            .iter()
            .filter(|record| number(record, "rs_fec_corrected_blocks").is_some());
        assert!((1..=2).contains(&all.count()), "{of_port:?}");
        for pair in of_port.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            assert_eq!(after.head.dt_ns, Some(after.head.ts - before.head.ts));
            let bits = [before, after].map(|record| number(record, "phy_received_bits"));
            assert!(bits[0] < bits[1] || bits.contains(&None), "{bits:?}");
        }
        assert_eq!(of_port[0].head.dt_ns, None);
    }
    let sensors = records
        .iter()
        .filter(|record| record.head.kind == "sensors");
    let (mut of_switches, mut of_hosts) = (0, BTreeSet::new());
    for record in sensors {
        if text(record, "product_name").is_none() && number(record, "tacho_active").is_none() {
            // Of an HCA, the chip and the firmware are read once in five minutes.
            assert_eq!(number(record, "sensor_map"), None);
            if text(record, "psid").is_some() && number(record, "extended_major") == Some(99) {
                of_hosts.insert(record.head.guid);
            }
            continue;
        }
        of_switches += 1;
        let list = |name: &str| record.values.get(name).and_then(Value::integers);
        // One request in a hundred is not answered.
        let Some(names) = record.values.get("sensor_names").and_then(Value::texts) else {
            continue;
        };
        let known = ["asic", "port_amb", "board", "fan_amb"];
        assert!(names.len() >= 2 && names.iter().all(|name| known.contains(&&**name)));
        let [now, most] = ["sensor_temperatures_mc", "sensor_max_temperatures_mc"].map(list);
        for (now, most) in now.unwrap().iter().zip(most.unwrap()) {
            assert!(
                (25_000..80_000).contains(now) && *most == now + 4000,
                "{record:?}"
            );
        }
        if let (Some(fans), Some(slow)) = (list("fan_numbers"), number(record, "fan_under_limit")) {
            let speeds = list("fan_rpm").unwrap();
            for (fan, rpm) in fans.iter().zip(speeds) {
                assert_eq!(slow >> fan & 1 == 1, *rpm == 0, "{record:?}");
            }
        }
    }
    assert!(
        of_switches >= 3 * 6,
        "six switches each minute: {of_switches}"
    );
    assert!(of_hosts.len() >= 36, "40 hosts: {}", of_hosts.len());
}

/// Ten leaf switches with a link to each of ten spine switches, and two with fifty to one spine
/// switch.
const HUNDRED_TRUNKS: [synthetic::FatTree; 2] = [
    synthetic::FatTree {
        leaves: 10,
        hosts: 4,
        spines: 10,
        trunk: 1,
        radix: 24,
    },
    synthetic::FatTree {
        leaves: 2,
        hosts: 4,
        spines: 1,
        trunk: 50,
        radix: 108,
    },
];

/// Both ends of all links between switches.
fn trunks(fabric: &Fabric) -> Vec<(DeviceId, PortNum)> {
    let is_switch = |id: DeviceId| fabric.device(id).kind == NodeKind::Switch;
    let ends = fabric.iter().filter(|(id, _)| is_switch(*id));
    ends.flat_map(|(id, device)| {
        let linked = device.linked().filter(|(_, peer)| {
            let found = fabric.find(peer.guid, peer.port);
            found.is_some_and(is_switch)
        });
        linked.map(move |(port, _)| (id, port.num))
    })
    .collect()
}

const MAX_DELAY_NS: u64 = 2_000_000_000;

#[test]
fn reason_of_each_of_a_hundred_links_follows_within_two_seconds() {
    let [wide, narrow] = &HUNDRED_TRUNKS;
    for (tree, loss) in [(wide, 0.0), (wide, 0.01), (narrow, 0.0), (narrow, 0.01)] {
        let options = Options {
            loss,
            ..Options::default()
        };
        let sim = SimFabric::new(fabric(tree), options);
        let ends = trunks(sim.fabric());
        assert_eq!(ends.len(), 200);
        let guids: BTreeMap<Guid, DeviceId> = sim
            .fabric()
            .iter()
            .map(|(id, device)| (device.guid, id))
            .collect();
        let mut truth = BTreeMap::new();
        // The budget allows two requests a second beside those for the reasons.
        let config = PhysicalConfig {
            budget_ppm: 1000,
            ..PhysicalConfig::default()
        };
        let lines = swept(sim, 24, config, |done, sim| {
            if done == 20 {
                for end in &ends {
                    set_link(sim, *end, PortInfo::DOWN);
                    truth.insert(*end, sim.link_down_reason(end.0, end.1).expect("down"));
                }
            }
        });
        let downs = events(&lines, "link_down");
        assert_eq!(downs.len(), 200);
        let reasons = events(&lines, "link_down_reason");
        assert_eq!(reasons.len(), 200, "{reasons:?}");
        for down in downs {
            let of = |event: &&&Event| (event.guid, event.port) == (down.guid, down.port);
            let reason = reasons.iter().find(of).expect("each link has a reason");
            let delay = reason.ts.checked_sub(down.ts).expect("it follows");
            assert!(delay < MAX_DELAY_NS, "{delay} ns: {reason:?}");
            let end = (guids[&down.guid.unwrap()], down.port.unwrap());
            let (number, is_local) = truth[&end];
            let of = if is_local { "" } else { " of the other end" };
            let blamed = if is_local {
                "this end"
            } else {
                "the other end"
            };
            let expected = format!("reason {}{of}, intended: ", link_down::named(number));
            assert!(reason.detail.starts_with(&expected), "{reason:?}");
            assert!(
                reason.detail.contains(&format!("blamed: {blamed}")),
                "{reason:?}"
            );
        }
    }
}

#[test]
fn dead_end_gives_its_reason_when_it_is_back_and_flaps_are_counted() {
    let sim = SimFabric::new(fabric(&TREE), Options::default());
    let fabric = sim.fabric().clone();
    let (host, device) = fabric
        .iter()
        .find(|(_, device)| device.kind == NodeKind::Hca && device.host() == "node00003")
        .expect("a host");
    let (port, peer) = device.linked().next().expect("it has a cable");
    let leaf = fabric.find(peer.guid, peer.port).expect("in the fabric");
    let ends = [(host, port.num), (leaf, peer.port)];
    let (host_guid, leaf_guid) = (device.guid, peer.guid);
    let lines = swept(sim, 100, ample(), |done, sim| {
        let is_down = match done {
            60 | 72 | 84 => true,
            65 | 77 | 89 => false,
            _ => return,
        };
        sim.set_dead(host, is_down);
        let state = if is_down {
            PortInfo::DOWN
        } else {
            PortInfo::ACTIVE
        };
        ends.iter().for_each(|end| set_link(sim, *end, state));
    });
    let reasons = events(&lines, "link_down_reason");
    let of = |guid| {
        let of = reasons.iter().filter(|event| event.guid == Some(guid));
        of.map(|event| &**event).collect::<Vec<&Event>>()
    };
    let downs = events(&lines, "link_down");
    assert_eq!((downs.len(), of(leaf_guid).len()), (3, 3), "{reasons:?}");
    let flaps = events(&lines, "link_flapped");
    assert_eq!((flaps.len(), of(host_guid).len()), (3, 3), "{reasons:?}");
    for (event, reason) in downs
        .iter()
        .zip(of(leaf_guid))
        .chain(flaps.iter().zip(of(host_guid)))
    {
        let delay = reason.ts.checked_sub(event.ts).expect("it follows");
        assert!(delay < MAX_DELAY_NS, "{delay} ns: {reason:?}");
        assert!(reason.detail.contains(", serial number SIM"), "{reason:?}");
    }
    let last = &of(leaf_guid)[2].detail;
    let (_, counts) = last
        .split_once(", in the last hour: ")
        .expect("three reasons");
    let count = |part: &str| part.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(counts.split(", ").map(count).sum::<usize>(), 3, "{last}");
}

#[test]
fn module_of_a_link_that_went_down_is_read_beyond_the_budget() {
    let sim = SimFabric::new(fabric(&TREE), Options::default());
    let ends = trunks(sim.fabric())[..4].to_vec();
    let config = PhysicalConfig {
        budget_ppm: 0,
        every: [Duration::from_secs(86_400); 4],
        bit_errors_every: Duration::from_secs(86_400),
        ..PhysicalConfig::default()
    };
    let lines = swept(sim, 20, config, |done, sim| {
        if done == 1 {
            let down = |end: &_| set_link(sim, *end, PortInfo::DOWN);
            ends.iter().for_each(down);
        }
    });
    let reasons = events(&lines, "link_down_reason");
    assert_eq!(reasons.len(), ends.len());
    for reason in &reasons {
        // No module was read before.
        assert!(reason.detail.contains(", serial number SIM"), "{reason:?}");
    }
    let modules = physical(lines);
    let modules = modules.iter().filter(|record| record.head.kind == "module");
    assert!(modules.count() >= ends.len());
}

#[test]
fn records_of_planes_have_the_states_and_the_shares_of_the_model() {
    let options = Options {
        planes: 4,
        ..Options::default()
    };
    let config = PhysicalConfig {
        every: [60, 300, 30, 60].map(Duration::from_secs),
        ..ample()
    };
    let new = || SimFabric::new(fabric(&TREE), options.clone());
    let model = new();
    let switch = model
        .fabric()
        .iter()
        .find(|(_, device)| device.kind == NodeKind::Switch);
    let changed = switch.expect("a switch").0;
    let lines = swept(new(), 250, config, |done, sim| {
        if done == 150 {
            let now = Instant::ZERO + Duration::from_secs(done);
            sim.set_plane_share((changed, PortNum(1)), 3, 0.0, now);
        }
    });
    let ports: BTreeSet<Port> = cables(model.fabric()).into_keys().collect();
    let of_ports = |line: &&Line| matches!(line, Line::Port(_));
    assert_eq!(lines.iter().filter(of_ports).count(), 250 * ports.len());
    let mut readings: BTreeMap<_, Vec<Physical>> = BTreeMap::new();
    for record in physical(lines) {
        if record.head.kind == "planes" {
            let port = (record.head.guid, record.head.port.unwrap());
            assert_eq!(number(&record, "planes"), Some(4));
            let plane = number(&record, "plane").unwrap();
            readings.entry((port, plane)).or_default().push(record);
        }
    }
    let found: BTreeSet<Port> = readings.keys().map(|(port, _)| *port).collect();
    assert_eq!(found, ports, "a port with planes is one port");
    let state = |record| number(record, "phy_mngr_fsm_state");
    let of_changed = &readings[&((model.fabric().device(changed).guid, PortNum(1)), 3)];
    assert_eq!(state(&of_changed[0]), Some(3));
    assert_eq!(state(of_changed.last().unwrap()), Some(2));
    let mut compared = 0;
    for (guid, port) in ports {
        let id = model.fabric().find(guid, port).unwrap();
        let share = |plane: u64| model.plane_share(id, port, plane as u8).unwrap();
        // The first two readings are before the change.
        let carried = (1..=4).filter_map(|plane| {
            let [first, last, ..] = &readings.get(&((guid, port), plane))?[..] else {
                return None;
            };
            let bytes = [first, last].map(|record| number(record, "port_xmit_data_bytes"));
            let is_up = state(last).is_none_or(|state| state == 3);
            assert!(is_up == (share(plane) > 0.0) || state(last).is_none());
            Some((plane, (bytes[1]? - bytes[0]?) as f64))
        });
        let carried: Vec<(u64, f64)> = carried.collect();
        let healthy = carried.iter().filter(|(plane, _)| share(*plane) >= 1.0);
        let most = healthy.map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        // With little traffic, the times of the readings matter.
        for (plane, bytes) in carried.iter().filter(|_| most > 1e9) {
            assert!((bytes / most - share(*plane)).abs() < 0.05, "{carried:?}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}
