//! The page in a real browser. `page/test/browser` has the tests.
//!
//! The records are those of a simulated fabric in virtual time. The tests send them to a hub slot
//! by slot, so that the page has a certain slot until a test sends the next one.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::topology::net_file;
use ibnet::topology::synthetic::FatTree;
use ibnet_hub::config::Raw;

/// Paths of Chromium in Debian and in other distributions.
const BROWSERS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// 48 hosts. All links are up at the end of the records, and the subnet manager has failed over.
const TREE: FatTree = FatTree {
    leaves: 8,
    hosts: 6,
    spines: 4,
    trunk: 1,
    radix: 12,
};
const SLOTS: u64 = 90;

/// Slots of the records of known faults: a link is down from second 20 on, and the subnet manager
/// fails over in second 45.
const SLOTS_OF_FAULTS: u64 = 67;

/// Start of the records in nanoseconds since 1970.
const START_NS: u64 = 1_795_000_000_000_000_000;

/// A host that is neither dead nor a sampler, and gets the hostile name.
const RENAMED: &str = "node00150";
const HOSTILE: &str = "<img src=x onerror=window.attacked=1>";

/// The switch that does not answer. Its hosts do not answer either.
const DEAD: &str = "leaf08";

/// The host whose link is degraded, and the slots before that.
const NARROW: &str = "node00010 mlx5_0";
const DEGRADED_AFTER: u64 = 25;

/// Prints why the test is skipped, so that the test runner does not capture it. With
/// `IBNET_REQUIRE_BROWSER` the test fails instead.
fn skip(reason: &str) {
    assert!(
        std::env::var_os("IBNET_REQUIRE_BROWSER").is_none(),
        "{reason}"
    );
    let _ = std::io::stderr().write_all(format!("SKIPPED: {reason}\n").as_bytes());
}

mod with_browser {
    use super::{degraded, faulty, healthy, run};

    #[test]
    fn page_shows_the_simulated_fabric_in_a_browser() {
        run("test/browser/page.test.mjs", healthy);
    }

    #[test]
    fn page_is_usable_with_a_keyboard_and_a_screen_reader() {
        run("test/browser/access.test.mjs", healthy);
    }

    #[test]
    fn page_shows_slots_at_the_chosen_rate_and_loses_none() {
        run("test/browser/rate.test.mjs", healthy);
    }

    #[test]
    fn page_saves_its_tables_and_pictures() {
        run("test/browser/save.test.mjs", healthy);
    }

    #[test]
    fn page_answers_the_questions_of_an_operator_about_known_faults() {
        run("test/browser/faults.test.mjs", faulty);
    }

    #[test]
    fn page_answers_eleven_questions_within_two_clicks() {
        run("test/browser/questions.test.mjs", degraded);
    }
}

/// Records a small fabric.
fn healthy(folder: &Path) {
    record(
        folder,
        &TREE.blueprint().ports_report(),
        &Raw::default(),
        SLOTS,
    );
}

/// Records a fabric with a congested port, a switch that does not answer, and a hostile name.
fn faulty(folder: &Path) {
    let net = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stria.p"))
        .unwrap();
    // Lines such as: CA 43 1 0x...1 4x EDR - SW 8 24 0x...80 ( 'node00192 mlx5_0' - 'leaf08' )
    let hosts = net
        .lines()
        .filter(|line| line.starts_with("CA ") && line.contains(&format!("'{DEAD}'")));
    let hosts: Vec<String> = hosts
        .map(|line| {
            line.split(['\'', ' '])
                .find(|word| word.starts_with("node"))
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(hosts.len(), 24);
    let mut raw = Raw::default();
    raw.simulated.scenario_start = "2s".to_owned();
    raw.simulated.scenario_length = "1h".to_owned();
    raw.simulated.dead = std::iter::once(DEAD.to_owned()).chain(hosts).collect();
    record(
        folder,
        &net.replace(RENAMED, HOSTILE),
        &raw,
        SLOTS_OF_FAULTS,
    );
}

/// Records the same fabric as `faulty`. The link of a host loses three of its four lanes.
fn degraded(folder: &Path) {
    faulty(folder);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let is_degraded = |line: &str| {
            let slot = line.split("\"slot\":").nth(1).and_then(|rest| {
                let digits = rest.split(|each: char| !each.is_ascii_digit()).next()?;
                digits.parse().ok()
            });
            line.starts_with("{\"type\":\"port\"")
                && line.contains(NARROW)
                && slot.is_some_and(|slot: u64| slot > START_NS / 1_000_000_000 + DEGRADED_AFTER)
        };
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| {
            if is_degraded(line) {
                line.replace("\"4xEDR\"", "\"1xEDR\"") + "\n"
            } else {
                format!("{line}\n")
            }
        });
        fs::write(&path, lines.collect::<String>()).unwrap();
    }
}

/// Writes the records of each sampler, and the configuration of a hub without its input.
fn record(folder: &Path, net: &str, raw: &Raw, slots: u64) {
    let file = folder.join("fabric.p");
    fs::write(&file, net).unwrap();
    let recording = ibnet_hub::record(&file, &raw.simulated, slots, START_NS).unwrap();
    for (sampler, lines) in &recording.samplers {
        fs::write(folder.join(format!("{sampler}.jsonl")), lines).unwrap();
    }
    let jobs = folder.join("jobs.csv");
    fs::write(&jobs, &recording.jobs).unwrap();
    let routes = folder.join("routes.txt");
    let fabric = net_file::read(&file).unwrap().fabric;
    fs::write(&routes, Traffic::forwarding_tables(&fabric)).unwrap();
    let start = START_NS / 1_000_000_000;
    let marks = folder.join("marks.csv");
    let text = format!(
        "name,start,end\ncompute,{start},{0}\nwrite,{0},\n",
        start + 30
    );
    fs::write(&marks, text).unwrap();
    let tokens = folder.join("tokens");
    fs::write(&tokens, "ada 0123456789abcdef\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let groups = recording
        .storage
        .iter()
        .map(|group| format!("{group:?}"))
        .collect::<String>();
    let config = format!(
        "fabric = \"tree\"\njobs = {jobs:?}\nroutes = {routes:?}\nmarks = {marks:?}\n\
         groups = [{groups}]\n[users]\ntokens_file = {tokens:?}\n"
    );
    fs::write(folder.join("hub.toml"), config).unwrap();
}

/// Runs the browser tests of a file with records that `record` writes into a folder.
fn run(file: &str, record: fn(&Path)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !BROWSERS.iter().any(|path| Path::new(path).exists()) {
        return skip(
            "Chromium is not installed; the page is not tested in a browser (Debian: apt install chromium)",
        );
    }
    if !folder.join("page/node_modules/playwright-core").exists() {
        return skip("the packages of the page are not installed; run npm ci in hub/page");
    }
    let records = tempfile::tempdir().unwrap();
    record(records.path());
    let tests = Command::new("node")
        .args(["--test", file])
        .current_dir(folder.join("page"))
        .env("IBNET_HUB", env!("CARGO_BIN_EXE_ibnet-hub"))
        .env("IBNET_RECORDS", records.path())
        .env("IBNET_OUT", folder.join("../out/hub"))
        .output()
        .expect("node is installed");
    let report = String::from_utf8_lossy(&tests.stdout);
    assert!(
        tests.status.success(),
        "{report}\n{}",
        String::from_utf8_lossy(&tests.stderr)
    );
}
