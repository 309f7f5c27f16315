//! Runs the tests of `scripts/overhead`, which are written in Python like the script.

use std::process::Command;

#[test]
fn statistics_of_the_overhead_script_are_right() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/overhead.py");
    let done = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(tests)
        .output()
        .expect("python3 is installed");
    let report = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && report.contains("\nOK"), "{report}");
}
