//! The table of one sweep: `ibnet-sweep --once`.

pub mod once;
mod table;
