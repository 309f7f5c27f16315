//! Tests of devices at other LIDs than expected, and of replies that arrive too late.

use super::*;

/// Returns a sweep of some devices of the tree.
fn sweep_of(names: &[&str], config: Config, change: impl FnOnce(&mut SimFabric)) -> Sweep {
    let fabric = fabric_of(&TREE);
    let mut sim = SimFabric::new(fabric_of(&TREE), Options::default());
    change(&mut sim);
    let sim = Arc::new(Mutex::new(sim));
    let is_named = |device: &DevicePlan| {
        fabric
            .iter()
            .any(|(_, of)| of.guid == device.guid && names.contains(&of.host()))
    };
    let plan: Vec<_> = all_linked_ports(&fabric)
        .into_iter()
        .filter(is_named)
        .collect();
    let mut virtual_sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, 7);
    let events = virtual_sweep.discover();
    Sweep {
        virtual_sweep,
        sim,
        fabric,
        events,
    }
}

fn id_of(sim: &SimFabric, name: &str) -> DeviceId {
    sim.fabric()
        .iter()
        .find(|(_, device)| device.host() == name)
        .expect("in the fabric")
        .0
}

#[test]
fn path_is_queried_even_if_every_device_is_wrong() {
    let mut sweep = sweep_of(&["node00002", "node00007"], Config::default(), |_| {});
    sweep.slot();
    let two = HostPair::new(&sweep);
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    (0..2).for_each(|port| sweep.virtual_sweep.engine.verify(port));
    for _ in 0..3 {
        sweep.slot();
    }
    for device in 0..2 {
        assert_eq!(sweep.virtual_sweep.engine.sample(device).status, Status::Ok);
    }
}

#[test]
fn node_info_that_fails_is_sent_three_times_a_minute() {
    let mut sweep = sweep_of(&["node00004"], Config::default(), |sim| {
        sim.demand_m_key(id_of(sim, "node00004"));
    });
    let mut more = 0;
    // At first, each way is tried.
    for slot in 0..230 {
        sweep.slot();
        let engine = &sweep.virtual_sweep.engine;
        assert_eq!(engine.sample(0).status, Status::Ok);
        if slot >= 30 {
            more += engine.stats().mads_sent - u64::from(engine.sample(0).mads);
        }
    }
    assert!(more <= 3 * 4, "{more} MADs beside the counters");
}

#[test]
fn disabled_group_is_probed_once_in_ten_minutes() {
    let config = Config {
        groups: [Group::Extended, Group::RcvErr].into(),
        ..Config::default()
    };
    let mut sweep = sweep_of(&["node00002"], config, |sim| {
        let id = id_of(sim, "node00002");
        sim.drop_attribute(id, 0x10);
        sim.drop_attribute(id, 0x15);
    });
    let mut more = 0;
    for _ in 0..900 {
        sweep.slot();
        more += sweep.virtual_sweep.engine.stats().mads_sent - 1;
    }
    // NodeInfo, PortInfo and PortSamplesControl once a minute, and one probe.
    assert!(more <= 3 * 16 + 1, "{more}");
}

/// Writes the path record of a device at LID 3.
fn at_lid_3(mad: &mut Mad, _: &mut Lid) {
    PathRecord {
        dlid: Lid(3),
        sl: 0,
    }
    .emit(mad);
}

#[test]
fn device_found_while_it_waits_for_the_window_gets_one_mad_at_a_time() {
    let mut bench = with_manager(|config| config.window = 1);
    bench.engine.config.path_sl = true;
    bench
        .engine
        .devices
        .iter_mut()
        .for_each(|device| device.identity.verify());
    bench
        .engine
        .start_discovery(bench.now, bench.now + 30 * SECOND);
    bench.poll();
    // The subnet manager is queried for both devices; the switch holds the window.
    let first = bench
        .sent
        .iter()
        .position(|(target, _)| target.lid == Lid(5))
        .expect("the request was sent");
    bench.reply(first, |mad, _| {
        PathRecord {
            dlid: Lid(1),
            sl: 0,
        }
        .emit(mad);
    });
    let second = bench
        .sent
        .iter()
        .rposition(|(target, _)| target.lid == Lid(5))
        .expect("the request was sent");
    assert_ne!(first, second);
    bench.reply(second, at_lid_3);
    bench.engine.window = Window::new(8);
    bench.poll();
    let to_it = bench
        .sent
        .iter()
        .filter(|(target, _)| target.lid == Lid(3))
        .count();
    assert_eq!(
        (
            to_it,
            bench
                .engine
                .inflight
                .waiting()
                .filter(|of| of.device == 1)
                .count()
        ),
        (1, 1)
    );
}

