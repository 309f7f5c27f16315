//! Errors of the arguments, the configuration and the input, and the printed configuration.

use std::fs;

use ibnet::config::{Raw, Sl};

use crate::program::{GEN, refused, run, run_program, swept};
use crate::{small, with_net};

#[test]
fn printed_configuration_can_be_used() {
    let dir = small();
    fs::write(
        dir.path().join("ibnet.toml"),
        "interval = \"2s\"\nwindow = 8\nsimulate = \"else.p\"\n[simulated]\nseed = 7\n",
    )
    .unwrap();
    let args = [
        "-c",
        "ibnet.toml",
        "--simulate",
        "net.p",
        "--interval",
        "100ms",
        "--groups",
        "base,rcverr",
        "--sl",
        "3",
        "--pkey",
        "0x8001",
    ];
    let printed = run(&dir, &[&args[..], &["--print-config"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let mut expected = Raw {
        simulate: "net.p".to_owned(),
        interval: "100ms".to_owned(),
        groups: vec!["base".to_owned(), "rcverr".to_owned()],
        window: 8,
        sl: Sl::Word("3".to_owned()),
        pkey: "0x8001".to_owned(),
        ..Raw::default()
    };
    expected.simulated.seed = 7;
    let origin = |key: &str| {
        printed
            .stdout
            .lines()
            .find(|line| line.starts_with(&format!("{key} = ")))
            .unwrap()
            .split(" # ")
            .last()
            .unwrap()
    };
    let origins = ["interval", "window", "grace", "simulate", "seed"].map(origin);
    assert_eq!(
        origins,
        [
            "--interval",
            "ibnet.toml:2",
            "default",
            "--simulate",
            "ibnet.toml:5"
        ]
    );
    assert_eq!(toml::from_str::<Raw>(&printed.stdout).unwrap(), expected);
    fs::write(dir.path().join("printed.toml"), &printed.stdout).unwrap();
    let stream = swept(&dir, &["-c", "printed.toml", "--sweeps", "1"]);
    assert_eq!(
        (stream.start.groups.join(","), stream.start.interval_ns),
        ("base,rcverr".to_owned(), 100_000_000)
    );
    assert_eq!(
        toml::from_str::<Raw>(&run(&dir, &["--print-config"]).stdout).unwrap(),
        Raw::default()
    );
}

#[test]
fn missing_and_contradicting_plans_are_refused() {
    let dir = small();
    refused(
        &run(&dir, &[]),
        "cannot sweep: neither an assignments file",
        "--assignments FILE",
    );
    let both = run(
        &dir,
        &[
            "--net",
            "net.p",
            "--assignments",
            "plan.toml",
            "--simulate",
            "net.p",
        ],
    );
    assert_eq!((both.code, &*both.stdout), (2, ""), "{}", both.stderr);
    assert!(
        both.stderr
            .contains("expected no net file, because assignments is set to plan.toml"),
        "{}",
        both.stderr
    );
    let missing = run(&dir, &["--assignments", "plan.toml", "--simulate", "net.p"]);
    refused(
        &missing,
        "cannot read plan.toml\ncause: ",
        "ibnet-gen -o FILE",
    );
    refused(
        &run(&dir, &["--assignments", "net.p", "--simulate", "net.p"]),
        "net.p:1: ",
        "ibnet-gen",
    );
    let made = run_program(
        GEN,
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "node00001,node00004",
            "-o",
            "plan.toml",
        ],
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let unknown = run(
        &dir,
        &[
            "--assignments",
            "plan.toml",
            "--simulate",
            "net.p",
            "--sampler",
            "node0004",
        ],
    );
    refused(
        &unknown,
        "`node0004`: it is not in the assignments (found node00001, node00004)",
        "did you mean `node00004`?",
    );
}

#[test]
fn invalid_net_files_are_refused() {
    let plain = include_bytes!("../data/fabrics/topograph-gb200-no-links.topo");
    let unlinked =
        b"SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'\n";
    for (bytes, message, help) in [
        (
            &b""[..],
            "cannot use net.p as a net file: the file is empty",
            "ibnet-gen discover",
        ),
        (
            &[0, 159, 146, 150, 10, 255, 0, 27],
            "cannot use net.p as a net file: none of its ",
            "ibnet-gen discover",
        ),
        (
            plain,
            "cannot sweep net.p: the file has no linked port",
            "whose link is up",
        ),
        (
            unlinked,
            "cannot sweep net.p: the file has no linked port",
            "whose link is up",
        ),
    ] {
        let dir = with_net(bytes);
        refused(&run(&dir, &["--simulate", "net.p"]), message, help);
        refused(&run(&dir, &["--net", "net.p"]), message, help);
    }
    let dir = small();
    let missing = run(&dir, &["--simulate", "nosuch.p"]);
    refused(
        &missing,
        "cannot read the net file nosuch.p\ncause: ",
        "ibnet-gen discover",
    );
    assert!(
        !missing.stderr.contains("standard input"),
        "standard input is not read: {}",
        missing.stderr
    );
    refused(
        &run(&dir, &["--net", "nosuch.p"]),
        "cannot read the net file nosuch.p\ncause: ",
        "ibnet-gen discover",
    );
    refused(
        &run(&dir, &["--net", "net.p", "--simulate", "nosuch.p"]),
        "cannot read the net file nosuch.p",
        "ibnet-gen discover",
    );
    let nowhere = run(&dir, &["--simulate", "net.p", "-o", "nosuch/lines"]);
    refused(
        &nowhere,
        "cannot write to nosuch/lines: it cannot be opened\ncause: ",
        "-o FILE",
    );
}

#[test]
fn wrong_configuration_is_refused_with_its_line() {
    let dir = small();
    let flags = run(&dir, &["--help"]).stdout;
    for (text, message, help) in [
        (
            "window = 8\nwindwo = 9\n",
            "ibnet.toml:2: cannot use windwo: there is no such key",
            "did you mean window? ibnet.toml.example",
        ),
        (
            "[simulated]\nloss = 0\ndaed = []\n",
            "ibnet.toml:3: cannot use daed: there is no such key",
            "did you mean dead? ibnet.toml.example",
        ),
        (
            "window = 8\n\n[simulated\n",
            "ibnet.toml:3: ",
            "ibnet.toml.example",
        ),
        (
            "\nwindow = \"many\"\n",
            "ibnet.toml:2: cannot use window: the value is not valid (found \"many\")",
            "a valid line is window = 32; ibnet.toml.example",
        ),
        (
            "simulate = net.p\n",
            "ibnet.toml:1: cannot read this line: ",
            "a valid line is simulate = \"fabric.p\"; ibnet.toml.example",
        ),
        (
            "window = 129\n",
            "ibnet.toml:1: cannot use window: expected a number from 1 to 128 (found \"129\")",
            "--window",
        ),
        (
            "interval = \"1 parsec\"\n",
            "cannot use interval: expected a duration such as 1s or 5ms (found \"1 parsec\")",
            "--interval",
        ),
        (
            "interval = \"1ms\"\n",
            "cannot use interval: expected a duration from 10ms to 1h (found \"1ms\")",
            "--interval",
        ),
        (
            "groups = [\"base\", \"bass\"]\n",
            "cannot use groups: expected ",
            "--groups",
        ),
        ("groups = []\n", "cannot use groups: expected ", "--groups"),
        (
            "force_groups = [\"bass\"]\n",
            "cannot use force_groups: expected ",
            "ibnet.toml",
        ),
        (
            "identity = \"0s\"\n",
            "cannot use identity: expected a duration from 1s to 1day",
            "ibnet.toml",
        ),
        (
            "grace = \"1ms\"\n",
            "cannot use grace: expected a duration from 5ms to 10s",
            "--grace",
        ),
        ("sl = 16\n", "cannot use sl: expected ", "--sl"),
        ("pkey = \"zebra\"\n", "cannot use pkey: expected ", "--pkey"),
        (
            "drain = \"1 day\"\n",
            "ibnet.toml:1: cannot use drain: expected a duration from 0s to 10m",
            "ibnet.toml",
        ),
        (
            "[simulated]\nscenario = \"incats\"\n",
            "ibnet.toml:2: cannot use simulated.scenario: expected one of the scenarios jobs, incast",
            "--scenario",
        ),
        (
            "[simulated]\nloss = 1.5\n",
            "ibnet.toml:2: cannot use simulated.loss: expected ",
            "ibnet.toml",
        ),
        (
            "[simulated]\ndead = [\"nosuch\"]\n",
            "cannot use simulated.dead: there is no such device in net.p (found \"nosuch\")",
            "node description",
        ),
    ] {
        fs::write(dir.path().join("ibnet.toml"), text).unwrap();
        let run_of_it = run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p"]);
        refused(&run_of_it, message, help);
        if !text.contains("nosuch") {
            refused(
                &run(
                    &dir,
                    &["-c", "ibnet.toml", "--simulate", "net.p", "--print-config"],
                ),
                message,
                help,
            );
        }
        for flag in run_of_it
            .stderr
            .split([' ', ';', '\n'])
            .filter(|word| word.starts_with("--"))
        {
            assert!(
                flags.contains(&format!("{flag} <")),
                "no such flag: {}",
                run_of_it.stderr
            );
        }
    }
    fs::write(dir.path().join("ibnet.toml"), b"window = 8\n# \xff\n").unwrap();
    refused(
        &run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p"]),
        "ibnet.toml:2: cannot read this line: the text is not UTF-8",
        "in the encoding UTF-8",
    );
    refused(
        &run(&dir, &["-c", "nosuch.toml"]),
        "cannot read nosuch.toml\ncause: ",
        "-c FILE",
    );
    let given = run(&dir, &["--simulate", "net.p", "--timeout", "2s"]);
    assert_eq!(given.code, 2, "a wrong argument");
    assert!(
        given.stderr.starts_with(
            "error: cannot use timeout: expected a duration from 100us to 1s (found \"2s\")\nhelp: "
        ),
        "{}",
        given.stderr
    );
}

#[test]
fn records_are_not_appended_to_an_input_file() {
    let dir = small();
    let net = fs::read(dir.path().join("net.p")).unwrap();
    refused(
        &run(
            &dir,
            &["--simulate", "net.p", "--sweeps", "1", "-o", "./net.p"],
        ),
        "cannot append records to ./net.p: it is also the net file",
        "-o FILE",
    );
    assert_eq!(fs::read(dir.path().join("net.p")).unwrap(), net);
}

#[test]
fn wrong_arguments_end_with_code_2() {
    let dir = small();
    for args in [
        &["--nosuch"][..],
        &["net.p"],
        &["--simulate"],
        &["--simulate", "net.p", "--window", "many"],
        &["--simulate", "net.p", "--sweeps", "-1"],
        &["--simulate", "net.p", "--sweeps", "0"],
        &["--simulate", "net.p", "--once", "--sweeps", "2"],
        &["--simulate", "net.p", "--once", "-o", "lines"],
        &["--simulate", "net.p", "--scenario", "incats"],
    ] {
        let run = run(&dir, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
    let help = run(&dir, &["--help"]);
    assert!(
        help.code == 0 && help.stdout.contains("Examples:") && help.stdout.contains("Exit codes:")
    );
    let version = run(&dir, &["--version"]);
    assert_eq!(
        (version.code, version.stdout),
        (0, format!("ibnet-sweep {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[cfg(feature = "umad")]
#[test]
fn host_without_an_hca_is_reported() {
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut adapters| adapters.next().is_some()) {
        eprintln!("SKIPPED: this host has an HCA");
        return;
    }
    let dir = small();
    refused(
        &run(&dir, &["--net", "net.p"]),
        "cannot find an InfiniBand adapter (HCA) on this host",
        "--simulate",
    );
}
