//! Measures the lengths of slots and the number of `ok` ports for several rates, losses and
//! windows, in virtual time. The expected values are the table of `tests/data/rates.md`. This
//! command writes the table:
//!
//!     IBNET_RENEW=1 cargo nextest run --no-default-features --test simulated rates
//!
//! Read the difference before you commit it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::sweep::engine::Config;
use ibnet::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet_record::Status;
use rayon::prelude::*;

const RATES_HZ: [u32; 2] = [1, 10];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.1];
const WINDOWS: [usize; 4] = [1, 8, 32, 128];
const SLOTS: usize = 10;

const HEAD: &str = "\
# Slots by rate, loss and window

The fabric is `synthetic::stria`: 968 linked ports, 338 devices, 3220 MADs per slot. One sampler
sweeps it with the default counter groups, timeout and grace period. A switch takes 50 us per MAD,
an HCA 25 us, each with a deviation of up to 20 %. Each row is a run of ten slots in virtual time.
`tests/simulated/rates.rs` compares this table with a run. `IBNET_RENEW=1` writes the table again.

| rate | loss | window | slot, median | slot, longest | ok ports, median | ok ports, least |
|---|---|---|---|---|---|---|
";

fn fabric() -> Fabric {
    ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
        .expect("valid ports report")
        .fabric
}

fn row(rate_hz: u32, loss: f64, window: usize) -> String {
    let sim = SimFabric::new(
        fabric(),
        Options {
            loss,
            ..Options::default()
        },
    );
    let config = Config {
        window,
        ..Config::default()
    };
    let mut sweep = VirtualSweep::new(
        Arc::new(Mutex::new(sim)),
        &all_linked_ports(&fabric()),
        config,
        42,
    );
    sweep.discover();
    let (mut lengths, mut ok) = (Vec::new(), Vec::new());
    for _ in 0..SLOTS {
        sweep.slot(Duration::from_secs(1) / rate_hz);
        let stats = sweep.engine.stats();
        assert_eq!(
            stats.total() as usize,
            sweep.engine.ports(),
            "every port has its record"
        );
        lengths.push(stats.duration());
        ok.push(stats.count(Status::Ok));
    }
    lengths.sort_unstable();
    ok.sort_unstable();
    let ms = |length: Duration| length.as_secs_f64() * 1e3;
    let (median, longest) = (ms(lengths[SLOTS / 2]), ms(lengths[SLOTS - 1]));
    format!(
        "| {rate_hz} Hz | {:.0} % | {window} | {median:.2} ms | {longest:.2} ms | {} | {} |\n",
        loss * 100.0,
        ok[SLOTS / 2],
        ok[0]
    )
}

#[test]
fn slots_match_the_table() {
    let cells: Vec<_> = RATES_HZ
        .iter()
        .flat_map(|rate| {
            LOSSES
                .iter()
                .flat_map(move |loss| WINDOWS.iter().map(move |window| (*rate, *loss, *window)))
        })
        .collect();
    let rows: Vec<String> = cells
        .par_iter()
        .map(|(rate, loss, window)| row(*rate, *loss, *window))
        .collect();
    let mut table = HEAD.to_owned();
    rows.iter().for_each(|row| table.write_str(row).unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rates.md");
    if std::env::var_os("IBNET_RENEW").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        table, expected,
        "the table differs; if that is intended, write it with IBNET_RENEW=1"
    );
}
