#![no_main]
//! Fuzzes replies: the check of each kind of query, every decoder, and an engine on a fabric that
//! the fuzzer controls.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::{LinkSource, Status};
use ibnet_record::strict::{self, Line, Value};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Tid};
use ibnet::mad::exchange::{Completion, Local, Outcome, Target};
use ibnet::mad::forwarding::{LINEAR_FORWARDING_TABLE, SL_TO_VL, SWITCH_INFO};
use ibnet::mad::header::{HEADER_LEN, Header, METHOD_GET_RESP, METHOD_SET, MadStatus};
use ibnet::mad::pma::class_port_info::Redirect;
use ibnet::mad::pma::{self, Bits, CLASS_PORT_INFO, Capabilities, Clearable, Sampling};
use ibnet::mad::query::{BadReply, Query};
use ibnet::mad::sa::{self, PathRecord};
use ibnet::mad::smp::{self, NodeInfo, PortInfo};
use ibnet::mad::{MAD_LEN, Mad, vendor};
use ibnet::sweep::clearing::Clearing;
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine, Event};
use ibnet::sweep::port_record::{PortIdentity, PortRecord};
use ibnet::sweep::sample::Sample;
use ibnet::time::Instant;
use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    Simulation::new(Unstructured::new(bytes)).run_all();
});

/// Returns every query of ibnet to which these octets may be a reply.
fn queries(mad: &Mad) -> impl Iterator<Item = Query> {
    let (select, modifier) = (PortNum(mad[65]), u32::from_be_bytes([mad[20], mad[21], mad[22], mad[23]]));
    let views = Group::ALL.into_iter().flat_map(|group| [Some(group.attribute()), group.other_view()]).flatten();
    let performance = views.map(move |attribute| pma::Query { attribute: attribute.id, port: Some(select) });
    let performance = performance.chain([pma::Query { attribute: CLASS_PORT_INFO.id, port: None }]).map(Query::Pma);
    let subnet = [smp::NODE_DESCRIPTION, smp::NODE_INFO, smp::PORT_INFO, smp::PORT_INFO_EXTENDED, smp::SWITCH_PORT_STATE_TABLE, SWITCH_INFO, LINEAR_FORWARDING_TABLE, SL_TO_VL];
    let subnet = subnet.map(|attribute| Query::Smp(smp::Query { attribute, modifier }));
    let register = vendor::register::Query::parse(mad).map(vendor::Query::Register);
    let vendor = [Some(vendor::Query::GeneralInfo), register].into_iter().flatten().map(Query::Vendor);
    performance.chain(subnet).chain([Query::Sa(sa::Query::parse(mad))]).chain(vendor)
}

/// Checks and decodes a MAD, unchanged and as a reply to each query.
fn decode(bytes: &[u8]) {
    let mut mad: Mad = [0; MAD_LEN];
    let len = bytes.len().min(MAD_LEN);
    mad[..len].copy_from_slice(&bytes[..len]);
    for query in queries(&mad) {
        let _ = query.check(&mad, bytes.len()).map_err(|bad| bad.to_string());
        let mut reply: Mad = [0; MAD_LEN];
        query.emit(Tid(7), &mut reply);
        reply[3] = METHOD_GET_RESP;
        reply[4..6].copy_from_slice(&mad[4..6]);
        reply[HEADER_LEN..].copy_from_slice(&mad[HEADER_LEN..]);
        match query.check(&reply, MAD_LEN) {
            Ok(()) => assert_eq!(mad[4..6], [0, 0]),
            Err(bad) => assert_eq!(bad, BadReply::Status(Header::parse(&mad).status)),
        }
    }
    let data = pma::data(&mad);
    for attribute in
        Group::ALL.into_iter().flat_map(|group| [Some(group.attribute()), group.other_view()]).flatten().chain([&CLASS_PORT_INFO])
    {
        for field in attribute.fields {
            for index in 0..field.len {
                let raw = field.raw(data, index);
                assert!(raw <= field.all_ones() && field.value(raw) >= raw);
                let mut written = *data;
                field.set_raw(&mut written, index, raw);
                assert_eq!(written, *data, "{} of {}", field.name, attribute.name);
            }
        }
    }
    let info = NodeInfo::parse(data);
    let mut written = *data;
    info.emit(&mut written);
    assert_eq!(NodeInfo::parse(&written), info);
    assert!(smp::node_description(data).chars().count() <= 64);
    let link = PortInfo::parse(data);
    let _ = (link.rate(0).to_string(), link.rate(u32::MAX).data_gbps(), smp::is_rs_fec(data));
    assert!(Redirect::parse(data).is_none_or(|redirect| redirect.lid.is_unicast()));
    assert!(PathRecord::parse(&mad).sl < 16);
    let _ = (Capabilities::parse(data), Sampling::parse(data));
}

