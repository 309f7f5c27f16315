//! The conditions that a hub finds in its records.

use ibnet_analysis::trees::Limits;
use ibnet_record::types::{NodeKind, PortNum};
use serde_json::{Value, json};

use super::*;
use crate::events::Filter;
use crate::query::{congestion, evaluated, health, physical};

/// A fabric in virtual time: two switches with a link, and a host at each switch. One sampler reads
/// all ports once a second.
pub(super) struct Fabric {
    pub(super) hub: Arc<Hub>,
    pub(super) watched: Watched,
    /// Second of the next slot.
    pub(super) second: u64,
    /// Whether the hub looks for conditions.
    pub(super) is_looking: bool,
}

/// GUID and number of a port.
pub(super) type Key = (u64, u8);

/// Ports, their kinds and their peers.
const PORTS: [(Key, NodeKind, Key); 6] = [
    ((1, 1), NodeKind::Switch, (2, 1)),
    ((1, 2), NodeKind::Switch, (0x101, 1)),
    ((2, 1), NodeKind::Switch, (1, 1)),
    ((2, 2), NodeKind::Switch, (0x102, 1)),
    ((0x101, 1), NodeKind::Hca, (1, 2)),
    ((0x102, 1), NodeKind::Hca, (2, 2)),
];

impl Fabric {
    pub(super) fn new(change: impl FnOnce(&mut Raw)) -> Self {
        let hub = Arc::new(state::new(state::LIMITS));
        // Only conditions are tested here, so alerts fire at once.
        let settings = settings(|raw| {
            let holds = conditions::all().map(|condition| format!("{}=0s", condition.name));
            raw.hold = holds.collect();
            raw.recovery = "0s".to_owned();
            change(raw);
        });
        let watched = Watched::new(Arc::clone(&hub), settings);
        let second = state::START;
        Self {
            hub,
            watched,
            second,
            is_looking: true,
        }
    }

    /// Runs slots, and changes each record of a port, or removes it. Returns the alerts that fire
    /// at the end.
    pub(super) fn run(
        &mut self,
        seconds: u64,
        change: impl Fn(Key, &mut Value) -> bool,
        sweep: Value,
    ) -> Vec<String> {
        for _ in 0..seconds {
            let second = self.second;
            for ((guid, port), kind, peer) in PORTS {
                let mut record = json!({
                    "type": "port", "ts": second * SECOND, "slot": second, "sampler": "s", "guid": Guid(guid).to_string(),
                    "port": port, "lid": guid, "node": format!("n{guid}"), "kind": kind.as_str(), "peer_guid": Guid(peer.0).to_string(),
                    "peer_port": peer.1, "peer": format!("n{}", peer.0), "link": "4xEDR", "status": "ok", "dt_ns": SECOND,
                    "xmit_gbps": 1.0, "xmit_utilization": 0.01, "rcv_utilization": 0.01, "xmit_blocked": 0.0, "symbol_error_counter": 0,
                });
                if change((guid, port), &mut record) {
                    state::add(&self.hub, second, &record.to_string());
                }
            }
            let mut end = json!({"type": "sweep", "ts": second * SECOND, "slot": second, "sampler": "s", "ca": "x", "ca_port": 1,
                "role": "primary", "duration_ns": 1, "ports": 6, "ok": 6});
            for (name, value) in sweep.as_object().into_iter().flatten() {
                end[name] = value.clone();
            }
            state::add(&self.hub, second, &end.to_string());
            if self.is_looking && second.is_multiple_of(10) {
                self.watched.look(state::at(second));
            }
            self.second += 1;
        }
        let alerts = self.watched.alerts().into_iter();
        alerts
            .filter(|(_, state)| *state == Phase::Firing)
            .map(|(id, _)| id)
            .collect()
    }

    pub(super) fn event(&self, event: &str, guid: u64, detail: &str) {
        self.event_of_port(event, (guid, 0), detail);
    }

    /// Adds an event about a port, or about a device, which has no port 0.
    fn event_of_port(&self, event: &str, (guid, port): Key, detail: &str) {
        let mut line = json!({"type": "event", "ts": self.second * SECOND, "slot": self.second, "sampler": "s", "event": event,
            "guid": Guid(guid).to_string(), "lid": guid, "detail": detail});
        if port > 0 {
            line["port"] = json!(port);
        }
        state::add(&self.hub, self.second, &line.to_string());
    }
}

