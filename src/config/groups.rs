//! The key `groups`: counter groups with their cadences.
//!
//! An entry is `NAME`, `NAME/CADENCE`, or a table with `name` and `every`. A cadence is a number
//! of slots or a time.

use std::fmt;
use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::types::ParseError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::ConfigError;
use super::error::{value, value_among};
use crate::sweep::clearing::Clearing;

/// Name that stands for all groups.
const ALL: &str = "all";

/// Max cadence in slots.
pub(super) const MAX_EVERY: u32 = 1_000_000;

const CADENCE: &str = "a cadence: a number of slots from 1 to 1000000, or a time such as 1s";

/// Deserializes the list of groups. A table becomes a string of the form `NAME/CADENCE`.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Vec::<Entry>::deserialize(deserializer)?
        .into_iter()
        .map(|entry| entry.0)
        .collect())
}

/// An entry of the list as a string.
struct Entry(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    #[serde(default)]
    every: Every,
}

#[derive(Default)]
struct Every(Option<String>);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a group such as \"base\", or { name = \"base\", every = 10 }")
            }

            fn visit_str<E>(self, text: &str) -> Result<Entry, E> {
                Ok(Entry(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                let Table { name, every } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Entry(match every.0 {
                    Some(every) => format!("{name}/{every}"),
                    None => name,
                }))
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrTime;

        impl Visitor<'_> for NumberOrTime {
            type Value = Every;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of slots, or a time such as \"1s\"")
            }

            fn visit_i64<E>(self, slots: i64) -> Result<Every, E> {
                Ok(Every(Some(slots.to_string())))
            }

            fn visit_u64<E>(self, slots: u64) -> Result<Every, E> {
                Ok(Every(Some(slots.to_string())))
            }

            fn visit_str<E>(self, time: &str) -> Result<Every, E> {
                Ok(Every(Some(time.to_owned())))
            }
        }

        deserializer.deserialize_any(NumberOrTime)
    }
}

/// Parses a list of groups, and converts their cadences to slots of this interval. If a group
/// occurs more than once, the first one applies.
pub(super) fn with_cadences(
    texts: &[String],
    interval: Duration,
) -> Result<(Vec<Group>, Vec<u32>), ConfigError> {
    let (mut groups, mut cadences) = (Vec::new(), Vec::new());
    for text in texts {
        let (name, cadence) = text
            .split_once('/')
            .map_or((text.as_str(), None), |(name, cadence)| {
                (name, Some(cadence))
            });
        let every = cadence
            .map_or(Some(1), |cadence| slots(cadence, interval))
            .ok_or_else(|| value("groups", text, CADENCE))?;
        for group in named("groups", name)? {
            if !groups.contains(&group) {
                groups.push(group);
                cadences.push(every);
            }
        }
    }
    if groups.is_empty() {
        Err(value(
            "groups",
            &"",
            "a list of counter groups, such as extended,base",
        ))
    } else {
        Ok((groups, cadences))
    }
}

