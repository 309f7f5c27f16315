//! libibmad as the oracle of our codec: other people's code over the same octets.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::sys::{self, MAD_FIELDS};
use crate::mad::pma::{Attribute, CLASS_PORT_INFO, DATA_LEN, Data, Field, Group};

/// A field that ends inside an octet makes libibmad read whole words; a copy with room behind it keeps that within bounds.
fn with_room(data: &Data) -> [u8; DATA_LEN + 64] {
    let mut octets = [0; DATA_LEN + 64];
    octets[..DATA_LEN].copy_from_slice(data);
    octets
}

/// What libibmad reads in a field of these octets; of a GID its lower half.
#[expect(unsafe_code, reason = "libibmad")]
fn libibmad(data: &Data, field: MAD_FIELDS::Type, width: u8) -> u64 {
    let mut octets = with_room(data);
    let (octets, base): (_, c_int) = (octets.as_mut_ptr().cast(), 0);
    let mut gid = [0u8; 16];
    // SAFETY: every field of these attributes lies within the data area, which is shorter than the buffer; the only arrays are GIDs of 16 octets.
    unsafe {
        match width {
            0..=32 => u64::from(sys::mad_get_field(octets, base, field)),
            33..=64 => sys::mad_get_field64(octets, base, field),
            _ => {
                sys::mad_get_array(octets, base, field, gid.as_mut_ptr().cast());
                u128::from_be_bytes(gid) as u64
            }
        }
    }
}

/// libibmad's numbers of fields by its names for them, as bindgen found them in the header.
static NUMBERS: LazyLock<BTreeMap<&str, MAD_FIELDS::Type>> = LazyLock::new(|| {
    let bindings = include_str!(concat!(env!("OUT_DIR"), "/rdma_core.rs"));
    let constants = bindings.split("pub const IB_").skip(1).filter_map(|constant| {
        let (name, rest) = constant.split_once(':')?;
        let value = rest.split(';').next()?.split_once('=')?.1;
        Some((name.trim(), value.trim().parse().ok()?))
    });
    constants.collect()
});

/// libibmad's name for each field of an attribute, by ours and its index; the reference table tells. It has none for OpCode in the header.
fn names(attribute: &Attribute) -> BTreeMap<String, &'static str> {
    let table = include_str!("../../../../tests/data/pma-fields.tsv");
    let rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let of_attribute = rows.filter(|row| row[1] == attribute.name && row[2] != "-");
    of_attribute.map(|row| (row[3].to_owned(), row[2])).collect()
}

fn number(names: &BTreeMap<String, &'static str>, field: &Field, index: u8) -> Option<MAD_FIELDS::Type> {
    let name = if field.len > 1 { format!("{}{index}", field.name) } else { field.name.to_owned() };
    let theirs = names.get(&name)?;
    Some(*NUMBERS.get(theirs.trim_start_matches("IB_")).unwrap_or_else(|| panic!("{theirs} is not in the header")))
}

/// Each field and index that libibmad has a number for.
fn fields() -> impl Iterator<Item = (&'static Attribute, &'static Field, u8, MAD_FIELDS::Type)> {
    let views = Group::ALL.into_iter().flat_map(|group| [Some(group.attribute()), group.other_view()]).flatten();
    views.chain([&CLASS_PORT_INFO]).flat_map(|attribute| {
        let names = names(attribute);
        let all = attribute.fields.iter().flat_map(|field| (0..field.len).map(move |index| (field, index)));
        all.filter_map(move |(field, index)| Some((attribute, field, index, number(&names, field, index)?))).collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn our_decoding_is_libibmad_s(octets in prop::collection::vec(any::<u8>(), DATA_LEN)) {
        static FIELDS: LazyLock<Vec<(&Attribute, &Field, u8, MAD_FIELDS::Type)>> = LazyLock::new(|| fields().collect());
        let data: Data = octets.try_into().expect("as long as the data area");
        for (attribute, field, index, number) in &*FIELDS {
            // libibmad reads VL15Dropped there: IB_PC_QP1_DROP_F lacks the macro that puts bits in order.
            if (attribute.id, field.name) == (0x12, "QP1Dropped") {
                continue;
            }
            let theirs = libibmad(&data, *number, field.width);
            prop_assert_eq!(field.raw(&data, *index), theirs, "{} {} of {}", field.name, index, attribute.name);
        }
    }
}

#[test]
fn libibmad_has_a_number_for_every_field_but_the_opcode_of_three_headers() {
    let views = Group::ALL.into_iter().flat_map(|group| [Some(group.attribute()), group.other_view()]).flatten();
    let declared: usize = views.chain([&CLASS_PORT_INFO]).flat_map(|attribute| attribute.fields).map(|field| usize::from(field.len)).sum();
    assert_eq!((declared - fields().count(), fields().count() > 300), (3, true));
}

#[test]
fn libibmad_still_reads_qp1_dropped_where_vl15_dropped_is() {
    let mut data = [0; DATA_LEN];
    (data[20], data[21], data[22], data[23]) = (0x0a, 0x0b, 0x12, 0x34);
    let attribute = Group::Base.attribute();
    let field = attribute.field("QP1Dropped").expect("declared");
    assert_eq!(field.raw(&data, 0), 0x0a0b);
    let number = number(&names(attribute), field, 0).expect("libibmad has it");
    assert_eq!(libibmad(&data, number, field.width), 0x1234, "libibmad was mended: drop the exception above");
}
