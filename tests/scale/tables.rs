//! Forwarding tables of 38,000 LIDs of a large fabric, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::forwarding::{
    BLOCK_LIDS, Block, LINEAR_FORWARDING_TABLE, SL_TO_VL, SWITCH_INFO, SwitchInfo,
};
use ibnet::mad::header::{Header, METHOD_GET_RESP};
use ibnet::mad::pma::{CLASS_PORT_INFO, Capabilities, data_mut};
use ibnet::mad::smp::{CLASS_SUBN_LID_ROUTED, NODE_INFO, NodeInfo, PORT_INFO, PortInfo};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::vendor::subnet::ADAPTIVE_ROUTING_INFO;
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::sweep::driver::Clock;
use ibnet::sweep::engine::{Config, DevicePlan, Table};
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualSweep};
use ibnet::time::Instant;
use ibnet_record::Status;
use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

const SECOND: Duration = Duration::from_secs(1);
const ROUND_TRIP: Duration = Duration::from_micros(50);
const TOP: u16 = 38_000;

/// The attributes of forwarding.
const TABLES: [u16; 4] = [
    SWITCH_INFO,
    LINEAR_FORWARDING_TABLE,
    SL_TO_VL,
    ADAPTIVE_ROUTING_INFO,
];

/// Number of SMPs for tables, by switch and second.
type Sent = Arc<Mutex<BTreeMap<(Lid, u64), u32>>>;

/// Switches that all answer after the same time. The GUID of a switch is its LID.
struct Switches {
    clock: VirtualClock,
    waiting: VecDeque<(Instant, Lid, Mad)>,
    sent: Sent,
}

/// Returns a block of the table of a switch.
fn block_of(lid: Lid, block: u32) -> Block {
    std::array::from_fn(|place| (u32::from(lid.0) * 31 + block * 7 + place as u32) as u8)
}

fn answer(mad: &mut Mad, lid: Lid) {
    mad[3] = METHOD_GET_RESP;
    let Header {
        class,
        attribute,
        modifier,
        ..
    } = Header::parse(mad);
    let data = data_mut(mad);
    match (class, attribute) {
        (CLASS_SUBN_LID_ROUTED, NODE_INFO) => NodeInfo {
            port_guid: Guid(lid.0.into()),
            vendor_id: 0x2c9,
            ..NodeInfo::default()
        }
        .emit(data),
        (CLASS_SUBN_LID_ROUTED, PORT_INFO) => PortInfo {
            state: PortInfo::ACTIVE,
            ..PortInfo::default()
        }
        .emit(data),
        (CLASS_SUBN_LID_ROUTED, SWITCH_INFO) => SwitchInfo {
            linear_cap: 0xc000,
            linear_top: TOP,
        }
        .emit(data),
        (CLASS_SUBN_LID_ROUTED, LINEAR_FORWARDING_TABLE) => {
            data[..64].copy_from_slice(&block_of(lid, modifier));
        }
        (CLASS_SUBN_LID_ROUTED, _) => {}
        (_, id) if id == CLASS_PORT_INFO.id => Capabilities {
            mask: 0x1300,
            mask2: 0,
            option_mask: None,
        }
        .emit(data),
        _ => {}
    }
}

impl Transport for Switches {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        let Header {
            class, attribute, ..
        } = Header::parse(mad);
        if class == CLASS_SUBN_LID_ROUTED && TABLES.contains(&attribute) {
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            *sent
                .entry((target.lid, now.as_nanos() / 1_000_000_000))
                .or_default() += 1;
        }
        self.waiting.push_back((now + ROUND_TRIP, target.lid, *mad));
        Ok(())
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        let next = self.waiting.front().copied();
        let Some((at, slid, request)) = next.filter(|(at, ..)| *at <= now + wait) else {
            self.clock.sleep(wait);
            return Ok(None);
        };
        self.waiting.pop_front();
        let outcome = Outcome::Reply { slid, len: MAD_LEN };
        *mad = request;
        answer(mad, slid);
        self.clock.advance_to(at);
        let tid = Header::parse(mad).tid;
        Ok(Some(Completion { tid, outcome }))
    }

    fn locator(&self) -> Locator {
        Box::new(|| None)
    }
}

/// Runs a sampler of these switches for five minutes, and returns how long each slot took. With
/// `forwarding`, checks that all tables were read.
pub(super) fn sweep(lids: RangeInclusive<u16>, forwarding: bool) -> Vec<Duration> {
    let device = |lid: u16| DevicePlan {
        guid: Guid(lid.into()),
        lid: Lid(lid),
        kind: NodeKind::Switch,
        ports: vec![PortNum(1)],
    };
    let plan: Vec<DevicePlan> = lids.map(device).collect();
    let config = Config {
        groups: [Group::Extended].into(),
        forwarding,
        ..Config::default()
    };
    let (clock, sent) = (VirtualClock::default(), Sent::default());
    let transport = Switches {
        clock: clock.clone(),
        waiting: VecDeque::new(),
        sent: Arc::clone(&sent),
    };
    let mut sweep = VirtualSweep::with_transport(transport, clock, &plan, config, 1);
    sweep.discover();
    let blocks = usize::from(TOP / BLOCK_LIDS) + 1;
    let mut left = plan.len() * blocks;
    let mut rounds = 0;
    let mut durations = Vec::new();
    for _ in 0..300 {
        sweep.slot(SECOND);
        let stats = sweep.engine.stats();
        assert_eq!(stats.count(Status::Ok) as usize, plan.len());
        durations.push(stats.duration());
        while let Some(reading) = sweep.engine.take_forwarding() {
            match reading.table {
                Table::Linear { block, ports, .. } => {
                    let lid = plan[reading.device].lid;
                    assert_eq!(ports, block_of(lid, block.into()));
                    left -= 1;
                }
                Table::Round { .. } => rounds += 1,
                Table::SlToVl { .. } => {}
            }
        }
    }
    if forwarding {
        assert_eq!((left, rounds), (0, plan.len()), "all tables in 300 s");
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(
            sent.values().max(),
            Some(&2),
            "SMPs to a switch in a second"
        );
    }
    durations
}
