//! Reads records from a NATS server, as the NATS output of `ibnet-sweep` publishes them: one record
//! in each message, or all records of a slot, optionally compressed with zstd.
//!
//! With core NATS, the hub receives records from now on. With a JetStream stream, an ephemeral
//! consumer first delivers the records of the time `recent` and then the new ones; the server
//! removes this consumer when the hub ends. The client reconnects after a loss. The consumer then
//! continues after its last message or, if the server no longer knows it, another one does.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::{Client, ConnectOptions, Event};
use futures_util::{FutureExt, StreamExt};

use super::{NatsInput, READ, Sender, Stopped, What};

/// Pause before the next attempt to subscribe.
const PAUSE: Duration = Duration::from_secs(2);

/// First bytes of a compressed payload (RFC 8878, section 3.1.1). A record begins with `{`.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Max size of a decompressed payload in bytes. The samplers send at most 512 KiB or one record.
const LARGEST: u64 = 16 << 20;

/// Interval of pings. Two missing replies end the connection.
const PING: Duration = Duration::from_secs(10);

/// Reads until the hub stops.
pub(crate) fn read(input: &NatsInput, recent: Duration, sender: &Sender) -> Result<(), Stopped> {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return sender.send(What::Failed(error.to_string())),
    };
    runtime.block_on(async {
        let reported = Arc::default();
        let client = loop {
            match connect(input, sender, &reported).await {
                Ok(client) => break client,
                Err(reason) => sender.send(What::Failed(reason))?,
            }
            tokio::time::sleep(PAUSE).await;
        };
        let mut next = None;
        loop {
            let opened = || match reported.swap(true, Ordering::Relaxed) {
                true => Ok(()),
                false => sender.send(What::Connected),
            };
            let reason = match &input.stream {
                None => subscribed(&client, input, sender).await?,
                Some(stream) => {
                    let from = (recent, &mut next);
                    consumed(&client, input, stream, from, sender, opened).await?
                }
            };
            reported.store(false, Ordering::Relaxed);
            sender.send(What::Lost(reason))?;
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Connects to the server. `reported` says whether the hub knows that records can arrive.
pub(crate) async fn connect(
    input: &NatsInput,
    sender: &Sender,
    reported: &Arc<AtomicBool>,
) -> Result<Client, String> {
    let (reports, reported) = (sender.clone(), Arc::clone(reported));
    let options = ConnectOptions::new()
        .name("ibnet-hub")
        .ping_interval(PING)
        .retry_on_initial_connect()
        .event_callback(move |event| {
            let what = match event {
                Event::Connected if !reported.swap(true, Ordering::Relaxed) => What::Connected,
                Event::Disconnected => What::Lost("the server closed the connection".to_owned()),
                Event::ServerError(error) => What::Refused(error.to_string()),
                Event::ClientError(error) => What::Failed(error.to_string()),
                _ => return std::future::ready(()),
            };
            if !matches!(what, What::Connected | What::Refused(_)) {
                reported.store(false, Ordering::Relaxed);
            }
            // If the hub stops, nothing needs the report.
            let _ = reports.send(what);
            std::future::ready(())
        });
    options
        .connect(input.server.as_str())
        .await
        .map_err(|error| error.to_string())
}

/// Reads new records. Returns why it ended.
async fn subscribed(
    client: &Client,
    input: &NatsInput,
    sender: &Sender,
) -> Result<String, Stopped> {
    let mut messages = match client.subscribe(input.subject.clone()).await {
        Ok(messages) => messages,
        Err(error) => return Ok(error.to_string()),
    };
    while let Some(message) = messages.next().await {
        let mut batch = Batch::default();
        batch.add(&message.payload);
        while let Some(Some(message)) = messages.next().now_or_never() {
            if batch.add(&message.payload) {
                break;
            }
        }
        sender.send(What::Lines(batch.0))?;
    }
    Ok("the subscription ended".to_owned())
}

/// Reads the recent records, or those from the message `next` on, and then new ones. Calls `opened`
/// when it begins. Returns why it ended.
async fn consumed(
    client: &Client,
    input: &NatsInput,
    stream: &str,
    (recent, next): (Duration, &mut Option<u64>),
    sender: &Sender,
    opened: impl FnOnce() -> Result<(), Stopped>,
) -> Result<String, Stopped> {
    let messages = async {
        let stream = async_nats::jetstream::new(client.clone())
            .get_stream(stream)
            .await
            .map_err(|error| error.to_string())?;
        // A stream that was made again begins with low numbers.
        let last = stream.cached_info().state.last_sequence;
        let deliver_policy = match next.filter(|next| *next <= last + 1) {
            Some(start_sequence) => DeliverPolicy::ByStartSequence { start_sequence },
            None => DeliverPolicy::ByStartTime {
                start_time: start(recent).into(),
            },
        };
        let config = OrderedConfig {
            filter_subject: input.subject.clone(),
            deliver_policy,
            ..OrderedConfig::default()
        };
        let consumer = stream
            .create_consumer(config)
            .await
            .map_err(|error| error.to_string())?;
        consumer.messages().await.map_err(|error| error.to_string())
    };
    let mut messages = match messages.await {
        Ok(messages) => messages,
        Err(reason) => return Ok(reason),
    };
    opened()?;
    let mut add = |batch: &mut Batch, message: &Message| {
        if let Ok(info) = message.info() {
            *next = Some(info.stream_sequence + 1);
        }
        batch.add(&message.payload)
    };
    loop {
        let mut batch = Batch::default();
        match messages.next().await {
            Some(Ok(message)) => drop(add(&mut batch, &message)),
            Some(Err(error)) => return Ok(error.to_string()),
            None => return Ok("the stream ended".to_owned()),
        }
        let mut end = None;
        while let Some(Some(message)) = messages.next().now_or_never() {
            match message {
                Ok(message) => {
                    if add(&mut batch, &message) {
                        break;
                    }
                }
                Err(error) => {
                    end = Some(error.to_string());
                    break;
                }
            }
        }
        sender.send(What::Lines(batch.0))?;
        if let Some(reason) = end {
            return Ok(reason);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "records are read from a time before now"
)]
fn start(recent: Duration) -> SystemTime {
    SystemTime::now()
        .checked_sub(recent)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Lines of several messages.
#[derive(Default)]
pub(crate) struct Batch(pub(crate) Vec<u8>);

impl Batch {
    /// Adds the records of a message. Returns whether the batch is full.
    ///
    /// A payload that cannot be decompressed is added unchanged, and then counts as malformed.
    pub(crate) fn add(&mut self, payload: &[u8]) -> bool {
        let begin = self.0.len();
        let is_decompressed = payload.starts_with(&ZSTD) && decompress(payload, &mut self.0);
        if !is_decompressed {
            self.0.truncate(begin);
            self.0.extend_from_slice(payload);
        }
        if self.0.last().is_some_and(|octet| *octet != b'\n') {
            self.0.push(b'\n');
        }
        self.0.len() >= READ
    }
}

/// Appends a decompressed payload. Returns false if it is damaged or larger than [`LARGEST`].
fn decompress(payload: &[u8], to: &mut Vec<u8>) -> bool {
    let begin = to.len();
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(payload) else {
        return false;
    };
    decoder.take(LARGEST + 1).read_to_end(to).is_ok() && (to.len() - begin) as u64 <= LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_each_kind_become_whole_lines() {
        let mut batch = Batch::default();
        batch.add(b"{\"a\":1}");
        batch.add(b"{\"b\":2}\n{\"c\":3}\n");
        batch.add(&zstd::bulk::compress(b"{\"d\":4}\n{\"e\":5}\n", 1).unwrap());
        assert_eq!(
            batch.0,
            b"{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n{\"e\":5}\n"
        );
    }

    #[test]
    fn damaged_and_huge_payloads_are_one_malformed_line() {
        let whole = zstd::bulk::compress(&vec![b'x'; 17 << 20], 1).unwrap();
        for payload in [&whole[..], &whole[..whole.len() / 2], &ZSTD[..]] {
            let mut batch = Batch::default();
            batch.add(payload);
            assert!(
                batch.0.len() <= payload.len() + 1 && batch.0.starts_with(&ZSTD),
                "{} octets",
                batch.0.len()
            );
        }
    }
}
