//! Decoding by libibmad, the MAD library of rdma-core (feature `umad`).
//!
//! This decoder shares no code with ours ([`Field::raw`]). Tests, benches and diagnostics compare
//! the results of both decoders. A sweep uses only ours.
//!
//! [`decode`] reads all fields of one reply. To read many replies, call [`field_readers`] once and
//! then [`FieldReader::read`] for each reply.
//!
//! ```
//! use ibnet::mad::libibmad;
//! use ibnet::mad::pma::{Group, data_mut};
//!
//! let mut reply = [0; 256];
//! let counters = Group::Extended.attribute();
//! let field = counters.field("PortXmitData").expect("declared");
//! field.set_raw(data_mut(&mut reply), 0, 1 << 40);
//! let values = libibmad::decode(&reply, counters);
//! let sent = values.iter().find(|value| value.field.name == "PortXmitData");
//! assert_eq!(sent.map(|value| value.value), Some(1 << 40));
//! ```
//!
//! libibmad 44.0 differs from this crate in one field, QP1Dropped of PortCounters. For this field,
//! libibmad reads the octets of VL15Dropped. The reason is an error in its table: the entry for
//! `IB_PC_QP1_DROP_F` lacks the macro that orders bits.

use super::Mad;
use super::pma::{Attribute, Field};
use super::transport::umad::libibmad::{Base, FieldNumber, PaddedMad};

#[cfg(test)]
mod tests;

/// Fields of performance management. Each line has the attribute, the name in libibmad and the name
/// in the IBA specification.
const NAMES: &str = include_str!("../../../tests/data/pma-fields.tsv");

/// The octets of a MAD in a buffer that libibmad can read.
#[derive(Clone, Copy, Debug)]
pub struct Reply(PaddedMad);

impl Reply {
    /// Copies a MAD.
    pub fn new(mad: &Mad) -> Self {
        Self(PaddedMad::new(mad))
    }
}

/// One value of a field, decoded by libibmad.
#[derive(Clone, Copy, Debug)]
pub struct FieldValue {
    /// The field, as this crate declares it.
    pub field: &'static Field,
    /// Index of the value in the field; 0 unless the field is an array.
    pub index: u8,
    /// The bits of the value. For a GID these are the lower 64 bits.
    pub value: u64,
}

/// Reads one value of a field with libibmad.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader {
    /// The field, as this crate declares it.
    pub field: &'static Field,
    /// Index of the value in the field; 0 unless the field is an array.
    pub index: u8,
    number: FieldNumber,
    base: Base,
}

impl FieldReader {
    /// Returns a reader of a field of performance management or subnet management.
    ///
    /// `name` is libibmad's name, such as `IB_NODE_TYPE_F`. Returns `None` if libibmad has no such
    /// field.
    pub fn of_management(field: &'static Field, name: &str) -> Option<Self> {
        Self::new(field, 0, name, Base::Management)
    }

    /// Returns a reader of a field of subnet administration, such as `IB_SA_PR_DLID_F` of
    /// PathRecord.
    ///
    /// Returns `None` if libibmad has no field called `name`.
    pub fn of_administration(field: &'static Field, name: &str) -> Option<Self> {
        Self::new(field, 0, name, Base::Administration)
    }

    fn new(field: &'static Field, index: u8, name: &str, base: Base) -> Option<Self> {
        Some(Self { field, index, number: FieldNumber::by_name(name)?, base })
    }

    /// Reads the value. For a GID it reads the lower 64 bits.
    pub fn read(&self, reply: &Reply) -> u64 {
        self.number.read(&reply.0, self.base, self.field.width)
    }
}

/// Returns a reader for each value of an attribute of performance management, in the order of the
/// wire.
///
/// Leaves out the fields that libibmad does not have. These are the OpCode fields of three
/// attributes.
pub fn field_readers(attribute: &'static Attribute) -> Vec<FieldReader> {
    let rows = NAMES.lines().filter_map(|line| {
        let mut cells = line.split('\t').skip(1);
        Some((cells.next()?, cells.next()?, cells.next()?))
    });
    let names: Vec<(&str, &str)> = rows.filter(|(name, ..)| *name == attribute.name).map(|(_, theirs, ours)| (ours, theirs)).collect();
    let values = attribute.fields.iter().flat_map(|field| (0..field.len).map(move |index| (field, index)));
    let reader = |(field, index): (&'static Field, u8)| {
        let ours = if field.len > 1 { format!("{}{index}", field.name) } else { field.name.to_owned() };
        let (_, theirs) = names.iter().find(|(name, _)| *name == ours)?;
        FieldReader::new(field, index, theirs, Base::Management)
    };
    values.filter_map(reader).collect()
}

/// Decodes all fields of a reply that carries this attribute, in the order of the wire.
pub fn decode(reply: &Mad, attribute: &'static Attribute) -> Vec<FieldValue> {
    let reply = Reply::new(reply);
    let value = |reader: FieldReader| FieldValue { field: reader.field, index: reader.index, value: reader.read(&reply) };
    field_readers(attribute).into_iter().map(value).collect()
}
