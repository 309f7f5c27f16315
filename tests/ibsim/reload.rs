//! A reload on ibsim: two drivers of one process share an HCA port. The new driver verifies its
//! devices while the old one sweeps.

use std::fs;
use std::process::Stdio;

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line, Port};

use crate::fabric::{Ibsim, Running, available, lines, wait_for};
use crate::{GEN, SWEEP, discover};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 1,
    trunk: 1,
    radix: 8,
};

#[test]
fn reload_takes_a_new_plan_on_the_same_hca_port() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), "node00006", preload);
    discover(&ibsim, "node00001");
    let plan = |samplers: &str| {
        let made = ibsim.run(
            "node00001",
            GEN,
            ["--net", "net.p", "--samplers", samplers, "-o", "plan.toml"],
        );
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    };
    plan("node00001,node00004");
    let mut command = ibsim.command("node00001", SWEEP);
    command
        .args([
            "--assignments",
            "plan.toml",
            "--sampler",
            "node00001",
            "--interval",
            "200ms",
        ])
        .stderr(Stdio::null());
    let mut running = Running::start(command.stdout(Stdio::piped()));
    let output = lines(running.0.stdout.take().expect("piped"));
    wait_for(&output, "\"sweep\"", "ibnet-sweep");
    for samplers in ["node00001", "node00001,node00004", "node00001"] {
        plan(samplers);
        running.signal("HUP");
        assert!(wait_for(&output, "\"reload\"", "ibnet-sweep").contains("taken: "));
        wait_for(&output, "\"sweep\"", "ibnet-sweep");
    }
    wait_for(&output, "\"sweep\"", "ibnet-sweep");
    fs::write(
        ibsim.path("plan.toml"),
        "version = 1\ncap = 1\n[[sampler]]\n",
    )
    .expect("written");
    running.signal("HUP");
    assert!(
        wait_for(&output, "\"reload\"", "ibnet-sweep")
            .contains("refused, nothing has changed: cannot read plan.toml:")
    );
    wait_for(&output, "\"sweep\"", "ibnet-sweep");
    running.stop();
    let rest: Vec<Line> = output
        .into_iter()
        .map(|text| strict::parse(&text).unwrap_or_else(|error| panic!("{error} in {text}")))
        .collect();
    let ports: Vec<&Port> = rest
        .iter()
        .filter_map(|line| {
            if let Line::Port(port) = line {
                Some(&**port)
            } else {
                None
            }
        })
        .collect();
    assert!(
        ports
            .iter()
            .all(|port| port.status != "send_error" && port.status != "wrong_device"),
        "{ports:?}"
    );
}
