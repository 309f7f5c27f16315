//! Runs `ibnet-gen` as an administrator would, in its own directory.
#![expect(
    clippy::unwrap_used,
    reason = "a test's failure is the message; clippy does not see that this whole file is one"
)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use ibnet::assignments::{Assignments, sha256_hex};
use ibnet::topology::synthetic;
use tempfile::TempDir;

const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

/// Returns a directory with the fabric of the paper in `net.p`.
fn stria() -> TempDir {
    with_net(synthetic::stria().ports_report().as_bytes())
}

fn with_net(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), bytes).unwrap();
    dir
}

/// The result of a run.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(dir: &Path, args: &[&str], stdin: &[u8]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir)
        .args(args)
        .write_stdin(stdin)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs the usual command on `net.p`.
fn generate(dir: &TempDir, samplers: &str) -> Run {
    run(
        dir.path(),
        &["--net", "net.p", "--samplers", samplers, "-o", "out.toml"],
        b"",
    )
}

/// Asserts exit code 1, one message with a remedy, and no written file.
#[track_caller]
fn rejected(dir: &TempDir, run: &Run, message: &str, help: &str) {
    rejected_with(1, dir, run, message, help);
}

/// Asserts an exit code, one message with a remedy, and no written file.
#[track_caller]
fn rejected_with(code: i32, dir: &TempDir, run: &Run, message: &str, help: &str) {
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (code, ""),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.starts_with("error: ") && run.stderr.matches("error: ").count() == 1,
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains(message),
        "{message:?} is not in {}",
        run.stderr
    );
    assert!(
        run.stderr
            .split_once("\nhelp: ")
            .is_some_and(|(_, found)| found.contains(help)),
        "{help:?} is not the help of {}",
        run.stderr
    );
    assert!(!run.stderr.contains("panicked"));
    let names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| name == "net.p" || name == "samplers"),
        "{names:?}"
    );
}

fn assigned(dir: &TempDir) -> Assignments {
    Assignments::read(&dir.path().join("out.toml"))
        .unwrap()
        .assignments
}

fn ports(assignments: &Assignments) -> Vec<u32> {
    assignments
        .samplers
        .iter()
        .map(|sampler| sampler.port_count)
        .collect()
}

fn row<'a>(stderr: &'a str, sampler: &str) -> Vec<&'a str> {
    let row = stderr
        .lines()
        .find(|line| line.starts_with(&format!(" {sampler} ")))
        .unwrap_or_else(|| panic!("no row in {stderr}"));
    row.split_whitespace().collect()
}

