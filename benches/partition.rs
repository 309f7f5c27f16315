//! How long a plan takes, and how much memory, from 1,000 to 100,000 linked ports.
//!
//!     cargo bench --bench partition --no-default-features
//!
//! Fat trees of three tiers, made up in `topology::shapes`, with one sampler for about 133 ports under the cap of 150. Each size has a process of its own, so
//! that its peak of memory is its own; *memory before* is what making up the file took. What is timed is what ibnet-gen does: read, plan and prove, write.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "that is what a benchmark is for")]

use std::process::Command;
use std::time::{Duration, Instant};

use ibnet::assignments::Header;
use ibnet::partition::{self, Plan, PlanOptions, Request, hosts};
use ibnet::topology::shapes::ThreeTiers;
use ibnet::topology::{Fabric, ports_report};
use ibnet::types::NodeKind;

/// Radix and pods, and how many samplers.
const SIZES: [(usize, usize, usize); 6] = [(12, 5, 8), (16, 9, 26), (24, 12, 78), (32, 16, 185), (48, 15, 390), (48, 29, 750)];

/// Times each step is taken; the median counts.
const TURNS: usize = 5;

const CAP: u32 = 150;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` calls this too, and must not measure.
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
        "| ports | switches | samplers | read | plan by the rules | plan, improved | with a second role | write | in all | memory before | at most | greatest load | its bound |"
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
    // What making it up took does not count.
    let without = peak();
    let read = || ports_report::parse(text.as_bytes(), "net").expect("our own format").fabric;
    let (reading, fabric) = timed(read);
    let samplers = spread(&fabric, samplers);
    let count = samplers.len();
    let request = Request { fabric: &fabric, samplers, cap: CAP };
    let planned = |options: &PlanOptions<'_>| partition::plan_with(&request, options).expect("there is room");
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

/// Hosts from all over the fabric.
fn spread(fabric: &Fabric, samplers: usize) -> Vec<hosts::Host> {
    let all: Vec<_> = fabric.devices().iter().filter(|device| device.kind == NodeKind::Hca).collect();
    let names: Vec<_> = (0..samplers).map(|n| all[n * all.len() / samplers].host()).collect();
    hosts::locate(&hosts::parse_list(&names.join(",")).expect("names"), &[], fabric).expect("in the fabric")
}

fn written(plan: &Plan, fabric: &Fabric) -> String {
    partition::assignments_of(plan, fabric).to_toml(&Header { sources: Vec::new(), command: "bench".to_owned() })
}

/// The median of some turns, and the last result.
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

/// The peak of this process's memory, in MB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak is told");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("a number of kB") / 1e3
}
