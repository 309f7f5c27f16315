//! Paths of the readers: where `make tools` puts them, or where they are installed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ibnet::topology::synthetic::FatTree;

pub(crate) const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

/// Time after which a hanging test fails. It is not a limit of speed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
pub(crate) const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// A directory with a small fabric in `net.p`.
pub(crate) fn small() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    dir
}

/// Returns the path of Prometheus; `None` with a notice if it is not installed.
pub(crate) fn prometheus() -> Option<PathBuf> {
    find("prometheus", "prometheus")
}

/// Returns the path of the node_exporter; `None` with a notice if it is not installed.
pub(crate) fn node_exporter() -> Option<PathBuf> {
    find("prometheus-node-exporter", "prometheus-node-exporter")
}

/// Returns the path of promtool; `None` with a notice if it is not installed.
pub(crate) fn promtool() -> Option<PathBuf> {
    find("promtool", "promtool")
}

/// Returns the path of a Python with DuckDB and ClickHouse; `None` with a notice if it is not
/// installed.
pub(crate) fn python() -> Option<PathBuf> {
    find("python/bin/python3", "")
}

/// Returns the path of jq; `None` with a notice if it is not installed.
pub(crate) fn jq() -> Option<PathBuf> {
    find("jq", "jq")
}

/// Finds a tool by name in `PATH`, or in `out/tools`.
fn find(ours: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|_| !name.is_empty());
    let installed = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("out/tools")
        .join(ours);
    let found = installed.or_else(|| ours.is_file().then_some(ours.clone()));
    if found.is_none() {
        assert!(
            std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(),
            "{} is missing: run `make deps tools`",
            ours.display()
        );
        // The test runner would capture the output of `eprintln!`.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is missing; `make deps tools` fetches it",
            ours.display()
        );
    }
    found
}

/// Returns the path of a program of another package of this workspace; `None` with a notice if it
/// was not built.
pub(crate) fn built(path: PathBuf) -> Option<PathBuf> {
    let found = path.is_file().then_some(path);
    if found.is_none() {
        assert!(
            std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(),
            "build the whole workspace: `cargo build --workspace`"
        );
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: ibnet-view is missing; `cargo build --workspace` builds it"
        );
    }
    found
}
