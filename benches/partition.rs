//! Measures time and memory of planning, from 1,000 to 100,000 linked ports.
//!
//!     cargo bench --bench partition --no-default-features
//!
//! First, `ibnet-gen` as a whole process plans three shapes of 100,000 ports: from its start to its
//! exit, with all files. `--bench --write=DIR` writes their net files and samplers and exits.
//!
//! Then the steps are timed in one process. The fabrics are fat trees of three tiers from
//! `topology::shapes`, with one sampler for about 133 ports and a cap of 150. Each size runs in its
//! own process, so that peak memory is measured for it alone; *memory before* is the peak after the
//! net file was made. Timed are the steps of ibnet-gen: read, plan with proof, and write.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints and measures time"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ibnet::assignments::Header;
use ibnet::partition::{self, Plan, PlanOptions, Request, hosts};
use ibnet::topology::shapes::{Dragonfly, ThreeTiers};
use ibnet::topology::synthetic::{Blueprint, FatTree};
use ibnet::topology::{Fabric, ports_report};
use ibnet_record::types::NodeKind;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Radix, pods and number of samplers.
const SIZES: [(usize, usize, usize); 6] = [
    (12, 5, 8),
    (16, 9, 26),
    (24, 12, 78),
    (32, 16, 185),
    (48, 15, 390),
    (48, 29, 750),
];

/// Number of runs of each step; the median is reported.
const TURNS: usize = 5;

