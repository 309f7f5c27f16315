//! Answers whose records are in memory, in the archive, or in both.

use ibnet_analysis::errors::Thresholds;
use ibnet_analysis::links::LinkOrder;
use ibnet_store::pack::{PackOptions, Packer};
use ibnet_store::parse::Batch;

use super::*;

/// Packs lines into an archive.
pub(crate) fn pack(root: &Path, lines: &[String]) {
    let mut packer = Packer::new(root, PackOptions::default()).expect("an archive");
    packer
        .add(Batch::parse((lines.join("\n") + "\n").as_bytes()))
        .expect("added");
    packer.finish(&|_, _| {}).expect("packed");
}

/// A question and its answer.
type Answer = (String, Vec<u8>);

/// Returns series and matrices of a hub.
fn answers(hub: &Hub) -> Vec<Answer> {
    let mut answers = Vec::new();
    for (a, b) in LINKS {
        for key in [a, b] {
            for metric in [
                "xmit_utilization",
                "xmit_blocked",
                "port_rcv_errors",
                "port_xmit_data_bytes",
                "symbol_error_counter",
                "rtt_ns",
            ] {
                for (form, step) in [
                    (As::Total, None),
                    (As::Rate, None),
                    (As::Total, Some(10 * SECOND)),
                    (As::Rate, Some(10 * SECOND)),
                    (As::Total, Some(60 * SECOND)),
                ] {
                    let values = find(hub, key, metric, form, step).to_string();
                    answers.push((
                        format!("{metric} of {key:?} ({form:?}, step {step:?})"),
                        values.into_bytes(),
                    ));
                }
            }
        }
    }
    let range = ((START + 10) * SECOND, (START + 190) * SECOND);
    // Each metric with one way to join its values, and each way with several metrics.
    let joins = [Join::Mean, Join::Max, Join::P95].into_iter().cycle();
    for (metric, join) in heat::METRICS.into_iter().zip(joins) {
        for step in [None, Some(7 * SECOND)] {
            let matrix = heat::find(
                hub,
                Request {
                    metric,
                    join,
                    from: range.0,
                    to: range.1,
                    step,
                },
            )
            .expect("a matrix");
            // The generations of the topologies can differ.
            answers.push((
                format!("{} {join:?} {step:?}", metric.name),
                matrix[32..].to_vec(),
            ));
        }
    }
    answers
}

/// Returns links, trees, regions and errors in a range of seconds.
fn evaluations(hub: &Hub, range: (u64, u64)) -> Vec<Answer> {
    let range = (
        (START + range.0) * SECOND + SECOND / 3,
        (START + range.1) * SECOND + SECOND / 3,
    );
    let evaluated = Evaluations::default().find(hub, range).expect("evaluated");
    assert_eq!(evaluated.range, range);
    let answer = |question: &str, rows: &dyn erased::Rows| {
        (
            format!("{question} of {range:?}"),
            format!("{:?}", rows.json()).into_bytes(),
        )
    };
    let orders = [
        LinkOrder::Utilization,
        LinkOrder::Blocked,
        LinkOrder::Errors,
    ];
    let mut answers: Vec<Answer> = orders
        .map(|order| answer(&format!("links by {order:?}"), &evaluated.links(order, 0)))
        .into();
    let congestion = evaluated.congestion(hub);
    answers.push(answer("trees", &congestion.trees.rows()));
    answers.push(answer("regions", &congestion.regions.regions(&[], None)));
    answers.push(answer(
        "errors",
        &evaluated.errors(&Thresholds::default()).rows(),
    ));
    answers
}

