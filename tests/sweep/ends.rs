//! The end of a sweep: signals, closed pipes, full disks, and the exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use ibnet_record::strict::Line;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::program::{Run, Running, SWEEP, run};
use crate::stream::{Stream, record};
use crate::{distant, links, small};

/// Beginning of the names of the threads of a sweep.
const WORKER: &str = "mads";
const OUTPUT: &str = "output-";

#[test]
fn file_is_appended_to_and_its_incomplete_line_is_ended() {
    let dir = small();
    let path = dir.path().join("lines");
    let args = [
        "--simulate",
        "net.p",
        "--interval",
        "100ms",
        "--sweeps",
        "1",
        "-o",
        "lines",
    ];
    let first = run(&dir, &args);
    assert_eq!(
        (first.code, first.stdout.as_str()),
        (0, ""),
        "{}",
        first.stderr
    );
    let whole = fs::read_to_string(&path).unwrap();
    Stream::read(&whole);
    // As after a power failure: half of the last line is missing.
    let torn = &whole[..whole.len() - 20];
    fs::write(&path, torn).unwrap();
    assert_eq!(run(&dir, &args).code, 0);
    let both = fs::read_to_string(&path).unwrap();
    let second = both
        .strip_prefix(torn)
        .unwrap()
        .strip_prefix('\n')
        .expect("the torn line is closed");
    let (one, two) = (Stream::read(&whole), Stream::read(second));
    assert_ne!(one.start, two.start, "every start is unique");
    assert!(two.slots[0].sweep.slot > one.slots[0].sweep.slot);
}

#[test]
fn empty_output_is_standard_output() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "output = \"\"\n").unwrap();
    let run = run(
        &dir,
        &[
            "-c",
            "ibnet.toml",
            "--simulate",
            "net.p",
            "--interval",
            "100ms",
            "--sweeps",
            "1",
        ],
    );
    assert_eq!(
        (run.code, Stream::read(&run.stdout).slots.len()),
        (0, 1),
        "{}",
        run.stderr
    );
}

/// Standard output that is always full.
fn full() -> Stdio {
    Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap())
}

