//! Identity checks on libibumad and ibsim: a net file with the LIDs of two hosts exchanged, with
//! and without a subnet manager that answers path queries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{Event, Line, Port};
use ibnet_record::types::Guid;

use crate::fabric::{Ibsim, Running, available, wait_until};
use crate::{PATIENT, SWEEP, discover, is_answered, ports, sweep_until};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};
const HOSTS: [&str; 2] = ["node00002", "node00005"];
/// Host that sends; it is swept too.
const SENDER: &str = "node00001";
/// Host of the subnet manager. It is not swept: ibsim forwards requests that it does not support to
/// opensm, which then crashes.
const MANAGER: &str = "node00006";

/// Writes a net file in which the LIDs of two hosts are exchanged and the manager's host is
/// missing. Returns the true LIDs of the two hosts.
fn exchange(ibsim: &Ibsim) -> BTreeMap<Guid, u16> {
    let net = discover(ibsim, SENDER);
    let of = |name: &str| {
        net.fabric
            .devices()
            .iter()
            .find(|device| device.host() == name)
            .expect("in the fabric")
    };
    let truth: BTreeMap<Guid, u16> = HOSTS
        .iter()
        .map(|name| (of(name).guid, of(name).lid.0))
        .collect();
    let [(a, lid_a), (b, lid_b)] =
        [0, 1].map(|n| (of(HOSTS[n]).guid.to_string(), of(HOSTS[n]).lid.0));
    let text = fs::read_to_string(ibsim.path("net.p")).expect("written by the discovery");
    let manager = of(MANAGER).guid.to_string();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("CA") || line.split_whitespace().nth(3) != Some(&manager));
    // Each end of a link is given as type, LID, port and GUID.
    let swapped: Vec<String> = lines
        .map(|line| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            for at in 0..words.len() {
                let lid = if words[at] == a {
                    lid_b
                } else if words[at] == b {
                    lid_a
                } else {
                    continue;
                };
                let place = (0..at)
                    .rev()
                    .filter(|place| !words[*place].is_empty())
                    .nth(1)
                    .expect("the LID is two words before");
                words[place] = lid.to_string();
            }
            words.join(" ")
        })
        .collect();
    fs::write(ibsim.path("wrong.p"), swapped.join("\n") + "\n").expect("written");
    truth
}

/// Gives each of the two hosts a different error counter.
fn mark(ibsim: &mut Ibsim) {
    for (host, errors) in HOSTS.iter().zip([111, 222]) {
        ibsim.type_line(&format!(
            "PerformanceSet \"H-{host}\"[1] PortCounters.PortRcvErrors={errors}"
        ));
    }
    ibsim.settle();
}

/// Sweeps with this way of SMPs until the records satisfy `is_done`.
fn sweep(ibsim: &Ibsim, smp: &str, what: &str, is_done: impl Fn(&[Line]) -> bool) -> Vec<Line> {
    let mut command = ibsim.without_way(SENDER, SWEEP);
    let args = ["--net", "wrong.p", "--smp", smp];
    sweep_until(
        ibsim,
        command.args(args).args(PATIENT),
        "lines.jsonl",
        what,
        is_done,
    )
}

fn of_host<'a>(lines: &'a [Line], host: &'a str) -> impl Iterator<Item = &'a Port> {
    ports(lines).filter(move |port| port.node.split(' ').next() == Some(host))
}

fn events<'a>(lines: &'a [Line], kind: &'a str) -> Vec<&'a Event> {
    lines
        .iter()
        .filter_map(|line| {
            if let Line::Event(event) = line {
                Some(event)
            } else {
                None
            }
        })
        .filter(|event| event.event == kind)
        .collect()
}

