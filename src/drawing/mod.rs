//! Pictures of fabrics as SVG: switches in rows by tier, and the links between them.
//!
//! [`layout`] puts switches in rows, [`sheet`] computes their positions on the page and draws the
//! background, and [`canvas`] writes SVG. The picture of a plan and the map of `ibnet-view` use
//! these modules.

pub mod canvas;
pub mod layout;
pub mod sheet;
