//! Seconds instead of ports.

use super::*;

fn lines(services: impl Iterator<Item = (Guid, u64)>) -> Weights {
    let line = |(guid, mean)| {
        format!("{{\"type\":\"histogram\",\"kind\":\"service\",\"guid\":\"{guid}\",\"lid\":1,\"mean_ns\":{mean},\"count\":10}}\n")
    };
    let mut weights = Weights::default();
    weights.add(services.map(line).collect::<String>().as_bytes(), "lines").unwrap();
    weights
}

#[test]
fn slow_switches_are_spread_by_their_time_and_the_cap_stays_in_ports() {
    let fabric = read(&FatTree { leaves: 4, hosts: 4, spines: 8, trunk: 1, radix: 12 }.blueprint());
    let of = |name: &str| fabric.devices().iter().find(|device| device.name == name).unwrap().guid;
    // Two of eight spines take ten times as long as all other devices.
    let slow = [of("spine01"), of("spine05")];
    let weights = lines(fabric.devices().iter().map(|device| (device.guid, if slow.contains(&device.guid) { 500_000 } else { 50_000 })));
    let names = "node[00001,00005,00009,00013]";
    let by_time = planned_with(&fabric, names, 40, &Options { weights: Some(&weights), ..Options::default() }).unwrap();
    let by_ports = planned(&fabric, names, 40).unwrap();
    assert_eq!(by_time.unit, Unit::Nanoseconds);
    assert_eq!(by_time.measured, Some(Measured { devices: 28, bad: Vec::new() }));
    assert!(by_time.shares.iter().all(|share| share.ports <= 40));
    // The loads are the times of the ports, one after another; by ports alone both slow ones are with one sampler.
    let of_device = |device: &Device| device.linked_ports() as u64 * weights.mean_ns(device.guid).unwrap();
    let time = |share: &Share| share.devices.iter().map(|held| of_device(fabric.device(held.id))).sum::<u64>();
    let greatest = |plan: &Plan| plan.shares.iter().map(time).max().unwrap();
    assert!(by_time.shares.iter().all(|share| time(share) == share.load));
    assert_eq!((greatest(&by_time), greatest(&by_ports)), (by_time.figures.greatest, 4_800_000));
    // A leaf of 12 ports and its 4 adapters are 800 us, a slow spine 2 ms, of the six others 200 us each: two of them with those that have no slow one.
    assert_eq!(by_time.figures.greatest, 2_800_000);
    assert_ne!(sampler_of(&by_time, &fabric, "spine01"), sampler_of(&by_time, &fabric, "spine05"));
}

#[test]
fn the_same_time_for_all_gives_the_same_plan_as_ports() {
    let fabric = read(&synthetic::stria());
    let weights = lines(fabric.devices().iter().map(|device| (device.guid, 1000)));
    let devices = |plan: Plan| plan.shares.into_iter().map(|share| share.devices).collect::<Vec<_>>();
    let by_time = planned_with(&fabric, EIGHT, 150, &Options { weights: Some(&weights), ..Options::default() }).unwrap();
    assert_eq!(devices(by_time), devices(planned(&fabric, EIGHT, 150).unwrap()));
}
