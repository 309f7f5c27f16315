use super::*;
use crate::fixtures::{fold, port};
use crate::job::run::JobRun;

const HOST: (u64, u8) = (0x101, 1);
const SECOND: u64 = 1_000_000_000;

/// Returns the record of a host port; it ends at `slot` seconds.
fn sends(slot: u64, host: u64, gbps: f64, blocked: f64) -> String {
    let values = [
        ("xmit_gbps", gbps.into()),
        ("rcv_gbps", (gbps / 2.0).into()),
        ("xmit_blocked", blocked.into()),
    ];
    port(
        slot,
        (0x100 + host, 1),
        &format!("n{host} mlx5_0"),
        (1, host as u8, "leaf"),
        &values,
    )
}

fn job(id: &str, nodes: &str, from_ms: u64, to_ms: u64) -> JobRun {
    JobRun::new(
        id,
        nodes,
        Some(from_ms * 1_000_000),
        Some(to_ms * 1_000_000),
    )
    .unwrap()
}

fn traffic(jobs: &[JobRun], lines: &[String], bin_ns: Option<u64>) -> JobsTraffic {
    fold(AllJobs::new(JobList::new(jobs), bin_ns), lines)
        .finish(Some(&Hosts::parse("n2").unwrap()))
        .unwrap()
}

fn gigabits(bytes: f64) -> f64 {
    (bytes * 8.0 / 1e9 * 1e6).round() / 1e6
}

#[test]
fn job_gets_the_part_of_an_interval_in_which_it_ran() {
    let lines: Vec<String> = (1..=4)
        .flat_map(|slot| [sends(slot, 1, 8.0, 0.5), sends(slot, 2, 4.0, 0.0)])
        .collect();
    // Half of the second interval and all of the third.
    let all = traffic(&[job("7", "n1,gone", 1500, 3000)], &lines, None);
    let [total, rest] = &all.jobs[..] else {
        panic!("one job and the rest")
    };
    assert_eq!(
        (
            gigabits(total.injected_bytes),
            gigabits(total.ejected_bytes),
            total.blocked_seconds
        ),
        (12.0, 6.0, 0.75)
    );
    assert_eq!(
        total
            .nodes
            .iter()
            .map(|node| (&*node.host, node.ports))
            .collect::<Vec<_>>(),
        [("n1", 1)]
    );
    assert_eq!(total.missing, ["gone"]);
    assert_eq!(total.blocked_ns_per_byte, Some(0.5));
    assert_eq!(
        (
            rest.job.as_deref(),
            gigabits(rest.injected_bytes),
            rest.blocked_seconds
        ),
        (None, 36.0, 1.25)
    );
    assert_eq!(
        (&*all.into[0].port, all.into.len()),
        ("leaf port 2 to n2", 1)
    );
}

#[test]
fn jobs_and_the_rest_are_the_whole() {
    let lines: Vec<String> = (1..=9)
        .flat_map(|slot| [sends(slot, 1, slot as f64, 0.5), sends(slot, 2, 4.0, 0.1)])
        .collect();
    let jobs = [
        job("1", "n1", 1200, 4700),
        job("2", "n[1-2]", 3100, 6000),
        job("3", "n2", 0, 2500),
    ];
    for bin_ns in [
        None,
        Some(700_000_000),
        Some(2_000_000_000),
        Some(60_000_000_000),
    ] {
        let all = traffic(&jobs, &lines, bin_ns);
        let sum = |rates: &[Option<f64>]| {
            rates
                .iter()
                .map(|rate| rate.unwrap_or(0.0))
                .collect::<Vec<_>>()
        };
        let mut parts = vec![0.0; all.bins];
        all.jobs.iter().for_each(|job| {
            parts
                .iter_mut()
                .zip(sum(&job.injected_gbps))
                .for_each(|(part, more)| *part += more);
        });
        let total = all.total.iter().map(|cell| cell.value().unwrap_or(0.0));
        assert!(
            parts
                .iter()
                .zip(total)
                .all(|(part, total)| (part - total).abs() < 1e-9),
            "{bin_ns:?}"
        );
        assert_eq!(
            gigabits(all.jobs.iter().map(|job| job.injected_bytes).sum()),
            45.0 + 36.0
        );
        // From 3.1 s to 4.7 s both jobs run on n1, which sends at 4 and 5 Gb/s: each gets a half.
        let first = all
            .jobs
            .iter()
            .find(|job| job.job.as_deref() == Some("1"))
            .unwrap();
        assert_eq!(
            gigabits(first.injected_bytes),
            0.8 * 2.0 + 3.0 + 0.1 * 4.0 + (0.9 * 4.0 + 0.7 * 5.0) / 2.0
        );
    }
}

