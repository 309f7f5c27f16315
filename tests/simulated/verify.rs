//! `verify` on the simulated fabric: two clients read the same devices, and libibmad decodes the
//! replies of the second one. A device that lies must be found.
//!
//! These tests show that differences are found. They do not show that the queries of libibmad are
//! right: those need ibsim, a kernel or hardware.
#![cfg(feature = "umad")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::Header;
use ibnet::mad::pma::{self, Bits, CLASS_PERF_MGT};
use ibnet::mad::query::Query;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::{Mad, smp};
use ibnet::sweep::driver::{Address, DeviceClient};
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::synthetic::FatTree;
use ibnet::topology::{Device, DeviceId, ports_report};
use ibnet::verify::compare::Fault;
use ibnet::verify::device::{DeviceResult, Lacking, MADS_PER_DEVICE, Outcome, Subject, Verifier};
use ibnet::verify::models::Model;
use ibnet::verify::reference::SecondClient;
use ibnet::verify::report::{DeviceReport, Identity, Report};
use ibnet::verify::timing::{Burst, Times};
use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

const TIMEOUT: Duration = Duration::from_millis(5);

/// Changes a reply that it is given.
type Lie = fn(&mut Mad);

/// A transport whose device gives false replies to this requester.
struct Lying(VirtualTransport, Lie);

impl Transport for Lying {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.0.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let completion = self.0.recv(mad, wait, now)?;
        if completion.is_some() {
            (self.1)(mad);
        }
        Ok(completion)
    }

    fn locator(&self) -> Locator {
        self.0.locator()
    }
}

