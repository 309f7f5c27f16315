//! A *query* is a request of one of the five management classes that ibnet uses. All of them have
//! the method Get, except the request that clears counters. This module also checks replies.

use ibnet_record::types::Tid;

use super::header::{Header, METHOD_GET_RESP, MadStatus};
use super::{MAD_LEN, Mad, directed, pma, sa, smp, vendor};

/// A request of one of the five classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Query {
    /// Performance management: counters and capabilities.
    Pma(pma::Query),
    /// Performance management: clearing of counters, the only Set. It is off by default.
    Clear(pma::Clear),
    /// Subnet management: identity and links.
    Smp(smp::Query),
    /// Subnet management by a directed route.
    Directed(directed::Query),
    /// Subnet administration: the path to a port.
    Sa(sa::Query),
    /// Vendor-specific management of NVIDIA devices: registers.
    Vendor(vendor::Query),
}

/// Reason why a MAD does not answer a query. Creating this value allocates no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadReply {
    /// The MAD does not have 256 bytes. A reply of subnet administration may be shorter, but must
    /// contain the whole requested record.
    #[error("{0} bytes instead of 256")]
    Length(usize),
    /// The MAD has another management class, or another version of the class.
    #[error("class {class:#04x} version {version} instead of the requested one")]
    Class {
        /// MgmtClass of the MAD.
        class: u8,
        /// ClassVersion of the MAD.
        version: u8,
    },
    /// The MAD is not a response.
    #[error("method {0:#04x} instead of GetResp")]
    Method(u8),
    /// The MAD has another attribute than the query.
    #[error("attribute {0:#06x} instead of the requested one")]
    Attribute(u16),
    /// The MAD is for another port than the query.
    #[error("PortSelect {0} instead of the requested one")]
    PortSelect(u8),
    /// The MAD is for another register, another block of it, or another port than the query.
    #[error("register {0:#06x} instead of the requested one, or another block or port of it")]
    Register(u32),
    /// The MAD is a reply to this query, with an error status or a redirection.
    #[error("status {0}")]
    Status(MadStatus),
}

impl Query {
    /// Returns the management class and its version.
    pub const fn class(&self) -> (u8, u8) {
        match self {
            Self::Pma(_) | Self::Clear(_) => (pma::CLASS_PERF_MGT, pma::CLASS_VERSION),
            Self::Smp(_) => (smp::CLASS_SUBN_LID_ROUTED, smp::CLASS_VERSION),
            Self::Directed(_) => (directed::CLASS_SUBN_DIRECTED_ROUTE, smp::CLASS_VERSION),
            Self::Sa(_) => (sa::CLASS_SUBN_ADM, sa::CLASS_VERSION),
            Self::Vendor(_) => (vendor::CLASS_VENDOR, vendor::CLASS_VERSION),
        }
    }

    /// Returns whether the request goes to a performance management agent.
    pub const fn is_to_agent(&self) -> bool {
        matches!(self, Self::Pma(_) | Self::Clear(_))
    }

