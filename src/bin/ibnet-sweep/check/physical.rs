//! Reports how many queries for the physical layer a sweep sends.

use ibnet::config::Config;
use ibnet::cost::{DeviceLoad, Sampling};
use ibnet_record::types::NodeKind;

use super::super::failure::Failure;
use super::super::workers::Share;
use super::report::{Report, Verdict};

/// Writes the line about the physical layer.
pub(super) fn report(
    report: &mut Report,
    config: &Config,
    shares: &[Share],
) -> Result<(), Failure> {
    let what = "physical";
    let Some(physical) = &config.engine.physical else {
        let off = "off: devices get no queries of class 0x0A";
        return report.line(Verdict::Ok, what, off, None);
    };
    let engine = &config.engine;
    let sampling = Sampling {
        interval: config.interval,
        groups: &engine.groups,
        cadence: &engine.cadence,
        window: engine.window,
        timeout: engine.timeout,
    };
    for Share { block, .. } in shares {
        let loads = block.devices.iter().map(|device| DeviceLoad {
            kind: device.kind,
            ports: device.ports.len() as u32,
            service: None,
        });
        let needed = |load: DeviceLoad| {
            physical.requests_per_second(load.ports, load.kind == NodeKind::Switch)
        };
        let all: f64 = loads.clone().map(needed).sum();
        let most = loads.clone().map(needed).fold(0.0, f64::max);
        let cost = sampling.cost(loads);
        let budget = physical.budget(cost.least_mads_per_second);
        let found = format!(
            "on: {:.1} Gets of class 0x0A a second, at most {:.1} of them to one device, after the \
             counters; the budget is {budget:.1} a second, except for 10 s after links went down; not \
             seen on hardware; here, only the number of planes is asked",
            all.min(budget),
            most.min(budget)
        );
        if all > budget {
            let remedy = format!(
                "readings take {:.1} times as long as configured: raise budget or the times in [physical]",
                all / budget
            );
            report.warn(what, &found, &remedy)?;
        } else {
            report.line(Verdict::Ok, what, &found, None)?;
        }
    }
    Ok(())
}
