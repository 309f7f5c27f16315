//! The stream at the server that stores the messages.

use std::time::Duration;

use async_nats::jetstream::context::{Context, ContextBuilder, GetStreamByNameErrorKind};
use async_nats::jetstream::stream::{Config, StorageType};
use ibnet_record::reader::Type;
use ibnet_record::types::Printable;

use super::super::error::OutputError;
use super::super::options::{Batching, NatsOptions};
use super::super::subject::{Word, subject};
use super::super::test::Tested;
use super::connection::connect;
use super::new_runtime;
use super::spool;

/// Name of the stream that the output creates.
pub(super) const NAME: &str = "IBNET";

/// Max time for a reply of the server in a test.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Creates the stream like the command in `docs/outputs.md`. Returns the reason if this fails.
pub(super) async fn create(context: &Context) -> Result<(), String> {
    let config = Config {
        name: NAME.to_owned(),
        subjects: vec!["ibnet.>".to_owned()],
        storage: StorageType::File,
        max_age: Duration::from_secs(2 * 86_400),
        duplicate_window: Duration::from_secs(600),
        ..Config::default()
    };
    context
        .create_stream(config)
        .await
        .map(drop)
        .map_err(|error| format!("cannot create the stream {NAME}: {error}"))
}

/// Tests the connection to a server, and whether streams exist for all subjects of a sampler.
/// Publishes nothing.
pub(in super::super) fn test(options: &NatsOptions, sampler: &str) -> Result<Tested, OutputError> {
    if let Some(spool) = &options.spool {
        spool::test(spool)?;
    }
    let runtime = new_runtime()?;
    let tested = runtime.block_on(find(options, sampler));
    runtime.shutdown_background();
    tested
}

async fn find(options: &NatsOptions, sampler: &str) -> Result<Tested, OutputError> {
    let server = options.shown_server();
    let context = ContextBuilder::new()
        .timeout(TIMEOUT)
        .build(connect(options).await?);
    let words = match options.batching {
        Batching::Slot => vec![Word::Batch],
        Batching::Line => [
            Type::Start,
            Type::Port,
            Type::Sweep,
            Type::Histogram,
            Type::Event,
        ]
        .map(Word::Record)
        .into(),
    };
    let mut streams = Vec::new();
    for word in words {
        let subject = subject(&options.fabric, sampler, word);
        match context.stream_by_subject(&subject).await {
            Ok(stream) => streams.push(Printable(&stream).to_string()),
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound && options.create => {
                return Ok(Tested::good(format!(
                    "{server}: no stream has the subject {subject}; the sweep creates the stream {NAME}"
                )));
            }
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => {
                return Err(OutputError::NatsStream { server, subject });
            }
            // A user with permission to publish only gets no reply.
            Err(error) => {
                let reason = Printable(&error.to_string()).to_string();
                return Ok(Tested {
                    found: format!("{server}: connected, but the streams cannot be read: {reason}"),
                    doubt: Some(
                        "check that the server has JetStream (nats-server -js); a user without the right to publish to \
                         $JS.API.STREAM.NAMES cannot read the streams: then look at the log of the sweep for `cannot publish`",
                    ),
                });
            }
        }
    }
    streams.dedup();
    Ok(Tested::good(format!(
        "{server}: the stream {} stores the records of {sampler}",
        streams.join(", ")
    )))
}
