//! Faults of files and of standard output.

use std::fs;
use std::process::{Command, Stdio};

use super::sampler::{Received, Sampler, notice, unwritten, wait_for, wait_for_some};

const TWO_FILES: &str = "interval = \"10ms\"
    [[output]]
    type = \"file\"
    path = \"all\"
    [[output]]
    type = \"file\"
    path = \"disk/lines\"";

fn slots(sampler: &Sampler, file: &str) -> usize {
    sampler
        .read_now(file)
        .matches("{\"type\":\"sweep\"")
        .count()
}

/// A small file system, which is unmounted on drop.
pub(super) struct Disk<'a>(&'a Sampler);

impl<'a> Disk<'a> {
    /// Mounts the file system. Returns `None` with a notice if that is not possible.
    pub(super) fn mount(sampler: &'a Sampler) -> Option<Self> {
        fs::create_dir(sampler.path("disk")).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(sampler.path("disk"))
            .stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(sampler));
        }
        assert!(
            std::env::var_os("IBNET_REQUIRE_MOUNT").is_none(),
            "no file system can be mounted"
        );
        notice(
            "SKIPPED: a small file system cannot be mounted (root is required); IBNET_REQUIRE_MOUNT=1 makes this an error",
        );
        None
    }

    /// Makes the file system larger, in one step. The removal of a file would free its space page
    /// by page, and a writer in between would fill each of them.
    pub(super) fn grow(&self) {
        let grown = Command::new("mount")
            .args(["-o", "remount,size=64m"])
            .arg(self.0.path("disk"))
            .status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.0.path("disk"))
            .status();
    }
}

#[test]
fn records_dropped_by_a_full_disk_are_reported_exactly() {
    let sampler = Sampler::new(TWO_FILES);
    let Some(disk) = Disk::mount(&sampler) else {
        return;
    };
    fs::write(sampler.path("disk/filler"), vec![0; 600 << 10]).unwrap();
    let running = sampler.start();
    running.wait_for_log("No space left on device", 1);
    disk.grow();
    running.wait_for_log("the output accepts records again", 1);
    let full = slots(&sampler, "disk/lines");
    wait_for("records on it", || slots(&sampler, "disk/lines") > full + 3);
    let run = running.stop("TERM");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (all, received) = (
        Received::of(&sampler.read("all")),
        Received::of_any(&sampler.read("disk/lines")),
    );
    assert!(
        received.lost > 0 && received.torn <= 1 && all.lost == 0,
        "{} lost, {} torn",
        received.lost,
        received.torn
    );
    assert!(received.lines.is_subset(&all.lines));
    assert_eq!(
        received.lines.len() as u64 + received.lost,
        all.lines.len() as u64
    );
    drop(disk);
}

/// The same without a mount: the path is a symbolic link to a device that is always full, then to a
/// file.
#[test]
fn records_follow_a_symbolic_link_that_changes() {
    let sampler = Sampler::new(&format!("{TWO_FILES}\nbuffer_mib = 1"));
    fs::create_dir(sampler.path("disk")).unwrap();
    std::os::unix::fs::symlink("/dev/full", sampler.path("disk/lines")).unwrap();
    let running = sampler.start();
    // More than the output can hold. So it has dropped some, however slow its thread is.
    wait_for("2 MB of records", || {
        fs::metadata(sampler.path("all")).is_ok_and(|file| file.len() > 2 << 20)
    });
    std::os::unix::fs::symlink("roomy", sampler.path("disk/other")).unwrap();
    fs::rename(sampler.path("disk/other"), sampler.path("disk/lines")).unwrap();
    wait_for("records in the file", || slots(&sampler, "disk/roomy") > 3);
    let run = running.stop("TERM");
    assert!(
        run.code == 0 && run.stderr.contains("cannot write; records are dropped"),
        "{}",
        run.stderr
    );
    let (all, received) = (
        Received::of(&sampler.read("all")),
        Received::of(&sampler.read("disk/roomy")),
    );
    assert!(received.lost > 0 && received.starts.len() == 1);
    assert_eq!(
        received.lines.len() as u64 + received.lost,
        all.lines.len() as u64
    );
}