#[test]
fn result_does_not_depend_on_the_chunks_and_gaps_are_not_zero() {
    let lines: Vec<String> = [1, 2, 3, 4, 8, 9]
        .iter()
        .flat_map(|slot| [sends(*slot, 1, 8.0, 0.5), sends(*slot, 2, 4.0, 0.0)])
        .collect();
    let jobs = [job("7", "n1", 1500, 8500)];
    let whole = traffic(&jobs, &lines, None);
    assert_eq!(
        (
            whole.bins,
            whole
                .total
                .iter()
                .filter(|cell| cell.value().is_none())
                .count()
        ),
        (9, 3),
        "{:?}",
        whole.total
    );
    for cut in 0..=lines.len() {
        let empty = AllJobs::new(JobList::new(&jobs), None);
        let mut merged = fold(empty.clone(), &lines[..cut]);
        merged.merge(fold(empty, &lines[cut..]));
        assert_eq!(
            merged.finish(Some(&Hosts::parse("n2").unwrap())).unwrap(),
            whole,
            "cut after {cut} lines"
        );
    }
}

/// Returns the record of a port of n1 with its counter of sent octets. With a rate, it has sent 1
/// GB in the second before.
fn counted(slot: u64, has_rate: bool, gigabytes: u64) -> String {
    let rate = |value: f64| {
        if has_rate {
            value.into()
        } else {
            serde_json::Value::Null
        }
    };
    let values = [
        ("xmit_gbps", rate(8.0)),
        ("rcv_gbps", rate(0.0)),
        ("xmit_blocked", rate(0.5)),
        (
            "dt_ns",
            if has_rate {
                1_000_000_000_u64.into()
            } else {
                serde_json::Value::Null
            },
        ),
        ("port_xmit_data_bytes", (gigabytes * 1_000_000_000).into()),
        ("port_rcv_data_bytes", 0.into()),
    ];
    port(slot, HOST, "n1 mlx5_0", (1, 1, "leaf"), &values)
}

#[test]
fn octets_of_missed_slots_are_those_of_the_counters() {
    // After the slots 4 and 5, which were missed, there is no rate. The counter grew by 3 GB.
    let lines: Vec<String> = [
        (1, false, 10),
        (2, true, 11),
        (3, true, 12),
        (6, false, 15),
        (7, true, 16),
        (8, true, 17),
    ]
    .map(|(slot, has_rate, gigabytes)| counted(slot, has_rate, gigabytes))
    .to_vec();
    let all = traffic(&[job("7", "n1", 2000, 8000)], &lines, None);
    let total = &all.jobs[0];
    assert_eq!(
        (
            total.injected_bytes,
            total.covered_seconds,
            total.recorded_seconds(all.recorded_ns)
        ),
        (6e9, 6.0, 6.0)
    );
    assert_eq!(
        (total.blocked_seconds, total.blocked_covered_seconds),
        (1.5, 3.0)
    );
    let one = crate::job::Job::of(
        &fold(crate::ports::Ports::with_bins(8), &lines).finish(),
        &Hosts::parse("n1").unwrap(),
    );
    let node = &one.nodes[0];
    assert_eq!(
        (
            node.injected_bytes,
            node.covered_seconds,
            one.recorded_seconds
        ),
        (7e9, 7.0, 7.0)
    );
    assert_eq!(
        (node.blocked_seconds, node.blocked_covered_seconds),
        (2.0, 4.0)
    );
}

