//! The NATS output. Each record is a message to a NATS server with JetStream. The output keeps a
//! record until the server acknowledges the message.
//!
//! If the server is unreachable, the records wait in the queue, up to
//! [`Output::buffer`](super::Output::buffer) octets. Records that do not fit are dropped and
//! reported, as in every output.
//!
//! If the server does not acknowledge a record, the output sends the record again with the same
//! `Nats-Msg-Id`. The stream at the server then stores the record only once, if its duplicate
//! window is long enough (two minutes by default). The administrator creates this stream, and sets
//! its subjects, limits and storage.
//!
//! If the server sends more than a client can expect, or makes the client stop, the output replaces
//! the client (`nats_guard`). No record is dropped by this.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::FlushErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::context::{Context, ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::error::OutputError;
use super::nats_guard::{MAX_FRAME, oversized_frame};
use super::options::NatsOptions;
use super::queue::{Inbox, Message};
use super::secret;
use super::stream::Stream;
use super::subject::subject;
use crate::limits;
use crate::types::Printable;

/// Number of messages in flight without an acknowledgement.
const WINDOW: usize = 1024;

/// Time for which the output waits for an acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// First pause before another attempt to connect or to publish. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause before another attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Interval of pings. Two missing replies end the connection.
const PING: Duration = Duration::from_secs(10);

/// Error text that is used before the server has reported an error.
const NOT_CONNECTED: &str = "not connected";

/// The output of a server.
#[derive(Debug)]
pub(super) struct NatsOutput {
    options: NatsOptions,
    runtime: Runtime,
    publisher: Publisher,
}

#[derive(Debug)]
struct Publisher {
    server: String,
    fabric: String,
    session: Session,
    stream: Stream,
    /// Whether the last attempt failed and was logged.
    is_failing: bool,
    /// Reason of the last replacement of the client since the last success.
    replaced: Option<Ending>,
    /// Random number of this process, part of the message identifiers.
    nonce: u64,
    /// Number of the next message.
    next: u64,
    /// Messages without an acknowledgement.
    pending: VecDeque<Pending>,
}

/// A client, which connects to the server again whenever the connection ends. Its tasks run in one
/// runtime.
#[derive(Debug)]
struct Session {
    client: Client,
    context: Context,
    connection: Arc<Connection>,
}

/// Reason why a client is not used any longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// Every record is acknowledged, or the drain time of a stop has ended.
    Complete,
    /// The server sent too many octets without a message.
    OversizedFrame,
    /// The tasks of the client have ended.
    ClientStopped,
}

/// State of the connection, as reported by the client's events.
#[derive(Debug, Default)]
struct Connection {
    /// Wakes the publisher after a connection was made.
    connected: Notify,
    /// Last error that the server reported, without control characters.
    error: Mutex<Option<String>>,
}

/// A message without an acknowledgement.
#[derive(Clone, Debug)]
struct Pending {
    subject: String,
    id: String,
    text: Vec<u8>,
    is_acknowledged: bool,
}

impl NatsOutput {
    /// Prepares the connection. An unreachable server is not an error, because the client keeps
    /// trying.
    pub(super) fn open(options: &NatsOptions) -> Result<Self, OutputError> {
        let runtime = new_runtime()?;
        let session = Session::open(options, &runtime)?;
        let publisher = Publisher {
            server: options.shown_server(),
            fabric: options.fabric.clone(),
            session,
            stream: Stream::default(),
            is_failing: false,
            replaced: None,
            nonce: RandomState::new().hash_one(std::process::id()),
            next: 0,
            pending: VecDeque::new(),
        };
        Ok(Self { options: options.clone(), runtime, publisher })
    }

    /// Publishes until all outlets are dropped and every record is acknowledged, or until the drain
    /// time of a stop ends.
    pub(super) fn run(self, mut inbox: Inbox) {
        let Self { options, mut runtime, mut publisher } = self;
        let stopper = inbox.stopper();
        loop {
            let statistics = publisher.session.client.statistics();
            let ending = runtime.block_on(async {
                tokio::select! {
                    ending = publisher.publish_all(&mut inbox) => ending,
                    () = stopper.abandoned() => Ending::Complete,
                    () = oversized_frame(&statistics) => Ending::OversizedFrame,
                }
            });
            if ending == Ending::Complete {
                break;
            }
            publisher.log_replacement(ending);
            // The tasks of the client end with their runtime, and their memory is freed.
            runtime.shutdown_background();
            runtime = match new_runtime() {
                Ok(runtime) => runtime,
                Err(error) => {
                    tracing::error!(output = ?publisher.server, %error, "the output has ended");
                    return inbox.set_unreported(publisher.unacknowledged());
                }
            };
            let is_abandoned = runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(LONGEST_PAUSE) => false,
                    () = stopper.abandoned() => true,
                }
            });
            if is_abandoned {
                break;
            }
            match Session::open(&options, &runtime) {
                Ok(session) => publisher.session = session,
                // The old client has ended, so the next attempt follows.
                Err(error) => publisher.log_failure(&error.to_string()),
            }
        }
        inbox.set_unreported(publisher.unacknowledged());
        runtime.shutdown_background();
    }
}

