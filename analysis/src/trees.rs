//! Congestion trees: who holds up whom, found from the lines alone.
//!
//! A port that has something to send and may not waits for room at the other end of its link: the input there is full of packets that wait for an output of
//! that switch. Either that output waits too, for the same reason, or it sends as fast as its link allows: then it is the root. So from each port that is
//! full and does not wait the ports are followed back that wait at a link to its switch. A port that waits for an adapter is a root of its own: that host
//! takes its packets too slowly.
//!
//! Congestion comes and goes, so each part of the time is looked at by itself, and what is found is added up by root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use super::links::{named, percent};
use super::ports::bins::Bin;
use super::ports::{Key, Seen, in_step};
use super::table;
use ibnet::types::{Guid, NodeKind, PortNum, Printable};

/// What is congestion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// A port waits if it is blocked for more than this share of a time.
    pub waits: f64,
    /// A port is full if more than this share of what its link carries is used.
    pub full: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waits: 0.1, full: 0.9 }
    }
}

/// All trees of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Trees {
    /// Those that held up most first.
    pub trees: Vec<Tree>,
    /// Ports that waited for each other in a circle, and never for a root; for how many seconds.
    pub circles: BTreeMap<Key, f64>,
    /// For how many seconds any port was congested.
    pub seconds: f64,
    names: BTreeMap<Key, Name>,
}

/// A root and what it held up.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// The port at which it begins.
    pub root: Key,
    /// Why it is one.
    pub why: Why,
    /// For how many seconds.
    pub seconds: f64,
    /// How much of its link it used in that time, in seconds of a full link.
    used: f64,
    /// How long it waited itself.
    waited: f64,
    /// For how many seconds its ports could not send, all added up; where a port may have waited for several roots, its part of that.
    pub held_up: f64,
    /// Ports that waited, by their keys.
    pub branches: BTreeMap<Key, Branch>,
}

/// Why a port is the root of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// It sends as fast as its link allows.
    Full,
    /// It waits for an adapter that takes its packets too slowly.
    SlowHost,
    /// It waits for a switch of which no port is full or waits, as far as the lines tell.
    Unclear,
}

/// A port that waited in a tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Branch {
    /// The port that it waited for.
    pub next: Key,
    /// How many links from the root.
    pub depth: usize,
    /// In how many seconds it was held up.
    pub seconds: f64,
    /// For how many seconds of these it could not send.
    pub waited: f64,
    /// How many seconds of a full link it sent all the same.
    pub used: f64,
}

#[derive(Clone, PartialEq, Debug)]
struct Name {
    node: Box<str>,
    is_host: bool,
    peer: Option<(Key, Box<str>)>,
    link: Box<str>,
}

/// What a port did in a part of the time.
#[derive(Clone, Copy)]
struct Out {
    peer: Key,
    leads_to_host: bool,
    used: f64,
    blocked: f64,
    seconds: f64,
}

impl Trees {
    /// Looks for trees; the ports must have bins.
    pub fn find(ports: &BTreeMap<Key, Seen>, limits: Limits) -> Self {
        let names = ports.iter().map(|(key, seen)| (*key, Name::of(seen))).collect();
        let mut found = Self { trees: Vec::new(), circles: BTreeMap::new(), seconds: 0.0, names };
        let mut trees: BTreeMap<(Key, Why), Tree> = BTreeMap::new();
        let ports = in_step(ports);
        let times: BTreeSet<u64> = ports.values().flat_map(|seen| seen.bins.iter().map(|(number, _)| number)).collect();
        for time in times {
            let outs: BTreeMap<Key, Out> = ports.iter().filter_map(|(key, seen)| Some((*key, Out::of(seen, &ports, time)?))).collect();
            let seconds = outs.values().map(|out| out.seconds).fold(0.0, f64::max);
            found.seconds += if found.look(&outs, limits, &mut trees) { seconds } else { 0.0 };
        }
        found.trees = trees.into_values().collect();
        // Where two held up as much the order is that of their GUIDs.
        found.trees.sort_by(|a, b| b.held_up.total_cmp(&a.held_up));
        found
    }