#[test]
fn totals_of_two_time_ranges_add_up() {
    let lines = |slots: &[u64]| {
        slots
            .iter()
            .flat_map(|slot| {
                [
                    sends(*slot, 1, *slot as f64, 0.5),
                    sends(*slot, 2, 4.0, 0.1),
                ]
            })
            .collect()
    };
    let (first, later, both): (Vec<String>, Vec<String>, Vec<String>) =
        (lines(&[1, 2, 3]), lines(&[6, 7]), lines(&[1, 2, 3, 6, 7]));
    let jobs = [job("7", "n[1-2],gone", 500, 6500)];
    let total = |lines: &[String]| traffic(&jobs, lines, Some(SECOND)).jobs.remove(0);
    let mut sum = total(&first);
    // From 3 s to 5 s there are no records.
    sum.extend(total(&later), 2);
    let whole = total(&both);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-3;
    assert!(
        close(sum.injected_bytes, whole.injected_bytes)
            && close(sum.blocked_seconds, whole.blocked_seconds),
        "{sum:?}"
    );
    assert_eq!(sum.injected_gbps, whole.injected_gbps);
    assert_eq!(
        (&sum.missing, sum.nodes.len(), sum.nodes[0].ports),
        (&whole.missing, 2, 1)
    );
    assert!(close(
        sum.imbalance.gini.unwrap(),
        whole.imbalance.gini.unwrap()
    ));
}

#[test]
fn switch_port_stands_in_for_a_host_without_records() {
    let values = [("xmit_gbps", 2.0.into()), ("rcv_gbps", 6.0.into())];
    let lines = [
        port(1, (1, 3), "leaf", (0x103, 1, "n3 mlx5_0"), &values),
        sends(1, 1, 8.0, 0.0),
    ];
    let all = traffic(&[job("7", "n3", 0, 1000)], &lines, None);
    assert_eq!(
        (
            gigabits(all.jobs[0].injected_bytes),
            gigabits(all.jobs[0].ejected_bytes)
        ),
        (6.0, 2.0)
    );
    // Both ends of a link count once.
    let both = [
        port(1, (1, 1), "leaf", (HOST.0, HOST.1, "n1 mlx5_0"), &values),
        sends(1, 1, 8.0, 0.0),
    ];
    assert_eq!(
        traffic(&[], &both, None)
            .jobs
            .iter()
            .map(|job| gigabits(job.injected_bytes))
            .collect::<Vec<_>>(),
        [8.0]
    );
}

#[test]
fn long_recording_has_longer_bins_and_too_many_given_bins_are_an_error() {
    let lines: Vec<String> = [1, 1000]
        .iter()
        .map(|slot| sends(*slot, 1, 8.0, 0.0))
        .collect();
    assert_eq!(traffic(&[], &lines, None).bin_ns, 10_000_000_000);
    let error = fold(AllJobs::new(JobList::new(&[]), Some(1_000_000)), &lines)
        .finish(None)
        .unwrap_err();
    assert!(error.to_string().contains("more than 5000 bins"), "{error}");
    assert!(AllJobs::new(JobList::new(&[]), None).finish(None).is_err());
}

#[test]
fn bin_without_a_value_of_a_port_is_a_lower_bound() {
    // The sampler of n2 stops after the second slot.
    let lines: Vec<String> = (1..=4)
        .flat_map(|slot| {
            [
                Some(sends(slot, 1, 8.0, 0.0)),
                (slot < 3).then(|| sends(slot, 2, 4.0, 0.0)),
            ]
        })
        .flatten()
        .collect();
    let all = traffic(&[job("7", "n[1-2]", 0, 3000)], &lines, Some(SECOND));
    let [seven, rest] = &all.jobs[..] else {
        panic!("{:?}", all.jobs)
    };
    assert_eq!(
        seven.injected_gbps,
        [Some(12.0), Some(12.0), Some(8.0), None]
    );
    assert_eq!(
        seven.injected_covered,
        [Some(1.0), Some(1.0), Some(0.5), None]
    );
    assert_eq!(
        (rest.injected_gbps[3], rest.injected_covered[3]),
        (Some(8.0), Some(0.5))
    );
    let half = Cell::AtLeast {
        value: 8.0,
        covered: 0.5,
    };
    assert_eq!(
        all.total,
        [Cell::Value(12.0), Cell::Value(12.0), half, half]
    );
    assert_eq!(
        (seven.covered_seconds, seven.nodes[1].covered_seconds),
        (2.5, 2.0)
    );
}

