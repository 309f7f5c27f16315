//! A whole slot on ibsim: `ibnet-sweep` through libibumad, compared in one run with other programs
//! that query the same ports. Also: 10 Hz for a minute, devices that stop answering, CPU time per
//! MAD, and the memory of a sampler with 150 ports.
//!
//!     cargo bench --bench ibsim                    (some minutes; on a quiet machine only)
//!     cargo bench --bench ibsim -- --cadence       (the cost of a slot by cadence only)
//!     cargo bench --bench ibsim -- --discovery     (discovery of the fabric only)
//!
//! The programs take turns, because the speed of a machine changes from minute to minute. The
//! length of a slot is that of its `sweep` record: from its start to its last reply. The placement
//! of the two processes on cores has the largest effect, so that each placement has its own rows.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod cadence;
mod discovery;
#[path = "../../tests/ibsim/fabric.rs"]
mod fabric;
mod peers;
mod silent;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fabric::{Ibsim, available, lines, wait_for};
use ibnet::topology::shapes::ThreeTiers;
use ibnet::topology::{Fabric, net_file, synthetic};
use ibnet_record::strict::{self, Line, Port, Sweep};
use ibnet_record::types::{Guid, Lid, NodeKind};
use nix::sys::resource::{UsageWho, getrusage};
use peers::Sweeps;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");
const NODE: &str = "node00001";
const TURNS: usize = 3;

/// The default groups, each in every slot.
const GROUPS: &str = "extended,base,xmtdisc,rcverr";

/// Placements of simulator and client: name, and the core of each.
const PLACES: [(&str, Option<(&str, &str)>); 3] = [
    ("two cores, one each", Some(("0", "1"))),
    ("one core for both", Some(("0", "0"))),
    ("chosen by the kernel", None),
];

