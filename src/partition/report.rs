//! The report for people: what was read, what was assigned, what was left out and why, and how even it came out.

use std::fmt::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::{Held, LeftOut, Plan, Reason, Share};
use crate::topology::ports_report::NetFile;
use crate::topology::{Device, DeviceId, Fabric, Place, Remark, RemarkKind};
use crate::types::{NodeKind, Printable};

/// A plan, told to people by its [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The name of the net file.
    pub name: &'a str,
    /// What was read.
    pub net: &'a NetFile,
    /// What came of it.
    pub plan: &'a Plan,
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
    const fn lines(self) -> usize {
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
        let NetFile { port_lines, linked_lines, remarks, notes, .. } = self.net;
        let lines = counted(*port_lines, "port line");
        writeln!(f, "read      {}: {lines}, {linked_lines} with a link", Printable(self.name))?;
        for kind in RemarkKind::ALL {
            let of_kind: Vec<_> = remarks.iter().filter(|remark| remark.kind == kind).collect();
            if !of_kind.is_empty() {
                let lost = if kind.loses_a_port() { ", gave no port" } else { "" };
                writeln!(f, "          {}: {}{lost}", kind.as_str(), counted(of_kind.len(), "line"))?;
                let place = |remark: &Remark| self.net.place(remark.place());
                self.list(f, &of_kind, |remark: &&Remark| format!("{}: {}", Printable(&place(remark)), Printable(&remark.text)))?;
            }
        }
        self.list(f, notes, |note: &String| Printable(note).to_string())
    }

    fn assigned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: u32 = self.plan.shares.iter().map(|share| share.ports).sum();
        let of_kind = |kind| self.devices().filter(|device| device.kind == kind).count();
        let (switches, adapters) = (of_kind(NodeKind::Switch), of_kind(NodeKind::Hca));
        let devices = format!("{}, {}", counted_with(switches, "switch", "switches"), counted(adapters, "adapter port"));
        let samplers = counted(self.plan.shares.len(), "sampler");
        writeln!(f, "assigned  {} of {devices} to {samplers} (cap {})", counted(ports as usize, "port"), self.plan.cap)
    }

    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |devices: &[&LeftOut]| counted(devices.iter().map(|device| device.ports as usize).sum(), "port");
        let all: Vec<_> = self.plan.left_out.iter().collect();
        writeln!(f, "left out  {}", if all.is_empty() { "nothing".to_owned() } else { sum(&all) })?;
        for reason in Reason::ALL {
            let of_reason: Vec<_> = all.iter().copied().filter(|device| device.reason == reason).collect();
            if !of_reason.is_empty() {
                writeln!(f, "          {}: {}", reason.as_str(), sum(&of_reason))?;
                let told = |device: &&LeftOut| {
                    let LeftOut { line, file, guid, name, ports, .. } = device;
                    let place = self.net.place(Place { file: *file, line: *line });
                    format!("{}: {guid} `{}`, {}", Printable(&place), Printable(name), counted(*ports as usize, "port"))
                };
                self.list(f, &of_reason, told)?;
            }
        }
        Ok(())
    }

    /// Where the plan had to give way.
    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.plan.packed {
            writeln!(f, "note      room is so scarce that switches were placed by size, not by neighbourhood")?;
        }
        let oversized: Vec<_> = self.oversized().collect();
        if !oversized.is_empty() {
            let devices = counted_with(oversized.len(), "device has", "devices have");
            writeln!(f, "note      {devices} more ports than the cap, and a sampler alone:")?;
            self.list(f, &oversized, |(share, device)| {
                let (name, ports, host) = (Printable(&device.name), device.linked_ports(), Printable(&share.host.name));
                format!("{} `{name}`, {ports} ports: {host}", device.guid)
            })?;
        }
        let mut note = |text: String| writeln!(f, "note      {text}");
        let owners = self.owners();
        let strangers = self.own_switches().filter(|(sampler, switch)| owners[switch.0 as usize] != Some(*sampler)).count();
        if strangers > 0 {
            note(format!("{} next to a sampler went to another one", counted_with(strangers, "switch", "switches")))?;
        }
        let parted = self.followers().filter(|(adapter, switch)| owners[adapter.0 as usize] != owners[switch.0 as usize]).count();
        if parted > 0 {
            note(format!(
                "{} with another sampler than their switch, which had no room left",
                counted_with(parted, "adapter is", "adapters are")
            ))?;
        }
        let cut_off = self.plan.shares.iter().flat_map(|share| &share.devices).filter(|held| held.hops.is_none()).count();
        if cut_off > 0 {
            note(format!(
                "{} no way that the net file tells of",
                counted_with(cut_off, "device has a sampler to which there is", "devices have samplers to which there is")
            ))?;
        }
        let idle = self.plan.shares.iter().filter(|share| share.ports == 0).count();
        if idle > 0 {
            note(format!("{} nothing: fewer would do", counted_with(idle, "sampler got", "samplers got")))?;
        }
        Ok(())
    }

    fn balance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(["sampler", "switches", "adapters", "ports", "of cap", "mean hops", "max hops"]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for share in self.plan.shares.iter().take(self.detail.rows()) {
            table.add_row(self.row(share));
        }
        writeln!(f, "\n{}", table.trim_fmt())?;
        let more = self.plan.shares.len().saturating_sub(self.detail.rows());
        if more > 0 {
            writeln!(f, " and {}: --report FILE has all", counted(more, "more sampler"))?;
        }
        let ports = self.plan.shares.iter().map(|share| share.ports);
        let (least, most, all) = (ports.clone().min().unwrap_or(0), ports.clone().max().unwrap_or(0), ports.sum::<u32>());
        let mean = f64::from(all) / self.plan.shares.len().max(1) as f64;
        match least == most {
            true => writeln!(f, "\nbalance   {most} ports on each sampler"),
            false => writeln!(f, "\nbalance   {least} to {most} ports a sampler, {mean:.1} on average"),
        }
    }

    fn row(&self, share: &Share) -> [String; 7] {
        let of_kind = |kind| share.devices.iter().filter(|held| self.device(held).kind == kind).count().to_string();
        // By port, since that is what travels.
        let ways = share.devices.iter().filter_map(|held| held.hops.map(|hops| (u64::from(hops), self.device(held).linked_ports() as u64)));
        let (way, ports) = ways.clone().fold((0, 0), |(way, all), (hops, ports)| (way + hops * ports, all + ports));
        let known = |text: String| if ports == 0 { "-".to_owned() } else { text };
        [
            Printable(&share.host.name).to_string(),
            of_kind(NodeKind::Switch),
            of_kind(NodeKind::Hca),
            share.ports.to_string(),
            format!("{:.0} %", 100.0 * f64::from(share.ports) / f64::from(self.plan.cap)),
            known(format!("{:.1}", way as f64 / ports as f64)),
            known(ways.map(|(hops, _)| hops).max().unwrap_or(0).to_string()),
        ]
    }

    fn fabric(&self) -> &Fabric {
        &self.net.fabric
    }

    fn device(&self, held: &Held) -> &Device {
        self.fabric().device(held.id)
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.plan.shares.iter().flat_map(|share| &share.devices).map(|held| self.device(held))
    }

    /// The sampler of each device, by index.
    fn owners(&self) -> Vec<Option<usize>> {
        let mut owners = vec![None; self.fabric().devices().len()];
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            share.devices.iter().for_each(|held| owners[held.id.0 as usize] = Some(sampler));
        }
        owners
    }

    /// Devices larger than the cap.
    fn oversized(&self) -> impl Iterator<Item = (&Share, &Device)> {
        let over = self.plan.shares.iter().filter(|share| share.ports > self.plan.cap);
        over.flat_map(move |share| share.devices.iter().map(move |held| (share, self.device(held))))
    }

    /// Sampled switches on which no other sampler than this one hangs.
    fn own_switches(&self) -> impl Iterator<Item = (usize, DeviceId)> {
        let mut pairs: Vec<(DeviceId, usize)> = Vec::new();
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            pairs.extend(share.host.at.iter().filter_map(|port| self.switch_of(*port)).map(|switch| (switch, sampler)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let groups = pairs.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() == 1).map(|group| (group[0].1, group[0].0));
        groups.collect::<Vec<_>>().into_iter()
    }

    /// Sampled adapters with their sampled switches, but for the adapters of samplers.
    fn followers(&self) -> impl Iterator<Item = (DeviceId, DeviceId)> {
        let mut own: Vec<_> = self.plan.shares.iter().flat_map(|share| &share.host.own).copied().collect();
        own.sort_unstable();
        let adapters =
            self.fabric().iter().filter(|(_, device)| device.kind == NodeKind::Hca && Reason::of(self.fabric(), device).is_none());
        let others = adapters.map(|(id, _)| id).filter(move |id| own.binary_search(id).is_err());
        others.filter_map(|id| self.switch_of(id).map(|switch| (id, switch)))
    }

    fn switch_of(&self, adapter: DeviceId) -> Option<DeviceId> {
        let (_, peer) = self.fabric().device(adapter).linked().next()?;
        let switch = self.fabric().find(peer.guid, peer.port)?;
        let device = self.fabric().device(switch);
        (device.kind == NodeKind::Switch && Reason::of(self.fabric(), device).is_none()).then_some(switch)
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

fn counted(number: usize, what: &str) -> String {
    counted_with(number, what, &format!("{what}s"))
}

fn counted_with(number: usize, one: &str, many: &str) -> String {
    let mut text = number.to_string();
    // Writing to a String does not fail.
    let _ = write!(text, " {}", if number == 1 { one } else { many });
    text
}
