//! The programs that ibnet is compared with: two loops in C, opensm's PerfMgr, ibqueryerrors.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::fabric::Ibsim;
use super::{NODE, pinned};

/// Attributes of the groups extended, base, xmtdisc and rcverr.
const ATTRIBUTES: [&str; 4] = ["0x1d", "0x12", "0x16", "0x15"];

/// Sweeps of one program.
#[derive(Default)]
pub(crate) struct Sweeps {
    /// Length of each sweep in nanoseconds.
    pub(crate) lengths: Vec<u64>,
    /// Requests of one sweep.
    pub(crate) mads: u64,
    /// CPU time of all sweeps.
    pub(crate) cpu: Duration,
}

/// Builds `loop.c`.
pub(crate) fn build_loop() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ibsim/loop.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loop");
    let done = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(here)
        .args(["-libmad", "-libumad"])
        .status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "cc builds benches/ibsim/loop.c"
    );
    program
}

/// Writes the ports of the net file to a list for `loop.c`.
pub(crate) fn write_list(ibsim: &Ibsim) {
    let fabric = ibnet::topology::net_file::read(&ibsim.path("net.p"))
        .expect("a net file")
        .fabric;
    let mut list = String::new();
    for device in fabric.devices() {
        for (port, _) in device.linked() {
            let _ = writeln!(list, "{} {}", device.lid, port.num);
        }
    }
    fs::write(ibsim.path("list"), list).expect("written");
}

/// Sweeps with `loop.c`: `serial`, or `window` with this number of MADs in flight.
pub(crate) fn by_loop(
    ibsim: &Ibsim,
    program: &Path,
    mode: &str,
    window: u32,
    sweeps: u32,
    every_ms: u32,
    core: Option<&str>,
) -> Sweeps {
    let mut command = pinned(ibsim, program, core);
    command
        .args([
            mode,
            &window.to_string(),
            &sweeps.to_string(),
            &every_ms.to_string(),
        ])
        .args(ATTRIBUTES);
    let list = fs::File::open(ibsim.path("list")).expect("the list");
    let output = command
        .stdin(list)
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "loop {mode}");
    let mut found = Sweeps::default();
    for line in String::from_utf8(output.stdout).expect("numbers").lines() {
        let numbers: Vec<u64> = line
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        match numbers[..] {
            [length, replies, 0] => (found.mads, _) = (replies, found.lengths.push(length)),
            [cpu] => found.cpu = Duration::from_nanos(cpu),
            _ => panic!("loop: a request was not answered: {line}"),
        }
    }
    found
}

/// Returns PerfMgr's sweeps from opensm's verbose log: each from `Gathering PerfMgr stats` to the
/// last reply before the next one. Writing the log also takes time.
pub(crate) fn by_perfmgr(ibsim: &Ibsim, seconds: u64, core: Option<&str>) -> Sweeps {
    const NODE_OF_SM: &str = "node00288";
    let made = ibsim.run(NODE_OF_SM, "opensm", ["-c", "opensm.conf"]);
    assert!(made.status.success(), "opensm writes its configuration");
    let text = fs::read_to_string(ibsim.path("opensm.conf")).expect("opensm wrote it");
    let changed = [
        ("perfmgr ", "TRUE"),
        ("perfmgr_sweep_time_s ", "2"),
        ("sweep_interval ", "0"),
        ("perfmgr_max_outstanding_queries ", "160"),
    ];
    let line = |line: &str| match changed.iter().find(|(key, _)| line.starts_with(key)) {
        Some((key, value)) => format!("{key}{value}\n"),
        None => format!("{line}\n"),
    };
    fs::write(
        ibsim.path("opensm.conf"),
        text.lines().map(line).collect::<String>(),
    )
    .expect("written");
    let mut command = super::pinned_at(ibsim, NODE_OF_SM, Path::new("opensm"), core);
    command
        .args(["-e", "-F", "opensm.conf", "-f", "perfmgr.log", "-D", "0x07"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("opensm starts");
    std::thread::sleep(Duration::from_secs(seconds));
    // opensm writes its buffered log when it ends by a signal.
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let _ = child.wait();
    let mut found = Sweeps::default();
    let (mut begun, mut last, mut replies) = (None, 0, 0);
    let mut close = |begun: Option<u64>, last: u64, replies: u64| {
        // The first sweeps query ClassPortInfo too, or nothing.
        if let Some(begun) = begun
            && replies > 1000
        {
            found.lengths.push(last.saturating_sub(begun) * 1000);
            found.mads = replies;
        }
    };
    for line in fs::read_to_string(ibsim.path("perfmgr.log"))
        .unwrap_or_default()
        .lines()
    {
        if line.contains("osm_perfmgr_process: Gathering") {
            close(begun, last, replies);
            (begun, replies) = (micros(line), 0);
        } else if line.contains("pc_recv_process: Processing") {
            (last, replies) = (micros(line).unwrap_or(last), replies + 1);
        }
    }
    close(begun, last, replies);
    found
}

/// Returns the time of a line of opensm's log, such as `Nov 21 12:47:24 377873 [...`, in
/// microseconds of its day.
fn micros(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(2);
    let clock: Vec<u64> = words
        .next()?
        .split(':')
        .filter_map(|part| part.parse().ok())
        .collect();
    let [hours, minutes, seconds] = clock[..] else {
        return None;
    };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + words.next()?.parse::<u64>().ok()?)
}

/// Measures whole runs of `ibqueryerrors --counters --skip-sl`: discovery, then PortCounters of
/// each port, one at a time.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn by_ibqueryerrors(ibsim: &Ibsim, runs: u32, core: Option<&str>) -> Sweeps {
    let mut found = Sweeps::default();
    for _ in 0..runs {
        let begun = Instant::now();
        let mut command = pinned(ibsim, Path::new("ibqueryerrors"), core);
        let done = command
            .args(["--counters", "--skip-sl"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(done.is_ok(), "ibqueryerrors runs on {NODE}");
        found.lengths.push(begun.elapsed().as_nanos() as u64);
    }
    found
}
