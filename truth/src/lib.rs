//! Congestion with a known truth.
//!
//! A model of packets and credits ([`network`]) runs traffic through a [`fabric`]. It knows which
//! queues were full and which jobs had packets in them, so that the findings of `ibnet-view
//! congestion` can be compared with the truth. It shares no code and no rule with the search for
//! roots.

pub mod fabric;
pub mod network;

#[cfg(test)]
mod tests;
