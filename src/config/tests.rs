use ibnet_record::attributes::Group;

use super::*;

fn check(change: impl FnOnce(&mut Raw)) -> Result<Config, ConfigError> {
    let mut raw = Raw {
        net: "fabric.p".to_owned(),
        ..Raw::default()
    };
    change(&mut raw);
    raw.check()
}

fn refused(change: impl FnOnce(&mut Raw)) -> String {
    check(change).expect_err("refused").to_string()
}

#[test]
fn example_has_the_default_of_every_key() {
    let example: Raw = toml::from_str(include_str!("../../ibnet.toml.example")).expect("it parses");
    assert_eq!(example, Raw::default());
}

#[test]
fn example_has_every_key_of_every_table() {
    let example: toml::Table =
        toml::from_str(include_str!("../../ibnet.toml.example")).expect("it parses");
    let defaults = toml::Table::try_from(Raw::default()).expect("it serializes");
    let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&example), keys(&defaults));
    for inner in [
        "simulated",
        "metrics",
        "plan_server",
        "links",
        "routes",
        "physical",
    ] {
        let inner = |table: &toml::Table| table[inner].as_table().map(keys);
        assert_eq!(inner(&example), inner(&defaults));
    }
}

#[test]
fn defaults_are_those_of_the_engine() {
    let config = check(|_| {}).expect("valid");
    // Only ports whose link is down are queried less often.
    let cadence = Cadence::new(vec![1; 4], 1, 10);
    let managers_every = Some(engine::MANAGERS_EVERY);
    let expected = engine::Config {
        cadence,
        managers_every,
        state_tables: true,
        ..engine::Config::default()
    };
    assert_eq!(
        (config.engine, config.interval),
        (expected, Duration::from_secs(1))
    );
}

#[test]
fn errors_are_queried_once_a_second_at_shorter_intervals() {
    let cadence = |change: fn(&mut Raw)| check(change).expect("valid").engine.cadence;
    assert_eq!(
        cadence(|raw| raw.interval = "100ms".to_owned()),
        Cadence::new(vec![1, 10, 10, 10], 1, 100)
    );
    assert_eq!(
        cadence(|raw| raw.interval = "5s".to_owned()),
        Cadence::new(vec![1; 4], 1, 2)
    );
    let changed = |raw: &mut Raw| (raw.groups, raw.wait_every) = (vec!["base/7".to_owned()], 60);
    assert_eq!(cadence(changed), Cadence::new(vec![7], 60, 10));
    assert!(
        check(|raw| raw.wait_every = 0)
            .expect_err("refused")
            .to_string()
            .contains("wait_every")
    );
}

#[test]
fn configuration_of_the_demo_is_valid() {
    let raw: Raw = toml::from_str(include_str!("../../examples/demo.toml")).expect("it parses");
    let config = raw.check().expect("valid");
    let simulation = config.simulation.clone().expect("simulated");
    assert!(config.is_for_all_samplers());
    assert_eq!(
        (simulation.scenario, simulation.dead.len()),
        (Scenario::Incast, 2)
    );
}

#[test]
fn whole_simulated_fabric_is_swept_without_a_plan() {
    let config =
        check(|raw| (raw.net, raw.simulate) = (String::new(), "sim.p".to_owned())).expect("valid");
    assert_eq!(
        (
            config.plan,
            config.simulation.map(|simulation| simulation.net)
        ),
        (Plan::Net("sim.p".into()), Some("sim.p".into()))
    );
    assert!(matches!(
        Raw::default().check(),
        Err(ConfigError::NothingToSweep)
    ));
    let both = refused(|raw| raw.assignments = "a.toml".to_owned());
    assert_eq!(
        both,
        "cannot use net: expected no net file, because assignments is set to a.toml (found \"fabric.p\")"
    );
}

