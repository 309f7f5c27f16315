//! Clearing of the counters by service level: a Set of PortXmitDataSL or PortRcvDataSL, and of no
//! other attribute.
//!
//! The request sets the selected counters to 0 (IBA vol. 1, A13.6.5: a bit of CounterSelect selects
//! a counter, and the others keep their values), as `performance_reset_via` of libibmad does. ibnet
//! does not use the counters in the reply, because agents differ: they may be those before or after
//! the request.

use ibnet_record::attributes::sl_data::{PORT_RCV_DATA_SL, PORT_XMIT_DATA_SL};
use ibnet_record::attributes::{Attribute, Field, Group};
use ibnet_record::types::{PortNum, Tid};

use super::{Bits, CLASS_PERF_MGT, CLASS_VERSION, data_mut};
use crate::mad::Mad;
use crate::mad::header::{Header, METHOD_SET, MadStatus};

/// Counters that can be cleared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Clearable {
    /// PortXmitDataSL.
    XmtSl,
    /// PortRcvDataSL.
    RcvSl,
}

impl Clearable {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::XmtSl, Self::RcvSl];

    /// Returns the counters of a group, or `None` if ibnet never clears this group.
    pub const fn of(group: Group) -> Option<Self> {
        match group {
            Group::XmtSl => Some(Self::XmtSl),
            Group::RcvSl => Some(Self::RcvSl),
            _ => None,
        }
    }

    /// Returns the counter group.
    pub const fn group(self) -> Group {
        match self {
            Self::XmtSl => Group::XmtSl,
            Self::RcvSl => Group::RcvSl,
        }
    }

    /// Returns the attribute.
    pub const fn attribute(self) -> &'static Attribute {
        match self {
            Self::XmtSl => &PORT_XMIT_DATA_SL,
            Self::RcvSl => &PORT_RCV_DATA_SL,
        }
    }

    /// Returns the array of counters.
    pub fn counters(self) -> &'static Field {
        &self.attribute().fields[2]
    }
}

/// A request that clears counters of one port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Clear {
    /// The array of counters.
    pub of: Clearable,
    /// PortSelect.
    pub port: PortNum,
    /// CounterSelect: bit n selects service level n.
    pub select: u16,
}

impl Clear {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_PERF_MGT,
            class_version: CLASS_VERSION,
            method: METHOD_SET,
            status: MadStatus::OK,
            tid,
            attribute: self.of.attribute().id,
            modifier: 0,
        };
        header.emit(mad);
        let [port, select, _] = self.of.attribute().fields else {
            return;
        };
        port.set_raw(data_mut(mad), 0, self.port.0.into());
        select.set_raw(data_mut(mad), 0, self.select.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::MAD_LEN;

    #[test]
    fn request_selects_counters_and_sets_them_to_zero() {
        for (of, id) in [(Clearable::XmtSl, 0x36), (Clearable::RcvSl, 0x37)] {
            let mut mad = [0xa5; MAD_LEN];
            let (port, select) = (PortNum(7), 0x8003);
            Clear { of, port, select }.emit(Tid(0x0102_0304), &mut mad);
            let mut expected = [0; MAD_LEN];
            expected[..24].copy_from_slice(&[
                1, 4, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, id, 0, 0, 0, 0, 0, 0,
            ]);
            expected[65..68].copy_from_slice(&[7, 0x80, 0x03]);
            assert_eq!(mad, expected);
            assert_eq!(Clearable::of(of.group()), Some(of));
            assert_eq!((of.counters().len, of.counters().width), (16, 32));
        }
    }
}