const CAP: u32 = 150;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` also runs this program, and must not measure.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    if let Some(size) = option("--size=") {
        measure(size.parse().expect("the index of a size"));
    } else if let Some(dir) = option("--write=") {
        for large in &LARGE {
            large.write(Path::new(dir));
        }
    } else {
        whole_processes();
        table();
    }
}

/// A shape with about 100,000 linked ports.
struct Large {
    name: &'static str,
    blueprint: fn() -> Blueprint,
    cap: &'static str,
    /// The names of its net file and samplers file.
    files: (&'static str, &'static str),
}

/// Number of samplers of each large shape.
const SAMPLERS: usize = 750;

const LARGE: [Large; 3] = [
    Large {
        name: "fat tree, two tiers, tight cap",
        blueprint: || {
            FatTree {
                leaves: 250,
                hosts: 150,
                spines: 50,
                trunk: 1,
                radix: 250,
            }
            .blueprint()
        },
        // A leaf has 200 ports and fills its sampler, so that its HCA ports have others.
        cap: "200",
        files: ("two-tiers.p", "two-tiers.samplers"),
    },
    Large {
        name: "fat tree, three tiers",
        blueprint: || {
            ThreeTiers {
                radix: 48,
                pods: 29,
            }
            .blueprint()
        },
        cap: "150",
        files: ("three-tiers.p", "three-tiers.samplers"),
    },
    Large {
        name: "Dragonfly+",
        blueprint: || {
            Dragonfly {
                groups: 90,
                leaves: 16,
                spines: 16,
                hosts: 16,
            }
            .blueprint()
        },
        cap: "150",
        files: ("dragonfly-plus.p", "dragonfly-plus.samplers"),
    },
];

impl Large {
    /// Writes the net file and the samplers file. Returns the number of linked ports.
    fn write(&self, dir: &Path) -> usize {
        let text = (self.blueprint)().ports_report();
        let fabric = ports_report::parse(text.as_bytes(), "net")
            .expect("the format of this crate")
            .fabric;
        let samplers: Vec<_> = spread(&fabric, SAMPLERS)
            .into_iter()
            .map(|host| host.name)
            .collect();
        std::fs::write(dir.join(self.files.0), text).expect("a writable directory");
        std::fs::write(dir.join(self.files.1), samplers.join("\n")).expect("a writable directory");
        fabric.linked_ports()
    }

    /// Runs `ibnet-gen`. Returns its wall time and its CPU time in user mode.
    fn run(&self, dir: &Path, more: &[&str]) -> (Duration, Duration) {
        let (before, start) = (children_user_time(), Instant::now());
        let (net, samplers) = self.files;
        let args = [
            "--net",
            net,
            "--samplers-file",
            samplers,
            "--cap",
            self.cap,
            "-o",
            "plan.toml",
        ];
        let mut gen_plan = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"));
        let done = gen_plan
            .args(args)
            .args(more)
            .current_dir(dir)
            .stderr(Stdio::null())
            .status()
            .expect("ibnet-gen starts");
        let wall = start.elapsed();
        assert!(done.success(), "no plan for {}", self.name);
        (wall, children_user_time() - before)
    }
}

fn whole_processes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    println!(
        "| shape | ports | samplers | cap | whole process | user CPU | with a second role | user CPU |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for large in &LARGE {
        let ports = large.write(dir.path());
        let median = |more: &[&str]| {
            let mut runs: Vec<_> = (0..TURNS).map(|_| large.run(dir.path(), more)).collect();
            runs.sort_unstable();
            runs[TURNS / 2]
        };
        let ((one, one_user), (two, two_user)) = (median(&[]), median(&["--redundancy", "2"]));
        println!(
            "| {} | {ports} | {SAMPLERS} | {} | {} | {} | {} | {} |",
            large.name,
            large.cap,
            ms(one),
            ms(one_user),
            ms(two),
            ms(two_user)
        );
    }
    println!();
}

/// Returns the CPU time in user mode of all ended children.
fn children_user_time() -> Duration {
    let time: TimeVal = getrusage(UsageWho::RUSAGE_CHILDREN)
        .expect("valid on Linux")
        .user_time();
    Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64)
}

fn table() {
    println!(
        "| ports | switches | samplers | read | plan by the rules | plan with search | with a second role | write | total | memory before | largest | largest load | lower bound |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for size in 0..SIZES.len() {
        let this = std::env::current_exe().expect("the path of this program");
        let done = Command::new(this)
            .args(["--bench", &format!("--size={size}")])
            .status()
            .expect("this program starts");
        assert!(done.success(), "size {size} failed");
    }
}

fn measure(size: usize) {
    let (radix, pods, samplers) = SIZES[size];
    let text = ThreeTiers { radix, pods }.blueprint().ports_report();
    // The memory to make the net file is reported separately.
    let without = peak();
    let read = || {
        ports_report::parse(text.as_bytes(), "net")
            .expect("the format of this crate")
            .fabric
    };
    let (reading, fabric) = timed(read);
    let samplers = spread(&fabric, samplers);
    let count = samplers.len();
    let request = Request {
        fabric: &fabric,
        samplers,
        cap: CAP,
    };
    let planned = |options: &PlanOptions<'_>| {
        partition::plan_with(&request, options).expect("enough samplers")
    };
    let (rules, _) = timed(|| {
        planned(&PlanOptions {
            optimize: false,
            ..PlanOptions::default()
        })
    });
    let (planning, plan) = timed(|| planned(&PlanOptions::default()));
    let (writing, _) = timed(|| written(&plan, &fabric));
    let peak = peak();
    let (second, _) = timed(|| {
        planned(&PlanOptions {
            redundant: true,
            ..PlanOptions::default()
        })
    });
    let switches = fabric
        .devices()
        .iter()
        .filter(|device| device.kind == NodeKind::Switch)
        .count();
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
    let all: Vec<_> = fabric
        .devices()
        .iter()
        .filter(|device| device.kind == NodeKind::Hca)
        .collect();
    let names: Vec<_> = (0..samplers)
        .map(|n| all[n * all.len() / samplers].host())
        .collect();
    hosts::locate(
        &hosts::parse_list(&names.join(",")).expect("names"),
        &[],
        fabric,
    )
    .expect("in the fabric")
}

fn written(plan: &Plan, fabric: &Fabric) -> String {
    partition::assignments_of(plan, fabric).to_toml(&Header {
        sources: Vec::new(),
        command: "bench".to_owned(),
    })
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
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("the kernel reports the peak");
    line.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse::<f64>()
        .expect("a number of kB")
        / 1e3
}
