//! Runs `ibnet-gen cabling`, and compares what it finds with random faults.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use ibnet::cabling::{Comparison, Modules, Plan, compare};
use ibnet::topology::net_file;
use ibnet::topology::synthetic::Blueprint;

use super::cabling_faults::{FAULTS, Fabric, Named};

fn comparison(plan: &str, net: &str) -> Comparison {
    let mut planned = Plan::default();
    planned.add(plan.as_bytes(), "plan").unwrap();
    let net = net_file::parse_all(&[("net.p".to_owned(), net.as_bytes().to_vec())]).unwrap();
    compare(&planned, &net, &Modules::default())
}

/// Returns the kind of each wrong or unplanned cable.
fn kinds(comparison: &Comparison) -> BTreeMap<Named, &'static str> {
    let cable = |finding: &compare::Finding| {
        let ends = finding.planned.as_ref().or(finding.found.as_ref()).unwrap();
        let mut named = ends
            .clone()
            .map(|end| (end.name.replace('/', " "), usize::from(end.port.0)));
        named.sort();
        (named, finding.kind.as_str())
    };
    let kinds: BTreeMap<_, _> = comparison.findings.iter().map(cable).collect();
    assert_eq!(
        kinds.len(),
        comparison.findings.len(),
        "one finding for each cable"
    );
    kinds
}

/// Compares the fabric with the plan in this form after each `faults` random faults.
#[track_caller]
fn faults_are_found(fabric: &Fabric, plan: &str, faults: usize, rounds: u64) -> usize {
    let mut all = 0;
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut faulty = fabric.right();
        let mut added = [0; FAULTS];
        for at in 0..faults {
            let first = if faults >= FAULTS {
                at % FAULTS
            } else {
                random.usize(..FAULTS)
            };
            // A fault of this kind may have no place left.
            let placed = (first..first + FAULTS)
                .map(|kind| kind % FAULTS)
                .find(|kind| faulty.add(fabric, *kind, &mut random));
            added[placed.unwrap()] += 1;
        }
        let comparison = comparison(plan, &faulty.net_file(fabric));
        assert_eq!(kinds(&comparison), faulty.expected, "seed {seed}");
        assert_eq!(comparison.steps.len(), faulty.steps, "seed {seed}");
        assert_eq!(comparison.remarks, Vec::<String>::new());
        if faults >= 20 * FAULTS {
            assert!(
                added.iter().all(|added| *added > 0),
                "each kind occurs: {added:?}"
            );
        }
        all += added.iter().sum::<usize>();
    }
    all
}

#[test]
fn thousand_faults_in_a_fabric_of_20_000_hosts_are_found() {
    let fabric = Fabric::new(25, 25, 32);
    assert_eq!(fabric.hcas(), 40_000, "20,000 hosts with two rails");
    assert_eq!(faults_are_found(&fabric, &fabric.net_file(), 1000, 1), 1000);
}

#[test]
fn single_faults_are_found() {
    let fabric = Fabric::new(2, 2, 4);
    let found = faults_are_found(&fabric, &fabric.net_file(), 1, 500);
    assert_eq!(found, 500);
}

#[test]
fn several_faults_at_once_are_found_with_every_form_of_the_plan() {
    let fabric = Fabric::new(3, 3, 6);
    let found = faults_are_found(&fabric, &fabric.net_file(), 12, 40);
    assert_eq!(found, 480);
    // The NDT file has no speeds, so faults of the kind 9 would be missed.
    let mut faulty = fabric.right();
    let mut random = fastrand::Rng::with_seed(7);
    for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, 10] {
        assert!(faulty.add(&fabric, kind, &mut random), "{kind}");
    }
    let net = faulty.net_file(&fabric);
    for plan in [fabric.net_file(), fabric.ndt(), fabric.topo()] {
        let comparison = comparison(&plan, &net);
        assert_eq!(kinds(&comparison), faulty.expected, "{}", &plan[..60]);
        assert_eq!(comparison.steps.len(), faulty.steps);
    }
    assert_eq!(
        faults_are_found(&fabric, &fabric.topo(), 12, 20),
        faults_are_found(&fabric, &fabric.net_file(), 12, 20)
    );
}

#[test]
fn faults_are_made_without_the_code_that_finds_them() {
    let uses = include_str!("cabling_faults.rs")
        .lines()
        .filter(|line| line.starts_with("use "));
    assert!(
        uses.into_iter()
            .all(|line| line.contains("std::") || line.contains("topology::synthetic"))
    );
}

/// The number of a cable, and its ends in place of the planned ones.
type Change = (usize, Option<[(usize, usize); 2]>);