/// Returns two devices whose GUIDs equal their LIDs.
fn plan() -> [DevicePlan; 2] {
    let device = |lid: u16, kind, ports: &[u8]| DevicePlan {
        guid: Guid(lid.into()),
        lid: Lid(lid),
        kind,
        ports: ports.iter().map(|num| PortNum(*num)).collect(),
    };
    [device(1, NodeKind::Switch, &[1, 2, 3]), device(2, NodeKind::Hca, &[1])]
}

/// LID of the subnet manager.
const MANAGER: Lid = Lid(9);

const MS: Duration = Duration::from_millis(1);

/// Delays in microseconds, around the timeout, the grace period and the end of a slot.
const DELAYS_US: [u64; 12] = [0, 1, 60, 900, 4_999, 5_000, 5_001, 20_000, 49_999, 50_001, 140_000, 1_100_000];

/// Largest number of steps of a phase. An engine that needs more makes no progress.
const MAX_STEPS: usize = 20_000;

/// An engine, and a fabric that the fuzzer controls.
struct Simulation<'a> {
    input: Unstructured<'a>,
    engine: Engine,
    config: Config,
    now: Instant,
    /// Requests of this phase, and earlier ones to the subnet manager.
    sent: BTreeMap<Tid, Sent>,
    /// Pending completions in the order of their time.
    pending: BTreeMap<(Instant, usize), (Completion, Mad)>,
    number: usize,
    /// Valid replies with counters in this slot: attribute, PortSelect, octets and time.
    valid: Vec<(u16, u8, pma::Data, Instant)>,
    events: Vec<Event>,
    identities: Vec<PortIdentity>,
    columns: Columns,
    readings: Vec<Reading>,
}

/// A request.
struct Sent {
    target: Target,
    query: Query,
    at: Instant,
    /// Whether a reply completed the request, or no reply can complete it any more.
    completed: bool,
}

impl<'a> Simulation<'a> {
    fn new(mut input: Unstructured<'a>) -> Self {
        let sets: [&[Group]; 4] = [
            &Group::DEFAULT,
            &Group::ALL,
            &[Group::Base],
            &[Group::ExtendedSpeeds, Group::Base, Group::SwPortVlCong, Group::Extended, Group::XmtSl, Group::SmplCtl],
        ];
        let mut pick = |most: u8| usize::from(input.int_in_range(0..=most).unwrap_or(0));
        let groups = sets[pick(3)].to_vec();
        let config = Config {
            window: 1 + pick(3),
            grace: [50 * MS, 5 * MS, MS, 400 * MS][pick(3)],
            silence: 1 + pick(2) as u8,
            force_groups: if pick(3) == 1 { vec![groups[pick(groups.len() as u8 - 1)]] } else { Vec::new() },
            groups: groups.into(),
            path_sl: pick(1) == 1,
            state_tables: true,
            forwarding: true,
            identity_every: [Duration::from_secs(60), MS][pick(1)],
            clearing: (pick(1) == 1).then(|| Clearing { of: Clearable::ALL.into(), interval: 900 * MS }),
            ..Config::default()
        };
        let plan = plan();
        let mut engine = Engine::new(&plan, config.clone(), [7, u64::MAX - 3][pick(1)]);
        if pick(1) == 1 {
            engine.set_local(Local { lid: Lid(8), sm_lid: MANAGER, ..Local::default() });
        }
        let columns = Columns::new(&config.groups).with_totals(config.cleared());
        let identities: Vec<_> = plan.iter().flat_map(identities).collect();
        Self {
            input,
            engine,
            now: Instant::ZERO,
            sent: BTreeMap::new(),
            pending: BTreeMap::new(),
            number: 0,
            valid: Vec::new(),
            events: Vec::new(),
            readings: vec![Reading::new(&columns); identities.len()],
            identities,
            columns,
            config,
        }
    }

    /// Returns a number below `end` from the input; 0 at the end of the input.
    fn pick(&mut self, end: usize) -> usize {
        self.input.int_in_range(0..=end - 1).unwrap_or(0)
    }

