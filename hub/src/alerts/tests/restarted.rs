//! What receivers get after a restart of a hub.

use std::path::Path;

use serde_json::{Value, json};

use super::super::receivers::Receivers;
use super::super::restart::StateFile;
use super::super::watch::Remembered;
use super::found::{Fabric, Key, healthy};
use super::told::{script, told, wait_for};
use super::*;
use crate::state_file;

/// Writes the state of a hub.
fn save(watched: &Watched, path: &Path) {
    StateFile::new(path, &watched.watch).save(&watched.hub);
}

/// Continues with a state.
fn load(hub: &Arc<Hub>, path: &Path, watch: &mut Watch, settings: &Settings) -> StateFile {
    let (threads, _) = Threads::new();
    let receivers = Receivers::start(hub, settings, &threads).expect("started");
    StateFile::load(hub, path, settings, watch, &receivers)
}

/// Returns a hub that continues with the state of another one.
fn restarted(before: &Watched, path: &Path) -> Watched {
    save(before, path);
    let hub = Arc::new(state::new(state::LIMITS));
    let mut after = Watched::new(hub, before.settings.clone());
    load(&after.hub, path, &mut after.watch, &after.settings);
    after
}

/// Restarts the hub of a fabric.
fn restart(fabric: &mut Fabric, path: &Path) {
    fabric.watched = restarted(&fabric.watched, path);
    fabric.hub = Arc::clone(&fabric.watched.hub);
}

/// Returns the firing alerts with the times from which they fire.
fn firing(watched: &Watched) -> Vec<(String, u64)> {
    let alerts = watched.hub.alerts();
    let firing = alerts.machine.alerts();
    let firing = firing.filter(|alert| alert.state == Phase::Firing);
    firing
        .map(|alert| (alert.id.clone(), alert.since_ns))
        .collect()
}

#[test]
fn alerts_go_on_after_a_restart_and_those_that_ended_are_resolved_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let start = state::START;
    // A host is dead, a link has lost half of its lanes, and a port had errors.
    let faults = |second: u64, is_faulty: bool| {
        move |(guid, port): Key, record: &mut Value| {
            let is_slow = is_faulty && second > start;
            if is_slow && [(1, 1), (2, 1)].contains(&(guid, port)) {
                record["link"] = json!("2xEDR");
            }
            if is_faulty && guid == 0x102 {
                record["status"] = json!("unreachable");
            }
            record["symbol_error_counter"] = json!(u64::from(second > start) * 20);
            true
        }
    };
    let mut fabric = Fabric::new(|raw| raw.recovery = "1m".to_owned());
    fabric.run(40, faults(start, true), json!({}));
    fabric.run(60, faults(start + 1, true), json!({}));
    let before = firing(&fabric.watched);
    let names: Vec<_> = before.iter().map(|(id, _)| id.split('/').next()).collect();
    for name in [
        "InfinibandHcaDead",
        "InfinibandLinkDegraded",
        "InfinibandSymbolErrors",
    ] {
        assert!(names.contains(&Some(name)), "{names:?}");
    }
    let count = fabric.watched.told.len();
    assert_eq!(count, before.len());

    let restart = |fabric: &mut Fabric| restart(fabric, &path);
    restart(&mut fabric);
    // No record has arrived yet.
    let look = fabric.watched.look(state::at(fabric.second));
    assert_eq!((look.len(), firing(&fabric.watched)), (0, before.clone()));
    fabric.second += 60;
    fabric.run(120, faults(start + 1, true), json!({}));
    assert_eq!(firing(&fabric.watched), before, "nothing has changed");
    assert_eq!(fabric.watched.told, []);

    // The host and the link are repaired while the hub does not run. The errors were within an
    // hour.
    restart(&mut fabric);
    fabric.second += 60;
    fabric.run(30, faults(start + 1, false), json!({}));
    assert_eq!(fabric.watched.told, [], "the recovery time");
    fabric.run(120, faults(start + 1, false), json!({}));
    let mut resolved = fabric.watched.told.clone();
    resolved.sort_unstable();
    let expected = [
        "InfinibandHcaDead/0x0000000000000102",
        "InfinibandLinkDegraded/0x0000000000000001/1",
    ];
    let expected = expected.map(|id| (id.to_owned(), Phase::Resolved));
    assert_eq!(resolved, expected);
    let is_error = |(id, _): &(String, u64)| id.starts_with("InfinibandSymbolErrors/");
    assert_eq!(
        firing(&fabric.watched)
            .iter()
            .filter(|alert| is_error(alert))
            .count(),
        6
    );
    // A resolved alert is not resolved again.
    restart(&mut fabric);
    fabric.run(120, faults(start + 1, false), json!({}));
    assert_eq!(fabric.watched.told, []);
}

