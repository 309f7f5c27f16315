//! How switches forward packets, from `routes` records: the linear tables, the virtual lanes, and
//! the settings of adaptive routing.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, PortNum};

use super::service_levels::{LEVELS, SlToVl};
use crate::input::Fold;
use crate::record::{Record, Type};
use crate::routes::Routes;

/// The newest tables of each switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Linear forwarding tables.
    pub routes: Routes,
    /// The virtual lanes, if the records have them.
    pub lanes: SlToVl,
    /// For each switch that gives its settings of adaptive routing: the SLs that it routes
    /// adaptively, one bit each, and 0 if it is off; and the number of its last group of ports.
    pub adaptive: BTreeMap<Guid, (u16, Option<u16>)>,
}

impl Recorded {
    /// Returns the number of switches with each set of SLs, and the largest number of a group.
    pub fn adaptive(&self) -> BTreeMap<u16, (usize, Option<u16>)> {
        let mut all: BTreeMap<u16, (usize, Option<u16>)> = BTreeMap::new();
        for (sls, group) in self.adaptive.values() {
            let (switches, top) = all.entry(*sls).or_default();
            (*switches, *top) = (*switches + 1, (*top).max(*group));
        }
        all
    }
}

impl From<Routes> for Recorded {
    fn from(routes: Routes) -> Self {
        Self {
            routes,
            ..Self::default()
        }
    }
}

impl Fold for Recorded {
    fn uses(&self, kind: Type) -> bool {
        self.routes.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn add(&mut self, record: &Record<'_>) {
        self.routes.add(record);
        let Record::Routes(record) = record else {
            return;
        };
        if let (Some(to), Some(from), Some(vls)) = (record.port, &record.in_ports, &record.vls)
            && let Ok(lanes) = <[u8; LEVELS]>::try_from(vls.as_slice())
        {
            for from in from {
                self.lanes.insert((record.guid, PortNum(*from), to), lanes);
            }
        }
        let is_known = self.routes.table(record.guid).is_some();
        if let Some(enabled) = record.ar_enabled.filter(|_| is_known) {
            let sls = record.ar_sl_mask.filter(|_| enabled > 0).unwrap_or(0);
            let group = record.ar_group_top.filter(|_| enabled > 0);
            self.adaptive.insert(record.guid, (sls, group));
        }
    }

    fn merge(&mut self, other: Self) {
        self.routes.merge(other.routes);
        self.lanes.merge(other.lanes);
        self.adaptive.extend(other.adaptive);
    }
}
