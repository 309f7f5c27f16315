//! The stream of slots: one WebSocket message for each slot.
//!
//! A client always gets the newest frame. If it reads slowly, it gets fewer frames, and the first
//! frame after a gap has the flag [`GAP`]. The hub never waits for a client.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::live::METRICS;
use crate::live::frame::{Frame, GAP, PARTIAL};
use crate::state::Hub;

/// Time in which a client must accept a message. Then the connection is closed.
const SEND: Duration = Duration::from_secs(30);

/// Largest message of a client in octets.
pub(crate) const LONGEST_MESSAGE: usize = 4096;

/// Request of a client for metrics.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscription {
    metrics: Vec<String>,
}

/// First message, and the message after each change of the topology.
#[derive(Serialize)]
struct Head<'a> {
    generation: u32,
    metrics: Vec<&'a str>,
    /// Value of the number 64000 of each metric.
    scales: Vec<f64>,
    interval_ns: u64,
    last_slot: u64,
}

/// Serves a client until it disconnects.
pub(crate) async fn serve(mut socket: WebSocket, hub: Arc<Hub>) {
    let mut frames = hub.frames();
    let mut metrics: Option<Vec<usize>> = None;
    let (mut generation, mut last_slot) = (None, None);
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => match subscribed(&text) {
                    Ok(wanted) => {
                        (metrics, generation) = (Some(wanted), None);
                        // The newest frame is sent at once.
                        frames.mark_changed();
                    }
                    Err(reason) => {
                        let frame = CloseFrame { code: close_code::POLICY, reason: Utf8Bytes::from(reason) };
                        let _ = timeout(SEND, socket.send(Message::Close(Some(frame)))).await;
                        return;
                    }
                },
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            changed = frames.changed(), if metrics.is_some() => {
                if changed.is_err() {
                    return;
                }
                let frame = frames.borrow_and_update().clone();
                let (Some(frame), Some(wanted)) = (frame, &metrics) else { continue };
                if generation != Some(frame.topology.generation) {
                    generation = Some(frame.topology.generation);
                    let head = Head {
                        generation: frame.topology.generation,
                        metrics: wanted.iter().filter_map(|metric| METRICS.get(*metric).copied()).collect(),
                        scales: vec![1.0; wanted.len()],
                        interval_ns: hub.read().samplers.interval_ns(),
                        last_slot: frame.slot,
                    };
                    let head = serde_json::to_string(&head).unwrap_or_default();
                    if !send(&mut socket, Message::Text(head.into())).await {
                        return;
                    }
                }
                if !send(&mut socket, encoded(&frame, wanted, &mut last_slot)).await {
                    return;
                }
            }
        }
    }
}

fn encoded(frame: &Frame, metrics: &[usize], last_slot: &mut Option<u64>) -> Message {
    let before = last_slot.replace(frame.slot);
    let has_gap = before.is_some_and(|before| frame.slot > before.saturating_add(1));
    let flags = if has_gap { GAP } else { 0 } | if frame.is_partial { PARTIAL } else { 0 };
    Message::Binary(Bytes::from(frame.encode(metrics, flags)))
}

async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(timeout(SEND, socket.send(message)).await, Ok(Ok(())))
}

/// Returns the indices of the metrics of a subscription.
fn subscribed(text: &str) -> Result<Vec<usize>, String> {
    let Subscription { metrics } = serde_json::from_str(text).map_err(|_| "expected {\"metrics\": [NAME, ...]}".to_owned())?;
    let find = |name: &String| METRICS.iter().position(|metric| metric == name);
    let found: Option<Vec<usize>> = metrics.iter().map(find).collect();
    let mut found = found.ok_or_else(|| format!("unknown metric; use {}", METRICS.join(", ")))?;
    found.truncate(METRICS.len());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscription_names_known_metrics() {
        assert_eq!(subscribed(r#"{"metrics":["xmit_blocked","xmit_utilization"]}"#), Ok(vec![2, 0]));
        for text in ["", "[]", r#"{"metrics":["x"]}"#, r#"{"metrics":[],"more":1}"#] {
            assert!(subscribed(text).is_err(), "{text}");
        }
    }
}
