//! Publishes a plan.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};

use super::{DistributionError, HISTORY, PlanStore};
use crate::output::connect_nats;

/// Max time for each request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Duplicate window: within this time the server detects a value that was sent twice. It is the
/// same as in buckets that other clients create.
const DUPLICATES: Duration = Duration::from_secs(120);

/// Number of bytes above which a text is compressed. Every NATS client can read a shorter one.
const COMPRESS_ABOVE: usize = 256 << 10;

/// Level of zstd. It is high, because plans are published rarely and read by many samplers.
const LEVEL: i32 = 9;

/// Publishes the text of a plan, and creates the bucket if it does not exist. Returns the
/// revision of the value.
///
/// # Errors
/// Returns an error if the server is unreachable, rejects this user, or does not store the plan.
pub fn publish(store: &PlanStore, text: &str) -> Result<u64, DistributionError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DistributionError::Threads)?;
    let revision = runtime.block_on(async {
        let failed = |reason: String| DistributionError::Publish {
            store: store.to_string(),
            reason,
        };
        let client = connect_nats(&store.server).await?;
        let (payload, limit) = (payload(text), client.server_info().max_payload);
        if payload.len() > limit {
            return Err(DistributionError::TooLong {
                store: store.to_string(),
                octets: payload.len(),
                limit,
            });
        }
        let stored = async {
            let bucket = bucket(&jetstream::new(client), &store.bucket).await?;
            bucket
                .put(&store.key, payload.into())
                .await
                .map_err(|error| error.to_string())
        };
        tokio::time::timeout(TIMEOUT, stored)
            .await
            .unwrap_or_else(|_| Err("the server does not answer".to_owned()))
            .map_err(failed)
    });
    runtime.shutdown_background();
    revision
}

/// Returns a bucket, and creates it if it does not exist.
async fn bucket(jetstream: &jetstream::Context, name: &str) -> Result<Store, String> {
    if let Ok(bucket) = jetstream.get_key_value(name).await {
        return Ok(bucket);
    }
    // A bucket is a stream with these settings (NATS architecture, ADR-8). The client's own
    // function for creating buckets fails with servers before 2.10.
    let config = stream::Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        description: Some("plans of ibnet-gen for ibnet-sweep".to_owned()),
        max_messages_per_subject: HISTORY,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: 1,
        duplicate_window: DUPLICATES,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..stream::Config::default()
    };
    jetstream
        .create_stream(config)
        .await
        .map_err(|error| error.to_string())?;
    jetstream
        .get_key_value(name)
        .await
        .map_err(|error| error.to_string())
}

fn payload(text: &str) -> Vec<u8> {
    if text.len() <= COMPRESS_ABOVE {
        return text.as_bytes().to_vec();
    }
    // Compression to memory fails only for invalid levels.
    zstd::bulk::compress(text.as_bytes(), LEVEL).unwrap_or_else(|_| text.as_bytes().to_vec())
}
