//! Tests of agents that redirect to another agent (IBA vol. 1, 13.5.4).

use ibnet_record::types::Lid;

use super::super::*;
use super::identity::Sweep;
use super::{Bench, MS, SECOND, other_device, valid, with_manager};
use crate::mad::MAD_LEN;
use crate::mad::header::Header;
use crate::mad::pma;
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::smp;

/// Octets 0 to 23 of a redirection of a request for PortCounters: GetResp of class 0x04, status
/// 0x0002. The TID (octets 8 to 15) is that of the request.
const HEADER: [u8; 24] = [
    1, 4, 1, 0x81, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0, 0, 0, 0, 0, 0,
];

/// Octets 64 to 103 of the redirection: ClassPortInfo with SL 3, LID 40 (0x28), P_Key 0x8001, queue
/// pair 5 and Q_Key 0x80010000.
const CLASS_PORT_INFO: [u8; 40] = [
    1, 1, 0, 0, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0,
    0x28, 0x80, 0x01, 0, 0, 0, 5, 0x80, 1, 0, 0,
];

/// Writes a redirection with this AttributeID.
fn write_redirection(mad: &mut Mad, attribute: u8) {
    let tid: [u8; 4] = [mad[12], mad[13], mad[14], mad[15]];
    *mad = [0; MAD_LEN];
    mad[..24].copy_from_slice(&HEADER);
    mad[12..16].copy_from_slice(&tid);
    mad[17] = attribute;
    mad[64..104].copy_from_slice(&CLASS_PORT_INFO);
}

/// Redirects to LID 40 in the default partition.
fn to_lid_40(mad: &mut Mad, _: &mut Lid) {
    mad[5] = 2;
    Redirect {
        lid: Lid(40),
        qp: 1,
        qkey: 0,
        sl: 0,
        pkey: 0xffff,
    }
    .emit(pma::data_mut(mad));
}

/// Returns the events about redirections.
fn redirections(bench: &Bench) -> Vec<Event> {
    bench
        .events
        .iter()
        .filter(|event| matches!(event, Event::Redirected { .. }))
        .copied()
        .collect()
}

#[test]
fn redirection_counts_with_the_requested_attribute_and_with_class_port_info() {
    // The second form is that of IBM eHCA adapters.
    for attribute in [0x12, 0x01] {
        let mut bench = with_manager(|config| config.pkey_table = vec![0xffff, 0x8001]);
        bench.start();
        let before = bench.engine.stats().rejected.total();
        bench.reply(1, |mad, _| write_redirection(mad, attribute));
        let (target, mad) = bench.sent.last().expect("the request is sent again");
        let expected = Target {
            lid: Lid(40),
            qp: 5,
            qkey: 0x8001_0000,
            sl: 3,
            pkey_index: 1,
            give_up: 50 * MS,
        };
        assert_eq!((*target, Header::parse(mad).attribute), (expected, 0x12));
        assert_eq!(
            redirections(&bench),
            [Event::Redirected {
                device: 1,
                to: Lid(40),
                unserved_pkey: None
            }]
        );
        assert_eq!(bench.engine.stats().rejected.total(), before);
        let last = bench.sent.len() - 1;
        bench.reply(last, valid);
        assert_eq!(bench.status(2), Some(Status::Ok));
    }
}

#[test]
fn class_port_info_without_redirect_status_is_rejected() {
    let mut bench = with_manager(|_| {});
    bench.start();
    let sent = bench.sent.len();
    bench.reply(1, |mad, _| {
        write_redirection(mad, 0x01);
        mad[5] = 0;
    });
    assert_eq!(
        (bench.engine.stats().rejected.attribute, bench.sent.len()),
        (1, sent)
    );
    assert_eq!(redirections(&bench), []);
}

#[test]
fn redirection_to_an_unknown_partition_is_followed_with_the_own_pkey_and_reported() {
    let mut bench =
        with_manager(|config| (config.pkey_index, config.pkey_table) = (1, vec![0x7fff, 0xffff]));
    bench.start();
    bench.reply(1, |mad, _| write_redirection(mad, 0x12));
    assert_eq!(
        bench
            .sent
            .last()
            .map(|(target, _)| (target.lid, target.pkey_index)),
        Some((Lid(40), 1))
    );
    assert_eq!(
        redirections(&bench),
        [Event::Redirected {
            device: 1,
            to: Lid(40),
            unserved_pkey: Some(0x8001)
        }]
    );
}

#[test]
fn redirection_is_followed_once_and_remembered() {
    let mut sweep = Sweep::plain();
    let (from, place) = sweep.find("node00002");
    let (to, _) = sweep.find("node00003");
    sweep.change(|sim| sim.redirect(from, to));
    sweep.slot();
    let lid = sweep.fabric.device(to).lid;
    assert!(sweep.events.contains(&Event::Redirected {
        device: place,
        to: lid,
        unserved_pkey: None
    }));
    assert_eq!(sweep.status(place), Status::Ok);
    let sent = sweep.virtual_sweep.engine.stats().mads_sent;
    let again = sweep
        .slot()
        .iter()
        .any(|event| matches!(event, Event::Redirected { .. }));
    assert!(!again && sweep.status(place) == Status::Ok);
    assert_eq!(
        sweep.virtual_sweep.engine.stats().mads_sent,
        sent - 1,
        "requests go to the other agent at once"
    );
    // A second redirection is an error.
    sweep.change(|sim| sim.redirect(to, from));
    sweep.slot();
    assert_eq!(sweep.status(place), Status::MadError);
}

#[test]
fn redirection_by_a_wrong_device_is_discarded() {
    let mut bench = with_manager(|_| {});
    bench.start();
    bench.reply(1, to_lid_40);
    assert_eq!(
        bench.sent.last().map(|(target, _)| target.lid),
        Some(Lid(40))
    );
    bench.engine.close(bench.now);
    bench.now += SECOND;
    bench.engine.verify(2);
    bench.start();
    let node_info = bench.last(2, smp::NODE_INFO);
    bench.reply(node_info, other_device);
    assert_eq!(bench.engine.devices[1].path.redirect, None);
}

#[test]
fn late_redirection_is_followed_at_once() {
    let mut bench = with_manager(|_| {});
    bench.start();
    bench.pass(6 * MS);
    bench.reply(1, to_lid_40);
    assert_eq!(
        bench.sent.last().map(|(target, _)| target.lid),
        Some(Lid(40))
    );
    let last = bench.sent.len() - 1;
    bench.reply(last, valid);
    assert!(matches!(bench.status(2), Some(Status::Ok | Status::Late)));
}

#[test]
fn redirection_after_ask_until_is_not_followed_in_this_slot() {
    let mut bench = with_manager(|_| {});
    bench.now += 890 * MS;
    bench
        .engine
        .start_slot(bench.now, bench.now + 2 * MS, bench.now + 60 * MS);
    bench.poll();
    bench.pass(3 * MS);
    let sent = bench.sent.len();
    bench.reply(1, to_lid_40);
    assert_eq!(
        (bench.sent.len(), bench.status(2)),
        (sent, Some(Status::Skipped))
    );
}