#[test]
fn paper_fabric_is_planned_on_eight_samplers() {
    let dir = stria();
    let run = generate(&dir, EIGHT);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let assignments = assigned(&dir);
    assert_eq!(
        (assignments.cap, ports(&assignments).iter().sum::<u32>()),
        (150, 968)
    );
    assert!(
        ports(&assignments)
            .iter()
            .all(|ports| (1..=150).contains(ports))
    );
    assert!(
        run.stderr.contains("1108 port lines, 968 with a link\n"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains(
        "assigned  968 ports of 22 switches and 316 HCA ports to 8 samplers (cap 150)\n"
    ));
    for sampler in &assignments.samplers {
        assert_eq!(
            row(&run.stderr, &sampler.host)[3],
            sampler.port_count.to_string()
        );
    }
    let text = fs::read_to_string(dir.path().join("out.toml")).unwrap();
    let sha256 = sha256_hex(&fs::read(dir.path().join("net.p")).unwrap());
    assert!(
        text.contains(&format!("# source:  net.p (SHA-256 {sha256})\n")),
        "{}",
        &text[..400]
    );
    assert!(text.contains("# command: ibnet-gen --net net.p --samplers 'node[00001,"));
    // A second run writes the same octets.
    assert_eq!(generate(&dir, EIGHT).code, 0);
    assert_eq!(
        fs::read_to_string(dir.path().join("out.toml")).unwrap(),
        text
    );
}

#[test]
fn standard_input_and_samplers_file_give_the_same_plan() {
    let dir = stria();
    fs::write(
        dir.path().join("samplers"),
        "# samplers\nnode[00001,00025]\nnode00049 # the third\n\nnode[00073,00097,00121]\nadmin1\noss1\n",
    )
    .unwrap();
    assert_eq!(generate(&dir, EIGHT).code, 0);
    let net = fs::read(dir.path().join("net.p")).unwrap();
    let run = run(
        dir.path(),
        &[
            "--net",
            "-",
            "--samplers-file",
            "samplers",
            "--report",
            "report",
        ],
        &net,
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        Assignments::parse(&run.stdout, "stdout").unwrap(),
        assigned(&dir)
    );
    assert!(run.stdout.contains("# source:  standard input (SHA-256 "));
    assert_eq!(
        fs::read_to_string(dir.path().join("report")).unwrap(),
        run.stderr,
        "a short report is complete on standard error"
    );
}

#[test]
fn closed_pipe_is_no_error() {
    let dir = stria();
    let script = format!(
        "{} --net net.p --samplers '{EIGHT}' 2>stderr | head -1 >first; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_ibnet-gen")
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n");
    assert!(
        !fs::read_to_string(dir.path().join("stderr"))
            .unwrap()
            .contains("error")
    );
    assert!(
        fs::read_to_string(dir.path().join("first"))
            .unwrap()
            .starts_with("# Which sampler")
    );
}

#[test]
fn wrong_arguments_exit_with_2() {
    let dir = stria();
    for args in [
        &["--net", "net.p"][..],
        &["--samplers", "a"],
        &["--net", "net.p", "--samplers", "a", "--samplers-file", "b"],
        &["--net", "net.p", "--samplers", "a", "--cap", "0"],
        &[
            "--net",
            "net.p",
            "--samplers",
            "a",
            "--sampler-guid",
            "a=0x1",
        ],
    ] {
        assert_eq!(run(dir.path(), args, b"").code, 2, "{args:?}");
    }
    let help = run(dir.path(), &["--help"], b"");
    assert!(
        help.code == 0 && help.stdout.contains("Examples:") && help.stdout.contains("Exit codes:")
    );
    assert_eq!(
        run(dir.path(), &["--version"], b"").stdout,
        format!("ibnet-gen {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_samplers_are_rejected() {
    let dir = stria();
    rejected(
        &dir,
        &generate(&dir, "node00001,nodd00002"),
        "named `nodd00002`",
        "did you mean `node00002`?",
    );
    // A host list that is wrong for every fabric is a wrong argument. In a file, it is a wrong
    // input.
    rejected_with(
        2,
        &dir,
        &generate(&dir, "node00001,node00001"),
        "`node00001` is listed twice",
        "list each sampler once",
    );
    rejected_with(
        2,
        &dir,
        &generate(&dir, "node[1-"),
        "cannot read --samplers as a host list",
        "names and ranges",
    );
    rejected_with(
        2,
        &dir,
        &generate(&dir, ""),
        "no sampler is named",
        "at least one host",
    );
    rejected_with(
        2,
        &dir,
        &generate(&dir, "n[0-99999999]"),
        "stands for more than 100000 hosts",
        "brackets",
    );
    rejected(
        &dir,
        &generate(&dir, "admin1:mlx5_9"),
        "no port `mlx5_9` (found mlx5_0:1, mlx5_0:2)",
        "name one of these",
    );
    fs::write(dir.path().join("samplers"), "node00001\nnode00001\n").unwrap();
    let twice = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers-file",
            "samplers",
            "-o",
            "out.toml",
        ],
        b"",
    );
    rejected(
        &dir,
        &twice,
        "`node00001` is listed twice",
        "list each sampler once",
    );
    fs::write(dir.path().join("samplers"), "node00001\n\nnosuch\n").unwrap();
    let run = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers-file",
            "samplers",
            "-o",
            "out.toml",
        ],
        b"",
    );
    rejected(
        &dir,
        &run,
        "cannot find a sampler of samplers:3: no HCA of the fabric is named `nosuch`",
        "--sampler-guid nosuch=0x",
    );
}

