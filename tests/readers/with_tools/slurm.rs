//! A real Slurm: `ibnet-view` finds its jobs by `squeue`, and slurmctld reads the topology of
//! `ibnet-gen`.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::tools::{self, SWEEP};

/// Runs a script of `tests/slurm` and asserts that its output has this text, unless the script
/// skipped its test.
fn passes(script: &str, programs: &Path, expected: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm");
    let output = Command::new(folder.join(script))
        .arg(programs)
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
    assert!(text.contains(expected), "{text}");
}

#[test]
fn jobs_of_a_real_slurm_are_found_by_squeue() {
    if let Some(view) = tools::built(Path::new(SWEEP).with_file_name("ibnet-view")) {
        passes("squeue", view.parent().unwrap(), "jobs found by squeue");
    }
}

#[test]
fn topology_is_read_by_a_real_slurmctld() {
    passes(
        "topology",
        Path::new(SWEEP).parent().unwrap(),
        "read the tree",
    );
}
