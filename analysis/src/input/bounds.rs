//! Limits of the numbers of names in an input. Memory depends on the numbers of ports, devices and
//! samplers, so an input with more of them than any fabric is not evaluated completely.

use rustc_hash::FxHashSet;

use super::limits;
use super::stream::Key;
use crate::record::Record;

/// The names in the records of a part so far.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    keys: FxHashSet<Key>,
    /// Devices of histograms.
    devices: FxHashSet<u64>,
    samplers: FxHashSet<Box<str>>,
    /// Kinds of devices of histograms.
    kinds: FxHashSet<Box<str>>,
    /// Name of the last sampler.
    last: Box<str>,
}

impl Bounds {
    /// Adds the names of a record. If the record has a new name beyond a limit, returns a
    /// description of the limit.
    pub(super) fn check(&mut self, key: Key, record: &Record<'_>) -> Result<(), String> {
        if !self.keys.contains(&key) {
            if self.keys.len() >= limits::PORTS {
                return Err(format!(
                    "the input has more ports than a fabric can have: {} in one of {} parts",
                    limits::PORTS,
                    limits::SHARDS
                ));
            }
            self.keys.insert(key);
        }
        let sampler = match record {
            Record::Start(start) => &start.sampler,
            Record::Port(port) => &port.sampler,
            Record::Sweep(sweep) => &sweep.sampler,
            Record::Histogram(histogram) => &histogram.sampler,
            Record::Event(event) => &event.sampler,
        };
        if **sampler != *self.last {
            add(&mut self.samplers, sampler, limits::SAMPLERS, "names of samplers")?;
            self.last = (**sampler).into();
        }
        let Record::Histogram(histogram) = record else { return Ok(()) };
        if let Some(guid) = histogram.guid {
            if self.devices.len() >= limits::DEVICES && !self.devices.contains(&guid.0) {
                return Err(format!("the input has histograms of more than {} devices", limits::DEVICES));
            }
            self.devices.insert(guid.0);
        }
        let kind = histogram.device_kind.as_deref().unwrap_or_default();
        add(&mut self.kinds, kind, limits::KINDS, "kinds of devices")
    }
}

/// Adds a name. Returns a description of the limit if the name is new and `most` names are known.
fn add(known: &mut FxHashSet<Box<str>>, name: &str, most: usize, what: &str) -> Result<(), String> {
    if known.contains(name) {
        return Ok(());
    }
    if known.len() >= most {
        return Err(format!("the input has more than {most} {what}"));
    }
    known.insert(name.into());
    Ok(())
}
