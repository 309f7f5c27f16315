//! The fields of each type of record with their types, for programs that read the records.
//!
//! The list comes from the definitions of the records: from the list of fields of `port` records,
//! and from the deserializers of the other records, which are asked for their fields here. So a new
//! field is in this list at once.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor, value};

use super::fields::{ABSENT, EventRecord, HistogramRecord, RoutesRecord, Start, SweepRecord};
use super::physical::{self, PhysicalHead, PhysicalKind};
use super::port::{PortField, Presence};
use super::reader::Type;
pub use super::value::Kind;
use super::{counter_lengths, dt_slots_fields};

/// A field of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// What a line has if the field has no value.
    pub presence: Presence,
}

/// Returns the fields of a type of record, in the order of the line.
pub fn fields(of: Type) -> Vec<Field> {
    let mut fields = vec![Field {
        name: "type",
        kind: Kind::Text,
        presence: Presence::Required,
    }];
    match of {
        Type::Port => fields.extend(port_fields()),
        Type::Start => fields.extend(traced::<Start<String>>()),
        Type::Sweep => fields.extend(traced::<SweepRecord<String>>()),
        Type::Histogram => {
            fields.extend(traced::<HistogramRecord<String>>());
            let absent = fields
                .iter_mut()
                .filter(|field| ABSENT.contains(&field.name));
            absent.for_each(|field| field.presence = Presence::Optional);
        }
        Type::Event => fields.extend(traced::<EventRecord<String>>()),
        Type::Routes => {
            fields.extend(traced::<RoutesRecord<String>>());
            let of_table = fields.iter_mut().skip_while(|field| field.name != "table");
            of_table
                .skip(1)
                .for_each(|field| field.presence = Presence::Optional);
        }
        Type::Phy => fields.extend(physical_fields(PhysicalKind::Phy)),
        Type::Module => fields.extend(physical_fields(PhysicalKind::Module)),
        Type::Sensors => fields.extend(physical_fields(PhysicalKind::Sensors)),
        Type::Planes => fields.extend(physical_fields(PhysicalKind::Planes)),
    }
    fields
}

fn physical_fields(of: PhysicalKind) -> Vec<Field> {
    let values = physical::columns(of).into_iter().map(|column| Field {
        name: column.name,
        kind: column.kind,
        presence: Presence::Optional,
    });
    // The head has the type too.
    let head = traced::<PhysicalHead<String>>().into_iter().skip(1);
    head.chain(values).collect()
}

fn port_fields() -> impl Iterator<Item = Field> {
    let mut seen = BTreeSet::new();
    // Several groups can have the same counter.
    let counters: Vec<_> = counter_lengths()
        .filter(|(name, _)| seen.insert(*name))
        .map(|(name, values)| {
            (
                name,
                if values == 1 {
                    Kind::Unsigned(64)
                } else {
                    Kind::Integers
                },
            )
        })
        .map(|(name, kind)| Field {
            name,
            kind,
            presence: Presence::Optional,
        })
        .collect();
    let slots = dt_slots_fields().map(|name| Field {
        name,
        kind: Kind::Unsigned(32),
        presence: Presence::Optional,
    });
    PortField::ALL
        .iter()
        .flat_map(move |field| match field.kind() {
            Some(kind) => vec![Field {
                name: field.name(),
                kind,
                presence: field.presence(),
            }],
            None => [&counters[..], &slots].concat(),
        })
}

/// Returns the fields that a record asks its deserializer for.
fn traced<'de, Record: Deserialize<'de>>() -> Vec<Field> {
    let mut fields = Vec::new();
    // The record itself is not used. Each of its values is valid.
    let _ = Record::deserialize(Tracer {
        fields: &mut fields,
    });
    fields
}

/// A deserializer that writes down the fields of a struct.
struct Tracer<'a> {
    fields: &'a mut Vec<Field>,
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("a record is a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_map(Entries {
            names: names.iter(),
            name: "",
            fields: self.fields,
        })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields of a struct, each with a value of the type that it asks for.
