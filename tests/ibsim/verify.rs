//! `ibnet-sweep verify` with ibnetdiscover and perfquery.
//!
//! ibsim cannot serve libibmad and ibnet in one process. So libibmad only decodes here. The tests
//! with a kernel (`make test-kernel`) compare the queries of libibmad.

use std::fs;

use ibnet::topology::synthetic::FatTree;

use super::fabric::{Ibsim, available};
use super::{SWEEP, discover};

#[test]
fn verify_finds_no_difference_on_ibsim() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let mut ibsim = Ibsim::start(&tree.blueprint(), "node00006", preload);
    discover(&ibsim, "node00001");
    ibsim.type_line("PerformanceSet \"S-leaf01\"[1] PortCounters.VL15Dropped=513");
    ibsim.settle();
    let done = ibsim.run(
        "node00001",
        SWEEP,
        ["verify", "--net", "net.p", "--report", "verify.json"],
    );
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(
        done.status.code(),
        Some(0),
        "{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    for line in [
        "ok    HCA  ",
        "ok    device  ",
        "values of",
        "ok    service time  ",
        "ok    ibnetdiscover  ",
        "ok    perfquery  ",
    ] {
        assert!(text.contains(line), "{line} is not in: {text}");
    }
    assert!(
        text.ends_with(" MADs sent\n") && text.contains("\nequal: 0 differences, "),
        "{text}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(ibsim.path("verify.json")).expect("written"))
            .expect("the report is JSON");
    assert_eq!(
        (&report["reference"], &report["differences"]),
        (
            &"a second client of ibnet, decoded by libibmad".into(),
            &0.into()
        )
    );
    let devices = report["devices"].as_array().expect("a list");
    let results = |device: &serde_json::Value| -> Vec<(String, String)> {
        let attributes = device["attributes"].as_array().expect("a list").iter();
        attributes
            .map(|a| {
                (
                    a["name"].as_str().unwrap_or_default().to_owned(),
                    a["result"].as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect()
    };
    for device in devices {
        for name in [
            "NodeInfo",
            "PortInfo",
            "ClassPortInfo",
            "extended",
            "base",
            "rcverr",
        ] {
            assert!(
                results(device).contains(&(name.to_owned(), "equal".to_owned())),
                "{name} in {device}"
            );
        }
    }
    let compared: u64 = report["programs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|program| program["compared"].as_u64())
        .sum();
    assert!(
        devices.len() >= 2 && compared > 20,
        "{} devices, {compared} values of other programs",
        devices.len()
    );
    let json = report.to_string();
    assert!(!json.contains("leaf0") && !json.contains("node0"), "{json}");
}
