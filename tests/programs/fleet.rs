//! One plan for several samplers on one machine: from a shared folder, and copied to each of them.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, PortNum};
use tempfile::TempDir;

use crate::HANGS;

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

const SAMPLERS: [&str; 2] = ["node00001", "node00004"];

/// Samplers that run, each with the plan at its path.
struct Fleet {
    dir: TempDir,
    children: Vec<Child>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The programs have ended already unless the test failed.
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Makes a plan for these samplers as `made.toml`.
fn make(dir: &Path, samplers: &str) {
    let args = ["--net", "net.p", "--samplers", samplers, "-o", "made.toml"];
    assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir)
        .args(args)
        .assert()
        .success();
}

/// Runs a command of the documentation in a folder.
#[track_caller]
fn shell(dir: &Path, command: &str, path: &str) {
    let run = Command::new("sh")
        .current_dir(dir)
        .args(["-euc", command])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

impl Fleet {
    /// Starts the samplers with a plan. `plan` returns the path of the plan of a
    /// sampler.
    fn start(plan: impl Fn(&str) -> String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        make(dir.path(), &SAMPLERS.join(","));
        let start = |sampler: &str| {
            let plan = dir.path().join(plan(sampler));
            fs::create_dir_all(plan.parent().unwrap()).unwrap();
            fs::copy(dir.path().join("made.toml"), &plan).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
            let plan = plan.display().to_string();
            let args = [
                "--simulate",
                "net.p",
                "--assignments",
                &plan,
                "--sampler",
                sampler,
                "--interval",
                "200ms",
            ];
            let log = fs::File::create(dir.path().join(format!("{sampler}.log"))).unwrap();
            let command = command
                .current_dir(dir.path())
                .args(args)
                .arg("-o")
                .arg(format!("{sampler}.jsonl"));
            command.stderr(log).stdin(Stdio::null()).spawn().unwrap()
        };
        let children = SAMPLERS.iter().map(|sampler| start(sampler)).collect();
        Self { children, dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    fn lines(&self, sampler: &str) -> Vec<Line> {
        let text = fs::read_to_string(self.dir.path().join(format!("{sampler}.jsonl")))
            .unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}")))
            .collect()
    }

    /// Waits until both samplers have swept after their newest `start` record, and together have
    /// each port of the fabric exactly once. Returns the hash of the plan.
    #[track_caller]
    fn wait_for_one_plan(&self, previous: Option<&str>) -> String {
        let start = Instant::now();
        while start.elapsed() < HANGS {
            if let Some(plan) = self
                .common_plan()
                .filter(|plan| Some(plan.as_str()) != previous)
            {
                return plan;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let logs = SAMPLERS.map(|sampler| {
            fs::read_to_string(self.dir.path().join(format!("{sampler}.log"))).unwrap()
        });
        panic!("the samplers have no common plan; the logs: {logs:?}");
    }

    fn common_plan(&self) -> Option<String> {
        let (mut plans, mut samplers_of) = (Vec::new(), BTreeMap::<(Guid, PortNum), usize>::new());
        for sampler in &SAMPLERS {
            let lines = self.lines(sampler);
            let start = lines
                .iter()
                .rposition(|line| matches!(line, Line::Start(_)))?;
            let Line::Start(record) = &lines[start] else {
                return None;
            };
            plans.push(record.assignments_sha256.clone()?);
            let end = lines
                .iter()
                .rposition(|line| matches!(line, Line::Sweep(_)))
                .filter(|end| *end > start)?;
            let Line::Sweep(last) = &lines[end] else {
                return None;
            };
            for line in &lines[start..end] {
                if let Line::Port(port) = line
                    && port.slot == last.slot
                {
                    *samplers_of.entry((port.guid, port.port)).or_default() += 1;
                }
            }
        }
        let is_complete =
            samplers_of.len() == 20 && samplers_of.values().all(|samplers| *samplers == 1);
        (is_complete && plans[0] == plans[1]).then(|| plans.remove(0))
    }

    fn stop(mut self) {
        for child in &mut self.children {
            // The process was not reaped yet, so its number is not reused.
            let kill = Command::new("sh")
                .args(["-c", "kill -s TERM \"$0\"", &child.id().to_string()])
                .status()
                .unwrap();
            assert!(kill.success());
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap()
}

#[test]
fn samplers_take_a_new_plan_from_a_shared_folder() {
    let fleet = Fleet::start(|_| "shared/plan.toml".to_owned());
    let first = fleet.wait_for_one_plan(None);
    // The same ports in a file with another hash.
    fs::write(
        fleet.path().join("made.toml"),
        fs::read_to_string(fleet.path().join("made.toml")).unwrap() + "# new\n",
    )
    .unwrap();
    shell(
        &fleet.path(),
        "cp made.toml shared/.plan.toml.new && mv shared/.plan.toml.new shared/plan.toml",
        &path(),
    );
    let second = fleet.wait_for_one_plan(Some(&first));
    assert_ne!(first, second);
    fleet.stop();
}

#[test]
fn samplers_take_a_new_plan_that_is_copied_to_each_of_them() {
    let fleet = Fleet::start(|sampler| format!("{sampler}/plan.toml"));
    let first = fleet.wait_for_one_plan(None);
    // A stand-in for `clush`: the folder of a sampler takes the place of its host.
    let clush = "#!/bin/sh\nset -eu\nfor host in node00001 node00004; do\n  if [ \"$3\" = --copy ]; then cp \"$4\" \"$host/$6\"; else (cd \"$host\" && sh -c \"$3\"); fi\ndone\n";
    fs::create_dir(fleet.path().join("bin")).unwrap();
    fs::write(fleet.path().join("bin/clush"), clush).unwrap();
    shell(&fleet.path(), "chmod +x bin/clush", &path());
    fs::write(
        fleet.path().join("made.toml"),
        fs::read_to_string(fleet.path().join("made.toml")).unwrap() + "# new\n",
    )
    .unwrap();
    let path = format!("{}:{}", fleet.path().join("bin").display(), path());
    shell(
        &fleet.path(),
        "clush -w @samplers --copy made.toml --dest .plan.toml.new && clush -w @samplers 'mv .plan.toml.new plan.toml'",
        &path,
    );
    let second = fleet.wait_for_one_plan(Some(&first));
    assert_ne!(first, second);
    fleet.stop();
}