fn main() {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    if has(silent::FLAG) {
        return silent::run();
    }
    // `cargo test --benches` also runs this program, and must not measure.
    if !has("--bench") {
        return;
    }
    let Some(preload) = available() else { return };
    if has(discovery::FLAG) {
        println!(
            "discovery of a fat tree of 832 hosts as a whole process, median of some turns:\n"
        );
        println!(
            "| placement | ibnetdiscover -p | ibnet-gen discover | smpquery, one SMP | MADs of ibnet-gen | us per MAD | ibnetdiscover / ibnet-gen |"
        );
        println!("|---|---|---|---|---|---|---|");
        for (place, cores) in PLACES {
            let tree = ThreeTiers {
                radix: 16,
                pods: 13,
            };
            let ibsim = Ibsim::start(&tree.blueprint(), "node00832", preload.clone());
            if let Some((core, _)) = cores {
                pin(ibsim.id(), core);
            }
            discovery::row(place, &ibsim, cores.map(|(_, core)| core));
        }
        return;
    }
    let blueprint = synthetic::stria();
    let c_loop = peers::build_loop();
    let start = |cores: Option<(&str, &str)>| {
        let ibsim = Ibsim::start(&blueprint, "node00288", preload.clone());
        fs::write(
            ibsim.path("net.p"),
            ibsim.run(NODE, "ibnetdiscover", ["-p"]).stdout,
        )
        .expect("written");
        peers::write_list(&ibsim);
        if let Some((core, _)) = cores {
            pin(ibsim.id(), core);
        }
        ibsim
    };

    if has(cadence::FLAG) {
        let (place, cores) = PLACES[0];
        println!(
            "cost of a slot at 10 Hz by cadence, {} ports, {place}; {} turns:\n",
            blueprint.linked_ports(),
            cadence::TURNS
        );
        return cadence::table(&start(cores), cores.map(|(_, core)| core));
    }

    println!(
        "whole slot on ibsim: {} ports, groups {GROUPS}; {TURNS} turns\n",
        blueprint.linked_ports()
    );
    println!(
        "| placement | program | sweep, median | minimum | MADs | us per MAD | serial / this |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (place, cores) in PLACES {
        whole_slots(place, &start(cores), &c_loop, cores.map(|(_, core)| core));
    }
    let (place, cores) = PLACES[0];
    println!("\n10 Hz for a minute, {place}, all groups in every slot:\n");
    ten_hertz(&start(cores), &c_loop, cores.map(|(_, core)| core));

    println!(
        "\ndevices stop answering at 10 Hz, {place}, timeout 5 ms; {} slots before, {} after:\n",
        silent::HEALTHY,
        silent::SLOTS - silent::HEALTHY
    );
    println!(
        "| silent devices | their ports | slot before, median | first slot after | after, median | longest | increase, in timeouts | other ports that were not ok or late |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let ibsim = start(cores);
    let fabric = net_file::read(&ibsim.path("net.p"))
        .expect("a net file")
        .fabric;
    fall_silent(
        "5 % of the hosts",
        &ibsim,
        &fabric,
        &some_hosts(&fabric),
        cores.map(|(_, core)| core),
    );
    fall_silent(
        "a leaf and its hosts",
        &ibsim,
        &fabric,
        &a_leaf(&fabric),
        cores.map(|(_, core)| core),
    );
    println!(
        "\nmemory of a sampler of 150 ports, default groups: {}",
        memory(&start(None))
    );
}

/// Prints the sweeps of all programs, and how much faster than the serial loop each one is.
fn whole_slots(place: &str, ibsim: &Ibsim, c_loop: &Path, core: Option<&str>) {
    const PROGRAMS: [&str; 4] = [
        "serial loop, libibmad",
        "ibnet-sweep, window 1",
        "ibnet-sweep, window 32",
        "bare loop, window 32",
    ];
    let mut of_all = PROGRAMS.map(|_| Sweeps::default());
    let mut not_ok = String::new();
    for _ in 0..TURNS {
        let turn = [
            peers::by_loop(ibsim, c_loop, "serial", 1, 8, 0, core),
            ibnet_sweep(
                ibsim,
                &[
                    "--groups",
                    GROUPS,
                    "--window",
                    "1",
                    "--interval",
                    "500ms",
                    "--timeout",
                    "50ms",
                    "--sweeps",
                    "8",
                ],
                core,
                &mut not_ok,
            )
            .0,
            ibnet_sweep(
                ibsim,
                &[
                    "--groups",
                    GROUPS,
                    "--interval",
                    "100ms",
                    "--timeout",
                    "50ms",
                    "--sweeps",
                    "30",
                ],
                core,
                &mut not_ok,
            )
            .0,
            peers::by_loop(ibsim, c_loop, "window", 32, 30, 100, core),
        ];
        for (all, turn) in of_all.iter_mut().zip(turn) {
            all.lengths.extend(turn.lengths);
            all.mads = turn.mads;
        }
    }
    let serial = median(&mut of_all[0].lengths);
    let row = |program: &str, sweeps: &mut Sweeps| {
        if sweeps.lengths.is_empty() {
            println!("| {place} | {program} | no sweep in its log | | | | |");
            return;
        }
        let middle = median(&mut sweeps.lengths);
        let (mads, each) = match sweeps.mads {
            0 => ("-".to_owned(), "-".to_owned()),
            mads => (
                mads.to_string(),
                format!("{:.2}", middle as f64 / 1e3 / mads as f64),
            ),
        };
        let (least, ratio) = (sweeps.lengths[0], serial as f64 / middle as f64);
        println!(
            "| {place} | {program} | {:.2} ms | {:.2} ms | {mads} | {each} | {ratio:.1} |",
            ms(middle),
            ms(least)
        );
    };
    PROGRAMS
        .iter()
        .zip(&mut of_all)
        .for_each(|(program, sweeps)| row(program, sweeps));
    row(
        "`ibqueryerrors --counters --skip-sl`",
        &mut peers::by_ibqueryerrors(ibsim, 5, core),
    );
    row(
        "opensm's PerfMgr, 160 in flight",
        &mut peers::by_perfmgr(ibsim, 20, core),
    );
    if !not_ok.is_empty() {
        println!("{not_ok}");
    }
}

/// Returns a command on [`NODE`], pinned to a core if one is given.
fn pinned(ibsim: &Ibsim, program: &Path, core: Option<&str>) -> Command {
    pinned_at(ibsim, NODE, program, core)
}

fn pinned_at(ibsim: &Ibsim, node: &str, program: &Path, core: Option<&str>) -> Command {
    let Some(core) = core else {
        return ibsim.command(node, program);
    };
    let mut command = ibsim.command(node, "taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// Sweeps with `ibnet-sweep`, and describes the slots that are not `ok`. Leaves out the first two
/// slots, which also have identity checks.
fn ibnet_sweep(
    ibsim: &Ibsim,
    args: &[&str],
    core: Option<&str>,
    not_ok: &mut String,
) -> (Sweeps, Vec<Sweep>) {
    let before = cpu_of_children();
    let mut command = pinned(ibsim, Path::new(SWEEP), core);
    let output = command
        .args(["--net", "net.p"])
        .args(args)
        .env("RUST_LOG", "error")
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    assert!(output.status.success());
    let cpu = cpu_of_children() - before;
    let text = String::from_utf8(output.stdout).expect("JSON");
    let sweeps: Vec<Sweep> = text
        .lines()
        .filter_map(|text| {
            if let Ok(Line::Sweep(sweep)) = strict::parse(text) {
                Some(sweep)
            } else {
                None
            }
        })
        .collect();
    let bad: Vec<_> = sweeps
        .iter()
        .filter(|sweep| sweep.ok < sweep.ports)
        .collect();
    if !bad.is_empty() {
        let sum = |of: fn(&Sweep) -> u32| bad.iter().map(|sweep| of(sweep)).sum::<u32>();
        let [late, timeout, unreachable, skipped, errors] = [
            sum(|sweep| sweep.late),
            sum(|sweep| sweep.timeout),
            sum(|sweep| sweep.unreachable),
            sum(|sweep| sweep.skipped),
            sum(|sweep| sweep.errors),
        ];
        *not_ok += &format!(
            "\n{} of {} slots of `{}` were not all ok: {late} late, {timeout} timeout, {unreachable} unreachable, {skipped} skipped, {errors} others",
            bad.len(),
            sweeps.len(),
            args.join(" ")
        );
    }
    let lengths = sweeps
        .iter()
        .skip(2)
        .map(|sweep| sweep.duration_ns)
        .collect();
    let mads = sweeps.last().map_or(0, |sweep| sweep.mads_sent);
    (Sweeps { lengths, mads, cpu }, sweeps)
}

fn ten_hertz(ibsim: &Ibsim, c_loop: &Path, core: Option<&str>) {
    let mut not_ok = String::new();
    let (mut own, sweeps) = ibnet_sweep(
        ibsim,
        &["--groups", GROUPS, "--interval", "100ms", "--sweeps", "600"],
        core,
        &mut not_ok,
    );
    let bare = peers::by_loop(ibsim, c_loop, "window", 32, 600, 100, core);
    let (all, good): (u64, u64) = sweeps.iter().fold((0, 0), |(all, good), sweep| {
        (all + u64::from(sweep.ports), good + u64::from(sweep.ok))
    });
    let missed: u64 = sweeps.iter().map(|sweep| sweep.slots_missed).sum();
    let mads: u64 = sweeps.iter().map(|sweep| sweep.mads_sent).sum();
    let (middle, longest) = (
        median(&mut own.lengths),
        sweeps
            .iter()
            .map(|sweep| sweep.duration_ns)
            .max()
            .unwrap_or(0),
    );
    let over = sweeps
        .iter()
        .filter(|sweep| sweep.duration_ns > 90_000_000)
        .count();
    println!(
        "- slots: {}, missed {missed}; median {:.2} ms, longest {:.2} ms, longer than 90 ms: {over}",
        sweeps.len(),
        ms(middle),
        ms(longest)
    );
    println!(
        "- records: {all}, not ok {} ({:.3} per thousand)",
        all - good,
        1e3 * (all - good) as f64 / all as f64
    );
    let each = |cpu: Duration, mads: u64| cpu.as_secs_f64() * 1e6 / mads as f64;
    let (own, bare) = (
        each(own.cpu, mads),
        each(bare.cpu, bare.mads * bare.lengths.len() as u64),
    );
    println!(
        "- CPU time per MAD: ibnet-sweep {own:.2} us, including start, decoding and records; the bare loop, which is the share of the preloaded client, {bare:.2} us; difference {:.2} us",
        own - bare
    );
    if !not_ok.is_empty() {
        println!("{not_ok}");
    }
}

/// Returns every twentieth host, but not the sampler host.
fn some_hosts(fabric: &Fabric) -> BTreeSet<Lid> {
    let hosts = fabric
        .devices()
        .iter()
        .filter(|device| device.kind == NodeKind::Hca && device.host() != NODE);
    hosts.step_by(20).map(|device| device.lid).collect()
}

/// Returns a leaf switch that is not that of the sampler, and its hosts.
fn a_leaf(fabric: &Fabric) -> BTreeSet<Lid> {
    let leaf = fabric
        .devices()
        .iter()
        .find(|device| device.name.starts_with("leaf03"))
        .expect("it has a third leaf");
    let hosts = leaf
        .linked()
        .filter(|(_, peer)| peer.kind == NodeKind::Hca)
        .map(|(_, peer)| peer.lid);
    hosts.chain([leaf.lid]).collect()
}

/// Prints the slots before and after these devices stop answering.
fn fall_silent(
    name: &str,
    ibsim: &Ibsim,
    fabric: &Fabric,
    lids: &BTreeSet<Lid>,
    core: Option<&str>,
) {
    const TIMEOUT_NS: f64 = 5e6;
    let list: String = lids.iter().map(|lid| format!("{lid}\n")).collect();
    fs::write(ibsim.path(silent::LIDS), list).expect("written");
    let this = std::env::current_exe().expect("this program");
    let output = pinned(ibsim, &this, core)
        .arg(silent::FLAG)
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "the sampler with silent devices");
    let (mut lengths, mut bad, mut slot) = (Vec::new(), 0, 0);
    let silent: BTreeSet<Guid> = fabric
        .devices()
        .iter()
        .filter(|device| lids.contains(&device.lid))
        .map(|device| device.guid)
        .collect();
    for text in String::from_utf8(output.stdout).expect("JSON").lines() {
        match strict::parse(text).expect("a record") {
            Line::Port(port) => {
                bad += usize::from(slot >= silent::HEALTHY && is_lost(&port, &silent));
            }
            Line::Sweep(sweep) => (slot, _) = (slot + 1, lengths.push(sweep.duration_ns)),
            Line::Start(_)
            | Line::Event(_)
            | Line::Histogram(_)
            | Line::Physical(_)
            | Line::Routes(_) => {}
        }
    }
    let (before, after) = lengths.split_at_mut(silent::HEALTHY as usize);
    let (healthy, first) = (median(&mut before[2..]), after[0]);
    let (middle, longest) = (median(after), after[after.len() - 1]);
    let ports: usize = fabric
        .devices()
        .iter()
        .filter(|device| lids.contains(&device.lid))
        .map(|device| device.linked_ports())
        .sum();
    println!(
        "| {name} | {ports} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms | {:.1} median, {:.1} longest | {bad} |",
        ms(healthy),
        ms(first),
        ms(middle),
        ms(longest),
        (middle as f64 - healthy as f64) / TIMEOUT_NS,
        (longest as f64 - healthy as f64) / TIMEOUT_NS,
    );
}

/// Returns whether a port of a device that answers lacks data.
fn is_lost(port: &Port, silent: &BTreeSet<Guid>) -> bool {
    !silent.contains(&port.guid) && !["ok", "late"].contains(&port.status.as_str())
}

/// Returns the memory of a sampler with about 150 ports, as counted by the kernel.
fn memory(ibsim: &Ibsim) -> String {
    let made = ibsim.run(
        NODE,
        GEN,
        [
            "--net",
            "net.p",
            "--samplers",
            "node[00001,00025,00049,00073,00097,00121,00145]",
            "-o",
            "plan.toml",
        ],
    );
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut command = ibsim.command(NODE, SWEEP);
    command.args([
        "--assignments",
        "plan.toml",
        "--sampler",
        NODE,
        "--interval",
        "100ms",
        "--sweeps",
        "50",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let output = lines(child.stdout.take().expect("piped"));
    for _ in 0..40 {
        wait_for(&output, "\"type\":\"sweep\"", "ibnet-sweep");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it still runs");
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or("?")
            .trim()
            .to_owned()
    };
    let memory = format!(
        "{} at most, {} now, {} threads",
        field("VmHWM:"),
        field("VmRSS:"),
        field("Threads:")
    );
    drop(output);
    let _ = child.wait();
    memory
}

fn pin(process: u32, core: &str) {
    let done = Command::new("taskset")
        .args(["-a", "-p", "-c", core, &process.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "taskset (util-linux) pins ibsim to a core"
    );
}

/// Returns the CPU time of all child processes that have ended.
fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("valid arguments");
    [usage.user_time(), usage.system_time()]
        .map(|time| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000))
        .iter()
        .sum()
}

/// Sorts the values, and returns the median.
fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