/// Four hosts on two leaf switches and one spine, with these changes of the cables.
fn small(changes: &[Change]) -> String {
    let mut net = Blueprint::new("NDR");
    let mut nodes: Vec<_> = (1..=2)
        .map(|n| net.switch(&format!("MF0;leaf{n}:MQM9700/U1"), 8))
        .collect();
    nodes.push(net.switch("MF0;spine1:MQM9700/U1", 8));
    nodes.extend((1..=4).map(|n| net.adapter(&format!("node{n} mlx5_0"), 1)));
    let mut cables: Vec<_> = (0..4)
        .map(|n| Some([(3 + n, 1), (n / 2, 1 + n % 2)]))
        .collect();
    cables.extend([Some([(0, 8), (2, 1)]), Some([(1, 8), (2, 2)])]);
    for (at, cable) in changes {
        cables[*at] = *cable;
    }
    for [one, two] in cables.into_iter().flatten() {
        net.cable((nodes[one.0], one.1), (nodes[two.0], two.1));
    }
    net.ports_report()
}

fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir)
        .arg("cabling")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

const PLAN: &str = "\
rack,u,#Fields:StartDevice,StartPort,Location,EndDevice,EndPort,LinkType,Speed,,Cable Length,Label
,,node1,mlx5_0,R1,leaf1,Port 1,Data,400000,,2,H001
,,NODE2,node2 mlx5_0,R1,LEAF1,Port 2,Data,400000,,2,H002
,,node3,mlx5_0/1,R1,leaf2,Port 1,Data,400000,,2,H003
,,nod4,mlx5_0,R1,leaf2,Port 2,Data,400000,,2,H004
,,leaf1,Port 8,R1,spine1,Port 1,Data,800000,,10,T001
,,leaf2,Port 8,R1,spine1,Port 2,Data,400000,,10,T002
,,leaf2,Port 2/2/1,R1,spine1,Port 3,Data,400000,,10,T003
";

#[test]
fn report_names_kinds_steps_and_similar_names() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("plan.csv", PLAN);
    // node1 and node2 are exchanged, and the spine has no cable to leaf2.
    write(
        "net.p",
        &small(&[
            (0, Some([(3, 1), (0, 2)])),
            (1, Some([(4, 1), (0, 1)])),
            (5, None),
        ]),
    );
    let (code, stdout, stderr) = run(dir.path(), &["--planned", "plan.csv", "--net", "net.p"]);
    assert_eq!((code, &*stderr), (0, ""));
    assert_eq!(
        stdout,
        "\
planned   6 cables in plan.csv
right     1 in net.p
wrong     4: 1 missing, 2 swapped, 1 wrong speed
not found 1 device of the plan
          `nod4 mlx5_0` (plan.csv:5): did you mean `node4 mlx5_0`?
remarks   1
          plan.csv:8: cannot read the port `Port 2/2/1` of `leaf2`

missing
  leaf2 port 8 - spine1 port 2 (label T002)

swapped
  node2 mlx5_0 port 1 - leaf1 port 2 (label H002)
    is in leaf1 port 1
  node1 mlx5_0 port 1 - leaf1 port 1 (label H001)
    is in leaf1 port 2

wrong speed
  leaf1 port 8 - spine1 port 1 (label T001)
    planned 800 Gb/s, is 400 Gb/s

steps     3; no list is shorter
          unplug all ends of a group before you plug in the first
group 2
   1  move     leaf1 port 1
      to       leaf1 port 2
      cable of node2 mlx5_0 port 1, label H002
   2  move     leaf1 port 2
      to       leaf1 port 1
      cable of node1 mlx5_0 port 1, label H001
group 3
   3  connect  leaf2 port 8
      to       spine1 port 2, label T002
"
    );
    let (code, json, _) = run(
        dir.path(),
        &[
            "--planned",
            "plan.csv",
            "--net",
            "net.p",
            "--check",
            "--format",
            "json",
        ],
    );
    assert_eq!(code, 3);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["planned"], 6);
    assert_eq!(json["findings"][0]["kind"], "missing");
    assert_eq!(json["not_found"][0]["similar"], "node4 mlx5_0");
    let (_, csv, _) = run(
        dir.path(),
        &["--planned", "plan.csv", "--net", "net.p", "--format", "csv"],
    );
    assert!(csv.starts_with("what,group,kind,name_a,"), "{csv}");
    assert!(
        csv.lines().all(|line| line.split(',').count() == 17),
        "{csv}"
    );
}