#[test]
fn records_that_a_full_disk_drops_are_counted_with_code_4() {
    let dir = small();
    let run = |args: &[&str], stdout: Stdio| {
        let output = Command::new(SWEEP)
            .current_dir(dir.path())
            .args(args)
            .stdout(stdout)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let args = [
        "--simulate",
        "net.p",
        "--interval",
        "100ms",
        "--sweeps",
        "1",
    ];
    for (args, stdout, name) in [
        (&args[..], full(), "standard output"),
        (
            &[&args[..], &["-o", "/dev/full"]].concat(),
            Stdio::null(),
            "/dev/full",
        ),
    ] {
        let (code, log) = run(args, stdout);
        assert_eq!(code, Some(4), "{log}");
        assert!(log.contains("No space left") && log.contains(name), "{log}");
        // One record for each port, and those of the sweep and of the histograms. The last error is
        // in brackets.
        let dropped: u32 = log
            .split_once("error: cannot write all records to ")
            .and_then(|(_, rest)| rest.split_once("): ")?.1.split(' ').next()?.parse().ok())
            .expect("a number");
        assert!(
            dropped > 20
                && log.contains(" records were dropped at the end\n")
                && log.contains("\nhelp: "),
            "{log}"
        );
    }
    let (code, log) = run(
        &["--simulate", "net.p", "--interval", "100ms", "--once"],
        full(),
    );
    assert_eq!(code, Some(1));
    assert!(
        log.starts_with("error: cannot write to standard output\ncause: No space left")
            && log.contains("\nhelp: "),
        "{log}"
    );
}

#[test]
fn closed_standard_output_is_refused_at_the_start() {
    let dir = small();
    for args in ["--sweeps 1 --interval 100ms", "--once"] {
        let command = format!("exec \"$0\" --simulate net.p {args} >&-");
        let output = Command::new("sh")
            .current_dir(dir.path())
            .args(["-c", &command, SWEEP])
            .output()
            .unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(
            log.contains("error: ") && log.contains("standard output") && log.contains("\nhelp: "),
            "{log}"
        );
    }
}

/// As Python's `subprocess.DEVNULL`. Rust's runtime opens a closed descriptor in the same way.
#[test]
fn null_device_for_reading_and_writing_is_refused_with_a_remedy() {
    let dir = small();
    let null = || {
        Stdio::from(
            fs::File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .unwrap(),
        )
    };
    let args = [
        "--simulate",
        "net.p",
        "--interval",
        "100ms",
        "--sweeps",
        "1",
    ];
    let output = Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .stdout(null())
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains("/dev/null opened for reading and writing"),
        "{log}"
    );
    let help = log.split_once("\nhelp: ").expect("a remedy").1;
    assert!(
        help.contains(">/dev/null") && help.contains("-o FILE"),
        "{log}"
    );
    let output = Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .args(["-o", "lines"])
        .stdout(null())
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn closed_pipe_ends_the_sweep_without_an_error() {
    let dir = small();
    let mut command = Command::new(SWEEP);
    command
        .current_dir(dir.path())
        .args(["--simulate", "net.p", "--interval", "20ms"]);
    // Without the log of the sweep: on a busy machine it has warnings about missed slots.
    let running = Running::spawn(command.env("RUST_LOG", "debug,ibnet::sweep=off"), 1);
    assert!(matches!(record(running.line().trim_end()), Line::Start(_)));
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let complaints: Vec<_> = ["error", "panicked", "lost", "dropped", "WARN"]
        .into_iter()
        .filter(|word| run.stderr.contains(word))
        .collect();
    assert!(complaints.is_empty(), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("reader of standard output closed the pipe"),
        "{}",
        run.stderr
    );
}

#[test]
fn signal_closes_the_slot_and_ends_with_code_0() {
    let dir = small();
    for signal in ["INT", "TERM"] {
        let running = Running::start(
            &dir,
            &["--simulate", "net.p", "--interval", "100ms"],
            usize::MAX,
        );
        let mut text = String::new();
        // Until all ports of a slot were answered.
        loop {
            let line = running.line();
            text.push_str(&line);
            if matches!(record(line.trim_end()), Line::Sweep(sweep) if sweep.ok + sweep.late == sweep.ports)
            {
                break;
            }
        }
        running.signal(signal);
        let run = running.end();
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            run.stderr.contains(&format!("SIG{signal}")) && !run.stderr.contains("dropped"),
            "{}",
            run.stderr
        );
        text.push_str(&run.stdout);
        let stream = Stream::read(&text);
        // On a busy machine a device can be reported as unreachable at the end.
        let is_at_the_end = |line: &Line| {
            matches!(line, Line::Histogram(_))
                || matches!(line, Line::Event(event) if event.event.ends_with("reachable"))
        };
        let last: Vec<_> = text
            .lines()
            .rev()
            .map(record)
            .find(|line| !is_at_the_end(line))
            .into_iter()
            .collect();
        assert!(matches!(last[..], [Line::Sweep(_)]), "{last:?}");
        // After a minute there would be more of each kind.
        let of_all = stream
            .histograms
            .iter()
            .filter(|histogram| histogram.guid.is_none());
        let kinds: BTreeSet<_> = of_all
            .map(|histogram| (histogram.kind.as_str(), histogram.device_kind.as_deref()))
            .collect();
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        stream.assert_covers(&links(&dir).into_keys().collect());
    }
}

#[test]
fn signal_before_the_first_slot_leaves_only_a_start_record() {
    let dir = small();
    let running = Running::start(
        &dir,
        &["--simulate", "net.p", "--interval", &distant()],
        usize::MAX,
    );
    let start = running.line();
    running.signal("TERM");
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert_eq!(Stream::read(&start).slots.len(), 0);
}

