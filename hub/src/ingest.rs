//! Parses the lines of all inputs and adds their records to the state.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ibnet_analysis::record::{Head, Record};

use crate::events::EventRow;
use crate::fields;
use crate::input::{Message, What};
use crate::state::{Hub, Now};
use crate::texts;
use crate::thin;

/// Time between two checks of what is due without a record.
const TICK: Duration = Duration::from_millis(20);

/// Number of records that are added under one lock. The values of a few records stay in the caches
/// of a core, and the allocator gives their memory to the next ones.
const AT_ONCE: usize = 8;

/// A clock for the arrival of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the hub shows when records arrive"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the hub compares the records with its own clock"
    )]
    pub(crate) fn now(self) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            monotonic: self.0.elapsed(),
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// Adds the records of all inputs until all inputs have ended.
pub(crate) fn run(hub: &Hub, messages: &Receiver<Message>, clock: Clock) {
    let mut ticked = Duration::ZERO;
    loop {
        match messages.recv_timeout(TICK) {
            Ok(message) => handle(hub, message, clock),
            Err(RecvTimeoutError::Timeout) => hub.set_lag(0),
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        let now = clock.now();
        if now.monotonic.saturating_sub(ticked) >= TICK {
            ticked = now.monotonic;
            hub.tick(now);
        }
    }
}

pub(crate) fn handle(hub: &Hub, message: Message, clock: Clock) {
    let input = message.input;
    if let Some(live_ns) = message.live_ns {
        hub.set_lag(clock.now().wall_ns.saturating_sub(live_ns));
    }
    match message.what {
        What::Lines(lines) => add_lines(hub, input, &lines, message.live_ns, clock),
        What::TooLong => count(
            hub,
            input,
            1,
            1,
            Some("the line is longer than 1 MiB".to_owned()),
        ),
        What::Connected => {
            let wall_ns = clock.now().wall_ns;
            let mut state = hub.write();
            let Some(status) = state.inputs.get_mut(input) else {
                return;
            };
            let (was_lost, name) = (
                status.connections > 0 || status.error.is_some(),
                Arc::clone(&status.input),
            );
            (status.connected, status.connections, status.error) =
                (true, status.connections + 1, None);
            if was_lost {
                state.events.add(EventRow::of_hub(
                    wall_ns,
                    "input_back",
                    format!("input {name} is connected"),
                ));
            }
            tracing::info!(input = %name, "the input is connected");
        }
        What::Lost(reason) => disconnected(hub, input, reason, true, clock),
        What::Refused(reason) => refused(hub, input, reason, clock),
        // Only the reader for the archive reports this.
        What::Read(_) => {}
        What::Failed(reason) => disconnected(hub, input, reason, false, clock),
        What::Ended => {
            if let Some(status) = hub.write().inputs.get_mut(input) {
                status.connected = false;
                tracing::info!(input = %status.input, "the input has ended; no more records come from it");
            }
        }
    }
}

fn disconnected(hub: &Hub, input: usize, reason: String, was_connected: bool, clock: Clock) {
    let wall_ns = clock.now().wall_ns;
    let mut state = hub.write();
    let Some(status) = state.inputs.get_mut(input) else {
        return;
    };
    status.lost += u64::from(was_connected);
    status.connected = false;
    // Only the first failure in a series is reported.
    let is_new = status.error.replace(reason.clone()).is_none();
    if is_new {
        let name = Arc::clone(&status.input);
        tracing::warn!(input = %name, error = ?reason, "cannot read the input; trying again, and its ports show no new data until then");
        state.events.add(EventRow::of_hub(
            wall_ns,
            "input_lost",
            format!("input {name}: {reason}"),
        ));
    }
}

/// Reports what a server refused on a connection that goes on.
fn refused(hub: &Hub, input: usize, reason: String, clock: Clock) {
    let wall_ns = clock.now().wall_ns;
    let mut state = hub.write();
    let Some(status) = state.inputs.get_mut(input) else {
        return;
    };
    if status.error.replace(reason.clone()).is_none() {
        let name = Arc::clone(&status.input);
        tracing::warn!(input = %name, error = ?reason, "the server of the input refused a request; check the permissions of the hub if records are missing");
        let text = format!("input {name}: {reason}");
        let event = EventRow::of_hub(wall_ns, "input_refused", text);
        state.events.add(event);
    }
}

fn add_lines(hub: &Hub, input: usize, lines: &[u8], live_ns: Option<u64>, clock: Clock) {
    let (mut total, mut malformed, mut unknown, mut unknown_fields, mut first) = (0, 0, 0, 0, None);
    let earlier = hub
        .read()
        .inputs
        .get(input)
        .map_or(0, |status| status.lines);
    let mut records = Vec::with_capacity(AT_ONCE);
    let ends = memchr::memchr_iter(b'\n', lines).chain([lines.len()]);
    let mut start = 0;
    for end in ends {
        let line = lines[start..end].trim_ascii();
        start = (end + 1).min(lines.len());
        if line.is_empty() {
            continue;
        }
        total += 1;
        let head = Head::of(line);
        if let Ok(head) = &head
            && thin::is_left_out(head, hub.every)
        {
            continue;
        }
        let parsed = head.and_then(|head| {
            head.kind
                .map(|kind| Record::parse(line, kind).map(|record| (kind, record)))
                .transpose()
        });
        match parsed {
            Ok(Some((kind, mut record))) => {
                if (earlier + total) % fields::LOOK_EVERY == 1 {
                    unknown_fields += fields::unknown(line, kind);
                }
                texts::cut(&mut record);
                if hub.every == 1 || thin::thin(&mut record, hub.every) {
                    records.push(record);
                } else if let Record::Sweep(sweep) = &record {
                    hub.write().samplers.add_lost(sweep);
                }
            }
            // A newer sampler can have more record types.
            Ok(None) => unknown += 1,
            Err(error) => {
                malformed += 1;
                first.get_or_insert_with(|| texts::short(&error.to_string()).to_owned());
            }
        }
        if records.len() == AT_ONCE {
            hub.add(input, &records, live_ns, clock.now());
            records.clear();
        }
    }
    hub.add(input, &records, live_ns, clock.now());
    count(hub, input, total, malformed, first);
    if let Some(status) = hub.write().inputs.get_mut(input) {
        status.unknown += unknown;
        status.unknown_fields += unknown_fields;
    }
}

fn count(hub: &Hub, input: usize, lines: u64, malformed: u64, first: Option<String>) {
    let mut state = hub.write();
    let Some(status) = state.inputs.get_mut(input) else {
        return;
    };
    status.lines += lines;
    status.malformed += malformed;
    if status.first_malformed.is_none() && first.is_some() {
        tracing::warn!(input = %status.input, error = ?first, "skipping a line that is not a record");
        status.first_malformed = first;
    }
}
