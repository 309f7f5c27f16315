//! Runs the programs, and reads what they print.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::stream::Stream;

pub(crate) const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
pub(crate) const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");

/// Time after which a hanging program is stopped. It is not a limit of speed.
pub(crate) const HANGS: Duration = Duration::from_secs(600);

/// Exit code and output of a program.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(dir: &TempDir, args: &[&str]) -> Run {
    run_program(SWEEP, dir.path(), args)
}

pub(crate) fn run_program(program: &str, dir: &Path, args: &[&str]) -> Run {
    let output = assert_cmd::Command::new(program)
        .current_dir(dir)
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs a sweep that must succeed, and returns its records.
#[track_caller]
pub(crate) fn swept(dir: &TempDir, args: &[&str]) -> Stream {
    let run = run(dir, args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    Stream::read(&run.stdout)
}

/// Sweeps until the records so far are `enough`, and returns the records. Looks less often if there
/// are many slots.
///
/// On a busy machine a slot can be without replies. A test that needs replies waits for them here,
/// instead of assuming that they come in a number of slots.
#[track_caller]
pub(crate) fn swept_until(
    dir: &TempDir,
    args: &[&str],
    enough: impl Fn(&Stream) -> bool,
) -> Stream {
    let running = Running::start(dir, args, usize::MAX);
    let mut text = String::new();
    let (mut slots, mut next) = (0, 1);
    loop {
        let line = running.line();
        text.push_str(&line);
        slots += usize::from(line.starts_with("{\"type\":\"sweep\""));
        // Reading all records after each of many slots would take longer than the slots.
        if slots == next {
            if enough(&Stream::read(&text)) {
                break;
            }
            next += 1 + slots / 4;
        }
    }
    running.signal("TERM");
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    Stream::read(&(text + &run.stdout))
}

/// Asserts exit code 1, one error with a remedy, and no record.
#[track_caller]
pub(crate) fn refused(run: &Run, message: &str, help: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert_eq!(
        run.stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .count(),
        1,
        "{}",
        run.stderr
    );
    let (before, after) = run
        .stderr
        .split_once("\nhelp: ")
        .unwrap_or_else(|| panic!("no help in {}", run.stderr));
    assert!(
        before.contains(message),
        "{message:?} is not in {}",
        run.stderr
    );
    assert!(
        after.contains(help),
        "{help:?} is not the help of {}",
        run.stderr
    );
    assert!(!run.stderr.contains("panicked"));
}

/// A program that runs until it is stopped. It is killed on drop.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Receiver<String>,
    pub(crate) stderr: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a sweep. Its standard output is closed after `max_lines`.
    pub(crate) fn start(dir: &TempDir, args: &[&str], max_lines: usize) -> Self {
        let mut command = Command::new(SWEEP);
        command.current_dir(dir.path()).args(args);
        Self::spawn(&mut command, max_lines)
    }

    /// Starts a command. Its standard output is closed after `max_lines`.
    pub(crate) fn spawn(command: &mut Command, max_lines: usize) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = lines_of(child.stdout.take().unwrap(), max_lines);
        let stderr = lines_of(child.stderr.take().unwrap(), usize::MAX);
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Returns the next line of standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(HANGS).expect("a line")
    }

    /// Waits for a line of the log that contains a text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        while !self
            .stderr
            .recv_timeout(HANGS)
            .expect("a line of the log")
            .contains(text)
        {}
    }

    /// Sends a signal. The process was not reaped yet, so its number is not reused.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("sh")
            .args([
                "-c",
                "kill -s \"$0\" \"$1\"",
                name,
                &self.child.id().to_string(),
            ])
            .status()
            .unwrap();
        assert!(kill.success());
    }

    /// Returns the names of the threads of the program.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // A thread may end while its name is read.
        tasks
            .filter_map(|task| {
                Some(
                    fs::read_to_string(task.ok()?.path().join("comm"))
                        .ok()?
                        .trim_end()
                        .to_owned(),
                )
            })
            .collect()
    }

    /// Waits until the program has threads, or none, whose names start with this text.
    #[track_caller]
    pub(crate) fn wait_for_threads(&self, name: &str, is_there: bool) {
        let start = Instant::now();
        while self.threads().iter().any(|thread| thread.starts_with(name)) != is_there {
            assert!(
                start.elapsed() < HANGS,
                "the threads are {:?}",
                self.threads()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; returns the exit code and the output that was not read yet.
    pub(crate) fn end(mut self) -> Run {
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        // Both pipes are closed: the program has ended, or is about to end.
        let code = self
            .child
            .wait()
            .unwrap()
            .code()
            .unwrap_or_else(|| panic!("it was killed by a signal; {stderr}"));
        Run {
            code,
            stdout,
            stderr,
        }
    }
}

/// Returns all lines until the other side closes the pipe.
#[track_caller]
fn rest(lines: &Receiver<String>) -> String {
    let mut all = String::new();
    loop {
        match lines.recv_timeout(HANGS) {
            Ok(line) => all.push_str(&line),
            Err(RecvTimeoutError::Disconnected) => return all,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs after {all}"),
        }
    }
}

/// Reads lines with their line feeds on a thread; closes the pipe after `max` lines.
pub(crate) fn lines_of(pipe: impl Read + Send + 'static, max: usize) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        for _ in 0..max {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}