    fn octet(&mut self) -> u8 {
        self.input.arbitrary().unwrap_or(0)
    }

    fn run_all(mut self) {
        let close_at = self.now + 800 * MS;
        self.clear_phase();
        self.engine.start_discovery(self.now, close_at);
        self.run(close_at, Event::DiscoveryDone);
        for slot in 1..=1 + self.pick(3) as u64 {
            self.between_slots();
            let start = self.now;
            let close_at = start + 95 * MS;
            self.clear_phase();
            self.engine.start_slot(start, start + 90 * MS, close_at);
            self.run(close_at, Event::SlotDone);
            self.check_slot(slot, start);
        }
    }

    /// Clears the state of the last phase, except requests to the subnet manager.
    fn clear_phase(&mut self) {
        self.sent.retain(|_, sent| matches!(sent.query, Query::Sa(_)));
        self.valid.clear();
        self.events.clear();
    }

    /// Advances the time, delivers late replies and possibly changes the engine's state.
    fn between_slots(&mut self) {
        let then = self.now + [100 * MS, MS, Duration::from_secs(11), Duration::from_secs(700)][self.pick(4)];
        self.deliver(then);
        self.now = then;
        assert!(self.engine.poll_timeout().is_none() && self.engine.poll_transmit(then, &mut [0; MAD_LEN]).is_none(), "a phase still runs");
        match self.pick(6) {
            1 => self.engine.verify(0),
            2 => drop(self.engine.set_local(Local { lid: Lid(8), sm_lid: MANAGER, ..Local::default() })),
            3 => drop(self.engine.set_local(Local { lid: Lid(7), sm_lid: Lid(0), ..Local::default() })),
            _ => {}
        }
    }

    /// Drives the engine to the end of the phase.
    fn run(&mut self, close_at: Instant, last: Event) {
        let mut mad = [0xa5; MAD_LEN];
        let interrupt = match self.pick(8) {
            1 => 1 + self.pick(40),
            _ => usize::MAX,
        };
        for step in 0..MAX_STEPS {
            if step == interrupt {
                match self.pick(3) {
                    0 => self.engine.close(self.now),
                    most => self.engine.stop(self.now, [MS, 300 * MS][most - 1]),
                }
            }
            while let Some((target, tid)) = self.engine.poll_transmit(self.now, &mut mad) {
                self.take_sent(target, tid, &mad);
            }
            self.events.extend(std::iter::from_fn(|| self.engine.poll_event()));
            let Some(timeout) = self.engine.poll_timeout() else {
                assert_eq!(self.events.iter().filter(|event| **event == last).count(), 1);
                assert_eq!(self.events.last(), Some(&last));
                assert!(self.now <= close_at, "{last:?} too late");
                return;
            };
            let due = self.pending.first_key_value().map_or(timeout, |((due, _), _)| timeout.min(*due));
            self.deliver(due.max(self.now));
            self.engine.handle_timeout(self.now);
        }
        panic!("no {last:?} after {MAX_STEPS} steps");
    }

    fn take_sent(&mut self, target: Target, tid: Tid, mad: &Mad) {
        assert_eq!(Header::parse(mad).tid, tid);
        let query = query_of(mad);
        assert!(queries(mad).any(|known| known == query), "{query:?} is not a query of ibnet");
        let before = self.sent.insert(tid, Sent { target, query, at: self.now, completed: false });
        assert!(before.is_none_or(|before| before.completed), "a TID is used twice");
        let (now, deadline) = (self.now, self.config.timeout);
        let holds_place = |sent: &&Sent| !sent.completed && now < sent.at + deadline && !matches!(sent.query, Query::Sa(_));
        let pending = self.sent.values().filter(holds_place).count();
        assert!(pending <= self.config.window, "{pending} MADs are in flight");
        self.answer(tid, mad);
    }

