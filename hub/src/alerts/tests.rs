//! Alerts in virtual time.

use ibnet_record::types::Guid;

mod found;
mod restarted;
mod told;

use super::conditions::{HCA_DEAD, SAMPLER_DOWN};
use super::machine::{Machine, Subject};
use super::marks::Mark;
use super::settings::Raw;
use super::*;
use crate::state::tests as state;

const SECOND: u64 = 1_000_000_000;

/// Returns settings that differ from the default ones.
pub(crate) fn settings(change: impl FnOnce(&mut Raw)) -> Settings {
    let mut raw = Raw::default();
    change(&mut raw);
    raw.check().expect("valid")
}

fn at(second: u64) -> (Duration, u64) {
    (Duration::from_secs(second), second * SECOND)
}

fn dead(guid: u64) -> Finding {
    Finding {
        condition: &HCA_DEAD,
        subject: Subject {
            guid: Some(Guid(guid)),
            ..Subject::default()
        },
        node: None,
        summary: "x".to_owned(),
        region: None,
        since_ns: None,
    }
}

fn states(machine: &Machine) -> Vec<Phase> {
    machine.alerts().map(|alert| alert.state).collect()
}

/// Steps a machine once, with what is found and known. Returns the states of what has changed.
fn step(machine: &mut Machine, second: u64, found: Vec<Finding>, is_known: bool) -> Vec<Phase> {
    let changed = machine.step(at(second), found, |_| is_known, &settings(|_| ()));
    changed.iter().map(|alert| alert.state).collect()
}

#[test]
fn alert_fires_after_its_hold_time_and_ends_after_the_recovery_time() {
    let mut machine = Machine::default();
    // 120 s is the hold time of a dead HCA.
    for second in (0..120).step_by(10) {
        assert_eq!(step(&mut machine, second, vec![dead(1)], true), []);
        assert_eq!(states(&machine), [Phase::Pending], "after {second} s");
    }
    assert_eq!(
        step(&mut machine, 120, vec![dead(1)], true),
        [Phase::Firing]
    );
    // A gap that is shorter than the recovery time changes nothing.
    assert_eq!(step(&mut machine, 170, Vec::new(), true), []);
    assert_eq!(step(&mut machine, 175, vec![dead(1)], true), []);
    assert_eq!(step(&mut machine, 230, Vec::new(), true), []);
    assert_eq!(step(&mut machine, 235, Vec::new(), true), [Phase::Resolved]);
    let alert = machine.alerts().next().expect("it is kept").clone();
    assert_eq!(
        (&*alert.id, alert.since_ns, alert.resolved_ns),
        (
            "InfinibandHcaDead/0x0000000000000001",
            0,
            Some(235 * SECOND)
        )
    );
    assert_eq!(step(&mut machine, 235 + 900, Vec::new(), true), []);
    assert_eq!(states(&machine), []);
}

#[test]
fn condition_that_ends_within_its_hold_time_makes_no_alert() {
    let mut machine = Machine::default();
    for second in (0..600).step_by(10) {
        let found = if second % 100 == 90 {
            Vec::new()
        } else {
            vec![dead(1)]
        };
        assert_eq!(
            step(&mut machine, second, found, true),
            [],
            "after {second} s"
        );
    }
}

#[test]
fn alert_keeps_its_state_while_nothing_is_known() {
    let mut machine = Machine::default();
    step(&mut machine, 0, vec![dead(1)], true);
    step(&mut machine, 120, vec![dead(1)], true);
    for second in (130..1020).step_by(10) {
        assert_eq!(
            step(&mut machine, second, Vec::new(), false),
            [],
            "after {second} s"
        );
    }
    // The recovery time begins when the state is no longer kept.
    step(&mut machine, 1020, Vec::new(), false);
    assert_eq!(
        step(&mut machine, 1080, Vec::new(), false),
        [Phase::Resolved]
    );
}

#[test]
fn condition_that_comes_back_is_a_new_alert() {
    let mut machine = Machine::default();
    for (second, found) in [(0, 1), (120, 1), (180, 0), (190, 1), (310, 1)] {
        step(&mut machine, second, vec![dead(1); found], true);
    }
    let [alert] = &machine.alerts().collect::<Vec<_>>()[..] else {
        panic!("one alert")
    };
    assert_eq!(
        (alert.state, alert.since_ns, alert.resolved_ns),
        (Phase::Firing, 190 * SECOND, None)
    );
}

