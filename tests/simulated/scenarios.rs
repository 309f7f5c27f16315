//! The scenarios of `tests/scenarios`: fabric, engine and faults, run in virtual time, and the
//! expected records.
//!
//! The test checks two things in each slot of each scenario: every port has exactly one record, and
//! no record has the data of another port. The scenario files contain the other expected values:
//! ports by status, rejected replies by reason, and the length of the longest slot. All values are
//! exact, because all random values follow from a seed. This command writes the results into the
//! files:
//!
//!     IBNET_RENEW=1 cargo nextest run --no-default-features --test simulated scenarios
//!
//! Read the difference before you commit it.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

#[path = "../scenarios/runner.rs"]
mod runner;
#[path = "../scenarios/scenario.rs"]
mod scenario;

use scenario::Scenario;

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut scenarios: Vec<_> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    scenarios.sort();
    scenarios
}

/// Runs a scenario. Returns the outcome if it differs from the expected one.
fn run(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let renew = std::env::var_os("IBNET_RENEW").is_some();
    let scenario = Scenario::parse(&name, &text);
    let (expected, slots) = (
        scenario.expected.clone(),
        std::panic::catch_unwind(|| runner::run(scenario)),
    );
    let Ok(slots) = slots else {
        return Some(format!("{name}: see above"));
    };
    let outcome = scenario::merged(&slots);
    if outcome == expected {
        return None;
    }
    let outcome = scenario::text(&outcome);
    if renew {
        let head = text.find("[[expect]]").unwrap_or(text.len());
        fs::write(path, format!("{}{outcome}", &text[..head])).unwrap();
        return None;
    }
    Some(format!("{name}: the outcome is\n\n{outcome}"))
}

#[test]
fn every_scenario_has_its_expected_outcome() {
    let scenarios = scenarios();
    assert!(!scenarios.is_empty(), "no scenarios");
    let failures: Vec<_> = scenarios.par_iter().filter_map(|path| run(path)).collect();
    assert!(
        failures.is_empty(),
        "{}\nIBNET_RENEW=1 writes the outcomes into the files",
        failures.join("\n")
    );
}
