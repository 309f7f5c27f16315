//! Performance management, class 0x04 (IBA vol. 1, 16.1): a request with the method Get reads the
//! counters of a port, and one with the method Set clears them.
//!
//! The data of such a MAD is an *attribute*, such as PortCounters.
//! [`attributes`](ibnet_record::attributes) declares the fields of those with counters. A test
//! compares the declared fields with `tests/data/pma-fields.tsv`.
//!
//! A switch has one agent, which answers at the LID of the switch for all of its ports. The field
//! PortSelect names the port, from 1. Each HCA port has its own agent.
//!
//! | module | contents |
//! |---|---|
//! | `bits` | the bits of a field in the octets of an attribute |
//! | [`class_port_info`] | 0x01 ClassPortInfo: the capabilities of an agent, and redirection |
//! | `clear` | clearing the counters by service level |
//! | `sampling` | what ibnet reads of 0x10 PortSamplesControl |

use ibnet_record::types::{PortNum, Tid};

use super::header::{HEADER_LEN, Header, METHOD_GET, MadStatus};
use super::{MAD_LEN, Mad};

mod bits;
pub mod class_port_info;
mod clear;
mod sampling;

pub use bits::Bits;
pub use class_port_info::{CLASS_PORT_INFO, Capabilities};
pub use clear::{Clear, Clearable};
pub use sampling::Sampling;

/// The management class.
pub const CLASS_PERF_MGT: u8 = 0x04;
/// Version of the class.
pub const CLASS_VERSION: u8 = 1;
/// Octet at which the attribute begins in a MAD of this class.
pub const DATA_OFFSET: usize = 64;
/// Length of the attribute in octets.
pub const DATA_LEN: usize = MAD_LEN - DATA_OFFSET;

/// The bytes of an attribute.
pub type Data = [u8; DATA_LEN];

/// A request for one attribute of one port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// AttributeID.
    pub attribute: u16,
    /// PortSelect. `None` for ClassPortInfo, which does not have this field.
    pub port: Option<PortNum>,
}

impl Query {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_PERF_MGT,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: self.attribute,
            modifier: 0,
        };
        header.emit(mad);
        if let Some(port) = self.port {
            mad[DATA_OFFSET + PORT_SELECT_OCTET] = port.0;
        }
    }
}

/// Returns the PortSelect of a reply if it differs from the port of the request.
pub(super) fn other_port(requested: Option<PortNum>, mad: &Mad) -> Option<u8> {
    let port = mad[DATA_OFFSET + PORT_SELECT_OCTET];
    requested
        .is_some_and(|requested| requested.0 != port)
        .then_some(port)
}

const _: () = assert!(HEADER_LEN <= DATA_OFFSET);

/// Octet of PortSelect in every attribute that has it.
const PORT_SELECT_OCTET: usize = 1;

/// Returns the bytes of the attribute in a MAD.
pub fn data(mad: &Mad) -> &Data {
    mad.last_chunk()
        .expect("a MAD is longer than its data area")
}

/// Returns the bytes of the attribute in a MAD for writing.
pub fn data_mut(mad: &mut Mad) -> &mut Data {
    mad.last_chunk_mut()
        .expect("a MAD is longer than its data area")
}

#[cfg(test)]
mod tests {
    use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
    use ibnet_record::attributes::{Attribute, Field, Group};
    use proptest::prelude::*;

    use super::*;

    /// Returns every declared attribute once.
    fn attributes() -> impl Iterator<Item = &'static Attribute> {
        let views = Group::ALL
            .into_iter()
            .flat_map(|group| [Some(group.attribute()), group.other_view()])
            .flatten();
        views.chain([&CLASS_PORT_INFO])
    }

    /// Field, first bit, width, name in records, index, factor.
    type Row = (String, u16, u8, &'static str, Option<u8>, u64);

    /// Returns the rows of `pma-fields.tsv` for an attribute, in the order of the wire.
    fn rows(attribute: &Attribute) -> Vec<Row> {
        let table = include_str!("../../../tests/data/pma-fields.tsv");
        let cells = table
            .lines()
            .skip(1)
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let mut rows: Vec<Row> = cells
            .filter(|row| {
                row[0].eq_ignore_ascii_case(&format!("{:#06x}", attribute.id))
                    && row[1] == attribute.name
            })
            .map(|row| {
                let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{row:?}"));
                let index = (!row[7].is_empty()).then(|| number(row[7]) as u8);
                (
                    row[3].to_owned(),
                    number(row[4]) as u16,
                    number(row[5]) as u8,
                    row[6],
                    index,
                    number(row[8]),
                )
            })
            .collect();
        rows.sort_by_key(|row| row.1);
        rows
    }

    #[test]
    fn every_field_has_the_measured_position() {
        for attribute in attributes() {
            let mut expected = rows(attribute);
            assert!(
                !expected.is_empty(),
                "{} has no row in the reference",
                attribute.name
            );
            // The third of the fifteen fields has the same name as a field of other attributes. The
            // table mixes up these fields.
            if attribute.id == PORT_SAMPLES_CONTROL.id {
                let row = expected
                    .iter_mut()
                    .find(|row| row.0 == "CounterSelect2")
                    .expect("it has fifteen codes");
                (row.3, row.4) = ("counter_select", Some(2));
            }
            let one = |field: &Field, index: u8| {
                let name = if field.len > 1 {
                    format!("{}{index}", field.name)
                } else {
                    field.name.to_owned()
                };
                let first_bit = field.first_bit + u16::from(index) * u16::from(field.width);
                (
                    name,
                    first_bit,
                    field.width,
                    field.json,
                    (field.len > 1).then_some(index),
                    field.factor(),
                )
            };
            let declared: Vec<Row> = attribute
                .fields
                .iter()
                .flat_map(|field| (0..field.len).map(move |index| one(field, index)))
                .collect();
            assert_eq!(declared, expected, "{}", attribute.name);
        }
    }

    #[test]
    fn every_attribute_with_counters_has_a_group() {
        let table = include_str!("../../../tests/data/pma-fields.tsv");
        // PortSamplesResult has no group, because ibnet starts no samples.
        let known = |name: &str| {
            name.starts_with("PortSamplesResult")
                || attributes().any(|attribute| attribute.name == name)
        };
        let unknown: Vec<_> = table
            .lines()
            .skip(1)
            .filter_map(|row| row.split('\t').nth(1))
            .filter(|name| !known(name))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn request_overwrites_the_whole_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        Query {
            attribute: 0x1d,
            port: Some(PortNum(7)),
        }
        .emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x1d, 0, 0, 0, 0, 0, 0,
        ]);
        expected[65] = 7;
        assert_eq!(mad, expected);
    }

    proptest! {
        /// A written value is read back and its neighbours do not change. A value that is too large
        /// becomes all ones.
        #[test]
        fn fields_round_trip_in_dirty_buffers(data in prop::array::uniform32(any::<u8>()), value in any::<u64>(), pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
            let mut octets: Data = [0; DATA_LEN];
            octets.iter_mut().zip(data.iter().cycle()).for_each(|(octet, noise)| *octet = *noise);
            let fields: Vec<&Field> = attributes().flat_map(|attribute| attribute.fields).filter(|field| field.width <= 64).collect();
            let field = fields[pick.index(fields.len())];
            let before = octets;
            let value = value >> (value % 64);
            let index = at.index(usize::from(field.len)) as u8;
            field.set_raw(&mut octets, index, value);
            prop_assert_eq!(field.raw(&octets, index), value.min(field.all_ones()));
            field.set_raw(&mut octets, index, field.raw(&before, index));
            prop_assert_eq!(octets, before);
        }
    }
}