#[test]
fn right_cabling_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.p"), small(&[])).unwrap();
    fs::write(dir.path().join("net.p"), small(&[])).unwrap();
    let (code, stdout, _) = run(
        dir.path(),
        &["--planned", "plan.p", "--net", "net.p", "--check"],
    );
    assert_eq!(code, 0);
    assert_eq!(
        stdout,
        "planned   6 cables in plan.p\nright     6 in net.p\nwrong     0\n"
    );
}

#[test]
fn file_that_is_no_plan_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), small(&[])).unwrap();
    for (text, message, help) in [
        (
            "name,role\nnode1,login\n",
            "no columns StartDevice, StartPort, EndDevice and EndPort",
            "give an NDT file",
        ),
        (
            "StartDevice,StartPort,EndDevice,EndPort\nnode1,,leaf1,1\n",
            "none of its lines is a cable (plan:2: ",
            "two devices and two ports",
        ),
    ] {
        fs::write(dir.path().join("plan"), text).unwrap();
        let (code, stdout, stderr) = run(dir.path(), &["--planned", "plan", "--net", "net.p"]);
        assert_eq!((code, &*stdout), (1, ""));
        assert!(
            stderr.contains(message) && stderr.contains(help),
            "{stderr}"
        );
    }
}

#[test]
fn parts_and_lengths_are_those_of_module_records() {
    let plan = "A Device,A Port,B Device,B Port,Part Number,Length\n\
                node1,mlx5_0,leaf1,1,MCP4Y10,2\nnode2,mlx5_0,leaf1,2,MCP4Y10,3\nnode3,mlx5_0,leaf2,1,MCP4Y10,2m\n";
    let mut planned = Plan::default();
    planned.add(plan.as_bytes(), "plan").unwrap();
    let net = net_file::parse_all(&[("net.p".to_owned(), small(&[]).into_bytes())]).unwrap();
    let mut modules = Modules::default();
    // 0x42 is 2 m in a module of OSFP, and 2 is 2 m in one of QSFP28.
    let record = |guid: u64, part: &str, length: u8| {
        let identifier = if length > 0x3f { 8 } else { 0 };
        format!(
            "{{\"type\":\"module\",\"guid\":\"0x{guid:016x}\",\"port\":1,\"vendor_pn\":\"{part}\",\"cable_length\":{length},\"cable_identifier\":{identifier}}}\n"
        )
    };
    modules.add(
        [
            record(0x10_0041, "MCP4Y10 ", 0x42),
            record(0x10_0051, "MCP4Y10", 2),
            record(0x10_0061, "MFA7U10", 2),
        ]
        .concat()
        .as_bytes(),
    );
    assert_eq!(modules.len(), 3);
    let found = compare(&planned, &net, &modules);
    let kinds: Vec<_> = found
        .findings
        .iter()
        .map(|finding| (finding.kind.as_str(), finding.values.clone().unwrap()))
        .collect();
    let values = |planned: &str, found: &str| [planned.to_owned(), found.to_owned()];
    assert_eq!(
        kinds,
        [
            ("wrong part", values("MCP4Y10", "MFA7U10")),
            ("wrong length", values("3 m", "2 m"))
        ]
    );
}

fn csv_plan(rows: &[&str]) -> Plan {
    let text = format!("From,From Port,To,To Port\n{}\n", rows.join("\n"));
    let mut plan = Plan::default();
    plan.add(text.as_bytes(), "plan").unwrap();
    plan
}

fn compared(plan: &Plan, nets: &[String]) -> Comparison {
    let files: Vec<_> = (0..)
        .zip(nets)
        .map(|(n, net)| (format!("{n}.p"), net.clone().into_bytes()))
        .collect();
    compare(
        plan,
        &net_file::parse_all(&files).unwrap(),
        &Modules::default(),
    )
}

