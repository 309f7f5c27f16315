//! Writes reports as text: tables with aligned columns, and the sentences before and after them.

pub mod compare;
pub mod errors;
pub mod groups;
pub mod health;
pub mod job;
pub mod jobs;
pub mod latency;
pub mod links;
pub mod matrix;
pub mod path;
pub mod phases;
pub mod prevalence;
pub mod rails;
pub mod regions;
pub mod routing;
pub mod sharing;
pub mod sweeps;
mod table;
pub mod trees;
pub mod truth;

pub(crate) use ibnet_record::count::count;

/// Formats a share in percent, or a dash for an unknown one.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}
