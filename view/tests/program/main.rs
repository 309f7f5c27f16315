//! The program `ibnet-view` as a whole. These tests are one test program, because each test program
//! links the whole library.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod congestion;
mod earlier;
mod health;
mod heatmap;
mod hosts;
mod jobs;
mod latency;
mod pack;
mod results;
mod routing;

use std::path::Path;
use std::time::Duration;

/// Time after which a hanging program is stopped. It is not a limit of speed.
const HANGS: Duration = Duration::from_secs(600);

/// What a command has printed.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs a command in a folder.
fn run(folder: impl AsRef<Path>, args: &[&str]) -> Run {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-view"));
    let output = command
        .current_dir(folder)
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
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

/// Runs a command on the file `lines.jsonl` of a folder; returns its exit code, its output and its
/// messages.
fn on_lines(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut all = args.to_vec();
    all.insert(1, "lines.jsonl");
    let Run {
        code,
        stdout,
        stderr,
    } = run(folder, &all);
    (code, stdout, stderr)
}
