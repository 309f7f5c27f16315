//! Report sections about measured times, the search, second samplers, and changes.

use std::fmt;

use ibnet_record::count::count;
use ibnet_record::types::Printable;

use crate::partition::planning::cables::{ChangedDevice, End, MovedCable};
use crate::partition::planning::changes::{ChangedPorts, Changes, Moved};
use crate::partition::{BadLine, Figures, LoadUnit, Measured, Plan};

/// The report sections of a plan that was made with options, as text.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a> {
    /// Plan to describe.
    pub plan: &'a Plan,
    /// Max number of lines of each list.
    pub max_lines: usize,
}

impl fmt::Display for Sections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.weights(f)?;
        self.search(f)?;
        self.secondary(f)?;
        self.plan
            .changes
            .as_ref()
            .map_or(Ok(()), |changes| self.changes(f, changes))
    }
}

impl Sections<'_> {
    fn weights(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Measured {
            devices: measured,
            bad,
        }) = &self.plan.measured
        else {
            return Ok(());
        };
        let devices = self
            .plan
            .shares
            .iter()
            .map(|share| share.devices.len())
            .sum::<usize>();
        writeln!(
            f,
            "weights   {measured} of {devices} devices were measured; the others count as the median of their kind"
        )?;
        if !bad.is_empty() {
            writeln!(f, "          unreadable: {}", count(bad.len(), "line"))?;
            self.list(f, bad, |BadLine { name, line, why }| {
                format!("{} line {line}: {}", Printable(name), Printable(why))
            })?;
        }
        Ok(())
    }

    fn search(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            by_rules,
            figures: Figures { greatest, hops },
            unit,
            lower_bound,
            ..
        } = self.plan;
        let load = |load: u64| Load(load, *unit);
        // The table of the report already contains the loads in ports.
        if *unit == LoadUnit::Nanoseconds {
            writeln!(
                f,
                "load      largest: {} (lower bound {})",
                load(*greatest),
                load(*lower_bound)
            )?;
            self.list(f, &self.plan.shares, |share| {
                format!("{}: {}", Printable(&share.host.name), load(share.load))
            })?;
        }
        match by_rules {
            Some(rules) if rules.greatest > *greatest => {
                writeln!(
                    f,
                    "search    largest load reduced from {} to {}",
                    load(rules.greatest),
                    load(*greatest)
                )
            }
            Some(rules) if rules.hops > *hops => {
                writeln!(
                    f,
                    "search    hops reduced by {} %",
                    percent(rules.hops, *hops)
                )
            }
            _ => Ok(()),
        }
    }

    fn secondary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            secondary,
            sharing_a_leaf,
            cap,
            ..
        } = self.plan;
        let ports = secondary.iter().map(|share| share.ports);
        let (Some(least), Some(most)) = (ports.clone().min(), ports.max()) else {
            return Ok(());
        };
        writeln!(
            f,
            "second    each port has a second sampler on another leaf switch, half an interval later"
        )?;
        writeln!(
            f,
            "          {least} to {most} ports per sampler; the cap of {cap} holds for each of the two roles"
        )?;
        if *sharing_a_leaf > 0 {
            let ports = counted(*sharing_a_leaf as usize, "port has", "ports have");
            writeln!(
                f,
                "          {ports} two samplers that share a leaf switch; each of the two also has another leaf switch"
            )?;
        }
        Ok(())
    }

    fn changes(&self, f: &mut fmt::Formatter<'_>, changes: &Changes) -> fmt::Result {
        let moved: u32 = changes.moved.iter().map(|moved| moved.ports).sum();
        let sum = |devices: &[ChangedPorts]| {
            devices
                .iter()
                .map(|device| device.ports.len())
                .sum::<usize>()
        };
        let (new, gone) = (sum(&changes.new_ports), sum(&changes.gone_ports));
        writeln!(
            f,
            "changed   {} kept: {moved} moved, {new} new, {gone} gone",
            count(changes.kept as usize, "port")
        )?;
        if changes.moved_more {
            writeln!(
                f,
                "          more devices moved than the changes require: otherwise the others exceed the cap"
            )?;
        }
        for (what, names) in [
            ("new samplers", &changes.new_samplers),
            ("gone samplers", &changes.gone_samplers),
        ] {
            if !names.is_empty() {
                writeln!(f, "          {what}: {}", names.len())?;
                self.list(f, names, |name| Printable(name).to_string())?;
            }
        }
        for (what, devices) in [
            ("moved", &changes.moved),
            ("moved in the secondary role", &changes.moved_secondary),
        ] {
            if !devices.is_empty() {
                writeln!(f, "          {what}: {}", count(devices.len(), "device"))?;
                self.list(
                    f,
                    devices,
                    |Moved {
                         guid,
                         name,
                         ports,
                         from,
                         to,
                     }| {
                        let ports = count(*ports as usize, "port");
                        format!(
                            "{guid} `{}`, {ports}: {} to {}",
                            Printable(name),
                            Printable(from),
                            Printable(to)
                        )
                    },
                )?;
            }
        }
        for (what, devices) in [("new", &changes.new_ports), ("gone", &changes.gone_ports)] {
            if !devices.is_empty() {
                writeln!(f, "          {what}: {}", count(sum(devices), "port"))?;
                self.list(f, devices, |ChangedPorts { guid, name, ports }| {
                    let numbers: Vec<_> = ports.iter().map(ToString::to_string).collect();
                    format!("{guid} `{}`, port {}", Printable(name), numbers.join(" "))
                })?;
            }
        }
        self.topology(f, changes)
    }

    /// Writes the devices and cables that changed, one per line.
    fn topology(&self, f: &mut fmt::Formatter<'_>, changes: &Changes) -> fmt::Result {
        let topology = &changes.topology;
        for (what, devices) in [
            ("new", &topology.new_devices),
            ("lost", &topology.lost_devices),
        ] {
            if !devices.is_empty() {
                writeln!(f, "          {what}: {}", count(devices.len(), "device"))?;
                self.list(f, devices, |ChangedDevice { guid, name }| {
                    format!("{what} device {guid} `{}`", Printable(name))
                })?;
            }
        }
        for (what, cables) in [
            ("new", &topology.new_cables),
            ("lost", &topology.lost_cables),
        ] {
            if !cables.is_empty() {
                writeln!(f, "          {what}: {}", count(cables.len(), "cable"))?;
                self.list(f, cables, |[one, other]| {
                    format!("{what} cable {} to {}", end(one), end(other))
                })?;
            }
        }
        if !topology.moved_cables.is_empty() {
            writeln!(
                f,
                "          moved: {}",
                count(topology.moved_cables.len(), "cable")
            )?;
            self.list(
                f,
                &topology.moved_cables,
                |MovedCable {
                     end: fixed,
                     from,
                     to,
                 }| {
                    format!(
                        "moved cable of {}: from {} to {}",
                        end(fixed),
                        end(from),
                        end(to)
                    )
                },
            )?;
        }
        Ok(())
    }

    fn list<T>(
        &self,
        f: &mut fmt::Formatter<'_>,
        items: &[T],
        line: impl Fn(&T) -> String,
    ) -> fmt::Result {
        items
            .iter()
            .take(self.max_lines)
            .try_for_each(|item| writeln!(f, "            {}", line(item)))?;
        match items.len().saturating_sub(self.max_lines) {
            0 => Ok(()),
            more => writeln!(f, "            and {more} more"),
        }
    }
}

/// Returns one end of a cable as text.
fn end(End { guid, port, name }: &End) -> String {
    format!("`{}` port {port} ({guid})", Printable(name))
}

/// A load with its unit: `128 ports`, `7.25 ms`.
#[derive(Clone, Copy, Debug)]
pub struct Load(pub u64, pub LoadUnit);

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            LoadUnit::Ports => f.pad(&count(self.0 as usize, "port")),
            LoadUnit::Nanoseconds => f.pad(&format!("{:.2} ms", self.0 as f64 / 1e6)),
        }
    }
}

/// Returns by how many percent a value was reduced, rounded to a tenth.
fn percent(before: u64, now: u64) -> String {
    format!(
        "{:.1}",
        100.0 * (before - now) as f64 / before.max(1) as f64
    )
}

/// Returns a number with the counted noun in the singular or plural.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
