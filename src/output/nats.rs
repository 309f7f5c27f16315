//! A NATS server with JetStream: each line is a message, and stays ours until the server says that it has it.
//!
//! While the server is away lines wait in the queue, as far as [`Output::buffer`](super::Output::buffer) goes; what does not fit is lost and told, as with
//! any sink. A line that may or may not have arrived is sent again under the same `Nats-Msg-Id`, so that a stream with a duplicate window (two minutes
//! unless told otherwise) has it once. The stream is the administrator's: its subjects, how much it keeps, and where.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{Context, ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use tokio::runtime::Runtime;

use super::queue::{Inbox, Message};
use super::stream::Stream;
use super::subject::{NatsOptions, subject};
use super::{Ended, SinkError};

/// Messages that are sent before their acknowledgements are waited for.
const WINDOW: usize = 1024;

/// After this an acknowledgement does not come any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at whether the server is there.
const LOOK: Duration = Duration::from_millis(50);

/// Between two attempts to connect, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A server that says nothing for this long, twice, is away.
const PING: Duration = Duration::from_secs(10);

/// In a hurry the server has so long to take what waits for it.
const LAST_LINES: Duration = Duration::from_millis(400);

/// The way to a server.
#[derive(Debug)]
pub(super) struct NatsSink {
    runtime: Runtime,
    publisher: Publisher,
}

#[derive(Debug)]
struct Publisher {
    server: String,
    fabric: String,
    client: Client,
    context: Context,
    stream: Stream,
    /// Whether the log was told that it takes nothing.
    failing: bool,
    /// No other process has it.
    nonce: u64,
    /// Counts messages.
    next: u64,
    /// What the server did not acknowledge yet.
    pending: VecDeque<Line>,
}

/// A line under way.
#[derive(Clone, Debug)]
struct Line {
    subject: String,
    id: String,
    text: Vec<u8>,
}

impl NatsSink {
    /// Connects, now or later: a server that is away is no mistake.
    pub(super) fn open(options: &NatsOptions) -> Result<Self, SinkError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SinkError::Runtime)?;
        let server = options.shown_server();
        let away = || SinkError::NatsServer { server: server.clone() };
        let addresses: Vec<ServerAddr> =
            options.server.split(',').map(|address| address.trim().parse()).collect::<Result<_, _>>().map_err(|_| away())?;
        let connect = connect_options(options)?;
        let client = runtime.block_on(connect.connect(addresses)).map_err(|error| {
            tracing::warn!(%server, %error, "cannot connect");
            away()
        })?;
        let guard = runtime.enter();
        let context =
            ContextBuilder::new().timeout(PATIENCE).ack_timeout(PATIENCE).max_ack_inflight(4 * WINDOW).backpressure_on_inflight(true);
        let publisher = Publisher {
            server: server.clone(),
            fabric: options.fabric.clone(),
            context: context.build(client.clone()),
            client,
            stream: Stream::default(),
            failing: false,
            nonce: RandomState::new().hash_one(std::process::id()),
            next: 0,
            pending: VecDeque::new(),
        };
        drop(guard);
        Ok(Self { runtime, publisher })
    }

    /// Publishes until all outlets are dropped, and for some time after that.
    pub(super) fn run(self, mut inbox: Inbox) -> Ended {
        let Self { runtime, mut publisher } = self;
        let ending = inbox.ending();
        runtime.block_on(async {
            tokio::select! {
                () = publisher.publish_all(&mut inbox) => {}
                () = ending.patience(LAST_LINES) => {}
            }
        });
        let mut untold = publisher.pending.len() as u64;
        while let Some(message) = inbox.ready() {
            if let Message::Lines(_, batch, lost) = message {
                untold += batch.lines + lost;
            }
        }
        Ended::of(untold + inbox.untold())
    }
}

/// What does not depend on the server's being there.
fn connect_options(options: &NatsOptions) -> Result<ConnectOptions, SinkError> {
    let failed = |path: &Path, source| SinkError::NatsFile { path: path.to_owned(), server: options.shown_server(), source };
    let readable = |path: &Path| std::fs::read_to_string(path).map_err(|source| failed(path, source));
    let mut connect = ConnectOptions::new();
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
        // Else whoever stands between could say that the server has none.
        connect = connect.require_tls(true);
    }
    let server = options.shown_server();
    let said = Mutex::new(String::new());
    let tell = move |event| tell_event(&server, &said, &event);
    Ok(connect
        .name("ibnet-sweep")
        .retry_on_initial_connect()
        .ping_interval(PING)
        .reconnect_delay_callback(|attempts| {
            LONGEST_PAUSE.min(LOOK * 2u32.saturating_pow(u32::try_from(attempts).unwrap_or(u32::MAX).min(8)))
        })
        .event_callback(move |event| {
            tell(event);
            std::future::ready(())
        }))
}

