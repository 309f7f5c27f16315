//! Links by how much they are used, how long they wait, how many errors they have; and those whose ends do not agree.
//!
//! A link is told of by both of its ends, or by one. What leaves one end is what that end transmitted, or else what the other received; only the end itself
//! knows for how long it waited.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::ports::marks::Compared;
use super::ports::{Key, Seen};
use super::table;
use ibnet::types::{Guid, NodeKind, PortNum, Printable};

/// Both ends and both directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// The ends.
    pub ends: [End; 2],
    /// Width and speed, as one end told it last.
    pub rate: Box<str>,
    /// What leaves the first end, and what leaves the second.
    pub ways: [Way; 2],
    /// Errors of both ends together in the time of the input.
    pub errors: u64,
    /// What both ends counted in the same slots, from the first end's point of view; `None` where only one was asked.
    pub compared: Option<Compared>,
}

/// A port at an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// Its device and number.
    pub key: Key,
    /// The device's name, written by strangers.
    pub name: Box<str>,
    /// What the device is, if it was asked.
    pub kind: Option<NodeKind>,
}

/// One direction; what is not known is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Way {
    /// The mean in Gb/s.
    pub gbps: Option<f64>,
    /// The mean as a share of what the link carries.
    pub used: Option<f64>,
    /// The greatest of these of a slot.
    pub peak: Option<f64>,
    /// The mean share of time for which there was something to send and nothing was sent.
    pub blocked: Option<f64>,
}

/// By what links are put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum By {
    /// What is carried, of what can be.
    #[default]
    Utilization,
    /// The share of time in which something waits.
    Blocked,
    /// Errors of both ends.
    Errors,
}

/// All links of which the ports tell, in the order of their GUIDs.
pub fn of(ports: &BTreeMap<Key, Seen>) -> Vec<Link> {
    let mut links = Vec::new();
    for (key, seen) in ports {
        let Some(peer) = seen.peer else { continue };
        // Its end with the lower key tells, if it is there.
        if peer < *key && ports.contains_key(&peer) {
            continue;
        }
        let other = ports.get(&peer).filter(|other| other.peer == Some(*key));
        let far = End {
            key: peer,
            name: other.map_or_else(|| seen.peer_name.clone(), |other| other.node.clone()),
            kind: other.and_then(|o| o.kind),
        };
        links.push(Link {
            ends: [End { key: *key, name: seen.node.clone(), kind: seen.kind }, far],
            rate: seen.link.clone(),
            ways: [Way::of(Some(seen), other), Way::of(other, Some(seen))],
            errors: seen.error_sum().saturating_add(other.map_or(0, Seen::error_sum)),
            compared: other.and_then(|other| seen.marks.compare(&other.marks, seen.gbps()?.max(seen.fastest_gbps))),
        });
    }
    links
}

impl Way {
    /// What leaves `from` and arrives at `to`.
    fn of(from: Option<&Seen>, to: Option<&Seen>) -> Self {
        let pick =
            |sent: fn(&Seen) -> Option<f64>, received: fn(&Seen) -> Option<f64>| from.and_then(sent).or_else(|| to.and_then(received));
        Self {
            gbps: pick(|seen| seen.all.xmit.mean(), |seen| seen.all.rcv.mean()),
            used: pick(|seen| seen.all.xmit_used.mean(), |seen| seen.all.rcv_used.mean()),
            peak: pick(|seen| seen.all.xmit_used.peak(), |seen| seen.all.rcv_used.peak()),
            blocked: from.and_then(|seen| seen.all.blocked.mean()),
        }
    }

    fn value(&self, by: By) -> Option<f64> {
        match by {
            By::Utilization => self.used,
            By::Blocked => self.blocked,
            By::Errors => None,
        }
    }
}

impl Link {
    /// The greater of both directions; errors are of both.
    pub fn value(&self, by: By) -> Option<f64> {
        match by {
            By::Errors => Some(self.errors as f64),
            _ => self.ways.iter().filter_map(|way| way.value(by)).reduce(f64::max),
        }
    }

