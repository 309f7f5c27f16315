//! Host lists, and the host name in a node description.

use std::collections::BTreeSet;

use ibnet::hostlist::{HostList, MAX_HOSTS};

use crate::error::AnalysisError;

/// A set of host names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Parses a host list such as `node[001-012],admin1`.
    ///
    /// # Errors
    /// Returns an error if the list is malformed, empty, or has more than 100,000 names.
    pub fn parse(text: &str) -> Result<Self, AnalysisError> {
        let wrong = |why: String| AnalysisError::Hosts { text: text.to_owned(), why };
        let list = HostList::parse_bounded(text, MAX_HOSTS).map_err(|error| wrong(error.to_string()))?;
        if list.count() == 0 { Err(wrong("it has no host".to_owned())) } else { Ok(Self(list.names().collect())) }
    }

    /// Returns whether the first word of a node description is one of these hosts.
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
