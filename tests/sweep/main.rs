//! The real `ibnet-sweep` on a simulated fabric, run as an administrator runs it.
//!
//! These tests hold on a busy machine: none of them relies on which replies are late, or on which
//! slots are missed.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test that hangs ends after ten minutes, and some know the next slot"
)]

use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use ibnet::topology::net_file;
use ibnet::topology::synthetic::FatTree;
use tempfile::TempDir;

use self::stream::Key;

mod contents;
mod ends;
mod program;
mod refusals;
mod samplers;
mod stream;

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// Returns a directory with a small fabric in `net.p`.
fn small() -> TempDir {
    with_net(TREE.blueprint().ports_report().as_bytes())
}

fn with_net(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), bytes).unwrap();
    dir
}

/// Returns every linked port of the net file with its peer.
fn links(dir: &TempDir) -> BTreeMap<Key, Key> {
    let fabric = net_file::read(&dir.path().join("net.p")).unwrap().fabric;
    let ends = |device: &ibnet::topology::Device| {
        device
            .linked()
            .map(|(port, peer)| ((device.guid, port.num), (peer.guid, peer.port)))
            .collect::<Vec<_>>()
    };
    fabric.devices().iter().flat_map(ends).collect()
}

/// Returns an interval whose next slot begins in 15 minutes or later: longer than any test.
fn distant() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let minutes = (31..=60)
        .max_by_key(|minutes| minutes * 60 - now % (minutes * 60))
        .unwrap();
    format!("{minutes}m")
}
