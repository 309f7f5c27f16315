//! Recordings in which wrong numbers of the viewer were found: missed slots, two samplers for each
//! port while the plan changes, silent devices, full counters, and clocks that are set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ibnet::mad::transport::sim::faults::Faults;
use serde_json::Value;
use tempfile::TempDir;

use crate::recording::Disturbance;
use crate::{
    HOSTS, assert_disturbed, assert_equal, faults, files, lines, option, plan, record, slurm, stop,
    times, value, view,
};

/// Part of each configuration: the traffic.
const INCAST: &str = r#"
[simulated]
scenario = "incast"
scenario_start = "1s"
scenario_length = "1500ms"
loss = 0.002
seed = 11
"#;

/// A recording and what is compared.
struct Found<'a> {
    /// Interval, groups and other keys of `ibnet.toml`.
    config: &'a str,
    /// Samplers of each plan, two for each port. Without a plan, one sampler has all ports.
    samplers: &'a [&'a str],
    slots: u64,
    faults: Faults,
    disturbed: &'a [(&'a str, u64, Disturbance)],
    /// Statuses and events that the recording must have.
    contains: &'a [&'a str],
    heats: &'a [&'a str],
}

impl Found<'_> {
    /// Records, and asserts that the script and the viewer agree about the whole recording and
    /// about a part that begins and ends within slots.
    fn assert_recomputed(&self, name: &str) -> (TempDir, Vec<PathBuf>) {
        let (folder, view) = (tempfile::tempdir().unwrap(), view());
        let dir: &Path = folder.path();
        let plans: Vec<String> = self
            .samplers
            .iter()
            .map(|samplers| plan(dir, samplers))
            .collect();
        let config = format!("{}{INCAST}", self.config);
        record(
            &dir.join("found"),
            &config,
            &plans,
            self.slots,
            Duration::ZERO,
            self.faults,
            self.disturbed,
        );
        let files = files(dir, &["found"]);
        assert_disturbed(&files, self.contains);
        let (first, last) = times(&files);
        let mut options = vec![
            option("hosts", HOSTS),
            option("jobs", slurm(dir, first, last).display()),
            option("window", "-,-"),
        ];
        options.push(option(
            "window",
            format!(
                "{},{}",
                first + (last - first) / 5 + 1,
                last - (last - first) / 40
            ),
        ));
        options.push(option("group", "storage=node00013,node00016,gone2"));
        options.extend(self.heats.iter().map(|heat| option("heat", heat)));
        assert_equal(&view, &options, &files, name);
        (folder, files)
    }
}

#[test]
fn numbers_are_recomputed_if_one_slot_of_twelve_is_missed_at_10_hz() {
    let missed = [
        ("here", 9, stop(0, 1.0)),
        ("here", 17, stop(0, 1.0)),
        ("here", 27, stop(400, 1.3)),
    ];
    let found = Found {
        config: "interval = \"100ms\"\ngroups = [\"extended\", \"base/4\", \"xmtdisc/10\"]",
        samplers: &[],
        slots: 32,
        faults: faults(7),
        disturbed: &missed,
        contains: &["status ok", "status late", "event slot_missed"],
        heats: &["xmit_gbps,xmit_blocked,port_rcv_data_bytes,errors/host"],
    };
    found.assert_recomputed("10 Hz");
}

#[test]
fn numbers_are_recomputed_from_two_samplers_of_each_port_while_the_plan_changes() {
    let found = Found {
        config: "interval = \"250ms\"\ngroups = [\"extended\", \"base\"]",
        samplers: &["node00001,node00005", "node00001,node00009"],
        slots: 24,
        faults: faults(9),
        disturbed: &[("node00001", 6, stop(500, 1.2))],
        contains: &["status ok", "status late", "event slot_missed"],
        heats: &["xmit_gbps,port_xmit_pkts/port"],
    };
    found.assert_recomputed("plan change");
}

#[test]
fn numbers_are_recomputed_if_a_switch_dies_and_a_sampler_stops_for_three_slots() {
    let died = Disturbance {
        answers: &[("leaf02", false), ("node00016", false)],
        ..Disturbance::default()
    };
    let resumed = Disturbance {
        answers: &[("node00016", true)],
        ..Disturbance::default()
    };
    let of_host = |host| [(host, 6, died), (host, 12, resumed)];
    let disturbed = [
        &of_host("node00001")[..],
        &of_host("node00005"),
        &[("node00005", 15, stop(0, 3.0))],
    ]
    .concat();
    let found = Found {
        config: "interval = \"250ms\"\ngroups = [\"extended\", \"base\", \"rcverr/3\"]",
        samplers: &["node00001,node00005"],
        slots: 22,
        faults: faults(9),
        disturbed: &disturbed,
        contains: &[
            "status unreachable",
            "event unreachable",
            "event reachable",
            "event slot_missed",
        ],
        heats: &["xmit_gbps,rtt_ns,errors/switch", "port_rcv_data_bytes/host"],
    };
    found.assert_recomputed("dead switch");
}

#[test]
fn numbers_are_recomputed_from_full_counters_and_late_replies() {
    let found = Found {
        config: "interval = \"250ms\"\ngroups = [\"base\", \"xmtsl\"]",
        samplers: &[],
        slots: 26,
        faults: Faults {
            delayed: 0.1,
            ..faults(9)
        },
        disturbed: &[
            ("here", 5, stop(200, 0.3)),
            ("here", 11, stop(0, 0.6)),
            ("here", 19, stop(700, 1.1)),
        ],
        contains: &["status ok", "status late", "status timeout"],
        heats: &[
            "xmit_gbps,port_xmit_data_bytes,port_xmit_wait_ticks/host",
            "port_xmit_data_sl_bytes/sl",
        ],
    };
    found.assert_recomputed("full counters");
}

#[test]
fn numbers_are_recomputed_if_the_clock_of_a_sampler_is_set() {
    let step = |seconds: i64| Disturbance {
        clock_step_ns: seconds * 1_000_000_000,
        ..Disturbance::default()
    };
    let found = Found {
        config: "interval = \"250ms\"\ngroups = [\"extended\", \"base\"]",
        samplers: &[],
        slots: 24,
        faults: faults(9),
        disturbed: &[("here", 5, step(3)), ("here", 14, step(-2))],
        contains: &["status ok", "event clock_step"],
        heats: &["xmit_gbps,port_rcv_data_bytes,errors/port"],
    };
    let (_folder, files) = found.assert_recomputed("clock steps");
    // The file has the records in the order in which they were made, whatever their times are.
    let records: Vec<_> = lines(&files[0]).iter().map(|line| value(line)).collect();
    let of_host = |record: &&Value| {
        record["type"] == "port" && record["node"].as_str().unwrap().starts_with("node00005")
    };
    let sent: Vec<u64> = records
        .iter()
        .filter(of_host)
        .filter_map(|record| record["port_xmit_data_bytes"].as_u64())
        .collect();
    assert!(sent.is_sorted() && sent.len() > 20, "{sent:?}");
    let job = Command::new(view())
        .arg("job")
        .args(&files)
        .args(["--nodes", "node00005", "--format", "json"])
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&job.stdout).unwrap();
    // The switch port was read some milliseconds before the first and after the last reading of the
    // HCA port, and fills in for this time.
    let (bytes, grown) = (
        shown["rows"][0]["injected_bytes"].as_f64().unwrap(),
        (sent[sent.len() - 1] - sent[0]) as f64,
    );
    assert!(
        (grown..grown * 1.001).contains(&bytes),
        "{bytes} of {grown}"
    );
}