impl Session {
    /// Starts a client, whose tasks run in `runtime`.
    fn open(options: &NatsOptions, runtime: &Runtime) -> Result<Self, OutputError> {
        let server = options.shown_server();
        let invalid = || OutputError::NatsServer { server: server.clone() };
        let addresses: Vec<ServerAddr> =
            options.server.split(',').map(|address| address.trim().parse()).collect::<Result<_, _>>().map_err(|_| invalid())?;
        let connection = Arc::new(Connection::default());
        let connect = connect_options(options, &connection)?;
        let client = runtime.block_on(connect.connect(addresses)).map_err(|error| {
            tracing::warn!(output = ?server, error = %Printable(&error.to_string()), "cannot connect");
            invalid()
        })?;
        let guard = runtime.enter();
        let context =
            ContextBuilder::new().timeout(ACK_TIMEOUT).ack_timeout(ACK_TIMEOUT).max_ack_inflight(4 * WINDOW).backpressure_on_inflight(true);
        let context = context.build(client.clone());
        drop(guard);
        Ok(Self { client, context, connection })
    }

    /// Returns whether the tasks of the client have ended, for example by a panic.
    async fn has_ended(&self) -> bool {
        let flushed = tokio::time::timeout(FIRST_PAUSE, self.client.flush()).await;
        matches!(flushed, Ok(Err(error)) if error.kind() == FlushErrorKind::SendError)
    }
}

fn new_runtime() -> Result<Runtime, OutputError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(OutputError::Runtime)
}

