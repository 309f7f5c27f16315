//! The driver on a transport that fails, in virtual time.

use std::time::Duration;

use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::header::Header;
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::output::Destination;
use ibnet::sweep::driver::{Clock, Control, Driver, DriverSettings};
use ibnet::sweep::engine::DevicePlan;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::port_record::PortIdentity;
use ibnet::sweep::virtual_sweep::VirtualClock;
use ibnet::time::Instant;
use ibnet_record::LinkSource;
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();

/// A transport that accepts a number of MADs for one LID and refuses all others. No MAD is
/// answered.
struct Failing {
    accepted_lid: Lid,
    left: u32,
    pending: Vec<Completion>,
    clock: VirtualClock,
}

impl Transport for Failing {
    fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
        if target.lid != self.accepted_lid || self.left == 0 {
            return Err(TransportError::new("umad_send", EINVAL));
        }
        self.left -= 1;
        self.pending.push(Completion {
            tid: Header::parse(mad).tid,
            outcome: Outcome::TimedOut,
        });
        Ok(())
    }

    fn recv(
        &mut self,
        _mad: &mut Mad,
        wait: Duration,
        _now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let completion = self.pending.pop();
        if completion.is_none() {
            self.clock.sleep(wait);
        }
        Ok(completion)
    }

    fn locator(&self) -> Locator {
        Box::new(|| None)
    }
}

/// Returns a plan of two hosts with one port each.
fn plan() -> SweepPlan {
    let device = |lid: u16| DevicePlan {
        guid: Guid(lid.into()),
        lid: Lid(lid),
        kind: NodeKind::Hca,
        ports: vec![PortNum(1)],
    };
    let identity = |lid: u16| PortIdentity {
        guid: Guid(lid.into()),
        port: PortNum(1),
        lid: Lid(lid),
        node: format!("node{lid}"),
        kind: NodeKind::Hca,
        hops: None,
        peer: None,
        link: LinkRate::new("4x", "EDR"),
        link_source: LinkSource::File,
        mtu: None,
        vls: None,
        limits: None,
    };
    SweepPlan {
        devices: vec![device(1), device(2)],
        ports: vec![identity(1), identity(2)],
        ..SweepPlan::default()
    }
}

/// Runs the driver on a transport that accepts `left` MADs for the first LID, until it is lost.
/// Returns the error and the records.
fn run_until_lost(left: u32) -> (TransportError, Vec<Line>) {
    let clock = VirtualClock::default();
    clock.set_wall_offset(1_795_000_000_123_456_789);
    let transport = Failing {
        accepted_lid: Lid(1),
        left,
        pending: Vec::new(),
        clock: clock.clone(),
    };
    let (outlet, lines) = Destination::memory();
    let settings = DriverSettings {
        sampler: "here".to_owned(),
        ca: "mlx5_0".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(50),
        offset: Duration::ZERO,
        aligned: true,
        // A limit in case the driver does not detect the loss.
        sweeps: Some(40),
        assignments_sha256: None,
        engine: crate::config(),
    };
    let driver = Driver::new(plan(), settings, transport, clock, outlet, 1);
    let lost = driver
        .run(&Control::default(), |_| {})
        .expect_err("no MAD can be sent");
    (
        lost,
        lines
            .text()
            .lines()
            .map(|text| strict::parse(text).expect("a record"))
            .collect(),
    )
}

fn errnos(lines: &[Line]) -> Vec<Option<i32>> {
    lines
        .iter()
        .filter_map(|line| {
            if let Line::Port(port) = line {
                Some(port.errno)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn transport_that_sends_nothing_is_lost_and_the_slot_is_recorded() {
    let (lost, lines) = run_until_lost(0);
    assert!(
        matches!(
            lost,
            TransportError::Call {
                call: "umad_send",
                ..
            }
        ) && lost.errno() == EINVAL,
        "{lost}"
    );
    assert_eq!(errnos(&lines), [Some(EINVAL); 2]);
    let events = lines
        .iter()
        .filter(|line| matches!(line, Line::Event(event) if event.event == "send_error"))
        .count();
    assert_eq!(events, 1);
}

#[test]
fn transport_that_refuses_one_lid_and_later_all_is_lost() {
    // The second LID is refused from the start, the first after some slots.
    let (_, lines) = run_until_lost(12);
    let errnos = errnos(&lines);
    assert!(errnos.len() > 2 && errnos.contains(&None), "{errnos:?}");
    let last: Vec<_> = errnos[errnos.len() - 2..].to_vec();
    assert_eq!(last, [Some(EINVAL); 2]);
}
