//! The installed files: the units are valid and have the restrictions of the documentation.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../packaging/ibnet-sweep.service");
const INSTANCES: &str = include_str!("../../packaging/ibnet-sweep@.service");
const ALERTS: &str = include_str!("../../packaging/prometheus/ibnet.rules.yml");
const CONDITIONS: &str = include_str!("../../hub/src/alerts/conditions.rs");
const RUNBOOK: &str = include_str!("../../docs/runbook.md");
const RULE: &str = include_str!("../../packaging/60-ibnet-umad.rules");

/// Runs `systemd-analyze`. Prints SKIPPED and returns `None` where it is not installed.
fn analyze(args: &[&str]) -> Option<Output> {
    let run = Command::new("systemd-analyze")
        .args(args)
        .env("SYSTEMD_COLORS", "0")
        .output();
    if run.is_err() {
        // The test runner would capture the output of `eprintln!`.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: systemd-analyze is not installed; the units are not checked\n");
    }
    run.ok()
}

/// Runs `make install` into a directory.
#[track_caller]
fn install(root: &Path) {
    let programs = Path::new(env!("CARGO_BIN_EXE_ibnet-sweep"))
        .parent()
        .unwrap();
    let variables = [
        format!("DESTDIR={}", root.display()),
        format!("PROGRAMS={}", programs.display()),
    ];
    let made = Command::new("make")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("install")
        .args(variables)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

/// Runs `make install` into an empty directory, and returns it.
fn installed() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    install(root.path());
    root
}

