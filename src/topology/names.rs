//! Which name is whose: the names of a link's two ends.
//!
//! The plain format tells them apart. With `-p` the tool prints `( 'own' - 'remote' )` and escapes nothing, so a name such as `core (rack 3) - 'A' sw 1` can be split in
//! more than one place. The other lines help, in this order:
//!
//! 1. a line of the same GUID in which the name stands alone (a port without a link), or which can be split in one way only;
//! 2. the same for the GUID of the other end;
//! 3. the one own name that is possible in all lines of a GUID.
//!
//! What none of these settles is kept as it stands and said to be ambiguous. Links need no names, so nothing else depends on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::Guid;

const BETWEEN: &str = "' - '";

/// The end of a line, where the names are, before anything is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawName<'a> {
    /// One name, of a port without a link.
    Alone(&'a str),
    /// What stands between `( '` and `' )`.
    Pair(&'a str),
    /// Neither: the line was cut.
    Broken(&'a str),
    /// The name of this end and, if the line was not cut before it, of the other: the plain format tells them apart.
    Told(&'a str, Option<&'a str>),
}

/// What [`settle`] has to know of a line.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The port GUID of this end.
    pub own: Guid,
    /// The port GUID of the other end, if there is a link.
    pub peer: Option<Guid>,
    /// The names as they stand.
    pub raw: RawName<'a>,
}

/// The names of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The name of this end.
    pub own: String,
    /// The name of the other end; empty if there is none.
    pub peer: String,
    /// Whether nothing told where the names part.
    pub ambiguous: bool,
}

impl<'a> RawName<'a> {
    /// A name in single quotes; `None` if it is not. Blanks within the quotes belong to the name.
    pub fn alone(text: &'a str) -> Option<Self> {
        let name = text.trim_end().strip_prefix('\'')?.strip_suffix('\'')?;
        Some(Self::Alone(name))
    }

    /// The pair of a link's names, or what is left of it.
    pub fn pair(text: &'a str) -> Self {
        let trimmed = text.trim();
        trimmed.strip_prefix("( '").and_then(|rest| rest.strip_suffix("' )")).map_or(Self::Broken(trimmed), Self::Pair)
    }

    /// All the ways to split a pair.
    fn splits(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pair = if let Self::Pair(pair) = self { pair } else { "" };
        // Overlapping occurrences count: `a' - ' - 'b` can be split twice.
        (0..pair.len())
            .filter(move |&at| pair.is_char_boundary(at) && pair[at..].starts_with(BETWEEN))
            .map(move |at| (&pair[..at], &pair[at + BETWEEN.len()..]))
    }
}

/// Tells the names of all lines of a file, in their order.
pub fn settle<'a>(entries: impl Iterator<Item = Entry<'a>> + Clone) -> Vec<Settled> {
    let known = known_names(entries.clone());
    entries.map(|entry| settle_one(entry, &known)).collect()
}

fn settle_one(entry: Entry<'_>, known: &BTreeMap<Guid, &str>) -> Settled {
    let name_of = |guid: Option<Guid>| guid.and_then(|guid| known.get(&guid)).copied();
    let (own, peer) = match entry.raw {
        RawName::Alone(name) => (Some(name), Some("")),
        RawName::Told(own, peer) => (Some(own), peer.or_else(|| name_of(entry.peer))),
        RawName::Pair(_) => match decide(entry, known) {
            Some((own, peer)) => (Some(own), Some(peer)),
            None => (name_of(Some(entry.own)), name_of(entry.peer)),
        },
        RawName::Broken(_) => (name_of(Some(entry.own)), name_of(entry.peer)),
    };
    let raw = match entry.raw {
        RawName::Alone(raw) | RawName::Pair(raw) | RawName::Broken(raw) => raw,
        RawName::Told(..) => "",
    };
    let ambiguous = own.is_none() || peer.is_none();
    Settled { own: bounded(own.unwrap_or(raw)), peer: bounded(peer.unwrap_or(raw)), ambiguous }
}

/// The most of a name that is kept, in octets: a device gives 64 at most, a name map whatever somebody wrote.
const LONGEST: usize = 256;

/// A name that is not longer than [`LONGEST`]; one that was cut ends with an ellipsis.
pub(super) fn bounded(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let mut cut = name[..name.floor_char_boundary(LONGEST - '…'.len_utf8())].to_owned();
    cut.push('…');
    cut
}

/// The split of a pair that the known names leave.
fn decide<'a>(entry: Entry<'a>, known: &BTreeMap<Guid, &'a str>) -> Option<(&'a str, &'a str)> {
    let own = known.get(&entry.own);
    let peer = entry.peer.and_then(|guid| known.get(&guid));
    only(entry.raw.splits())
        .or_else(|| only(entry.raw.splits().filter(|split| own == Some(&split.0))))
        .or_else(|| only(entry.raw.splits().filter(|split| peer == Some(&split.1))))
}