    /// Looks at one part of the time; tells whether anything waited.
    fn look(&mut self, outs: &BTreeMap<Key, Out>, limits: Limits, trees: &mut BTreeMap<(Key, Why), Tree>) -> bool {
        let waits = |out: &Out| out.blocked > limits.waits;
        let full = |out: &Out| out.used > limits.full && !waits(out);
        // By the device that they lead to: who waits for room in it.
        let mut waiting: BTreeMap<Guid, Vec<Key>> = BTreeMap::new();
        for (key, out) in outs.iter().filter(|(_, out)| waits(out)) {
            waiting.entry(out.peer.0).or_default().push(*key);
        }
        // By the port that waits: the roots for which it may.
        let mut explained: BTreeMap<Key, Vec<(Key, Why)>> = BTreeMap::new();
        let mut grow = |root: Key, why: Why, explained: &mut BTreeMap<Key, Vec<(Key, Why)>>| {
            let out = &outs[&root];
            let new = || Tree { root, why, seconds: 0.0, used: 0.0, waited: 0.0, held_up: 0.0, branches: BTreeMap::new() };
            let tree = trees.entry((root, why)).or_insert_with(new);
            tree.seconds += out.seconds;
            tree.used += out.used * out.seconds;
            tree.waited += out.blocked * out.seconds;
            let mut queue = VecDeque::from([(root, 0)]);
            let mut reached = BTreeSet::from([root]);
            while let Some((next, depth)) = queue.pop_front() {
                explained.entry(next).or_default().push((root, why));
                for key in waiting.get(&next.0).into_iter().flatten() {
                    // What comes in by a port does not leave by it.
                    if outs[key].peer != next && reached.insert(*key) {
                        tree.add(*key, next, depth + 1, &outs[key]);
                        queue.push_back((*key, depth + 1));
                    }
                }
            }
        };
        for (key, out) in outs {
            // A full port for which nobody waits holds up nobody.
            let is_wanted = || waiting.get(&key.0).is_some_and(|waiting| waiting.iter().any(|one| outs[one].peer != *key));
            if waits(out) && out.leads_to_host {
                grow(*key, Why::SlowHost, &mut explained);
            } else if full(out) && is_wanted() {
                grow(*key, Why::Full, &mut explained);
            }
        }
        // What leads to none of these, and for which nothing behind it waits, is a root that cannot be told.
        let is_busy = |guid: Guid, except: Key| {
            let of_device = outs.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)));
            of_device.into_iter().any(|(key, out)| *key != except && (waits(out) || full(out)))
        };
        let ends: Vec<Key> = waiting
            .values()
            .flatten()
            .copied()
            .filter(|key| !explained.contains_key(key) && !is_busy(outs[key].peer.0, outs[key].peer))
            .collect();
        ends.into_iter().for_each(|key| grow(key, Why::Unclear, &mut explained));
        for key in waiting.values().flatten().filter(|key| !explained.contains_key(key)) {
            *self.circles.entry(*key).or_default() += outs[key].seconds;
        }
        for (key, roots) in &explained {
            let part = outs[key].blocked * outs[key].seconds / roots.len() as f64;
            for root in roots {
                if let Some(tree) = trees.get_mut(root) {
                    tree.held_up += part;
                }
            }
        }
        !waiting.is_empty()
    }

    /// The first so many trees, each with its root, its victims and its branches.
    pub fn told(&self, top: usize) -> String {
        let mut text = String::new();
        if self.trees.is_empty() && self.circles.is_empty() {
            return "No port waited: there is no congestion tree.\n".to_owned();
        }
        let _ = writeln!(text, "{} in {:.0} s of congestion", count(self.trees.len(), "congestion tree"), self.seconds);
        for (number, tree) in self.trees.iter().take(top).enumerate() {
            let _ = self.tell_tree(&mut text, number + 1, tree);
        }
        if self.trees.len() > top {
            let _ = writeln!(text, "\n{} more, which held up less (--top)", self.trees.len() - top);
        }
        if !self.circles.is_empty() {
            let _ = writeln!(
                text,
                "\n{} waited for each other in a circle without a root, which should not be:",
                count(self.circles.len(), "port")
            );
            for (key, seconds) in self.circles.iter().take(MOST_SHOWN) {
                let _ = writeln!(text, "  {}, {seconds:.0} s", self.way(*key));
            }
        }
        text
    }

    fn tell_tree(&self, text: &mut String, number: usize, tree: &Tree) -> std::fmt::Result {
        let (hosts, links): (Vec<_>, Vec<_>) =
            tree.branches.iter().partition(|(key, _)| self.names.get(key).is_some_and(|name| name.is_host));
        let rate = self.names.get(&tree.root).map_or_else(String::new, |name| Printable(&name.link).to_string());
        writeln!(text, "\nTree {number}: root {}", self.way(tree.root))?;
        let (used, waited) = (percent(Some(tree.used / tree.seconds)), percent(Some(tree.waited / tree.seconds)));
        let why = match tree.why {
            Why::Full => "is full and does not wait: more is wanted of this link than it carries",
            Why::SlowHost => "waits for the host, which takes its packets too slowly",
            Why::Unclear => {
                "waits, and behind it nothing is full or waits, as far as the lines tell: short bursts, or ports that are not sampled"
            }
        };
        writeln!(text, "  {rate}, {used} used, {waited} blocked, for {:.0} s: it {why}.", tree.seconds)?;
        let (hosts, links) = (count(hosts.len(), "host port"), count(links.len(), "switch port"));
        writeln!(text, "  Victims: {hosts} and {links}, which could not send for {:.0} s in all.", tree.held_up)?;
        if tree.branches.is_empty() {
            return Ok(());
        }
        let mut table = table::new();
        table.set_header(["  waits", "for room at", "seconds", "blocked", "used"]);
        self.rows(&mut table, tree, tree.root, 1);
        writeln!(text, "\n{}", table::show(table, &[2, 3, 4]))
    }

    /// What waits for a port: switch ports, the longest first, each followed by what waits for it; then the hosts, in one line.
    fn rows(&self, table: &mut comfy_table::Table, tree: &Tree, next: Key, depth: usize) {
        let is_host = |key: &Key| self.names.get(key).is_some_and(|name| name.is_host);
        let waiting = tree.branches.iter().filter(|(_, branch)| branch.next == next);
        let (mut hosts, mut ports): (Vec<_>, Vec<_>) = waiting.partition(|(key, _)| is_host(key));
        let longest_first = |a: &(&Key, &Branch), b: &(&Key, &Branch)| b.1.waited.total_cmp(&a.1.waited);
        ports.sort_by(longest_first);
        hosts.sort_by(longest_first);
        let indent = "  ".repeat(depth);
        let numbers = |branches: &[(&Key, &Branch)]| {
            let sum = |value: fn(&Branch) -> f64| branches.iter().map(|(_, branch)| value(branch)).sum::<f64>();
            let seconds = sum(|branch| branch.seconds);
            let [blocked, used] = [sum(|branch| branch.waited), sum(|branch| branch.used)].map(|time| percent(Some(time / seconds)));
            [format!("{:.0}", seconds / branches.len() as f64), blocked, used]
        };
        for port in ports.iter().take(MOST_SHOWN) {
            let [seconds, blocked, used] = numbers(&[*port]);
            let (name, to) = (self.names.get(port.0), self.to(*port.0));
            table.add_row([format!("{indent}{}", named(name.map_or("", |name| &name.node), *port.0)), to, seconds, blocked, used]);
            self.rows(table, tree, *port.0, depth + 1);
        }
        if ports.len() > MOST_SHOWN {
            table.add_row([format!("{indent}and {}", count(ports.len() - MOST_SHOWN, "more switch port"))]);
        }
        if let [(first, _), others @ ..] = &hosts[..] {
            let name = self.names.get(first).map_or("", |name| &name.node);
            let more = if others.is_empty() { String::new() } else { format!(" and {}", count(others.len(), "more host port")) };
            let to = if others.is_empty() { self.to(**first) } else { String::new() };
            let [seconds, blocked, used] = numbers(&hosts);
            table.add_row([format!("{indent}{}{more}", named(name, **first)), to, seconds, blocked, used]);
        }
    }

    /// Where a port leads.
    fn to(&self, key: Key) -> String {
        self.names.get(&key).and_then(|name| name.peer.as_ref()).map_or_else(String::new, |(peer, name)| named(name, *peer))
    }

    /// A port and where it leads.
    fn way(&self, key: Key) -> String {
        let Some(name) = self.names.get(&key) else { return named("", key) };
        let to = name.peer.as_ref().map_or_else(String::new, |(peer, peer_name)| format!(" -> {}", named(peer_name, *peer)));
        named(&name.node, key) + &to
    }
}

