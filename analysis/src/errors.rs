//! What `ibqueryerrors` is used for, from the lines: links that are down, degraded or flapping, and ports whose error counters moved.
//!
//! `ibqueryerrors` shows what counters hold, whenever that came; here only what moved in the time of the input counts.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::links::named;
use super::ports::{DETAILS, ERRORS, Key, Seen};
use super::table;
use ibnet::types::Printable;

/// A counter is shown if it moved by more than this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thresholds([u64; ERRORS.len()]);

impl Default for Thresholds {
    /// Nothing is right but 0, with one exception: switches count in PortRcvSwitchRelayErrors what they refuse by design, such as multicast that would
    /// go back to where it came from.
    fn default() -> Self {
        let mut thresholds = Self([0; ERRORS.len()]);
        thresholds.0[13] = 100;
        thresholds
    }
}

/// A threshold that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ThresholdError {
    /// Not `NAME=N`.
    #[error("`{}` is no threshold", Printable(found))]
    #[diagnostic(help("write a counter and a number, such as `symbol_error_counter=10`; it is shown if it moved by more than that"))]
    Form {
        /// What stood there.
        found: String,
    },
    /// No such counter.
    #[error("`{}` is no counter of errors", Printable(found))]
    #[diagnostic(help("`{}` is the nearest; there are {}", nearest, ERRORS.join(", ")))]
    Name {
        /// What stood there.
        found: String,
        /// What may be meant.
        nearest: &'static str,
    },
}

impl Thresholds {
    /// Takes `NAME=N`; the name as in the records, or as `perfquery` writes it, or `all`.
    ///
    /// # Errors
    /// When it is none, or there is no such counter.
    pub fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        let (name, number) = text
            .split_once('=')
            .and_then(|(name, number)| Some((name.trim(), number.trim().parse().ok()?)))
            .ok_or_else(|| ThresholdError::Form { found: text.to_owned() })?;
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let is_it = |known: &str| [plain(name), plain(name) + "counter", plain(name) + "errors"].contains(&plain(known));
        if name == "all" {
            self.0 = [number; ERRORS.len()];
        } else if let Some(place) = ERRORS.iter().position(|known| is_it(known)) {
            self.0[place] = number;
        } else {
            let alike = |known: &str| strsim::jaro(&plain(name), &plain(known));
            let nearest = ERRORS.into_iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).unwrap_or(ERRORS[0]);
            return Err(ThresholdError::Name { found: name.to_owned(), nearest });
        }
        Ok(())
    }
}

/// What is wrong with a link, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// It was down at last.
    Down,
    /// It went down more than once.
    Flapping,
    /// It is slower than it was, or than it should be by the net file.
    Degraded,
    /// Its ends tell of different widths or speeds.
    Mismatch,
    /// It went down, and is up again.
    WasDown,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Flapping => "flapping",
            Self::Degraded => "degraded",
            Self::Mismatch => "ends differ",
            Self::WasDown => "was down",
        }
    }
}

/// A port that has to be looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Bad<'a> {
    /// Which.
    pub key: Key,
    /// What it did.
    pub seen: &'a Seen,
    /// What is wrong with its link, if anything.
    pub state: Option<State>,
    /// The places in [`ERRORS`] of the counters that moved by more than their thresholds.
    pub counters: Vec<usize>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors<'a> {
    /// Links that are not right come first, by how bad it is; then those with most errors.
    pub bad: Vec<Bad<'a>>,
    /// Ports in all.
    pub ports: usize,
    /// Ports with counters that moved, but none by more than its threshold.
    pub below: usize,
    /// Ports with a counter that is full: it cannot tell any more.
    pub full: usize,
    /// Ports that never answered.
    pub silent: usize,
}