/// Names that are certain, by GUID: those of rules 1 and 2, until nothing new follows from them, then those of rule 3.
fn known_names<'a>(entries: impl Iterator<Item = Entry<'a>> + Clone) -> BTreeMap<Guid, &'a str> {
    let mut known = BTreeMap::new();
    for entry in entries.clone() {
        if let RawName::Alone(name) | RawName::Told(name, _) = entry.raw {
            known.entry(entry.own).or_insert(name);
        }
    }
    loop {
        let before = known.len();
        for entry in entries.clone() {
            if let Some((own, peer)) = decide(entry, &known) {
                known.entry(entry.own).or_insert(own);
                entry.peer.map(|guid| known.entry(guid).or_insert(peer));
            }
        }
        if known.len() > before {
            continue;
        }
        known.extend(agreed(entries.clone(), &known));
        if known.len() == before {
            return known;
        }
    }
}

/// Rule 3: the own name that all lines of a GUID can have, where there is just one.
fn agreed<'a>(entries: impl Iterator<Item = Entry<'a>>, known: &BTreeMap<Guid, &'a str>) -> BTreeMap<Guid, &'a str> {
    let mut possible: BTreeMap<Guid, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries.filter(|entry| matches!(entry.raw, RawName::Pair(_)) && !known.contains_key(&entry.own)) {
        let here: BTreeSet<&str> = entry.raw.splits().map(|(own, _)| own).collect();
        possible.entry(entry.own).and_modify(|so_far| so_far.retain(|name| here.contains(name))).or_insert(here);
    }
    possible.into_iter().filter_map(|(guid, names)| only(names.into_iter()).map(|name| (guid, name))).collect()
}

/// The only item, if there is exactly one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "core (rack 3) - 'A' sw 1";
    const TWICE: &str = "a' - 'b";

    fn entry<'a>(own: u64, peer: u64, raw: &'a str) -> Entry<'a> {
        Entry { own: Guid(own), peer: Some(Guid(peer)), raw: RawName::pair(raw) }
    }

    fn names(entries: &[Entry<'_>]) -> Vec<(String, String, bool)> {
        settle(entries.iter().copied()).into_iter().map(|name| (name.own, name.peer, name.ambiguous)).collect()
    }

    fn settled(own: &str, peer: &str) -> (String, String, bool) {
        (own.to_owned(), peer.to_owned(), false)
    }

    #[test]
    fn a_dash_and_quotes_in_a_name_are_no_split_of_their_own() {
        let raw = format!("( 'stage97 mlx4_0' - '{ODD}' )");
        assert_eq!(names(&[entry(1, 2, &raw)]), [settled("stage97 mlx4_0", ODD)]);
    }

    #[test]
    fn a_port_without_a_link_tells_the_name() {
        let raw = format!("( '{TWICE}' - 'c' )");
        let down = Entry { own: Guid(1), peer: None, raw: RawName::alone("'a' - 'b'").expect("quoted") };
        assert_eq!(names(&[entry(1, 2, &raw), down])[0], settled(TWICE, "c"));
    }

    #[test]
    fn an_unambiguous_line_of_the_other_end_tells_the_name() {
        let (there, elsewhere) = (format!("( '{TWICE}' - 'c' )"), "( 'c' - 'd' )".to_owned());
        assert_eq!(names(&[entry(1, 2, &there), entry(2, 3, &elsewhere)])[0], settled(TWICE, "c"));
    }

    #[test]
    fn the_name_that_all_lines_of_a_guid_can_have() {
        let (first, second) = ("( 'a' - 'b' - 'x' - 'y' )", "( 'a' - 'b' - 'z' )");
        let third = "( 'a' - 'b' - 'b' - 'y' )";
        // Own names possible: {a, a' - 'b, a' - 'b' - 'x}, {a, a' - 'b}, {a, a' - 'b, ...}: two are left, so nothing is known.
        assert!(names(&[entry(1, 2, first), entry(1, 3, second), entry(1, 4, third)]).iter().all(|name| name.2));
        // With a line that can be split in one way only, all are known.
        let fourth = "( 'a' - 'w' )";
        let all = names(&[entry(1, 2, first), entry(1, 3, second), entry(1, 4, third), entry(1, 5, fourth)]);
        assert_eq!(all[1], settled("a", "b' - 'z"));
        assert!(all.iter().all(|name| !name.2 && name.0 == "a"));
    }

    #[test]
    fn a_name_has_an_end() {
        let long = "é".repeat(1000);
        let kept = &settle([Entry { own: Guid(1), peer: None, raw: RawName::Alone(&long) }].into_iter())[0].own;
        assert!(kept.len() <= LONGEST && kept.ends_with('…') && kept.starts_with("éé"));
    }

    #[test]
    fn what_cannot_be_told_is_kept_as_it_stands() {
        assert_eq!(names(&[entry(1, 2, "( 'a' - 'b' - 'c' )")]), [("a' - 'b' - 'c".to_owned(), "a' - 'b' - 'c".to_owned(), true)]);
        assert_eq!(names(&[entry(1, 2, "( 'a' - 'b")]), [("( 'a' - 'b".to_owned(), "( 'a' - 'b".to_owned(), true)]);
    }

    #[test]
    fn blanks_and_emptiness_are_part_of_a_name() {
        assert_eq!(
            names(&[entry(1, 2, " ( ' MT4129 ConnectX7   Mellanox Technologies ' - '' )")]),
            [settled(" MT4129 ConnectX7   Mellanox Technologies ", "")]
        );
        assert_eq!(RawName::alone("''"), Some(RawName::Alone("")));
        assert_eq!(RawName::alone("' spine '  "), Some(RawName::Alone(" spine ")));
        assert_eq!(RawName::alone("spine"), None);
    }
}
