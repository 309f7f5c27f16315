//! Cadences of groups: which MADs a slot sends, and what the readings make of them.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::attributes::Field;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::mad::pma::Bits;
use crate::mad::smp::PortInfo;
use crate::sweep::cadence::Cadence;
use crate::sweep::counter::{Columns, Rates, Reading};

const GROUPS: [Group; 4] = Group::DEFAULT;

/// Number of the slot after which counters do not change any more.
const QUIET: u64 = 40;

/// An engine whose devices answer at once, slot after slot.
struct Answered {
    engine: Engine,
    columns: Columns,
    readings: Vec<Reading>,
    /// Number of the first slot.
    first: u64,
    /// Number of the next slot.
    next: u64,
    now: Instant,
    /// Counter queries of the last slot, by device and place of the group.
    mads: BTreeMap<(u32, usize), u32>,
    /// Slot of the last query, by port and place of the group.
    last: BTreeMap<(u32, usize), u64>,
    /// Requests for PortInfo in the last slot.
    link_reads: usize,
    /// Ports whose PortInfo reports a dead link.
    down: BTreeSet<u32>,
    /// Ports whose MADs are not answered.
    lost: BTreeSet<u32>,
    /// Sums of data octets and wait ticks by the rates of each port.
    sums: Vec<(f64, f64)>,
}

