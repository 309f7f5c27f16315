//! The report as text: the lines that were read, the assigned ports, the ports that are left out,
//! and the balance.

use std::fmt;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use ibnet_record::count::count;
use ibnet_record::types::Printable;

use super::facts::{
    AssignedFacts, Balance, Facts, LeftOutDevice, LeftOutFacts, Oversized, ReadFacts, RemarkFacts,
    SamplerFacts,
};
use super::sections;
use crate::partition::Reason;
use crate::topology::RemarkKind;

/// The text report of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Name of the net file.
    pub name: &'a str,
    /// Facts to describe.
    pub facts: &'a Facts,
    /// How long the lists are.
    pub detail: Detail,
}

/// Length of the lists of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// A few lines of each list, for a terminal.
    Brief,
    /// All lines, for a file.
    Full,
}

impl Detail {
    /// Returns the max number of lines of a list.
    pub const fn lines(self) -> usize {
        match self {
            Self::Brief => 10,
            Self::Full => usize::MAX,
        }
    }

    /// Returns the max number of rows of the table.
    const fn rows(self) -> usize {
        match self {
            Self::Brief => 40,
            Self::Full => usize::MAX,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(f)?;
        self.assigned(f)?;
        self.left_out(f)?;
        self.notes(f)?;
        self.balance(f)
    }
}

impl Report<'_> {
    fn read(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadFacts {
            port_lines,
            linked_lines,
            remarks,
            notes,
        } = &self.facts.read;
        let lines = count(*port_lines, "port line");
        writeln!(
            f,
            "read      {}: {lines}, {linked_lines} with a link",
            Printable(self.name)
        )?;
        for kind in RemarkKind::ALL {
            let of_kind: Vec<_> = remarks
                .iter()
                .filter(|remark| remark.kind == kind)
                .collect();
            if !of_kind.is_empty() {
                let skipped = if kind.loses_a_port() { ", skipped" } else { "" };
                writeln!(
                    f,
                    "          {}: {}{skipped}",
                    kind.as_str(),
                    count(of_kind.len(), "line")
                )?;
                self.list(f, &of_kind, |remark: &&RemarkFacts| {
                    format!("{}: {}", Printable(&remark.place), Printable(&remark.text))
                })?;
            }
        }
        self.list(f, notes, |note: &String| Printable(note).to_string())
    }