/// A user without sudo, on a Debian system where no package is installed.
#[test]
fn missing_packages_and_the_compiler_are_named_in_one_message_with_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in [
        ("dpkg-query", "exit 1"),
        ("apt-get", "exit 1"),
        ("id", "echo 1000"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["sort", "paste"] {
        symlink(format!("/usr/bin/{name}"), folder.path().join(name)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/deps");
    let refused = |packages: &[&str]| {
        let run = Command::new(&script)
            .args(packages)
            .env("PATH", folder.path())
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8(run.stderr).unwrap()
    };
    let message = |debian: &str, rhel: &str| {
        format!(
            "deps: cannot install missing packages: this user is not root, and sudo needs a password or is not installed\n    \
             Debian, Ubuntu:  sudo apt-get install {debian}\n    RHEL, Rocky:     sudo dnf install {rhel}\n"
        )
    };
    assert_eq!(refused(&[]), message("gcc libc6-dev", "gcc glibc-devel"));
    assert_eq!(
        refused(&["libibumad-dev", "opensm"]),
        message(
            "gcc libc6-dev libibumad-dev opensm",
            "gcc glibc-devel opensm rdma-core-devel"
        )
    );
    // With a compiler, and without packages, nothing is missing.
    fs::copy(folder.path().join("id"), folder.path().join("cc")).unwrap();
    assert_eq!(
        refused(&["libibumad-dev"]),
        message("libibumad-dev", "rdma-core-devel")
    );
    let run = Command::new(&script)
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert!(run.status.success() && run.stderr.is_empty());
}

#[test]
fn installed_program_runs_with_the_installed_configuration() {
    let root = installed();
    let config = root.path().join("etc/ibnet/ibnet.toml");
    let printed = Command::new(root.path().join("usr/bin/ibnet-sweep"))
        .arg("-c")
        .arg(&config)
        .arg("--print-config")
        .output()
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(
        printed.status.success() && text.contains("path = \"/var/log/ibnet/lines.jsonl\""),
        "{text}"
    );
    // Other users cannot read the configuration. `scripts/installed` sets its group.
    assert_eq!(
        fs::metadata(&config).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    // An existing configuration is not replaced.
    fs::write(&config, "# mine\n").unwrap();
    install(root.path());
    assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\n");
}

#[test]
fn units_are_valid() {
    let root = installed();
    // The program of ExecReload=.
    let kill = root.path().join("bin/kill");
    fs::create_dir_all(kill.parent().unwrap()).unwrap();
    fs::copy(root.path().join("usr/bin/ibnet-gen"), &kill).unwrap();
    let within = format!("--root={}", root.path().display());
    let verify =
        |unit: &str| analyze(&["verify", "--man=no", "--recursive-errors=no", &within, unit]);
    for unit in ["ibnet-sweep.service", "ibnet-sweep@fabric.service"] {
        let Some(output) = verify(unit) else { return };
        let text = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success() && text.is_empty(),
            "{}",
            String::from_utf8_lossy(&text)
        );
    }
    // The check detects a wrong line.
    let unit = root
        .path()
        .join("usr/lib/systemd/system/ibnet-sweep.service");
    fs::write(&unit, UNIT.replace("WatchdogSec=30s", "WatchdogSec=often")).unwrap();
    let text = verify("ibnet-sweep.service").unwrap().stderr;
    assert!(
        String::from_utf8_lossy(&text).contains("often"),
        "{}",
        String::from_utf8_lossy(&text)
    );
}

#[test]
fn units_have_the_exposure_level_of_the_documentation() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for name in [
        "ibnet-sweep.service",
        "ibnet-sweep@.service",
        "ibnet-hub.service",
    ] {
        let unit = folder.join("packaging").join(name).display().to_string();
        let Some(output) = analyze(&["security", "--offline=true", "--no-pager", &unit]) else {
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
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
        // The weights differ a little between versions of systemd.
        assert!(score <= 1.6, "{text}");
        for document in ["docs/operations.md", "SECURITY.md"] {
            assert!(
                fs::read_to_string(folder.join(document))
                    .unwrap()
                    .contains("1.4"),
                "{document}"
            );
        }
    }
}

#[test]
fn template_unit_equals_the_service_unit_except_for_the_name() {
    let named = |line: &str| {
        line.replace("/%i.toml", "/ibnet.toml")
            .replace("/%i", "")
            .replace(" (%i)", "")
    };
    // The first lines are comments that differ.
    let (one, many) = (UNIT.lines().skip(1), INSTANCES.lines().skip(1).map(named));
    assert_eq!(one.collect::<Vec<_>>(), many.collect::<Vec<_>>());
}

#[test]
fn udev_rule_equals_the_rule_of_the_messages_and_covers_umad_devices_only() {
    let rule = RULE.lines().find(|line| !line.starts_with('#')).unwrap();
    let escaped = rule.replace('"', "\\\"");
    for source in [
        "src/mad/transport/umad/ports.rs",
        "src/bin/ibnet-sweep/check/hca.rs",
    ] {
        assert!(
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
                .unwrap()
                .contains(&escaped),
            "{source}"
        );
    }
    assert!(!rule.contains("issm") && rule.contains("MODE=\"0660\""));
    for line in [
        "TimeoutStopSec=10s\n",
        "CapabilityBoundingSet=\n",
        "NoNewPrivileges=yes\n",
        "DevicePolicy=closed\n",
        "Type=notify\n",
        "User=ibnet\n",
        "LimitCORE=0\n",
    ] {
        assert!(UNIT.contains(line), "{line}");
    }
    // Linux gives umad0 to umad63 the numbers 231:0 to 231:63, and issm* the numbers behind them.
    let devices: Vec<_> = UNIT
        .lines()
        .filter_map(|line| line.strip_prefix("DeviceAllow="))
        .collect();
    assert_eq!(
        devices,
        (0..8)
            .map(|minor| format!("/dev/char/231:{minor} rw"))
            .collect::<Vec<_>>()
    );
}

/// Runs the script of `ibnet-topology.service` in a folder. The fabric that it discovers is simulated.
fn topology(folder: &Path, discover: &str) -> Output {
    let here = folder.display();
    let conf = format!(
        "SAMPLERS_FILE={here}/samplers\nPLAN={here}/plan.toml\nNET={here}/state/fabric.p\nDISCOVER=\"{discover}\"\n"
    );
    let conf = conf + &format!("DISTRIBUTE=\"cp {here}/plan.toml {here}/distributed\"\n");
    fs::write(folder.join("topology.conf"), conf).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_ibnet-gen")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/ibnet-topology");
    Command::new(script)
        .arg(folder.join("topology.conf"))
        .env("PATH", path)
        .output()
        .unwrap()
}

#[test]
fn topology_timer_replaces_the_plan_only_by_a_valid_and_different_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    let net =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stria.p")).unwrap();
    assert!(
        include_str!("../../packaging/ibnet-topology")
            .contains("\nDISCOVER=\"ibnet-gen discover\"\n")
    );
    let discover = format!("ibnet-gen discover --simulate {}", at("net").display());
    fs::write(at("net"), &net).unwrap();

    // Without samplers there is no plan.
    assert!(!topology(folder.path(), &discover).status.success());
    fs::write(
        at("samplers"),
        "node[00001,00025,00049,00073,00097,00121,00145,00169]\n",
    )
    .unwrap();
    let first = topology(folder.path(), &discover);
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    let plan = read("plan.toml");
    assert_eq!(read("distributed"), plan);

    // The same fabric: nothing changes.
    fs::remove_file(at("distributed")).unwrap();
    assert!(
        String::from_utf8_lossy(&topology(folder.path(), &discover).stdout)
            .contains("the plan has not changed")
    );
    assert_eq!(read("plan.toml"), plan);
    assert!(!at("distributed").exists());

    // A discovery that fails, that finds nothing, or that finds no sampler changes nothing.
    for wrong in ["false", "true", "echo broken"] {
        let output = topology(folder.path(), wrong);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("the plan stays as it is"),
            "{wrong}: {text}"
        );
        assert_eq!(read("plan.toml"), plan);
    }

    // A host without its link: the plan changes, and the journal names the lost device and its
    // cable.
    let fewer: String = net
        .lines()
        .filter(|line| !line.contains("node00002 "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(fewer, net);
    fs::write(at("net"), &fewer).unwrap();
    let output = topology(folder.path(), &discover);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for change in ["lost device 0x", "lost cable "] {
        let named = |line: &str| {
            line.starts_with(&format!("ibnet-topology: {change}")) && line.contains("`node00002 ")
        };
        assert_eq!(
            text.lines().filter(|line| named(line)).count(),
            1,
            "{change}: {text}"
        );
    }
    assert_ne!(read("plan.toml"), plan);
    assert_eq!(read("distributed"), read("plan.toml"));
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".topology")),
        "{left:?}"
    );
}

