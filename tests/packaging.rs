//! What is installed: the units are good, as safe as the documents say, and hold what the programs' messages promise.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNIT: &str = include_str!("../packaging/ibnet-sweep.service");
const INSTANCES: &str = include_str!("../packaging/ibnet-sweep@.service");
const RULE: &str = include_str!("../packaging/60-ibnet-umad.rules");

/// `None`, aloud, where systemd's tool is not installed.
fn analyze(args: &[&str]) -> Option<Output> {
    let run = Command::new("systemd-analyze").args(args).env("SYSTEMD_COLORS", "0").output();
    if run.is_err() {
        // Not by the macro: the test runner would keep that to itself.
        let _ = std::io::stderr().write_all(b"SKIPPED: systemd-analyze is not installed; nothing looks at the units\n");
    }
    run.ok()
}

/// `make install` into a directory.
#[track_caller]
fn install(root: &Path) {
    let programs = Path::new(env!("CARGO_BIN_EXE_ibnet-sweep")).parent().unwrap();
    let variables = [format!("DESTDIR={}", root.display()), format!("PROGRAMS={}", programs.display())];
    let made = Command::new("make").current_dir(env!("CARGO_MANIFEST_DIR")).arg("install").args(variables).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// What it puts into an empty one.
fn installed() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    install(root.path());
    root
}

#[test]
fn what_is_installed_is_a_tree_that_works() {
    let root = installed();
    let config = root.path().join("etc/ibnet/ibnet.toml");
    let printed = Command::new(root.path().join("usr/bin/ibnet-sweep")).arg("-c").arg(&config).arg("--print-config").output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.status.success() && text.contains("output = \"/var/log/ibnet/lines.jsonl\""), "{text}");
    // The configuration that is there is the administrator's.
    fs::write(&config, "# mine\n").unwrap();
    install(root.path());
    assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\n");
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    let root = installed();
    // What ExecReload= runs.
    let kill = root.path().join("bin/kill");
    fs::create_dir_all(kill.parent().unwrap()).unwrap();
    fs::copy(root.path().join("usr/bin/ibnet-gen"), &kill).unwrap();
    let within = format!("--root={}", root.path().display());
    let verify = |unit: &str| analyze(&["verify", "--man=no", "--recursive-errors=no", &within, unit]);
    for unit in ["ibnet-sweep.service", "ibnet-sweep@fabric.service"] {
        let Some(told) = verify(unit) else { return };
        let said = [told.stdout, told.stderr].concat();
        assert!(told.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
    // It would say so.
    let unit = root.path().join("usr/lib/systemd/system/ibnet-sweep.service");
    fs::write(&unit, UNIT.replace("WatchdogSec=30s", "WatchdogSec=often")).unwrap();
    let said = verify("ibnet-sweep.service").unwrap().stderr;
    assert!(String::from_utf8_lossy(&said).contains("often"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_units_are_as_safe_as_the_documents_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for name in ["ibnet-sweep.service", "ibnet-sweep@.service"] {
        let unit = folder.join("packaging").join(name).display().to_string();
        let Some(told) = analyze(&["security", "--offline=true", "--no-pager", &unit]) else { return };
        let text = String::from_utf8(told.stdout).unwrap();
        let score: f64 = text
            .split("Overall exposure level for ")
            .nth(1)
            .unwrap()
            .split(": ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        // Each version of systemd weighs somewhat differently.
        assert!(score <= 1.6, "{text}");
        for document in ["docs/operations.md", "SECURITY.md"] {
            assert!(fs::read_to_string(folder.join(document)).unwrap().contains("1.4"), "{document}");
        }
    }
}

#[test]
fn the_unit_of_instances_is_the_other_one_with_a_name() {
    let named = |line: &str| line.replace("/%i.toml", "/ibnet.toml").replace("/%i", "").replace(" (%i)", "");
    // But for what the first line says.
    let (one, many) = (UNIT.lines().skip(1), INSTANCES.lines().skip(1).map(named));
    assert_eq!(one.collect::<Vec<_>>(), many.collect::<Vec<_>>());
}

#[test]
fn the_rule_is_the_one_that_messages_name_and_gives_no_more_than_it_must() {
    let rule = RULE.lines().find(|line| !line.starts_with('#')).unwrap();
    let escaped = rule.replace('"', "\\\"");
    for source in ["src/mad/transport/umad/ports.rs", "src/bin/ibnet-sweep/check.rs"] {
        assert!(fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap().contains(&escaped), "{source}");
    }
    assert!(!rule.contains("issm") && rule.contains("MODE=\"0660\""));
    for line in ["CapabilityBoundingSet=\n", "NoNewPrivileges=yes\n", "DevicePolicy=closed\n", "Type=notify\n", "User=ibnet\n"] {
        assert!(UNIT.contains(line), "{line}");
    }
    assert!(!UNIT.lines().any(|line| line.starts_with("DeviceAllow=") && !line.contains("/umad")));
}
