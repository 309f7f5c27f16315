//! Pictures: heat maps and latency by plotters as PNG or SVG, jobs and maps as SVG.

mod curves;
pub mod heat;
pub mod job;
pub mod latency;
pub mod map;
pub mod sweeps;
