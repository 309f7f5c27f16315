//! The stories of `tests/scenarios`: each a fabric, an engine and what befalls them, played in virtual time, and what the records must be.
//!
//! In each slot of each story every port has exactly one record, and no record has another's data. All else the files say: counts by status, rejected
//! replies by reason, the length of the longest slot. They are exact, since everything random follows from a seed.
//!
//!     IBNET_RENEW=1 cargo nextest run --no-default-features --test scenarios
//!
//! writes what is found into the files: read the difference before you commit it.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

#[path = "scenarios/runner.rs"]
mod runner;
#[path = "scenarios/scenario.rs"]
mod scenario;

use scenario::Story;

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut stories: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    stories.sort();
    stories
}

/// Plays a story; `None` if it went as it is told.
fn played(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let renew = std::env::var_os("IBNET_RENEW").is_some();
    let story = Story::parse(&name, &text);
    let (expected, slots) = (story.expected.clone(), std::panic::catch_unwind(|| runner::play(story)));
    let Ok(slots) = slots else { return Some(format!("{name}: see above")) };
    let found = scenario::merged(&slots);
    if found == expected {
        return None;
    }
    let found = scenario::text(&found);
    if renew {
        let head = text.find("[[expect]]").unwrap_or(text.len());
        fs::write(path, format!("{}{found}", &text[..head])).unwrap();
        return None;
    }
    Some(format!("{name}: found\n\n{found}"))
}

#[test]
fn every_story_ends_as_it_is_told() {
    let stories = stories();
    assert!(!stories.is_empty(), "no stories");
    let failures: Vec<_> = stories.par_iter().filter_map(|path| played(path)).collect();
    assert!(failures.is_empty(), "{}\nIBNET_RENEW=1 writes this into the files", failures.join("\n"));
}
