//! Separates the names of the two ends of a link.
//!
//! In the plain format the two names are separate. `ibnetdiscover -p`, however, prints `( 'own' -
//! 'remote' )` and escapes nothing. A name such as `core (rack 3) - 'A' sw 1` can therefore be
//! split at several positions, and this module decides by other lines, in this order:
//!
//! 1. a line of the same GUID with one name (a port without a link), or with only one possible
//!    split;
//! 2. a line of the GUID of the other end, with the same properties;
//! 3. the only own name that is possible in all lines of a GUID.
//!
//! If no rule applies, the text is not split, and its line counts as ambiguous. The links are
//! still correct, because they do not depend on names.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::Guid;
use memchr::memchr_iter;
use rustc_hash::FxHashMap;

/// The text between two names.
const SEPARATOR: &str = "' - '";

/// The names at the end of a line, before their separation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawName<'a> {
    /// The name of a port without a link.
    Alone(&'a str),
    /// The text between `( '` and `' )`.
    Pair(&'a str),
    /// Any other text, because the line was truncated.
    Broken(&'a str),
    /// The names of this end and of the other end in the plain format. The second name is absent
    /// if the line was truncated.
    Separate(&'a str, Option<&'a str>),
}

/// The GUIDs and names of a line.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Port GUID of this end.
    pub own: Guid,
    /// Port GUID of the other end. `None` without a link.
    pub peer: Option<Guid>,
    /// Names before their separation.
    pub raw: RawName<'a>,
}

/// The separated names of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Separated {
    /// Name of this end.
    pub own: String,
    /// Name of the other end. Empty without a link.
    pub peer: String,
    /// Whether the names could not be separated, so that `own` or `peer` is the whole text.
    pub ambiguous: bool,
}

impl<'a> RawName<'a> {
    /// Parses a name in single quotes, or returns `None` without quotes. Blanks within the quotes
    /// belong to the name.
    pub fn alone(text: &'a str) -> Option<Self> {
        let name = text.trim_end().strip_prefix('\'')?.strip_suffix('\'')?;
        Some(Self::Alone(name))
    }

    /// Parses the names of a link, or a part of them.
    pub fn pair(text: &'a str) -> Self {
        let trimmed = text.trim();
        trimmed
            .strip_prefix("( '")
            .and_then(|rest| rest.strip_suffix("' )"))
            .map_or(Self::Broken(trimmed), Self::Pair)
    }

    /// Returns all possible splits of a pair.
    fn splits(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pair = if let Self::Pair(pair) = self {
            pair
        } else {
            ""
        };
        // Occurrences may overlap: `a' - ' - 'b` has two splits.
        memchr_iter(b'\'', pair.as_bytes())
            .filter(move |&at| pair[at..].starts_with(SEPARATOR))
            .map(move |at| (&pair[..at], &pair[at + SEPARATOR.len()..]))
    }
}

/// The names that are certain, by GUID of the device.
type Known<'a> = FxHashMap<Guid, &'a str>;

/// Separates the names of all lines. The result has the order of the lines.
pub fn separate<'a>(entries: impl Iterator<Item = Entry<'a>> + Clone) -> Vec<Separated> {
    let known = known_names(entries.clone());
    entries.map(|entry| separate_one(entry, &known)).collect()
}

fn separate_one(entry: Entry<'_>, known: &Known<'_>) -> Separated {
    let name_of = |guid: Option<Guid>| guid.and_then(|guid| known.get(&guid)).copied();
    let (own, peer) = match entry.raw {
        RawName::Alone(name) => (Some(name), Some("")),
        RawName::Separate(own, peer) => (Some(own), peer.or_else(|| name_of(entry.peer))),
        RawName::Pair(_) => match split(entry, known) {
            Some((own, peer)) => (Some(own), Some(peer)),
            None => (name_of(Some(entry.own)), name_of(entry.peer)),
        },
        RawName::Broken(_) => (name_of(Some(entry.own)), name_of(entry.peer)),
    };
    let raw = match entry.raw {
        RawName::Alone(raw) | RawName::Pair(raw) | RawName::Broken(raw) => raw,
        RawName::Separate(..) => "",
    };
    let ambiguous = own.is_none() || peer.is_none();
    Separated {
        own: bounded(own.unwrap_or(raw)),
        peer: bounded(peer.unwrap_or(raw)),
        ambiguous,
    }
}

/// Max length of a name in bytes. A device has at most 64 bytes; a name map has no limit.
const LONGEST: usize = 256;

/// Returns a name of at most [`LONGEST`] bytes. A shortened name ends with an ellipsis.
pub(super) fn bounded(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let mut cut = name[..name.floor_char_boundary(LONGEST - '…'.len_utf8())].to_owned();
    cut.push('…');
    cut
}

/// Returns the split of a pair that agrees with the known names, if there is only one.
fn split<'a>(entry: Entry<'a>, known: &Known<'a>) -> Option<(&'a str, &'a str)> {
    only(entry.raw.splits()).or_else(|| {
        let own = known.get(&entry.own);
        let peer = entry.peer.and_then(|guid| known.get(&guid));
        only(entry.raw.splits().filter(|split| own == Some(&split.0)))
            .or_else(|| only(entry.raw.splits().filter(|split| peer == Some(&split.1))))
    })
}