#[test]
fn all_samplers_need_a_plan_and_a_simulated_fabric() {
    let all = |assignments: &str, simulate: &str| {
        check(|raw| {
            (raw.net, raw.sampler) = (String::new(), "all".to_owned());
            (raw.assignments, raw.simulate) = (assignments.to_owned(), simulate.to_owned());
        })
    };
    assert!(
        all("plan.toml", "sim.p")
            .expect("valid")
            .is_for_all_samplers()
    );
    assert!(
        all("plan.toml", "")
            .expect_err("refused")
            .to_string()
            .contains("--simulate FILE")
    );
    assert!(
        all("", "sim.p")
            .expect_err("refused")
            .to_string()
            .contains("--assignments FILE")
    );
}

#[test]
fn wrong_values_are_named_with_what_was_expected() {
    assert_eq!(
        refused(|raw| raw.interval = "1 parsec".to_owned()),
        "cannot use interval: expected a duration such as 1s or 5ms (found \"1 parsec\")"
    );
    assert_eq!(
        refused(|raw| raw.grace = "1ms".to_owned()),
        "cannot use grace: expected a duration from 5ms to 10s (found \"1ms\")"
    );
    assert_eq!(
        refused(|raw| raw.drain = "1h".to_owned()),
        "cannot use drain: expected a duration from 0s to 10m (found \"1h\")"
    );
    assert_eq!(
        refused(|raw| raw.window = 0),
        "cannot use window: expected a number from 1 to 128 (found \"0\")"
    );
    for sl in [Sl::Number(16), Sl::Word("16".to_owned())] {
        assert_eq!(
            refused(|raw| raw.sl = sl),
            "cannot use sl: expected a service level from 0 to 15, or \"path\" (found \"16\")"
        );
    }
    assert_eq!(
        refused(|raw| raw.pkey = "0x8000".to_owned()),
        "cannot use pkey: expected a P_Key such as 0xffff (found \"0x8000\")"
    );
    assert!(refused(|raw| raw.groups = vec!["vlopdat".to_owned()]).contains("vlopdata"));
    assert!(refused(|raw| raw.groups.clear()).starts_with("cannot use groups:"));
    assert!(
        refused(|raw| raw.force_groups = vec!["bas".to_owned()])
            .starts_with("cannot use force_groups:")
    );
    for (clear, groups) in [("base", ["base"]), ("rcvsl", ["xmtsl"])] {
        let refusal = refused(|raw| {
            raw.clear = vec![clear.to_owned()];
            raw.groups = groups.map(str::to_owned).into();
        });
        assert_eq!(
            refusal,
            format!(
                "cannot use clear: expected xmtsl or rcvsl, which must be in groups too (found \"{clear}\")"
            )
        );
    }
    assert!(refused(|raw| raw.identity = "0s".to_owned()).starts_with("cannot use identity:"));
    assert!(refused(|raw| raw.simulated.loss = f64::NAN).starts_with("cannot use simulated.loss:"));
    assert_eq!(
        refused(|raw| raw.simulated.scenario = "incats".to_owned()),
        "cannot use simulated.scenario: expected one of the scenarios jobs, incast, ipoib_flood, nfs_storm, storms (found \"incats\")"
    );
    assert!(
        refused(|raw| raw.simulated.scenario_start = "soon".to_owned())
            .starts_with("cannot use simulated.scenario_start:")
    );
}

