//! JSON lines: a serializer for records into a vector of octets.
//!
//! A record has about 50 keys and texts of about 15 octets. `serde_json` checks every octet of them
//! twice: for characters that JSON must escape, and for characters that are not visible. This took
//! a third of all instructions per MAD. This serializer checks eight octets at a time, and only
//! once. `serde_json` still writes numbers and texts with escapes, so the output is the same.

use std::fmt::{self, Display, Write as _};

use serde::ser::{self, Serialize};
use serde_json::Error;

use super::text;

/// Appends JSON without blanks to a vector.
pub(super) struct Json<'a>(pub(super) &'a mut Vec<u8>);

/// An object or array. Its first member may not have been written yet.
pub(super) struct Members<'a> {
    to: &'a mut Vec<u8>,
    is_empty: bool,
    close: &'static [u8],
}

/// Octets of a word.
const WORD: usize = 8;

/// Returns whether a text needs no escape. Such a text has only octets from 0x20 to 0x7e, and
/// neither a quotation mark nor a backslash.
fn is_plain(text: &[u8]) -> bool {
    const fn each(octet: u8) -> u64 {
        u64::from_ne_bytes([octet; WORD])
    }
    // Returns the highest bit of each octet that is less than `than`. The result is valid if no
    // octet of `word` has its highest bit set.
    let less = |word: u64, than: u8| !((word | each(0x80)) - each(than)) & each(0x80);
    let equal = |word: u64, octet: u8| less(word ^ each(octet), 1);
    let marks = |word: u64| {
        let low = word & each(0x7f);
        (word & each(0x80))
            | less(low, 0x20)
            | equal(low, b'"')
            | equal(low, b'\\')
            | equal(low, 0x7f)
    };
    let (words, _) = text.as_chunks::<WORD>();
    match text.last_chunk::<WORD>() {
        // The last word may overlap the word before it.
        Some(last) => {
            words
                .iter()
                .chain([last])
                .fold(0, |found, word| found | marks(u64::from_ne_bytes(*word)))
                == 0
        }
        None => text
            .iter()
            .all(|octet| matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\')),
    }
}

impl Json<'_> {
    fn text(self, text: &str) -> Result<(), Error> {
        if !is_plain(text.as_bytes()) {
            return text.serialize(&mut text::compact(self.0));
        }
        self.0.reserve(text.len() + 2);
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
        Ok(())
    }

    fn number(self, number: impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.0, &number)
    }
}

impl<'a> Members<'a> {
    fn open(to: &'a mut Vec<u8>, open: u8, close: &'static [u8]) -> Self {
        to.push(open);
        Self {
            to,
            is_empty: true,
            close,
        }
    }

    fn next(&mut self) -> Json<'_> {
        if !std::mem::take(&mut self.is_empty) {
            self.to.push(b',');
        }
        Json(self.to)
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.to.push(b':');
        value.serialize(Json(self.to))
    }

    fn close(self) -> Result<(), Error> {
        self.to.extend_from_slice(self.close);
        Ok(())
    }
}

macro_rules! numbers {
    ($($name:ident: $type:ty),* $(,)?) => {
        $( fn $name(self, number: $type) -> Result<(), Error> {
            self.number(number)
        } )*
    };
}

impl<'a> ser::Serializer for Json<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Members<'a>;
    type SerializeTuple = Members<'a>;
    type SerializeTupleStruct = Members<'a>;
    type SerializeTupleVariant = Members<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Members<'a>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_f32: f32, serialize_f64: f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0
            .extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.number(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut object = Members::open(self.0, b'{', b"}");
        object.next().text(variant)?;
        object.value(value)?;
        object.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Members<'a>, Error> {
        Ok(Members::open(self.0, b'[', b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Members<'a>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Members<'a>, Error> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, Error> {
        Members::open(self.0, b'{', b"").next().text(variant)?;
        self.0.push(b':');
        Ok(Members::open(self.0, b'[', b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, Error> {
        Ok(Members::open(self.0, b'{', b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'a>, Error> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'a>, Error> {
        Members::open(self.0, b'{', b"").next().text(variant)?;
        self.0.push(b':');
        Ok(Members::open(self.0, b'{', b"}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let begin = self.0.len();
        self.0.push(b'"');
        write!(Appended(self.0), "{value}").map_err(ser::Error::custom)?;
        if is_plain(&self.0[begin + 1..]) {
            self.0.push(b'"');
            return Ok(());
        }
        self.0.truncate(begin);
        text::compact(self.0).collect_str(value)
    }
}

/// Appends text to a vector.
struct Appended<'a>(&'a mut Vec<u8>);

impl fmt::Write for Appended<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        key.serialize(self.next())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

/// Objects with fixed names.
macro_rules! objects {
    ($($trait:ident),*) => { $(
        impl ser::$trait for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.next().text(key)?;
                self.value(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )* };
}

/// Arrays.
macro_rules! arrays {
    ($($trait:ident::$name:ident),*) => { $(
        impl ser::$trait for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                value.serialize(self.next())
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )* };
}

objects!(SerializeStruct, SerializeStructVariant);
arrays!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn written(value: &impl Serialize) -> String {
        let mut octets = Vec::new();
        value
            .serialize(Json(&mut octets))
            .expect("it can be written");
        String::from_utf8(octets).expect("JSON is UTF-8")
    }

    fn expected(value: &impl Serialize) -> String {
        let mut octets = Vec::new();
        value
            .serialize(&mut text::compact(&mut octets))
            .expect("it can be written");
        String::from_utf8(octets).expect("JSON is UTF-8")
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let array = proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from);
            let object = proptest::collection::btree_map(any::<String>(), inner, 0..6);
            prop_oneof![
                array,
                object.prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    #[derive(serde::Serialize)]
    enum Kind {
        Unit,
        New(u8),
        Tuple(u8, &'static str),
        Struct { a: Option<u8>, b: f64 },
    }

    #[test]
    fn every_kind_of_value_is_written_as_by_serde_json() {
        let kinds = [
            Kind::Unit,
            Kind::New(1),
            Kind::Tuple(2, "\u{9b}"),
            Kind::Struct {
                a: None,
                b: f64::NAN,
            },
        ];
        assert_eq!(written(&kinds), expected(&kinds));
        let others = (
            Some('"'),
            (),
            [0.1_f32, 1e30],
            1e-7,
            u128::from(u64::MAX).to_string(),
            format_args!("a\n{}", 1).to_string(),
        );
        assert_eq!(written(&others), expected(&others));
    }

    #[test]
    fn every_octet_at_every_place_of_a_word_is_judged() {
        for octet in 0..=0x7f_u8 {
            for (place, length) in [(0, 1), (6, 7), (0, 8), (7, 8)]
                .into_iter()
                .chain((0..19).map(|place| (place, 19)))
            {
                let mut text = [b'a'; 19];
                text[place] = octet;
                let text = std::str::from_utf8(&text[..length]).expect("ASCII");
                assert_eq!(
                    is_plain(text.as_bytes()),
                    matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\'),
                    "{text:?}"
                );
                assert_eq!(
                    (written(&text), written(&format_args!("{text}"))),
                    (expected(&text), expected(&text))
                );
            }
        }
    }

    proptest! {
        #[test]
        fn every_value_is_written_as_by_serde_json(value in any_value()) {
            prop_assert_eq!(written(&value), expected(&value));
        }
    }
}
