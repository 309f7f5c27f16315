//! libibmad as the oracle of our codec.

use std::sync::LazyLock;

use proptest::prelude::*;

use crate::mad::pma::{Attribute, CLASS_PORT_INFO, DATA_LEN, Data, Field, Group};
use crate::mad::transport::umad::libibmad::{Octets, Twin, twins};
use crate::mad::{MAD_LEN, Mad, sa, smp};
use crate::types::{Guid, Tid};

const TABLE: &str = include_str!("../../../tests/data/pma-fields.tsv");

fn attributes() -> impl Iterator<Item = &'static Attribute> {
    let views = Group::ALL.into_iter().flat_map(|group| [Some(group.attribute()), group.other_view()]).flatten();
    views.chain([&CLASS_PORT_INFO])
}

/// Each field and index that libibmad has a number for.
static TWINS: LazyLock<Vec<(&Attribute, Twin)>> =
    LazyLock::new(|| attributes().flat_map(|attribute| twins(TABLE, attribute).into_iter().map(move |twin| (attribute, twin))).collect());

proptest! {
    #[test]
    fn our_decoding_is_libibmad_s(octets in prop::collection::vec(any::<u8>(), DATA_LEN)) {
        let data: Data = octets.try_into().expect("as long as the data area");
        let octets = Octets::new(&data);
        for (attribute, twin) in &*TWINS {
            // libibmad reads VL15Dropped there: IB_PC_QP1_DROP_F lacks the macro that puts bits in order.
            if (attribute.id, twin.field.name) == (0x12, "QP1Dropped") {
                continue;
            }
            let ours = twin.field.raw(&data, twin.index);
            prop_assert_eq!(ours, twin.read(&octets), "{} {} of {}", twin.field.name, twin.index, attribute.name);
        }
    }
}

/// What is read of NodeInfo, PortInfo and PortInfoExtended, by libibmad's names. LinkSpeedExtActive2 is younger than libibmad 44.
static SUBNET: LazyLock<Vec<Twin>> = LazyLock::new(|| {
    let names = [
        ("NodeType", "IB_NODE_TYPE_F"),
        ("NumPorts", "IB_NODE_NPORTS_F"),
        ("SystemImageGUID", "IB_NODE_SYSTEM_GUID_F"),
        ("NodeGUID", "IB_NODE_GUID_F"),
        ("PortGUID", "IB_NODE_PORT_GUID_F"),
        ("DeviceID", "IB_NODE_DEVID_F"),
        ("LocalPortNum", "IB_NODE_LOCAL_PORT_F"),
        ("VendorID", "IB_NODE_VENDORID_F"),
        ("CapabilityMask", "IB_PORT_CAPMASK_F"),
        ("LinkWidthActive", "IB_PORT_LINK_WIDTH_ACTIVE_F"),
        ("PortState", "IB_PORT_STATE_F"),
        ("LinkSpeedActive", "IB_PORT_LINK_SPEED_ACTIVE_F"),
        ("LinkSpeedExtActive", "IB_PORT_LINK_SPEED_EXT_ACTIVE_F"),
        ("FECModeActive", "IB_PORT_EXT_FEC_MODE_ACTIVE_F"),
    ];
    let fields = smp::NODE_INFO_FIELDS.iter().chain(&smp::PORT_INFO_FIELDS).chain([&smp::FEC_MODE_ACTIVE]);
    let known = fields.filter(|field| field.name != "LinkSpeedExtActive2");
    known.map(|field| Twin::named(field, names.iter().find(|(ours, _)| *ours == field.name).expect("every field has a name").1)).collect()
});

/// What is written and read of a PathRecord.
static DGID: Field = Field::new("DGID", "dgid", 64, 128);
static SGID: Field = Field::new("SGID", "sgid", 192, 128);
static DLID: Field = Field::new("DLID", "dlid", 320, 16);
static NUMB_PATH: Field = Field::new("NumbPath", "numb_path", 393, 7);
static SL: Field = Field::new("SL", "sl", 428, 4);

/// A PathRecord begins at octet 56 of its MAD.
fn record(mad: &Mad) -> Octets {
    let mut data = [0; DATA_LEN];
    data[..MAD_LEN - 64].copy_from_slice(&mad[56..MAD_LEN - 8]);
    Octets::new(&data)
}

proptest! {
    #[test]
    fn what_is_read_of_subnet_management_is_libibmad_s(octets in prop::collection::vec(any::<u8>(), DATA_LEN)) {
        let data: Data = octets.try_into().expect("as long as the data area");
        let octets = Octets::new(&data);
        for twin in &*SUBNET {
            prop_assert_eq!(twin.field.raw(&data, 0), twin.read(&octets), "{}", twin.field.name);
        }
    }

    #[test]
    fn path_records_are_libibmad_s(octets in prop::collection::vec(any::<u8>(), MAD_LEN), source in any::<u64>(), destination in any::<u64>()) {
        let mut mad: Mad = octets.try_into().expect("as long as a MAD");
        let read = |mad: &Mad, field, name| Twin::named(field, name).read(&record(mad));
        let path = sa::PathRecord::parse(&mad);
        prop_assert_eq!((u64::from(path.dlid.0), u64::from(path.sl)), (read(&mad, &DLID, "IB_SA_PR_DLID_F"), read(&mad, &SL, "IB_SA_PR_SL_F")));
        let gid = |guid| sa::Gid { prefix: 1, guid: Guid(guid) };
        sa::Query { source: gid(source), destination: gid(destination) }.emit(Tid(1), &mut mad);
        prop_assert_eq!(read(&mad, &DGID, "IB_SA_PR_DGID_F"), destination);
        prop_assert_eq!(read(&mad, &SGID, "IB_SA_PR_SGID_F"), source);
        prop_assert_eq!(read(&mad, &NUMB_PATH, "IB_SA_PR_NPATH_F"), 1);
    }
}

#[test]
fn libibmad_has_a_number_for_every_field_but_the_opcode_of_three_headers() {
    let declared: usize = attributes().flat_map(|attribute| attribute.fields).map(|field| usize::from(field.len)).sum();
    assert_eq!((declared - TWINS.len(), TWINS.len() > 300), (3, true));
}

#[test]
fn libibmad_still_reads_qp1_dropped_where_vl15_dropped_is() {
    let mut data = [0; DATA_LEN];
    (data[20], data[21], data[22], data[23]) = (0x0a, 0x0b, 0x12, 0x34);
    let twins = twins(TABLE, Group::Base.attribute());
    let twin = twins.iter().find(|twin| twin.field.name == "QP1Dropped").expect("libibmad has it");
    assert_eq!(twin.field.raw(&data, 0), 0x0a0b);
    assert_eq!(twin.read(&Octets::new(&data)), 0x1234, "libibmad was mended: drop the exception above");
}
