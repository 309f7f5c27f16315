//! Limits repeated warnings in the log.
//!
//! A fault can cause the same warning many times a second. The first one is logged. After that, one
//! line a minute has their number. Two warnings are the same if their text and their fields are
//! equal, except for fields that are numbers.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Time after which repeated warnings are summed up.
const PERIOD: Duration = Duration::from_secs(60);

/// Largest number of different warnings that are remembered. Further ones are not limited.
const MAX_WARNINGS: usize = 4096;

/// A layer that drops repeated warnings and errors.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    warnings: BTreeMap<u64, Warning>,
    /// Whether a thread logs the sums.
    has_thread: bool,
}

/// A warning that was logged.
#[derive(Debug)]
struct Warning {
    /// Time of the warning, or of its last sum.
    since: Instant,
    /// Number of repetitions since then.
    times: u64,
    /// Text of the first repetition.
    text: String,
}

/// Outcome for a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Log,
    /// The warning is a repetition. A thread must be started that logs the sum.
    StartSums,
    Drop,
}

impl State {
    /// Counts a warning.
    fn take(&mut self, key: u64, text: impl FnOnce() -> String, now: Instant) -> Verdict {
        let is_old = |warning: &Warning| warning.times == 0 && now.saturating_duration_since(warning.since) >= PERIOD;
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.retain(|_, warning| !is_old(warning));
        }
        match self.warnings.get_mut(&key) {
            Some(warning) if !is_old(warning) => {
                if warning.times == 0 {
                    warning.text = text();
                }
                warning.times += 1;
                if std::mem::replace(&mut self.has_thread, true) { Verdict::Drop } else { Verdict::StartSums }
            }
            _ => {
                if self.warnings.len() < MAX_WARNINGS {
                    self.warnings.insert(key, Warning { since: now, times: 0, text: String::new() });
                }
                Verdict::Log
            }
        }
    }

    /// Returns the text and the number of all repetitions since the last call.
    fn sums(&mut self, now: Instant) -> Vec<(String, u64)> {
        let repeated = self.warnings.values_mut().filter(|warning| warning.times > 0);
        repeated
            .map(|warning| {
                warning.since = now;
                (std::mem::take(&mut warning.text), std::mem::take(&mut warning.times))
            })
            .collect()
    }
}

impl Repeats {
    /// Logs the number of the repetitions so far. Returns whether there were any.
    #[expect(clippy::disallowed_methods, reason = "the log has its own clock")]
    pub(super) fn log_sums(&self) -> bool {
        let sums = self.lock().sums(Instant::now());
        for (warning, times) in &sums {
            tracing::warn!(target: TARGET, times, warning, "repeated");
        }
        !sums.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that logs the sums. It ends after a minute without repetitions.
    fn start_sums(&self) {
        let repeats = self.clone();
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let log = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                loop {
                    thread::sleep(PERIOD);
                    if !repeats.log_sums() {
                        break repeats.lock().has_thread = false;
                    }
                }
            });
        };
        if thread::Builder::new().name("log".to_owned()).spawn(log).is_err() {
            // The next repetition tries again.
            self.lock().has_thread = false;
        }
    }
}

/// Target of the lines with sums. They are not limited.
const TARGET: &str = "ibnet::repeated";

impl<S: Subscriber> Layer<S> for Repeats {
    #[expect(clippy::disallowed_methods, reason = "the log has its own clock")]
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.target() == TARGET {
            return true;
        }
        let mut fields = Fields { hasher: DefaultHasher::new(), text: String::new() };
        metadata.callsite().hash(&mut fields.hasher);
        event.record(&mut fields);
        let verdict = self.lock().take(fields.hasher.finish(), || fields.text, Instant::now());
        if verdict == Verdict::StartSums {
            self.start_sums();
        }
        verdict == Verdict::Log
    }
}

/// The fields of an event: their hash without numbers, and their text.
struct Fields {
    hasher: DefaultHasher,
    text: String,
}

impl Fields {
    fn add(&mut self, field: &Field, value: &dyn Debug) {
        let start = self.text.len();
        if start > 0 {
            self.text.push(' ');
        }
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            name => write!(self.text, "{name}={value:?}"),
        };
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let start = self.text.len();
        self.add(field, value);
        self.text[start..].hash(&mut self.hasher);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, &value);
    }
}

/// Logs the remaining sums when it is dropped, at the end of the program.
#[derive(Debug)]
pub struct LogEnd(pub(super) Repeats);

impl Drop for LogEnd {
    fn drop(&mut self) {
        self.0.log_sums();
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    #[expect(clippy::disallowed_methods, reason = "an instant cannot be made otherwise")]
    fn first_warning_is_logged_and_the_others_are_summed_up_each_minute() {
        let (mut state, start) = (State::default(), Instant::now());
        let take = |state: &mut State, key, seconds| state.take(key, || format!("warning {key}"), start + seconds * SECOND);
        assert_eq!(take(&mut state, 1, 0), Verdict::Log);
        assert_eq!(take(&mut state, 2, 0), Verdict::Log, "another warning");
        assert_eq!(take(&mut state, 1, 1), Verdict::StartSums);
        assert_eq!(take(&mut state, 1, 59), Verdict::Drop);
        assert_eq!(state.sums(start + 60 * SECOND), [("warning 1".to_owned(), 2)]);
        assert_eq!(take(&mut state, 1, 61), Verdict::Drop, "the flood continues");
        assert_eq!(take(&mut state, 2, 61), Verdict::Log, "a minute after its first");
        assert_eq!(state.sums(start + 120 * SECOND), [("warning 1".to_owned(), 1)]);
        assert_eq!(state.sums(start + 180 * SECOND), []);
        assert_eq!(take(&mut state, 1, 180), Verdict::Log);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "an instant cannot be made otherwise")]
    fn number_of_remembered_warnings_is_bounded() {
        let (mut state, start) = (State::default(), Instant::now());
        for key in 0..10_000 {
            assert_eq!(state.take(key, String::new, start), Verdict::Log);
        }
        assert_eq!(state.warnings.len(), MAX_WARNINGS);
        assert_eq!(state.take(20_000, String::new, start + PERIOD), Verdict::Log);
        assert_eq!(state.warnings.len(), 1);
    }

    #[test]
    fn warnings_that_differ_in_numbers_only_are_the_same() {
        let text = Arc::new(Mutex::new(Vec::new()));
        let repeats = Repeats::default();
        let writer = Arc::clone(&text);
        let make = move || Shared(Arc::clone(&writer));
        let format = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_target(false).with_writer(make);
        let subscriber = tracing_subscriber::registry().with(repeats.clone()).with(format);
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..100u64 {
                tracing::warn!(number, node = "a", "lost");
                tracing::warn!(number, node = "b", "lost");
                tracing::info!(number, "fine");
            }
            drop(LogEnd(repeats));
        });
        let text = String::from_utf8(text.lock().expect("not poisoned").clone()).expect("UTF-8");
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!((count("INFO fine"), count("WARN lost")), (100, 2), "{text}");
        assert_eq!(count("WARN repeated times=99 warning="), 2, "{text}");
    }

    /// A writer into memory.
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
