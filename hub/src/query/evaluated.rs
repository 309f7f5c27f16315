//! Evaluates links, congestion trees and errors over a time range: the rows of
//! `ibnet-view --format json`.
//!
//! A *pass* reads all records of a time range once. The three answers come from the same pass, and
//! the last passes are kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::errors::{Errors, Thresholds};
use ibnet_analysis::input::Fold;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::links::{self, LinkOrder, LinkRow};
use ibnet_analysis::ports::{DATA_COUNTERS, PortKey, PortSummary, Ports};
use ibnet_analysis::stat::Stat;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_record::ERROR_COUNTERS;

use crate::events::{self, Filter};
use crate::query::error::ApiError;
use crate::query::memory::Memory;
use crate::query::passes::{Asked, LastPasses};
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// Number of time intervals in which congestion trees are searched, as in `ibnet-view`.
const INTERVALS: usize = 64;

const SECOND_NS: u64 = 1_000_000_000;

/// Number of passes that are kept. One of 20,000 ports takes 200 MB.
const KEPT: usize = 2;

/// Time from the end of a pass over the newest records to the next one, as a multiple of its
/// duration. With many ports, the pages that are open would otherwise need a core for themselves.
const REST: u32 = 10;

/// Max number of records in a pass.
pub(crate) const MAX_RECORDS: u64 = 10_000_000;

/// Number of ports whose records are read at a time, which bounds the memory.
const PORTS_AT_ONCE: usize = 4096;

/// The result of one pass.
#[derive(Debug)]
pub(crate) struct Evaluated {
    /// Start and end of the time range with records, in nanoseconds since 1970.
    pub(crate) range: (u64, u64),
    ports: BTreeMap<PortKey, PortSummary>,
    devices: Devices,
    /// The congestion by the usual limits, after the first search.
    congestion: OnceLock<Congestion>,
}

/// The congestion of a time range.
#[derive(Debug)]
pub(crate) struct Congestion {
    /// One tree for each root.
    pub(crate) trees: Trees,
    /// The regions, from their begin, which can be before the time range.
    pub(crate) regions: Trees,
}

/// The last passes.
#[derive(Debug, Default)]
pub(crate) struct Evaluations {
    passes: LastPasses<Evaluated, KEPT>,
    newest: Mutex<Option<Newest>>,
}

/// The last pass over the newest records.
#[derive(Debug)]
struct Newest {
    asked: Asked,
    ended: Duration,
    took: Duration,
    found: Arc<Evaluated>,
}

impl Evaluations {
    /// Returns the pass over a time range.
    pub(crate) fn find(&self, hub: &Hub, range: (u64, u64)) -> Result<Arc<Evaluated>, ApiError> {
        let revision = hub.read().revision();
        self.passes.find((range, revision), || evaluate(hub, range))
    }

    /// Returns a pass over the newest records, whose time range is `range` now. An earlier pass is
    /// returned if it has the same records, or for [`REST`] times its duration. Requests that come
    /// during a pass wait for it.
    pub(crate) fn newest(&self, hub: &Hub, range: (u64, u64)) -> Result<Arc<Evaluated>, ApiError> {
        // The last pass stays valid even if a thread panics.
        let mut last = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, begun) = {
            let state = hub.read();
            ((range, state.revision()), state.now)
        };
        let is_valid = |last: &&Newest| {
            last.asked == asked || begun.saturating_sub(last.ended) < last.took * REST
        };
        if let Some(last) = last.as_ref().filter(is_valid) {
            return Ok(Arc::clone(&last.found));
        }
        // The memory of the earlier pass is free before the next one begins.
        *last = None;
        let found = Arc::new(evaluate(hub, range)?);
        let ended = hub.read().now;
        *last = Some(Newest {
            asked,
            ended,
            took: ended.saturating_sub(begun),
            found: Arc::clone(&found),
        });
        Ok(found)
    }
}

