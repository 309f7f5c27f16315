//! Congestion with a known truth.
//!
//! A model of packets and credits ([`network`]) runs the [`traffic`] of jobs through a [`fabric`].
//! It knows which queues were full and which jobs had packets in them ([`labels`]), so that the
//! findings of `ibnet-view congestion` can be compared with the truth. It shares no code and no
//! rule with the search for roots. The [`records`] are those of a sampler that reads its ports.

pub mod fabric;
pub mod labels;
pub mod network;
pub mod records;
pub mod scenario;
pub mod traffic;

#[cfg(test)]
mod tests;