#[test]
fn sampler_that_is_down_over_a_restart_is_told_once_and_so_is_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let hub = Arc::new(state::new(state::LIMITS));
    let settings = settings(|raw| raw.hold = vec!["IbnetSamplerDown=0s".to_owned()]);
    let mut watched = Watched::new(Arc::clone(&hub), settings);
    let start = state::START;
    state::add(&hub, start, &state::slot("s1", 1, start));
    let id = "IbnetSamplerDown/s1 x/1";
    let silence = Mark {
        by: "ada".to_owned(),
        why: "maintenance".to_owned(),
        silent: true,
        at_ns: start * SECOND,
        until_ns: u64::MAX,
    };
    assert!(hub.alerts().marks.set(id, silence));
    let look = |watched: &mut Watched, second: u64| watched.look(state::at(start + second)).len();
    assert_eq!(look(&mut watched, 20), 0, "it is silent");
    // The silence is lost, because the marks have no file.
    watched = restarted(&watched, &path);
    assert_eq!([look(&mut watched, 30), look(&mut watched, 40)], [1, 0]);
    watched = restarted(&watched, &path);
    // Without any record of it, the sampler is as before for 15 minutes.
    let told: usize = (5..90).map(|second| look(&mut watched, second * 10)).sum();
    assert_eq!((told, firing(&watched).len()), (0, 1));
    for second in 900..1000 {
        let second = start + second;
        state::add(&watched.hub, second, &state::slot("s1", 1, second));
        if second.is_multiple_of(10) {
            watched.look(state::at(second));
        }
    }
    assert_eq!(watched.told, [(id.to_owned(), Phase::Resolved)]);
}

#[test]
fn conditions_over_some_minutes_are_not_over_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let mut fabric = Fabric::new(|raw| raw.recovery = "1m".to_owned());
    fabric.run(20, healthy, json!({}));
    fabric.event("sm_change", 0x102, "0x102 is the master in place of 0x101");
    fabric.run(20, healthy, json!({"slots_missed": 1, "lines_lost": 2}));
    let ids = |fabric: &Fabric| -> Vec<String> {
        let firing = firing(&fabric.watched).into_iter();
        firing.map(|(id, _)| id).collect()
    };
    let names = ["IbnetRecordsDropped/s x/1", "IbnetSlotsMissed/s x/1"];
    let changed = "InfinibandSubnetManagerChanged";
    assert_eq!(ids(&fabric), [names[0], names[1], changed]);
    restart(&mut fabric, &path);
    fabric.run(200, healthy, json!({}));
    assert_eq!(ids(&fabric), [names[0], names[1], changed]);
    fabric.run(200, healthy, json!({}));
    assert_eq!(ids(&fabric), [changed], "five minutes are over");
    fabric.run(300, healthy, json!({}));
    assert_eq!(ids(&fabric).len(), 0, "ten minutes are over");
    assert_eq!(fabric.watched.told.len(), 3);
}

