//! The keys `sl` and `ca`, whose values can have two types.

use std::fmt;

use ibnet_record::types::HcaName;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::ConfigError;
use super::error::value;

/// A service level as in the file: a number, or `"path"`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Sl {
    /// A number.
    Number(u8),
    /// `path`, or a number as text.
    Word(String),
}

/// HCA ports as in the file: one, or a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Ca {
    /// One HCA port, or none if the string is empty.
    One(String),
    /// Any number of HCA ports.
    Many(Vec<String>),
}

// This implementation exists because serde's own one for untagged enums reports only that no
// variant matches.
impl<'de> Deserialize<'de> for Sl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrWord;

        impl Visitor<'_> for NumberOrWord {
            type Value = Sl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a service level from 0 to 15, or \"path\"")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Sl, E> {
                Ok(u8::try_from(number).map_or_else(|_| Sl::Word(number.to_string()), Sl::Number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Sl, E> {
                Ok(u8::try_from(number).map_or_else(|_| Sl::Word(number.to_string()), Sl::Number))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sl, E> {
                Ok(Sl::Word(text.to_owned()))
            }
        }

        deserializer.deserialize_any(NumberOrWord)
    }
}

impl<'de> Deserialize<'de> for Ca {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Ca;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an HCA such as \"mlx5_0\", or a list of them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Ca, E> {
                Ok(Ca::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Ca, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(names)).map(Ca::Many)
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

impl Sl {
    /// Returns whether the key has the value `path`: the service level of each device then comes
    /// from its path record.
    pub(super) fn is_path(&self) -> bool {
        matches!(self, Self::Word(word) if word == "path")
    }

    /// Returns the service level. For `path` this is 0, because the path record has not been
    /// queried yet.
    pub(super) fn number(&self) -> Result<u8, ConfigError> {
        let number = match self {
            Self::Number(number) => Some(*number),
            Self::Word(_) if self.is_path() => Some(0),
            Self::Word(word) => word.parse().ok(),
        };
        number.filter(|sl| *sl <= 15).ok_or_else(|| {
            let found = match self {
                Self::Number(number) => number.to_string(),
                Self::Word(word) => word.clone(),
            };
            value("sl", &found, "a service level from 0 to 15, or \"path\"")
        })
    }
}

impl Ca {
    /// Parses the names. It is an error if a name occurs twice.
    pub(super) fn names(&self) -> Result<Vec<HcaName>, ConfigError> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        };
        let mut names = Vec::new();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let name = text.parse().map_err(|_| {
                value(
                    "ca",
                    text,
                    "an HCA and its port, such as mlx5_0 or mlx5_0:1",
                )
            })?;
            if names.contains(&name) {
                return Err(value("ca", text, "each HCA port once"));
            }
            names.push(name);
        }
        Ok(names)
    }
}