/// Each file begins with a `start` record, and no record is lost.
#[test]
fn file_renamed_by_another_program_is_replaced() {
    let sampler = Sampler::new(TWO_FILES);
    fs::create_dir(sampler.path("disk")).unwrap();
    let running = sampler.start();
    for name in ["disk/lines.1", "disk/lines.2"] {
        wait_for("slots", || slots(&sampler, "disk/lines") > 3);
        fs::rename(sampler.path("disk/lines"), sampler.path(name)).unwrap();
    }
    wait_for("another file", || slots(&sampler, "disk/lines") > 3);
    let run = running.stop("TERM");
    assert!(
        run.code == 0 && run.stderr.contains("another program moved the file"),
        "{}",
        run.stderr
    );
    let files = ["disk/lines.1", "disk/lines.2", "disk/lines"]
        .map(|name| Received::of(&sampler.read(name)));
    let seqs: Vec<_> = files
        .iter()
        .map(|file| {
            file.starts
                .iter()
                .map(|start| start.file_seq)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(seqs, [[0], [1], [2]]);
    let lines: usize = files.iter().map(|file| file.lines.len()).sum();
    assert_eq!(lines, Received::of(&sampler.read("all")).lines.len());
}

/// Each kill leaves at most one torn line, which the next start ends.
#[test]
fn killed_sampler_leaves_at_most_one_torn_line() {
    let sampler = Sampler::new("interval = \"10ms\"\noutput = \"lines\"");
    const TIMES: usize = 5;
    for time in 0..TIMES {
        let before = slots(&sampler, "lines");
        let running = sampler.start();
        wait_for("slots", || slots(&sampler, "lines") > before + 2 * time);
        running.stop("KILL");
    }
    let running = sampler.start();
    let before = slots(&sampler, "lines");
    wait_for("slots", || slots(&sampler, "lines") > before);
    assert_eq!(running.stop("TERM").code, 0);
    let text = sampler.read("lines");
    let received = Received::of_any(&text);
    assert!(
        received.torn <= TIMES && received.lost == 0 && text.ends_with('\n'),
        "{} torn",
        received.torn
    );
    assert_eq!(received.starts.len(), TIMES + 1);
    assert!(
        (1..=TIMES).all(|at| received.starts[..at]
            .iter()
            .all(|start| *start != received.starts[at])),
        "no two `start` records are equal"
    );
}

/// A signal ends the sampler although standard output and a reader do not accept records. The file
/// has all of them.
#[test]
fn stop_reports_the_records_of_stalled_outputs() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        drain = \"1s\"
        [[output]]
        type = \"file\"
        path = \"all\"
        [[output]]
        type = \"stdout\"
        buffer_mib = 1
        [[output]]
        type = \"unix\"
        path = \"sock\"
        buffer_mib = 1",
    );
    let mut child = sampler
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = sampler.unix("sock");
    // Neither the pipe nor the socket is read.
    let size = || fs::metadata(sampler.path("all")).map_or(0, |file| file.len());
    let begin = size();
    wait_for("3 MB of records", || size() > begin + (3 << 20));
    super::sampler::signal(&child, "TERM");
    let status = wait_for_some("the end", || child.try_wait().unwrap());
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(4), "{stderr}");
    let dropped = |output: &str| unwritten(&stderr, output);
    let (stdout, socket) = (dropped("standard output"), dropped("sock"));
    assert!(stdout > 100 && socket > 100, "{stdout} and {socket}");
    // The error names the output whose records are expected, and not the socket. On a busy machine
    // the file can have no time left either.
    let why = "(last error: its writes did not end within the drain time)";
    let (names, all) = match dropped("all") {
        0 => (format!("standard output {why}"), stdout),
        more => (format!("all {why}, standard output {why}"), stdout + more),
    };
    assert!(
        stderr.contains(&format!(
            "error: cannot write all records to {names}: {all} records were dropped at the end\n"
        )),
        "{stderr}"
    );
    let all = Received::of(&sampler.read("all"));
    assert_eq!(all.lost, 0);
    drop(reader);
}

/// After the last sweep a server that is down has the drain time, although a file is an output too.
#[cfg(feature = "nats")]
#[test]
fn unreachable_server_delays_the_normal_end_by_the_drain_time_only() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        drain = \"300ms\"
        [[output]]
        type = \"file\"
        path = \"all\"
        [[output]]
        type = \"nats\"
        server = \"nats://127.0.0.1:1\"",
    );
    let mut child = sampler
        .command()
        .args(["--sweeps", "3"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = wait_for_some("the end", || child.try_wait().unwrap());
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("records were dropped at the end"),
        "{stderr}"
    );
    let all = Received::of(&sampler.read("all"));
    assert_eq!((slots(&sampler, "all"), all.lost), (3, 0));
}

/// After the last sweep a reader that does not read has the drain time, and standard output has no
/// deadline.
#[test]
fn silent_reader_delays_the_normal_end_by_the_drain_time_only() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        drain = \"300ms\"
        [[output]]
        type = \"stdout\"
        [[output]]
        type = \"unix\"
        path = \"sock\"",
    );
    let mut child = sampler
        .command()
        .args(["--sweeps", "200"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = sampler.unix("sock");
    let stderr = std::thread::spawn({
        let stderr = child.stderr.take().unwrap();
        || std::io::read_to_string(stderr).unwrap()
    });
    // The file of the socket is removed at the end of its output.
    wait_for("the end of the socket", || !sampler.path("sock").exists());
    // A process that did not wait would end within a second. It is no error if the machine is
    // slower.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(
        child.try_wait().unwrap(),
        None,
        "standard output is not read yet"
    );
    let all = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    let status = wait_for_some("the end", || child.try_wait().unwrap());
    let stderr = stderr.join().unwrap();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("the output did not accept all records")
            && stderr.contains("output=\"sock\""),
        "{stderr}"
    );
    assert_eq!(all.matches("{\"type\":\"sweep\"").count(), 200);
    drop(reader);
}

