//! A real NATS server with JetStream on the loopback interface. The tests start, kill and restart
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::stream::Config;
use tokio::task::JoinSet;

use crate::sampler::{FreePort, HANGS, Received, Run, Sampler, notice, signal, wait_for};

/// Returns the path of the server; `None` with a notice if it is not installed.
pub(crate) fn available() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    // `make tools` unpacks the server there.
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("out/tools");
    let folders = std::iter::once(ours).chain(std::env::split_paths(&path));
    let found = folders
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.exists());
    if found.is_none() {
        assert!(
            std::env::var_os("IBNET_REQUIRE_NATS").is_none(),
            "nats-server is not installed: run `make tools`"
        );
        notice("SKIPPED: nats-server is not installed; `make tools` fetches it");
    }
    found
}

/// Returns the configuration of a sampler that writes the file `lines` and to the server on a port
/// of this host. `keys` are more lines of the NATS output.
pub(crate) fn file_and_server(interval: &str, port: u16, keys: &str) -> String {
    format!(
        "interval = \"{interval}\"
        [[output]]
        type = \"file\"
        path = \"lines\"
        [[output]]
        type = \"nats\"
        server = \"nats://127.0.0.1:{port}\"
        {keys}"
    )
}

/// Pause between two attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(20);

/// Number of messages that are read from a server at a time.
const READERS: usize = 32;

/// A server, which is killed on drop.
pub(crate) struct Server<'a> {
    program: PathBuf,
    folder: &'a Path,
    pub(crate) port: u16,
    /// Keeps the port while the server does not run.
    _kept: FreePort,
    /// Configuration without the port and the store.
    config: String,
    child: Child,
}

impl<'a> Server<'a> {
    pub(crate) fn start(program: PathBuf, sampler: &'a Sampler, config: &str) -> Self {
        Self::start_at(FreePort::new(), program, sampler, config)
    }

    fn start_at(port: FreePort, program: PathBuf, sampler: &'a Sampler, config: &str) -> Self {
        let (folder, number) = (sampler.folder(), port.number());
        let child = Self::spawn(&program, folder, number, config);
        Self {
            program,
            folder,
            port: number,
            _kept: port,
            config: config.to_owned(),
            child,
        }
    }

