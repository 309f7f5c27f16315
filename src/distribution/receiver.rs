//! Watches a published plan on its own thread.
//!
//! If the connection ends, the receiver reconnects, with a pause that doubles up to half a
//! minute. The plan that it has received stays available, so no sweep stops while the server is
//! unreachable.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use async_nats::connection::State as ConnectionState;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::kv::{Entry, Operation, Store};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures_util::StreamExt;
use ibnet_record::limits;
use ibnet_record::types::Printable;
use tokio::sync::Notify;

use super::{DistributionError, PlanStore};
use crate::assignments::{Assignments, sha256_hex};
use crate::output::{connect_nats, oversized_frame, payload_text};

/// Max time of the first attempt to read the plan. Connecting takes at most five seconds of it.
const FIRST_ATTEMPT: Duration = Duration::from_secs(15);

/// Max time for each request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// First pause before another attempt to connect. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Max pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Max number of older revisions that are examined at a start.
const MAX_OLDER: u64 = 64;

/// Time between two checks of the connection.
const CHECK: Duration = Duration::from_millis(250);

/// A plan as it was published.
#[derive(Clone, PartialEq, Eq)]
pub struct Published {
    /// Text of the assignments file. It has not been checked.
    pub octets: Arc<[u8]>,
    /// SHA-256 of the text in hexadecimal digits.
    pub sha256: String,
    /// Revision of the value in its bucket.
    pub revision: u64,
}

/// Watches a published plan until it is dropped.
#[derive(Debug)]
pub struct Receiver {
    store: PlanStore,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified after the first attempt to read the plan.
    has_tried: Condvar,
    stop: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Plan to start with: the newest one whose time has come.
    first: Option<Published>,
    newest: Option<Published>,
    /// Reason why the newest plan is unavailable. `None` while the connection works.
    problem: Option<Arc<DistributionError>>,
    has_tried: bool,
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published")
            .field("revision", &self.revision)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// Starts to watch a plan. Waits for at most 15 seconds until the first attempt to read it
    /// has ended. `now` is the wall clock in nanoseconds since 1970.
    ///
    /// An unreachable server is not an error: see [`problem`](Self::problem).
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(store: PlanStore, now: u64) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Arc::<Shared>::default();
        let (of_thread, watched) = (Arc::clone(&shared), store.clone());
        let receive = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = watch_always(&watched, &of_thread, now) => {}
                    () = of_thread.stop.notified() => {}
                }
            });
            // The tasks of the client end with their runtime.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("plan".to_owned())
            .spawn(receive)?;
        let waiting = shared.lock();
        drop(
            shared
                .has_tried
                .wait_timeout_while(waiting, FIRST_ATTEMPT, |state| !state.has_tried),
        );
        Ok(Self { store, shared })
    }

    /// Returns the address of the plan.
    pub fn store(&self) -> &PlanStore {
        &self.store
    }

    /// Returns the plan to start with: the newest valid one whose time has come. If there is
    /// none, returns the valid one whose time comes first, or else the newest one.
    pub fn first(&self) -> Option<Published> {
        self.shared.lock().first.clone()
    }

    /// Returns the newest plan.
    pub fn newest(&self) -> Option<Published> {
        self.shared.lock().newest.clone()
    }

    /// Returns why the newest plan is unavailable, or `None` while the connection works.
    pub fn problem(&self) -> Option<Arc<DistributionError>> {
        self.shared.lock().problem.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why the newest plan is unavailable. The same reason in a row is logged once.
    fn fail(&self, store: &PlanStore, error: DistributionError) {
        let mut state = self.lock();
        let is_new = state
            .problem
            .as_ref()
            .is_none_or(|before| before.to_string() != error.to_string());
        // The caller of `start` reports the reason if the first attempt failed.
        if is_new && state.has_tried {
            let help = miette::Diagnostic::help(&error)
                .map(|help| help.to_string())
                .unwrap_or_default();
            tracing::warn!(plan = %store, error = %Printable(&error.to_string()), help, "cannot receive newer plans; the last one stays in use");
        }
        state.problem = Some(Arc::new(error));
        self.set_tried(state);
    }

    /// Records that the connection works.
    fn recover(&self, store: &PlanStore) {
        if self.lock().problem.take().is_some() {
            tracing::info!(plan = %store, "plans can be received again");
        }
    }

    /// Records the newest plan and, at a start, the plan to start with.
    fn receive(&self, newest: Published, first: Option<Published>) {
        let mut state = self.lock();
        state.newest = Some(newest);
        state.first = first.or_else(|| state.first.take());
        self.set_tried(state);
    }

    fn set_tried(&self, mut state: MutexGuard<'_, State>) {
        state.has_tried = true;
        drop(state);
        self.has_tried.notify_all();
    }
}

