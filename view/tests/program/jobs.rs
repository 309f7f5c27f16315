//! Runs `ibnet-view jobs` and `ibnet-view job` with commands that print recorded output of Slurm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Writes a shell script into a folder.
fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a command that prints recorded output with the separator that its arguments request.
fn recorded(folder: &Path, name: &str, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/jobs")
        .join(file);
    // The separator is between the first two tildes of the arguments.
    let text = format!(
        "separator=$(echo \"$*\" | cut -d'~' -f2)\nsed \"s/~7d0e~/~$separator~/g\" '{}'",
        file.display()
    );
    script(folder, name, &text);
}

fn view(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-view"));
    command
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("TZ", "UTC")
        .current_dir(folder)
        .args(args);
    command
}

const FROM: &str = "1795340000";

fn rows(command: &mut Command) -> Vec<Value> {
    let document: Value =
        serde_json::from_slice(&command.assert().success().get_output().stdout).unwrap();
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn jobs_of_both_commands_are_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), "sacct", "slurm-22.05-sacct-delimiter.txt");
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    let rows = rows(&mut view(
        folder.path(),
        &["jobs", "--from", FROM, "--format", "json", "--hide-users"],
    ));
    let mut ids: Vec<&str> = rows
        .iter()
        .map(|row| row["job"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        ["1", "10_1", "10_2", "2", "3", "4_1", "4_2", "5", "7", "9"],
        "job 6 has not started"
    );
    assert!(rows.iter().all(|row| row["user"].is_null()));
    let solver = rows.iter().find(|row| row["job"] == "9").unwrap();
    assert_eq!(
        (&solver["name"], &solver["nodes"], &solver["end_ns"]),
        (&"solver".into(), &"node[001-004]".into(), &Value::Null)
    );
}

#[test]
fn without_accounting_the_table_still_has_history() {
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "sacct",
        "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    );
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    let kept = view(
        folder.path(),
        &["jobs", "--keep", "jobs.jsonl", "--from", FROM],
    )
    .assert()
    .success();
    assert_eq!(
        String::from_utf8_lossy(&kept.get_output().stdout),
        "jobs.jsonl: 10 new runs, 0 updated, 10 in all\n"
    );
    // All jobs have left the queue.
    script(
        folder.path(),
        "squeue",
        "echo 'JOBID|STATE|NODELIST|START_TIME'",
    );
    let kept = view(
        folder.path(),
        &["jobs", "--keep", "jobs.jsonl", "--from", FROM],
    )
    .assert()
    .success();
    assert_eq!(
        String::from_utf8_lossy(&kept.get_output().stdout),
        "jobs.jsonl: 0 new runs, 3 updated, 10 in all\n"
    );
    let rows = rows(&mut view(
        folder.path(),
        &["jobs", "--slurm-file", "jobs.jsonl", "--format", "json"],
    ));
    let ended: Vec<&Value> = rows
        .iter()
        .filter(|row| row["end_is_lower_bound"] == true)
        .collect();
    assert_eq!(ended.len(), 3, "{rows:?}");
    assert!(
        ended
            .iter()
            .all(|row| row["state"] == "ended" && row["end_ns"].is_u64())
    );
}

#[test]
fn failure_of_slurm_names_the_command_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "sacct",
        "echo 'Unable to contact slurmdbd' >&2; exit 1",
    );
    script(
        folder.path(),
        "squeue",
        "echo 'Unable to contact slurm controller' >&2; exit 1",
    );
    let failed = view(folder.path(), &["jobs"]).assert().code(1);
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    for part in [
        "cannot ask for jobs: `sacct -X",
        "exit status: 1",
        "Unable to contact slurmdbd",
        "--slurm-file",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn job_is_asked_of_both_commands_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), "").unwrap();
    let error = || {
        let failed = view(folder.path(), &["job", "lines.jsonl", "--slurm", "9"])
            .assert()
            .failure();
        String::from_utf8_lossy(&failed.get_output().stderr).into_owned()
    };
    // sacct ends after squeue has started.
    script(
        folder.path(),
        "sacct",
        "until [ -e started ]; do sleep 0.01; done; echo 'Unable to contact slurmdbd' >&2; exit 1",
    );
    recorded(folder.path(), "queued", "slurm-22.05-squeue-delimiter.txt");
    script(
        folder.path(),
        "squeue",
        "touch started; exec ./queued \"$@\"",
    );
    let text = error();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
    // An answer of sacct is enough.
    recorded(folder.path(), "sacct", "slurm-22.05-sacct-delimiter.txt");
    script(folder.path(), "squeue", "exec sleep 600");
    let text = error();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
}