impl<'a> Errors<'a> {
    /// Looks at all ports.
    pub fn of(ports: &'a BTreeMap<Key, Seen>, thresholds: &Thresholds) -> Self {
        let mut found = Self { bad: Vec::new(), ports: ports.len(), below: 0, full: 0, silent: 0 };
        for (key, seen) in ports {
            let moved = |place: &usize| seen.errors[*place].map_or(0, |moved| moved.by);
            let counters: Vec<usize> = (0..ERRORS.len()).filter(|place| moved(place) > thresholds.0[*place]).collect();
            let peer = seen.peer.and_then(|peer| ports.get(&peer));
            let state = state(seen, peer);
            found.silent += usize::from(seen.records.1 == 0);
            found.full += usize::from(seen.errors.iter().flatten().any(|moved| moved.by == 0 && moved.at_least));
            if state.is_some() || !counters.is_empty() {
                found.bad.push(Bad { key: *key, seen, state, counters });
            } else {
                found.below += usize::from((0..ERRORS.len()).any(|place| moved(&place) > 0));
            }
        }
        // Those without a state come last; equals stay in the order of their GUIDs.
        found.bad.sort_by_key(|bad| (bad.state.is_none(), bad.state, std::cmp::Reverse(bad.seen.error_sum())));
        found
    }

    /// The table, and what was left out of it.
    pub fn told(&self) -> String {
        let mut text = String::new();
        let links = self.bad.iter().filter(|bad| bad.state.is_some()).count();
        let counting = self.bad.iter().filter(|bad| !bad.counters.is_empty()).count();
        let _ = writeln!(text, "{} ports: {counting} with errors, {links} with a link that is or was not right", self.ports);
        if !self.bad.is_empty() {
            let mut table = table::new();
            table.set_header(["state", "port", "to", "link", "counter", "by", "that is", "now"]);
            table.add_rows(self.bad.iter().flat_map(Bad::rows));
            let _ = writeln!(text, "\n{}", table::show(table, &[5, 6, 7]));
        }
        let mut notes = Vec::new();
        if self.bad.iter().any(|bad| bad.counters.iter().any(|place| bad.seen.errors[*place].is_some_and(|moved| moved.at_least))) {
            notes.push("\u{2265}: somebody cleared the counter in between, or it is full".to_owned());
        }
        if self.silent > 0 {
            notes.push(format!("ports that never answered, of which nothing is known: {}", self.silent));
        }
        if self.below > 0 {
            let ports = if self.below == 1 { "1 more port" } else { &format!("{} more ports", self.below) };
            notes.push(format!("{ports} with counters that moved by no more than their thresholds"));
        }
        if self.full > 0 {
            notes.push(format!(
                "ports with a counter that was full all the time and cannot tell any more until it is cleared: {}",
                self.full
            ));
        }
        if !notes.is_empty() {
            let _ = writeln!(text, "\n{}", notes.join("\n"));
        }
        text
    }
}

/// What is wrong with a link, by one of its ports.
fn state(seen: &Seen, peer: Option<&Seen>) -> Option<State> {
    let changes = &seen.changes;
    let downs = changes.downs.max(seen.errors[0].map_or(0, |moved| moved.by));
    let differs = |peer: &Seen| seen.gbps().zip(peer.gbps()).is_some_and(|(own, its)| own < its);
    if changes.is_down() {
        Some(State::Down)
    } else if downs > 1 || changes.links > 2 {
        Some(State::Flapping)
    } else if seen.gbps().is_some_and(|gbps| gbps < seen.fastest_gbps) {
        Some(State::Degraded)
    } else if peer.is_some_and(differs) {
        Some(State::Mismatch)
    } else if downs == 1 {
        Some(State::WasDown)
    } else {
        None
    }
}

