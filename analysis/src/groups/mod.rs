//! Groups of hosts, such as storage targets: `storage=oss*,mds*`.
//!
//! A group has rows in heat maps ([`RowKind::Group`](crate::heat::order::RowKind::Group)), and
//! [`traffic`] evaluates its traffic. If several groups contain a host, it belongs to the first
//! of them.

use std::str::FromStr;

use ibnet_record::types::{ParseError, Printable};

use crate::error::AnalysisError;
use crate::hosts::Hosts;

pub mod traffic;

/// A named set of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// The hosts.
    pub hosts: Hosts,
    /// The host list as it was given.
    pub text: String,
}

/// Groups in the order in which they were given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups(Vec<Group>);

impl FromStr for Group {
    type Err = ParseError;

    /// Parses `NAME=HOSTLIST`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            ParseError::new(
                text,
                "NAME=HOSTLIST such as `storage=oss*,mds*`, with a name without blanks and = , [ ] * ?",
            )
        };
        let (name, hosts) = text.split_once('=').ok_or_else(wrong)?;
        if name.is_empty()
            || name
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || "=,[]*?".contains(c))
        {
            return Err(wrong());
        }
        let list = Hosts::parse(hosts).map_err(|_| wrong())?;
        Ok(Self {
            name: name.to_owned(),
            hosts: list,
            text: hosts.to_owned(),
        })
    }
}

impl Groups {
    /// Takes groups in their order.
    ///
    /// # Errors
    /// Returns an error if two groups have the same name.
    pub fn new(groups: Vec<Group>) -> Result<Self, AnalysisError> {
        let twice = groups.iter().enumerate().find(|(index, group)| {
            groups
                .iter()
                .take(*index)
                .any(|other| other.name == group.name)
        });
        match twice {
            Some((_, group)) => Err(AnalysisError::Hosts {
                text: format!("{}={}", group.name, group.text),
                why: format!(
                    "a group `{}` was given before; give each group once, with all its hosts",
                    Printable(&group.name)
                ),
            }),
            None => Ok(Self(groups)),
        }
    }

    /// Returns whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the groups.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.0.iter()
    }

    /// Returns the index of the group of a host, which is given by name or node description.
    pub fn of(&self, node: &str) -> Option<usize> {
        self.0
            .iter()
            .position(|group| group.hosts.contains_node(node))
    }

    /// Returns the hosts of all groups, or `None` if there is no group.
    ///
    /// # Errors
    /// Returns an error if all groups together have too many hosts.
    pub fn hosts(&self) -> Result<Option<Hosts>, AnalysisError> {
        let all: Vec<&str> = self.0.iter().map(|group| &*group.text).collect();
        if all.is_empty() {
            Ok(None)
        } else {
            Hosts::parse(&all.join(",")).map(Some)
        }
    }

    /// Returns the names of the groups for captions.
    pub fn title(&self) -> String {
        let names: Vec<String> = self
            .0
            .iter()
            .map(|group| Printable(&group.name).to_string())
            .collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_belongs_to_the_first_group_with_its_name() {
        let groups = Groups::new(
            ["storage=oss*,mds[1-2]", "rest=*"]
                .map(|text| text.parse().unwrap())
                .to_vec(),
        )
        .unwrap();
        assert_eq!(
            ["oss7 mlx5_0", "mds2", "mds3", ""].map(|node| groups.of(node)),
            [Some(0), Some(0), Some(1), Some(1)]
        );
        assert_eq!(groups.title(), "storage, rest");
        assert!(groups.hosts().unwrap().unwrap().contains_node("mds3"));
        assert_eq!(Groups::default().hosts().unwrap(), None);
    }

    #[test]
    fn malformed_group_is_rejected() {
        for text in ["", "oss*", "=oss*", "a b=oss*", "a=", "a=oss[1-", "a*=oss1"] {
            assert!(text.parse::<Group>().is_err(), "{text}");
        }
        let twice = ["a=n1", "a=n2"].map(|text| text.parse().unwrap()).to_vec();
        assert!(
            Groups::new(twice)
                .unwrap_err()
                .to_string()
                .contains("a group `a` was given before")
        );
    }
}
