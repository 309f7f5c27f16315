//! Fabrics whose tables have known faults.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::*;
use crate::fixtures::{fold, job_lines};
use crate::input::Fold;
use crate::ports::Ports;
use crate::record::Record;
use crate::routes::Routes;
use ibnet_record::types::{Guid, Lid, PortNum};

/// A fabric of switches with the GUIDs and LIDs 1, 2, ..., and hosts with the LIDs 101, 102, ...
/// Hosts are on the first ports of their switches.
struct Built {
    net: Net,
    /// The port of each LID at each switch.
    tables: BTreeMap<(u64, u16), u8>,
    /// Switch and port of each host.
    hosts: Vec<(u64, u8)>,
}

const FIRST_HOST: u16 = 101;

impl Built {
    /// Builds a fabric from the number of hosts of each switch, and the cables between switches:
    /// switch, port, switch, port.
    fn new(hosts_of: &[u8], cables: &[(u64, u8, u64, u8)]) -> Self {
        let end = |guid: u64, port: u8, role: Role| End {
            guid: Guid(guid),
            port: PortNum(port),
            lid: Lid(guid as u16),
            role,
            name: "",
        };
        let (mut ports, mut hosts) = (Vec::new(), Vec::new());
        for (switch, count) in (1..).zip(hosts_of) {
            for port in 1..=*count {
                let host = u64::from(FIRST_HOST) + hosts.len() as u64;
                hosts.push((switch, port));
                ports.push(NetPort {
                    own: end(switch, port, Role::Switch),
                    peer: Some(end(host, 1, Role::Host)),
                    gbps: Some(100.0),
                });
            }
        }
        for (one, port, other, other_port) in cables {
            ports.push(NetPort {
                own: end(*one, *port, Role::Switch),
                peer: Some(end(*other, *other_port, Role::Switch)),
                gbps: Some(100.0),
            });
        }
        let mut tables = BTreeMap::new();
        for (lid, (switch, port)) in (FIRST_HOST..).zip(&hosts) {
            tables.insert((*switch, lid), *port);
        }
        Self {
            net: Net::new(ports),
            tables,
            hosts,
        }
    }

    /// A ring of switches with one host each: port 2 leads to the next switch, port 3 to the one
    /// before. All packets go on to the next switch.
    fn ring(switches: u64) -> Self {
        let cables: Vec<_> = (1..=switches)
            .map(|switch| (switch, 2, switch % switches + 1, 3))
            .collect();
        let mut built = Self::new(&vec![1; switches as usize], &cables);
        for switch in 1..=switches {
            for lid in FIRST_HOST..FIRST_HOST + switches as u16 {
                built.tables.entry((switch, lid)).or_insert(2);
            }
        }
        built
    }

    /// Two leaf switches with four hosts each, and two spine switches. The LID decides on the
    /// spine.
    fn tree() -> Self {
        let cables = [(1, 5, 3, 1), (1, 6, 4, 1), (2, 5, 3, 2), (2, 6, 4, 2)];
        let mut built = Self::new(&[4, 4], &cables);
        for (lid, (own, _)) in (FIRST_HOST..).zip(built.hosts.clone()) {
            for leaf in [1, 2] {
                built
                    .tables
                    .entry((leaf, lid))
                    .or_insert(5 + (lid / 2 % 2) as u8);
            }
            built.tables.insert((3, lid), own as u8);
            built.tables.insert((4, lid), own as u8);
        }
        built
    }

    fn routes(&self) -> Routes {
        let mut text = String::new();
        let mut last = 0;
        for ((switch, lid), port) in &self.tables {
            if last != *switch {
                writeln!(
                    text,
                    "Unicast lids [0x0-0xff] of switch Lid 1 guid {} (s):",
                    Guid(*switch)
                )
                .unwrap();
                last = *switch;
            }
            writeln!(text, "{lid:#06x} {port:03} :").unwrap();
        }
        Routes::parse(&text, "built").unwrap()
    }

