//! A sweep of a simulated fabric in virtual time, without InfiniBand and without waiting.
//!
//!     cargo run --no-default-features --example sim_sweep -- 5        (5 % of all MADs are lost)

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::sweep::engine::Config;
use ibnet::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use ibnet::topology::net_file;
use ibnet_record::Status;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loss = std::env::args()
        .nth(1)
        .map_or(Ok(0.0), |percent| percent.parse::<f64>())?
        / 100.0;
    let fabric = net_file::parse(include_bytes!("stria.p"), "stria.p")?.fabric;
    let plan = all_linked_ports(&fabric);
    let sim = SimFabric::new(
        fabric,
        Options {
            loss,
            ..Options::default()
        },
    );
    let mut sweep = VirtualSweep::new(Arc::new(Mutex::new(sim)), &plan, Config::default(), 42);
    sweep.discover();

    for slot in 1..=5 {
        sweep.slot(Duration::from_secs(1));
        let stats = sweep.engine.stats();
        println!(
            "slot {slot}: {} ports, {} ok, {} timeout, {} unreachable; {} MADs in {:.2} ms",
            stats.total(),
            stats.count(Status::Ok),
            stats.count(Status::Timeout),
            stats.count(Status::Unreachable),
            stats.mads_sent,
            stats.duration().as_secs_f64() * 1e3,
        );
    }
    Ok(())
}
