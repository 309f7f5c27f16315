//! Parses host lists, extracts the host name from a node description, and finds the host that
//! another program (Slurm, Prometheus) calls by a slightly different name.

use std::collections::BTreeSet;

use glob::Pattern;
use ibnet_record::hostlist::{self, HostList, MAX_HOSTS};
use ibnet_record::types::Printable;
use rustc_hash::FxHashMap;

use crate::error::AnalysisError;

/// A set of host names, given by names and patterns.
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
        let wrong = |why: String| AnalysisError::Hosts {
            text: text.to_owned(),
            why,
        };
        let is_pattern = |part: &str| part.contains(['*', '?']);
        let (patterns, names): (Vec<_>, Vec<_>) = hostlist::split(text)
            .map(|(_, part)| part)
            .partition(|part| is_pattern(part));
        if let Some(part) = patterns.iter().find(|part| part.contains(['[', ']'])) {
            return Err(wrong(format!(
                "`{}` has both brackets and `*` or `?`",
                Printable(part)
            )));
        }
        let patterns = patterns
            .into_iter()
            .map(|part| Pattern::new(part).map_err(|error| wrong(error.msg.to_owned())));
        let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
        // Without a pattern the whole text is parsed at once, which keeps the columns in error
        // messages right.
        let listed = if patterns.is_empty() {
            text.to_owned()
        } else {
            names.join(",")
        };
        let list = HostList::parse_bounded(&listed, MAX_HOSTS)
            .map_err(|error| wrong(error.to_string()))?;
        if list.count() == 0 && patterns.is_empty() {
            return Err(wrong("it has no host".to_owned()));
        }
        Ok(Self {
            names: list.names().collect(),
            patterns,
        })
    }

    /// Returns whether the first word of a node description is one of these hosts.
    pub fn contains_node(&self, node: &str) -> bool {
        let host = host_of(node);
        self.names.contains(host) || self.patterns.iter().any(|pattern| pattern.matches(host))
    }

    /// Returns whether the node of a port or the node of its peer is one of these hosts.
    pub fn contains_end(&self, node: &str, peer: Option<&str>) -> bool {
        self.contains_node(node) || peer.is_some_and(|peer| self.contains_node(peer))
    }

    /// Returns the names in alphabetical order, without the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the names and the patterns as a host list.
    pub fn to_list(&self) -> String {
        let names = hostlist::fold(self.iter());
        let names = Some(names.as_str()).filter(|names| !names.is_empty());
        let parts: Vec<&str> = names.into_iter().chain(self.patterns()).collect();
        parts.join(",")
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

/// The hosts of the records, to be found by the names that other programs use for them.
#[derive(Clone, Debug, Default)]
pub struct HostNames {
    names: BTreeSet<String>,
    /// Host names by short form. `None` if several hosts share the short form.
    short: FxHashMap<String, Option<String>>,
}

impl HostNames {
    /// Takes the names of hosts: the first words of node descriptions.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let mut short: FxHashMap<String, Option<String>> = FxHashMap::default();
        for name in &names {
            short
                .entry(short_form(name))
                .and_modify(|known| *known = None)
                .or_insert_with(|| Some(name.clone()));
        }
        Self { names, short }
    }

    /// Returns the host that another program calls `name`. An exactly equal name wins; otherwise
    /// names match if they differ only in case, the domain, a port number after `:`, or the
    /// suffix of a rail such as `-ib0`.
    pub fn find(&self, name: &str) -> Option<&str> {
        let exact = self.names.get(name).map(String::as_str);
        exact.or_else(|| self.short.get(&short_form(name))?.as_deref())
    }

    /// Returns the names in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Returns a host name in lower case, without port number, domain and suffix of a rail.
fn short_form(name: &str) -> String {
    /// Names of interfaces and HCAs that sites append to host names.
    const RAILS: [&str; 7] = ["ib", "ipoib", "opa", "hsn", "mlx", "hfi", "rail"];
    let name = name.trim().to_lowercase();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = name
        .rsplit_once(':')
        .filter(|(_, port)| is_number(port))
        .map_or(&*name, |(name, _)| name);
    // An IPv4 address has no domain.
    let is_address = name.split('.').all(is_number);
    let name = name
        .split_once('.')
        .filter(|_| !is_address)
        .map_or(name, |(name, _)| name);
    let is_rail = |suffix: &str| {
        let letters = suffix.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        RAILS.contains(&letters)
    };
    let host = name
        .rsplit_once('-')
        .filter(|(host, suffix)| !host.is_empty() && is_rail(suffix))
        .map_or(name, |(host, _)| host);
    host.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_find_hosts() {
        let names = HostNames::new(
            [
                "node01",
                "Node02.hpc.example",
                "gpu1-ib0",
                "gpu1-ib1",
                "login-1",
                "a.x",
                "a.y",
            ]
            .map(str::to_owned),
        );
        for (name, host) in [
            ("node01", Some("node01")),
            ("node01:9100", Some("node01")),
            ("NODE01.hpc.example:9100", Some("node01")),
            ("node01-ib0", Some("node01")),
            ("node01-mlx5_1.ib.example", Some("node01")),
            ("node02", Some("Node02.hpc.example")),
            ("login-1", Some("login-1")),
            ("gpu1-ib1", Some("gpu1-ib1")),
            // Two hosts have this short form.
            ("gpu1", None),
            ("a", None),
            ("a.y", Some("a.y")),
            ("node1", None),
            ("10.0.0.1:9100", None),
            ("login", None),
            ("", None),
        ] {
            assert_eq!(names.find(name), host, "{name}");
        }
    }

    #[test]
    fn list_selects_hosts_by_the_first_word_of_a_description() {
        let hosts = Hosts::parse("node[08-11],admin1").unwrap();
        assert_eq!(
            hosts.iter().collect::<Vec<_>>(),
            ["admin1", "node08", "node09", "node10", "node11"]
        );
        assert!(
            hosts.contains_node("node09 mlx5_0")
                && !hosts.contains_node("node9 mlx5_0")
                && !hosts.contains_node("")
        );
    }

    #[test]
    fn patterns_and_names_are_mixed() {
        let hosts = Hosts::parse("oss*, mds?,node[1-2]").unwrap();
        assert_eq!(
            (
                hosts.iter().collect::<Vec<_>>(),
                hosts.patterns().collect::<Vec<_>>()
            ),
            (vec!["node1", "node2"], vec!["oss*", "mds?"])
        );
        for (node, is_host) in [
            ("oss", true),
            ("oss12 mlx5_0", true),
            ("mds1", true),
            ("mds12", false),
            ("node2", true),
            ("node3", false),
        ] {
            assert_eq!(hosts.contains_node(node), is_host, "{node}");
        }
    }

    #[test]
    fn malformed_or_huge_list_is_rejected() {
        for text in [
            "",
            "node[1-",
            "node[1-999999999999]",
            "n[1-1000]x[1-1000]",
            "@group",
            "oss[1-2]*",
            "n!*,x!",
        ] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}