struct Entries<'a> {
    names: std::slice::Iter<'static, &'static str>,
    name: &'static str,
    fields: &'a mut Vec<Field>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = value::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let Some(name) = self.names.next() else {
            return Ok(None);
        };
        self.name = name;
        seed.deserialize(value::StrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        let mut kind = Kind::Text;
        let value = seed.deserialize(Value { kind: &mut kind })?;
        let presence = match self.name {
            "ts" => Presence::Required,
            // Lines of samplers before this field lack it.
            "clear" => Presence::Optional,
            _ => Presence::Always,
        };
        self.fields.push(Field {
            name: self.name,
            kind,
            presence,
        });
        Ok(value)
    }
}

/// A value that takes the type that is asked for.
struct Value<'a> {
    kind: &'a mut Kind,
}

/// A text that is valid for each field with a text: also for a GUID.
const TEXT: &str = "0x0000000000000000";

/// Answers a request for an integer with 0 and writes down its size.
macro_rules! integers {
    ($( $method:ident $visit:ident $bits:literal )*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
                *self.kind = Kind::Unsigned($bits);
                visitor.$visit(0)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = value::Error;

    integers!(deserialize_u8 visit_u8 8 deserialize_u16 visit_u16 16 deserialize_u32 visit_u32 32 deserialize_u64 visit_u64 64);

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_str(TEXT)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_seq(Elements(Some(self.kind)))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        enum identifier ignored_any
    }
}

/// A list with one value, which takes the type that is asked for.
struct Elements<'a>(Option<&'a mut Kind>);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = value::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Self::Error> {
        let Some(kind) = self.0.take() else {
            return Ok(None);
        };
        let value = seed.deserialize(Value { kind: &mut *kind })?;
        *kind = match kind {
            Kind::Unsigned(_) => Kind::Integers,
            _ => Kind::Texts,
        };
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_of_each_record_has_a_type() {
        let kind = |of: Type, name: &str| {
            fields(of)
                .iter()
                .find(|field| field.name == name)
                .map(|field| field.kind)
        };
        // usize is asked for as 64 bits.
        let start = traced::<Start<String>>();
        assert!(
            fields(Type::Start).len() == start.len() + 1
                && start.iter().any(|field| field.name == "file_seq")
        );
        assert_eq!(kind(Type::Start, "groups"), Some(Kind::Texts));
        assert_eq!(kind(Type::Start, "ports"), Some(Kind::Unsigned(64)));
        assert_eq!(kind(Type::Start, "mads_per_slot"), Some(Kind::Unsigned(64)));
        assert_eq!(kind(Type::Sweep, "ca_port"), Some(Kind::Unsigned(8)));
        assert_eq!(kind(Type::Sweep, "rtt_max_ns"), Some(Kind::Unsigned(64)));
        assert_eq!(kind(Type::Event, "guid"), Some(Kind::Text));
        assert_eq!(kind(Type::Histogram, "lid"), Some(Kind::Unsigned(16)));
        assert_eq!(kind(Type::Routes, "ports"), Some(Kind::Integers));
        assert_eq!(kind(Type::Routes, "top"), Some(Kind::Unsigned(16)));
        assert_eq!(kind(Type::Port, "errno"), Some(Kind::Signed));
        assert_eq!(kind(Type::Port, "xmit_blocked"), Some(Kind::Float));
        assert_eq!(kind(Type::Port, "saturated"), Some(Kind::Texts));
        assert_eq!(
            kind(Type::Port, "port_xmit_data_sl_bytes"),
            Some(Kind::Integers)
        );
        assert_eq!(
            kind(Type::Port, "port_xmit_data_bytes"),
            Some(Kind::Unsigned(64))
        );
        assert_eq!(kind(Type::Port, "counters"), None);
    }

    #[test]
    fn no_field_is_twice_in_a_record() {
        for of in Type::ALL {
            let mut seen = BTreeSet::new();
            let fields = fields(of);
            assert!(fields.iter().all(|field| seen.insert(field.name)), "{of:?}");
            assert!(fields.len() > 10 && fields[0].name == "type", "{of:?}");
        }
    }
}
