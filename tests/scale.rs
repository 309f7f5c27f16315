//! Runs a tenth of 300 samplers for a minute of virtual time at 1 Hz. The fabric has 40,000 ports,
//! and 2 % of its hosts are dead.
//!
//! `cargo bench --bench scale` runs all samplers for an hour, and also at 10 Hz. This takes too
//! long for a test without optimization.

use std::time::Duration;

#[path = "scale/large.rs"]
mod large;

#[path = "scale/links.rs"]
mod links;

#[path = "scale/tables.rs"]
mod tables;

use ibnet::sweep::engine::Config;
use ibnet_record::attributes::Group;
use large::{Large, SAMPLERS};
use links::{Links, three_tiers};

/// Every counter group of the sweep is PortCountersExtended.
fn config() -> Config {
    Config {
        groups: [Group::Extended].into(),
        state_tables: true,
        ..Config::default()
    }
}

#[test]
fn every_change_of_a_link_is_known_within_one_slot_and_two_with_loss() {
    for loss in [0.0, 0.01] {
        let links = Links {
            fabric: three_tiers(8, 4),
            samplers: 4,
            seconds: 120,
            loss,
            changes: true,
            config: config(),
        };
        let found = links.sweep();
        assert_eq!(found.changes, 640);
        found.check(&links);
    }
}

#[test]
fn lost_requests_are_no_change_of_a_link() {
    let links = Links {
        fabric: three_tiers(8, 4),
        samplers: 1,
        seconds: 600,
        loss: 0.01,
        changes: false,
        config: config(),
    };
    links.sweep().check(&links);
}

#[test]
fn tables_of_1500_switches_are_read_in_five_minutes_by_one_sampler_or_by_150() {
    tables::sweep(1..=1500, true);
    // The counters are read as fast as without the tables.
    assert_eq!(tables::sweep(1..=10, true), tables::sweep(1..=10, false));
}

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
