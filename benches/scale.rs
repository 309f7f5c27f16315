//! 300 samplers on a fabric of 40,000 ports with 2 % dead hosts, in virtual time: an hour at 1 Hz
//! and a minute at 10 Hz. Then the links of 60,000 cables that go down and come up, and a day
//! without a change. `links` measures only these.
//!
//!     cargo bench --bench scale --no-default-features
//!     cargo bench --bench scale --no-default-features -- links
//!
//! Only the run time depends on the machine: service times, jitter and losses are simulated.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Duration;

#[path = "../tests/scale/large.rs"]
mod large;

#[path = "../tests/scale/links.rs"]
mod links;

use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::engine::Config;
use ibnet::topology::Fabric;
use ibnet_record::attributes::Group;
use large::Large;
use links::{Links, three_tiers};

fn main() {
    // `cargo test --benches` also runs this program, and must not measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    if !std::env::args().any(|arg| arg == "links") {
        measure_slots();
    }
    measure_links();
}

fn measure_slots() {
    let large = Large::new();
    let shares: Vec<u32> = large.plan.shares.iter().map(|share| share.ports).collect();
    println!(
        "{} linked ports, {} samplers of {} to {} ports; in virtual time\n",
        large.fabric.linked_ports(),
        shares.len(),
        shares.iter().min().unwrap_or(&0),
        shares.iter().max().unwrap_or(&0)
    );
    println!(
        "| rate | time | slots not complete | slot, p50 | p99 | longest | all samplers, p50 | MADs per second | most loaded link | mean link |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (rate_hz, seconds) in [(10, 60), (1, 3600)] {
        let slots = seconds * rate_hz;
        let time = Duration::from_secs(u64::from(seconds));
        let swept = large.sweep(1, slots as usize, Duration::from_secs(1) / rate_hz);
        let load = large.load(&swept, time);
        let ms = |lengths: &[Duration], share: usize| {
            lengths[(lengths.len() - 1) * share / 100].as_secs_f64() * 1e3
        };
        println!(
            "| {rate_hz} Hz | {seconds} s | {} of {} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms | {:.0} | {:.5} % | {:.5} % |",
            swept.incomplete,
            swept.lengths.len(),
            ms(&swept.lengths, 50),
            ms(&swept.lengths, 99),
            ms(&swept.lengths, 100),
            ms(&swept.longest, 50),
            swept.mads as f64 / f64::from(seconds),
            load.worst * 100.0,
            load.mean * 100.0
        );
    }
}

fn measure_links() {
    let links = |fabric: Fabric, samplers: usize, seconds: u64, loss: f64, changes: bool| Links {
        fabric,
        samplers,
        seconds,
        loss,
        changes,
        // The states are read before all counters, so the counters do not matter.
        config: Config {
            groups: [Group::Extended].into(),
            cadence: Cadence::new(vec![10], 10, 10),
            state_tables: true,
            ..Config::default()
        },
    };
    println!(
        "\n| ports, samplers | time | lost requests | changes of links, known | within 1.0 s | mean | longest | after 0, 1, 2, more slots | false events, downs | SMPs a switch and second |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for run in [
        links(three_tiers(40, 50), 800, 600, 0.0, true),
        links(three_tiers(40, 50), 800, 600, 0.01, true),
        links(three_tiers(10, 7), 7, 24 * 3600, 0.01, false),
    ] {
        let found = run.sweep();
        let known = found.delays.len();
        let mean = found.delays.iter().sum::<Duration>() / known.max(1) as u32;
        println!(
            "| {}, {} | {} s | {} % | {}, {known} | {:.3} % | {mean:.3?} | {:.3?} | {:?} | {}, {} | {:.2} |",
            found.ports,
            run.samplers,
            run.seconds,
            run.loss * 100.0,
            found.changes,
            found.within_a_second() * 100.0,
            found.delays.last().copied().unwrap_or_default(),
            found.slots,
            found.false_events,
            found.false_downs,
            found.smps_per_switch(run.seconds),
        );
        found.check(&run);
    }
}
