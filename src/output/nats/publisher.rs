//! Publishes messages until the server has acknowledged each of them.
//!
//! The messages wait in memory. With a spool, they move to the disk as soon as the server is
//! unreachable or rejects a message. As long as the spool has messages, new ones are appended to
//! it while the publisher reads from its beginning, so the order of the messages stays the same.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use ibnet_record::types::Printable;
use zstd::bulk::Compressor;

use super::super::nats_guard::MAX_FRAME;
use super::super::options::Batching;
use super::super::queue::{Inbox, Message};
use super::super::stream::Stream;
use super::connection::{FIRST_PAUSE, LONGEST_PAUSE, Session, WINDOW};
use super::message::{Names, Origin, Pending, Waiting};
use super::remote_stream;
use super::spool::Spool;

/// Bytes of messages in memory, in addition to the queue. The last slot may exceed this number.
const WINDOW_OCTETS: usize = 8 << 20;

/// Error text until the server has reported an error.
const NOT_CONNECTED: &str = "not connected";

/// State of publishing to a server.
pub(super) struct Publisher {
    pub(super) server: String,
    pub(super) session: Session,
    pub(super) stream: Stream,
    pub(super) batching: Batching,
    /// Whether a missing stream is created.
    pub(super) creates: bool,
    pub(super) names: Names,
    /// Compresses payloads, if this is configured.
    pub(super) compressor: Option<Compressor<'static>>,
    pub(super) spool: Option<Spool>,
    /// Origin of the next batch.
    pub(super) origin: Origin,
    /// Messages without an acknowledgement.
    pub(super) pending: Waiting,
    /// Messages that did not fit on a full disk.
    pub(super) unspooled: Waiting,
    pub(super) log: Log,
}

/// What was logged since the last success.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Whether the stream was created after a failure.
    has_created: bool,
    /// Whether the spool failed, and the log has reported this.
    is_spool_failing: bool,
    /// Reason of the last replacement of the client.
    replaced: Option<Ending>,
}

/// Reason why the publisher no longer uses a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// Every record is acknowledged, or the drain time of a stop has ended.
    Complete,
    /// The server sent too many bytes without completing a message.
    OversizedFrame,
    /// The tasks of the client have ended.
    ClientStopped,
}

