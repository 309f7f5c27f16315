//! Two opensm: the master is killed, and the standby takes over.

use std::fs;
use std::process::{Child, Stdio};

use ibnet::record::strict::{self, Line};
use ibnet::topology::synthetic::FatTree;

use crate::fabric::{Ibsim, available, lines, wait_for};
use crate::{SWEEP, discover};

const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 1, trunk: 1, radix: 8 };
/// Host that sends; it is swept too.
const SENDER: &str = "node00001";
/// Hosts of the two subnet managers. They are not swept: ibsim forwards requests that it does not
/// support to opensm, which then crashes.
const MANAGERS: [&str; 2] = ["node00005", "node00006"];

/// A running program, which is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts opensm and waits until it has answered SMInfo in this state.
fn start(ibsim: &Ibsim, host: &str, priority: u8, state: &str, lid: u16) -> Running {
    // The standby asks the master once a second, and takes over after two queries without a reply.
    let text = format!("sm_priority {priority}\nsminfo_polling_timeout 1000\npolling_retry_number 2\n");
    let config = ibsim.path(&format!("{host}.conf"));
    fs::write(&config, text).expect("written");
    let folder = ibsim.path(host);
    fs::create_dir(&folder).expect("a folder");
    let mut opensm = ibsim.command(host, "opensm");
    opensm.env("OSM_CACHE_DIR", &folder).arg("-F").arg(&config).arg("-f").arg(folder.join("log"));
    let running = Running(opensm.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("opensm starts"));
    let answers = |_| {
        let output = ibsim.run(SENDER, "sminfo", [lid.to_string()]);
        String::from_utf8_lossy(&output.stdout).contains(state) || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            false
        }
    };
    assert!((0..150).any(answers), "opensm on {host} is not {state}");
    running
}

#[test]
fn failover_is_an_event_with_the_old_and_the_new_master() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), MANAGERS[0], preload);
    let net = discover(&ibsim, SENDER);
    let of = |name: &str| net.fabric.devices().iter().find(|device| device.host() == name).expect("in the fabric");
    let [(old, old_lid), (new, new_lid)] = MANAGERS.map(|name| (of(name).guid.to_string(), of(name).lid.0));
    let text = fs::read_to_string(ibsim.path("net.p")).expect("written by the discovery");
    let is_swept = |line: &&str| {
        let guid = line.split_whitespace().nth(3);
        !line.starts_with("CA") || guid != Some(&old) && guid != Some(&new)
    };
    let swept: Vec<&str> = text.lines().filter(is_swept).collect();
    fs::write(ibsim.path("swept.p"), swept.join("\n") + "\n").expect("written");
    let master = start(&ibsim, MANAGERS[0], 14, "SMINFO_MASTER", old_lid);
    let _standby = start(&ibsim, MANAGERS[1], 3, "SMINFO_STANDBY", new_lid);

    fs::write(ibsim.path("ibnet.toml"), "net = \"swept.p\"\ninterval = \"500ms\"\nidentity = \"2s\"\n").expect("written");
    let mut command = ibsim.command(SENDER, SWEEP);
    command.args(["-c", "ibnet.toml"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut sweep = Running(command.spawn().expect("the program starts"));
    let output = lines(sweep.0.stdout.take().expect("piped"));
    let event = |what: &str| {
        let line = wait_for(&output, what, "ibnet-sweep");
        let Line::Event(event) = strict::parse(&line).unwrap_or_else(|error| panic!("{error} in {line}")) else { panic!("{line}") };
        (event.guid.expect("a device").to_string(), event.lid.expect("a device").0, event.detail.clone())
    };
    assert_eq!(event("\"sm\""), (old.clone(), old_lid, "master, priority 14".to_owned()));
    drop(master);
    let silence = event("\"sm\"");
    assert_eq!(silence, (old.clone(), old_lid, "master, priority 14; it does not answer any more".to_owned()));
    assert_eq!(event("\"sm\""), (new.clone(), new_lid, "master, priority 3".to_owned()));
    let detail = format!("the master was {old} at LID {old_lid}, and is {new} at LID {new_lid}");
    assert_eq!(event("\"sm_change\""), (new.clone(), new_lid, detail));
}
