//! Compares the model with published results.

use ibnet_record::types::Guid;

use crate::fabric::{Fabric, FatTree, Host};
use crate::labels::{Cause, JobInSlot, Observer, SlotTruth, WaitingTruth};
use crate::network::{Happened, Network, PACKET, Packet, Queueing, Settings};
use crate::records::SECOND;
use crate::scenario::{self, Conditions, Scenario, run};
use crate::traffic::{Background, Job, Pattern, Run, Traffic};

const PLAIN: Settings = Settings {
    buffer: 8,
    queueing: Queueing::ByOutput,
    adaptive: false,
};

fn packet(to: usize, job: u16) -> Packet {
    Packet {
        to: Host::try_from(to).expect("few hosts"),
        job,
        lane: 0,
    }
}

/// Returns the share of its links that a switch with that many ports uses, if all hosts always have
/// packets for random hosts.
fn saturated(hosts: usize, queueing: Queueing, seed: u64) -> f64 {
    const PACKETS: u64 = 20_000;
    let fabric = Fabric::crossbar(hosts);
    let mut network = Network::new(&fabric, Settings { queueing, ..PLAIN });
    let mut random = fastrand::Rng::with_seed(seed);
    for from in 0..hosts {
        for _ in 0..PACKETS {
            let to = random.usize(0..hosts);
            network.send(Host::try_from(from).expect("few hosts"), packet(to, 0), 1);
        }
    }
    // While each host has packets, without the time in which the buffers fill.
    let (begin, end) = (1000 * PACKET, PACKETS * PACKET);
    while network.run_until(begin).is_some() {}
    let mut delivered = 0_u32;
    while let Some(happened) = network.run_until(end) {
        delivered += u32::from(matches!(happened, Happened::Delivered(_)));
    }
    f64::from(delivered) * PACKET as f64 / (end - begin) as f64 / hosts as f64
}

/// Karol, Hluchyj and Morgan, "Input Versus Output Queueing on a Space-Division Packet Switch",
/// IEEE Transactions on Communications 35 (1987), table I: the throughput of a saturated switch
/// whose input buffers have one queue each.
#[test]
fn head_of_line_blocking_has_the_published_throughput() {
    for (ports, published) in [
        (2, 0.75),
        (3, 0.6825),
        (4, 0.6553),
        (6, 0.6302),
        (8, 0.6184),
    ] {
        let found = saturated(ports, Queueing::Fifo, ports as u64);
        println!("{ports}: {found:.4}, published {published:.4}");
        assert!(
            (found - published).abs() < 0.005,
            "{ports} ports: {found}, not {published}"
        );
    }
}

/// Runs jobs on a fabric for a second, and returns the truth about it.
fn second(fabric: &Fabric, traffic: &Traffic, settings: Settings) -> (SlotTruth, Vec<JobInSlot>) {
    let mut run = Run::new(fabric, settings, traffic, 1);
    let mut observer = Observer::default();
    let step = SECOND / 500;
    for at in (step / 2..SECOND).step_by(step as usize) {
        run.run_until(at);
        observer.sample(fabric, &run.network);
    }
    run.run_until(SECOND);
    let names: Vec<_> = traffic.jobs.iter().map(|job| job.name.clone()).collect();
    observer.finish(0..1_000_000_000, fabric, &run.network, &names)
}

fn job(name: &str, hosts: Vec<Host>, to: Vec<Host>) -> Job {
    Job {
        name: name.to_owned(),
        hosts,
        pattern: Pattern::Given(to),
        packets: 50,
        compute: 0,
        lane: 0,
        span: 0..10 * SECOND,
    }
}

/// A fat tree with two pods; host `h` is on leaf switch `h / 4`.
fn small() -> Fabric {
    Fabric::fat_tree(FatTree {
        pods: 2,
        leaves: 2,
        hosts: 4,
        spines: 2,
        cores: 2,
    })
}

fn node_of(fabric: &Fabric, guid: Guid) -> &str {
    let node = fabric.nodes.iter().find(|node| node.guid == guid);
    &node.expect("a device of the fabric").name
}

