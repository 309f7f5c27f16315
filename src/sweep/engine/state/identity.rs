//! The state of one device's identity check, and of the reads of its links.

use ibnet_record::types::Guid;

use crate::mad::smp::NodeInfo;
use crate::sweep::engine::Key;
use crate::time::Instant;

/// Number of failed NodeInfo queries after which the identity counts as not verifiable.
const MAX_FAILED: u8 = 3;

/// Verification of the GUID that answers at the device's LID.
#[derive(Clone, Debug)]
pub(in crate::sweep::engine) struct IdentityCheck {
    /// Port GUID of the planned device.
    pub(in crate::sweep::engine) expected: Guid,
    pub(in crate::sweep::engine) identity: Identity,
    check: Check,
    /// Number of NodeInfo queries that failed since the last reply.
    failed: u8,
}

/// Result of the verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sweep::engine) enum Identity {
    /// Never verified, or not verified since the device was silent. The value is its last
    /// NodeInfo.
    Unverified(Option<NodeInfo>),
    /// The planned device answers. The value is its NodeInfo.
    Verified(NodeInfo),
    /// Another device answers at the LID.
    Wrong {
        /// Port GUID of the other device.
        found: Guid,
        /// Whether later NodeInfo queries were unanswered, so a third device may be at the LID.
        unanswered: bool,
    },
    /// The path record has another LID, and the device was not yet verified at the new LID.
    Moved,
}

/// State of the NodeInfo query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    /// The next query is due at this time.
    Due(Instant),
    /// The query is sent in every slot until it is answered, or until it has failed too often.
    Querying,
}

/// Consequence of a failed NodeInfo query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sweep::engine) enum NodeInfoFailure {
    /// The query is sent again.
    Retry,
    /// The identity cannot be verified at this time.
    NotVerifiable,
}

impl IdentityCheck {
    pub(super) fn new(expected: Guid) -> Self {
        Self {
            expected,
            identity: Identity::Unverified(None),
            check: Check::Due(Instant::ZERO),
            failed: 0,
        }
    }

    /// Discards everything learned, because another device may answer now.
    pub(super) fn discard_learned(&mut self) {
        self.failed = 0;
        self.verify();
        if matches!(
            self.identity,
            Identity::Unverified(_) | Identity::Verified(_)
        ) {
            self.identity = Identity::Unverified(None);
        }
    }

    pub(in crate::sweep::engine) fn is_wrong(&self) -> bool {
        matches!(self.identity, Identity::Wrong { .. } | Identity::Moved)
    }

    pub(in crate::sweep::engine) fn is_verified(&self) -> bool {
        matches!(self.identity, Identity::Verified(_))
    }

    pub(in crate::sweep::engine) fn found(&self) -> Option<Guid> {
        match self.identity {
            Identity::Wrong { found, .. } => Some(found),
            _ => None,
        }
    }

    pub(in crate::sweep::engine) fn info(&self) -> Option<&NodeInfo> {
        match &self.identity {
            Identity::Verified(info) | Identity::Unverified(Some(info)) => Some(info),
            _ => None,
        }
    }

    /// Marks the device as not verified, but keeps its NodeInfo.
    pub(in crate::sweep::engine) fn withdraw(&mut self) {
        if let Identity::Verified(info) = self.identity {
            self.identity = Identity::Unverified(Some(info));
        }
    }

    /// Makes the next query due in the next slot.
    pub(in crate::sweep::engine) fn verify(&mut self) {
        if let Check::Due(at) = &mut self.check {
            *at = Instant::ZERO;
        }
    }

    /// Returns whether the next query is due. Returns false while a query is being sent.
    pub(in crate::sweep::engine) fn is_due(&self, now: Instant) -> bool {
        matches!(self.check, Check::Due(at) if now >= at)
    }

    pub(in crate::sweep::engine) fn is_querying(&self) -> bool {
        self.check == Check::Querying
    }

    pub(in crate::sweep::engine) fn has_not_failed(&self) -> bool {
        self.failed == 0
    }

    pub(in crate::sweep::engine) fn query(&mut self) {
        self.check = Check::Querying;
    }

    pub(in crate::sweep::engine) fn schedule(&mut self, due: Instant) {
        self.check = Check::Due(due);
    }

    /// Stores the result of a reply.
    pub(in crate::sweep::engine) fn answered(&mut self, identity: Identity, next: Instant) {
        (self.identity, self.check, self.failed) = (identity, Check::Due(next), 0);
    }

    /// Counts a failed query.
    pub(in crate::sweep::engine) fn fail(&mut self) -> NodeInfoFailure {
        self.failed += 1;
        if self.failed < MAX_FAILED {
            return NodeInfoFailure::Retry;
        }
        self.failed = 0;
        NodeInfoFailure::NotVerifiable
    }

    /// Ends the queries without a result, until `next`.
    pub(in crate::sweep::engine) fn give_up(&mut self, next: Instant) {
        (self.failed, self.check) = (0, Check::Due(next));
        self.identity = match self.identity {
            Identity::Wrong { found, .. } => Identity::Wrong {
                found,
                unanswered: true,
            },
            Identity::Verified(info) => Identity::Unverified(Some(info)),
            Identity::Unverified(info) => Identity::Unverified(info),
            Identity::Moved => Identity::Unverified(None),
        };
    }
}

/// Reads of PortInfo of the device's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sweep::engine) struct LinkReads {
    /// Time of the next read.
    due: Instant,
    /// Whether the links are read in this slot.
    pub(in crate::sweep::engine) reading: bool,
    /// PortInfo.CapabilityMask of a switch's port 0.
    pub(in crate::sweep::engine) switch_mask: Option<u32>,
}

impl LinkReads {
    /// Discards the mask and makes the next read due.
    pub(super) fn discard_learned(&mut self) {
        (self.due, self.switch_mask) = (Instant::ZERO, None);
    }

    pub(in crate::sweep::engine) fn expire(&mut self) {
        self.due = Instant::ZERO;
    }

    pub(in crate::sweep::engine) fn start(&mut self, now: Instant, next: Instant) {
        if now >= self.due {
            (self.reading, self.due) = (true, next);
        }
    }
}

/// Keys that the device requires, as far as they were reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sweep::engine) struct KeyEvents {
    m: bool,
    pm: bool,
    vendor: bool,
}

impl KeyEvents {
    /// Returns whether the key was not reported before, and marks it as reported.
    pub(in crate::sweep::engine) fn first(&mut self, key: Key) -> bool {
        let reported = match key {
            Key::M => &mut self.m,
            Key::Pm => &mut self.pm,
            Key::Vendor => &mut self.vendor,
        };
        !std::mem::replace(reported, true)
    }
}
