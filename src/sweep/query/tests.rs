//! Requests to devices of all kinds, and the results.

use std::collections::BTreeMap;
use std::convert::Infallible;

use ibnet_record::attributes::Field;
use ibnet_record::strict::{self, Line, Port};
use ibnet_record::types::Guid;

use super::*;
use crate::mad::pma::Bits;

const LID: Lid = Lid(7);
const PORT: PortNum = PortNum(3);

type Answered = Result<Data, NoAnswer>;

/// Device that answers by class and attribute, and the requests that it received. Other attributes
/// get no reply.
#[derive(Default)]
struct Script {
    answers: BTreeMap<(u8, u16), Answered>,
    requested: Vec<(u8, u16)>,
}

impl Client for Script {
    type Error = Infallible;

    fn request_mad(&mut self, query: &Query, _: &mut Mad) -> Result<Response, Infallible> {
        let key = (query.class().0, query.attribute());
        self.requested.push(key);
        let at = Instant::from_nanos(1000 * self.requested.len() as u64);
        let answer = self
            .answers
            .get(&key)
            .copied()
            .unwrap_or(Err(NoAnswer::Silent));
        let (mads, rtt) = if answer.is_ok() {
            (1, Duration::from_micros(10))
        } else {
            (3, Duration::ZERO)
        };
        Ok(Response {
            mads,
            rtt,
            rtt_min: Some(rtt).filter(|rtt| !rtt.is_zero()),
            answer: answer.map(|data| (at, data)),
        })
    }
}

impl Script {
    /// Creates a device with this CapabilityMask and OptionMask that answers all groups.
    fn new(kind: NodeKind, mask: u16, option_mask: u64) -> Self {
        let mut script = Self::default();
        for group in Group::ALL {
            script.set(4, group.attribute().id, |data| data[1] = PORT.0);
        }
        script.set(4, CLASS_PORT_INFO.id, |data| {
            Capabilities {
                mask,
                ..Capabilities::default()
            }
            .emit(data);
        });
        script.set(4, PORT_SAMPLES_CONTROL.id, |data| {
            Sampling {
                tick: 7,
                option_mask,
            }
            .emit(data);
        });
        let info = NodeInfo {
            kind: Some(kind),
            port_guid: Guid(0xabc),
            local_port: PortNum(1),
            ..NodeInfo::default()
        };
        script.set(1, smp::NODE_INFO, |data| info.emit(data));
        script.set(1, smp::NODE_DESCRIPTION, |data| {
            data[..5].copy_from_slice(b"leaf1");
        });
        script.set(1, smp::PORT_INFO, |data| {
            PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE).emit(data);
        });
        script
    }

    fn set(&mut self, class: u8, attribute: u16, write: impl FnOnce(&mut Data)) {
        let mut data = [0; DATA_LEN];
        write(&mut data);
        self.answers.insert((class, attribute), Ok(data));
    }

    fn fail(&mut self, group: Group, why: NoAnswer) {
        self.answers.insert((4, group.attribute().id), Err(why));
    }

    fn set_field(&mut self, group: Group, name: &str, value: u64) {
        let field: &Field = group.attribute().field(name).expect("declared");
        self.set(4, group.attribute().id, |data| {
            field.set_raw(data, 0, value);
        });
    }

    fn query(&mut self, groups: &[Group], record: bool) -> QueryResult {
        let query = PortQuery {
            lid: LID,
            port: PORT,
            groups: groups.into(),
            record,
        };
        let Ok(result) = run(query, self);
        result
    }
}

fn port(result: &QueryResult) -> Port {
    let lines = result
        .record(5_000_000_042, 5, "here")
        .expect("NodeInfo was answered");
    let text = String::from_utf8(lines).expect("text");
    match strict::parse(text.trim_end()).expect("a record") {
        Line::Port(port) => *port,
        other => panic!("{other:?}"),
    }
}

fn reasons(result: &QueryResult) -> Vec<(Group, String)> {
    result
        .missing()
        .map(|(group, missing)| (group, missing.to_string()))
        .collect()
}

