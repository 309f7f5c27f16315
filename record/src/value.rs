//! Values of the fields of a `port` record without the types of the record, for programs that keep
//! records in columns.

use std::borrow::Cow;

use crate::types::{Guid, Lid, NodeKind, PortNum};

/// Type of the values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned integer of 8, 16, 32 or 64 bits.
    Unsigned(u8),
    /// Signed integer of 32 bits.
    Signed,
    /// Number with a fraction.
    Float,
    /// Text.
    Text,
    /// List of unsigned integers of 64 bits.
    Integers,
    /// List of texts.
    Texts,
}

/// Value of a field.
#[derive(Clone, PartialEq, Debug)]
pub enum FieldValue<'a> {
    /// The field is null or absent.
    Null,
    /// Integer. A negative one is in two's complement.
    Integer(u64),
    /// Number with a fraction.
    Float(f64),
    /// GUID. A text is a GUID too.
    Guid(Guid),
    /// Text.
    Text(Cow<'a, str>),
    /// List of texts.
    Texts(Vec<Cow<'a, str>>),
}

impl FieldValue<'_> {
    /// Returns the value with its own texts.
    pub fn into_owned(self) -> FieldValue<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => FieldValue::Null,
            Self::Integer(value) => FieldValue::Integer(value),
            Self::Float(value) => FieldValue::Float(value),
            Self::Guid(guid) => FieldValue::Guid(guid),
            Self::Text(text) => FieldValue::Text(owned(text)),
            Self::Texts(texts) => FieldValue::Texts(texts.into_iter().map(owned).collect()),
        }
    }
}

/// Type of a field in the list of fields.
pub(super) trait FieldType<'a>: Sized {
    /// Type of the values in the record.
    const KIND: Kind;

    /// Returns the field for a value. Returns `None` if the type does not have this value.
    fn of(value: FieldValue<'a>) -> Option<Self>;

    /// Returns the value.
    fn value(&self) -> FieldValue<'_>;
}

impl<'a, T: FieldType<'a>> FieldType<'a> for Option<T> {
    const KIND: Kind = T::KIND;

    fn of(value: FieldValue<'a>) -> Option<Self> {
        Some(T::of(value))
    }

    fn value(&self) -> FieldValue<'_> {
        self.as_ref().map_or(FieldValue::Null, T::value)
    }
}

/// Implements [`FieldType`] for unsigned integers and for types that contain one.
macro_rules! unsigned {
    ($( $bits:literal $type:ty $(as $wrap:ident.$part:tt)?, )*) => {
        $(
            impl FieldType<'_> for $type {
                const KIND: Kind = Kind::Unsigned($bits);

                fn of(value: FieldValue<'_>) -> Option<Self> {
                    let FieldValue::Integer(value) = value else { return None };
                    value.try_into().ok()$(.map($wrap))?
                }

                fn value(&self) -> FieldValue<'_> {
                    FieldValue::Integer((*self)$(.$part)?.into())
                }
            }
        )*
    };
}

unsigned! {
    64 u64,
    16 u16,
    8 u8,
    16 Lid as Lid.0,
    8 PortNum as PortNum.0,
}

impl FieldType<'_> for i32 {
    const KIND: Kind = Kind::Signed;

    fn of(value: FieldValue<'_>) -> Option<Self> {
        let FieldValue::Integer(value) = value else {
            return None;
        };
        value.cast_signed().try_into().ok()
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Integer(i64::from(*self).cast_unsigned())
    }
}

impl FieldType<'_> for f64 {
    const KIND: Kind = Kind::Float;

    fn of(value: FieldValue<'_>) -> Option<Self> {
        if let FieldValue::Float(value) = value {
            Some(value)
        } else {
            None
        }
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Float(*self)
    }
}

impl FieldType<'_> for Guid {
    const KIND: Kind = Kind::Text;

    fn of(value: FieldValue<'_>) -> Option<Self> {
        match value {
            FieldValue::Guid(guid) => Some(guid),
            FieldValue::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Guid(*self)
    }
}

impl FieldType<'_> for NodeKind {
    const KIND: Kind = Kind::Text;

    fn of(value: FieldValue<'_>) -> Option<Self> {
        if let FieldValue::Text(text) = value {
            Self::named(&text)
        } else {
            None
        }
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Text(self.as_str().into())
    }
}

impl<'a> FieldType<'a> for Cow<'a, str> {
    const KIND: Kind = Kind::Text;

    fn of(value: FieldValue<'a>) -> Option<Self> {
        if let FieldValue::Text(text) = value {
            Some(text)
        } else {
            None
        }
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Text(Cow::Borrowed(self))
    }
}

impl<'a> FieldType<'a> for Vec<Cow<'a, str>> {
    const KIND: Kind = Kind::Texts;

    fn of(value: FieldValue<'a>) -> Option<Self> {
        if let FieldValue::Texts(texts) = value {
            Some(texts)
        } else {
            None
        }
    }

    fn value(&self) -> FieldValue<'_> {
        FieldValue::Texts(self.iter().map(|text| Cow::Borrowed(&**text)).collect())
    }
}
