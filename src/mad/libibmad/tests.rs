//! Compares the decoding of this crate with that of libibmad on random octets.

use std::sync::LazyLock;

use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Tid};
use proptest::prelude::*;

use super::*;
use crate::mad::pma::{Bits, CLASS_PORT_INFO, data, data_mut};
use crate::mad::{MAD_LEN, forwarding, sa, sm_info, smp};

fn attributes() -> impl Iterator<Item = &'static Attribute> {
    let views = Group::ALL
        .into_iter()
        .flat_map(|group| [Some(group.attribute()), group.other_view()])
        .flatten();
    views.chain([&CLASS_PORT_INFO])
}

/// A reader for each value of performance management, with its attribute.
static READERS: LazyLock<Vec<(&Attribute, FieldReader)>> = LazyLock::new(|| {
    attributes()
        .flat_map(|attribute| {
            field_readers(attribute)
                .into_iter()
                .map(move |reader| (attribute, reader))
        })
        .collect()
});

proptest! {
    #[test]
    fn performance_management_decodes_as_in_libibmad(octets in prop::collection::vec(any::<u8>(), MAD_LEN)) {
        let mad: Mad = octets.try_into().expect("256 octets");
        let reply = Reply::new(&mad);
        for (attribute, reader) in &*READERS {
            if reader.is_wrong_in_libibmad(attribute) {
                continue;
            }
            let ours = reader.field.raw(data(&mad), reader.index);
            prop_assert_eq!(ours, reader.read(&reply), "{} {} of {}", reader.field.name, reader.index, attribute.name);
        }
    }
}

#[test]
fn libibmad_has_every_field_but_the_opcode_of_three_attributes() {
    let declared: usize = attributes()
        .flat_map(|attribute| attribute.fields)
        .map(|field| usize::from(field.len))
        .sum();
    assert_eq!((declared - READERS.len(), READERS.len() > 300), (3, true));
}

#[test]
fn libibmad_reads_qp1_dropped_where_vl15_dropped_is() {
    let mut mad = [0; MAD_LEN];
    data_mut(&mut mad)[20..24].copy_from_slice(&[0x0a, 0x0b, 0x12, 0x34]);
    let values = decode(&mad, Group::Base.attribute());
    let value = values
        .iter()
        .find(|value| value.field.name == "QP1Dropped")
        .expect("libibmad has the field");
    assert_eq!(value.field.raw(data(&mad), 0), 0x0a0b);
    assert_eq!(
        value.value, 0x1234,
        "libibmad was corrected: remove the exception above"
    );
}

#[test]
fn unknown_name_has_no_reader() {
    assert!(FieldReader::of_management(&smp::FEC_MODE_ACTIVE, "IB_NO_SUCH_FIELD_F").is_none());
}

#[test]
fn libibmad_has_every_field_of_subnet_management_but_one() {
    let declared = smp::NODE_INFO_FIELDS.len()
        + smp::PORT_INFO_FIELDS.len()
        + forwarding::SWITCH_INFO_FIELDS.len()
        + 1
        + sm_info::SM_INFO_FIELDS.len()
        + subnet::EXTENDED_PORT_INFO_FIELDS
            .iter()
            .filter(|field| field.is_compared)
            .count();
    let readers = MANAGEMENT_READERS.iter().map(Vec::len).sum::<usize>();
    assert_eq!(declared - readers, 1, "LinkSpeedExtActive2");
}

/// A reader for each field of subnet management that libibmad has and this crate reads.
static MANAGEMENT_READERS: LazyLock<Vec<Vec<FieldReader>>> = LazyLock::new(|| {
    [
        smp::NODE_INFO,
        smp::PORT_INFO,
        smp::PORT_INFO_EXTENDED,
        forwarding::SWITCH_INFO,
        sm_info::SM_INFO,
        subnet::EXTENDED_PORT_INFO,
    ]
    .map(management_readers)
    .into()
});

/// The fields of PathRecord that this crate writes or reads.
static DGID: Field = Field::new("DGID", "dgid", 64, 128);
static SGID: Field = Field::new("SGID", "sgid", 192, 128);
static DLID: Field = Field::new("DLID", "dlid", 320, 16);
static NUMB_PATH: Field = Field::new("NumbPath", "numb_path", 393, 7);
static SL: Field = Field::new("SL", "sl", 428, 4);

proptest! {
    #[test]
    fn subnet_management_decodes_as_in_libibmad(octets in prop::collection::vec(any::<u8>(), MAD_LEN)) {
        let mad: Mad = octets.try_into().expect("256 octets");
        let reply = Reply::new(&mad);
        for reader in MANAGEMENT_READERS.iter().flatten() {
            prop_assert_eq!(reader.field.raw(data(&mad), 0), reader.read(&reply), "{}", reader.field.name);
        }
    }

    #[test]
    fn printed_port_info_decodes_as_in_libibmad(octets in prop::collection::vec(any::<u8>(), MAD_LEN)) {
        let mad: Mad = octets.try_into().expect("256 octets");
        let reply = Reply::new(&mad);
        for printed in &PRINTED {
            let reader = FieldReader::of_management(&printed.field, printed.libibmad).expect("libibmad has the field");
            prop_assert_eq!(printed.field.raw(data(&mad), 0), reader.read(&reply), "{}", printed.field.name);
        }
    }

    #[test]
    fn path_records_decode_as_in_libibmad(
        octets in prop::collection::vec(any::<u8>(), MAD_LEN),
        source in any::<u64>(),
        destination in any::<u64>(),
    ) {
        let mut mad: Mad = octets.try_into().expect("256 octets");
        let read = |mad: &Mad, field, name| {
            FieldReader::of_administration(field, name).expect("libibmad has the field").read(&Reply::new(mad))
        };
        let path = sa::PathRecord::parse(&mad);
        prop_assert_eq!(u64::from(path.dlid.0), read(&mad, &DLID, "IB_SA_PR_DLID_F"));
        prop_assert_eq!(u64::from(path.sl), read(&mad, &SL, "IB_SA_PR_SL_F"));
        let gid = |guid| sa::Gid { prefix: 1, guid: Guid(guid) };
        sa::Query { source: gid(source), destination: gid(destination) }.emit(Tid(1), &mut mad);
        prop_assert_eq!(read(&mad, &DGID, "IB_SA_PR_DGID_F"), destination);
        prop_assert_eq!(read(&mad, &SGID, "IB_SA_PR_SGID_F"), source);
        prop_assert_eq!(read(&mad, &NUMB_PATH, "IB_SA_PR_NPATH_F"), 1);
    }
}
