//! Tells others about alerts: Alertmanager, a webhook, a command, and a receiver of the beat.
//!
//! Each receiver has its own thread and a bounded queue, so a slow or failing one delays neither
//! the hub nor another receiver. Alertmanager gets all alerts each minute, and a lost message does
//! not matter. A webhook and a command get each change of state once, and failed attempts are
//! repeated.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use ibnet::http_client::{Client, without_user};
use rustix::process::{Pid, Signal, kill_process_group};

use super::machine::Alert;
use super::messages;
use super::settings::{Settings, Target};
use super::status::ReceiverState;
use crate::state::{Hub, Now};
use crate::threads::Threads;

/// Time between two messages to Alertmanager, and between two beats.
const REPEAT: Duration = Duration::from_secs(60);

/// Max number of changes that wait for a receiver.
const MAX_WAITING: usize = 1000;

/// Pause after the first failed attempt. It doubles after each one, and after the last pause the
/// change is dropped: about 8 minutes after the first attempt.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_ATTEMPTS: u32 = 10;

/// Max time of a command, and the pause between two checks whether it has ended.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
const CHECK: Duration = Duration::from_millis(20);

/// The queue of a receiver.
struct Queue {
    place: usize,
    gets_changes: bool,
    is_beat: bool,
    messages: SyncSender<Arc<[u8]>>,
}

/// All receivers.
pub(super) struct Receivers {
    hub: Arc<Hub>,
    queues: Vec<Queue>,
    has_watchdog: bool,
    /// Monotonic time of the last message to Alertmanager, and of the last beat.
    told: Option<Duration>,
    beaten: Option<Duration>,
}

/// A failed attempt.
struct Failed {
    reason: String,
    /// Whether another attempt can succeed.
    is_passing: bool,
}

impl Receivers {
    /// Starts the threads of all receivers.
    pub(super) fn start(
        hub: &Arc<Hub>,
        settings: &Settings,
        threads: &Threads,
    ) -> io::Result<Self> {
        let mut queues = Vec::new();
        for target in &settings.targets {
            let (gets_changes, is_beat) = match target {
                Target::Alertmanager(_) => (false, false),
                Target::Webhook(_) | Target::Command(_) => (true, false),
                Target::Beat(_) => (false, true),
            };
            let place = {
                let mut alerts = hub.alerts();
                alerts.receivers.push(ReceiverState {
                    receiver: name(target),
                    ..ReceiverState::default()
                });
                alerts.receivers.len() - 1
            };
            let (sender, waiting) = mpsc::sync_channel(if gets_changes { MAX_WAITING } else { 1 });
            queues.push(Queue {
                place,
                gets_changes,
                is_beat,
                messages: sender,
            });
            let (hub, target) = (Arc::clone(hub), target.clone());
            let attempts = if gets_changes { MAX_ATTEMPTS } else { 1 };
            threads.start(&format!("receiver-{place}"), move || {
                run(&hub, place, &target, &waiting, attempts);
            })?;
        }
        Ok(Self {
            hub: Arc::clone(hub),
            queues,
            has_watchdog: settings.watchdog,
            told: None,
            beaten: None,
        })
    }

    /// Tells the receivers about changes, and repeats the alerts when it is time.
    pub(super) fn tell(&mut self, now: Now, changes: &[Alert]) {
        let fabric = &self.hub.fabric;
        for change in changes {
            let message: Arc<[u8]> = messages::change(fabric, change).into();
            self.send(|queue| queue.gets_changes, &message);
        }
        let is_due = |last: Option<Duration>| {
            last.is_none_or(|last| now.monotonic.saturating_sub(last) >= REPEAT)
        };
        if !changes.is_empty() || is_due(self.told) {
            let message: Arc<[u8]> = {
                let alerts = self.hub.alerts();
                let all = alerts.machine.alerts();
                let told = all.filter(|alert| !alerts.marks.is_silent(&alert.id));
                messages::alertmanager(fabric, told, now.wall_ns, self.has_watchdog).into()
            };
            self.send(|queue| !queue.gets_changes && !queue.is_beat, &message);
            self.told = Some(now.monotonic);
        }
        if is_due(self.beaten) {
            self.send(|queue| queue.is_beat, &Arc::from(*b"{}"));
            self.beaten = Some(now.monotonic);
        }
    }

    /// Sends a change to the receiver of this name that had not got it before a restart.
    pub(super) fn send_again(&self, receiver: &str, message: String) {
        let place = {
            let alerts = self.hub.alerts();
            let mut states = alerts.receivers.iter();
            states.position(|state| state.receiver == receiver)
        };
        let message = Arc::from(message.into_bytes());
        self.send(
            |queue| queue.gets_changes && Some(queue.place) == place,
            &message,
        );
    }