#[test]
fn discovery_goes_on_with_a_device_found_after_it_was_given_up() {
    let mut bench = with_manager(|_| {});
    bench.engine.config.path_sl = true;
    bench.engine.devices[1].groups.discard_learned();
    bench.engine.devices[1].identity.verify();
    bench
        .engine
        .start_discovery(bench.now, bench.now + 30 * SECOND);
    bench.poll();
    let first = bench.last(5, 0x35);
    (0..40).for_each(|_| bench.pass(5 * MS));
    bench.reply(first, |mad, _| {
        PathRecord {
            dlid: Lid(1),
            sl: 0,
        }
        .emit(mad);
    });
    let second = bench.last(5, 0x35);
    assert_ne!(first, second);
    bench.reply(second, at_lid_3);
    let requested = bench.last(3, smp::NODE_INFO);
    bench.reply(requested, |mad, _| {
        smp::NodeInfo {
            port_guid: Guid(2),
            ..smp::NodeInfo::default()
        }
        .emit(pma_data(mad));
    });
    for _ in 0..100 {
        bench.pass(5 * MS);
    }
    assert_eq!(bench.events.last(), Some(&Event::DiscoveryDone));
}

#[test]
fn late_capabilities_of_the_old_lid_are_ignored() {
    let mut bench = with_manager(|_| {});
    bench.engine.devices[1].groups.discard_learned();
    bench.engine.devices[1].identity.verify();
    bench.start();
    bench.pass(6 * MS);
    let (class_port_info, node_info) = (bench.last(2, 1), bench.last(2, smp::NODE_INFO));
    bench.reply(node_info, other_device);
    let path = bench.last(5, 0x35);
    bench.reply(path, at_lid_3);
    // ClassPortInfo was requested at the LID of the other device.
    bench.reply(class_port_info, |mad, _| {
        Capabilities {
            mask: 0x1234,
            mask2: 0,
            option_mask: None,
        }
        .emit(pma_data(mad));
    });
    assert_eq!(
        bench.engine.devices[1].groups.capabilities,
        groups::Learned::Unknown
    );
    let there = bench.last(3, smp::NODE_INFO);
    bench.reply(there, |mad, _| {
        smp::NodeInfo {
            port_guid: Guid(2),
            ..smp::NodeInfo::default()
        }
        .emit(pma_data(mad));
    });
    assert!(bench.events.contains(&Event::LidChange {
        device: 1,
        from: Lid(2),
        to: Lid(3)
    }));
}

#[test]
fn late_node_info_of_the_old_lid_is_ignored() {
    let mut bench = with_manager(|_| {});
    bench.engine.devices[1].identity.verify();
    bench.engine.devices[1].reachability.set_silent();
    bench.start();
    bench.pass(6 * MS);
    let (node_info, path) = (bench.last(2, smp::NODE_INFO), bench.last(5, 0x35));
    bench.reply(path, at_lid_3);
    bench.reply(node_info, other_device);
    assert!(
        !bench
            .events
            .iter()
            .any(|event| matches!(event, Event::WrongDevice { .. }))
    );
    bench.pass(6 * MS);
    let there = bench.last(3, smp::NODE_INFO);
    bench.reply(there, |mad, _| {
        smp::NodeInfo {
            port_guid: Guid(2),
            ..smp::NodeInfo::default()
        }
        .emit(pma_data(mad));
    });
    assert!(bench.events.contains(&Event::LidChange {
        device: 1,
        from: Lid(2),
        to: Lid(3)
    }));
}

