//! The cables of the records, compared with a plan.

use super::*;
use crate::query::cabling::{self, LastComparison};

/// The cables of [`LINKS`] as a list from port to port.
fn plan() -> String {
    let line = |((guid, port), (peer, peer_port)): &((u64, u8), (u64, u8))| {
        let host = |guid: u64| node(guid).split(' ').next().unwrap_or_default().to_owned();
        format!("{},{port},{},{peer_port}\n", host(*guid), host(*peer))
    };
    let lines: String = LINKS.iter().map(line).collect();
    format!("StartDevice,StartPort,EndDevice,EndPort\n{lines}")
}

#[test]
fn exchanged_cables_are_found_when_the_devices_report_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.csv");
    fs::write(&path, plan()).expect("written");
    let peer = |(guid, port): (u64, u8), (other, number): (u64, u8)| {
        let detail = format!(
            "the peer is {} port {number} (x); the plan has {} port 1 (y)",
            Guid(other),
            Guid(0x101)
        );
        let event = json!({"type": "event", "ts": (START + 190) * SECOND, "slot": START + 190, "sampler": "s1",
            "ca": "sim", "ca_port": 1, "role": "primary", "event": "peer_changed",
            "guid": Guid(guid), "port": port, "lid": guid, "detail": detail});
        event.to_string() + "\n"
    };
    let ask = |more: &str| {
        let hub =
            hub(&[lines().join("\n") + "\n", more.to_owned()]).with_cabling(Some(path.clone()));
        // Time passes, so the topology has all ports.
        let mut now = Clock::start().now();
        now.monotonic = Duration::from_secs(10);
        hub.tick(now);
        let last = LastComparison::default();
        let found = cabling::find(&hub, &last).expect("found");
        let again = cabling::find(&hub, &last).expect("found");
        assert!(Arc::ptr_eq(&found, &again));
        serde_json::to_value(&*found).expect("JSON")
    };
    let right = ask("");
    let counts = ["planned", "right", "not_found", "remarks"].map(|name| right[name].clone());
    assert_eq!(counts, [json!(6), json!(6), json!(0), json!(0)], "{right}");
    assert_eq!(
        (&right["rows"], &right["reason"]),
        (&json!([]), &Json::Null)
    );

    // The cables of the two hosts of the first leaf switch are exchanged.
    let swapped = ask(&(peer((1, 1), (0x102, 1)) + &peer((1, 2), (0x101, 1))));
    assert_eq!(swapped["right"], json!(4));
    let rows = swapped["rows"].as_array().expect("findings");
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, [json!("swapped"), json!("swapped")], "{swapped}");
    let ports: Vec<_> = rows
        .iter()
        .map(|row| row["found"][0]["port"].clone())
        .collect();
    assert!(
        ports.contains(&json!(1)) || ports.contains(&json!(2)),
        "{swapped}"
    );

    let without = cabling::find(&hub(&[]), &LastComparison::default()).expect("found");
    let without = serde_json::to_value(&*without).expect("JSON");
    assert!(
        without["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("key cabling"))
    );
}