/// Watches a plan, and reconnects whenever the connection ends.
async fn watch_always(store: &PlanStore, shared: &Shared, now: u64) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Err(error) = watch_once(store, shared, now, &mut pause).await;
        shared.fail(store, error);
        // The random factor makes the samplers of a fleet connect at different times.
        tokio::time::sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Watches a plan until the connection ends. Resets `pause` if the connection has worked.
async fn watch_once(
    store: &PlanStore,
    shared: &Shared,
    now: u64,
    pause: &mut Duration,
) -> Result<std::convert::Infallible, DistributionError> {
    let client = connect_nats(&store.server).await?;
    let statistics = client.statistics();
    let ended = |reason: &str| DistributionError::Connect {
        server: store.server.shown_server(),
        reason: reason.to_owned(),
    };
    let disconnected = async {
        while client.connection_state() == ConnectionState::Connected {
            tokio::time::sleep(CHECK).await;
        }
    };
    tokio::select! {
        result = watch_key(&client, store, shared, now, pause) => result,
        () = disconnected => Err(ended("the connection has ended")),
        () = oversized_frame(&statistics) => Err(ended("the server sent too long a message")),
    }
}

async fn watch_key(
    client: &async_nats::Client,
    store: &PlanStore,
    shared: &Shared,
    now: u64,
    pause: &mut Duration,
) -> Result<std::convert::Infallible, DistributionError> {
    let failed = |reason: String| DistributionError::Read {
        store: store.to_string(),
        reason,
    };
    let jetstream = ContextBuilder::new().timeout(TIMEOUT).build(client.clone());
    let bucket = jetstream
        .get_key_value(&store.bucket)
        .await
        .map_err(|error| failed(with_causes(&error)))?;
    let present = bucket
        .entry(&store.key)
        .await
        .map_err(|error| failed(with_causes(&error)))?;
    let seen = present.as_ref().map(|entry| entry.revision);
    take(present, &bucket, store, shared, now).await;
    *pause = FIRST_PAUSE;
    let mut changes = match seen {
        Some(revision) => bucket.watch_from_revision(&store.key, revision + 1).await,
        None => bucket.watch_with_history(&store.key).await,
    }
    .map_err(|error| failed(with_causes(&error)))?;
    loop {
        let entry = changes
            .next()
            .await
            .ok_or_else(|| failed("the server ended the watch".to_owned()))?;
        take(
            Some(entry.map_err(|error| failed(with_causes(&error)))?),
            &bucket,
            store,
            shared,
            now,
        )
        .await;
    }
}

/// Handles a value of the key. A deleted or damaged value is reported, and changes nothing else.
/// At a start, the newest of the older plans replaces a damaged one.
async fn take(entry: Option<Entry>, bucket: &Store, store: &PlanStore, shared: &Shared, now: u64) {
    let Some(Entry {
        value, revision, ..
    }) = entry.filter(|entry| entry.operation == Operation::Put)
    else {
        return shared.fail(
            store,
            DistributionError::Missing {
                store: store.to_string(),
            },
        );
    };
    let mut plans: Vec<_> = published(&value, revision).into_iter().collect();
    let is_damaged = plans.is_empty();
    if !is_damaged {
        tracing::debug!(plan = %store, revision, sha256 = plans[0].sha256, "plan received");
        shared.recover(store);
    }
    let is_start = shared.lock().first.is_none();
    if is_start && !plans.iter().any(|plan| has_come(plan, now)) {
        // Boxed, because this future would otherwise be a large part of all futures that contain
        // it.
        Box::pin(add_older(&mut plans, revision, bucket, store, now)).await;
    }
    if let Some(newest) = plans.first().cloned() {
        shared.receive(newest, is_start.then(|| first_of(plans, now)));
    }
    if is_damaged {
        shared.fail(store, damaged(store, revision));
    }
}