#[test]
fn too_few_samplers_error_has_number_and_places() {
    let dir = stria();
    rejected(
        &dir,
        &generate(&dir, "node[00001,00025]"),
        "missing samplers: at least 5",
        "node00049 (on leaf03)",
    );
    let run = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            EIGHT,
            "--cap",
            "100",
            "-o",
            "out.toml",
        ],
        b"",
    );
    rejected(
        &dir,
        &run,
        "do not fit on 8 samplers with at most 100 ports each; missing samplers: at least 2",
        "--cap ",
    );
}

#[test]
fn sampler_with_another_name_is_found_by_its_guid() {
    let dir = stria();
    let guid = "mgmt=0x0000000000100131";
    let run = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "mgmt:mlx5_3",
            "--sampler-guid",
            guid,
            "--cap",
            "968",
            "-o",
            "out.toml",
        ],
        b"",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let assignments = assigned(&dir);
    let sampler = assignments.of_host("mgmt").unwrap()[0];
    assert_eq!(
        (sampler.ca.as_deref(), sampler.port_count),
        (Some("mlx5_3"), 968)
    );
}

#[test]
fn other_files_are_rejected() {
    for (bytes, message, help) in [
        (
            &b""[..],
            "cannot use net.p as a net file: the file is empty",
            "ibnet-gen discover -o FILE",
        ),
        (
            &[0, 159, 146, 150, 10, 255, 0, 27][..],
            "cannot use net.p as a net file: none of its ",
            "ibnet-gen discover -o FILE",
        ),
        (
            b"SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'\n",
            "cannot make a plan: ",
            "while the fabric is up",
        ),
    ] {
        let dir = with_net(bytes);
        rejected(&dir, &generate(&dir, "a"), message, help);
    }
    let dir = stria();
    let run = run(
        dir.path(),
        &["--net", "nosuch", "--samplers", "a", "-o", "out.toml"],
        b"",
    );
    rejected(
        &dir,
        &run,
        "cannot read nosuch\ncause: ",
        "give the path of a file",
    );
}

#[test]
fn carriage_returns_are_ignored() {
    let dir = stria();
    assert_eq!(generate(&dir, EIGHT).code, 0);
    let crlf = with_net(
        synthetic::stria()
            .ports_report()
            .replace('\n', "\r\n")
            .as_bytes(),
    );
    assert_eq!(generate(&crlf, EIGHT).code, 0);
    assert_eq!(assigned(&crlf), assigned(&dir));
}

#[test]
fn lines_of_standard_error_are_listed_and_skipped() {
    let dir = stria();
    assert_eq!(generate(&dir, EIGHT).code, 0);
    let noise =
        "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1,3)\u{1b}[2J";
    let report = synthetic::stria().ports_report();
    let mixed: String = report
        .lines()
        .enumerate()
        .map(|(n, line)| {
            if n % 50 == 7 {
                format!("{noise}\n{line}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let noisy = with_net(mixed.as_bytes());
    let run = generate(&noisy, EIGHT);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains(
            "unreadable: 23 lines, skipped\n            line 8: \"ibwarn:\" is not a node type"
        ),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("            and 13 more\n"));
    assert!(!run.stderr.contains('\u{1b}'));
    assert_eq!(assigned(&noisy), assigned(&dir));
}

#[test]
fn truncated_file_is_used_and_reported() {
    let report = synthetic::stria().ports_report();
    let dir = with_net(&report.as_bytes()[..report.len() / 2]);
    let run = generate(&dir, "oss[1-6]");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("other end missing: "), "{}", run.stderr);
    let counted = ports(&assigned(&dir)).iter().sum::<u32>();
    assert!((300..968).contains(&counted), "{counted}");
}

#[test]
fn net_file_is_never_overwritten() {
    let dir = stria();
    let same = run(
        dir.path(),
        &["--net", "net.p", "--samplers", EIGHT, "-o", "./net.p"],
        b"",
    );
    rejected(
        &dir,
        &same,
        "is given for --net and for --output",
        "give each its own file",
    );
    let nowhere = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            EIGHT,
            "--report",
            "report",
            "-o",
            "nosuch/out.toml",
        ],
        b"",
    );
    rejected(
        &dir,
        &nowhere,
        "cannot write nosuch/out.toml\ncause: ",
        "give a path",
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("net.p")).unwrap(),
        synthetic::stria().ports_report()
    );
}