/// Returns the rest of each line of a text that starts with `prefix`.
fn rests<'a>(text: &'a str, prefix: &'a str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(prefix))
        .collect()
}

#[test]
fn every_alert_has_a_complete_section_of_the_runbook_and_its_address() {
    let alerts = rests(ALERTS, "- alert: ");
    assert!(alerts.len() > 20, "{alerts:?}");
    let addresses: Vec<_> = alerts
        .iter()
        .map(|alert| {
            format!(
                "'file:///usr/share/doc/ibnet/docs/runbook.md#{}'",
                alert.to_lowercase()
            )
        })
        .collect();
    assert_eq!(rests(ALERTS, "runbook_url: "), addresses);
    let sections: Vec<(&str, &str)> = RUNBOOK
        .split("\n### ")
        .skip(1)
        .map(|section| {
            section
                .split("\n## ")
                .next()
                .unwrap()
                .split_once('\n')
                .unwrap()
        })
        .collect();
    // Conditions that only the hub knows have a section too.
    let of_hub = CONDITIONS
        .split('"')
        .filter(|text| text.starts_with("Infiniband") || text.starts_with("Ibnet"));
    let of_page: BTreeSet<_> = sections.iter().map(|(title, _)| *title).collect();
    assert_eq!(of_page.len(), sections.len(), "a section occurs twice");
    let of_rules: BTreeSet<_> = alerts.into_iter().chain(of_hub).collect();
    assert_eq!(of_page, of_rules, "sections of the runbook, and alerts");
    for (title, text) in sections {
        for part in ["Means", "First", "Act", "Ignore"] {
            assert_eq!(
                text.matches(&format!("\n- **{part}:** ")).count(),
                1,
                "{title} has no part {part}, or several"
            );
        }
    }
}

#[test]
fn runbook_names_every_error_counter() {
    for counter in ibnet_record::ERROR_COUNTERS {
        assert!(RUNBOOK.contains(&format!("`{counter}`")), "{counter}");
    }
}

