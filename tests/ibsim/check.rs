//! `ibnet-sweep check` on ibsim: the HCA port, its subnet, dead devices and devices with another
//! identity.

use std::fs;

use ibnet::topology::synthetic::FatTree;

use crate::fabric::{Ibsim, available};
use crate::{SWEEP, discover};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 1,
    trunk: 1,
    radix: 8,
};

fn check(ibsim: &Ibsim, args: &[&str]) -> (Option<i32>, String) {
    let done = ibsim.run("node00001", SWEEP, ["check"].iter().chain(args));
    (
        done.status.code(),
        String::from_utf8_lossy(&done.stdout).into_owned(),
    )
}

#[test]
fn check_verifies_the_hca_and_one_reply_of_each_device() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), "node00006", preload);
    let net = discover(&ibsim, "node00001");
    let (code, text) = check(&ibsim, &["--net", "net.p"]);
    assert_eq!(code, Some(0), "{text}");
    for expected in [
        "ok    link layer     I",
        "ok    port state     active, LID ",
        "ok    permissions    ",
        "ok    subnet         prefix 0xfe80000000000000, subnet manager at LID ",
        "ok    P_Key          0xffff, full member, at index 0",
        "ok    devices        9 of 9 answer NodeInfo and performance management",
        "\n0 failed, 0 warned, ",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in {text}");
    }
    let (code, text) = check(
        &ibsim,
        &["--net", "net.p", "--pkey", "0x8001", "--ca", "nosuch"],
    );
    assert!(
        code == Some(1)
            && text.contains(
                "fail  HCA            cannot use HCA port nosuch: this host does not have it"
            ),
        "{text}"
    );
    let (code, text) = check(&ibsim, &["--net", "net.p", "--pkey", "0x8001"]);
    assert!(
        code == Some(1)
            && text.contains("fail  P_Key          ")
            && text.contains("skip  devices        9 are not queried"),
        "{text}"
    );

    // One host is gone, and the plan has the LID of another host for node00002.
    ibsim.type_line("Unlink \"H-node00005\"");
    let of = |name: &str| {
        net.fabric
            .devices()
            .iter()
            .find(|device| device.host() == name)
            .expect("in the fabric")
    };
    let [wrong, there] = ["node00002", "node00003"].map(of);
    let plan = |lid: u16| {
        let device = |guid, lid, name: &str| {
            format!(
                "[[sampler.device]]\nguid = \"{guid}\"\nlid = {lid}\nkind = \"hca\"\nname = \"{name}\"\n[[sampler.device.port]]\nnum = 1\nwidth = \"4x\"\nspeed = \"SDR\"\n"
            )
        };
        let gone = of("node00005");
        let devices = [
            device(wrong.guid, lid, "node00002"),
            device(gone.guid, gone.lid.0, "node00005"),
        ]
        .concat();
        format!(
            "version = 1\ncap = 150\n[[sampler]]\nhost = \"node00001\"\nport_count = 2\n{devices}"
        )
    };
    fs::write(ibsim.path("stale.toml"), plan(there.lid.0)).expect("written");
    let (code, text) = check(
        &ibsim,
        &["--assignments", "stale.toml", "--sampler", "node00001"],
    );
    assert_eq!(code, Some(1), "{text}");
    let answers = format!(
        "{}): another device answers at this LID: {} `node00003",
        wrong.guid, there.guid
    );
    assert!(
        text.contains(&answers) && text.contains("the assignments are older than the fabric"),
        "{text}"
    );
    assert!(
        text.contains("fail  device         node00005 (LID ") && text.contains(": does not answer"),
        "{text}"
    );
    assert!(text.contains("fail  devices        0 of 2"), "{text}");
}
