//! The subscription, MAD by MAD, and against the subnet manager of the simulated fabric.

use super::*;
use crate::mad::MAD_LEN;
use crate::mad::header::METHOD_GET_RESP;
use crate::mad::inform::METHOD_REPORT_RESP;
use crate::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const START: Instant = Instant::ZERO;

fn at(seconds: u32) -> Instant {
    START + SECOND * seconds
}

fn local(sm_lid: u16) -> Local {
    Local {
        lid: Lid(9),
        sm_lid: Lid(sm_lid),
        sm_sl: 3,
        ..Local::default()
    }
}

fn subscription() -> Subscription {
    let mut subscription = Subscription::new(2, 100);
    subscription.set_local(local(1), at(1));
    subscription
}

/// Takes all MADs that are to be sent.
fn sent(subscription: &mut Subscription, now: Instant) -> Vec<(Target, Mad)> {
    let mut mad = [0; MAD_LEN];
    std::iter::from_fn(|| {
        subscription
            .poll_transmit(now, &mut mad)
            .map(|target| (target, mad))
    })
    .collect()
}

fn informs(sent: &[(Target, Mad)]) -> Vec<(u16, bool)> {
    sent.iter()
        .map(|(_, mad)| InformInfo::parse(mad).expect("a subscription"))
        .map(|inform| (inform.trap, inform.subscribe))
        .collect()
}

/// Answers requests with a status.
fn answer(subscription: &mut Subscription, sent: &[(Target, Mad)], status: u16, now: Instant) {
    for (target, mad) in sent {
        let mut reply = *mad;
        reply[3] = METHOD_GET_RESP;
        reply[4..6].copy_from_slice(&status.to_be_bytes());
        assert_eq!(subscription.handle(target.lid, &reply, MAD_LEN, now), None);
    }
}

fn report(number: u16, lid: u16, tid: u32) -> Mad {
    let mut mad = [0; MAD_LEN];
    Trap {
        number,
        lid: Lid(lid),
    }
    .emit(Tid(tid), &mut mad);
    mad
}

#[test]
fn subscription_is_made_renewed_each_minute_and_withdrawn() {
    let mut subscription = subscription();
    let first = sent(&mut subscription, at(1));
    assert_eq!(informs(&first), [(128, true), (144, true)]);
    assert!(first.iter().all(
        |(target, _)| (target.lid, target.qp, target.sl, target.pkey_index) == (Lid(1), 1, 3, 2)
    ));
    assert_eq!(
        subscription.handle_timeout(at(1)),
        None,
        "the outcome is not known"
    );
    answer(&mut subscription, &first, 0, at(1));
    assert_eq!(
        subscription.handle_timeout(at(1)),
        Some(Condition::Active(Lid(1)))
    );
    assert_eq!(
        (
            sent(&mut subscription, at(60)).len(),
            subscription.handle_timeout(at(60))
        ),
        (0, None)
    );
    let renewal = sent(&mut subscription, at(61));
    assert_eq!(informs(&renewal), [(128, true), (144, true)]);
    answer(&mut subscription, &renewal, 0, at(61));
    assert_eq!(
        subscription.handle_timeout(at(61)),
        None,
        "a renewal is no news"
    );
    subscription.withdraw(at(70));
    let last = sent(&mut subscription, at(70));
    assert_eq!(
        (informs(&last), subscription.has_ended()),
        (vec![(128, false), (144, false)], false)
    );
    answer(&mut subscription, &last, 0, at(70));
    assert!(subscription.has_ended() && sent(&mut subscription, at(200)).is_empty());
}

#[test]
fn new_subnet_manager_is_asked_at_once() {
    let mut subscription = subscription();
    let first = sent(&mut subscription, at(1));
    answer(&mut subscription, &first, 0, at(1));
    assert!(subscription.handle_timeout(at(1)).is_some());
    subscription.set_local(local(1), at(5));
    assert!(sent(&mut subscription, at(5)).is_empty());
    subscription.set_local(local(4), at(6));
    let anew = sent(&mut subscription, at(6));
    assert!(
        informs(&anew) == [(128, true), (144, true)]
            && anew.iter().all(|(target, _)| target.lid == Lid(4))
    );
    answer(&mut subscription, &anew, 0, at(6));
    assert_eq!(
        subscription.handle_timeout(at(6)),
        Some(Condition::Active(Lid(4)))
    );
    // A port that is down sends nothing.
    subscription.set_local(
        Local {
            is_down: true,
            ..local(5)
        },
        at(7),
    );
    assert!(sent(&mut subscription, at(7)).is_empty());
}

