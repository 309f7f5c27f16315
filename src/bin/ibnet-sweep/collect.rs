//! `ibnet-sweep collect`: writes the records of a JetStream stream to compressed files, which
//! `ibnet-view pack` turns into an archive.
//!
//! The server keeps a message until its records are on the disk, and a durable consumer delivers
//! the message again after a crash. A record can therefore be in two files; the archive stores it
//! once.

mod files;

use std::path::PathBuf;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Message;
use async_nats::jetstream::context::ContextBuilder;
use ibnet::cli::{self, Signals};
use ibnet::config::Raw;
use ibnet::output::durable::{Durable, Next, Unusable, acknowledge};
use ibnet::output::{self, Destination, NatsOptions, OutputError};
use ibnet_record::types::Printable;

use self::files::Files;
use super::failure::Failure;
use super::flags::Flags;
use super::only_stream::only_stream;
use super::payload;

/// Max time for a reply of the server. A server that is receiving the spools of many samplers
/// replies late.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Number of bytes of messages that are written at once.
const OCTETS: usize = 4 << 20;

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
    /// Takes over the configuration file that is given before the command. Returns false if there
    /// are other flags before it.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let Some(config) = before.only_config() else {
            return false;
        };
        let is_twice = config.is_some() && self.config.is_some();
        self.config = self.config.take().or(config);
        !is_twice
    }

    /// Returns the address of the server with its credentials.
    fn server(&self) -> Result<NatsOptions, Failure> {
        let mut raw = self
            .config
            .as_deref()
            .map(Raw::read)
            .transpose()?
            .unwrap_or_default();
        // Only the outputs are needed. The net file that is set here is never read.
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

    /// Returns the error for a folder in which the records cannot be written.
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

/// Opens the consumer, or creates it. Rejects a consumer whose settings would not deliver each
/// record of the subjects until it is on the disk.
async fn consumer(client: &Client, args: &Args, from: &str) -> Result<Durable, Failure> {
    let failed = |reason: String| Failure::Source {
        from: from.to_owned(),
        reason,
        help: HELP,
    };
    let jetstream = ContextBuilder::new().timeout(TIMEOUT).build(client.clone());
    let stream = only_stream(&jetstream, &args.subject, failed, SEVERAL).await?;
    let opened = Durable::open(&stream, &args.consumer, &args.subject, OCTETS).await;
    opened.map_err(|unusable| match unusable {
        Unusable::Server(reason) => failed(reason),
        Unusable::Settings(wrong) => Failure::Consumer {
            consumer: args.consumer.clone(),
            stream: stream.cached_info().config.name.clone(),
            wrong,
        },
    })
}

/// Writes messages. Returns an error if the records cannot be written to the disk, or if the
/// consumer has to be created again and this fails.
async fn collect(
    client: &Client,
    mut consumer: Durable,
    args: &Args,
    from: &str,
    files: &mut Files,
) -> Result<(), Failure> {
    let mut is_failing = false;
    loop {
        files.close_if_due().map_err(|error| args.unusable(error))?;
        match consumer.next().await {
            Ok(next) => {
                if std::mem::take(&mut is_failing) {
                    tracing::info!("the server delivers records again");
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
                    tracing::warn!(error = %Printable(&reason), consumer = args.consumer, "cannot read from the server; trying again, and the server keeps the records until then");
                }
                tokio::time::sleep(PAUSE).await;
                // If a user has deleted the consumer, it is created again, and delivers the whole
                // stream.
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
        // A message with a single record has no line feed.
        if text.last().is_some_and(|octet| *octet != b'\n') {
            text.push(b'\n');
        }
    }
    if let Some((messages, subject)) = damaged {
        tracing::warn!(messages, last = %Printable(subject), "skipping damaged messages; their records are lost");
    }
    files.write(&text)?;
    if let Err(error) = acknowledge(client, messages).await {
        tracing::debug!(%error, "cannot acknowledge messages");
    }
    Ok(())
}
