//! The end of a sweep: signals, closed pipes, full disks, and the exit codes.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use ibnet::record::strict::Line;

use crate::program::{Run, Running, SWEEP, run};
use crate::stream::{Stream, record};
use crate::{links, small};

#[test]
fn file_is_appended_to_and_its_incomplete_line_is_ended() {
    let dir = small();
    let path = dir.path().join("lines");
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1", "-o", "lines"];
    let first = run(&dir, &args);
    assert_eq!((first.code, first.stdout.as_str()), (0, ""), "{}", first.stderr);
    let whole = fs::read_to_string(&path).unwrap();
    Stream::read(&whole);
    // As after a power failure: half of the last line is missing.
    let torn = &whole[..whole.len() - 20];
    fs::write(&path, torn).unwrap();
    assert_eq!(run(&dir, &args).code, 0);
    let both = fs::read_to_string(&path).unwrap();
    let second = both.strip_prefix(torn).unwrap().strip_prefix('\n').expect("the torn line is closed");
    let (one, two) = (Stream::read(&whole), Stream::read(second));
    assert_ne!(one.start, two.start, "every start is unique");
    assert!(two.slots[0].sweep.slot > one.slots[0].sweep.slot);
}

#[test]
fn empty_output_is_standard_output() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "output = \"\"\n").unwrap();
    let run = run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"]);
    assert_eq!((run.code, Stream::read(&run.stdout).slots.len()), (0, 1), "{}", run.stderr);
}

/// Standard output that is always full.
fn full() -> Stdio {
    Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap())
}

#[test]
fn records_that_a_full_disk_drops_are_counted_with_code_4() {
    let dir = small();
    let run = |args: &[&str], stdout: Stdio| {
        let output = Command::new(SWEEP).current_dir(dir.path()).args(args).stdout(stdout).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"];
    for (args, stdout, name) in
        [(&args[..], full(), "standard output"), (&[&args[..], &["-o", "/dev/full"]].concat(), Stdio::null(), "/dev/full")]
    {
        let (code, log) = run(args, stdout);
        assert_eq!(code, Some(4), "{log}");
        assert!(log.contains("No space left") && log.contains(name), "{log}");
        // One record for each port, and those of the sweep and of the histograms.
        let dropped: u32 = log
            .split_once("error: cannot write all records to ")
            .and_then(|(_, rest)| rest.split_once(": ")?.1.split(' ').next()?.parse().ok())
            .expect("a number");
        assert!(dropped > 20 && log.contains(" records were dropped at the end\n") && log.contains("\nhelp: "), "{log}");
    }
    let (code, log) = run(&["--simulate", "net.p", "--interval", "100ms", "--once"], full());
    assert_eq!(code, Some(1));
    assert!(log.starts_with("error: cannot write to standard output\ncause: No space left") && log.contains("\nhelp: "), "{log}");
}

#[test]
fn closed_standard_output_is_refused_at_the_start() {
    let dir = small();
    for args in ["--sweeps 1 --interval 100ms", "--once"] {
        let command = format!("exec \"$0\" --simulate net.p {args} >&-");
        let output = Command::new("sh").current_dir(dir.path()).args(["-c", &command, SWEEP]).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains("error: ") && log.contains("standard output") && log.contains("\nhelp: "), "{log}");
    }
}

/// As Python's `subprocess.DEVNULL`. Rust's runtime opens a closed descriptor in the same way.
#[test]
fn null_device_for_reading_and_writing_is_refused_with_a_remedy() {
    let dir = small();
    let null = || Stdio::from(fs::File::options().read(true).write(true).open("/dev/null").unwrap());
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"];
    let output = Command::new(SWEEP).current_dir(dir.path()).args(args).stdout(null()).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("/dev/null opened for reading and writing"), "{log}");
    let help = log.split_once("\nhelp: ").expect("a remedy").1;
    assert!(help.contains(">/dev/null") && help.contains("-o FILE"), "{log}");
    let output = Command::new(SWEEP).current_dir(dir.path()).args(args).args(["-o", "lines"]).stdout(null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn closed_pipe_ends_the_sweep_without_an_error() {
    let dir = small();
    let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "20ms"], 1);
    assert!(matches!(record(running.line().trim_end()), Line::Start(_)));
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let complaints: Vec<_> =
        ["error", "panicked", "lost", "dropped", "WARN"].into_iter().filter(|word| run.stderr.contains(word)).collect();
    assert!(complaints.is_empty(), "{}", run.stderr);
}

#[test]
fn signal_closes_the_slot_and_ends_with_code_0() {
    let dir = small();
    for signal in ["INT", "TERM"] {
        let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "100ms"], usize::MAX);
        let mut text = String::new();
        while !text.contains("{\"type\":\"sweep\"") {
            text.push_str(&running.line());
        }
        running.signal(signal);
        let run = running.end();
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("SIG{signal}")) && !run.stderr.contains("dropped"), "{}", run.stderr);
        text.push_str(&run.stdout);
        let stream = Stream::read(&text);
        let last: Vec<_> = text.lines().rev().map(record).find(|line| !matches!(line, Line::Histogram(_))).into_iter().collect();
        assert!(matches!(last[..], [Line::Sweep(_)]), "{last:?}");
        assert_eq!(stream.histograms.iter().filter(|histogram| histogram.guid.is_none()).count(), 3);
        stream.assert_covers(&links(&dir).into_keys().collect());
    }
}

#[test]
fn signal_before_the_first_slot_leaves_only_a_start_record() {
    let dir = small();
    let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "1h"], usize::MAX);
    let start = running.line();
    running.signal("TERM");
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert_eq!(Stream::read(&start).slots.len(), 0);
}