    /// Returns the AttributeID.
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::Pma(query) => query.attribute,
            Self::Clear(clear) => clear.of.attribute().id,
            Self::Smp(query) => query.attribute,
            Self::Directed(query) => query.request.attribute,
            Self::Sa(_) => sa::PATH_RECORD,
            Self::Vendor(query) => query.attribute(),
        }
    }

    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        match self {
            Self::Pma(query) => query.emit(tid, mad),
            Self::Clear(clear) => clear.emit(tid, mad),
            Self::Smp(query) => query.emit(tid, mad),
            Self::Directed(query) => query.emit(tid, mad),
            Self::Sa(query) => query.emit(tid, mad),
            Self::Vendor(query) => query.emit(tid, mad),
        }
    }

    /// Checks whether a MAD answers this query. The caller checks the transaction identifier and
    /// the sender.
    ///
    /// # Errors
    /// Returns [`BadReply::Status`] if the agent refused or redirected the query. Returns another
    /// variant if the MAD does not answer this query.
    pub fn check(&self, mad: &Mad, len: usize) -> Result<(), BadReply> {
        // A subnet manager may send a MAD that ends directly after the record.
        let least = if matches!(self, Self::Sa(_)) {
            sa::RECORD_END
        } else {
            MAD_LEN
        };
        if !(least..=MAD_LEN).contains(&len) {
            return Err(BadReply::Length(len));
        }
        let header = Header::parse(mad);
        if (header.class, header.class_version) != self.class() {
            return Err(BadReply::Class {
                class: header.class,
                version: header.class_version,
            });
        }
        if header.method != METHOD_GET_RESP {
            return Err(BadReply::Method(header.method));
        }
        if header.attribute != self.attribute() && !self.is_redirect(&header) {
            return Err(BadReply::Attribute(header.attribute));
        }
        let status = if matches!(self, Self::Directed(_)) {
            directed::status(header.status)
        } else {
            header.status
        };
        if !status.is_ok() {
            return Err(BadReply::Status(status));
        }
        let other_port = match self {
            Self::Pma(query) => pma::other_port(query.port, mad),
            Self::Clear(clear) => pma::other_port(Some(clear.port), mad),
            // A reply repeats the AttributeModifier of the request. For PortInfo, the modifier is
            // the port number, and for a table that of the block.
            Self::Smp(query) | Self::Directed(directed::Query { request: query, .. }) => {
                let is_other = header.modifier != query.modifier;
                is_other.then_some(header.modifier as u8)
            }
            Self::Sa(_) => None,
            Self::Vendor(query) => {
                if query.is_other(&header, mad) {
                    return Err(BadReply::Register(header.modifier));
                }
                None
            }
        };
        other_port.map_or(Ok(()), |found| Err(BadReply::PortSelect(found)))
    }

    /// Returns whether a reply redirects this query and has ClassPortInfo as its attribute.
    ///
    /// The data area of a redirection contains a ClassPortInfo (IBA vol. 1, 13.5.4). Most agents
    /// repeat the AttributeID of the request in the header; the agent of IBM eHCA adapters sends
    /// the AttributeID of ClassPortInfo there.
    fn is_redirect(&self, header: &Header) -> bool {
        self.is_to_agent()
            && header.status.is_redirect()
            && header.attribute == pma::CLASS_PORT_INFO.id
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::PortNum;
    use proptest::prelude::*;

    use super::*;

    const PMA: Query = Query::Pma(pma::Query {
        attribute: 0x12,
        port: Some(PortNum(3)),
    });
    const SMP: Query = Query::Smp(smp::Query {
        attribute: smp::PORT_INFO,
        modifier: 3,
    });

    fn reply(query: Query) -> Mad {
        let mut mad = [0; MAD_LEN];
        query.emit(Tid(1), &mut mad);
        mad[3] = METHOD_GET_RESP;
        mad
    }

    #[test]
    fn reply_counts_only_if_all_header_fields_match() {
        assert_eq!(PMA.check(&reply(PMA), MAD_LEN), Ok(()));
        assert_eq!(PMA.check(&reply(PMA), 24), Err(BadReply::Length(24)));
        let with = |query: Query, at: usize, octet: u8| {
            let mut mad = reply(query);
            mad[at] = octet;
            query.check(&mad, MAD_LEN).expect_err("one octet is wrong")
        };
        assert_eq!(
            with(PMA, 1, 0x03),
            BadReply::Class {
                class: 3,
                version: 1
            }
        );
        assert_eq!(
            with(PMA, 2, 2),
            BadReply::Class {
                class: 4,
                version: 2
            }
        );
        assert_eq!(with(PMA, 3, 0x01), BadReply::Method(1));
        assert_eq!(
            with(PMA, 5, 0x0c),
            BadReply::Status(MadStatus::UNSUPPORTED_ATTRIBUTE)
        );
        assert_eq!(with(PMA, 17, 0x1d), BadReply::Attribute(0x1d));
        assert_eq!(with(PMA, 65, 4), BadReply::PortSelect(4));
        assert_eq!(SMP.check(&reply(SMP), MAD_LEN), Ok(()));
        assert_eq!(
            with(SMP, 1, 0x81),
            BadReply::Class {
                class: 0x81,
                version: 1
            }
        );
        assert_eq!(with(SMP, 23, 4), BadReply::PortSelect(4));
    }

    #[test]
    fn path_record_may_be_cut_after_the_record() {
        let query = Query::Sa(sa::Query {
            source: sa::Gid::default(),
            destination: sa::Gid::default(),
        });
        let mad = reply(query);
        assert_eq!(
            [120, 200, 256].map(|len| query.check(&mad, len)),
            [Ok(()); 3]
        );
        assert_eq!(
            [119, 257].map(|len| query.check(&mad, len)),
            [Err(BadReply::Length(119)), Err(BadReply::Length(257))]
        );
    }

    /// The first 24 octets of a reply to PortCounters with a redirect status.
    const REDIRECT: [u8; 24] = [
        1, 4, 1, 0x81, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x12, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn redirection_counts_with_the_requested_attribute_and_with_class_port_info() {
        let mut mad = [0; MAD_LEN];
        mad[..24].copy_from_slice(&REDIRECT);
        assert_eq!(
            PMA.check(&mad, MAD_LEN),
            Err(BadReply::Status(MadStatus::REDIRECT))
        );
        // The reply of an IBM eHCA: AttributeID 0x0001.
        mad[17] = 0x01;
        assert_eq!(
            PMA.check(&mad, MAD_LEN),
            Err(BadReply::Status(MadStatus::REDIRECT))
        );
        mad[17] = 0x1d;
        assert_eq!(PMA.check(&mad, MAD_LEN), Err(BadReply::Attribute(0x1d)));
        // ClassPortInfo without the redirect status does not answer the query.
        (mad[5], mad[17]) = (0, 0x01);
        assert_eq!(PMA.check(&mad, MAD_LEN), Err(BadReply::Attribute(0x01)));
        mad[5] = 0x0c;
        assert_eq!(PMA.check(&mad, MAD_LEN), Err(BadReply::Attribute(0x01)));
    }

    #[test]
    fn only_performance_management_redirects_with_class_port_info() {
        let mut mad = reply(SMP);
        (mad[5], mad[17]) = (2, 0x01);
        assert_eq!(SMP.check(&mad, MAD_LEN), Err(BadReply::Attribute(0x01)));
    }

    proptest! {
        #[test]
        fn check_of_arbitrary_octets_does_not_panic(noise in prop::collection::vec(any::<u8>(), MAD_LEN), len in 0usize..400) {
            let mad: Mad = noise.try_into().expect("as long as a MAD");
            for query in [PMA, SMP] {
                let _ = query.check(&mad, len);
            }
            let _ = (smp::NodeInfo::parse(pma::data(&mad)), smp::PortInfo::parse(pma::data(&mad)).rate(0), smp::node_description(pma::data(&mad)));
            let _ = (sa::PathRecord::parse(&mad), sa::Query::parse(&mad), pma::class_port_info::Redirect::parse(pma::data(&mad)));
        }
    }
}
