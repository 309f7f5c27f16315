//! The samplers as the last messages of a JetStream stream show them.

use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures_util::StreamExt;
use ibnet::output::{self, NatsOptions, OutputError};
use ibnet::record::SweepRecord;

use super::row::Row;
use crate::failure::Failure;
use crate::payload;

/// Time for all requests together.
const TIMEOUT: Duration = Duration::from_secs(30);

const HELP: &str = "check that a stream with the subjects `ibnet.>` exists and that this user may read it (`nats stream ls`)";

/// Reads the last slot of each sampler.
pub(super) fn read(options: &NatsOptions) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(OutputError::Runtime)?;
    let failed = |reason: String| Failure::Source { from: options.shown_server(), reason, help: HELP };
    let rows = runtime.block_on(async {
        let client = output::connect_nats(options).await?;
        let last = tokio::time::timeout(TIMEOUT, last_messages(client)).await;
        last.unwrap_or_else(|_| Err("the server does not answer".to_owned())).map_err(failed)
    });
    runtime.shutdown_background();
    rows
}

/// Reads the last message of each subject that can have a `sweep` record.
async fn last_messages(client: async_nats::Client) -> Result<Vec<Row>, String> {
    let jetstream = async_nats::jetstream::new(client);
    let name = jetstream.stream_by_subject("ibnet.>").await.map_err(|error| error.to_string())?;
    let stream = jetstream.get_stream(name).await.map_err(|error| error.to_string())?;
    let config = OrderedConfig {
        filter_subjects: ["ibnet.*.*.sweep", "ibnet.*.*.batch"].map(str::to_owned).to_vec(),
        deliver_policy: DeliverPolicy::LastPerSubject,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(|error| error.to_string())?;
    let count = consumer.cached_info().num_pending;
    let mut messages = consumer.messages().await.map_err(|error| error.to_string())?;
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..count {
        let Some(message) = messages.next().await else { break };
        let message = message.map_err(|error| error.to_string())?;
        let text = payload::text(&message.payload).ok_or("a message is damaged")?;
        for line in text.split(|octet| *octet == b'\n').filter(|line| line.starts_with(b"{\"type\":\"sweep\"")) {
            let sweep: SweepRecord<String> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
            add(&mut rows, Row::of(sweep));
        }
    }
    Ok(rows)
}

/// Adds a row, or replaces the older row of the same HCA port.
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
        let newer = |row: Row| Row { last_ts: row.last_ts + 1, ..row };
        let mut rows = Vec::new();
        for row in [example("a"), newer(example("a")), example("a"), example("b"), Row { ca_port: 2, ..example("a") }] {
            add(&mut rows, row);
        }
        assert_eq!(rows, [newer(example("a")), example("b"), Row { ca_port: 2, ..example("a") }]);
    }
}
