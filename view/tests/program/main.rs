//! The program `ibnet-view` as a whole. These tests are one test program, because each test program
//! links the whole library.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod congestion;
mod heatmap;
mod hosts;
mod jobs;
mod latency;
mod pack;
mod results;
