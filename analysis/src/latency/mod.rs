//! Round-trip times of MADs as empirical distributions, after Settlemyer et al. (Confidence) and
//! figure 4 of the LDMS paper.
//!
//! | value | source |
//! |---|---|
//! | round-trip time of a single MAD | `histogram` records: `rtt` by device kind, `service` by device |
//! | mean per MAD of a port in a slot | `rtt_ns` / `mads` of port records; used without histograms |
//! | compound query: all MADs of a port in a slot | `rtt_ns` of port records |
//! | least single round trip of a device | `rtt_min_ns` of port records, else the `service` histogram |
//!
//! Each measured time includes the time of one clock reading, `clock_ns`. This timer cost is
//! subtracted from every value, as Confidence does: once from a single round trip, and once for each
//! MAD from a compound query.

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