/// Adds the plans of a key that are older than a revision, the newest first, up to the first
/// valid one whose time has come. Damaged plans are reported.
///
/// The values are read one by one, because the first one is usually sufficient.
async fn add_older(
    plans: &mut Vec<Published>,
    than: u64,
    bucket: &Store,
    store: &PlanStore,
    now: u64,
) {
    let subject = format!("{}{}", bucket.prefix, store.key);
    for revision in (than.saturating_sub(MAX_OLDER).max(1)..than).rev() {
        let message = match bucket.stream.get_raw_message(revision).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => continue,
            Err(error) => {
                let error = with_causes(&error);
                return tracing::warn!(plan = %store, error = %Printable(&error), "cannot read the older plans; only the newest plan can be used");
            }
        };
        // A deletion has no value.
        if message.subject.as_str() != subject || message.payload.is_empty() {
            continue;
        }
        let Some(plan) = published(&message.payload, revision) else {
            tracing::warn!(error = %damaged(store, revision), "skipping an older plan that cannot be used");
            continue;
        };
        let is_last = has_come(&plan, now);
        plans.push(plan);
        if is_last {
            return;
        }
    }
}

fn damaged(store: &PlanStore, revision: u64) -> DistributionError {
    DistributionError::Damaged {
        store: store.to_string(),
        revision,
    }
}

/// Returns the plan to start with, see [`Receiver::first`]. The newest plan comes first in the
/// list.
fn first_of(newest_first: Vec<Published>, now: u64) -> Published {
    let times: Vec<_> = newest_first.iter().map(time_of).collect();
    let has_come = times.iter().position(|at| at.is_some_and(|at| at <= now));
    let earliest = || {
        (0..times.len())
            .filter(|place| times[*place].is_some())
            .min_by_key(|place| times[*place])
    };
    let place = has_come.or_else(earliest).unwrap_or(0);
    newest_first[place].clone()
}

/// Returns whether a plan is valid and the time of its first slot has come.
fn has_come(plan: &Published, now: u64) -> bool {
    time_of(plan).is_some_and(|at| at <= now)
}

/// Returns the time of a valid plan's first slot, or 0 if the plan has no time.
fn time_of(plan: &Published) -> Option<u64> {
    let loaded = Assignments::parse_file(&plan.octets, "").ok()?;
    Some(loaded.assignments.at.unwrap_or(0))
}

fn published(payload: &[u8], revision: u64) -> Option<Published> {
    let text =
        payload_text(payload, limits::PLAN).filter(|text| text.len() as u64 <= limits::PLAN)?;
    Some(Published {
        sha256: sha256_hex(&text),
        octets: text.into_owned().into(),
        revision,
    })
}

/// Returns an error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Many errors of the client already contain their cause.
        let error_text = error.to_string();
        if !text.contains(&error_text) {
            text.push_str(&format!(": {error_text}"));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(revision: u64, text: &str) -> Published {
        Published {
            octets: text.as_bytes().into(),
            sha256: String::new(),
            revision,
        }
    }

    #[test]
    fn start_uses_the_newest_valid_plan_whose_time_has_come() {
        let (now, head) = (
            1_763_823_610_000_000_000,
            "version = 1\ncap = 1\nsampler = []\n",
        );
        let at = |revision, time: &str| {
            plan(
                revision,
                &format!("{head}at = \"2025-11-22T15:00:{time}Z\"\n"),
            )
        };
        let first = |plans: Vec<Published>| first_of(plans, now).revision;
        assert_eq!(first(vec![at(3, "20"), at(2, "05"), at(1, "01")]), 2);
        assert_eq!(first(vec![at(3, "10"), at(2, "05")]), 3);
        assert_eq!(
            first(vec![plan(3, "broken"), at(2, "20"), plan(1, head)]),
            1,
            "a plan without a time"
        );
        assert_eq!(
            first(vec![plan(3, "broken"), at(2, "20")]),
            2,
            "the first plan of a fleet"
        );
        assert_eq!(
            first(vec![at(3, "30"), at(2, "11"), plan(1, "broken")]),
            2,
            "the other samplers run the older one until then"
        );
        assert_eq!(
            first(vec![plan(3, "broken"), plan(2, "broken")]),
            3,
            "its error is reported"
        );
    }
}