#[test]
fn hostile_names_stay_names() {
    let hostile = "'; rm -rf / ' - 'x\" [0-99999999] \u{1b}]0;owned\u{7} #<script>";
    let text = synthetic::stria()
        .ports_report()
        .replace("'leaf12'", &format!("'{hostile}'"));
    let dir = with_net(text.as_bytes());
    let run = generate(&dir, EIGHT);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}'));
    let assignments = assigned(&dir);
    let names: Vec<_> = assignments
        .samplers
        .iter()
        .flat_map(|sampler| &sampler.devices)
        .map(|device| &*device.name)
        .collect();
    assert!(names.contains(&hostile), "the name is unchanged");
    assert!(
        !fs::read_to_string(dir.path().join("out.toml"))
            .unwrap()
            .contains('\u{1b}')
    );
}

fn fabrics(extension: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fabrics");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn captures_of_other_projects_are_planned_or_rejected() {
    let samplers = [
        ("loginoff-fdr10-qdr.reconstructed.p", "stage[112,121]", 384),
        ("treydock-test.p", "o0001", 7),
        ("treydock-test2.p", "worker20", 2),
        ("treydock-test3.p", "any", 0),
    ];
    let files = fabrics("p");
    assert_eq!(files.len(), samplers.len());
    for (path, (name, samplers, expected)) in files.iter().zip(samplers) {
        assert_eq!(path.file_name().unwrap(), name);
        let dir = with_net(&fs::read(path).unwrap());
        let run = run(
            dir.path(),
            &[
                "--net",
                "net.p",
                "--samplers",
                samplers,
                "--cap",
                "200",
                "-o",
                "out.toml",
            ],
            b"",
        );
        if expected == 0 {
            rejected(
                &dir,
                &run,
                "(line 1: \"Infiniscale-IV Mellanox Technologies\" is not a name in single quotes",
                "a line looks like",
            );
        } else {
            assert_eq!(run.code, 0, "{name}: {}", run.stderr);
            assert_eq!(
                ports(&assigned(&dir)).iter().sum::<u32>(),
                expected,
                "{name}: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn plain_topologies_of_other_projects_are_planned_or_rejected() {
    let samplers = [
        ("ibtopotool-1.topo", "MT23108", 14),
        ("ibtopotool-2.topo", "compute-00-00", 4),
        ("ibtopotool-3.topo", "r-ufm111", 20),
        ("ibtopotool-4.topo", "nsn33-43", 2),
        ("loginoff-fdr10-qdr.topo", "stage[112,121]", 384),
        ("topograph-gb200-no-links.topo", "dgx-gb200-n01-c1", 0),
    ];
    let files = fabrics("topo");
    assert_eq!(files.len(), samplers.len());
    for (path, (name, samplers, expected)) in files.iter().zip(samplers) {
        assert_eq!(path.file_name().unwrap(), name);
        let text = fs::read(path).unwrap();
        let linked = String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| line.starts_with('['))
            .count();
        let dir = with_net(&text);
        let run = run(
            dir.path(),
            &[
                "--net",
                "net.p",
                "--samplers",
                samplers,
                "--cap",
                "200",
                "-o",
                "out.toml",
            ],
            b"",
        );
        if expected == 0 {
            rejected(
                &dir,
                &run,
                "cannot make a plan: the net file has no linked port",
                "while the fabric is up",
            );
        } else {
            assert_eq!(run.code, 0, "{name}: {}", run.stderr);
            assert_eq!(
                ports(&assigned(&dir)).iter().sum::<u32>(),
                expected,
                "{name}: {}",
                run.stderr
            );
        }
        assert_eq!(linked as u32, expected, "{name}: no linked port is lost");
    }
}

#[test]
fn both_formats_of_one_fabric_give_the_same_plan() {
    let read = |name: &str| {
        fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/fabrics")
                .join(name),
        )
        .unwrap()
    };
    let [plain, report] = [
        "loginoff-fdr10-qdr.topo",
        "loginoff-fdr10-qdr.reconstructed.p",
    ]
    .map(|name| {
        let dir = with_net(&read(name));
        assert_eq!(generate(&dir, "stage[110,112,121]").code, 0);
        assigned(&dir)
    });
    assert_eq!(plain, report);
}

#[test]
fn discovered_fabric_is_a_net_file() {
    let dir = stria();
    let found = run(
        dir.path(),
        &["discover", "--simulate", "net.p", "-o", "found.p"],
        b"",
    );
    assert_eq!((found.code, found.stdout.as_str()), (0, ""));
    assert!(
        found.stderr.starts_with("found     1108 ports with "),
        "{}",
        found.stderr
    );
    let sorted = |name: &str| {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("found.p"), sorted("net.p"));
    let same = run(
        dir.path(),
        &["discover", "--simulate", "net.p", "-o", "net.p"],
        b"",
    );
    assert_eq!(same.code, 1);
    assert!(
        same.stderr
            .contains("cannot use net.p: it is given for --simulate and for --output"),
        "{}",
        same.stderr
    );
}

#[test]
fn umad_with_a_wrong_port_is_the_name_of_a_file() {
    let dir = stria();
    for net in ["umad:mlx5_0:x", "./umad", "umadx"] {
        let args = ["--net", net, "--samplers", EIGHT, "-o", "out.toml"];
        let refused = run(dir.path(), &args, b"");
        assert_eq!(refused.code, 1);
        assert!(
            refused.stderr.contains(&format!("cannot read {net}\n")),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn anonymised_file_is_planned_like_the_original() {
    let fabric = |name: &str| {
        fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/fabrics")
                .join(name),
        )
        .unwrap()
    };
    for name in [
        "loginoff-fdr10-qdr.topo",
        "loginoff-fdr10-qdr.reconstructed.p",
    ] {
        let (dir, nameless) = (with_net(&fabric(name)), with_net(b""));
        let out = nameless.path().join("net.p");
        let done = run(
            dir.path(),
            &["anonymise", "--net", "net.p", "-o", out.to_str().unwrap()],
            b"",
        );
        assert_eq!(
            (done.code, done.stdout.as_str(), done.stderr.as_str()),
            (0, "", "")
        );
        // The same three hosts, by their position in the sorted list of hosts.
        let host = |host: &str, dir: &TempDir| {
            let net = ibnet::topology::net_file::read(&dir.path().join("net.p")).unwrap();
            let of_hca = net
                .fabric
                .devices()
                .iter()
                .filter(|device| device.kind == ibnet_record::types::NodeKind::Hca);
            let mut hosts: Vec<_> = of_hca.map(|device| device.host().to_owned()).collect();
            hosts.sort();
            hosts.dedup();
            (hosts.iter().position(|found| found == host), hosts)
        };
        let renamed: Vec<_> = ["stage110", "stage112", "stage121"]
            .map(|name| host("", &nameless).1[host(name, &dir).0.unwrap()].clone())
            .into();
        assert_eq!(generate(&dir, "stage[110,112,121]").code, 0);
        assert_eq!(generate(&nameless, &renamed.join(",")).code, 0);
        let shape = |dir: &TempDir| {
            let device = |device: &ibnet::assignments::AssignedDevice| {
                (
                    device.lid,
                    device.hops,
                    device.ports.iter().map(|port| port.num).collect::<Vec<_>>(),
                )
            };
            let of_sampler = |sampler: &ibnet::assignments::Sampler| {
                sampler.devices.iter().map(device).collect::<Vec<_>>()
            };
            assigned(dir)
                .samplers
                .iter()
                .map(of_sampler)
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&nameless), shape(&dir));
        assert!(!fs::read_to_string(&out).unwrap().contains("stage"));
    }
    let dir = stria();
    let same = run(
        dir.path(),
        &["anonymise", "--net", "net.p", "-o", "net.p"],
        b"",
    );
    rejected(
        &dir,
        &same,
        "is given for --net and for --output",
        "give each its own file",
    );
    assert_eq!(
        run(
            dir.path(),
            &["anonymise", "--net", "net.p", "--samplers", "a"],
            b""
        )
        .code,
        2
    );
    assert_eq!(
        run(
            dir.path(),
            &["--net", "net.p", "anonymise", "--net", "net.p"],
            b""
        )
        .code,
        2
    );
}

#[test]
fn aggregation_nodes_are_sampled_on_request() {
    let dir = with_net(
        &fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fabrics/treydock-test2.p"),
        )
        .unwrap(),
    );
    let without = generate(&dir, "worker20");
    assert_eq!(ports(&assigned(&dir)), [2]);
    assert!(
        without
            .stderr
            .contains("aggregation node (SHARP): 1 port\n"),
        "{}",
        without.stderr
    );
    let with = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "worker20",
            "--sample-sharp",
            "-o",
            "out.toml",
        ],
        b"",
    );
    assert_eq!(ports(&assigned(&dir)), [3]);
    assert!(
        with.stderr.contains("left out  0 ports\n"),
        "{}",
        with.stderr
    );
    // An aggregation node cannot be a sampler.
    let on_it = run(
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "Mellanox",
            "--sample-sharp",
            "-o",
            "out.toml",
        ],
        b"",
    );
    assert_eq!(on_it.code, 1, "{}", on_it.stderr);
}