    fn host(&self, index: usize) -> DeviceIndex {
        let guid = Guid(u64::from(FIRST_HOST) + index as u64);
        self.net.find(&guid.to_string())[0]
    }

    fn switch(&self, guid: u64) -> DeviceIndex {
        self.net.find(&Guid(guid).to_string())[0]
    }

    /// Returns the sending ports between switches of the path of two hosts, by the tables alone.
    fn path(&self, from: usize, to: usize) -> Vec<(u64, u8)> {
        let (mut at, mut path) = (self.hosts[from].0, Vec::new());
        let lid = FIRST_HOST + to as u16;
        while at != self.hosts[to].0 {
            let port = self.tables[&(at, lid)];
            path.push((at, port));
            let channel = self.net.channel_of(self.switch(at), PortNum(port)).unwrap();
            at = self.net.devices()[self.net.channel(channel).to.0 as usize]
                .guid
                .0;
        }
        path
    }
}

/// The text of `opensm-sl2vl.dump` in which each lane is `lane(switch, in, out, sl)`.
fn sl_to_vl(switches: u64, ports: u8, lane: impl Fn(u64, u8, u8, u8) -> u8) -> SlToVl {
    SlToVl::parse(&sl_to_vl_text(switches, ports, lane), "sl2vl").unwrap()
}

fn sl_to_vl_text(switches: u64, ports: u8, lane: impl Fn(u64, u8, u8, u8) -> u8) -> String {
    let mut text = String::new();
    for switch in 1..=switches {
        writeln!(
            text,
            "Switch {}, base LID {switch}, \"s\"\n#in out : 0  1",
            Guid(switch)
        )
        .unwrap();
        for (from, to) in (0..=ports).flat_map(|from| (0..=ports).map(move |to| (from, to))) {
            let lanes: Vec<String> = (0..16)
                .map(|sl| lane(switch, from, to, sl).to_string())
                .collect();
            writeln!(text, "{from:<3} {to:<3} : {}", lanes.join("  ")).unwrap();
        }
    }
    text
}

/// The text of `opensm-path-records.dump` in which each service level is `sl(from, to)`.
fn path_sls(hosts: usize, sl: impl Fn(usize, usize) -> u8) -> PathSls {
    let mut text = String::new();
    for from in 0..hosts {
        let lid = usize::from(FIRST_HOST) + from;
        writeln!(
            text,
            "Channel Adapter {}, base LID {lid}, \"h\", port 1",
            Guid(lid as u64)
        )
        .unwrap();
        writeln!(text, "# LID  : SL : MTU : RATE").unwrap();
        for to in 0..hosts {
            let lid = usize::from(FIRST_HOST) + to;
            writeln!(text, "0x{lid:04X} : {:<2} : 4   : 3", sl(from, to)).unwrap();
        }
    }
    PathSls::parse(&text, "path-records").unwrap()
}

#[test]
fn loop_of_a_ring_is_found_port_by_port() {
    let ring = Built::ring(5);
    let routes = ring.routes();
    let paths = Paths::new(&ring.net, &routes);
    let all_zero = |_, _, _, _| 0;
    let found = credit_loops(
        &paths,
        Some(&path_sls(5, |_, _| 0)),
        Some(&sl_to_vl(5, 3, all_zero)),
    );
    assert_eq!((found.certainty, found.loops.len()), (Certainty::Known, 1));
    let ports: Vec<_> = found.loops[0]
        .links
        .iter()
        .map(|(channel, vl)| (ring.net.key(ring.net.channel(*channel).from), *vl))
        .collect();
    let expected: Vec<_> = (1..=5)
        .map(|switch| ((Guid(switch), PortNum(2)), 0))
        .collect();
    assert_eq!(ports, expected);
}

