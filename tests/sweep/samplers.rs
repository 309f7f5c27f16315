//! One slot as a table, the summary, scenarios, and all samplers of a plan in one process.

use std::collections::BTreeSet;
use std::fs;

use ibnet::assignments::Assignments;
use ibnet_record::strict::{Line, Port};

use crate::program::{GEN, refused, run, run_program, swept_until};
use crate::stream::{Key, Slot, Stream, record};
use crate::{links, small};

#[test]
fn once_prints_one_row_a_port() {
    let dir = small();
    // Long times: on a busy machine a port would be late.
    let run = run(
        &dir,
        &[
            "--simulate",
            "net.p",
            "--once",
            "--interval",
            "1h",
            "--timeout",
            "10s",
            "--grace",
            "10s",
        ],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    let head = ["node", "port", "peer", "port", "link", "status"];
    assert_eq!(
        (rows.len(), &rows[0][..6]),
        (1 + 20 + 2, &head[..]),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("\n20 of 20 ports ok, "),
        "{}",
        run.stdout
    );
    // The counters have more digits if the slot takes longer.
    assert!(
        run.stdout.lines().all(|row| row.chars().count() <= 110),
        "{}",
        run.stdout
    );
    for (name, port) in [("leaf01", "5"), ("spine02", "2")] {
        assert_eq!(
            rows.iter()
                .filter(|row| row.starts_with(&[name, port]))
                .count(),
            1,
            "{}",
            run.stdout
        );
    }
    assert_eq!(rows.iter().filter(|row| row.contains(&"4xEDR")).count(), 20);
}

/// Makes a plan for two samplers, `plan.toml`, and returns the ports of each.
fn planned(dir: &tempfile::TempDir) -> [BTreeSet<Key>; 2] {
    let made = run_program(
        GEN,
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "node00001,node00004",
            "--cap",
            "12",
            "-o",
            "plan.toml",
        ],
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let plan = Assignments::read(&dir.path().join("plan.toml"))
        .unwrap()
        .assignments;
    let ports = |host: &str| {
        let devices = plan
            .samplers
            .iter()
            .filter(|sampler| sampler.host == host)
            .flat_map(|sampler| &sampler.devices);
        devices
            .flat_map(|device| device.ports.iter().map(|port| (device.guid, port.num)))
            .collect()
    };
    ["node00001", "node00004"].map(ports)
}

const ALL: [&str; 10] = [
    "--simulate",
    "net.p",
    "--assignments",
    "plan.toml",
    "--sampler",
    "all",
    "--interval",
    "100ms",
    "--sweeps",
    "3",
];

#[test]
fn all_samplers_of_a_plan_write_a_file_each() {
    let dir = small();
    let ports = planned(&dir);
    let run = run(
        &dir,
        &[&ALL[..], &["--summary", "-o", "out/demo/"]].concat(),
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    for (host, ports) in ["node00001", "node00004"].into_iter().zip(&ports) {
        let stream = Stream::read(
            &fs::read_to_string(dir.path().join(format!("out/demo/{host}.jsonl"))).unwrap(),
        );
        assert_eq!(
            (stream.start.sampler.as_str(), stream.slots.len()),
            (host, 3)
        );
        stream.assert_covers(ports);
    }
    assert_eq!(
        fs::read_dir(dir.path().join("out/demo")).unwrap().count(),
        2
    );
    assert_eq!(
        ports.iter().flatten().copied().collect::<BTreeSet<Key>>(),
        links(&dir).into_keys().collect()
    );
    assert!(
        run.stderr.contains("20 on 2 samplers") && run.stderr.contains("3 each, "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("records  60: ")
            && run.stderr.contains("MADs")
            && run.stderr.contains("p50 "),
        "{}",
        run.stderr
    );
}

#[test]
fn all_samplers_share_an_output_that_is_not_a_folder() {
    let dir = small();
    planned(&dir);
    let run = run(&dir, &ALL);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (mut starts, mut sweeps) = (BTreeSet::new(), 0);
    for line in run.stdout.lines().map(record) {
        match line {
            Line::Start(start) => assert!(starts.insert(start.sampler)),
            Line::Sweep(sweep) => {
                sweeps += 1;
                assert!(
                    starts.contains(&sweep.sampler),
                    "a start record comes first"
                );
            }
            _ => {}
        }
    }
    assert_eq!(
        (starts.into_iter().collect::<Vec<_>>(), sweeps),
        (vec!["node00001".to_owned(), "node00004".to_owned()], 6)
    );
}

#[test]
fn all_samplers_need_a_plan_and_a_simulated_fabric() {
    let dir = small();
    planned(&dir);
    let without_fabric = run(&dir, &["--assignments", "plan.toml", "--sampler", "all"]);
    assert!(
        without_fabric.code == 2 && without_fabric.stderr.contains("--simulate FILE"),
        "{}",
        without_fabric.stderr
    );
    let without_plan = run(&dir, &["--simulate", "net.p", "--sampler", "all"]);
    assert!(
        without_plan.code == 2 && without_plan.stderr.contains("--assignments FILE"),
        "{}",
        without_plan.stderr
    );
    let mixed = "[[output]]\ntype = \"file\"\npath = \"out/\"\n[[output]]\ntype = \"file\"\npath = \"lines\"\n";
    fs::write(dir.path().join("ibnet.toml"), mixed).unwrap();
    refused(
        &run(&dir, &[&ALL[..], &["-c", "ibnet.toml"]].concat()),
        "cannot combine the outputs",
        "DIR/",
    );
}

#[test]
fn one_sampler_may_write_into_a_folder() {
    let dir = small();
    let run = run(
        &dir,
        &[
            "--simulate",
            "net.p",
            "--sampler",
            "here",
            "--interval",
            "100ms",
            "--sweeps",
            "1",
            "-o",
            "out/",
        ],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    Stream::read(&fs::read_to_string(dir.path().join("out/here.jsonl")).unwrap());
}

#[test]
fn incast_fills_the_link_to_the_server_while_it_lasts() {
    let dir = small();
    let config =
        "simulate = \"net.p\"\n[simulated]\nscenario = \"incast\"\nscenario_start = \"0s\"\n";
    fs::write(dir.path().join("ibnet.toml"), config).unwrap();
    let args = ["-c", "ibnet.toml", "--interval", "200ms"];
    // The largest share of a link. The counters were read at some time before the end of the round
    // trip, so on a busy machine they can be those of a longer time.
    let busiest = |stream: &Stream| {
        let of = |pair: &[Slot]| {
            let share = |(key, port): (&Key, &Port)| {
                let (share, dt) = (port.xmit_utilization?, port.dt_ns?);
                Some(share * dt as f64 / (dt + pair[0].ports[key].rtt_ns) as f64)
            };
            pair[1].ports.iter().filter_map(share).reduce(f64::max)
        };
        stream.slots.windows(2).filter_map(of).reduce(f64::max)
    };
    // Fails after the time of a hanging program if no link becomes full.
    swept_until(&dir, &args, |stream| busiest(stream) > Some(0.95));
    fs::write(
        dir.path().join("ibnet.toml"),
        config.replace("\"0s\"", "\"1h\""),
    )
    .unwrap();
    let idle = swept_until(&dir, &args, |stream| {
        stream.slots.len() >= 4 && busiest(stream).is_some()
    });
    assert!(busiest(&idle) < Some(0.5), "the incast has not begun");
}
