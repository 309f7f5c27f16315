//! Evaluates the round-trip times of MADs as empirical distributions, with the method of the
//! program Confidence (Settlemyer et al.) and of figure 4 of the LDMS paper.
//!
//! | value | source |
//! |---|---|
//! | single MAD | `histogram` records: `rtt` by device kind, `service` by device |
//! | mean over the MADs of a port in a slot | `rtt_ns` / `mads` of port records, if no histograms |
//! | compound query: all MADs of a port in a slot | `rtt_ns` of port records |
//! | shortest MAD of a device | `rtt_min_ns` of port records, else `service` histograms |
//! | shortest MAD of a device in a minute | `min_ns` of `service` histograms |
//! | timer cost | `clock` histograms |
//!
//! Each measured time includes the time for one reading of the clock, the *timer cost*
//! (`clock_ns`). As in Confidence, it is subtracted from every value, and once for each MAD from
//! the duration of a compound query.

pub mod bins;
pub mod compare;
pub mod compound;
pub mod dip;
pub mod distribution;
mod evaluated;
pub mod fit;
mod fold;
pub mod grouping;
pub mod modes;
mod rows;

pub use evaluated::{Latencies, ModeReport, Resolution, Source};
pub use fold::Latency;
pub use rows::{COMPOUND, LEAST, LatencyBin, LatencyRow, MINIMA, TIMER};