    /// Turned so that the direction with more comes first.
    #[must_use]
    pub fn turned(self, by: By) -> Self {
        let by = if by == By::Errors { By::Utilization } else { by };
        if self.ways[0].value(by) >= self.ways[1].value(by) { self } else { self.back() }
    }

    /// The same link from the other end.
    #[must_use]
    pub fn back(self) -> Self {
        let [one, other] = self.ends;
        let compared =
            self.compared.map(|Compared { seconds, out, back, tolerance }| Compared { seconds, out: back, back: out, tolerance });
        Self { ends: [other, one], ways: [self.ways[1], self.ways[0]], compared, ..self }
    }

    /// Whether its ends do not agree.
    pub fn disagrees(&self) -> bool {
        self.compared.is_some_and(|compared| compared.missing() != (0, 0))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.name, self.key)
    }
}

/// A port for people: the device's name and its number, or its GUID where it has no name.
fn show(f: &mut impl Write, name: &str, (guid, port): (Guid, PortNum)) -> fmt::Result {
    let name = name.trim();
    if name.is_empty() { write!(f, "{guid} port {port}") } else { write!(f, "{} port {port}", Printable(name)) }
}

/// See [`show`].
pub(super) fn named(name: &str, key: Key) -> String {
    let mut shown = String::new();
    // Writing to a String does not fail.
    let _ = show(&mut shown, name, key);
    shown
}

/// The first so many links in an order, as a table; then those whose ends do not agree, however little they are used.
pub fn told(links: &[Link], by: By, top: usize) -> String {
    let mut ordered: Vec<Link> = links.iter().cloned().map(|link| link.turned(by)).collect();
    // Links of equal value stay in the order of their GUIDs.
    ordered.sort_by(|a, b| b.value(by).partial_cmp(&a.value(by)).unwrap_or(std::cmp::Ordering::Equal));
    let what = match by {
        By::Utilization => "utilisation",
        By::Blocked => "blocked time",
        By::Errors => "errors",
    };
    let shown = top.min(ordered.len());
    let mut text = format!("{shown} of {} links, by {what}\n\n", ordered.len());
    let mut table = table::new();
    table.set_header(["from", "to", "link", "Gb/s", "used", "peak", "blocked", "back: used", "blocked", "errors", ""]);
    for link in ordered.iter().take(top) {
        let [out, back] = &link.ways;
        let flag = if link.disagrees() { "ends disagree" } else { "" };
        let gbps = out.gbps.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}"));
        let [one, other] = [link.ends[0].to_string(), link.ends[1].to_string()];
        let rate = Printable(&link.rate).to_string();
        let [used, peak, blocked, back_used, back_blocked] = [out.used, out.peak, out.blocked, back.used, back.blocked].map(percent);
        table.add_row([&one, &other, &rate, &gbps, &used, &peak, &blocked, &back_used, &back_blocked, &link.errors.to_string(), flag]);
    }
    text += &table::show(table, &[3, 4, 5, 6, 7, 8, 9]);
    text += "\n";
    text + &disagreements(&ordered)
}

fn disagreements(links: &[Link]) -> String {
    let disagree: Vec<_> = links.iter().filter(|link| link.disagrees()).collect();
    let compared = links.iter().filter(|link| link.compared.is_some()).count();
    if disagree.is_empty() {
        return format!("\nBoth ends agree on what went through, as far as times can tell, on {compared} of {} links.\n", links.len());
    }
    let mut table = table::new();
    table.set_header(["from", "to", "sent", "received", "differ by", "may differ by", "seconds"]);
    let octets = |octets: u64| format!("{:.3} GB", octets as f64 / 1e9);
    for link in &disagree {
        let Some(compared) = link.compared else { continue };
        let (out, back) = compared.missing();
        for (missing, (sent, received), [from, to]) in
            [(out, compared.out, [&link.ends[0], &link.ends[1]]), (back, compared.back, [&link.ends[1], &link.ends[0]])]
        {
            if missing > 0 {
                let (from, to, seconds) = (from.to_string(), to.to_string(), format!("{:.0}", compared.seconds));
                let tolerance = octets(compared.tolerance as u64);
                table.add_row([&from, &to, &octets(sent), &octets(received), &octets(missing), &tolerance, &seconds]);
            }
        }
    }
    let head = format!("\n{} of {compared} links whose ends do not agree on what went through:\n\n", disagree.len());
    head + &table::show(table, &[2, 3, 4, 5, 6]) + "\n"
}

