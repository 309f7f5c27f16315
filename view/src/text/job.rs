//! A job in words and tables.

use std::fmt::Write;

use super::super::links::percent;
use super::super::table;
use super::Job;
use ibnet::types::Printable;

/// Nodes and links that are shown at most.
const MOST: usize = 32;

impl Job {
    /// The report.
    pub fn told(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.tell(&mut text);
        text
    }

    fn tell(&self, text: &mut String) -> std::fmt::Result {
        let ports: usize = self.nodes.iter().map(|node| node.ports).sum();
        let sum = |value: fn(&super::Node) -> f64| self.nodes.iter().map(value).sum::<f64>();
        let leaves = self.leaves.len();
        let switches = if leaves == 1 { "switch" } else { "switches" };
        writeln!(text, "{} nodes with {ports} ports on {leaves} leaf {switches}", self.nodes.len())?;
        if !self.missing.is_empty() {
            let names: Vec<_> = self.missing.iter().take(MOST).map(|name| Printable(name).to_string()).collect();
            let more = self.missing.len().saturating_sub(MOST);
            writeln!(text, "not in the lines: {}{}", names.join(" "), if more > 0 { format!(" and {more} more") } else { String::new() })?;
        }
        writeln!(text, "injected  {}", octets(sum(|node| node.injected_bytes)))?;
        writeln!(text, "ejected   {}", octets(sum(|node| node.ejected_bytes)))?;
        writeln!(text, "blocked   {:.1} s, all ports together", sum(|node| node.blocked_seconds))?;
        let stays = &self.stays;
        if stays.injected_bytes > 0.0 {
            let share = |bytes: f64| percent(Some(bytes / stays.injected_bytes));
            let [least, about, most] = [stays.least_bytes, stays.estimate_bytes, stays.most_bytes].map(share);
            writeln!(text, "stays     between {least} and {most}, about {about} of what was injected stayed on its leaf switch")?;
        }
        let mut nodes: Vec<_> = self.nodes.iter().collect();
        nodes.sort_by(|a, b| b.injected_bytes.total_cmp(&a.injected_bytes));
        let mut table = table::new();
        table.set_header(["node", "ports", "injected", "ejected", "blocked", "at most"]);
        for node in nodes.iter().take(MOST) {
            let host = Printable(&node.host).to_string();
            let (blocked, peak) = (percent(node.blocked), percent(node.blocked_peak));
            table.add_row([host, node.ports.to_string(), octets(node.injected_bytes), octets(node.ejected_bytes), blocked, peak]);
        }
        writeln!(text, "\n{}", table::show(table, &[1, 2, 3, 4, 5]))?;
        if nodes.len() > MOST {
            writeln!(text, "and {} more nodes, which sent less", nodes.len() - MOST)?;
        }
        self.tell_links(text)
    }

    fn tell_links(&self, text: &mut String) -> std::fmt::Result {
        if !self.uplinks.is_empty() {
            let mut table = table::new();
            table.set_header(["link", "to", "up Gb/s", "of the job", "down Gb/s", "of the job", "used", "blocked"]);
            for link in self.uplinks.iter().take(MOST) {
                let [up, own_up, down, own_down] =
                    [link.up_gbps, link.job_up_gbps, link.down_gbps, link.job_down_gbps].map(|gbps| format!("{gbps:.1}"));
                table.add_row([&link.port, &link.to, &up, &own_up, &down, &own_down, &percent(link.used), &percent(link.blocked)]);
            }
            writeln!(text, "\n{}", table::show(table, &[2, 3, 4, 5, 6, 7]))?;
            if self.uplinks.len() > MOST {
                writeln!(text, "and {} more links, to which the job gave less", self.uplinks.len() - MOST)?;
            }
        }
        let (own, all) = self.leaves.iter().fold((0.0, 0.0), |(own, all), leaf| (own + leaf.injected_bytes, all + leaf.all_injected_bytes));
        if all > 0.0 {
            writeln!(text, "\nOther hosts of these switches injected {} of what entered them there.", percent(Some(1.0 - own / all)))?;
        }
        writeln!(
            text,
            "Port counters do not tell destinations. What stays is what hosts gave to a leaf switch less what left it to others; the job's part of that lies\n\
             between the bounds, and is about its part of all. So is its part of a link. Blocked time at the job's ports is what others and it itself caused."
        )
    }
}

fn octets(bytes: f64) -> String {
    format!("{:.3} GB", bytes / 1e9)
}
