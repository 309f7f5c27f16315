//! Draws pictures. Heat maps and latency are PNG or SVG, drawn with plotters. Jobs and maps are
//! SVG.

pub mod heat;
pub mod job;
pub mod latency;
pub mod map;
