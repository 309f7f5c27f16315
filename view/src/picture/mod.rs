//! Draws pictures: heat maps, jobs, latency and sweeps as PNG or SVG, maps as SVG.

mod counts;
mod curves;
pub mod groups;
pub mod health;
pub mod heat;
mod hosts;
pub mod job;
pub mod latency;
pub mod map;
pub mod matrix;
pub mod runs;
pub mod sweeps;
pub mod timeline;
