//! Table of one sweep for `ibnet-sweep --once`.

pub mod once;
mod table;
