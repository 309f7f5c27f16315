//! Alerts in virtual time.

use ibnet_record::types::Guid;

mod found;
mod told;

use super::conditions::{HCA_DEAD, SAMPLER_DOWN};
use super::machine::{Alert, Finding, Machine, Phase, Subject};
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
}

impl Watched {
    pub(crate) fn new(hub: Arc<Hub>, settings: Settings) -> Self {
        let watch = Watch::default();
        Self {
            hub,
            watch,
            settings,
        }
    }

    pub(crate) fn look(&mut self, now: Now) -> Vec<Alert> {
        self.hub.tick(now);
        look(&self.hub, &mut self.watch, now, &self.settings).expect("a look")
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
        if second % 10 == 0 {
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