/// Returns four seconds in which n1 sends 8 Gb/s and n2 sends 4 Gb/s, and n2 is off after the
/// second one.
fn power_off() -> Vec<String> {
    use serde_json::Value::Null;
    let of_slot = |slot: u64| {
        let nothing = |status: &str| {
            let rates = [
                "dt_ns",
                "xmit_gbps",
                "rcv_gbps",
                "xmit_utilization",
                "rcv_utilization",
                "xmit_blocked",
            ]
            .map(|field| (field, Null));
            [("status", status.into())]
                .into_iter()
                .chain(rates)
                .collect::<Vec<_>>()
        };
        let (host, leaf) = ((0x102, 1, "n2 mlx5_0"), (1, 2, "leaf"));
        let received = [("rcv_gbps", 4.0.into()), ("xmit_gbps", 2.0.into())];
        let of_two = if slot <= 10_002 {
            [
                sends(slot, 2, 4.0, 0.0),
                port(slot, (1, 2), "leaf", host, &received),
            ]
        } else {
            [
                port(slot, (0x102, 1), "n2 mlx5_0", leaf, &nothing("unreachable")),
                port(slot, (1, 2), "leaf", host, &nothing("down")),
            ]
        };
        [sends(slot, 1, 8.0, 0.0)].into_iter().chain(of_two)
    };
    (10_001..=10_004).flat_map(of_slot).collect()
}

#[test]
fn switch_without_records_is_no_host() {
    let (leaf, spine) = (0x1, 0x9);
    let uplink = |slot: u64, port: u8, far: u8| {
        let rates = [("xmit_gbps", 8.0.into()), ("rcv_gbps", 8.0.into())];
        crate::fixtures::port(slot, (leaf, port), "leaf", (spine, far, "spine"), &rates)
    };
    let lines: Vec<String> = (10_001..=10_004)
        .flat_map(|slot| {
            [
                sends(slot, 1, 8.0, 0.0),
                uplink(slot, 20, 1),
                uplink(slot, 21, 3),
            ]
        })
        .collect();
    let all = traffic(&[], &lines, Some(SECOND));
    let nodes: Vec<&str> = all
        .jobs
        .iter()
        .flat_map(|total| &total.nodes)
        .map(|node| &*node.host)
        .collect();
    assert_eq!(nodes, ["n1"]);
}

#[test]
fn link_that_stays_down_carries_nothing_and_lacks_nothing() {
    let (lines, jobs) = (power_off(), [job("7", "n[1-2]", 10_000_000, 10_003_500)]);
    let all = traffic(&jobs, &lines, Some(SECOND));
    let [seven, rest] = &all.jobs[..] else {
        panic!("{:?}", all.jobs)
    };
    // The link can have carried something in the slot in which it went down.
    let partly = Cell::AtLeast {
        value: 8.0,
        covered: 0.5,
    };
    let [first, second, last] = [12.0, 12.0, 8.0].map(Cell::Value);
    assert_eq!(all.total, [first, second, partly, last]);
    assert_eq!(seven.injected_gbps, [12.0, 12.0, 8.0, 4.0].map(Some));
    assert_eq!(
        (&seven.injected_covered[..], &rest.injected_covered[..]),
        (
            &[1.0, 1.0, 0.5, 1.0].map(Some)[..],
            &[None, None, None, Some(1.0)][..]
        )
    );
    assert_eq!(
        (
            seven.covered_seconds,
            seven.blocked_covered_seconds,
            seven.nodes[1].covered_seconds
        ),
        (3.0, 3.0, 2.5)
    );
    assert!(seven.known(all.recorded_ns).is_some(), "a part is unknown");
    assert_eq!(all.into[0].covered, [1.0, 1.0, 0.0, 1.0].map(Some));

    let flows = || {
        fold(AllJobs::new(JobList::new(&jobs), Some(SECOND)), &lines)
            .flows()
            .unwrap()
    };
    let group =
        |text: &str| crate::groups::traffic::GroupTraffic::of(&text.parse().unwrap(), &flows());
    let (both, one) = (group("all=n1,n2"), group("one=n1"));
    assert_eq!(
        both.in_max_to_mean,
        [Some(4.0 / 3.0), Some(4.0 / 3.0), None, Some(2.0)]
    );
    // n1 received 4 Gb/s, of which a host that is off sent nothing.
    let sent =
        |sender: &crate::groups::traffic::Sender| (sender.most_bytes, sender.covered_seconds);
    assert_eq!(
        one.senders.iter().map(sent).collect::<Vec<_>>(),
        [(1e9, 3.0), (0.0, 4.0)]
    );
}

