//! Subnet administration, class 0x03 (IBA vol. 1, 15.2), a service of the subnet manager. ibnet
//! reads one attribute, PathRecord, which contains the LID of a port and the service level of the
//! path to it.
//!
//! A single record fits into one MAD, so ibnet does not need RMPP, which splits longer replies of
//! this class into several MADs. The attribute begins at octet 56 of the MAD.

use std::fmt;

use ibnet_record::types::{Guid, Lid, Tid};

use super::header::{HEADER_LEN, Header, METHOD_GET, MadStatus};
use super::{MAD_LEN, Mad};

/// The management class.
pub const CLASS_SUBN_ADM: u8 = 0x03;
/// Version of the class.
pub const CLASS_VERSION: u8 = 2;
/// AttributeID of PathRecord.
pub const PATH_RECORD: u16 = 0x0035;

/// Octets of a MAD up to the end of the PathRecord, which begins at octet 56 and has 64 octets.
pub const RECORD_END: usize = 120;

/// Positions of the fields, in octets of the MAD (IBA vol. 1, 15.2.1.1 and 15.2.5.16).
mod field {
    use std::ops::Range;

    pub(super) const COMPONENT_MASK: Range<usize> = 48..56;
    pub(super) const DGID: Range<usize> = 64..80;
    pub(super) const SGID: Range<usize> = 80..96;
    pub(super) const DLID: Range<usize> = 96..98;
    /// Reversible (one bit), and NumbPath (seven bits): the requested number of records.
    pub(super) const NUMB_PATH: usize = 105;
    /// SL: the lower four bits of two octets.
    pub(super) const SL: usize = 109;
}

/// Bits of the component mask.
mod component {
    pub(super) const DGID: u64 = 1 << 2;
    pub(super) const SGID: u64 = 1 << 3;
    pub(super) const REVERSIBLE: u64 = 1 << 11;
    pub(super) const NUMB_PATH: u64 = 1 << 12;
}

/// A global identifier: a subnet prefix and a port GUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Gid {
    /// Subnet prefix.
    pub prefix: u64,
    /// Port GUID.
    pub guid: Guid,
}

/// The status of a reply of subnet administration, whose upper octet is specific to the class (IBA
/// vol. 1, 15.2; `umad_sa.h` of rdma-core).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub MadStatus);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.0.0 {
            0x0100 => "no resources",
            0x0200 => "invalid request",
            0x0300 => "no records",
            0x0400 => "too many records",
            0x0500 => "invalid GID",
            0x0600 => "insufficient components",
            0x0700 => "request denied",
            _ => return self.0.fmt(f),
        };
        write!(f, "{:#06x} ({meaning})", self.0.0)
    }
}

/// A request for a reversible path between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// GID of the first port of the path, which sends the request.
    pub source: Gid,
    /// GID of the last port of the path.
    pub destination: Gid,
}

/// The fields of a PathRecord that ibnet uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRecord {
    /// LID of the destination.
    pub dlid: Lid,
    /// Service level to the destination.
    pub sl: u8,
}

impl Query {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_SUBN_ADM,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: PATH_RECORD,
            modifier: 0,
        };
        header.emit(mad);
        let mask = component::DGID | component::SGID | component::REVERSIBLE | component::NUMB_PATH;
        mad[field::COMPONENT_MASK].copy_from_slice(&mask.to_be_bytes());
        mad[field::DGID].copy_from_slice(&self.destination.octets());
        mad[field::SGID].copy_from_slice(&self.source.octets());
        mad[field::NUMB_PATH] = 0x80 | 1;
    }

    /// Parses a request, for the simulated subnet manager.
    pub fn parse(mad: &Mad) -> Self {
        Self {
            source: Gid::parse(mad, field::SGID.start),
            destination: Gid::parse(mad, field::DGID.start),
        }
    }
}

impl PathRecord {
    /// Parses the record of a reply.
    pub fn parse(mad: &Mad) -> Self {
        Self {
            dlid: Lid(u16::from_be_bytes([
                mad[field::DLID.start],
                mad[field::DLID.start + 1],
            ])),
            sl: mad[field::SL] & 0x0f,
        }
    }

    /// Writes the record into a reply.
    pub fn emit(&self, mad: &mut Mad) {
        mad[field::DLID].copy_from_slice(&self.dlid.0.to_be_bytes());
        mad[field::SL] = mad[field::SL] & 0xf0 | self.sl & 0x0f;
    }
}

impl Gid {
    fn octets(self) -> [u8; 16] {
        (u128::from(self.prefix) << 64 | u128::from(self.guid.0)).to_be_bytes()
    }

    fn parse(mad: &Mad, at: usize) -> Self {
        let whole = mad[at..]
            .first_chunk()
            .map_or(0, |octets| u128::from_be_bytes(*octets));
        Self {
            prefix: (whole >> 64) as u64,
            guid: Guid(whole as u64),
        }
    }
}

const _: () = assert!(HEADER_LEN <= field::COMPONENT_MASK.start && field::SL < MAD_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: Query = Query {
        source: Gid {
            prefix: 0xfe80_0000_0000_0000,
            guid: Guid(0x0102_0304_0506_0708),
        },
        destination: Gid {
            prefix: 0xfe80_0000_0000_0000,
            guid: Guid(0x1112_1314_1516_1718),
        },
    };

    #[test]
    fn status_is_printed_with_its_meaning_in_this_class() {
        let printed = [0x0200, 0x0700, 0x000c].map(|status| Status(MadStatus(status)).to_string());
        assert_eq!(
            printed,
            [
                "0x0200 (invalid request)",
                "0x0700 (request denied)",
                "0x000c (attribute not supported)"
            ]
        );
    }

    #[test]
    fn request_overwrites_the_whole_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        QUERY.emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x35, 0, 0, 0, 0, 0, 0,
        ]);
        expected[48..56].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0x18, 0x0c]);
        expected[64..80].copy_from_slice(&[
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        ]);
        expected[80..96].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        expected[105] = 0x81;
        assert_eq!(mad, expected);
        assert_eq!(Query::parse(&mad), QUERY);
    }

    #[test]
    fn record_is_parsed_from_its_octets() {
        let mut mad = [0xff; MAD_LEN];
        mad[96..98].copy_from_slice(&[0x01, 0x02]);
        mad[108..110].copy_from_slice(&[0xff, 0xf3]);
        assert_eq!(
            PathRecord::parse(&mad),
            PathRecord {
                dlid: Lid(0x0102),
                sl: 3
            }
        );
        PathRecord {
            dlid: Lid(7),
            sl: 9,
        }
        .emit(&mut mad);
        assert_eq!(
            (PathRecord::parse(&mad), mad[109]),
            (
                PathRecord {
                    dlid: Lid(7),
                    sl: 9
                },
                0xf9
            )
        );
    }
}