#[test]
fn values_and_ports_that_are_not_compared_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write(
        "plan.csv",
        "From,From Port,To,To Port,Speed,Length\n\
         node1,mlx5_0,leaf1,1,HRD,2\nnode2,mlx5_0,leaf1,2,NDR,three\n\
         node3,mlx5_0,leaf2,x,NDR,2\nnode4,mlx5_0,leaf2,9,NDR,2\n\
         leaf1,8,spine1,1,NDR,2\nleaf2,8,0x0000000000200030,99,NDR,2\n",
    );
    write("plan.topo", "QM leaf1\n  P8 -4x-33G-> QM spine1 P1\n");
    write("net.p", &small(&[]));
    write("lines.jsonl", "{\"type\":\"port\",\"ts\":1}\n");
    let report = |plan: &str| {
        let args = [
            "--planned",
            plan,
            "--net",
            "net.p",
            "--modules",
            "lines.jsonl",
            "--check",
        ];
        let (code, stdout, _) = run(dir.path(), &args);
        let remarks: Vec<String> = stdout
            .lines()
            .skip_while(|line| !line.starts_with("remarks"))
            .skip(1)
            .map_while(|line| Some(line.strip_prefix("          ")?.to_owned()))
            .collect();
        (code, remarks, stdout)
    };
    let modules = "lines.jsonl: there is no `module` record, so parts and lengths are not compared";
    let (code, remarks, stdout) = report("plan.csv");
    let expected = [
        "plan.csv:2: cannot read the speed `HRD`, so it is not compared",
        "plan.csv:3: cannot read the length `three`, so it is not compared",
        modules,
        "plan.csv:4: cannot read the port `x` of `leaf2`",
        "plan.csv:5: `MF0;leaf2:MQM9700/U1` has 8 ports, and no port 9",
        "plan.csv:7: `MF0;spine1:MQM9700/U1` has 8 ports, and no port 99",
    ];
    assert_eq!(
        (code, &remarks[..]),
        (3, &expected.map(str::to_owned)[..]),
        "{stdout}"
    );
    assert!(
        stdout.starts_with("planned   3 cables in plan.csv\nright     3 in net.p\n"),
        "{stdout}"
    );
    assert!(!stdout.contains("steps"), "{stdout}");
    let (code, remarks, _) = report("plan.topo");
    let speed = "plan.topo:2: cannot read the speed `-4x-33G`, so it is not compared";
    assert_eq!(
        (code, remarks),
        (3, vec![speed.to_owned(), modules.to_owned()])
    );
}

#[test]
fn cable_in_another_subnet_is_in_a_wrong_plane() {
    let plane = |number: usize| {
        let mut net = Blueprint::new("XDR");
        let leaf = net.switch(&format!("leaf{number}"), 8);
        for host in 0..4 {
            let own = if host == 3 { 1 - number } else { number };
            let hca = net.adapter(&format!("gpu{host} mlx5_{own}"), 1);
            net.cable((hca, 1), (leaf, host + 1));
        }
        // GUIDs of the second subnet are others.
        net.ports_report().replace("0x00", &format!("0x0{number}"))
    };
    let rows: Vec<_> = (0..4)
        .flat_map(|host| {
            [0, 1].map(|plane| format!("gpu{host},mlx5_{plane},leaf{plane},{}", host + 1))
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let found = compared(&csv_plan(&rows), &[plane(0), plane(1)]);
    let kinds: Vec<_> = found
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect();
    assert_eq!(
        (kinds, found.right, found.steps.len()),
        (vec!["wrong rail", "wrong rail"], 6, 2)
    );
}

#[test]
fn device_with_a_new_guid_is_found_by_its_name() {
    let mut plan = Plan::default();
    plan.add(small(&[]).as_bytes(), "plan.p").unwrap();
    let found = compared(
        &plan,
        &[small(&[]).replace("0x0000000000100071", "0x00000000001000f1")],
    );
    assert_eq!(
        (found.right, found.replaced, found.findings.len()),
        (6, 1, 0)
    );
}

#[test]
fn ports_of_directors_and_hosts_with_several_hcas_are_told_apart() {
    let mut net = Blueprint::new("HDR");
    let boards: Vec<_> = (1..=2)
        .map(|n| net.switch(&format!("MF0;core:CS8500/L0{n}/U1"), 4))
        .collect();
    let leaf = net.switch("MF0;leaf1:MQM8700/U1", 4);
    net.cable((leaf, 1), (boards[0], 3));
    net.cable((leaf, 2), (boards[1], 3));
    for n in 0..2 {
        let hca = net.adapter(&format!("node1 mlx5_{n}"), 1);
        net.cable((hca, 1), (leaf, 3 + n));
    }
    let plan = csv_plan(&[
        "leaf1,Port 1,CORE,Blade 1_Port 1/3",
        "leaf1,Port 2,core,Blade 02_Port 1/3",
        "node1,mlx5_0,leaf1,3",
        "node1,1,leaf1,4",
        "core,3,leaf1,2",
        "leaf1,1,leaf1,1",
        "node1,mlx5_0,leaf1,4",
    ]);
    let found = compared(&plan, &[net.ports_report()]);
    assert_eq!(found.right, 3);
    assert_eq!(
        found.remarks,
        [
            "plan:5: `node1` has 2 devices: name one of them with the port, such as `node1 mlx5_0`",
            "plan:6: `core` has 2 devices: name one of them with the port, such as `MF0;core:CS8500/L01/U1`",
            "plan:7: both ends are the same port",
            "plan:8: port 1 of `node1 mlx5_0` already has the cable of plan:4, which counts",
        ]
    );
}
