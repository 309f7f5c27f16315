//! The driver on transports that fail.

use std::time::Duration;

use ibnet::mad::Mad;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::header::Header;
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::sink::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine::{self, DevicePlan};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::record::line::{self, Line};
use ibnet::sweep::record::{LinkSource, PortIdentity};
use ibnet::time::Instant;
use ibnet::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

const EINVAL: i32 = 22;

/// Takes MADs for this LID only, and for no more than so many; what it takes is never answered.
struct Failing {
    takes: Lid,
    left: u32,
    taken: Vec<Completion>,
}

impl Transport for Failing {
    fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
        if target.lid != self.takes || self.left == 0 {
            return Err(TransportError::new("umad_send", EINVAL));
        }
        self.left -= 1;
        self.taken.push(Completion { tid: Header::parse(mad).tid, outcome: Outcome::TimedOut });
        Ok(())
    }

    fn recv(&mut self, _mad: &mut Mad, wait: Duration, _now: Instant) -> Result<Option<Completion>, TransportError> {
        let completion = self.taken.pop();
        if completion.is_none() {
            std::thread::park_timeout(wait);
        }
        Ok(completion)
    }

    fn locator(&self) -> Locator {
        Box::new(|| None)
    }
}

/// Two hosts with a port each.
fn plan() -> SweepPlan {
    let device = |lid: u16| DevicePlan { guid: Guid(lid.into()), lid: Lid(lid), kind: NodeKind::Hca, ports: vec![PortNum(1)] };
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
    };
    SweepPlan { devices: vec![device(1), device(2)], ports: vec![identity(1), identity(2)] }
}

/// Runs until the way to the fabric is lost, and gives what was written.
fn until_lost(transport: Failing) -> (TransportError, Vec<Line>) {
    let (outlet, lines) = Destination::memory();
    let settings = DriverSettings {
        sampler: "here".to_owned(),
        ca: "mlx5_0".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(50),
        offset: Duration::ZERO,
        aligned: true,
        // It ends long before, or the way was not found to be lost.
        sweeps: Some(40),
        assignments_sha256: None,
        engine: engine::Config::default(),
    };
    let driver = Driver::new(plan(), settings, transport, SystemClock::start(), outlet, 1);
    let lost = driver.run(&Control::default(), |_| {}).expect_err("nothing can be sent any more");
    (lost, lines.text().lines().map(|text| line::parse(text).expect("a record")).collect())
}

fn errnos(lines: &[Line]) -> Vec<Option<i32>> {
    lines.iter().filter_map(|line| if let Line::Port(port) = line { Some(port.errno) } else { None }).collect()
}

#[test]
fn where_nothing_can_be_sent_the_way_is_lost_and_the_slot_is_told() {
    let (lost, lines) = until_lost(Failing { takes: Lid(1), left: 0, taken: Vec::new() });
    assert!(matches!(lost, TransportError::Call { call: "umad_send", .. }) && lost.errno() == EINVAL, "{lost}");
    assert_eq!(errnos(&lines), [Some(EINVAL); 2]);
    let events = lines.iter().filter(|line| matches!(line, Line::Event(event) if event.event == "send_error")).count();
    assert_eq!(events, 1);
}

#[test]
fn it_is_lost_too_if_it_began_with_some_that_could_not_be_sent() {
    // One LID cannot be sent to from the start, and after some slots the other cannot either.
    let (_, lines) = until_lost(Failing { takes: Lid(1), left: 12, taken: Vec::new() });
    let errnos = errnos(&lines);
    assert!(errnos.len() > 2 && errnos.contains(&None), "{errnos:?}");
    let last: Vec<_> = errnos[errnos.len() - 2..].to_vec();
    assert_eq!(last, [Some(EINVAL); 2]);
}
