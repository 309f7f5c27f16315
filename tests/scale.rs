//! Runs a tenth of 300 samplers for a minute of virtual time at 1 Hz. The fabric has 40,000 ports,
//! and 2 % of its hosts are dead.
//!
//! `cargo bench --bench scale` runs all samplers for an hour, and also at 10 Hz. This takes too
//! long for a test without optimization.

use std::time::Duration;

#[path = "scale/large.rs"]
mod large;

use large::{Large, SAMPLERS};

#[test]
fn every_slot_of_a_large_fabric_is_complete() {
    let large = Large::new();
    assert_eq!(
        large
            .plan
            .shares
            .iter()
            .map(|share| share.ports as usize)
            .sum::<usize>(),
        large.fabric.linked_ports()
    );
    assert!(
        large.plan.shares.iter().all(|share| share.ports <= 150),
        "the cap"
    );
    let swept = large.sweep(10, 60, Duration::from_secs(1));
    assert_eq!(
        (swept.lengths.len(), swept.incomplete),
        (SAMPLERS / 10 * 60, 0)
    );
    assert!(
        swept.longest[59] < Duration::from_millis(100),
        "{:?}",
        swept.longest[59]
    );
    // The link of a sampler carries the largest load.
    let load = large.load(&swept, Duration::from_secs(60));
    assert!(
        load.mean < load.worst && load.worst < 1e-4,
        "{} and {}",
        load.mean,
        load.worst
    );
}