/// Of the ports that wait for one, so many are shown.
const MOST_SHOWN: usize = 12;

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Tree {
    fn add(&mut self, key: Key, next: Key, depth: usize, out: &Out) {
        let branch = self.branches.entry(key).or_insert(Branch { next, depth, seconds: 0.0, waited: 0.0, used: 0.0 });
        branch.seconds += out.seconds;
        branch.waited += out.blocked * out.seconds;
        branch.used += out.used * out.seconds;
    }
}

impl Out {
    fn of(seen: &Seen, ports: &BTreeMap<Key, Seen>, time: u64) -> Option<Self> {
        let (peer, bin) = (seen.peer?, seen.bins.get(time)?);
        let there = ports.get(&peer);
        let received = |bin: &Bin| bin.rcv_used.mean();
        let used = bin.xmit_used.mean().or_else(|| received(there?.bins.get(time)?)).unwrap_or(0.0);
        let seconds = bin.xmit_used.seconds().max(bin.blocked.seconds());
        let leads_to_host = there.and_then(|there| there.kind) == Some(NodeKind::Hca);
        Some(Self { peer, leads_to_host, used, blocked: bin.blocked.mean().unwrap_or(0.0), seconds })
    }
}

impl Name {
    fn of(seen: &Seen) -> Self {
        let peer = seen.peer.map(|peer| (peer, seen.peer_name.clone()));
        Self { node: seen.node.clone(), is_host: seen.kind == Some(NodeKind::Hca), peer, link: seen.link.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ports::Ports;
    use super::super::ports::tests::{fold, port};
    use super::*;

    const LEAF: u64 = 1;
    const CORE: u64 = 2;
    const SERVER: u64 = 0x200;

    /// Both ends of a link in a slot: of each direction what is used and what is blocked.
    fn link(slot: u64, one: (u64, u8, &str), other: (u64, u8, &str), out: (f64, f64), back: (f64, f64)) -> [String; 2] {
        let rest = |way: (f64, f64)| [("xmit_utilization", way.0.into()), ("xmit_blocked", way.1.into())];
        [port(slot, (one.0, one.1), one.2, other, &rest(out)), port(slot, (other.0, other.1), other.2, (one.0, one.1, one.2), &rest(back))]
    }

    /// Two hosts on a leaf, the leaf on a core, a server and a host on the core; in slots 1 and 2 the server is too much in demand.
    fn incast() -> Vec<String> {
        let idle = (0.0, 0.0);
        let mut lines = Vec::new();
        for slot in 1..=4 {
            let when = |way: (f64, f64)| if slot <= 2 { way } else { (0.3, 0.0) };
            for host in 1..=2 {
                lines.extend(link(slot, (0x100 + host, 1, "n mlx5_0"), (LEAF, host as u8, "leaf"), when((0.25, 0.75)), idle));
            }
            lines.extend(link(slot, (LEAF, 9, "leaf"), (CORE, 1, "core"), when((0.5, 0.5)), idle));
            lines.extend(link(slot, (0x103, 1, "far mlx5_0"), (CORE, 3, "core"), (0.97, 0.0), idle));
            lines.extend(link(slot, (CORE, 2, "core"), (SERVER, 1, "oss1\u{1b} mlx5_0"), when((0.99, 0.0)), idle));
        }
        lines
    }

    fn trees(lines: &[String]) -> Trees {
        Trees::find(&fold(Ports::with_bins(64), lines).seen(), Limits::default())
    }

    fn words(row: &str) -> Vec<&str> {
        row.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
    }

    fn key(guid: u64, port: u8) -> Key {
        (Guid(guid), PortNum(port))
    }

    #[test]
    fn the_root_is_full_and_what_leads_to_it_waits() {
        let found = trees(&incast());
        assert_eq!(
            found.trees.iter().map(|tree| (tree.root, tree.why, tree.seconds)).collect::<Vec<_>>(),
            [(key(CORE, 2), Why::Full, 2.0)]
        );
        let branches: Vec<_> =
            found.trees[0].branches.iter().map(|(key, branch)| (*key, branch.next, branch.depth, branch.waited)).collect();
        let up = key(LEAF, 9);
        assert_eq!(branches, [(up, key(CORE, 2), 1, 1.0), (key(0x101, 1), up, 2, 1.5), (key(0x102, 1), up, 2, 1.5)]);
        assert_eq!((found.trees[0].held_up, found.seconds), (4.0, 2.0));
        assert!(found.circles.is_empty());
        let text = found.told(5);
        assert!(
            text.contains("Tree 1: root core port 2 -> oss1\\u{1b} mlx5_0 port 1\n  4xEDR, 99.0 % used, 0.0 % blocked, for 2 s"),
            "{text}"
        );
        assert!(text.contains("Victims: 2 host ports and 1 switch port, which could not send for 4 s in all."), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().skip_while(|line| !line.starts_with("  waits")).skip(1).map(words).collect();
        assert_eq!(rows[0], ["leaf port 9", "core port 1", "2", "50.0 %", "50.0 %"]);
        assert_eq!(rows[1], ["n mlx5_0 port 1 and 1 more host port", "2", "75.0 %", "25.0 %"]);
    }

    #[test]
    fn a_host_that_takes_too_slowly_is_a_root() {
        let idle = (0.0, 0.0);
        let mut lines = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
        lines.extend(link(1, (LEAF, 2, "leaf"), (SERVER, 1, "slow"), (0.2, 0.7), idle));
        let found = trees(&lines);
        assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.why)).collect::<Vec<_>>(), [(key(LEAF, 2), Why::SlowHost)]);
        assert_eq!(found.trees[0].branches.keys().collect::<Vec<_>>(), [&key(0x101, 1)]);
    }

    #[test]
    fn who_waits_for_nothing_that_is_known_is_told_and_so_are_circles() {
        let idle = (0.0, 0.0);
        let found = trees(&link(1, (LEAF, 1, "leaf"), (CORE, 1, "core"), (0.2, 0.6), idle));
        assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.why)).collect::<Vec<_>>(), [(key(LEAF, 1), Why::Unclear)]);
        let ring = [(1, 2), (2, 3), (3, 1)].map(|(from, to)| link(1, (from, 1, "s"), (to, 2, "s"), (0.2, 0.6), idle)).concat();
        let found = trees(&ring);
        assert_eq!((found.trees.len(), found.circles.len()), (0, 3));
        assert!(found.told(9).contains("3 ports waited for each other in a circle"));
    }

    #[test]
    fn without_congestion_there_is_no_tree() {
        let busy = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.99, 0.0), (0.99, 0.0));
        assert_eq!(trees(&busy).told(1), "No port waited: there is no congestion tree.\n");
    }
}