#[test]
fn only_needed_attributes_are_requested() {
    let mut script = Script::new(NodeKind::Switch, 0x1300, u64::MAX);
    let result = script.query(&[Group::Base, Group::Extended], false);
    assert_eq!(script.requested, [(4, 0x01), (4, 0x12), (4, 0x1d)]);
    let headings: Vec<_> = result
        .text()
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        headings,
        [
            "# Port counters: Lid 7 port 3 (CapMask: 0x1300)",
            "# Port extended counters: Lid 7 port 3 (CapMask: 0x1300 CapMask2: 0x0000000)"
        ]
    );
    script.requested.clear();
    script.query(&[Group::RcvErr, Group::SwPortVlCong], false);
    assert_eq!(
        script.requested,
        [(4, 0x01), (1, 0x11), (4, 0x10), (4, 0x15), (4, 0x30)]
    );
    script.requested.clear();
    script.query(&[Group::Base], true);
    assert_eq!(
        script.requested,
        [
            (4, 0x01),
            (1, 0x11),
            (1, 0x10),
            (1, 0x15),
            (1, 0x15),
            (4, 0x10),
            (4, 0x12)
        ]
    );
}

#[test]
fn unsupported_groups_are_not_requested_and_have_a_reason() {
    let mut script = Script::new(NodeKind::Hca, 0, 1 << 11);
    let groups = [
        Group::Extended,
        Group::Base,
        Group::RcvErr,
        Group::XmtSl,
        Group::SwPortVlCong,
        Group::ExtendedSpeeds,
    ];
    let result = script.query(&groups, false);
    assert_eq!(
        script.requested,
        [(4, 0x01), (1, 0x11), (4, 0x10), (4, 0x12), (4, 0x15)]
    );
    let missing = reasons(&result);
    assert_eq!(
        missing.iter().map(|(group, _)| *group).collect::<Vec<_>>(),
        [
            Group::Extended,
            Group::XmtSl,
            Group::SwPortVlCong,
            Group::ExtendedSpeeds
        ]
    );
    assert!(
        missing[0].1.contains("CapabilityMask")
            && missing[1].1.contains("OptionMask")
            && missing[2].1.contains("no switch"),
        "{missing:?}"
    );
    assert!(result.has_answers() && !result.is_silent());
}

#[test]
fn without_masks_all_groups_are_requested() {
    let mut script = Script::new(NodeKind::Switch, 0, 0);
    script.answers.insert(
        (4, CLASS_PORT_INFO.id),
        Err(NoAnswer::Refused(MadStatus::UNSUPPORTED_ATTRIBUTE)),
    );
    script.fail(Group::SmplCtl, NoAnswer::Silent);
    let result = script.query(&[Group::Extended, Group::XmtSl, Group::VlOpData], false);
    assert_eq!(reasons(&result), []);
    assert!(
        result
            .text()
            .starts_with("# Port extended counters: Lid 7 port 3\n"),
        "{}",
        result.text()
    );
}

#[test]
fn refusal_and_missing_reply_have_different_reasons() {
    let mut script = Script::new(NodeKind::Switch, 0x1300, u64::MAX);
    script.fail(Group::XmtDisc, NoAnswer::Silent);
    script.fail(Group::RcvErr, NoAnswer::Refused(MadStatus::INVALID_VALUE));
    let result = script.query(&Group::DEFAULT, true);
    let missing = reasons(&result);
    assert_eq!(missing[0], (Group::XmtDisc, "no reply".to_owned()));
    assert_eq!(
        missing[1],
        (
            Group::RcvErr,
            "refused with status 0x001c (invalid value in attribute or modifier)".to_owned()
        )
    );
    let port = port(&result);
    assert_eq!(
        (port.status.as_str(), port.mad_status, port.mads),
        ("timeout", Some(0x1c), 8)
    );
    assert!(
        !port.counters.contains_key("port_inactive_discards"),
        "{port:?}"
    );
}

