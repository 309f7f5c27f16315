//! libibmad as the oracle of our codec.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::libibmad::{Octets, Twin, twins};
use crate::mad::pma::{Attribute, CLASS_PORT_INFO, DATA_LEN, Data, Group};

const TABLE: &str = include_str!("../../../../tests/data/pma-fields.tsv");

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
