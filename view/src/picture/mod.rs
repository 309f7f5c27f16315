//! Draws pictures. Heat maps, jobs and latency are PNG or SVG, maps are SVG.

pub mod heat;
pub mod job;
pub mod latency;
pub mod map;
pub mod timeline;