    fn send(&self, is_meant: impl Fn(&Queue) -> bool, message: &Arc<[u8]>) {
        let mut alerts = self.hub.alerts();
        for queue in self.queues.iter().filter(|queue| is_meant(queue)) {
            let is_sent = queue.messages.try_send(Arc::clone(message)).is_ok();
            // A full queue of Alertmanager needs no other message: the next one has all alerts.
            let state = &mut alerts.receivers[queue.place];
            match (queue.gets_changes, is_sent) {
                (true, true) => state.waiting.push_back(Arc::clone(message)),
                (true, false) => state.dropped += 1,
                (false, _) => {}
            }
        }
    }
}

/// Delivers the messages of a queue until the hub ends.
fn run(hub: &Hub, place: usize, target: &Target, waiting: &Receiver<Arc<[u8]>>, attempts: u32) {
    for message in waiting {
        for attempt in 1..=attempts {
            let failed = deliver(target, &message).err();
            let is_last =
                attempt == attempts || failed.as_ref().is_none_or(|failed| !failed.is_passing);
            note(hub, place, failed.map(|failed| failed.reason), is_last);
            if is_last {
                break;
            }
            thread::sleep(PAUSE * 2_u32.pow(attempt - 1));
        }
    }
}

/// Counts an attempt. Only the first failure in a series, and its end, are logged.
fn note(hub: &Hub, place: usize, error: Option<String>, is_last: bool) {
    let mut alerts = hub.alerts();
    let alerts = &mut *alerts;
    let Some(state) = alerts.receivers.get_mut(place) else {
        return;
    };
    state.sent += u64::from(error.is_none());
    state.failed += u64::from(error.is_some());
    if is_last && state.waiting.pop_front().is_some() {
        state.dropped += u64::from(error.is_some());
        alerts.is_changed = true;
    }
    let receiver = &state.receiver;
    match (&error, &state.error) {
        (Some(error), None) => {
            tracing::warn!(%receiver, ?error, "cannot tell a receiver about alerts; trying again");
        }
        (None, Some(_)) => {
            tracing::info!(%receiver, "the receiver of alerts accepts messages again");
        }
        _ => {}
    }
    state.error = error;
}

fn deliver(target: &Target, message: &[u8]) -> Result<(), Failed> {
    match target {
        Target::Alertmanager(client) | Target::Webhook(client) | Target::Beat(client) => {
            post(client, message)
        }
        Target::Command(command) => execute(command, message),
    }
}

fn post(client: &Client, message: &[u8]) -> Result<(), Failed> {
    match client.post(message) {
        Ok(200..=299) => Ok(()),
        Ok(status) => Err(Failed {
            reason: format!("it answers with the status {status}"),
            // The server will refuse the same message again, unless it is only busy.
            is_passing: !(400..500).contains(&status) || [408, 429].contains(&status),
        }),
        Err(error) => Err(Failed {
            reason: error.to_string(),
            is_passing: true,
        }),
    }
}

/// Runs a command without a shell. It reads the message from standard input.
fn execute(command: &[String], message: &[u8]) -> Result<(), Failed> {
    let failed = |reason: String| Failed {
        reason,
        is_passing: true,
    };
    let Some((program, arguments)) = command.split_first() else {
        return Ok(());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // A pipe holds the whole message. A command may end without reading it.
        let _ = input.write_all(message);
    }
    let mut passed = Duration::ZERO;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("it ended with {status}"))),
            Ok(None) if passed < COMMAND_TIMEOUT => {
                passed += CHECK;
                thread::sleep(CHECK);
            }
            Ok(None) => {
                kill(&mut child);
                return Err(failed(format!(
                    "it did not end within {} s",
                    COMMAND_TIMEOUT.as_secs()
                )));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

/// Kills a command and the processes that it has started.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended in the meantime.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Returns the kind of a target with its host or program, without a path, which can be a secret.
fn name(target: &Target) -> String {
    let host = |client: &Client| {
        let url = without_user(client.url());
        let end = url.find("://").map_or(0, |start| start + 3);
        let length = url[end..].find(['/', '?']).unwrap_or(url.len() - end);
        url[..end + length].to_owned()
    };
    match target {
        Target::Alertmanager(client) => format!("alertmanager {}", host(client)),
        Target::Webhook(client) => format!("webhook {}", host(client)),
        Target::Beat(client) => format!("beat {}", host(client)),
        Target::Command(command) => format!("command {}", command.first().map_or("", |name| name)),
    }
}
