//! Vendor-specific management of NVIDIA devices, class 0x0A: a request with the method Get reads
//! what the device is, or one of its registers.
//!
//! The MADs go to queue pair 1 on a data VL, like those of performance management, so they also
//! reach devices whose subnet management demands a key. The agent of a switch answers for all of
//! its ports; an HCA port has its own agent, which is in the firmware. Nothing runs on the host.
//!
//! - The data begins at octet 24 of the MAD with a key of 8 octets (VS_Key). ibnet sends 0. A
//!   device whose key the subnet manager has set does not answer or refuses the request.
//! - **No request changes a device.** The method is always Get. A request for a register consists
//!   of the fields that select: see [`registers`](ibnet_record::registers).
//! - The layouts are those of the tools `mstflint` and `vendstat`. No reply of hardware was
//!   compared yet.
//!
//! | module | contents |
//! |---|---|
//! | [`general_info`] | 0x17 GeneralInfo: chip, firmware, and which attributes the agent has |
//! | [`register`] | 0x51 AccessRegisterGMP: registers |
//! | [`subnet`] | attributes of subnet management that only this vendor has |

use ibnet_record::types::Tid;

use super::Mad;
use super::header::{HEADER_LEN, Header, METHOD_GET, MadStatus};

pub mod general_info;
pub mod register;
pub mod subnet;

pub use general_info::GeneralInfo;

/// Vendor ID of NVIDIA in NodeInfo.
pub const NVIDIA: u32 = 0x2c9;

/// The management class: vendor range 1, without an OUI and without RMPP.
pub const CLASS_VENDOR: u8 = 0x0a;
/// Version of the class.
pub const CLASS_VERSION: u8 = 1;
/// Octet of the data behind VS_Key.
pub const DATA_OFFSET: usize = HEADER_LEN + 8;

/// A request for what the device is, or for a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Query {
    /// GeneralInfo.
    GeneralInfo,
    /// AccessRegisterGMP.
    Register(register::Query),
}

impl Query {
    /// Returns the AttributeID.
    pub const fn attribute(&self) -> u16 {
        match self {
            Self::GeneralInfo => general_info::GENERAL_INFO,
            Self::Register(_) => register::ACCESS_REGISTER_GMP,
        }
    }

    /// Returns the AttributeModifier: the register ID.
    pub const fn modifier(&self) -> u32 {
        match self {
            Self::GeneralInfo => 0,
            Self::Register(query) => query.page.register().id as u32,
        }
    }

    /// Returns whether a reply belongs to another request.
    pub(super) fn is_other(&self, header: &Header, mad: &Mad) -> bool {
        match self {
            Self::GeneralInfo => false,
            Self::Register(query) => header.modifier != self.modifier() || query.is_other(mad),
        }
    }

    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_VENDOR,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: self.attribute(),
            modifier: self.modifier(),
        };
        header.emit(mad);
        if let Self::Register(query) = self {
            query.emit(mad);
        }
    }
}

/// Returns whether a refusal means that the device lacks the attribute, the register, or the port,
/// sensor or fan of the request. Such a value is absent; it is never 0.
pub const fn is_absent(status: MadStatus) -> bool {
    matches!(status.code(), 2 | 3 | 5 | 7)
}

#[cfg(test)]
mod tests {
    use ibnet_record::registers::{Page, Select};
    use ibnet_record::types::PortNum;
    use proptest::prelude::*;

    use super::register::{BLOCK_LEN, Image, Index, blocks};
    use super::*;
    use crate::mad::header::METHOD_GET_RESP;
    use crate::mad::pma::Bits;
    use crate::mad::query::{self, BadReply};
    use crate::mad::{MAD_LEN, Mad};

    fn emitted(query: Query) -> Mad {
        let mut mad = [0xa5; MAD_LEN];
        query.emit(Tid(0x0102_0304), &mut mad);
        mad
    }

    fn request(page: Page, index: Index, block: u8) -> Query {
        Query::Register(register::Query { page, index, block })
    }