#[test]
fn conditions_can_be_switched_off_and_have_other_times() {
    let settings = settings(|raw| {
        raw.off = vec!["IbnetSamplerDown".to_owned()];
        raw.hold = vec!["InfinibandHcaDead = 0s".to_owned()];
        raw.recovery = "0s".to_owned();
    });
    let sampler = Finding {
        condition: &SAMPLER_DOWN,
        ..dead(1)
    };
    let mut machine = Machine::default();
    let mut step = |second, found| machine.step(at(second), found, |_| true, &settings);
    let name = |changed: Vec<Alert>| {
        changed
            .iter()
            .map(|alert| (alert.condition.name, alert.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        name(step(0, vec![sampler, dead(1)])),
        [("InfinibandHcaDead", Phase::Firing)]
    );
    assert_eq!(
        name(step(1, Vec::new())),
        [("InfinibandHcaDead", Phase::Resolved)]
    );
}

#[test]
fn number_of_alerts_is_limited() {
    let mut machine = Machine::default();
    step(&mut machine, 0, (0..6000).map(dead).collect(), true);
    assert_eq!((states(&machine).len(), machine.left_out), (5000, 1000));
}

/// A hub and its watch, in virtual time.
pub(crate) struct Watched {
    hub: Arc<Hub>,
    watch: Watch,
    settings: Settings,
    /// What receivers were told.
    told: Vec<(String, Phase)>,
}

impl Watched {
    pub(crate) fn new(hub: Arc<Hub>, settings: Settings) -> Self {
        let watch = Watch::default();
        Self {
            hub,
            watch,
            settings,
            told: Vec::new(),
        }
    }

    pub(crate) fn look(&mut self, now: Now) -> Vec<Alert> {
        self.hub.tick(now);
        let found = self.watch.look(&self.hub, now, &self.settings);
        let changes = change(&self.hub, &self.watch, now, found, &self.settings).expect("a look");
        let told = changes.iter().map(|alert| (alert.id.clone(), alert.state));
        self.told.extend(told);
        changes
    }

    /// Returns the identities and states of all alerts.
    fn alerts(&self) -> Vec<(String, Phase)> {
        let alerts = self.hub.alerts();
        let rows = alerts.machine.alerts();
        rows.map(|alert| (alert.id.clone(), alert.state)).collect()
    }
}

#[test]
fn sampler_that_sends_no_records_is_down_until_it_is_back() {
    let hub = Arc::new(state::new(state::LIMITS));
    let mut watched = Watched::new(Arc::clone(&hub), settings(|_| ()));
    let mut found = Vec::new();
    for second in 0..400 {
        let second = state::START + second;
        if !(100..250).contains(&(second - state::START)) {
            state::add(&hub, second, &state::slot("s1", 1, second));
        }
        state::add(&hub, second, &state::slot("s2", 2, second));
        if second.is_multiple_of(10) {
            watched.look(state::at(second));
            let now = watched.alerts();
            if found.last().is_none_or(|(_, last)| *last != now) {
                found.push((second - state::START, now));
            }
        }
    }
    let id = "IbnetSamplerDown/s1 x/1".to_owned();
    assert_eq!(
        found,
        [
            (0, vec![]),
            (110, vec![(id.clone(), Phase::Pending)]),
            (170, vec![(id.clone(), Phase::Firing)]),
            (300, vec![(id, Phase::Resolved)]),
        ]
    );
}

#[test]
fn silenced_alert_is_told_when_the_silence_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marks.json");
    let hub = Arc::new(state::new(state::LIMITS));
    hub.alerts().marks = Marks::load(Some(path.clone()));
    let hold = settings(|raw| raw.hold = vec!["IbnetSamplerDown=0s".to_owned()]);
    let mut watched = Watched::new(Arc::clone(&hub), hold);
    let start = state::START;
    state::add(&hub, start, &state::slot("s1", 1, start));
    let id = "IbnetSamplerDown/s1 x/1";
    let mark = |until: u64, silent| Mark {
        by: "ada".to_owned(),
        why: "maintenance".to_owned(),
        silent,
        at_ns: start * SECOND,
        until_ns: until * SECOND,
    };
    assert!(hub.alerts().marks.set(id, mark(start + 60, true)));
    let mut look = |second: u64| watched.look(state::at(start + second)).len();
    // It fires, and nobody is told.
    assert_eq!([look(10), look(20), look(59)], [0, 0, 0]);
    assert_eq!([look(60), look(70)], [1, 0], "the end of the silence");
    // A mark that is no silence changes nothing.
    hub.alerts().marks.set(id, mark(start + 80, false));
    assert_eq!([look(75), look(85)], [0, 0]);
    // A silence that a user removes ends at the next look.
    hub.alerts().marks.set(id, mark(start + 600, true));
    hub.alerts().marks.set(id, mark(0, true));
    assert!(hub.alerts().marks.get(id).is_none());
    assert_eq!([look(95), look(105)], [1, 0]);
    // The file has the marks of the next start. A damaged one silences nothing.
    hub.alerts().marks.set(id, mark(start + 600, true));
    let (path, content) = hub.alerts().marks.take_change().expect("a change");
    kept::write(&path, &content);
    assert!(hub.alerts().marks.take_change().is_none());
    assert!(Marks::load(Some(path.clone())).is_silent(id));
    std::fs::write(&path, "{").expect("written");
    assert!(!Marks::load(Some(path)).is_silent(id));
}

#[test]
fn marks_with_the_longest_texts_can_be_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marks.json");
    let mut marks = Marks::load(Some(path.clone()));
    // Each of these bytes takes six in the file.
    let longest = Mark {
        by: "ada".to_owned(),
        why: "\u{1}".repeat(500),
        silent: true,
        at_ns: 0,
        until_ns: u64::MAX,
    };
    let short = Mark {
        why: "x".to_owned(),
        ..longest.clone()
    };
    let is_set = |number: &u32| marks.set(&number.to_string(), longest.clone());
    let number = (0..1000).take_while(is_set).count();
    assert!((300..400).contains(&number), "{number} marks of 3000 bytes");
    // A mark that does not fit changes nothing, and neither does one that would grow too much.
    let long = Mark {
        why: "\u{1}".repeat(5000),
        ..longest.clone()
    };
    assert!(!marks.set("0", long) && !marks.set("more", longest.clone()));
    assert_eq!(marks.get("0"), Some(&longest));
    let (path, content) = marks.take_change().expect("a change");
    kept::write(&path, &content);
    assert_eq!(Marks::load(Some(path)).value, marks.value);
    // A shorter one gives room.
    assert!(marks.set("0", short.clone()) && marks.set("more", short));
}
