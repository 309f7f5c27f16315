//! The readers, where `make test` puts them or where they are installed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ibnet::topology::synthetic::FatTree;

pub(crate) const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

/// A guard against a program that hangs, not a measure of how fast it is.
pub(crate) const HANGS: Duration = Duration::from_secs(120);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
pub(crate) const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

/// A directory with a small fabric in `net.p`.
pub(crate) fn small() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    dir
}

/// Prometheus; `None`, aloud, where it is not there and nobody insists.
pub(crate) fn prometheus() -> Option<PathBuf> {
    find("prometheus", "prometheus")
}

/// A Python with DuckDB and ClickHouse in it; `None` likewise.
pub(crate) fn python() -> Option<PathBuf> {
    find("python/bin/python3", "")
}

/// jq; `None` likewise.
pub(crate) fn jq() -> Option<PathBuf> {
    find("jq", "jq")
}

/// A tool in `out/tools`, or by this name on the path.
fn find(ours: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|_| !name.is_empty());
    let installed = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("out/tools").join(ours);
    let found = installed.or_else(|| ours.is_file().then_some(ours.clone()));
    if found.is_none() {
        assert!(std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(), "{} is not there: run `make deps tools`", ours.display());
        // Not by the macro: the test runner would keep that to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not there; `make deps tools` fetches it", ours.display());
    }
    found
}