    #[test]
    fn requests_have_their_octets() {
        let mut general = [0; MAD_LEN];
        general[..24].copy_from_slice(&[
            1, 0x0a, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x17, 0, 0, 0, 0, 0, 0,
        ]);
        assert_eq!(emitted(Query::GeneralInfo), general);

        // PPCNT group 0x16 of port 7, plane 2: an InfiniBand port number.
        let index = Index {
            plane: 2,
            ..Index::of_port(PortNum(7))
        };
        let mut ber = general;
        (ber[17], ber[22], ber[23]) = (0x51, 0x50, 0x08);
        ber[36..44].copy_from_slice(&[0, 7, 0x40, 0x16, 0, 0, 2, 0]);
        assert_eq!(emitted(request(Page::Ber, index, 0)), ber);

        // PDDR page 3, light power in microwatts; block 1.
        let mut module = general;
        (module[17], module[22], module[23], module[33]) = (0x51, 0x50, 0x31, 1);
        module[36..44].copy_from_slice(&[0, 7, 0x42, 0, 0x20, 0, 0, 3]);
        assert_eq!(emitted(request(Page::Module, index, 1)), module);

        // MTMP of module 3 in slot 1: sensor 67.
        let sensor = Index {
            slot: 1,
            ..Index::of_item(67)
        };
        let mut temperature = general;
        (temperature[17], temperature[22], temperature[23]) = (0x51, 0x90, 0x0a);
        temperature[36..40].copy_from_slice(&[0, 1, 0, 67]);
        assert_eq!(emitted(request(Page::Sensor, sensor, 0)), temperature);
    }

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut mad = [0; MAD_LEN];
        // PPCNT: the counters begin at octet 44 of the MAD.
        mad[44 + 0x08..44 + 0x20].copy_from_slice(&[
            0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0, 0,
        ]);
        mad[44 + 0x58 + 7] = 8;
        mad[44 + 0x60..44 + 0x74].copy_from_slice(&[
            0x00, 0x05, 8, 0x03, 0, 0, 14, 0x02, 0, 0, 15, 0x01, 9, 0x06, 10, 0x07, 11, 0x04, 12,
            0x0f,
        ]);
        let mut image = Image::default();
        image.take(0, &mad);
        let raw =
            |name, index| image.raw(Page::Ber.register().field(name).expect("declared"), index);
        assert_eq!(raw("phy_received_bits", 0), Some(0x1_0203_0405));
        assert_eq!(raw("phy_symbol_errors", 0), Some(9));
        assert_eq!(raw("phy_corrected_bits", 0), Some(0x1_0000));
        assert_eq!(
            [6, 7, 8].map(|lane| raw("phy_raw_errors_lane", lane)),
            [Some(0), Some(8), None]
        );
        assert_eq!(
            (
                raw("fc_zero_hist", 0),
                raw("raw_ber_magnitude", 0),
                raw("raw_ber_coef", 0)
            ),
            (Some(5), Some(8), Some(3))
        );
        assert_eq!(
            (
                raw("effective_ber_magnitude", 0),
                raw("effective_ber_coef", 0)
            ),
            (Some(14), Some(2))
        );
        assert_eq!(
            (raw("symbol_ber_magnitude", 0), raw("symbol_ber_coef", 0)),
            (Some(15), Some(1))
        );
        assert_eq!(
            [0, 1, 2, 3].map(|lane| raw("raw_ber_magnitude_lane", lane)),
            [9, 10, 11, 12].map(Some)
        );
        assert_eq!(
            [0, 1, 2, 3].map(|lane| raw("raw_ber_coef_lane", lane)),
            [6, 7, 4, 15].map(Some)
        );
    }

    #[test]
    fn module_is_decoded_as_texts_and_measured_values() {
        let mut mad = [0; MAD_LEN];
        mad[44 + 0x14..44 + 0x24].copy_from_slice(b"NVIDIA          ");
        mad[44 + 0x34..44 + 0x38].copy_from_slice(b"\0\0A\x1b");
        mad[44 + 0x4c..44 + 0x54].copy_from_slice(&[0xff, 0x80, 0x80, 0xf4, 1, 2, 3, 4]);
        mad[44 + 0x70..44 + 0x72].copy_from_slice(&[0x0f, 0xa0]);
        let mut image = Image::default();
        image.take(0, &mad);
        let field = |name| Page::Module.register().field(name).expect("declared");
        let number = |name, index| {
            let field = field(name);
            image.raw(field, index).map(|raw| field.number(raw))
        };
        assert_eq!(image.text(field("vendor_name")), "NVIDIA");
        assert_eq!(image.text(field("vendor_rev")), "A?");
        assert_eq!(image.text(field("vendor_sn")), "");
        assert_eq!(number("temperature", 0), Some(-0.5));
        assert_eq!(number("voltage", 0), Some(3.3012));
        assert_eq!(
            [0, 1].map(|lane| number("rx_power_lane", lane)),
            [Some(258.0), Some(772.0)]
        );
        assert_eq!(number("tx_bias_lane", 0), Some(8.0));
        assert_eq!(blocks(Page::Module), 1);
    }

    #[test]
    fn fields_of_a_block_that_was_not_read_are_absent() {
        let field = |name| Page::Fec.register().field(name).expect("declared");
        assert_eq!(blocks(Page::Fec), 2);
        let (mut written, mut read) = (Image::default(), Image::default());
        let values = [
            ("link_down_events", 0, 3),
            // Half of this value is in each block.
            ("rs_fec_corrected_symbols_lane4", 1, 1 << 33 | 5),
            ("intentional_link_down_events", 0, 4),
        ];
        for (name, index, value) in values {
            written.set(field(name), index, value);
        }
        for (block, expected) in [
            (0, [Some(3), None, None]),
            (1, [Some(3), Some(1 << 33 | 5), Some(4)]),
        ] {
            let query = register::Query {
                page: Page::Fec,
                index: Index::of_port(PortNum(1)),
                block,
            };
            let mut mad = emitted(Query::Register(query));
            query.answer(&written, &mut mad);
            read.take(block, &mad);
            assert_eq!(
                values.map(|(name, index, _)| read.raw(field(name), index)),
                expected
            );
        }
        assert_eq!(read.raw(field("link_down_events"), 1), None);
        read.take(9, &[0xff; MAD_LEN]);
        assert_eq!(read.raw(field("link_down_events"), 0), Some(3));
    }

    #[test]
    fn general_info_is_parsed_and_emitted() {
        let mut mad = [0; MAD_LEN];
        mad[32..36].copy_from_slice(&[0, 0xa0, 0xd2, 0xf0]);
        mad[60..68].copy_from_slice(&[0, 1, 0x51, 0x80, 0, 27, 12, 34]);
        mad[80..96].copy_from_slice(b"MT_0000000853\0\0\0");
        mad[160..164].copy_from_slice(&[0, 0x10, 0, 0]);
        let info = GeneralInfo::parse(&mad);
        assert_eq!(
            (info.device_id, info.hw_revision, info.uptime_s),
            (0xd2f0, 0xa0, 86_400)
        );
        assert_eq!((info.firmware, info.has_registers()), ((27, 12, 34), true));
        assert_eq!(&info.psid[..13], b"MT_0000000853");
        mad[100..112].copy_from_slice(&[0, 0, 0, 31, 0, 0, 0x07, 0xdc, 0, 0, 0x0f, 0xa0]);
        let wide = GeneralInfo {
            firmware: (31, 2012, 4000),
            ..info
        };
        assert_eq!(GeneralInfo::parse(&mad), wide);
        let mut written = [0; MAD_LEN];
        wide.emit(&mut written);
        assert_eq!(GeneralInfo::parse(&written), wide);
        assert!(!GeneralInfo::default().has_registers());
        assert!(GeneralInfo::default().with_registers().has_registers());
    }

    #[test]
    fn reply_of_another_register_block_or_port_is_refused() {
        let wanted = request(Page::Ber, Index::of_port(PortNum(3)), 0);
        let query = query::Query::Vendor(wanted);
        let with = |at: usize, octet: u8| {
            let mut mad = emitted(wanted);
            mad[3] = METHOD_GET_RESP;
            mad[at] = octet;
            query.check(&mad, MAD_LEN)
        };
        assert_eq!(with(255, 7), Ok(()));
        assert_eq!(with(23, 0x31), Err(BadReply::Register(0x5031)));
        assert_eq!(
            [with(33, 1), with(37, 4)],
            [Err(BadReply::Register(0x5008)); 2]
        );
        assert_eq!(
            with(1, 0x09),
            Err(BadReply::Class {
                class: 9,
                version: 1
            })
        );
        let refused = with(5, 0x14);
        assert_eq!(
            refused,
            Err(BadReply::Status(MadStatus::UNSUPPORTED_REGISTER))
        );
        assert!(is_absent(MadStatus::UNSUPPORTED_REGISTER) && is_absent(MadStatus::INVALID_VALUE));
        assert!(!is_absent(MadStatus::BUSY) && !is_absent(MadStatus::OK));
    }

    fn indices() -> impl Strategy<Value = Index> {
        (
            any::<u8>(),
            any::<u8>(),
            any::<u8>(),
            any::<u16>(),
            any::<u8>(),
        )
            .prop_map(|(port, plane, slot, item, count)| Index {
                port: PortNum(port),
                plane,
                slot,
                item,
                count,
            })
    }

    /// Bits that act although the method is Get, or that would act if it were Set: register, octet,
    /// bits. The database of mstflint marks them as OP or WO.
    const ACTING: [(u16, usize, u32); 11] = [
        // clr, lp_gl, counters_cap
        (0x5008, 4, 0xe000_0000),
        // sdme, weme, mtr, mte
        (0x900a, 8, 0xf000_0000),
        // rst; ee, ase
        (0x5012, 0, 0x8000_0000),
        (0x5012, 4, 0xc000_0000),
        // plr_vld and similar bits; the settings of FEC
        (0x5023, 0, 0x0f00_000c),
        (0x5023, 0x0c, 0xff00_0000),
        (0x5023, 0x14, u32::MAX),
        (0x5023, 0x20, u32::MAX),
        (0x5023, 0x24, u32::MAX),
        // the planes of an aggregated port
        (0x504c, 0x08, u32::MAX),
        (0x504c, 0x0c, u32::MAX),
    ];

    proptest! {
        /// Whatever the arguments are: the method is Get, and only bits of the fields that select
        /// are set.
        #[test]
        fn no_request_can_act(page in 0..Page::ALL.len(), index in indices(), block in any::<u8>()) {
            let page = Page::ALL[page];
            let register = page.register();
            let mut mad = emitted(request(page, index, block));
            let header = Header::parse(&mad);
            prop_assert_eq!((header.class, header.method), (0x0a, METHOD_GET));
            prop_assert_eq!((header.attribute, header.modifier), (0x51, u32::from(register.id)));
            for (id, octet, bits) in ACTING {
                let dword = mad[36 + octet..].first_chunk().map(|octets| u32::from_be_bytes(*octets));
                prop_assert_eq!(dword.unwrap_or(0) & if id == register.id { bits } else { 0 }, 0, "{}", page);
            }
            for (field, select) in register.request {
                if let Select::Constant(value) = select {
                    prop_assert_eq!(field.raw(&mad[36..], 0), u64::from(*value));
                }
                field.set_raw(&mut mad[36..], 0, 0);
            }
            prop_assert!(mad[24..32].iter().chain(&mad[34..]).all(|octet| *octet == 0), "{}", page);
            prop_assert_eq!(mad[32..34].to_vec(), vec![0, block]);
        }

        #[test]
        fn agent_reads_what_the_request_selects(page in 0..Page::ALL.len(), index in indices(), block in 0u8..2) {
            let query = register::Query { page: Page::ALL[page], index, block };
            let mad = emitted(Query::Register(query));
            let read = register::Query::parse(&mad).expect("ibnet has the page");
            prop_assert_eq!((read.page, read.block), (query.page, block));
            prop_assert_eq!(emitted(Query::Register(read)), mad);
        }

        #[test]
        fn pages_of_arbitrary_octets_are_read(noise in prop::collection::vec(any::<u8>(), 2 * BLOCK_LEN)) {
            let mut image = Image::default();
            for (block, octets) in noise.chunks_exact(BLOCK_LEN).zip(0..).map(|(octets, block)| (block, octets)) {
                let mut mad = [0; MAD_LEN];
                mad[36..].copy_from_slice(octets);
                image.take(block, &mad);
                let _ = register::Query::parse(&mad);
            }
            for page in Page::ALL {
                for field in page.register().fields {
                    for index in 0..field.len {
                        let raw = image.raw(field, index).expect("both blocks are there");
                        prop_assert!(raw <= field.all_ones());
                        let mut written = image;
                        written.set(field, index, raw);
                        prop_assert_eq!(written, image);
                    }
                    prop_assert!(image.text(field).is_ascii());
                }
            }
        }
    }
}