#[test]
fn name_map_gives_names_and_its_errors_are_reported() {
    let dir = with_net(
        &fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/fabrics/loginoff-fdr10-qdr.topo"),
        )
        .unwrap(),
    );
    fs::write(
        dir.path().join("samplers"),
        "0xf4521403001165a0 \"lea\u{1b}[2Jf5\"\n0x24be05ffff980030 \"zeus mlx4_0\"\nleaf6 \"x\"\n0x77 y\n",
    )
    .unwrap();
    let args = [
        "--net",
        "net.p",
        "--node-name-map",
        "samplers",
        "--samplers",
        "zeus,stage[110,112]",
        "-o",
        "out.toml",
    ];
    let named = run(dir.path(), &args, b"");
    assert_eq!(named.code, 0, "{}", named.stderr);
    assert!(
        named
            .stderr
            .contains("samplers: 2 of 3 names belong to nodes of this fabric\n"),
        "{}",
        named.stderr
    );
    assert!(
        named.stderr.contains("samplers:3: \"leaf6 "),
        "{}",
        named.stderr
    );
    assert!(!named.stderr.contains('\u{1b}'));
    let assignments = assigned(&dir);
    let devices = || {
        assignments
            .samplers
            .iter()
            .flat_map(|sampler| &sampler.devices)
    };
    assert!(
        devices().any(|device| device.name == "lea\u{1b}[2Jf5")
            && devices().any(|device| device.name == "zeus mlx4_0")
    );
    fs::remove_file(dir.path().join("out.toml")).unwrap();
    fs::write(dir.path().join("samplers"), "leaf6 x\n").unwrap();
    rejected(
        &dir,
        &run(dir.path(), &args, b""),
        "(line 1: \"leaf6 x\" is not a GUID",
        "a line looks like: 0x",
    );
}

