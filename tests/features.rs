//! Builds with fewer features: a missing feature causes an error with a remedy.
#![cfg(not(all(feature = "umad", feature = "nats")))]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::process::Command;

use ibnet::topology::synthetic::FatTree;

/// Runs a sweep of a small fabric; returns the exit code and standard error.
fn sweep(config: &str, args: &[&str]) -> (Option<i32>, String) {
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), tree.blueprint().ports_report()).unwrap();
    fs::write(dir.path().join("ibnet.toml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    let output = command
        .current_dir(dir.path())
        .args(["-c", "ibnet.toml"])
        .args(args)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[cfg(not(feature = "umad"))]
#[test]
fn build_without_umad_sweeps_simulated_fabrics_only() {
    let (code, log) = sweep("", &["--net", "net.p"]);
    assert!(
        code == Some(1)
            && log.contains("built without InfiniBand")
            && log.contains("--simulate FILE"),
        "{log}"
    );
    let (code, log) = sweep(
        "",
        &[
            "--simulate",
            "net.p",
            "--sweeps",
            "1",
            "--interval",
            "100ms",
        ],
    );
    assert_eq!(code, Some(0), "{log}");
}

#[cfg(not(feature = "nats"))]
#[test]
fn build_without_nats_names_the_build_that_has_it() {
    let (code, log) = sweep(
        "\n[[output]]\ntype = \"nats\"\n",
        &["--simulate", "net.p", "--sweeps", "1"],
    );
    assert!(
        code == Some(1) && log.contains("ibnet.toml:3: cannot use an output of type \"nats\""),
        "{log}"
    );
    assert!(log.contains("make build-full"), "{log}");
    let (code, log) = sweep(
        "\nassignments = \"nats://127.0.0.1\"\n",
        &["--simulate", "net.p", "--sweeps", "1"],
    );
    assert!(
        code == Some(1)
            && log.contains(
                "ibnet.toml:2: cannot use assignments: this ibnet-sweep was built without NATS"
            ),
        "{log}"
    );
}
