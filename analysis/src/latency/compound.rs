//! Compound queries: all MADs of a port in a slot, as in figure 4 of the LDMS paper.
//!
//! The duration of a compound query is `rtt_ns` of the port record, the sum of the round-trip
//! times of its MADs. A port that did not reply to all of them has no compound query.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use crate::record::Port;

/// Durations of compound queries, by sampler, device kind and number of MADs.
#[derive(Clone, Debug, Default)]
pub struct Compound(BTreeMap<String, BTreeMap<(&'static str, u64), Distribution>>);

impl Compound {
    /// Adds the compound query of a port record.
    pub fn add(&mut self, port: &Port<'_>) {
        if port.rtt_ns == 0 || port.mads == 0 || !port.answered() {
            return;
        }
        let kind = port.kind.map_or("other", |kind| kind.as_str());
        of_sampler(&mut self.0, &port.sampler)
            .entry((kind, port.mads))
            .or_default()
            .record(port.rtt_ns);
    }

    /// Adds the values of another set.
    pub fn merge(&mut self, other: Self) {
        for (sampler, theirs) in other.0 {
            let ours = of_sampler(&mut self.0, &sampler);
            theirs
                .into_iter()
                .for_each(|(key, values)| ours.entry(key).or_default().merge(&values));
        }
    }

    /// Returns the durations by device kind, with the timer cost of each MAD subtracted. `clocks`
    /// has the timer cost of each sampler in nanoseconds.
    pub fn finish(&self, clocks: &BTreeMap<String, u64>) -> BTreeMap<&'static str, Distribution> {
        let mut all: BTreeMap<_, Distribution> = BTreeMap::new();
        for (sampler, parts) in &self.0 {
            let clock = clocks.get(sampler).copied().unwrap_or(0);
            for ((kind, mads), values) in parts {
                all.entry(*kind)
                    .or_default()
                    .merge(&values.less(clock.saturating_mul(*mads)));
            }
        }
        all
    }
}

/// Returns the entry of a sampler, and allocates memory only for a new one.
fn of_sampler<'a, T: Default>(all: &'a mut BTreeMap<String, T>, sampler: &str) -> &'a mut T {
    if !all.contains_key(sampler) {
        all.insert(sampler.to_owned(), T::default());
    }
    all.entry(sampler.to_owned()).or_default()
}
