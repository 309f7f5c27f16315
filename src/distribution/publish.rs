//! Publishes a plan.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::{self, Store};

use super::{DistributionError, HISTORY, PlanStore};
use crate::output::connect_nats;

/// Time for each request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A longer text is compressed. A shorter one can be read by every NATS client.
const COMPRESS_ABOVE: usize = 256 << 10;

/// Level of zstd: plans are published rarely, and read by many samplers.
const LEVEL: i32 = 9;

/// Publishes the text of a plan. Creates the bucket if it does not exist. Returns the revision of the
/// value.
///
/// # Errors
/// Returns an error if the server is unreachable, rejects this user, or does not store the plan.
pub fn publish(store: &PlanStore, text: &str) -> Result<u64, DistributionError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DistributionError::Threads)?;
    let revision = runtime.block_on(async {
        let failed = |reason: String| DistributionError::Publish { store: store.to_string(), reason };
        let client = connect_nats(&store.server).await?;
        let (payload, limit) = (payload(text), client.server_info().max_payload);
        if payload.len() > limit {
            return Err(DistributionError::TooLong { store: store.to_string(), octets: payload.len(), limit });
        }
        let stored = async {
            let bucket = bucket(&jetstream::new(client), &store.bucket).await?;
            bucket.put(&store.key, payload.into()).await.map_err(|error| error.to_string())
        };
        tokio::time::timeout(TIMEOUT, stored).await.unwrap_or_else(|_| Err("the server does not answer".to_owned())).map_err(failed)
    });
    runtime.shutdown_background();
    revision
}

/// Returns a bucket, and creates it if it does not exist.
async fn bucket(jetstream: &jetstream::Context, name: &str) -> Result<Store, String> {
    if let Ok(bucket) = jetstream.get_key_value(name).await {
        return Ok(bucket);
    }
    let description = "plans of ibnet-gen for ibnet-sweep".to_owned();
    let config = kv::Config { bucket: name.to_owned(), description, history: HISTORY, ..kv::Config::default() };
    jetstream.create_key_value(config).await.map_err(|error| error.to_string())
}

fn payload(text: &str) -> Vec<u8> {
    if text.len() <= COMPRESS_ABOVE {
        return text.as_bytes().to_vec();
    }
    // Compression into memory fails only for invalid levels.
    zstd::bulk::compress(text.as_bytes(), LEVEL).unwrap_or_else(|_| text.as_bytes().to_vec())
}