/// A repository with `scripts/release`, in which packages and images are short texts.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        let script = |name: &str, text: &str| {
            fs::write(repository.0.path().join(name), text).unwrap();
            fs::set_permissions(
                repository.0.path().join(name),
                fs::Permissions::from_mode(0o755),
            )
            .unwrap();
        };
        fs::create_dir(repository.0.path().join("scripts")).unwrap();
        script("scripts/release", include_str!("../../scripts/release"));
        script("scripts/unchanged", include_str!("../../scripts/unchanged"));
        script(
            "scripts/packages",
            "#!/bin/sh\nmkdir -p out/packages && echo deb >out/packages/a.deb && echo rpm >out/packages/a.rpm\n",
        );
        script(
            "scripts/test-image",
            "#!/bin/sh\necho image >\"$IMAGES/a.oci.tar\"\n",
        );
        for (name, text) in [
            (".gitignore", "/out\n"),
            ("CHANGELOG.md", "text\n"),
            ("Cargo.toml", "version = \"1.2.3\"\nversion = \"4\"\n"),
        ] {
            fs::write(repository.0.path().join(name), text).unwrap();
        }
        let git =
            "git init -q && git add . && git -c user.name=n -c user.email=e commit -q -m text";
        assert!(
            Command::new("sh")
                .args(["-c", git])
                .current_dir(repository.0.path())
                .status()
                .unwrap()
                .success()
        );
        repository
    }

    /// Makes a release. Returns the exit code, and all output.
    fn release(&self, variables: &[(&str, &str)]) -> (i32, String) {
        let mut command = Command::new("./scripts/release");
        command
            .current_dir(self.0.path())
            .arg("target/debug")
            .env_remove("UNSIGNED")
            .env_remove("SIGN_KEY");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        )
    }

    fn shell(&self, text: &str) -> bool {
        Command::new("sh")
            .args(["-c", text])
            .current_dir(self.0.path())
            .status()
            .unwrap()
            .success()
    }
}

#[test]
fn release_needs_a_clean_tree_and_a_key_or_unsigned_yes() {
    let repository = Repository::new();
    let (code, text) = repository.release(&[]);
    assert!(
        code == 1 && text.contains("cannot sign: SIGN_KEY is not set"),
        "{text}"
    );
    let (code, text) = repository.release(&[
        ("SIGN_KEY", "nobody@ibnet.example"),
        ("GNUPGHOME", "/nonexistent"),
    ]);
    assert!(
        code == 1 && text.contains("found SIGN_KEY=nobody@ibnet.example"),
        "{text}"
    );
    fs::write(repository.0.path().join("new.rs"), "").unwrap();
    let (code, text) = repository.release(&[("UNSIGNED", "yes")]);
    assert!(
        code == 1 && text.contains("a tree with changes (found ?? new.rs)"),
        "{text}"
    );
    assert!(
        !repository.0.path().join("out").exists(),
        "nothing was built"
    );
}

#[test]
fn release_has_packages_images_and_checksums() {
    let repository = Repository::new();
    let (code, text) = repository.release(&[("UNSIGNED", "yes")]);
    assert!(code == 0 && text.contains("NOT SIGNED"), "{text}");
    assert!(
        repository
            .shell("cd out/release/ibnet-1.2.3 && sha256sum --quiet -c SHA256SUMS && [ \"$(cat COMMIT)\" = \"$(git rev-parse HEAD)\" ]")
    );
    let mut names: Vec<_> = fs::read_dir(repository.0.path().join("out/release/ibnet-1.2.3"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "CHANGELOG.md",
            "COMMIT",
            "SHA256SUMS",
            "a.deb",
            "a.oci.tar",
            "a.rpm"
        ]
    );
    let sums = fs::read_to_string(
        repository
            .0
            .path()
            .join("out/release/ibnet-1.2.3/SHA256SUMS"),
    )
    .unwrap();
    assert_eq!(sums.lines().count(), 5, "{sums}");
}

#[test]
fn signature_of_a_release_is_that_of_the_key() {
    let repository = Repository::new();
    // The socket of the agent has a short path.
    let keys = tempfile::Builder::new()
        .prefix("k")
        .tempdir_in("/tmp")
        .unwrap();
    let home = [("GNUPGHOME", keys.path().to_str().unwrap())];
    fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let gpg = |args: &[&str]| {
        Command::new("gpg")
            .envs(home)
            .args(["--batch", "--quiet"])
            .args(args)
            .output()
    };
    let Ok(made) = gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "release@ibnet.example",
        "ed25519",
        "sign",
    ]) else {
        let _ = std::io::stderr().write_all(
            b"SKIPPED: gpg is not installed; the signature of a release is not checked\n",
        );
        return;
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let (code, text) = repository.release(&[home[0], ("SIGN_KEY", "release@ibnet.example")]);
    assert!(code == 0 && !text.contains("NOT SIGNED"), "{text}");
    let folder = repository.0.path().join("out/release/ibnet-1.2.3");
    let [signature, sums] =
        ["SHA256SUMS.asc", "SHA256SUMS"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    let is_valid = || {
        gpg(&["--verify", &signature, &sums])
            .unwrap()
            .status
            .success()
    };
    assert!(is_valid());
    fs::write(&sums, "other").unwrap();
    assert!(!is_valid());
    let _ = Command::new("gpgconf")
        .envs(home)
        .args(["--kill", "gpg-agent"])
        .status();
}
