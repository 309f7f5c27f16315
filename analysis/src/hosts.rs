//! Parses host lists, and finds the host name in a node description.

use std::collections::BTreeSet;

use glob::Pattern;
use ibnet::hostlist::{self, HostList, MAX_HOSTS};
use ibnet::types::Printable;

use crate::error::AnalysisError;

/// A set of host names: a list of names, and patterns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts {
    names: BTreeSet<String>,
    patterns: Vec<Pattern>,
}

impl Hosts {
    /// Parses a host list such as `node[001-012],admin1`. A part with `*` (any characters) or `?`
    /// (one character) is a pattern: `oss*`.
    ///
    /// # Errors
    /// Returns an error if the list is malformed, empty, or has more than 100,000 names.
    pub fn parse(text: &str) -> Result<Self, AnalysisError> {
        let wrong = |why: String| AnalysisError::Hosts { text: text.to_owned(), why };
        let is_pattern = |part: &str| part.contains(['*', '?']);
        let (patterns, names): (Vec<_>, Vec<_>) = hostlist::split(text).map(|(_, part)| part).partition(|part| is_pattern(part));
        if let Some(part) = patterns.iter().find(|part| part.contains(['[', ']'])) {
            return Err(wrong(format!("`{}` has both brackets and `*` or `?`", Printable(part))));
        }
        let patterns = patterns.into_iter().map(|part| Pattern::new(part).map_err(|error| wrong(error.msg.to_owned())));
        let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
        // If there is no pattern, the whole text is parsed at once. So the columns in error
        // messages are correct.
        let listed = if patterns.is_empty() { text.to_owned() } else { names.join(",") };
        let list = HostList::parse_bounded(&listed, MAX_HOSTS).map_err(|error| wrong(error.to_string()))?;
        if list.count() == 0 && patterns.is_empty() {
            return Err(wrong("it has no host".to_owned()));
        }
        Ok(Self { names: list.names().collect(), patterns })
    }

    /// Returns whether the first word of a node description is one of these hosts.
    pub fn contains_node(&self, node: &str) -> bool {
        let host = host_of(node);
        self.names.contains(host) || self.patterns.iter().any(|pattern| pattern.matches(host))
    }

    /// Returns the names in alphabetical order, without the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(Pattern::as_str)
    }
}

/// Returns the host name in a node description: its first word.
pub fn host_of(node: &str) -> &str {
    node.split_whitespace().next().unwrap_or("")
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
    fn patterns_and_names_are_mixed() {
        let hosts = Hosts::parse("oss*, mds?,node[1-2]").unwrap();
        assert_eq!(
            (hosts.iter().collect::<Vec<_>>(), hosts.patterns().collect::<Vec<_>>()),
            (vec!["node1", "node2"], vec!["oss*", "mds?"])
        );
        for (node, is_host) in [("oss", true), ("oss12 mlx5_0", true), ("mds1", true), ("mds12", false), ("node2", true), ("node3", false)]
        {
            assert_eq!(hosts.contains_node(node), is_host, "{node}");
        }
    }

    #[test]
    fn malformed_or_huge_list_is_rejected() {
        for text in ["", "node[1-", "node[1-999999999999]", "n[1-1000]x[1-1000]", "@group", "oss[1-2]*", "n!*,x!"] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}
