//! A real Slurm without accounting: `ibnet-view` finds its jobs by `squeue`.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::tools::{self, SWEEP};

#[test]
fn jobs_of_a_real_slurm_are_found_by_squeue() {
    let Some(view) = tools::built(Path::new(SWEEP).with_file_name("ibnet-view")) else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/squeue");
    let output = Command::new(script)
        .arg(view.parent().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    if let Some(skipped) = text.lines().find(|line| line.starts_with("SKIPPED")) {
        // The test runner would capture the output of `eprintln!`.
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    }
    assert!(text.contains("jobs found by squeue"), "{text}");
}