/// Returns a fabric of 2 leaves with 4 hosts each. GUIDs and HCA names depend on the rail; LIDs and
/// host names do not.
fn rail(number: u32) -> String {
    let tree = synthetic::FatTree {
        leaves: 2,
        hosts: 4,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let text = tree.blueprint().ports_report();
    text.replace("0x00000000", &format!("0x{:08x}", number << 8))
        .replace("mlx5_0", &format!("mlx5_{number}"))
}

#[test]
fn each_rail_gets_its_own_plan_in_one_file() {
    let dir = with_net(rail(0).as_bytes());
    fs::create_dir(dir.path().join("rails")).unwrap();
    fs::write(dir.path().join("rails/rail1.p"), rail(1)).unwrap();
    let both = |samplers: &str| {
        run(
            dir.path(),
            &[
                "--net",
                "net.p",
                "--net",
                "rails/rail1.p",
                "--samplers",
                samplers,
                "-o",
                "out.toml",
            ],
            b"",
        )
    };
    let done = both("node00001,node00005:mlx5_1");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stderr.contains("read      net.p: ")
            && done.stderr.contains("\nread      rails/rail1.p: "),
        "{}",
        done.stderr
    );
    let assignments = assigned(&dir);
    let blocks: Vec<_> = assignments
        .samplers
        .iter()
        .map(|s| (&*s.host, s.subnet.as_deref().unwrap(), s.ca.as_deref()))
        .collect();
    let (zero, one) = (Some("mlx5_0"), Some("mlx5_1"));
    assert_eq!(
        blocks,
        [
            ("node00001", "net", zero),
            ("node00001", "rail1", one),
            ("node00005", "rail1", one)
        ]
    );
    let first = assignments.of_host("node00001@rail1").unwrap()[0];
    assert!(first.devices.iter().all(|device| device.guid.0 >> 40 == 1));
    assert_eq!(
        assignments.of_host("node00005").unwrap()[0]
            .subnet
            .as_deref(),
        Some("rail1")
    );
    let both = assignments.of_host("node00001").unwrap();
    assert_eq!(
        both.iter()
            .map(|block| block.subnet.as_deref())
            .collect::<Vec<_>>(),
        [Some("net"), Some("rail1")]
    );
    // The header names both files, and all ports of both are assigned.
    let text = fs::read_to_string(dir.path().join("out.toml")).unwrap();
    assert_eq!(text.matches("# source:  ").count(), 2);
    assert_eq!(ports(&assignments).iter().sum::<u32>(), 40);

    fs::remove_file(dir.path().join("out.toml")).unwrap();
    fs::rename(dir.path().join("rails"), dir.path().join("samplers")).unwrap();
    let both = |samplers: &str, cap: &str| {
        run(
            dir.path(),
            &[
                "--net",
                "net.p",
                "--net",
                "samplers/rail1.p",
                "--samplers",
                samplers,
                "--cap",
                cap,
                "-o",
                "out.toml",
            ],
            b"",
        )
    };
    rejected(
        &dir,
        &both("node00001:mlx5_0", "150"),
        "samplers/rail1.p: no sampler has a port in this subnet",
        "add a host of it",
    );
    rejected(
        &dir,
        &both("node00001", "5"),
        "net.p: cannot place 20 ports: they do not fit on 1 sampler with at most 5 ports each",
        "add ",
    );
    rejected(
        &dir,
        &both("nodd00001", "50"),
        "named `nodd00001`",
        "did you mean `node00001`?",
    );
}

