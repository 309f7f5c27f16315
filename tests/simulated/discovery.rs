//! Discovery of simulated fabrics in virtual time: its result equals the net file of the fabric,
//! also with losses, and what does not answer is named.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::discovery::{Discovered, discover};
use ibnet::mad::directed::{CLASS_SUBN_DIRECTED_ROUTE, PERMISSIVE_LID, Route, reply_to};
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::header::{Header, METHOD_GET};
use ibnet::mad::pma::{Bits, data_mut};
use ibnet::mad::smp;
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::sweep::driver::Clock;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::shapes::{Dragonfly, Grid, Rails, ThreeTiers};
use ibnet::topology::synthetic::{Blueprint, FatTree, stria};
use ibnet::topology::{DeviceId, ports_report};
use ibnet_record::types::{Guid, NodeKind, PortNum, Tid};

/// A transport that checks each request, and counts those in flight.
struct Checked {
    inner: VirtualTransport,
    /// Route and end of the timeout of each request in flight.
    routes: BTreeMap<Tid, (Vec<PortNum>, Instant)>,
    most: usize,
}

impl Transport for Checked {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        let header = Header::parse(mad);
        assert_eq!((target.lid, target.qp), (PERMISSIVE_LID, 0));
        assert_eq!(
            (header.class, header.method),
            (CLASS_SUBN_DIRECTED_ROUTE, METHOD_GET)
        );
        assert!(
            [smp::NODE_INFO, smp::NODE_DESCRIPTION, smp::PORT_INFO].contains(&header.attribute)
        );
        let route = Route::parse(mad).expect("at most 63 hops").ports().to_vec();
        self.routes.retain(|_, (_, until)| *until > now);
        assert!(
            self.routes.values().all(|(other, _)| *other != route),
            "two requests to the end of {route:?}"
        );
        self.routes
            .insert(header.tid, (route, now + target.give_up));
        self.most = self.most.max(self.routes.len());
        self.inner.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let completion = self.inner.recv(mad, wait, now)?;
        if let Some(completion) = &completion {
            self.routes.remove(&completion.tid);
        }
        Ok(completion)
    }

    fn locator(&self) -> Locator {
        self.inner.locator()
    }
}

/// Discovers a fabric. `on_step` is called after each completion with the number of completed
/// requests.
fn discovered(
    sim: SimFabric,
    seed: u64,
    on_step: impl FnMut(&Mutex<SimFabric>, u64),
) -> (Discovered, usize) {
    let (found, most, _) = timed(sim, seed, on_step);
    (found, most)
}

/// Discovers a fabric like [`discovered`]. Also returns the time that it took.
fn timed(
    sim: SimFabric,
    seed: u64,
    mut on_step: impl FnMut(&Mutex<SimFabric>, u64),
) -> (Discovered, usize, Duration) {
    let (fabric, clock) = (Arc::new(Mutex::new(sim)), VirtualClock::default());
    let mut transport = Checked {
        inner: VirtualTransport::new(Arc::clone(&fabric), clock.clone(), seed),
        routes: BTreeMap::new(),
        most: 0,
    };
    let found = discover(&mut transport, &clock, seed, |(done, _)| {
        on_step(&fabric, done);
    });
    let found = found.expect("the transport is open");
    (found, transport.most, clock.now() - Instant::ZERO)
}

fn simulated(text: &str, loss: f64, seed: u64) -> SimFabric {
    let fabric = ports_report::parse(text.as_bytes(), "net")
        .expect("a valid ports report")
        .fabric;
    let options = Options {
        loss,
        seed,
        ..crate::options()
    };
    SimFabric::with_traffic(fabric, options, Traffic::none())
}

fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

fn named(sim: &SimFabric, name: &str) -> DeviceId {
    let found = sim.fabric().iter().find(|(_, device)| device.name == name);
    found.expect("in the fabric").0
}

fn shapes() -> [Blueprint; 7] {
    [
        FatTree {
            leaves: 1,
            hosts: 2,
            spines: 1,
            trunk: 1,
            radix: 254,
        }
        .blueprint(),
        stria(),
        ThreeTiers { radix: 8, pods: 6 }.blueprint(),
        Grid {
            sizes: vec![4, 3, 3],
            wrapped: true,
            hosts: 2,
        }
        .blueprint(),
        Grid {
            sizes: vec![40],
            wrapped: false,
            hosts: 1,
        }
        .blueprint(),
        Dragonfly {
            groups: 4,
            leaves: 3,
            spines: 3,
            hosts: 4,
        }
        .blueprint(),
        Rails {
            units: 3,
            hosts: 4,
            rails: 4,
            spines: 2,
        }
        .blueprint(),
    ]
}

