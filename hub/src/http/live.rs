//! The slot stream: one WebSocket message for each slot.
//!
//! A client always gets the newest frame. A slow client gets fewer frames, and the first frame
//! after a gap has the flag [`GAP`]. The hub never waits for a client.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::live::METRICS;
use crate::live::frame::{Frame, GAP, PARTIAL};
use crate::state::Hub;

/// Max size of a client's message in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 4096;

/// A client's request for metrics.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscription {
    metrics: Vec<String>,
}

/// First message of the stream, sent again after each change of the topology.
#[derive(Serialize)]
struct Head<'a> {
    generation: u32,
    metrics: Vec<&'a str>,
    /// For each metric, the value that the number 64000 stands for.
    scales: Vec<f64>,
    interval_ns: u64,
    last_slot: u64,
}

/// Serves a client until it disconnects, or until it does not accept a message in time.
pub(crate) async fn serve(mut socket: WebSocket, hub: &Hub, send_timeout: Duration) {
    let mut frames = hub.frames();
    let mut next = None;
    if stream(&mut socket, hub, &mut frames, &mut next, send_timeout).await {
        return;
    }
    // Frames that a slow client missed before it was disconnected count too.
    let newest = frames.borrow().as_ref().map(|frame| frame.number);
    if let (Some(newest), Some(next)) = (newest, next) {
        hub.add_dropped((newest + 1).saturating_sub(next));
    }
}

/// The newest frame.
type Frames = watch::Receiver<Option<Arc<Frame>>>;