#[test]
fn parts_of_one_subnet_are_merged() {
    let dir = stria();
    assert_eq!(generate(&dir, EIGHT).code, 0);
    let whole = assigned(&dir);
    let text = synthetic::stria().ports_report();
    let (one, two) = text.split_at(text.match_indices('\n').nth(500).unwrap().0 + 1);
    fs::write(dir.path().join("net.p"), one).unwrap();
    let args = [
        "--net",
        "net.p",
        "--net",
        "-",
        "--samplers",
        EIGHT,
        "-o",
        "out.toml",
    ];
    let done = run(dir.path(), &args, two.as_bytes());
    assert_eq!((done.code, assigned(&dir)), (0, whole), "{}", done.stderr);
    assert!(
        done.stderr
            .contains("read      net.p, standard input: 1108 port lines"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("standard input: 607 ports that no earlier file has"),
        "{}",
        done.stderr
    );
    fs::remove_file(dir.path().join("out.toml")).unwrap();
    rejected(
        &dir,
        &run(
            dir.path(),
            &["--net", "-", "--net", "-", "--samplers", "a"],
            b"",
        ),
        "cannot use -: it is given for --net and for --net",
        "own file",
    );
    // All LIDs differ.
    let words: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    fs::write(
        dir.path().join("samplers"),
        words
            .join("\n")
            .replace("SW ", "SW 10")
            .replace("CA ", "CA 10"),
    )
    .unwrap();
    let args = [
        "--net",
        "net.p",
        "--net",
        "samplers",
        "--samplers",
        EIGHT,
        "-o",
        "out.toml",
    ];
    rejected(
        &dir,
        &run(dir.path(), &args, b""),
        "cannot merge samplers with net.p: ",
        "give the newer file only",
    );
}
