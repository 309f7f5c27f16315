//! Limits the number of different names in an input. Memory grows with the number of ports,
//! devices and samplers, so an input that names more of them than any fabric has is not evaluated
//! completely.

use std::hash::Hash;

use rustc_hash::FxHashSet;

use super::key::Key;
use super::limits;
use crate::record::Record;

/// The names in the records of a shard so far.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    keys: FxHashSet<Key>,
    devices: FxHashSet<u64>,
    devices_of_histograms: FxHashSet<u64>,
    samplers: FxHashSet<Box<str>>,
    /// Device kinds of histograms.
    kinds: FxHashSet<Box<str>>,
    /// Name of the last sampler, which most records repeat.
    last: Box<str>,
}

impl Bounds {
    /// Adds the names of a record. If a new name exceeds a limit, returns a description of this
    /// limit.
    pub(super) fn check(&mut self, key: Key, record: &Record<'_>) -> Result<(), String> {
        if !self.keys.contains(&key) {
            add(
                &mut self.devices,
                key.device(),
                limits::DEVICES,
                "devices in a part of the fabric",
            )?;
            add(
                &mut self.keys,
                key,
                limits::PORTS,
                "ports in a part of the fabric",
            )?;
        }
        let sampler = match record {
            Record::Start(start) => &start.sampler,
            Record::Port(port) => &port.sampler,
            Record::Sweep(sweep) => &sweep.sampler,
            Record::Histogram(histogram) => &histogram.sampler,
            Record::Event(event) => &event.sampler,
            Record::Physical(record) => &record.head.sampler,
            Record::Routes(record) => &record.sampler,
        };
        if **sampler != *self.last {
            add_name(
                &mut self.samplers,
                sampler,
                limits::SAMPLERS,
                "names of samplers",
            )?;
            self.last = (**sampler).into();
        }
        let Record::Histogram(histogram) = record else {
            return Ok(());
        };
        if let Some(guid) = histogram.guid {
            add(
                &mut self.devices_of_histograms,
                guid.0,
                limits::DEVICES_OF_HISTOGRAMS,
                "devices with histograms",
            )?;
        }
        let kind = histogram.device_kind.as_deref().unwrap_or_default();
        add_name(&mut self.kinds, kind, limits::KINDS, "kinds of devices")
    }
}

/// Adds a value. If it is new and there are `most` values already, returns a description of the
/// limit.
fn add<T: Eq + Hash>(
    known: &mut FxHashSet<T>,
    value: T,
    most: usize,
    what: &str,
) -> Result<(), String> {
    if known.len() < most {
        known.insert(value);
        return Ok(());
    }
    if known.contains(&value) {
        Ok(())
    } else {
        Err(format!("the input has more than {most} {what}"))
    }
}

/// Adds a name, and allocates memory only for a new one.
fn add_name(
    known: &mut FxHashSet<Box<str>>,
    name: &str,
    most: usize,
    what: &str,
) -> Result<(), String> {
    if known.contains(name) {
        Ok(())
    } else {
        add(known, name.into(), most, what)
    }
}
