//! What a report says of improvement, of second samplers, of measured times and of change.

use std::fmt;

use crate::partition::previous::{Changes, Moved, Ported};
use crate::partition::{BadLine, Figures, Measured, Plan, Unit};
use crate::types::Printable;

/// Lines of a report, each with its heading.
#[derive(Clone, Copy, Debug)]
pub struct Notes<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Lines of one kind.
    pub most: usize,
}

impl fmt::Display for Notes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.weights(f)?;
        self.search(f)?;
        self.second(f)?;
        self.plan.changes.as_ref().map_or(Ok(()), |changes| self.changes(f, changes))
    }
}

impl Notes<'_> {
    fn weights(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Measured { devices: measured, bad }) = &self.plan.measured else { return Ok(()) };
        let devices = self.plan.shares.iter().map(|share| share.devices.len()).sum::<usize>();
        writeln!(f, "weights   {measured} of {devices} devices were measured; the others are taken for the median of their kind")?;
        if !bad.is_empty() {
            writeln!(f, "          unreadable: {}", counted(bad.len(), "line", "lines"))?;
            self.list(f, bad, |BadLine { name, line, why }| format!("{} line {line}: {}", Printable(name), Printable(why)))?;
        }
        Ok(())
    }

    fn search(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { by_rules, figures: Figures { greatest, hops }, unit, lower_bound, .. } = self.plan;
        let load = |load: u64| Load(load, *unit);
        // Of ports the report tells them.
        if *unit == Unit::Nanoseconds {
            writeln!(f, "load      {} at most; however switches are divided, {} at least", load(*greatest), load(*lower_bound))?;
            self.list(f, &self.plan.shares, |share| format!("{}: {}", Printable(&share.host.name), load(share.load)))?;
        }
        match by_rules {
            Some(rules) if rules.greatest > *greatest => {
                writeln!(f, "search    brought the most down to {} from {} by the rules alone", load(*greatest), load(rules.greatest))
            }
            Some(rules) if rules.hops > *hops => {
                writeln!(f, "search    made the ways {} % shorter than by the rules alone", percent(rules.hops, *hops))
            }
            _ => Ok(()),
        }
    }

    fn second(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { secondary, sharing_a_leaf, cap, .. } = self.plan;
        let ports = secondary.iter().map(|share| share.ports);
        let (Some(least), Some(most)) = (ports.clone().min(), ports.max()) else { return Ok(()) };
        writeln!(
            f,
            "second    each port has a second sampler on another leaf switch, half an interval later: {least} to {most} ports a sampler"
        )?;
        writeln!(f, "          the cap holds for each of the two: a sampler asks at most {cap} ports at a time, twice an interval")?;
        if *sharing_a_leaf > 0 {
            let ports = counted(*sharing_a_leaf as usize, "port has", "ports have");
            writeln!(f, "          {ports} two samplers that share a leaf switch, and have another one besides")?;
        }
        Ok(())
    }

    fn changes(&self, f: &mut fmt::Formatter<'_>, changes: &Changes) -> fmt::Result {
        let moved: u32 = changes.moved.iter().map(|moved| moved.ports).sum();
        let sum = |devices: &[Ported]| devices.iter().map(|device| device.ports.len()).sum::<usize>();
        let (new, gone) = (sum(&changes.new_ports), sum(&changes.gone_ports));
        writeln!(f, "changed   {}: {moved} moved, {new} new, {gone} gone", counted(changes.kept as usize, "port stayed", "ports stayed"))?;
        if changes.anew {
            writeln!(f, "          what could have stayed left no room for the rest: more had to move")?;
        }
        for (what, names) in [("new samplers", &changes.new_samplers), ("gone samplers", &changes.gone_samplers)] {
            if !names.is_empty() {
                writeln!(f, "          {what}: {}", names.len())?;
                self.list(f, names, |name| Printable(name).to_string())?;
            }
        }
        for (what, devices) in [("moved", &changes.moved), ("moved in the second role", &changes.moved_secondary)] {
            if !devices.is_empty() {
                writeln!(f, "          {what}: {}", counted(devices.len(), "device", "devices"))?;
                self.list(f, devices, |Moved { guid, name, ports, from, to }| {
                    let ports = counted(*ports as usize, "port", "ports");
                    format!("{guid} `{}`, {ports}: {} to {}", Printable(name), Printable(from), Printable(to))
                })?;
            }
        }
        for (what, devices) in [("new", &changes.new_ports), ("gone", &changes.gone_ports)] {
            if !devices.is_empty() {
                writeln!(f, "          {what}: {}", counted(sum(devices), "port", "ports"))?;
                self.list(f, devices, |Ported { guid, name, ports }| {
                    let numbers: Vec<_> = ports.iter().map(ToString::to_string).collect();
                    format!("{guid} `{}`, port {}", Printable(name), numbers.join(" "))
                })?;
            }
        }
        Ok(())
    }

    fn list<T>(&self, f: &mut fmt::Formatter<'_>, items: &[T], told: impl Fn(&T) -> String) -> fmt::Result {
        items.iter().take(self.most).try_for_each(|item| writeln!(f, "            {}", told(item)))?;
        match items.len().saturating_sub(self.most) {
            0 => Ok(()),
            more => writeln!(f, "            and {more} more"),
        }
    }
}

/// A load with its unit: `128 ports`, `7.25 ms`.
#[derive(Clone, Copy, Debug)]
pub struct Load(pub u64, pub Unit);

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Unit::Ports => f.pad(&counted(self.0 as usize, "port", "ports")),
            Unit::Nanoseconds => f.pad(&format!("{:.2} ms", self.0 as f64 / 1e6)),
        }
    }
}

/// By how much less it is now, rounded to a tenth.
fn percent(before: u64, now: u64) -> String {
    format!("{:.1}", 100.0 * (before - now) as f64 / before.max(1) as f64)
}

/// A number, and what it counts.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
