//! Two opensm: the master is killed, and the standby takes over.

use std::fs;
use std::process::Stdio;

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line};

use crate::fabric::{Ibsim, Running, available, lines, wait_for, wait_until};
use crate::{SWEEP, discover};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 1,
    trunk: 1,
    radix: 8,
};
/// Host that sends; it is swept too.
const SENDER: &str = "node00001";
/// Hosts of the two subnet managers. They are not swept: ibsim forwards requests that it does not
/// support to opensm, which then crashes.
const MANAGERS: [&str; 2] = ["node00005", "node00006"];

/// Starts opensm and waits until it has answered SMInfo in this state.
fn start(ibsim: &Ibsim, host: &str, priority: u8, state: &str, lid: u16) -> Running {
    // The standby asks the master once a second, and takes over after four queries without a reply.
    // On a busy machine the master may not reply to each of them in time.
    let text =
        format!("sm_priority {priority}\nsminfo_polling_timeout 1000\npolling_retry_number 4\n");
    let config = ibsim.path(&format!("{host}.conf"));
    fs::write(&config, text).expect("written");
    let folder = ibsim.path(host);
    fs::create_dir(&folder).expect("a folder");
    let mut opensm = ibsim.command(host, "opensm");
    opensm
        .env("OSM_CACHE_DIR", &folder)
        .arg("-F")
        .arg(&config)
        .arg("-f")
        .arg(folder.join("log"));
    let running = Running::start(opensm.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until(&format!("{state} of opensm on {host}"), || {
        let output = ibsim.run(SENDER, "sminfo", [lid.to_string()]);
        String::from_utf8_lossy(&output.stdout).contains(state)
    });
    running
}

#[test]
fn failover_is_an_event_with_the_old_and_the_new_master() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), MANAGERS[0], preload);
    let net = discover(&ibsim, SENDER);
    let of = |name: &str| {
        net.fabric
            .devices()
            .iter()
            .find(|device| device.host() == name)
            .expect("in the fabric")
    };
    let [(old, old_lid), (new, new_lid)] =
        MANAGERS.map(|name| (of(name).guid.to_string(), of(name).lid.0));
    let text = fs::read_to_string(ibsim.path("net.p")).expect("written by the discovery");
    let is_swept = |line: &&str| {
        let guid = line.split_whitespace().nth(3);
        !line.starts_with("CA") || guid != Some(&old) && guid != Some(&new)
    };
    let swept: Vec<&str> = text.lines().filter(is_swept).collect();
    fs::write(ibsim.path("swept.p"), swept.join("\n") + "\n").expect("written");
    let master = start(&ibsim, MANAGERS[0], 14, "SMINFO_MASTER", old_lid);
    let _standby = start(&ibsim, MANAGERS[1], 3, "SMINFO_STANDBY", new_lid);

    fs::write(ibsim.path("ibnet.toml"), "net = \"swept.p\"\ninterval = \"1s\"\ntimeout = \"1s\"\ngrace = \"3s\"\nidentity = \"2s\"\n")
        .expect("written");
    let mut command = ibsim.command(SENDER, SWEEP);
    command
        .args(["-c", "ibnet.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut sweep = Running::start(&mut command);
    let output = lines(sweep.0.stdout.take().expect("piped"));
    let event = || {
        let line = wait_for(&output, "\"event\":\"sm", "ibnet-sweep");
        let Line::Event(event) =
            strict::parse(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
        else {
            panic!("{line}")
        };
        (
            event.event,
            event.guid.expect("a device").to_string(),
            event.lid.expect("a device").0,
            event.detail,
        )
    };
    let sm =
        |guid: &str, lid, detail: &str| ("sm".to_owned(), guid.to_owned(), lid, detail.to_owned());
    assert_eq!(event(), sm(&old, old_lid, "master, priority 14"));
    drop(master);
    let mut events: Vec<(String, String, u16, String)> = Vec::new();
    while events.last().is_none_or(|(event, ..)| event != "sm_change") {
        events.push(event());
    }
    // The order of the first two depends on when PortInfo names the new master.
    assert!(
        events.contains(&sm(
            &old,
            old_lid,
            "master, priority 14; it does not answer any more"
        )),
        "{events:?}"
    );
    assert!(
        events.contains(&sm(&new, new_lid, "master, priority 3")),
        "{events:?}"
    );
    let detail = format!("{new} at LID {new_lid} is the master in place of {old} at LID {old_lid}");
    assert_eq!(
        events.pop(),
        Some(("sm_change".to_owned(), new.clone(), new_lid, detail))
    );
    assert_eq!(events.len(), 2, "{events:?}");
}

/// ibsim hands requests to queue pair 1 only to subnet managers, so the reports of opensm do not
/// reach the sampler here. `tests/simulated/traps.rs` tests them on the simulated fabric.
#[test]
fn opensm_keeps_the_subscription_until_the_stop() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), MANAGERS[0], preload);
    let net = discover(&ibsim, SENDER);
    let manager = net
        .fabric
        .devices()
        .iter()
        .find(|device| device.host() == MANAGERS[0])
        .expect("in the fabric");
    let text = fs::read_to_string(ibsim.path("net.p")).expect("written by the discovery");
    let guid = manager.guid.to_string();
    let swept: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("CA") || line.split_whitespace().nth(3) != Some(&guid))
        .collect();
    fs::write(ibsim.path("swept.p"), swept.join("\n") + "\n").expect("written");
    let _manager = start(&ibsim, MANAGERS[0], 14, "SMINFO_MASTER", manager.lid.0);
    let subscriptions = || {
        let output = ibsim.run("node00002", "saquery", ["IIR"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let traps = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("trap_num"))
            .map(|rest| rest.trim_start_matches('.').to_owned());
        traps.collect::<std::collections::BTreeSet<String>>()
    };
    assert!(subscriptions().is_empty());
    fs::write(
        ibsim.path("ibnet.toml"),
        "net = \"swept.p\"\ninterval = \"500ms\"\ntraps = true\n",
    )
    .expect("written");
    let mut command = ibsim.command(SENDER, SWEEP);
    command
        .args(["-c", "ibnet.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut sweep = Running::start(&mut command);
    let output = lines(sweep.0.stdout.take().expect("piped"));
    let active = format!(
        "the subnet manager at LID {} forwards traps 128 and 144",
        manager.lid
    );
    assert!(
        wait_for(&output, &active, "ibnet-sweep").contains("\"event\":\"traps\""),
        "{active}"
    );
    assert_eq!(subscriptions(), ["128", "144"].map(str::to_owned).into());
    sweep.stop();
    assert!(subscriptions().is_empty(), "the subscription is withdrawn");
}
