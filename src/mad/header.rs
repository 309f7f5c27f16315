//! The common header of MADs (IBA vol. 1, 13.4.2): the first 24 octets of every MAD.

use std::fmt;
use std::ops::Range;

use ibnet_record::types::Tid;

use super::{MAD_LEN, Mad};

/// Octet positions of the fields.
mod field {
    use super::Range;

    pub(super) const BASE_VERSION: usize = 0;
    pub(super) const MGMT_CLASS: usize = 1;
    pub(super) const CLASS_VERSION: usize = 2;
    pub(super) const METHOD: usize = 3;
    pub(super) const STATUS: Range<usize> = 4..6;
    pub(super) const CLASS_SPECIFIC: Range<usize> = 6..8;
    /// High half of the transaction identifier. The kernel writes the agent id into it.
    pub(super) const TID_HIGH: Range<usize> = 8..12;
    pub(super) const TID_LOW: Range<usize> = 12..16;
    pub(super) const ATTRIBUTE_ID: Range<usize> = 16..18;
    pub(super) const RESERVED: Range<usize> = 18..20;
    pub(super) const ATTRIBUTE_MODIFIER: Range<usize> = 20..24;
}

/// Length of the common header in octets.
pub const HEADER_LEN: usize = field::ATTRIBUTE_MODIFIER.end;

/// Base version of every MAD.
pub const BASE_VERSION: u8 = 1;

/// Method of a request that reads an attribute.
pub const METHOD_GET: u8 = 0x01;
/// Method of a request that writes an attribute. ibnet sends it only to subscribe to traps
/// ([`inform`](super::inform)) and to clear counters ([`pma::Clear`](super::pma::Clear)), and only
/// if the configuration requests it.
pub const METHOD_SET: u8 = 0x02;
/// Method of the reply to Get and Set.
pub const METHOD_GET_RESP: u8 = 0x81;

/// The fields of the common header, without the constant versions and the reserved octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Management class. Performance management is class 0x04.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method, including the response bit.
    pub method: u8,
    /// Status of a reply. It is 0 in a request.
    pub status: MadStatus,
    /// Low half of the transaction identifier.
    pub tid: Tid,
    /// AttributeID.
    pub attribute: u16,
    /// AttributeModifier. The attribute defines its meaning.
    pub modifier: u32,
}

/// The status of a reply (IBA vol. 1, 13.4.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MadStatus(pub u16);

impl Header {
    /// Parses the header. Every sequence of octets is a valid header.
    pub fn parse(mad: &Mad) -> Self {
        let u16_at = |at: Range<usize>| u16::from_be_bytes([mad[at.start], mad[at.start + 1]]);
        let u32_at = |at: Range<usize>| {
            u32::from_be_bytes([
                mad[at.start],
                mad[at.start + 1],
                mad[at.start + 2],
                mad[at.start + 3],
            ])
        };
        Self {
            class: mad[field::MGMT_CLASS],
            class_version: mad[field::CLASS_VERSION],
            method: mad[field::METHOD],
            status: MadStatus(u16_at(field::STATUS)),
            tid: Tid(u32_at(field::TID_LOW)),
            attribute: u16_at(field::ATTRIBUTE_ID),
            modifier: u32_at(field::ATTRIBUTE_MODIFIER),
        }
    }

    /// Writes the header, and sets the rest of the MAD to zero.
    pub fn emit(&self, mad: &mut Mad) {
        mad[field::BASE_VERSION] = BASE_VERSION;
        mad[field::MGMT_CLASS] = self.class;
        mad[field::CLASS_VERSION] = self.class_version;
        mad[field::METHOD] = self.method;
        mad[field::STATUS].copy_from_slice(&self.status.0.to_be_bytes());
        mad[field::CLASS_SPECIFIC].fill(0);
        mad[field::TID_HIGH].fill(0);
        mad[field::TID_LOW].copy_from_slice(&self.tid.0.to_be_bytes());
        mad[field::ATTRIBUTE_ID].copy_from_slice(&self.attribute.to_be_bytes());
        mad[field::RESERVED].fill(0);
        mad[field::ATTRIBUTE_MODIFIER].copy_from_slice(&self.modifier.to_be_bytes());
        mad[HEADER_LEN..MAD_LEN].fill(0);
    }
}

