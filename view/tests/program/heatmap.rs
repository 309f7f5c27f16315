//! Runs `ibnet-view heatmap`, `latency` and `replay` on records with congestion, a silent port and
//! hostile names.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use tempfile::TempDir;

use super::run;

const SECOND: u64 = 1_000_000_000;
const SLOT: u64 = 1_795_262_400;
const SLOTS: u64 = 10;
const PORTS: u64 = 4;
/// A name with a terminal escape, a change of direction, a character that XML forbids, SVG markup
/// and a line end.
const HOSTILE: &str = r#"\u001b[31m\u202e\ufffe</text></svg><script>&\"'\r\nx"#;

/// Records of ten slots: port 2 is busy from slot 5 on, port 3 never answers, port 4 has no record
/// in slot 6.
fn lines() -> String {
    let mut text = format!(
        "{{\"type\":\"start\",\"ts\":{},\"slot\":{SLOT},\"sampler\":\"s\",\"interval_ns\":{SECOND},\"clock_ns\":25}}\n",
        SLOT * SECOND
    );
    for slot in 0..SLOTS {
        for port in 1..=PORTS {
            if (slot, port) == (6, 4) {
                continue;
            }
            let ts = (SLOT + slot) * SECOND + port * 1000;
            let gbps = if port == 2 && slot >= 5 { 95 } else { 1 };
            let fields = match port {
                3 => r#""status":"timeout","rtt_ns":0,"mads":1"#.to_owned(),
                _ => {
                    format!(
                        r#""status":"ok","rtt_ns":{},"mads":2,"dt_ns":{SECOND},"xmit_gbps":{gbps}.0,"xmit_blocked":0.5"#,
                        60_000 * port
                    )
                }
            };
            text += &format!(
                "{{\"type\":\"port\",\"ts\":{ts},\"slot\":{},\"sampler\":\"s\",\"guid\":\"0x0000000000000001\",\"port\":{port},\"lid\":1,\"node\":\"{HOSTILE}\",\"kind\":\"switch\",\"hops\":{port},\"peer_guid\":\"0x00000000000000{port}0\",\"peer_port\":1,\"peer\":\"n{port} mlx5_0\",\"link\":\"4xEDR\",{fields}}}\n",
                SLOT + slot
            );
        }
    }
    text
}

fn recorded() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lines.jsonl"), lines()).unwrap();
    dir
}

/// Returns width, height and pixels of a PNG.
fn pixels(path: &Path) -> (u32, u32, Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(Cursor::new(fs::read(path).unwrap()))
        .read_info()
        .unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    (
        info.width,
        info.height,
        bytes
            .chunks_exact(3)
            .map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect(),
    )
}