/// A share in percent; a dash where it is not known.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::super::ports::Ports;
    use super::super::ports::tests::{fold, port};
    use super::*;

    /// A host on a leaf, and the leaf on a core whose ports nobody asks.
    fn links(lost: u64) -> Vec<Link> {
        let (leaf, host, core) = (0x1, 0x101, 0x2);
        let mut lines = Vec::new();
        for slot in 1..=3 {
            let data = |xmit: u64, rcv: u64, used: f64, blocked: f64| {
                [
                    ("port_xmit_data_bytes", xmit.into()),
                    ("port_rcv_data_bytes", rcv.into()),
                    ("xmit_utilization", used.into()),
                    ("xmit_gbps", (used * 100.0).into()),
                    ("xmit_blocked", blocked.into()),
                    ("port_rcv_errors", (slot * 2).into()),
                ]
            };
            let moved = slot * 1_000_000_000;
            lines.push(port(slot, (leaf, 1), "leaf", (host, 1, "n1 mlx5_0"), &data(moved, moved - lost * slot, 0.25, 0.0)));
            lines.push(port(slot, (host, 1), "n1 mlx5_0", (leaf, 1, "leaf"), &data(moved, moved, 0.5, 0.125)));
            let rest = [("rcv_utilization", 0.75.into()), ("rcv_gbps", 75.into()), ("xmit_blocked", serde_json::Value::Null)];
            lines.push(port(slot, (leaf, 2), "leaf", (core, 9, "<core>\u{1b}"), &rest));
        }
        of(&fold(Ports::with_bins(1), &lines).seen())
    }

    #[test]
    fn a_way_is_told_by_whoever_was_asked() {
        let links = links(0);
        assert_eq!(links.len(), 2);
        let [to_host, to_core] = [&links[0], &links[1]];
        assert_eq!(to_host.ways[0], Way { gbps: Some(25.0), used: Some(0.25), peak: Some(0.25), blocked: Some(0.0) });
        assert_eq!(to_host.ways[1], Way { gbps: Some(50.0), used: Some(0.5), peak: Some(0.5), blocked: Some(0.125) });
        assert_eq!((to_host.errors, to_core.errors), (8, 0), "2, 4, 6 at each of two ends");
        assert_eq!(to_core.ways[1], Way { gbps: Some(75.0), used: Some(0.75), peak: Some(0.75), blocked: None });
        assert_eq!(to_core.compared, None);
    }

    #[test]
    fn the_greater_direction_comes_first_and_decides() {
        let links = links(0);
        let text = told(&links, By::Utilization, 5);
        let rows: Vec<_> = text.lines().skip(3).take(2).collect();
        assert!(rows[0].starts_with(r"<core>\u{1b} port 9  leaf port 2") && rows[0].contains("75.0 %"), "{text}");
        assert!(rows[1].starts_with("n1 mlx5_0 port 1"), "{text}");
        let text = told(&links, By::Blocked, 1);
        assert!(text.lines().nth(3).is_some_and(|row| row.starts_with("n1 mlx5_0 port 1") && row.contains("12.5 %")), "{text}");
        assert!(text.starts_with("1 of 2 links, by blocked time\n"));
        assert!(text.ends_with("on 1 of 2 links.\n"), "{text}");
    }

    #[test]
    fn ends_that_disagree_are_flagged() {
        let links = links(100_000_000);
        assert!(links[0].disagrees() && !links[1].disagrees());
        let text = told(&links, By::Errors, 1);
        assert!(text.lines().nth(3).is_some_and(|row| row.ends_with("8  ends disagree")), "{text}");
        let last = text.lines().last().unwrap();
        let words: Vec<_> = last.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        assert_eq!(words[..5], ["n1 mlx5_0 port 1", "leaf port 1", "2.000 GB", "1.800 GB", "0.200 GB"]);
    }
}
