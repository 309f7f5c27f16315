//! Reports whether counters are cleared, and whether the interval is short enough for that.

use std::time::Duration;

use ibnet::config::Config;
use ibnet::mad::pma::Clearable;
use ibnet::sweep::cadence::Circumstances;
use ibnet::sweep::clearing::{Clearing, exact_share};
use ibnet_record::types::LinkRate;

use super::super::failure::Failure;
use super::super::workers::Share;
use super::report::{Report, Verdict};

/// Writes the line about clearing.
pub(super) fn report(
    report: &mut Report,
    config: &Config,
    shares: &[Share],
) -> Result<(), Failure> {
    let Some(clearing) = &config.engine.clearing else {
        return report.line(
            Verdict::Ok,
            "clear",
            "off: devices get only Get requests",
            None,
        );
    };
    let names = clearing.of.iter().map(|of| of.attribute().name);
    let names = names.collect::<Vec<_>>().join(", ");
    let on =
        format!("on: {names} are cleared by Set on the ports of this sampler; not tested here");
    let fastest = shares
        .iter()
        .filter(|share| !share.block.is_secondary())
        .flat_map(|share| &share.block.devices)
        .flat_map(|device| &device.ports)
        .map(|port| LinkRate::new(&port.width, &port.speed))
        .filter_map(|rate| Some((rate.data_gbps()?, rate)))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let every = longest_time(config, clearing);
    let exact = |gbps: f64| exact_share(Clearable::XmtSl.counters(), gbps, every);
    match fastest.map(|(gbps, rate)| (exact(gbps), rate)) {
        Some((share, rate)) if share < 1.0 => {
            let found = format!(
                "{on}; the totals of {rate} ports are exact up to {} % of their rate",
                (share * 100.0).floor()
            );
            let remedy = "shorten the interval or the cadence of these groups; docs/records.md has a table for each link speed";
            report.warn("clear", &found, remedy)
        }
        _ => report.line(Verdict::Ok, "clear", &on, None),
    }
}

/// Returns the longest time between two readings of a counter that is cleared.
fn longest_time(config: &Config, clearing: &Clearing) -> Duration {
    let groups = config.engine.groups.iter().enumerate();
    let cleared = groups
        .filter(|(_, group)| Clearable::of(**group).is_some_and(|of| clearing.of.contains(&of)));
    let of = Circumstances::default();
    let slots = cleared.map(|(place, group)| config.engine.cadence.of(place, *group, of).every);
    clearing.interval * slots.max().unwrap_or(1)
}
