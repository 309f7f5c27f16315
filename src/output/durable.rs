//! A durable consumer of a JetStream stream. The server keeps each message until it is
//! acknowledged, which a program does when the records of the message are on its disk.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{BatchBuilder, Config};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use serde_json::Value;

/// Max number of messages in one request.
const MESSAGES: usize = 4096;

/// Max time to wait for messages.
const WAIT: Duration = Duration::from_secs(1);

/// Time after which the server delivers an unacknowledged message again.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Settings that determine which records a consumer delivers, and how often.
const SETTINGS: [&str; 5] = [
    "filter_subject",
    "filter_subjects",
    "deliver_policy",
    "ack_policy",
    "max_deliver",
];

/// A durable consumer, and the max size of one request.
#[derive(Debug)]
pub struct Durable {
    consumer: PullConsumer,
    octets: usize,
}

/// Why a consumer cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The server refused the consumer, or did not answer.
    Server(String),
    /// The settings of an existing consumer do not guarantee that each record of the subject is
    /// delivered until it is acknowledged. The text names the settings that differ.
    Settings(String),
}

/// Result of a request for messages.
#[derive(Debug)]
pub enum Next {
    /// Messages, which must be acknowledged.
    Messages(Vec<Message>),
    /// No message arrived within one second.
    Nothing,
    /// The consumer has no message left, and all delivered ones are acknowledged.
    Empty,
}

impl Durable {
    /// Opens the consumer with this name, or creates it. It delivers all records of the subject.
    /// One request returns at most `octets` bytes; a larger message is requested alone.
    ///
    /// # Errors
    /// Returns an error if the server refuses the consumer, or has one with other settings.
    pub async fn open(
        stream: &Stream,
        name: &str,
        subject: &str,
        octets: usize,
    ) -> Result<Self, Unusable> {
        let config = Config {
            durable_name: Some(name.to_owned()),
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: 2 * MESSAGES as i64,
            ..Config::default()
        };
        let failed = |error: &dyn ToString| Unusable::Server(error.to_string());
        let wanted = serde_json::to_value(&config).map_err(|error| failed(&error))?;
        // The server returns an existing consumer with the settings that this consumer has.
        let consumer = stream
            .get_or_create_consumer(name, config)
            .await
            .map_err(|error| failed(&error))?;
        let found =
            serde_json::to_value(&consumer.cached_info().config).map_err(|error| failed(&error))?;
        let shown = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            value => value.to_string(),
        };
        let wrong: Vec<_> = SETTINGS
            .iter()
            .filter(|key| found[**key] != wanted[**key])
            .map(|key| {
                let (wanted, found) = (shown(&wanted[*key]), shown(&found[*key]));
                format!("its {key} must be {wanted} (found {found})")
            })
            .collect();
        if wrong.is_empty() {
            Ok(Self { consumer, octets })
        } else {
            Err(Unusable::Settings(wrong.join(", ")))
        }
    }

    /// Returns the next messages. The server does not answer requests for messages of a consumer
    /// that no longer exists, so after a second without messages this function asks whether the
    /// consumer exists.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable, or if the consumer no longer exists.
    pub async fn next(&mut self) -> Result<Next, String> {
        let usual = self.consumer.batch().max_messages(MESSAGES);
        let messages = match batch(usual.max_bytes(self.octets)).await {
            Ok(messages) => messages,
            // A message with more bytes is reported as an error. Requested alone, it is limited
            // by the server only.
            Err(_) => batch(self.consumer.batch().max_messages(1)).await?,
        };
        if !messages.is_empty() {
            return Ok(Next::Messages(messages));
        }
        let info = self.consumer.info().await;
        let info = info.map_err(|error| error.to_string())?;
        Ok(if info.num_pending == 0 && info.num_ack_pending == 0 {
            Next::Empty
        } else {
            Next::Nothing
        })
    }
}

/// Acknowledges messages. The server delivers a message again if it receives no acknowledgement.
///
/// # Errors
/// Returns an error if the acknowledgements cannot be sent.
pub async fn acknowledge(client: &Client, messages: Vec<Message>) -> Result<(), String> {
    for message in messages {
        if let Err(error) = message.ack().await {
            tracing::debug!(%error, "cannot acknowledge a message");
        }
    }
    client.flush().await.map_err(|error| error.to_string())
}

/// Requests messages and waits for at most [`WAIT`].
async fn batch(batch: BatchBuilder<'_>) -> Result<Vec<Message>, String> {
    let batch = batch.expires(WAIT).messages().await;
    let mut messages = batch.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(message) = messages.next().await {
        match message {
            Ok(message) => all.push(message),
            Err(error) if all.is_empty() => return Err(error.to_string()),
            // The next request reports the error again.
            Err(_) => break,
        }
    }
    Ok(all)
}