#[test]
fn loop_without_service_levels_is_only_possible() {
    let ring = Built::ring(4);
    let routes = ring.routes();
    let paths = Paths::new(&ring.net, &routes);
    let found = credit_loops(&paths, None, None);
    assert_eq!(
        (found.certainty, found.loops.len()),
        (Certainty::Possible, 1)
    );
    assert_eq!(found.loops[0].sl, None);
    let lanes = sl_to_vl(4, 3, |_, _, _, sl| sl.min(1));
    let found = credit_loops(&paths, None, Some(&lanes));
    let sls: Vec<_> = found.loops.iter().map(|found| found.sl).collect();
    assert_eq!(
        (found.certainty, sls),
        (Certainty::Possible, vec![Some(0), Some(1)])
    );
    let found = credit_loops(&paths, Some(&path_sls(4, |_, _| 0)), None);
    assert_eq!(found.certainty, Certainty::Possible);
}

#[test]
fn loop_is_only_possible_if_a_switch_has_no_lanes() {
    let ring = Built::ring_both_ways(6);
    let routes = ring.routes();
    let paths = Paths::new(&ring.net, &routes);
    let over_1 = |from: usize, to: usize| {
        let path = ring.path(from, to);
        u8::from(path.contains(&(6, 2)) || path.contains(&(1, 3)))
    };
    let sls = path_sls(6, |from, to| if from == to { 0 } else { over_1(from, to) });
    let found = |text: &str| {
        let lanes = SlToVl::parse(text, "sl2vl").unwrap();
        let found = credit_loops(&paths, Some(&sls), Some(&lanes));
        (found.certainty, found.loops.len(), found.without_lanes)
    };
    let all = sl_to_vl_text(6, 3, |_, _, _, sl| sl);
    assert_eq!(found(&all), (Certainty::Known, 0, 0));
    let of_5: String = all.split_inclusive("Switch").take(6).collect();
    assert_eq!(found(&of_5), (Certainty::Possible, 0, 1));
    let of_one: String = all.split_inclusive("Switch").take(2).collect();
    assert_eq!(found(&of_one), (Certainty::Possible, 2, 5));
    // Rows that no packet needs: of one port twice, and of port 0.
    let needed = |line: &&str| {
        let mut words = line.split_whitespace();
        let ports = (words.next(), words.next());
        ports.0 != ports.1 && ports.0 != Some("0") && ports.1 != Some("0")
    };
    let needed: Vec<&str> = all.lines().filter(needed).collect();
    assert_eq!(found(&needed.join("\n")), (Certainty::Known, 0, 0));
}

/// A node of the oracle: a sending port, and a virtual lane.
type Waiting = ((u64, u8), u8);

impl Built {
    /// A ring in which packets take the shorter way. Port 2 leads to the next switch, port 3 to the
    /// one before.
    fn ring_both_ways(switches: u64) -> Self {
        let mut ring = Self::ring(switches);
        for switch in 1..=switches {
            for to in (1..=switches).filter(|to| *to != switch) {
                let onward = (to + switches - switch) % switches;
                let port = if onward <= switches / 2 { 2 } else { 3 };
                let lid = FIRST_HOST + to as u16 - 1;
                ring.tables.insert((switch, lid), port);
            }
        }
        ring
    }

    /// A random connected fabric with one host on each switch and random shortest paths.
    fn random(rng: &mut fastrand::Rng) -> Self {
        let switches = rng.u64(4..8);
        let mut used = vec![1_u8; switches as usize + 1];
        let mut cables = Vec::new();
        let mut join = |one: u64, other: u64| {
            let mut port = |switch: u64| {
                used[switch as usize] += 1;
                used[switch as usize]
            };
            let (port, other_port) = (port(one), port(other));
            cables.push((one, port, other, other_port));
        };
        (2..=switches).for_each(|switch| join(switch - 1, switch));
        for _ in 0..rng.u64(1..6) {
            let one = rng.u64(1..=switches);
            let other = (one + rng.u64(1..switches) - 1) % switches + 1;
            if one != other {
                join(one, other);
            }
        }
        let mut built = Self::new(&vec![1; switches as usize], &cables);
        let ends: Vec<_> = cables
            .iter()
            .flat_map(|(one, port, other, other_port)| {
                [(*one, *port, *other), (*other, *other_port, *one)]
            })
            .collect();
        for to in 1..=switches {
            let lid = FIRST_HOST + to as u16 - 1;
            let mut near = vec![to];
            while near.len() < switches as usize {
                let is_near = |switch: &u64| near.contains(switch);
                let mut ways: Vec<_> = ends
                    .iter()
                    .filter(|(from, _, next)| !is_near(from) && is_near(next))
                    .collect();
                rng.shuffle(&mut ways);
                let mut found = Vec::new();
                for (from, port, _) in ways {
                    built.tables.entry((*from, lid)).or_insert(*port);
                    found.push(*from);
                }
                found.sort_unstable();
                found.dedup();
                near.extend(found);
            }
        }
        built
    }