/// A reader that disconnects causes no dropped records: only connected readers count.
#[test]
fn stop_without_readers_is_complete() {
    let sampler = Sampler::new("interval = \"10ms\"\n[[output]]\ntype = \"unix\"\npath = \"sock\"");
    let running = sampler.start();
    drop(super::sampler::read_lines(
        sampler.unix("sock"),
        "\"sweep\"",
        1,
    ));
    let run = running.stop("TERM");
    assert!(
        run.code == 0 && !run.stderr.contains("did not accept all records"),
        "{}",
        run.stderr
    );
}

#[test]
fn standard_output_closed_at_the_start_is_an_error() {
    let sampler = Sampler::new("interval = \"10ms\"");
    let command = sampler.command();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" \"$@\" >&-"])
        .arg(command.get_program())
        .args(command.get_args());
    let output = shell
        .current_dir(sampler.path(""))
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("cannot write to standard output: it is closed") && text.contains("\nhelp: "),
        "{text}"
    );
}

/// The error names the process that writes to the file.
#[test]
fn second_writer_of_a_file_is_refused() {
    let sampler = Sampler::new("interval = \"10ms\"\noutput = \"lines\"");
    let running = sampler.start();
    wait_for("slots", || slots(&sampler, "lines") > 1);
    fs::hard_link(sampler.path("lines"), sampler.path("linked")).unwrap();
    for path in ["lines", "./lines", "linked"] {
        let output = sampler
            .command()
            .args(["-o", path, "--sweeps", "1"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let expected = format!(
            "error: cannot write to {path}: the process {} writes to the file\n",
            running.id()
        );
        assert!(
            text.contains(&expected) && text.contains("help: stop the other writer"),
            "{text}"
        );
    }
    assert_eq!(running.stop("TERM").code, 0);
    assert_eq!(Received::of(&sampler.read("lines")).starts.len(), 1);
    // The end of the first writer is the end of its lock.
    assert_eq!(
        sampler
            .command()
            .args(["--sweeps", "1"])
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
}

#[test]
fn two_outputs_of_one_process_cannot_write_to_one_file() {
    let sampler = Sampler::new(
        "[[output]]
        type = \"file\"
        path = \"lines\"
        [[output]]
        type = \"file\"
        path = \"./lines\"",
    );
    let output = sampler.command().args(["--sweeps", "1"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("cannot write to ./lines: another output of this process writes to the file"),
        "{text}"
    );
}

#[test]
fn output_onto_a_secret_or_the_configuration_is_refused() {
    let sampler =
        Sampler::new("[metrics]\nlisten = \"127.0.0.1:0\"\npassword_file = \"passwords\"");
    fs::write(sampler.path("passwords"), "secret\n").unwrap();
    for (path, name) in [
        ("passwords", "password file of the metrics"),
        ("ibnet.toml", "configuration"),
        ("net.p", "net file"),
    ] {
        let before = sampler.read(path);
        fs::hard_link(sampler.path(path), sampler.path("linked")).unwrap();
        for output in [path, "linked"] {
            let output = sampler
                .command()
                .args(["-o", output, "--sweeps", "1"])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(
                text.contains("cannot append records to") && text.contains(name),
                "{text}"
            );
        }
        assert_eq!(sampler.read(path), before);
        fs::remove_file(sampler.path("linked")).unwrap();
    }
}

/// Records in a FIFO that no process reads are not written, although the kernel accepted them.
#[test]
fn records_left_in_a_fifo_are_reported_at_the_end() {
    let sampler = Sampler::new("interval = \"10ms\"\noutput = \"fifo\"");
    let made = Command::new("mkfifo")
        .arg(sampler.path("fifo"))
        .status()
        .unwrap();
    assert!(made.success());
    let output = sampler.command().args(["--sweeps", "1"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    let error = "error: cannot write all records to fifo (last error: no process reads the FIFO): ";
    assert!(
        text.contains(error) && text.contains("records were dropped at the end"),
        "{text}"
    );
    // A reader that reads later receives all records.
    let mut child = sampler
        .command()
        .args(["--sweeps", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = fs::File::open(sampler.path("fifo")).unwrap();
    // The reader begins when the sampler only waits for it: it has written, and the thread of the
    // sweep has ended.
    let tasks = format!("/proc/{}/task", child.id());
    let is_sweep = |task: fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "mads-0\n")
    };
    let sweeps = || {
        fs::read_dir(&tasks)
            .unwrap()
            .any(|task| is_sweep(task.unwrap()))
    };
    wait_for("the end of the sweep", || {
        rustix::io::ioctl_fionread(&reader).unwrap() > 0 && !sweeps()
    });
    assert_eq!(child.try_wait().unwrap(), None, "the FIFO is not read yet");
    let received = Received::of(&std::io::read_to_string(reader).unwrap());
    let status = wait_for_some("the end", || child.try_wait().unwrap());
    assert_eq!((status.code(), received.slots.len()), (Some(0), 1));
}