#[test]
fn the_root_of_an_incast_is_the_port_to_its_target() {
    let fabric = small();
    // Hosts 4 to 6 send to host 0, of another leaf switch. Host 7 sends to host 1 by another
    // spine switch, and waits for nobody.
    let jobs = vec![
        job("incast", vec![1, 2, 3, 4, 5, 6], vec![0]),
        job("other", vec![7], vec![13]),
    ];
    let traffic = Traffic {
        jobs,
        ..Traffic::default()
    };
    let (truth, jobs) = second(&fabric, &traffic, PLAIN);
    let first = &truth.roots[0];
    assert_eq!(
        (node_of(&fabric, first.guid), first.port, first.cause),
        ("leaf000", 1, Cause::Full),
        "{truth:?}"
    );
    assert_eq!(first.jobs.keys().collect::<Vec<_>>(), ["incast"]);
    assert!(jobs[0].causes && !jobs[1].causes);
    let waits = |name: &str| {
        truth
            .waiting
            .iter()
            .any(|port| node_of(&fabric, port.guid) == name)
    };
    assert!(
        waits("node0002") && waits("node0005") && !waits("node0008"),
        "{truth:?}"
    );
}

#[test]
fn a_host_that_takes_few_packets_is_the_cause() {
    let fabric = small();
    let pair = Job {
        // More than its host can send in a second.
        packets: 5000,
        ..job("pair", vec![4], vec![0])
    };
    let traffic = Traffic {
        jobs: vec![pair],
        drains: vec![(0, 0, Some(4 * PACKET))],
        ..Traffic::default()
    };
    let (truth, _) = second(&fabric, &traffic, PLAIN);
    let root = &truth.roots[0];
    assert_eq!(
        (node_of(&fabric, root.guid), root.port, root.cause),
        ("leaf000", 1, Cause::SlowHost),
        "{truth:?}"
    );
    // The whole way waits for the host, three quarters of the time.
    let share = |port: &WaitingTruth| (port.share - 0.75).abs() < 0.05;
    assert!(
        truth.waiting.len() >= 4 && truth.waiting.iter().all(share),
        "{truth:?}"
    );
}

#[test]
fn packets_of_another_lane_do_not_wait_for_an_incast() {
    let fabric = small();
    // Host 7 and three senders of the incast share a leaf switch and the cable to the spine switch.
    // Its target is not that of the incast, and it sends little.
    let passing = |lane: u8| Job {
        lane,
        compute: 1000 * PACKET,
        ..job("passing", vec![7], vec![2])
    };
    let waits = |lane: u8| {
        let incast = job("incast", vec![1, 3, 4, 5, 6, 9, 11], vec![0]);
        let traffic = Traffic {
            jobs: vec![incast, passing(lane)],
            ..Traffic::default()
        };
        let (truth, jobs) = second(&fabric, &traffic, PLAIN);
        let root = &truth.roots[0];
        assert_eq!((node_of(&fabric, root.guid), root.port), ("leaf000", 1));
        assert_eq!(root.jobs.keys().collect::<Vec<_>>(), ["incast"]);
        jobs[1].waits
    };
    assert!(waits(0), "a victim in the lane of the incast");
    assert!(!waits(1), "the other lane has its own buffers");
}

#[test]
fn jobs_are_written_with_their_hosts_and_times() {
    let mut csv = Vec::new();
    scenario::write_jobs(Scenario::Roots(2), 3, &mut csv).expect("memory");
    let text = String::from_utf8(csv).expect("text");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (6, "job,user,nodes,start,end,state")
    );
    // The storm is from 5 to 25 s, and the recording of seed 3 begins after 180 s.
    assert!(lines[4].starts_with("storage-0,,\"node0"), "{text}");
    assert_eq!(lines[4].matches("node").count(), 8);
    assert!(
        lines[4].ends_with("\",1767225785,1767225805,completed"),
        "{text}"
    );
}