    fn spawn(program: &Path, folder: &Path, port: u16, config: &str) -> Child {
        let store = folder.join("store");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n{config}\n",
            store.display()
        );
        fs::write(folder.join("nats.conf"), text).unwrap();
        Command::new(program)
            .args(["-js", "-c"])
            .arg(folder.join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(folder.join("nats.log"))
                    .unwrap(),
            )
            .spawn()
            .unwrap()
    }

    /// Kills the server without notice to its clients.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub(crate) fn start_again(&mut self) {
        self.child = Self::spawn(&self.program, self.folder, self.port, &self.config);
    }

    /// Connects as soon as the server accepts, and calls `query`.
    pub(crate) fn query<T>(
        &self,
        connect: impl Fn() -> ConnectOptions,
        scheme: &str,
        query: impl AsyncFn(async_nats::jetstream::Context) -> T,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let address = format!("{scheme}://127.0.0.1:{}", self.port);
        let log = || fs::read_to_string(self.folder.join("nats.log")).unwrap_or_default();
        runtime.block_on(async {
            let (mut last, mut waited) = (None, Duration::ZERO);
            while waited < HANGS {
                match connect()
                    .request_timeout(Some(HANGS))
                    .connect(&address)
                    .await
                {
                    Ok(client) => {
                        let mut jetstream = async_nats::jetstream::new(client);
                        jetstream.set_timeout(HANGS);
                        return query(jetstream).await;
                    }
                    Err(error) => last = Some(error),
                }
                tokio::time::sleep(PAUSE).await;
                waited += PAUSE;
            }
            panic!("{last:?}\n{}", log())
        })
    }

    /// Writes a value of a key-value bucket.
    pub(crate) fn put(&self, bucket: &str, key: &str, value: &'static [u8]) {
        self.query(ConnectOptions::new, "nats", async |jetstream| {
            let bucket = jetstream.get_key_value(bucket).await.unwrap();
            bucket.put(key, value.into()).await.unwrap();
        });
    }

    pub(crate) fn add_stream(&self, connect: impl Fn() -> ConnectOptions, scheme: &str) {
        let config = || Config {
            name: "IBNET".to_owned(),
            subjects: vec!["ibnet.>".to_owned()],
            ..Config::default()
        };
        // JetStream may need a moment after the first connection.
        self.query(connect, scheme, async |jetstream| {
            let mut waited = Duration::ZERO;
            while let Err(error) = jetstream.get_or_create_stream(config()).await {
                assert!(waited < HANGS, "JetStream is not available: {error}");
                tokio::time::sleep(PAUSE).await;
                waited += PAUSE;
            }
        });
    }

    pub(crate) fn remove_stream(&self) {
        self.query(ConnectOptions::new, "nats", async |jetstream| {
            jetstream.delete_stream("IBNET").await.unwrap()
        });
    }

    pub(crate) fn delete_consumer(&self, name: &str) {
        self.query(ConnectOptions::new, "nats", async |jetstream| {
            jetstream
                .get_stream("IBNET")
                .await
                .unwrap()
                .delete_consumer(name)
                .await
                .unwrap();
        });
    }

    /// Returns all messages of the stream by subject, decompressed and without their last line
    /// feed.
    pub(crate) fn messages(
        &self,
        connect: impl Fn() -> ConnectOptions,
        scheme: &str,
    ) -> BTreeMap<String, Vec<String>> {
        self.query(connect, scheme, async |jetstream| {
            let mut stream = jetstream.get_stream("IBNET").await.unwrap();
            let state = stream.info().await.unwrap().state.clone();
            // Many requests at a time: each one waits for the server.
            let mut readers = JoinSet::new();
            for first in 0..READERS {
                let (stream, numbers) = (
                    stream.clone(),
                    (state.first_sequence..=state.last_sequence)
                        .skip(first)
                        .step_by(READERS),
                );
                readers.spawn(async move {
                    let mut read = Vec::new();
                    for number in numbers {
                        read.push((number, stream.get_raw_message(number).await.unwrap()));
                    }
                    read
                });
            }
            let mut all: BTreeMap<_, _> = readers.join_all().await.into_iter().flatten().collect();
            let mut messages: BTreeMap<_, Vec<_>> = BTreeMap::new();
            while let Some((_, message)) = all.pop_first() {
                let mut text = message.payload.to_vec();
                if message
                    .headers
                    .get("Content-Encoding")
                    .is_some_and(|encoding| encoding.as_str() == "zstd")
                {
                    text = zstd::stream::decode_all(&text[..]).unwrap();
                }
                let text = String::from_utf8(text).unwrap();
                messages
                    .entry(message.subject.to_string())
                    .or_default()
                    .push(text.trim_end_matches('\n').to_owned());
            }
            messages
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.query(
            ConnectOptions::new,
            "nats",
            async |jetstream| match jetstream.get_stream("IBNET").await {
                Ok(mut stream) => stream.info().await.map_or(0, |info| info.state.messages),
                Err(_) => 0,
            },
        )
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn slots(sampler: &Sampler) -> usize {
    sampler
        .read_now("lines")
        .matches("{\"type\":\"sweep\"")
        .count()
}

/// Checks that the sampler ended without a loss: by its end, the server had acknowledged every
/// record.
#[track_caller]
pub(crate) fn complete(run: &Run) {
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Returns the number of records that the output had dropped after the last record that could
/// report it, or had not published at its end.
#[track_caller]
pub(crate) fn dropped_at_the_end(run: &Run, server: &Server<'_>) -> u64 {
    let dropped = run.unwritten(&format!("nats://127.0.0.1:{}", server.port));
    assert_eq!(run.code, if dropped > 0 { 4 } else { 0 }, "{}", run.stderr);
    dropped
}

/// Checks that the messages are the records of the file, each once, except for those of which an
/// event reports the loss, and for those dropped at the end.
#[track_caller]
pub(crate) fn same(
    messages: BTreeMap<String, Vec<String>>,
    file: &Received,
    dropped: u64,
) -> Received {
    let text: String = messages
        .into_values()
        .flatten()
        .map(|line| line + "\n")
        .collect();
    let received = Received::of(&text);
    assert!(received.starts.len() == 1 && received.lines.is_subset(&file.lines));
    let missing = (file.lines.len() - received.lines.len()) as u64;
    assert_eq!(
        missing,
        received.lost + dropped,
        "{} and {dropped} reported",
        received.lost
    );
    received
}

/// The server is unreachable at first. Then it is suspended until acknowledgements time out, and
/// continued. Then it is suspended with records that it did not store, and killed. At last it is
/// killed while it runs. Every record arrives once.
#[test]
fn restarted_server_has_every_record_once() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    server.kill();
    sampler.configure(&file_and_server(
        "50ms",
        server.port,
        "fabric = \"two words.*\"",
    ));
    let running = sampler.start();
    let more_slots = |count: usize| {
        let before = slots(&sampler);
        wait_for("slots", || slots(&sampler) > before + count);
    };
    let more_messages = |server: &Server<'_>| {
        let before = server.count();
        wait_for("messages", || server.count() > before + 100);
    };
    running.wait_for_log("cannot publish; records are buffered", 1);
    more_slots(10);
    server.start_again();
    // The output logs this when the server has a whole window of records. A slow server can have
    // many records before that.
    running.wait_for_log("the NATS server accepts records again", 1);
    server.signal("STOP");
    running.wait_for_log("no acknowledgement", 1);
    server.signal("CONT");
    running.wait_for_log("the NATS server accepts records again", 2);
    server.signal("STOP");
    more_slots(10);
    server.kill();
    running.wait_for_log("disconnected from the NATS server; records are buffered", 1);
    server.start_again();
    more_messages(&server);
    server.kill();
    more_slots(10);
    server.start_again();
    more_messages(&server);
    complete(&running.stop("TERM"));
    let messages = server.messages(ConnectOptions::new, "nats");
    let subjects: BTreeSet<_> = messages.keys().map(String::as_str).collect();
    let expected = ["event", "histogram", "port", "start", "sweep"]
        .map(|kind| format!("ibnet.two_words__.node00001.{kind}"));
    assert!(
        subjects
            .iter()
            .all(|subject| expected.iter().any(|one| one == subject))
            && subjects.len() >= 4,
        "{subjects:?}"
    );
    for (subject, texts) in &messages {
        let kind = subject.rsplit('.').next().unwrap();
        assert!(
            texts
                .iter()
                .all(|text| text.starts_with(&format!("{{\"type\":\"{kind}\","))),
            "{subject}"
        );
    }
    let received = same(messages, &Received::of(&sampler.read("lines")), 0);
    assert_eq!(received.lost, 0);
}

/// Accepts a connection as a NATS server does. Returns `None` if the client closes it before it is
/// ready: the client connects again by itself after some attacks, before the output replaces it.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let (mut stream, _) = listener.accept().unwrap();
    let info = format!(
        "INFO {{\"server_id\":\"X\",\"server_name\":\"X\",\"version\":\"2.10.0\",\"go\":\"go1\",\"host\":\"127.0.0.1\",\"port\":{},\
         \"max_payload\":1048576,\"proto\":1,\"client_id\":1,\"headers\":true}}\r\n",
        listener.local_addr().unwrap().port()
    );
    stream.write_all(info.as_bytes()).ok()?;
    let mut received = Vec::new();
    while !received.windows(4).any(|window| window == b"PING") {
        let mut octets = [0; 4096];
        let read = stream.read(&mut octets).ok().filter(|read| *read > 0)?;
        received.extend_from_slice(&octets[..read]);
    }
    stream.write_all(b"PONG\r\n").ok()?;
    Some(stream)
}

/// Accepts one connection and sends `attack`. Then sends zeros until the client closes the
/// connection, or until `most` octets are sent. Returns the number of octets.
fn attack(listener: &TcpListener, attack: &[u8], most: u64) -> u64 {
    let mut stream = std::iter::repeat_with(|| accept(listener))
        .flatten()
        .next()
        .unwrap();
    let mut sent = 0;
    let zeros = vec![0; 1 << 20];
    if stream.write_all(attack).is_ok() {
        while sent < most && stream.write_all(&zeros).is_ok() {
            sent += zeros.len() as u64;
        }
    }
    sent
}

/// A server announces messages of impossible sizes. The memory of the process stays bounded, and
/// the server that follows at the same address has every record once.
#[test]
fn hostile_server_neither_fills_the_memory_nor_stops_the_output() {
    /// The server never sends more, so that a failed test does not fill the memory of the machine.
    const MAX: u64 = 1 << 30;
    let Some(program) = available() else { return };
    let port = FreePort::new();
    let listener = TcpListener::bind(("127.0.0.1", port.number())).unwrap();
    let sampler = Sampler::new(&file_and_server("50ms", port.number(), ""));
    let running = sampler.start();
    for message in [
        "MSG x 1 99999999999\r\n",
        "HMSG x 1 10 99999999999\r\n",
        "no line feed ",
        "MSG x 1 18446744073709551615\r\n",
    ] {
        let sent = attack(&listener, message.as_bytes(), MAX);
        assert!(sent < MAX, "{message:?}: the client received {sent} octets");
    }
    drop(listener);
    let mut server = Server::start_at(port, program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    let run = running.stop("TERM");
    assert!(
        run.stderr
            .contains("the server sent more than 16 MiB without a complete message"),
        "{}",
        run.stderr
    );
    complete(&run);
    let received = same(
        server.messages(ConnectOptions::new, "nats"),
        &Received::of(&sampler.read("lines")),
        0,
    );
    assert!(received.lines.len() > 20 && received.lost == 0);
    server.kill();
}

#[test]
fn records_beyond_the_buffer_are_reported_exactly() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    server.kill();
    sampler.configure(&file_and_server("10ms", server.port, "buffer_mib = 1"));
    let running = sampler.start();
    running.wait_for_log("the buffer is full; records are dropped", 1);
    running.wait_for_log("cannot publish; records are buffered", 1);
    server.start_again();
    // The next records report the loss.
    running.wait_for_log("the NATS server accepts records again", 1);
    let before = slots(&sampler);
    wait_for("slots", || slots(&sampler) > before + 3);
    let dropped = dropped_at_the_end(&running.stop("TERM"), &server);
    let received = same(
        server.messages(ConnectOptions::new, "nats"),
        &Received::of(&sampler.read("lines")),
        dropped,
    );
    assert!(received.lost > 0);
}

#[test]
fn stop_with_an_unreachable_server_reports_every_record() {
    let sampler = Sampler::new(
        "interval = \"20ms\"
        drain = \"200ms\"
        [[output]]
        type = \"file\"
        path = \"lines\"
        [[output]]
        type = \"nats\"
        server = \"nats://127.0.0.1:PORT\"",
    );
    let running = sampler.start();
    wait_for("slots", || slots(&sampler) > 5);
    running.wait_for_log("cannot publish; records are buffered", 1);
    let run = running.stop("TERM");
    let lines = Received::of(&sampler.read("lines"));
    // On a busy machine, the file may have no time for the last slot either.
    let all = lines.lines.len() as u64 + run.unwritten("lines");
    // The `start` record counts too.
    let server = sampler.text_of("nats://127.0.0.1:PORT");
    assert_eq!(
        (run.code, run.unwritten(&server)),
        (4, all + 1),
        "{}",
        run.stderr
    );
    let error = format!("error: cannot write all records to {server} (last error: ");
    let dropped = format!(
        "): {} records were dropped at the end\n",
        all + 1 + run.unwritten("lines")
    );
    assert!(
        run.stderr.contains(&error) && run.stderr.contains(&dropped),
        "{}",
        run.stderr
    );
}

/// Makes a self-signed certificate for 127.0.0.1 and its key. Returns false without openssl.
fn certificate(folder: &Path) -> bool {
    let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
                -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out cert.pem";
    Command::new("openssl")
        .current_dir(folder)
        .args(args.split_whitespace())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The server requires TLS and credentials (a user's key as written by `nsc`).
#[test]
fn server_with_tls_and_credentials_receives_every_record() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    if !certificate(sampler.folder()) {
        assert!(
            std::env::var_os("IBNET_REQUIRE_NATS").is_none(),
            "openssl is not installed: run `make tools`"
        );
        return notice("SKIPPED: openssl is not installed; `make tools` fetches it");
    }
    let in_folder = |name: &str| sampler.path(name).display().to_string();
    let (operator, account, user) = (
        nkeys::KeyPair::new_operator(),
        nkeys::KeyPair::new_account(),
        nkeys::KeyPair::new_user(),
    );
    let credentials = jwt::credentials(&account, &user);
    fs::write(sampler.path("user.creds"), &credentials).unwrap();
    let config = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n{}",
        in_folder("cert.pem"),
        in_folder("key.pem"),
        jwt::server(&operator, &account)
    );
    let server = Server::start(program, &sampler, &config);
    let connect = || {
        ConnectOptions::new()
            .credentials(&credentials)
            .unwrap()
            .add_root_certificates(sampler.path("cert.pem"))
    };
    server.add_stream(connect, "tls");
    let configure = |drain: &str, credentials: &str| {
        sampler.configure(&format!(
            "interval = \"50ms\"
            drain = \"{drain}\"
            [[output]]
            type = \"file\"
            path = \"lines\"
            [[output]]
            type = \"nats\"
            server = \"tls://127.0.0.1:{}\"
            ca_file = \"cert.pem\"
            credentials = \"{credentials}\"",
            server.port
        ));
    };
    configure("10m", "user.creds");
    let running = sampler.start();
    wait_for("slots", || slots(&sampler) > 5);
    complete(&running.stop("TERM"));
    let received = same(
        server.messages(connect, "tls"),
        &Received::of(&sampler.read("lines")),
        0,
    );
    assert!(received.lines.len() > 20 && received.lost == 0);

    // Without credentials the server rejects the connection, and the log has the reason.
    fs::remove_file(sampler.path("lines")).unwrap();
    configure("200ms", "");
    let running = sampler.start();
    wait_for("slots", || slots(&sampler) > 5);
    running.wait_for_log("cannot publish; records are buffered", 1);
    let run = running.stop("TERM");
    assert_eq!(run.code, 4, "{}", run.stderr);
    configure("200ms", "nowhere.creds");
    let run = sampler.command().output().unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(
        run.status.code() == Some(1)
            && text.starts_with("error: cannot connect to the NATS server tls://")
            && text.contains("nowhere.creds cannot be used"),
        "{text}"
    );
}

/// The minimal set that `nsc` makes: an operator signs an account, and the account signs a user.
mod jwt {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use nkeys::KeyPair;
    use serde_json::{Value, json};

    fn signed(by: &KeyPair, of: &KeyPair, name: &str, nats: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
        let claims = json!({"jti": name, "iat": 1_700_000_000, "iss": by.public_key(), "name": name, "sub": of.public_key(), "nats": nats});
        let text = format!("{head}.{}", part(&claims));
        let signature = by.sign(text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the server's configuration.
    pub(crate) fn server(operator: &KeyPair, account: &KeyPair) -> String {
        let own = signed(
            operator,
            operator,
            "operator",
            &json!({"type": "operator", "version": 2}),
        );
        let system = KeyPair::new_account();
        let limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
            "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1});
        let of = |account: &KeyPair, limits: &Value| {
            signed(
                operator,
                account,
                "account",
                &json!({"type": "account", "version": 2, "limits": limits}),
            )
        };
        let plain = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1});
        format!(
            "operator: {own}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}",
            system.public_key(),
            account.public_key(),
            of(account, &limits),
            system.public_key(),
            of(&system, &plain)
        )
    }

    /// Returns the credentials file of the user.
    pub(crate) fn credentials(account: &KeyPair, user: &KeyPair) -> String {
        let jwt = signed(
            account,
            user,
            "sampler",
            &json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}),
        );
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        )
    }
}
