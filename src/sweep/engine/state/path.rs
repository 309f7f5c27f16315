//! The address of a device: LID, service level, redirection, and the path query to the subnet
//! manager.

use ibnet_record::types::Lid;

use crate::mad::pma::class_port_info::Redirect;
use crate::time::Instant;

/// Address of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sweep::engine) struct Path {
    /// LID to which requests go.
    pub(in crate::sweep::engine) lid: Lid,
    /// LID at which the device was last known to be, as reported in events.
    pub(in crate::sweep::engine) known_lid: Lid,
    sl: ServiceLevel,
    /// Agent that answers for the device's performance management.
    pub(in crate::sweep::engine) redirect: Option<Redirect>,
    query: PathQuery,
    /// Earliest time of the next query.
    not_before: Instant,
}

/// Service level to a device, if it comes from path records (`sl = "path"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServiceLevel {
    /// Unknown, so the configured service level is used.
    Unknown,
    /// From a path record that may be outdated. It is used until the next path record.
    Stale(u8),
    /// From a current path record.
    Known(u8),
}

/// State of the query for the path record of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathQuery {
    Idle,
    /// The query waits in the queue or for a retry, or is in flight.
    Pending {
        /// Number of tries without a reply.
        failed: u8,
    },
}

impl Path {
    pub(super) fn new(lid: Lid) -> Self {
        Self {
            lid,
            known_lid: lid,
            sl: ServiceLevel::Unknown,
            redirect: None,
            query: PathQuery::Idle,
            not_before: Instant::ZERO,
        }
    }

    pub(in crate::sweep::engine) fn sl(&self, configured: u8) -> u8 {
        match self.sl {
            ServiceLevel::Unknown => configured,
            ServiceLevel::Stale(sl) | ServiceLevel::Known(sl) => sl,
        }
    }

    /// Returns whether the service level comes from a current path record.
    pub(in crate::sweep::engine) fn has_sl(&self) -> bool {
        matches!(self.sl, ServiceLevel::Known(_))
    }

    pub(in crate::sweep::engine) fn set_sl(&mut self, sl: u8) {
        self.sl = ServiceLevel::Known(sl);
    }

    /// Marks the path as possibly outdated, because the subnet may have changed. A query may start
    /// at once.
    pub(in crate::sweep::engine) fn expire(&mut self) {
        self.not_before = Instant::ZERO;
        if let ServiceLevel::Known(sl) = self.sl {
            self.sl = ServiceLevel::Stale(sl);
        }
    }

    pub(in crate::sweep::engine) fn is_queried(&self) -> bool {
        self.query != PathQuery::Idle
    }

    pub(in crate::sweep::engine) fn may_query(&self, now: Instant) -> bool {
        now >= self.not_before
    }

    pub(in crate::sweep::engine) fn wait_until(&mut self, not_before: Instant) {
        self.not_before = not_before;
    }

    /// Starts a query. Returns false if a query is already pending.
    pub(in crate::sweep::engine) fn start_query(&mut self) -> bool {
        let starts = self.query == PathQuery::Idle;
        if starts {
            self.query = PathQuery::Pending { failed: 0 };
        }
        starts
    }

    /// Counts a try without a reply and returns the number of such tries, or `None` if no query is
    /// pending.
    pub(in crate::sweep::engine) fn fail_query(&mut self) -> Option<u8> {
        match &mut self.query {
            PathQuery::Idle => None,
            PathQuery::Pending { failed } => {
                *failed += 1;
                Some(*failed)
            }
        }
    }

    pub(in crate::sweep::engine) fn end_query(&mut self) {
        self.query = PathQuery::Idle;
    }
}