impl Answered {
    /// Creates devices with these numbers of ports; `true` for CapabilityMask2 bit 1.
    fn new(devices: &[(u8, bool)], cadence: Cadence, first: u64) -> Self {
        let plan: Vec<_> = (1..)
            .zip(devices)
            .map(|(lid, (ports, _))| {
                device(lid, NodeKind::Switch, &(1..=*ports).collect::<Vec<_>>())
            })
            .collect();
        let mut engine = Engine::new(
            &plan,
            Config {
                groups: GROUPS.into(),
                cadence,
                ..Config::default()
            },
            7,
        );
        set_known(&mut engine, 0xffff);
        for (device, (_, wide)) in engine.devices.iter_mut().zip(devices) {
            let mask2 = if *wide {
                Capabilities::ADDITIONAL_EXTENDED
            } else {
                0
            };
            device.groups.learn(
                Capabilities {
                    mask: 0xffff,
                    mask2,
                    option_mask: None,
                },
                &GROUPS,
            );
        }
        let columns = Columns::new(&GROUPS);
        Self {
            readings: (0..engine.ports())
                .map(|_| Reading::new(&columns))
                .collect(),
            sums: vec![(0.0, 0.0); engine.ports()],
            engine,
            columns,
            first,
            next: first,
            now: Instant::ZERO + SECOND,
            mads: BTreeMap::new(),
            last: BTreeMap::new(),
            link_reads: 0,
            down: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Returns the value of all counters of a port in a slot.
    fn value(port: u32, slot: u64) -> u64 {
        slot.min(QUIET) * u64::from(port + 3) * 1000
    }

    /// Runs the next slot.
    fn slot(&mut self) {
        let slot = self.next;
        self.next += 1;
        self.engine.number_next_slot(slot);
        self.engine
            .start_slot(self.now, self.now + 900 * MS, self.now + 950 * MS);
        (self.mads, self.link_reads) = (BTreeMap::new(), 0);
        let mut mad = [0; MAD_LEN];
        loop {
            while let Some((target, tid)) = self.engine.poll_transmit(self.now, &mut mad) {
                self.answer(target, tid, &mut mad, slot);
            }
            match self.engine.poll_timeout() {
                // Only lost MADs are left.
                Some(until) => {
                    self.now = self.now.max(until);
                    self.engine.handle_timeout(self.now);
                }
                None => break,
            }
        }
        while self.engine.poll_event().is_some() {}
        for port in 0..self.readings.len() {
            let sample = self.engine.sample(port);
            let reading = &mut self.readings[port];
            reading.take(&self.columns, slot, &sample);
            let Rates {
                interval,
                xmit_gbps,
                wait_ticks,
                wait_interval,
                ..
            } = reading.rates;
            let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
            self.sums[port].0 += xmit_gbps.unwrap_or(0.0) * 1e9 / 8.0 * seconds(interval);
            self.sums[port].1 += wait_ticks.unwrap_or(0.0) * seconds(wait_interval);
        }
        self.now = Instant::ZERO + SECOND * (2 + (slot - self.first) as u32);
    }

    fn answer(&mut self, target: Target, tid: Tid, mad: &mut Mad, slot: u64) {
        let header = Header::parse(mad);
        let device = u32::from(target.lid.0) - 1;
        let first = self.engine.devices[device as usize].ports.start;
        mad[3] = METHOD_GET_RESP;
        if header.attribute == smp::NODE_INFO {
            valid(mad, &mut target.lid.clone());
        } else if header.class == smp::CLASS_SUBN_LID_ROUTED && header.modifier > 0 {
            self.link_reads += 1;
            let port = first + header.modifier - 1;
            let state = if self.down.contains(&port) {
                PortInfo::DOWN
            } else {
                PortInfo::ACTIVE
            };
            PortInfo {
                state,
                ..PortInfo::default()
            }
            .emit(pma::data_mut(mad));
        } else if header.class != smp::CLASS_SUBN_LID_ROUTED {
            let port = first + u32::from(mad[65]) - 1;
            let place = GROUPS
                .iter()
                .position(|group| group.attribute().id == header.attribute)
                .expect("a group");
            *self.mads.entry((device, place)).or_default() += 1;
            if self.lost.contains(&port) {
                return;
            }
            self.last.insert((port, place), slot);
            for field in ["PortXmitData", "PortXmitWait", "SymbolErrorCounter"] {
                if let Some(field) = GROUPS[place].attribute().field(field) {
                    field.set_raw(pma::data_mut(mad), 0, Self::value(port, slot));
                }
            }
        }
        self.engine.handle_completion(
            &Completion {
                tid,
                outcome: Outcome::Reply {
                    slid: target.lid,
                    len: MAD_LEN,
                },
            },
            mad,
            self.now,
        );
    }

    fn total(&self) -> u32 {
        self.mads.values().sum()
    }

    fn status(&self, port: usize) -> Status {
        self.engine.sample(port).status
    }

    /// Sets the state of a link as if PortInfo had been read.
    fn set_down(&mut self, port: u32) {
        self.down.insert(port);
        self.engine.ports[port as usize].link = Some(PortInfo {
            state: PortInfo::DOWN,
            ..PortInfo::default()
        });
    }
}

/// Returns the cadence that a device must have for a group, or `None` if the group is not queried.
fn expected(place: usize, wide: bool, every: &[u32], wait_every: u32) -> Option<u64> {
    match (GROUPS[place], wide) {
        (Group::Base, true) => None,
        (Group::Base, false) => Some(every[place].min(wait_every).into()),
        _ => Some(every[place].into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_group_of_each_port_is_read_within_its_cadence(
        devices in vec((1_u8..40, any::<bool>()), 1..6),
        every in vec(1_u32..13, 4),
        wait_every in 1_u32..13,
        first in 0_u64..1000,
        missed in btree_set(0_u64..60, 0..12),
    ) {
        let mut sweep = Answered::new(&devices, Cadence::new(every.clone(), wait_every, 1), first);
        for slot in first..first + 60 {
            if slot > first && missed.contains(&(slot - first)) {
                sweep.next += 1;
                continue;
            }
            sweep.slot();
            for (index, (_, wide)) in devices.iter().enumerate() {
                for port in sweep.engine.devices[index].ports.clone() {
                    prop_assert_eq!(sweep.status(port as usize), Status::Ok);
                    for place in 0..GROUPS.len() {
                        let last = sweep.last.get(&(port, place));
                        match expected(place, *wide, &every, wait_every) {
                            None => prop_assert!(last.is_none(), "{place} is superseded"),
                            Some(every) => prop_assert!(last.is_some_and(|last| slot - last < every), "port {port}, group {place}: {last:?}"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn slots_are_balanced_and_cost_what_the_start_record_states(
        devices in vec((1_u8..40, any::<bool>()), 1..6),
        every in vec(1_u32..13, 4),
        wait_every in 1_u32..13,
    ) {
        let mut sweep = Answered::new(&devices, Cadence::new(every.clone(), wait_every, 1), 0);
        let (mut least, mut most) = (BTreeMap::new(), BTreeMap::new());
        let (mut groups_least, mut groups_most) = ([u32::MAX; 4], [0; 4]);
        let mut all = 0.0;
        let average = sweep.engine.mads_per_slot();
        for slot in 0..132 {
            sweep.slot();
            if slot < 12 {
                // The first slot reads everything, and groups are in phase after one cadence.
                continue;
            }
            all += f64::from(sweep.total());
            for (index, place) in (0..devices.len() as u32).flat_map(|index| (0..GROUPS.len()).map(move |place| (index, place))) {
                let mads = sweep.mads.get(&(index, place)).copied().unwrap_or(0);
                let (least, most) = (least.entry((index, place)).or_insert(mads), most.entry((index, place)).or_insert(mads));
                (*least, *most) = (mads.min(*least), mads.max(*most));
                prop_assert!(*most - *least <= 1, "device {index}, group {place}: {least} to {most}");
            }
            for place in 0..GROUPS.len() {
                let mads: u32 = (0..devices.len() as u32).filter_map(|index| sweep.mads.get(&(index, place))).sum();
                (groups_least[place], groups_most[place]) = (groups_least[place].min(mads), groups_most[place].max(mads));
                let allowed = if GROUPS[place] == Group::Base { devices.len() as u32 } else { 1 };
                prop_assert!(groups_most[place] - groups_least[place] <= allowed, "group {place}");
            }
        }
        // 120 slots are no multiple of some cadences: up to 11 slots are in excess.
        let excess = 0.1 * (3 + devices.len()) as f64;
        prop_assert!((all / 120.0 - average).abs() <= excess, "{} a slot, stated {average}", all / 120.0);
    }

    #[test]
    fn increases_add_up_to_those_of_a_sweep_that_reads_every_slot(
        devices in vec((1_u8..6, any::<bool>()), 1..4),
        every in vec(1_u32..13, 4),
        wait_every in 1_u32..13,
    ) {
        let run = |cadence| {
            let mut sweep = Answered::new(&devices, cadence, 0);
            (0..60).for_each(|_| sweep.slot());
            sweep.sums
        };
        let (all, some) = (run(Cadence::EVERY_SLOT), run(Cadence::new(every.clone(), wait_every, 1)));
        for (port, (one, other)) in all.iter().zip(&some).enumerate() {
            let total = Answered::value(port as u32, QUIET) as f64;
            // PortXmitData counts words of four octets.
            for (found, expected) in [(one.0, 4.0 * total), (other.0, 4.0 * total), (one.1, total), (other.1, total)] {
                prop_assert!((found - expected).abs() < 1e-6 * expected, "port {port}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn counter_that_was_not_queried_is_absent_and_holds_until_it_is_due() {
    let mut sweep = Answered::new(&[(1, false)], Cadence::new(vec![1, 4, 4, 4], 4, 1), 100);
    let names = |reading: &Reading, columns: &Columns| -> (bool, bool) {
        let is_wait = |(field, _): (&Field, &[u64])| field.json == "port_xmit_wait_ticks";
        (
            reading.counters(columns).any(is_wait),
            reading.held_counters(columns).any(is_wait),
        )
    };
    let mut rates = Vec::new();
    for slot in 100..116 {
        sweep.slot();
        let reading = &sweep.readings[0];
        // The phase of the second group of port 0.
        let was_queried = slot == 100 || (slot + 1) % 4 == 0;
        assert_eq!(
            names(reading, &sweep.columns),
            (was_queried, true),
            "slot {slot}"
        );
        assert_eq!(
            reading.rates.wait_ticks.is_some(),
            was_queried && slot > 100,
            "slot {slot}"
        );
        assert_eq!(
            reading.held_rates().wait_ticks.is_some(),
            slot >= 103,
            "slot {slot}"
        );
        assert_eq!(reading.rates.xmit_gbps.is_some(), slot > 100);
        rates.extend(reading.rates.wait_interval);
    }
    assert_eq!(rates, [3, 4, 4, 4].map(Duration::from_secs));
}

#[test]
fn lost_reply_is_requested_again_in_the_next_slot_and_the_phase_stays() {
    let mut sweep = Answered::new(&[(1, true), (1, true)], Cadence::new(vec![10; 4], 1, 1), 0);
    sweep.slot();
    let slots = |sweep: &mut Answered, count| -> Vec<u64> {
        let queried = (0..count).filter_map(|_| {
            sweep.slot();
            sweep.mads.contains_key(&(0, 0)).then_some(sweep.next - 1)
        });
        queried.collect()
    };
    assert_eq!(slots(&mut sweep, 9), [0; 0], "it was read in slot 0");
    sweep.lost.insert(0);
    assert_eq!(slots(&mut sweep, 2), [10, 11], "due until it is answered");
    assert_eq!(sweep.status(0), Status::Timeout);
    sweep.lost.clear();
    assert_eq!(slots(&mut sweep, 20), [12, 20, 30]);
    assert!(
        sweep.readings[0].held_rates().xmit_gbps.is_some(),
        "from slot 20 to slot 30"
    );
}

#[test]
fn everything_is_read_again_after_the_clock_was_set_back_or_the_device_changed() {
    let mut sweep = Answered::new(
        &[(4, false)],
        Cadence::new(vec![1, 10, 10, 10], 10, 1),
        1000,
    );
    sweep.slot();
    assert_eq!(sweep.total(), 16);
    sweep.slot();
    assert!(sweep.total() < 8, "{}", sweep.total());
    sweep.next = 500;
    sweep.first = 498;
    sweep.slot();
    assert_eq!(sweep.total(), 16, "the wall clock was set back");
    sweep.engine.devices[0].generation += 1;
    sweep.slot();
    assert_eq!(
        sweep.total(),
        16,
        "earlier replies may be those of another device"
    );
    sweep.next += 10;
    sweep.slot();
    assert_eq!(sweep.total(), 16, "slots were missed");
}

#[test]
fn port_counters_are_queried_every_slot_where_the_congestion_signal_is_only_there() {
    let mut sweep = Answered::new(
        &[(10, false), (10, true), (10, false)],
        Cadence::new(vec![1, 10, 10, 10], 1, 1),
        0,
    );
    sweep.engine.devices[2].groups.capabilities = Learned::Refused;
    (0..2).for_each(|_| sweep.slot());
    let base: Vec<_> = (0..3)
        .map(|device| sweep.mads.get(&(device, 1)).copied().unwrap_or(0))
        .collect();
    assert_eq!(base, [10, 0, 10], "without bit 1, with bit 1, not known");
    assert_eq!(
        sweep.engine.mads_per_slot().round() as u32,
        10 * (2 + 1 + 2) + 3 * 2
    );
}

#[test]
fn port_with_a_dead_link_is_queried_at_its_own_cadence() {
    let mut sweep = Answered::new(&[(6, true)], Cadence::new(vec![1, 5, 5, 5], 1, 20), 0);
    sweep.slot();
    sweep.set_down(3);
    let mut queried = Vec::new();
    for slot in 1..61 {
        sweep.slot();
        let is_queried = sweep.last[&(3, 0)] == slot;
        let sample = sweep.engine.sample(3);
        assert_eq!(
            sample.status,
            if is_queried { Status::Ok } else { Status::Down }
        );
        assert_eq!(
            (sample.mads > 0, sweep.link_reads),
            (is_queried, usize::from(is_queried)),
            "slot {slot}"
        );
        assert!(
            sweep.readings[3].holds_any()
                && sweep.engine.stats().count(Status::Down) == u32::from(!is_queried)
        );
        if is_queried {
            assert!(
                [0, 2, 3].map(|place| sweep.last[&(3, place)]) == [slot; 3],
                "all groups in one slot"
            );
            queried.push(slot);
        }
    }
    assert_eq!(queried, [17, 37, 57]);
    // The link is active again: PortInfo is read at the next turn, and then every slot counts.
    sweep.down.clear();
    let back = (61..).find(|slot| {
        sweep.slot();
        sweep.last[&(3, 0)] == *slot
    });
    assert_eq!(back, Some(77));
    sweep.slot();
    assert_eq!((sweep.status(3), sweep.last[&(3, 0)]), (Status::Ok, 78));
}

#[test]
fn port_without_a_group_that_is_due_is_ok_without_a_mad() {
    let mut sweep = Answered::new(&[(1, true)], Cadence::new(vec![5; 4], 1, 1), 0);
    (0..2).for_each(|_| sweep.slot());
    let sample = sweep.engine.sample(0);
    let mads = (0..4)
        .map(|place| sample.answer(place).is_some())
        .collect::<Vec<_>>();
    assert_eq!(
        (sample.status, sample.mads, sample.rtt_min, mads),
        (Status::Ok, 0, None, vec![false; 4])
    );
}
