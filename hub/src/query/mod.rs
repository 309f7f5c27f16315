//! Answers from the records in memory. All numbers come from [`ibnet_analysis`], so they are those of
//! `ibnet-view` for the same records.

pub(crate) mod port;
pub(crate) mod series;