    /// Returns which port and lane waits for which, pair by pair.
    fn waits(
        &self,
        sl: impl Fn(usize, usize) -> u8,
        lane: impl Fn(u64, u8, u8, u8) -> u8,
    ) -> Vec<(Waiting, Waiting)> {
        let mut waits = Vec::new();
        let hosts = self.hosts.len();
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            let mut port = self.hosts[from].1;
            let mut before = None;
            for (switch, out) in self.path(from, to) {
                let vl = lane(switch, port, out, sl(from, to));
                if vl == 15 {
                    break;
                }
                let now = ((switch, out), vl);
                waits.extend(before.map(|before| (before, now)));
                before = Some(now);
                let channel = self
                    .net
                    .channel_of(self.switch(switch), PortNum(out))
                    .unwrap();
                port = self.net.channel(channel).to.1.0;
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits
    }
}

/// Returns whether ports wait for each other in a cycle: removes those that wait for none, until
/// none is left.
fn has_cycle(waits: &[(Waiting, Waiting)]) -> bool {
    let mut left = waits.to_vec();
    loop {
        let waiting: Vec<Waiting> = left.iter().map(|(one, _)| *one).collect();
        let before = left.len();
        left.retain(|(_, next)| waiting.contains(next));
        if left.len() == before {
            return before > 0;
        }
    }
}

#[test]
fn ring_has_no_loop_if_paths_over_one_link_have_their_own_lane() {
    let ring = Built::ring_both_ways(6);
    let routes = ring.routes();
    let paths = Paths::new(&ring.net, &routes);
    let lanes = sl_to_vl(6, 3, |_, _, _, sl| sl);
    // Between switches 6 and 1.
    let crosses = |from: usize, to: usize| {
        let path = ring.path(from, to);
        u8::from(path.contains(&(6, 2)) || path.contains(&(1, 3)))
    };
    let found = credit_loops(
        &paths,
        Some(&path_sls(
            6,
            |from, to| if from == to { 0 } else { crosses(from, to) },
        )),
        Some(&lanes),
    );
    assert_eq!((found.certainty, found.loops.len()), (Certainty::Known, 0));
    let found = credit_loops(&paths, Some(&path_sls(6, |_, _| 0)), Some(&lanes));
    assert_eq!(found.loops.len(), 2, "one for each direction");
}

#[test]
fn loops_of_random_fabrics_are_those_of_their_pairs() {
    let mut found_some = [0; 2];
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let built = Built::random(&mut rng);
        let (switches, hosts) = (built.hosts.len() as u64, built.hosts.len());
        let sls: Vec<u8> = (0..hosts * hosts).map(|_| rng.u8(0..3)).collect();
        let few = rng.u8(1..4);
        let lanes: BTreeMap<_, u8> = (1..=switches)
            .flat_map(|switch| {
                (0..12).flat_map(move |from| (0..12).map(move |to| (switch, from, to)))
            })
            .flat_map(|(switch, from, to)| (0..16).map(move |sl| (switch, from, to, sl)))
            .map(|key| {
                (
                    key,
                    if rng.u8(0..40) == 0 {
                        15
                    } else {
                        rng.u8(0..few)
                    },
                )
            })
            .collect();
        let sl = |from, to| sls[from * hosts + to];
        let lane = |switch, from, to, sl| lanes[&(switch, from, to, sl)];
        let waits = built.waits(sl, lane);
        let routes = built.routes();
        let paths = Paths::new(&built.net, &routes);
        let found = credit_loops(
            &paths,
            Some(&path_sls(hosts, sl)),
            Some(&sl_to_vl(switches, 11, lane)),
        );
        assert_eq!(!found.loops.is_empty(), has_cycle(&waits), "seed {seed}");
        let name = |(channel, vl): (ChannelIndex, u8)| {
            let (guid, port) = built.net.key(built.net.channel(channel).from);
            ((guid.0, port.0), vl)
        };
        for links in found.loops.iter().map(|found| &found.links) {
            for (one, next) in links.iter().zip(links.iter().cycle().skip(1)) {
                assert!(waits.contains(&(name(*one), name(*next))), "seed {seed}");
            }
        }
        found_some[usize::from(found.loops.is_empty())] += 1;
    }
    assert!(found_some.iter().all(|count| *count > 3), "{found_some:?}");
}