/// Leaves a record as it is.
pub(super) fn healthy(_: Key, _: &mut Value) -> bool {
    true
}

fn nothing() -> Vec<String> {
    Vec::new()
}

/// Sets fields of the records of some ports.
fn with(ports: &[Key], fields: Value) -> impl Fn(Key, &mut Value) -> bool {
    move |port, record| {
        if ports.contains(&port) {
            for (name, value) in fields.as_object().into_iter().flatten() {
                record[name] = value.clone();
            }
        }
        true
    }
}

#[test]
fn dead_devices_have_one_alert_each_and_none_for_their_links() {
    let mut fabric = Fabric::new(|_| ());
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
    let silent = json!({"status": "unreachable"});
    let dead = with(&[(0x101, 1)], silent.clone());
    assert_eq!(
        fabric.run(40, dead, json!({})),
        ["InfinibandHcaDead/0x0000000000000101"]
    );
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
    let dead = with(&[(2, 1), (2, 2), (0x102, 1)], silent);
    assert_eq!(
        fabric.run(40, dead, json!({})),
        ["InfinibandSwitchDead/0x0000000000000002"],
        "the host behind the switch is no other fault"
    );
    let alerts = fabric.hub.alerts();
    let dead = alerts
        .machine
        .alerts()
        .find(|alert| alert.state == Phase::Firing);
    assert_eq!(
        dead.map(|alert| alert.summary.as_str()),
        Some("Switch n2 does not answer, nor does 1 device behind it")
    );
}

#[test]
fn alert_of_a_device_stays_while_no_record_of_it_arrives() {
    let mut fabric = Fabric::new(|_| ());
    let dead = with(&[(0x101, 1)], json!({"status": "unreachable"}));
    let expected = ["InfinibandHcaDead/0x0000000000000101"];
    assert_eq!(fabric.run(40, dead, json!({})), expected);
    let without = |port: Key, _: &mut Value| port.0 != 0x101;
    assert_eq!(fabric.run(600, without, json!({})), expected);
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
}

#[test]
fn link_that_is_down_or_slower_has_one_alert() {
    let mut fabric = Fabric::new(|_| ());
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
    let both = [(1, 1), (2, 1)];
    let down = with(&both, json!({"status": "down"}));
    assert_eq!(
        fabric.run(40, down, json!({})),
        ["InfinibandLinkDown/0x0000000000000001/1"]
    );
    let slow = with(&both, json!({"link": "1xEDR"}));
    assert_eq!(
        fabric.run(40, slow, json!({})),
        ["InfinibandLinkDegraded/0x0000000000000001/1"]
    );
    // The port of the switch stands for the link.
    let slow = with(&[(0x102, 1), (2, 2)], json!({"link": "1xEDR"}));
    assert_eq!(
        fabric.run(40, slow, json!({})),
        ["InfinibandLinkDegraded/0x0000000000000002/2"]
    );
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
}