/// Compares a hub that has all records in memory with some that have the first slots only in an
/// archive, and the later ones only in memory. Each seam has the first slot that is not in the
/// archive and the first one in memory.
#[test]
fn archive_continues_the_memory_without_a_seam() {
    let lines = lines();
    let slot_of = |line: &String| {
        serde_json::from_str::<Json>(line)
            .ok()
            .and_then(|line| line["slot"].as_u64())
            .unwrap_or(0)
    };
    let select = |is: &dyn Fn(u64) -> bool| {
        lines
            .iter()
            .filter(|line| is(slot_of(line) - START))
            .cloned()
            .collect::<Vec<String>>()
    };
    let whole = hub(&[lines.join("\n") + "\n"]);
    whole.tick(Clock::start().now());
    let ranges = [(10, 190), (90, 170)];
    let all = |hub: &Hub| {
        [
            answers(hub),
            ranges
                .into_iter()
                .flat_map(|range| evaluations(hub, range))
                .collect(),
        ]
        .concat()
    };
    let expected = all(&whole);
    // At the seams: usual records, a port that is silent, a gap, and the reset of a counter.
    // Records that are in the archive and in memory count once.
    for (in_archive, in_memory) in [
        (30, 30),
        (60, 60),
        (93, 93),
        (120, 120),
        (140, 110),
        (SLOTS, 61),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("archive");
        pack(&root, &select(&|slot| slot < in_archive));
        let split = hub(&[select(&|slot| slot >= in_memory).join("\n") + "\n"])
            .with_archive(Some(Archive::new(root)));
        split.tick(Clock::start().now());
        let to_seam = (5, in_memory + 1);
        let found = [all(&split), evaluations(&split, to_seam)].concat();
        let expected = [&expected[..], &evaluations(&whole, to_seam)].concat();
        assert_eq!(found.len(), expected.len());
        for ((question, found), (_, expected)) in found.iter().zip(&expected) {
            assert!(
                found == expected,
                "{question}, archive to {in_archive}, memory from {in_memory}"
            );
        }
        let before = split.archive.as_ref().and_then(Archive::first_ns);
        assert_eq!(
            before,
            Some(START * SECOND / 3_600_000_000_000 * 3_600_000_000_000)
        );
    }
}

#[test]
fn hours_with_only_means_of_minutes_are_shown() {
    // The records of the first hour are removed. The archive always keeps the newest hour.
    let record = |slot: u64| record(2, (1, 2), (0x102, 1), slot, false).expect("a record");
    let old: Vec<String> = (START..START + 180).map(record).collect();
    let new: Vec<String> = (START + 7200..START + 7210).map(record).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("archive");
    pack(&root, &[&old[..], &new].concat());
    let keep = [ibnet_store::retain::Keep::of_age("ports=1h").expect("a rule")];
    let removed = ibnet_store::retain::retain(&root, &keep, (START + 86_400) * SECOND, false)
        .expect("removed");
    assert_eq!(removed.iter().map(|removed| removed.files).sum::<u64>(), 1);
    let hub = hub(&[new.join("\n") + "\n"]).with_archive(Some(Archive::new(root)));
    hub.tick(Clock::start().now());
    let first = hub.archive.as_ref().and_then(Archive::first_ns);
    assert_eq!(
        first,
        Some(START * SECOND / 3_600_000_000_000 * 3_600_000_000_000)
    );
    let found = find(&hub, (1, 2), "xmit_utilization", As::Total, None);
    let minutes = (START + 180) / 60 - START / 60 + 1;
    let values: Vec<f64> = found["v"]
        .as_array()
        .expect("values")
        .iter()
        .filter_map(Json::as_f64)
        .collect();
    assert_eq!(
        values,
        vec![0.15; minutes as usize],
        "one mean for each minute: {found}"
    );
    let last = found["t"].as_array().and_then(|t| {
        t.iter()
            .filter_map(Json::as_u64)
            .filter(|t| *t < (START + 180) * SECOND)
            .max()
    });
    assert_eq!(
        last,
        Some((START + 179) * SECOND + 2 * 7_000_003),
        "the time of the last record"
    );
    // A matrix of this time has no column without a value, except before the first record.
    let (from, to) = ((START + 10) * SECOND, (START + 170) * SECOND);
    let metric = heat::METRICS[0];
    let octets = heat::find(
        &hub,
        Request {
            metric,
            join: Join::Mean,
            from,
            to,
            step: Some(10 * SECOND),
        },
    )
    .expect("a matrix");
    let index = hub
        .read()
        .topology
        .find((Guid(1), PortNum(2)))
        .expect("a port");
    let rows = hub.read().topology.ports.len();
    let number = |column: usize| {
        u16::from_le_bytes([
            octets[32 + 2 * (column * rows + index)],
            octets[33 + 2 * (column * rows + index)],
        ])
    };
    assert!(
        (0..16).all(|column| number(column) == (0.15 * f64::from(FULL)) as u16),
        "{octets:?}"
    );
}

#[test]
fn range_before_the_records_begins_with_the_oldest_one() {
    let hub = hub(&[lines().join("\n") + "\n"]);
    let range = |from: u64, to: u64| {
        Evaluations::default()
            .find(
                &hub,
                ((START - 500 + from) * SECOND, (START - 500 + to) * SECOND),
            )
            .expect("evaluated")
            .range
    };
    assert_eq!(range(100, 600), (START * SECOND, (START + 100) * SECOND));
    assert_eq!(
        range(100, 200),
        ((START - 300) * SECOND, (START - 300) * SECOND),
        "nothing is left of the range"
    );
}