/// Sends the newest frame each time until the client disconnects. `next` becomes the number of the
/// frame after the last one sent. Returns false if the client did not accept a message in time.
async fn stream(
    socket: &mut WebSocket,
    hub: &Hub,
    frames: &mut Frames,
    next: &mut Option<u64>,
    send_timeout: Duration,
) -> bool {
    let mut metrics: Option<Vec<usize>> = None;
    let (mut generation, mut last_slot) = (None, None);
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => match subscribed(&text) {
                    Ok(wanted) => {
                        (metrics, generation) = (Some(wanted), None);
                        // The client gets the newest frame at once.
                        frames.mark_changed();
                    }
                    Err(reason) => {
                        let frame = CloseFrame { code: close_code::POLICY, reason: Utf8Bytes::from(reason) };
                        let _ = timeout(send_timeout, socket.send(Message::Close(Some(frame)))).await;
                        return true;
                    }
                },
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return true,
            },
            changed = frames.changed(), if metrics.is_some() => {
                if changed.is_err() {
                    return true;
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
                    if !send(socket, Message::Text(head.into()), send_timeout).await {
                        return false;
                    }
                }
                let message = encoded(&frame, wanted, &mut last_slot);
                hub.add_dropped(next.map_or(0, |next| frame.number.saturating_sub(next)));
                *next = Some(frame.number + 1);
                // Otherwise a slow client would keep an old frame in memory.
                drop(frame);
                if !send(socket, message, send_timeout).await {
                    return false;
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

async fn send(socket: &mut WebSocket, message: Message, send_timeout: Duration) -> bool {
    matches!(
        timeout(send_timeout, socket.send(message)).await,
        Ok(Ok(()))
    )
}

/// Returns the indices of the metrics of a subscription.
fn subscribed(text: &str) -> Result<Vec<usize>, String> {
    let Subscription { metrics } =
        serde_json::from_str(text).map_err(|_| "expected {\"metrics\": [NAME, ...]}".to_owned())?;
    let find = |name: &String| METRICS.iter().position(|metric| metric == name);
    let found: Option<Vec<usize>> = metrics.iter().map(find).collect();
    let mut found = found.ok_or_else(|| format!("unknown metric; use {}", METRICS.join(", ")))?;
    found.truncate(METRICS.len());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::net::{SocketAddr, TcpStream};
    use std::sync::{Weak, mpsc};
    use std::thread;

    use ibnet::metrics::Secrets;
    use ibnet::topology::net_file;
    use serde_json::json;
    use tungstenite::protocol::WebSocket as Client;

    use super::*;
    use crate::http::app::App;
    use crate::http::routes::router_of;
    use crate::http::server::Server;
    use crate::http::tests::settings;
    use crate::ingest::{self, Clock};
    use crate::input::{Message as Input, What};
    use crate::query::tests::hub;

    /// Number of slots. Their frames are larger than the buffers of a connection.
    const SLOTS: u64 = 150;

    /// Switches of the fabric, and hosts of each switch. A frame has about 150 kB.
    const SWITCHES: u64 = 60;
    const HOSTS: u64 = 200;

    fn net() -> String {
        let mut net = String::new();
        for switch in 1..=SWITCHES {
            for host in 1..=HOSTS {
                let (lid, guid) = (SWITCHES + switch * HOSTS + host, switch * 1000 + host);
                let (ca, sw) = (
                    format!("CA {lid} 1 {guid:#018x}"),
                    format!("SW {switch} {host} {switch:#018x}"),
                );
                writeln!(
                    net,
                    "{ca} 4x EDR - {sw} ( 'n{guid} mlx5_0' - 'leaf{switch}' )"
                )
                .expect("a text");
                writeln!(
                    net,
                    "{sw} 4x EDR - {ca} ( 'leaf{switch}' - 'n{guid} mlx5_0' )"
                )
                .expect("a text");
            }
        }
        net
    }

    fn slot_lines(slot: u64) -> Vec<u8> {
        const SECOND: u64 = 1_000_000_000;
        let port = json!({
            "type": "port", "ts": slot * SECOND + 1000, "slot": slot, "sampler": "s", "guid": "0x0000000000000001", "port": 1, "lid": 1,
            "node": "leaf1", "kind": "switch", "peer_guid": "0x00000000000003e9", "peer_port": 1, "peer": "n1001 mlx5_0", "link": "4xEDR",
            "link_source": "live", "status": "ok", "rtt_ns": 5, "mads": 1, "identity": "ok", "dt_ns": SECOND, "xmit_gbps": 1.0,
            "rcv_gbps": 1.0, "xmit_utilization": 0.5, "rcv_utilization": 0.5, "xmit_blocked": 0.0,
        });
        let sweep = json!({"type": "sweep", "ts": slot * SECOND + 2000, "slot": slot, "sampler": "s", "ca": "x", "ca_port": 1, "role": "primary", "duration_ns": 2000, "ports": 1, "ok": 1});
        format!("{port}\n{sweep}\n").into_bytes()
    }

    /// Serves a hub on its own thread. A client can be slow for a long time.
    fn serve_hub(hub: Arc<Hub>) -> SocketAddr {
        let settings = settings();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut server =
                    Server::bind(settings.listen, Secrets::read(&settings).expect("no files"))
                        .await
                        .expect("bound");
                sender.send(server.address()).expect("the test waits");
                let mut app = App::new(hub, server.access());
                app.send_timeout = Duration::from_secs(3600);
                server.send_timeout = app.send_timeout;
                server.serve(router_of(app)).await;
            });
        });
        receiver.recv().expect("an address")
    }

    fn client(address: SocketAddr) -> Client<TcpStream> {
        let stream = TcpStream::connect(address).expect("connected");
        // The system must not make the buffer of a client that does not read larger.
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 1 << 16).expect("a buffer");
        let (mut client, _) = tungstenite::client(format!("ws://{address}/api/v1/live"), stream)
            .expect("a WebSocket");
        let metrics = json!({"metrics": METRICS}).to_string();
        client
            .send(tungstenite::Message::text(metrics))
            .expect("subscribed");
        client
    }

    /// Returns slot and flags of the next frame.
    fn next(client: &mut Client<TcpStream>) -> (u64, u16) {
        loop {
            if let tungstenite::Message::Binary(frame) = client.read().expect("a message") {
                let number = |at: usize, length: usize| {
                    frame[at..at + length]
                        .iter()
                        .rev()
                        .fold(0_u64, |sum, octet| sum << 8 | u64::from(*octet))
                };
                return (number(8, 8), number(30, 2) as u16);
            }
        }
    }

    #[test]
    fn client_that_does_not_read_misses_frames_and_delays_no_other() {
        let hub = Arc::new(hub(&[]));
        hub.write().add_fabric(
            &net_file::parse(net().as_bytes(), "net")
                .expect("a net file")
                .fabric,
        );
        let address = serve_hub(Arc::clone(&hub));
        let clock = Clock::start();
        let add = |slot: u64| {
            ingest::handle(
                &hub,
                Input {
                    input: 0,
                    live_ns: None,
                    what: What::Lines(slot_lines(slot)),
                },
                clock,
            );
        };
        let start = 1_700_000_000;
        add(start);
        let (mut slow, mut fast) = (client(address), client(address));
        // Both clients have subscribed and got a frame.
        assert_eq!((next(&mut slow).0, next(&mut fast).0), (start, start));
        let mut frames: Vec<Weak<Frame>> = Vec::new();
        for slot in start + 1..=start + SLOTS {
            add(slot);
            frames.extend(hub.frame().as_ref().map(Arc::downgrade));
            assert_eq!(
                next(&mut fast),
                (slot, 0),
                "the client that reads gets every frame"
            );
        }
        let kept = frames
            .iter()
            .filter(|frame| frame.strong_count() > 0)
            .count();
        assert!(
            kept <= 2,
            "the hub keeps {kept} of {SLOTS} frames for a slow client"
        );
        let (mut received, mut gaps) = (0, 0);
        loop {
            let (slot, flags) = next(&mut slow);
            received += 1;
            gaps += u64::from(flags & GAP != 0);
            if slot == start + SLOTS {
                break;
            }
        }
        assert!(
            gaps > 0 && received < SLOTS,
            "{received} of {SLOTS} frames, {gaps} gaps"
        );
        assert_eq!(hub.frames_dropped(), SLOTS - received, "{gaps} gaps");
    }

    #[test]
    fn subscription_names_known_metrics() {
        assert_eq!(
            subscribed(r#"{"metrics":["xmit_blocked","xmit_utilization"]}"#),
            Ok(vec![2, 0])
        );
        for text in [
            "",
            "[]",
            r#"{"metrics":["x"]}"#,
            r#"{"metrics":[],"more":1}"#,
        ] {
            assert!(subscribed(text).is_err(), "{text}");
        }
    }
}
