//! Input from a real NATS server with JetStream.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use async_nats::jetstream::Context;
use serde_json::{Value, json};

use super::hub::{Hub, tool};
use super::{archive, lines, start_line};

/// Returns a port that no program uses. It is below the ports that the system hands out, so that no
/// other test gets it while the server does not run.
fn port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    // Tests that run at the same time begin at different ports, in other processes and in this one.
    static TESTS: AtomicU32 = AtomicU32::new(0);
    let begin = ((std::process::id() + 1000 * TESTS.fetch_add(1, Ordering::Relaxed))
        % u32::from(COUNT)) as u16;
    let mut all = (0..COUNT).map(|place| FIRST + (begin + place) % COUNT);
    all.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// A server, which is killed on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &Path, folder: &Path, port: u16) -> Self {
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n",
            folder.join("store").display()
        );
        fs::write(folder.join("nats.conf"), text).unwrap();
        let mut command = Command::new(program);
        command
            .args(["-js", "-c"])
            .arg(folder.join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().unwrap(),
            port,
        }
    }

    /// Calls a function with the JetStream context of a new connection.
    fn connected<R>(&self, work: impl AsyncFnOnce(Context) -> R) -> R {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
            let client = options
                .connect(format!("nats://127.0.0.1:{}", self.port))
                .await
                .unwrap();
            work(async_nats::jetstream::new(client)).await
        })
    }

    /// Publishes records, one message for each, to a stream that has all of them.
    fn publish(&self, text: &str) {
        self.connected(async |jetstream| {
            let config = || async_nats::jetstream::stream::Config {
                name: "IBNET".to_owned(),
                subjects: vec!["ibnet.>".to_owned()],
                ..Default::default()
            };
            // JetStream may need a moment after the first connection.
            while jetstream.get_or_create_stream(config()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            for line in text.lines() {
                jetstream
                    .publish("ibnet.test.s.port", line.to_owned().into())
                    .await
                    .unwrap()
                    .await
                    .unwrap();
            }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn records_of_a_stream_are_read_from_the_past_on() {
    let Some(program) = tool("nats-server") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let server = Server::start(&program, folder.path(), port);
    server.publish(&(start_line("s", 1) + &lines("s", 100, 0.5)));
    let url = format!("nats://127.0.0.1:{port}/ibnet.test.>");
    let hub = Hub::start(&["--input", &format!("{url}?stream=IBNET"), "--input", &url]);
    let health = hub.wait_for("health", |health| {
        health["records"] == 1 && health["inputs"][1]["connected"] == true
    });
    assert_eq!(health["inputs"][1]["lines"], 0, "core NATS has no past");
    // The subscription of the second input may not be complete, so records are sent until they
    // arrive over both inputs.
    let mut slot = 101;
    hub.wait_for("health", |health| {
        server.publish(&lines("s", slot, 0.5));
        slot += 1;
        health["counts"]["copies"].as_u64().unwrap() > 0
            && health["inputs"][1]["lines"].as_u64().unwrap() > 0
    });
    drop(server);
    hub.wait_for("health", |health| health["inputs"][0]["connected"] == false);
    let server = Server::start(&program, folder.path(), port);
    server.publish(&lines("s", 1000, 0.25));
    // The start record, and two records of each slot.
    let sent = 1 + 2 * (slot - 100 + 1);
    let health = hub.wait_for("health", |health| {
        let input = &health["inputs"][0];
        health["last_slot"] == 1000
            && input["connected"] == true
            && input["lines"].as_u64() >= Some(sent)
    });
    let input = &health["inputs"][0];
    assert!(input["lost"].as_u64() >= Some(1), "{health}");
    assert_eq!(input["lines"], sent, "no record comes again: {health}");
    let is_last = |series: &Value| {
        series["v"].as_array().and_then(|values| values.last()) == Some(&json!(1000))
    };
    hub.wait_for(
        "series?port=0x0000000000000001/1&metric=port_xmit_pkts",
        is_last,
    );
}

/// This server reports an error, as a real one does for a subject that is not permitted, and goes on.
#[test]
fn input_stays_connected_when_the_server_refuses_something() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let text = format!(
            "INFO {{\"server_id\":\"x\",\"version\":\"2.10.0\",\"host\":\"127.0.0.1\",\"port\":{port},\"headers\":true,\"max_payload\":1048576,\"proto\":1}}\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let Ok(line) = line else { return };
            let words: Vec<_> = line.split_whitespace().collect();
            let answer = match words[..] {
                ["PING"] => "PONG\r\n".to_owned(),
                ["SUB", _, id] => {
                    let record = lines("s", 100, 0.5);
                    let length = record.len();
                    format!(
                        "-ERR 'Permissions Violation for Publish to \"x\"'\r\nMSG ibnet.a {id} {length}\r\n{record}\r\n"
                    )
                }
                _ => continue,
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let hub = Hub::start(&["--input", &format!("nats://127.0.0.1:{port}/ibnet.>")]);
    let health = hub.wait_for("health", |health| {
        health["records"] == 1 && !health["inputs"][0]["error"].is_null()
    });
    let input = &health["inputs"][0];
    assert_eq!(
        (&input["connected"], &input["connections"], &input["lost"]),
        (&json!(true), &json!(1), &json!(0)),
        "{health}"
    );
    assert_eq!(hub.get("events")["rows"][0]["event"], "input_refused");
}

#[test]
fn stream_is_archived_although_the_hub_is_killed() {
    let Some(program) = tool("nats-server") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let server = Server::start(&program, folder.path(), port);
    let mut sent = start_line("s", 1) + &lines("s", 100, 0.5) + &lines("s", 101, 0.5);
    server.publish(&sent);
    let root = folder.path().join("archive");
    let arguments = archive::arguments(folder.path(), &root);
    let input = format!("nats://127.0.0.1:{port}/ibnet.test.>?stream=IBNET");
    let hub = archive::start(&arguments, &[&input]);
    // The records of this time are older than `recent`, but the stream has them.
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    drop(hub);
    let more = lines("s", 102, 0.5) + &lines("s", 103, 0.5);
    server.publish(&more);
    sent += &more;
    let hub = archive::start(&arguments, &[&input]);
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    let health = hub.get("health");
    assert_eq!(
        health["archive"]["copies"], 0,
        "only what was not acknowledged is delivered again: {health}"
    );
}

#[test]
fn consumer_or_stream_that_is_deleted_is_reported_and_read_again() {
    let Some(program) = tool("nats-server") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let server = Server::start(&program, folder.path(), port);
    let mut sent = start_line("s", 1) + &lines("s", 100, 0.5);
    server.publish(&sent);
    let root = folder.path().join("archive");
    let arguments = archive::arguments(folder.path(), &root);
    let hub = archive::start(
        &arguments,
        &[&format!(
            "nats://127.0.0.1:{port}/ibnet.test.>?stream=IBNET"
        )],
    );
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    server.connected(async |jetstream| {
        let stream = jetstream.get_stream("IBNET").await.unwrap();
        stream
            .delete_consumer("ibnet-hub-ibnet_test_all")
            .await
            .unwrap();
    });
    let more = lines("s", 101, 0.5);
    server.publish(&more);
    sent += &more;
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    // A server that comes back without the consumer does not answer requests for its messages.
    drop(server);
    fs::remove_dir_all(folder.path().join("store/jetstream/$G/streams/IBNET/obs")).unwrap();
    let server = Server::start(&program, folder.path(), port);
    let more = lines("s", 103, 0.5);
    server.publish(&more);
    sent += &more;
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    server.connected(async |jetstream| jetstream.delete_stream("IBNET").await.unwrap());
    hub.wait_for("health", |health| {
        health["archive"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("check that the server runs"))
    });
    let more = lines("s", 102, 0.5);
    server.publish(&more);
    sent += &more;
    archive::wait_for_archive(&hub, &root, &archive::expected(&sent));
    hub.wait_for("health", |health| {
        health["archive"]["error"]
            .as_str()
            .is_none_or(|error| !error.contains("check that the server"))
    });
}