fn fabric() -> SimFabric {
    let tree = FatTree {
        leaves: 2,
        hosts: 2,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let fabric = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
        .expect("a valid ports report")
        .fabric;
    SimFabric::new(fabric, Options::default())
}

/// Returns the first switch and the first HCA that is not the sender.
fn devices(fabric: &SimFabric) -> (DeviceId, DeviceId) {
    let is = |kind: NodeKind| {
        move |(id, device): &(DeviceId, &Device)| {
            device.kind == kind && fabric.manager() != Some(*id)
        }
    };
    let of = |kind| {
        fabric
            .fabric()
            .iter()
            .find(is(kind))
            .expect("there is one")
            .0
    };
    (of(NodeKind::Switch), of(NodeKind::Hca))
}

type OnFabric = Verifier<Lying, VirtualClock, SecondClient<Lying, VirtualClock>>;

/// Returns a verifier whose first path, the one of ibnet, and second path get replies with these
/// lies.
fn verifier(fabric: SimFabric, ours: Lie, theirs: Lie) -> OnFabric {
    verifier_and_clock(fabric, ours, theirs).0
}

fn verifier_and_clock(fabric: SimFabric, ours: Lie, theirs: Lie) -> (OnFabric, VirtualClock) {
    let (fabric, clock) = (Arc::new(Mutex::new(fabric)), VirtualClock::default());
    clock.advance_to(Instant::ZERO + Duration::from_secs(5));
    let client = |lie| {
        let transport = Lying(
            VirtualTransport::new(Arc::clone(&fabric), clock.clone(), 1),
            lie,
        );
        let address = Address {
            lid: Lid(0),
            sl: 0,
            pkey_index: 0,
            pkey_table: Vec::new(),
            timeout: TIMEOUT,
        };
        DeviceClient::new(transport, clock.clone(), address, 7)
    };
    let mut first = client(ours);
    let local = first.transport_mut().locator()();
    (
        Verifier::new(
            first,
            SecondClient::new(client(theirs), local.expect("there is an HCA").sm_lid),
            local,
            0,
        ),
        clock,
    )
}

fn subject(fabric: &SimFabric, id: DeviceId) -> Subject {
    let device = fabric.fabric().device(id);
    Subject {
        lid: fabric.lid(id),
        guid: device.guid,
        port: device.linked().next().expect("it is linked").0.num,
    }
}

/// Verifies the first switch.
fn switch(ours: Lie, theirs: Lie) -> DeviceResult {
    let fabric = fabric();
    let subject = subject(&fabric, devices(&fabric).0);
    verifier(fabric, ours, theirs)
        .device(&subject)
        .expect("the transport is open")
}

/// Returns the faults of a device: attribute, field, kind.
fn faults(result: &DeviceResult) -> Vec<(&'static str, &'static str, Fault)> {
    let mut faults = Vec::new();
    for attribute in &result.attributes {
        if let Outcome::Compared(comparison) = &attribute.outcome {
            faults.extend(
                comparison
                    .differences
                    .iter()
                    .map(|difference| (attribute.name, difference.field.name, difference.fault)),
            );
        }
    }
    faults
}

const TRUE: Lie = |_| {};

/// Changes a field of one attribute of performance management.
fn change(mad: &mut Mad, group: Group, field: &str, change: impl Fn(u64) -> u64) {
    let header = Header::parse(mad);
    if (header.class, header.attribute) == (CLASS_PERF_MGT, group.attribute().id) {
        let field = group.attribute().field(field).expect("declared");
        let value = field.raw(pma::data(mad), 0);
        field.set_raw(pma::data_mut(mad), 0, change(value));
    }
}

#[test]
fn honest_devices_are_equal_on_both_paths() {
    let fabric = fabric();
    let (leaf, host) = devices(&fabric);
    let subjects = [leaf, host].map(|id| subject(&fabric, id));
    let mut verifier = verifier(fabric, TRUE, TRUE);
    for (subject, has_lanes) in subjects.iter().zip([true, false]) {
        let before = verifier.mads();
        let result = verifier.device(subject).expect("the transport is open");
        assert_eq!(
            (
                result.differences(),
                faults(&result).len(),
                result.is_silent()
            ),
            (0, 0, false)
        );
        let (attributes, values) = result.compared();
        assert!(
            attributes >= 9 && values > 120,
            "{attributes} attributes with {values} values"
        );
        let lanes = result
            .attributes
            .iter()
            .any(|a| a.name == "extended_speeds" && matches!(a.outcome, Outcome::Compared(_)));
        assert_eq!(
            lanes, has_lanes,
            "a host of the simulated fabric has no counters of lanes"
        );
        assert!(
            result.lacking().all(|(_, how)| how == Lacking::Refused),
            "{:?}",
            result.lacking().collect::<Vec<_>>()
        );
        assert_eq!(
            (result.path_sl, result.redirected_to, result.link.is_some()),
            (Some(0), None, true)
        );
        assert!(
            verifier.mads() - before <= MADS_PER_DEVICE,
            "{} MADs",
            verifier.mads() - before
        );
    }
}

#[test]
fn counter_that_is_false_on_one_path_is_found() {
    let found = [("extended", "PortXmitData", Fault::NotBetween)];
    let more: Lie = |mad| {
        change(mad, Group::Extended, "PortXmitData", |value| {
            value + 1_000_000_000
        });
    };
    assert_eq!(faults(&switch(more, TRUE)), found);
    assert_eq!(faults(&switch(TRUE, more)), found);
}

#[test]
fn setting_that_is_false_on_one_path_is_found() {
    let lie: Lie = |mad| change(mad, Group::SmplCtl, "Tick", |value| value ^ 1);
    assert_eq!(
        faults(&switch(TRUE, lie)),
        [("smplctl", "Tick", Fault::Changed)]
    );
}

#[test]
fn false_identity_is_found() {
    let lie: Lie = |mad| {
        if Header::parse(mad).attribute == smp::NODE_INFO {
            smp::NodeInfo {
                port_guid: Guid(9),
                ..smp::NodeInfo::parse(pma::data(mad))
            }
            .emit(pma::data_mut(mad));
        }
    };
    assert_eq!(
        faults(&switch(lie, TRUE)),
        [("NodeInfo", "PortGUID", Fault::Changed)]
    );
}

#[test]
fn reply_on_one_path_only_is_a_difference() {
    let refuse: Lie = |mad| {
        if Header::parse(mad).attribute == Group::XmtSl.attribute().id {
            mad[5] = 0x0c;
        }
    };
    let result = switch(refuse, TRUE);
    let missing: Vec<_> = result
        .attributes
        .iter()
        .filter(|a| matches!(a.outcome, Outcome::OnlyTheirs(_)))
        .map(|a| a.name)
        .collect();
    assert_eq!((missing, result.differences()), (vec!["xmtsl"], 1));
    let result = switch(TRUE, refuse);
    let missing: Vec<_> = result
        .attributes
        .iter()
        .filter(|a| matches!(a.outcome, Outcome::OnlyOurs(_)))
        .map(|a| a.name)
        .collect();
    assert_eq!((missing, result.differences()), (vec!["xmtsl"], 1));
}

#[test]
fn redirection_is_followed_on_both_paths() {
    let mut fabric = fabric();
    let (leaf, host) = devices(&fabric);
    fabric.redirect(host, leaf);
    let (subject, to) = (subject(&fabric, host), fabric.lid(leaf));
    let result = verifier(fabric, TRUE, TRUE)
        .device(&subject)
        .expect("the transport is open");
    assert_eq!((result.differences(), result.redirected_to), (0, Some(to)));
}

#[test]
fn silent_device_has_no_difference_but_is_named() {
    let mut fabric = fabric();
    let (leaf, _) = devices(&fabric);
    let subject = subject(&fabric, leaf);
    fabric.set_dead(leaf, true);
    let mut verifier = verifier(fabric, TRUE, TRUE);
    assert_eq!(
        verifier
            .identify(subject.lid)
            .expect("the transport is open"),
        None
    );
    let result = verifier.device(&subject).expect("the transport is open");
    assert_eq!((result.differences(), result.is_silent()), (0, true));
}

#[test]
fn burst_measures_service_times_and_timeouts() {
    let fabric = fabric();
    let (leaf, _) = devices(&fabric);
    let lid = fabric.lid(leaf);
    let (mut verifier, clock) = verifier_and_clock(fabric, TRUE, TRUE);
    let query = Query::Pma(pma::Query {
        attribute: Group::Base.attribute().id,
        port: Some(PortNum(1)),
    });
    let mut run = |lid, in_flight| -> Times {
        let transport = verifier.client_mut().transport_mut();
        let target = Target::general(lid, 0, 0, TIMEOUT);
        Burst {
            query,
            target,
            count: 8,
            in_flight,
            first_tid: u32::MAX - 3,
        }
        .run(transport, &clock)
        .expect("the transport is open")
    };
    let (one, four) = (run(lid, 1), run(lid, 4));
    assert_eq!(
        (one.replies.len(), four.replies.len(), one.lost + four.lost),
        (8, 8, 0)
    );
    // A switch answers one request after another: with four in flight a request waits for three.
    assert!(one.median() < Some(Duration::from_micros(70)), "{one:?}");
    assert!(four.median() > Some(Duration::from_micros(140)), "{four:?}");
    let silent = run(Lid(4711), 8);
    assert_eq!(
        (silent.replies.len(), silent.timeouts),
        (0, vec![TIMEOUT; 8])
    );
}

#[test]
fn report_has_no_name_and_no_guid_of_the_site() {
    let fabric = fabric();
    let (leaf, _) = devices(&fabric);
    let (subject, name) = (
        subject(&fabric, leaf),
        fabric.fabric().device(leaf).name.clone(),
    );
    let lie: Lie = |mad| {
        if Header::parse(mad).attribute == smp::NODE_INFO {
            smp::NodeInfo {
                port_guid: Guid(0x0bad_0bad),
                ..smp::NodeInfo::parse(pma::data(mad))
            }
            .emit(pma::data_mut(mad));
        }
    };
    let result = verifier(fabric, TRUE, lie)
        .device(&subject)
        .expect("the transport is open");
    let identity = Identity {
        guid: Guid(1),
        name: "switch0001".to_owned(),
        lid: subject.lid,
        port: subject.port,
        kind: NodeKind::Switch,
    };
    let model = Model {
        kind: Some(NodeKind::Switch),
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        revision: 0,
    };
    let mut report = Report::default();
    report
        .devices
        .push(DeviceReport::new(identity, &model, &result));
    let json = report.to_json();
    assert!(
        json.contains("\"field\": \"PortGUID\"") && json.contains("switch0001"),
        "{json}"
    );
    for private in [
        &*name,
        &subject.guid.0.to_string(),
        &subject.guid.to_string(),
        &0x0bad_0bad_u64.to_string(),
    ] {
        assert!(!json.contains(private), "{private} in {json}");
    }
}