#[test]
fn link_that_is_down_on_purpose_is_listed_and_fires_no_alert() {
    let mut fabric = Fabric::new(|raw| {
        raw.hold = vec![
            "InfinibandLinkDown=0s".to_owned(),
            "InfinibandHcaDead=0s".to_owned(),
        ];
    });
    let reason = |intended: &str| {
        format!(
            "reason 37 (the peer was reset) of the other end, intended: {intended}, blamed: this end"
        )
    };
    let listed = |fabric: &Fabric| {
        let alerts = fabric.hub.alerts();
        let open = alerts.machine.alerts();
        let open = open.filter(|alert| alert.state != Phase::Resolved);
        open.map(|alert| format!("{}: {}", alert.id, alert.summary))
            .collect::<Vec<_>>()
    };
    let down = [(1, 1), (2, 1)];
    let link = || with(&down, json!({"status": "down"}));
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
    for port in down {
        fabric.event_of_port("link_down", port, "");
    }
    fabric.event_of_port("link_down_reason", (2, 1), &reason("yes"));
    assert_eq!(fabric.run(40, link(), json!({})), nothing());
    let text = "The link of n1 port 1 to n2 port 1 is down: ";
    assert_eq!(
        listed(&fabric),
        [format!(
            "InfinibandIntendedDown/0x0000000000000001/1: {text}{}",
            reason("yes")
        )]
    );
    // One end denies it. The reason of an earlier time belongs to another fault.
    let unintended = ["InfinibandLinkDown/0x0000000000000001/1"];
    fabric.event_of_port("link_down_reason", (1, 1), &reason("no"));
    assert_eq!(fabric.run(40, link(), json!({})), unintended);
    for port in down {
        fabric.event_of_port("link_down", port, "");
    }
    assert_eq!(fabric.run(40, link(), json!({})), unintended);
    assert_eq!(
        listed(&fabric),
        ["InfinibandLinkDown/0x0000000000000001/1: The link of n1 port 1 to n2 port 1 is down"]
    );
    assert_eq!(fabric.run(120, healthy, json!({})), nothing());
    // A host that restarts does not answer; the switch in front of it has the reason. If its link
    // is up again, the host has another fault.
    let dead = || with(&[(0x101, 1)], json!({"status": "unreachable"}));
    fabric.event_of_port("link_down", (1, 2), "");
    fabric.event_of_port("link_down_reason", (1, 2), &reason("yes"));
    assert_eq!(fabric.run(40, dead(), json!({})), nothing());
    let found = listed(&fabric);
    assert!(
        found[0].starts_with("InfinibandIntendedDown/0x0000000000000101: HCA n257"),
        "{found:?}"
    );
    fabric.event_of_port("link_up", (1, 2), "");
    assert_eq!(
        fabric.run(40, dead(), json!({})),
        ["InfinibandHcaDead/0x0000000000000101"]
    );
}

#[test]
fn errors_of_an_hour_are_added_up() {
    let mut fabric = Fabric::new(|raw| {
        raw.limits = vec!["InfinibandSymbolErrors=20".to_owned()];
    });
    let start = fabric.second;
    // One error each minute.
    let errors = move |port: Key, record: &mut Value| {
        let second = record["slot"].as_u64().expect("a slot");
        let count = if port == (1, 2) {
            (second - start) / 60
        } else {
            0
        };
        record["symbol_error_counter"] = json!(count.min(30));
        true
    };
    let id = "InfinibandSymbolErrors/0x0000000000000001/2";
    assert_eq!(fabric.run(20 * 60, errors, json!({})), nothing());
    assert_eq!(fabric.run(3 * 60, errors, json!({})), [id]);
    // The last error is after half an hour, so fewer than 21 are left an hour after the tenth.
    assert_eq!(fabric.run(45 * 60, errors, json!({})), [id]);
    assert_eq!(fabric.run(5 * 60, errors, json!({})), nothing());
}

#[test]
fn link_that_goes_down_often_has_one_alert_and_an_end_alone_too() {
    let mut fabric = Fabric::new(|_| ());
    let start = fabric.second;
    let downs = move |ports: &'static [Key]| {
        move |port: Key, record: &mut Value| {
            let second = record["slot"].as_u64().expect("a slot");
            let is_down = ports.contains(&port);
            record["link_downed_counter"] = json!(u64::from(is_down) * (second - start) / 60);
            true
        }
    };
    assert_eq!(
        fabric.run(6 * 60, downs(&[(0x101, 1)]), json!({})),
        ["InfinibandLinkFlapping/0x0000000000000101/1"]
    );
    let mut fabric = Fabric::new(|_| ());
    assert_eq!(
        fabric.run(6 * 60, downs(&[(0x101, 1), (1, 2)]), json!({})),
        ["InfinibandLinkFlapping/0x0000000000000001/2"]
    );
}