#[test]
fn tree_has_no_loop_with_any_service_levels() {
    let tree = Built::tree();
    let routes = tree.routes();
    let found = credit_loops(&Paths::new(&tree.net, &routes), None, None);
    assert_eq!((found.certainty, found.loops.len()), (Certainty::Never, 0));
}

/// Adds up the mean share of all ways to pair the hosts that are left, and counts them.
fn all_patterns(
    built: &Built,
    left: &[usize],
    flows: &mut Vec<Vec<(u64, u8)>>,
    sum: &mut (f64, f64),
) {
    let Some((first, rest)) = left.split_first() else {
        let of_link = |link: &(u64, u8)| {
            flows
                .iter()
                .flatten()
                .filter(|other| *other == link)
                .count()
        };
        let share = |path: &Vec<(u64, u8)>| {
            let most = path.iter().map(of_link).max().unwrap_or(1);
            1.0 / most as f64
        };
        let shares: f64 = flows.iter().map(share).sum();
        *sum = (sum.0 + shares / flows.len() as f64, sum.1 + 1.0);
        return;
    };
    for partner in rest {
        let others: Vec<usize> = rest.iter().filter(|one| *one != partner).copied().collect();
        for (from, to) in [(first, partner), (partner, first)] {
            flows.push(built.path(*from, *to));
            all_patterns(built, &others, flows, sum);
            flows.pop();
        }
    }
}

#[test]
fn bisection_bandwidth_is_that_of_all_bisections_within_one_percent() {
    let mut uneven = Built::tree();
    // One spine gets all packets to leaf 2.
    for lid in FIRST_HOST + 4..FIRST_HOST + 8 {
        uneven.tables.insert((1, lid), 5);
    }
    for built in [
        Built::tree(),
        uneven,
        Built::ring(6),
        Built::ring_both_ways(8),
    ] {
        let hosts: Vec<usize> = (0..built.hosts.len()).collect();
        let mut sum = (0.0, 0.0);
        all_patterns(&built, &hosts, &mut Vec::new(), &mut sum);
        let exact = sum.0 / sum.1;
        let routes = built.routes();
        for seed in 1..4 {
            let found = bisection(&Paths::new(&built.net, &routes), seed).unwrap();
            assert!(
                (found.share / exact - 1.0).abs() < 0.01,
                "{found:?} instead of {exact}"
            );
        }
    }
}

#[test]
fn slow_link_limits_its_flows() {
    let mut tree = Built::tree();
    let ports = tree.net.channels().iter().map(|channel| NetPort {
        own: end_of(&tree.net, channel.from),
        peer: Some(end_of(&tree.net, channel.to)),
        gbps: Some(if channel.from.1.0 > 4 { 1.0 } else { 100.0 }),
    });
    let slow = Net::new(ports.collect::<Vec<_>>());
    let routes = tree.routes();
    let fast = bisection(&Paths::new(&tree.net, &routes), 1).unwrap().share;
    let share = bisection(&Paths::new(&slow, &routes), 1).unwrap().share;
    assert!(share < 0.6 && fast > 0.8, "{share} {fast}");
    tree.tables.retain(|(switch, _), _| *switch != 3);
    let routes = tree.routes();
    let lost = bisection(&Paths::new(&tree.net, &routes), 1).unwrap().share;
    assert!(lost < fast - 0.2, "{lost} {fast}");
}

