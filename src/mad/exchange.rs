//! The data that the engine and a transport exchange. The engine (`sweep::engine`) decides which
//! MAD is sent next, and the transport (`mad::transport`) sends and receives the MADs. Neither
//! depends on the other.

use std::time::Duration;

use ibnet_record::types::{Lid, PortNum, Tid};

use super::sa::Gid;

/// Destination of a MAD, and the time for which the transport waits for the reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Destination LID.
    pub lid: Lid,
    /// Destination queue pair: 0 for subnet management, 1 for other classes, or that of a
    /// redirect.
    pub qp: u32,
    /// Key of the destination queue pair.
    pub qkey: u32,
    /// Service level.
    ///
    /// It selects the data VL of a general management packet; only subnet management uses VL15.
    pub sl: u8,
    /// Index into the P_Key table of the sending port.
    pub pkey_index: u16,
    /// Time for which the transport waits for the reply, counted from the sending of the MAD.
    pub give_up: Duration,
}

/// The well-known Q_Key of queue pair 1 (IBA vol. 1, 3.5.3). The kernel always uses this Q_Key.
pub const QP1_QKEY: u32 = 0x8001_0000;

impl Target {
    /// Returns the address of the general management agent at a LID.
    pub const fn general(lid: Lid, sl: u8, pkey_index: u16, give_up: Duration) -> Self {
        Self {
            lid,
            qp: 1,
            qkey: QP1_QKEY,
            sl,
            pkey_index,
            give_up,
        }
    }

    /// Returns the address of the subnet management agent at a LID.
    pub const fn subnet_management(lid: Lid, give_up: Duration) -> Self {
        Self {
            lid,
            qp: 0,
            qkey: 0,
            sl: 0,
            pkey_index: 0,
            give_up,
        }
    }
}

/// The P_Key of the default partition, with full membership.
const DEFAULT_PKEY: u16 = 0xffff;

/// The bit of a P_Key that marks full membership.
const FULL_MEMBER: u16 = 0x8000;

/// Returns the index of a P_Key with which the port can reach an agent in the partition of `pkey`:
/// `own_index` if the P_Key there matches `pkey`, or else the index of the first match in `table`.
/// Returns `None` if no P_Key matches. An empty table stands for the default P_Key 0xffff at
/// `own_index` and no other.
///
/// Two P_Keys match if their lower 15 bits are equal and at least one of them has the bit for full
/// membership. The P_Key can come from a redirect; if its lower 15 bits are 0, it names no
/// partition, and the function returns `own_index`.
pub fn index_of_pkey(pkey: u16, own_index: u16, table: &[u16]) -> Option<u16> {
    if pkey & !FULL_MEMBER == 0 {
        return Some(own_index);
    }
    let matches =
        |own: u16| own & !FULL_MEMBER == pkey & !FULL_MEMBER && (own | pkey) & FULL_MEMBER != 0;
    let own = if table.is_empty() {
        Some(DEFAULT_PKEY)
    } else {
        table.get(usize::from(own_index)).copied()
    };
    if own.is_some_and(matches) {
        return Some(own_index);
    }
    table
        .iter()
        .position(|own| matches(*own))
        .and_then(|index| u16::try_from(index).ok())
}

/// Address of the sending port on its subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// LID of the port.
    pub lid: Lid,
    /// LID of the subnet manager, or 0 if none is known.
    pub sm_lid: Lid,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// GID of the port.
    pub gid: Gid,
    /// Number of the port by which SMPs leave.
    pub port: PortNum,
    /// Whether SMPs leave by a device of their own, as in planarized fabrics (XDR).
    pub has_smi: bool,
    /// Whether the port is known to be inactive, so that no MAD reaches another device.
    pub is_down: bool,
}

/// The end of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Identifier of the transaction.
    pub tid: Tid,
    /// Result of the transaction.
    pub outcome: Outcome,
}

/// Result of a transaction, as a transport sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A MAD was received into the buffer. The engine decides whether it answers a request.
    Reply {
        /// LID of the sender.
        slid: Lid,
        /// Length in bytes. A length other than 256 is malformed.
        len: usize,
    },
    /// The transport stopped waiting for the reply and does not deliver a later one.
    TimedOut,
    /// The MAD was not sent. The value is the errno of the call.
    SendFailed(i32),
    /// The MAD was not sent, because the transport has no agent for its class. MADs of other
    /// classes can still be sent.
    NoAgent,
}
