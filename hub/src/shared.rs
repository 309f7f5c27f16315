//! Serializes shared strings.

use std::sync::Arc;

use serde::Serializer;

/// Serializes a shared string.
pub(crate) fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Serializes a shared string, or null.
pub(crate) fn optional<S: Serializer>(
    text: &Option<Arc<str>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => serializer.serialize_some(&**text),
        None => serializer.serialize_none(),
    }
}
