//! Pictures of fabrics as SVG: switches in rows by tier, and the links between them.
//!
//! [`layout`] puts switches in rows, [`sheet`] computes their positions on the page and draws the
//! background, [`canvas`] writes SVG. The picture of a plan and the map of `ibnet-view` use them.

pub mod canvas;
pub mod layout;
pub mod sheet;