impl Bad<'_> {
    /// The port, and below it a line for each counter.
    fn rows(&self) -> Vec<[String; 8]> {
        let seen = self.seen;
        let mut what: Vec<[String; 4]> = self.counters.iter().filter_map(|place| counter(seen, *place)).collect();
        if what.is_empty() {
            what.push(["".into(), "".into(), "".into(), "".into()]);
        }
        let head = [
            self.state.map_or("", State::as_str).to_owned(),
            named(&seen.node, self.key),
            seen.peer.map_or_else(String::new, |peer| named(&seen.peer_name, peer)),
            self.rate(),
        ];
        let rows = what.into_iter().enumerate().map(|(line, [what, by, rate, now])| {
            let [state, port, peer, link] = if line == 0 { head.clone() } else { Default::default() };
            [state, port, peer, link, what, by, rate, now]
        });
        rows.collect()
    }

    /// Width and speed, and what they should be; how often it was down.
    fn rate(&self) -> String {
        let seen = self.seen;
        let mut rate = Printable(&seen.link).to_string();
        if seen.gbps().is_some_and(|gbps| gbps < seen.fastest_gbps) {
            let _ = write!(rate, ", was {}", Printable(&seen.fastest));
        }
        match seen.changes.downs {
            0 => {}
            1 => rate += ", down once",
            downs => rate += &format!(", down {downs} times"),
        }
        rate
    }
}

/// What a counter did: its name, by how much it moved, how fast, what it is now.
fn counter(seen: &Seen, place: usize) -> Option<[String; 4]> {
    let moved = seen.errors[place]?;
    let is_detail = DETAILS.iter().any(|range| range.contains(&place));
    let name = if is_detail { format!("  {}", ERRORS[place]) } else { ERRORS[place].to_owned() };
    let by = if moved.at_least { format!("\u{2265} {}", moved.by) } else { moved.by.to_string() };
    Some([name, by, rate(moved.by, seen.seconds()), moved.last.to_string()])
}

/// A number of events in a time, by the shortest unit of time in which it is at least one.
fn rate(events: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return String::new();
    }
    let a_second = events as f64 / seconds;
    let units = [("s", 1.0), ("min", 60.0), ("h", 3600.0)];
    let (unit, length) = units.into_iter().find(|(_, length)| a_second * length >= 1.0).unwrap_or(("day", 86400.0));
    let rate = a_second * length;
    if rate >= 100.0 { format!("{rate:.0}/{unit}") } else { format!("{rate:.1}/{unit}") }
}

#[cfg(test)]
mod tests {
    use super::super::ports::Ports;
    use super::super::ports::tests::{event, fold, port};
    use super::*;
    use ibnet::types::{Guid, PortNum};

    /// Ten seconds of a leaf: port 1 counts errors, port 2 is down, port 3 lost lanes, port 4 is well, port 5 flaps, port 6 relays, port 7 is silent.
    fn ports() -> BTreeMap<Key, Seen> {
        let mut lines = Vec::new();
        for slot in [10, 15, 20] {
            let one = |number, rest: &[(&str, serde_json::Value)]| {
                port(slot, (1, number), "leaf", (0x100 + u64::from(number), 1, "n\u{1b}[2J"), rest)
            };
            lines.push(one(
                1,
                &[
                    ("symbol_error_counter", (slot * 3).into()),
                    ("port_xmit_discards", (slot * 100).into()),
                    ("port_sw_hoq_lifetime_limit_discards", (slot * 50).into()),
                ],
            ));
            lines.push(one(2, &[("symbol_error_counter", 65535.into()), ("saturated", ["symbol_error_counter"].into())]));
            lines.push(one(3, &[("link", if slot < 15 { "4xEDR" } else { "1xEDR" }.into())]));
            lines.push(one(4, &[("port_rcv_errors", 7.into())]));
            lines.push(one(5, &[("link_downed_counter", (slot / 5).into())]));
            lines.push(one(7, &[("status", "timeout".into())]));
            lines.push(one(6, &[("port_rcv_switch_relay_errors", slot.into())]));
        }
        lines.extend([
            event(12, (1, 2), "link_down", "down"),
            event(13, (1, 5), "link_down", "down"),
            event(14, (1, 5), "link_up", "active"),
        ]);
        fold(Ports::with_bins(1), &lines).seen()
    }

