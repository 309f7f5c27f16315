//! Compares the counters of a sweep with those that `perfquery` prints before and after it. One
//! slot is sufficient if all MADs have a reply.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::sync::Arc;

use ibnet::cli;
use ibnet::config::Config;
use ibnet::mad::transport::umad::{HcaPort, UmadTransport};
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::group_list::GroupList;
use ibnet::sweep::plan::SweepPlan;
use ibnet::verify::device::Subject;
use ibnet::verify::report::{ProgramDifference, ProgramReport};
use ibnet_record::attributes::{Group, Needs};
use ibnet_record::types::{Guid, PortNum};

use super::fabric::{Fabric, Verified, describe};
use super::{Steps, programs};
use crate::check::report::Verdict;
use crate::failure::Failure;
use crate::streams::Streams;

/// Counters of one port, by name.
type Counters = BTreeMap<String, u64>;

/// The counter groups of the slot, which are those that `perfquery` reads.
const SLOT_GROUPS: [Group; 2] = [Group::Extended, Group::Base];

/// Max number of slots. Another slot follows if a MAD had no reply, because a busy HCA, or a
/// simulator on a busy host, can lose single MADs.
const MAX_SLOTS: u32 = 3;

/// The field that libibmad, and therefore perfquery, reads at a wrong position in the MAD.
const WRONG_IN_LIBIBMAD: &str = "QP1Dropped";

/// The counters of the verified ports as in the MADs. After several slots, these are the newest
/// values.
type Ports = BTreeMap<(Guid, PortNum), Counters>;

/// Sweeps the verified ports, and compares their counters with those of `perfquery`.
pub(super) fn compare(
    port: &HcaPort,
    pkey_index: u16,
    config: &Config,
    fabric: &Fabric,
    verified: &[Verified],
    steps: &mut Steps,
) -> Result<(), Failure> {
    const PROGRAM: &str = "perfquery";
    let read = || {
        verified
            .iter()
            .map(|verified| programs::perfquery(port, &verified.subject))
            .collect::<Result<Vec<_>, _>>()
    };
    let before = match read() {
        Ok(before) => before,
        Err(error) => return programs::skip(PROGRAM, Err::<Output, _>(error), steps),
    };
    let missing = |ports: &Ports| {
        let of_port = |(verified, before): (&Verified, &Counters)| {
            let ours = ports.get(&(verified.subject.guid, verified.subject.port));
            expected(before)
                .filter(|name| ours.is_none_or(|ours| !ours.contains_key(*name)))
                .count()
        };
        verified.iter().zip(&before).map(of_port).sum::<usize>()
    };
    let (mut slots, mut ports) = (0, Ports::new());
    while slots < MAX_SLOTS && (slots == 0 || missing(&ports) > 0) {
        sweep(port, pkey_index, config, fabric, verified, &mut ports)?;
        slots += 1;
    }
    let after = match read() {
        Ok(after) => after,
        Err(error) => return programs::skip(PROGRAM, Err::<Output, _>(error), steps),
    };
    let (mut compared, mut differences) = (0, Vec::new());
    for ((verified, before), after) in verified.iter().zip(&before).zip(&after) {
        let Some(ours) = ports.get(&(verified.subject.guid, verified.subject.port)) else {
            continue;
        };
        for (name, value) in ours.iter().filter(|(name, _)| *name != WRONG_IN_LIBIBMAD) {
            let (Some(before), Some(after)) = (before.get(name), after.get(name)) else {
                continue;
            };
            compared += 1;
            if !(before..=after).contains(&value) {
                let device = describe(&verified.device, verified.subject.port);
                let found = format!(
                    "{device}: {name}: the slot has {value}, not between {before} and {after} of perfquery"
                );
                steps.line(Verdict::Differ, PROGRAM, &found)?;
                let Subject { lid, port, .. } = verified.subject;
                let (ibnet, program) = (value.to_string(), format!("{before} to {after}"));
                differences.push(ProgramDifference {
                    lid,
                    port,
                    what: name.clone(),
                    ibnet,
                    program,
                });
            }
        }
    }
    let different = differences.len();
    let slots = if slots == 1 {
        "one slot".to_owned()
    } else {
        format!("{slots} slots")
    };
    let mut text = format!(
        "{compared} counters of {slots} with {} ports, {different} differ",
        ports.len()
    );
    if missing(&ports) > 0 {
        // These are MADs without a reply, which the sweep marks in its records.
        text.push_str(&format!(
            "; {} more counters of perfquery had no reply",
            missing(&ports)
        ));
    }
    steps.program(
        ProgramReport {
            program: PROGRAM,
            version: programs::version(PROGRAM),
            compared,
            different,
            differences,
        },
        &text,
    )
}

/// Returns the names of the counters that `perfquery` printed and that a slot must contain.
/// Counters that need a capability are left out, because `perfquery` also prints those that a
/// device lacks.
fn expected(printed: &Counters) -> impl Iterator<Item = &'static str> {
    let fields = SLOT_GROUPS
        .into_iter()
        .flat_map(|group| group.attribute().counters());
    // Both groups have counters with the same names.
    let names: BTreeSet<&str> = fields
        .filter(|field| field.needs == Needs::Nothing)
        .map(|field| field.name)
        .collect();
    names
        .into_iter()
        .filter(|name| *name != WRONG_IN_LIBIBMAD && printed.contains_key(*name))
}

/// Sweeps the ports once with the engine of a sweep, and stores the counters in `ports`.
fn sweep(
    port: &HcaPort,
    pkey_index: u16,
    config: &Config,
    fabric: &Fabric,
    verified: &[Verified],
    ports: &mut Ports,
) -> Result<(), Failure> {
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
    let driver = Driver::new(
        SweepPlan::with_cables(&block, Arc::clone(&fabric.cables)),
        settings,
        transport,
        SystemClock::start(),
        outlet,
        cli::random_seed(),
    );
    let run = driver.run(&Control::default(), |report| {
        for port in report.ports() {
            let counters = port.reading.counters(report.columns);
            let counters = counters.filter_map(|(field, raws)| {
                Some((
                    field.name.to_owned(),
                    *raws.first().filter(|_| field.len == 1)?,
                ))
            });
            ports
                .entry((port.identity.guid, port.identity.port))
                .or_default()
                .extend(counters);
        }
    });
    run.map_err(Failure::TransportLost)
}
