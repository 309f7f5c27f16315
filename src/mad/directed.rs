//! Directed-route subnet management, class 0x81 (IBA vol. 1, 14.2.2): requests to the device at the
//! end of a list of ports, whatever its LID is, and even without one.
//!
//! - The discovery sends them from this host: each device on the way forwards the request through
//!   the next port of the list ([`Route::HERE`]). So does a sweep in a fabric that does not answer
//!   subnet management by LID.
//! - The verification of peers sends them through a switch: the LID leads the request to the
//!   switch, and from there one hop leads through a port of this switch ([`Route::behind_lid`]).
//!
//! All of them read (Get), and use queue pair 0 and VL15 like [`smp`].

use ibnet_record::types::{Lid, PortNum, Tid};

use super::Mad;
use super::header::{Header, METHOD_GET, MadStatus};
use super::smp::{self, CLASS_VERSION};

/// The management class, routed by ports.
pub const CLASS_SUBN_DIRECTED_ROUTE: u8 = 0x81;

/// LID that means "no LID": the directed route begins at this host, or ends at the destination.
pub const PERMISSIVE_LID: Lid = Lid(0xffff);

/// Max number of hops of a route.
pub const MAX_HOPS: usize = 63;

/// Bit of the status that marks a reply on its way back.
const DIRECTION: u16 = 0x8000;

/// Octet positions of the fields (IBA vol. 1, 14.2.1.2).
const HOP_COUNT: usize = 7;
const SOURCE_LID: std::ops::Range<usize> = 32..34;
const DESTINATION_LID: std::ops::Range<usize> = 34..36;
/// Ports of the route. The first octet is not used.
const INITIAL_PATH: usize = 128;

/// The ports through which a request leaves each device on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// LID of the sender if a LID leads to the first device, or else [`PERMISSIVE_LID`].
    source: Lid,
    hops: u8,
    ports: [PortNum; MAX_HOPS],
}

impl Route {
    /// The route to the sending HCA itself.
    pub const HERE: Self = Self::behind_lid(PERMISSIVE_LID);

    /// Returns the route to the switch to whose LID the request is sent. `source` is the LID of the
    /// sender, to which this switch returns the reply.
    pub const fn behind_lid(source: Lid) -> Self {
        Self {
            source,
            hops: 0,
            ports: [PortNum(0); MAX_HOPS],
        }
    }

    /// Returns the route to the device behind a port of the device at the end of this route, or
    /// `None` if it would have more than [`MAX_HOPS`] hops.
    #[must_use]
    pub fn then(mut self, port: PortNum) -> Option<Self> {
        *self.ports.get_mut(usize::from(self.hops))? = port;
        self.hops += 1;
        Some(self)
    }

    /// Returns the route to `end` from the sending HCA. `via` returns the place before each place
    /// on the way, and the port that leads on from there; it returns `None` for the HCA. The result
    /// is `None` if the route has more than [`MAX_HOPS`] hops.
    pub fn back<P>(end: P, via: impl Fn(P) -> Option<(P, PortNum)>) -> Option<Self>
    where
        P: Copy,
    {
        let mut route = Self::HERE;
        let mut at = end;
        while let Some((before, port)) = via(at) {
            route = route.then(port)?;
            at = before;
        }
        route.ports[..usize::from(route.hops)].reverse();
        Some(route)
    }

    /// Reads the route of a request. Returns `None` if it has too many hops.
    pub fn parse(mad: &Mad) -> Option<Self> {
        let hops = usize::from(mad[HOP_COUNT]);
        let source = u16::from_be_bytes([mad[SOURCE_LID.start], mad[SOURCE_LID.start + 1]]);
        let mut ports = mad[INITIAL_PATH + 1..].iter().take(hops);
        ports.try_fold(Self::behind_lid(Lid(source)), |route, port| {
            route.then(PortNum(*port))
        })
    }

    /// Returns whether the route begins at the sending HCA, and not at the switch of a LID.
    pub fn begins_at_sender(&self) -> bool {
        self.source == PERMISSIVE_LID
    }

    /// Returns the ports.
    pub fn ports(&self) -> &[PortNum] {
        &self.ports[..usize::from(self.hops)]
    }

    /// Returns the LID to which a request is sent whose route leads on from the device at `lid`.
    pub fn target(&self, lid: Lid) -> Lid {
        if self.begins_at_sender() {
            PERMISSIVE_LID
        } else {
            lid
        }
    }
}

/// A request to the device at the end of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// The requested attribute.
    pub request: smp::Query,
    /// The way to the device.
    pub route: Route,
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
            attribute: self.request.attribute,
            modifier: self.request.modifier,
        };
        header.emit(mad);
        mad[SOURCE_LID].copy_from_slice(&self.route.source.0.to_be_bytes());
        mad[DESTINATION_LID].copy_from_slice(&PERMISSIVE_LID.0.to_be_bytes());
        mad[HOP_COUNT] = self.route.hops;
        for (octet, port) in mad[INITIAL_PATH + 1..].iter_mut().zip(self.route.ports()) {
            *octet = port.0;
        }
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
            request: smp::Query {
                attribute: smp::NODE_INFO,
                modifier: 0,
            },
            route: Route::behind_lid(Lid(0x0102))
                .then(PortNum(36))
                .expect("one hop"),
        };
        query.emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 0x81, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x11, 0, 0, 0, 0, 0, 0,
        ]);
        expected[32..36].copy_from_slice(&[1, 2, 0xff, 0xff]);
        expected[129] = 36;
        assert_eq!(mad, expected);
        assert_eq!(Route::parse(&mad), Some(query.route));
        assert!(!query.route.begins_at_sender());
        assert_eq!(status(Header::parse(&reply_to(&mad)).status), MadStatus::OK);
    }

    #[test]
    fn request_from_this_host_has_a_port_for_each_hop() {
        let mut mad = [0xa5; MAD_LEN];
        let request = smp::Query {
            attribute: smp::PORT_INFO,
            modifier: 9,
        };
        let ports = [1, 36, 254].map(PortNum);
        let through = |ports: &[PortNum]| {
            let mut hops = ports.iter();
            hops.try_fold(Route::HERE, |route, port| route.then(*port))
        };
        let route = through(&ports).expect("three hops");
        assert_eq!(route.ports(), ports);
        Query { request, route }.emit(Tid(7), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 0x81, 1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0x15, 0, 0, 0, 0, 0, 9,
        ]);
        expected[32..36].fill(0xff);
        expected[129..132].copy_from_slice(&[1, 36, 254]);
        assert_eq!(mad, expected);
        assert_eq!(Route::parse(&mad), Some(route));
        assert!(route.begins_at_sender());
        assert_eq!(through(&[PortNum(3); MAX_HOPS + 1]), None);
        let route = through(&[PortNum(3); MAX_HOPS]).expect("63 hops");
        Query { request, route }.emit(Tid(7), &mut mad);
        assert_eq!(Route::parse(&mad), Some(route));
        mad[HOP_COUNT] = 64;
        assert_eq!(Route::parse(&mad), None);
    }
}