#[test]
fn refusal_and_silence_are_reported_once_and_tried_again_after_a_minute() {
    let mut refused = subscription();
    for (time, reported) in [
        (1, Some(Condition::Refused(Lid(1), MadStatus(0x0200)))),
        (61, None),
    ] {
        let requests = sent(&mut refused, at(time));
        assert_eq!(requests.len(), 2);
        answer(&mut refused, &requests, 0x0200, at(time));
        assert_eq!(refused.handle_timeout(at(time)), reported);
    }
    refused.withdraw(at(62));
    assert!(refused.has_ended(), "nothing has to be withdrawn");

    let mut silent = subscription();
    let mut tries = 0;
    let mut reported = Vec::new();
    for time in 1..60 {
        reported.extend(
            silent
                .handle_timeout(at(time))
                .map(|condition| (time, condition)),
        );
        tries += sent(&mut silent, at(time)).len();
    }
    assert_eq!((tries, reported), (6, vec![(4, Condition::Silent(Lid(1)))]));
    assert_eq!(sent(&mut silent, at(64)).len(), 2);
    // A request without an answer may have arrived, so it is withdrawn.
    silent.withdraw(at(65));
    let mut tries = 0;
    for time in 65..80 {
        tries += sent(&mut silent, at(time)).len();
        assert_eq!(silent.handle_timeout(at(time)), None);
    }
    assert_eq!((tries, silent.has_ended()), (6, true));
}

#[test]
fn report_of_the_subnet_manager_is_answered() {
    let mut subscription = subscription();
    let first = sent(&mut subscription, at(1));
    answer(&mut subscription, &first, 0, at(1));
    let forged = subscription.handle(Lid(8), &report(128, 7, 77), MAD_LEN, at(2));
    assert_eq!(
        (forged, sent(&mut subscription, at(2)).len()),
        (None, 0),
        "a report of another sender"
    );
    assert_eq!(
        subscription.handle(Lid(1), &report(128, 7, 77), MAD_LEN, at(2)),
        Some(Trap {
            number: 128,
            lid: Lid(7)
        })
    );
    let replies = sent(&mut subscription, at(2));
    let [(target, reply)] = &replies[..] else {
        panic!("{}", replies.len())
    };
    let header = Header::parse(reply);
    assert_eq!(
        (target.lid, header.method, header.tid, target.give_up),
        (Lid(1), METHOD_REPORT_RESP, Tid(77), Duration::ZERO)
    );
    for tid in 100..1100 {
        assert!(
            subscription
                .handle(Lid(1), &report(144, 7, tid), MAD_LEN, at(3))
                .is_some()
        );
    }
    assert_eq!(
        sent(&mut subscription, at(3)).len(),
        MAX_REPLIES,
        "the memory is limited"
    );
}

#[test]
fn repeated_report_is_answered_but_is_no_other_trap() {
    let mut subscription = subscription();
    let first = sent(&mut subscription, at(1));
    answer(&mut subscription, &first, 0, at(1));
    let mut receive = |mad: &Mad, time| {
        let trap = subscription.handle(Lid(1), mad, MAD_LEN, at(time));
        (trap.is_some(), sent(&mut subscription, at(time)).len())
    };
    assert_eq!(receive(&report(128, 7, 77), 2), (true, 1));
    assert_eq!(
        receive(&report(128, 7, 77), 3),
        (false, 1),
        "the answer was lost"
    );
    assert_eq!(
        receive(&report(128, 7, 78), 3),
        (true, 1),
        "another trap of the same device"
    );
    assert_eq!(
        receive(&report(144, 7, 77), 3),
        (true, 1),
        "another trap with the same transaction ID"
    );
    let mut high_half = report(128, 7, 77);
    high_half[8] = 1;
    assert_eq!(receive(&high_half, 3), (true, 1), "another transaction ID");
    assert_eq!(
        receive(&report(128, 7, 77), 12),
        (true, 1),
        "a transaction ID that is used again"
    );
    subscription.set_local(local(4), at(13));
    let trap = subscription.handle(Lid(4), &report(128, 7, 77), MAD_LEN, at(13));
    assert!(
        trap.is_some(),
        "another subnet manager chooses its own transaction IDs"
    );
}