#[test]
fn other_jobs_have_their_own_time_after_a_command_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), "").unwrap();
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    recorded(
        folder.path(),
        "accounting",
        "slurm-22.05-sacct-delimiter.txt",
    );
    // The question for one job takes all of its 30 s.
    script(
        folder.path(),
        "sacct",
        "case \" $* \" in *' -j '*) exec sleep 600;; esac; exec ./accounting \"$@\"",
    );
    let failed = view(folder.path(), &["job", "lines.jsonl", "--slurm", "9"])
        .assert()
        .failure();
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
}

/// Two hosts of one leaf switch, of which n1 sends 8 Gb/s to n2 for four seconds.
fn pair(folder: &Path) {
    let mut text = String::new();
    for second in 1..=4_u64 {
        let mut port = |guid: u64,
                        port: u8,
                        node: &str,
                        kind: &str,
                        peer: (u64, u8, &str),
                        gbps| {
            let (peer_guid, peer_port, peer) = peer;
            let (xmit, rcv): (f64, f64) = gbps;
            let line = serde_json::json!({
                "type": "port", "ts": (START + second) * 1_000_000_000, "slot": START + second, "sampler": "s",
                "guid": format!("{guid:#018x}"), "port": port, "lid": guid, "node": node, "kind": kind, "hops": 1,
                "peer_guid": format!("{peer_guid:#018x}"), "peer_port": peer_port, "peer": peer, "link": "4xEDR",
                "link_source": "live", "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok",
                "dt_ns": 1_000_000_000, "xmit_gbps": xmit, "rcv_gbps": rcv, "xmit_blocked": 0.25,
            });
            text += &format!("{line}\n");
        };
        let (leaf, sends, receives) = (9, (8.0, 0.0), (0.0, 8.0));
        port(1, 1, "n1 mlx5_0", "hca", (leaf, 1, "leaf"), sends);
        port(2, 1, "n2 mlx5_0", "hca", (leaf, 2, "leaf"), receives);
        port(leaf, 1, "leaf", "switch", (1, 1, "n1 mlx5_0"), receives);
        port(leaf, 2, "leaf", "switch", (2, 1, "n2 mlx5_0"), sends);
    }
    fs::write(folder.join("lines.jsonl"), text).unwrap();
    let routes = "Unicast lids [0x0-0x9] of switch Lid 9 guid 0x0000000000000009 (leaf):\n\
                  0x0001 001 : (Channel Adapter portguid 0x0000000000000001: 'n1')\n\
                  0x0002 002 : (Channel Adapter portguid 0x0000000000000002: 'n2')\n";
    fs::write(folder.join("routes.txt"), routes).unwrap();
    // The table as it was before, as at the time of the job, and as it was later.
    let table = |ts: u64, ports: [u8; 3]| {
        let line = serde_json::json!({
            "type": "routes", "ts": ts * 1_000_000_000, "slot": ts, "sampler": "s", "guid": format!("{:#018x}", 9),
            "lid": 9, "node": "leaf", "table": "linear", "top": 2, "first_lid": 0, "ports": ports,
        });
        format!("{line}\n")
    };
    let tables = [
        table(START - 1800, [255, 2, 1]),
        table(START - 60, [255, 1, 2]),
        table(START + 600, [255, 2, 1]),
    ];
    fs::write(folder.join("routes.jsonl"), tables.concat()).unwrap();
}

const START: u64 = 1_795_262_400;

