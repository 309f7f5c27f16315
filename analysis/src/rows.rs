//! Rows of results that other programs read. `ibnet-view` writes them as JSON and CSV.
//!
//! The field names of a row are an interface: `docs/results.md` lists them with their units.

use serde::Serialize;

/// A row of a result.
///
/// In JSON a row is an object. In CSV it is one line, or one line for each element of a list.
pub trait Row: Serialize {
    /// Names of the CSV columns, in their order.
    ///
    /// A field of a nested object is named `OUTER_INNER`, and so are the fields of the elements
    /// of a list of objects. At most one such list of a row type has columns.
    const COLUMNS: &'static [&'static str];
}
