//! The whole slot on ibsim: `ibnet-sweep` through libibumad, its window beside a window of one, in one run. And what a sampler of 150 ports holds
//! in memory.
//!
//!     cargo bench --bench ibsim
//!
//! Serial and pipelined runs take turns, because the machine's mood changes from minute to minute. A slot's length is that of its `sweep` record:
//! from its start to its last reply. Where the kernel puts the two processes matters more than anything else, so each placement has its own rows.

#![expect(clippy::print_stdout, reason = "that is what a benchmark is for")]

#[path = "../tests/ibsim/fabric.rs"]
mod fabric;

use std::fs;
use std::process::{Command, Stdio};

use fabric::{Ibsim, available, lines, wait_for};
use ibnet::sweep::record::line::{self, Line};
use ibnet::topology::synthetic;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");
const GROUPS: &str = "extended,base";
const SWEEPS: usize = 40;
const TURNS: usize = 3;

/// Where simulator and client run: names, and the cores of each.
const PLACES: [(&str, Option<(&str, &str)>); 3] =
    [("two cores, one each", Some(("0", "1"))), ("one core for both", Some(("0", "0"))), ("where the kernel puts them", None)];

fn main() {
    // `cargo test --benches` calls this too, and must not measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let Some(preload) = available() else { return };
    let blueprint = synthetic::stria();
    let ports = blueprint.linked_ports();
    println!("whole slot on ibsim: {ports} ports, groups {GROUPS}, {} MADs; {TURNS} turns of {SWEEPS} slots each\n", ports * 2);
    println!("| placement | window | slot, median | slot, least | us a MAD | not ok | ratio to window 1 |");
    println!("|---|---|---|---|---|---|---|");
    for (name, cores) in PLACES {
        let ibsim = Ibsim::start(&blueprint, "node00288", preload.clone());
        let discovered = ibsim.run("node00001", "ibnetdiscover", ["-p"]);
        fs::write(ibsim.path("net.p"), discovered.stdout).expect("written");
        if let Some((core, _)) = cores {
            pin(ibsim.id(), core);
        }
        let windows = ["1", "32", "64"];
        let mut slots = [const { Vec::new() }; 3];
        let mut not_ok = [0; 3];
        for _ in 0..TURNS {
            for (place, window) in windows.iter().enumerate() {
                let (lengths, bad) = sweep(&ibsim, window, cores.map(|(_, core)| core));
                slots[place].extend(lengths);
                not_ok[place] += bad;
            }
        }
        let serial = median(&mut slots[0]);
        for (place, window) in windows.iter().enumerate() {
            let (middle, least) = (median(&mut slots[place]), slots[place][0]);
            let micros = middle as f64 / 1e3 / (ports * 2) as f64;
            println!(
                "| {name} | {window} | {:.2} ms | {:.2} ms | {micros:.2} | {} | {:.1} |",
                ms(middle),
                ms(least),
                not_ok[place],
                serial as f64 / middle as f64
            );
        }
        if cores.is_none() {
            println!("\nmemory of a sampler of 150 ports, default groups: {}", memory(&ibsim));
        }
    }
}

/// Sweeps, and tells the length of each slot in nanoseconds and how many records were not `ok`.
fn sweep(ibsim: &Ibsim, window: &str, core: Option<&str>) -> (Vec<u64>, u32) {
    let sweeps = SWEEPS.to_string();
    // A serial slot takes 0.1 s: the deadline is wide, so that nothing but the window differs.
    let args = ["--net", "net.p", "--interval", "250ms", "--timeout", "50ms", "--groups", GROUPS, "--window", window, "--sweeps", &sweeps];
    let mut command = ibsim.command("node00001", if core.is_some() { "taskset" } else { SWEEP });
    if let Some(core) = core {
        command.args(["-c", core, SWEEP]);
    }
    let output = command.args(args).stderr(Stdio::inherit()).output().expect("it runs");
    assert!(output.status.success());
    let records = String::from_utf8(output.stdout).expect("JSON");
    let sweeps: Vec<_> =
        records.lines().filter_map(|text| if let Ok(Line::Sweep(sweep)) = line::parse(text) { Some(sweep) } else { None }).collect();
    (sweeps.iter().map(|sweep| sweep.duration_ns).collect(), sweeps.iter().map(|sweep| sweep.ports - sweep.ok).sum())
}

/// The most that a sampler of about 150 ports ever held, as the kernel counts it.
fn memory(ibsim: &Ibsim) -> String {
    let made =
        ibsim.run("node00001", GEN, ["--net", "net.p", "--samplers", "node[00001,00025,00049,00073,00097,00121,00145]", "-o", "plan.toml"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = ibsim.command("node00001", SWEEP);
    command.args(["--assignments", "plan.toml", "--sampler", "node00001", "--interval", "100ms", "--sweeps", "50"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let said = lines(child.stdout.take().expect("piped"));
    for _ in 0..40 {
        wait_for(&said, "\"type\":\"sweep\"", "ibnet-sweep");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs still");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    let told = format!("{} at most, {} now, {} threads", field("VmHWM:"), field("VmRSS:"), field("Threads:"));
    drop(said);
    let _ = child.wait();
    told
}

fn pin(process: u32, core: &str) {
    let done = Command::new("taskset").args(["-a", "-p", "-c", core, &process.to_string()]).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "taskset (util-linux) pins ibsim to a core");
}

/// Sorts, and tells the one in the middle.
fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
