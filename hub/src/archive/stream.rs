//! The reader of a JetStream stream for the archive: a durable consumer. The server keeps a message
//! until its records are durable in the spool. A consumer that is gone, for example because a user
//! deleted it, is created again, and delivers the whole stream: the archive stores each record
//! once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::{self, Message};
use futures_util::StreamExt;

use super::spool::Spool;
use crate::input::nats::{self, Batch};
use crate::input::{self, NatsInput};
use crate::threads::Threads;

/// Largest number of messages, and of their octets, that are acknowledged together.
const MESSAGES: usize = 4096;
const OCTETS: usize = 16 << 20;

/// Longest time for which messages are collected.
const WAIT: Duration = Duration::from_secs(1);

/// Time after which the server delivers a message again that was not acknowledged.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Pause before another attempt.
const PAUSE: Duration = Duration::from_secs(2);

/// Starts the thread.
///
/// # Errors
/// Returns the error of the operating system.
pub(super) fn start(
    input: NatsInput,
    consumer: &str,
    spool: Arc<Spool>,
    threads: &Threads,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let consumer = name(consumer, &input.subject);
    let work = move || {
        runtime.block_on(async {
            let mut is_failing = false;
            loop {
                let error = run(&input, &consumer, &spool, &mut is_failing).await;
                let shown = input::Input::Nats(input.clone());
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(input = %shown, %consumer, %error, "cannot read records for the archive, trying again");
                }
                let fault =
                    format!("cannot read records of {shown} for the archive: {error}; check that the server runs and has the stream");
                spool.set_reader_fault(&consumer, Some(fault));
                tokio::time::sleep(PAUSE).await;
            }
        });
    };
    threads.start("archive-stream", work)
}

/// Returns the name of the consumer of a subject. Two subjects of a stream need two consumers.
fn name(consumer: &str, subject: &str) -> String {
    let word = |octet: char| match octet {
        '.' => "_".to_owned(),
        '>' => "all".to_owned(),
        '*' => "any".to_owned(),
        other => other.to_string(),
    };
    format!(
        "{consumer}-{}",
        subject.chars().map(word).collect::<String>()
    )
}

/// Reads until an error, and returns it.
async fn run(input: &NatsInput, name: &str, spool: &Arc<Spool>, is_failing: &mut bool) -> String {
    // The reader of the page reports the condition of the server.
    let (senders, _) = input::queue(1);
    let opened = async {
        let client = nats::connect(input, &senders[0]).await?;
        let consumer = open(&client, input, name).await?;
        Ok::<_, String>((client, consumer))
    };
    let (client, mut consumer) = match opened.await {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    loop {
        let messages = match next(&mut consumer).await {
            Ok(messages) => messages,
            Err(error) => return error,
        };
        if std::mem::take(is_failing) {
            tracing::info!(consumer = name, "reading records for the archive again");
            spool.set_reader_fault(name, None);
        }
        if messages.is_empty() {
            continue;
        }
        let mut lines = Batch::default();
        for message in &messages {
            lines.add(&message.payload);
        }
        let of_thread = Arc::clone(spool);
        // The connection stays alive while the disk is full.
        let kept = tokio::task::spawn_blocking(move || {
            of_thread.add_when_possible(&lines.0);
            of_thread.sync_when_possible();
        });
        if let Err(error) = kept.await {
            return error.to_string();
        }
        for message in messages {
            // Without the acknowledgement, the server delivers the message again.
            if let Err(error) = message.ack().await {
                tracing::debug!(%error, "cannot acknowledge a message");
            }
        }
        if let Err(error) = client.flush().await {
            return error.to_string();
        }
    }
}

async fn open(client: &Client, input: &NatsInput, name: &str) -> Result<PullConsumer, String> {
    let stream = input.stream.clone().unwrap_or_default();
    let stream = jetstream::new(client.clone())
        .get_stream(stream)
        .await
        .map_err(|error| error.to_string())?;
    let config = Config {
        durable_name: Some(name.to_owned()),
        filter_subject: input.subject.clone(),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 2 * MESSAGES as i64,
        ..Config::default()
    };
    stream
        .get_or_create_consumer(name, config)
        .await
        .map_err(|error| error.to_string())
}

/// Returns the next messages, or none after some seconds.
async fn next(consumer: &mut PullConsumer) -> Result<Vec<Message>, String> {
    let messages = batch(consumer).await?;
    if messages.is_empty() {
        // The server does not answer a request for messages of a consumer that is gone.
        consumer.info().await.map_err(|error| error.to_string())?;
    }
    Ok(messages)
}

/// Returns the next messages. Waits for at most [`WAIT`].
async fn batch(consumer: &PullConsumer) -> Result<Vec<Message>, String> {
    let batch = consumer
        .batch()
        .max_messages(MESSAGES)
        .max_bytes(OCTETS)
        .expires(WAIT);
    let mut messages = batch.messages().await.map_err(|error| error.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_its_consumer() {
        assert_eq!(
            name("ibnet-hub", "ibnet.stria.>"),
            "ibnet-hub-ibnet_stria_all"
        );
        assert_eq!(name("a", "ibnet.*.port"), "a-ibnet_any_port");
    }
}
