//! Scrapes of the metrics with a valid password while other clients hold many connections.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::metrics::{serve, status};

const PASSWORD: &str = "sixteen-letters!";

/// Time after which a scrape fails: the default `scrape_timeout` of Prometheus.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of connections that an attack holds: more than the server has places.
const CONNECTIONS: usize = 200;

/// Holds connections until it is dropped. A closed connection is opened again at once.
struct Attack {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Attack {
    /// Starts an attack. Each connection sends `first`, and then `again` without end and slowly.
    fn start(address: SocketAddr, first: &'static [u8], again: &'static [u8]) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let rounds = Arc::<AtomicU64>::default();
        let (over, counter) = (Arc::clone(&is_over), Arc::clone(&rounds));
        let thread = thread::spawn(move || {
            let open = || {
                let mut stream = TcpStream::connect(address).ok()?;
                stream.set_nonblocking(true).ok()?;
                stream.write_all(first).ok()?;
                Some(stream)
            };
            let mut streams: Vec<Option<TcpStream>> = (0..CONNECTIONS).map(|_| None).collect();
            while !over.load(Ordering::Relaxed) {
                for stream in &mut streams {
                    let is_alive = stream.as_mut().is_some_and(|stream| {
                        let is_open =
                            stream.read(&mut [0; 64]).map_or_else(|error| error.kind() == std::io::ErrorKind::WouldBlock, |read| read > 0);
                        is_open && stream.write_all(again).is_ok()
                    });
                    if !is_alive {
                        *stream = open();
                    }
                }
                counter.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        while rounds.load(Ordering::Relaxed) < 2 {
            thread::sleep(Duration::from_millis(5));
        }
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SCRAPE_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(SCRAPE_TIMEOUT)).unwrap();
    stream
}

/// Scrapes once with the password. Returns the answer, which is empty after [`SCRAPE_TIMEOUT`].
fn scrape(mut stream: impl Read + Write) -> String {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nAuthorization: Bearer {PASSWORD}\r\n\r\n"
    );
    let mut answer = Vec::new();
    // An error shows in the answer, which is not complete.
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[track_caller]
fn assert_complete(answer: &str, attack: &str) {
    assert!(status(answer) == "200" && answer.ends_with("# EOF\n"), "{attack}: {answer:?}");
}

#[test]
fn scrapes_with_the_password_work_during_attacks() {
    let (address, _folder) = serve(None, Some(PASSWORD));
    for (attack, first, again) in [
        ("silent", &b""[..], &b""[..]),
        ("slow header", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ", b"x"),
        ("no password", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
        ("wrong password, slow body", b"POST /metrics HTTP/1.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 9999999\r\n\r\n", b"x"),
    ] {
        let _attack = Attack::start(address, first, again);
        for _ in 0..5 {
            assert_complete(&scrape(connect(address)), attack);
        }
    }
}

#[test]
fn scrapes_over_tls_work_during_attacks() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let (address, _folder) = serve(Some((&cert, &key)), Some(PASSWORD));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(own.cert.der().to_vec())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    for (attack, first, again) in [
        ("silent handshake", &b""[..], &b""[..]),
        // The header of a record of 512 octets: a ClientHello, which then arrives octet by octet.
        ("slow handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00"),
    ] {
        let _attack = Attack::start(address, first, again);
        for _ in 0..5 {
            let client = ClientConnection::new(Arc::clone(&config), "localhost".try_into().unwrap()).unwrap();
            assert_complete(&scrape(StreamOwned::new(client, connect(address))), attack);
        }
    }
}