#[test]
fn adaptive_routes_avoid_a_full_cable() {
    let fabric = small();
    // Static routes take the same cable to hosts 8 and 12.
    let traffic = Traffic {
        jobs: vec![job("pairs", vec![0, 1], vec![8, 12])],
        ..Traffic::default()
    };
    let (fixed, _) = second(&fabric, &traffic, PLAIN);
    let adaptive = Settings {
        adaptive: true,
        ..PLAIN
    };
    let (free, _) = second(&fabric, &traffic, adaptive);
    assert_eq!(node_of(&fabric, fixed.roots[0].guid), "leaf000");
    assert!(free.roots.is_empty() && free.waiting.is_empty(), "{free:?}");
}

#[test]
fn no_packet_is_lost_and_equal_seeds_are_equal() {
    let fabric = small();
    let traffic = Traffic {
        jobs: vec![job("incast", vec![1, 2, 5, 9], vec![0])],
        background: Some(Background {
            load: 0.3,
            packets: 3,
        }),
        ..Traffic::default()
    };
    let totals = |seed: u64| {
        let mut run = Run::new(&fabric, PLAIN, &traffic, seed);
        run.run_until(SECOND);
        run.network.all_totals().collect::<Vec<_>>()
    };
    let once = totals(3);
    assert_eq!(once, totals(3));
    assert_ne!(once, totals(4));
    for (port, totals) in once.iter().enumerate() {
        assert_eq!(
            totals.sent, once[fabric.ports[port].peer].received,
            "port {port}"
        );
    }
}

#[test]
fn the_recording_of_a_scenario_has_a_record_for_each_port_and_slot() {
    let mut records = Vec::new();
    let conditions = Conditions {
        seed: 1,
        adaptive: false,
        slot: SECOND,
        loss: 0.0,
    };
    let truth = run(Scenario::Roots(2), conditions, &mut records).expect("memory");
    let ports = Fabric::fat_tree(scenario::FABRIC).ports.len();
    let seconds = (scenario::LENGTH / SECOND) as usize;
    let lines = records
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    assert_eq!(lines.count(), ports * seconds);
    assert_eq!(truth.len(), seconds);
    // Two ports to hosts are roots in the middle of the storm, and none is at the end.
    let servers = truth[15].roots.iter().filter(|root| root.waited > 5.0);
    assert!(servers.count() >= 2, "{:?}", truth[15].roots);
    assert!(truth[29].roots.is_empty());
}

/// `ibnet-view links --by rail` finds a slow host of a ring by this.
#[test]
fn only_the_port_before_a_slow_host_of_a_ring_is_held_up() {
    const SLOW: usize = 5;
    let fabric = small();
    let hosts: Vec<Host> = (0..16).collect();
    let next = (0..16).map(|host| (host + 1) % 16).collect();
    let traffic = Traffic {
        jobs: vec![Job {
            packets: 500,
            compute: 500 * PACKET,
            ..job("ring", hosts.clone(), next)
        }],
        background: None,
        // It takes packets at 0.9 of the rate of its link.
        drains: vec![(0, SLOW as Host, Some(PACKET * 10 / 9))],
    };
    let mut run = Run::new(&fabric, PLAIN, &traffic, 1);
    run.run_until(10 * SECOND);
    let port_of = |host: &Host| fabric.port_of(*host);
    let held_up = |host: &Host| {
        let port = fabric.ports[port_of(host)].peer;
        let totals = run.network.totals(port);
        totals.waited as f64 / (totals.sent * PACKET + totals.waited) as f64
    };
    let sent = |host: &Host| run.network.totals(port_of(host)).sent;
    let waited = |host: &Host| run.network.totals(port_of(host)).waited;
    let sent_by_first = sent(&0);
    for host in &hosts {
        let (held_up, sent) = (held_up(host), sent(host));
        println!(
            "host {host}: sent {sent}, held up {held_up:.3}, waited {}",
            waited(host)
        );
        // It is less than 0.1, because the first packets of a message find the buffers empty.
        let expected = if usize::from(*host) == SLOW {
            0.08..0.1
        } else {
            0.0..0.001
        };
        assert!(expected.contains(&held_up), "host {host}: {held_up}");
        assert!(sent.abs_diff(sent_by_first) <= 500, "host {host}: {sent}");
    }
    // The host that sends to it waits too, because its packets fill the buffers on the way.
    assert!(
        hosts
            .iter()
            .all(|host| (waited(host) > 0) == (usize::from(*host) + 1 == SLOW))
    );
}
