//! Scrapes of the metrics with a valid password while other clients hold many connections.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::metrics::{serve, status};
use crate::HANGS;

const PASSWORD: &str = "sixteen-letters!";

/// Number of connections that an attack holds: more than the server has places.
const CONNECTIONS: usize = 200;

/// An attack with many connections. Each sends `first`, and then `again` without end and slowly.
struct Attack {
    address: SocketAddr,
    first: &'static [u8],
    again: &'static [u8],
    streams: Vec<TcpStream>,
}

impl Attack {
    fn start(address: SocketAddr, first: &'static [u8], again: &'static [u8]) -> Self {
        Self {
            address,
            first,
            again,
            streams: (0..CONNECTIONS).map(|_| open(address, first)).collect(),
        }
    }

    /// Sends `again` on each connection. Opens a connection again that was closed.
    fn go_on(&mut self) {
        let Self {
            address,
            first,
            again,
            ref mut streams,
        } = *self;
        for stream in streams {
            let is_open = match stream.read(&mut [0; 64]) {
                Ok(read) => read > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if !is_open || stream.write_all(again).is_err() {
                *stream = open(address, first);
            }
        }
    }
}

fn open(address: SocketAddr, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    // The server may have closed the connection already.
    let _ = stream.write_all(first);
    stream
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream.set_write_timeout(Some(HANGS)).unwrap();
    stream
}

/// Scrapes once with the password. Returns the answer, which is empty after [`HANGS`].
///
/// The attack does not go on meanwhile: a client that the machine delays for longer than the attack
/// needs for as many connections as there are places may lose its place.
fn scrape(mut stream: impl Read + Write) -> String {
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nAuthorization: Bearer {PASSWORD}\r\n\r\n"
    );
    let mut answer = Vec::new();
    // An error shows in the answer, which is not complete.
    let _ = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[track_caller]
fn assert_complete(answer: &str, attack: &str) {
    assert!(
        status(answer) == "200" && answer.ends_with("# EOF\n"),
        "{attack}: {answer:?}"
    );
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
        let mut attack_on = Attack::start(address, first, again);
        for _ in 0..5 {
            attack_on.go_on();
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
    roots
        .add(CertificateDer::from(own.cert.der().to_vec()))
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    for (attack, first, again) in [
        ("silent handshake", &b""[..], &b""[..]),
        // The header of a record of 512 octets: a ClientHello, which then arrives octet by octet.
        (
            "slow handshake",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x00",
        ),
    ] {
        let mut attack_on = Attack::start(address, first, again);
        for _ in 0..5 {
            attack_on.go_on();
            let client =
                ClientConnection::new(Arc::clone(&config), "localhost".try_into().unwrap())
                    .unwrap();
            assert_complete(&scrape(StreamOwned::new(client, connect(address))), attack);
        }
    }
}