/// Tells the log what happens to the connection; what is the same as before is told once.
fn tell_event(server: &str, said: &Mutex<String>, event: &Event) {
    match event {
        Event::Connected => tracing::info!(%server, "connected"),
        Event::Disconnected => tracing::warn!(%server, "the connection is lost; lines wait"),
        Event::ServerError(_) => {
            let text = event.to_string();
            let mut said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if *said != text {
                tracing::warn!(%server, "{text}");
                *said = text;
            }
        }
        _ => tracing::debug!(%server, "{event}"),
    }
}

impl Publisher {
    async fn publish_all(&mut self, inbox: &mut Inbox) {
        let mut pause = LOOK;
        while let Some(message) = inbox.next().await {
            self.take(&message);
            while !self.pending.is_empty() {
                self.wait_for_server().await;
                match self.publish_some().await {
                    None => {
                        self.tell_taking();
                        pause = LOOK;
                    }
                    Some(error) => {
                        self.tell_failing(&error);
                        // A server that refuses is in trouble already.
                        tokio::time::sleep(pause).await;
                        pause = LONGEST_PAUSE.min(pause * 2);
                    }
                }
            }
        }
    }

    /// Makes messages of lines.
    fn take(&mut self, message: &Message) {
        let (Message::Start(way, _) | Message::Lines(way, ..) | Message::Gone(way)) = message;
        // Before it may be forgotten.
        let sampler = self.stream.sampler(*way).map(str::to_owned);
        self.stream.take(message);
        let sampler = sampler.or_else(|| self.stream.sampler(*way).map(str::to_owned)).unwrap_or_default();
        for text in self.stream.text().split_inclusive(|octet| *octet == b'\n') {
            let id = format!("{:016x}-{}", self.nonce, self.next);
            let text = text.strip_suffix(b"\n").unwrap_or(text).to_vec();
            self.pending.push_back(Line { subject: subject(&self.fabric, &sampler, &text), id, text });
            self.next += 1;
        }
        // From here on they are ours.
        self.stream.wrote(usize::MAX);
    }

    async fn wait_for_server(&mut self) {
        while self.client.connection_state() != State::Connected {
            self.tell_failing("it is not there");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sends what fits into the window and waits for acknowledgements. What was not acknowledged stays, and why is told.
    async fn publish_some(&mut self) -> Option<String> {
        let mut error = None;
        let (mut sent, mut kept) = (Vec::new(), VecDeque::new());
        for line in self.pending.iter().take(WINDOW) {
            let message = PublishMessage::build().payload(line.text.clone().into()).message_id(&line.id);
            match self.context.send_publish(line.subject.clone(), message).await {
                Ok(acknowledgement) => sent.push(acknowledgement),
                Err(failed) => {
                    error = Some(failed.to_string());
                    break;
                }
            }
        }
        let patience = tokio::time::sleep(PATIENCE);
        tokio::pin!(patience);
        let mut rest = self.pending.split_off(sent.len());
        for (line, acknowledgement) in self.pending.iter().zip(sent) {
            let result = tokio::select! {
                biased;
                result = IntoFuture::into_future(acknowledgement) => result.map(|_| ()).map_err(|failed| match failed.kind() {
                    PublishErrorKind::StreamNotFound => format!("no stream has the subject {}", line.subject),
                    _ => failed.to_string(),
                }),
                () = &mut patience => Err("it acknowledges nothing".to_owned()),
            };
            if let Err(failed) = result {
                error.get_or_insert(failed);
                kept.push_back(line.clone());
            }
        }
        kept.append(&mut rest);
        self.pending = kept;
        error
    }

    fn tell_taking(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(server = %self.server, "takes lines again");
        }
    }

    fn tell_failing(&mut self, error: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(server = %self.server, %error, "takes no lines; they wait as long as there is room");
        }
    }
}