impl Publisher {
    /// Publishes the pending messages, those of the spool and those of the inbox. Dropping this
    /// future loses no record, because a message stays pending until it is acknowledged.
    pub(super) async fn publish_all(&mut self, inbox: &mut Inbox) -> Ending {
        let mut pause = FIRST_PAUSE;
        loop {
            self.fill(inbox);
            if self.pending.is_empty() {
                let Some(message) = inbox.next().await else {
                    return Ending::Complete;
                };
                self.take(&message, inbox);
                continue;
            }
            if !self.wait_for_server(inbox).await {
                return Ending::ClientStopped;
            }
            let error = self.publish_some(inbox).await;
            inbox.set_unreported(self.unacknowledged());
            match error {
                None => pause = FIRST_PAUSE,
                Some(_) if self.session.has_ended().await => return Ending::ClientStopped,
                Some(error) => {
                    self.log_failure(&error, inbox);
                    self.spill();
                    // A pause, because retries at once would add load to a server that rejects
                    // messages.
                    self.absorb(inbox, tokio::time::sleep(pause)).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
    }

    /// Ends the publishing, and moves the waiting records to the spool if there is one. Returns
    /// the number of records that are lost when this process ends.
    pub(super) fn end(&mut self, inbox: &mut Inbox) -> u64 {
        self.spill();
        while self.spool.is_some()
            && self.unspooled.is_empty()
            && let Some(message) = inbox.ready()
        {
            self.take(&message, inbox);
            self.spill();
        }
        if let Some(spool) = self.spool.as_ref().filter(|spool| !spool.is_empty()) {
            let records = spool.lines() + self.pending.lines();
            tracing::info!(output = ?self.server, records, "records stay in the spool; the next start publishes them");
        }
        self.unacknowledged()
    }

    /// Returns the number of records that exist only in memory.
    pub(super) fn unacknowledged(&self) -> u64 {
        let pending = if self.is_spooling() {
            0
        } else {
            self.pending.lines()
        };
        pending + self.unspooled.lines() + self.stream.unreported()
    }

    /// Counts records that the spool dropped. They may include `start` records, so the stream
    /// writes its `start` records again.
    fn lose(&mut self, records: u64) {
        if records > 0 {
            self.stream.lose(records);
            self.stream.begin();
        }
    }

    /// Returns whether new messages go to the spool.
    fn is_spooling(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| !spool.is_empty())
    }

    /// Moves what is ready: from the inbox to the spool or to memory, and from the spool to memory.
    fn fill(&mut self, inbox: &mut Inbox) {
        self.write_unspooled();
        while self.accepts()
            && let Some(message) = inbox.ready()
        {
            self.take(&message, inbox);
        }
        if self.pending.is_empty()
            && let Some(spool) = &mut self.spool
        {
            // All messages that were read from the spool are acknowledged.
            spool.acknowledge();
            let (messages, lost) = spool.read(WINDOW_OCTETS);
            self.pending.extend(messages);
            self.lose(lost);
        }
        if !self.is_spooling() {
            // The server has all messages before these, or they are in `pending`.
            self.pending.append(&mut self.unspooled);
        }
    }

    /// Returns whether another slot can be taken from the inbox.
    fn accepts(&self) -> bool {
        let has_space = || self.pending.len() < WINDOW && self.pending.octets() < WINDOW_OCTETS;
        self.unspooled.is_empty() && (self.is_spooling() || has_space())
    }

    /// Makes messages from a message of the queue.
    fn take(&mut self, message: &Message, inbox: &Inbox) {
        if self.is_spooling()
            && let (Some(spool), Message::Lines(_, batch, _)) = (&mut self.spool, message)
        {
            // The event that reports the loss goes out with this slot.
            let dropped = spool.make_room(batch.bytes.len() as u64);
            self.lose(dropped);
        }
        let messages = self.messages(message);
        if self.is_spooling() {
            self.unspooled.extend(messages);
            self.write_unspooled();
        } else {
            self.pending.extend(messages);
        }
        inbox.settle(message, self.unacknowledged());
    }

    /// Makes the messages of the server from a message of the queue.
    fn messages(&mut self, message: &Message) -> Vec<Pending> {
        let source = match message {
            Message::Start(source, _) | Message::Lines(source, ..) | Message::Gone(source) => {
                *source
            }
            Message::End => return Vec::new(),
        };
        // The origin is copied, because the stream removes the source when it ends.
        if let Some(start) = self.stream.start(source) {
            self.origin.set(start);
        }
        self.stream.take(message);
        match message {
            Message::Start(_, start) => self.origin.set(start),
            Message::Lines(_, batch, _) => {
                if let Some((_, sweep)) = &batch.sweep {
                    self.origin.slot = sweep.slot;
                }
            }
            Message::Gone(_) | Message::End => {}
        }
        let lines = match self.batching {
            Batching::Line => self
                .names
                .lines(&self.origin.sampler, self.stream.records()),
            Batching::Slot => Vec::new(),
        };
        // The messages stay until they are acknowledged, so nothing is dropped here.
        self.stream.wrote(usize::MAX);
        match self.batching {
            Batching::Line => lines,
            Batching::Slot => self
                .names
                .batches(&self.origin, &self.stream.take_text().into()),
        }
    }

    /// Moves the pending messages to the spool. They stay in memory if there is no spool, or if
    /// they come from the spool.
    fn spill(&mut self) {
        if !self.is_spooling()
            && let Some(spool) = &mut self.spool
            && !self.pending.is_empty()
        {
            tracing::info!(output = ?self.server, "records go to the spool until the NATS server accepts them");
            let (dropped, result) = spool.append(&mut self.pending);
            self.lose(dropped);
            self.log_spool(result);
            // The messages that the disk did not accept come after those that it accepted.
            if self.is_spooling() {
                self.unspooled.append(&mut self.pending);
            }
        }
    }

    /// Tries again to write the messages that the disk did not accept.
    fn write_unspooled(&mut self) {
        let Some(spool) = self.spool.as_mut().filter(|_| !self.unspooled.is_empty()) else {
            return;
        };
        let (dropped, result) = spool.append(&mut self.unspooled);
        self.lose(dropped);
        self.log_spool(result);
    }

    /// Writes the records of the inbox to the spool until `until` completes. If the spool is
    /// empty, the records stay in the inbox.
    async fn absorb(&mut self, inbox: &mut Inbox, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        let mut has_ended = false;
        loop {
            let accepts = self.is_spooling() && self.unspooled.is_empty() && !has_ended;
            tokio::select! {
                biased;
                () = &mut until => return,
                message = inbox.next(), if accepts => match message {
                    Some(message) => self.take(&message, inbox),
                    None => has_ended = true,
                },
            }
        }
    }

    /// Waits for a connection. Returns false if the client has ended.
    async fn wait_for_server(&mut self, inbox: &mut Inbox) -> bool {
        let mut has_waited = false;
        while self.session.client.connection_state() != State::Connected {
            // When the program starts, the first attempt to connect may still be running.
            let error = self
                .session
                .connection
                .error()
                .clone()
                .or_else(|| has_waited.then(|| NOT_CONNECTED.to_owned()));
            error.inspect(|error| self.log_failure(error, inbox));
            self.spill();
            self.write_unspooled();
            let connection = std::sync::Arc::clone(&self.session.connection);
            // The timeout is needed because the client drops events when its event queue is full.
            let mut is_connected = false;
            let wait = async {
                is_connected = tokio::time::timeout(LONGEST_PAUSE, connection.connected.notified())
                    .await
                    .is_ok();
            };
            self.absorb(inbox, wait).await;
            has_waited = true;
            if !is_connected && self.session.has_ended().await {
                return false;
            }
        }
        true
    }

    /// Sends the pending messages, waits for their acknowledgements, and meanwhile takes more
    /// from the inbox. Returns the first error.
    ///
    /// Success is logged as soon as the messages that were waiting at the start are acknowledged
    /// (at most one window of them). Waiting until nothing is pending would be too long, because
    /// new messages can arrive all the time while the server is slow.
    async fn publish_some(&mut self, inbox: &mut Inbox) -> Option<String> {
        // The acknowledgements of the first messages in `pending`, in order.
        let mut in_flight: VecDeque<PublishAckFuture> = VecDeque::new();
        let mut error = None;
        let mut before_success = WINDOW.min(self.pending.len());
        loop {
            while error.is_none() && in_flight.len() < WINDOW.min(self.pending.len()) {
                match self.send(in_flight.len()).await {
                    Ok(acknowledgement) => in_flight.push_back(acknowledgement),
                    Err(failed) => error = Some(failed),
                }
            }
            let Some(acknowledgement) = in_flight.pop_front() else {
                return error;
            };
            let result = match &error {
                None => acknowledgement.await,
                // After an error, only acknowledgements that have already arrived count.
                Some(_) => {
                    match tokio::time::timeout(Duration::ZERO, acknowledgement.into_future()).await
                    {
                        Ok(result) => result,
                        Err(_) => return error,
                    }
                }
            };
            match result {
                Ok(_) => {
                    self.pending.remove_first(1);
                    before_success = before_success.saturating_sub(1);
                    if before_success == 0 && error.is_none() {
                        self.log_success(inbox);
                    }
                }
                Err(_) if error.is_some() => return error,
                Err(failed) => {
                    let subject = self.pending.get(0).map_or("", |message| &message.subject);
                    return match failed.kind() {
                        PublishErrorKind::StreamNotFound
                            if self.creates && !self.log.has_created =>
                        {
                            self.log.has_created = true;
                            let created = remote_stream::create(&self.session.context).await;
                            created
                                .map(|()| tracing::info!(output = ?self.server, stream = remote_stream::NAME, "created the JetStream stream"))
                                .err()
                        }
                        PublishErrorKind::StreamNotFound => Some(format!(
                            "no stream has the subject {subject}: add a stream, or set `create = true` in this [[output]]"
                        )),
                        PublishErrorKind::TimedOut => Some("no acknowledgement".to_owned()),
                        _ => Some(failed.to_string()),
                    };
                }
            }
            if error.is_none() && !self.is_spooling() {
                self.fill(inbox);
                inbox.set_unreported(self.unacknowledged());
            }
        }
    }

    /// Sends a pending message.
    async fn send(&mut self, place: usize) -> Result<PublishAckFuture, String> {
        let Some(message) = self.pending.get(place) else {
            return Err("no message".to_owned());
        };
        let message = match message.split(self.session.client.max_payload()) {
            None => message,
            Some(parts) => {
                self.pending.replace(place, parts);
                let Some(message) = self.pending.get(place) else {
                    return Err("no message".to_owned());
                };
                message
            }
        };
        let mut publish = PublishMessage::build().message_id(&message.id);
        let payload = match &mut self.compressor {
            Some(compressor) => {
                publish = publish.header("Content-Encoding", "zstd");
                compressor
                    .compress(&message.text)
                    .map_err(|error| error.to_string())?
                    .into()
            }
            None => message.text.clone(),
        };
        let sent = self
            .session
            .context
            .send_publish(message.subject.clone(), publish.payload(payload))
            .await;
        sent.map_err(|failed| failed.to_string())
    }

    /// Logs that the client is replaced, once per reason until the next success.
    pub(super) fn log_replacement(&mut self, ending: Ending) {
        let error = match ending {
            Ending::Complete => return,
            Ending::OversizedFrame => format!(
                "the server sent more than {} MiB without a complete message",
                MAX_FRAME >> 20
            ),
            Ending::ClientStopped => "the client cannot process a message of the server".to_owned(),
        };
        if self.log.replaced.replace(ending) != Some(ending) {
            tracing::warn!(output = ?self.server, %error, "disconnecting from the NATS server; records are buffered");
        }
    }

    fn log_success(&mut self, inbox: &Inbox) {
        self.log.replaced = None;
        self.log.has_created = false;
        if inbox.succeeded() {
            tracing::info!(output = ?self.server, "the NATS server accepts records again");
        }
    }

    /// Logs a failure, unless it equals the last one.
    pub(super) fn log_failure(&self, error: &str, inbox: &Inbox) {
        let error = Printable(error).to_string();
        if inbox.failed(&error) {
            tracing::warn!(output = ?self.server, %error, "cannot publish; records are buffered");
        }
    }

    fn log_spool(&mut self, result: std::io::Result<()>) {
        match result {
            Ok(()) => self.log.is_spool_failing = false,
            Err(error) if !std::mem::replace(&mut self.log.is_spool_failing, true) => {
                tracing::warn!(output = ?self.server, %error, "cannot write to the spool; records are buffered in memory only");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
