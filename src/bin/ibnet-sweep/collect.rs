//! `ibnet-sweep collect`: writes the records of a JetStream stream to compressed files, which
//! `ibnet-view pack` turns into an archive.
//!
//! The server keeps a message until its records are on the disk. A durable consumer delivers the
//! message again after a crash. A record can then be in two files; the archive stores it once.

mod files;

use std::path::PathBuf;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{BatchBuilder, Config as ConsumerConfig};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::context::ContextBuilder;
use futures_util::StreamExt;
use ibnet::cli::{self, Signals};
use ibnet::config::Raw;
use ibnet::output::{self, Destination, NatsOptions, OutputError};
use ibnet::types::Printable;
use serde_json::Value;

use self::files::Files;
use super::failure::Failure;
use super::flags::Flags;
use super::only_stream::only_stream;
use super::payload;

/// Time after which the server delivers a message again that is not on the disk.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Time to wait for messages. Files are closed at most this time late.
const WAIT: Duration = Duration::from_secs(1);

/// Time for a reply of the server. A server that receives the spools of many samplers replies late.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Largest number of messages, and of their octets, that are written at once. A larger message is
/// written alone.
const MESSAGES: usize = 5_000;
const OCTETS: usize = 4 << 20;

/// Settings of a consumer that decide which records it delivers, and how often.
const SETTINGS: [&str; 5] = [
    "filter_subject",
    "filter_subjects",
    "deliver_policy",
    "ack_policy",
    "max_deliver",
];

/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(2);

const HELP: &str = "check that a stream with the subjects `ibnet.>` exists and that this user may add a consumer (`nats stream ls`)";

const SEVERAL: &str = "run one `collect` for each stream: give its subjects with --subject (`nats stream info NAME` shows them), and a separate folder with -o";

/// Write the records of a NATS server to compressed files, for `ibnet-view pack`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// NATS server with JetStream: nats://HOST:4222 or tls://HOST:4222
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Configuration file: its first NATS output has the server and the credentials
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of the files lines-TIME.jsonl.zst
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Durable consumer of the stream; it is created if it is missing
    #[arg(long, value_name = "NAME", default_value = "ibnet-collect")]
    consumer: String,
    /// Subjects of the records
    #[arg(long, value_name = "SUBJECT", default_value = "ibnet.>")]
    subject: String,
    /// Close a file at each multiple of this time
    #[arg(long, value_name = "TIME", value_parser = every, default_value = "10m")]
    every: Duration,
    /// Stop when the stream has no more messages
    #[arg(long)]
    until_empty: bool,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep collect --from nats://127.0.0.1:4222 -o /var/lib/ibnet/lines
  ibnet-view pack '/var/lib/ibnet/lines/*.jsonl.zst' -o /var/lib/ibnet/archive

The open file has the suffix .part. SIGTERM closes it.";

fn every(text: &str) -> Result<Duration, &'static str> {
    let time = humantime::parse_duration(text)
        .ok()
        .filter(|time| *time >= Duration::from_secs(1));
    time.ok_or("a time of 1s or more, such as 10m or 1h")
}

impl Args {
    /// Uses the configuration file that is given before the command. Returns false if there are
    /// other flags before it.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let Some(config) = before.only_config() else {
            return false;
        };
        let is_twice = config.is_some() && self.config.is_some();
        self.config = self.config.take().or(config);
        !is_twice
    }

    /// Returns the server with its credentials.
    fn server(&self) -> Result<NatsOptions, Failure> {
        let mut raw = self
            .config
            .as_deref()
            .map(Raw::read)
            .transpose()?
            .unwrap_or_default();
        // Only the outputs are used. The net file that is set here is never read.
        raw.assignments.clear();
        raw.sampler.clear();
        raw.net = "-".to_owned();
        let configured = raw
            .check()?
            .outputs
            .into_iter()
            .find_map(|output| match output.to {
                Destination::Nats(options) => Some(options),
                _ => None,
            });
        match &self.from {
            None => configured.ok_or(Failure::NoSource),
            Some(from) if from.starts_with("nats://") || from.starts_with("tls://") => {
                Ok(NatsOptions {
                    server: from.clone(),
                    ..configured.unwrap_or_default()
                })
            }
            Some(from) => Err(Failure::WrongSource { from: from.clone() }),
        }
    }

    /// Returns the error of a folder that does not accept the records.
    fn unusable(&self, source: std::io::Error) -> Failure {
        Failure::Collected {
            folder: self.output.display().to_string(),
            source,
        }
    }
}

/// Collects until a signal arrives, or until the stream is empty.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let options = args.server()?;
    let folder = |source| args.unusable(source);
    let from = options.shown_server();
    let mut files = Files::open(&args.output, args.every).map_err(folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OutputError::Runtime)?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new().map_err(OutputError::Runtime)?;
        let client = output::connect_nats(&options).await?;
        let consumer = consumer(&client, args, &from).await?;
        tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "stopping");
                Ok(())
            }
            result = collect(&client, consumer, args, &from, &mut files) => result,
        }
    });
    runtime.shutdown_background();
    let closed = files.close().map_err(folder);
    cli::note(&format!(
        "{} records in {}\n",
        files.records(),
        args.output.display()
    ));
    result.and(closed)
}

