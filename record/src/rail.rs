//! Rails: the HCA ports that have the same place in all hosts.
//!
//! On a machine with rails, a host has several HCAs, and the HCAs with the same name are cabled to
//! the same leaf switches. A *rail* is therefore the name of an HCA within its host.

use std::collections::BTreeSet;

use crate::types::{Guid, PortNum};

/// Returns the rail of each HCA port of one host, in the order of `ports`. A port is given by its
/// port GUID, its number and its node description.
///
/// The rail is what follows the host name in the node description, such as `mlx5_3` or `HCA-2`,
/// and the number of the port if it is not 1: `mlx5_3/2`. If these names are empty or not unique,
/// the rails are `#1`, `#2` and so on, in the order of the GUIDs.
pub fn of_host(ports: &[(Guid, PortNum, &str)]) -> Vec<String> {
    let name = |(_, number, node): &(Guid, PortNum, &str)| {
        let name = node.trim().split_once(char::is_whitespace)?.1.trim_start();
        let is_first = *number == PortNum(1);
        Some(if is_first {
            name.to_owned()
        } else {
            format!("{name}/{number}")
        })
    };
    if let Some(names) = ports.iter().map(name).collect::<Option<Vec<_>>>()
        && names.iter().collect::<BTreeSet<_>>().len() == names.len()
    {
        return names;
    }
    let rank = |port: &(Guid, PortNum, &str)| {
        let before = |other: &&(Guid, PortNum, &str)| (other.0, other.1) < (port.0, port.1);
        format!("#{}", ports.iter().filter(before).count() + 1)
    };
    ports.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rails(ports: &[(u64, u8, &str)]) -> Vec<String> {
        let ports: Vec<_> = ports
            .iter()
            .map(|(guid, number, node)| (Guid(*guid), PortNum(*number), *node))
            .collect();
        of_host(&ports)
    }

    #[test]
    fn rail_is_the_name_of_the_hca_within_its_host() {
        assert_eq!(
            rails(&[
                (9, 1, "n1 mlx5_0"),
                (8, 1, "n1  HCA-2"),
                (7, 2, "n1 mlx5_0")
            ]),
            ["mlx5_0", "HCA-2", "mlx5_0/2"]
        );
        assert!(rails(&[]).is_empty());
    }

    #[test]
    fn hcas_without_names_of_their_own_are_numbered_by_guid() {
        assert_eq!(rails(&[(9, 1, "n1"), (8, 1, "n1")]), ["#2", "#1"]);
        assert_eq!(rails(&[(8, 1, "n1 ib"), (9, 1, "n1 ib")]), ["#1", "#2"]);
        assert_eq!(rails(&[(8, 1, "n1")]), ["#1"]);
    }
}