/// Adds a minute of bit errors at both ends of the link between the switches. Each end has this
/// many wrong bits after error correction in a minute.
fn add_bit_errors(fabric: &mut Fabric, minute: u64, wrong: [u64; 2]) {
    // The last second of the minute is a slot.
    fabric.second += 59;
    fabric.run(1, healthy, json!({}));
    for (guid, wrong) in [1, 2].into_iter().zip(wrong) {
        let head = json!({"ts": (fabric.second - 1) * SECOND, "slot": fabric.second - 1, "sampler": "s", "port": 1,
            "guid": Guid(guid).to_string(), "lid": guid, "node": "", "dt_ns": null});
        let phy = json!({"type": "phy", "time_since_last_clear_ms": 60_000 * minute, "phy_received_bits": 24_000_000_000_000 * minute,
            "phy_corrected_bits": 20_000 * minute, "phy_effective_errors": wrong * minute, "phy_symbol_errors": 0,
            "e2e_reason_opcode": 2, "local_reason_opcode": 2, "remote_reason_opcode": 0, "down_blame": 1, "down_intent": 2});
        let module =
            json!({"type": "module", "vendor_sn": "SN7", "vendor_pn": "P", "temperature_c": 48.0});
        for mut record in [phy, module] {
            let of_record = record.as_object_mut().expect("an object");
            of_record.extend(head.as_object().expect("an object").clone());
            state::add(&fabric.hub, fabric.second, &record.to_string());
        }
    }
}

#[test]
fn link_to_repair_is_found_once_enough_was_seen() {
    let mut fabric = Fabric::new(|_| ());
    let id = "InfinibandLinkUnhealthy/0x0000000000000002/1";
    // 1e-10 is above the limit of 1e-11.
    (0..=60).for_each(|minute| add_bit_errors(&mut fabric, minute, [0, 2400]));
    assert_eq!(fabric.run(40, healthy, json!({})), nothing());
    let list = serde_json::to_value(health::find(&fabric.hub, 1)).expect("JSON");
    let counts = json!({"replace": 0, "clean": 0, "watch": 1, "good": 0});
    assert_eq!((&list["known"], &list["counts"]), (&json!(1), &counts));
    let row = &list["rows"][0];
    assert_eq!(
        (&row["seen_minutes"], &row["port"]),
        (&json!(60), &json!(1))
    );
    (61..=130).for_each(|minute| add_bit_errors(&mut fabric, minute, [0, 2400]));
    assert_eq!(fabric.run(40, healthy, json!({})), [id]);
    let row = serde_json::to_value(health::find(&fabric.hub, 0)).expect("JSON")["rows"][0].take();
    let found = ["verdict", "node", "link_down", "serial"].map(|name| row[name].clone());
    let reason = "reason 2 (high bit error ratio), intended: no, blamed: this end";
    assert_eq!(found, ["clean", "n2", reason, "SN7"].map(Value::from));
    assert_eq!(row["peer"]["node"], "n1");
    // Both ends have a fault: the cable has to be replaced, and the link still has one alert.
    (131..=260).for_each(|minute| add_bit_errors(&mut fabric, minute, [1200, 2400]));
    let alerts = fabric.run(40, healthy, json!({}));
    let of_link: Vec<_> = alerts
        .iter()
        .filter(|id| id.contains("Unhealthy"))
        .collect();
    assert_eq!(of_link, [id]);
    let list = serde_json::to_value(health::find(&fabric.hub, 0)).expect("JSON");
    assert_eq!(list["counts"]["replace"], 1);
}

#[test]
fn condition_of_a_link_is_not_known_while_an_end_does_not_answer() {
    let mut fabric = Fabric::new(|_| ());
    (0..=3).for_each(|minute| add_bit_errors(&mut fabric, minute, [0, 0]));
    let read_ns = (fabric.second - 1) * SECOND;
    let found = |fabric: &Fabric| {
        let list = serde_json::to_value(health::find(&fabric.hub, 0)).expect("JSON");
        let row = &list["rows"][0];
        (
            list["silent"].clone(),
            row["verdict"].clone(),
            row["silent"].clone(),
        )
    };
    let good = (json!(0), json!("good"), json!([]));
    assert_eq!(found(&fabric), good);
    let dead = with(&[(2, 1)], json!({"status": "unreachable"}));
    fabric.run(3, dead, json!({}));
    let end = json!({"guid": Guid(2).to_string(), "port": 1, "node": "n2", "read_ns": read_ns});
    assert_eq!(found(&fabric), (json!(1), json!("good"), json!([end])));
    fabric.run(3, healthy, json!({}));
    assert_eq!(found(&fabric), good);
}

