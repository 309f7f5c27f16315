//! Evaluates the round-trip times of MADs as empirical distributions. The method is that of the
//! program Confidence (Settlemyer et al.) and of figure 4 of the LDMS paper.
//!
//! | value | source |
//! |---|---|
//! | round-trip time of a single MAD | `histogram` records: `rtt` by device kind, `service` by device |
//! | mean over the MADs of a port in a slot | `rtt_ns` / `mads` of port records; used without histograms |
//! | compound query: all MADs of a port in a slot | `rtt_ns` of port records |
//! | shortest single round-trip time of a device | `rtt_min_ns` of port records, else the `service` histogram |
//!
//! Each measured time includes the time of one clock reading, the *timer cost* (`clock_ns`). It is
//! subtracted from every value, as Confidence does. From the duration of a compound query it is
//! subtracted once for each MAD.

pub mod bins;
pub mod compare;
pub mod compound;
pub mod dip;
pub mod distribution;
mod evaluated;
mod fold;
pub mod grouping;
pub mod modes;
mod rows;

pub use evaluated::{Latencies, ModeReport, Source};
pub use fold::Latency;
pub use rows::{COMPOUND, LEAST, LatencyRow};