/// Starts a sweep at 100 Hz into a pipe that is not read, and fills the pipe and the queue.
fn stalled(config: &str) -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let (dir, running, unread) = unread(&format!("{config}simulate = \"net.p\"\n[[output]]\ntype = \"stdout\"\nbuffer_mib = 1\n"), &[]);
    running.wait_for_log("dropping records");
    (dir, running, unread)
}

/// Starts a sweep at 100 Hz whose standard output is a pipe that is not read.
fn unread(config: &str, args: &[&str]) -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), config).unwrap();
    let mut command = Command::new(SWEEP);
    command.current_dir(dir.path()).args(["-c", "ibnet.toml", "--interval", "10ms", "--groups", "extended,base,xmtdisc,rcverr"]);
    command.args(args).env("RUST_LOG", "ibnet=debug");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    let stderr = crate::program::lines_of(child.stderr.take().unwrap(), usize::MAX);
    (dir, Running { child, stdout: std::sync::mpsc::channel().1, stderr }, unread)
}

/// Starts 20 sweeps into a pipe that is not read, and waits for their end.
fn ended_into_unread_pipe() -> (tempfile::TempDir, Running, std::process::ChildStdout) {
    let (dir, running, unread) = unread("simulate = \"net.p\"\ndrain = \"10m\"\n", &["--sweeps", "20"]);
    (0..20).for_each(|_| running.wait_for_log("DEBUG slot "));
    // The worker ends after its last slot.
    std::thread::sleep(Duration::from_millis(300));
    (dir, running, unread)
}

/// Asserts that dropped records were reported at the end, and that all complete lines of the pipe
/// are records.
#[track_caller]
fn assert_dropped(run: &Run, mut unread: impl Read) {
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("records were dropped at the end"), "{}", run.stderr);
    let mut text = String::new();
    unread.read_to_string(&mut text).unwrap();
    let complete = text.rfind('\n').expect("a line") + 1;
    assert!(text[..complete].lines().map(record).any(|line| matches!(line, Line::Sweep(_))), "all lines but the last are complete");
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
    // The workers close their slot before the outputs drain.
    std::thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    // Fails after a minute if the drain time of ten minutes goes on.
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
    assert_eq!((run.code, Stream::read(&text).slots.len()), (0, 20), "{}", run.stderr);
}

#[test]
fn second_signal_after_the_last_sweep_ends_the_drain_time() {
    let (_dir, running, unread) = ended_into_unread_pipe();
    running.signal("TERM");
    running.wait_for_log("stopping");
    running.signal("INT");
    // Fails after a minute if the drain time of ten minutes goes on.
    assert_dropped(&running.end(), unread);
}

#[test]
fn slow_reader_gets_all_records_within_the_drain_time() {
    let (_dir, running, mut unread) = stalled("");
    running.signal("TERM");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        unread.read_to_string(&mut text).map(|_| text)
    });
    let run = running.end();
    let text = reader.join().unwrap().unwrap();
    assert!(text.ends_with('\n') && text.lines().map(record).any(|line| matches!(line, Line::Event(event) if event.event == "lines_lost")));
    // Records that did not fit are reported in the stream, unless they were the last ones.
    assert!(run.code == 0 || run.stderr.contains("records were dropped at the end"), "{}", run.stderr);
}

/// Starts sweeps into the file `lines`, and waits for the first MAD of the second slot.
fn in_second_slot() -> (tempfile::TempDir, Running) {
    let dir = small();
    // No device answers: a slot lasts as long as its grace period.
    fs::write(dir.path().join("ibnet.toml"), "simulate = \"net.p\"\ngrace = \"900ms\"\n[simulated]\nloss = 1.0\n").unwrap();
    let args = ["-c", "ibnet.toml", "--interval", "1s", "-o", "lines"];
    let mut command = Command::new(SWEEP);
    let running = Running::spawn(command.current_dir(dir.path()).args(args).env("RUST_LOG", "ibnet=trace"), usize::MAX);
    // The first slot has ended and a MAD was sent: the second slot has begun.
    let mut has_ended = false;
    loop {
        let line = running.stderr.recv_timeout(crate::program::HANGS).expect("a line of the log");
        has_ended |= line.contains(" DEBUG slot ");
        if has_ended && line.contains(" TRACE send ") {
            break;
        }
    }
    (dir, running)
}

#[test]
fn signal_within_a_slot_settles_all_of_its_ports() {
    let (dir, running) = in_second_slot();
    running.signal("TERM");
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let stream = Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap());
    stream.assert_covers(&links(&dir).into_keys().collect());
    assert!(stream.slots.len() >= 2, "the interrupted slot is closed");
}

#[test]
fn second_signal_within_a_slot_is_reported_as_the_cause_of_the_end() {
    let (_dir, running) = in_second_slot();
    // Both at once: the slot is closed after 0.3 s.
    let kill = ["-c", "kill -s TERM \"$0\"; kill -s INT \"$0\"", &running.child.id().to_string()];
    assert!(Command::new("sh").args(kill).status().unwrap().success());
    let run = running.end();
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("error: ended by a second signal before a worker closed its slot"), "{}", run.stderr);
}

#[test]
fn full_log_does_not_disturb_the_sweep() {
    let dir = small();
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "2", "-o", "lines"];
    let status = Command::new(SWEEP).current_dir(dir.path()).args(args).env("RUST_LOG", "trace").stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap()).slots.len(), 2);
}
