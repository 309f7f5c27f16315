//! Which hosts are meant: a HOSTLIST as administrators type it, and the host that a node description begins with.

use std::collections::BTreeSet;

use super::error::ViewError;
use crate::hostlist::{HostList, MAX_HOSTS};

/// Some hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// Reads `node[001-012],admin1`.
    ///
    /// # Errors
    /// When it is no such list, names nobody, or far too many.
    pub fn parse(text: &str) -> Result<Self, ViewError> {
        let wrong = |why: &str| ViewError::Hosts { text: text.to_owned(), why: why.to_owned() };
        let list = HostList::parse_bounded(text, MAX_HOSTS).map_err(|error| wrong(&error.to_string()))?;
        if list.count() == 0 { Err(wrong("no host is named")) } else { Ok(Self(list.names().collect())) }
    }

    /// Whether a node is on one of them, by the first word of its description.
    pub fn has(&self, node: &str) -> bool {
        self.0.contains(host_of(node))
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// The host of an adapter: the first word of its description.
pub fn host_of(node: &str) -> &str {
    node.split_whitespace().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_hosts_by_the_first_word_of_their_adapters() {
        let hosts = Hosts::parse("node[08-11],admin1").unwrap();
        assert_eq!(hosts.iter().collect::<Vec<_>>(), ["admin1", "node08", "node09", "node10", "node11"]);
        assert!(hosts.has("node09 mlx5_0") && !hosts.has("node9 mlx5_0") && !hosts.has(""));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "node[1-", "node[1-999999999999]", "n[1-1000]x[1-1000]", "@group"] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}
