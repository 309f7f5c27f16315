//! Finds the stream of a NATS server that stores the records.

use async_nats::Subject;
use async_nats::jetstream::Context;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::Stream;
use serde_json::{Value, json};

use super::failure::Failure;

/// Returns the only stream that has messages with a subject. Several streams are an error: a
/// consumer reads one stream, so the other records would be missing without notice.
///
/// `failed` makes an error from a reason, and `remedy` is the remedy for several streams.
pub(super) async fn only_stream(
    jetstream: &Context,
    subject: &str,
    failed: impl Fn(String) -> Failure,
    remedy: &'static str,
) -> Result<Stream, Failure> {
    // The server would interpret an empty subject as any subject.
    let valid = Subject::validated(subject).map_err(|error| failed(error.to_string()))?;
    let names = match jetstream
        .request("STREAM.NAMES", &json!({ "subject": valid }))
        .await
        .map_err(|error| failed(error.to_string()))?
    {
        Response::Err { error } => return Err(failed(error.to_string())),
        Response::Ok::<Value>(page) => page["streams"].clone(),
    };
    // The server returns null instead of an empty list.
    let mut names: Vec<String> = serde_json::from_value(names).unwrap_or_default();
    names.sort_unstable();
    match &names[..] {
        [] => Err(failed(format!("no stream has the subject {subject}"))),
        [name] => jetstream
            .get_stream(name)
            .await
            .map_err(|error| failed(error.to_string())),
        _ => Err(Failure::SeveralStreams {
            subject: subject.to_owned(),
            streams: names.join(", "),
            help: remedy,
        }),
    }
}
