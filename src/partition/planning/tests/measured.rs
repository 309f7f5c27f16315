//! Tests of plans that balance measured time.

use super::*;

fn lines(services: impl Iterator<Item = (Guid, u64)>) -> Weights {
    let line = |(guid, mean)| {
        format!(
            "{{\"type\":\"histogram\",\"ts\":1,\"sampler\":\"a\",\"kind\":\"service\",\"guid\":\"{guid}\",\"lid\":1,\"mean_ns\":{mean},\"count\":10,\"v2\":\"\"}}\n"
        )
    };
    let mut weights = Weights::default();
    weights
        .add(services.map(line).collect::<String>().as_bytes(), "lines")
        .unwrap();
    weights
}

#[test]
fn slow_switches_are_spread_and_the_cap_counts_ports() {
    let fabric = read(
        &FatTree {
            leaves: 4,
            hosts: 4,
            spines: 8,
            trunk: 1,
            radix: 12,
        }
        .blueprint(),
    );
    let of = |name: &str| {
        fabric
            .devices()
            .iter()
            .find(|device| device.name == name)
            .unwrap()
            .guid
    };
    // Two of eight spines are ten times as slow as all other devices.
    let slow = [of("spine01"), of("spine05")];
    let weights = lines(fabric.devices().iter().map(|device| {
        (
            device.guid,
            if slow.contains(&device.guid) {
                500_000
            } else {
                50_000
            },
        )
    }));
    let names = "node[00001,00005,00009,00013]";
    let by_time = planned_with(
        &fabric,
        names,
        40,
        &PlanOptions {
            weights: Some(&weights),
            ..PlanOptions::default()
        },
    )
    .unwrap();
    let by_ports = planned(&fabric, names, 40).unwrap();
    assert_eq!(by_time.unit, LoadUnit::Nanoseconds);
    assert_eq!(
        by_time.measured,
        Some(Measured {
            devices: 28,
            bad: Vec::new()
        })
    );
    assert!(by_time.shares.iter().all(|share| share.ports <= 40));
    // A load is the sum of the times of its ports. The plan by ports gives both slow spines to one
    // sampler.
    let of_device =
        |device: &Device| device.linked_ports() as u64 * weights.mean_ns(device.guid).unwrap();
    let time = |share: &Share| {
        share
            .devices
            .iter()
            .map(|planned| of_device(fabric.device(planned.id)))
            .sum::<u64>()
    };
    let greatest = |plan: &Plan| plan.shares.iter().map(time).max().unwrap();
    assert!(by_time.shares.iter().all(|share| time(share) == share.load));
    assert_eq!(
        (greatest(&by_time), greatest(&by_ports)),
        (by_time.figures.greatest, 4_800_000)
    );
    // A leaf of 12 ports with its 4 HCA ports takes 800 us, a slow spine 2 ms, another spine 200
    // us.
    assert_eq!(by_time.figures.greatest, 2_800_000);
    assert_ne!(
        sampler_of(&by_time, &fabric, "spine01"),
        sampler_of(&by_time, &fabric, "spine05")
    );
}

#[test]
fn equal_times_give_the_plan_by_ports() {
    let fabric = read(&synthetic::stria());
    let weights = lines(fabric.devices().iter().map(|device| (device.guid, 1000)));
    let devices = |plan: Plan| {
        plan.shares
            .into_iter()
            .map(|share| share.devices)
            .collect::<Vec<_>>()
    };
    let by_time = planned_with(
        &fabric,
        EIGHT,
        150,
        &PlanOptions {
            weights: Some(&weights),
            ..PlanOptions::default()
        },
    )
    .unwrap();
    assert_eq!(
        devices(by_time),
        devices(planned(&fabric, EIGHT, 150).unwrap())
    );
}
