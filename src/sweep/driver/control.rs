//! Requests from other threads to a driver: stop, begin or end at a slot, write an event.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, mem};

use super::wake::Wake;

/// Handle to control a driver from another thread.
///
/// Three steps let a new driver take over the ports of an old one without a gap:
///
/// 1. The new driver is [held](Self::held): it discovers its devices while the old driver still
///    sweeps, until it [is ready](Self::is_ready).
/// 2. [`leave_before`](Self::leave_before) ends the old driver before a slot.
/// 3. [`begin_with`](Self::begin_with) starts the new driver with that slot.
#[derive(Debug, Default)]
pub struct Control {
    /// Whether to stop. It is outside of the locked state, because the driver reads it in every
    /// turn of its loop.
    stop: AtomicBool,
    state: Mutex<State>,
    wake: Arc<Wake>,
}

#[derive(Debug, Default)]
struct State {
    first: FirstSlot,
    /// First slot that the driver no longer runs.
    end: Option<u64>,
    /// Last slot that has begun.
    last: Option<u64>,
    /// Control of the driver whose slots this one continues. [`Control::expected_slot`] removes
    /// it.
    predecessor: Option<Arc<Control>>,
    is_ready: bool,
    on_ready: Option<OnReady>,
    /// Each notice with the first slot before which it may be written.
    notices: Vec<(u64, Notice)>,
}

/// The first slot that a driver runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum FirstSlot {
    /// The next slot.
    #[default]
    Next,
    /// Not known yet: the driver waits for [`Control::begin_with`].
    Held,
    /// This slot, or the first possible slot after it.
    From(u64),
}

/// A function that is called once.
struct OnReady(Box<dyn FnOnce() + Send>);

impl fmt::Debug for OnReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReady")
    }
}

/// A record that a driver writes between two slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A `reload` event with this detail.
    Reload(String),
    /// A `start` record with the SHA-256 of another plan file. The ports and settings of this
    /// driver are the same in both files.
    Assignments(Option<String>),
}

impl Control {
    /// Returns the handle for a paused driver. [`begin_with`](Self::begin_with) starts its slots.
    ///
    /// The driver reports the slots that `predecessor` missed at its end, so the slots of both
    /// drivers must have the same numbers.
    pub fn held(predecessor: Option<Arc<Self>>) -> Self {
        let state = State {
            first: FirstSlot::Held,
            predecessor,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            ..Self::default()
        }
    }

    /// Ends the driver. It sends no more MADs, waits for replies until the grace period ends (0.3
    /// s at most), and writes the records of the slot. A driver in a slot sees the request within
    /// 20 ms.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.raise();
    }

    /// Returns whether the driver has discovered its devices and can begin.
    pub fn is_ready(&self) -> bool {
        self.lock().is_ready
    }

    /// Calls `notify` once when the driver [is ready](Self::is_ready), or immediately if it is
    /// ready already.
    pub fn on_ready(&self, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.is_ready {
            drop(state);
            return notify();
        }
        state.on_ready = Some(OnReady(Box::new(notify)));
    }

    /// Sets the first slot that the driver runs.
    pub fn begin_with(&self, slot: u64) {
        self.change(|state| state.first = FirstSlot::From(slot));
    }

    /// Ends the driver before this slot.
    pub fn leave_before(&self, slot: u64) {
        self.change(|state| state.end = Some(slot));
    }

    /// Makes the driver write a notice after the current slot.
    pub fn notify(&self, notice: Notice) {
        self.notify_before(0, notice);
    }

    /// Makes the driver write a notice before its first slot with at least this number.
    pub fn notify_before(&self, slot: u64, notice: Notice) {
        self.change(|state| state.notices.push((slot, notice)));
    }

    /// Returns the counter that wakes the driver between two slots.
    pub(super) fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self) {
        let mut state = self.lock();
        state.is_ready = true;
        let on_ready = state.on_ready.take();
        drop(state);
        if let Some(OnReady(notify)) = on_ready {
            notify();
        }
    }

    pub(super) fn first_slot(&self) -> FirstSlot {
        self.lock().first
    }

    /// Records that a slot begins.
    pub(super) fn set_last_slot(&self, slot: u64) {
        self.lock().last = Some(slot);
    }

    /// Returns the slot after the last slot of the predecessor. Returns `None` if there is no
    /// predecessor, if it has run no slot, or in later calls.
    pub(super) fn expected_slot(&self) -> Option<u64> {
        // Removing the predecessor prevents a chain of predecessors from staying in memory.
        let predecessor = self.lock().predecessor.take()?;
        let last = predecessor.lock().last;
        last.map(|last| last + 1)
    }

    pub(super) fn leaves_before(&self, slot: u64) -> bool {
        self.lock().end.is_some_and(|end| slot >= end)
    }

    /// Removes and returns the notices that must be written before this slot.
    pub(super) fn take_notices(&self, slot: u64) -> Vec<Notice> {
        let mut state = self.lock();
        let (due, later) = mem::take(&mut state.notices)
            .into_iter()
            .partition(|(first, _)| *first <= slot);
        state.notices = later;
        let due: Vec<(u64, Notice)> = due;
        due.into_iter().map(|(_, notice)| notice).collect()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.wake.raise();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn held_driver_begins_on_request_and_expects_the_slot_after_its_predecessor() {
        let old = Arc::new(Control::default());
        let new = Control::held(Some(Arc::clone(&old)));
        assert_eq!(
            (old.first_slot(), new.first_slot()),
            (FirstSlot::Next, FirstSlot::Held)
        );
        old.set_last_slot(41);
        old.leave_before(44);
        new.begin_with(44);
        assert_eq!(
            [41, 43, 44, 45].map(|slot| old.leaves_before(slot)),
            [false, false, true, true]
        );
        // The predecessor did not run slots 42 and 43, although it had to.
        assert_eq!(
            (new.first_slot(), new.expected_slot(), new.expected_slot()),
            (FirstSlot::From(44), Some(42), None)
        );
        let without_slots = Control::held(Some(Arc::new(Control::default())));
        assert_eq!(without_slots.expected_slot(), None);
    }

    #[test]
    fn notices_are_taken_once() {
        let control = Control::default();
        control.notify(Notice::Reload("a".to_owned()));
        control.notify(Notice::Assignments(None));
        assert_eq!(
            control.take_notices(7),
            [Notice::Reload("a".to_owned()), Notice::Assignments(None)]
        );
        assert_eq!(control.take_notices(7), []);
    }

    #[test]
    fn notice_of_a_later_slot_waits_for_it() {
        let control = Control::default();
        control.notify_before(9, Notice::Assignments(None));
        control.notify(Notice::Reload("a".to_owned()));
        assert_eq!(control.take_notices(8), [Notice::Reload("a".to_owned())]);
        assert_eq!(control.take_notices(10), [Notice::Assignments(None)]);
    }

    #[test]
    fn every_request_wakes_the_driver() {
        let control = Control::default();
        control.stop();
        control.begin_with(1);
        control.leave_before(2);
        control.notify(Notice::Reload(String::new()));
        assert_eq!(control.wake().count(), 4);
    }

    #[test]
    fn ready_driver_notifies_once_whenever_the_function_was_set() {
        let (control, calls) = (Control::default(), Arc::new(AtomicU32::new(0)));
        let call = || {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        control.on_ready(call());
        assert_eq!(
            (calls.load(Ordering::Relaxed), control.is_ready()),
            (0, false)
        );
        control.set_ready();
        control.set_ready();
        assert_eq!(
            (calls.load(Ordering::Relaxed), control.is_ready()),
            (1, true)
        );
        control.on_ready(call());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
