//! The cost of a slot at 10 Hz by the cadences of its counter groups.
//!
//!     cargo bench --bench ibsim -- --cadence
//!
//! The number of MADs is exact. It does not include queries for identity, links and paths. Times
//! and CPU need a quiet machine. The devices of ibsim do not have CapabilityMask2 bit 1:
//! PortXmitWait is in PortCounters only. So the last rows are on the simulated fabric, where all
//! devices can have this bit. Its times include the simulation.

use std::fs;
use std::path::Path;

use ibnet_record::reader::{Head, Record};

use super::fabric::Ibsim;
use super::{SWEEP, cpu_of_children, median, ms, pinned};

/// The flag with which this program runs these measurements only.
pub(crate) const FLAG: &str = "--cadence";

/// Slots of a run. A run without the first one has a whole number of seconds.
const SLOTS: &str = "101";
pub(crate) const TURNS: usize = 3;

/// Name and configuration of each row.
const ROWS: [(&str, &str); 6] = [
    (
        "ibsim, every group in every slot",
        r#"groups = ["extended", "base", "xmtdisc", "rcverr"]"#,
    ),
    ("ibsim, the defaults", ""),
    ("ibsim, `wait_every = 10`", "wait_every = 10"),
    (
        "simulated, bit 1 on no device, the defaults",
        "simulate = \"net.p\"\n[simulated]\nwide_counters = \"none\"",
    ),
    (
        "simulated, bit 1 on switches, the defaults",
        "simulate = \"net.p\"\n[simulated]\nwide_counters = \"switches\"",
    ),
    (
        "simulated, bit 1 on all devices, the defaults",
        "simulate = \"net.p\"\n[simulated]\nwide_counters = \"all\"",
    ),
];

/// The runs of one row.
#[derive(Default)]
struct Runs {
    stated: u64,
    mads: Vec<u64>,
    lengths: Vec<u64>,
    octets: u64,
    cpu_us: f64,
    slots: u64,
    missed: u64,
    not_ok: u64,
}

/// Prints the table.
pub(crate) fn table(ibsim: &Ibsim, core: Option<&str>) {
    println!(
        "| fabric and configuration | MADs a slot: mean, least to most | stated in `start` | sweep, median | CPU a slot | octets a slot |"
    );
    println!("|---|---|---|---|---|---|");
    let mut of_all = ROWS.map(|_| Runs::default());
    for _ in 0..TURNS {
        for ((_, config), runs) in ROWS.iter().zip(&mut of_all) {
            runs.run(ibsim, config, core);
        }
    }
    for ((name, _), runs) in ROWS.iter().zip(&mut of_all) {
        let mean = runs.mads.iter().sum::<u64>() as f64 / runs.mads.len() as f64;
        let (least, most) = (
            runs.mads.iter().min().unwrap_or(&0),
            runs.mads.iter().max().unwrap_or(&0),
        );
        println!(
            "| {name} | {mean:.0}, {least} to {most} | {} | {:.2} ms | {:.2} ms | {} |",
            runs.stated,
            ms(median(&mut runs.lengths)),
            runs.cpu_us / 1e3 / runs.slots as f64,
            runs.octets / runs.slots
        );
    }
    let sum = |of: fn(&Runs) -> u64| of_all.iter().map(of).sum::<u64>();
    println!(
        "\nslots missed: {}; records that are not ok: {}",
        sum(|runs| runs.missed),
        sum(|runs| runs.not_ok)
    );
}

impl Runs {
    /// Sweeps the whole fabric once at 10 Hz.
    fn run(&mut self, ibsim: &Ibsim, config: &str, core: Option<&str>) {
        fs::write(ibsim.path("cadence.toml"), config).expect("written");
        let before = cpu_of_children();
        let mut command = pinned(ibsim, Path::new(SWEEP), core);
        command.args([
            "-c",
            "cadence.toml",
            "--net",
            "net.p",
            "--interval",
            "100ms",
            "--timeout",
            "50ms",
            "--sweeps",
            SLOTS,
        ]);
        let output = command.env("RUST_LOG", "error").output().expect("it runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        self.cpu_us += (cpu_of_children() - before).as_secs_f64() * 1e6;
        self.octets += output.stdout.len() as u64;
        let (mut counter_mads, mut slots) = (0, 0);
        for line in output
            .stdout
            .split(|octet| *octet == b'\n')
            .filter(|line| !line.is_empty())
        {
            let kind = Head::of(line)
                .expect("a record")
                .kind
                .expect("a type of this version");
            match Record::parse(line, kind).expect("a record") {
                Record::Start(start) => self.stated = start.mads_per_slot.unwrap_or(0),
                Record::Port(port) => counter_mads += port.mads,
                Record::Sweep(sweep) => {
                    self.missed += sweep.slots_missed;
                    self.not_ok += u64::from(sweep.ports - sweep.ok);
                    // The first slot queries all groups.
                    if slots > 0 {
                        self.mads.push(counter_mads);
                        self.lengths.push(sweep.duration_ns);
                    }
                    (counter_mads, slots) = (0, slots + 1);
                }
                Record::Event(_)
                | Record::Histogram(_)
                | Record::Physical(_)
                | Record::Routes(_) => {}
            }
        }
        self.slots += slots;
    }
}
