//! Finds aggregation nodes, the SHARP engines of switches, which look like HCAs of hosts in a net
//! file.
//!
//! No single fact is sufficient to recognize them. The name can come from a map or from another
//! device. The port number differs between models (37, 41, 65, 81, 129 and 145 were seen), and any
//! HCA can be on the highest port of a switch. Only the plain format has the device ID and the
//! system image GUID. This module therefore requires two facts that agree.

use ibnet_record::types::{Guid, NodeKind};

use super::{Device, Fabric};

/// Number of facts that must agree.
const ENOUGH: i32 = 2;

/// Part of the name that the firmware always gives to aggregation nodes.
pub const NAME: &str = "Aggregation Node";

/// Device ID of aggregation nodes from EDR to NDR.
const DEVICE_ID: u32 = 0xcf09;

/// Differences between the GUIDs of an aggregation node and its switch: 8 on EDR and HDR, 16 on
/// NDR. The GUID of the node is usually the larger one.
const DISTANCES: [u64; 2] = [8, 16];

impl Fabric {
    /// Includes aggregation nodes in the sampling. They still do not count in the computation of
    /// tiers, and they are never samplers.
    pub fn sample_aggregation_nodes(&mut self) {
        self.with_aggregation_nodes = true;
    }

    /// Returns whether the sampling leaves out a device because it is an aggregation node.
    pub fn leaves_out_aggregation_node(&self, device: &Device) -> bool {
        !self.with_aggregation_nodes && self.is_aggregation_node(device)
    }

    /// Returns whether a device is the aggregation node of a switch's SHARP engine rather than a
    /// host's HCA.
    ///
    /// An aggregation node is an HCA on a switch for which at least two of these facts are true:
    ///
    /// - it has the firmware's name;
    /// - its GUID differs from the switch's GUID by one of the known numbers;
    /// - it is on the highest port of the switch;
    /// - it has the device ID of aggregation nodes;
    /// - its system image GUID is that of the switch.
    ///
    /// A device ID other than that of aggregation nodes counts as a fact against it.
    pub fn is_aggregation_node(&self, device: &Device) -> bool {
        let Some((_, peer)) = device.linked().next() else {
            return false;
        };
        if device.kind != NodeKind::Hca || peer.kind != NodeKind::Switch {
            return false;
        }
        let switch = self.find(peer.guid, peer.port).map(|id| self.device(id));
        let highest = switch.and_then(|switch| {
            switch
                .node
                .ports
                .or_else(|| switch.ports.last().map(|last| last.num.0))
        });
        let box_of_switch = switch.and_then(|switch| switch.node.system_image);
        let by_id = match device.node.device_id {
            Some(DEVICE_ID) => 1,
            Some(_) => -1,
            None => 0,
        };
        let facts = [
            device.name.contains(NAME),
            is_beside(device.guid, peer.guid),
            highest == Some(peer.port.0),
            device
                .node
                .system_image
                .is_some_and(|image| image != Guid(0) && Some(image) == box_of_switch),
        ];
        by_id + facts.into_iter().map(i32::from).sum::<i32>() >= ENOUGH
    }
}

fn is_beside(node: Guid, switch: Guid) -> bool {
    DISTANCES.contains(&node.0.abs_diff(switch.0))
}

#[cfg(test)]
mod tests {
    use crate::topology::net_file;

    /// Returns the result for a node on a switch with 41 ports, in the plain format.
    fn is_one(name: &str, guid: u64, port: u8, device_id: u32, system_image: u64) -> bool {
        let text = format!(
            "vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x1000\nswitchguid=0x1000(1000)\n\
             Switch\t41 \"S-0000000000001000\"\t\t# \"leaf\" enhanced port 0 lid 1 lmc 0\n\
             [{port}]\t\"H-{guid:016x}\"[1]({guid:x}) \t\t# \"{name}\" lid 2 4xHDR\n\n\
             vendid=0x2c9\ndevid={device_id:#x}\nsysimgguid={system_image:#x}\ncaguid={guid:#x}\n\
             Ca\t1 \"H-{guid:016x}\"\t\t# \"{name}\"\n\
             [1]({guid:x}) \t\"S-0000000000001000\"[{port}]\t\t# lid 2 lmc 0 \"leaf\" lid 1 4xHDR\n"
        );
        let net = net_file::parse(text.as_bytes(), "net").unwrap();
        assert_eq!(net.remarks, []);
        let fabric = net.fabric;
        let found = fabric
            .devices()
            .iter()
            .find(|device| device.guid.0 == guid)
            .unwrap();
        fabric.is_aggregation_node(found)
    }

    /// Returns the result for a node in a ports report. This report also lists the highest port of
    /// the switch.
    fn is_one_by_the_ports_report(name: &str, guid: u64, port: u8) -> bool {
        let text = format!(
            "SW     1 {port:2} 0x0000000000001000 4x HDR - CA     2  1 {guid:#018x} ( 'leaf' - '{name}' )\n\
             SW     1 41 0x0000000000001000 4x SDR                                    'leaf'\n\
             CA     2  1 {guid:#018x} 4x HDR - SW     1 {port:2} 0x0000000000001000 ( '{name}' - 'leaf' )\n"
        );
        let fabric = net_file::parse(text.as_bytes(), "net").unwrap().fabric;
        let found = fabric
            .devices()
            .iter()
            .find(|device| device.guid.0 == guid)
            .unwrap();
        fabric.is_aggregation_node(found)
    }

    const FIRMWARE: &str = "Mellanox Technologies Aggregation Node";
    const HCA: u32 = 0x101b;

    #[test]
    fn two_facts_identify_an_aggregation_node_on_any_port() {
        for port in [37, 41] {
            assert!(is_one(FIRMWARE, 0x1008, port, 0xcf09, 0x1000));
            assert!(
                is_one("sharp-leaf1", 0x1010, port, 0xcf09, 0x1000),
                "renamed by a map"
            );
            assert!(
                is_one(FIRMWARE, 0x0ff8, port, 0xcf0a, 0x1000),
                "an unknown device ID, below the switch"
            );
            assert!(is_one_by_the_ports_report(FIRMWARE, 0x1008, port));
        }
        assert!(is_one_by_the_ports_report("sharp-leaf1", 0x1010, 41));
    }

    #[test]
    fn one_fact_is_not_sufficient() {
        assert!(
            !is_one("node1 mlx5_0", 0x9000, 41, HCA, 0x9000),
            "the highest port"
        );
        assert!(!is_one(FIRMWARE, 0x9000, 5, HCA, 0x9000), "the name");
        assert!(
            !is_one(FIRMWARE, 0x9000, 41, HCA, 0x9000),
            "name and port, with the device ID of an HCA"
        );
        assert!(!is_one_by_the_ports_report(FIRMWARE, 0x9000, 5));
        assert!(!is_one_by_the_ports_report("node1 mlx5_0", 0x9000, 41));
        assert!(!is_one_by_the_ports_report("node1 mlx5_0", 0x1008, 5));
    }
}
