//! Counts record fields that this version does not have, because a newer sampler can write them.
//!
//! Checking all fields of a line takes about half as long as parsing its record, so only one of
//! [`LOOK_EVERY`] lines of an input is checked.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ibnet_analysis::record::Type;
use ibnet_record::schema;
use rustc_hash::FxHashSet;
use serde::de::IgnoredAny;

/// One of this many lines of an input has its fields counted.
pub(crate) const LOOK_EVERY: u64 = 256;

/// The fields of all record types, in the order of [`Type::ALL`].
static KNOWN: LazyLock<[FxHashSet<&str>; Type::ALL.len()]> = LazyLock::new(|| {
    Type::ALL.map(|kind| {
        schema::fields(kind)
            .into_iter()
            .map(|field| field.name)
            .collect()
    })
});

/// Returns how many fields of a line of this type are unknown.
pub(crate) fn unknown(line: &[u8], kind: Type) -> u64 {
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(line).unwrap_or_default();
    let known = KNOWN
        .iter()
        .zip(Type::ALL)
        .find(|(_, of)| *of == kind)
        .map(|(known, _)| known);
    fields
        .keys()
        .filter(|name| known.is_some_and(|known| !known.contains(&***name)))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_no_record_of_this_version_has_are_counted() {
        let line = br#"{"type":"port","ts":1,"guid":"0x0000000000000001","port":2,"symbol_error_counter":7,"new":{"a":1},"n\u0065wer":[]}"#;
        assert_eq!(
            (
                unknown(line, Type::Port),
                unknown(br#"{"type":"sweep","ts":1,"replies":3}"#, Type::Sweep)
            ),
            (2, 1)
        );
        assert_eq!(
            unknown(
                br#"{"type":"event","ts":1,"event":"a","detail":"b"}"#,
                Type::Event
            ),
            0
        );
    }
}
