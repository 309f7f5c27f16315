//! Directed-route subnet management, class 0x81 (IBA vol. 1, 14.2.2), for one purpose: the
//! identity of the device at the other end of a cable.
//!
//! The route of such a request has two parts. Its LID leads the request to a switch, and from
//! there one hop leads through a port of this switch. The device behind the port therefore answers
//! whatever its LID is, and even without one. The request reads NodeInfo (a Get) and uses queue
//! pair 0 and VL15 like [`smp`](super::smp).

use ibnet_record::types::{Lid, PortNum, Tid};

use super::Mad;
use super::header::{Header, METHOD_GET, MadStatus};
use super::smp::{CLASS_VERSION, NODE_INFO};

/// The management class, routed by ports.
pub const CLASS_SUBN_DIRECTED_ROUTE: u8 = 0x81;

/// LID that means "no LID": the directed route ends at the destination.
const PERMISSIVE_LID: u16 = 0xffff;

/// Bit of the status that marks a reply on its way back.
const DIRECTION: u16 = 0x8000;

/// Octet positions of the fields (IBA vol. 1, 14.2.1.2).
const HOP_COUNT: usize = 7;
const SOURCE_LID: std::ops::Range<usize> = 32..34;
const DESTINATION_LID: std::ops::Range<usize> = 34..36;
/// Ports of the route. The first octet is not used.
const INITIAL_PATH: usize = 128;

/// A request for NodeInfo of the device behind a port of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// LID of the sender, to which the switch returns the reply.
    pub source: Lid,
    /// Port of the switch.
    pub port: PortNum,
}

impl Query {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_SUBN_DIRECTED_ROUTE,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: NODE_INFO,
            modifier: 0,
        };
        header.emit(mad);
        mad[HOP_COUNT] = 1;
        mad[SOURCE_LID].copy_from_slice(&self.source.0.to_be_bytes());
        mad[DESTINATION_LID].copy_from_slice(&PERMISSIVE_LID.to_be_bytes());
        mad[INITIAL_PATH + 1] = self.port.0;
    }

    /// Parses a request with one hop. Returns `None` for any other MAD.
    pub fn parse(mad: &Mad) -> Option<Self> {
        let header = Header::parse(mad);
        let is_query = (header.class, header.method, header.attribute)
            == (CLASS_SUBN_DIRECTED_ROUTE, METHOD_GET, NODE_INFO);
        let source = Lid(u16::from_be_bytes([
            mad[SOURCE_LID.start],
            mad[SOURCE_LID.start + 1],
        ]));
        (is_query && mad[HOP_COUNT] == 1).then_some(Self {
            source,
            port: PortNum(mad[INITIAL_PATH + 1]),
        })
    }
}

/// Returns the status of a reply without the bit for its direction.
pub fn status(status: MadStatus) -> MadStatus {
    MadStatus(status.0 & !DIRECTION)
}

/// Makes a reply to a request: sets the method and the direction, and keeps the route.
pub fn reply_to(request: &Mad) -> Mad {
    let mut reply = *request;
    reply[3] = super::header::METHOD_GET_RESP;
    reply[4..6].copy_from_slice(&DIRECTION.to_be_bytes());
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::MAD_LEN;

    #[test]
    fn request_has_one_hop_after_the_lid() {
        let mut mad = [0xa5; MAD_LEN];
        let query = Query {
            source: Lid(0x0102),
            port: PortNum(36),
        };
        query.emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 0x81, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x11, 0, 0, 0, 0, 0, 0,
        ]);
        expected[32..36].copy_from_slice(&[1, 2, 0xff, 0xff]);
        expected[129] = 36;
        assert_eq!(mad, expected);
        assert_eq!(Query::parse(&mad), Some(query));
        mad[HOP_COUNT] = 2;
        assert_eq!(Query::parse(&mad), None);
        assert_eq!(status(Header::parse(&reply_to(&mad)).status), MadStatus::OK);
    }
}
