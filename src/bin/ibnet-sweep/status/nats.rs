//! The samplers according to the last messages of a JetStream stream.

use std::time::Duration;

use async_nats::datetime::DateTime;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use ibnet::output::{self, NatsOptions, OutputError};
use ibnet_record::SweepRecord;

use super::row::Row;
use crate::failure::Failure;
use crate::only_stream::only_stream;
use crate::payload;

/// Max time for a reply of the server. A server that is receiving the spools of many samplers
/// replies late. The replies together have no time limit, because their number is known before
/// they arrive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How far before the last batch of a sampler its last slot is searched, step by step.
const STEPS: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(600),
    Duration::from_secs(86_400),
];

/// Max interval of which two slots are read.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

const HELP: &str = "check that a stream with the subjects `ibnet.>` exists and that this user may read it (`nats stream ls`)";

const SEVERAL: &str =
    "`status` reads one stream: give --from http://HOST:8080, the `ibnet-hub` of each stream";

/// Reads the last slot of each sampler.
pub(super) fn read_all(options: &NatsOptions) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(OutputError::Runtime)?;
    let failed = |reason: String| Failure::Source {
        from: options.shown_server(),
        reason,
        help: HELP,
    };
    let rows = runtime.block_on(async {
        let client = output::connect_nats(options).await?;
        let jetstream = ContextBuilder::new().timeout(TIMEOUT).build(client);
        let stream = only_stream(&jetstream, "ibnet.>", failed, SEVERAL).await?;
        last_slots(&stream).await.map_err(failed)
    });
    runtime.shutdown_background();
    rows
}

/// Reads the last slot of each HCA port of each sampler.
async fn last_slots(stream: &Stream) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    // One filter for all types, because servers before 2.10 reject several filters.
    let last = read(stream, "ibnet.>", DeliverPolicy::LastPerSubject, &mut rows).await?;
    // The last batch of a sampler that has ended contains no `sweep` record.
    for (subject, time) in last.without_sweep {
        for step in STEPS {
            let before = rows.len();
            read(
                stream,
                &subject,
                DeliverPolicy::ByStartTime {
                    start_time: time - step,
                },
                &mut rows,
            )
            .await?;
            if rows.len() > before {
                break;
            }
        }
    }
    // All HCA ports and roles of a sampler have the same subject, so its last message shows only
    // one of them. The last two slots contain all of them.
    let interval = rows
        .iter()
        .map(Row::interval_ns)
        .max()
        .map_or(Duration::ZERO, Duration::from_nanos)
        .min(LONGEST_INTERVAL);
    if let Some(newest) = last.newest {
        for subject in ["ibnet.*.*.sweep", "ibnet.*.*.batch"] {
            read(
                stream,
                subject,
                DeliverPolicy::ByStartTime {
                    start_time: newest - 2 * interval,
                },
                &mut rows,
            )
            .await?;
        }
        for (subject, time) in last
            .with_sweep
            .iter()
            .filter(|(_, time)| *time < newest - interval)
        {
            read(
                stream,
                subject,
                DeliverPolicy::ByStartTime {
                    start_time: *time - 2 * interval,
                },
                &mut rows,
            )
            .await?;
        }
    }
    Ok(rows)
}

/// What a read of messages found, apart from the rows.
#[derive(Default)]
struct Found {
    /// Time of the newest message.
    newest: Option<DateTime>,
    /// Messages with a `sweep` record: subject and time.
    with_sweep: Vec<(String, DateTime)>,
    /// Batches without a `sweep` record: subject and time.
    without_sweep: Vec<(String, DateTime)>,
}

/// Reads messages and adds the `sweep` records among them to the rows.
async fn read(
    stream: &Stream,
    subject: &str,
    policy: DeliverPolicy,
    rows: &mut Vec<Row>,
) -> Result<Found, String> {
    let config = OrderedConfig {
        filter_subject: subject.to_owned(),
        deliver_policy: policy,
        ..OrderedConfig::default()
    };
    let consumer = stream
        .create_consumer(config)
        .await
        .map_err(|error| error.to_string())?;
    let count = consumer.cached_info().num_pending;
    let mut messages = consumer
        .messages()
        .await
        .map_err(|error| error.to_string())?;
    let mut found = Found::default();
    for _ in 0..count {
        let next = tokio::time::timeout(TIMEOUT, messages.next()).await;
        let Some(message) = next.map_err(|_| "the server does not answer".to_owned())? else {
            break;
        };
        let message = message.map_err(|error| error.to_string())?;
        let time = message.info().map_err(|error| error.to_string())?.published;
        found.newest = found.newest.max(Some(time));
        let text = payload::text(&message.payload).ok_or("a message is damaged")?;
        let mut has_sweep = false;
        for line in text
            .split(|octet| *octet == b'\n')
            .filter(|line| line.starts_with(b"{\"type\":\"sweep\""))
        {
            let sweep: SweepRecord<String> =
                serde_json::from_slice(line).map_err(|error| error.to_string())?;
            add(rows, Row::of(sweep));
            has_sweep = true;
        }
        if has_sweep {
            found.with_sweep.push((message.subject.to_string(), time));
        } else if message.subject.ends_with(".batch") {
            found
                .without_sweep
                .push((message.subject.to_string(), time));
        }
    }
    Ok(found)
}

/// Adds a row, or replaces the older row of the same HCA port and role.
fn add(rows: &mut Vec<Row>, new: Row) {
    match rows.iter_mut().find(|row| row.key() == new.key()) {
        Some(row) if row.last_ts >= new.last_ts => {}
        Some(row) => *row = new,
        None => rows.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::example;
    use super::*;

    #[test]
    fn newest_slot_of_an_hca_port_is_kept() {
        let newer = |row: Row| Row {
            last_ts: row.last_ts + 1,
            ..row
        };
        let mut rows = Vec::new();
        for row in [
            example("a"),
            newer(example("a")),
            example("a"),
            example("b"),
            Row {
                ca_port: 2,
                ..example("a")
            },
        ] {
            add(&mut rows, row);
        }
        assert_eq!(
            rows,
            [
                newer(example("a")),
                example("b"),
                Row {
                    ca_port: 2,
                    ..example("a")
                }
            ]
        );
    }
}