#[test]
fn routes_of_the_time_of_a_job_are_read_from_lines_and_from_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    pair(folder.path());
    let packed = view(folder.path(), &["pack", "routes.jsonl", "-o", "archive"]);
    { packed }.assert().success();
    let range = [START.to_string(), (START + 10).to_string()];
    let matrix = |rest: &[&str]| {
        let args = ["job", "lines.jsonl", "--nodes", "n[1-2]", "--matrix"];
        let times = ["--from", &range[0], "--to", &range[1], "--format", "json"];
        view(folder.path(), &[&args[..], &times, rest].concat())
    };
    let with = |routes: &str| rows(&mut matrix(&["--routes", routes]));
    let of_file = with("routes.txt");
    assert_eq!(of_file.len(), 1, "{of_file:?}");
    assert_eq!(with("routes.jsonl"), of_file);
    assert_eq!(with("archive"), of_file);
    let line = |time: u64, switch: u8, more: &str| {
        let ts = (START + time) * 1_000_000_000;
        let guid = format!("{switch:#018x}");
        format!(r#"{{"type":"routes","ts":{ts},"sampler":"s","guid":"{guid}",{more}}}"#)
    };
    let table = r#""table":"linear","top":2,"first_lid":0,"ports":[255,1,2]"#;
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("other-8.jsonl", &line(0, 8, table));
    write("other-9.jsonl", &line(0, 9, table));
    write("later.jsonl", &line(600, 9, table));
    assert_eq!(with("other-*.jsonl"), of_file);
    let each = ["--routes", "other-8.jsonl", "--routes", "other-9.jsonl"];
    assert_eq!(rows(&mut matrix(&each)), of_file);
    assert_eq!(rows(&mut matrix(&["other-*.jsonl"])), of_file);
    let message = |command: &mut Command, code| {
        let done = command.assert().code(code);
        String::from_utf8_lossy(&done.get_output().stderr).into_owned()
    };
    let path = |file: &str| view(folder.path(), &["path", "n1", "n2", "lines.jsonl", file]);
    path("other-9.jsonl").assert().success();
    let text = message(&mut path("other-8.jsonl"), 1);
    assert!(text.contains("there is no table of leaf"), "{text}");
    let text = message(&mut matrix(&["--routes", "other-8.jsonl"]), 0);
    assert!(text.contains("no forwarding table of leaf;"), "{text}");
    let text = message(&mut matrix(&["--routes", "later.jsonl"]), 1);
    let expected = "no forwarding table in later.jsonl from 2026-11-21 12:00:00 to 2026-11-21";
    assert!(text.contains(expected), "{text}");
    // Records that show adaptive routing are used only if they are given, or needed.
    let adaptive = line(
        1,
        9,
        r#""table":"round","top":2,"ar_enabled":1,"ar_sl_mask":1"#,
    );
    write(
        "adaptive.jsonl",
        &format!("{}\n{adaptive}\n", line(0, 9, table)),
    );
    let jobs = "JobID|State|Start|End|NodeList\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:00:10|n[1-2]\n";
    write("jobs", jobs);
    let method = |file: &str| {
        let args = [
            "job",
            "lines.jsonl",
            file,
            "--slurm",
            "7",
            "--slurm-file",
            "jobs",
        ];
        let args = [&args[..], &["--format", "json"]].concat();
        rows(&mut view(folder.path(), &args))[0]["sharing"]["method"].clone()
    };
    assert_eq!(
        (method("other-9.jsonl"), method("adaptive.jsonl")),
        ("routes".into(), "leaf_links".into())
    );
    assert_eq!(rows(&mut matrix(&["adaptive.jsonl"])), of_file);
    let args = ["job", "lines.jsonl", "--nodes", "n1", "--routes"];
    let failed = view(folder.path(), &[&args[..], &["lines.jsonl"]].concat())
        .assert()
        .code(1);
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(
        text.contains("records of a sweep with `[routes]`"),
        "{text}"
    );
}

