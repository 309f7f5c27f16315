//! Draws pictures. Heat maps, jobs, latency and sweeps are PNG or SVG, maps are SVG.

mod curves;
pub mod groups;
pub mod heat;
mod hosts;
pub mod job;
pub mod latency;
pub mod map;
pub mod sweeps;
pub mod timeline;