#[test]
fn discovery_of_each_shape_equals_its_net_file_whatever_is_lost() {
    for (shape, blueprint) in shapes().iter().enumerate() {
        let text = blueprint.ports_report();
        for loss in [0.0, 0.01, 0.1] {
            let (found, most) = discovered(simulated(&text, loss, 7), shape as u64, |_, _| {});
            assert_eq!(
                lines(&found.net_file),
                lines(&text),
                "shape {shape}, loss {loss}"
            );
            assert_eq!(found.notes, Vec::<String>::new());
            assert!(most <= 64, "{most} requests in flight");
        }
    }
}

#[test]
fn discovery_of_a_real_net_file_equals_it_but_for_fdr10() {
    let text = include_str!("../data/fabrics/loginoff-fdr10-qdr.reconstructed.p");
    let (found, _) = discovered(simulated(text, 0.0, 1), 1, |_, _| {});
    let expected = text.replace(" FDR10", " QDR");
    assert_ne!(expected, text);
    assert_eq!(lines(&found.net_file), lines(&expected));
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn requests_to_several_devices_are_in_flight_at_once() {
    let text = stria().ports_report();
    let (found, most) = discovered(simulated(&text, 0.0, 1), 1, |_, _| {});
    assert!(most > 32, "{most} requests in flight");
    // Each port once, each node three times at most, and each link once or, if both ends are read
    // at the same time, twice.
    let nodes = 22 + 302;
    assert!(
        found.mads < 1108 + 22 + 3 * nodes + 968 / 2,
        "{} MADs",
        found.mads
    );
}

#[test]
fn losses_do_not_change_the_order_of_the_lines() {
    let text = stria().ports_report();
    let of = |loss, seed| {
        discovered(simulated(&text, loss, seed), seed, |_, _| {})
            .0
            .net_file
    };
    assert_eq!(of(0.1, 1), of(0.1, 2));
    assert_eq!(of(0.1, 1), of(0.0, 3));
}

#[test]
fn switch_that_dies_during_the_discovery_is_named_and_the_rest_is_found() {
    let text = stria().ports_report();
    let sim = simulated(&text, 0.0, 1);
    let leaf = named(&sim, "leaf07");
    // Enough requests that some ports of the leaf are known, and others not.
    let (found, _) = discovered(sim, 1, |fabric, done| {
        if done == 700 {
            fabric.lock().expect("unlocked").set_dead(leaf, true);
        }
    });
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("`leaf07`") && note.contains("stopped answering")),
        "{:?}",
        found.notes
    );
    let all = lines(&text);
    let near = |line: &&str| line.contains("'leaf07'");
    let others: BTreeSet<_> = all.iter().copied().filter(|line| !near(line)).collect();
    let hosts_of_leaf = |line: &str| {
        let number = line
            .split("'node")
            .nth(1)
            .and_then(|rest| rest[..5].parse().ok());
        number.is_some_and(|number: u32| (145..=168).contains(&number))
    };
    let found = lines(&found.net_file);
    for line in others.iter().filter(|line| !hosts_of_leaf(line)) {
        assert!(found.contains(line), "{line}");
    }
    assert!(found.len() < all.len(), "the leaf died before it was read");
}

#[test]
fn device_that_requires_a_key_is_named_by_its_cable() {
    let text = stria().ports_report();
    let mut sim = simulated(&text, 0.0, 1);
    sim.demand_m_key(named(&sim, "node00100 mlx5_0"));
    let (found, _) = discovered(sim, 1, |_, _| {});
    let [note] = &found.notes[..] else {
        panic!("{:?}", found.notes)
    };
    assert!(
        note.starts_with("the device behind port 4 of `leaf05` (0x")
            && note.ends_with(") does not answer"),
        "{note}"
    );
    // The port has no link in the result, like a port whose peer does not answer ibnetdiscover.
    let missing: Vec<_> = lines(&text)
        .difference(&lines(&found.net_file))
        .map(|line| line.contains("'node00100 mlx5_0'"))
        .collect();
    assert_eq!(missing, [true, true]);
}

#[test]
fn host_without_an_answer_of_its_own_port_finds_nothing() {
    let mut sim = simulated(&stria().ports_report(), 0.0, 1);
    let own = sim.manager().expect("an HCA");
    sim.set_dead(own, true);
    let (found, _) = discovered(sim, 1, |_, _| {});
    assert_eq!(found.net_file, "");
    assert_eq!(found.notes, ["the HCA port of this host does not answer"]);
    let error = found.checked().expect_err("nothing was found").to_string();
    assert!(
        error.starts_with("cannot discover the fabric: the HCA port"),
        "{error}"
    );
}