/// Starts a sweep at 100 Hz into a pipe that is not read, and fills the pipe and the queue.
fn stalled(config: &str) -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let (dir, running, unread) = unread(
        &format!("{config}simulate = \"net.p\"\n[[output]]\ntype = \"stdout\"\nbuffer_mib = 1\n"),
        &[],
    );
    running.wait_for_log("records are dropped");
    (dir, running, unread)
}

/// Starts a sweep at 100 Hz whose standard output is a pipe that is not read.
fn unread(config: &str, args: &[&str]) -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), config).unwrap();
    let mut command = Command::new(SWEEP);
    command.current_dir(dir.path()).args([
        "-c",
        "ibnet.toml",
        "--interval",
        "10ms",
        "--groups",
        "extended,base,xmtdisc,rcverr",
    ]);
    command.args(args).env("RUST_LOG", "ibnet=debug");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let unread = child.stdout.take().unwrap();
    let stderr = crate::program::lines_of(child.stderr.take().unwrap(), usize::MAX);
    (
        dir,
        Running {
            child,
            stdout: channel().1,
            stderr,
        },
        unread,
    )
}

/// Starts 20 sweeps into a pipe that is not read, and waits for their end.
fn ended_into_unread_pipe() -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let (dir, running, unread) = unread(
        "simulate = \"net.p\"\ndrain = \"10m\"\n",
        &["--sweeps", "20"],
    );
    (0..20).for_each(|_| running.wait_for_log("DEBUG slot "));
    // The worker ends after its last slot.
    running.wait_for_threads(WORKER, false);
    (dir, running, unread)
}

/// Asserts that dropped records were reported at the end, and that all complete lines of the pipe
/// are records.
#[track_caller]
fn assert_dropped(run: &Run, mut unread: impl Read) {
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(
        run.stderr.contains("records were dropped at the end"),
        "{}",
        run.stderr
    );
    let mut text = String::new();
    unread.read_to_string(&mut text).unwrap();
    let complete = text.rfind('\n').expect("a line") + 1;
    assert!(
        text[..complete]
            .lines()
            .map(record)
            .any(|line| matches!(line, Line::Sweep(_))),
        "all lines but the last are complete"
    );
}

#[test]
fn stalled_reader_of_standard_output_delays_the_end_by_the_drain_time_only() {
    let (_dir, running, unread) = stalled("drain = \"300ms\"\n");
    running.signal("TERM");
    assert_dropped(&running.end(), unread);
}

#[test]
fn second_signal_ends_the_drain_time() {
    let (_dir, running, unread) = stalled("drain = \"10m\"\n");
    running.signal("TERM");
    running.wait_for_log("stopping");
    // The worker closes its slot before the outputs drain.
    running.wait_for_threads(WORKER, false);
    running.signal("INT");
    // Hangs if the drain time of ten minutes goes on.
    assert_dropped(&running.end(), unread);
}

#[test]
fn first_signal_after_the_last_sweep_starts_the_drain_time() {
    let (_dir, running, mut unread) = ended_into_unread_pipe();
    running.signal("TERM");
    running.wait_for_log("stopping");
    let mut text = String::new();
    unread.read_to_string(&mut text).unwrap();
    let run = running.end();
    assert_eq!(
        (run.code, Stream::read(&text).slots.len()),
        (0, 20),
        "{}",
        run.stderr
    );
}

#[test]
fn second_signal_after_the_last_sweep_ends_the_drain_time() {
    let (_dir, running, unread) = ended_into_unread_pipe();
    running.signal("TERM");
    running.wait_for_log("stopping");
    running.signal("INT");
    // Hangs if the drain time of ten minutes goes on.
    assert_dropped(&running.end(), unread);
}