fn end_of(net: &Net, (device, port): (DeviceIndex, PortNum)) -> End<'_> {
    let NetDevice {
        guid, lid, role, ..
    } = net.devices()[device as usize];
    End {
        guid,
        port,
        lid,
        role,
        name: "",
    }
}

/// What is wrong, the switch and port, the number of LIDs, and that of lost pairs.
type Fault = (What, Option<(u64, u8)>, Option<u64>, Option<u64>);

/// Returns the rows about a fabric, without those of uplinks.
fn faults_of(built: &Built) -> Vec<Fault> {
    let routes = built.routes();
    let paths = Paths::new(&built.net, &routes);
    let loops = credit_loops(&paths, None, None);
    let rows = routing_rows(&paths, &Census::of(&paths), &BTreeMap::new(), None, &loops);
    rows.into_iter()
        .filter(|row| !matches!(row.what, What::Uplinks | What::UnequalLinks))
        .map(|row| {
            let at = row.at.map(|at| (at.guid.0, at.port.0));
            (row.what, at, row.lids, row.lost_pairs)
        })
        .collect()
}

#[test]
fn faults_of_tables_are_found_with_their_pairs() {
    use What::{DeadPort, ForwardingLoop, NoRoute, NoTable, Pairs, WrongHost};
    let lid = |host: u16| FIRST_HOST + host;
    let with = |change: &dyn Fn(&mut Built)| {
        let mut tree = Built::tree();
        change(&mut tree);
        faults_of(&tree)
    };
    assert_eq!(with(&|_| {}), [(Pairs, None, None, Some(0))]);
    let dead = with(&|tree| {
        tree.tables.insert((1, lid(4)), 9);
        tree.tables.insert((3, lid(7)), 8);
    });
    assert_eq!(
        dead,
        [
            (Pairs, None, None, Some(8)),
            (DeadPort, Some((1, 9)), Some(1), Some(4)),
            (DeadPort, Some((3, 8)), Some(1), Some(4)),
        ]
    );
    let missing = with(&|tree| tree.tables.retain(|key, _| *key != (1, lid(5))));
    assert_eq!(missing[1..], [(NoRoute, Some((1, 0)), Some(1), Some(4))]);
    let no_table = with(&|tree| tree.tables.retain(|(switch, _), _| *switch != 2));
    // 4 hosts send to 7 others; the 4 hosts of leaf 1 lose all 4 at leaf 2.
    assert_eq!(
        no_table[1..],
        [(NoTable, Some((2, 0)), Some(8), Some(4 * 7 + 16))]
    );
    let wrong = with(&|tree| {
        tree.tables.insert((1, lid(0)), 2);
    });
    assert_eq!(
        wrong[1..],
        [(WrongHost, Some((1, 2)), Some(1), Some(3 + 4))]
    );
    let looped = with(&|tree| {
        tree.tables.insert((1, lid(4)), 5);
        tree.tables.insert((3, lid(4)), 1);
    });
    assert_eq!(
        looped[1..],
        [(ForwardingLoop, Some((1, 5)), Some(1), Some(4))]
    );
}