#[test]
fn output_onto_an_input_is_rejected_and_no_data_is_an_error() {
    let dir = recorded();
    for name in ["in.svg", "in.json"] {
        fs::copy(dir.path().join("lines.jsonl"), dir.path().join(name)).unwrap();
    }
    fs::hard_link(dir.path().join("in.json"), dir.path().join("link.json")).unwrap();
    let commands: [&[&str]; 6] = [
        &[
            "replay",
            "lines.jsonl",
            "--speed",
            "0",
            "-o",
            "./lines.jsonl",
        ],
        &["heatmap", "in.svg", "-o", "in.svg"],
        &["latency", "in*.svg", "-o", "in.svg"],
        &["map", "in.svg", "-o", "in.svg"],
        &["job", "in.json", "--nodes", "n1", "-o", "in.json"],
        &["replay", "in.json", "--speed", "0", "-o", "link.json"],
    ];
    for args in commands {
        let run = run(&dir, args);
        assert!(
            run.code == 1 && run.stderr.contains("it is also an input"),
            "{args:?}: {}",
            run.stderr
        );
    }
    for name in ["lines.jsonl", "in.svg", "in.json"] {
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), lines());
    }
    for args in [
        &["errors", "lines.jsonl", "--to", "1000"][..],
        &["links", "lines.jsonl", "--to", "1000"],
        &["job", "lines.jsonl", "--nodes", "no"],
    ] {
        let run = run(&dir, args);
        assert!(
            run.code == 1 && run.stderr.contains("cannot evaluate the records: "),
            "{args:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn heat_map_shows_large_values_in_the_last_colour() {
    let dir = recorded();
    let run = run(
        &dir,
        &[
            "heatmap",
            "lines.jsonl",
            "-o",
            "heat.png",
            "--range",
            "0..95",
        ],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(
        run.stderr.contains("max 95 Gb/s at ")
            && run.stderr.contains("22.5 % no answer, 5.0 % no record"),
        "{}",
        run.stderr
    );
    let (width, height, pixels) = pixels(&dir.path().join("heat.png"));
    assert!(width > 600 && height > 150, "{width} x {height}");
    // The last colour of viridis is also in one line of the colour bar.
    let hot = pixels
        .iter()
        .filter(|pixel| **pixel == [0xfd, 0xe7, 0x25])
        .count();
    assert!(hot > 5 * 100, "{hot} pixels are hot");
    assert!(
        pixels.contains(&[70, 70, 70]),
        "a port without answers is striped"
    );
}

#[test]
fn hostile_names_are_escaped_in_pictures_and_on_terminals() {
    let dir = recorded();
    let drawn = run(
        &dir,
        &[
            "heatmap",
            "lines.jsonl",
            "-m",
            "xmit_gbps,xmit_blocked",
            "-o",
            "heat.svg",
        ],
    );
    assert_eq!(drawn.code, 0, "{}", drawn.stderr);
    let text = fs::read_to_string(dir.path().join("heat.svg")).unwrap();
    assert!(
        !text.contains("<script")
            && text.matches("</svg>").count() == 1
            && !text.contains(['\u{1b}', '\u{202e}', '\u{fffe}'])
    );
    let mut reader = quick_xml::Reader::from_str(&text);
    while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
    let shown = run(&dir, &["heatmap", "lines.jsonl", "--terminal"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(
        !shown.stdout.contains('\u{1b}') && !drawn.stderr.contains('\u{1b}'),
        "{}",
        shown.stdout
    );
    let row = shown.stdout.lines().nth(2).unwrap();
    assert!(row.ends_with(" ·····█████"), "{row}");
}

#[test]
fn wrong_metric_is_a_wrong_argument() {
    let dir = recorded();
    for (metric, help) in [
        ("xmit_gbsp", "did you mean `xmit_gbps`?"),
        ("utilization", "did you mean `xmit_utilization`?"),
    ] {
        let wrong = run(
            &dir,
            &["heatmap", "lines.jsonl", "-m", metric, "-o", "heat.png"],
        );
        assert!(
            wrong.code == 2 && wrong.stderr.contains(help),
            "{}: {}",
            wrong.code,
            wrong.stderr
        );
    }
    for (metric, code) in [
        ("port_xmit_data_sl_bytes", 1),
        ("port_xmit_data_sl_bytes[x]", 2),
        ("XmitData", 2),
    ] {
        let wrong = run(
            &dir,
            &["heatmap", "lines.jsonl", "-m", metric, "-o", "heat.png"],
        );
        assert_eq!(wrong.code, code, "{metric}: {}", wrong.stderr);
    }
    assert!(!dir.path().join("heat.png").exists());
}

#[test]
fn every_panel_names_its_range() {
    let dir = recorded();
    let drawn = run(
        &dir,
        &[
            "heatmap",
            "lines.jsonl",
            "-m",
            "xmit_gbps,xmit_blocked,rtt_mean_ns",
            "--size",
            "900x700",
            "-o",
            "heat.svg",
        ],
    );
    assert_eq!(drawn.code, 0, "{}", drawn.stderr);
    let text = fs::read_to_string(dir.path().join("heat.svg")).unwrap();
    for range in [
        "0 to a full link (100 Gb/s)",
        "0 to all of the time (100 %)",
        "0 to the largest value (120 us)",
    ] {
        assert!(text.contains(range), "{range}: {text}");
    }
    let mean = run(
        &dir,
        &[
            "heatmap",
            "lines.jsonl",
            "--range",
            "mean",
            "--top",
            "2",
            "--sort",
            "value",
            "--terminal",
        ],
    );
    assert!(
        mean.stdout.contains("0 to mean + mean absolute deviation"),
        "{}",
        mean.stdout
    );
    assert_eq!(mean.stdout.lines().count(), 2 + 2, "{}", mean.stdout);
}

#[test]
fn all_jobs_of_a_slurm_file_are_reported_and_drawn() {
    let dir = recorded();
    let jobs =
        "JobID|State|Start|End|NodeList\n47|COMPLETED|2026-11-21T12:00:05|2026-11-21T12:00:08|n2\n";
    fs::write(dir.path().join("jobs.txt"), jobs).unwrap();
    let all = ["job", "lines.jsonl", "--all", "--slurm-file", "jobs.txt"];
    let of = |more: &[&str]| run(&dir, &[&all[..], more].concat());
    let drawn = of(&["--nodes", "n*", "--bin", "2s", "-o", "jobs.png"]);
    assert!(
        drawn.code == 0 && drawn.stdout.contains("no job"),
        "{}{}",
        drawn.stdout,
        drawn.stderr
    );
    assert!(
        pixels(&dir.path().join("jobs.png"))
            .2
            .contains(&[0, 114, 178]),
        "the first job is blue"
    );
    let json: serde_json::Value = serde_json::from_str(&of(&["--format", "json"]).stdout).unwrap();
    // The switch port of n2 sends 95 Gb/s, and receives nothing that is known.
    assert_eq!(
        (
            &json["rows"][0]["job"],
            &json["rows"][0]["nodes"][0]["host"]
        ),
        (&"47".into(), &"n2".into())
    );
    assert_eq!(
        json["rows"][0]["ejected_bytes"]
            .as_f64()
            .map(|bytes| (bytes * 8.0 / 1e9).round()),
        Some(3.0 * 95.0)
    );
    let csv = of(&["--format", "csv"]).stdout;
    assert!(
        csv.starts_with("from_ns,to_ns,job,start_ns,end_ns,injected_bytes,"),
        "{csv}"
    );
    let marked = run(
        &dir,
        &[
            "heatmap",
            "lines.jsonl",
            "--slurm-file",
            "jobs.txt",
            "-o",
            "heat.svg",
        ],
    );
    assert!(
        marked.code == 0
            && fs::read_to_string(dir.path().join("heat.svg"))
                .unwrap()
                .contains(">job 47<"),
        "{}",
        marked.stderr
    );
    assert_eq!(of(&["--bin", "soon"]).code, 2);
}

#[test]
fn invalid_lines_and_files_without_records_are_reported() {
    let dir = recorded();
    fs::write(
        dir.path().join("more.jsonl"),
        format!("{}nonsense\n", lines()),
    )
    .unwrap();
    fs::write(dir.path().join("none.jsonl"), "nonsense\n").unwrap();
    let run_more = run(&dir, &["heatmap", "more.jsonl", "-o", "heat.png"]);
    assert_eq!(run_more.code, 0, "{}", run_more.stderr);
    assert!(
        run_more
            .stderr
            .contains("1 of 41 lines are not records; the first is more.jsonl:41"),
        "{}",
        run_more.stderr
    );
    let all = run(&dir, &["heatmap", "*.jsonl", "-o", "heat.png"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    assert!(
        all.stderr
            .contains("warning   none.jsonl: it has no record (first line: "),
        "{}",
        all.stderr
    );
    assert!(
        all.stderr.contains("39 of 82 records are copies"),
        "{}",
        all.stderr
    );
    let failed = run(&dir, &["heatmap", "none.jsonl", "-o", "other.png"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, ""));
    assert!(
        failed.stderr.contains("none.jsonl: it has no record") && failed.stderr.contains("help: "),
        "{}",
        failed.stderr
    );
    assert!(!dir.path().join("other.png").exists());
    for wrong in [
        &["heatmap", "lines.jsonl"][..],
        &["heatmap", "lines.jsonl", "-o", "x.gif"],
        &["heatmap", "lines.jsonl", "-o", "x.png", "--range", "3"],
    ] {
        assert_eq!(run(&dir, wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn latency_is_reported_by_distance() {
    let dir = recorded();
    let latency = run(&dir, &["latency", "lines.jsonl", "-o", "latency.svg"]);
    assert_eq!(latency.code, 0, "{}", latency.stderr);
    // 30, 60 and 120 us, less the timer cost of 25 ns: ten, ten and nine values.
    let all: Vec<_> = latency
        .stdout
        .lines()
        .find(|line| line.starts_with("all "))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(all[..4], ["all", "29", "68.3", "us"], "{}", latency.stdout);
    for text in [
        "\n4 hops",
        "Timer cost: 25 ns, subtracted",
        "Least of a device: not known",
        "compound query     ",
    ] {
        assert!(latency.stdout.contains(text), "{text}: {}", latency.stdout);
    }
    assert!(
        fs::read_to_string(dir.path().join("latency.svg"))
            .unwrap()
            .contains("all values: density per decade")
    );
    let compared = run(
        &dir,
        &["latency", "--compare", "lines.jsonl", "lines.jsonl"],
    );
    assert!(
        compared.code == 0 && compared.stdout.contains("0.000"),
        "{}",
        compared.stdout
    );
}

#[test]
fn replayed_lines_have_current_times_and_the_same_values() {
    let dir = recorded();
    let replayed = run(&dir, &["replay", "lines.jsonl", "--speed", "0"]);
    assert_eq!(
        (replayed.code, replayed.stdout.lines().count()),
        (0, lines().lines().count()),
        "{}",
        replayed.stderr
    );
    assert!(
        !replayed.stdout.contains(&format!("\"slot\":{SLOT},")),
        "all slots are shifted"
    );
    fs::write(dir.path().join("again.jsonl"), &replayed.stdout).unwrap();
    // The first line has the times.
    let [old, new] = ["lines.jsonl", "again.jsonl"].map(|file| run(&dir, &["links", file]).stdout);
    assert_eq!(
        old.lines().skip(1).collect::<Vec<_>>(),
        new.lines().skip(1).collect::<Vec<_>>()
    );
    let kept = run(
        &dir,
        &["replay", "lines.jsonl", "--speed", "0", "--keep-times"],
    );
    assert_eq!(kept.stdout, lines());
}
