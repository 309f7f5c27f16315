//! From ticks of PortXmitWait to the share of time for which a port was blocked.
//!
//! PortXmitWait counts ticks in which a port had data to send and sent nothing for the whole tick. How long a tick is follows from Tick of
//! PortSamplesControl (IBA vol. 1, 16.1.3.2): Tick + 1 symbol times, a symbol time being that of one octet on **one lane**. In octets that the
//! whole port could have sent meanwhile:
//!
//! | device | octets a tick | source |
//! |---|---|---|
//! | any, as IBA has it; SwitchX, Switch-IB, Switch-IB 2 (Tick 31) | (Tick + 1) x lanes | IBA vol. 1, 16.1.3.2; ibdiagnet's manual |
//! | the Quantum family (Tick 7) | Tick + 1, of the whole port, whatever its width | ibdiagnet's manual, "Congestion assessment on InfiniBand links" |
//!
//! and the share of time is `ticks x octets a tick x 8 / (data rate of the link x time)`. A switch of NVIDIA's that is of neither family is not
//! guessed at, nor is a device whose NodeInfo is not known: a factor of four would go unnoticed.

use crate::mad::smp::NodeInfo;
use crate::types::NodeKind;

/// How long a tick of a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTick {
    /// Symbol times, less one: Tick of PortSamplesControl.
    pub tick: u8,
    /// Of what.
    pub of: TickOf,
}

/// Whose octets a tick counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOf {
    /// One lane's, as IBA has it.
    Lane,
    /// The whole port's.
    Port,
}

/// Mellanox, now NVIDIA; their IEEE company identifiers in NodeInfo.VendorID.
const NVIDIA: [u32; 3] = [0x0002c9, 0x00258b, 0x0008f1];
/// DeviceID of switches that count a lane's octets: SwitchX and SwitchX-2, Switch-IB, Switch-IB 2.
const PER_LANE: [u16; 3] = [0xc738, 0xcb20, 0xcf08];
/// DeviceID of switches that count the whole port's: Quantum, Quantum-2, Quantum-3.
const PER_PORT: [u16; 3] = [0xd2f0, 0xd2f2, 0xd2f4];

impl TickOf {
    /// By what a device says that it is; `None` if its family is not known.
    pub fn of(info: &NodeInfo) -> Option<Self> {
        match info {
            NodeInfo { device_id, .. } if PER_PORT.contains(device_id) => Some(Self::Port),
            NodeInfo { device_id, .. } if PER_LANE.contains(device_id) => Some(Self::Lane),
            NodeInfo { kind: Some(NodeKind::Switch), vendor_id, .. } if NVIDIA.contains(vendor_id) => None,
            _ => Some(Self::Lane),
        }
    }
}

/// More than all of the time, by so much, is still a matter of when the two readings were made.
const TOLERANCE: f64 = 1.05;

impl WaitTick {
    /// The share of time for which a port waited, 0 to 1: from its ticks a second, its lanes and its data rate. `None` if it is more than the whole
    /// time: then this device counts otherwise.
    pub fn share(self, ticks_per_second: f64, lanes: f64, gbps: f64) -> Option<f64> {
        let octets = f64::from(self.tick) + 1.0;
        let octets = if self.of == TickOf::Lane { octets * lanes } else { octets };
        let share = ticks_per_second * octets * 8.0 / (gbps * 1e9);
        (share <= TOLERANCE).then(|| share.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(kind: NodeKind, vendor_id: u32, device_id: u16) -> NodeInfo {
        NodeInfo { kind: Some(kind), vendor_id, device_id, ..NodeInfo::default() }
    }

    #[test]
    fn families_are_told_by_what_they_say_that_they_are() {
        assert_eq!(TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xd2f2)), Some(TickOf::Port));
        assert_eq!(TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xcb20)), Some(TickOf::Lane));
        assert_eq!(TickOf::of(&info(NodeKind::Switch, 0x2c9, 0xffff)), None, "a family of the future is not guessed at");
        assert_eq!(TickOf::of(&info(NodeKind::Switch, 0x66a, 1)), Some(TickOf::Lane));
        assert_eq!(TickOf::of(&info(NodeKind::Hca, 0x2c9, 0x101b)), Some(TickOf::Lane));
    }

    #[test]
    fn a_port_that_waits_all_the_time_is_blocked_wholly() {
        // 4xHDR is 25e9 octets a second: with 8 octets a tick that many eighths of them.
        let quantum = WaitTick { tick: 7, of: TickOf::Port };
        let share = quantum.share(25e9 / 8.0, 4.0, 200.0).expect("not more than all of the time");
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        // A tick of 32 symbols of 0.32 ns on each lane of EDR: 10.24 ns.
        let switch_ib = WaitTick { tick: 31, of: TickOf::Lane };
        let share = switch_ib.share(0.25 / 10.24e-9, 4.0, 100.0).expect("not more than all of the time");
        assert!((share - 0.25).abs() < 1e-9, "{share}");
    }

    #[test]
    fn more_than_all_of_the_time_is_not_known() {
        let quantum = WaitTick { tick: 7, of: TickOf::Port };
        assert_eq!(quantum.share(25e9 / 8.0 * 4.0, 4.0, 200.0), None);
    }
}