impl MadStatus {
    /// No error.
    pub const OK: Self = Self(0);
    /// The agent is busy and has discarded the request, which can be sent again.
    pub const BUSY: Self = Self(0x0001);
    /// Another agent answers such requests. The data area of the reply has its address.
    pub const REDIRECT: Self = Self(0x0002);
    /// The agent does not support the attribute, or not with this method.
    pub const UNSUPPORTED_ATTRIBUTE: Self = Self(0x000c);
    /// The device does not have the register. Only class 0x0A has this status.
    pub const UNSUPPORTED_REGISTER: Self = Self(0x0014);
    /// A value in the attribute or in its modifier is invalid, for example a PortSelect for a port
    /// that does not exist.
    pub const INVALID_VALUE: Self = Self(0x001c);

    /// Returns whether the status reports no error. Its class-specific upper half must be 0 too.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the reply redirects to another agent.
    pub const fn is_redirect(self) -> bool {
        self.0 & 2 != 0 && self.code() == 0
    }

    /// Returns bits 2 to 4: the reason if the agent refused the request, otherwise 0.
    pub const fn code(self) -> u8 {
        ((self.0 >> 2) & 7) as u8
    }

    /// Returns whether the agent does not support the method or the attribute (codes 2 and 3).
    pub const fn is_unsupported(self) -> bool {
        matches!(self.code(), 2 | 3)
    }
}

impl fmt::Display for MadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match (self.0 & 3, self.code()) {
            (_, 1) => "bad base or class version",
            (_, 2) => "method not supported",
            (_, 3) => "attribute not supported",
            (_, 5) => "register not supported (class 0x0a)",
            (_, 7) => "invalid value in attribute or modifier",
            (2 | 3, _) => "redirect required",
            (1, _) => "busy",
            (0, 0) if self.0 == 0 => "ok",
            _ => "class-specific",
        };
        write!(f, "{:#06x} ({meaning})", self.0)
    }
}

impl fmt::Debug for MadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTETS: [u8; HEADER_LEN] = [
        0x01, 0x04, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xca, 0xfe, 0xba,
        0xbe, 0x00, 0x1d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
    ];
    const REPR: Header = Header {
        class: 4,
        class_version: 1,
        method: METHOD_GET,
        status: MadStatus::OK,
        tid: Tid(0xcafe_babe),
        attribute: 0x1d,
        modifier: 7,
    };

    #[test]
    fn emit_overwrites_the_whole_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        REPR.emit(&mut mad);
        assert_eq!(mad[..HEADER_LEN], OCTETS);
        assert!(mad[HEADER_LEN..].iter().all(|octet| *octet == 0));
    }

    #[test]
    fn parse_ignores_the_high_half_of_the_tid() {
        let mut mad = [0; MAD_LEN];
        mad[..HEADER_LEN].copy_from_slice(&OCTETS);
        mad[8..12].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(Header::parse(&mad), REPR);
    }

    #[test]
    fn status_is_decoded_by_its_three_bit_code() {
        assert!(
            MadStatus(0x000c).is_unsupported()
                && MadStatus(0x0008).is_unsupported()
                && MadStatus(0xff0c).is_unsupported()
        );
        assert!(!MadStatus::INVALID_VALUE.is_unsupported() && !MadStatus::BUSY.is_unsupported());
        assert_eq!(
            MadStatus(0x001c).to_string(),
            "0x001c (invalid value in attribute or modifier)"
        );
        assert!(!MadStatus(0x0100).is_ok());
    }
}
