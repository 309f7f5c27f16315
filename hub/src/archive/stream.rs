//! Reads a JetStream stream for the archive through a durable consumer.
//!
//! The server keeps a message until its records are durable in the spool. If the consumer is gone,
//! for example because a user deleted it, the hub creates it again and gets the whole stream once
//! more; the archive stores each record only once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream;
use ibnet::output::durable::{Durable, Next, Unusable, acknowledge};

use super::spool::Spool;
use crate::input::nats::{self, Batch};
use crate::input::{self, NatsInput};
use crate::threads::Threads;

/// Bytes of messages that are acknowledged together.
const OCTETS: usize = 16 << 20;

/// Pause before the next attempt.
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
                    tracing::warn!(input = %shown, %consumer, %error, "cannot read records for the archive; trying again");
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
    // The reader for the web page reports the condition of the server.
    let (senders, _) = input::queue(1);
    let opened = async {
        let client = nats::connect(input, &senders[0], &Arc::default()).await?;
        let consumer = open(&client, input, name).await?;
        Ok::<_, String>((client, consumer))
    };
    let (client, mut consumer) = match opened.await {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    loop {
        let next = match consumer.next().await {
            Ok(next) => next,
            Err(error) => return error,
        };
        if std::mem::take(is_failing) {
            tracing::info!(consumer = name, "records for the archive are read again");
            spool.set_reader_fault(name, None);
        }
        let Next::Messages(messages) = next else {
            continue;
        };
        let mut lines = Batch::default();
        for message in &messages {
            lines.add(&message.payload);
        }
        let of_thread = Arc::clone(spool);
        // A blocking thread, so that the connection stays alive while the disk is full.
        let kept = tokio::task::spawn_blocking(move || {
            of_thread.add_when_possible(&lines.0);
            of_thread.sync_when_possible();
        });
        if let Err(error) = kept.await {
            return error.to_string();
        }
        if let Err(error) = acknowledge(&client, messages).await {
            return error;
        }
    }
}

async fn open(client: &Client, input: &NatsInput, name: &str) -> Result<Durable, String> {
    let stream = input.stream.clone().unwrap_or_default();
    let stream = jetstream::new(client.clone())
        .get_stream(stream)
        .await
        .map_err(|error| error.to_string())?;
    let opened = Durable::open(&stream, name, &input.subject, OCTETS).await;
    opened.map_err(|unusable| match unusable {
        Unusable::Server(reason) => reason,
        Unusable::Settings(wrong) => {
            format!(
                "the consumer {name} has other settings: {wrong}; delete it (`nats consumer rm`)"
            )
        }
    })
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
