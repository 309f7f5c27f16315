//! Aggregation nodes: the SHARP engines of switches, which look like hosts' adapters.
//!
//! No single fact tells one. The name may be a map's, or a stranger's; the port number differs from model to model (37, 41, 65, 81, 129 and 145 were
//! seen), and any adapter may sit on a switch's highest port; the device id and the system image are told by the plain format only. So facts are
//! counted, and two must agree.

use super::{Device, Fabric};
use crate::types::{Guid, NodeKind};

/// How many facts must agree.
const ENOUGH: i32 = 2;

/// The name that the firmware gives, or that is left of it.
pub const NAME: &str = "Aggregation Node";

/// The device id that aggregation nodes of EDR to NDR have.
const DEVICE_ID: u32 = 0xcf09;

/// How far the GUID lies from the switch's: 8 on EDR and HDR, 16 on NDR; mostly above it, below it was seen.
const DISTANCES: [u64; 2] = [8, 16];

impl Fabric {
    /// Has aggregation nodes sampled as adapters are. They stay out of the hierarchy, and no sampler is sought on them.
    pub fn sample_aggregation_nodes(&mut self) {
        self.with_aggregation_nodes = true;
    }

    /// Whether a device is left out of sampling because it is an aggregation node.
    pub fn leaves_out_aggregation_node(&self, device: &Device) -> bool {
        !self.with_aggregation_nodes && self.is_aggregation_node(device)
    }

    /// Whether a device is the aggregation node of a switch's SHARP engine rather than a host's adapter.
    ///
    /// It is an HCA on a switch of which at least two of these facts are true: it carries the firmware's name; its GUID lies where the firmware puts
    /// it; it sits on the switch's highest port; it has the device id of one; it says that it is in the same box as the switch. A device id that is
    /// known and is another counts against it.
    pub fn is_aggregation_node(&self, device: &Device) -> bool {
        let Some((_, peer)) = device.linked().next() else { return false };
        if device.kind != NodeKind::Hca || peer.kind != NodeKind::Switch {
            return false;
        }
        let switch = self.find(peer.guid, peer.port).map(|id| self.device(id));
        let highest = switch.and_then(|switch| switch.node.ports.or_else(|| switch.ports.last().map(|last| last.num.0)));
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
            device.node.system_image.is_some_and(|image| image != Guid(0) && Some(image) == box_of_switch),
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

    /// A switch of 41 ports with something on one of them, as the plain format tells it.
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
        let found = fabric.devices().iter().find(|device| device.guid.0 == guid).unwrap();
        fabric.is_aggregation_node(found)
    }

    /// The same without what only the plain format tells. The switch's highest port is listed.
    fn is_one_by_the_ports_report(name: &str, guid: u64, port: u8) -> bool {
        let text = format!(
            "SW     1 {port:2} 0x0000000000001000 4x HDR - CA     2  1 {guid:#018x} ( 'leaf' - '{name}' )\n\
             SW     1 41 0x0000000000001000 4x SDR                                    'leaf'\n\
             CA     2  1 {guid:#018x} 4x HDR - SW     1 {port:2} 0x0000000000001000 ( '{name}' - 'leaf' )\n"
        );
        let fabric = net_file::parse(text.as_bytes(), "net").unwrap().fabric;
        let found = fabric.devices().iter().find(|device| device.guid.0 == guid).unwrap();
        fabric.is_aggregation_node(found)
    }

    const FIRMWARE: &str = "Mellanox Technologies Aggregation Node";
    const HCA: u32 = 0x101b;

    #[test]
    fn two_facts_tell_one_whatever_the_port() {
        for port in [37, 41] {
            assert!(is_one(FIRMWARE, 0x1008, port, 0xcf09, 0x1000));
            assert!(is_one("sharp-leaf1", 0x1010, port, 0xcf09, 0x1000), "renamed by a map");
            assert!(is_one(FIRMWARE, 0x0ff8, port, 0xcf0a, 0x1000), "a device id of tomorrow, below the switch");
            assert!(is_one_by_the_ports_report(FIRMWARE, 0x1008, port));
        }
        assert!(is_one_by_the_ports_report("sharp-leaf1", 0x1010, 41));
    }

    #[test]
    fn one_fact_is_chance_or_somebodys_joke() {
        assert!(!is_one("node1 mlx5_0", 0x9000, 41, HCA, 0x9000), "the highest port");
        assert!(!is_one(FIRMWARE, 0x9000, 5, HCA, 0x9000), "the name");
        assert!(!is_one(FIRMWARE, 0x9000, 41, HCA, 0x9000), "name and port of an adapter that says what it is");
        assert!(!is_one_by_the_ports_report(FIRMWARE, 0x9000, 5));
        assert!(!is_one_by_the_ports_report("node1 mlx5_0", 0x9000, 41));
        assert!(!is_one_by_the_ports_report("node1 mlx5_0", 0x1008, 5));
    }
}