#[test]
fn lost_subnet_manager_is_lost_after_a_restart_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let mut fabric = Fabric::new(|raw| raw.recovery = "1m".to_owned());
    fabric.event("sm", 0x101, "master, priority 14");
    fabric.run(20, healthy, json!({}));
    let lost = "master, priority 14; it does not answer any more";
    fabric.event("sm", 0x101, lost);
    fabric.run(20, healthy, json!({}));
    let before = firing(&fabric.watched);
    assert_eq!(before[0].0, "InfinibandSubnetManagerSilent");
    restart(&mut fabric, &path);
    // No event names a subnet manager until another one is the master.
    fabric.run(300, healthy, json!({}));
    assert_eq!(firing(&fabric.watched), before);
    fabric.event("sm", 0x102, "master, priority 15");
    fabric.run(100, healthy, json!({}));
    assert_eq!(firing(&fabric.watched), []);
}

#[test]
fn errors_that_are_read_again_after_a_restart_count_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let mut fabric = Fabric::new(|_| ());
    let errors = |count: u64| {
        move |_: Key, record: &mut Value| {
            record["symbol_error_counter"] = json!(count);
            true
        }
    };
    let summary = |fabric: &Fabric| {
        let alerts = fabric.hub.alerts();
        let alert = alerts
            .machine
            .alerts()
            .next()
            .map(|alert| alert.summary.clone());
        alert.expect("an alert")
    };
    fabric.run(40, errors(0), json!({}));
    fabric.run(61, errors(20), json!({}));
    let before = summary(&fabric);
    assert!(
        before.starts_with("symbol_error_counter increased by 20 "),
        "{before}"
    );
    for _ in 0..2 {
        restart(&mut fabric, &path);
        // Nothing has arrived.
        fabric.watched.look(state::at(fabric.second));
        let remembered = fabric.watched.watch.remembered();
        let Some(Remembered::EvaluatedNs(evaluated_ns)) = remembered.first() else {
            panic!("{remembered:?}")
        };
        // The input is read again from its beginning, up to what was evaluated.
        let again = evaluated_ns / SECOND - state::START;
        (fabric.second, fabric.is_looking) = (state::START, false);
        fabric.run(40, errors(0), json!({}));
        fabric.run(again - 40, errors(20), json!({}));
        fabric.is_looking = true;
        fabric.watched.look(state::at(fabric.second));
        assert_eq!(summary(&fabric), before);
        fabric.run(60, errors(20), json!({}));
        assert_eq!(summary(&fabric), before);
    }
}

#[test]
fn hold_time_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let hub = Arc::new(state::new(state::LIMITS));
    let mut watched = Watched::new(Arc::clone(&hub), settings(|_| ()));
    // 120 s is the hold time of a dead HCA.
    let step = |watched: &Watched, second: u64| {
        let mut alerts = watched.hub.alerts();
        let changes = alerts
            .machine
            .step(at(second), vec![dead(1)], |_| true, &watched.settings);
        changes.len()
    };
    assert_eq!([step(&watched, 0), step(&watched, 100)], [0, 0]);
    watched = restarted(&watched, &path);
    assert_eq!([step(&watched, 10), step(&watched, 20)], [0, 1]);
}