#[test]
fn octets_of_the_counters_are_those_of_the_time_in_which_the_link_was_down_too() {
    // In slot 10003 the link is down. The next reading has the octets of both slots.
    let mut down = counted(10_003, false, 0);
    down = down
        .replace("\"status\":\"ok\"", "\"status\":\"down\"")
        .replace(
            "\"port_xmit_data_bytes\":0",
            "\"port_xmit_data_bytes\":null",
        );
    let lines = [
        counted(10_001, true, 10),
        counted(10_002, true, 11),
        down,
        counted(10_004, false, 13),
    ];
    let all = traffic(&[job("7", "n1", 10_000_000, 10_004_000)], &lines, None);
    let total = &all.jobs[0];
    assert_eq!((total.injected_bytes, total.covered_seconds), (4e9, 4.0));
}

/// Returns the records of both ends of the link of n1 in slots of a second. Each slot has the
/// octets that the host sent and received, and what happens to the records: bits for a full counter
/// of the HCA port (sent, received), a lost record of the HCA port and of the switch port, and a
/// reset of the HCA.
fn disturbed(slots: &[(u64, u64, u8)]) -> Vec<String> {
    const NAMES: [&str; 2] = DATA_COUNTERS;
    const FULL: u64 = 4 * 0xffff_ffff;
    let (mut lines, mut sum) = (Vec::new(), [1_u64 << 33; 2]);
    let mut cleared = [0_u64; 2];
    for (slot, (sent, received, faults)) in (10_001_u64..).zip(slots) {
        sum = [sum[0] + sent, sum[1] + received];
        let has = |bit: u8| faults & bit != 0;
        if has(16) {
            cleared = sum.map(|sum| sum - 1);
        }
        let full = [has(1), has(2)];
        let value = |of: usize| {
            if full[of] {
                FULL
            } else {
                sum[of] - cleared[of]
            }
        };
        let nothing = ["dt_ns", "xmit_gbps", "rcv_gbps", "xmit_blocked"]
            .map(|field| (field, serde_json::Value::Null));
        let saturated: Vec<&str> = (0..2).filter(|of| full[*of]).map(|of| NAMES[of]).collect();
        let hca = [
            (NAMES[0], value(0).into()),
            (NAMES[1], value(1).into()),
            ("saturated", saturated.into()),
        ];
        let switch = [(NAMES[0], sum[1].into()), (NAMES[1], sum[0].into())];
        let at = |ns: u64| [("ts", (slot * SECOND + ns).into())];
        if !has(4) {
            lines.push(port(
                slot,
                HOST,
                "n1 mlx5_0",
                (1, 1, "leaf"),
                &[&nothing[..], &hca, &at(1_000_000)].concat(),
            ));
        }
        if !has(8) {
            lines.push(port(
                slot,
                (1, 1),
                "leaf",
                (HOST.0, HOST.1, "n1 mlx5_0"),
                &[&nothing[..], &switch, &at(2_000_000)].concat(),
            ));
        }
        // A counter that was full is cleared before the next slot.
        (0..2)
            .filter(|of| full[*of])
            .for_each(|of| cleared[of] = sum[of]);
    }
    lines
}

