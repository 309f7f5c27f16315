//! Writes the picture as a graph for Graphviz: `dot -Tsvg plan.dot`.

use std::fmt::Write;

use super::{MAX_COUNTS, Picture, fill, stroke};
use crate::types::Printable;

impl Picture {
    /// Returns the text of a `.dot` file.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("graph ibnet {\n");
        // Writing to a String does not fail.
        let _ = self.write_dot(&mut text);
        text + "}\n"
    }

    fn write_dot(&self, to: &mut String) -> std::fmt::Result {
        writeln!(to, "  graph [label={}, labelloc=t, rankdir=TB, ranksep=1.5, splines=line]", quoted(&self.summary()))?;
        writeln!(to, "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10]\n  edge [color=\"#999999\"]")?;
        let tiers = self.switches.iter().map(|switch| switch.tier).max().unwrap_or(0);
        for tier in (0..=tiers).rev() {
            let of_tier: Vec<_> = self.switches.iter().enumerate().filter(|(_, switch)| switch.tier == tier).collect();
            if of_tier.is_empty() {
                continue;
            }
            // If there is a single tier, no rank is set, because one rank is one long line.
            let rank = if tiers > 1 { "rank=same; " } else { "" };
            writeln!(to, "  {{ {rank}// tier {tier}")?;
            for (place, switch) in of_tier {
                let sampler = switch.sampler.map_or_else(|| "no sampler".to_owned(), |sampler| format!("#{}", sampler + 1));
                let hcas = switch.hca_ports();
                let label = format!("{}\n{} ports, {hcas} HCA ports\n{sampler}", switch.name, switch.ports);
                let (label, tooltip, color) = (quoted(&label), quoted(&self.description(switch)), fill(switch.sampler));
                writeln!(to, "    s{place} [label={label}, tooltip={tooltip}, fillcolor=\"{color}\"]")?;
            }
            writeln!(to, "  }}")?;
        }
        let with_counts = self.links.len() <= MAX_COUNTS;
        for ((one, other), cables) in &self.links {
            let label = if *cables > 1 && with_counts { format!(", label=\"{cables}\"") } else { String::new() };
            let both = self.switches[*one].sampler.filter(|sampler| self.switches[*other].sampler == Some(*sampler));
            let color = both.map(|sampler| format!(", color=\"{}\"", stroke(sampler))).unwrap_or_default();
            // dot draws the first switch above the second.
            let (top, bottom) = if self.switches[*one].tier >= self.switches[*other].tier { (one, other) } else { (other, one) };
            writeln!(to, "  s{top} -- s{bottom} [penwidth={:.1}{label}{color}]", (*cables as f64).sqrt())?;
        }
        for (place, sampler) in self.samplers.iter().enumerate() {
            let label = quoted(&format!("{}: {} ports", self.sampler_name(place), sampler.ports));
            writeln!(to, "  legend{place} [label={label}, shape=plaintext, fillcolor=\"{}\"]", fill(Some(place)))?;
        }
        Ok(())
    }
}

/// Returns a Graphviz string. Keeps line feeds. Escapes backslashes, so the escape sequences of
/// labels (`\N`, `\G`) have no effect.
fn quoted(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| Printable(line).to_string().replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("\"{}\"", lines.join("\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{picture, picture_of};
    use crate::topology::synthetic;

    #[test]
    fn graph_has_every_switch_and_link() {
        let picture = picture(&synthetic::stria(), "node[00001-00008]", 150);
        let dot = picture.to_dot();
        let count = |part: &str| dot.lines().filter(|line| line.contains(part)).count();
        assert_eq!((count("tooltip="), count(" -- "), count("legend")), (22, 96, 8));
        assert_eq!(count("[penwidth=1.4"), 72, "two cables from each of twelve leaves to each of six cores");
        assert!(dot.starts_with("graph ibnet {\n") && dot.ends_with("}\n"));
    }

    #[test]
    fn hostile_name_stays_a_text() {
        let hostile = "\"]; evil [label=\\N \\\" \u{1b}[2J";
        let text = synthetic::stria().ports_report().replace("'leaf12'", &format!("'{hostile}'"));
        let dot = picture_of(&text, "node00001", 968).to_dot();
        let line = dot.lines().find(|line| line.contains("evil")).unwrap();
        assert!(line.contains(r#"[label="\"]; evil [label=\\N \\\" \\u{1b}[2J\n36 ports"#), "{line}");
        assert!(!dot.contains('\u{1b}'));
    }
}
