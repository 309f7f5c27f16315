//! A request of any class that ibnet speaks, and the check of what comes back.

use super::header::{Header, METHOD_GET_RESP, MadStatus};
use super::{MAD_LEN, Mad, pma, sa, smp};
use crate::types::Tid;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Query {
    /// Counters, and what an agent can do.
    Pma(pma::Query),
    /// Who a device is, and how its links are.
    Smp(smp::Query),
    /// The way to a port.
    Sa(sa::Query),
}

/// Why a MAD is no answer to a query. Allocates nothing: it happens once a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadReply {
    /// Not 256 octets, or not all of a record.
    #[error("{0} octets instead of 256")]
    Length(usize),
    /// Another management class, or a version of it that is not ours.
    #[error("class {class:#04x} version {version} instead of the one asked")]
    Class {
        /// As it came.
        class: u8,
        /// As it came.
        version: u8,
    },
    /// No response.
    #[error("method {0:#04x} instead of GetResp")]
    Method(u8),
    /// Another attribute.
    #[error("attribute {0:#06x} instead of the one asked for")]
    Attribute(u16),
    /// Another port.
    #[error("PortSelect {0} instead of the one asked for")]
    PortSelect(u8),
    /// A true answer that says no.
    #[error("status {0}")]
    Status(MadStatus),
}

impl Query {
    /// Its class and the version of it.
    pub const fn class(&self) -> (u8, u8) {
        match self {
            Self::Pma(_) => (pma::CLASS_PERF_MGT, pma::CLASS_VERSION),
            Self::Smp(_) => (smp::CLASS_SUBN_LID_ROUTED, smp::CLASS_VERSION),
            Self::Sa(_) => (sa::CLASS_SUBN_ADM, sa::CLASS_VERSION),
        }
    }

    /// Its attribute.
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::Pma(query) => query.attribute,
            Self::Smp(query) => query.attribute,
            Self::Sa(_) => sa::PATH_RECORD,
        }
    }

    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        match self {
            Self::Pma(query) => query.emit(tid, mad),
            Self::Smp(query) => query.emit(tid, mad),
            Self::Sa(query) => query.emit(tid, mad),
        }
    }

    /// Whether a reply answers this query. The transaction and the sender are the engine's to
    /// check.
    ///
    /// # Errors
    /// [`BadReply::Status`] if the agent refused; any other if this is no answer to this query at
    /// all.
    pub fn check(&self, mad: &Mad, len: usize) -> Result<(), BadReply> {
        // A subnet manager may cut a MAD behind its record.
        let least = if matches!(self, Self::Sa(_)) { sa::RECORD_END } else { MAD_LEN };
        if !(least..=MAD_LEN).contains(&len) {
            return Err(BadReply::Length(len));
        }
        let header = Header::parse(mad);
        if (header.class, header.class_version) != self.class() {
            return Err(BadReply::Class { class: header.class, version: header.class_version });
        }
        if header.method != METHOD_GET_RESP {
            return Err(BadReply::Method(header.method));
        }
        if header.attribute != self.attribute() {
            return Err(BadReply::Attribute(header.attribute));
        }
        if !header.status.is_ok() {
            return Err(BadReply::Status(header.status));
        }
        match self {
            Self::Pma(query) => query.other_port(mad).map_or(Ok(()), |told| Err(BadReply::PortSelect(told))),
            // A reply repeats the modifier, which says whose PortInfo it is.
            Self::Smp(query) if header.modifier != u32::from(query.port.0) => Err(BadReply::PortSelect(header.modifier as u8)),
            Self::Smp(_) | Self::Sa(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::PortNum;

    const PMA: Query = Query::Pma(pma::Query { attribute: 0x12, port: Some(PortNum(3)) });
    const SMP: Query = Query::Smp(smp::Query { attribute: smp::PORT_INFO, port: PortNum(3) });

    fn reply(query: Query) -> Mad {
        let mut mad = [0; MAD_LEN];
        query.emit(Tid(1), &mut mad);
        mad[3] = METHOD_GET_RESP;
        mad
    }

    #[test]
    fn a_reply_is_taken_only_if_all_of_it_fits() {
        assert_eq!(PMA.check(&reply(PMA), MAD_LEN), Ok(()));
        assert_eq!(PMA.check(&reply(PMA), 24), Err(BadReply::Length(24)));
        let with = |query: Query, at: usize, octet: u8| {
            let mut mad = reply(query);
            mad[at] = octet;
            query.check(&mad, MAD_LEN).expect_err("one octet is wrong")
        };
        assert_eq!(with(PMA, 1, 0x03), BadReply::Class { class: 3, version: 1 });
        assert_eq!(with(PMA, 2, 2), BadReply::Class { class: 4, version: 2 });
        assert_eq!(with(PMA, 3, 0x01), BadReply::Method(1));
        assert_eq!(with(PMA, 5, 0x0c), BadReply::Status(MadStatus::UNSUPPORTED_ATTRIBUTE));
        assert_eq!(with(PMA, 17, 0x1d), BadReply::Attribute(0x1d));
        assert_eq!(with(PMA, 65, 4), BadReply::PortSelect(4));
        assert_eq!(SMP.check(&reply(SMP), MAD_LEN), Ok(()));
        assert_eq!(with(SMP, 1, 0x81), BadReply::Class { class: 0x81, version: 1 });
        assert_eq!(with(SMP, 23, 4), BadReply::PortSelect(4));
    }

    #[test]
    fn a_path_record_may_end_with_its_mad() {
        let query = Query::Sa(sa::Query { source: sa::Gid::default(), destination: sa::Gid::default() });
        let mad = reply(query);
        assert_eq!([120, 200, 256].map(|len| query.check(&mad, len)), [Ok(()); 3]);
        assert_eq!([119, 257].map(|len| query.check(&mad, len)), [Err(BadReply::Length(119)), Err(BadReply::Length(257))]);
    }

    proptest! {
        #[test]
        fn no_octets_make_the_check_of_a_reply_panic(noise in prop::collection::vec(any::<u8>(), MAD_LEN), len in 0usize..400) {
            let mad: Mad = noise.try_into().expect("as long as a MAD");
            for query in [PMA, SMP] {
                let _ = query.check(&mad, len);
            }
            let _ = (smp::NodeInfo::parse(pma::data(&mad)), smp::PortInfo::parse(pma::data(&mad)).rate(0), smp::node_description(pma::data(&mad)));
            let _ = (sa::PathRecord::parse(&mad), sa::Query::parse(&mad), pma::class_port_info::Redirect::parse(pma::data(&mad)));
        }
    }
}
