//! A durable consumer of a JetStream stream: the server keeps each message until its records are on
//! the disk.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{BatchBuilder, Config};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use serde_json::Value;

/// Largest number of messages that are read at once.
const MESSAGES: usize = 4096;

/// Longest time to wait for messages.
const WAIT: Duration = Duration::from_secs(1);

/// Time after which the server delivers a message again that was not acknowledged.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Settings of a consumer that decide which records it delivers, and how often.
const SETTINGS: [&str; 5] = [
    "filter_subject",
    "filter_subjects",
    "deliver_policy",
    "ack_policy",
    "max_deliver",
];

/// A durable consumer.
#[derive(Debug)]
pub struct Durable {
    consumer: PullConsumer,
    octets: usize,
}

/// Why a consumer cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The server refused it, or did not answer.
    Server(String),
    /// It would not deliver each record of the subjects until it is on the disk. The text names the
    /// settings that differ.
    Settings(String),
}

/// What the server has for a consumer.
#[derive(Debug)]
pub enum Next {
    /// Messages. They must be acknowledged.
    Messages(Vec<Message>),
    /// No message in the last second.
    Nothing,
    /// No message that was not acknowledged.
    Empty,
}

impl Durable {
    /// Opens the consumer with this name, or creates it. It delivers all records of the subject. At
    /// most `octets` are read at once. A larger message is read alone.
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
        // The server returns an existing consumer with its own settings.
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

    /// Returns the next messages. The server does not answer a request for messages of a consumer
    /// that is gone, so without messages it is asked whether the consumer is there.
    ///
    /// # Errors
    /// Returns an error if the server is away, or if the consumer is gone.
    pub async fn next(&mut self) -> Result<Next, String> {
        let usual = self.consumer.batch().max_messages(MESSAGES);
        let messages = match batch(usual.max_bytes(self.octets)).await {
            Ok(messages) => messages,
            // A message of more octets is an error. Alone it has no limit but that of the server.
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

/// Acknowledges messages. Without the acknowledgement, the server delivers a message again.
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

/// Returns the next messages. Waits for at most [`WAIT`].
async fn batch(batch: BatchBuilder<'_>) -> Result<Vec<Message>, String> {
    let batch = batch.expires(WAIT).messages().await;
    let mut messages = batch.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(message) = messages.next().await {
        match message {
            Ok(message) => all.push(message),
            Err(error) if all.is_empty() => return Err(error.to_string()),
            // The next batch reports the error again.
            Err(_) => break,
        }
    }
    Ok(all)
}
