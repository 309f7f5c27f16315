//! What pictures of fabrics have in common, whatever they show: switches in rows by tier, links between them, as SVG.
//!
//! [`layout`] puts switches in rows, [`sheet`] finds their places on a page and draws what is behind them, [`canvas`] writes SVG.

pub mod canvas;
pub mod layout;
pub mod sheet;
