//! Verdicts on the links of the simulated physical layer, which was made before the rules.

mod links;

use ibnet::mad::transport::sim::link_end::Change;
use ibnet_analysis::health::verdict::Verdict;
use ibnet_record::registers::link_down;
use links::{Counts, Link, leads};

#[test]
fn good_links_are_good_and_ageing_links_are_found() {
    for (speed, scale) in [("NDR", 1.0), ("NDR", 3.0), ("EDR", 0.3)] {
        let change = Change {
            scale,
            ..Change::default()
        };
        let of = |seed| Counts::of(seed, 0..60, speed, change, (150, 1));
        let counts = of(7).merge(of(8));
        assert!(counts.good[0] > 90 && counts.ageing[0] > 0, "{counts:?}");
        assert_eq!(counts.good[1], 0, "{speed} x {scale}: {counts:?}");
        assert_eq!(
            counts.of_ageing(),
            [1.0, 1.0],
            "{speed} x {scale}: {counts:?}"
        );
    }
}

#[test]
fn only_link_downs_without_intention_are_a_fault() {
    let mut seen = [0; 3];
    for number in 0..60 {
        let mut link = Link::new(7, number, "NDR", Change::default());
        if link.has_bad_contact() || link.is_ageing() {
            continue;
        }
        let mut faults = 0;
        for minute in 0..140 {
            if minute == 130 || minute == 135 {
                let reasons = link.go_down();
                assert_eq!(reasons[0], reasons[1], "the same reason at both ends");
                let reason = link_down::reason(reasons[0]).expect("it has a public meaning");
                faults += usize::from(!reason.is_command);
            }
            link.read(minute);
        }
        let expected = [Verdict::Good, Verdict::Watch, Verdict::Clean][faults];
        assert_eq!(link.verdict(), expected, "link {number}: {faults}");
        seen[faults] += 1;
    }
    assert!(seen.iter().all(|links| *links > 0), "{seen:?}");
}

#[test]
fn verdict_comes_hours_before_the_first_lost_block() {
    // Ten hours from a new cable to a lane with a thousand times the errors.
    let hours = leads(7, 0..200, 0.25);
    assert!(!hours.is_empty());
    assert!(hours.iter().all(|hours| *hours > 6.0), "{hours:?}");
}