/// Parses a list of group names without cadences, and removes duplicates.
pub(super) fn without_cadences(
    key: &'static str,
    names: &[String],
) -> Result<Vec<Group>, ConfigError> {
    let mut groups: Vec<Group> = Vec::new();
    for name in names {
        for group in named(key, name)? {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    Ok(groups)
}

/// Parses the groups whose counters are cleared. `groups` are those that are queried.
pub(super) fn cleared(
    names: &[String],
    groups: &[Group],
    interval: Duration,
) -> Result<Option<Clearing>, ConfigError> {
    let wanted = without_cadences("clear", names)?;
    let not_queried = wanted.iter().find(|group| !groups.contains(group));
    let clearing = match not_queried {
        Some(group) => Err(*group),
        None => Clearing::of_groups(&wanted, interval),
    };
    let expected = "xmtsl or rcvsl, which must be in groups too";
    clearing.map_err(|group| value("clear", &group, expected))
}

/// Returns the group with a name, or all groups.
fn named(key: &'static str, name: &str) -> Result<Vec<Group>, ConfigError> {
    if name == ALL {
        return Ok(Group::ALL.to_vec());
    }
    name.parse()
        .map(|group| vec![group])
        .map_err(|error: ParseError| {
            let names: Vec<_> = Group::ALL
                .iter()
                .map(|group| group.as_str())
                .chain([ALL])
                .collect();
            value_among(key, &error.found, error.expected, &names)
        })
}

/// Parses a cadence in slots. A time is rounded to whole slots, at least one.
fn slots(cadence: &str, interval: Duration) -> Option<u32> {
    let in_range = |slots: &u32| (1..=MAX_EVERY).contains(slots);
    match cadence.parse::<u32>() {
        Ok(slots) => Some(slots).filter(in_range),
        Err(_) => {
            Some(in_slots(humantime::parse_duration(cadence).ok()?, interval)).filter(in_range)
        }
    }
}

/// Converts a time to slots of this interval, rounded and at least 1.
pub(super) fn in_slots(time: Duration, interval: Duration) -> u32 {
    let slots = (time.as_secs_f64() / interval.as_secs_f64()).round();
    // The conversion of a float to an integer saturates.
    (slots as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    fn parsed(text: &str, interval: Duration) -> Result<String, ConfigError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(deserialize_with = "read")]
            groups: Vec<String>,
        }
        let File { groups } = toml::from_str(text).expect("it parses");
        let (groups, every) = with_cadences(&groups, interval)?;
        Ok(groups
            .iter()
            .zip(every)
            .map(|(group, every)| format!("{group} {every}"))
            .collect::<Vec<_>>()
            .join(", "))
    }

    #[test]
    fn groups_have_cadences_in_slots_or_as_times() {
        let long = r#"groups = [{ name = "extended", every = 1 }, { name = "base", every = 10 }, { name = "rcverr", every = "3s" }, { name = "xmtdisc" }]"#;
        assert_eq!(
            parsed(long, TENTH).expect("valid"),
            "extended 1, base 10, rcverr 30, xmtdisc 1"
        );
        assert_eq!(
            parsed(r#"groups = ["extended", "base/10", "rcverr/1s"]"#, TENTH).expect("valid"),
            "extended 1, base 10, rcverr 10"
        );
        assert_eq!(
            parsed(r#"groups = ["extended", "base"]"#, TENTH).expect("valid"),
            "extended 1, base 1"
        );
    }

    #[test]
    fn time_is_rounded_to_slots_and_is_at_least_one_slot() {
        for (interval, expected) in [
            (30, "base 33"),
            (300, "base 3"),
            (400, "base 3"),
            (1000, "base 1"),
            (60_000, "base 1"),
        ] {
            assert_eq!(
                parsed(r#"groups = ["base/1s"]"#, Duration::from_millis(interval)).expect("valid"),
                expected,
                "{interval} ms"
            );
        }
    }

    #[test]
    fn all_groups_can_have_one_cadence_and_the_first_entry_of_a_group_counts() {
        let text = parsed(r#"groups = ["extended", "all/10", "base"]"#, TENTH).expect("valid");
        assert!(
            text.starts_with("extended 1, base 10, xmtdisc 10")
                && text.split(", ").count() == Group::ALL.len(),
            "{text}"
        );
    }

    #[test]
    fn wrong_cadence_is_refused() {
        for text in [
            "base/",
            "base/0",
            "base/x",
            "base/-1",
            "base/1000001",
            "base/2/3",
        ] {
            let error = parsed(&format!("groups = [\"{text}\"]"), TENTH)
                .expect_err("refused")
                .to_string();
            assert!(
                error.contains(text) && error.contains("a cadence"),
                "{error}"
            );
        }
        assert!(
            parsed(r#"groups = [{ name = "base", every = -3 }]"#, TENTH)
                .expect_err("refused")
                .to_string()
                .contains("base/-3")
        );
        assert!(toml::from_str::<Table>("name = \"base\"\nevry = 1").is_err());
        assert!(without_cadences("force_groups", &["base/10".to_owned()]).is_err());
    }
}
