//! Compares one slot of a sweep with `perfquery`, run before and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;

use ibnet::cli;
use ibnet::config::Config;
use ibnet::mad::pma::{Group, Needs};
use ibnet::mad::transport::umad::{HcaPort, UmadTransport};
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::group_list::GroupList;
use ibnet::sweep::plan::SweepPlan;
use ibnet::types::{Guid, PortNum};
use ibnet::verify::device::Subject;
use ibnet::verify::report::{ProgramDifference, ProgramReport};

use super::fabric::{Fabric, Verified, describe};
use super::{Steps, programs};
use crate::check::report::Verdict;
use crate::failure::Failure;
use crate::streams::Streams;

/// Counters of one port by their names.
type Counters = BTreeMap<String, u64>;

/// The counter groups of the slot: those that `perfquery` reads.
const SLOT_GROUPS: [Group; 2] = [Group::Extended, Group::Base];

/// The field that libibmad, and so perfquery, reads from other octets.
const WRONG_IN_LIBIBMAD: &str = "QP1Dropped";

/// Sweeps the verified ports once, and compares the counters with those of `perfquery`.
pub(super) fn compare(
    port: &HcaPort,
    pkey_index: u16,
    config: &Config,
    fabric: &Fabric,
    verified: &[Verified],
    steps: &mut Steps,
) -> Result<(), Failure> {
    const PROGRAM: &str = "perfquery";
    let read = || verified.iter().map(|verified| programs::perfquery(port, &verified.subject)).collect::<Result<Vec<_>, _>>();
    let before = match read() {
        Ok(before) => before,
        Err(error) => return programs::skip(PROGRAM, Err::<Output, _>(error), steps),
    };
    let slot = sweep(port, pkey_index, config, fabric, verified)?;
    let after = match read() {
        Ok(after) => after,
        Err(error) => return programs::skip(PROGRAM, Err::<Output, _>(error), steps),
    };
    let (mut compared, mut missing, mut differences) = (0, 0, Vec::new());
    for ((verified, before), after) in verified.iter().zip(&before).zip(&after) {
        let none = Counters::new();
        let ours = slot.get(&(verified.subject.guid, verified.subject.port)).unwrap_or(&none);
        missing += expected(before).filter(|name| !ours.contains_key(*name)).count();
        for (name, value) in ours.iter().filter(|(name, _)| *name != WRONG_IN_LIBIBMAD) {
            let (Some(before), Some(after)) = (before.get(name), after.get(name)) else { continue };
            compared += 1;
            if !(before..=after).contains(&value) {
                let device = describe(&verified.device, verified.subject.port);
                let found = format!("{device}: {name}: the slot has {value}, not between {before} and {after} of perfquery");
                steps.line(Verdict::Differ, PROGRAM, &found)?;
                let Subject { lid, port, .. } = verified.subject;
                let (ibnet, program) = (value.to_string(), format!("{before} to {after}"));
                differences.push(ProgramDifference { lid, port, what: name.clone(), ibnet, program });
            }
        }
    }
    let different = differences.len();
    let mut text = format!("{compared} counters of one slot with {} ports, {different} differ", slot.len());
    if missing > 0 {
        // A MAD of the slot without a reply. The sweep marks such a record.
        text.push_str(&format!("; the slot does not have {missing} more counters of perfquery"));
    }
    steps.program(ProgramReport { program: PROGRAM, version: programs::version(PROGRAM), compared, different, differences }, &text)
}

/// Returns the names of the counters that `perfquery` printed and that a slot must have.
/// `perfquery` also prints counters that a device lacks, so those that need a capability are left
/// out.
fn expected(printed: &Counters) -> impl Iterator<Item = &'static str> {
    let fields = SLOT_GROUPS.into_iter().flat_map(|group| group.attribute().counters());
    // Both groups have counters of the same names.
    let names: BTreeSet<&str> = fields.filter(|field| field.needs == Needs::Nothing).map(|field| field.name).collect();
    names.into_iter().filter(|name| *name != WRONG_IN_LIBIBMAD && printed.contains_key(*name))
}

/// Sweeps the ports once with the engine of a sweep. Returns the counters as in the MADs.
fn sweep(
    port: &HcaPort,
    pkey_index: u16,
    config: &Config,
    fabric: &Fabric,
    verified: &[Verified],
) -> Result<BTreeMap<(Guid, PortNum), Counters>, Failure> {
    let block = fabric.block(verified);
    let mut engine = config.engine.clone();
    engine.groups = GroupList::from(SLOT_GROUPS);
    engine.cadence = Cadence::EVERY_SLOT;
    (engine.pkey_index, engine.pkey_table) = (pkey_index, port.pkeys.clone());
    let settings = DriverSettings {
        sampler: block.host.clone(),
        ca: port.ca.clone(),
        ca_port: port.port,
        is_secondary: false,
        interval: config.interval,
        offset: std::time::Duration::ZERO,
        aligned: false,
        sweeps: Some(1),
        assignments_sha256: None,
        engine,
    };
    let outlet = Streams::none()?.outlet(&block.host)?;
    let transport = UmadTransport::open(port)?;
    let driver = Driver::new(SweepPlan::new(&block), settings, transport, SystemClock::start(), outlet, cli::random_seed());
    let mut slot = BTreeMap::new();
    let run = driver.run(&Control::default(), |report| {
        for port in report.ports() {
            let counters = port.reading.counters(report.columns);
            let counters: Counters =
                counters.filter_map(|(field, raws)| Some((field.name.to_owned(), *raws.first().filter(|_| field.len == 1)?))).collect();
            slot.insert((port.identity.guid, port.identity.port), counters);
        }
    });
    run.map_err(Failure::TransportLost)?;
    Ok(slot)
}