#[test]
fn name_is_printed_as_ibnetdiscover_prints_it() {
    // 70 octets: only 63 are printed. A tab and each octet of a letter outside of ASCII are blanks.
    let name = format!("a\tb\u{e9}{}", "x".repeat(65));
    let text = stria().ports_report().replace("leaf01", &name);
    let (found, _) = discovered(simulated(&text, 0.0, 1), 1, |_, _| {});
    let printed = format!("'a b  {}'", "x".repeat(58));
    assert!(found.net_file.contains(&printed));
    assert!(!found.net_file.contains(&"x".repeat(59)));
}

#[test]
fn peer_of_a_moved_cable_is_found_where_it_is_now() {
    let text = stria().ports_report();
    let mut sim = simulated(&text, 0.0, 1);
    let leaf = named(&sim, "leaf02");
    let host = |port| {
        let peer = sim.fabric().device(leaf).port(PortNum(port));
        let peer = peer.and_then(|port| port.peer.clone()).expect("a host");
        (
            sim.fabric().find(peer.guid, peer.port).expect("known"),
            peer.port,
        )
    };
    let (one, two) = (host(1), host(2));
    sim.set_peer(leaf, PortNum(1), Some(two));
    sim.set_peer(leaf, PortNum(2), Some(one));
    let (found, _) = discovered(sim, 1, |_, _| {});
    let line = found
        .net_file
        .lines()
        .find(|line| line.starts_with("SW") && line.ends_with("( 'leaf02' - 'node00025 mlx5_0' )"))
        .expect("the host has a link");
    assert_eq!(line.split_whitespace().nth(2), Some("2"), "{line}");
}

#[test]
fn many_silent_devices_wait_at_the_same_time() {
    let text = stria().ports_report();
    let mut sim = simulated(&text, 0.0, 1);
    for host in 2..=288 {
        sim.demand_m_key(named(&sim, &format!("node{host:05} mlx5_0")));
    }
    let (found, _, took) = timed(sim, 1, |_, _| {});
    assert_eq!(found.notes.len(), 287);
    // 287 devices at 64 places, each for 3.5 s. One after another they would take 1000 s.
    assert!(took < Duration::from_secs(25), "{took:?}");
}

/// A fabric of switches without an end: each port leads to another switch.
struct Endless {
    ports: u8,
    replies: VecDeque<(Tid, Mad)>,
}

impl Transport for Endless {
    fn send(&mut self, _: &Target, mad: &Mad, _: Instant) -> Result<(), TransportError> {
        let header = Header::parse(mad);
        let mut reply = reply_to(mad);
        let data = data_mut(&mut reply);
        let ports = Route::parse(mad).expect("at most 63 hops").ports().to_vec();
        let number =
            |sum: u64, port: &PortNum| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(port.0);
        let guid = Guid(ports.iter().fold(0xcbf2_9ce4_8422_2325, number));
        let (kind, ports) = match ports.len() {
            0 => (NodeKind::Hca, 1),
            _ => (NodeKind::Switch, self.ports),
        };
        match header.attribute {
            smp::NODE_INFO => smp::NodeInfo {
                kind: Some(kind),
                ports,
                node_guid: guid,
                port_guid: guid,
                local_port: PortNum(1),
                ..smp::NodeInfo::default()
            }
            .emit(data),
            _ => smp::PHYSICAL_STATE.set_raw(data, 0, smp::LINK_UP),
        }
        self.replies.push_back((header.tid, reply));
        Ok(())
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        _: Duration,
        _: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let reply = self.replies.pop_front();
        Ok(reply.map(|(tid, reply)| {
            *mad = reply;
            let (slid, len) = (PERMISSIVE_LID, MAD_LEN);
            let outcome = Outcome::Reply { slid, len };
            Completion { tid, outcome }
        }))
    }

    fn locator(&self) -> Locator {
        Box::new(|| None)
    }
}

/// Returns the number of nodes that are found in an endless fabric of switches with some ports.
fn nodes_of_endless(ports: u8) -> usize {
    let mut transport = Endless {
        ports,
        replies: VecDeque::new(),
    };
    let found = discover(&mut transport, &VirtualClock::default(), 1, |_| {});
    let text = found.expect("the transport is open").net_file;
    let guid = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    text.lines().filter_map(guid).collect::<BTreeSet<_>>().len()
}

#[test]
fn endless_fabric_ends_after_63_hops_and_at_the_limit_of_nodes() {
    // A chain of this host and of 63 switches.
    assert_eq!(nodes_of_endless(2), 64);
    assert_eq!(nodes_of_endless(3), 65_536);
}