/// Opens the consumer, or creates it. Refuses a consumer that would not deliver each record of the
/// subjects until it is on the disk.
async fn consumer(client: &Client, args: &Args, from: &str) -> Result<PullConsumer, Failure> {
    let failed = |reason: String| Failure::Source {
        from: from.to_owned(),
        reason,
        help: HELP,
    };
    let jetstream = ContextBuilder::new().timeout(TIMEOUT).build(client.clone());
    let stream = only_stream(&jetstream, &args.subject, failed, SEVERAL).await?;
    let config = ConsumerConfig {
        durable_name: Some(args.consumer.clone()),
        filter_subject: args.subject.clone(),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        max_ack_pending: 2 * MESSAGES as i64,
        ..ConsumerConfig::default()
    };
    let wanted = serde_json::to_value(&config).map_err(|error| failed(error.to_string()))?;
    // The server returns an existing consumer with its own settings.
    let consumer = stream
        .get_or_create_consumer(&args.consumer, config)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let found = serde_json::to_value(&consumer.cached_info().config)
        .map_err(|error| failed(error.to_string()))?;
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
        Ok(consumer)
    } else {
        Err(Failure::Consumer {
            consumer: args.consumer.clone(),
            stream: stream.cached_info().config.name.clone(),
            wrong: wrong.join(", "),
        })
    }
}

/// Writes messages. Returns an error if the disk does not accept the records, or if the
/// consumer has to be created again and this is no longer possible.
async fn collect(
    client: &Client,
    mut consumer: PullConsumer,
    args: &Args,
    from: &str,
    files: &mut Files,
) -> Result<(), Failure> {
    let mut is_failing = false;
    loop {
        files.close_if_due().map_err(|error| args.unusable(error))?;
        match next(&mut consumer).await {
            Ok(next) => {
                if std::mem::take(&mut is_failing) {
                    tracing::info!("collecting again");
                }
                match next {
                    Next::Messages(messages) => write(client, messages, files)
                        .await
                        .map_err(|error| args.unusable(error))?,
                    Next::Empty if args.until_empty => return Ok(()),
                    Next::Empty | Next::Nothing => {}
                }
            }
            Err(reason) => {
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(error = %Printable(&reason), consumer = args.consumer, "cannot read from the server, trying again");
                }
                tokio::time::sleep(PAUSE).await;
                // A consumer that a user deleted is created again, and delivers the whole stream.
                match self::consumer(client, args, from).await {
                    Ok(opened) => consumer = opened,
                    Err(error @ (Failure::Consumer { .. } | Failure::SeveralStreams { .. })) => {
                        return Err(error);
                    }
                    Err(error) => tracing::debug!(%error, "cannot open the consumer"),
                }
            }
        }
    }
}

/// Writes the records of messages, and acknowledges the messages.
async fn write(client: &Client, messages: Vec<Message>, files: &mut Files) -> std::io::Result<()> {
    let mut text = Vec::new();
    let mut damaged: Option<(usize, _)> = None;
    for message in &messages {
        match payload::text(&message.payload) {
            Some(lines) => text.extend_from_slice(&lines),
            None => damaged = Some((damaged.map_or(0, |(count, _)| count) + 1, &message.subject)),
        }
        // A message with one record has no line feed.
        if text.last().is_some_and(|octet| *octet != b'\n') {
            text.push(b'\n');
        }
    }
    if let Some((messages, subject)) = damaged {
        tracing::warn!(messages, last = %Printable(subject), "messages are damaged and are skipped");
    }
    files.write(&text)?;
    for message in messages {
        // Without the acknowledgement, the server delivers the message again.
        if let Err(error) = message.ack().await {
            tracing::debug!(%error, "cannot acknowledge a message");
        }
    }
    if let Err(error) = client.flush().await {
        tracing::debug!(%error, "cannot acknowledge messages");
    }
    Ok(())
}

/// What the server has for a consumer.
enum Next {
    Messages(Vec<Message>),
    /// No message in the last second.
    Nothing,
    /// No message that is not on the disk.
    Empty,
}

/// Returns the next messages. The server does not answer a request for messages of a consumer that
/// is gone, so without messages it is asked whether the consumer is there.
async fn next(consumer: &mut PullConsumer) -> Result<Next, String> {
    let usual = consumer.batch().max_messages(MESSAGES).max_bytes(OCTETS);
    let messages = match batch(usual).await {
        Ok(messages) => messages,
        // A message of more octets is an error. Alone it has no limit but that of the server.
        Err(_) => batch(consumer.batch().max_messages(1)).await?,
    };
    if !messages.is_empty() {
        return Ok(Next::Messages(messages));
    }
    let info = consumer.info().await.map_err(|error| error.to_string())?;
    Ok(if info.num_pending == 0 && info.num_ack_pending == 0 {
        Next::Empty
    } else {
        Next::Nothing
    })
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