#[test]
fn slow_reader_gets_all_records_within_the_drain_time() {
    // Longer than the reader can take.
    let (_dir, running, mut unread) = stalled("drain = \"10m\"\n");
    running.signal("TERM");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        unread.read_to_string(&mut text).map(|_| text)
    });
    let run = running.end();
    let text = reader.join().unwrap().unwrap();
    assert!(
        text.ends_with('\n')
            && text
                .lines()
                .map(record)
                .any(|line| matches!(line, Line::Sweep(_))),
        "all lines are complete"
    );
    // Records that did not fit are reported in the stream, unless they were the last ones.
    let is_reported = text
        .lines()
        .map(record)
        .any(|line| matches!(line, Line::Event(event) if event.event == "lines_lost"));
    let is_dropped = run.code == 4 && run.stderr.contains("records were dropped at the end");
    assert!(
        if run.code == 0 {
            is_reported
        } else {
            is_dropped
        },
        "{}",
        run.stderr
    );
}

#[test]
fn signal_within_a_slot_settles_all_of_its_ports() {
    let dir = small();
    // No device answers: a slot lasts as long as its grace period.
    fs::write(
        dir.path().join("ibnet.toml"),
        "simulate = \"net.p\"\ngrace = \"900ms\"\n[simulated]\nloss = 1.0\n",
    )
    .unwrap();
    let args = ["-c", "ibnet.toml", "--interval", "1s", "-o", "lines"];
    let mut command = Command::new(SWEEP);
    let running = Running::spawn(
        command
            .current_dir(dir.path())
            .args(args)
            .env("RUST_LOG", "ibnet=trace"),
        usize::MAX,
    );
    // The first slot has ended and a MAD was sent: the second slot has begun. It lasts for 0.9 s
    // more, unless the machine is so busy that it ends before the signal. Then the third one is
    // interrupted, or none.
    running.wait_for_log(" DEBUG slot ");
    running.wait_for_log(" TRACE send ");
    running.signal("TERM");
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let stream = Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap());
    stream.assert_covers(&links(&dir).into_keys().collect());
    assert!(stream.slots.len() >= 2, "the interrupted slot is closed");
}

/// Returns the ends of a pipe that is full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Returns whether a process catches SIGINT and SIGTERM.
fn catches_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    [2, 15].iter().all(|signal| mask >> (signal - 1) & 1 == 1)
}

#[test]
fn second_signal_before_a_worker_ends_is_reported_as_the_cause_of_the_end() {
    let dir = small();
    let (mut reader, writer) = full_pipe();
    // The worker logs each MAD before it is sent, and the log is full: the worker cannot end. The
    // log of the main thread is off, and its drain time is longer than the test.
    fs::write(
        dir.path().join("ibnet.toml"),
        "simulate = \"net.p\"\ndrain = \"10m\"\noutput = \"lines\"\n",
    )
    .unwrap();
    let mut command = Command::new(SWEEP);
    command
        .current_dir(dir.path())
        .args(["-c", "ibnet.toml"])
        .env("RUST_LOG", "ibnet::sweep=trace");
    let child = command.stderr(writer).spawn().unwrap();
    // Closes the other end of the pipe.
    drop(command);
    let running = Running {
        child,
        stdout: channel().1,
        stderr: channel().1,
    };
    running.wait_for_threads(WORKER, true);
    running.wait_for_threads(OUTPUT, true);
    assert!(catches_signals(running.child.id()));
    running.signal("TERM");
    running.signal("INT");
    // The outputs end after the second signal. Now the log can be read, and the worker goes on.
    running.wait_for_threads(OUTPUT, false);
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert_eq!(running.end().code, 4, "{log}");
    assert!(
        log.contains("error: ended by a second signal before a worker closed its slot"),
        "{log}"
    );
}

#[test]
fn full_log_does_not_disturb_the_sweep() {
    let dir = small();
    let args = [
        "--simulate",
        "net.p",
        "--interval",
        "100ms",
        "--sweeps",
        "2",
        "-o",
        "lines",
    ];
    let status = Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .env("RUST_LOG", "trace")
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(
        Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap())
            .slots
            .len(),
        2
    );
}
