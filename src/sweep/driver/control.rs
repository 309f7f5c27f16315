//! What another thread may ask of a driver: to end, to begin or end at a slot, to tell of something.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A way to steer a driver from another thread.
///
/// Two drivers hand ports over to one another without a gap: the new one is [held](Self::held), makes itself acquainted with its devices while the old one
/// still sweeps, and [is ready](Self::is_ready); then the old one is told to [`leave_before`](Self::leave_before) a slot and the new one to
/// [`begin_with`](Self::begin_with) it.
#[derive(Debug)]
pub struct Control {
    stop: AtomicBool,
    ready: AtomicBool,
    /// The first slot that is run; [`u64::MAX`] while that is not known.
    first: AtomicU64,
    /// The first slot that is not run any more.
    end: AtomicU64,
    /// The last slot that began; [`u64::MAX`] before there is one.
    last: AtomicU64,
    /// Whose slots are gone on with, until that was asked.
    before: Mutex<Option<Arc<Self>>>,
    has_notices: AtomicBool,
    notices: Mutex<Vec<Notice>>,
    on_ready: Mutex<Option<OnReady>>,
}

/// A function that is called once.
struct OnReady(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for OnReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnReady")
    }
}

/// What a driver is to tell in its records, between two slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A `reload` event with this detail.
    Reload(String),
    /// Its ports and settings are the same, but the assignments file is another: a `start` record with its SHA-256.
    Assignments(Option<String>),
}

impl Default for Control {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            first: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(u64::MAX),
            before: Mutex::default(),
            has_notices: AtomicBool::new(false),
            notices: Mutex::default(),
            on_ready: Mutex::default(),
        }
    }
}

impl Control {
    /// Of a driver that runs no slot before it is told which is its first. It tells of those that `before` missed at its end, if both count them alike.
    pub fn held(before: Option<Arc<Self>>) -> Self {
        Self { first: AtomicU64::new(u64::MAX), before: Mutex::new(before), ..Self::default() }
    }

    /// Asks nothing more, takes what is under way until its grace ends, for 0.3 s at most, writes the slot's records and ends. Is seen within
    /// [`LONGEST_WAIT`](super::LONGEST_WAIT).
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it has asked its devices who they are, and could begin.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Calls `notify` once when the driver [is ready](Self::is_ready); at once if it already is.
    pub fn on_ready(&self, notify: impl FnOnce() + Send + 'static) {
        let mut on_ready = self.on_ready.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_ready() {
            drop(on_ready);
            return notify();
        }
        *on_ready = Some(OnReady(Box::new(notify)));
    }

    /// Runs slots from this one on.
    pub fn begin_with(&self, slot: u64) {
        self.first.store(slot, Ordering::Release);
    }

    /// Ends instead of running this slot or a later one.
    pub fn leave_before(&self, slot: u64) {
        self.end.store(slot, Ordering::Release);
    }

    /// Tells of something, within [`LONGEST_WAIT`](super::LONGEST_WAIT) or after the slot that runs.
    pub fn notify(&self, notice: Notice) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        self.has_notices.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self) {
        let mut on_ready = self.on_ready.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready.store(true, Ordering::Release);
        let notify = on_ready.take();
        drop(on_ready);
        if let Some(OnReady(notify)) = notify {
            notify();
        }
    }

    /// The first slot to run; `None` while it is held.
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.first.load(Ordering::Acquire)).filter(|first| *first < u64::MAX)
    }

    /// Takes note that a slot begins.
    pub(super) fn begins(&self, slot: u64) {
        self.last.store(slot, Ordering::Release);
    }

    /// The slot after the last one of whom we follow, once; `None` if there was none.
    pub(super) fn expected(&self) -> Option<u64> {
        // Let go of: else each would hold all before it.
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        before.last.load(Ordering::Acquire).checked_add(1)
    }

    pub(super) fn leaves_before(&self, slot: u64) -> bool {
        slot >= self.end.load(Ordering::Acquire)
    }

    /// What there is to tell, once.
    pub(super) fn take_notices(&self) -> Vec<Notice> {
        if !self.has_notices.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_held_begins_when_told_and_expects_what_follows_the_last_slot_of_the_other() {
        let old = Arc::new(Control::default());
        let new = Control::held(Some(Arc::clone(&old)));
        assert_eq!((old.first(), new.first()), (Some(0), None));
        old.begins(41);
        old.leave_before(44);
        new.begin_with(44);
        assert_eq!([41, 43, 44, 45].map(|slot| old.leaves_before(slot)), [false, false, true, true]);
        // It was to run 42 and 43 too, and could not.
        assert_eq!((new.first(), new.expected(), new.expected()), (Some(44), Some(42), None));
        assert_eq!(Control::held(Some(Arc::new(Control::default()))).expected(), None, "who never ran a slot missed none");
    }

    #[test]
    fn a_notice_is_taken_once() {
        let control = Control::default();
        control.notify(Notice::Reload("a".to_owned()));
        control.notify(Notice::Assignments(None));
        assert_eq!(control.take_notices(), [Notice::Reload("a".to_owned()), Notice::Assignments(None)]);
        assert_eq!(control.take_notices(), []);
    }
}