/// Returns the names that are certain, by GUID. Rules 1 and 2 are applied until they give no new
/// name, then rule 3.
fn known_names<'a>(entries: impl Iterator<Item = Entry<'a>> + Clone) -> Known<'a> {
    let mut known = Known::default();
    for entry in entries.clone() {
        if let RawName::Alone(name) | RawName::Separate(name, _) = entry.raw {
            known.entry(entry.own).or_insert(name);
        }
    }
    let apply_to = |known: &mut Known<'a>, entry: Entry<'a>| {
        if let Some((own, peer)) = split(entry, known) {
            known.entry(entry.own).or_insert(own);
            entry.peer.map(|guid| known.entry(guid).or_insert(peer));
        }
    };
    let mut before = known.len();
    // A line with only one possible split gives its names in the first pass, so only the other
    // lines need more passes.
    let mut open = Vec::new();
    for entry in entries.clone() {
        apply_to(&mut known, entry);
        if matches!(entry.raw, RawName::Pair(_)) && only(entry.raw.splits()).is_none() {
            open.push(entry);
        }
    }
    loop {
        if known.len() == before {
            known.extend(agreed(open.iter().copied(), &known));
            if known.len() == before {
                return known;
            }
        }
        before = known.len();
        open.iter().for_each(|entry| apply_to(&mut known, *entry));
    }
}

/// Applies rule 3: the own name that is possible in all lines of a GUID, if there is only one.
fn agreed<'a>(
    entries: impl Iterator<Item = Entry<'a>>,
    known: &Known<'a>,
) -> BTreeMap<Guid, &'a str> {
    let mut possible: BTreeMap<Guid, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries
        .filter(|entry| matches!(entry.raw, RawName::Pair(_)) && !known.contains_key(&entry.own))
    {
        let here: BTreeSet<&str> = entry.raw.splits().map(|(own, _)| own).collect();
        possible
            .entry(entry.own)
            .and_modify(|so_far| so_far.retain(|name| here.contains(name)))
            .or_insert(here);
    }
    possible
        .into_iter()
        .filter_map(|(guid, names)| only(names.into_iter()).map(|name| (guid, name)))
        .collect()
}

/// Returns the item if there is exactly one, otherwise `None`.
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
        Entry {
            own: Guid(own),
            peer: Some(Guid(peer)),
            raw: RawName::pair(raw),
        }
    }

    fn names(entries: &[Entry<'_>]) -> Vec<(String, String, bool)> {
        separate(entries.iter().copied())
            .into_iter()
            .map(|name| (name.own, name.peer, name.ambiguous))
            .collect()
    }

    fn separated(own: &str, peer: &str) -> (String, String, bool) {
        (own.to_owned(), peer.to_owned(), false)
    }

    #[test]
    fn separator_within_a_name_is_no_split_point() {
        let raw = format!("( 'stage97 mlx4_0' - '{ODD}' )");
        assert_eq!(
            names(&[entry(1, 2, &raw)]),
            [separated("stage97 mlx4_0", ODD)]
        );
    }

    #[test]
    fn port_without_a_link_gives_the_name() {
        let raw = format!("( '{TWICE}' - 'c' )");
        let down = Entry {
            own: Guid(1),
            peer: None,
            raw: RawName::alone("'a' - 'b'").expect("quoted"),
        };
        assert_eq!(names(&[entry(1, 2, &raw), down])[0], separated(TWICE, "c"));
    }

    #[test]
    fn unambiguous_line_of_the_other_end_gives_the_name() {
        let (there, elsewhere) = (format!("( '{TWICE}' - 'c' )"), "( 'c' - 'd' )".to_owned());
        assert_eq!(
            names(&[entry(1, 2, &there), entry(2, 3, &elsewhere)])[0],
            separated(TWICE, "c")
        );
    }

    #[test]
    fn only_name_possible_in_all_lines_is_chosen() {
        let (first, second) = ("( 'a' - 'b' - 'x' - 'y' )", "( 'a' - 'b' - 'z' )");
        let third = "( 'a' - 'b' - 'b' - 'y' )";
        // Possible own names: {a, a' - 'b, a' - 'b' - 'x}, {a, a' - 'b}, {a, a' - 'b, ...}. Two are
        // left.
        assert!(
            names(&[entry(1, 2, first), entry(1, 3, second), entry(1, 4, third)])
                .iter()
                .all(|name| name.2)
        );
        // A line with only one possible split decides all others.
        let fourth = "( 'a' - 'w' )";
        let all = names(&[
            entry(1, 2, first),
            entry(1, 3, second),
            entry(1, 4, third),
            entry(1, 5, fourth),
        ]);
        assert_eq!(all[1], separated("a", "b' - 'z"));
        assert!(all.iter().all(|name| !name.2 && name.0 == "a"));
    }

    #[test]
    fn long_name_is_shortened() {
        let long = "é".repeat(1000);
        let kept = &separate(
            [Entry {
                own: Guid(1),
                peer: None,
                raw: RawName::Alone(&long),
            }]
            .into_iter(),
        )[0]
        .own;
        assert!(kept.len() <= LONGEST && kept.ends_with('…') && kept.starts_with("éé"));
    }

    #[test]
    fn ambiguous_names_stay_in_one_piece() {
        assert_eq!(
            names(&[entry(1, 2, "( 'a' - 'b' - 'c' )")]),
            [("a' - 'b' - 'c".to_owned(), "a' - 'b' - 'c".to_owned(), true)]
        );
        assert_eq!(
            names(&[entry(1, 2, "( 'a' - 'b")]),
            [("( 'a' - 'b".to_owned(), "( 'a' - 'b".to_owned(), true)]
        );
    }

    #[test]
    fn blanks_and_empty_names_are_kept() {
        assert_eq!(
            names(&[entry(
                1,
                2,
                " ( ' MT4129 ConnectX7   Mellanox Technologies ' - '' )"
            )]),
            [separated(" MT4129 ConnectX7   Mellanox Technologies ", "")]
        );
        assert_eq!(RawName::alone("''"), Some(RawName::Alone("")));
        assert_eq!(
            RawName::alone("' spine '  "),
            Some(RawName::Alone(" spine "))
        );
        assert_eq!(RawName::alone("spine"), None);
    }
}