    fn assigned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AssignedFacts {
            ports,
            switches,
            adapter_ports,
        } = self.facts.assigned;
        let devices = format!(
            "{} and {}",
            count(switches, "switch"),
            count(adapter_ports, "HCA port")
        );
        let samplers = count(self.facts.samplers.len(), "sampler");
        writeln!(
            f,
            "assigned  {} of {devices} to {samplers} (cap {})",
            count(ports as usize, "port"),
            self.facts.cap_ports
        )
    }

    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOutFacts { ports, devices } = &self.facts.left_out;
        writeln!(f, "left out  {}", count(*ports as usize, "port"))?;
        for reason in Reason::ALL {
            let of_reason: Vec<_> = devices
                .iter()
                .filter(|device| device.reason == reason)
                .collect();
            if !of_reason.is_empty() {
                let ports: usize = of_reason.iter().map(|device| device.ports as usize).sum();
                writeln!(f, "          {}: {}", reason.as_str(), count(ports, "port"))?;
                let line = |device: &&LeftOutDevice| {
                    let LeftOutDevice {
                        place,
                        guid,
                        name,
                        ports,
                        ..
                    } = device;
                    format!(
                        "{}: {guid} `{}`, {}",
                        Printable(place),
                        Printable(name),
                        count(*ports as usize, "port")
                    )
                };
                self.list(f, &of_reason, line)?;
            }
        }
        Ok(())
    }

    /// Writes the rules that the plan could not follow.
    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.facts.compromises;
        if facts.packed {
            writeln!(
                f,
                "note      the cap is tight: switches were placed by size, not by distance"
            )?;
        }
        if !facts.oversized.is_empty() {
            let devices = sections::counted(facts.oversized.len(), "device has", "devices have");
            writeln!(
                f,
                "note      {devices} more ports than the cap and a sampler to itself:"
            )?;
            self.list(
                f,
                &facts.oversized,
                |Oversized {
                     guid,
                     name,
                     ports,
                     host,
                 }| {
                    format!(
                        "{guid} `{}`, {ports} ports: {}",
                        Printable(name),
                        Printable(host)
                    )
                },
            )?;
        }
        let mut note = |number: usize, text: String| {
            if number > 0 {
                writeln!(f, "note      {text}")
            } else {
                Ok(())
            }
        };
        let elsewhere = facts.own_switches_elsewhere;
        let switches = sections::counted(elsewhere, "switch is", "switches are");
        note(
            elsewhere,
            format!("{switches} next to a sampler but assigned to another one"),
        )?;
        let separated = facts.parted_adapter_ports;
        let hcas = sections::counted(separated, "HCA port has", "HCA ports have");
        note(
            separated,
            format!(
                "{hcas} another sampler than their switch: the sampler of the switch reached the cap"
            ),
        )?;
        let unreachable = facts.devices_without_way;
        let devices = sections::counted(unreachable, "device has", "devices have");
        note(
            unreachable,
            format!("{devices} no path to the sampler in the net file"),
        )?;
        let idle = facts.idle_samplers;
        note(
            idle,
            format!(
                "{} no ports: fewer samplers are enough",
                sections::counted(idle, "sampler has", "samplers have")
            ),
        )
    }

    fn balance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header([
            "sampler",
            "switches",
            "HCA ports",
            "ports",
            "of cap",
            "mean hops",
            "max hops",
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let samplers = &self.facts.samplers;
        for sampler in samplers.iter().take(self.detail.rows()) {
            table.add_row(row(sampler));
        }
        writeln!(f, "\n{}", table.trim_fmt())?;
        let more = samplers.len().saturating_sub(self.detail.rows());
        if more > 0 {
            writeln!(
                f,
                " and {}: --report FILE has all",
                count(more, "more sampler")
            )?;
        }
        let Balance {
            least_ports,
            greatest_ports,
            mean_ports,
            lower_bound_ports,
            mean_hops,
            greatest_hops,
            ..
        } = self.facts.balance;
        writeln!(
            f,
            "\nbalance   {least_ports} to {greatest_ports} ports per sampler, mean {mean_ports:.1}"
        )?;
        let largest = count(greatest_ports as usize, "port");
        writeln!(
            f,
            "          largest load: {largest} (lower bound {lower_bound_ports})"
        )?;
        match (mean_hops, greatest_hops) {
            (Some(mean), Some(greatest)) => {
                writeln!(f, "hops      mean {mean:.2} per port, maximum {greatest}")
            }
            _ => Ok(()),
        }
    }

    fn list<T>(
        &self,
        f: &mut fmt::Formatter<'_>,
        items: &[T],
        line: impl Fn(&T) -> String,
    ) -> fmt::Result {
        for item in items.iter().take(self.detail.lines()) {
            writeln!(f, "            {}", line(item))?;
        }
        match items.len().saturating_sub(self.detail.lines()) {
            0 => Ok(()),
            more => writeln!(f, "            and {more} more"),
        }
    }
}

fn row(sampler: &SamplerFacts) -> [String; 7] {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        Printable(&sampler.host).to_string(),
        sampler.switches.len().to_string(),
        sampler.adapter_ports.to_string(),
        sampler.ports.to_string(),
        format!("{:.0} %", 100.0 * sampler.share_of_cap),
        known(sampler.mean_hops.map(|hops| format!("{hops:.1}"))),
        known(sampler.greatest_hops.map(|hops| hops.to_string())),
    ]
}
