//! The verdicts of `make demo`, in virtual time, compared with the model of the simulated fabric.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::config::Raw;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::mad::transport::sim::link_end::{Change, LinkEnd};
use ibnet::output::Destination;
use ibnet::partition::{self, Request, hosts};
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::ports_report;
use ibnet_analysis::health::Health;
use ibnet_analysis::health::verdict::{Rule, Verdict};
use ibnet_analysis::input::Fold;
use ibnet_analysis::record::{Head, Record};
use ibnet_record::types::{Guid, LinkRate, PortNum};

/// What `make demo` gives the programs, beside `examples/demo.toml`.
const SAMPLERS: &str = "node[00001,00025,00049,00073,00097,00121,00145,00169]";
const SLOTS: u64 = 20;

fn root(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns the range of a number of errors, so wide that a random one is never outside.
fn range(mean: f64) -> [f64; 2] {
    let spread = 7.0 * mean.sqrt();
    [(mean - spread).max(0.0), mean + spread + 10.0]
}

#[test]
fn links_to_watch_are_those_with_a_worse_lane_in_the_model() {
    let makefile = std::fs::read_to_string(root("Makefile")).expect("read");
    assert!(makefile.contains(&format!("SAMPLERS = {SAMPLERS}\n")));
    assert!(makefile.contains(&format!("examples/demo.toml --sweeps {SLOTS} ")));
    let config = Raw::read(&root("examples/demo.toml")).expect("read");
    let config = config.check().expect("valid");
    let simulation = config.simulation.expect("simulated");
    let net = std::fs::read(root(&simulation.net.to_string_lossy())).expect("read");
    let fabric = ports_report::parse(&net, "stria").expect("valid").fabric;
    let list = hosts::parse_list(SAMPLERS).expect("a list");
    let samplers = hosts::locate(&list, &[], &fabric).expect("hosts of the fabric");
    let request = Request {
        fabric: &fabric,
        samplers,
        cap: 150,
    };
    let plan = partition::plan(&request).expect("enough samplers");

    let mut health = Health::default();
    for sampler in partition::assignments_of(&plan, &fabric).samplers {
        let mut sim = SimFabric::new(fabric.clone(), simulation.options());
        for device in simulation.dead_devices(&fabric).expect("known hosts") {
            sim.set_dead(device, true);
        }
        let clock = VirtualClock::default();
        clock.set_wall_offset(1_795_000_000_000_000_000);
        let settings = DriverSettings {
            sweeps: Some(SLOTS),
            ..DriverSettings::simulated(&sampler.host, config.interval, config.engine.clone())
        };
        let (outlet, lines) = Destination::memory();
        let sim = Arc::new(Mutex::new(sim));
        let transport = VirtualTransport::new(sim, clock.clone(), 1);
        Driver::new(
            SweepPlan::new(&sampler),
            settings,
            transport,
            clock,
            outlet,
            1,
        )
        .run(&Control::default(), |_| {
            for line in lines.text().lines() {
                let head = Head::of(line.as_bytes()).expect("a record");
                let kind = head.kind.expect("a known type");
                health.add(&Record::parse(line.as_bytes(), kind).expect("a record"));
            }
        })
        .expect("nothing is lost");
    }

    let mut links = BTreeMap::new();
    for device in fabric.devices() {
        for (port, peer) in device.linked() {
            let here = (device.guid.0, port.num);
            let there = (peer.guid.0, peer.port);
            links.insert((device.guid, port.num), (here, there, port.rate.clone()));
        }
    }
    let end_of = |key: &(Guid, PortNum)| {
        let (here, there, rate): &(_, _, LinkRate) = &links[key];
        LinkEnd::new(simulation.seed, *here, *there, rate, Change::default())
    };
    let rows = health.rows(&[], u64::MAX);
    assert!(rows.len() * 100 > links.len() * 98, "{} ends", rows.len());
    let (mut read, mut watched, mut unclear) = (0, 0, 0);
    for row in &rows {
        let end = end_of(&(row.port.guid, row.port.port));
        let ratios = end.error_ratios(Instant::ZERO + Duration::from_secs(SLOTS / 2));
        // Of some ports, only one reading was answered.
        let Some(raw) = row.raw else {
            assert_eq!(row.verdict, Verdict::Good, "{row:?}");
            continue;
        };
        read += 1;
        let bits = raw.bits as f64 / ratios.len() as f64;
        let mut expected: Vec<(f64, usize)> =
            ratios.iter().map(|ratio| ratio * bits).zip(0..).collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (worst, lane) = expected[0];
        // The rule compares bounds of 95 % intervals; that of no error at all ends at 3.7.
        let median = expected[1 + (expected.len() - 1) / 2].0;
        let is_sure = range(worst)[0] > 100.0 * (range(median)[1] + 10.0);
        let is_never = range(worst)[1] < 100.0 * range(median)[0].max(3.6);
        let lanes: Vec<_> = row
            .rules
            .iter()
            .filter(|rule| rule.rule == Rule::Lane)
            .collect();
        let is_watched = !lanes.is_empty();
        assert_eq!(row.verdict == Verdict::Watch, is_watched, "{row:?}");
        assert_eq!(row.rules.len(), lanes.len(), "{row:?}");
        assert!(!is_watched || !is_never, "{worst} {median}: {row:?}");
        assert!(is_watched || !is_sure, "{worst} {median}: {row:?}");
        if is_watched {
            assert!(end.is_ageing() && lanes[0].lane == Some(lane), "{row:?}");
        }
        watched += usize::from(is_watched);
        unclear += usize::from(!is_sure && !is_never);
    }
    let ageing = rows
        .iter()
        .filter(|row| end_of(&(row.port.guid, row.port.port)).is_ageing());
    let ageing = ageing.count();
    assert!(read * 100 > links.len() * 95, "{read} of {}", links.len());
    assert!(0 < watched && watched <= ageing, "{watched} of {ageing}");
    assert!(
        unclear < watched,
        "{unclear} are unclear, {watched} are watched"
    );
}