#[test]
fn paths_of_uplinks_are_counted() {
    let tree = Built::tree();
    let routes = tree.routes();
    let paths = Paths::new(&tree.net, &routes);
    let census = Census::of(&paths);
    let mut counted: BTreeMap<(u64, u8), u64> = BTreeMap::new();
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        for link in tree.path(from, to) {
            *counted.entry(link).or_default() += 1;
        }
    }
    for (channel, paths) in tree.net.channels().iter().zip(&census.paths) {
        let (guid, port) = tree.net.key(channel.from);
        let is_trunk = [channel.from.0, channel.to.0]
            .iter()
            .all(|end| tree.net.devices()[*end as usize].role == Role::Switch);
        if is_trunk {
            let expected = counted.get(&(guid.0, port.0)).copied().unwrap_or(0);
            assert_eq!(*paths, expected, "{guid} {port}");
        }
    }
    assert_eq!(
        (census.hosts, census.pairs, census.lost_pairs()),
        (8, 56, 0)
    );
    let mut path = Vec::new();
    paths.trace(tree.host(0), tree.host(5), &mut path).unwrap();
    assert_eq!(path.len(), 4);
}

#[test]
fn lanes_and_adaptive_routing_come_from_records() {
    let record = |line: &str| -> Recorded {
        let mut recorded = Recorded::default();
        let line: crate::record::Routes<'_> = serde_json::from_str(line).unwrap();
        recorded.add(&Record::Routes(line));
        recorded
    };
    let mut all = Recorded::default();
    for switch in 1..4 {
        let line = format!(
            r#"{{"type":"routes","ts":1,"guid":"{}","table":"linear","top":2,"first_lid":0,"ports":[255,1,2]}}"#,
            Guid(switch)
        );
        all.merge(record(&line));
    }
    assert!(all.lanes.is_empty() && all.adaptive().is_empty());
    let vls: Vec<u8> = (0..16).map(|sl| sl % 4).collect();
    for (key, is_valid) in [("\"in_ports\":[0,2]", true), ("\"in_ports\":[3]", false)] {
        let vls = if is_valid { vls.clone() } else { vec![16; 16] };
        let line = format!(
            r#"{{"type":"routes","ts":1,"guid":"{}","table":"sl_to_vl","port":1,{key},"vls":{vls:?}}}"#,
            Guid(2)
        );
        all.merge(record(&line));
    }
    let lanes = |from| all.lanes.lanes(Guid(2), PortNum(from), PortNum(1));
    assert_eq!(lanes(2).map(|lanes| &lanes[..]), Some(&vls[..]));
    assert_eq!((lanes(1), lanes(3)), (None, None));
    for (switch, enabled, sls) in [(1, 1, 5), (2, 0, 5), (3, 1, 5)] {
        let line = format!(
            r#"{{"type":"routes","ts":1,"guid":"{}","table":"round","top":2,"ar_enabled":{enabled},"ar_group_top":{},"ar_sl_mask":{sls}}}"#,
            Guid(switch),
            10 * switch
        );
        all.add(&Record::Routes(serde_json::from_str(&line).unwrap()));
    }
    assert_eq!(
        all.adaptive(),
        BTreeMap::from([(0, (1, None)), (5, (2, Some(30)))])
    );
}

#[test]
fn device_without_records_is_a_host_if_it_looks_like_an_hca_port() {
    let ports = fold(Ports::default(), &job_lines(false)).finish();
    let net = Net::of_records(&ports, &Routes::default());
    let roles = |name: &str| -> Vec<Role> {
        let found = net.find(name).into_iter();
        found
            .map(|device| net.devices()[device as usize].role)
            .collect()
    };
    // Two ports of the core switch are known, and one port of n3.
    assert_eq!(
        (roles("n1"), roles("n3")),
        (vec![Role::Host], vec![Role::Host])
    );
    assert_eq!(
        (roles("leaf"), roles("core")),
        (vec![Role::Switch], vec![Role::Switch])
    );
    let peer = |guid: u64, port: u8| {
        let channel = net.channel_from((Guid(guid), PortNum(port)))?;
        Some(net.key(net.channel(channel).to))
    };
    assert_eq!(peer(0x103, 1), Some((Guid(1), PortNum(3))));
    assert_eq!(peer(2, 2), Some((Guid(1), PortNum(10))));
    assert_eq!((peer(2, 3), peer(3, 1)), (None, None));
}