/// Returns the options that do not depend on the server's state.
fn connect_options(options: &NatsOptions, connection: &Arc<Connection>) -> Result<ConnectOptions, OutputError> {
    let failed = |path: &Path, source| OutputError::NatsFile { path: path.to_owned(), server: options.shown_server(), source };
    let readable = |path: &Path| limits::read_text(path, limits::SECRET).map_err(|source| failed(path, source));
    let mut connect = ConnectOptions::new();
    if let Some(path) = &options.password_file {
        let secret = secret::read(path).map_err(|source| failed(path, source))?;
        connect = match &options.user {
            Some(user) => connect.user_and_password(user.clone(), secret.to_string()),
            None => connect.token(secret.to_string()),
        };
    }
    if let Some(path) = &options.credentials {
        connect = connect.credentials(&readable(path)?).map_err(|source| failed(path, source))?;
    }
    if let Some(path) = &options.ca_file {
        readable(path)?;
        connect = connect.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &options.certificate {
        readable(certificate)?;
        readable(key)?;
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    if options.ca_file.is_some() || options.certificate.is_some() {
        // Without this setting, an attacker on the path could make the client connect without TLS.
        connect = connect.require_tls(true);
    }
    let (server, connection) = (options.shown_server(), Arc::clone(connection));
    Ok(connect
        .name("ibnet-sweep")
        .retry_on_initial_connect()
        .ping_interval(PING)
        .reconnect_delay_callback(|attempts| {
            LONGEST_PAUSE.min(FIRST_PAUSE * 2u32.saturating_pow(u32::try_from(attempts).unwrap_or(u32::MAX).min(8)))
        })
        .event_callback(move |event| {
            connection.take(&server, &event);
            std::future::ready(())
        }))
}

impl Connection {
    /// Logs an event of the client. An error is not logged again while it stays the same.
    fn take(&self, server: &str, event: &Event) {
        // Error texts come from the server, so they are escaped.
        let text = Printable(&event.to_string()).to_string();
        match event {
            Event::Connected => {
                *self.error() = None;
                tracing::info!(output = ?server, "connected");
                self.connected.notify_one();
            }
            Event::Disconnected => tracing::warn!(output = ?server, "disconnected, buffering records"),
            Event::ServerError(_) | Event::ClientError(_) => {
                let before = self.error().replace(text.clone());
                if before.as_ref() != Some(&text) {
                    tracing::warn!(output = ?server, error = %text, "the server reported an error");
                }
            }
            _ => tracing::debug!(output = ?server, event = %text, "state of the connection changed"),
        }
    }

    fn error(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Publisher {
    /// Publishes the pending messages and those of the inbox. If this future is dropped, no record
    /// is dropped: a message stays pending until it is acknowledged.
    async fn publish_all(&mut self, inbox: &mut Inbox) -> Ending {
        let mut pause = FIRST_PAUSE;
        loop {
            while !self.pending.is_empty() {
                if !self.wait_for_server().await {
                    return Ending::ClientStopped;
                }
                let error = self.publish_some().await;
                self.pending.retain(|message| !message.is_acknowledged);
                inbox.set_unreported(self.unacknowledged());
                match error {
                    None => {
                        self.log_success();
                        pause = FIRST_PAUSE;
                    }
                    Some(_) if self.session.has_ended().await => return Ending::ClientStopped,
                    Some(error) => {
                        self.log_failure(&error);
                        // Do not add load to a server that rejects messages.
                        tokio::time::sleep(pause).await;
                        pause = LONGEST_PAUSE.min(pause * 2);
                    }
                }
            }
            let Some(message) = inbox.next().await else { return Ending::Complete };
            self.take(&message);
            inbox.settle(&message, self.unacknowledged());
        }
    }

    /// Returns the number of messages without an acknowledgement.
    fn unacknowledged(&self) -> u64 {
        self.pending.iter().filter(|message| !message.is_acknowledged).count() as u64
    }

    /// Makes a message from each record.
    fn take(&mut self, message: &Message) {
        let source = match message {
            Message::Start(source, _) | Message::Lines(source, ..) | Message::Gone(source) => *source,
            Message::End => return,
        };
        // The name of the sampler is copied, because the stream removes it when the source ends.
        let sampler = self.stream.sampler(source).map(str::to_owned);
        self.stream.take(message);
        let sampler = sampler.or_else(|| self.stream.sampler(source).map(str::to_owned)).unwrap_or_default();
        for (text, kind) in self.stream.records() {
            let id = format!("{:016x}-{}", self.nonce, self.next);
            let subject = subject(&self.fabric, &sampler, kind);
            self.pending.push_back(Pending { subject, id, text: text.to_vec(), is_acknowledged: false });
            self.next += 1;
        }
        // The messages are kept until they are acknowledged, so no record is dropped here.
        self.stream.wrote(usize::MAX);
    }

    /// Waits for a connection. Returns false if the client has ended.
    async fn wait_for_server(&mut self) -> bool {
        while self.session.client.connection_state() != State::Connected {
            let error = self.session.connection.error().clone();
            self.log_failure(error.as_deref().unwrap_or(NOT_CONNECTED));
            // The timeout is needed because the client drops events if its queue of events is full.
            let waited = tokio::time::timeout(LONGEST_PAUSE, self.session.connection.connected.notified()).await;
            if waited.is_err() && self.session.has_ended().await {
                return false;
            }
        }
        true
    }

    /// Sends up to [`WINDOW`] messages and waits for the acknowledgements. Returns the first error.
    async fn publish_some(&mut self) -> Option<String> {
        let mut error = None;
        let mut acknowledgements = Vec::new();
        for message in self.pending.iter().take(WINDOW) {
            let publish = PublishMessage::build().payload(message.text.clone().into()).message_id(&message.id);
            match self.session.context.send_publish(message.subject.clone(), publish).await {
                Ok(acknowledgement) => acknowledgements.push(acknowledgement),
                Err(failed) => {
                    error = Some(failed.to_string());
                    break;
                }
            }
        }
        let timeout = tokio::time::sleep(ACK_TIMEOUT);
        tokio::pin!(timeout);
        for (message, acknowledgement) in self.pending.iter_mut().zip(acknowledgements) {
            let result = tokio::select! {
                biased;
                result = IntoFuture::into_future(acknowledgement) => result.map(|_| ()).map_err(|failed| match failed.kind() {
                    PublishErrorKind::StreamNotFound => format!("no stream has the subject {}", message.subject),
                    _ => failed.to_string(),
                }),
                () = &mut timeout => Err("no acknowledgement".to_owned()),
            };
            match result {
                Ok(()) => message.is_acknowledged = true,
                Err(failed) => {
                    error.get_or_insert(failed);
                }
            }
        }
        error
    }

    /// Logs that the client is replaced, once for each reason until the next success.
    fn log_replacement(&mut self, ending: Ending) {
        let error = match ending {
            Ending::Complete => return,
            Ending::OversizedFrame => format!("the server sent more than {} MiB without a complete message", MAX_FRAME >> 20),
            Ending::ClientStopped => "the client cannot process a message of the server".to_owned(),
        };
        if self.replaced.replace(ending) != Some(ending) {
            tracing::warn!(output = ?self.server, %error, "disconnected from the server, buffering records");
        }
    }

    fn log_success(&mut self) {
        self.replaced = None;
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(output = ?self.server, "publishing again");
        }
    }

    fn log_failure(&mut self, error: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(output = ?self.server, error = %Printable(error), "cannot publish, buffering records");
        }
    }
}
