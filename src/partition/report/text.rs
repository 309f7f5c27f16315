//! The report for people: what was read, what was assigned, what was left out and why, and how even it came out.

use std::fmt;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::facts::{Assigned, Balance, Facts, LeftOut, LeftOutDevice, Oversized, Read, Remark, Sampler};
use super::sections as notes;
use crate::partition::Reason;
use crate::topology::RemarkKind;
use crate::types::Printable;

/// The facts of a plan, told to people by its [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The name of the net file.
    pub name: &'a str,
    /// What was read, and what came of it.
    pub facts: &'a Facts,
    /// How much is told.
    pub detail: Detail,
}

/// How long a report may get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// For a terminal: a few lines of each kind.
    Brief,
    /// Everything, for a file.
    Full,
}

impl Detail {
    /// Lines of one kind.
    pub const fn lines(self) -> usize {
        match self {
            Self::Brief => 10,
            Self::Full => usize::MAX,
        }
    }

    /// Rows of the table.
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
        let Read { port_lines, linked_lines, remarks, notes } = &self.facts.read;
        let lines = counted(*port_lines, "port line");
        writeln!(f, "read      {}: {lines}, {linked_lines} with a link", Printable(self.name))?;
        for kind in RemarkKind::ALL {
            let of_kind: Vec<_> = remarks.iter().filter(|remark| remark.kind == kind).collect();
            if !of_kind.is_empty() {
                let lost = if kind.loses_a_port() { ", gave no port" } else { "" };
                writeln!(f, "          {}: {}{lost}", kind.as_str(), counted(of_kind.len(), "line"))?;
                self.list(f, &of_kind, |remark: &&Remark| format!("{}: {}", Printable(&remark.place), Printable(&remark.text)))?;
            }
        }
        self.list(f, notes, |note: &String| Printable(note).to_string())
    }

    fn assigned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assigned { ports, switches, adapter_ports } = self.facts.assigned;
        let devices = format!("{}, {}", notes::counted(switches, "switch", "switches"), counted(adapter_ports, "adapter port"));
        let samplers = counted(self.facts.samplers.len(), "sampler");
        writeln!(f, "assigned  {} of {devices} to {samplers} (cap {})", counted(ports as usize, "port"), self.facts.cap_ports)
    }

    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { ports, devices } = &self.facts.left_out;
        writeln!(f, "left out  {}", if devices.is_empty() { "nothing".to_owned() } else { counted(*ports as usize, "port") })?;
        for reason in Reason::ALL {
            let of_reason: Vec<_> = devices.iter().filter(|device| device.reason == reason).collect();
            if !of_reason.is_empty() {
                let ports = of_reason.iter().map(|device| device.ports as usize).sum();
                writeln!(f, "          {}: {}", reason.as_str(), counted(ports, "port"))?;
                let told = |device: &&LeftOutDevice| {
                    let LeftOutDevice { place, guid, name, ports, .. } = device;
                    format!("{}: {guid} `{}`, {}", Printable(place), Printable(name), counted(*ports as usize, "port"))
                };
                self.list(f, &of_reason, told)?;
            }
        }
        Ok(())
    }

    /// Where the plan had to give way.
    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.facts.gave_way;
        if facts.packed {
            writeln!(f, "note      room is so scarce that switches were placed by size, not by neighbourhood")?;
        }
        if !facts.oversized.is_empty() {
            let devices = notes::counted(facts.oversized.len(), "device has", "devices have");
            writeln!(f, "note      {devices} more ports than the cap, and a sampler alone:")?;
            self.list(f, &facts.oversized, |Oversized { guid, name, ports, host }| {
                format!("{guid} `{}`, {ports} ports: {}", Printable(name), Printable(host))
            })?;
        }
        let mut note = |number: usize, text: String| if number > 0 { writeln!(f, "note      {text}") } else { Ok(()) };
        let strangers = facts.own_switches_elsewhere;
        note(strangers, format!("{} next to a sampler went to another one", notes::counted(strangers, "switch", "switches")))?;
        let parted = facts.parted_adapter_ports;
        let adapters = notes::counted(parted, "adapter is", "adapters are");
        note(parted, format!("{adapters} with another sampler than their switch, which had no room left"))?;
        let cut_off = facts.devices_without_way;
        let devices = notes::counted(cut_off, "device has a sampler to which there is", "devices have samplers to which there is");
        note(cut_off, format!("{devices} no way that the net file tells of"))?;
        let idle = facts.idle_samplers;
        note(idle, format!("{} nothing: fewer would do", notes::counted(idle, "sampler got", "samplers got")))
    }

    fn balance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(["sampler", "switches", "adapters", "ports", "of cap", "mean hops", "max hops"]);
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
            writeln!(f, " and {}: --report FILE has all", counted(more, "more sampler"))?;
        }
        let Balance { least_ports, greatest_ports, mean_ports, .. } = self.facts.balance;
        match least_ports == greatest_ports {
            true => writeln!(f, "\nbalance   {greatest_ports} ports on each sampler")?,
            false => writeln!(f, "\nbalance   {least_ports} to {greatest_ports} ports a sampler, {mean_ports:.1} on average")?,
        }
        let Balance { lower_bound_ports, above_lower_bound_ports, mean_hops, greatest_hops, .. } = self.facts.balance;
        let samplers = counted(samplers.len(), "sampler");
        match above_lower_bound_ports {
            0 => writeln!(f, "          with {samplers} none could have fewer than {lower_bound_ports} at most: as even as can be")?,
            above => writeln!(f, "          with {samplers} the most could not be less than {lower_bound_ports}: {above} above that")?,
        }
        match (mean_hops, greatest_hops) {
            (Some(mean), Some(greatest)) => writeln!(f, "hops      {mean:.2} on average over the ports, {greatest} at most"),
            _ => Ok(()),
        }
    }

    fn list<T>(&self, f: &mut fmt::Formatter<'_>, items: &[T], told: impl Fn(&T) -> String) -> fmt::Result {
        for item in items.iter().take(self.detail.lines()) {
            writeln!(f, "            {}", told(item))?;
        }
        match items.len().saturating_sub(self.detail.lines()) {
            0 => Ok(()),
            more => writeln!(f, "            and {more} more"),
        }
    }
}

fn row(sampler: &Sampler) -> [String; 7] {
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

fn counted(number: usize, what: &str) -> String {
    notes::counted(number, what, &format!("{what}s"))
}