    /// Chooses the replies to a MAD and their delays.
    fn answer(&mut self, tid: Tid, mad: &Mad) {
        let Sent { target, query, .. } = self.sent[&tid];
        let (mut slid, mut len, mut tid, mut outcome) = (target.lid, MAD_LEN, tid, None);
        let mut reply = *mad;
        reply[3] = METHOD_GET_RESP;
        self.fill(query, target.lid, &mut reply);
        let mut times = 1;
        match self.pick(20) {
            0..=6 => {}
            7 => times = 2,
            8 => times = 0,
            9 => outcome = Some(Outcome::TimedOut),
            10 => outcome = Some([Outcome::SendFailed(22), Outcome::NoAgent][self.pick(2)]),
            11 => slid = Lid(u16::from(self.octet())),
            12 => len = self.pick(300),
            13 => tid = Tid(tid.0.wrapping_sub(self.pick(4) as u32)),
            14 => reply[5] = [0x0c, 0x1c, 0x01, 0x04, 0x08][self.pick(5)],
            15 => {
                let lid = Lid([1, 2, 5, 0][self.pick(4)]);
                reply[5] = MadStatus::REDIRECT.0 as u8;
                Redirect { lid, qp: 1, qkey: 0, sl: 0, pkey: 0xffff }.emit(pma::data_mut(&mut reply));
            }
            16 => reply[4..6].copy_from_slice(&[self.octet(), self.octet()]),
            17 => {
                // The whole MAD. The transport reads only `tid` and `outcome`, which stay.
                let _ = self.input.fill_buffer(&mut reply);
            }
            _ => {
                for _ in 0..1 + self.pick(4) {
                    let at = self.octet();
                    reply[usize::from(at)] = self.octet();
                }
            }
        }
        for _ in 0..times {
            let due = self.now + Duration::from_micros(DELAYS_US[self.pick(DELAYS_US.len())]);
            self.number += 1;
            let outcome = outcome.unwrap_or(Outcome::Reply { slid, len });
            self.pending.insert((due, self.number), (Completion { tid, outcome }, reply));
        }
    }

    /// Writes the attribute of a reply.
    fn fill(&mut self, query: Query, lid: Lid, reply: &mut Mad) {
        let port = reply[65];
        match self.pick(5) {
            0 | 1 => {}
            2 => pma::data_mut(reply).fill(0xff),
            3 => {
                let mut state = u64::from(self.octet()) << 8 | u64::from(self.octet());
                for octet in pma::data_mut(reply) {
                    // Knuth's MMIX generator; the octets need only differ.
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *octet = (state >> 56) as u8;
                }
            }
            _ => {
                for octet in &mut pma::data_mut(reply)[..16] {
                    *octet = self.octet();
                }
            }
        }
        match query {
            Query::Pma(pma::Query { port: Some(_), .. }) => reply[65] = port,
            Query::Clear(_) => reply[65] = port,
            Query::Pma(_) | Query::Sa(_) => {}
            Query::Smp(smp::Query { attribute: smp::NODE_INFO, .. }) => {
                // Mostly the expected GUID.
                let guid = if self.pick(6) == 1 { Guid(u64::from(self.octet())) } else { Guid(u64::from(lid.0)) };
                let info = NodeInfo { port_guid: guid, ..NodeInfo::parse(pma::data(reply)) };
                info.emit(pma::data_mut(reply));
            }
            Query::Smp(_) | Query::Directed(_) | Query::Vendor(_) => {}
        }
        if matches!(query, Query::Sa(_)) {
            PathRecord { dlid: Lid([1, 2, 5, 0][self.pick(4)]), sl: 3 }.emit(reply);
        }
    }