/// Adds a reading of four planes of a port. `states` and `bytes` are theirs.
fn add_planes(fabric: &mut Fabric, states: [u64; 4], bytes: [u64; 4]) {
    fabric.run(1, healthy, json!({}));
    let second = fabric.second - 1;
    for (plane, (state, bytes)) in (1..).zip(states.into_iter().zip(bytes)) {
        let record = json!({"type": "planes", "ts": second * SECOND + plane, "slot": second, "sampler": "s",
            "port": 1, "guid": Guid(2).to_string(), "lid": 2, "node": "", "dt_ns": null, "planes": 4,
            "plane": plane, "phy_mngr_fsm_state": state, "port_xmit_data_bytes": bytes,
            "port_rcv_data_bytes": 0});
        state::add(&fabric.hub, fabric.second, &record.to_string());
    }
}

#[test]
fn plane_that_is_down_or_carries_less_is_found_and_shown() {
    let mut fabric = Fabric::new(|_| ());
    let id = "InfinibandPlaneFault/0x0000000000000002/1";
    add_planes(&mut fabric, [3, 2, 3, 3], [0; 4]);
    assert_eq!(fabric.run(20, healthy, json!({})), [id]);
    let shown = |fabric: &Fabric| {
        let answer = physical::find(&fabric.hub, (Guid(2), PortNum(1)));
        let answer = serde_json::to_value(answer.expect("readings")).expect("JSON");
        let of_plane = |page: &Value| page["plane"] == 2;
        assert!(
            answer["pages"]
                .as_array()
                .is_some_and(|pages| pages.iter().any(of_plane))
        );
        answer["planes"].clone()
    };
    let rows = shown(&fabric);
    assert_eq!(
        (&rows[1]["is_up"], &rows[0]["is_up"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(rows[1]["finding"], "plane 2 is down (state 2)");
    assert_eq!(
        (&rows[0]["finding"], &rows[0]["xmit_gbps"]),
        (&json!(null), &json!(null))
    );
    // The link of the fabric has 100 Gb/s at most: three planes carry 20 Gb/s each, and one half.
    let bytes = [
        150_000_000_000_u64,
        150_000_000_000,
        75_000_000_000,
        150_000_000_000,
    ];
    fabric.run(39, healthy, json!({}));
    add_planes(&mut fabric, [3; 4], bytes);
    assert_eq!(fabric.run(20, healthy, json!({})), [id]);
    let rows = shown(&fabric);
    assert_eq!(
        rows[2]["finding"],
        "plane 3 carries 50 % less than the others"
    );
    assert_eq!(
        (&rows[0]["xmit_gbps"], &rows[2]["xmit_gbps"]),
        (&json!(20.0), &json!(10.0))
    );
    assert_eq!(rows[1]["finding"], json!(null));
    fabric.run(40, healthy, json!({}));
    add_planes(
        &mut fabric,
        [3; 4],
        bytes.map(|bytes| bytes + 150_000_000_000),
    );
    assert_eq!(fabric.run(20, healthy, json!({})), nothing());
}

#[test]
fn root_of_congestion_is_found_while_ports_wait_for_it() {
    let mut fabric = Fabric::new(|_| ());
    let congested = |port: Key, record: &mut Value| {
        match port {
            (2, 2) => record["xmit_utilization"] = json!(0.97),
            (0x101, 1) | (1, 1) => record["xmit_blocked"] = json!(0.6),
            _ => {}
        }
        true
    };
    assert_eq!(fabric.run(70, healthy, json!({})), nothing());
    // The records of a second are about the second before it.
    let since = fabric.second - 1;
    let name = format!("n2/2@{since}");
    // The region keeps its name in the alert and in the answer about the last minute, however long
    // it lasts.
    for _ in 0..3 {
        assert_eq!(
            fabric.run(70, congested, json!({})),
            ["InfinibandCongestionRoot/0x0000000000000002/2"]
        );
        let regions = |alert: &Alert| Some((alert.region.clone()?, alert.since_ns));
        let of_alert: Vec<_> = fabric
            .hub
            .alerts()
            .machine
            .alerts()
            .filter_map(regions)
            .collect();
        assert_eq!(of_alert, [(name.clone(), since * SECOND)]);
        let last = fabric.second * SECOND;
        let found = evaluated::evaluate(&fabric.hub, (last - 60 * SECOND, last)).expect("records");
        let rows = congestion::trees(&fabric.hub, &found, Limits::default(), 0, None);
        let rows = serde_json::to_value(rows).expect("JSON");
        let region = &rows[0]["regions"][0];
        assert_eq!(region["region"], *name);
        assert_eq!(region["since_ns"], since * SECOND);
        assert_eq!(region["until_ns"], last - SECOND);
        let lost = region["held_up_seconds"].as_f64().expect("a number");
        assert!(
            (lost - 1.2 * (last / SECOND - 1 - since) as f64).abs() < 1e-6,
            "{lost}"
        );
    }
    assert_eq!(fabric.run(70, healthy, json!({})), nothing());
    // Each region has an event at its begin and at its end.
    let until = since + 210;
    fabric.run(70, congested, json!({}));
    let events = fabric.hub.read().events(&Filter {
        names: ["congestion_began", "congestion_ended"]
            .map(str::to_owned)
            .into(),
        ..Filter::all()
    });
    let events: Vec<_> = events
        .iter()
        .map(|row| (row.ts / SECOND, &*row.event, row.region.as_deref()))
        .collect();
    let [first, second] = [since, until + 70].map(|second| format!("n2/2@{second}"));
    assert_eq!(
        events,
        [
            (until + 70, "congestion_began", Some(&*second)),
            (until, "congestion_ended", Some(&*first)),
            (since, "congestion_began", Some(&*first)),
        ]
    );
}

#[test]
fn samplers_that_miss_slots_drop_records_or_are_blind_are_found() {
    let mut fabric = Fabric::new(|_| ());
    assert_eq!(fabric.run(20, healthy, json!({})), nothing());
    let sweep = json!({"slots_missed": 1, "lines_lost": 2});
    assert_eq!(
        fabric.run(20, healthy, sweep),
        ["IbnetRecordsDropped/s x/1", "IbnetSlotsMissed/s x/1"]
    );
    // Five minutes later, these are past.
    assert_eq!(fabric.run(320, healthy, json!({})), nothing());
    assert_eq!(
        fabric.run(20, healthy, json!({"ok": 0, "errors": 6})),
        ["IbnetSamplerBlind/s x/1"]
    );
}

#[test]
fn change_and_loss_of_the_subnet_manager_are_found() {
    let mut fabric = Fabric::new(|_| ());
    fabric.event("sm", 0x101, "master, priority 14");
    assert_eq!(fabric.run(20, healthy, json!({})), nothing());
    fabric.event(
        "sm",
        0x101,
        "master, priority 14; it does not answer any more",
    );
    assert_eq!(
        fabric.run(20, healthy, json!({})),
        ["InfinibandSubnetManagerSilent"]
    );
    fabric.event("sm_change", 0x102, "0x102 is the master in place of 0x101");
    assert_eq!(
        fabric.run(20, healthy, json!({})),
        ["InfinibandSubnetManagerChanged"]
    );
    // The alert is about the newest change, and so is its time.
    let since = |fabric: &Fabric| {
        let alerts = fabric.hub.alerts();
        let mut changes = alerts
            .machine
            .alerts()
            .filter(|alert| alert.condition.name == "InfinibandSubnetManagerChanged");
        changes.next().expect("an alert").since_ns
    };
    let first = since(&fabric);
    fabric.event("sm_change", 0x101, "0x101 is the master in place of 0x102");
    let second = fabric.second * SECOND;
    fabric.run(20, healthy, json!({}));
    assert_eq!((since(&fabric), first), (second, second - 20 * SECOND));
    assert_eq!(fabric.run(600, healthy, json!({})), nothing());
}

#[test]
fn wrong_clock_is_found() {
    let hub = Arc::new(state::new(state::LIMITS));
    let settings = settings(|raw| raw.hold = vec!["IbnetClockWrong=0s".to_owned()]);
    let mut watched = Watched::new(Arc::clone(&hub), settings);
    for second in state::START..state::START + 60 {
        for (name, guid, ahead) in [("s1", 1, 0), ("s2", 2, 0), ("s3", 3, 0), ("s4", 4, 100)] {
            state::add(&hub, second, &state::slot(name, guid, second + ahead));
        }
        watched.hub.tick(state::at(second));
    }
    let second = state::START + 60;
    watched.look(state::at(second));
    assert_eq!(
        watched.alerts(),
        [("IbnetClockWrong/s4 x/1".to_owned(), Phase::Firing)]
    );
}
