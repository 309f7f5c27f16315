//! Another program clears the counters of a port during a sweep, as fabric managers do.

use std::process::Stdio;

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Event, Line, Port};

use crate::fabric::{Ibsim, Running, available, lines, wait_for};
use crate::{GEN, PATIENT, SWEEP, discover, is_answered};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 1,
    trunk: 1,
    radix: 8,
};
/// Host whose counters are cleared. No MAD of another host passes through its port.
const CLEARED: &str = "node00005";

fn port(text: &str) -> Port {
    let Ok(Line::Port(port)) = strict::parse(text) else {
        panic!("{text}")
    };
    *port
}

#[test]
fn clearing_costs_the_rates_of_one_record_and_is_an_event() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), "node00006", preload);
    let net = discover(&ibsim, "node00001");
    let device = net
        .fabric
        .devices()
        .iter()
        .find(|device| device.host() == CLEARED)
        .expect("in the fabric");
    let (guid, lid) = (device.guid, device.lid.0.to_string());
    for counter in [
        "PortCounters.SymbolErrorCounter=7",
        "PortCountersExtended.PortXmitData=1000000000",
    ] {
        ibsim.type_line(&format!("PerformanceSet \"H-{CLEARED}\"[1] {counter}"));
    }
    assert_eq!(
        ibsim
            .settle()
            .iter()
            .filter(|line| line.contains("has been set to"))
            .count(),
        2
    );
    let made = ibsim.run(
        "node00001",
        GEN,
        [
            "--net",
            "net.p",
            "--samplers",
            "node00001",
            "-o",
            "plan.toml",
        ],
    );
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut command = ibsim.command("node00001", SWEEP);
    // Every group in every slot: the event names the counters of all groups at once.
    command
        .args([
            "--assignments",
            "plan.toml",
            "--sampler",
            "node00001",
            "--groups",
            "extended,base",
        ])
        .args(PATIENT)
        .stderr(Stdio::null());
    let mut running = Running::start(command.stdout(Stdio::piped()));
    let output = lines(running.0.stdout.take().expect("piped"));
    let of_port = format!("\"guid\":\"{guid}\"");
    let next = |what: &str| loop {
        let line = wait_for(&output, &of_port, "ibnet-sweep");
        if line.contains(what) {
            return line;
        }
    };
    let is_known = |port: &Port| port.xmit_gbps.is_some() && port.rcv_gbps.is_some();
    let before = std::iter::repeat_with(|| port(&next("\"type\":\"port\"")))
        .find(is_known)
        .expect("rates in the second slot");
    assert_eq!(before.counter("symbol_error_counter"), Some(7));

    for options in [&["-R"][..], &["-x", "-R"]] {
        let cleared = ibsim.run(
            "node00003",
            "perfquery",
            options.iter().copied().chain([lid.as_str(), "1"]),
        );
        assert!(
            cleared.status.success(),
            "{}",
            String::from_utf8_lossy(&cleared.stderr)
        );
    }
    // The event of a port follows its record. Both commands can fall into one slot or into two.
    let (mut after, mut named) = (before, String::new());
    while !(named.contains("symbol_error_counter") && named.contains("port_xmit_data_bytes")) {
        let line = next("\"type\":");
        match strict::parse(&line) {
            Ok(Line::Port(port)) => after = *port,
            Ok(Line::Event(Event {
                event,
                slot,
                detail,
                ..
            })) if event == "reset" => {
                assert_eq!(
                    (
                        slot,
                        after.xmit_gbps,
                        after.xmit_utilization,
                        after.xmit_blocked
                    ),
                    (after.slot, None, None, None)
                );
                named += &format!("{detail} ");
            }
            _ => {}
        }
    }
    assert_eq!(after.counter("symbol_error_counter"), Some(0));
    // A rate needs the answers of two slots in a row. Without a load, these are the next two.
    let mut later = port(&next("\"type\":\"port\""));
    while !(is_answered(&&after) && is_answered(&&later) && later.slot == after.slot + 1) {
        after = std::mem::replace(&mut later, port(&next("\"type\":\"port\"")));
    }
    assert!(is_known(&later), "{later:?}");
    running.stop();
}