    /// Delivers the completions that are due until `then`, each at its time.
    fn deliver(&mut self, then: Instant) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= then) {
            let ((due, _), (completion, mad)) = entry.remove_entry();
            self.now = self.now.max(due);
            self.record_completion(&completion, &mad);
            self.engine.handle_completion(&completion, &mad, self.now);
        }
        self.now = self.now.max(then);
    }

    /// Records the values that the engine may report after this completion.
    fn record_completion(&mut self, completion: &Completion, mad: &Mad) {
        let Some(sent) = self.sent.get_mut(&completion.tid).filter(|sent| !sent.completed) else { return };
        let Outcome::Reply { slid, len } = completion.outcome else {
            sent.completed = true;
            return;
        };
        if slid != sent.target.lid {
            return;
        }
        match (sent.query.check(mad, len), sent.query) {
            (Ok(()), Query::Pma(pma::Query { attribute, port: Some(port) })) => {
                let octets = [mad[1], mad[2], mad[3], mad[4], mad[5], mad[65]];
                assert_eq!((octets, len), ([4, 1, METHOD_GET_RESP, 0, 0, port.0], MAD_LEN), "an invalid reply was accepted");
                assert_eq!(mad[16..18], attribute.to_be_bytes());
                self.valid.push((attribute, port.0, *pma::data(mad), self.now));
            }
            (Ok(()) | Err(BadReply::Status(_)), _) => {}
            (Err(_), _) => return,
        }
        sent.completed = true;
    }

    /// Checks that every port has one event, that values come from valid replies, and that the
    /// record can be parsed.
    fn check_slot(&mut self, slot: u64, start: Instant) {
        for port in 0..self.identities.len() {
            assert_eq!(self.events.iter().filter(|event| **event == Event::Port(port)).count(), 1, "port {port}");
            let sample = self.engine.sample(port);
            let answers: Vec<_> =
                (0..self.config.groups.len()).filter_map(|group| Some((self.config.groups[group], sample.answer(group)?))).collect();
            for (group, (at, data)) in &answers {
                let is_it = |(attribute, num, octets, when): &(u16, u8, pma::Data, Instant)| {
                    (*attribute, *num, *when) == (group.attribute().id, self.identities[port].port.0, *at) && octets == *data
                };
                assert!(*at >= start && *at <= self.now && self.valid.iter().any(is_it), "{group} of port {port} has another value");
            }
            match sample.status {
                Status::Ok | Status::Late => assert!(!answers.is_empty() || sample.mads > 0),
                Status::WrongDevice | Status::Unreachable => assert!(answers.is_empty()),
                _ => {}
            }
            assert!(answers.len() <= sample.mads as usize);
            self.readings[port].take(&self.columns, slot, &sample);
            check_record(slot, &self.identities[port], &sample, &self.readings[port], &self.columns);
        }
        assert_eq!(self.engine.stats().total() as usize, self.identities.len());
    }
}

/// Returns the query of a request.
fn query_of(mad: &Mad) -> Query {
    let Header { class, method, attribute, modifier, .. } = Header::parse(mad);
    let cleared = Clearable::ALL.into_iter().find(|of| of.attribute().id == attribute);
    match class {
        pma::CLASS_PERF_MGT if method == METHOD_SET => Query::Clear(pma::Clear {
            of: cleared.expect("only these are cleared"),
            port: PortNum(mad[65]),
            select: u16::from_be_bytes([mad[66], mad[67]]),
        }),
        pma::CLASS_PERF_MGT => Query::Pma(pma::Query { attribute, port: (attribute != CLASS_PORT_INFO.id).then_some(PortNum(mad[65])) }),
        smp::CLASS_SUBN_LID_ROUTED => Query::Smp(smp::Query { attribute, modifier }),
        _ => Query::Sa(sa::Query::parse(mad)),
    }
}

fn identities(device: &DevicePlan) -> impl Iterator<Item = PortIdentity> {
    device.ports.iter().map(|port| PortIdentity {
        guid: device.guid,
        port: *port,
        lid: device.lid,
        hops: None,
        node: "\"\u{1b}\\".to_owned(),
        kind: device.kind,
        peer: Some((Guid(3), PortNum(4), "\u{2028}".to_owned())),
        link: LinkRate::new("4x", "HDR"),
        link_source: LinkSource::File,
        mtu: None,
        vls: None,
    })
}

fn check_record(slot: u64, identity: &PortIdentity, sample: &Sample<'_>, reading: &Reading, columns: &Columns) {
    let mut text = Vec::new();
    ibnet_record::write(&PortRecord { ts: 1, slot, sampler: "a", is_secondary: false, identity, sample, reading, columns }, &mut text);
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    assert_eq!(text.matches('\n').count(), 1);
    let line = strict::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let Line::Port(port) = line else { panic!("no port: {text}") };
    assert_eq!((port.guid, port.port, port.node.as_str()), (identity.guid, identity.port, identity.node.as_str()));
    assert_eq!((port.status.as_str(), port.mads), (sample.status.as_str(), u64::from(sample.mads)));
    assert_eq!(port.mad_status, sample.mad_status.map(|status| status.0));
    let counters: BTreeMap<String, Value> = reading
        .counters(columns)
        .map(|(field, raws)| {
            let values: Vec<u64> = raws.iter().map(|raw| field.value(*raw)).collect();
            (field.json.to_owned(), if let [value] = values[..] { Value::One(value) } else { Value::Many(values) })
        })
        .collect();
    assert_eq!(port.counters, counters);
    assert_eq!(counters.len(), reading.counters(columns).count(), "each counter once");
    for share in [port.xmit_blocked, port.xmit_utilization, port.rcv_utilization].into_iter().flatten() {
        assert!(share >= 0.0, "{text}");
    }
}