#[test]
fn silent_device_and_silent_agent_are_distinguished() {
    let mut absent = Script::default();
    let result = absent.query(&Group::DEFAULT, false);
    assert_eq!(
        absent.requested,
        [(4, 0x01), (1, 0x11)],
        "the groups are not requested"
    );
    assert!(
        result.is_silent()
            && !result.is_agent_silent()
            && !result.has_answers()
            && result.text().is_empty()
    );
    assert!(result.record(1, 1, "here").is_none());
    let mut mute = Script::new(NodeKind::Switch, 0, 0);
    mute.answers.remove(&(4, CLASS_PORT_INFO.id));
    let result = mute.query(&Group::DEFAULT, false);
    assert!(result.is_agent_silent() && !result.is_silent());
    let mut unsent = Script::default();
    unsent
        .answers
        .insert((4, CLASS_PORT_INFO.id), Err(NoAnswer::NotSent(22)));
    let result = unsent.query(&Group::DEFAULT, false);
    assert!(
        !result.is_silent()
            && reasons(&result)[0]
                .1
                .starts_with("cannot send the request: Invalid argument"),
        "{:?}",
        reasons(&result)
    );
}

#[test]
fn record_has_the_fields_of_a_sweep() {
    let mut script = Script::new(NodeKind::Switch, 0x1300, u64::MAX);
    script.set_field(Group::Extended, "PortXmitData", 1000);
    script.set_field(Group::Base, "PortXmitData", 9);
    script.set_field(Group::Base, "SymbolErrorCounter", 0xffff);
    let result = script.query(&Group::DEFAULT, true);
    let port = port(&result);
    assert_eq!(
        (
            port.ts,
            port.slot,
            port.sampler.as_str(),
            port.lid,
            port.port
        ),
        (5_000_000_042, 5, "here", LID, PORT)
    );
    assert_eq!(
        (port.guid, port.node.as_str(), port.kind, &port.peer),
        (Guid(0xabc), "leaf1", Some(NodeKind::Switch), &None)
    );
    assert_eq!(
        (
            port.link.as_str(),
            port.link_source.as_str(),
            port.identity.as_str(),
            port.status.as_str()
        ),
        ("4xEDR", "live", "ok", "ok")
    );
    assert_eq!(
        (
            port.mads,
            port.rtt_ns,
            port.rtt_min_ns,
            port.dt_ns,
            port.xmit_gbps
        ),
        (4, 40_000, Some(10_000), None, None)
    );
    assert_eq!(port.counter("port_xmit_data_bytes"), Some(4000));
    assert_eq!(
        (port.counter("symbol_error_counter"), port.saturated),
        (Some(0xffff), vec!["symbol_error_counter".to_owned()])
    );
}

#[test]
fn reply_of_another_adapter_port_is_unverified() {
    let mut script = Script::new(NodeKind::Hca, 0x1200, u64::MAX);
    assert_eq!(
        port(&script.query(&[Group::Base], true)).identity,
        "unverified"
    );
    let info = NodeInfo {
        kind: Some(NodeKind::Hca),
        local_port: PORT,
        ..NodeInfo::default()
    };
    script.set(1, smp::NODE_INFO, |data| info.emit(data));
    script.answers.remove(&(1, smp::PORT_INFO));
    let port = port(&script.query(&[Group::Base], true));
    assert_eq!(
        (port.identity.as_str(), port.link.as_str()),
        ("ok", "?????")
    );
}

#[test]
fn refused_group_hides_no_counter_of_another_group() {
    let mut script = Script::new(NodeKind::Switch, 0x1300, u64::MAX);
    script.fail(
        Group::Extended,
        NoAnswer::Refused(MadStatus::UNSUPPORTED_ATTRIBUTE),
    );
    script.set_field(Group::Base, "PortXmitData", 9);
    let port = port(&script.query(&[Group::Extended, Group::Base], true));
    assert_eq!(
        (port.status.as_str(), port.counter("port_xmit_data_bytes")),
        ("ok", Some(36))
    );
}

#[test]
fn lane_counters_are_shown_once_the_fec_is_known() {
    let mut script = Script::new(NodeKind::Switch, 0x4000, 0);
    let result = script.query(&[Group::ExtendedSpeeds], true);
    assert!(
        result.is_fec_unknown() && !result.text().contains("Lane"),
        "{}",
        result.text()
    );
    script.set(1, smp::PORT_INFO_EXTENDED, |data| data[5] = 4);
    let result = script.query(&[Group::ExtendedSpeeds], true);
    assert!(
        !result.is_fec_unknown()
            && result
                .text()
                .starts_with("# PortExtendedSpeedsCounters with RS-FEC Active counters")
    );
    assert!(
        port(&result)
            .counters
            .contains_key("fec_correctable_symbol_counter_lane")
    );
}
