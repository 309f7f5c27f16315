//! Events about the outputs themselves. All outputs write them together with the next records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ibnet_record::reader::Type;
use ibnet_record::{EventName, EventRecord};

use super::batch::Batch;

/// Events that wait for the next records.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Whether `waiting` has events. It avoids the lock, because batches are frequent and events
    /// are rare.
    any: AtomicBool,
    /// Name and detail of each event.
    waiting: Mutex<Vec<(EventName, String)>>,
}

impl Notices {
    /// Adds an event.
    pub(super) fn add(&self, event: EventName, detail: String) {
        self.lock().push((event, detail));
        self.any.store(true, Ordering::Release);
    }

    /// Appends the waiting events to a batch, with sampler, slot and role of the batch's gap
    /// event. A batch without a gap event gets no event.
    pub(super) fn append_to(&self, batch: &mut Batch) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let Some(gap) = batch.gap.clone() else { return };
        for (event, detail) in std::mem::take(&mut *self.lock()) {
            batch.push(
                Type::Event,
                &EventRecord {
                    event: event.to_string(),
                    detail,
                    ..gap.clone()
                },
            );
        }
        self.any.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(EventName, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::short;
    use super::*;

    #[test]
    fn event_is_in_the_next_batch_that_names_its_sampler() {
        let notices = Notices::default();
        notices.add(EventName::SocketRestored, "sock".to_owned());
        let mut batches = [
            Batch::default(),
            Batch {
                gap: Some(short::gap()),
                ..Batch::default()
            },
            Batch::default(),
        ];
        batches
            .iter_mut()
            .for_each(|batch| notices.append_to(batch));
        assert_eq!(batches.each_ref().map(|batch| batch.lines), [0, 1, 0]);
        let text = String::from_utf8_lossy(&batches[1].bytes);
        assert!(
            text.contains("\"event\":\"socket_restored\"") && text.contains("\"detail\":\"sock\""),
            "{text}"
        );
    }
}