/// Folds the records of each port in a time range, as the hub does.
fn within<F: Fold>(mut fold: F, lines: &[String], from: u64, to: u64) -> F {
    for guid in [
        "\"guid\":\"0x0000000000000101\"",
        "\"guid\":\"0x0000000000000001\"",
    ] {
        let records = lines
            .iter()
            .filter(|line| line.contains(guid))
            .map(|line| Record::parse(line.as_bytes(), Type::Port).unwrap());
        crate::input::memory::fold_port(records.collect(), Some(from), Some(to), &mut fold);
    }
    fold
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { rng_seed: proptest::test_runner::RngSeed::Fixed(1), cases: 100, ..Default::default() })]
    /// Also with full counters, resets and lost records at both ends.
    #[test]
    fn octets_depend_neither_on_the_bins_nor_on_the_command(
        slots in proptest::collection::vec((1_u64..900_000_000, 1_u64..900_000_000, proptest::sample::select(vec![0_u8, 0, 0, 0, 1, 1, 2, 3, 4, 4, 8, 12, 16])), 12..40),
        (after, length) in (500_u64..4000, 3000_u64..30_000),
    ) {
        let mut slots = slots;
        // A range without a record of the HCA port has only those of the switch port.
        (2..slots.len()).for_each(|slot| if slots[slot - 2..slot].iter().all(|slot| slot.2 & 4 != 0) { slots[slot].2 &= !4 });
        let lines = disturbed(&slots);
        let (from, to) = (10_001_000_000_000 + after * 1_000_000, 10_001_000_000_000 + (after + length) * 1_000_000);
        let jobs = [job("7", "n1", from / 1_000_000, to / 1_000_000)];
        let of = |jobs: &JobsTraffic| {
            let seven = jobs.jobs.iter().find(|job| job.job.is_some());
            seven.map_or([0.0; 4], |job| [job.injected_bytes, job.ejected_bytes, job.covered_seconds, job.blocked_covered_seconds])
        };
        // A part of a reading is spread evenly, and at the edges of a range it is whole octets.
        let is_close = |a: [f64; 4], b: [f64; 4], octets: f64| (0..4).all(|of| (a[of] - b[of]).abs() <= if of < 2 { octets } else { 1e-6 });
        let expected = of(&traffic(&jobs, &lines, Some(SECOND)));
        for bin_ns in [None, Some(300_000_000), Some(10 * SECOND), Some(60 * SECOND)] {
            let found = of(&traffic(&jobs, &lines, bin_ns));
            proptest::prop_assert!(is_close(found, expected, 1e-3), "{:?}: {:?} {:?}", bin_ns, found, expected);
        }
        let ports = within(crate::ports::Ports::for_jobs(8), &lines, from, to).finish();
        let one = crate::job::Job::of(&ports, &Hosts::parse("n1").unwrap());
        let node = one.nodes.first().map_or([0.0; 4], |node| [node.injected_bytes, node.ejected_bytes, node.covered_seconds, 0.0]);
        proptest::prop_assert!(is_close(node, expected, 4.0), "job: {:?} {:?}", node, expected);
        let mut slices = [0.0; 4];
        for slice in (from / SECOND / 6 * 6..to / SECOND + 6).step_by(6) {
            let fold = within(AllJobs::new(JobList::new(&jobs), Some(10 * SECOND)), &lines, slice * SECOND, (slice + 6) * SECOND);
            let found = fold.finish(None).map_or([0.0; 4], |found| of(&found));
            slices.iter_mut().zip(found).for_each(|(sum, more)| *sum += more);
        }
        proptest::prop_assert!(is_close(slices, expected, 24.0), "slices: {:?} {:?}", slices, expected);
    }
}

#[test]
fn switch_port_fills_in_only_the_direction_and_the_time_that_the_host_lacks() {
    // The counter of sent octets is full in slot 3. Each slot has 1000 octets sent and 500
    // received.
    let mut slots = [(1000, 500, 0); 8];
    slots[2].2 = 1;
    let lines = disturbed(&slots);
    let all = traffic(&[job("7", "n1", 10_002_001, 10_008_001)], &lines, None);
    let total = &all.jobs[0];
    assert_eq!(
        (
            total.injected_bytes.round(),
            total.ejected_bytes.round(),
            total.covered_seconds
        ),
        (6000.0, 3000.0, 6.0)
    );
    // Without the switch port, only one direction is not known.
    let own: Vec<String> = lines
        .into_iter()
        .filter(|line| line.contains("\"kind\":\"hca\""))
        .collect();
    let all = traffic(&[job("7", "n1", 10_002_001, 10_008_001)], &own, None);
    let total = &all.jobs[0];
    assert_eq!(
        (
            total.injected_bytes.round(),
            total.ejected_bytes.round(),
            total.covered_seconds
        ),
        (4000.0, 3000.0, 4.0)
    );
    let ports = within(
        crate::ports::Ports::for_jobs(8),
        &own,
        10_002_001_000_000,
        10_008_001_000_000,
    )
    .finish();
    let node = &crate::job::Job::of(&ports, &Hosts::parse("n1").unwrap()).nodes[0];
    assert_eq!(
        (
            node.injected_bytes,
            node.ejected_bytes,
            node.covered_seconds
        ),
        (4000.0, 3000.0, 4.0)
    );
}
