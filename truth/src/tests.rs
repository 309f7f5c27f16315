//! Compares the model with published results.

use crate::fabric::{Fabric, Host};
use crate::network::{Happened, Network, PACKET, Packet, Queueing, Settings};

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