#[test]
fn links_of_a_switch_are_reported_once_the_mask_of_port_0_is_known() {
    let mut bench = with_manager(|config| config.identity_every = SECOND);
    let name = |mad: &mut Mad, lid: &mut Lid| {
        valid(mad, lid);
        let header = crate::mad::header::Header::parse(mad);
        if (header.class, header.attribute) == (smp::CLASS_SUBN_LID_ROUTED, smp::PORT_INFO) {
            let mask = if header.modifier == 0 {
                smp::IS_EXTENDED_SPEEDS_SUPPORTED
            } else {
                0
            };
            PortInfo {
                capability_mask: mask,
                ..PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE)
            }
            .emit(pma_data(mad));
        }
    };
    for lost in [true, false] {
        let mut n = bench.sent.len();
        (0..2).for_each(|device| bench.engine.devices[device].identity.verify());
        bench.start();
        while n < bench.sent.len() {
            let mad = &bench.sent[n].1;
            if lost && mad[1] == 1 && mad[17] == 0x15 && mad[23] == 0 {
                bench.pass(6 * MS);
            } else {
                bench.reply(n, name);
            }
            n += 1;
        }
        bench.pass(60 * MS);
        assert_eq!(bench.events.last(), Some(&Event::SlotDone));
        let rate = bench
            .engine
            .link(0)
            .map(|(info, mask)| info.rate(mask).to_string());
        assert!(rate.as_deref() != Some("4xQDR"), "the mask is not known");
        assert_eq!(bench.events.contains(&Event::Link(0)), !lost);
        bench.now += SECOND;
    }
    assert_eq!(
        bench
            .engine
            .link(0)
            .map(|(info, mask)| info.rate(mask).to_string())
            .as_deref(),
        Some("4xEDR")
    );
}

#[test]
fn without_an_smp_agent_the_lid_of_the_path_record_is_used_unverified() {
    let mut bench = with_manager(|_| {});
    bench.engine.no_smp_agent = true;
    bench.engine.devices[1].reachability.set_silent();
    bench.start();
    let path = bench.last(5, 0x35);
    bench.reply(path, at_lid_3);
    bench.engine.close(bench.now);
    bench.now += SECOND;
    bench.start();
    let there = bench.last(3, 0x12);
    bench.events.clear();
    bench.reply(there, valid);
    assert_eq!(bench.status(2), Some(Status::Ok));
}

#[test]
fn device_that_was_silent_is_unverified_until_node_info_is_answered() {
    let mut bench = with_manager(|_| {});
    bench.engine.devices[1].identity.identity = Identity::Verified(smp::NodeInfo::default());
    bench.engine.devices[1].reachability.set_silent();
    bench.start();
    bench.pass(6 * MS);
    let counters = bench.last(2, 0x12);
    bench.reply(counters, valid);
    assert_eq!(
        (bench.status(2), bench.engine.sample(2).verified),
        (Some(Status::Ok), false)
    );
}

#[test]
fn path_is_queried_for_a_device_that_ignores_node_info() {
    let mut sweep = sweep_of(&["node00002", "node00004"], Config::default(), |sim| {
        sim.demand_m_key(id_of(sim, "node00007"));
    });
    sweep.slot();
    let two = sweep.find("node00002").0;
    let lid = sweep.fabric.device(two).lid;
    // The device at its LID now requires a key.
    sweep.change(|sim| sim.swap_lids(two, id_of(sim, "node00007")));
    assert!((0..70).any(|_| {
        sweep
            .slot()
            .iter()
            .any(|event| matches!(event, Event::LidChange { from, .. } if *from == lid))
    }));
    sweep.slot();
    assert!(sweep.virtual_sweep.engine.sample(0).verified);
}

#[test]
fn device_with_an_m_key_is_accepted_again_after_the_wrong_device_has_left() {
    let mut sweep = sweep_of(&["node00004"], Config::default(), |sim| {
        sim.demand_m_key(id_of(sim, "node00004"));
    });
    let (id, other) = (
        sweep.find("node00004").0,
        id_of(&sweep.sim.lock().expect("no thread panicked"), "node00007"),
    );
    sweep.change(|sim| sim.move_lid(other, Lid(4000)));
    sweep.change(|sim| sim.swap_lids(id, other));
    sweep.change(|sim| {
        sim.set_dead(
            sim.manager().expect("the fabric has a subnet manager"),
            true,
        );
    });
    assert!((0..70).any(|_| {
        sweep
            .slot()
            .iter()
            .any(|event| matches!(event, Event::WrongDevice { .. }))
    }));
    sweep.change(|sim| sim.swap_lids(id, other));
    sweep.change(|sim| {
        sim.set_dead(
            sim.manager().expect("the fabric has a subnet manager"),
            false,
        );
    });
    (0..70).for_each(|_| {
        sweep.slot();
    });
    let sample = sweep.virtual_sweep.engine.sample(0);
    assert_eq!((sample.status, sample.verified), (Status::Ok, false));
}