#[test]
fn wrong_device_is_reported_and_its_counters_are_withheld() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), MANAGER, preload);
    let truth = exchange(&ibsim);
    mark(&mut ibsim);
    let lines = sweep(
        &ibsim,
        "lid",
        "wrong devices, and the other ones",
        |lines| {
            let is_wrong =
                |host| of_host(lines, host).any(|record| record.status == "wrong_device");
            let hosts: BTreeSet<_> = ports(lines).map(|port| port.guid).collect();
            let right: BTreeSet<_> = ports(lines)
                .filter(|port| is_right(port))
                .map(|port| port.guid)
                .collect();
            events(lines, "wrong_device").len() == 2
                && HOSTS.into_iter().all(is_wrong)
                && right.len() + HOSTS.len() == hosts.len()
        },
    );
    for host in HOSTS {
        for record in of_host(&lines, host) {
            // On a busy machine, a slot can end before the check.
            let is_unanswered = ["timeout", "skipped"].contains(&record.status.as_str());
            assert!(
                record.status == "wrong_device" || is_unanswered,
                "{record:?}"
            );
            assert_eq!(
                (record.identity.as_str(), record.counters.len()),
                ("unverified", 0),
                "{record:?}"
            );
        }
    }
    let found: BTreeMap<_, _> = events(&lines, "wrong_device")
        .iter()
        .map(|event| (event.guid.expect("a device's"), event.detail.clone()))
        .collect();
    assert_eq!(found.len(), 2, "one event for each host");
    for (guid, detail) in found {
        let other = truth.keys().find(|other| **other != guid).expect("two");
        assert!(detail.contains(&other.to_string()), "{detail}");
    }
    let mut others = ports(&lines)
        .filter(|port| !HOSTS.contains(&port.node.split(' ').next().unwrap_or_default()));
    assert!(others.all(|port| port.status != "wrong_device"));
}

/// Returns whether the record is that of a port whose device and link are verified.
fn is_right(port: &Port) -> bool {
    is_answered(&port) && (port.identity.as_str(), port.link_source.as_str()) == ("ok", "live")
}

#[test]
fn path_records_of_the_subnet_manager_give_the_new_lids() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), MANAGER, preload);
    let truth = exchange(&ibsim);
    mark(&mut ibsim);
    let log = ibsim.path("opensm2.log");
    let mut opensm = ibsim.command(MANAGER, "opensm");
    let _manager = Running::start(
        opensm
            .arg("-f")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    // opensm logs its readiness too late, so the test waits for the first answer.
    let lids: Vec<String> = truth.values().map(u16::to_string).collect();
    wait_until("a path record of opensm", || {
        let output = ibsim.run(SENDER, "saquery", ["-p", "--src-to-dst", &lids.join(":")]);
        String::from_utf8_lossy(&output.stdout).contains("dlid")
    });
    let lines = sweep(&ibsim, "lid", "answers at the new LIDs", |lines| {
        HOSTS.into_iter().all(|host| {
            of_host(lines, host).any(|record| is_answered(&record) && record.identity == "ok")
        })
    });
    for (host, errors) in HOSTS.iter().zip([111, 222]) {
        for record in of_host(&lines, host).filter(|record| !record.counters.is_empty()) {
            assert_eq!(
                (record.lid.0, record.identity.as_str()),
                (truth[&record.guid], "ok"),
                "{record:?}"
            );
            // A record of a slot that ended too early may lack the counter.
            let found = record.counter("port_rcv_errors");
            assert!(
                found == Some(errors) || found.is_none() && !is_answered(&record),
                "{host} has its own counters: {record:?}"
            );
        }
    }
    assert_eq!(
        (
            events(&lines, "wrong_device").len(),
            events(&lines, "lid_change").len()
        ),
        (2, 2)
    );
}

#[test]
fn devices_say_their_lids_themselves_by_directed_routes() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), MANAGER, preload);
    let truth = exchange(&ibsim);
    mark(&mut ibsim);
    let lines = sweep(&ibsim, "directed", "all devices at their LIDs", |lines| {
        let guids = |lines: &mut dyn Iterator<Item = &Port>| -> BTreeSet<Guid> {
            lines.map(|port| port.guid).collect()
        };
        let right = guids(&mut ports(lines).filter(|port| is_right(port)));
        !right.is_empty() && right == guids(&mut ports(lines))
    });
    for (host, errors) in HOSTS.iter().zip([111, 222]) {
        let right = of_host(&lines, host).filter(|port| is_right(port)).last();
        let right = right.expect("waited for");
        assert_eq!(right.lid.0, truth[&right.guid]);
        assert_eq!(right.counter("port_rcv_errors"), Some(errors));
    }
    assert_eq!(events(&lines, "lid_change").len(), 2);
}
