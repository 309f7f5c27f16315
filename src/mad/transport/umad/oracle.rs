//! libibmad as the oracle of our codec: other people's code over the same octets.

use std::ffi::c_int;

use proptest::prelude::*;

use super::sys::{self, MAD_FIELDS};
use crate::mad::pma::{Attribute, CLASS_PORT_INFO, DATA_LEN, Data, Field, Group};

/// What libibmad reads in a field of these octets.
#[expect(unsafe_code, reason = "libibmad")]
fn libibmad(data: &Data, field: MAD_FIELDS::Type, width: u8) -> u64 {
    // A field that ends inside an octet makes libibmad read whole words; a copy with room behind it keeps that within bounds.
    let mut octets = [0u8; DATA_LEN + 64];
    octets[..DATA_LEN].copy_from_slice(data);
    let (octets, base): (_, c_int) = (octets.as_mut_ptr().cast(), 0);
    // SAFETY: every field of these attributes lies within the data area, which is shorter than the buffer.
    unsafe { if width > 32 { sys::mad_get_field64(octets, base, field) } else { u64::from(sys::mad_get_field(octets, base, field)) } }
}

/// The number of a field by libibmad's name for it, which the reference table tells.
fn number(attribute: &Attribute, field: &Field) -> MAD_FIELDS::Type {
    let table = include_str!("../../../../tests/data/pma-fields.tsv");
    let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let row = rows.find(|row| row[0].eq_ignore_ascii_case(&format!("{:#06x}", attribute.id)) && row[3] == field.name);
    let name = row.unwrap_or_else(|| panic!("{} of {} is not in the table", field.name, attribute.name))[2];
    let found = NUMBERS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("{name} is not in the list of this test")).1
}

macro_rules! numbers {
    ($($name:ident)*) => { &[$((stringify!($name), MAD_FIELDS::$name)),*] };
}

const NUMBERS: &[(&str, MAD_FIELDS::Type)] = numbers! {
    IB_CPI_BASEVER_F IB_CPI_CLASSVER_F IB_CPI_CAPMASK_F IB_CPI_CAPMASK2_F IB_CPI_RESP_TIME_VALUE_F IB_PC_PORT_SELECT_F
    IB_PC_COUNTER_SELECT_F IB_PC_ERR_SYM_F IB_PC_LINK_RECOVERS_F IB_PC_LINK_DOWNED_F IB_PC_ERR_RCV_F IB_PC_ERR_PHYSRCV_F
    IB_PC_ERR_SWITCH_REL_F IB_PC_XMT_DISCARDS_F IB_PC_ERR_XMTCONSTR_F IB_PC_ERR_RCVCONSTR_F IB_PC_COUNTER_SELECT2_F
    IB_PC_ERR_LOCALINTEG_F IB_PC_ERR_EXCESS_OVR_F IB_PC_QP1_DROP_F IB_PC_VL15_DROPPED_F IB_PC_XMT_BYTES_F IB_PC_RCV_BYTES_F
    IB_PC_XMT_PKTS_F IB_PC_RCV_PKTS_F IB_PC_XMT_WAIT_F IB_PC_RCV_LOCAL_PHY_ERR_F IB_PC_RCV_MALFORMED_PKT_ERR_F
    IB_PC_RCV_BUF_OVR_ERR_F IB_PC_RCV_DLID_MAP_ERR_F IB_PC_RCV_VL_MAP_ERR_F IB_PC_RCV_LOOPING_ERR_F IB_PC_XMT_INACT_DISC_F
    IB_PC_XMT_NEIGH_MTU_DISC_F IB_PC_XMT_SW_LIFE_DISC_F IB_PC_XMT_SW_HOL_DISC_F IB_PC_EXT_PORT_SELECT_F IB_PC_EXT_COUNTER_SELECT_F
    IB_PC_EXT_COUNTER_SELECT2_F IB_PC_EXT_XMT_BYTES_F IB_PC_EXT_RCV_BYTES_F IB_PC_EXT_XMT_PKTS_F IB_PC_EXT_RCV_PKTS_F
    IB_PC_EXT_XMT_UPKTS_F IB_PC_EXT_RCV_UPKTS_F IB_PC_EXT_XMT_MPKTS_F IB_PC_EXT_RCV_MPKTS_F IB_PC_EXT_ERR_SYM_F
    IB_PC_EXT_LINK_RECOVERS_F IB_PC_EXT_LINK_DOWNED_F IB_PC_EXT_ERR_RCV_F IB_PC_EXT_ERR_PHYSRCV_F IB_PC_EXT_ERR_SWITCH_REL_F
    IB_PC_EXT_XMT_DISCARDS_F IB_PC_EXT_ERR_XMTCONSTR_F IB_PC_EXT_ERR_RCVCONSTR_F IB_PC_EXT_ERR_LOCALINTEG_F
    IB_PC_EXT_ERR_EXCESS_OVR_F IB_PC_EXT_VL15_DROPPED_F IB_PC_EXT_XMT_WAIT_F IB_PC_EXT_QP1_DROP_F
};

proptest! {
    #[test]
    fn our_decoding_is_libibmad_s(octets in prop::collection::vec(any::<u8>(), DATA_LEN)) {
        let data: Data = octets.try_into().expect("as long as the data area");
        for attribute in Group::ALL.into_iter().map(Group::attribute).chain([&CLASS_PORT_INFO]) {
            for field in attribute.fields {
                // libibmad reads VL15Dropped there: IB_PC_QP1_DROP_F lacks the macro that puts bits in order.
                if (attribute.id, field.name) == (0x12, "QP1Dropped") {
                    continue;
                }
                prop_assert_eq!(field.raw(&data, 0), libibmad(&data, number(attribute, field), field.width), "{} of {}", field.name, attribute.name);
            }
        }
    }
}

#[test]
fn libibmad_still_reads_qp1_dropped_where_vl15_dropped_is() {
    let mut data = [0; DATA_LEN];
    (data[20], data[21], data[22], data[23]) = (0x0a, 0x0b, 0x12, 0x34);
    let attribute = Group::Base.attribute();
    let field = attribute.field("QP1Dropped").expect("declared");
    assert_eq!(field.raw(&data, 0), 0x0a0b);
    assert_eq!(libibmad(&data, number(attribute, field), field.width), 0x1234, "libibmad was mended: drop the exception above");
}
