//! Measures time and memory of planning, from 1,000 to 100,000 linked ports.
//!
//!     cargo bench --bench partition --no-default-features
//!
//! The fabrics are fat trees of three tiers from `topology::shapes`, with one sampler for about 133
//! ports and a cap of 150. Each size runs in its own process, so that peak memory is measured for
//! it alone; *memory before* is the peak after the net file was made. Timed are the steps of
//! ibnet-gen: read, plan with proof, and write.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints and measures time")]

use std::process::Command;
use std::time::{Duration, Instant};

use ibnet::assignments::Header;
use ibnet::partition::{self, Plan, PlanOptions, Request, hosts};
use ibnet::topology::shapes::ThreeTiers;
use ibnet::topology::{Fabric, ports_report};
use ibnet::types::NodeKind;

/// Radix, pods and number of samplers.
const SIZES: [(usize, usize, usize); 6] = [(12, 5, 8), (16, 9, 26), (24, 12, 78), (32, 16, 185), (48, 15, 390), (48, 29, 750)];

/// Number of runs of each step; the median is reported.
const TURNS: usize = 5;

const CAP: u32 = 150;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` also runs this program, and must not measure.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    match args.iter().find_map(|arg| arg.strip_prefix("--size=")?.parse().ok()) {
        Some(size) => measure(size),
        None => table(),
    }
}

fn table() {
    println!(
        "| ports | switches | samplers | read | plan by the rules | plan with search | with a second role | write | total | memory before | largest | largest load | lower bound |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for size in 0..SIZES.len() {
        let this = std::env::current_exe().expect("the path of this program");
        let done = Command::new(this).args(["--bench", &format!("--size={size}")]).status().expect("this program starts");
        assert!(done.success(), "size {size} failed");
    }
}

fn measure(size: usize) {
    let (radix, pods, samplers) = SIZES[size];
    let text = ThreeTiers { radix, pods }.blueprint().ports_report();
    // The memory to make the net file is reported separately.
    let without = peak();
    let read = || ports_report::parse(text.as_bytes(), "net").expect("the format of this crate").fabric;
    let (reading, fabric) = timed(read);
    let samplers = spread(&fabric, samplers);
    let count = samplers.len();
    let request = Request { fabric: &fabric, samplers, cap: CAP };
    let planned = |options: &PlanOptions<'_>| partition::plan_with(&request, options).expect("enough samplers");
    let (rules, _) = timed(|| planned(&PlanOptions { optimize: false, ..PlanOptions::default() }));
    let (planning, plan) = timed(|| planned(&PlanOptions::default()));
    let (writing, _) = timed(|| written(&plan, &fabric));
    let peak = peak();
    let (second, _) = timed(|| planned(&PlanOptions { redundant: true, ..PlanOptions::default() }));
    let switches = fabric.devices().iter().filter(|device| device.kind == NodeKind::Switch).count();
    println!(
        "| {} | {switches} | {count} | {} | {} | {} | {} | {} | {} | {without:.0} MB | {:.0} MB | {} | {} |",
        fabric.linked_ports(),
        ms(reading),
        ms(rules),
        ms(planning),
        ms(second),
        ms(writing),
        ms(reading + planning + writing),
        peak,
        plan.figures.greatest,
        plan.lower_bound
    );
}

/// Returns hosts that are spread over the fabric.
fn spread(fabric: &Fabric, samplers: usize) -> Vec<hosts::Host> {
    let all: Vec<_> = fabric.devices().iter().filter(|device| device.kind == NodeKind::Hca).collect();
    let names: Vec<_> = (0..samplers).map(|n| all[n * all.len() / samplers].host()).collect();
    hosts::locate(&hosts::parse_list(&names.join(",")).expect("names"), &[], fabric).expect("in the fabric")
}

fn written(plan: &Plan, fabric: &Fabric) -> String {
    partition::assignments_of(plan, fabric).to_toml(&Header { sources: Vec::new(), command: "bench".to_owned() })
}

/// Returns the median time of some runs, and the last result.
fn timed<T>(step: impl Fn() -> T) -> (Duration, T) {
    let mut times = Vec::new();
    let mut turn = || {
        let start = Instant::now();
        let result = step();
        times.push(start.elapsed());
        result
    };
    for _ in 1..TURNS {
        drop(turn());
    }
    let last = turn();
    times.sort_unstable();
    (times[TURNS / 2], last)
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Returns the peak memory of this process in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports the peak");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("a number of kB") / 1e3
}