#[test]
fn hca_ports_are_one_or_several_each_once() {
    let names = |ca| {
        check(|raw| raw.ca = ca)
            .expect("valid")
            .cas
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let many = |names: &[&str]| Ca::Many(names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(names(Ca::One(String::new())), Vec::<String>::new());
    assert_eq!(names(Ca::One("mlx5_0".to_owned())), ["mlx5_0"]);
    assert_eq!(
        names(many(&["mlx5_0:1", "mlx5_0:2", "mlx5_1"])),
        ["mlx5_0:1", "mlx5_0:2", "mlx5_1"]
    );
    assert_eq!(
        refused(|raw| raw.ca = many(&["a", "b", "a"])),
        "cannot use ca: expected each HCA port once (found \"a\")"
    );
    assert!(
        refused(|raw| raw.ca = many(&["a:x"]))
            .starts_with("cannot use ca: expected an HCA and its port")
    );
    let read: Raw =
        toml::from_str("ca = [\"mlx5_0\", \"mlx5_1\"]\ncpus = [2, 3]\n").expect("it parses");
    assert_eq!(
        (read.ca, read.cpus),
        (many(&["mlx5_0", "mlx5_1"]), vec![2, 3])
    );
}

#[test]
fn service_level_is_a_number_or_that_of_the_path() {
    let engine = |sl| check(|raw| raw.sl = sl).expect("valid").engine;
    assert_eq!(
        (engine(Sl::Number(3)).sl, engine(Sl::Number(3)).path_sl),
        (3, false)
    );
    assert_eq!(
        (
            engine(Sl::Word("path".to_owned())).sl,
            engine(Sl::Word("path".to_owned())).path_sl
        ),
        (0, true)
    );
}

#[test]
fn groups_keep_their_order_without_duplicates() {
    let groups = check(|raw| raw.groups = ["base", "all", "base"].map(str::to_owned).to_vec())
        .expect("valid")
        .engine
        .groups;
    assert_eq!(
        groups[..5],
        [
            Group::Base,
            Group::Extended,
            Group::XmtDisc,
            Group::RcvErr,
            Group::XmtSl
        ]
    );
    assert_eq!(groups.len(), Group::ALL.len());
}

/// Writes a file, reads and checks it, and returns the error.
fn error_of(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ibnet.toml");
    // U+FFFD stands for an octet that is not UTF-8.
    std::fs::write(
        &path,
        text.split('\u{fffd}')
            .map(str::as_bytes)
            .collect::<Vec<_>>()
            .join(&0xff),
    )
    .expect("written");
    let error = Raw::read(&path)
        .and_then(|raw| raw.check())
        .expect_err("refused")
        .placed(&path, text)
        .to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn errors_name_the_line_of_the_file() {
    for (text, expected) in [
        (
            "window = 8\nwindwo = 9\n",
            "ibnet.toml:2: cannot use windwo: there is no such key",
        ),
        (
            "window = 8\n# \u{fffd}\n",
            "ibnet.toml:2: cannot read this line: the text is not UTF-8",
        ),
        (
            "window = 8\n\n[simulated\n",
            "ibnet.toml:3: cannot read this line: ",
        ),
        (
            "window = 8\nca = 1\n",
            "ibnet.toml:2: cannot use ca: the value is not valid (found 1)",
        ),
        (
            "net = \"a\"\nsl = 256\n",
            "ibnet.toml:2: cannot use sl: expected a service level from 0 to 15, or \"path\" (found \"256\")",
        ),
        (
            "simulate = fabric.p\n",
            "ibnet.toml:1: cannot read this line: ",
        ),
        (
            "net = \"a\"\n[metrics]\ntls_key = \"\"\nlisten = \"x\"\n",
            "ibnet.toml:4: ",
        ),
        (
            "net = \"a\"\n[[output]]\ntype = \"stdout\"\n[[output]]\ntype = \"kafka\"\n",
            "ibnet.toml:5: cannot use output.type: ",
        ),
        (
            "net = \"a\"\n[[output]]\ntype = \"file\"\npath = \"b\"\nkeep = \"7d\"\n",
            "ibnet.toml:5: cannot use output.keep: the value is not valid (found \"7d\")",
        ),
    ] {
        let error = error_of(text);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn remedy_has_an_example_and_the_name_that_was_meant() {
    let help = |change: fn(&mut Raw)| {
        miette::Diagnostic::help(&check(change).expect_err("refused"))
            .expect("it has one")
            .to_string()
    };
    assert!(help(|raw| raw.window = 0).starts_with(
        "set window in ibnet.toml to a valid value, such as window = 32, or use --window; "
    ));
    assert!(
        help(|raw| raw.wait_every = 0).contains("such as wait_every = 1; "),
        "this key has no flag"
    );
    assert!(
        help(|raw| raw.simulated.scenario = "incats".to_owned())
            .starts_with("did you mean incast? ")
    );
    assert!(
        help(|raw| raw.groups = vec!["vlopdat".to_owned()]).starts_with("did you mean vlopdata? ")
    );
}