#[test]
fn matrix_of_a_single_pair_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    pair(folder.path());
    let args = [
        "job",
        "lines.jsonl",
        "--nodes",
        "n[1-2]",
        "--routes",
        "routes.txt",
        "--matrix",
    ];
    let rows = rows(&mut view(
        folder.path(),
        &[&args[..], &["--format", "json"]].concat(),
    ));
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(
        [&row["from"], &row["to"], &row["from_leaf"]],
        ["n1", "n2", "leaf"]
    );
    // 8 Gb/s for four seconds, and bounds with a margin of 5 %.
    let bytes = ["least_bytes", "estimate_bytes", "most_bytes"];
    assert_eq!(
        bytes.map(|name| (row[name].as_f64().unwrap() / 1e7).round()),
        [380.0, 400.0, 420.0]
    );
    let text = view(folder.path(), &[&args[..], &["-o", "m.svg"]].concat())
        .assert()
        .success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(
        text.contains("n1    n2  3.800 GB  4.000 GB  4.200 GB"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let svg = fs::read_to_string(folder.path().join("m.svg")).unwrap();
    assert!(
        svg.contains(">n1 (1)<") && svg.contains(">n2 (2)<"),
        "{svg}"
    );
    view(
        folder.path(),
        &["job", "lines.jsonl", "--nodes", "n1", "--matrix"],
    )
    .assert()
    .code(1);
}

#[test]
fn phases_are_added_up_by_name_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    pair(folder.path());
    let marks = format!(
        "name,start,end,nodes,value\nwrite,{START},{}.5,n1,3\nwrite,{},{},,4\nidle,{},,n9,\n",
        START + 1,
        START + 3,
        START + 4,
        START + 1
    );
    fs::write(folder.path().join("marks.csv"), marks).unwrap();
    let job = [
        "job",
        "lines.jsonl",
        "--nodes",
        "n[1-2]",
        "--marks",
        "marks.csv",
    ];
    let text = view(folder.path(), &[&job[..], &["-o", "p.svg"]].concat())
        .assert()
        .success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    // n1 sent 1 GB a second, for 1.5 s and for 1 s. Its port and that of n2 were blocked a quarter.
    let row = text.lines().find(|line| line.starts_with("write")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "write", "2", "2.5", "2.500", "GB", "1.000", "GB", "0.9", "s", "0.3500", "7"
        ],
        "{text}"
    );
    assert!(!text.contains("idle"), "{text}");
    let svg = fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(svg.contains(">Phases<") && svg.contains(">Value of the phases<"));
    // All hosts, one job of n1, and a group without the host of the first phase.
    let jobs = format!("job,nodes,start,end\n7,n1,{START},{}\n", START + 1);
    fs::write(folder.path().join("jobs.csv"), jobs).unwrap();
    let marked = ["--slurm-file", "jobs.csv", "--marks", "marks.csv"];
    let all = [&["job", "lines.jsonl", "--all"], &marked[..]].concat();
    let text = view(folder.path(), &all).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.lines().any(|line| line == row), "{row}: {text}");
    let group = [&["job", "lines.jsonl", "--group", "g=n2"], &marked[..]].concat();
    let of = |args: &[&str]| {
        let rows = rows(&mut view(
            folder.path(),
            &[args, &["--format", "json"]].concat(),
        ));
        let phases = rows[0]["phases"].as_array().unwrap().clone();
        let gigabytes =
            |phase: &Value, field: &str| (phase[field].as_f64().unwrap() / 1e8).round() / 10.0;
        let sums = phases.iter().map(|phase| {
            let bytes = ["injected_bytes", "ejected_bytes"].map(|field| gigabytes(phase, field));
            (phase["name"].clone(), phase["nodes"].clone(), bytes)
        });
        sums.collect::<Vec<_>>()
    };
    let phase = |name: &str, bytes| (name.into(), 1.into(), bytes);
    assert_eq!(of(&all), [phase("write", [1.0, 0.0])]);
    assert_eq!(
        of(&group),
        [
            phase("write", [0.0, 1.5]),
            phase("write", [0.0, 1.0]),
            phase("idle", [0.0, 3.0])
        ]
    );
    let text = view(folder.path(), &group).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.contains("2.500 GB"), "{text}");
    view(
        folder.path(),
        &[
            "heatmap",
            "lines.jsonl",
            "--by",
            "host",
            "--marks",
            "marks.csv",
            "-o",
            "h.svg",
        ],
    )
    .assert()
    .success();
    let svg = fs::read_to_string(folder.path().join("h.svg")).unwrap();
    assert!(svg.contains(">write<"), "{svg}");
    fs::write(folder.path().join("marks.csv"), "name,start\nwrite,soon\n").unwrap();
    let failed = view(folder.path(), &job).assert().failure();
    let stderr = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(
        stderr.contains("cannot read the mark at marks.csv:2")
            && stderr.contains("name,start,end,nodes,value"),
        "{stderr}"
    );
}

#[test]
fn compared_runs_are_drawn_as_dots() {
    let folder = tempfile::tempdir().unwrap();
    pair(folder.path());
    let run = |id: u64| format!("{id},n1,{START},{},COMPLETED,x\n", START + id);
    let jobs: String = (2..=4).map(run).collect();
    let jobs = format!("job,nodes,start,end,state,name\n{jobs}");
    fs::write(folder.path().join("jobs.csv"), jobs).unwrap();
    let job = ["job", "lines.jsonl", "--slurm", "3", "--slurm-file"];
    let compare = ["jobs.csv", "--compare", "x", "-o", "runs.svg"];
    view(folder.path(), &[&job[..], &compare].concat())
        .assert()
        .success();
    let svg = fs::read_to_string(folder.path().join("runs.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
    for part in [
        ">Job 3 and 2 other runs<",
        "Spearman 1.00, p = 0.333",
        ">4<",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

#[test]
fn imported_recording_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "#Time,Time_usec,ProducerName,ib.port_xmit_data#mlx5_0.1\n".to_owned();
    for second in 0..4 {
        // 1 GB a second in words of 4 bytes.
        text += &format!("{}.1,100000,n1,{}\n", START + second, second * 250_000_000);
    }
    fs::write(folder.path().join("sysclassib.1"), text).unwrap();
    view(
        folder.path(),
        &["import", "sysclassib.1", "-o", "old.jsonl"],
    )
    .assert()
    .success();
    let rows = rows(&mut view(
        folder.path(),
        &["heatmap", "old.jsonl", "--by", "host", "--format", "json"],
    ));
    let cells = rows[0]["cells"].as_array().unwrap();
    let values: Vec<f64> = cells
        .iter()
        .filter_map(|cell| cell["value"].as_f64())
        .collect();
    assert_eq!(rows[0]["node"], "n1");
    assert!(
        values.len() >= 3 && values.iter().all(|gbps| (gbps - 8.0).abs() < 1e-6),
        "{rows:?}"
    );
}
