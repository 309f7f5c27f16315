//! Host lists, and the host name in a node description.

use std::collections::BTreeSet;

use nodeset::{IdRangeList, NodeSet, Parser};

use crate::error::AnalysisError;

/// Largest number of names in a list. No fabric has so many hosts, so a longer list is a typing error.
const MOST_NAMES: u128 = 100_000;

/// A set of host names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Parses a host list such as `node[001-012],admin1`.
    ///
    /// # Errors
    /// Returns an error if the list is malformed, empty, or has more than 100,000 names.
    pub fn parse(text: &str) -> Result<Self, AnalysisError> {
        let wrong = |why: &str| AnalysisError::Hosts { text: text.to_owned(), why: why.to_owned() };
        if text.contains(['@', '!', '&', '^']) {
            return Err(wrong("groups and set operations are not known here"));
        }
        if width(text) > MOST_NAMES {
            return Err(wrong("it stands for more than 100000 hosts"));
        }
        let set: NodeSet<IdRangeList> =
            Parser::default().parse(text).map_err(|_| wrong("expected names and ranges such as node[001-120,130]"))?;
        let hosts: BTreeSet<String> = set.iter().collect();
        if hosts.is_empty() { Err(wrong("no host is named")) } else { Ok(Self(hosts)) }
    }

    /// Whether the first word of a node description is one of these hosts.
    pub fn contains_node(&self, node: &str) -> bool {
        self.0.contains(host_of(node))
    }

    /// Returns the names in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Returns the host name in a node description: its first word.
pub fn host_of(node: &str) -> &str {
    node.split_whitespace().next().unwrap_or("")
}

/// Returns an upper bound for the number of names, without expanding them.
fn width(text: &str) -> u128 {
    let mut most: u128 = 0;
    let mut word: u128 = 1;
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']') else { break };
        if rest[..open].contains([',', ' ']) {
            most = most.saturating_add(word);
            word = 1;
        }
        let parts = rest[open + 1..open + close].split(',').map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |digits: &str| digits.split('/').next().and_then(|digits| digits.trim().parse::<u128>().ok()).unwrap_or(0);
            number(last).saturating_sub(number(first)).saturating_add(1)
        });
        word = word.saturating_mul(parts.fold(0, u128::saturating_add));
        rest = &rest[open + close + 1..];
    }
    most.saturating_add(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_selects_hosts_by_the_first_word_of_a_description() {
        let hosts = Hosts::parse("node[08-11],admin1").unwrap();
        assert_eq!(hosts.iter().collect::<Vec<_>>(), ["admin1", "node08", "node09", "node10", "node11"]);
        assert!(hosts.contains_node("node09 mlx5_0") && !hosts.contains_node("node9 mlx5_0") && !hosts.contains_node(""));
    }

    #[test]
    fn malformed_or_huge_list_is_rejected() {
        for text in ["", "node[1-", "node[1-999999999999]", "n[1-1000]x[1-1000]", "@group"] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}