/// Evaluates the records of a time range. If the range begins before the oldest record in memory,
/// the records of the archive come first. Without an archive, the range begins with the oldest
/// record in memory.
pub(crate) fn evaluate(hub: &Hub, (from, to): (u64, u64)) -> Result<Evaluated, ApiError> {
    let first = hub.read().store.first_ts().unwrap_or(0);
    let archive = hub
        .archive
        .as_ref()
        .filter(|archive| from.saturating_sub(REACH_NS) < first && archive.exists());
    let from = if archive.is_some() {
        from
    } else {
        from.max(first).min(to)
    };
    let (keys, interval_ns, events) = {
        let state = hub.read();
        // The end of a time range is exclusive, as in `ibnet-view`.
        let filter = Filter {
            from,
            to: to.saturating_sub(1),
            names: Vec::new(),
            guid: None,
            port: None,
            limit: usize::MAX,
        };
        (
            state.store.keys(),
            state.samplers.interval_ns().max(1),
            state.events.select(&filter),
        )
    };
    if (to - from) / interval_ns * keys.len() as u64 > MAX_RECORDS {
        return Err(ApiError::wrong(format!(
            "the time range has more than {MAX_RECORDS} records; give a shorter one"
        )));
    }
    let wanted = Wanted::named(ERROR_COUNTERS.into_iter().chain(DATA_COUNTERS));
    let mut ports = Ports::with_bins(INTERVALS).and_jobs();
    if hub.every > 1 {
        // A kept record stands for several slots, so shorter bins would only repeat it.
        ports = ports.with_bins_of(interval_ns.max(SECOND_NS));
    }
    let mut fold = (ports, Devices::default());
    if let Some(archive) = archive {
        let archived = archive.event_times((from, to))?;
        let events = events
            .into_iter()
            .filter(|event| !archived.contains(&event.ts))
            .collect();
        let (ports, devices) = archive.read(
            fold,
            (from, to),
            &Memory {
                hub,
                keys,
                wanted,
                events,
                range: (from, to),
            },
        )?;
        return Ok(Evaluated::new((from, to), ports, devices));
    }
    let mut events_of: BTreeMap<PortKey, Vec<usize>> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        if let (Some(guid), Some(port)) = (event.guid, event.port) {
            events_of.entry((guid, port)).or_default().push(place);
        }
    }
    // Events of whole devices belong to no port.
    events::records(&events)
        .filter(|record| events::is_of_device(record))
        .for_each(|record| fold.add(&record));
    for keys in keys.chunks(PORTS_AT_ONCE) {
        let chunks: Vec<_> = {
            let state = hub.read();
            keys.iter()
                .filter_map(|key| {
                    state.store.chunks(
                        *key,
                        from.saturating_sub(REACH_NS),
                        to.saturating_add(REACH_NS),
                    )
                })
                .collect()
        };
        for chunks in &chunks {
            let mut records = chunks.records_from(&wanted, from);
            let of_port = events_of
                .get(&chunks.key)
                .into_iter()
                .flatten()
                .filter_map(|place| events.get(*place..=*place));
            records.extend(of_port.flat_map(events::records));
            fold_port(records, Some(from), Some(to), &mut fold);
        }
    }
    let (ports, devices) = fold;
    Ok(Evaluated::new((from, to), ports, devices))
}

impl Evaluated {
    fn new(range: (u64, u64), ports: Ports, devices: Devices) -> Self {
        Self {
            range,
            ports: ports.finish(),
            devices,
            congestion: OnceLock::new(),
        }
    }

    /// Returns the first links in an order. `top` 0 means all.
    pub(crate) fn links(&self, order: LinkOrder, top: usize) -> Vec<LinkRow> {
        let links = links::find(&self.ports);
        let sorted = links::sorted(&links, order);
        sorted
            .iter()
            .take(if top == 0 { usize::MAX } else { top })
            .map(|link| link.row(Stat::Mean))
            .collect()
    }

    /// Returns the congestion by the usual limits. The regions are those of the hub, and the others
    /// of the time range.
    pub(crate) fn congestion(&self, hub: &Hub) -> &Congestion {
        let search = || self.search(Limits::default(), Trees::clone(&hub.regions()));
        self.congestion.get_or_init(search)
    }

    /// Searches for congestion. The regions are these, continued, and the others of the time range.
    pub(crate) fn search(&self, limits: Limits, mut regions: Trees) -> Congestion {
        let mut own = Trees::no_regions();
        let trees = self.follow(limits, &mut [&mut regions, &mut own]);
        regions.complete(own, self.range);
        Congestion { trees, regions }
    }

    /// Finds all trees, and continues regions.
    pub(crate) fn follow(&self, limits: Limits, regions: &mut [&mut Trees]) -> Trees {
        Trees::find_and_continue(&self.ports, &self.devices, limits, regions)
    }

    pub(crate) const fn ports(&self) -> &BTreeMap<PortKey, PortSummary> {
        &self.ports
    }

    pub(crate) fn errors(&self, thresholds: &Thresholds) -> Errors<'_> {
        Errors::find(&self.ports, &self.devices, thresholds, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Clock;
    use crate::query::tests::{hub, lines};

    #[test]
    fn pass_over_the_newest_records_is_made_again_after_ten_times_its_duration() {
        let hub = hub(&[lines().join("\n") + "\n"]);
        let evaluations = Evaluations::default();
        let to = hub.read().newest_ns();
        let newest = |to| evaluations.newest(&hub, (0, to)).expect("evaluated");
        let first = newest(to);
        assert!(Arc::ptr_eq(&first, &newest(to)), "the same records");
        let mut now = Clock::start().now();
        now.monotonic += Duration::from_secs(100);
        hub.tick(now);
        let second = newest(to - 1);
        assert!(
            !Arc::ptr_eq(&first, &second),
            "no time has passed in a pass"
        );
        if let Some(last) = &mut *evaluations.newest.lock().expect("no panic") {
            last.took = Duration::from_secs(4);
        }
        now.monotonic += Duration::from_secs(39);
        hub.tick(now);
        assert!(Arc::ptr_eq(&second, &newest(to - 2)));
        now.monotonic += Duration::from_secs(2);
        hub.tick(now);
        assert!(!Arc::ptr_eq(&second, &newest(to - 2)));
    }
}
