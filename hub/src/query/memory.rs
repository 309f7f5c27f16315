//! Adds the records in memory to those of an archive, as their continuation.

use ibnet_analysis::input::continued::Later;
use ibnet_analysis::input::memory::REACH_NS;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::Record;

use crate::events::{self, EventRow};
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// The records in memory of a time range.
pub(crate) struct Memory<'h> {
    pub(crate) hub: &'h Hub,
    /// Ports whose records are needed.
    pub(crate) keys: Vec<PortKey>,
    /// Counters that are needed.
    pub(crate) wanted: Wanted,
    /// Events that the archive lacks.
    pub(crate) events: Vec<EventRow>,
    /// Start and end of the time range in nanoseconds since 1970.
    pub(crate) range: (u64, u64),
}

impl Later for Memory<'_> {
    fn ports(&self) -> Vec<PortKey> {
        self.keys.clone()
    }

    fn records(&self, key: PortKey, add: &mut dyn FnMut(Vec<Record<'_>>)) {
        let (from, to) = (
            self.range.0.saturating_sub(REACH_NS),
            self.range.1.saturating_add(REACH_NS),
        );
        let chunks = self.hub.read().store.chunks(key, from, to);
        add(chunks
            .as_ref()
            .map(|chunks| chunks.records(&self.wanted))
            .unwrap_or_default());
    }

    fn events(&self) -> Vec<Record<'_>> {
        events::records(&self.events).collect()
    }
}
