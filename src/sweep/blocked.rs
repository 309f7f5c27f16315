//! Converts ticks of PortXmitWait to the share of time in which a port was blocked.
//!
//! PortXmitWait counts the ticks in which a port had data to send and sent nothing during the
//! whole tick. A tick takes `Tick + 1` symbol times, where `Tick` is a field of PortSamplesControl
//! (IBA vol. 1, 16.1.3.2) and a symbol time is the time of one byte on **one lane**. To convert
//! ticks to time, this module uses the number of bytes that the whole port can send in one tick:
//!
//! | device | bytes per tick | source |
//! |---|---|---|
//! | any, by IBA | (Tick + 1) x lanes | IBA vol. 1, 16.1.3.2 |
//! | SwitchX, Switch-IB, Switch-IB 2 (Tick 31) | (Tick + 1) x lanes | ibdiagnet's manual |
//! | the Quantum family (Tick 7) | Tick + 1, for any width | ibdiagnet's manual |
//!
//! The section of ibdiagnet's manual is "Congestion assessment on InfiniBand links".
//!
//! The share of time is `ticks x bytes per tick x 8 / (data rate of the link x time)`. This module
//! computes no share for NVIDIA switches of other families and for devices without NodeInfo: it
//! could be wrong by a factor of four, and nothing in the records would show it.

use ibnet_record::types::NodeKind;

use crate::mad::smp::NodeInfo;

/// Length of a tick of PortXmitWait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTick {
    /// Field Tick of PortSamplesControl: symbol times per tick, minus one.
    pub tick: u8,
    /// What one symbol time refers to: one lane or the whole port.
    pub of: TickOf,
}

/// What one symbol time refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOf {
    /// One byte on one lane, as in IBA.
    Lane,
    /// One byte of the whole port.
    Port,
}

/// IEEE company identifiers of Mellanox (now NVIDIA), as in NodeInfo.VendorID.
const NVIDIA: [u32; 3] = [0x0002c9, 0x00258b, 0x0008f1];

/// DeviceID of switches that count bytes of one lane: SwitchX, SwitchX-2, Switch-IB, Switch-IB 2.
const PER_LANE: [u16; 3] = [0xc738, 0xcb20, 0xcf08];

/// DeviceID of switches that count bytes of the whole port: Quantum, Quantum-2, Quantum-3.
const PER_PORT: [u16; 3] = [0xd2f0, 0xd2f2, 0xd2f4];

impl TickOf {
    /// Returns the tick length of a device, from its NodeInfo, or `None` if its family is unknown.
    pub fn of(info: &NodeInfo) -> Option<Self> {
        match info {
            NodeInfo { device_id, .. } if PER_PORT.contains(device_id) => Some(Self::Port),
            NodeInfo { device_id, .. } if PER_LANE.contains(device_id) => Some(Self::Lane),
            NodeInfo {
                kind: Some(NodeKind::Switch),
                vendor_id,
                ..
            } if NVIDIA.contains(vendor_id) => None,
            _ => Some(Self::Lane),
        }
    }
}

/// Max share that counts as 1. Shares slightly above 1 come from the uncertainty of the reading
/// times.
const TOLERANCE: f64 = 1.05;

impl WaitTick {
    /// Returns the share of time in which a port was blocked, from 0 to 1. The arguments are its
    /// ticks per second, its number of lanes and its data rate in Gb/s. Returns `None` if the
    /// share is above 1, because the device then counts in another unit.
    pub fn share(self, ticks_per_second: f64, lanes: f64, gbps: f64) -> Option<f64> {
        let octets = f64::from(self.tick) + 1.0;
        let octets = if self.of == TickOf::Lane {
            octets * lanes
        } else {
            octets
        };
        let share = ticks_per_second * octets * 8.0 / (gbps * 1e9);
        (share <= TOLERANCE).then(|| share.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: NodeKind, vendor_id: u32, device_id: u16) -> NodeInfo {
        NodeInfo {
            kind: Some(kind),
            vendor_id,
            device_id,
            ..NodeInfo::default()
        }
    }

    #[test]
    fn family_follows_from_node_info() {
        assert_eq!(
            TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xd2f2)),
            Some(TickOf::Port)
        );
        assert_eq!(
            TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xcb20)),
            Some(TickOf::Lane)
        );
        assert_eq!(
            TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xffff)),
            None,
            "an unknown family"
        );
        assert_eq!(
            TickOf::of(&info(NodeKind::Switch, 0x66a, 1)),
            Some(TickOf::Lane)
        );
        assert_eq!(
            TickOf::of(&info(NodeKind::Hca, 0x2c9, 0x101b)),
            Some(TickOf::Lane)
        );
    }

    #[test]
    fn port_that_always_waits_has_share_one() {
        // A 4xHDR link sends 25e9 bytes a second. A tick is the time of 8 bytes.
        let quantum = WaitTick {
            tick: 7,
            of: TickOf::Port,
        };
        let share = quantum.share(25e9 / 8.0, 4.0, 200.0).expect("at most 1");
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        // A tick is 32 symbol times of 0.32 ns on each lane of EDR. This is 10.24 ns.
        let switch_ib = WaitTick {
            tick: 31,
            of: TickOf::Lane,
        };
        let share = switch_ib
            .share(0.25 / 10.24e-9, 4.0, 100.0)
            .expect("at most 1");
        assert!((share - 0.25).abs() < 1e-9, "{share}");
    }

    #[test]
    fn share_above_one_is_unknown() {
        let quantum = WaitTick {
            tick: 7,
            of: TickOf::Port,
        };
        assert_eq!(quantum.share(25e9 / 8.0 * 4.0, 4.0, 200.0), None);
    }
}
