//! Reports how many SMPs the forwarding tables of switches need.

use ibnet::config::Config;
use ibnet::sweep::engine::{ROUTES_EARLY, ROUTES_RATE};
use ibnet_record::types::NodeKind;

use super::super::failure::Failure;
use super::super::workers::Share;
use super::report::{Report, Verdict};

/// Writes the line about forwarding tables.
pub(super) fn report(
    report: &mut Report,
    config: &Config,
    shares: &[Share],
) -> Result<(), Failure> {
    let what = "routes";
    if !config.engine.forwarding {
        let off = "off: forwarding tables are not read";
        return report.line(Verdict::Ok, what, off, None);
    }
    let devices = shares.iter().flat_map(|share| &share.block.devices);
    let switches = devices.filter(|device| device.kind == NodeKind::Switch);
    let found = format!(
        "on: tables of {} switches; {ROUTES_RATE} SMPs a second for each of them, after the counters, \
         and {} for a minute after a change",
        switches.count(),
        ROUTES_RATE * ROUTES_EARLY
    );
    report.line(Verdict::Ok, what, &found, None)
}
