//! Pictures: heat maps, jobs and latency as PNG or SVG, maps as SVG.

pub mod heat;
pub mod job;
pub mod latency;
pub mod map;
pub mod timeline;