#[test]
fn change_that_no_receiver_got_is_sent_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let output = folder.path().join("output");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let program = script(
        folder.path(),
        "test \"$1\" = fail && exit 1\ncat >>\"$1\"\n",
    );
    let with = |argument: String| {
        let command = vec![text(&program), argument];
        move |raw: &mut Raw| raw.command = command
    };
    let (hub, mut receivers, changes) = told(with("fail".to_owned()));
    receivers.tell(
        Now {
            monotonic: Duration::ZERO,
            wall_ns: 0,
        },
        &changes,
    );
    wait_for(&hub, |found| found[0]["failed"] != 0);
    let settings = settings(with(text(&output)));
    let before = Watched::new(hub, settings.clone());
    save(&before, &path);
    let hub = Arc::new(state::new(state::LIMITS));
    load(&hub, &path, &mut Watch::default(), &settings);
    wait_for(&hub, |found| found[0]["sent"] == 1);
    let found: Value =
        serde_json::from_slice(&std::fs::read(&output).expect("written")).expect("JSON");
    assert_eq!(found["id"], "InfinibandHcaDead/0x0000000000000001");
    // It is not sent a second time.
    let sent = Watched::new(hub, settings.clone());
    assert!(
        sent.hub.alerts().is_changed,
        "the file is written at the next look"
    );
    save(&sent, &path);
    let hub = Arc::new(state::new(state::LIMITS));
    load(&hub, &path, &mut Watch::default(), &settings);
    assert_eq!(hub.alerts().receivers[0].waiting.len(), 0);
}

#[test]
fn file_of_alerts_that_is_damaged_or_of_another_version_costs_its_own_lines_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let hub = Arc::new(state::new(state::LIMITS));
    let before = Watched::new(hub, settings(|_| ()));
    let found = (1..4).map(dead).collect();
    before
        .hub
        .alerts()
        .machine
        .step(at(0), found, |_| true, &before.settings);
    save(&before, &path);
    let whole = std::fs::read(&path).expect("written");
    let lines = zstd::decode_all(&whole[..]).expect("zstd");
    let alerts = |content: &[u8]| {
        std::fs::write(&path, content).expect("written");
        let hub = Arc::new(state::new(state::LIMITS));
        load(&hub, &path, &mut Watch::default(), &before.settings);
        hub.alerts().machine.alerts().count()
    };
    let pack = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("zstd");
    let text = String::from_utf8(lines).expect("UTF-8");
    assert_eq!(alerts(&whole), 3);
    assert_eq!(alerts(&pack(&text.replacen("HcaDead", "HcaGone", 1))), 2);
    assert_eq!(alerts(&pack(&format!("x\n{{\"new\": 1}}\n{text}"))), 3);
    assert_eq!([alerts(&[]), alerts(b"no zstd")], [0, 0]);
    let wrong = state_file::read(&path, |_: Value| true);
    assert!(wrong.is_err(), "this is no file of the hub");
    for place in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        // There is no panic.
        alerts(&damaged);
    }
}

#[test]
fn endless_state_of_alerts_is_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("alerts");
    let mut file = state_file::Lines::new().expect("a file");
    for number in 0..51_000_u64 {
        let port = json!([Guid(number), 1]);
        let errors =
            json!({"port": port, "condition": "InfinibandSymbolErrors", "minutes": [[1, 20]]});
        let alert = json!({"condition": "InfinibandHcaDead", "state": "firing", "subject": {"guid": Guid(number)}, "summary": "x",
            "since_ns": 1, "is_told": true, "held": Duration::ZERO});
        for (line, most) in [
            (json!({"remembered": {"errors": errors}}), u64::MAX),
            (
                json!({"remembered": {"slower": {"port": port, "best": [100.0, 1]}}}),
                u64::MAX,
            ),
            (json!({"alert": alert}), 6000),
            (
                json!({"waiting": {"receiver": "command false", "message": "{}"}}),
                2000,
            ),
        ] {
            if number < most {
                file.add(&line).expect("added");
            }
        }
    }
    std::fs::write(&path, file.finish().expect("a file")).expect("written");
    let hub = Arc::new(state::new(state::LIMITS));
    let mut watch = Watch::default();
    let settings = settings(|raw| raw.command = vec!["false".to_owned()]);
    load(&hub, &path, &mut watch, &settings);
    let alerts = hub.alerts();
    assert_eq!(alerts.machine.alerts().count(), 5000);
    let waiting = alerts.receivers[0].waiting.len();
    assert!((1..=1001).contains(&waiting), "{waiting}");
    assert_eq!(watch.remembered().len(), 1 + 2 * 50_000);
}