    #[test]
    fn links_that_are_not_right_come_first_then_those_with_most_errors() {
        let ports = ports();
        let errors = Errors::of(&ports, &Thresholds::default());
        let found: Vec<_> = errors.bad.iter().map(|bad| (bad.key.1.0, bad.state)).collect();
        assert_eq!(found, [(2, Some(State::Down)), (5, Some(State::Flapping)), (3, Some(State::Degraded)), (1, None)]);
        assert_eq!((errors.ports, errors.below, errors.full, errors.silent), (7, 1, 1, 1));
        assert_eq!(errors.bad[3].seen.error_sum(), 30 + 1000, "a detail is told by another one");
    }

    #[test]
    fn the_table_tells_both_ends_rates_and_what_was() {
        let ports = ports();
        let text = Errors::of(&ports, &Thresholds::default()).told();
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {text}"));
        let words = |row: &str| row.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(row("down")), ["down", "leaf port 2", r"n\u{1b}[2J port 1", "4xEDR, down once"]);
        assert_eq!(words(row("degraded"))[3], "1xEDR, was 4xEDR");
        let symbols = text.lines().find(|line| line.contains("symbol_error_counter")).unwrap();
        assert_eq!(words(symbols)[2..], ["4xEDR", "symbol_error_counter", "30", "3.0/s", "60"]);
        let hoq = text.lines().find(|line| line.contains("hoq")).unwrap();
        assert_eq!(words(hoq), ["port_sw_hoq_lifetime_limit_discards", "500", "50.0/s", "1000"], "below its port and its counter");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn thresholds_are_set_by_any_name_of_a_counter() {
        let mut thresholds = Thresholds::default();
        for (text, place) in [
            ("symbol_error_counter=30", 2),
            ("SymbolErrorCounter = 30", 2),
            ("PortXmitDiscards=1000", 14),
            ("port_sw_hoq_lifetime_limit_discards=500", 18),
        ] {
            thresholds.set(text).expect("a counter");
            assert!(thresholds.0[place] >= 30, "{text}");
        }
        let ports = ports();
        assert!(Errors::of(&ports, &thresholds).bad.iter().all(|bad| bad.state.is_some()), "30 is not more than 30");
        thresholds.set("all=0").expect("all of them");
        assert_eq!(Errors::of(&ports, &thresholds).below, 0);
        assert_eq!(thresholds.set("symbols=1"), Err(ThresholdError::Name { found: "symbols".to_owned(), nearest: "symbol_error_counter" }));
        for text in ["symbol_error_counter", "symbol_error_counter=-1", "=", ""] {
            assert!(thresholds.set(text).is_err(), "{text}");
        }
    }

    #[test]
    fn who_is_slower_than_its_peer_is_told() {
        let lines =
            [port(1, (1, 1), "leaf", (0x101, 1, "n1"), &[("link", "4xQDR".into())]), port(1, (0x101, 1), "n1", (1, 1, "leaf"), &[])];
        let ports = fold(Ports::with_bins(1), &lines).seen();
        let errors = Errors::of(&ports, &Thresholds::default());
        assert_eq!(errors.bad.iter().map(|bad| (bad.key, bad.state)).collect::<Vec<_>>(), [((Guid(1), PortNum(1)), Some(State::Mismatch))]);
    }

    #[test]
    fn a_rate_is_told_by_a_unit_that_people_can_count() {
        let told: Vec<_> =
            [(0, 1.0), (500, 1.0), (30, 10.0), (1, 10.0), (1, 600.0), (1, 86400.0)].map(|(events, seconds)| rate(events, seconds)).into();
        assert_eq!(told, ["0.0/day", "500/s", "3.0/s", "6.0/min", "6.0/h", "1.0/day"]);
    }
}
